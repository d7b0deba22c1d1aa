#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fixture of replicas does what its methods say, before other tests rely on it."""
import threading
import unittest

import psycopg2

from postgres_replicas import PAGE_BYTES, SEGMENT_BYTES, Replicas
from redis_server import wait_for


class Case(unittest.TestCase):
    def group(self, standbys=1, **settings):
        group = Replicas(standbys, **settings)
        self.addCleanup(group.stop)
        group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        group.primary.execute('INSERT INTO t VALUES (1, 0)')
        group.wait_caught_up()
        return group

    def write(self, server, value):
        server.execute('UPDATE t SET v = %s', value)

    def seen(self, *servers):
        values = [server.value('SELECT v FROM t') for server in servers]
        return values[0] if len(servers) == 1 else values


class Replaying(Case):
    def test_a_paused_standby_stands_and_its_neighbour_does_not(self):
        group = self.group(2)
        one, two = group.standbys
        one.pause()
        self.write(group.primary, 1)
        group.wait_caught_up(two)
        self.assertEqual(self.seen(one, two), [0, 1])
        one.resume()
        group.wait_caught_up(one)
        self.assertEqual(self.seen(one), 1)

    def test_a_delay_holds_what_comes_and_can_be_paused_and_taken_back(self):
        group = self.group()
        standby, = group.standbys
        standby.set_delay(60000)
        self.write(group.primary, 1)
        standby.pause()
        self.assertEqual(self.seen(standby), 0)
        standby.resume()
        self.assertLess(standby.replayed(), group.primary.end())
        standby.set_delay(0)
        group.wait_caught_up()
        self.assertEqual(self.seen(standby), 1)

    def test_a_standby_is_cut_off_and_attached_also_while_paused(self):
        group = self.group(2)
        one, two = group.standbys
        two.pause()
        one.cut()
        two.cut()
        two.resume()
        self.write(group.primary, 1)
        self.assertFalse(one.streams() or two.streams())
        wait_for(lambda: group.primary.value('SELECT count(*) FROM pg_stat_replication') == 0, 'the primary still sends')
        self.assertEqual(self.seen(one, two), [0, 0])
        two.attach()
        group.wait_caught_up(two)
        one.attach(two)
        group.wait_caught_up(one)
        self.assertEqual(self.seen(one, two), [1, 1])
        self.assertEqual(two.value('SELECT application_name FROM pg_stat_replication'), 'standby1')

    def test_a_reader_is_cancelled_by_what_is_replayed(self):
        group = self.group()
        standby, = group.standbys
        reader = standby.connect().cursor()
        reader.execute('BEGIN ISOLATION LEVEL REPEATABLE READ')
        reader.execute('TABLE t')
        group.conflict(standby, 't')
        with self.assertRaises(psycopg2.OperationalError):
            reader.execute('TABLE t')
        counted = "SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'"
        wait_for(lambda: standby.value(counted) > 0, 'it is not counted')  # at the end of the reader's process
        self.assertEqual(standby.value(counted), 1)
        self.assertEqual(self.seen(standby), 0)


class Members(Case):
    def test_replicas_come_and_go_and_follow_one_another(self):
        group = self.group()
        below = group.add(group.standbys[0])
        beside = group.add()
        self.write(group.primary, 1)
        group.wait_caught_up()
        self.assertEqual(self.seen(below, beside), [1, 1])
        self.assertEqual(below.upstream, group.standbys[0])
        group.remove(beside)
        self.assertEqual(len(group.standbys), 2)
        with self.assertRaises(psycopg2.OperationalError):
            beside.connect()

    def test_servers_are_killed_and_frozen_and_come_back(self):
        group = self.group(2)
        one, two = group.standbys
        one.kill()
        self.write(group.primary, 1)
        one.start()
        group.wait_caught_up(two)
        group.primary.kill()
        self.assertEqual(self.seen(two), 1)
        group.primary.start()
        group.wait_streaming()
        group.wait_caught_up()
        self.assertEqual(self.seen(group.primary, one, two), [1, 1, 1])
        one.freeze()
        self.write(group.primary, 2)
        answered = threading.Event()
        asking = threading.Thread(target=lambda: (self.seen(one), answered.set()))
        asking.start()
        group.wait_caught_up(two)
        self.assertFalse(answered.wait(0.2))
        one.thaw()
        asking.join()
        group.wait_caught_up(one)
        self.assertEqual(self.seen(one), 2)

    def test_a_commit_waits_for_its_synchronous_standbys(self):
        group = self.group(2)
        one, two = group.standbys
        group.primary.synchronous('remote_apply', 'FIRST 1 (standby1)')
        for value in range(1, 6):
            self.write(group.primary, value)
            self.assertEqual(self.seen(one), value)
        one.pause()
        writing = threading.Thread(target=self.write, args=(group.primary, 9))
        writing.start()
        two.wait_replayed(one.replayed() + 1)
        writing.join(0.2)
        self.assertTrue(writing.is_alive())
        one.resume()
        writing.join()
        self.assertEqual(self.seen(one), 9)
        group.primary.synchronous()
        one.cut()
        self.write(group.primary, 10)


class Boundaries(Case):
    def test_an_idle_primary_ends_where_a_page_or_a_segment_does(self):
        group = self.group()
        primary, standby = group.primary, group.standbys[0]
        for value in range(5):
            self.write(primary, value)
            primary.to_page_boundary()
            at = primary.insert_position()
            self.assertEqual((at % PAGE_BYTES, at - primary.end()), (24, 24))
            self.assertEqual(primary.position('pg_current_wal_lsn()'), primary.end())
            group.wait_caught_up()
            self.assertEqual(standby.replayed(), primary.end())
            self.write(primary, -value)
            primary.to_segment_boundary()
            at = primary.insert_position()
            self.assertEqual((at % SEGMENT_BYTES, at - primary.end()), (40, 40))
            group.wait_caught_up()
            self.assertEqual(standby.replayed(), primary.end())
        primary.thaw()
        self.write(primary, 7)
        group.wait_caught_up()
        self.assertEqual(self.seen(standby), 7)


class Failovers(Case):
    def test_a_clean_one_loses_nothing_and_the_old_primary_can_follow(self):
        group = self.group(2)
        one, two = group.standbys
        below, old = group.add(one), group.primary
        one.set_delay(60000)
        self.write(old, 1)
        group.promote_cleanly(one)
        self.assertEqual((group.primary, group.standbys, group.retired), (one, [two, below], [old]))
        self.write(one, self.seen(one) + 1)
        group.wait_caught_up()
        group.rejoin(old)
        group.wait_caught_up()
        self.assertEqual(self.seen(one, two, below, old), [2, 2, 2, 2])
        self.assertEqual([server.timeline() for server in group.all()], [2, 2, 2, 2])

    def test_a_lossy_one_loses_what_was_unsent_and_a_zombie_takes_writes(self):
        group = self.group(3)
        one, two, ahead = group.standbys
        old = group.primary
        self.write(old, 1)
        group.wait_caught_up()
        survives = []

        def lost():
            self.write(old, 2)
            survives.append(self.seen(one))

        group.promote_lossily(one, lost, ahead=[ahead])
        self.assertEqual(survives, [self.seen(one)])
        group.wait_caught_up(two)
        self.assertEqual(self.seen(one, two, ahead), [1, 1, 2])
        self.assertEqual((one.timeline(), two.timeline()), (2, 2))
        self.write(one, 3)
        group.wait_caught_up(two)
        self.assertEqual(self.seen(two, ahead), [3, 2])
        group.revive(old)
        self.write(old, 4)
        self.assertEqual((self.seen(old), old.timeline()), (4, 1))
        self.assertEqual(self.seen(one, two, ahead), [3, 3, 2])
        wait_for(lambda: not ahead.streams(), 'it has what its upstream lacks')  # it begins, and ends, again and again


if __name__ == '__main__':
    unittest.main()
