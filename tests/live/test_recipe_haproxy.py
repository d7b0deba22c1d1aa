#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/haproxy.md as it is printed, with a real HAProxy."""
import contextlib
import shutil
import signal
import socket
import threading
import time
import unittest

import recipe_case


def start(case, *words):
    """In the folder of the case, with the page's script and configuration."""
    script = case.folder / 'weir.lua'
    script.write_text(case.printed('lua'), encoding='utf-8')
    text = case.printed('haproxy').replace('/etc/haproxy/weir.lua', str(script))
    (case.folder / 'haproxy.cfg').write_text(text, encoding='utf-8')
    return case.run_program(shutil.which('haproxy') or '/usr/sbin/haproxy', '-db', '-f', case.folder / 'haproxy.cfg', *words)


class Haproxy(recipe_case.ClientsThatLeave, recipe_case.PermitsOfTheProxy, recipe_case.Questions,
              recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        self.process = start(self)

    def test_what_weir_says_too_late_gives_its_permits_back(self):
        users = [f'late-{i}' for i in range(10)]
        self.weir.process.send_signal(signal.SIGSTOP)
        clients = [self.send('/export/x', {'X-Api-Key': user}) for user in users]
        for client in clients:
            self.assertEqual(client.getresponse().status, 503)
            client.close()
        self.weir.process.send_signal(signal.SIGCONT)
        self.await_permits(users)

    def test_without_weir_the_client_does_not_wait(self):
        self.weir.process.terminate()
        self.weir.process.wait(20)
        begin = time.monotonic()
        self.assertEqual(self.get('/api/x', self.honest)[0], 503)
        self.assertLess(time.monotonic() - begin, 4)  # two of the question's timeouts; with retries it was 8 s

    def test_permits_of_the_old_process_are_kept_over_a_reload(self):
        """Its question goes by the new one's section `weir`, which must not take the asker for one that has ended."""
        clients = [socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) for _ in range(3)]
        for client in clients:
            client.sendall(b'GET /export/x HTTP/1.1\r\nHost: a\r\n')
        time.sleep(0.3)  # the old process has them
        start(self, '-sf', self.process.pid)
        time.sleep(1)  # the new one listens alone
        *clients, last = clients  # which keeps the old process
        for client in clients:
            client.sendall(b'X-Api-Key: ada\r\n\r\n')
            self.assertTrue(self.backend.arrived.acquire(timeout=recipe_case.AWAIT_S))
        time.sleep(0.3)  # more than it takes to give a permit back
        self.assertEqual(self.remaining({'route': '/export/x', 'user': 'ada'}), 0)
        for client in clients:
            client.close()
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
