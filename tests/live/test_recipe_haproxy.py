#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/haproxy.md as it is printed, with a real HAProxy."""
import shutil
import socket
import unittest

import recipe_case


class Haproxy(recipe_case.PermitsOfTheProxy, recipe_case.Questions, recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        script = self.folder / 'weir.lua'
        script.write_text(self.printed('lua'), encoding='utf-8')
        text = self.printed('haproxy').replace('/etc/haproxy/weir.lua', str(script))
        (self.folder / 'haproxy.cfg').write_text(text, encoding='utf-8')
        self.run_program(shutil.which('haproxy') or '/usr/sbin/haproxy', '-db', '-f', self.folder / 'haproxy.cfg')

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
