#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rollout to 10 % of the keys, to 50 %, to all, and back, under load on 200 keys. Key by key: what was admitted is never
more than a bucket with the larger rate and the larger burst would have admitted, over all nodes that share the limit (by
node, too, where each keeps its part alone); no
key that is asked for waits longer than the larger burst takes to come back at the smaller rate; and each key is admitted
again and again at each step."""
import bisect
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

from redis_server import Redis, wait_for
from test_rules_http import ask
from weir_server import BUILD, Resp, Weir, resp_encode

KEYS = 200
AUTH = 'auth: { tokens: [ { name: deploy, secret: 0123456789abcdef, rights: [admin, metrics] } ] }\n'
SMALL, LARGE = (4, 3), (8, 10)  # units in a second, and the burst
PROGRESS = 4                    # so often each key is admitted before the next step
PAUSE_S = 0.03
DEADLINE_S = 240                # for what comes in a few seconds
COMMANDS = b''.join(resp_encode('WEIR.CHECK', 1, 'user', f'user-{key}') for key in range(KEYS))
# A rate is at most a thousandth below what it says; and two clocks are compared, which may be slewed.
TOLERANCE = 0.002


def rules(numbers, more):
    """`more`: of the configuration. What two nodes keep by halves has twice the numbers."""
    shared, times = 'engine' in more, 2 if 'cluster' in more and 'engine' not in more else 1
    return ('limits:\n  - name: api # of people\n    key: [user]\n'
            f'    rate: {times * numbers[0]}/s\n    burst: {times * numbers[1]}\n' +
            ('    on_failure: closed\n    deadline: 10s\n' if shared else '    sharing: split\n' if times == 2 else ''))


class Load(threading.Thread):
    """Asks one node for each key in turn, again and again. Of each answer it keeps when it was asked for at the earliest,
    when it was there at the latest, whether it is yes, and the capacity by which it was decided."""

    def __init__(self, weir):
        super().__init__()
        self.weir, self.on, self.errors = weir, True, []
        self.answers = [[] for _ in range(KEYS)]
        self.admitted = [0] * KEYS
        self.start()

    def round(self, connection):
        begun = time.monotonic()
        connection.send(COMMANDS)
        told = [connection.read() for _ in range(KEYS)]
        ended = time.monotonic()
        for key, one in enumerate(told):
            if isinstance(one, Exception) or one[0] not in (0, 1) or one[2] not in (SMALL[1], LARGE[1]):
                self.errors.append(one)
                continue
            self.answers[key].append((begun, ended, one[0], one[2]))
            self.admitted[key] += one[0]

    def run(self):
        try:
            with Resp(self.weir.resp, timeout_s=120) as connection:
                while self.on:
                    self.round(connection)
                    time.sleep(PAUSE_S)
        except OSError as error:
            self.errors.append(error)

    def end(self):
        self.on = False
        self.join()


def most_minted(answers):
    """By how much the admitted ones are above what the larger bucket allows, over the worst span of time."""
    worst = -float('inf')
    admitted = sorted((begun, ended) for begun, ended, yes, _ in answers if yes)
    for first, (begun, _) in enumerate(admitted):
        until = begun
        for count, (_, ended) in enumerate(admitted[first:], 1):
            until = max(until, ended)
            worst = max(worst, count - LARGE[1] - LARGE[0] * (until - begun) * (1 + TOLERANCE))
    return worst


def longest_wait(answers):
    """From a yes, or the first question, to a no with no yes between, as far as can be told: one that was under way may have
    been any time before it was there."""
    yeses = sorted((begun, ended) for begun, ended, yes, _ in answers if yes)
    begins = [begun for begun, _ in yeses]
    latest = [min(begun for begun, *_ in answers)]  # [n]: when the last of the first n yeses was there
    for _, ended in yeses:
        latest.append(max(latest[-1], ended))
    return max((begun - latest[bisect.bisect_right(begins, ended)] for begun, ended, yes, _ in answers if not yes),
               default=0)


class Rollout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rollout-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.nodes, self.loads, self.version = [], [], 0

    def begin(self, more, names):
        text = f'rules: {{ store: "sqlite:{self.folder}/rules.db", timeout: 60s }}\n{AUTH}{more}'
        self.config = self.folder / 'weir.yaml'
        self.config.write_text(text, encoding='utf-8')
        self.goal = self.folder / 'rules.yaml'
        self.goal.write_text(rules(self.base, more), encoding='utf-8')
        self.verb('apply', self.goal)
        self.goal.write_text('# from version 1\n' + rules(self.target, more), encoding='utf-8')
        for name in names:
            weir = Weir(text, arguments=('--node', name) if name else ())
            self.addCleanup(weir.stop)
            self.nodes.append(weir)

    def verb(self, verb, *words):
        """A change of the rules, and until all nodes decide by it."""
        subprocess.run([str(BUILD / 'weir'), 'rules', verb, '--config', str(self.config), '--comment', 'why',
                        *map(str, words)], check=True, capture_output=True, timeout=DEADLINE_S,
                       env=dict(os.environ, LOGNAME='grace'))
        self.version += 1
        for weir in self.nodes:
            wait_for(lambda weir=weir: ask(weir, 'GET', '/v1/limits', seen=self.version)[0] == 200,
                     f'version {self.version} is not followed', DEADLINE_S)

    def progress(self):
        """Each key is admitted some times more, whatever node it is asked at."""
        before = [sum(load.admitted[key] for load in self.loads) for key in range(KEYS)]
        wait_for(lambda: all(sum(load.admitted[key] for load in self.loads) >= before[key] + PROGRESS
                             for key in range(KEYS)), 'a key starves', DEADLINE_S)

    def by_target(self):
        """The keys that a node decides by the target: the same at all nodes."""
        told = []
        for weir in self.nodes:
            with Resp(weir.resp) as connection:
                told.append(frozenset(key for key in range(KEYS) if
                                      connection.ask('WEIR.PEEK', 1, 'user', f'user-{key}')[2] == self.target[1]))
        self.assertEqual(len(set(told)), 1, [len(one) for one in told])
        return told[0]

    def settled(self, count):
        """Nodes hear of a newer definition within a second."""
        wait_for(lambda: self.agree(count), 'nodes do not agree which keys are in', DEADLINE_S)
        return self.by_target()

    def agree(self, count):
        try:
            return count[0] <= len(self.by_target()) <= count[1]
        except AssertionError:
            return False

    def roll(self):
        self.loads = [Load(weir) for weir in self.nodes for _ in range(2)]
        try:
            self.progress()
            before = frozenset()
            for percent, count in ((10, (5, 40)), (50, (70, 130)), (100, (KEYS, KEYS))):
                self.verb('rollout', percent, self.goal)
                among = self.settled(count)
                self.assertLessEqual(before, among)
                print(f'{percent} %: {len(among)} of {KEYS} keys')
                before = among
                self.progress()
            self.verb('rollback', 1)
            self.settled((0, 0))
            self.progress()
        finally:
            for load in self.loads:
                load.end()
        self.judge()

    def judge(self, loads=None):
        """Over these loads together, or over all."""
        loads = loads or self.loads
        answers = [sum((load.answers[key] for load in loads), []) for key in range(KEYS)]
        self.assertEqual([load.errors[:3] for load in loads], [[]] * len(loads))
        minted = {key: most_minted(one) for key, one in enumerate(answers)}
        waits = {key: longest_wait(one) for key, one in enumerate(answers)}
        yes = sum(sum(load.admitted) for load in loads)
        print(f'{sum(map(len, answers))} requests, {yes} admitted; at the most {max(minted.values()):.2f} above the larger '
              f'bucket; longest wait {max(waits.values()):.2f} s')
        self.assertLess(max(minted.values()), 0.01, collections.Counter(minted).most_common(3))
        self.assertLess(max(waits.values()), (LARGE[1] + 1) / SMALL[0] * (1 + TOLERANCE) + 0.05)


class OneNode(Rollout):
    def test_to_larger_numbers_and_back(self):
        self.base, self.target = SMALL, LARGE
        self.begin('', ('',))
        self.roll()

    def test_to_smaller_numbers_and_back(self):
        self.base, self.target = LARGE, SMALL
        self.begin('', ('',))
        self.roll()


class TwoNodes(Rollout):
    """They share the limit by Redis (`exact`)."""

    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        self.more = ('cluster: { nodes: [ a, b ] }\ncluster_secret: 000102030405060708090a0b0c0d0e0f\n'
                     f'engine: {{ redis: {{ servers: ["127.0.0.1:{self.redis.port}"] }} }}\n')

    def test_to_larger_numbers_and_back(self):
        self.base, self.target = SMALL, LARGE
        self.begin(self.more, ('a', 'b'))
        self.roll()

    def test_to_smaller_numbers_and_back(self):
        self.base, self.target = LARGE, SMALL
        self.begin(self.more, ('a', 'b'))
        self.roll()


class ByNode(Rollout):
    """First at one node, then at both, and back; each keeps its half of the limit alone, and is judged alone."""

    def one_by_one(self):
        self.begin('cluster: { nodes: [ a, b ] }\n', ('a', 'b'))
        self.loads = [Load(weir) for weir in self.nodes for _ in range(2)]
        try:
            self.progress()
            for nodes, deciding in ((['a'], 1), (['a', 'b'], 2), (None, 0)):
                self.step(nodes)
                wait_for(lambda deciding=deciding: self.deciding() == [self.target[1]] * deciding +
                         [self.base[1]] * (2 - deciding), f'{nodes} do not decide by it', DEADLINE_S)
                self.progress()
        finally:
            for load in self.loads:
                load.end()
        self.judge(self.loads[:2])
        self.judge(self.loads[2:])

    def step(self, nodes):
        """The target for some nodes; None: the base for all."""
        if nodes:
            self.goal.write_text(f'# from version {self.version}\nnodes: {json.dumps(nodes)}\n' + rules(self.target, 'cluster'),
                                 encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply' if nodes else 'rollback', '--config', str(self.config), '--comment',
                        'why', str(self.goal) if nodes else '1'], check=True, capture_output=True, timeout=DEADLINE_S)
        self.version += 1

    def deciding(self):
        """The burst of each node."""
        told = []
        for weir in self.nodes:
            with Resp(weir.resp) as connection:
                told.append(connection.ask('WEIR.PEEK', 1, 'user', 'user-0')[2])
        return told

    def progress(self):
        """At each node."""
        before = [[load.admitted[key] for key in range(KEYS)] for load in self.loads]
        wait_for(lambda: all(sum(load.admitted[key] - was[key] for load, was in pair) >= PROGRESS
                             for pair in (list(zip(self.loads, before))[:2], list(zip(self.loads, before))[2:])
                             for key in range(KEYS)), 'a key starves', DEADLINE_S)

    def test_to_larger_numbers_and_back(self):
        self.base, self.target = SMALL, LARGE
        self.one_by_one()

    def test_to_smaller_numbers_and_back(self):
        self.base, self.target = LARGE, SMALL
        self.one_by_one()


if __name__ == '__main__':
    unittest.main(verbosity=2)
