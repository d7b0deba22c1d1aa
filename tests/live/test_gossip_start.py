#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that gossip and start again under traffic: none is left with keys that stay empty, none mints."""
import contextlib
import signal
import time
import unittest
import urllib.request

from cluster import NAMES, Nodes, ask_many, config, get_json, metrics, wait_for
from ports import free_port
from redis_server import stand_still
from test_restart import Traffic
from weir_server import Weir

COUNT = 30000
SLACK = 100
LIMIT = f'  - {{ name: hot, key: [user], rate: {COUNT}/day, sharing: gossip, slack: {SLACK} }}\n'


def gossip(node):
    return get_json(node.http, '/v1/nodes')['gossip']


class FixedPorts(Nodes):
    """Each node keeps its RESP port over its restarts."""

    def start(self, name):
        self.ports_of = getattr(self, 'ports_of', None) or {each: free_port() for each in NAMES}
        self.nodes[name] = Weir(self.text, self.threads,
                                ('--node', name, '--resp', f'127.0.0.1:{self.ports_of[name]}'))
        return self.nodes[name]


class Start(unittest.TestCase):
    def test_restarts_under_traffic_leave_no_key_empty(self):
        with FixedPorts(config(LIMIT)) as nodes, contextlib.ExitStack() as stack:
            traffic = {name: stack.enter_context(Traffic(nodes.ports_of[name], 'user', 'ada')) for name in NAMES}
            for i in range(6):
                name = NAMES[i % 3]
                if i % 2:
                    nodes[name].process.send_signal(signal.SIGKILL)
                nodes[name].stop()
                nodes.start(name)
                traffic[name].await_answer()
                before = traffic[name].admitted
                spent = sum(one.admitted for one in traffic.values())
                wait_for(lambda name=name, before=before: traffic[name].admitted > before + 3,
                         text=f'{name} admits nothing after {spent} of {COUNT}: {gossip(nodes[name])}')
                self.assertEqual(gossip(nodes[name])['synced'], 1)
            stack.close()
            self.assertLessEqual(sum(one.admitted for one in traffic.values()), COUNT + (3 + 3) * SLACK)

    def test_a_node_alone_says_why_it_refuses_and_recovers(self):
        """The first of three, which can hear nobody, is asked; then the others come."""
        text = config(LIMIT)
        with Nodes(text, names=('a',)) as nodes:
            answer = self.ready(nodes['a'])
            self.assertIn('without the other nodes', answer)
            self.assertEqual(sum(ask_many(nodes['a'].resp, 'hot', ['ada'], 20).values()), 0)
            told = gossip(nodes['a'])
            self.assertEqual((told['synced'], told['refused_unsynced']), (0, 20))
            self.assertEqual(metrics(nodes['a'].http)['weir_gossip_refused_unsynced_total'], 20)
            for name in ('b', 'c'):
                nodes.start(name)
            wait_for(lambda: all(gossip(node)['synced'] for node in nodes.nodes.values()))
            self.assertEqual(self.ready(nodes['a']), 'ready\n')
            self.assertGreater(sum(ask_many(nodes['a'].resp, 'hot', ['ada'], 20).values()), 0)

    def test_a_node_cut_off_counts_why_it_refuses(self):
        with Nodes(config(LIMIT)) as nodes:
            wait_for(lambda: all(gossip(node)['synced'] for node in nodes.nodes.values()))
            for name in ('b', 'c'):
                stand_still(nodes[name].process.pid)
            try:
                self.assertLessEqual(sum(ask_many(nodes['a'].resp, 'hot', ['ada'], 2 * SLACK).values()), SLACK + 10)
                self.assertGreater(gossip(nodes['a'])['refused_slack'], 0)
                wait_for(lambda: 'gossip hears 0 of 2 other nodes' in self.ready(nodes['a'], '?verbose'))
                self.assertEqual(self.ready(nodes['a']), 'ready\n')
            finally:
                for name in ('b', 'c'):
                    nodes[name].process.send_signal(signal.SIGCONT)
            wait_for(lambda: 'gossip hears' not in self.ready(nodes['a'], '?verbose'))

    def test_the_bound_told_counts_the_crashes_of_others(self):
        with Nodes(config(LIMIT)) as nodes:
            wait_for(lambda: all(gossip(node)['synced'] for node in nodes.nodes.values()))
            calm = self.bound(nodes['a'])
            self.assertEqual(calm, 4 * SLACK)  # its own start may have followed a crash
            for crashes in (1, 2):
                nodes['b'].process.kill()
                nodes['b'].stop()
                nodes.start('b')
                wait_for(lambda crashes=crashes: self.bound(nodes['a']) == calm + crashes * SLACK,
                         text=f'{self.bound(nodes["a"])} is told')

    def test_the_log_tells_that_another_has_started_anew(self):
        with Nodes(config(LIMIT)) as nodes:
            for _ in range(5):  # a start that nobody had looked at is not known to be another one
                wait_for(lambda: all(gossip(node)['synced'] for node in nodes.nodes.values()))
                epochs = {one['name']: one['epoch'] for one in gossip(nodes['a'])['members']}
                nodes['b'].process.kill()
                nodes['b'].stop()
                nodes.start('b')
                wait_for(lambda epochs=epochs: epochs['b'] != gossip(nodes['a'])['members'][1]['epoch'])
                wait_for(lambda: gossip(nodes['b'])['synced'])
                time.sleep(1.5)  # the log looks once a second
            self.assertIn('info node_restarted: node a: node b has started anew', nodes['a'].output())
            self.assertNotIn('node c has started anew', nodes['a'].output())

    @staticmethod
    def bound(node):
        return get_json(node.http, '/v1/limits')['limits'][0]['overshoot_max']

    @staticmethod
    def ready(node, query=''):
        with urllib.request.urlopen(f'http://127.0.0.1:{node.http}/readyz{query}', timeout=60) as answer:
            return answer.read().decode()


if __name__ == '__main__':
    unittest.main()
