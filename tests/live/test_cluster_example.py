#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/cluster.yaml as README says: three nodes, one Redis, one count; and what is told when Redis goes."""
import json
import re
import subprocess
import time
import unittest
import urllib.request

from ports import free_ports
from redis_server import Redis
from weir_server import BUILD, ROOT, Weir

NO_LIMIT = 'refused: no limit applies (unmatched: refuse); weir explain says why'

EXAMPLE = (ROOT / 'examples/cluster.yaml').read_text(encoding='utf-8')
NODES = ('a', 'b', 'c')


def check(node, *arguments):
    """What `weir check` prints."""
    return subprocess.run([str(BUILD / 'weir'), 'check', '--server', f'127.0.0.1:{node.http}', *arguments],
                          capture_output=True, text=True, timeout=60, check=False)


def verdict(node, *attributes):
    return json.loads(check(node, '--json', *attributes).stdout)


def fetch(node, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{node.http}{path}', timeout=60) as answer:
        return answer.read().decode()


class ClusterExample(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        text = EXAMPLE
        places = [('127.0.0.1:6379', self.redis.port), *zip(('127.0.0.1:7946', '127.0.0.1:7947', '127.0.0.1:7948'),
                                                            free_ports(3))]
        for place, port in places:
            self.assertEqual(text.count(place), 1, place)
            text = text.replace(place, f'127.0.0.1:{port}')
        counted = '    rate: 10/min\n    on_failure: closed'
        self.assertEqual(text.count(counted), 1)
        text = text.replace(counted, '    rate: 10/day\n    deadline: 10s\n    on_failure: closed')  # of a busy machine
        self.nodes = []
        for name in NODES:
            self.nodes.append(Weir(text, threads=1, arguments=('--node', name)))
            self.addCleanup(self.nodes[-1].stop)
        for node in self.nodes:
            self.wait(lambda node=node: json.loads(fetch(node, '/v1/nodes'))['engine']['ready'])

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_three_nodes_count_one_account(self):
        remaining = [verdict(node, 'account=7', 'route=/payments')['remaining'] for node in self.nodes]
        self.assertEqual(remaining, [9, 8, 7])

    def test_each_node_tells_what_it_sees(self):
        for name, node in zip(NODES, self.nodes):
            seen = json.loads(fetch(node, '/v1/nodes'))
            self.assertEqual((seen['node'], seen['nodes']), (name, 3))
            self.assertEqual([server['breaker'] for server in seen['engine']['servers']], ['closed'])
            self.assertEqual(sorted(member['name'] for member in seen['gossip']['members']), list(NODES))
            self.assertIn('\nweir_engine_ready 1\n', fetch(node, '/metrics'))

    def test_who_names_nothing_is_not_admitted_in_silence(self):
        node = self.nodes[0]
        self.assertEqual(check(node, 'route=/nowhere').stdout.strip(), NO_LIMIT)
        self.assertEqual(verdict(node, 'route=/payments')['missing'], 'account')

    def test_a_verdict_says_that_the_engine_failed(self):
        self.redis.stop()
        node = self.nodes[0]
        self.wait(lambda: not json.loads(fetch(node, '/v1/nodes'))['engine']['ready'])
        refused = verdict(node, 'account=7', 'route=/payments')  # on_failure: closed
        self.assertEqual((refused['admitted'], refused['status']), (False, 503))
        self.assertEqual(refused['limits'][0]['fallback'], 'closed')
        self.assertEqual(check(node, 'account=7', 'route=/payments').returncode, 1)
        # on_failure: local, a third of 600 a minute, which starts empty: the node was started within the minute
        self.assertFalse(verdict(node, 'user=ada', 'route=/api/x')['admitted'])
        self.wait(lambda: verdict(node, 'user=ada', 'route=/api/x')['admitted'])
        limits = {limit['limit']: limit for limit in verdict(node, 'user=ada', 'route=/api/x')['limits']}
        self.assertEqual(sorted(limits), ['api-per-tenant', 'api-per-user'], 'without a tenant: missing: share')
        self.assertEqual((limits['api-per-user']['fallback'], limits['api-per-user']['capacity']), ('local', 200))
        told = re.search(r"this node's share 200, slack 10, overshoot at most (\d+); the engine failed: decided by "
                         'on_failure: local', check(node, 'user=ada', 'route=/api/x').stdout)
        self.assertGreaterEqual(int(told[1]), 30 + 600)  # and what came back since the outage began


if __name__ == '__main__':
    unittest.main()
