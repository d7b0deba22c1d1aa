#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/caddy.md as it is printed, with a real Caddy."""
import os
import shutil
import signal
import socket
import time
import unittest

import recipe_case
from redis_server import stand_still


class Caddy(recipe_case.ClientsThatLeave, recipe_case.Tunnels, recipe_case.Questions, recipe_case.RecipeCase):
    asks_of_all = True
    page = 'caddy.md'

    def start_proxy(self):
        release = {}
        exec(self.printed('python'), release)  # what the page gives to backends
        self.backend.done = lambda fields: release['release'](fields.get('Weir-Permit'))
        text = '{\n\tadmin off\n}\n' + self.printed('caddyfile')
        (self.folder / 'Caddyfile').write_text(text, encoding='utf-8')
        self.run_program(shutil.which('caddy') or '/usr/bin/caddy', 'run', '--config', self.folder / 'Caddyfile',
                         '--adapter', 'caddyfile', env=dict(os.environ, HOME=str(self.folder)))

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


if __name__ == '__main__':
    unittest.main()
