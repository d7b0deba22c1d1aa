-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing in PostgreSQL (13 or newer): the resource's half of a weir lock. docs/fencing-postgres.md is the recipe.
--
--   SELECT weir_fence_install('billing', '1763769600.7');   -- once per grant, before the first read; commit it (a
--                                                             statement of its own: beside it the past is read)
--   BEGIN;
--   SELECT weir_fence_check('billing', '1763769600.7');     -- in each transaction that writes, before it writes
--   UPDATE …;
--   COMMIT;
--   SELECT weir_fence_guard('accounts', 'billing');         -- once per table: a write without a check is an error
--
-- Install again as often as you like; marks stay. Everything goes into schema public; for another one:
-- sed 's/public\./app./g' postgres.sql | psql.
--
-- Rights: the functions that touch the marks are SECURITY DEFINER (search_path fixed, every name qualified), so that a
-- role that writes data needs only EXECUTE on them and cannot lower a mark by mistake. Nobody has it by default:
--   GRANT EXECUTE ON FUNCTION weir_fence_install(text, text), weir_fence_check(text, text) TO app;
--
-- Errors: WF001 fenced (DETAIL has the mark), WF002 not installed, WF003 unguarded write, WF004 install in a
-- transaction that could read the past, 22023 no token, 22003 a number above 2^63-1.

CREATE TABLE IF NOT EXISTS public.weir_fence (
    name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 1024),
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    number bigint NOT NULL CHECK (number > 0)
);
COMMENT ON TABLE public.weir_fence IS 'the highest fencing token installed, by lock: only weir_fence_install writes here';
REVOKE ALL ON TABLE public.weir_fence FROM PUBLIC;

-- Between check and install stand two locks until the end of the transaction. The row lock is the truth: install cannot
-- change a mark that a writer has checked, and a snapshot from before an install meets 40001. The advisory lock is for
-- fairness: it queues in order, while a row locked FOR SHARE by ever new writers lets no install through.
CREATE OR REPLACE FUNCTION public.weir_fence_install(lock_name text, token_incarnation bigint, token_number bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mark record;
BEGIN
    IF lock_name IS NULL OR token_incarnation IS NULL OR token_number IS NULL
       OR token_incarnation < 1 OR token_number < 1 OR octet_length(lock_name) NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'weir_fence: no token: incarnation and number must be 1 to 2^63-1, the name 1 to 1024 bytes'
            USING ERRCODE = '22023';
    END IF;
    -- Above READ COMMITTED the snapshot may be older than what the last holder committed while install waited for it:
    -- what is read after it in this transaction would be the past, and a checked write on top of it a lost update.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'weir_fence: install "%" in a transaction of its own, READ COMMITTED', lock_name
            USING ERRCODE = 'WF004', HINT = 'Commit it; then begin the transaction that reads.';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(lock_name, 87015));
    INSERT INTO public.weir_fence AS f (name, incarnation, number)
    VALUES (lock_name, token_incarnation, token_number)
    ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, number = excluded.number
    WHERE (f.incarnation, f.number) < (excluded.incarnation, excluded.number);
    SELECT f.incarnation, f.number INTO STRICT mark FROM public.weir_fence AS f WHERE f.name = lock_name;
    IF (mark.incarnation, mark.number) <> (token_incarnation, token_number) THEN
        RAISE EXCEPTION 'weir_fence: fenced: a later token of "%" is installed', lock_name
            USING ERRCODE = 'WF001', DETAIL = format('mark %s.%s', mark.incarnation, mark.number),
                  HINT = 'You have been replaced: stop, or acquire the lock anew.';
    END IF;
END $$;

-- Call it in the writing transaction, before the first write. The transaction may write under several locks.
CREATE OR REPLACE FUNCTION public.weir_fence_check(lock_name text, token_incarnation bigint, token_number bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mark record;
BEGIN
    IF lock_name IS NULL OR token_incarnation IS NULL OR token_number IS NULL
       OR token_incarnation < 1 OR token_number < 1 THEN
        RAISE EXCEPTION 'weir_fence: no token: incarnation and number must be 1 to 2^63-1' USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(lock_name, 87015));
    SELECT f.incarnation, f.number INTO mark FROM public.weir_fence AS f WHERE f.name = lock_name FOR SHARE;
    IF NOT FOUND OR (mark.incarnation, mark.number) < (token_incarnation, token_number) THEN
        RAISE EXCEPTION 'weir_fence: this token of "%" is not installed', lock_name
            USING ERRCODE = 'WF002', HINT = 'Call weir_fence_install and commit, before the first read.';
    ELSIF (mark.incarnation, mark.number) > (token_incarnation, token_number) THEN
        RAISE EXCEPTION 'weir_fence: fenced: a later token of "%" is installed', lock_name
            USING ERRCODE = 'WF001', DETAIL = format('mark %s.%s', mark.incarnation, mark.number),
                  HINT = 'You have been replaced: stop, or acquire the lock anew.';
    END IF;
    -- For the guard. A setting of the transaction goes with it, and with a savepoint that takes the row lock away too.
    PERFORM set_config('weir_fence.n' || md5(lock_name), pg_current_xact_id()::text, true);
    PERFORM set_config('weir_fence.any', pg_current_xact_id()::text, true);
END $$;

-- The same with the token as weir gives it: WEIR_FENCE of `weir lock`, the header Weir-Fence.
CREATE OR REPLACE FUNCTION public.weir_fence_parse(token text, OUT incarnation bigint, OUT number bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF token IS NULL OR token !~ '^[1-9][0-9]{0,18}\.[1-9][0-9]{0,18}$' THEN
        RAISE EXCEPTION 'weir_fence: no token: must be INCARNATION.NUMBER, each 1 to 2^63-1' USING ERRCODE = '22023';
    END IF;
    incarnation := split_part(token, '.', 1)::bigint;
    number := split_part(token, '.', 2)::bigint;
END $$;

CREATE OR REPLACE FUNCTION public.weir_fence_install(lock_name text, token text)
RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT public.weir_fence_install(lock_name, t.incarnation, t.number) FROM public.weir_fence_parse(token) AS t
$$;

CREATE OR REPLACE FUNCTION public.weir_fence_check(lock_name text, token text)
RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT public.weir_fence_check(lock_name, t.incarnation, t.number) FROM public.weir_fence_parse(token) AS t
$$;

-- The mark, or no row. What a client that was fenced reports to weir.
CREATE OR REPLACE FUNCTION public.weir_fence_mark(lock_name text, OUT incarnation bigint, OUT number bigint)
RETURNS SETOF record LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.incarnation, f.number FROM public.weir_fence AS f WHERE f.name = lock_name
$$;

-- The triggers' function, of statements and of rows. Its argument is the lock's name; without one any checked token will
-- do.
CREATE OR REPLACE FUNCTION public.weir_fence_refuse()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    setting text := 'weir_fence.any';
BEGIN
    IF TG_NARGS > 0 THEN
        setting := 'weir_fence.n' || md5(TG_ARGV[0]);
    END IF;
    IF current_setting(setting, true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        RAISE EXCEPTION 'weir_fence: % of "%" without a checked token%', TG_OP, TG_TABLE_NAME,
                        CASE WHEN TG_NARGS > 0 THEN format(' of "%s"', TG_ARGV[0]) ELSE '' END
            USING ERRCODE = 'WF003', HINT = 'Call weir_fence_check in this transaction, before the first write.';
    END IF;
    IF TG_OP = 'DELETE' THEN -- of a row: NULL would skip it in silence; of a statement it means nothing
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;

-- A table with all below it: partitions, and tables that inherit from it, as they are now.
CREATE OR REPLACE FUNCTION public.weir_fence_tree(root regclass)
RETURNS TABLE (id regclass, kind "char") LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE tree AS (
        SELECT root::oid AS oid
        UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN tree ON i.inhparent = tree.oid)
    SELECT c.oid::regclass, c.relkind FROM tree JOIN pg_class AS c ON c.oid = tree.oid ORDER BY c.oid
$$;

-- Refuses unguarded INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE of this table and of all below it, by whatever name
-- they are written: their own, or that of a parent that nobody guards. Without a name any checked token of the
-- transaction will do: where each row has a lock of its own. Needs the right to create a trigger on each table.
--
-- Three triggers, because each sees what the others do not:
--   weir_fence_guard       before each statement that names the table: also where no row is touched, and TRUNCATE;
--   weir_fence_rows        before each row of a table that has rows: a statement that names a parent fires only the
--                          parent's statement triggers. It stays when a partition is detached;
--   weir_fence_rows_below  before each row, of a partitioned table: PostgreSQL gives each later partition one too, and
--                          takes it away again on DETACH. Its name differs from weir_fence_rows, or ATTACH would fail.
CREATE OR REPLACE FUNCTION public.weir_fence_guard(guarded regclass, lock_name text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
    argument text := coalesce(quote_literal(lock_name), '');
    -- In the condition, not in the function: a checked write calls no function for its rows.
    unchecked text := format('WHEN (current_setting(%L, true) IS DISTINCT FROM pg_current_xact_id()::text)',
                             coalesce('weir_fence.n' || md5(lock_name), 'weir_fence.any'));
BEGIN
    FOR part IN SELECT t.id, t.kind FROM public.weir_fence_tree(guarded) AS t LOOP
        IF part.kind NOT IN ('r', 'p') THEN
            RAISE EXCEPTION 'weir_fence: % is no table of this database: guard the tables that hold the rows', part.id
                USING ERRCODE = '42809';
        END IF;
    END LOOP;
    PERFORM public.weir_fence_unguard(guarded);
    FOR part IN SELECT t.id, t.kind FROM public.weir_fence_tree(guarded) AS t LOOP
        EXECUTE format('CREATE TRIGGER weir_fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
                       'FOR EACH STATEMENT EXECUTE FUNCTION public.weir_fence_refuse(%s)', part.id, argument);
        IF part.kind = 'r' THEN
            EXECUTE format('CREATE TRIGGER weir_fence_rows BEFORE INSERT OR UPDATE OR DELETE ON %s '
                           'FOR EACH ROW %s EXECUTE FUNCTION public.weir_fence_refuse(%s)', part.id, unchecked, argument);
        ELSIF part.id = guarded THEN
            EXECUTE format('CREATE TRIGGER weir_fence_rows_below BEFORE INSERT OR UPDATE OR DELETE ON %s '
                           'FOR EACH ROW %s EXECUTE FUNCTION public.weir_fence_refuse(%s)', part.id, unchecked, argument);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION public.weir_fence_unguard(guarded regclass)
RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT t.id, g.tgname, g.tgparentid <> 0 AS cloned
        FROM public.weir_fence_tree(guarded) AS t JOIN pg_trigger AS g ON g.tgrelid = t.id
        WHERE g.tgname IN ('weir_fence_guard', 'weir_fence_rows', 'weir_fence_rows_below')
    LOOP
        IF NOT part.cloned THEN -- a clone goes with its parent's
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', part.tgname, part.id);
        END IF;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION public.weir_fence_install(text, bigint, bigint), public.weir_fence_install(text, text),
                       public.weir_fence_check(text, bigint, bigint), public.weir_fence_check(text, text),
                       public.weir_fence_mark(text) FROM PUBLIC;
