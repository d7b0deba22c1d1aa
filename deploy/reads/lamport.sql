-- SPDX-License-Identifier: Apache-2.0
--
-- A logical clock in PostgreSQL (12 or newer), for the strategy lamport of sessions (docs/reads.md): one row, moved by
-- each transaction that writes to a watched table. A replica that shows the clock at c shows every watched transaction
-- that moved it to c or less.
--
--   SELECT weir_clock_watch('comments');      -- once per table: from now on its writers move the clock
--   SELECT weir_clock();                      -- what a server's clock is at: the clock_query of weir/session.h
--   SELECT weir_clock_tick();                 -- in a transaction that writes where no trigger is
--   SELECT weir_clock_unwatch('comments');
--
-- What it costs: WRITERS WAIT FOR EACH OTHER. The row is locked from a transaction's first write to its commit, and the
-- commit is what waits for the disk and for synchronous replicas: if that takes 2 ms, there are no more than 500
-- commits a second, over all watched tables, where without the clock many commit together. A transaction that writes
-- early and commits late holds up all others, so write late. Two that lock rows of the application and the clock in
-- different order can deadlock (40P01): tick first, or write in one order. Under REPEATABLE READ and SERIALIZABLE any
-- two writers that overlap meet 40001 and one has to try again. The strategy tracked has none of this and promises
-- more; this one is for those who cannot ask for positions in the log (other databases, poolers, managed replicas).
--
-- That it is serialised is what makes it right: the lock is held until the commit is visible, so no clock can be seen
-- with an older one still missing, on the primary and, as the log has the commits in the same order, on each replica.
--
-- Everything goes into schema public; for another one: sed 's/public\./app./g' lamport.sql | psql. TRUNCATE, COPY, and
-- rows written by foreign keys (ON DELETE CASCADE into a watched table) move it too. Changing the data while triggers
-- are off (session_replication_role, ALTER TABLE … DISABLE TRIGGER) does not.

CREATE TABLE IF NOT EXISTS public.weir_clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    value bigint NOT NULL CHECK (value > 0)
) WITH (fillfactor = 10);
INSERT INTO public.weir_clock VALUES (true, 1) ON CONFLICT DO NOTHING;
COMMENT ON TABLE public.weir_clock IS 'the logical clock of weir sessions: only weir_clock_tick writes here';
REVOKE ALL ON TABLE public.weir_clock FROM PUBLIC;

CREATE OR REPLACE FUNCTION public.weir_clock()
RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT value FROM public.weir_clock;
$$;
COMMENT ON FUNCTION public.weir_clock() IS 'how far this server''s logical clock is';

-- Once per transaction: the lock that the first one took is held to the end. The setting ends with the transaction, and
-- with a savepoint that is rolled back, as the lock does.
CREATE OR REPLACE FUNCTION public.weir_clock_tick()
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('weir.ticked', true) IS DISTINCT FROM txid_current()::text THEN
        UPDATE public.weir_clock SET value = value + 1;
        PERFORM set_config('weir.ticked', txid_current()::text, true);
    END IF;
END $$;
COMMENT ON FUNCTION public.weir_clock_tick() IS 'moves the logical clock, once per transaction, and holds it to its end';

CREATE OR REPLACE FUNCTION public.weir_clock_trigger()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM public.weir_clock_tick();
    RETURN NULL;
END $$;

-- After the statement: what fails, or waits for a row, has not locked the clock. Always, so that it is not off where
-- changes are applied as replicated.
CREATE OR REPLACE FUNCTION public.weir_clock_watch(watched regclass)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM public.weir_clock_unwatch(watched);
    EXECUTE format('CREATE TRIGGER weir_clock AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT '
                   'EXECUTE FUNCTION public.weir_clock_trigger()', watched);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER weir_clock', watched);
END $$;

CREATE OR REPLACE FUNCTION public.weir_clock_unwatch(watched regclass)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = watched AND tgname = 'weir_clock') THEN
        EXECUTE format('DROP TRIGGER weir_clock ON %s', watched);
    END IF;
END $$;
