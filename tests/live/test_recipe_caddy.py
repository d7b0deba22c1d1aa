#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/caddy.md as it is printed, with a real Caddy."""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import time
import unittest

import recipe_case
import recipe_operator
from redis_server import Redis, stand_still
from weir_server import Weir, read_all


def start(case, give_back=lambda release, fields: release(fields.get('Weir-Permit'))):
    """With a backend that gives back as the page says."""
    release = {}
    exec(case.printed('python'), release)
    case.backend.done = lambda fields: give_back(release['release'], fields)
    text = '{\n\tadmin off\n}\n' + case.printed('caddyfile')
    (case.folder / 'Caddyfile').write_text(text, encoding='utf-8')
    case.run_program(shutil.which('caddy') or '/usr/bin/caddy', 'run', '--config', case.folder / 'Caddyfile',
                     '--adapter', 'caddyfile', env=dict(os.environ, HOME=str(case.folder), WEIR_TOKEN=recipe_operator.TOKEN))


def page_text():
    return (recipe_case.ROOT / 'docs' / 'caddy.md').read_text(encoding='utf-8')


def after_forward_auth(text, line):
    """Its last brace is the one before @no_permit."""
    begin = '\t\t@no_permit not'
    assert begin in text
    return text.replace(begin, f'\t\t{line}\n{begin}', 1)


class Caddy(recipe_case.ClientsThatLeave, recipe_case.Tunnels, recipe_case.Questions, recipe_case.RecipeCase):
    asks_of_all = True
    page = 'caddy.md'

    def start_proxy(self):
        start(self)

    def test_a_key_cannot_add_attributes(self):
        self.use_up()
        self.assertEqual(self.get('/api/x', {'X-Api-Key': 'ada&route=/free'})[0], 200)  # a user of that name
        for key in ('ada', 'ada#', 'ada%26x=y', 'ada&user=eve', 'ada&deny=403'):
            before = self.passed()
            status = self.get('/api/x', {'X-Api-Key': key})[0]
            self.assertEqual(status, 429 if key == 'ada' else 200, key)
            self.assertEqual(self.passed() - before, status == 200)

    def test_a_client_with_two_keys_is_refused(self):
        """Caddy would join them, and many backends read the first."""
        self.use_up()
        before = self.passed()
        with socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) as sock:
            sock.sendall(f'GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:{self.front}\r\nX-Api-Key: ada\r\nX-Api-Key: eve\r\n'
                         'Connection: close\r\n\r\n'.encode())
            self.assertIn(b' 400 ', sock.makefile('rb').readline())
        self.assertEqual(self.passed(), before)

    def test_another_name_than_the_site_s_is_answered_by_caddy_alone(self):
        before, asked = self.passed(), self.admitted('api-per-user')
        with socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) as sock:
            sock.sendall(b'GET /api/x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n')
            head, _, body = read_all(sock).partition(b'\r\n\r\n')
        self.assertEqual((head.split(b'\r\n')[0], body), (b'HTTP/1.1 200 OK', b''))
        self.assertEqual((self.passed(), self.admitted('api-per-user')), (before, asked))

    def test_a_weir_that_hangs_holds_nobody_for_long(self):
        before = self.passed()
        stand_still(self.weir.process.pid)
        self.addCleanup(self.weir.process.send_signal, signal.SIGCONT)
        begin = time.monotonic()
        self.assertEqual(self.get('/api/x', self.honest)[0], 504)
        self.assertLess(time.monotonic() - begin, recipe_case.AWAIT_S / 2)
        self.assertEqual(self.passed(), before)
        self.weir.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.get('/api/x', self.honest)[0], 200)

    def test_the_backend_sees_no_permit_of_a_client(self):
        self.get('/api/x', {**self.honest, 'Weir-Permit': 'f' * 50})
        self.assertNotIn('Weir-Permit', self.backend.seen[-1][1])

    def test_a_client_s_connection_takes_no_permit_from_the_backend(self):
        """Caddy drops what Connection names, after it has set it."""
        before = self.passed()
        for named in ('Weir-Permit', 'close, weir-permit', 'X-Api-Key'):
            with self.subTest(connection=named):
                self.assertEqual(self.get('/export/a', {**self.honest, 'Connection': named})[0], 400)
        self.assertEqual(self.passed(), before)
        self.assertNotRegex(self.metrics(), r'(?m)^weir_permits_out\S* [1-9]')

    def test_a_client_s_attributes_reach_nobody(self):
        self.assertEqual(self.get('/api/x', {**self.honest, 'X-Weir-User': 'eve', 'X-Weir-A': 'b' * 70000})[0], 200)
        self.assertFalse([name for name in self.backend.seen[-1][1] if name.lower().startswith('x-weir')])

    def test_giving_back_what_has_ended_throws_nothing(self):
        release = {}
        exec(self.printed('python'), release)
        release['release']('0' * 50)
        release['release'](None)


class Tokens(recipe_operator.Tokens, recipe_case.RecipeCase):
    """With what the page says of tokens."""
    page = 'caddy.md'

    def start_proxy(self):
        words = re.search(r"`release\(permit, (fields={'X-Weir-Token': TOKEN})\)`", page_text())[1]
        fields = eval(words.partition('=')[2], {'TOKEN': recipe_operator.TOKEN})
        start(self, lambda release, seen: release(seen.get('Weir-Permit'), fields=fields))

    def printed(self, language, index=0):
        line = re.search(r'`(header_up Authorization .*?)`', page_text())[1]
        text, begin = super().printed(language, index), 'flush_interval -1\n'
        return text.replace(begin, f'{line}\n{begin}', 1)

    def test_the_backend_sees_what_its_client_showed(self):
        self.assertEqual(self.get('/api/x', {**self.honest, 'Authorization': 'Basic eDp5'})[0], 200)
        self.assertEqual(self.backend.seen[-1][1]['Authorization'], 'Basic eDp5')


class WrongToken(recipe_operator.WrongToken, Tokens):
    test_the_backend_sees_what_its_client_showed = None
    refusal = 401


class Refused(recipe_operator.Refused, recipe_case.RecipeCase):
    """A client without a key has an empty user here, which is not missing."""
    page = 'caddy.md'
    missing = 'authorization'
    honest = {'X-Api-Key': 'ada', 'Authorization': 'Basic eDp5'}

    def start_proxy(self):
        start(self)

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'caddyfile':
            return text
        words = re.search(r'`log { (output file )\S+ }`', page_text())[1]
        log = f'\tlog {{\n\t\t{words}{self.folder}/refused.log\n\t}}\n'
        return after_forward_auth(text.replace('\troute {', log + '\troute {', 1), 'skip_log')

    def refused(self):
        lines = (self.folder / 'refused.log').read_text(encoding='utf-8').splitlines()
        return [self.parse(line) for line in lines]

    def parse(self, line):
        told = json.loads(line)
        asked, answered = told['request'], told['resp_headers']
        return (told['status'], told['status'], asked['headers'].get('X-Api-Key', [''])[0], asked['uri'],
                str(answered.get('Ratelimit')) + str(answered.get('Weir-Missing')))


class Several(recipe_case.RecipeCase):
    """Three weirs, as the page says: a permit goes back to the one that gave it."""
    page = 'caddy.md'

    def start_weirs(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        split = re.search(r'with `(sharing: split, rate: 6)`', page_text())[1]
        config = recipe_case.patient(self.weir_config().replace('rate: 2,', split + ',') + recipe_case.blocks(
            'nginx.md', 'yaml')[2].replace(':6379', f':{self.redis.port}'))
        self.weirs = [Weir(config, arguments=('--node', name)) for name in 'abc']
        for weir in self.weirs:
            self.addCleanup(weir.stop)
        self.weir = self.weirs[0]

    def start_proxy(self):
        start(self, lambda release, fields: release(fields.get('Weir-Permit'), weir=fields['Weir-At']))

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'caddyfile':
            return text
        lines = super().printed(language, 1)
        for port, weir in zip((8081, 8082, 8083), self.weirs):
            lines = lines.replace(f':{port} ', f':{weir.http} ')
        text = text.replace(f'\t\tforward_auth 127.0.0.1:{self.weir.http} {{\n', lines, 1)
        return after_forward_auth(text, re.search(r'`(request_header Weir-At \S+)`', page_text())[1])

    def test_permits_go_back_to_the_weir_that_gave_them(self):
        """Each client goes to one of three, by a hash (FNV-1a) of the weir's port, which is dealt anew, and its key. That 45
        clients leave one weir out has a probability of 3 x (2/3)^45, 4 in 10^8, if their keys differ in length too: that
        hash prefers one port to another alike for all keys of a length, and would leave one out in 1 of 1000 runs."""
        def ask(user):
            for _ in range(3 if user else 9):  # its weir has two permits, and for those without a key each has
                self.assertEqual(self.get('/export/x', {'X-Api-Key': user} if user else {})[0], 200)
        self.backend.free.set()
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            list(pool.map(ask, [hashlib.sha256(str(i).encode()).hexdigest()[i:] for i in range(45)]))
        ask(None)
        self.assertEqual([(path, fields) for path, fields in self.backend.seen if 'Weir-At' not in fields], [])
        self.assertEqual({fields['Weir-At'] for _, fields in self.backend.seen},
                         {f'127.0.0.1:{weir.http}' for weir in self.weirs})

    def test_they_share_one_limit(self):
        statuses = [self.get('/upload/x', {'X-Api-Key': f'user-{i}'})[0] for i in range(15)]
        self.assertEqual((statuses.count(200), statuses.count(429)), (5, 10))


if __name__ == '__main__':
    unittest.main()
