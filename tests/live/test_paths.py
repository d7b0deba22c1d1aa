#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spellings of a path, and what each of some servers makes of them: docs/paths.md is this table. Where a server serves a
spelling below /api/ that weir counts elsewhere, the page says so."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from ports import free_port
from weir_server import FORWARDED_NGINX, ROOT, Weir, connect, read_all

SPELLINGS = r'''/api/x /api/ /api //api/x ///api/x /api//x /./api/x /../api/x /o/../api/x /o/./../api/x /api/./x /api/../x
/api/x/../../y /api//../x /%61pi/x /api%2fx /api%2Fx /%2fapi/x /%2e/api/x /%2e%2e/api/x /o/%2e%2e/api/x /o/.%2e/api/x
/x%2f..%2fapi/y /api/%2e%2e/x /api%2f..%2fx /api/..%2fx /api;a=b/x /;/api/x /o/..;/api/x /api\x /\api/x /o\..\api/x /o/..\api/x
/api/\../x /api/..\x /api%5cx /%5capi/x /%2561pi/x /api%252fx /api/x%00 /api%00/x /api/x?y=/../z /api/x#f /api#/x /x#/../api/y
http://h/api/x //h/api/x /API/x /api/% /%zz/../api/x /%zz/../../api/x'''.split()
NGINX = '''daemon off; pid FOLDER/pid; error_log FOLDER/error.log; events { }
http { access_log off; client_body_temp_path FOLDER/b; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f;
uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
server { listen 127.0.0.1:ON; location / { return 200 other; } location /api/ { return 200 api; } }
server { listen 127.0.0.1:OFF; merge_slashes off; location / { return 200 other; } location /api/ { return 200 api; } } }
'''
CADDY = '''{
	admin off
}
http://:PORT {
	handle /api/* {
		respond api
	}
	handle {
		respond other
	}
}
'''
HAPROXY = '''defaults
  mode http
  timeout client 9s
frontend f
  bind 127.0.0.1:PORT
  http-request return status 200 content-type text/plain string api if { path_beg /api/ }
  http-request return status 200 content-type text/plain string other
'''
GO = '''package main
import ("net/http"; "os")
func say(s string) http.HandlerFunc { return func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(s)) } }
func main() {
	http.Handle("/", say("other"))
	http.Handle("/api/", say("api"))
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
'''
NODE = '''const http = require("http");
const serve = (port, path) => http.createServer((request, answer) => {
  try { answer.end(path(request).startsWith("/api/") ? "api" : "other"); }
  catch { answer.statusCode = 400; answer.end(); }
}).listen(port, "127.0.0.1");
serve(process.argv[2], request => request.url);
serve(process.argv[3], request => new URL(request.url, "http://h").pathname);
'''
LIMIT = '''limits:
  - { name: api, match: { route: /api/* }, key: [user], missing: share, rate: 1000000/hour }
'''
COLUMNS = ('nginx', 'nginx, merge_slashes off', 'Caddy', 'HAProxy', 'Go', 'Node, `request.url`', 'Node, `new URL`')
EXACT = COLUMNS[:4]  # whose version is Debian's; Go and Node are those of the machine


def ask(port, target, *fields):
    """What a server says to that target, as it stands: api, other, or how it refused."""
    with connect(port) as sock:
        head = [f'GET {target} HTTP/1.1', 'Host: h', 'Connection: close', *fields]
        sock.sendall('\r\n'.join(head).encode() + b'\r\n\r\n')
        answer = read_all(sock)
    if not answer.startswith(b'HTTP/1.1 2'):
        return f'{answer[9:10].decode()}xx' if answer else 'closed'
    return 'api' if re.search(rb'\r\n\r\n(?:3\r\n)?api', answer) else 'other'


class Paths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-paths-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.ports = {name: free_port() for name in COLUMNS}
        ports = list(cls.ports.values())
        cls.run_with('nginx', ['-p', cls.folder, '-e', cls.folder / 'error.log', '-c'],
                     NGINX.replace('FOLDER', str(cls.folder)).replace('ON', str(ports[0])).replace('OFF', str(ports[1])))
        cls.run_with('caddy', ['run', '--adapter', 'caddyfile', '--config'], CADDY.replace('PORT', str(ports[2])))
        cls.run_with('haproxy', ['-db', '-f'], HAPROXY.replace('PORT', str(ports[3])))
        (cls.folder / 'main.go').write_text(GO, encoding='utf-8')
        subprocess.run(['go', 'build', '-o', 'go-server', 'main.go'], cwd=cls.folder, check=True, timeout=280,
                       env=dict(os.environ, GO111MODULE='off', GOTOOLCHAIN='local', GOFLAGS=''))
        cls.run_program([cls.folder / 'go-server', ports[4]])
        (cls.folder / 'main.js').write_text(NODE, encoding='utf-8')
        cls.run_program(['node', cls.folder / 'main.js', ports[5], ports[6]])
        cls.weirs = {rule: Weir(FORWARDED_NGINX.replace('nginx', f'nginx, path: {rule}') + LIMIT)
                     for rule in ('normalise', 'refuse')}
        for weir in cls.weirs.values():
            cls.addClassCleanup(weir.stop)
        deadline = time.monotonic() + 60
        while not all(cls.listens(port) for port in ports):
            assert time.monotonic() < deadline, 'a server does not listen'
            time.sleep(0.02)

    @classmethod
    def run_with(cls, program, words, text):
        path = cls.folder / f'{program}.conf'
        path.write_text(text, encoding='utf-8')
        cls.run_program([shutil.which(program) or f'/usr/sbin/{program}', *words, path])

    @classmethod
    def run_program(cls, words):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=str(cls.folder)))
        cls.addClassCleanup(process.wait, 20)
        cls.addClassCleanup(process.terminate)

    @staticmethod
    def listens(port):
        with socket.socket() as sock:
            return sock.connect_ex(('127.0.0.1', port)) == 0

    def counted(self, rule, target):
        """Whether weir counts the target below /api/: api, other, or 4xx."""
        fields = (f'X-Original-URI: {target}', 'X-Original-Method: GET', 'X-Real-IP: 192.0.2.1')
        with connect(self.weirs[rule].http) as sock:
            sock.sendall('\r\n'.join(['GET /v1/auth HTTP/1.1', 'Host: h', 'Connection: close', *fields]).encode()
                         + b'\r\n\r\n')
            answer = read_all(sock)
        if not answer.startswith(b'HTTP/1.1 2'):
            return f'{answer[9:10].decode()}xx'
        return 'api' if b'RateLimit: "api"' in answer else 'other'

    def table(self):
        """{spelling: [counted by normalise, by refuse, then what each server says]}"""
        return {target: [self.counted('normalise', target), self.counted('refuse', target),
                         *(ask(port, target) for port in self.ports.values())] for target in SPELLINGS}

    @staticmethod
    def page():
        text = (ROOT / 'docs' / 'paths.md').read_text(encoding='utf-8')
        return {cells[0]: cells[1:] for cells in re.findall(r'^\| `` (\S+) `` \|' + r' \**([a-z0-9]+)\** \|' * 9 + '$', text,
                                                            re.M)}

    def test_what_reaches_the_backend_is_counted_or_stands_on_the_page(self):
        self.assertGreaterEqual(len(SPELLINGS), 30)
        page, table = self.page(), self.table()
        printed = '\n'.join(f'| `` {target} `` | ' + ' | '.join(
            f'**{cell}**' if i > 1 and cell == 'api' and cells[0] == 'other' else cell
            for i, cell in enumerate(cells)) + ' |' for target, cells in table.items())
        self.assertEqual(list(page), SPELLINGS, printed)
        for target, cells in table.items():
            shown = page[target]
            with self.subTest(target=target):
                self.assertEqual((cells[:2 + len(EXACT)]), list(shown[:2 + len(EXACT)]), printed)
                for i, cell in enumerate(cells[2:], 2):
                    if cell == 'api' and cells[0] != 'api':
                        self.assertEqual(shown[i], 'api', f'{COLUMNS[i - 2]} is walked around')

    def test_what_refuse_lets_pass_is_what_reaches_the_backend(self):
        """Under `path: refuse` no server serves below /api/ what was counted elsewhere, but for what the page names."""
        text = (ROOT / 'docs' / 'paths.md').read_text(encoding='utf-8')
        named = set(re.findall(r'`` (\S+) ``', text.split('## What `refuse` cannot see')[1]))
        for target, cells in self.table().items():
            if cells[1] == 'other' and 'api' in cells[2:]:
                self.assertIn(target, named)


if __name__ == '__main__':
    unittest.main()
