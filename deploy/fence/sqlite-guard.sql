-- SPDX-License-Identifier: Apache-2.0
--
-- Refuses writes to a table in a transaction that has not checked a token of its lock (sqlite.sql). A template:
--   sed 's/@TABLE@/account/g; s/@LOCK@/ledger/g' sqlite-guard.sql | sqlite3 -bail my.db
-- All of it or nothing, so that a mistake in a name takes no guard away; the shell needs -bail for that. The table's name
-- is a plain one; a quote in the lock's is doubled. Again with another lock's name: that lock guards from then on.
-- What it cannot refuse: DROP TABLE and ALTER TABLE, which fire no trigger.

SAVEPOINT weir_fence_guard;

DROP TRIGGER IF EXISTS weir_fence_guard_insert_@TABLE@;
CREATE TRIGGER weir_fence_guard_insert_@TABLE@ BEFORE INSERT ON @TABLE@
WHEN NOT EXISTS (SELECT 1 FROM weir_fence_open WHERE name = '@LOCK@')
BEGIN
    SELECT RAISE(ABORT, 'weir_fence: unguarded: insert the token into weir_fence_check first');
END;

DROP TRIGGER IF EXISTS weir_fence_guard_update_@TABLE@;
CREATE TRIGGER weir_fence_guard_update_@TABLE@ BEFORE UPDATE ON @TABLE@
WHEN NOT EXISTS (SELECT 1 FROM weir_fence_open WHERE name = '@LOCK@')
BEGIN
    SELECT RAISE(ABORT, 'weir_fence: unguarded: insert the token into weir_fence_check first');
END;

DROP TRIGGER IF EXISTS weir_fence_guard_delete_@TABLE@;
CREATE TRIGGER weir_fence_guard_delete_@TABLE@ BEFORE DELETE ON @TABLE@
WHEN NOT EXISTS (SELECT 1 FROM weir_fence_open WHERE name = '@LOCK@')
BEGIN
    SELECT RAISE(ABORT, 'weir_fence: unguarded: insert the token into weir_fence_check first');
END;

RELEASE weir_fence_guard;
