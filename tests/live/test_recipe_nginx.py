#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/nginx.md as it is printed, with a real nginx."""
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import recipe_case
import recipe_operator
from redis_server import Redis, stand_still, wait_for
from weir_server import Weir

AROUND = '''worker_processes 1; daemon off; pid FOLDER/pid; error_log FOLDER/error.log warn; events { }
http { access_log off; client_body_temp_path FOLDER/b; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f;
uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
PRINTED
}
'''


def start_nginx(case):
    text = AROUND.replace('PRINTED', case.printed('nginx')).replace('FOLDER', str(case.folder))
    (case.folder / 'nginx.conf').write_text(text, encoding='utf-8')
    case.run_program(shutil.which('nginx') or '/usr/sbin/nginx', '-p', case.folder, '-e', case.folder / 'error.log',
                     '-c', case.folder / 'nginx.conf')


class Example(recipe_case.RecipeCase):
    """The shipped limits behind the recipe: nothing that they count by is missing."""
    page = 'nginx.md'

    def setUp(self):
        text = (recipe_case.ROOT / 'examples' / 'weir.yaml').read_text(encoding='utf-8')
        line = next(line for line in text.splitlines() if line.startswith('listen:'))
        self.config = text.replace(line, 'listen: { http: { forwarded: nginx } }')
        super().setUp()

    def start_proxy(self):
        start_nginx(self)

    def test_the_shipped_limits_refuse(self):
        begin = time.monotonic()
        statuses = [self.get('/api/x', self.honest)[0] for _ in range(60)]
        admitted, refilled = statuses.count(200), (time.monotonic() - begin) * 100 / 60
        self.assertEqual(admitted + statuses.count(429), 60)
        self.assertTrue(20 <= admitted <= min(60, 20 + refilled + 1), (admitted, refilled))
        self.assertEqual(self.get('/api/x', self.other)[0], 200)


class Nginx(recipe_case.ClientsThatLeave, recipe_case.PermitsOfTheProxy, recipe_case.Questions,
            recipe_case.RecipeCase):
    asks_of_all = True
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def test_of_two_keys_the_backend_sees_what_was_counted(self):
        self.use_up()
        with socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) as sock:
            sock.sendall(b'GET /api/x HTTP/1.1\r\nHost: a\r\nX-Api-Key: eve\r\nX-Api-Key: ada\r\nConnection: close\r\n\r\n')
            self.assertIn(b' 200 ', sock.makefile('rb').readline())
        fields = {name.lower(): value for name, value in self.backend.seen[-1][1].items()}
        self.assertEqual(self.remaining({'route': '/api/x', 'user': fields['x-api-key']}), recipe_case.BURST - 1)

    def test_nothing_is_logged_of_refusals(self):
        self.use_up()
        self.get('/api/x', self.honest)
        self.assertEqual((self.folder / 'error.log').read_text(encoding='utf-8'), '')


class Http2(recipe_case.RecipeCase):
    """The server of its own that the page has for HTTP/2."""
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'nginx':
            return text
        page = (recipe_case.ROOT / 'docs/nginx.md').read_text(encoding='utf-8')
        lines = re.search(r'write `(set_real_ip_from .*?)` behind its `listen`', page)[1]
        text = re.sub(r'^( *listen .*)$', rf'\1\n{lines}', text, count=1, flags=re.M)
        server = [' http2;' in block for block in recipe_case.blocks(self.page, language)].index(True)
        return text + super().printed(language, server)

    def curl(self, path, *words):
        return subprocess.Popen(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_version} %{http_code}', *words,
                                 '--http2-prior-knowledge', '-H', 'X-Api-Key: ada', f'http://127.0.0.1:{self.inner}{path}'],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding='utf-8')

    def out(self):
        return sum(int(number) for number in re.findall(r'^weir_permits_out\S* (\d+)$', self.metrics(), re.M))

    def test_requests_pass_and_each_address_counts_alone(self):
        self.assertEqual(self.curl('/api/x').communicate(timeout=recipe_case.AWAIT_S)[0], '2 200')
        said = [self.curl('/upload/x', '--interface', '127.0.0.2').communicate(timeout=recipe_case.AWAIT_S)[0]
                for _ in range(6)]
        self.assertEqual(said, ['2 200'] * 5 + ['2 429'])
        self.assertEqual(self.curl('/upload/x').communicate(timeout=recipe_case.AWAIT_S)[0], '2 200')

    def test_who_leaves_while_weir_is_asked_leaves_no_permit(self):
        self.backend.free.set()
        for _ in range(4):
            stand_still(self.weir.process.pid)
            client = self.curl('/export/a')
            wait_for(lambda: self.questions() > 0, 'it does not ask')
            client.kill()
            client.wait()
            client.stdout.close()
            self.weir.process.send_signal(signal.SIGCONT)
        self.assertIn('weir_permits_out', self.metrics())
        wait_for(lambda: self.admitted('exports') > 0, 'nobody was admitted')
        wait_for(lambda: self.out() == 0, 'a permit is out')


class Stopped(recipe_case.RecipeCase):
    """A weir that hangs (SIGSTOP), and goes on. nginx's own timeouts are 60 s, and nothing is awaited for so long
    (AWAIT_S): what comes, comes by the page's."""
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def stop(self):
        stand_still(self.weir.process.pid)
        self.addCleanup(self.go_on)

    def go_on(self):
        self.weir.process.send_signal(signal.SIGCONT)

    def answers(self, clients):
        answers = [client.getresponse() for client in clients]
        found = [(answer.status, answer.read()) for answer in answers]
        for client in clients:
            client.close()
        return found

    def await_answers(self):
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while self.get('/api/x', self.other)[0] != 200:
            self.assertLess(time.monotonic(), deadline, 'nginx does not ask weir again')

    def test_nothing_passes_and_then_it_decides_again(self):
        self.assertEqual(self.get('/api/x', self.honest)[0], 200)
        before = self.passed()
        self.stop()
        clients = [self.send('/api/x', self.honest) for _ in range(8)]
        self.assertEqual([status for status, _ in self.answers(clients)], [500] * 8)
        self.assertEqual(self.passed(), before)
        self.go_on()
        self.await_answers()
        self.assertGreaterEqual(self.remaining({'route': '/api/x', 'user': 'ada'}), recipe_case.BURST - 9)
        while (status := self.get('/api/x', self.honest)[0]) == 200:
            self.assertLess(self.passed(), before + 2 * recipe_case.BURST)
        self.assertEqual(status, 429)

    def test_what_is_to_be_given_back_meanwhile_comes_back(self):
        """And holds up the connection's next request no longer than the page says."""
        clients = [self.send('/export/x', self.honest) for _ in range(2)]
        for _ in clients:
            self.assertTrue(self.backend.arrived.acquire(timeout=recipe_case.AWAIT_S))
        self.stop()
        self.backend.free.set()
        self.backend.go_on.release(len(clients))  # whichever of them came first
        for client in clients:
            answer = client.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, b'hello\n'))
            client.request('GET', '/api/x', headers=self.other)
        self.assertEqual([status for status, _ in self.answers(clients)], [500, 500])
        self.go_on()
        self.await_permit()


def printed_open(case, text):
    """With what the page says for who would rather fail open."""
    page = (recipe_case.ROOT / 'docs' / case.page).read_text(encoding='utf-8')
    line, location = re.search(r'To fail open, add to `/_weir`\s`([^`]*)` and `([^`]*)`', page).groups()
    begin = 'location = /_weir {'
    return text.replace(begin, f'{location}\n{begin} {line}', 1)


class Open(Stopped):
    test_nothing_passes_and_then_it_decides_again = None
    test_what_is_to_be_given_back_meanwhile_comes_back = None

    def printed(self, language, index=0):
        return printed_open(self, super().printed(language, index))

    def test_all_pass_and_then_it_refuses_again(self):
        self.use_up()
        self.stop()
        clients = [self.send('/api/x', self.honest) for _ in range(8)]
        self.assertEqual(self.answers(clients), [(200, b'hello\n')] * 8)
        self.go_on()
        self.await_answers()
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while self.get('/api/x', self.honest)[0] != 429:
            self.assertLess(time.monotonic(), deadline, 'all still pass')


class OpenAndClosed(recipe_case.FailsOpen, recipe_case.RecipeCase):
    page = 'nginx.md'
    closed = 500

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        return printed_open(self, super().printed(language, index))


class Tunnels(recipe_case.Tunnels, recipe_case.RecipeCase):
    """With what the page says of WebSockets."""
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        return super().printed(language, index).replace('proxy_set_header Connection "";', super().printed(language, 1), 1)


class Tokens(recipe_operator.Tokens, recipe_case.RecipeCase):
    """With what the page says of tokens."""
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        line = re.search(r'`(proxy_set_header X-Weir-Token TOKEN;)`', page)[1]
        include, *places = re.search(r'`(include \S+;)` into `(\S+)` \*\*and\*\* `(\S+)`', page).groups()
        (self.folder / 'token').write_text(line.replace('TOKEN;', recipe_operator.TOKEN + ';'), encoding='utf-8')
        text = super().printed(language, index)
        for place in places:
            begin = f'location = {place} {{'
            self.assertIn(begin, text)
            text = text.replace(begin, f'{begin} {include}'.replace('/etc/nginx/weir-token', str(self.folder / 'token')))
        return text


class WrongToken(recipe_operator.WrongToken, Tokens):
    pass


class Refused(recipe_operator.Refused, recipe_case.RecipeCase):
    page = 'nginx.md'
    closed, gone = 500, (500,)

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        line = re.search(r'`(access_log \S+ refused if=\$refused;)`', page)[1]
        line = line.replace('/var/log/nginx/refused.log', str(self.folder / 'refused.log'))
        around = super().printed(language, len(recipe_case.blocks(self.page, language)) - 1)
        return around + super().printed(language, index).replace('server {\n', f'server {{\n{line}\n', 1)

    def refused(self):
        lines = (self.folder / 'refused.log').read_text(encoding='utf-8').splitlines()
        found = [re.match(r'\S+ (\d+) (\d+) 127\.0\.0\.1 "(\S+)" "(\S+)" ', line) for line in lines]
        return [(int(match[1]), int(match[2]), match[3].replace('-', ''), match[4], line)
                for match, line in zip(found, lines)]


class Several(recipe_case.RecipeCase):
    """Three weirs, as the page says: they share limits through Redis, and what takes a permit and what gives it back go to
    the same one."""
    page = 'nginx.md'

    def weir_config(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        split = re.search(r'in `exports` `(sharing: split, rate: 6)`', page)[1]
        nodes = recipe_case.blocks(self.page, 'yaml')[2].replace(':6379', f':{self.redis.port}')
        return recipe_case.patient(super().weir_config().replace('rate: 2,', split + ',') + nodes)

    def start_weirs(self):
        config = self.weir_config()
        self.weir, *self.others = [Weir(config, arguments=('--node', name)) for name in 'abc']
        for weir in (self.weir, *self.others):
            self.addCleanup(weir.stop)

    def start_proxy(self):
        start_nginx(self)

    def printed(self, language, index=0):
        text, upstream = super().printed(language, index), super().printed(language, 2).strip()
        for port, weir in zip((8081, 8082, 8083), (self.weir, *self.others)):
            upstream = upstream.replace(f':{port};', f':{weir.http};')
        return text.replace(text.splitlines()[0], upstream, 1)

    def test_permits_go_back_to_the_weir_that_gave_them(self):
        self.backend.free.set()
        for user in ('ada', 'bob', 'cyd', 'dan', None):
            fields = {'X-Api-Key': user} if user else {}
            client = self.send('/export/x', fields)  # its next request waits for the permit to be back
            for _ in range(8):
                self.assertEqual(client.getresponse().read(), b'hello\n')
                client.request('GET', '/export/x', headers=fields)
            self.assertEqual(client.getresponse().status, 200)
            client.close()

    def test_they_keep_one_limit_and_know_of_each_other(self):
        statuses = [self.get('/upload/x', {'X-Api-Key': f'user-{i}'})[0] for i in range(15)]
        self.assertEqual((statuses.count(200), statuses.count(429)), (5, 10))
        for weir in (self.weir, *self.others):
            client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=recipe_case.AWAIT_S)
            client.request('GET', '/v1/limits')
            self.assertEqual({limit['nodes'] for limit in json.loads(client.getresponse().read())['limits']}, {3})
            client.close()


if __name__ == '__main__':
    unittest.main()
