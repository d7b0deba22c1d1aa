#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A change that takes a second person: it is proposed, nobody decides by it, and somebody else approves."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from postgres_server import Postgres
from redis_server import wait_for
from rule_store_case import url
from test_rules_http import ask
from test_rules_store import check, in_force, version
from weir_server import BUILD, Weir

TOKENS = {'ops': 'ops-token-of-at-least-sixteen', 'lead': 'lead-token-of-at-least-sixteen',
          'deploy (ci)': 'deploy-token-of-at-least-sixteen'}
AUTH = 'auth: { tokens: [ %s ] }\n' % ', '.join(f'{{ name: "{name}", secret: {secret}, rights: [admin] }}'
                                                for name, secret in TOKENS.items())


def rules(rate):
    return json.dumps({'limits': [{'name': 'api', 'rate': rate, 'key': ['user']}]})


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-approval-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / 'weir.yaml'
        self.spec = self.store()
        self.approval('off')

    def store(self):
        return f'sqlite:{self.folder}/rules.db'

    def approval(self, said):
        self.text = f'rules: {{ store: "{self.spec}", approval: {said}, timeout: 30s, kept: "{self.folder}/kept" }}\n{AUTH}'
        self.config.write_text(self.text, encoding='utf-8')

    def verb(self, author, verb, *arguments, stdin='', code=0):
        done = subprocess.run([str(BUILD / 'weir'), 'rules', verb, '--config', str(self.config), *map(str, arguments)],
                              input=stdin, capture_output=True, encoding='utf-8', timeout=120, check=False,
                              env=dict(os.environ, LOGNAME=author))
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def apply(self, author, text, *arguments, code=0):
        return self.verb(author, 'apply', '--comment', 'why', *arguments, '-', stdin=text, code=code)

    def approve(self, author, number, *arguments, code=0):
        return self.verb(author, 'approve', '--comment', 'seen', *arguments, number, code=code)

    def serve(self):
        weir = Weir(self.text)
        self.addCleanup(weir.stop)
        return weir

    def history(self):
        return [(one['version'], one['kind'], one['author'], one['changes'])
                for one in json.loads(self.verb('x', 'history', '--json'))]


class InSqlite(Case):
    def test_what_is_proposed_decides_nothing_until_somebody_else_approves(self):
        self.apply('ada', rules('10/day'))
        self.approval('on')
        weir = self.serve()
        self.assertIn('propose the change, and somebody else approves it', self.apply('ada', rules('20/day'), '--from', 1, code=1))
        self.assertEqual(self.apply('ada', rules('20/day'), '--from', 1, '--propose'), 'version 2: api 10/day -> 20/day\n')
        self.assertIn('ada proposed version 2: somebody else must approve it', self.approve('ada', 2, code=1))
        self.assertEqual(self.approve('grace', 2, '--dry-run'), 'would change: api 10/day -> 20/day\n')
        self.assertEqual(version(weir), 1)
        self.assertNotIn('for_others', in_force(weir)['rules'])
        weir.stop()
        weir = self.serve()  # a start passes it over too
        self.assertEqual(version(weir), 1)
        self.assertEqual(self.approve('grace', 2), 'version 3: api 10/day -> 20/day\n')
        wait_for(lambda: version(weir) == 3, 'not followed')
        self.assertEqual(in_force(weir)['limits'][0]['rate'], '20/day')
        self.assertEqual(self.history(), [(3, 'approved', 'grace', 'api 10/day -> 20/day'),
                                          (2, 'proposed', 'ada', 'api 10/day -> 20/day'),
                                          (1, 'applied', 'ada', 'api came (10/day)')])
        # To roll back needs nobody, and is against what decides.
        self.apply('ada', rules('99/day'), '--from', 3, '--propose')
        self.assertIn('4 is still a proposal', self.verb('ada', 'rollback', '--comment', 'no', 4, code=2))
        self.assertEqual(self.verb('ada', 'rollback', '--comment', 'back', 1), 'version 5: api 20/day -> 10/day\n')
        wait_for(lambda: version(weir) == 5, 'not followed')
        # A proposal that something came after is no more: it was made from what decides no more.
        self.assertIn('version 5 is the newest', self.approve('grace', 4, code=1))
        self.assertIn('1 is no proposal', self.approve('grace', 1, code=2))

    def test_a_first_version_may_be_proposed(self):
        self.approval('on')
        self.apply('ada', rules('10/day'), '--propose')
        with self.assertRaisesRegex(AssertionError, 'has no version that is for node'):
            Weir(self.text)
        self.assertEqual(self.approve('grace', 1), 'version 2: api came (10/day)\n')
        self.assertEqual(version(self.serve()), 2)

    def test_what_a_node_missed_is_found_behind_a_proposal(self):
        """It looks now and then: an approved version and the next proposal may have come since."""
        self.apply('ada', rules('10/day'))
        weir = self.serve()
        wait_for(lambda: json.loads(self.verb('x', 'history', '--json'))[0]['nodes'], 'it has not told')  # and so writes no more
        os.kill(weir.process.pid, signal.SIGSTOP)
        self.apply('ada', rules('20/day'), '--from', 1)
        self.apply('ada', rules('30/day'), '--from', 2, '--propose')
        self.apply('ada', rules('40/day'), '--from', 3, '--propose')
        os.kill(weir.process.pid, signal.SIGCONT)
        wait_for(lambda: version(weir) == 2, 'not followed')
        self.assertEqual(in_force(weir)['limits'][0]['rate'], '20/day')

    def test_any_number_of_proposals_is_passed_over(self):
        self.apply('ada', rules('10/day'))
        for number in range(1, 106):
            self.apply('ada', rules(f'{100 + number}/day'), '--from', number, '--propose')
        self.assertEqual(version(self.serve()), 1)
        self.assertEqual(self.approve('grace', 106), 'version 107: api 10/day -> 205/day\n')
        self.assertEqual(self.verb('ada', 'rollback', '--comment', 'back', 1), 'version 108: api 205/day -> 10/day\n')

    def test_a_proposal_is_turned_down_by_a_rollback(self):
        self.apply('ada', rules('10/day'))
        self.apply('ada', rules('20/day'), '--from', 1, '--propose')
        self.assertIn('version 2 was proposed: no weir decides by it', self.verb('ada', 'show'))
        self.assertEqual(self.apply('ada', rules('10/day'), '--from', 2), 'nothing to do: version 1 says the same\n')
        self.assertEqual(self.verb('ada', 'rollback', '--comment', 'no', 1), 'version 3: no limit has other numbers\n')
        self.assertIn('version 3 is the newest', self.approve('grace', 2, code=1))
        self.assertEqual(self.verb('ada', 'rollback', '--comment', 'no', 1), 'nothing to do: version 3 says the same\n')
        self.assertNotIn('proposed', self.verb('ada', 'show'))

    def test_a_ban_is_of_a_limit_that_is_in_force(self):
        self.apply('ada', rules('10/day'))
        self.apply('ada', rules('10/day').replace('api', 'other'), '--from', 1, '--propose')
        self.assertIn('has no limit "other"', self.verb('ada', 'ban', '--comment', 'why', 'other', 'user=eve', code=2))
        self.assertIn('banned for good', self.verb('ada', 'ban', '--comment', 'why', 'api', 'user=eve'))
        weir = self.serve()
        self.assertEqual(check(weir, user='eve')[0], 429)

    def test_over_http_a_proposal_is_marked(self):
        """As one, where it is read; and who waits for it is told that it never comes."""
        self.apply('ada', rules('10/day'))
        weir = self.serve()
        mark = '# proposed: no weir decides by it until somebody else approves\n'

        def call(method, path, body=None, **query):
            return ask(weir, method, path, body, token=TOKENS['ops'], **query)

        def seen(number):
            return ask(weir, 'GET', '/v1/limits', token=None, seen=number)

        self.apply('ada', rules('20/day'), '--from', 1, '--propose')
        status, fields, said = call('GET', '/v1/rules')
        self.assertEqual((status, fields['Weir-Proposed'], fields['ETag']), (200, '?1', '"2"'))
        self.assertEqual(said, '# from version 2\n' + mark + rules('20/day'))
        self.assertIn('# from version 2\n' + mark + rules('20/day'), self.verb('ada', 'show'))
        status, fields, said = call('GET', '/v1/rules', version=1)
        self.assertEqual((fields['Weir-Proposed'], said), (None, '# from version 1\n' + rules('10/day')))
        wait_for(lambda: seen(2)[0] == 409, 'it is told as what it is', 60)
        status, fields, said = seen(2)
        self.assertIn('version 2 is a proposal', said['detail'])
        self.assertIsNone(fields['Retry-After'])
        status, fields, said = seen(3)
        self.assertEqual((status, fields['Retry-After']), (503, '1'))
        self.assertEqual(seen(1)[0], 200)
        # Both lines go, whatever an editor made of their ends.
        text = call('GET', '/v1/rules')[2].replace('20/day', '30/day').replace('\n', '\r\n')
        self.assertEqual(call('PUT', '/v1/rules', text.encode(), comment='why')[2]['version'], 3)
        self.assertEqual(call('GET', '/v1/rules')[2], '# from version 3\n' + rules('30/day'))
        wait_for(lambda: seen(3)[0] == 200, 'not followed', 60)
        self.assertEqual(seen(2)[0], 200)
        self.apply('ada', rules('40/day'), '--from', 3, '--propose')
        shown = self.verb('ada', 'show').replace('weir: version 4 was proposed: no weir decides by it\n', '')
        self.apply('ada', shown.replace('40/day', '50/day'))
        self.assertEqual(call('GET', '/v1/rules')[2], '# from version 5\n' + rules('50/day') + '\n')
        weir.stop()
        self.apply('ada', rules('60/day'), '--from', 5, '--propose')
        weir = self.serve()  # a start knows it too
        self.assertEqual(seen(6)[0], 409)

    def test_over_http_the_token_says_who_it_is(self):
        self.apply('ada', rules('10/day'))
        self.approval('on')
        weir = self.serve()

        def call(name, method, path, body=None, **query):
            return ask(weir, method, path, body, token=TOKENS[name], **query)

        self.assertEqual(call('ops', 'PUT', '/v1/rules', rules('20/day').encode(), comment='why', match='"1"')[0], 403)
        status, _, said = call('ops', 'PUT', '/v1/rules', rules('20/day').encode(), comment='why', match='"1"', propose='true',
                               author='ada')
        self.assertEqual((status, said['version'], said['stored']), (200, 2, True))
        status, _, said = call('ops', 'POST', '/v1/rules/approve', version=2, comment='seen', author='grace')
        self.assertEqual((status, said['detail']), (403, 'ada (ops) proposed version 2: somebody else must approve it'))
        self.assertEqual(call('lead', 'POST', '/v1/rules/approve', comment='seen')[0], 400)
        self.assertEqual(call('lead', 'POST', '/v1/rules/approve', version=1, comment='seen')[0], 400)
        self.assertEqual(version(weir), 1)
        status, _, said = call('lead', 'POST', '/v1/rules/approve', version=2, comment='seen')
        self.assertEqual((status, said['version'], said['changes']), (200, 3, 'api 10/day -> 20/day'))
        wait_for(lambda: version(weir) == 3, 'not followed')
        self.assertEqual(call('ops', 'PUT', '/v1/rules', rules('20/day').encode(), comment='why', propose='maybe')[0], 400)
        # A token whose name has parentheses is itself all the same, with an author and without.
        for number, first, second in ((4, {'author': 'ada'}, {}), (5, {}, {'author': 'ada'}), (6, {'author': 'a (b'}, {})):
            self.assertEqual(call('deploy (ci)', 'PUT', '/v1/rules', rules('30/day').encode(), comment='why',
                                  match=f'"{number - 1}"', propose='true', **first)[0], 200)
            status, _, said = call('deploy (ci)', 'POST', '/v1/rules/approve', version=number, comment='seen', **second)
            self.assertEqual(status, 403, said)
        self.assertEqual(call('lead', 'POST', '/v1/rules/approve', version=6, comment='seen', author='ada')[0], 200)


class InPostgres(Case):
    def store(self):
        postgres = Postgres()
        self.addCleanup(postgres.stop)
        return url(postgres)

    def test_proposed_and_approved(self):
        self.apply('ada', rules('10/day'))
        weir = self.serve()
        self.apply('ada', rules('20/day'), '--from', 1, '--propose')
        self.apply('ada', rules('30/day'), '--from', 2, '--propose')
        self.assertEqual(self.approve('grace', 3), 'version 4: api 10/day -> 30/day\n')
        wait_for(lambda: version(weir) == 4, 'not followed')
        self.assertEqual([one[1] for one in self.history()], ['approved', 'proposed', 'proposed', 'applied'])


if __name__ == '__main__':
    unittest.main()
