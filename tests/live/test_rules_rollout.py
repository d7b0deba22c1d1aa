#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rule set that goes into force for 10 % of the keys, for 50 %, for all, and back: what is stored and told, as
docs/rule-stores.md has it."""
import json
import subprocess
import unittest

from redis_server import wait_for
from test_rules_http import AUTH, ask
from test_rules_versions import Base
from weir_server import BUILD, Resp, Weir

RULES = '''# ours
limits:
  - name: api # of people
    key: [user]
    rate: 10/day
    burst: 5
  - { name: all, rate: 9/s }
'''
AT_10 = RULES.replace('    rate: 10/day', '    rollout: { percent: 10, rate: 20/day }\n    rate: 10/day')
GOAL = RULES.replace('10/day', '20/day')


class Steps(Base):
    def roll(self, percent, text, *arguments, comment='why', code=0):
        return self.run_verb('rollout', '--comment', comment, *arguments, percent, '-', stdin=text, code=code)

    def test_from_ten_percent_to_all_and_back(self):
        self.apply(RULES)
        goal = self.run_verb('show').replace('10/day', '20/day')
        self.assertEqual(self.roll(10, goal, '--dry-run'), 'would change: api 20/day burst 5 for 10 % of its keys\n')
        self.assertEqual(self.roll('10%', goal, '--author', 'ada', comment='a tenth'),
                         'version 2: api 20/day burst 5 for 10 % of its keys\n')
        self.assertEqual(self.run_verb('show'), '# from version 2\n' + AT_10)
        listed = json.loads(self.run_verb('list', '--json'))
        rollout = {'percent': 10, 'mode': 'enforce', 'rate': '20/day', 'capacity': 5}
        self.assertEqual([(one['overrides'], one['rollout']) for one in listed], [(0, rollout), (0, None)])
        self.assertRegex(self.run_verb('list'), r'api .* 10 %: 20/day\nall .* none\n')
        self.assertIn('lets 9 pass at once', self.checked())
        self.assertEqual(self.roll('10.0', goal), 'nothing to do: version 2 says the same\n')
        self.assertEqual(self.roll(12.5, goal), 'version 3: api 20/day burst 5 for 10 % -> 12.5 % of its keys\n')
        self.assertEqual(self.roll(100, goal),
                         'version 4: api 10/day burst 5 -> 20/day burst 5 (the rollout to 12.5 % of its keys ended)\n')
        self.assertEqual(self.run_verb('show'), '# from version 4\n' + GOAL)
        self.assertEqual(self.roll(100, goal), 'nothing to do: version 4 says the same\n')
        self.assertIn('version 5', self.run_verb('rollback', '--comment', 'too many', 1))
        told = [(one['version'], one['author'], one['comment'], one['changes']) for one in self.history()]
        self.assertEqual(told[3], (2, 'ada', 'a tenth', 'api 20/day burst 5 for 10 % of its keys'))
        self.assertIn('version 5 is the newest, and this was made from 1', self.roll(10, goal, code=1))  # who rolled back meant it
        self.assertEqual(self.roll(10, goal, '--from', '5'), 'version 6: api 20/day burst 5 for 10 % of its keys\n')

    def test_what_somebody_else_changed_is_not_lost(self):
        self.assertIn('there is none yet', self.roll(10, GOAL, code=2))
        self.apply(RULES)
        goal = self.run_verb('show').replace('10/day', '20/day')
        self.assertIn('--from 1 is the newest', self.roll(10, GOAL, code=2))
        self.roll(10, GOAL, '--from', '1')
        self.apply(self.run_verb('show').replace('9/s', '8/s'))
        self.assertIn('version 3 is the newest, and this was made from 1', self.roll(50, goal, code=1))
        self.assertIn('which is not there yet', self.roll(50, GOAL, '--from', '7', code=1))
        self.assertEqual(len(self.history()), 3)

    def test_another_rollout_is_not_lost(self):
        """Two people begin with the same version, and roll out two things."""
        self.apply(RULES)
        shown = self.run_verb('show')
        self.roll(10, shown.replace('10/day', '20/day'))
        self.assertIn('version 2 is the newest, and this was made from 1', self.roll(10, shown.replace('10/day', '30/day'), code=1))
        self.assertIn('version 2 is the newest', self.roll(100, shown.replace('burst: 5', 'burst: 7'), code=1))
        self.assertIn('version 3: api 30/day', self.roll(10, shown.replace('10/day', '30/day'), '--from', '2'))

    def test_what_cannot_be_rolled_out_is_told_and_not_stored(self):
        self.apply(RULES)
        shown = self.run_verb('show')
        self.assertIn('"nodes" are others than now; a rollout changes rate, burst and mode alone',
                      self.roll(10, shown.replace('10/day', '20/day') + 'nodes: [a]\n', code=2))
        self.assertIn('-:8:5: limit "new" is not there now; a rollout changes rate, burst and mode alone: apply that',
                      self.roll(10, shown + '  - { name: new, rate: 1/s }\n', code=2))
        self.assertIn('limit "all" has no key, and one counter', self.roll(10, shown.replace('9/s', '8/s'), code=2))
        self.assertIn('has another "key" than now', self.roll(10, shown.replace('[user]', '[ip]'), code=2))
        self.assertIn('limit "all" is gone', self.roll(100, shown.replace('  - { name: all, rate: 9/s }\n', ''), code=2))
        self.assertIn('rate "1" must be', self.roll(10, shown.replace('10/day', '1'), code=2))
        for percent in ('0', '100.1', '1.25', 'ten', '', '%'):
            self.assertIn('must be a percentage of the keys, 0.1 to 100', self.roll(percent, shown, code=2))
        self.assertIn('wrong arguments', self.run_verb('rollout', '--comment', 'why', 10, code=2))
        self.assertIn('say why', self.run_verb('rollout', 10, '-', stdin=shown, code=2))
        self.assertEqual(len(self.history()), 1)

    def test_a_node_that_starts_anew_knows_who_is_in(self):
        """And so does weir explain."""
        secret = 'cluster_secret: 000102030405060708090a0b0c0d0e0f\n'
        self.config.write_text(self.config.read_text(encoding='utf-8') + secret, encoding='utf-8')
        self.apply(RULES)
        self.roll(30, RULES.replace('burst: 5', 'burst: 6'), '--from', '1')
        self.assertIn('lets 6 pass at once of each key (by the rollout in line 5)', self.checked())
        told = []
        for _ in range(2):
            with Weir(self.config.read_text(encoding='utf-8')) as weir, Resp(weir.resp) as client:
                told.append([client.ask('WEIR.PEEK', 1, 'user', f'user-{i}')[2] for i in range(100)])
        explained = [json.loads(self.explain(f'user=user-{i}'))[0] for i in range(0, 100, 10)]
        self.assertEqual(told[0], told[1])
        self.assertEqual(set(told[0]), {5, 6})
        self.assertEqual([one['capacity'] for one in explained], told[0][::10])
        self.assertEqual([one['in_rollout'] for one in explained], [capacity == 6 for capacity in told[0][::10]])

    def checked(self):
        return subprocess.run([str(BUILD / 'weir'), 'rules', 'check', str(self.config)], capture_output=True,
                              encoding='utf-8', timeout=120, check=True).stdout

    def explain(self, *attributes):
        return subprocess.run([str(BUILD / 'weir'), 'explain', '--config', str(self.config), '--json', *attributes],
                              capture_output=True, encoding='utf-8', timeout=120, check=True).stdout

    def test_over_http(self):
        self.config.write_text(self.config.read_text(encoding='utf-8') + AUTH, encoding='utf-8')
        self.apply(RULES)
        with Weir(self.config.read_text(encoding='utf-8')) as weir:
            goal = ask(weir, 'GET', '/v1/rules')[2].replace('10/day', '20/day')

            def roll(text=goal, **rest):
                return ask(weir, 'POST', '/v1/rules/rollout', text.encode(), **{'comment': 'why', **rest})
            said = {'version': 1, 'stored': False, 'changes': 'api 20/day burst 5 for 12.5 % of its keys'}
            self.assertEqual(roll(percent=12.5, dry_run='true')[::2], (200, said))
            self.assertEqual(roll(percent=10)[2]['version'], 2)
            self.assertEqual(ask(weir, 'GET', '/v1/rules')[2], '# from version 2\n' + AT_10)
            wait_for(lambda: ask(weir, 'GET', '/v1/limits', seen=2)[0] == 200, 'it is not followed')
            limits = ask(weir, 'GET', '/v1/limits')[2]['limits']
            rollout = {'percent': 10, 'mode': 'enforce', 'rate': '20/day', 'capacity': 5}
            self.assertEqual([one.get('rollout') for one in limits], [rollout, None])
            status, _, said = roll(goal.replace('[user]', '[ip]'), percent=50)
            self.assertEqual((status, said['errors'][0]['line'], said['detail']),
                             (400, 3, 'nothing was stored: this cannot be rolled out; errors says where and why'))
            for percent in ('0', '101', 'x', '', '1234567890'):
                self.assertEqual(roll(percent=percent)[0], 400)
            self.assertEqual(roll()[0], 400)
            self.assertEqual(roll(GOAL, percent=50)[0], 428)
            self.assertEqual(roll(GOAL, percent=50, match='"9"')[0], 412)
            self.assertEqual(roll(percent=50, token='')[0], 401)
            self.assertEqual(ask(weir, 'GET', '/v1/rules/rollout')[0], 405)
            self.assertEqual(roll(percent=100)[2]['version'], 3)
            self.assertEqual(ask(weir, 'GET', '/v1/rules')[2], '# from version 3\n' + GOAL)


if __name__ == '__main__':
    unittest.main(verbosity=2)
