#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What has been sent is answered: before a half-close, before SIGTERM, and while a successor already runs."""
import contextlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from redis_server import stand_still
from weir_server import BUILD, Weir, connect, read_all, read_until, resp_encode

HELD = '''
  - { name: line, match: { queue: '*' }, key: [queue], rate: 1/s, burst: 1000, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 100s }
'''
HEALTH = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'


def half_close(sock, data):
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    return read_all(sock, 64 << 20)


class HalfClose(unittest.TestCase):
    def serve(self, config):
        weir = Weir(config)
        self.addCleanup(weir.stop)
        return weir

    def test_a_pipeline_before_a_half_close_is_answered_to_its_end(self):
        for most in (1024, 2, 1):
            weir = self.serve(f'server: {{ pipeline_max: {most} }}\nlimits: []\n')
            for count in (1, 3, 700, 2700, 20000):
                with connect(weir.resp) as sock:
                    answer = half_close(sock, b'PING\r\n' * count)
                    self.assertEqual(answer.count(b'+PONG\r\n'), count)
                with connect(weir.http) as sock:
                    self.assertEqual(half_close(sock, HEALTH * count).count(b'HTTP/1.1 200 OK'), count)

    def test_half_a_request_before_it_is_dropped(self):
        weir = self.serve('limits: []\n')
        for port, data, answer in ((weir.resp, b'PING\r\nPI', b'+PONG\r\n'), (weir.http, HEALTH[:-2], b'')):
            with connect(port) as sock:
                self.assertEqual(half_close(sock, data), answer)

    def test_answers_that_are_not_read_at_once_come_too(self):
        """More than the server keeps: it goes on as the client takes them."""
        weir = self.serve('server: { output_bytes_max: 4KiB }\nlimits: []\n')
        with connect(weir.resp) as sock:
            sock.sendall(resp_encode('ECHO', b'x' * 1000) * 3000)
            sock.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
            self.assertEqual(len(read_all(sock, 64 << 20)), 3000 * len(b'$1000\r\n' + b'x' * 1000 + b'\r\n'))

    def test_transactions_before_it_are_run(self):
        weir = self.serve('limits: []\n')
        queue = resp_encode('MULTI') + resp_encode('CL.THROTTLE', 'k', 100, 1, 60) * 900 + resp_encode('EXEC')
        with connect(weir.resp) as sock:
            answer = half_close(sock, queue * 5)
        self.assertEqual((answer.count(b'*900\r\n'), answer.count(b'*5\r\n')), (5, 4500))

    def test_over_tls(self):
        """close_notify is TLS's half-close."""
        with tempfile.TemporaryDirectory() as folder:
            pem = os.path.join(folder, 'pem')
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                            '-keyout', pem + '.key', '-out', pem + '.crt', '-days', '2', '-subj', '/CN=localhost'],
                           check=True, capture_output=True)
            weir = self.serve(f'tls: {{ cert: {pem}.crt, key: {pem}.key }}\nlimits:\n{HELD}')
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            held = resp_encode('WEIR.CHECK', 1, 'queue', 'q')
            for data, answer, count in ((b'PING\r\n' * 2700, b'+PONG\r\n', 2700), (held * 2, b'*7\r\n:1\r\n', 2)):
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = context.wrap_bio(incoming, outgoing)
                with connect(weir.resp) as sock:
                    self.run_tls(sock, tls.do_handshake, incoming, outgoing)
                    tls.write(data)
                    with contextlib.suppress(ssl.SSLError):  # close_notify goes out, and none has come
                        tls.unwrap()
                    sock.sendall(outgoing.read())
                    got = self.read_tls(sock, tls, incoming)
                self.assertEqual(got.count(answer), count)

    def run_tls(self, sock, step, incoming, outgoing):
        while True:
            try:
                step()
                sock.sendall(outgoing.read())
                return
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65536))

    def read_tls(self, sock, tls, incoming):
        got = b''
        while True:
            try:
                piece = tls.read(65536)
                if not piece:
                    return got
                got += piece
            except ssl.SSLZeroReturnError:
                return got
            except ssl.SSLWantReadError:
                data = sock.recv(65536)
                if not data:
                    return got
                incoming.write(data)


class Drain(unittest.TestCase):
    def setUp(self):
        self.weir = Weir('limits:\n' + HELD)
        self.addCleanup(self.weir.stop)

    def terminate(self):
        """Returns when it drains: nobody is let in any more."""
        self.weir.process.terminate()
        for port in (self.weir.resp, self.weir.http):
            with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
                while True:
                    socket.create_connection(('127.0.0.1', port), timeout=60).close()

    def test_who_waits_to_be_accepted_is_answered(self):
        """800 have connected and asked while the server stands still; then it goes on, with SIGTERM."""
        for name, request, answer in (('resp', b'PING\r\n', b'+PONG\r\n'), ('http', HEALTH, b'HTTP/1.1 200 OK\r\n')):
            stand_still(self.weir.process.pid)
            place = '127.0.0.1', getattr(self.weir, name)
            socks = [socket.create_connection(place, timeout=60) for _ in range(800)]
            for sock in socks:
                sock.sendall(request)
            self.weir.process.send_signal(signal.SIGTERM)
            self.weir.process.send_signal(signal.SIGCONT)
            answers = [read_all(sock) for sock in socks]
            for sock in socks:
                sock.close()
            self.assertEqual(sum(data.startswith(answer) for data in answers), 800)
            self.assertEqual(self.weir.process.wait(60), 0)
            self.weir = Weir('limits: []\n')
            self.addCleanup(self.weir.stop)

    def test_keep_alive_clients_are_told_before_the_end(self):
        """In the second that they have; where a busy machine takes longer than that to ask, all is done again."""
        for _ in range(10):
            with connect(self.weir.http) as idle, connect(self.weir.http) as busy, connect(self.weir.http) as new:
                for sock in idle, busy:
                    sock.sendall(HEALTH)
                    read_until(sock, b'ok\n')
                begun = time.monotonic()
                self.terminate()
                busy.sendall(HEALTH * 3)
                new.sendall(HEALTH)
                answer, other = read_all(busy), read_all(new)
                took_s = time.monotonic() - begun
                end = read_all(idle)
            self.assertEqual(self.weir.process.wait(60), 0)
            if took_s < 0.8:
                break
            self.setUp()
        self.assertEqual(answer.count(b'HTTP/1.1 200 OK'), 3)
        self.assertEqual(answer.lower().count(b'connection: close'), 1)
        self.assertIn(b'connection: close', answer.rpartition(b'HTTP/1.1')[2].lower())
        self.assertIn(b'connection: close', other.lower())
        self.assertEqual(end, b'')

    def test_a_held_answer_is_given_and_the_next_request_answered_with_the_end(self):
        """It comes after five seconds, and within one more the request; where that took longer, all is done again."""
        check = b'GET /v1/sessions/none HTTP/1.1\r\nHost: localhost\r\n\r\n'
        body = b'{"attributes":{"queue":"h"},"cost":5}'
        post = b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body
        for _ in range(10):
            with connect(self.weir.http) as sock:
                begun = time.monotonic()
                sock.sendall(post)
                read_until(sock, b']}')
                sock.sendall(post)
                self.terminate()
                held = read_until(sock, b']}')  # of a request from before
                self.assertTrue(held.startswith(b'HTTP/1.1 200 OK'))
                sock.sendall(check)
                took_s = time.monotonic() - begun
                rest = read_all(sock)
            self.assertEqual(self.weir.process.wait(60), 0)
            if took_s < 5.8:
                break
            self.setUp()
        self.assertIn(b'connection: close', (held + rest).lower())


class Asked(unittest.TestCase):
    """SIGTERM, whenever it comes."""

    def test_who_asks_until_the_end_makes_no_failure_of_it(self):
        for _ in range(5):
            weir = Weir()
            try:
                while weir.process.poll() is None:
                    weir.process.send_signal(signal.SIGTERM)
                self.assertEqual(weir.process.returncode, 0, weir.output())
            finally:
                weir.stop()

    def test_who_is_asked_before_it_listens_does_not_say_that_it_has_started(self):
        with socket.create_server(('127.0.0.1', 0)) as silent, tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, 'weir.yaml')
            config.write_text(f'engine: {{ redis: {{ servers: ["127.0.0.1:{silent.getsockname()[1]}"], '
                              'connect_timeout: 60s } }\nlimits:\n'
                              '  - { name: api, key: [user], rate: 1/s, sharing: exact }\n', encoding='utf-8')
            command = [str(BUILD / 'weir'), 'serve', '--config', str(config), '--resp', '127.0.0.1:0', '--http', 'off']
            with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as process:
                silent.accept()[0].close()  # it asks: it waits
                process.send_signal(signal.SIGTERM)
                output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
            self.assertIn('stopped', output)
            self.assertNotIn('started', output)


class Successor(unittest.TestCase):
    def serve(self, path, log):
        process = subprocess.Popen([str(BUILD / 'weir'), 'serve', '--resp', f'unix:{path}', '--http', 'off', '--threads', '2',
                                    '--config', str(path.parent / 'weir.yaml')], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ, STATE_DIRECTORY=str(path.parent)))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ask(self, path, data=b'PING\r\n'):
        deadline = time.monotonic() + 60
        while True:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(60)
            try:
                sock.connect(str(path))
                sock.sendall(data)
                return sock
            except (FileNotFoundError, ConnectionRefusedError):
                sock.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def test_a_server_that_drains_leaves_its_successors_socket_alone(self):
        with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, 'log'), 'wb') as log:
            path = pathlib.Path(folder, 'weir.sock')
            pathlib.Path(folder, 'weir.yaml').write_text('limits:\n' + HELD, encoding='utf-8')
            old = self.serve(path, log)
            with self.ask(path, resp_encode('WEIR.CHECK', 7, 'queue', 'q')) as held:
                self.assertTrue(held.recv(100).startswith(b'*7\r\n:1'))
                held.sendall(resp_encode('WEIR.CHECK', 1, 'queue', 'q'))
                waiting = [self.ask(path) for _ in range(20)]
                old.terminate()
                self.assertTrue(all(read_until(sock, b'\n') == b'+PONG\r\n' for sock in waiting))
                deadline = time.monotonic() + 60
                while path.exists() and time.monotonic() < deadline:
                    time.sleep(0.005)
                self.assertFalse(path.exists(), 'whoever connects now is refused, not taken for a client')
                self.assertIsNone(old.poll(), 'it drains: one answer is held')
                new = self.serve(path, log)
                with self.ask(path) as sock:
                    self.assertEqual(sock.recv(100), b'+PONG\r\n')
                self.assertTrue(read_all(held).startswith(b'*7\r\n:1'), 'the old one still drained')
            self.assertEqual(old.wait(60), 0)
            for sock in waiting:
                sock.close()
            with self.ask(path) as sock:
                self.assertEqual(sock.recv(100), b'+PONG\r\n')
            new.terminate()
            self.assertEqual(new.wait(60), 0)
            self.assertFalse(path.exists())


if __name__ == '__main__':
    unittest.main()
