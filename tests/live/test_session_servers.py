#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pollers of a PostgreSQL primary and its standbys, on real servers, with each thing that can happen to them
(docs/reads-postgres.md)"""
import os
import signal
import threading
import time
import unittest

from postgres_server import Postgres
from redis_server import wait_for
from session_drive import ReplicasCase


class Pollers(ReplicasCase):
    def setUp(self):
        super().setUp()
        self.asked = self.drive()
        self.asked.wait_usable(*self.group.all())

    def test_a_paused_standby_leaves_when_the_primary_moves_and_returns_when_it_moves(self):
        self.primary.still()
        self.group.wait_caught_up()
        self.one.pause()
        time.sleep(1.5)  # more than it may stand still while the primary moves
        self.assertTrue(self.asked.server(self.one)['usable'], 'it stands where the primary is')
        self.primary.thaw()
        stop = self.writing()
        state = self.asked.wait(self.one, lambda state: not state['usable'], 'stays')
        self.assertTrue(state['frozen'])
        self.assertIn('stands still', state['fault'])

        def told_apart():
            usable = {name: state['usable'] for name, state in self.asked.look()['servers'].items()}
            return usable[self.two.name] and not usable[self.one.name]

        wait_for(told_apart, 'the other one, which moves, is not read')
        stop.set()
        self.one.resume()
        self.asked.wait(self.one, lambda state: state['usable'] and not state['frozen'], 'does not become usable')

    def test_the_lag_of_a_delayed_standby_is_its_delay(self):
        """It moves, and so it stays."""
        patient = self.drive(freeze=60000)
        self.one.set_delay(700)
        stop = self.writing()
        state = patient.wait(self.one, lambda state: (state['lag_ms'] or 0) >= 600, 'lags less')
        self.assertTrue(state['usable'])
        time.sleep(0.5)

        def lags():
            """In one look: on a busy machine some other one has them a little late."""
            states = [patient.look()['servers'][server.name] for server in (self.one, self.two, self.primary)]
            delayed, other, primary = (state['lag_ms'] for state in states)
            return states[0]['usable'] and 600 <= delayed < 2000 and other < 300 and primary == 0

        wait_for(lags, 'the lags are not the delays')
        stop.set()
        self.one.set_delay(0)
        self.group.wait_caught_up()
        patient.wait(self.one, lambda state: state['lag_ms'] == 0, 'still lags')

    def test_a_server_that_stands_still_stalls_nobody(self):
        asked = self.drive(timeout=1000)
        asked.wait_usable(*self.group.all())
        asked.open(1, self.one)
        self.one.freeze()
        try:
            asked.wait(self.one, lambda state: not state['usable'], 'is used')
            before = {server.name: asked.server(server)['begun_ns'] for server in (self.primary, self.two)}
            self.assertEqual(asked.error('shown', 1), 'EIO')  # by its deadline
            self.assertEqual(asked.error('open', 2, self.one.conninfo()), 'EIO')
            self.assertEqual(asked.error('ask', 'standby1', 100), 'EAGAIN')
            for server in (self.primary, self.two):
                asked.wait(server, lambda state, name=server.name: state['begun_ns'] > before[name] and state['usable'],
                           'stalls')
        finally:
            self.one.thaw()
        asked.wait_usable(self.one)

    def test_the_timeline_of_one_that_is_cut_off_comes_by_replication(self):
        self.asked.open(1, self.one)
        self.one.cut()
        self.addCleanup(self.one.attach)
        self.assertEqual(self.asked.shown(1)['timeline'], 0)
        self.assertEqual(self.asked.error('ask', 'standby1', 30000), 'OK')
        self.asked.wait(self.one, lambda state: (state['timeline'], state['usable'], state['fault']) == (1, True, ''),
                        'is not known by replication')

    def test_a_role_without_privileges_goes_on_and_says_what_it_lacks(self):
        self.primary.execute('DROP ROLE IF EXISTS plain, sender')
        self.primary.execute('CREATE ROLE plain LOGIN')
        self.primary.execute('CREATE ROLE sender LOGIN REPLICATION')
        self.group.wait_caught_up()
        plain, sender = self.drive(more=' user=plain'), self.drive(more=' user=sender')
        state = plain.wait(self.one, lambda state: 'timeline' in state['fault'], 'says nothing')
        self.assertEqual((state['timeline'], state['usable']), (0, False))
        self.assertIn('pg_read_all_stats or REPLICATION', state['fault'])
        self.assertEqual(plain.wait(self.primary, lambda state: state['usable'], 'is not seen')['fault'], '')
        state = sender.wait(self.one, lambda state: state['usable'], 'is not seen')
        self.assertEqual((state['timeline'], state['fault']), (1, ''))

    def settled(self, since_ns):
        """Who waits has the pollers look."""
        self.asked.error('ask', self.primary.name, 2000)
        return self.asked.server(self.primary)['settled_ns'] > since_ns

    def test_under_writers_that_never_pause_the_primary_is_settled_again_and_again(self):
        """Not when nobody writes, but once all that wrote then have ended; one that stays holds it up, unless it waits
        for its client."""
        self.primary.execute('CREATE TABLE IF NOT EXISTS busy (n int)')
        stops = [self.writing() for _ in range(3)]
        idle = self.primary.connect()
        idle.cursor().execute('BEGIN; INSERT INTO busy VALUES (1)')
        for _ in range(3):
            seen = time.monotonic_ns()
            wait_for(lambda since=seen: self.settled(since), 'does not settle')
        holder = self.primary.connect()
        holder.cursor().execute('SELECT pg_advisory_lock(7)')
        lasting = threading.Thread(target=self.primary.sql, args=[
            'INSERT INTO busy VALUES (1); SELECT pg_advisory_xact_lock(7)'])
        lasting.start()
        wait_for(lambda: self.primary.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"),
                 'does not begin')
        begun = time.monotonic_ns()
        for _ in range(100):
            self.assertFalse(self.settled(begun))
        holder.close()
        wait_for(lambda: self.settled(begun), 'does not settle')
        for stop in stops:
            stop.set()
        lasting.join()
        idle.close()

    def test_who_waits_is_told_long_before_the_next_poll(self):
        slow = self.drive(poll=60000)
        slow.wait_usable(*self.group.all())
        self.write()
        end = self.primary.end()

        def seen():
            self.assertEqual(slow.error('news', slow.look()['number'], 30000), 'OK')
            return slow.server(self.one)['position'] >= end

        wait_for(seen, 'it is not told')
        begun = slow.server(self.two)['begun_ns']
        self.assertEqual(slow.error('ask', 'standby2', 30000), 'OK')
        self.assertGreater(slow.server(self.two)['begun_ns'], begun)
        self.assertEqual(slow.error('ask', 'nobody', 5000), 'ENOENT')

        def rests():
            number = slow.look()['number']
            time.sleep(0.5)
            return slow.look()['number'] == number

        wait_for(rests, 'it asks though nobody waits')  # after what was being asked

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

        def several():
            looked = fast.ask('hasten', 200000, 4)
            self.assertFalse(looked['wrong'])
            return looked['numbers'] > 1

        wait_for(several, 'they see one snapshot and no other')

    def test_reads_are_counted(self):
        def counted():
            """Of the last second only: what was read before is gone when one comes late."""
            self.asked.ask('read', 'standby1', 5000)
            return self.asked.server(self.one)['load'] > 500

        wait_for(counted, 'nothing was read')
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
        for _ in range(10):
            look = self.asked.look()
            self.assertEqual((look['leader'], look['servers']['standby2']['usable']), ('primary', False))
            self.assertTrue(look['servers']['standby1']['usable'])
            time.sleep(0.03)
        self.asked.open(0, self.primary)
        self.asked.open(1, stranger)
        self.asked.place(0, 0)
        self.assertEqual(self.asked.verdict(0, 1), 'foreign')
        stranger.shut()
        self.two.start()
        self.asked.wait_usable(self.two)


class Failovers(ReplicasCase):
    """In this order: a restart, a crash, a clean promotion, one with loss, a zombie."""

    standbys = 3

    def test_runs_and_histories(self):
        primary, (one, two, three) = self.primary, self.group.standbys
        below = self.group.add(one)
        asked = self.drive()
        asked.wait_usable(*self.group.all())
        run = self.restarts(asked, primary)
        self.crash(asked, primary, run)
        timeline = self.clean(asked, primary, one)
        asked.wait(below, lambda state: state['timeline'] == timeline, 'is on another timeline')
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
        asked.wait(old, lambda state: not state['usable'], 'is used')
        look = asked.look()
        self.assertEqual((look['leader'], look['servers'][old.name]['usable']), (new.name, False))
        self.reopen(asked, 1, new)
        self.assertEqual(asked.verdict(0, 1), 'ok')
        end, = [end for timeline, end in look['histories']['2'] if timeline == 1]
        self.assertGreaterEqual(end, asked.ask('place', 0, 9)['position'])
        self.group.wait_caught_up()
        for number, standby in enumerate(self.group.standbys):
            asked.open(2, standby)  # unproven, until it was seen to stream from the new one
            wait_for(lambda: asked.verdict(0, 2) == 'ok', f'{standby} is not believed')
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
