#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""POST /v1/rules/replay: a text is tried on the last hour of the node, by the real limiter; what comes out is what the same
requests get from a server with that text, and what is not known is said."""
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

from cluster import metrics
from redis_server import Redis, wait_for
from test_rules_http import ADMIN, AUTH, OTHER, ask
from weir_server import BUILD, Weir

# No window ends in a test, and nothing comes back: what is refused depends on no clock.
RULES = '''limits:
  - { name: api, match: { kind: api }, key: [user], rate: 10/day, overrides: [ { user: vip, rate: 100/day } ] }
  - { name: window, match: { kind: window }, key: [user], rate: 10/year, algorithm: fixed_window }
  - { name: dear, match: { kind: dear }, key: [user], rate: 30/day, cost: size }
  - { name: all, match: { kind: all }, rate: 5/day }
  - { name: tried, match: { kind: tried }, key: [user], rate: 2/day, mode: shadow }
  - { name: silent, match: { kind: silent }, key: [user], rate: 2/day, mode: "off" }
  - { name: narrow, match: { kind: both }, key: [user], rate: 3/day }
  - { name: wide, match: { kind: both }, key: [user], rate: 7/day }
  - { name: permits, match: { kind: permits }, key: [user], rate: 2, algorithm: concurrency }
  - { name: gone, match: { kind: gone }, key: [user], rate: 2/day }
  - { name: moved, match: { kind: moved }, key: [user], rate: 2/day }
'''


class Case(unittest.TestCase):
    def serve(self, rules=RULES, more='', **options):
        folder = tempfile.TemporaryDirectory(prefix='weir-replay-')
        self.addCleanup(folder.cleanup)
        config = f'rules: {{ store: "sqlite:{folder.name}/rules.db", timeout: 60s }}\n{AUTH}{more}'
        path = pathlib.Path(folder.name, 'weir.yaml')
        path.write_text(config, encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(path), '--comment', 'first', '-'],
                       input=rules.encode(), capture_output=True, timeout=120, check=True)
        weir = Weir(config, **options)
        self.addCleanup(weir.stop)
        return weir

    def check(self, weir, cost=1, peek=False, **attributes):
        return ask(weir, 'POST', '/v1/check', json.dumps({'attributes': attributes, 'cost': cost, 'peek': peek}), token=OTHER)[0]

    def replay(self, weir, text, **options):
        time.sleep(1.1)  # the second that a request came in must be over
        status, _, said = ask(weir, 'POST', '/v1/rules/replay', text.encode(), **options)
        self.assertEqual(status, 200, said)
        return said, {one['limit']: one for one in said['limits']}


class Replay(Case):
    def test_other_numbers_for_the_same_requests(self):
        weir = self.serve()
        began = time.time()
        refused = {}

        def say(name, times, **attributes):
            for _ in range(times):
                refused[name] = refused.get(name, 0) + (self.check(weir, **attributes) == 429)
        for user in range(6):
            say('api', 15, kind='api', user=str(user))
            say('window', 4 * user, kind='window', user=str(user))
            say('dear', 5, kind='dear', user=str(user), size=3 * user)
            say('gone', 3, kind='gone', user=str(user))
            say('moved', 3, kind='moved', user=str(user))
        say('all', 9, kind='all')
        say('tried', 5, kind='tried', user='ada')
        say('both', 10, kind='both', user='ada')
        say('vip', 20, kind='api', user='vip')
        say('permits', 4, kind='permits', user='ada')
        self.check(weir, peek=True, kind='api', user='0')
        self.check(weir, cost=0, kind='api', user='0')
        self.assertEqual((refused['api'], refused['window'], refused['all'], refused['tried']), (30, 18, 4, 0))

        same, limits = self.replay(weir, RULES)
        sample = same['sample']
        self.assertEqual((sample['one_in'], sample['cut']), (1, False))
        self.assertTrue(1 <= sample['seconds'] <= time.time() - began + 2, sample)
        for name in ('api', 'window', 'dear', 'all', 'gone', 'moved'):
            one = limits[name]
            self.assertEqual([one['refused'], one['in_force'], one['text']], [refused[name]] * 3, one)
        self.assertEqual((limits['api']['keys'], limits['api']['asked'], limits['api']['left_out']), (7, 90, 20))
        self.assertEqual((limits['all']['keys'], limits['all']['asked']), (1, 9))
        self.assertEqual((limits['tried']['refused'], limits['tried']['text']), (3, 3))
        # What `narrow` refused was not charged to `wide`, and is not in its sample.
        self.assertEqual((limits['narrow']['asked'], limits['narrow']['refused'], limits['wide']['asked']), (10, 7, 3))

        text = RULES.replace('rate: 10/day,', 'rate: 13/day,').replace('10/year', '5/year').replace('rate: 30/day', 'rate: 60/day')
        text = text.replace('rate: 5/day', 'rate: 8/day').replace('rate: 2/day, mode: shadow', 'rate: 4/day')
        text = text.replace('rate: 2/day, mode: "off"', 'rate: 2/day')
        text = text.replace('match: { kind: moved }, key: [user]', 'match: { kind: moved }, key: [ip]')
        text = '\n'.join(line for line in text.splitlines() if 'name: gone' not in line) + '\n  - { name: fresh, key: [user], rate: 1/day }\n'
        _, limits = self.replay(weir, text)
        self.assertEqual({name: limits[name]['text'] for name in ('api', 'window', 'all', 'tried')},
                         {'api': 12, 'window': 3 + 7 + 11 + 15, 'all': 1, 'tried': 1})
        # Costs of 0, 3, 6, 9, 12 and 15, five times each; 60 a day.
        self.assertEqual((limits['dear']['in_force'], limits['dear']['text']), (0 + 0 + 0 + 2 + 3 + 3, 0 + 0 + 0 + 0 + 0 + 1))
        self.assertEqual((limits['fresh']['text'], limits['fresh']['asked'], limits['moved']['text'], limits['silent']['text'],
                          limits['permits']['text']), (None, 0, None, None, None))
        self.assertEqual((limits['gone']['text'], limits['gone']['refused']), (0, 6))

        def minds(name, what):
            self.assertTrue(any(what in one for one in limits[name]['notes']), limits[name])
        minds('fresh', 'it is new')
        minds('moved', 'another one')
        minds('silent', 'it is off: its requests were not counted')
        minds('permits', 'how long requests take')
        minds('gone', 'not in this text')
        minds('api', 'override')
        self.assertEqual(limits['window']['notes'], [])
        self.assertEqual(limits['fresh']['notes'], ['it is new: which requests would meet it is not known'])
        self.assertEqual(list(limits)[-1], 'gone')
        self.assertNotIn('fresh', ' '.join(metrics(weir.http)), 'a text that was only tried leaves its names')

    def test_the_times_of_the_sample_are_those_of_the_requests(self):
        """A bucket that refills: spread over some seconds, more passes than at once."""
        weir = self.serve('limits:\n  - { name: api, key: [user], rate: 1/day, burst: 100 }\n')
        for _ in range(6):
            for _ in range(4):
                self.check(weir, user='ada')
            time.sleep(1)
        rates = {}
        for rate in ('1000/s', '2/s', '1/day'):
            _, limits = self.replay(weir, f'limits:\n  - {{ name: api, key: [user], rate: {rate}, burst: 3 }}\n')
            rates[rate] = limits['api']['text']
        # 4 requests within a fraction of a second, in each of six seconds and more: with 2 a second come back some 10 and no more
        # than it takes.
        self.assertEqual((rates['1000/s'], rates['1/day']), (0, 21), rates)
        self.assertTrue(2 <= rates['2/s'] <= 14, rates)

    def test_what_nodes_share_is_kept_too(self):
        with Redis() as redis:
            more = (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\ncluster: {{ nodes: [a, b] }}\n'
                    f'cluster_secret: "{"5a" * 16}"\n')
            rules = 'limits:\n  - { name: api, key: [user], rate: 4/day, sharing: exact, deadline: 5s }\n'
            weir = self.serve(rules, more, arguments=('--node', 'a'))
            self.assertEqual([self.check(weir, user='ada') for _ in range(6)], [200] * 4 + [429] * 2)
            _, limits = self.replay(weir, rules.replace('4/day', '5/day'))
            one = limits['api']
            self.assertEqual((one['asked'], one['refused'], one['in_force'], one['text']), (6, 2, 2, 1))
            self.assertTrue(any('other nodes' in note for note in one['notes']), one)


class InForce(Case):
    """Beside the text stands what this node decides by, whatever the newest version is."""

    def apply(self, weir, rules, more=''):
        config = weir.config.read_text(encoding='utf-8') + more
        path = pathlib.Path(weir.folder.name, 'other.yaml')
        path.write_text(config, encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(path), '--comment', 'next', '--from', '1', '-'],
                       input=rules.encode(), capture_output=True, timeout=120, check=True)
        wait_for(lambda: ask(weir, 'GET', '/v1/limits')[2]['rules']['newest'] == 2, 'the newest version was not read')

    def both(self, weir, text):
        _, limits = self.replay(weir, text)
        return limits['api']['refused'], limits['api']['in_force'], limits['api']['text']

    def test_a_newest_that_this_node_cannot_use(self):
        rules = 'limits:\n  - { name: api, key: [user], rate: 4/day }\n'
        weir = self.serve(rules)
        self.assertEqual([self.check(weir, user='ada') for _ in range(6)], [200] * 4 + [429] * 2)
        self.apply(weir, rules.replace('4/day', '5/day, sharing: gossip, slack: 1'),
                   'cluster: { nodes: [ { name: a, gossip: "127.0.0.1:7001" }, { name: b, gossip: "127.0.0.1:7002" } ] }\n'
                   f'cluster_secret: "{"5a" * 16}"\n')
        self.assertEqual(ask(weir, 'GET', '/v1/limits')[2]['rules']['version'], 1)
        self.assertEqual(self.both(weir, rules.replace('4/day', '3/day')), (2, 2, 3))


class Asking(Case):
    def test_who_may_and_what_is_wrong(self):
        weir = self.serve()
        self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', RULES, token=None)[0], 401)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', RULES, token=OTHER)[0], 403)
        self.assertEqual(ask(weir, 'GET', '/v1/rules/replay')[0], 405)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', RULES, comment='why')[0], 400)
        status, _, said = ask(weir, 'POST', '/v1/rules/replay', RULES.replace('10/day', '10/dy'))
        self.assertEqual((status, said['errors'][0]['line']), (400, 2))
        self.assertEqual(ask(weir, 'GET', '/v1/rules/versions')[2]['versions'][0]['version'], 1, 'it stores nothing')
        said, limits = self.replay(weir, '# from version 1\n' + RULES)
        self.assertEqual({one['asked'] for one in limits.values()}, {0})

    def test_rules_of_a_file_are_not_tried(self):
        with Weir(AUTH + RULES) as weir:
            self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', RULES)[0], 404)

    def test_a_text_may_be_large_at_the_admin_listener(self):
        weir = self.serve(more='listen: { admin: "127.0.0.1:0" }\n')
        text = RULES + '#' * 200000 + '\n'
        self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', text, port=weir.port('admin'))[0], 200)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/replay', RULES)[0], 404)
        self.assertEqual(ask(weir, 'GET', '/v1/rules', port=weir.port('admin'), token=ADMIN)[0], 200)


if __name__ == '__main__':
    unittest.main()
