#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The redis engine on a real cluster of three primaries and their replicas: requests over several slots are all or
nothing; slots that move, primaries that fail over or die, nodes that leave."""
import collections
import concurrent.futures
import time
import unittest

from redis_drive import Drive
from redis_server import Cluster, rights, wait_for

RAMP_S = 0.7


def slot_of(key):
    """CRC16 of the tag, as the specification has it."""
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % 16384


class OnCluster(unittest.TestCase):
    NODE_TIMEOUT_MS = 15000  # nobody is taken for dead because the machine is busy

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.NODE_TIMEOUT_MS)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def setUp(self):
        wait_for(self.cluster.settled, 'the cluster does not settle')
        for server in self.primaries():
            server.ask('FLUSHALL')

    def primaries(self):
        return [s for s in self.cluster.servers if s.process.poll() is None and s.info('role') == 'master']

    def drive(self, **options):
        seeds = [f'127.0.0.1:{s.port}' for s in self.cluster.servers[:2]]
        return Drive(*seeds, cluster=1, **options)

    @staticmethod
    def load_while(drive, keys, change):
        """What was answered while the cluster changed, from before to after."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            total = collections.Counter(drive.load('a', keys, ms=300, deadline_ms=10000))
            changing = pool.submit(change)
            over = False
            while not over:
                over = changing.done()
                total.update(drive.load('a', keys, ms=500, deadline_ms=10000))
            changing.result()
        return total

    def move(self):
        """Some slots of one primary to another."""
        wait_for(self.cluster.agrees, 'the nodes do not agree')
        one, two, *_ = self.primaries()
        self.cluster.manage('reshard', f'127.0.0.1:{one.port}', '--cluster-from', one.ask('CLUSTER', 'MYID').decode(),
                            '--cluster-to', two.ask('CLUSTER', 'MYID').decode(), '--cluster-slots', 1500, '--cluster-yes')

    def used(self, drive, capacity, keys, limit='a'):
        """Units charged on each key, from the engine."""
        used = []
        for i in range(keys):
            wait_for(lambda i=i: drive.ask('peek', f'{limit}:key-{i}:1')[0] == 'OK', 'no answer')
            used.append(capacity - drive.ask('peek', f'{limit}:key-{i}:1')[2][0])
        return used


class Slots(OnCluster):
    def test_keys_of_all_slots(self):
        with self.drive() as drive:
            drive.limit('a', 5)
            drive.wait_ready()
            load = drive.load('a', 100, per_ms=4, ms=250, deadline_ms=10000)
            self.assertEqual((load['admitted'], load['most']), (500, 5), load)
            self.assertEqual(sum(role == 'primary' for _, role, _, _ in drive.servers()), 3)
            sizes = [s.ask('DBSIZE') for s in self.primaries()]
            self.assertTrue(all(size > 10 for size in sizes), sizes)

    def test_each_key_lies_where_its_tag_says(self):
        with self.drive() as drive:
            drive.limit('a', 5)
            drive.wait_ready()
            drive.load('a', 20, ms=20, deadline_ms=10000)
            for server in self.primaries():
                for key in server.ask('KEYS', 'weir:*'):
                    tag = key.partition(b'{')[2].partition(b'}')[0]
                    self.assertEqual(server.ask('CLUSTER', 'KEYSLOT', key), slot_of(tag), key)

    def test_limits_of_one_tenant_are_one_slot(self):
        with self.drive() as drive:
            drive.limit('a', 5)
            drive.limit('b', 5)
            drive.wait_ready()
            self.assertEqual(drive.ask('decide', 'a:x:1', 'b:x:1'), ('OK', True, [4, 4]))
            self.assertFalse(any(s.ask('KEYS', 'weir:*:request:*') for s in self.primaries()))

    def test_least_rights(self):
        """What docs/redis.md says the user needs is enough, in a cluster too."""
        for server in self.cluster.servers:
            server.ask('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', *rights())
        with self.drive(username='weir', password='secret') as drive:
            drive.limit('a', 10)
            drive.wait_ready()
            self.assertTrue(drive.ask('decide', *(f'a:key-{i}:1' for i in range(6)))[1])
            self.assertFalse(drive.ask('decide', 'a:key-0:10', *(f'a:key-{i}:1' for i in range(1, 6)))[1])
            wait_for(lambda: drive.stats()['given_back'] > 0, 'nothing is given back')
            self.assertEqual(drive.stats()['last_error'], '')

    def test_several_slots_are_all_or_nothing(self):
        """The keys of a request lie on three servers; one of them refuses: the others have nothing charged."""
        with self.drive() as drive:
            drive.limit('a', 10)
            drive.limit('b', 3)
            drive.wait_ready()
            ops = [f'a:key-{i}:1' for i in range(6)]
            for i in range(3):
                self.assertEqual(drive.ask('decide', 'b:other:1', *ops), ('OK', True, [2 - i] + [9 - i] * 6))
            status, admitted, numbers = drive.ask('decide', 'b:other:1', *ops)
            self.assertEqual((status, admitted, numbers), ('OK', False, [0] + [7] * 6))
            wait_for(lambda: drive.stats()['given_back'] >= 3, 'nothing is given back')
            self.assertEqual(self.used(drive, 10, 6), [3] * 6)

    def test_several_slots_under_load(self):
        """Each request charges three keys. What the engine holds at the end is what was admitted, key by key."""
        with self.drive() as drive:
            drive.limit('a', 40)
            drive.wait_ready()
            load = drive.load('a', 20, per_ms=2, ms=1000, deadline_ms=10000, ops=3)
            self.assertEqual(load['unknown'] + load['down'], 0, load)
            self.assertLessEqual(load['most'], 40)
            self.assertLessEqual(load['admitted'] * 3, 20 * 40)
            self.assertGreater(load['refused'], 0)
            time.sleep(0.5)
            wait_for(lambda: sum(self.used(drive, 40, 20)) == load['admitted'] * 3, 'it holds something else', 20)
            self.assertEqual(drive.stats()['given_back_lost'], 0)

    def test_slots_move_under_load(self):
        """Half of one primary's slots go to another one: MOVED and ASK are followed and no unit is lost or invented."""
        with self.drive() as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            load = collections.Counter()
            for _ in range(3):
                load.update(self.load_while(drive, 200, self.move))
                if drive.stats()['redirects'] > 0:  # else it read the map anew before it asked for what had moved
                    break
            self.assertEqual(load['told'], load['admitted'] + load['down'], load)
            self.assertLess(load['down'], 200, load)
            self.assertEqual(sum(self.used(drive, 1000, 200)), load['admitted'])
            stats = drive.stats()
            self.assertGreater(stats['redirects'], 0)
            self.assertEqual(stats['losses'], 0, stats)


class Growth(OnCluster):
    def check_loses_nothing(self, drive, change, keys=200):
        """While requests go on, each key at each server of the cluster at some time."""
        drive.limit('a', 1000)
        drive.wait_ready()
        load = self.load_while(drive, keys, change)
        for _ in range(5):
            if drive.stats()['redirects'] > 0:  # else it read the map anew before it asked for what had moved
                break
            load.update(self.load_while(drive, keys, self.move))
        self.assertFalse([address for address, *_ in drive.servers() if '?' in address])
        self.assertEqual(load['told'], load['admitted'] + load['down'], load)
        self.assertEqual(load['down'], 0, load)
        self.assertEqual(sum(self.used(drive, 1000, keys)), load['admitted'])
        stats = drive.stats()
        self.assertGreater(stats['redirects'], 0)
        self.assertEqual(stats['losses'], 0, stats)

    def grow(self):
        node = self.cluster.add_node()
        first = f'127.0.0.1:{self.cluster.servers[0].port}'
        self.cluster.manage('add-node', f'127.0.0.1:{node.port}', first)
        wait_for(self.cluster.settled, 'the new node does not join')
        wait_for(self.cluster.agrees, 'the nodes do not agree')
        self.cluster.manage('rebalance', first, '--cluster-use-empty-masters', '--cluster-pipeline', 100)
        return node

    def test_a_node_that_is_added_is_no_loss(self):
        """It takes over a part of each primary's slots, the ones with marks among them, and nothing is lost."""
        with self.drive() as drive:
            self.check_loses_nothing(drive, self.grow)

    def test_nodes_that_do_not_tell_their_names(self):
        """MOVED and the map say "?" for the host: the one that was asked."""
        for server in self.cluster.servers:
            server.ask('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'hostname')
            self.addCleanup(server.ask, 'CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'ip')
        self.assertIn('?:', str(self.error_of_moved()))
        with self.drive() as drive:
            self.check_loses_nothing(drive, self.move)

    def error_of_moved(self):
        answers = [s.ask('GET', 'x') for s in self.primaries()]
        return next(a for a in answers if a is not None)


class Failovers(OnCluster):
    def test_planned(self):
        """CLUSTER FAILOVER: nothing is lost, and no loss is counted."""
        with self.drive() as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            drive.start_load('a', 50, per_ms=1, ms=4000, deadline_ms=10000)
            time.sleep(0.5)
            replica = next(s for s in self.cluster.servers if s.info('role') == 'slave')
            self.assertEqual(replica.ask('CLUSTER', 'FAILOVER'), 'OK')
            load = drive.end_load()
            wait_for(lambda: replica.info('role') == 'master', 'no failover')
            total = sum(self.used(drive, 1000, 50))
            self.assertGreaterEqual(total, load['admitted'])
            self.assertLessEqual(total, load['admitted'] + load['unknown'])
            self.assertEqual(drive.stats()['losses'], 0, drive.stats())

    def test_a_primary_dies(self):
        with self.drive() as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            drive.load('a', 50, per_ms=1, ms=200, deadline_ms=10000)
            victim = self.primaries()[-1]
            with self.cluster.losing():
                victim.kill()
                down = drive.load('a', 50, per_ms=1, ms=300, deadline_ms=200)
                self.assertGreater(down['admitted'], 0, 'the slots of the others are answered')
                self.assertGreater(down['down'] + down['unknown'], 0)
                wait_for(lambda: drive.load('a', 50, ms=50, deadline_ms=200)['down'] == 0, 'no failover')
            time.sleep(RAMP_S)
            self.assertEqual(drive.load('a', 50, ms=100, deadline_ms=10000)['admitted'], 100)
            victim.start()

    def test_not_ready_while_slots_have_no_primary(self):
        """A primary dies whose replica is dead already: the others answer, and the engine is not whole."""
        with self.drive() as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            victim = self.primaries()[-1]
            replica = next(s for s in self.cluster.servers if s.info('master_port') == str(victim.port))
            replica.kill()
            victim.kill()
            wait_for(lambda: not drive.ready(), 'it says that all answers')
            time.sleep(1.5)
            self.assertFalse(drive.ready())
            self.assertGreater(drive.load('a', 50, ms=200, deadline_ms=1000)['admitted'], 0)
            victim.start()
            replica.start()
            drive.wait_ready()

    def test_flush_of_one_is_one_loss(self):
        with self.drive() as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            drive.load('a', 50, ms=100, deadline_ms=10000)
            time.sleep(1.2)
            before = drive.stats()['losses']
            self.primaries()[0].ask('FLUSHALL')
            drive.wait_error('state was lost')
            time.sleep(1.5)
            self.assertEqual(drive.stats()['losses'] - before, 1)

    def test_what_is_reserved_at_a_server_that_stops_is_given_back(self):
        """One of the request's servers stops: unknown, and when it is back nothing stays charged for the request."""
        with self.drive() as drive:
            drive.limit('a', 100)
            drive.wait_ready()
            victim = self.primaries()[0]
            victim.pause()
            answers = [drive.ask('decide', *(f'a:key-{i}:1' for i in range(6)), deadline_ms=50)[0] for _ in range(3)]
            victim.resume()
            self.assertIn('EUNKNOWN', answers)
            self.assertNotIn('OK', answers)
            wait_for(lambda: drive.ready() and drive.ask('peek', *(f'a:key-{i}:1' for i in range(6)))[0] == 'OK',
                     'it does not come back')
            wait_for(lambda: self.used(drive, 100, 6) == [0] * 6, 'units stay charged')
            self.assertGreater(drive.stats()['given_back'], 0)


if __name__ == '__main__':
    unittest.main()
