#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is right in a configuration and still surprises is said wherever the operator looks, in one sentence, once."""
import json
import pathlib
import signal
import tempfile
import unittest

import cluster
from redis_server import wait_for
from test_cli import weir
from weir_server import Weir


class Notes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, 'weir.yaml')

    def test_processes_that_nobody_named_are_told_of_once(self):
        engine = 'cluster_secret: 00112233445566778899aabbccddeeff\nengine: { redis: { servers: [127.0.0.1:1] } }\n'
        one = 'takes itself for the only one at the engine: if there are several, '
        alone = 'limits are counted in this process alone: each further weir with this file admits as much again'
        local = '{ name: a, rate: 5/s }, { name: b, rate: 6/s, key: [user] }'
        closed = '{ name: a, rate: 5/s, on_failure: closed }'
        cases = {f'{engine}limits: [ {local} ]': f'{one}each outage adds the whole of a limit with on_failure: local',
                 f'{engine}limits: [ {closed}, {{ name: b, rate: 6/s, key: [user], sharing: batched, '
                 'on_failure: closed } ]':
                     f'{one}a batched limit overshoots by its slack for each of them',
                 f'{engine}cl_throttle: {{ engine: redis }}\nlimits: [ {closed} ]': f'{one}each outage',
                 f'{engine}limits: [ {closed} ]': None,
                 f'{engine}cluster: {{ nodes: [ a, b ], node: a }}\nlimits: [ {local} ]': None,
                 f'limits: [ {local} ]': alone, 'limits: []': None,
                 f'cluster: {{ nodes: [ a ], node: a }}\nlimits: [ {local} ]': None}
        for text, note in cases.items():
            with self.subTest(text):
                self.file.write_text(text + '\n', encoding='utf-8')
                checked = weir('rules', 'check', str(self.file)).stdout
                notes = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['notes']
                self.assertIn(' 0 warnings', checked)
                self.assertEqual(checked.count(one) + checked.count(alone), 1 if note else 0)
                self.assertEqual(len(notes), 1 if note else 0)
                shown = [weir('explain', '--config', str(self.file), 'user=ada').stdout,
                         weir('serve', '--check', str(self.file)).stdout]
                self.assertEqual([told.count(one) for told in shown], [1, 1] if note and note != alone else [0, 0])
                if note:
                    self.assertIn(note, checked)
                    self.assertIn(note, notes[0])
        self.file.write_text(f'{engine}limits: [ {local} ]\n', encoding='utf-8')
        self.assertIn('adds to the overshoot at most 5 a process, and what', weir('rules', 'check', str(self.file)).stdout)
        with Weir(f'{engine}limits: [ {local} ]\n') as server:
            self.assertEqual(server.output().count(one), 1)

    def test_json_tells_an_error_whose_text_was_cut_within_a_character(self):
        self.file.write_text(f'limits:\n  - name: api\n    rate: a{"é" * 100}\n', encoding='utf-8')
        errors = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['errors']
        self.assertIn('must be COUNT/PERIOD', errors[0]['message'])

    def test_a_listener_where_nobody_can_change_rules_is_told(self):
        token = '{ name: a, secret: 0123456789abcdef0123456789abcdef, rights: [%s] }'
        store = f'rules: {{ store: "sqlite:{self.file}.db" }}\n'
        rules = self.file.with_name('rules.yaml')
        rules.write_text('limits: []\n', encoding='utf-8')
        self.file.write_text(store, encoding='utf-8')
        weir('rules', 'apply', '--config', str(self.file), '--comment', 'first', str(rules))
        for text, why in ((f'auth: {{ tokens: [ {token % "admin"} ] }}\nlimits: []\n', 'they stand in this file'),
                          (f'auth: {{ tokens: [ {token % "all"} ] }}\n{store}', 'no token has the right admin'),
                          (store, 'no token has the right admin'),
                          (f'auth: {{ tokens: [ {token % "admin"} ] }}\n{store}', None)):
            with self.subTest(text):
                note = 'nobody can change rules at listen: { admin }'
                self.file.write_text(text + 'listen: { admin: "127.0.0.1:0" }\n', encoding='utf-8')
                for words in ('rules', 'check'), ('serve', '--check'):
                    said = weir(*words, str(self.file)).stdout
                    self.assertEqual(f'{note}: {why}' in said, why is not None, said)
                with Weir(self.file.read_text(encoding='utf-8')) as server:
                    self.assertEqual(server.output().count(note), why is not None)

    def test_that_nobody_is_asked_for_a_token_is_said(self):
        """Of tokens that no listener asks for, wherever the operator looks, once; and of no others."""
        note = 'nobody is asked for a token: all listeners are on loopback'
        tokens = 'tokens: [{ name: a, secret: 0123456789abcdef0123456789abcdef }]'
        cases = {f'auth: {{ {tokens} }}\n': 1, f'auth: {{ required: always, {tokens} }}\n': 0,
                 f'auth: {{ required: never, {tokens} }}\n': 0, '': 0,
                 f'auth: {{ {tokens} }}\nlisten: {{ http: "0.0.0.0:1" }}\n': 0,
                 f'auth: {{ {tokens} }}\nlisten: {{ resp: unix:/x/y, http: off }}\n': 1}
        for text, count in cases.items():
            with self.subTest(text):
                self.file.write_text(text + 'limits: []\n', encoding='utf-8')
                checked = weir('rules', 'check', str(self.file))
                self.assertEqual((checked.returncode, checked.stdout.count(note)), (0, count))
                self.assertIn(' 0 warnings', checked.stdout)
                notes = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['notes']
                self.assertEqual(sum(note in one for one in notes), count)
                self.assertEqual(weir('serve', '--check', str(self.file)).stdout.count(note), count)
        with Weir(next(iter(cases)) + 'limits: []\n') as server:
            self.assertEqual(server.output().count(note), 1)
            self.assertIn('always', server.output())
        with Weir('limits: []\n') as server:
            for text, count in (next(iter(cases)), 1), (next(iter(cases)) + '# as before\n', 1), ('', 1):
                reloads = server.output().count('info reloaded:')
                server.config.write_text(text + 'limits: []\n', encoding='utf-8')
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda seen=reloads: server.output().count('info reloaded:') > seen, 'no reload is told')
                self.assertEqual(server.output().count(note), count)


class Bursts(unittest.TestCase):
    def test_what_passes_at_once_is_told(self):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            file.write("""limits:
  - { name: keyed, key: [user], rate: 100/min, burst: 20 }
  - { name: all, rate: 50/s }
  - { name: window, key: [user], rate: 300/day, algorithm: fixed_window }
  - name: more
    key: [user]
    rate: 10/min
    cost: 2
    overrides: [ { user: ada, rate: 600/min } ]
  - { name: shaped, key: [user], rate: 10/min, algorithm: leaky_bucket }
  - { name: at-once, key: [user], rate: 10, algorithm: concurrency }
  - { name: bytes, key: [user], rate: 10/min, cost: size }
  - { name: blocked, key: [user], rate: 0/min }
  - { name: unused, key: [user], rate: 5/min, mode: off }
""")
            file.flush()
            lines = weir('rules', 'check', '--connections', '100', file.name).stdout.splitlines()
            self.assertEqual([line.split(': limit ')[1] for line in lines if ' pass at once' in line], [
                '"keyed" lets 20 pass at once of each key, 12s of its rate; 100 connections bear 5 such keys',
                '"all" lets 50 pass at once, 1s of its rate',
                '"window" lets 300 pass at once of each key, 1d of its rate, and as many again when the window turns; '
                'with 100 connections 200 of them wait for one',
                '"more" lets 300 pass at once of each key (by the override in line 9), 1min of its rate; '
                'with 100 connections 200 of them wait for one'])
            told = json.loads(weir('rules', 'check', '--json', file.name).stdout)['bursts']
            self.assertEqual([(one['limit'], one['at_once'], one['seconds_of_rate']) for one in told],
                             [('keyed', 20, 12.0), ('all', 50, 1.0), ('window', 300, 86400.0), ('more', 300, 60.0)])
            for bad in '0', '1000001', 'x':
                self.assertEqual(weir('rules', 'check', '--connections', bad, file.name).returncode, 2)

    def test_a_file_of_many_limits_is_not_told_one_by_one(self):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            file.write('limits:\n' + ''.join(f'  - {{ name: l{i}, match: {{ a: v{i} }}, rate: 5/s }}\n' for i in range(25)))
            file.flush()
            out = weir('rules', 'check', file.name).stdout
            self.assertEqual(out.count(' pass at once,'), 20)
            self.assertIn('what 5 more limits let pass at once is in --json', out)


class Never(unittest.TestCase):
    def test_of_what_a_gossiping_node_never_admits_the_slack_is_named(self):
        text = cluster.config('  - { name: told, rate: 100/min, sharing: gossip, slack: 7 }\n', names='ab')
        with cluster.Nodes(text, names='ab') as nodes:
            cluster.wait_for(lambda: cluster.get_json(nodes['a'].http, '/v1/nodes')['gossip']['synced'])
            for cost, named in ((8, 'slack, 7'), (101, 'slack, 7')):
                result = weir('check', '--server', f'127.0.0.1:{nodes["a"].http}', '--cost', str(cost))
                self.assertEqual(result.stdout.splitlines()[:2],
                                 ['refused', f'told never admits it: it costs more than the {named}'])


if __name__ == '__main__':
    unittest.main()
