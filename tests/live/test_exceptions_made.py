#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir rules ban, level, reset, unban and exceptions, and the same over HTTP, as docs/exceptions.md and docs/http.md have them."""
import json
import subprocess
import unittest
import urllib.parse

from redis_server import wait_for
from test_rules_http import ADMIN, AUTH, OTHER, ask
from test_rules_store import check
from test_rules_versions import Base
from weir_server import BUILD, Weir

SHARED = '  - { name: all, rate: 10/day, key: [user, ip], missing: share, match: { route: /a }, levels: { plus: { rate: 20/day } } }\n'
RULES = ('limits:\n  - { name: api, rate: 10/day, key: [user] }\n  - { name: two, rate: 10/day, key: [user, ip] }\n'
         '  - { name: one, rate: 5/s, match: { route: /one } }\n'
         '  - { name: shy, rate: 10/day, key: [user], mode: shadow }\n'
         '  - { name: high, rate: 10/day, key: [user], match: { route: /h }, levels: { plus: { rate: 20/day }, low: { burst: 1 } } }\n'
         '  - { name: slots, rate: 3, algorithm: concurrency, lease: 1min, key: [user], match: { route: /s } }\n')
FAR = '2099-12-31T23:00:00Z'


class ByHand(Base):
    def setUp(self):
        super().setUp()
        self.apply(RULES)

    def change(self, verb, *arguments, comment='why', code=0):
        return self.run_verb(verb, '--comment', comment, *arguments, code=code)

    def exceptions(self, *arguments):
        return json.loads(self.run_verb('exceptions', '--json', *arguments))

    def test_who_when_why_and_until_when(self):
        self.assertEqual(self.run_verb('exceptions'), 'nobody is banned, has a level or was reset\n')
        self.assertEqual(self.change('ban', 'api', 'user=ada', comment='too fast'),
                         'change 1: api user=ada is banned for good\n')
        self.assertEqual(self.change('ban', '--until', FAR, '--author', 'ada', 'api', 'user=bob'),
                         'change 2: api user=bob is banned until 2099-12-31T23:00:00.000Z\n')
        self.assertRegex(self.change('ban', '--for', '6hour', 'one'), '^change 3: one is banned until 20')
        self.assertEqual(self.change('unban', 'api', 'user=ada', comment='has stopped'),
                         'change 4: api user=ada has no exception any more\n')
        self.assertEqual([(one['change'], one['what'], one['limit'], one['key'], one['author'], one['comment'])
                          for one in self.exceptions('--all')],
                         [(4, 'unban', 'api', {'user': 'ada'}, 'grace', 'has stopped'),
                          (3, 'ban', 'one', {}, 'grace', 'why'),
                          (2, 'ban', 'api', {'user': 'bob'}, 'ada', 'why'),
                          (1, 'ban', 'api', {'user': 'ada'}, 'grace', 'too fast')])
        self.assertEqual([one['change'] for one in self.exceptions()], [3, 2])
        self.assertEqual([one['change'] for one in self.exceptions('--count', 1)], [3])
        self.assertEqual([one['change'] for one in self.exceptions('api')], [2])
        self.assertEqual([one['change'] for one in self.exceptions('--all', 'api', 'user=ada')], [4, 1])
        self.assertEqual(self.exceptions('api', 'user=bob')[0]['until'], '2099-12-31T23:00:00.000Z')
        self.assertIn('why:   has stopped', self.run_verb('exceptions', '--all'))
        self.assertEqual(len(self.history()), 1)  # no version was made

    def test_levels(self):
        self.assertEqual(self.change('level', '--until', FAR, 'high', 'plus', 'user=ada', comment='has paid'),
                         'change 1: high user=ada has level plus until 2099-12-31T23:00:00.000Z\n')
        self.assertEqual(self.change('level', 'high', 'low', 'user=bob'),
                         'change 2: high user=bob has level low for good\n')
        self.change('ban', 'high', 'user=ada')
        self.assertEqual([(one['what'], one.get('level'), one['key']['user']) for one in self.exceptions('--all')],
                         [('ban', None, 'ada'), ('level', 'low', 'bob'), ('level', 'plus', 'ada')])
        self.assertEqual([one['change'] for one in self.exceptions()], [3, 2])  # a key has one
        self.change('level', 'high', 'plus', 'user=ada')
        self.assertRegex(self.run_verb('exceptions'), 'level plus  high user=ada  for good\n')
        self.change('unban', 'high', 'user=ada')
        self.assertEqual([one['change'] for one in self.exceptions()], [2])
        for arguments, why in ((('high', 'plsu', 'user=a'), 'level must be of limit "high", which has no level "plsu"; did you mean "plus"?'),
                               (('high', 'best', 'user=a'), 'has no level "best"; it has plus, low'),
                               (('api', 'plus', 'user=a'), 'has no level "plus"; it has none'),
                               (('nolimit', 'plus', 'user=a'), 'has no limit'), (('high', 'plus'), 'the whole key'),
                               (('high', 'a b', 'user=a'), 'must be the name of a level'), (('high',), 'which level')):
            with self.subTest(arguments):
                self.assertIn(why, self.change('level', *arguments, code=2))

    def test_resets(self):
        self.change('ban', 'api', 'user=ada')
        self.assertEqual(self.change('reset', 'api', 'user=ada', comment='our mistake'), 'change 2: api user=ada is fresh\n')
        self.assertEqual(self.change('reset', 'two', 'ip=2001:DB8::1', 'user=ada'), 'change 3: two ip=2001:DB8::1 user=ada is fresh\n')
        self.assertEqual([(one['change'], one['what'], one['key'], one['until'], one['comment']) for one in self.exceptions()],
                         [(3, 'reset', {'user': 'ada', 'ip': '2001:db8::'}, None, 'why'),
                          (2, 'reset', {'user': 'ada'}, None, 'our mistake'), (1, 'ban', {'user': 'ada'}, None, 'why')])
        self.assertRegex(self.run_verb('exceptions'), 'grace  reset  api user=ada\n  why:   our mistake')
        self.change('unban', 'api', 'user=ada')
        self.assertIn('nothing holds', self.change('unban', 'api', 'user=ada', code=1))  # a reset is not ended
        self.change('reset', 'api', 'user=ada')
        self.assertEqual([one['change'] for one in self.exceptions('api', 'user=ada')], [5])
        self.assertEqual([one['change'] for one in self.exceptions('--all', 'api', 'user=ada')], [5, 4, 2, 1])
        for arguments, why in ((('slots', 'user=ada'), 'gives permits, which are not reset'), (('nolimit', 'user=ada'), 'has no limit'),
                               (('api',), 'the whole key'), (('--for', '1s', 'api', 'user=ada'), "are a ban's"),
                               (('--until', FAR, 'api', 'user=ada'), "are a ban's"), ((), 'which limit')):
            with self.subTest(arguments):
                self.assertIn(why, self.change('reset', *arguments, code=2))
        self.assertEqual(len(self.exceptions('--all')), 5)

    def test_explain_tells_of_a_reset(self):
        self.change('reset', 'high', 'user=ada', comment='our mistake')
        self.change('level', 'high', 'plus', 'user=ada')
        self.change('reset', 'api', 'user=ada')
        told = self.explain('user=ada', 'route=/h')
        self.assertEqual((told['high']['exception']['what'], told['high']['capacity']), ('level', 20))
        reset = told['high']['reset']
        self.assertRegex(reset.pop('when'), r'^20..-..-..T..:..:..\.\d+Z$')
        self.assertEqual(reset, {'what': 'reset', 'change': 1, 'idle': False, 'author': 'grace', 'comment': 'our mistake'})
        self.assertNotIn('exception', told['api'])
        self.assertNotIn('reset', told['shy'])
        text = self.explain('user=ada', 'route=/h', json_too=False)
        self.assertRegex(text, r'level plus for good \(change 2.*\n +reset 20.*Z \(change 1 by grace: our mistake\)')
        self.assertNotIn('reset', self.explain('user=bob', 'route=/h', json_too=False))
        self.apply(RULES.replace('{ name: api, rate: 10/day,', '{ name: api, rate: 10, algorithm: concurrency, lease: 1min,'),
                   '--from', '1')
        self.assertTrue(self.explain('user=ada', 'route=/h')['api']['reset']['idle'])
        self.assertIn('does nothing: the limit gives permits', self.explain('user=ada', 'route=/h', json_too=False))

    def test_of_requests_that_lack_an_attribute_the_counter_is_reset(self):
        self.apply(RULES + SHARED, '--from', '1')
        self.assertEqual(self.change('reset', 'all', 'ip=10.0.0.1', 'user'), 'change 1: all ip=10.0.0.1 user (absent) is fresh\n')
        self.change('reset', 'all', 'user', 'ip')
        self.assertEqual([one['key'] for one in self.exceptions()],
                         [{'user': None, 'ip': None}, {'user': None, 'ip': '10.0.0.1'}])
        self.assertIn('reset  all user (absent) ip=10.0.0.1\n', self.run_verb('exceptions'))
        self.assertEqual([one['change'] for one in self.exceptions('all', 'user', 'ip=10.0.0.1')], [1])
        self.assertEqual(self.explain('ip=10.0.0.1', 'route=/a')['all']['reset']['change'], 1)
        self.assertNotIn('reset', self.explain('ip=10.0.0.1', 'user=', 'route=/a')['all'])
        for words, why in ((('two', 'user', 'ip'), 'limit "two" has no counter for requests that lack one (missing: share)'),
                           (('all', 'user'), 'the whole key of limit "all": user, ip')):
            self.assertIn(why, self.change('reset', *words, code=2))
        self.assertIn('must be ATTRIBUTE=VALUE', self.change('reset', 'all', 'user', '', code=2))
        for verb in ('ban', 'unban'):
            self.assertIn('"user" must be ATTRIBUTE=VALUE', self.change(verb, 'all', 'user', 'ip', code=2))
        self.assertEqual(len(self.exceptions('--all')), 2)

    def explain(self, *attributes, json_too=True):
        told = subprocess.run([str(BUILD / 'weir'), 'explain', '--config', str(self.config),
                               *(['--json'] if json_too else []), *attributes], capture_output=True, encoding='utf-8',
                              timeout=120, check=True).stdout
        return {one['limit']: one for one in json.loads(told)} if json_too else told

    def test_explain_tells_what_holds_for_the_keys_of_a_request(self):
        self.change('level', '--until', FAR, 'high', 'plus', 'user=ada', comment='has paid')
        self.change('ban', 'api', 'user=ada', comment='too fast')
        self.change('ban', 'shy', 'user=ada')
        told = self.explain('user=ada', 'route=/h')
        self.assertEqual((told['high']['level'], told['high']['capacity'], told['high']['line']), ('plus', 20, 6))
        self.assertEqual(told['high']['exception'], {'what': 'level', 'level': 'plus', 'change': 1, 'idle': False,
                                                     'until': '2099-12-31T23:00:00.000Z', 'author': 'grace',
                                                     'comment': 'has paid'})
        self.assertEqual([told[name]['exception']['idle'] for name in ('api', 'shy')], [False, True])
        self.assertIsNone(told['api']['exception']['until'])
        text = self.explain('user=ada', 'route=/h', json_too=False)
        self.assertRegex(text, r'high   applies: token_bucket 20/day burst 20 \(level plus, line 6\)\n'
                               r' +level plus until 2099-12-31T23:00:00.000Z \(change 1 by grace: has paid\)')
        self.assertIn('BANNED for good (change 2 by grace: too fast)', text)
        self.assertIn('which does nothing: the limit refuses nobody', text)
        told = self.explain('user=bob', 'route=/h')
        self.assertEqual([one.get('exception') for one in told.values()], [None] * len(told))
        self.change('level', 'high', 'low', 'user=bob')
        self.apply(RULES.replace(', low: { burst: 1 }', ''), '--from', '1')
        told = self.explain('user=bob', 'route=/h')['high']
        self.assertEqual((told.get('level'), told['exception']['idle']), (None, True))

    def test_a_level_that_is_gone_is_told(self):
        self.change('level', 'high', 'low', 'user=bob')
        self.change('ban', 'api', 'user=bob')
        self.assertNotIn('unknown', self.exceptions()[1])
        self.apply(RULES.replace(', low: { burst: 1 }', ''), '--from', '1')
        self.assertEqual([one.get('unknown') for one in self.exceptions()], [None, True])
        self.assertIn('does nothing: the newest version', self.run_verb('exceptions'))
        self.change('unban', 'high', 'user=bob')
        self.assertEqual([one['what'] for one in self.exceptions()], ['ban'])

    def test_a_value_is_stored_as_it_is_counted(self):
        self.change('ban', 'two', 'ip=2001:DB8:0:0::1', 'user=a=b')  # in whatever order
        self.assertEqual(self.exceptions()[0]['key'], {'user': 'a=b', 'ip': '2001:db8::'})
        self.change('unban', 'two', 'user=a=b', 'ip=2001:db8::ffff')
        self.assertEqual(self.exceptions(), [])

    def test_times(self):
        for text, told in (('2099-01-01T00:30:00+01:00', '2098-12-31T23:30:00.000Z'),
                           ('2099-01-01T00:00-00:30', '2099-01-01T00:30:00.000Z')):
            self.change('ban', '--until', text, 'one')
            self.assertEqual(self.exceptions()[0]['until'], told)
        self.assertIn('give one of them', self.change('ban', '--for', '6hour', '--until', FAR, 'one', code=2))
        self.assertIn('give one of them', self.change('ban', '--until', FAR, '--for', '6hour', 'one', code=2))
        for text, why in (('2020-01-01T00:00Z', 'not in the future'), ('tomorrow', 'must be a time such as'),
                          ('2099-13-01T00:00Z', 'must be a time such as'), ('2099-01-01T00:00', 'must be a time'),
                          ('2099-02-29T00:00Z', 'must be a time such as'), ('9999-12-31T23:59:59Z', 'is too late: 2262'),
                          ('0s', 'longer than nothing'), ('9999999year', 'too long')):
            self.assertIn(why, self.change('ban', '--until', text, 'one', code=2))

    def test_what_is_wrong_is_told_and_nothing_stored(self):
        for arguments, why in ((('ban', 'nolimit'),
                                'limit must be in the newest version of the rules, which has no limit "nolimit"'),
                               (('ban', 'api'), 'the whole key of limit "api": user'),
                               (('ban', 'api', 'ip=1'), 'the whole key of limit "api": user'),
                               (('ban', 'two', 'user=1'), 'user, ip'), (('ban', 'one', 'user=1'), 'it has none'),
                               (('ban', 'api', 'user=a', 'user=b'), 'the whole key'),
                               (('ban', 'api', 'user'), 'must be ATTRIBUTE=VALUE'),
                               (('ban', 'api', '=1'), 'must be ATTRIBUTE=VALUE'),
                               (('unban', '--for', '1s', 'one'), "are a ban's"), (('ban',), 'which limit')):
            with self.subTest(arguments):
                self.assertIn(why, self.change(*arguments, code=2))
        self.assertIn('--comment WHY', self.run_verb('ban', 'one', code=2))
        self.assertIn('nothing holds', self.change('unban', 'one', code=1))
        self.assertEqual(self.exceptions('--all'), [])

    def test_of_a_limit_that_is_gone_a_ban_can_be_ended(self):
        self.change('ban', 'two', 'user=ada', 'ip=10.0.0.1')
        self.apply('limits:\n  - { name: api, rate: 10/day, key: [user] }\n', '--from', '1')
        self.assertIn('has no limit', self.change('ban', 'two', 'user=ada', 'ip=10.0.0.1', code=2))
        self.change('unban', 'two', 'user=ada', 'ip=10.0.0.1')
        self.assertEqual(self.exceptions(), [])

    def test_a_ban_of_a_key_that_is_counted_otherwise_now_can_be_ended(self):
        """As the list shows it, or it would stand there until the old rules come back, and be in force again."""
        for version, key in ((1, '[ip, user]'), (2, '[ip]')):
            self.change('ban', 'two', 'user=ada', 'ip=2001:db8::1')
            self.apply(RULES.replace('[user, ip]', key), '--from', version)
            self.assertIn('nothing holds' if version == 1 else 'the whole key',
                          self.change('unban', 'two', 'user=eve', 'ip=2001:db8::', code=1 if version == 1 else 2))
            shown = self.exceptions()[0]['key']
            self.change('unban', 'two', *(f'{name}={value}' for name, value in shown.items()))
            self.assertEqual(self.exceptions(), [])


class OverHttp(Base):
    def setUp(self):
        super().setUp()
        self.config.write_text(self.config.read_text(encoding='utf-8') + AUTH, encoding='utf-8')
        self.apply(RULES)
        self.weir = Weir(self.config.read_text(encoding='utf-8'))
        self.addCleanup(self.weir.stop)

    def post(self, what, key='{"user":"ada"}', limit='api', comment='why', **rest):
        return ask(self.weir, 'POST', f'/v1/rules/{what}', limit=limit, comment=comment,
                   **({'key': key} if key else {}), **rest)

    def test_an_attribute_that_is_absent_is_null(self):
        self.apply(RULES + SHARED, '--from', '1')
        lacks = {'limit': 'all', 'key': '{"user":null,"ip":"10.0.0.1"}'}
        self.assertEqual(self.post('reset', **lacks)[::2], (200, {'change': 1}))
        self.assertEqual([one['key'] for one in ask(self.weir, 'GET', '/v1/rules/exceptions', **lacks)[2]['exceptions']],
                         [{'user': None, 'ip': '10.0.0.1'}])
        for what, more in (('ban', {}), ('level', {'level': 'plus'}), ('unban', {})):
            status, _, told = self.post(what, **lacks, **more)
            self.assertEqual((status, 'a request that lacks one can only be reset' in told['detail']), (400, True), told)
        status, _, told = self.post('reset', limit='all', key='{"user":7,"ip":"10.0.0.1"}')
        self.assertEqual((status, 'must be a string, or null where it is absent' in told['detail']), (400, True), told)

    def test_ban_list_unban(self):
        self.assertEqual(self.post('ban', author='ada', until='6hour')[::2], (200, {'change': 1}))
        wait_for(lambda: check(self.weir)[0] == 429, 'the ban', 60)
        self.assertEqual(self.post('ban', key=None, limit='one')[::2], (200, {'change': 2}))
        told = ask(self.weir, 'GET', '/v1/rules/exceptions')[2]['exceptions']
        self.assertEqual([(one['change'], one['what'], one['limit'], one['key'], one['author']) for one in told],
                         [(2, 'ban', 'one', {}, 'deploy'), (1, 'ban', 'api', {'user': 'ada'}, 'ada (deploy)')])
        self.assertIsNone(told[0]['until'])
        self.assertEqual(self.post('unban')[::2], (200, {'change': 3}))
        wait_for(lambda: check(self.weir)[0] == 200, 'the end of the ban', 60)
        self.assertEqual(self.post('unban')[0], 404)
        for changes, parameters in (([2], {}), ([3, 2, 1], {'all': 'true'}), ([3], {'all': 'true', 'count': 1}),
                                    ([2, 1], {'all': 'true', 'from': 2}), ([3, 1], {'all': 'true', 'limit': 'api'}),
                                    ([3, 1], {'all': 'true', 'limit': 'api', 'key': '{"user":"ada"}'}),
                                    ([], {'limit': 'api', 'key': '{"user":"eve"}'})):
            told = ask(self.weir, 'GET', '/v1/rules/exceptions', **parameters)[2]['exceptions']
            self.assertEqual([one['change'] for one in told], changes, parameters)

    def test_a_level(self):
        def told():
            body = json.dumps({'attributes': {'user': 'ada', 'route': '/h'}, 'cost': 0}).encode()
            limits = ask(self.weir, 'POST', '/v1/check', body, token=OTHER)[2]['limits']
            return [(one['limit'], one['capacity'], one.get('level')) for one in limits if one['limit'] == 'high']
        self.assertEqual(told(), [('high', 10, None)])
        self.assertEqual(self.post('level', limit='high', level='plus', until='1hour')[::2], (200, {'change': 1}))
        wait_for(lambda: told() == [('high', 20, 'plus')], 'the level', 60)
        self.assertEqual([(one['what'], one['level']) for one in
                          ask(self.weir, 'GET', '/v1/rules/exceptions')[2]['exceptions']], [('level', 'plus')])
        self.assertEqual(self.post('unban', limit='high')[0], 200)
        wait_for(lambda: told() == [('high', 10, None)], 'the end of the level', 60)
        for why, status, arguments in (('must be the name of a level', 400, {}),
                                       ('did you mean "plus"', 404, {'level': 'plud'})):
            answer, _, said = self.post('level', limit='high', **arguments)
            self.assertEqual(answer, status, said)
            self.assertIn(why, said['detail'])
        self.assertEqual(self.post('ban', limit='high', level='plus')[0], 400)

    def test_a_reset(self):
        self.assertEqual([check(self.weir)[0] for _ in range(11)], 10 * [200] + [429])
        self.assertEqual(self.post('reset', author='ada')[::2], (200, {'change': 1}))
        wait_for(lambda: check(self.weir)[0] == 200, 'the reset', 60)
        self.assertEqual(check(self.weir)[1]['limits'][0]['remaining'], 8)
        told = ask(self.weir, 'GET', '/v1/rules/exceptions', limit='api', key='{"user":"ada"}')[2]['exceptions']
        self.assertEqual([(one['what'], one['key'], one['until'], one['author']) for one in told],
                         [('reset', {'user': 'ada'}, None, 'ada (deploy)')])
        self.assertEqual(self.post('unban')[0], 404)
        for why, status, arguments in (('gives permits', 400, {'limit': 'slots'}), ('not known', 400, {'until': '6hour'}),
                                       ('not known', 400, {'level': 'plus'}), ('has no limit', 404, {'limit': 'nolimit'}),
                                       ('whole key', 400, {'key': None}), ('comment', 400, {'comment': ''}),
                                       ('whole key', 400, {'key': '{"user":"ada","":"reset"}'})):
            answer, _, said = self.post('reset', **arguments)
            self.assertEqual(answer, status, said)
            self.assertIn(why, said['detail'])
        self.assertNotEqual(self.post('unban', key='{"user":"ada","":"reset"}')[0], 200)  # as it lies in the store

    def test_of_several_bans_the_longest_is_told_and_none_is_charged(self):
        admitted = []

        def status_of_ada():
            admitted.append(check(self.weir)[0] == 200)
            return 200 if admitted[-1] else 429

        self.post('ban', limit='shy')  # a limit in shadow refuses nobody
        self.post('ban', limit='one', key=None, until='1hour')
        wait_for(lambda: b'weir_exceptions_change 2' in ask(self.weir, 'GET', '/metrics')[2].encode(), 'the bans', 60)
        self.assertEqual(status_of_ada(), 200)
        self.post('ban', until='2hour')
        wait_for(lambda: status_of_ada() == 429, 'the ban', 60)
        body = {'attributes': {'user': 'ada', 'route': '/one'}}
        status, _, told = ask(self.weir, 'POST', '/v1/check', json.dumps(body).encode(), token=OTHER)
        self.assertEqual((status, told['limit']), (429, 'api'))
        self.assertGreater(told['retry_after_ms'], 3600 * 1000)
        self.post('unban')
        wait_for(lambda: status_of_ada() == 200, 'the end of the ban', 60)
        status, _, told = ask(self.weir, 'POST', '/v1/check', json.dumps(body).encode(), token=OTHER)
        self.assertEqual((status, told['limit']), (429, 'one'))
        self.assertLessEqual(told['retry_after_ms'], 3600 * 1000)
        self.assertEqual(check(self.weir)[1]['limits'][0]['remaining'], 10 - sum(admitted) - 1)

    def test_rights(self):
        for token, status in ((OTHER, 403), (None, 401)):
            for method, path in (('POST', 'ban'), ('POST', 'level'), ('POST', 'reset'), ('POST', 'unban'), ('GET', 'exceptions')):
                self.assertEqual(ask(self.weir, method, f'/v1/rules/{path}', token=token)[0], status, (path, token))
        self.assertEqual(ask(self.weir, 'GET', '/v1/rules/ban', token=ADMIN)[0], 405)

    def test_what_is_wrong_is_told(self):
        for why, status, arguments in (
                ('limit', 400, {'limit': ''}), ('has no limit', 404, {'limit': 'nolimit'}),
                ('whole key', 400, {'key': '{}'}), ('whole key', 400, {'key': '{"user":"a","ip":"b"}'}),
                ('JSON object', 400, {'key': '['}), ('JSON object', 400, {'key': '[]'}),
                ('must be a string', 400, {'key': '{"user":1}'}), ('comment', 400, {'comment': ''}),
                ('not in the future', 400, {'until': '2020-01-01T00:00Z'}), ('for good', 400, {'until': ''}), ('not known', 400, {'other': '1'})):
            with self.subTest(arguments):
                answer, _, told = self.post('ban', **arguments)
                self.assertEqual(answer, status, told)
                self.assertIn(why, told['detail'])
        self.assertEqual(self.post('unban', until='6hour')[0], 400)
        self.assertEqual(ask(self.weir, 'GET', '/v1/rules/exceptions', key='{}')[0], 400)
        self.assertEqual(ask(self.weir, 'GET', '/v1/rules/exceptions', all='x')[0], 400)
        self.assertEqual(ask(self.weir, 'GET', '/v1/rules/exceptions?' + urllib.parse.urlencode({'all': 'true'}))[2]
                         ['exceptions'], [])


if __name__ == '__main__':
    unittest.main()
