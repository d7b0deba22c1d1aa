#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/haproxy.md as it is printed, with a real HAProxy."""
import shutil
import signal
import socket
import time
import unittest

import recipe_case


class Haproxy(recipe_case.ClientsThatLeave, recipe_case.PermitsOfTheProxy, recipe_case.Questions,
              recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        script = self.folder / 'weir.lua'
        script.write_text(self.printed('lua'), encoding='utf-8')
        text = self.printed('haproxy').replace('/etc/haproxy/weir.lua', str(script))
        (self.folder / 'haproxy.cfg').write_text(text, encoding='utf-8')
        self.process = self.start_haproxy()

    def start_haproxy(self, *words):
        return self.run_program(shutil.which('haproxy') or '/usr/sbin/haproxy', '-db', '-f', self.folder / 'haproxy.cfg',
                                *words)

    def test_what_weir_says_too_late_gives_its_permits_back(self):
        users = [f'late-{i}' for i in range(10)]
        self.weir.process.send_signal(signal.SIGSTOP)
        clients = [self.send('/export/x', {'X-Api-Key': user}) for user in users]
        for client in clients:
            self.assertEqual(client.getresponse().status, 503)
            client.close()
        self.weir.process.send_signal(signal.SIGCONT)
        self.await_permits(users)

    def test_permits_of_the_old_process_are_kept_over_a_reload(self):
        """Its question goes by the new one's section `weir`, which must not take the asker for one that has ended."""
        clients = [socket.create_connection(('127.0.0.1', self.front), recipe_case.AWAIT_S) for _ in range(3)]
        for client in clients:
            client.sendall(b'GET /export/x HTTP/1.1\r\nHost: a\r\n')
        time.sleep(0.3)  # the old process has them
        self.start_haproxy('-sf', self.process.pid)
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


if __name__ == '__main__':
    unittest.main()
