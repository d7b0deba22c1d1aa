#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a PostgreSQL primary and its standbys show on one connection, and what of it is proven, on real servers: the traps
of docs/reads-postgres.md"""
import os
import signal
import threading
import unittest

import psycopg2

from postgres_replicas import PAGE_BYTES, SEGMENT_BYTES
from redis_server import stand_still, wait_for
from session_drive import ReplicasCase

# Tables whose files a standby removes after it has made the commit visible.
DROPPED = (600, 1200, 2400, 2400, 2400, 2400)


class Shown(ReplicasCase):
    def setUp(self):
        super().setUp()
        self.primary.still()  # what is compared was asked one after the other
        self.addCleanup(self.primary.thaw)
        self.asked = self.drive()
        for link, server in enumerate((self.primary, self.one, self.two)):
            self.asked.open(link, server)
        self.asked.wait_usable(*self.group.all())

    def test_an_idle_primary_at_a_boundary_is_reached(self):
        for boundary, header in ((self.primary.to_page_boundary, 24), (self.primary.to_segment_boundary, 40)):
            self.write()
            boundary()
            self.assertEqual(self.primary.insert_position() - self.primary.end(), header)
            for how in ('shown', 'after', 'text'):
                self.assertEqual(self.asked.shown(0, how)['position'], self.primary.end(), how)
            self.asked.place(0, 0)
            self.group.wait_caught_up()
            self.assertEqual([self.asked.verdict(0, link) for link in (0, 1, 2)], ['ok'] * 3)
        self.assertEqual((PAGE_BYTES, SEGMENT_BYTES), tuple(
            self.asked.server(self.primary)[name] for name in ('page_size', 'segment_size')))
        self.primary.thaw()

    def test_all_ways_to_ask_say_the_same(self):
        self.write()
        self.group.wait_caught_up()
        for link in (0, 1):
            said = [self.asked.shown(link, how) for how in ('shown', 'text', 'after')]
            for answer in said:
                del answer['took_ms'], answer['missing']
            said[2]['settled'] = said[0]['settled']  # it does not ask
            self.assertEqual(said[0], said[1])
            self.assertEqual(said[0], said[2])
        standby = self.asked.shown(1)
        self.assertEqual((standby['position'], standby['received']), (self.primary.end(),) * 2)
        self.assertEqual((standby['timeline'], standby['primary'], standby['run']), (1, False, 0))

    def test_operators_of_other_schemas_are_not_run(self):
        """Whoever may create in a schema of the path could have the asking role run anything: what fits the types better
        than pg_catalog's own operators, and with pg_catalog last in the path what is called as its functions are."""
        self.primary.execute(
            'CREATE SCHEMA theirs; SET search_path = theirs, public; CREATE SEQUENCE called;'
            'CREATE FUNCTION call() RETURNS int LANGUAGE sql AS $$'
            " SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 1 / 0 ELSE nextval('theirs.called')::int END $$;"
            'CREATE FUNCTION times(numeric, int) RETURNS numeric LANGUAGE sql AS $$SELECT theirs.call()$$;'
            'CREATE FUNCTION joined(int, text) RETURNS text LANGUAGE sql AS $$SELECT theirs.call()::text$$;'
            'CREATE FUNCTION age(xid) RETURNS int LANGUAGE sql AS $$SELECT theirs.call()$$;'
            'CREATE FUNCTION "left"(text, int) RETURNS text LANGUAGE sql AS $$SELECT theirs.call()::text$$;'
            'CREATE OPERATOR * (FUNCTION = times, LEFTARG = numeric, RIGHTARG = int);'
            'CREATE OPERATOR || (FUNCTION = joined, LEFTARG = int, RIGHTARG = text);'
            'RESET search_path')
        self.addCleanup(self.primary.execute, 'DROP SCHEMA theirs CASCADE')
        self.primary.execute("BEGIN; UPDATE t SET v = v + 1; PREPARE TRANSACTION 'theirs'")
        self.addCleanup(self.primary.execute, "ROLLBACK PREPARED 'theirs'")
        self.group.wait_caught_up()
        for path in ('theirs', 'theirs,pg_catalog'):
            more = f" options='-c search_path={path}'"
            drive = self.drive(more=more)
            drive.wait_usable(*self.group.all())
            for link, server in enumerate((self.primary, self.one)):
                drive.open(link, server, more)
                for how in ('shown', 'after', 'text'):
                    self.assertEqual(drive.shown(link, how)['timeline'], 1)
            self.assertEqual(drive.error('settle', 0, 30000), 'OK')
        self.assertFalse(self.primary.value('SELECT is_called FROM theirs.called'))

    def test_a_transaction_that_is_open_refuses_the_question(self):
        self.asked.ask('sql', 0, 'BEGIN')
        self.assertEqual(self.asked.error('shown', 0), 'EBUSY')
        self.asked.ask('sql', 0, 'COMMIT')
        self.assertEqual(self.asked.error('shown', 0), 'OK')

    def test_a_statement_that_was_discarded_is_prepared_again_and_at_last_not_any_more(self):
        for missing in (1, 2, 3, 4, 4, 4):
            for how in ('shown', 'after'):
                self.asked.ask('sql', 0, 'DISCARD ALL') if how == 'shown' else None
            answer = self.asked.shown(0)
            self.assertEqual((answer['missing'], answer['position']), (missing, self.primary.end()))
        self.assertEqual(self.asked.shown(0, 'after')['position'], self.primary.end())

    def test_a_standby_shows_a_commit_before_it_counts_it(self):
        """Files of dropped tables are removed after the commit is visible and before its record counts as replayed."""
        self.assertTrue(any(self.caught_between(tables) for tables in DROPPED), 'it was through each time')
        self.group.wait_caught_up()
        self.assertEqual(self.asked.verdict(0, 2), 'ok')

    def caught_between(self, tables):
        """Whether the standby was stopped in time; then what it said was right."""
        self.primary.execute("DO $$BEGIN FOR i IN 1..%s LOOP EXECUTE 'CREATE TABLE gone' || i || '()'; "
                             "END LOOP; END$$", tables)
        self.group.wait_caught_up()
        before = self.value(self.one)
        startup = self.one.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'")
        self.asked.shown(1)

        def drop():
            with psycopg2.connect(self.primary.conninfo()) as connection, connection.cursor() as cursor:
                cursor.execute('UPDATE t SET v = v + 1')
                cursor.execute("DO $$BEGIN FOR i IN 1..%s LOOP EXECUTE 'DROP TABLE gone' || i; END LOOP; END$$",
                               (tables,))
            connection.close()

        dropping = threading.Thread(target=drop)
        dropping.start()
        while self.value(self.one) == before:
            pass
        stand_still(startup)
        try:
            dropping.join()
            end = self.primary.end()
            place = self.asked.place(1, 0)
            if place['position'] >= end:
                return False
            self.assertEqual(place['position'] % 2, 1, 'it says that the next record has been seen too')
            self.assertEqual(self.asked.verdict(0, 1), 'behind')
            return True
        finally:
            os.kill(startup, signal.SIGCONT)

    def test_equal_positions_say_nothing_without_a_receiver(self):
        """What a standby without a receiver replays may come from the archive. Its startup process says when it waits, to
        those who may know; a paused one has nothing in flight either."""
        self.primary.execute('DROP ROLE IF EXISTS plain')
        self.primary.execute('CREATE ROLE plain LOGIN')
        self.group.wait_caught_up()
        self.asked.open(3, self.one, ' user=plain')
        self.assertEqual(self.asked.place(1, 0)['position'] % 2, 0)
        self.assertEqual((self.asked.shown(3)['timeline'], self.asked.shown(3)['received']), (0, self.one.replayed()))
        self.one.cut()
        self.assertEqual(self.one.replayed(), self.one.received())
        wait_for(lambda: self.asked.shown(1)['received'] == self.one.replayed(), 'its startup process never waits')
        self.assertEqual((self.asked.shown(1)['timeline'], self.asked.shown(3)['received']), (0, 0))
        wait_for(lambda: self.asked.shown(1, 'after')['received'] == self.one.replayed(), 'it never waits then')
        self.one.pause()
        self.assertEqual(self.asked.shown(3)['received'], self.one.replayed())
        self.one.resume()
        self.one.attach()

    def test_who_waits_gets_flushed_what_nobody_commits(self):
        self.primary.still()
        opened = self.primary.connect()
        opened.autocommit = False
        with opened.cursor() as cursor:
            cursor.execute('INSERT INTO t VALUES (2, 2)')
        place = self.asked.place(0, 0)
        self.assertGreater(place['run'], 0)
        self.assertEqual(self.asked.verdict(0, 1), 'behind')

        def reached():
            self.asked.ask('news', self.asked.look()['number'], 1000)
            return self.asked.verdict(0, 1) == 'ok'

        wait_for(reached, 'nobody flushes it')
        opened.rollback()
        opened.close()
        self.primary.thaw()


class Settled(ReplicasCase):
    """A standby may show what its primary still hides, while that waits for a synchronous standby."""

    def setUp(self):
        super().setUp()
        self.asked = self.drive()
        self.asked.open(0, self.primary)
        self.asked.open(1, self.one)
        self.asked.wait_usable(*self.group.all())

    def sync(self, names):
        self.primary.configure(synchronous_standby_names=names)
        self.primary.execute('CHECKPOINT')  # a commit does not wait before the checkpointer knows

    def hanging(self, text):
        """Runs it; it hangs, and the standby shows it."""
        before = self.value(self.one)
        thread = threading.Thread(target=self.primary.sql, args=(text,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.sync, '')
        wait_for(lambda: self.value(self.one) != before, 'the standby does not show it')
        self.assertEqual(self.value(self.primary), before)
        return thread

    def roll_back_prepared(self):
        if self.primary.value('SELECT count(*) FROM pg_prepared_xacts'):
            self.primary.execute("ROLLBACK PREPARED 'p'")

    def refused_then_shown(self, thread):
        self.asked.place(1, 0)
        self.assertEqual(self.asked.verdict(0, 0), 'behind')
        self.assertEqual(self.asked.error('settle', 0, 150), 'EAGAIN')
        self.sync('')
        self.assertEqual(self.asked.error('settle', 0, 30000), 'OK')
        self.assertEqual(self.value(self.primary), self.value(self.one))
        self.assertEqual(self.asked.verdict(0, 0), 'ok')
        thread.join()

    def test_the_primary_hides_what_a_standby_shows(self):
        self.sync('missing')
        self.refused_then_shown(self.hanging('UPDATE t SET v = v + 1'))

    def test_a_snapshot_that_lists_nobody_is_not_settled(self):
        self.sync('missing')
        thread = self.hanging('UPDATE t SET v = v + 1')
        self.assertEqual(self.primary.value('SELECT count(*) FROM pg_snapshot_xip(pg_current_snapshot())'), 0)
        self.assertFalse(self.asked.shown(0)['settled'])
        self.refused_then_shown(thread)

    def test_who_waits_for_his_client_is_not_waited_for(self):
        opened = self.primary.connect()
        opened.autocommit = False
        with opened.cursor() as cursor:
            cursor.execute('UPDATE t SET v = v + 1')
        self.assertFalse(self.asked.shown(0)['settled'])
        self.assertEqual(self.asked.error('settle', 0, 0), 'OK')
        opened.rollback()
        opened.close()

    def test_a_prepared_one_is_waited_for_while_somebody_may_be_committing_it(self):
        self.primary.execute("BEGIN; UPDATE t SET v = v + 1; PREPARE TRANSACTION 'p'")
        self.addCleanup(self.roll_back_prepared)
        self.group.wait_caught_up()
        self.assertFalse(self.asked.shown(0)['settled'])
        self.assertEqual(self.asked.error('settle', 0, 30000), 'OK')
        self.sync('missing')
        self.refused_then_shown(self.hanging("COMMIT PREPARED 'p'"))

    def test_roles_without_privileges_learn_of_those_that_run(self):
        self.primary.execute('DROP ROLE IF EXISTS plain')
        self.primary.execute('CREATE ROLE plain LOGIN')
        self.asked.open(0, self.primary, ' user=plain')
        self.sync('missing')
        self.refused_then_shown(self.hanging('UPDATE t SET v = v + 1'))

    def test_a_standby_settles_nothing(self):
        self.assertEqual(self.asked.error('settle', 1, 1000), 'EAGAIN')


if __name__ == '__main__':
    unittest.main()
