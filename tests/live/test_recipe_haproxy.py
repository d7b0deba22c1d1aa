#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/haproxy.md as it is printed, with a real HAProxy."""
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import threading
import time
import unittest

import recipe_case
import recipe_operator
from redis_server import Redis, stand_still, wait_for
from weir_server import Weir


def start(case, *words, patient=True):
    """In the folder of the case, with the page's script and configuration. Where nothing is to come too late the script
    waits longer for weir's answer: a machine that keeps it waiting is busy."""
    script, text, timeout = case.folder / 'weir.lua', case.printed('lua'), 'timeout = 2000'
    case.assertEqual(text.count(timeout), 1)
    script.write_text(text.replace(timeout, 'timeout = 20000') if patient else text, encoding='utf-8')
    text = case.printed('haproxy').replace('/etc/haproxy/weir.lua', str(script))
    (case.folder / 'haproxy.cfg').write_text(text, encoding='utf-8')
    return case.run_program(shutil.which('haproxy') or '/usr/sbin/haproxy', '-db', '-f', case.folder / 'haproxy.cfg', *words)


class Haproxy(recipe_case.ClientsThatLeave, recipe_case.PermitsOfTheProxy, recipe_case.Questions,
              recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        self.process = start(self)

    def listening(self):
        """Sockets, by their number."""
        found = recipe_case.sockets(self.front) + recipe_case.sockets(self.inner)
        return {inode for state, _, inode in found if state == '0A'}

    def test_permits_of_the_old_process_are_kept_over_a_reload(self):
        """Its question goes by the new one's section `weir`, which must not take the asker for one that has ended."""
        clients = [socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) for _ in range(3)]
        for client in clients:
            client.sendall(b'GET /export/x HTTP/1.1\r\nHost: a\r\n')
        wait_for(lambda: [one[:2] for one in recipe_case.sockets(self.front)].count(('01', 0)) == len(clients),
                 'the old process does not read them')
        old = self.listening()
        start(self, '-sf', self.process.pid)
        wait_for(lambda: len(self.listening()) == len(old) and not old & self.listening(), 'both listen')
        *clients, last = clients  # which keeps the old process
        for client in clients:
            client.sendall(b'X-Api-Key: ada\r\n\r\n')
            self.assertTrue(self.backend.arrived.acquire(timeout=recipe_case.AWAIT_S))
        time.sleep(0.3)  # more than it takes to give a permit back
        self.assertEqual(self.remaining({'route': '/export/x', 'user': 'ada'}), 0)
        for client in clients:
            client.close()
        self.backend_ends(2)
        self.await_permit()
        last.close()

    def test_a_client_with_two_keys_is_refused(self):
        """HAProxy would ask by the last, and many backends read the first."""
        self.use_up()
        before = self.passed()
        with socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) as sock:
            sock.sendall(b'GET /api/x HTTP/1.1\r\nHost: a\r\nX-Api-Key: ada\r\nX-Api-Key: eve\r\nConnection: close\r\n\r\n')
            self.assertIn(b' 400 ', sock.makefile('rb').readline())
        self.assertEqual(self.passed(), before)


class Late(recipe_case.ClientsThatLeave, recipe_case.RecipeCase):
    """What weir does not say, or not in time."""
    page = 'haproxy.md'
    test_a_client_that_leaves_at_once_gives_its_permit_back = None
    test_a_client_that_leaves_while_weir_is_stopped_gives_its_permit_back = None

    def start_proxy(self):
        start(self, patient=False)

    def test_what_weir_says_too_late_gives_its_permits_back(self):
        users = [f'late-{i}' for i in range(10)]
        stand_still(self.weir.process.pid)
        clients = [self.send('/export/x', {'X-Api-Key': user}) for user in users]
        for client in clients:
            self.assertEqual(client.getresponse().status, 503)
            client.close()
        self.weir.process.send_signal(signal.SIGCONT)
        self.await_permits(users)

    def test_without_weir_the_client_does_not_wait(self):
        self.weir.process.terminate()
        self.weir.process.wait(20)

        def refused():
            begin = time.monotonic()
            self.assertEqual(self.get('/api/x', self.honest)[0], 503)
            return time.monotonic() - begin < 4  # two of the question's timeouts; with retries it was 8 s

        self.assertTrue(any(refused() for _ in range(3)), 'it waits each time')


class Door:
    """A way to weir that can be shut: who comes then is refused."""

    def __init__(self, target):
        self.target, self.port = target, recipe_case.free_port()
        self.socks = []

    def open(self):
        listener = socket.create_server(('127.0.0.1', self.port))
        self.socks = [listener]
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                pair = listener.accept()[0], socket.create_connection(('127.0.0.1', self.target))
                self.socks += pair
                for one, other in (pair, pair[::-1]):
                    threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one, other):
        with contextlib.suppress(OSError):
            while heard := one.recv(65536):
                other.sendall(heard)
            other.shutdown(socket.SHUT_WR)

    def shut(self):
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


class Behind(recipe_case.RecipeCase):
    """weir cannot be reached for a while, and goes on."""
    page = 'haproxy.md'

    def start_proxy(self):
        self.door = Door(self.weir.http)
        self.addCleanup(self.door.shut)
        self.door.open()
        start(self)

    def printed(self, language, index=0):
        return super().printed(language, index).replace(f'server weir 127.0.0.1:{self.weir.http}',
                                                        f'server weir 127.0.0.1:{self.door.port}')

    def test_a_permit_that_could_not_be_given_back_is_given_back_later(self):
        client = self.send('/export/x', self.honest)
        self.assertTrue(self.backend.arrived.acquire(timeout=recipe_case.AWAIT_S))
        self.door.shut()
        self.backend.go_on.release()
        self.assertEqual(client.getresponse().read(), b'hello\n')
        client.close()
        time.sleep(3)
        self.assertEqual(self.remaining({'route': '/export/x', 'user': 'ada'}), 1)
        self.door.open()
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while self.remaining({'route': '/export/x', 'user': 'ada'}) != 2:
            self.assertLess(time.monotonic(), deadline, 'it did not come back')
            time.sleep(0.05)


class Http2(recipe_case.RecipeCase):
    """With what the page says for clients that speak HTTP/2."""
    page = 'haproxy.md'

    def start_proxy(self):
        start(self)

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'haproxy':
            return text
        self.door = recipe_case.free_port()
        bind = f'bind 127.0.0.1:{self.front}'
        return (text.replace(bind, f'{bind} accept-proxy', 1) +
                super().printed(language, 1).replace('127.0.0.1:8002', f'127.0.0.1:{self.door}'))

    def hang_up(self, cancel, timeout_s):
        """GET /export/x, and after it has arrived the stream is cancelled, or the connection ends."""
        def frame(kind, flags, stream, text=b''):
            return struct.pack('>I', len(text))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + text
        fields = ((b':method', b'GET'), (b':scheme', b'http'), (b':authority', b'a'), (b':path', b'/export/x'),
                  (b'x-api-key', b'ada'))
        block = b''.join(b'\x00' + b''.join(bytes([len(word)]) + word for word in field) for field in fields)
        with socket.create_connection(('127.0.0.1', self.door), recipe_case.AWAIT_S) as sock:
            sock.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0) + frame(1, 5, 1, block))
            self.backend.arrived.acquire(timeout=timeout_s)
            if cancel:
                sock.sendall(frame(3, 0, 1, struct.pack('>I', 8)))
                time.sleep(0.05)

    def test_who_hangs_up_leaves_no_more_at_work_than_the_limit_says(self):
        for i in range(10):
            self.hang_up(i % 2, recipe_case.AWAIT_S if i < 2 else 0.2)
        self.assertEqual(len(self.backend.at_work), 2)
        for _ in range(2):
            self.backend.go_on.release()
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while self.remaining({'route': '/export/x', 'user': 'ada'}) != 2:
            self.assertLess(time.monotonic(), deadline, 'a permit did not come back')
            time.sleep(0.05)


class Tokens(recipe_operator.Tokens, recipe_case.RecipeCase):
    """With what the page says of tokens."""
    page = 'haproxy.md'

    def start_proxy(self):
        os.environ['WEIR_TOKEN'] = recipe_operator.TOKEN
        self.addCleanup(os.environ.pop, 'WEIR_TOKEN')
        start(self)

    def printed(self, language, index=0):
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        line = re.search(r'`(http-request set-header X-Weir-Token \S+)`', page)[1]
        text, begin = super().printed(language, index), 'http-response lua.weir_answered\n'
        return text.replace(begin, f'{line}\n{begin}', 1)


class WrongToken(recipe_operator.WrongToken, Tokens):
    refusal = 503


class Refused(recipe_operator.Refused, recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        start(self)

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'haproxy':
            return text
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        silent = re.search(r'`(http-request set-log-level silent .*?)`', page)[1]
        lines = next(block for block in recipe_case.blocks(self.page, language) if 'log-format' in block)
        return (text.replace('frontend web\n', 'frontend web\n' + lines, 1)
                .replace('    http-request lua.weir\n', f'    http-request lua.weir\n    {silent}\n', 1))

    def refused(self):
        lines = (self.folder / 'log').read_text(encoding='utf-8', errors='replace').splitlines()
        found = [(re.match(r'\d{10} (\d+) (\d+) (\S+) 127\.0\.0\.1 "(\S*)" "(\S+)"$', line), line) for line in lines]
        return [(int(match[1]), int(match[2]), match[4].replace('-', ''), match[5], line) for match, line in found if match]


class Several(recipe_case.RecipeCase):
    """Two weirs, as the page says: one is asked, and the other when the first is gone."""
    page = 'haproxy.md'

    def start_weirs(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        page = (recipe_case.ROOT / 'docs' / self.page).read_text(encoding='utf-8')
        nodes, split = re.search(r'`(nodes: .*?)` and, in `exports`, `(.*?)`', page).groups()
        config = recipe_case.patient(self.weir_config().replace('rate: 2,', split + ',') + re.sub(
            'nodes: .*?]', nodes, recipe_case.blocks('nginx.md', 'yaml')[2]).replace(':6379', f':{self.redis.port}'))
        self.weir, self.other = [Weir(config, arguments=('--node', name)) for name in 'ab']
        self.addCleanup(self.weir.stop)
        self.addCleanup(self.other.stop)

    def start_proxy(self):
        start(self)

    def printed(self, language, index=0):
        text = super().printed(language, index)
        if language != 'haproxy':
            return text
        lines = next(block for block in recipe_case.blocks(self.page, language) if 'backup' in block)
        for port, weir in ((8081, self.weir), (8082, self.other)):
            lines = lines.replace(f':{port} ', f':{weir.http} ')
        return text.replace(f'    server weir 127.0.0.1:{self.weir.http}\n', lines, 1)

    def at_work(self):
        clients = [self.send('/export/x', self.honest) for _ in range(2)]
        for _ in clients:
            self.assertTrue(self.backend.arrived.acquire(timeout=recipe_case.AWAIT_S))
        self.assertEqual(self.get('/export/x', self.honest)[0], 429)
        for client in clients:
            client.close()
        self.backend_ends(2)

    def test_one_is_asked_and_then_the_other(self):
        self.at_work()
        self.await_permit()
        self.use_up('/upload/x', capacity=5)
        self.weir.process.terminate()
        self.weir.process.wait(20)
        self.backend.free.clear()
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while self.get('/elsewhere', self.honest)[0] == 503:
            self.assertLess(time.monotonic(), deadline, 'the other one is not asked')
            time.sleep(0.2)
        self.assertEqual(self.get('/upload/x', self.honest)[0], 429, 'they share it through Redis')
        self.at_work()


class Open(recipe_case.FailsOpen, recipe_case.RecipeCase):
    """With what the page says for who would rather fail open."""
    page = 'haproxy.md'

    def start_proxy(self):
        start(self)

    def printed(self, language, index=0):
        text, begin = super().printed(language, index), '    local reply ='
        return text.replace(begin, super().printed(language, 1) + begin, 1) if language == 'lua' else text


if __name__ == '__main__':
    unittest.main()
