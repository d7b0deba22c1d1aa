#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fencing over HTTP: examples/fence_http.c as it is shipped, nginx in front of a service that does not check, and the
rule of conditional PUTs against a store of the test's own (which is not S3)."""
import http.client
import http.server
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from ports import free_port
from weir_server import BUILD, ROOT


def ask(port, method, path, body=None, **headers):
    """(status, body, headers); a header's _ is a -."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace('_', '-'): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def wait_open(port, process):
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as sock:
            if sock.connect_ex(('127.0.0.1', port)) == 0:
                return
        assert process.poll() is None and time.monotonic() < deadline, 'it does not answer'
        time.sleep(0.02)


def end(process):
    process.kill()
    process.wait()


class WithService(unittest.TestCase):
    """examples/fence_http.c, built and running."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-fence-http-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.program = cls.folder / 'fence_http'
        subprocess.run(['cc', '-std=c11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-I', ROOT / 'include',
                        ROOT / 'examples/fence_http.c', BUILD / 'libweir.a', '-lpthread', '-o', cls.program],
                       check=True)

    def setUp(self):
        self.port = free_port()
        self.marks = self.folder / f'marks-{self.port}'
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program, '127.0.0.1', str(self.port), self.marks])
        self.addCleanup(end, self.process)
        wait_open(self.port, self.process)

    def install(self, token):
        return ask(self.port, 'PUT', '/install', Weir_Fence=token)[0]

    def put(self, token, body):
        return ask(self.port, 'PUT', '/value', body, Weir_Fence=token)[0]


class Service(WithService):
    def test_a_later_token_fences_an_earlier_one(self):
        self.assertEqual(self.put('7.1', 'early'), 428)
        self.assertEqual(self.install('7.1'), 204)
        self.assertEqual(self.put('7.1', 'a'), 204)
        self.assertEqual(self.install('7.2'), 204)
        status, _, headers = ask(self.port, 'PUT', '/value', 'late', Weir_Fence='7.1')
        self.assertEqual((status, headers['Weir-Fence-Mark']), (412, '7.2'))
        self.assertEqual(self.install('7.1'), 412)
        self.assertEqual(ask(self.port, 'GET', '/value')[1], b'a')
        self.assertEqual(self.put('7.2', 'b'), 204)
        self.assertEqual(ask(self.port, 'GET', '/value')[1], b'b')

    def test_a_write_without_a_token_is_refused(self):
        self.install('7.1')
        self.assertEqual(ask(self.port, 'PUT', '/value', 'x')[0], 428)
        for token in ('', '7', '07.1', '7.1.1', '7.1 x', '+7.1'):
            self.assertEqual(self.put(token, 'x'), 428, token)
        with socket.create_connection(('127.0.0.1', self.port), timeout=60) as sock:  # two headers, one of them right
            sock.sendall(b'PUT /value HTTP/1.1\r\nWeir-Fence: 9.9\r\nWeir-Fence: 7.1\r\nContent-Length: 1\r\n\r\nx')
            self.assertIn(b' 428 ', sock.recv(1000))

    def talk(self, head, body=b''):
        with socket.create_connection(('127.0.0.1', self.port), timeout=60) as sock:
            sock.sendall(head.replace('\n', '\r\n').encode() + b'\r\n\r\n' + body)
            return sock.recv(1000)

    def test_a_body_of_unknown_length_is_not_taken_for_an_empty_one(self):
        self.install('7.1')
        self.put('7.1', 'kept')
        for fields in ('Transfer-Encoding: chunked', 'Content-Length: 1\nContent-Length: 1', 'Content-Length: 1x',
                       'Content-Length: 1\nTransfer-Encoding: chunked', 'X: y'):
            self.assertIn(b' 411 ', self.talk('PUT /value HTTP/1.1\nWeir-Fence: 7.1\n' + fields, b'1\r\nx\r\n0\r\n\r\n'))
        self.assertEqual(ask(self.port, 'GET', '/value')[1], b'kept')

    def test_a_client_that_hangs_up_does_not_end_it(self):
        self.install('7.1')
        self.put('7.1', 'x' * 60000)
        for _ in range(10):
            with socket.create_connection(('127.0.0.1', self.port), timeout=60) as sock:
                sock.sendall(b'GET /value HTTP/1.1\r\n\r\n')
        self.assertEqual(len(ask(self.port, 'GET', '/value')[1]), 60000)

    def test_marks_survive_a_kill(self):
        self.install('7.2')
        end(self.process)
        self.start()
        self.assertEqual(self.put('7.1', 'late'), 412)
        self.assertEqual(self.put('7.2', 'x'), 204)


NGINX = '''
daemon off; pid @/pid; error_log @/error.log warn; events {}
http {
  access_log off; client_body_temp_path @/body; proxy_temp_path @/proxy; fastcgi_temp_path @/fastcgi;
  uwsgi_temp_path @/uwsgi; scgi_temp_path @/scgi;
  server {
    listen 127.0.0.1:FRONT;
    # reduces, does not prevent: between this check and the write behind it another token can be installed
    location / {
      auth_request /_fence;
      proxy_pass http://127.0.0.1:BACK;
    }
    location = /_fence {
      internal;
      proxy_pass http://127.0.0.1:CHECK/check;
      proxy_method GET;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_intercept_errors on;
      error_page 412 428 =403 /_no;
    }
    location = /_no { internal; return 403; }
  }
}
'''


class Store(http.server.BaseHTTPRequestHandler):
    """Objects with ETags and conditional PUTs (RFC 9110, 13.1), as S3 has them since 2024. Checks no token itself."""

    def log_message(self, *_):
        pass

    def answer(self, status, body=b'', etag=None):
        self.send_response(status)
        if etag:
            self.send_header('ETag', etag)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with self.server.lock:
            body, etag = self.server.objects.get(self.path, (None, None))
        self.answer(404 if body is None else 200, body or b'', etag)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers['Content-Length'] or 0))
        match, none = self.headers['If-Match'], self.headers['If-None-Match']
        with self.server.lock:
            etag = self.server.objects.get(self.path, (None, None))[1]
            if (match is not None and match != etag) or (none == '*' and etag):
                status = 412
            else:
                self.server.count += 1
                etag, status = f'"{self.server.count}"', 200
                self.server.objects[self.path] = body, etag
        self.answer(status, b'', etag)


def store_start(test):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Store)
    server.lock, server.objects, server.count = threading.Lock(), {}, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return server.server_port


class Nginx(WithService):
    """nginx asks the service about each request for a backend that checks nothing."""

    def test_nginx_refuses_late_tokens(self):
        back, front = store_start(self), free_port()
        folder = self.folder / f'nginx-{front}'
        folder.mkdir()
        text = NGINX.replace('@', str(folder)).replace('FRONT', str(front)).replace('BACK', str(back)).replace(
            'CHECK', str(self.port))
        (folder / 'nginx.conf').write_text(text, encoding='utf-8')
        nginx = subprocess.Popen([shutil.which('nginx') or '/usr/sbin/nginx', '-p', folder, '-e', folder / 'error.log',
                                  '-c', folder / 'nginx.conf'])
        self.addCleanup(lambda: (nginx.terminate(), nginx.wait()))
        wait_open(front, nginx)
        self.assertEqual(ask(front, 'PUT', '/o', 'early', Weir_Fence='7.1')[0], 403)
        self.install('7.1')
        self.assertEqual(ask(front, 'PUT', '/o', 'a', Weir_Fence='7.1')[0], 200)
        self.install('7.2')
        self.assertEqual(ask(front, 'PUT', '/o', 'late', Weir_Fence='7.1')[0], 403)
        self.assertEqual(ask(front, 'PUT', '/o', 'none')[0], 403)
        self.assertEqual(ask(back, 'GET', '/o')[1], b'a')
        end(self.process)  # who cannot be asked lets nothing through
        self.assertGreaterEqual(ask(front, 'PUT', '/o', 'x', Weir_Fence='7.2')[0], 500)


class Fenced(Exception):
    pass


class Object:
    """The recipe of docs/fencing-s3.md: token and value in one object, every change conditional on the ETag."""

    def __init__(self, port, token):
        self.port, self.token, self.etag = port, tuple(map(int, token.split('.'))), None
        self.writes = 0

    def body(self, value):
        return '%d.%d %d\n%s' % (*self.token, self.writes, value)

    def put(self, value, etag):
        """The ETag of the new object, or None: it was changed meanwhile, by somebody else or by this PUT's first try."""
        body = self.body(value)
        condition = {'If_Match': etag} if etag else {'If_None_Match': '*'}
        status, _, headers = ask(self.port, 'PUT', '/o', body, **condition)
        return headers['ETag'] if status == 200 else None

    def install(self):
        """Fences older holders, and returns the value: install and read are one step here."""
        while self.etag is None:
            status, body, headers = ask(self.port, 'GET', '/o')
            mark, _, value = body.decode().partition('\n') if status == 200 else ('0.0', '', '')
            if tuple(map(int, mark.split()[0].split('.'))) > self.token:
                raise Fenced(mark)
            self.etag = self.put(value, headers['ETag'] if status == 200 else None)
        return value

    def write(self, value):
        self.writes += 1
        etag = self.put(value, self.etag)
        if etag is None:  # 412: is it what a first try of ours has written?
            _, body, headers = ask(self.port, 'GET', '/o')
            if body.decode() != self.body(value):
                raise Fenced('somebody else wrote')
            etag = headers['ETag']
        self.etag = etag


class Conditional(unittest.TestCase):
    def test_a_late_writer_is_refused(self):
        port = store_start(self)
        a, b = Object(port, '7.1'), Object(port, '7.2')
        self.assertEqual(a.install(), '')
        a.write('a')
        self.assertEqual(b.install(), 'a')
        with self.assertRaises(Fenced):
            a.write('late')
        with self.assertRaises(Fenced):
            Object(port, '7.1').install()
        b.write('b')
        self.assertEqual(Object(port, '10.1').install(), 'b')

    def test_a_put_that_is_sent_twice_is_no_sign_of_another_holder(self):
        """The first answer was lost and the client sent it again: 412, because it was done."""
        port = store_start(self)
        a, b = Object(port, '7.1'), Object(port, '7.2')
        a.install()
        a.writes += 1
        self.assertIsNotNone(a.put('a', a.etag))
        a.writes -= 1
        a.write('a')
        late = a.etag
        for value in ('b', 'a'):  # the same value again is another object: what comes late does not fit it
            a.write(value)
            self.assertIsNone(a.put('late', late))
        self.assertEqual(b.install(), 'a')
        with self.assertRaises(Fenced):
            a.write('a')

    def test_no_acknowledged_update_is_lost(self):
        port, holders, added = store_start(self), 4, []

        def hold(number):
            for turn in range(20):
                item = Object(port, f'7.{turn * holders + number + 1}')
                try:
                    item.write(str(int(item.install() or 0) + 1))
                    added.append(1)
                except Fenced:
                    pass

        threads = [threading.Thread(target=hold, args=(number,)) for number in range(holders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(int(Object(port, '8.1').install()), len(added))
        self.assertGreater(len(added), 0)


if __name__ == '__main__':
    unittest.main()
