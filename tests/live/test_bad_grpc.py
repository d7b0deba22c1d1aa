#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no good client sends to the gRPC port: each ends the call or the connection it came on with the right code, and
nobody else notices."""
import socket
import subprocess
import time
import unittest

from h2_raw import (ACK, CHECK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY,
                    PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection, call, fields, frame, head, message)
from weir_server import Weir, connect, read_all

CANCEL = (8).to_bytes(4, 'big')
HUGE = b'\xff\xff\xff\xff'


class Bad(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(arguments=('--grpc', '127.0.0.1:0'), threads=1))
        cls.port = cls.weir.port('grpc')

    def tearDown(self):
        """Others are served as ever."""
        with Connection(self.port) as other:
            other.send(call(1, message()))
            self.assertIsInstance(other.end_of(1), bytes)
        self.assertIsNone(self.weir.process.poll())

    def counted(self, name):
        text = subprocess.run(['curl', '-s', f'http://127.0.0.1:{self.weir.http}/metrics'], capture_output=True, text=True, check=True).stdout
        return next((int(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), 0)

    def test_http_1_is_told(self):
        for text in (b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'POST ' + CHECK.encode() + b' HTTP/1.1\r\n', b'G', b'PRX'):
            with connect(self.port) as sock:
                sock.sendall(text)
                answer = read_all(sock)
            self.assertTrue(answer.startswith(b'HTTP/1.1 505 '), answer)
            self.assertEqual(len(answer.partition(b'\r\n\r\n')[2]), 45)

    def test_a_wrong_preface(self):
        for text in (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', b'*1\r\n$4\r\nPING\r\n', b'\0' * 100, b'ping\r\n'):
            with connect(self.port) as sock:
                sock.sendall(text)
                self.assertEqual(read_all(sock), b'')
        with connect(self.port) as sock:
            sock.sendall(PREFACE[:23] + b'x' + frame(SETTINGS))
            self.assertTrue(read_all(sock).startswith(b'HTTP/1.1 505 '))

    def test_no_settings(self):
        with Connection(self.port, first=frame(PING, payload=b'12345678')) as one:
            self.assertEqual(one.goaway(), (0, PROTOCOL_ERROR))

    def test_half_a_frame(self):
        """It is kept, and harms nobody; a preface that stops is ended as slow."""
        with Connection(self.port) as one:
            whole = call(1, message())
            for at in range(0, len(whole), 7):
                one.send(whole[at:at + 7])
                time.sleep(0.001)
            self.assertIsInstance(one.end_of(1), bytes)
            one.send(whole[:5])
        with Weir('limits: []\nserver: { request_timeout: 300ms }\n', arguments=('--grpc', '127.0.0.1:0')) as weir, \
                connect(weir.port('grpc')) as sock:
            sock.sendall(PREFACE[:10])
            self.assertEqual(read_all(sock), b'')

    def test_frames_that_break_the_protocol(self):
        for bad in (frame(DATA, 0, 0, b'x'), frame(HEADERS, END_HEADERS, 0, head()), frame(HEADERS, END_HEADERS, 2, head()),
                    frame(CONTINUATION, END_HEADERS, 1, b''), frame(PING, 0, 0, b'short'), frame(SETTINGS, 0, 0, b'odd'),
                    frame(SETTINGS, ACK, 0, b'xxxxxx'), frame(WINDOW_UPDATE, 0, 0, b'\0\0\0\0'),
                    frame(WINDOW_UPDATE, 0, 0, b'\x7f\xff\xff\xff'), frame(RST_STREAM, 0, 1, CANCEL), frame(5, END_HEADERS, 1, b'\0\0\0\2'),
                    frame(HEADERS, END_HEADERS, 1, b'\xff\xff\xff\xff\xff\xff'), b'\xff\xff\xff\0\0\0\0\0\1',
                    frame(HEADERS, 0, 1, head()) + frame(PING, 0, 0, b'12345678')):
            with self.subTest(bad[:12]), Connection(self.port) as one:
                one.send(bad)
                ended = one.goaway()
                self.assertIsNotNone(ended)
                self.assertNotEqual(ended[1], 0)

    def test_header_lists_that_break_the_protocol(self):
        """The call is reset, the connection goes on."""
        for bad in ([('X', 'y')], [('connection', 'close')], [(':path', '/x')], [('a', b'\0')], [('te', 'gzip')], [(':no', 'x')]):
            with self.subTest(bad), Connection(self.port) as one:
                one.send(frame(HEADERS, END_HEADERS, 1, head(extra=bad)) + call(3, message()))
                self.assertEqual(one.end_of(1), ('reset', PROTOCOL_ERROR))
                self.assertIsInstance(one.end_of(3), bytes)

    def test_messages_that_are_none(self):
        before = self.counted('weir_grpc_answers_total{status="INVALID_ARGUMENT"}')
        bad = (b'\0' + HUGE, b'\1\0\0\0\1x', b'\2\0\0\0\1x', message(b'\x0a\xff'), message(size=5) + b'x', b'\0\0', b'',
               message() + message())
        for data in bad:
            with self.subTest(data), Connection(self.port) as one:
                one.send(call(1, data) + call(3, message()))
                ends = [one.end_of(1)]
                while not any(number == 3 and flags & END_STREAM for _, flags, number, _ in one.frames):
                    self.assertIsNotNone(one.read())
                self.assertIsNotNone(ends[0])
        self.assertEqual(self.counted('weir_grpc_answers_total{status="INVALID_ARGUMENT"}'), before + 1)

    def test_a_call_that_is_not_grpc(self):
        for options, status in ((['-H', 'content-type: application/json', '-X', 'POST'], '415'), (['-H', 'content-type: application/grpc'], '405'),
                                (['-H', 'content-type: application/grpc-web', '-X', 'POST'], '415'), (['-X', 'OPTIONS'], '405')):
            done = subprocess.run(['curl', '-s', '--http2-prior-knowledge', '-w', '%{http_code}', *options, f'127.0.0.1:{self.port}{CHECK}'],
                                  capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, status), done)

    def test_too_many_header_fields(self):
        with Connection(self.port) as one:
            one.send(call(1, message(), extra=[(f'x{i}', 'y') for i in range(200)]))
            self.assertIsInstance(one.end_of(1), bytes)
            one.send(call(3, message(), extra=[('x', 'y' * 15000)]))
            self.assertIsInstance(one.end_of(3), bytes)
            one.send(call(5, message()))
            self.assertIsInstance(one.end_of(5), bytes)

    # ---- floods ----

    def flood(self, one, piece, most):
        """Sends until the other end has had enough, or `most` bytes."""
        one.socket.settimeout(60)
        sent = 0
        try:
            while sent < most:
                one.send(piece)
                sent += len(piece)
        except ConnectionError:
            pass
        return sent

    def test_floods_that_ask_for_nothing(self):
        ping = frame(PING, 0, 0, b'12345678')
        for flood in (ping, frame(SETTINGS), frame(PRIORITY, 0, 1, b'\0\0\0\0\x10'), frame(WINDOW_UPDATE, 0, 0, b'\0\0\0\1')):
            with self.subTest(flood), Connection(self.port) as one:
                before = self.counted('weir_protocol_errors_total')
                self.flood(one, flood * 100, 100 << 20)
                ended = one.goaway()
                self.assertIn(ended, ((0, ENHANCE_YOUR_CALM), None))  # a reset may have overtaken it
                self.assertEqual(self.counted('weir_protocol_errors_total'), before + 1)

    def test_empty_data(self):
        with Connection(self.port) as one:
            one.send(frame(HEADERS, END_HEADERS, 1, head()))
            self.flood(one, frame(DATA, 0, 1) * 100, 100 << 20)
            self.assertIn(one.goaway(), ((1, ENHANCE_YOUR_CALM), None))

    def test_rapid_resets(self):
        with Connection(self.port) as one:
            stream = 1
            try:
                while stream < 20001:
                    one.send(b''.join(frame(HEADERS, END_HEADERS, stream + 2 * i, head()) + frame(RST_STREAM, 0, stream + 2 * i, CANCEL)
                                      for i in range(50)))
                    stream += 100
            except ConnectionError:
                pass
            ended = one.goaway()
            self.assertTrue(one.ended)
            self.assertTrue(ended is None or (ended[0] < 20001 and ended[1] != 0), ended)

    def test_a_header_list_without_an_end(self):
        for piece in (frame(CONTINUATION, 0, 1), frame(CONTINUATION, 0, 1, fields([('a', 'b' * 1000)]))):
            with self.subTest(len(piece)), Connection(self.port) as one:
                one.send(frame(HEADERS, 0, 1, head()))
                self.flood(one, piece * 20, 100 << 20)
                self.assertIn(one.goaway(), ((0, ENHANCE_YOUR_CALM), (1, ENHANCE_YOUR_CALM), None))

    def test_more_calls_than_there_may_be(self):
        with Connection(self.port) as one:
            while not any(kind == SETTINGS and flags & ACK for kind, flags, _, _ in one.frames):
                self.assertIsNotNone(one.read())
            one.send(frame(SETTINGS, ACK) + b''.join(frame(HEADERS, END_HEADERS, 1 + 2 * i, head()) for i in range(257)))
            self.assertEqual(one.goaway(), (511, PROTOCOL_ERROR))

    def test_who_does_not_read(self):
        """The answers that wait have a bound; then nothing more is taken from it."""
        with Connection(self.port) as one:
            one.socket.settimeout(3)
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream, sent = 1, 0
            try:
                while sent < 200 << 20:
                    piece = b''.join(call(stream + 2 * i, message()) for i in range(200))
                    one.send(piece)
                    stream, sent = stream + 400, sent + len(piece)
            except (TimeoutError, ConnectionError):
                pass
            self.assertLess(sent, 100 << 20)
            self.assertLess(self.counted('weir_buffer_bytes'), 8 << 20)

    def test_a_window_of_nothing(self):
        """Calls whose answers have no room in the client's window: as many as there may be at once."""
        with Connection(self.port, first=frame(SETTINGS, 0, 0, b'\0\4\0\0\0\0')) as one:
            one.send(b''.join(call(1 + 2 * i, message()) for i in range(256)))
            one.send(frame(PING, 0, 0, b'12345678'))
            self.assertIsNotNone(one.until(lambda kind, flags, *_: kind == PING and flags & ACK))
            self.assertFalse([one for one in one.frames if one[0] == DATA or one[0] == GOAWAY])
            one.send(b''.join(frame(WINDOW_UPDATE, 0, 1 + 2 * i, b'\0\0\x10\0') for i in range(256)))
            self.assertIsInstance(one.end_of(511), bytes)


if __name__ == '__main__':
    unittest.main()
