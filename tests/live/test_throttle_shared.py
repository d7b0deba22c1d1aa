#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CL.THROTTLE with its counters at the engine: three nodes over one Redis answer as one redis-cell, whose arithmetic is
written down here, also when one of them is killed and started again."""
import random
import signal
import subprocess
import time
import unittest

from redis_server import Redis, wait_for
from test_sharing import SECRET, nodes_of
from weir_server import BUILD, Resp, Weir, resp_encode

NS = 10**9


def config(redis, more=''):
    return (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\ncluster_secret: {SECRET}\n'
            f'cluster: {{ nodes: [ n0, n1, n2 ] }}\n'
            f'cl_throttle: {{ sharing: exact, engine: redis, deadline: 5s{more} }}\n')


class Cell:
    """redis-cell: of each key the time at which it is full again."""

    def __init__(self):
        self.tats = {}

    def throttle(self, now_ns, key, max_burst, count, period_s, quantity=1):
        emission = -(-period_s * NS // count)
        dvt = emission * (max_burst + 1)
        tat = max(self.tats.get(key, 0), now_ns)
        new = tat + emission * quantity
        limited = quantity > 0 and now_ns < new - dvt  # weir: what costs nothing is not refused
        never = quantity > max_burst + 1
        ttl = (tat if limited else new) - now_ns
        retry = -1 if never or not limited else -(-(new - dvt - now_ns) // NS)
        if not limited:
            self.tats[key] = new
        return [int(limited), max_burst + 1, max(0, (dvt - ttl) // emission), retry, -(-ttl // NS)]


class Shared(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        self.nodes = []

    def start(self, index=None, more=''):
        for i in range(3) if index is None else [index]:
            node = Weir(config(self.redis, more), arguments=('--node', f'n{i}'))
            self.addCleanup(node.stop)
            self.nodes[i:i + 1] = [node]
            wait_for(lambda node=node: nodes_of(node)['engine']['ready'], 'the engine is not ready')

    def now_ns(self):
        seconds, micros = self.redis.ask('TIME')
        return int(seconds) * NS + int(micros) * 1000

    def ask(self, node, *words):
        with Resp(self.nodes[node].resp) as client:
            return client.ask(*words)

    def check(self, cells, node, *arguments):
        """The answer lies between what redis-cell says a moment earlier and a moment later."""
        before = self.now_ns()
        answer = self.ask(node, 'CL.THROTTLE', *arguments)
        after = self.now_ns()
        says = [cell.throttle(now, *arguments) for cell, now in zip(cells, (before, after))]
        self.assertEqual([answer[0], answer[1]], says[0][:2], (arguments, answer, says))
        for i in (2, 3, 4):
            low, high = sorted((says[0][i], says[1][i]))
            self.assertLessEqual(low - (i > 2), answer[i], (arguments, answer, says))
            self.assertGreaterEqual(high + (i > 2), answer[i], (arguments, answer, says))

    def test_three_nodes_are_one_cell_though_one_is_killed(self):
        """Random requests at random nodes, of a few keys, with other parameters now and then. Periods are so long that
        nothing is refilled while a request is under way."""
        seed = random.randrange(2**32)
        print(f'seed {seed}')
        chance = random.Random(seed)
        self.start()
        cells = Cell(), Cell()  # the bounds: each with its own idea of the time
        for step in range(300):
            if step == 100:
                self.nodes[1].process.send_signal(signal.SIGKILL)
                self.nodes[1].process.wait()
            if step == 200:
                self.start(1)
            node = chance.choice((0, 2) if 100 <= step < 200 else (0, 1, 2))
            burst, count, period = chance.choice(((15, 30, 864000), (15, 30, 864000), (3, 7, 8640000), (40, 2, 864000)))
            self.check(cells, node, chance.choice('abc'), burst, count, period, chance.choice((0, 1, 1, 1, 2, 5, 60)))
        self.assertTrue(all(key.startswith(b'weir:') for key in self.redis.ask('KEYS', '*')))

    def test_the_examples_of_redis_cell(self):
        self.start()
        self.assertEqual(self.ask(0, 'CL.THROTTLE', 'user123', 15, 30, 60), [0, 16, 15, -1, 2])
        self.assertEqual(self.ask(1, 'CL.THROTTLE', 'other', 0, 1, 1000), [0, 1, 0, -1, 1000])
        answer = self.ask(2, 'CL.THROTTLE', 'other', 0, 1, 1000)
        self.assertEqual(answer[:3], [1, 1, 0])
        self.assertLessEqual(990, answer[3])

    def test_exactly_the_burst_under_load_at_all_nodes(self):
        self.start()
        clients = [self.enterContext(Resp(node.resp)) for node in self.nodes]
        for client in clients:
            client.send(resp_encode('CL.THROTTLE', 'k', 99, 1, 86400) * 100)
        answers = [client.read() for client in clients for _ in range(100)]
        self.assertEqual(sum(answer[0] == 0 for answer in answers), 100)

    def test_del(self):
        self.start()
        for key in 'ab':
            self.assertEqual(self.ask(0, 'CL.THROTTLE', key, 0, 1, 1000)[0], 0)
        self.assertEqual(self.ask(1, 'DEL', 'a', 'a', 'b', 'never-seen'), 2)
        self.assertEqual(self.ask(2, 'DEL', 'a'), 0)
        self.assertEqual(self.ask(2, 'CL.THROTTLE', 'a', 0, 1, 1000)[0], 0)
        self.assertIn('at most 64 keys', str(self.ask(0, 'DEL', *range(65))))

    def test_answers_keep_their_order(self):
        """With commands that are answered at once between them, and in MULTI."""
        self.start()
        with Resp(self.nodes[0].resp) as client:
            client.send(resp_encode('CL.THROTTLE', 'k', 1, 1, 1000) + resp_encode('CL.THROTTLE', 'k', 'x', 1, 1) +
                        resp_encode('CL.THROTTLE', 'k', 1, 1, 1000) + resp_encode('PING') + resp_encode('DEL', 'k') +
                        resp_encode('CL.THROTTLE', 'k', 1, 0, 1) + resp_encode('CL.THROTTLE', 'k', 1, 1, 1000) +
                        resp_encode('MULTI') + resp_encode('CL.THROTTLE', 'k', 1, 1, 1000) +
                        resp_encode('DEL', 'k') + resp_encode('EXEC'))
            answers = [client.read() for _ in range(11)]
        self.assertEqual([str(answers[i])[:22] for i in (1, 5)], ['ERR value is not an in', 'ERR Zero rates are not'])
        self.assertEqual([answers[i][0] for i in (0, 2, 6)], [0, 0, 0])
        self.assertEqual((answers[3], answers[4], answers[10][0][0], answers[10][1]), ('PONG', 1, 0, 1))

    def test_without_the_engine(self):
        for policy, limited in (('open', 0), ('closed', 1)):
            with self.subTest(policy=policy):
                self.start(more=f', on_failure: {policy}')
                self.ask(0, 'CL.THROTTLE', 'k', 0, 1, 1000)
                self.redis.kill()
                self.assertEqual(self.ask(0, 'CL.THROTTLE', 'k', 0, 1, 1000)[0], limited)
                self.assertIn('did not answer', str(self.ask(0, 'DEL', 'k')))
                self.assertGreater(nodes_of(self.nodes[0])['sharing'][f'fallback_{policy}'], 0)
                self.redis.start()

    def test_kept_over_a_restart_of_all_nodes(self):
        self.start()
        self.assertEqual(self.ask(0, 'CL.THROTTLE', 'k', 0, 1, 100000)[0], 0)
        for node in self.nodes:
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()
        self.start()
        self.assertEqual(self.ask(2, 'CL.THROTTLE', 'k', 0, 1, 100000)[0], 1)


class Configuration(unittest.TestCase):
    def test_what_cannot_be_kept_is_refused_at_its_place(self):
        engine = 'engine: { redis: { servers: ["127.0.0.1:1"] } }\ncluster_secret: ' + SECRET + '\n'
        for text, error in ((engine + 'cl_throttle: { engine: redis, sharing: leased }', '3:40: cl_throttle: sharing must'),
                            ('cl_throttle: { engine: redis }', '1:24: cl_throttle: engine: redis needs'),
                            ('cl_throttle: { on_failure: open }', '1:28: cl_throttle: on_failure is only for'),
                            (engine + 'cl_throttle: { engine: memory, deadline: 1s }', '3:42: cl_throttle: deadline is')):
            with self.subTest(text=text):
                told = subprocess.run([BUILD / 'weir', 'serve', '--check', '/dev/stdin'], input=text, encoding='utf-8',
                                      capture_output=True, timeout=60, check=False)
                self.assertEqual(told.returncode, 2)
                self.assertIn(error, told.stdout + told.stderr)


if __name__ == '__main__':
    unittest.main()
