-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing in SQLite (3.37 or newer): the resource's half of a weir lock. docs/fencing-sqlite.md is the recipe.
--
--   PRAGMA foreign_keys = ON;                                  -- each connection
--   INSERT INTO weir_fence_install VALUES ('ledger', 1763769600, 7);   -- once per grant, before the first read
--   BEGIN IMMEDIATE;
--   INSERT INTO weir_fence_check VALUES ('ledger', 1763769600, 7);     -- in each transaction that writes
--   UPDATE …;
--   DELETE FROM weir_fence_open;                               -- the last word before COMMIT
--   COMMIT;
--
-- A check leaves a row that cannot be committed: its deferred foreign key points nowhere. So a check is good for its own
-- transaction only, one outside of a transaction fails, and triggers (sqlite-guard.sql) can ask whether there was one.
-- That is why foreign_keys must be on: a check without it is refused.
--
-- Run it again as often as you like; marks stay. Errors are SQLITE_CONSTRAINT_TRIGGER with a text that begins with
-- "weir_fence: fenced", "weir_fence: not installed", "weir_fence: unguarded" or "weir_fence: no token".

CREATE TABLE IF NOT EXISTS weir_fence (
    name TEXT PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    incarnation INTEGER NOT NULL CHECK (incarnation > 0),
    number INTEGER NOT NULL CHECK (number > 0)
) STRICT;

CREATE TABLE IF NOT EXISTS weir_fence_never (id INTEGER PRIMARY KEY CHECK (0)) STRICT;

CREATE TABLE IF NOT EXISTS weir_fence_open (
    name TEXT PRIMARY KEY,
    never INTEGER NOT NULL DEFAULT 1 REFERENCES weir_fence_never (id) DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE VIEW IF NOT EXISTS weir_fence_install AS SELECT name, incarnation, number FROM weir_fence;
CREATE VIEW IF NOT EXISTS weir_fence_check AS SELECT name, incarnation, number FROM weir_fence;

DROP TRIGGER IF EXISTS weir_fence_on_install;
CREATE TRIGGER weir_fence_on_install INSTEAD OF INSERT ON weir_fence_install
BEGIN
    SELECT RAISE(ABORT, 'weir_fence: no token: name, incarnation and number must be a text and two integers above 0')
     WHERE typeof(NEW.name) <> 'text' OR typeof(NEW.incarnation) <> 'integer' OR typeof(NEW.number) <> 'integer'
        OR NEW.incarnation < 1 OR NEW.number < 1 OR length(CAST(NEW.name AS BLOB)) NOT BETWEEN 1 AND 1024;
    SELECT RAISE(ABORT, 'weir_fence: fenced: a later token is installed, you have been replaced')
      FROM weir_fence AS f
     WHERE f.name = NEW.name AND (f.incarnation, f.number) > (NEW.incarnation, NEW.number);
    INSERT INTO weir_fence (name, incarnation, number) VALUES (NEW.name, NEW.incarnation, NEW.number)
    ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, number = excluded.number;
END;

DROP TRIGGER IF EXISTS weir_fence_on_check;
CREATE TRIGGER weir_fence_on_check INSTEAD OF INSERT ON weir_fence_check
BEGIN
    SELECT RAISE(ABORT, 'weir_fence: no token: name, incarnation and number must be a text and two integers above 0')
     WHERE typeof(NEW.name) <> 'text' OR typeof(NEW.incarnation) <> 'integer' OR typeof(NEW.number) <> 'integer'
        OR NEW.incarnation < 1 OR NEW.number < 1;
    SELECT RAISE(ABORT, 'weir_fence: unguarded: say PRAGMA foreign_keys = ON before the transaction')
     WHERE (SELECT foreign_keys FROM pragma_foreign_keys) IS NOT 1;
    SELECT RAISE(ABORT, 'weir_fence: fenced: a later token is installed, you have been replaced')
      FROM weir_fence AS f
     WHERE f.name = NEW.name AND (f.incarnation, f.number) > (NEW.incarnation, NEW.number);
    SELECT RAISE(ABORT, 'weir_fence: not installed: insert this token into weir_fence_install before the first read')
     WHERE NOT EXISTS (SELECT 1 FROM weir_fence AS f WHERE f.name = NEW.name
                          AND f.incarnation = NEW.incarnation AND f.number = NEW.number);
    INSERT INTO weir_fence_open (name) VALUES (NEW.name) ON CONFLICT (name) DO NOTHING;
END;
