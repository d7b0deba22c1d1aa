#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/rules, as docs/http.md has it: rules that stand in a store are read, changed, compared and rolled back."""
import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from urllib.parse import urlencode

from postgres_server import Postgres
from redis_server import Redis, wait_for
from rule_store_case import url
from slow_door import SlowDoor
from test_rules_store import check
from weir_server import BUILD, Weir, connect

RULES = 'unmatched: refuse\nlimits:\n  - name: api\n    rate: 10/day\n    key: [user]\n'
ADMIN, OTHER = '0123456789abcdef', 'fedcba9876543210'
AUTH = ('auth: { tokens: [ { name: deploy, secret: %s, rights: [admin, metrics] },'
        ' { name: app, secret: %s, rights: [all] } ] }\n' % (ADMIN, OTHER))


def ask(weir, method, path, body=None, token=ADMIN, match=None, port=None, **parameters):
    """(status, fields, body: JSON taken apart)"""
    headers = {'X-Weir-Token': token} if token else {}
    if match:
        headers['If-Match'] = match
    with contextlib.closing(http.client.HTTPConnection('127.0.0.1', port or weir.http, timeout=120)) as connection:
        connection.request(method, f'{path}?{urlencode(parameters)}' if parameters else path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
    is_json = 'json' in answer.headers.get('Content-Type', '')
    return answer.status, answer.headers, json.loads(data) if is_json else data.decode()


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rules-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / 'weir.yaml'
        self.begin(f'sqlite:{self.folder}/rules.db')

    def begin(self, store):
        self.config.write_text(f'rules: {{ store: "{store}", timeout: 60s }}\n{AUTH}', encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(self.config), '--comment', 'first', '-'],
                       input=RULES.encode(), capture_output=True, timeout=120, check=True,
                       env=dict(os.environ, LOGNAME='grace'))

    def serving(self, extra=''):
        weir = Weir(self.config.read_text(encoding='utf-8') + extra)
        self.addCleanup(weir.stop)
        return weir

    def put(self, weir, text, **rest):
        return ask(weir, 'PUT', '/v1/rules', text.encode(), **{'comment': 'why', **rest})

    def test_read_change_compare_roll_back(self):
        weir = self.serving()
        status, fields, text = ask(weir, 'GET', '/v1/rules')
        self.assertEqual((status, fields['ETag'], text), (200, '"1"', '# from version 1\n' + RULES))
        more = text.replace('10/day', '20/day')
        said = {'version': 1, 'stored': False, 'changes': 'api 10/day -> 20/day'}
        self.assertEqual(self.put(weir, more, dry_run='true')[2], said)
        status, _, said = self.put(weir, more, comment='more for all', author='ada')
        self.assertEqual((status, said), (200, {'version': 2, 'stored': True, 'changes': 'api 10/day -> 20/day'}))
        wait_for(lambda: ask(weir, 'GET', '/v1/limits', seen=2)[0] == 200, 'not followed')
        self.assertEqual(check(weir, 20)[0], 200)
        self.assertEqual(self.put(weir, RULES.replace('10/day', '20/day'), match='"2"')[2],
                         {'version': 2, 'stored': False, 'changes': ''})
        self.assertEqual(ask(weir, 'GET', '/v1/rules/diff', **{'from': 1})[2],
                         {'from': 1, 'to': 2, 'changes': 'api 10/day -> 20/day'})
        self.assertEqual(ask(weir, 'GET', '/v1/rules/diff', **{'from': 2, 'to': 1})[2]['changes'],
                         'api 20/day -> 10/day')
        status, _, said = ask(weir, 'POST', '/v1/rules/rollback', to=1, comment='too many')
        self.assertEqual((status, said['version'], said['changes']), (200, 3, 'api 20/day -> 10/day'))
        self.assertEqual(ask(weir, 'GET', '/v1/rules')[2], '# from version 3\n' + RULES)
        self.assertEqual(ask(weir, 'GET', '/v1/rules', version=2)[2], '# from version 2\n' +
                         RULES.replace('10/day', '20/day'))
        wait_for(lambda: ask(weir, 'GET', '/v1/rules/versions')[2]['versions'][0]['nodes'], 'the store was not told')
        told = ask(weir, 'GET', '/v1/rules/versions')[2]['versions']
        self.assertEqual([(one['version'], one['author'], one['kind'], one['comment'], one['changes']) for one in told],
                         [(3, 'deploy', 'rollback', 'too many', 'api 20/day -> 10/day'),
                          (2, 'ada (deploy)', 'applied', 'more for all', 'api 10/day -> 20/day'),
                          (1, 'grace', 'applied', 'first', 'api came (10/day)')])
        self.assertEqual([one['version'] for one in
                          ask(weir, 'GET', '/v1/rules/versions', count=1, **{'from': 2})[2]['versions']], [2])

    def test_of_two_conflicting_edits_one_is_refused_with_the_current_version(self):
        weir = self.serving()
        text = ask(weir, 'GET', '/v1/rules')[2]
        answers = []

        def edit(number):
            answers.append(self.put(weir, text.replace('10/day', f'{number}/day')))

        threads = [threading.Thread(target=edit, args=(number,)) for number in range(11, 15)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(status for status, _, _ in answers if status != 503).count(200), 1, answers)
        for status, _, said in answers:
            if status == 412:
                self.assertEqual(said['newest'], 2)
            self.assertIn(status, (200, 412, 503))  # 503: too many at once
        self.assertEqual(self.put(weir, RULES.replace('10/day', '30/day'), match='"1"')[0], 412)
        status, _, said = self.put(weir, RULES.replace('10/day', '30/day'))
        self.assertEqual((status, said['newest']), (428, 2))
        self.assertEqual(self.put(weir, RULES.replace('10/day', '30/day'), match='*')[2]['version'], 3)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/rollback', to=1, comment='why', match='"2"')[0], 412)

    def test_who_named_no_version_is_told_which_was_the_newest(self):
        weir = self.serving()
        stale, numbers = [], iter(range(11, 1_000_000))
        ended = threading.Event()

        def edit():
            while not ended.is_set():
                status, _, said = self.put(weir, RULES.replace('10/day', f'{next(numbers)}/day'), match='*')
                if status == 412:
                    stale.append(said)

        threads = [threading.Thread(target=edit) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: stale, 'no two at once')
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        for said in stale:
            self.assertRegex(said['detail'], rf'version {said["newest"]} is the newest, and this was made from \d{{1,7}}$')

    def test_all_that_is_wrong_is_told_and_nothing_stored(self):
        weir = self.serving()
        status, _, said = self.put(weir, 'limits:\n  - nam: api\n    rate: 1/mn\n', match='"1"')
        self.assertEqual(status, 400)
        first = said['errors'][0]
        self.assertEqual((first['line'], first['column']), (2, 5))
        self.assertIn('did you mean "name"?', first['message'])
        self.assertGreater(len(said['errors']), 1)
        cut = self.put(weir, f'limits:\n  - name: api\n    rate: a{"é" * 100}\n', match='"1"')[2]['errors']
        self.assertIn('must be COUNT/PERIOD', cut[0]['message'])
        for text in ('', 'limits: [', 'limits: []\nengine: {}\n', '\0', '\xff'):
            self.assertEqual(self.put(weir, text, match='"1"')[0], 400, text)
        for wrong in ({'comment': ''}, {'comment': 'two\nlines'}, {'author': 'a' * 120}, {'author': '\x1b[2J'},
                      {'author': '\u202eyolped'}, {'comment': '  '}, {'comment': 'a \u2067b'},
                      {'dry_run': 'yes'}, {'dry_run': ''}, {'propose': ''}, {'match': '1'}, {'match': '"x"'}, {'match': 'W/"1"'}, {'match': '"9999999"'},
                      {'who': 'ada'}, {'comment': 'a' * 4097}):
            with self.subTest(wrong):
                self.assertEqual(self.put(weir, RULES, **{'match': '"1"', **wrong})[0], 400)
        self.assertIn('another version', self.put(weir, '# from version 1\n' + RULES, match='"2"')[2]['detail'])
        for path, parameters in (('', {'version': 0}), ('', {'version': 'x'}), ('/versions', {'count': 101}),
                                 ('/versions', {'from': -1}), ('/diff', {}), ('/diff', {'from': 1, 'too': 1})):
            with self.subTest(path=path, parameters=parameters):
                self.assertEqual(ask(weir, 'GET', '/v1/rules' + path, **parameters)[0], 400)
        self.assertEqual(ask(weir, 'GET', '/v1/rules', version=7)[0], 404)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/rollback', to=7, comment='why')[0], 404)
        self.assertEqual(ask(weir, 'POST', '/v1/rules/rollback', comment='why')[0], 400)
        status, fields, _ = ask(weir, 'DELETE', '/v1/rules')
        self.assertEqual((status, fields['Allow']), (405, 'GET, HEAD, PUT'))
        self.assertEqual(ask(weir, 'GET', '/v1/rules/versions')[2]['versions'][0]['version'], 1)

    def test_it_needs_a_token_with_the_right_admin(self):
        weir = self.serving()
        for method, path in (('GET', ''), ('PUT', '?comment=why'), ('GET', '/versions'), ('GET', '/diff?from=1'),
                             ('POST', '/rollback?to=1&comment=why')):
            with self.subTest(path):
                self.assertEqual(ask(weir, method, '/v1/rules' + path, token=None)[0], 401)
                self.assertEqual(ask(weir, method, '/v1/rules' + path, token='x' * 16)[0], 401)
                status, _, said = ask(weir, method, '/v1/rules' + path, token=OTHER)  # `all` has it not
                self.assertEqual(status, 403)
                self.assertIn('admin', said['detail'])
        with Weir('limits: []\nauth: { required: never }\n') as open_to_all:
            self.assertEqual(ask(open_to_all, 'GET', '/v1/rules', token=None)[0], 401)
        with Weir('limits: []\n' + AUTH) as from_file:
            status, _, said = ask(from_file, 'GET', '/v1/rules')
            self.assertEqual(status, 404)
            self.assertIn('stand in the configuration file', said['detail'])

    def test_who_has_seen_a_newer_version_is_not_told_an_older_one(self):
        weir = self.serving()
        self.assertIsNone(ask(weir, 'GET', '/v1/limits', seen=1)[2]['rules']['delay_ms'])
        self.assertNotIn('weir_rules_delay_seconds', ask(weir, 'GET', '/metrics')[2])
        status, fields, said = ask(weir, 'GET', '/v1/limits', seen=2)
        self.assertEqual((status, fields['Retry-After']), (503, '1'))
        self.assertIn('still decides by version 1', said['detail'])
        self.assertEqual(ask(weir, 'GET', '/v1/limits', seen='x')[0], 400)
        begun = time.monotonic()
        self.put(weir, RULES.replace('10/day', '20/day'), match='"1"')
        wait_for(lambda: ask(weir, 'GET', '/v1/limits', seen=2)[0] == 200, 'not followed')
        delay_ms = ask(weir, 'GET', '/v1/limits')[2]['rules']['delay_ms']
        self.assertTrue(0 <= delay_ms <= 1000 * (time.monotonic() - begun) + 1, delay_ms)
        self.assertRegex(ask(weir, 'GET', '/metrics')[2], r'\nweir_rules_delay_seconds \d')

    def test_a_client_that_goes_away_and_an_end_meanwhile(self):
        weir = self.serving()
        head = f'GET /v1/rules/versions HTTP/1.1\r\nHost: localhost\r\nX-Weir-Token: {ADMIN}\r\n\r\n'.encode()
        for _ in range(50):
            with socket.create_connection(('127.0.0.1', weir.http), timeout=60) as gone:
                gone.sendall(head)
        wait_for(lambda: ask(weir, 'GET', '/v1/rules')[0] == 200, 'they are still counted')
        with socket.create_connection(('127.0.0.1', weir.http), timeout=60) as last:
            last.sendall(head * 3)
            time.sleep(0.01)
            self.assertEqual(weir.stop(), 0)

    def test_pipelined_and_head(self):
        weir = self.serving()
        one = f'GET /v1/rules HTTP/1.1\r\nHost: localhost\r\nX-Weir-Token: {ADMIN}\r\n\r\n'
        check_one = f'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Weir-Token: {ADMIN}\r\n\r\n'
        last = check_one.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
        with socket.create_connection(('127.0.0.1', weir.http), timeout=60) as client:
            client.sendall((one + check_one + one.replace('GET', 'HEAD') + last).encode())
            data = b''
            while piece := client.recv(65536):
                data += piece
        self.assertEqual(data.count(b'HTTP/1.1 200 OK'), 4)
        self.assertEqual(data.count(b'# from version 1'), 1)
        self.assertLess(data.index(b'# from version 1'), data.index(b'ok\n'))


class Admin(Rules):
    """The same at a listener of its own, which takes larger rule sets."""
    def serving(self, extra=''):
        weir = super().serving(extra + 'listen: { admin: "127.0.0.1:0" }\n')
        weir.other, weir.http = weir.http, weir.port('admin')
        return weir

    def test_nowhere_else(self):
        weir = self.serving()
        status, _, said = ask(weir, 'GET', '/v1/rules', port=weir.other)
        self.assertEqual(status, 404)
        self.assertIn('listener admin', said['detail'])
        self.assertEqual(ask(weir, 'GET', '/v1/rules', token=None, port=weir.other)[0], 404)
        for port in (weir.other, weir.http):
            self.assertEqual(ask(weir, 'GET', '/v1/limits', port=port)[0], 200)
        self.assertEqual(check(weir)[0], 200)

    def test_a_large_rule_set(self):
        weir = self.serving()
        text = 'limits:\n' + ''.join(f'  - {{ name: l{i}, rate: 1/min, match: {{ a: b{i} }} }}\n' for i in range(20000))
        self.assertGreater(len(text), 900_000)
        status, _, told = ask(weir, 'PUT', '/v1/rules', text.encode(), match='"1"', comment='why', port=weir.other)
        self.assertEqual(status, 413)
        for words in ('server.body_bytes_max', 'listener admin'):  # what to do about it
            self.assertIn(words, told['detail'])
        self.assertEqual(self.put(weir, text, match='"1"')[2]['version'], 2)
        self.assertEqual(ask(weir, 'GET', '/v1/rules')[2], '# from version 2\n' + text)
        too_many = 'limits:\n' + ''.join(f'  - {{ name: l{i}, rate: 1/s, match: {{ a: b{i} }} }}\n' for i in range(32_001))
        status, _, said = self.put(weir, too_many, match='"2"')
        self.assertEqual(status, 400)
        self.assertIn('32000', json.dumps(said['errors']))

    def test_a_large_body_is_taken_from_who_may_put_one(self):
        """Of others it would be kept in the memory that all share, and read by the loop for seconds."""
        weir = self.serving()
        text = RULES + '#' * (1 << 20) + '\n'
        for request, token in (('PUT /v1/rules?comment=why', OTHER), ('PUT /v1/rules?comment=why', 'x' * 16),
                               ('PUT /v1/rules?comment=why', ''), ('POST /v1/check', ADMIN), ('GET /v1/rules', ADMIN)):
            for field in (f'Content-Length: {len(text)}\r\n', f'Transfer-Encoding: chunked\r\n\r\n{len(text):x}\r\n'):
                with self.subTest(request=request, token=token, field=field), connect(weir.http) as client:
                    client.sendall(f'{request} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n'
                                   f'X-Weir-Token: {token}\r\n{field}\r\n'.encode())
                    self.assertEqual(client.recv(12), b'HTTP/1.1 413')
        self.assertEqual(self.put(weir, text, match='"1"')[2]['version'], 2)
        pieces = iter([(text + '#').encode()])
        self.assertEqual(ask(weir, 'PUT', '/v1/rules', pieces, match='"2"', comment='why')[2]['version'], 3)

    def test_it_is_not_moved_by_a_reload(self):
        weir = self.serving()
        weir.config.write_text(self.config.read_text(encoding='utf-8'), encoding='utf-8')
        weir.process.send_signal(signal.SIGHUP)
        wait_for(lambda: 'kept until a restart: listen.admin' in weir.output(), 'nothing is told')
        self.assertEqual(ask(weir, 'GET', '/v1/rules')[0], 200)
        self.assertEqual(ask(weir, 'GET', '/v1/rules', port=weir.other)[0], 404)


class Postgresql(Rules):
    """The same with PostgreSQL; and when it is away."""
    @classmethod
    def setUpClass(cls):
        cls.postgres = Postgres()
        cls.addClassCleanup(cls.postgres.stop)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rules-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / 'weir.yaml'
        self.postgres.sql('DROP TABLE IF EXISTS weir_rules, weir_rules_nodes, weir_rules_meta')
        self.begin(url(self.postgres))

    def test_a_store_that_is_away_is_told(self):
        self.config.write_text(self.config.read_text(encoding='utf-8').replace('60s', '1s'), encoding='utf-8')
        weir = self.serving()
        self.postgres.kill()
        self.addCleanup(self.postgres.start)
        status, fields, _ = ask(weir, 'GET', '/v1/rules')
        self.assertEqual((status, fields['Retry-After']), (503, '1'))
        self.assertIn(self.put(weir, RULES, match='"1"')[0], (503, 504))
        self.assertEqual(ask(weir, 'GET', '/healthz')[0], 200)

    def asking(self, weir, count):
        """That many connections that have asked for the history."""
        clients = [self.enterContext(socket.create_connection(('127.0.0.1', weir.http), timeout=60)) for _ in range(count)]
        for client in clients:
            client.sendall(f'GET /v1/rules/versions HTTP/1.1\r\nHost: localhost\r\nX-Weir-Token: {ADMIN}\r\n\r\n'.encode())
        return clients

    @staticmethod
    def is_unanswered(client):
        return not select.select([client], [], [], 0)[0]

    def test_a_store_that_hangs_keeps_no_engine_away(self):
        """Names are looked up on the threads that ask the store."""
        with Redis() as redis:
            weir = self.serving(f'engine: {{ redis: {{ servers: ["localhost:{redis.port}"] }} }}\n')

            def is_ready():
                return ask(weir, 'GET', '/v1/nodes')[2]['engine']['ready']

            wait_for(is_ready, 'no engine')
            self.postgres.freeze()
            self.addCleanup(self.postgres.thaw)
            clients = self.asking(weir, 5)
            wait_for(lambda: not all(map(self.is_unanswered, clients)), 'they are not bounded')
            redis.kill()
            wait_for(lambda: not is_ready(), 'still there')
            waiting = [client for client in clients if self.is_unanswered(client)]
            self.assertTrue(waiting)
            redis.start()
            wait_for(is_ready, 'no engine')
            self.assertTrue(all(map(self.is_unanswered, waiting)), 'the engine came when the store let go')
            self.postgres.thaw()
            self.assertTrue(all(client.recv(12) == b'HTTP/1.1 200' for client in waiting))

    def test_an_end_does_not_wait_for_all_that_a_slow_store_was_to_be_asked(self):
        for number in range(2, 25):
            subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(self.config), '--comment', 'why', '-'],
                           input=(f'# from version {number - 1}\n' + RULES.replace('10/', f'{number}0/')).encode(),
                           capture_output=True, timeout=120, check=True)
        with SlowDoor(self.postgres.port) as door:
            text = self.config.read_text(encoding='utf-8')
            self.config.write_text(text.replace(f':{self.postgres.port}/', f':{door.port}/'), encoding='utf-8')
            weir = self.serving('server: { drain_timeout: 100ms }\n')
            door.lag_s = 4  # each version is asked for: a minute and a half
            clients = self.asking(weir, 5)
            wait_for(lambda: not all(map(self.is_unanswered, clients)), 'they are not bounded')
            self.assertEqual(weir.stop(), 0)


if __name__ == '__main__':
    unittest.main()
