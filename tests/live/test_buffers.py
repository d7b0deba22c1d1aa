#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that send and do not read: what the server keeps for them is bounded, for each and for all."""
import contextlib
import re
import socket
import time
import unittest

from weir_server import Resp, Weir, connect, read_all, resp_encode

TOKEN = 'all-0123456789abcdef'
AUTH = f'''
auth: {{ required: always, tokens: [{{ name: all, secret: {TOKEN}, rights: [check, metrics] }}] }}
'''


class Buffers(unittest.TestCase):
    def serve(self, config):
        self.weir = Weir(config + 'limits: []\n')
        self.addCleanup(self.weir.stop)

    def metric(self, name):
        with connect(self.weir.http) as sock:
            sock.sendall(f'GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Weir-Token: {TOKEN}\r\nConnection: close\r\n\r\n'.encode())
            text = read_all(sock, 64 << 20).decode()
        match = re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)
        return float(match[1]) if match else 0

    def memory(self):
        with open(f'/proc/{self.weir.process.pid}/status', encoding='ascii') as status:
            return 1024 * int(re.search(r'VmRSS:\s+(\d+)', status.read())[1])

    def stuff(self, socks, data):
        """Sends until nobody takes any more."""
        quiet = 0
        for sock in socks:
            sock.setblocking(False)
        while quiet < 5:
            sent = 0
            for sock in socks:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    sent += sock.send(data)
            quiet = 0 if sent else quiet + 1
            time.sleep(0 if sent else 0.05)

    def connects(self, port, count, room=4096):
        socks = []
        for _ in range(count):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)  # the kernel's memory is not what is meant
            sock.connect(('127.0.0.1', port))
            self.addCleanup(sock.close)
            socks.append(sock)
        return socks

    def test_strangers_that_do_not_read_hold_little(self):
        self.serve(AUTH)
        for port, data in ((self.weir.resp, b'PING\r\n' * 10000),
                           (self.weir.http, b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n' * 1000)):
            before = self.memory()
            socks = self.connects(port, 50)
            self.stuff(socks, data)
            each = (self.memory() - before) / 50
            print(f'{each:.0f} bytes for each stranger')
            self.assertLess(each, 256 << 10)
            buffered = self.metric('weir_buffer_bytes') / 50
            print(f'{buffered:.0f} of them buffers')
            self.assertLessEqual(buffered, 64 << 10)
            for sock in socks:
                sock.close()
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('AUTH', TOKEN), 'OK')
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_all_together_hold_what_is_said_and_lose_nothing(self):
        self.serve('server: { buffer_bytes_max: 1MiB }\n')
        echo = resp_encode('ECHO', b'x' * 2000)
        socks = self.connects(self.weir.resp, 30, 65536)
        sent = [0] * len(socks)
        for sock in socks:
            sock.setblocking(False)
        quiet, deadline = 0, time.monotonic() + 300
        # Who does not take any more for a moment may be a server that stands still, with room left.
        while quiet < 5 or self.metric('weir_buffer_bytes') < 1 << 20:
            self.assertLess(time.monotonic(), deadline, 'it is not full')
            moved = 0
            for i, sock in enumerate(socks):
                with contextlib.suppress(BlockingIOError):
                    at = sent[i] % len(echo)
                    moved += (got := sock.send((echo * 50)[at:]))
                    sent[i] += got
            quiet = 0 if moved else quiet + 1
            time.sleep(0 if moved else 0.05)
        buffered = self.metric('weir_buffer_bytes')
        print(f'{buffered:.0f} bytes buffered')
        self.assertLess(buffered, (1 << 20) + 30 * (64 << 10))
        with Resp(self.weir.resp) as other:  # who reads is served
            for _ in range(100):
                self.assertEqual(other.ask('PING'), 'PONG')
            other.ask('MULTI')
            self.assertIn('buffer_bytes_max', str(other.ask('PING')))
            self.assertIn('EXECABORT', str(other.ask('EXEC')))
        for i, sock in enumerate(socks):
            if self.metric('weir_connections_shed_total') == 0:
                sock.setblocking(True)
                sock.settimeout(60)
                sock.shutdown(socket.SHUT_WR)
                self.assertEqual(len(read_all(sock, 256 << 20)), sent[i] // len(echo) * len(b'$2000\r\n' + b'x' * 2000 + b'\r\n'))
            sock.close()
        deadline = time.monotonic() + 60
        while self.metric('weir_buffer_bytes') > 65536 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertLessEqual(self.metric('weir_buffer_bytes'), 65536)

    def test_input_that_must_be_kept_is_bounded_in_all(self):
        self.serve('server: { buffer_bytes_max: 1MiB }\n')
        socks = self.connects(self.weir.resp, 60)
        for sock in socks:
            with contextlib.suppress(ConnectionError):
                sock.sendall(b'*2\r\n$4\r\nECHO\r\n$60000\r\n' + b'x' * 50000)
        deadline = time.monotonic() + 60
        while self.metric('weir_connections_shed_total') == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertGreater(self.metric('weir_connections_shed_total'), 0)
        self.assertLess(self.metric('weir_buffer_bytes'), (1 << 20) + 60 * (16 << 10) + (256 << 10))
        with Resp(self.weir.resp) as other:
            self.assertEqual(other.ask('ECHO', b'y' * 1000), b'y' * 1000)


if __name__ == '__main__':
    unittest.main()
