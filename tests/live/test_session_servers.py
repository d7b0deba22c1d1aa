#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a PostgreSQL primary and its standbys show, as pollers and connections see it, on real servers: each trap that
docs/reads-postgres.md names."""
import os
import signal
import threading
import time
import unittest

import psycopg2

from postgres_replicas import PAGE_BYTES, SEGMENT_BYTES, Replicas
from postgres_server import Postgres
from redis_server import wait_for
from session_drive import ServersDrive

DROPPED = 600  # tables whose files a standby removes after it has made the commit visible


class Case(unittest.TestCase):
    """One group for the class; each test leaves it as it found it."""

    standbys = 2

    @classmethod
    def setUpClass(cls):
        cls.group = Replicas(cls.standbys, max_prepared_transactions=5)
        cls.addClassCleanup(cls.group.stop)
        cls.group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        cls.group.primary.execute('INSERT INTO t VALUES (1, 0)')
        cls.group.wait_caught_up()

    def setUp(self):
        self.primary, self.one, self.two = self.group.primary, *self.group.standbys[:2]

    def drive(self, *servers, **options):
        drive = ServersDrive(*(servers or self.group.all()), **options)
        self.addCleanup(lambda: self.assertEqual(drive.close(), 0))
        return drive

    def write(self, server=None):
        return (server or self.primary).value('UPDATE t SET v = v + 1 RETURNING v')

    def value(self, server):
        return server.value('SELECT v FROM t')

    def writing(self):
        """Somebody commits every few ms until the test ends, or stop.set()."""
        stop = threading.Event()
        conninfo = self.primary.conninfo()

        def run():
            connection = psycopg2.connect(conninfo)
            connection.autocommit = True
            with connection.cursor() as cursor:
                while not stop.wait(0.005):
                    cursor.execute('UPDATE t SET v = v + 1')
            connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        return stop


class Shown(Case):
    def setUp(self):
        super().setUp()
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
            said = [self.asked.shown(link, how) for how in ('shown', 'text')]
            for answer in said:
                del answer['took_ms'], answer['missing']
            self.assertEqual(said[0], said[1])
        standby = self.asked.shown(1)
        self.assertEqual((standby['position'], standby['received']), (self.primary.end(),) * 2)
        self.assertEqual((standby['timeline'], standby['primary'], standby['run']), (1, False, 0))

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
        self.primary.execute("DO $$BEGIN FOR i IN 1..%s LOOP EXECUTE 'CREATE TABLE gone' || i || '()'; "
                             "END LOOP; END$$", DROPPED)
        self.group.wait_caught_up()
        before = self.value(self.one)
        startup = self.one.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'")
        self.asked.shown(1)

        def drop():
            with psycopg2.connect(self.primary.conninfo()) as connection, connection.cursor() as cursor:
                cursor.execute('UPDATE t SET v = v + 1')
                cursor.execute("DO $$BEGIN FOR i IN 1..%s LOOP EXECUTE 'DROP TABLE gone' || i; END LOOP; END$$",
                               (DROPPED,))
            connection.close()

        dropping = threading.Thread(target=drop)
        dropping.start()
        while self.value(self.one) == before:
            pass
        os.kill(startup, signal.SIGSTOP)
        try:
            dropping.join()
            end = self.primary.end()
            place = self.asked.place(1, 0)
            self.assertLess(place['position'], end)
            self.assertEqual(place['position'] % 2, 1, 'it says that the next record has been seen too')
            self.assertEqual(self.asked.verdict(0, 1), 'behind')
        finally:
            os.kill(startup, signal.SIGCONT)
        self.group.wait_caught_up()
        self.assertEqual(self.asked.verdict(0, 2), 'ok')

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


class Settled(Case):
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

    def refused_then_shown(self, thread):
        self.asked.place(1, 0)
        self.assertEqual(self.asked.verdict(0, 0), 'behind')
        self.assertEqual(self.asked.error('settle', 0, 150), 'EAGAIN')
        self.sync('')
        self.assertEqual(self.asked.error('settle', 0, 5000), 'OK')
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
        self.group.wait_caught_up()
        self.assertFalse(self.asked.shown(0)['settled'])
        self.assertEqual(self.asked.error('settle', 0, 1000), 'OK')
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


class Pollers(Case):
    def setUp(self):
        super().setUp()
        self.asked = self.drive()
        self.asked.wait_usable(*self.group.all())

    def test_a_paused_standby_leaves_when_the_primary_moves_and_returns_when_it_moves(self):
        self.one.pause()
        time.sleep(0.6)
        self.assertTrue(self.asked.server(self.one)['usable'], 'it stands where the primary is')
        stop = self.writing()
        state = self.asked.wait(self.one, lambda state: not state['usable'], 'stays')
        self.assertTrue(state['frozen'])
        self.assertIn('stands still', state['fault'])
        self.assertTrue(self.asked.server(self.two)['usable'])
        stop.set()
        self.one.resume()
        self.asked.wait_usable(self.one)
        self.assertFalse(self.asked.server(self.one)['frozen'])

    def test_the_lag_of_a_delayed_standby_is_its_delay(self):
        """It moves, and so it stays."""
        patient = self.drive(freeze=5000)
        self.one.set_delay(700)
        stop = self.writing()
        state = patient.wait(self.one, lambda state: (state['lag_ms'] or 0) >= 600, 'lags less')
        time.sleep(0.5)
        lags = [patient.server(server)['lag_ms'] for server in (self.one, self.two, self.primary)]
        self.assertTrue(state['usable'])
        self.assertTrue(600 <= lags[0] < 2000, lags)
        self.assertLess(lags[1], 300)
        self.assertEqual(lags[2], 0)
        stop.set()
        self.one.set_delay(0)
        self.group.wait_caught_up()
        patient.wait(self.one, lambda state: state['lag_ms'] == 0, 'still lags')

    def test_a_server_that_stands_still_stalls_nobody(self):
        self.asked.open(1, self.one)
        self.one.freeze()
        try:
            self.asked.wait(self.one, lambda state: not state['usable'], 'is used', 5)
            before = {server.name: self.asked.server(server)['begun_ns'] for server in (self.primary, self.two)}
            self.assertEqual(self.asked.error('shown', 1), 'EIO')  # by its deadline
            self.assertEqual(self.asked.error('open', 2, self.one.conninfo()), 'EIO')
            self.assertEqual(self.asked.error('ask', 'standby1', 100), 'EAGAIN')
            for server in (self.primary, self.two):
                self.asked.wait(server, lambda state, name=server.name: state['begun_ns'] > before[name], 'stalls')
                self.assertTrue(self.asked.server(server)['usable'])
        finally:
            self.one.thaw()
        self.asked.wait_usable(self.one)

    def test_the_timeline_of_one_that_is_cut_off_comes_by_replication(self):
        self.asked.open(1, self.one)
        self.one.cut()
        self.assertEqual(self.asked.shown(1)['timeline'], 0)
        self.assertEqual(self.asked.error('ask', 'standby1', 2000), 'OK')
        state = self.asked.server(self.one)
        self.assertEqual((state['timeline'], state['usable'], state['fault']), (1, True, ''))
        self.one.attach()

    def test_a_role_without_privileges_goes_on_and_says_what_it_lacks(self):
        self.primary.execute('DROP ROLE IF EXISTS plain, sender')
        self.primary.execute('CREATE ROLE plain LOGIN')
        self.primary.execute('CREATE ROLE sender LOGIN REPLICATION')
        self.group.wait_caught_up()
        plain, sender = self.drive(more=' user=plain'), self.drive(more=' user=sender')
        state = plain.wait(self.one, lambda state: state['usable'] and state['fault'], 'says nothing')
        self.assertEqual(state['timeline'], 0)
        self.assertIn('REPLICATION', state['fault'].upper())
        self.assertEqual(plain.wait(self.primary, lambda state: state['usable'], 'is not seen')['fault'], '')
        state = sender.wait(self.one, lambda state: state['usable'], 'is not seen')
        self.assertEqual((state['timeline'], state['fault']), (1, ''))

    def test_who_waits_is_told_long_before_the_next_poll(self):
        slow = self.drive(poll=60000)
        slow.wait_usable(*self.group.all())
        self.write()
        end = self.primary.end()

        def seen():
            self.assertEqual(slow.error('news', slow.look()['number'], 5000), 'OK')
            return slow.server(self.one)['position'] >= end

        wait_for(seen, 'it is not told')
        begun = slow.server(self.two)['begun_ns']
        self.assertEqual(slow.error('ask', 'standby2', 5000), 'OK')
        self.assertGreater(slow.server(self.two)['begun_ns'], begun)
        self.assertEqual(slow.error('ask', 'nobody', 5000), 'ENOENT')
        number = slow.look()['number']
        time.sleep(0.3)
        self.assertEqual(slow.look()['number'], number, 'it asks though nobody waits')

    def test_servers_come_and_go(self):
        ids = {name: state['id'] for name, state in self.asked.look()['servers'].items()}
        self.assertEqual(self.asked.error('add', 'standby1', self.one.conninfo()), 'EEXIST')
        for _ in range(5):
            self.assertEqual(self.asked.error('remove', 'standby1'), 'OK')
            self.assertNotIn('standby1', self.asked.look()['servers'])
            self.assertEqual(self.asked.error('add', 'standby1', self.one.conninfo()), 'OK')
        self.assertEqual(self.asked.error('remove', 'nobody'), 'ENOENT')
        self.assertEqual(self.asked.error('add', 'x' * 64, self.one.conninfo()), 'EINVAL')
        self.assertEqual(self.asked.error('add', 'x', 'host'), 'EINVAL')
        self.asked.wait_usable(self.one)
        self.assertEqual({name: state['id'] for name, state in self.asked.look()['servers'].items()}, ids)

    def test_readers_see_whole_snapshots_and_never_an_older_one(self):
        fast = self.drive(poll=1)
        fast.wait_usable(*self.group.all())
        looked = fast.ask('hasten', 200000, 4)
        self.assertFalse(looked['wrong'])
        self.assertGreater(looked['numbers'], 1)

    def test_reads_are_counted(self):
        self.asked.ask('read', 'standby1', 5000)
        self.asked.wait(self.one, lambda state: state['load'] > 500, 'was read')
        self.assertEqual(self.asked.server(self.two)['load'], 0)

    def test_clocks_are_asked(self):
        clocks = self.drive(clock_query='SELECT v + 1000000 FROM t')
        self.write()
        self.group.wait_caught_up()
        before = time.time_ns() - 60 * 10**9
        for server in self.group.all():
            state = clocks.wait(server, lambda state: state['clock'] > 1000000 + self.value(self.one) - 1, 'has none')
            self.assertGreater(state['replayed_ns'], before)

    def test_a_connection_that_is_ended_is_made_again_before_the_server_is_called_down(self):
        begun = self.asked.server(self.one)['begun_ns']
        generation = self.asked.server(self.one)['generation']
        pids = self.one.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                "WHERE application_name = 'weir' AND pid <> pg_backend_pid()")
        self.assertGreater(len(pids), 0)
        seen = []
        wait_for(lambda: seen.append(self.asked.server(self.one)) or seen[-1]['generation'] != generation,
                 'is not connected again')
        self.assertGreater(seen[-1]['begun_ns'], begun)
        self.assertTrue(all(state['usable'] for state in seen))

    def test_another_system_under_the_same_address_is_foreign(self):
        stranger = Postgres(another=True)
        self.addCleanup(stranger.stop)
        stranger.shut()
        self.two.shut()
        with open(stranger.data / 'postgresql.conf', 'a', encoding='utf-8') as conf:
            conf.write(f'port = {self.two.port}\n')
        stranger.port = self.two.port
        stranger.start()
        state = self.asked.wait(self.two, lambda state: 'another system' in state['fault'], 'is taken for ours')
        self.assertFalse(state['usable'])
        self.assertNotEqual(state['system'], self.asked.server(self.one)['system'])
        self.assertEqual(self.asked.look()['leader'], 'primary')
        self.asked.open(0, self.primary)
        self.asked.open(1, stranger)
        self.asked.place(0, 0)
        self.assertEqual(self.asked.verdict(0, 1), 'foreign')
        stranger.shut()
        self.two.start()
        self.asked.wait_usable(self.two)


class Failovers(Case):
    """In this order: a restart, a crash, a clean promotion, one with loss, a zombie."""

    standbys = 3

    def test_runs_and_histories(self):
        primary, (one, two, three) = self.primary, self.group.standbys
        below = self.group.add(one)
        asked = self.drive()
        asked.wait_usable(*self.group.all())
        run = self.restarts(asked, primary)
        self.crash(asked, primary, run)
        self.assertEqual(self.clean(asked, primary, one), asked.server(below)['timeline'])
        self.with_loss(asked, one, two, three, below)

    def reopen(self, asked, link, server):
        wait_for(lambda: asked.error('open', link, server.conninfo()) == 'OK', f'{server} is not open')

    def restarts(self, asked, primary):
        asked.open(0, primary)
        run = asked.shown(0)['run']
        self.assertGreater(run, 0)
        primary.shut()
        primary.start()
        self.reopen(asked, 0, primary)
        self.assertEqual(asked.shown(0)['run'], run)
        return run

    def crash(self, asked, primary, run):
        """Of all processes, and of one: what was not flushed is lost, on the same timeline."""
        for crash in (lambda: (primary.kill(), primary.start()), lambda: self.kill_one(primary)):
            primary.still()
            opened = primary.connect()
            opened.autocommit = False
            with opened.cursor() as cursor:
                cursor.execute('UPDATE t SET v = v + 1')
            self.assertEqual(asked.place(0, 0)['run'], run)
            crash()
            self.reopen(asked, 0, primary)
            again = asked.shown(0)['run']
            self.assertNotEqual(again, run)
            asked.wait(primary, lambda state, again=again: state['run'] == again, 'is in its old run')
            self.assertEqual(asked.verdict(0, 0), 'lost')
            self.assertEqual(asked.look()['runs'][-1][:2], [1, again])
            run = again
        self.group.wait_streaming()

    def kill_one(self, primary):
        pid = primary.value('SELECT pg_backend_pid()')
        os.kill(pid, signal.SIGKILL)
        primary.forget_connection()
        wait_for(lambda: primary.log().count('all server processes terminated') > 0, 'it does not begin again')
        primary.connection = None
        wait_for(primary.answers, 'it does not come back')

    def clean(self, asked, old, new):
        value = self.write(old)
        asked.place(0, 0)
        self.group.wait_caught_up()
        self.group.promote_cleanly(new)
        self.assertEqual(self.value(new), value)
        asked.wait(new, lambda state: state['primary'], 'is no primary')
        look = asked.look()
        self.assertEqual((look['leader'], look['servers'][old.name]['usable']), (new.name, False))
        self.reopen(asked, 1, new)
        self.assertEqual(asked.verdict(0, 1), 'ok')
        end, = [end for timeline, end in look['histories']['2'] if timeline == 1]
        self.assertGreaterEqual(end, asked.ask('place', 0, 9)['position'])
        self.group.wait_caught_up()
        for number, standby in enumerate(self.group.standbys):
            asked.open(2, standby)
            self.assertEqual(asked.verdict(0, 2), 'ok', standby)
        return 2

    def with_loss(self, asked, old, new, ahead, below):
        asked.place(1, 0)  # all have it

        def lost():
            self.write(old)
            asked.place(1, 1)  # only the old one, and `ahead`

        self.group.promote_lossily(new, lost, ahead=[ahead])
        self.write(new)
        asked.wait(new, lambda state: state['primary'], 'is no primary')
        self.reopen(asked, 0, new)
        asked.open(2, ahead)
        self.assertEqual([asked.verdict(place, 0) for place in (0, 1)], ['ok', 'lost'])
        asked.place(0, 2)  # the old one will never have it
        wait_for(lambda: asked.server(ahead)['timeline'] == 2, 'its timeline is not asked')
        state = asked.wait(ahead, lambda state: not state['usable'], 'is beyond the fork, and used')
        self.assertIn('history', state['fault'])
        self.assertEqual(sorted(asked.look()['histories']), ['2', '3'])
        self.group.revive(old)
        self.reopen(asked, 1, old)
        zombie = asked.wait(old, lambda state: 'taken over' in state['fault'], 'is believed')
        self.assertFalse(zombie['usable'])
        self.assertEqual(asked.look()['leader'], new.name)
        self.write(old)
        self.assertEqual(asked.verdict(2, 1), 'diverged')
        self.assertNotIn([2, zombie['run']], [run[:2] for run in asked.look()['runs']])
        self.group.wait_caught_up(below)
        asked.open(3, below)
        self.assertEqual([asked.verdict(place, 3) for place in (0, 1, 2)], ['ok', 'lost', 'ok'])


if __name__ == '__main__':
    unittest.main()
