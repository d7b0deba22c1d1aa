# SPDX-License-Identifier: Apache-2.0
"""What the recipes of docs/ have in common: a page's text, a backend, and the questions that each proxy must survive."""
import contextlib
import http.client
import http.server
import json
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from ports import free_port
from redis_server import stand_still
from weir_server import ROOT, Weir

BURST = 20          # of api-per-user on every page
REFILL_S = 864      # 100/day
AWAIT_S = 30
# What a client might say to be counted as somebody else, or somewhere else, or not at all.
SPOOFS = {'X-Weir-User': 'eve', 'X-Weir-Route': '/free', 'X-Weir-Method': 'FREE', 'X-Weir-Ip': '203.0.113.7',
          'X-Weir-Cost': '0', 'X-Weir-Authorization': 'eve', 'X-Weir-Token': 'eve', 'X_Weir_User': 'eve',
          'X-Original-URI': '/free', 'X-Original-Method': 'FREE', 'X-Real-IP': '203.0.113.8', 'X_Original_URI': '/free',
          'X-Forwarded-Uri': '/free', 'X-Forwarded-Method': 'FREE', 'X-Forwarded-For': '203.0.113.9',
          'X-Forwarded-Host': 'free', 'Forwarded': 'for=203.0.113.10', 'Weir-Permit': 'f' * 50,
          'Connection': 'X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For, X-Original-URI, X-Weir-User'}
ODD_PATHS = ('//api/x', '///api//x', '/./api/x', '/o/../api/x', '/%2e/api/x', '/o/%2e%2e/api/x', '/%61pi/x', '/api%2fx',
             '/%2fapi/x', '/x%2f..%2fapi/y', '/api/y/../x', '/api/./x', '/api//x', '/../api/x', '/api/x?a=b', '/api/x?/../free',
             '/api/%78', '/o/.%2e/api/x')

UPGRADE = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13',
           'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}
UPGRADE_ANSWER = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Accept': 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='}


def sockets(port):
    """Of a server's port: (state, as /proc/net/tcp has it; bytes that it has not read; inode)."""
    rows = [line.split() for line in pathlib.Path('/proc/net/tcp').read_text(encoding='ascii').splitlines()[1:]]
    return [(row[3], int(row[4].partition(':')[2], 16), row[9]) for row in rows if row[1].endswith(f':{port:04X}')]


def patient(config):
    """With the page's Redis: a machine on which that is late is busy, and nothing fails."""
    return config.replace('burst: 5 }', 'burst: 5, deadline: 10s }').replace('"] }', '"], connect_timeout: 30s }')


def blocks(page, language):
    """The fenced blocks of a page, as printed."""
    text = (ROOT / 'docs' / page).read_text(encoding='utf-8')
    return re.findall(rf'^```{language}\n(.*?)^```$', text, re.M | re.S)


class Backend:
    """Answers hello; below /export/ only when told to, unless `free`. `seen` is (path, header fields) of what arrived."""

    def __init__(self):
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                fields = {name: ', '.join(self.headers.get_all(name)) for name in self.headers}
                backend.seen.append((self.path, fields))
                if self.headers['Upgrade']:
                    return self.tunnel()
                if self.path.startswith('/export/') and not backend.free.is_set():
                    backend.at_work.append(self.path)
                    backend.arrived.release()
                    backend.go_on.acquire(timeout=AWAIT_S)
                    backend.at_work.pop()
                backend.done(dict(self.headers))
                self.send_response(200)
                self.send_header('Content-Length', '6')
                self.end_headers()
                self.wfile.write(b'hello\n')

            do_POST = do_PUT = do_FREE = do_GET

            def tunnel(self):
                """Says what it hears, until the other side closes."""
                self.close_connection = True
                self.send_response(101)
                for name, value in UPGRADE_ANSWER.items():
                    self.send_header(name, value)
                self.end_headers()
                while heard := self.rfile.read1(65536):
                    self.wfile.write(heard)
                backend.done(dict(self.headers))

            def log_message(self, *_):
                pass
        self.seen, self.free = [], threading.Event()
        self.arrived, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.done, self.at_work = lambda fields: None, []
        # No port that the system deals: one whose backend is gone, and is still asked for, becomes somebody else's soon.
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', free_port()), Handler)
        self.server.handle_error = lambda *_: None  # clients go away on purpose
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        for _ in range(20):
            self.go_on.release()
        self.server.shutdown()
        self.server.server_close()


class PermitsOfTheProxy:
    """Where the proxy itself gives permits back, it does so however a request ends."""

    def test_a_client_that_goes_away_gives_its_permit_back(self):
        clients = [self.send('/export/x', self.honest) for _ in range(2)]
        for _ in clients:
            self.assertTrue(self.backend.arrived.acquire(timeout=AWAIT_S))
        self.assertEqual(self.get('/export/x', self.honest)[0], 429)
        for client in clients:
            client.close()
        self.backend_ends(2)
        self.await_permit()

    def test_a_backend_that_is_gone_gives_its_permit_back(self):
        self.backend.stop()
        deadline, failed = time.monotonic() + AWAIT_S, 0
        while failed < 3:  # there are two permits
            status = self.get('/export/x', self.honest)[0]
            self.assertIn(status, (429, 502, 503))
            self.assertLess(time.monotonic(), deadline)
            failed += status != 429


class Tunnels:
    """A request that became a tunnel (101) lasts as long as the tunnel."""

    def test_a_tunnel_holds_its_permit_until_it_is_closed(self):
        def tell(tunnel):
            tunnel.sock.sendall(b'hello')
            self.assertEqual(tunnel.sock.recv(5, socket.MSG_WAITALL), b'hello')

        def start():
            tunnel = self.send('/export/x', {**self.honest, **UPGRADE})
            self.assertEqual(tunnel.getresponse().status, 101)
            tell(tunnel)
            return tunnel
        tunnels = [start(), start()]
        for _ in range(3):
            time.sleep(0.2)  # more than it takes to give a permit back
            self.assertEqual(self.get('/export/x', self.honest)[0], 429)
            for tunnel in tunnels:
                tell(tunnel)
        for left, tunnel in enumerate(tunnels, 1):
            tunnel.sock.shutdown(socket.SHUT_RDWR)
            tunnel.close()
            deadline = time.monotonic() + AWAIT_S
            while self.remaining({'route': '/export/x', 'user': 'ada'}) != left:
                self.assertLess(time.monotonic(), deadline, 'the permit of a tunnel did not come back')
                time.sleep(0.05)


class ClientsThatLeave:
    """weir gives a permit, and nobody may be left to take it: none of these may stay away."""
    asks_of_all = False  # whether the proxy asks about each request that it was sent, however soon its client leaves

    def await_permits(self, users, enough=None):
        """All who were asked about have been admitted, half of them at least, and nobody has a permit any more."""
        asked, since = 0, time.monotonic()
        least = len(users) if self.asks_of_all else (len(users) // 2 if enough is None else enough) + 1
        while asked < len(users) and time.monotonic() < since + (AWAIT_S if asked < least else 5):
            time.sleep(0.05)
            if (now := self.admitted('exports')) > asked:
                asked, since = now, time.monotonic()
        self.assertGreaterEqual(asked, least)
        deadline = time.monotonic() + AWAIT_S
        for user in users:
            while self.remaining({'route': '/export/x', 'user': user}) != 2:
                self.assertLess(time.monotonic(), deadline, f'a permit of {user} did not come back: {self.permits()}')
                time.sleep(0.05)

    def permits(self):
        """What weir tells of them."""
        return re.findall(r'^weir_(?:permits|releases)_.*$', self.metrics(), re.M)

    def test_a_client_that_leaves_at_once_gives_its_permit_back(self):
        users, enough, until = [], 200, time.monotonic() + 60
        self.backend.free.set()
        while len(users) < 2 * enough or (self.admitted('exports') <= enough and time.monotonic() < until):
            users.append(f'gone-{len(users)}')
            client = self.send('/export/x', {'X-Api-Key': users[-1]})
            time.sleep(len(users) % 20 / 5000)  # 0 to 4 ms
            client.close()
        self.await_permits(users, enough)

    def test_a_client_that_leaves_while_weir_is_stopped_gives_its_permit_back(self):
        users = [f'gone-{i}' for i in range(20)]
        self.backend.free.set()
        stand_still(self.weir.process.pid)
        clients = [self.send('/export/x', {'X-Api-Key': user}) for user in users]
        deadline = time.monotonic() + (AWAIT_S if self.asks_of_all else 5)
        while self.questions() < len(users) and time.monotonic() < deadline:
            time.sleep(0.02)  # each question is on its way
        for i, client in enumerate(clients):
            if i % 2:  # a reset
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            client.close()
        time.sleep(0.3)
        self.weir.process.send_signal(signal.SIGCONT)
        self.await_permits(users)


class RecipeCase(unittest.TestCase):
    """A subclass names its page and starts its proxy (start_proxy), which listens on self.front."""
    page = None
    config = None  # of weir; None: the page's
    honest = {'X-Api-Key': 'ada'}
    other = {'X-Api-Key': 'bob'}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-recipe-'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.backend, self.front, self.inner = Backend(), free_port(), free_port()
        self.start_weirs()
        self.addCleanup(self.backend.stop)
        self.start_proxy()
        deadline = time.monotonic() + AWAIT_S
        while not self.listens():
            self.assertLess(time.monotonic(), deadline, f'the proxy does not listen: {self.logged()}')
            time.sleep(0.02)

    def weir_config(self):
        """As printed, but that nothing comes back while a test asks, however busy the machine is."""
        return (self.config or blocks(self.page, 'yaml')[0]).replace('rate: 100/hour', 'rate: 100/day')

    def start_weirs(self):
        self.weir = Weir(self.weir_config())
        self.addCleanup(self.weir.stop)

    def logged(self):
        """By the programs that were started."""
        return [path.read_text(encoding='utf-8', errors='replace') for name in ('log', 'error.log')
                if (path := self.folder / name).exists()]

    def listens(self):
        with socket.socket() as sock:
            return sock.connect_ex(('127.0.0.1', self.front)) == 0

    def start_proxy(self):
        raise NotImplementedError

    def printed(self, language, index=0):
        """A block of the page with the ports of this test."""
        text = blocks(self.page, language)[index]
        for port, ours in (('127.0.0.1:8080', self.weir.http), ('127.0.0.1:9000', self.backend.port),
                           ('127.0.0.1:8000', self.front), ('127.0.0.1:8001', self.inner)):
            text = text.replace(port, f'127.0.0.1:{ours}')
        return text

    def run_program(self, *words, **options):
        with open(self.folder / 'log', 'ab') as log:
            process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       **options)
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        return process

    def send(self, path, fields=None, method='GET'):
        """A connection on which that was asked."""
        client = http.client.HTTPConnection('127.0.0.1', self.front, timeout=AWAIT_S)
        client.putrequest(method, path)
        for name, value in (fields or {}).items():
            client.putheader(name, value)
        client.endheaders()
        return client

    def remaining(self, attributes):
        """What weir says is left to whom the only limit that applies counts."""
        client = http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=AWAIT_S)
        client.request('POST', '/v1/check', json.dumps({'attributes': attributes, 'peek': True}))
        limits = json.loads(client.getresponse().read())['limits']
        client.close()
        return limits[0]['remaining']

    def questions(self):
        """On their way to a weir that stands still: what lies there of connections that are open, or half closed."""
        return sum(state in ('01', '08') and unread > 0 for state, unread, _ in sockets(self.weir.http))

    def metrics(self):
        client = http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=AWAIT_S)
        client.request('GET', '/metrics')
        text = client.getresponse().read().decode()
        client.close()
        return text

    def admitted(self, limit):
        return int(re.search(rf'^weir_decisions_total{{limit="{limit}",verdict="admitted"}} (\d+)', self.metrics(), re.M)[1])

    def get(self, path, fields=None, method='GET'):
        client = self.send(path, fields, method)
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer.status, answer.headers, body

    def use_up(self, path='/api/x', fields=None, capacity=BURST):
        """Until a 429, which is returned; just as many as the limit allows came through."""
        begin, admitted = time.monotonic(), 0
        while True:
            status, head, body = self.get(path, self.honest if fields is None else fields)
            if status == 429:
                break
            self.assertEqual((status, body), (200, b'hello\n'))
            admitted += 1
            self.assertLess(admitted, 2 * capacity)
        refilled = (time.monotonic() - begin) / REFILL_S
        self.assertTrue(capacity <= admitted <= capacity + refilled + 1, admitted)
        return head

    def passed(self):
        return len(self.backend.seen)

    def backend_ends(self, count):
        """Permits stay out as long as the backend is at work, and no longer."""
        time.sleep(0.3)  # more than it takes to give a permit back
        self.assertEqual(self.get('/export/x', self.honest)[0], 429)
        for _ in range(count):
            self.backend.go_on.release()

    def await_permit(self):
        """The lease is ten minutes: what comes back sooner was given back."""
        deadline = time.monotonic() + AWAIT_S / 2  # the backend works longer on what was left behind
        self.backend.free.set()
        while self.get('/export/x', self.honest)[0] != 200:
            self.assertLess(time.monotonic(), deadline, 'no permit came back')
            time.sleep(0.05)


class FailsOpen:
    """A weir that is gone lets all pass; a limit with on_failure: closed does not, though its engine is gone."""
    closed = 503  # what its refusal is to the client

    def setUp(self):
        page = blocks(self.page, 'yaml')[0]
        self.config = (f'engine: {{ redis: {{ servers: ["127.0.0.1:{free_port()}"], connect_timeout: 100ms }} }}\n'
                       + re.sub('name: (exports|uploads-per-address),', r'name: \1, sharing: split,', page)
                       .replace('name: api-per-user,', 'name: api-per-user, on_failure: closed,'))
        super().setUp()

    def test_what_weir_does_not_answer_passes_and_what_it_refuses_does_not(self):
        before = self.passed()
        self.assertEqual([self.get('/api/x', self.honest)[0] for _ in range(8)], [self.closed] * 8)
        self.assertEqual(self.passed(), before)
        self.use_up('/upload/x', capacity=5)
        self.weir.process.terminate()
        self.weir.process.wait(20)
        for path in ('/api/x', '/upload/x'):
            self.assertEqual(self.get(path, self.honest)[0], 200)


class Questions:
    """What every recipe must stand, asked of a RecipeCase."""

    def test_what_is_used_up_is_refused(self):
        head = self.use_up()
        self.assertIn('"api-per-user";r=0;t=', head['RateLimit'])
        self.assertGreaterEqual(int(head['Retry-After']), 1)
        status, head, _ = self.get('/api/x', self.other)
        self.assertEqual(status, 200, 'another user has a counter of his own')
        self.assertEqual(self.get('/elsewhere', self.honest)[0], 200)

    def test_no_field_of_the_client_is_believed(self):
        self.use_up()
        self.use_up('/upload/x', capacity=5)
        before = self.passed()
        every = {name: value for name, value in SPOOFS.items() if name != 'Connection'}
        for fields in [{name: value} for name, value in SPOOFS.items()] + [every]:
            for path in ('/api/x', '/upload/x'):
                with self.subTest(fields=fields, path=path):
                    status = self.get(path, {**self.honest, **fields})[0]
                    self.assertIn(status, (429, 400, 500), 'it was let through')
        self.assertEqual(self.passed(), before)

    def test_no_attribute_of_the_client_reaches_weir(self):
        """With these it would answer 400: there are more than it takes."""
        self.assertEqual(self.get('/api/x', {**self.honest, **{f'X-Weir-A{i}': 'x' for i in range(65)}})[0], 200)
        self.assertEqual(self.get('/api/x', {f'X-Weir-A{i}': 'x' for i in range(65)})[0], 200)

    def test_no_spelling_of_a_field_reaches_the_backend_that_it_takes_for_another(self):
        """CGI and WSGI make one name of X_Api_Key and X-Api-Key, PHP of X.Api.Key too: weir would not count whom they
        believe."""
        for sign in '_.':
            names = {name.replace('-', sign) for name in (*self.honest, 'Weir-Permit') if '-' in name}
            spoofs = dict.fromkeys(names, 'eve')
            for fields in (spoofs, {**self.honest, **spoofs}):
                self.assertEqual(self.get('/api/x', fields)[0], 200)
                seen = {name.lower() for name in self.backend.seen[-1][1]}
                self.assertEqual({name.lower() for name in names} & seen, set())

    def test_odd_paths_are_counted(self):
        self.use_up()
        before = self.passed()
        for path in ODD_PATHS:
            with self.subTest(path=path):
                self.assertIn(self.get(path, self.honest)[0], (429, 400, 301, 302, 307, 308))
        self.assertEqual(self.passed(), before)

    def test_who_has_no_key_is_counted_too(self):
        self.use_up(fields={})
        self.assertEqual(self.get('/api/x', self.other)[0], 200)

    def test_who_closes_the_sending_half_is_counted_too(self):
        self.use_up()
        before = self.passed()
        for i in range(100):
            client = self.send('/api/x', self.honest)
            time.sleep(i % 5 / 5000)
            client.sock.shutdown(socket.SHUT_WR)
            with client.sock, contextlib.suppress(ConnectionError):
                while client.sock.recv(65536):
                    pass
        self.assertEqual(self.get('/api/x', self.honest)[0], 429)
        self.assertEqual(self.passed(), before)

    def test_permits_come_back(self):
        def start():
            client = self.send('/export/x', self.honest)
            self.assertTrue(self.backend.arrived.acquire(timeout=AWAIT_S), 'it was refused')
            return client
        first, second = start(), start()
        self.assertEqual(self.get('/export/x', self.honest)[0], 429)
        self.backend.go_on.release()
        self.backend.go_on.release()
        for client in (first, second):
            self.assertEqual(client.getresponse().read(), b'hello\n')
            client.close()
        self.await_permit()

    def test_who_hangs_up_leaves_no_more_at_work_than_the_limit_says(self):
        for i in range(10):
            client = self.send('/export/x', self.honest)
            self.backend.arrived.acquire(timeout=AWAIT_S if i < 2 else 0.2)
            if i % 2:  # a reset
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            client.close()
        self.assertEqual(len(self.backend.at_work), 2)
        self.backend_ends(2)
        self.await_permit()

    def test_what_browsers_add_does_no_harm(self):
        """A CORS request, and a click on a link on another site."""
        for fields in ({'Origin': 'https://shop.example'}, {'Origin': 'null'},
                       {'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-User': '?1'}):
            self.assertEqual(self.get('/api/x', {**self.honest, **fields})[0], 200)

    def test_without_weir_nothing_passes(self):
        self.assertEqual(self.get('/api/x', self.honest)[0], 200)
        before = self.passed()
        self.weir.process.terminate()
        self.weir.process.wait(20)
        self.assertGreaterEqual(self.get('/api/x', self.honest)[0], 500)
        self.assertEqual(self.passed(), before)
