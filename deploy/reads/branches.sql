-- SPDX-License-Identifier: Apache-2.0
--
-- The branch table: for each promotion, which runs of the server have written on its timeline. weir's pollers keep it, the
-- log carries it to the standbys: docs/reads-postgres.md, "Branches". At most 64 rows of about 200 bytes; one is written
-- at each promotion and each start of a promoted primary. Run it once, at the primary, in the database that the servers'
-- addresses name, as a superuser, or as weir's role itself:
--
--     psql -f branches.sql -v role=weir
--
-- The schema is its own so that nobody else may put another table in its place. Must not be unlogged; must have no
-- triggers, rules or policies.
CREATE SCHEMA IF NOT EXISTS weir;
CREATE TABLE IF NOT EXISTS weir.branches (
    timeline bigint PRIMARY KEY,
    runs bigint[] NOT NULL, -- when each postmaster was started, in microseconds; the newest first
    written xid NOT NULL    -- by which transaction: a row that was copied has another
);
GRANT USAGE ON SCHEMA weir TO :role;
GRANT SELECT, INSERT, UPDATE, DELETE ON weir.branches TO :role;
