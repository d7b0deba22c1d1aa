-- SPDX-License-Identifier: Apache-2.0
--
-- The table of users' session tokens, for a role that may not create it by itself. It needs no more than these rights,
-- and no other tables. One row per user, about 120 bytes; rows that were not heard of for the ttl are deleted by those
-- who write. The row of no name is the epoch: see docs/reads-users.md. Must not be unlogged.
--
--     psql -f users.sql -v role=weir
CREATE TABLE IF NOT EXISTS weir_session_users (
    user_id bytea PRIMARY KEY,
    seen bytea NOT NULL,
    heard timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON weir_session_users TO :role;
