#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/nginx.md as it is printed, with a real nginx."""
import shutil
import socket
import time
import unittest

import recipe_case

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


class Nginx(recipe_case.PermitsOfTheProxy, recipe_case.Questions, recipe_case.RecipeCase):
    page = 'nginx.md'

    def start_proxy(self):
        start_nginx(self)

    def test_a_client_that_leaves_while_weir_is_asked_gives_its_permit_back(self):
        """weir has given it, and nobody may be left to take it: of each of these clients none stays away."""
        clients = [f'gone-{i}' for i in range(400)]
        self.backend.free.set()
        for i, client in enumerate(clients):
            sock = self.send('/export/x', {'X-Api-Key': client})
            time.sleep(i % 20 / 5000)  # 0 to 4 ms
            sock.close()
        deadline = time.monotonic() + recipe_case.AWAIT_S
        for client in clients:
            while self.remaining({'route': '/export/x', 'user': client}) != 2:
                self.assertLess(time.monotonic(), deadline, f'a permit of {client} did not come back')
                time.sleep(0.05)

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


if __name__ == '__main__':
    unittest.main()
