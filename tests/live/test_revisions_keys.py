#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Revisions that keys at the engine say and no node tells: they are passed, and that loses no reload."""
import signal
import struct
import time
import unittest

from cluster import metrics, wait_for
from redis_server import stand_still
from test_revisions import AtRedis, check, look, signed_definition


class Keys(AtRedis):
    def number_told(self, key):
        return struct.unpack('>Q', self.redis.ask('GET', key)[4:12])[0]

    def test_a_key_does_not_keep_to_a_definition_that_nobody_knows_any_more(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            names = list(cluster.nodes)
            cluster.reload('a', 'rate: 6000/300day')
            cluster.wait_capacity(6000)
            self.assertTrue(cluster.charge('a'))
            for name in names:
                self.assertEqual(cluster.nodes.pop(name).stop(), 0)
            for key in self.redis.ask('KEYS', '*:revision:*'):
                self.redis.ask('DEL', key)
            for name in names:
                cluster.start(name, 'rate: 3000/300day')
            cluster.wait_known()
            cluster.wait_capacity(3000)
            wait_for(lambda: all(look(node)['capacity'] == 3000 for node in cluster.nodes.values()),
                     text='a key goes on by what wrote it')

    def stop_before_it_tells(self, cluster, name, definition):
        """Reloads the node, and stops it when it has decided a key by that and not yet told it. False: it was told."""
        node, before = cluster.nodes[name], look(cluster.nodes[name])['revision']
        node.config.write_text(cluster.text(definition), encoding='utf-8')
        node.process.send_signal(signal.SIGHUP)
        wait_for(lambda: check(node, 'hot')['revision'] > before)
        stand_still(node.process.pid)
        key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
        return self.number_told(key) <= before

    def test_a_rollback_by_a_node_that_stalls_before_it_tells_is_not_lost(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            a, others = cluster.nodes['a'], [cluster.nodes['b'], cluster.nodes['c']]
            for _ in range(20):  # it tells up to 200 ms after the reload, and may have done so already
                cluster.reload('a', 'rate: 6000/300day')
                cluster.wait_capacity(6000)
                cluster.wait_known()
                caught = self.stop_before_it_tells(cluster, 'a', 'rate: 3000/300day')
                try:
                    raised = look(others[0], 'none')['revision']
                    if caught:  # what the key says is passed
                        wait_for(lambda raised=raised: all([check(node, 'hot') and
                                                            look(node, 'none')['revision'] > raised for node in others]))
                finally:
                    a.process.send_signal(signal.SIGCONT)
                cluster.wait_capacity(3000)
                if caught:
                    break
            self.assertTrue(caught, 'it always told before it was stopped')
            cluster.wait_known()
            self.assertEqual(look(others[1], 'none')['revision_of'], 'a')
            cluster.wait_capacity(3000)

    def test_a_reload_that_was_written_over_by_who_passed_its_number_is_told_again(self):
        """Whoever passes what a key says writes its own definition, which may come just after the one of that key."""
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
            old = self.redis.ask('GET', key)
            at = 28 + 1 + old[28]  # behind the name of the node; that it superseded nothing and the size follow
            cluster.reload('a', 'rate: 1000/300day')
            cluster.wait_capacity(1000)
            number = look(cluster.nodes['a'], 'none')['revision']
            wait_for(lambda: self.number_told(key) == number, text='the reload is not told')
            passed = bytes(20) + struct.pack('>II', 2**32 - 1, 1)  # it was revision 1 (src/core/share/revision.c)
            self.redis.ask('SET', key, signed_definition(old[at + 5:-16], number + 5, b'b', passed))
            wait_for(lambda: self.number_told(key) > number + 5, text='the reload is lost')
            cluster.wait_capacity(1000)
            cluster.wait_known()
            self.assertEqual(look(cluster.nodes['b'])['revision_of'], 'a')

    def forge(self, revision):
        """The key says this revision; a node decides between, or the value is not of this one any more."""
        key = next(key for key in self.redis.ask('KEYS', '*:api:*') if b':revision:' not in key)
        value = bytearray(self.redis.ask('GET', key))  # src/limits/redis/layout.h
        value[7] = 1
        value[48:52] = struct.pack('>I', revision)
        self.redis.ask('SET', key, bytes(value), 'KEEPTTL')

    def test_what_a_key_says_that_no_node_knows_is_told(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            node, high = cluster.nodes['b'], int(time.time()) + 10**8
            cluster.charge('a')
            self.forge(2**32 - 1)  # nobody goes above that
            wait_for(lambda: look(node)['capacity'] and 'error revision_beyond: node b: ' in node.output())
            self.assertEqual(metrics(node.http)['weir_revisions_corrupt_total'], 1)
            self.assertEqual(look(node, 'none')['revision'], 1)
            self.forge(high)
            wait_for(lambda: look(node) and look(node, 'none')['revision'] == high + 1)
            wait_for(lambda: f'warn revision_passed: node b: api: revision 1 has the number {high + 1} now: ' in node.output())
            self.assertEqual(look(node, 'none')['capacity'], 3000)
            self.assertEqual(metrics(node.http)['weir_revisions_corrupt_total'], 1)


if __name__ == '__main__':
    unittest.main()
