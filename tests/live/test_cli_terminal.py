#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the verbs print of text from outside holds no byte that a terminal obeys: owners and names of locks, what a
server answers, what a file of limits holds, what a database says."""
import contextlib
import http.server
import json
import pathlib
import subprocess
import tempfile
import threading
import unittest

from postgres_server import Postgres
from weir_server import BUILD, Weir

HOSTILE = 'a\x1b[2J\x9b1m\u202eb\r\nc\x7fä'
SHOWN = 'a\\x1b[2J\\xc2\\x9b1m\\xe2\\x80\\xaeb\\x0d\\x0ac\\x7fä'


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers every question with the server's `status` and `body`."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        body = json.dumps(self.server.body).encode()
        self.send_response(self.server.status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def answering(status, **body):
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hostile) as server:
        server.status, server.body = status, body
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f'127.0.0.1:{server.server_address[1]}'
        finally:
            server.shutdown()
            thread.join()


class Terminal(unittest.TestCase):
    def weir(self, *words):
        """All that it prints, which a terminal may see: UTF-8, and of the control characters the end of a line."""
        done = subprocess.run([str(BUILD / 'weir'), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        text = done.stdout.decode()
        self.assertEqual([char for char in text if char != '\n' and not char.isprintable()], [], repr(text))
        return text

    def test_owners_and_names_of_locks(self):
        with Weir('limits: []\nlocks: { engine: sqlite, path: %s/locks.db }\n' % self.folder()) as server:
            resp, at = ('--server', f'127.0.0.1:{server.resp}'), ('--server', f'127.0.0.1:{server.http}')
            command = [str(BUILD / 'weir'), 'lock', HOSTILE, '--owner', HOSTILE, *resp, '--', 'sh', '-c',
                       'echo begun; exec sleep 60']
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
                self.addCleanup(holder.kill)
                self.assertEqual(holder.stdout.readline(), b'begun\n')
                shown = self.weir('lock', 'show', HOSTILE, *at)
                self.assertIn(f'{SHOWN} is held\n', shown)
                self.assertRegex(shown, r'\n  holder +a\\x1b\[2J\\xc2\\x9b1m\\xe2\\x80\\xaeb\\x0d\\x0ac\\x7fä\n')
                self.assertIn(f'weir: {SHOWN}: is held by {SHOWN} for ', self.weir('lock', HOSTILE, *resp, '--', 'true'))
                self.assertEqual(self.weir('lock', 'release', HOSTILE, '--owner', HOSTILE, *at), f'{SHOWN}: released\n')
                holder.kill()

    def test_what_a_server_answers(self):
        limit = {'limit': HOSTILE, 'admitted': True, 'sharing': HOSTILE, 'fallback': HOSTILE}
        for words, status, body in (
                (('lock', 'show', 'a'), 200, {'held': True, 'holder': HOSTILE, 'fence': HOSTILE}),
                (('lock', 'show', 'a'), 500, {'detail': HOSTILE}),
                (('lock', 'release', 'a', '--owner', 'x'), 404, {'detail': HOSTILE}),
                (('lock', 'restored'), 500, {'title': HOSTILE}),
                (('check', 'user=x'), 200, {'admitted': True, 'missing': HOSTILE, 'limits': [limit],
                                            'limit': HOSTILE, 'permit': HOSTILE}),
                (('check', 'user=x'), 400, {'detail': HOSTILE}),
                (('explain', 'user=x'), 400, {'detail': HOSTILE}),
                (('explain', 'user=x'), 200, {'checksum': HOSTILE, 'source': '/nowhere/\x1b[2J'}),
                (('explain', 'user=x'), 200, {'checksum': HOSTILE, 'since': HOSTILE, 'by': HOSTILE})):
            with self.subTest(words=words, body=body), answering(status, **body) as server:
                self.assertIn('\\x1b[2J', self.weir(*words, '--server', server))

    def test_what_a_server_says_over_resp(self):
        with http.server.HTTPServer(('127.0.0.1', 0), None, bind_and_activate=True) as server:
            def answer():
                with server.socket.accept()[0] as sock:
                    sock.recv(4096)
                    sock.sendall(b'-ERR \x1b[2J\xff\r\n')
                    sock.recv(4096)
            thread = threading.Thread(target=answer)
            thread.start()
            said = self.weir('lock', 'a', '--server', f'127.0.0.1:{server.server_address[1]}', '--', 'true')
            self.assertIn(r'ERR \x1b[2J\xff', said)
            thread.join()

    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-terminal-')
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_a_file_of_limits(self):
        path = pathlib.Path(self.folder(), 'weir.yaml')
        for text in (r'limits: [ { name: "a\e[2J", rate: 1/s } ]', r'limits: [ { name: a, rate: "1\e[2J/s" } ]',
                     r'"lim\e[2Jits": []', r'limits: [ { name: a, rate: 1/s, match: { "r\e[2J": "\e[2J" } } ]',
                     r'limits: [ { name: a, rate: 1/s, cost: "c\e[2J" } ]',
                     r'limits: [ { name: a, rate: 1/s, key: ["\e[2J"], overrides: [ { match: { "\e[2J": "\e[2J" }, '
                     r'rate: 2/s } ] } ]'):
            path.write_text(text, encoding='utf-8')
            for words in (('rules', 'check', str(path)), ('serve', '--check', str(path)),
                          ('explain', '--config', str(path), 'r\x1b[2J=x', '\x1b[2J=x')):
                with self.subTest(text=text, words=words):
                    self.weir(*words)

    def test_the_name_of_a_file_of_limits(self):
        path = pathlib.Path(self.folder(), HOSTILE)
        for text, words in (('limits: [ { name: a, key: [x], rate: 100/hour } ]', '1 limit, 0 warnings'),
                            ('limits: [ { name: a, rate: 1/s } ] # \x01', 'not YAML'),
                            ('rules: { store: "sqlite:nowhere" }', 'the rules were not checked'),
                            (None, 'No such file')):
            path.write_text(text, encoding='utf-8') if text else path.unlink()
            with self.subTest(text=text):
                said = self.weir('rules', 'check', str(path))
                self.assertEqual([line for line in said.splitlines() if not line.startswith(f'{path.parent}/{SHOWN}:')], [])
                self.assertIn(words, said)

    def test_what_a_database_says(self):
        with Postgres() as server:
            conninfo = f"host=127.0.0.1 port={server.port} user=postgres dbname='a\x1b[2J'"
            said = self.weir('reads', 'check', '--primary', conninfo, '--replica', conninfo)
            self.assertIn('does not exist', said)


if __name__ == '__main__':
    unittest.main()
