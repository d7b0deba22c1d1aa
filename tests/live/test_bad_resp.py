#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad RESP: the server answers with a clear error or closes, and goes on serving others."""
import contextlib
import time
import unittest

from weir_server import Resp, Weir, connect, read_all, resp_encode

CONFIG = '''
server: { request_timeout: 1s, command_bytes_max: 64KiB }
limits:
  - { name: wide, key: [user], rate: 1000000/s }
'''
FRESH = [0, 16, 15, -1, 2]


def throttle(key, *more):
    return resp_encode('CL.THROTTLE', key, 15, 30, 60, *more)


class BadResp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))

    def tearDown(self):
        """Others are still served."""
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('PING'), 'PONG')

    def exchange(self, *pieces):
        with connect(self.weir.resp) as sock:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    sock.sendall(piece)
            return read_all(sock)

    def closed(self, *pieces):
        """An error of one line at most, and the connection is closed."""
        answer = self.exchange(*pieces)
        self.assertRegex(answer, rb'\A(-ERR [^\r\n]+\r\n)?\Z')
        return answer

    def error(self, *words):
        """An error, after which the connection still serves."""
        with Resp(self.weir.resp) as client:
            answer = client.ask(*words)
            self.assertIsInstance(answer, Exception, words)
            self.assertEqual(client.ask('PING'), 'PONG')
        return str(answer)

    def test_half_a_command_is_given_up(self):
        start = time.monotonic()
        self.closed(throttle('half')[:20])
        self.assertGreater(time.monotonic() - start, 0.5)

    def test_the_bound_of_a_command_holds_below_a_buffer_too(self):
        with Weir(CONFIG.replace('64KiB', '1KiB')) as weir:
            for size, fine in ((1024, True), (1025, False)):
                with self.subTest(size=size), connect(weir.resp) as sock:
                    empty = len(resp_encode('ECHO', 'a' * 1000)) - 1000
                    sock.sendall(resp_encode('ECHO', 'a' * (size - empty)) + resp_encode('QUIT'))
                    self.assertEqual(read_all(sock)[:1], b'$' if fine else b'-')

    def test_half_a_command_and_gone(self):
        for cut in (1, 3, 8, 20, 40):
            with connect(self.weir.resp) as sock:
                sock.sendall(throttle('gone')[:cut])

    def test_one_byte_at_a_time(self):
        with Weir(CONFIG.replace('1s', '1min')) as weir, Resp(weir.resp) as client:
            for byte in throttle('slow'):
                client.send(bytes([byte]))
            self.assertEqual(client.read(), FRESH)

    def test_lengths_that_are_none(self):
        for length in (b'9223372036854775808', b'9223372036854775807', b'18446744073709551616', b'-2', b'-1', b'x',
                       b'', b'1x', b'+1', b' 1', b'1 ', b'0x1', b'99999999999'):
            with self.subTest(length=length):
                self.closed(b'*1\r\n$' + length + b'\r\nPING\r\n')

    def test_counts_that_are_none(self):
        for count in (b'9223372036854775808', b'9223372036854775807', b'18446744073709551616', b'-2', b'x', b'1x',
                      b'+1', b'2147483648'):
            with self.subTest(count=count):
                self.closed(b'*' + count + b'\r\n$4\r\nPING\r\n')

    def test_empty_commands_are_skipped(self):
        with Resp(self.weir.resp) as client:
            client.send(b'*0\r\n*-1\r\n\r\n' + resp_encode('PING'))
            self.assertEqual(client.read(), 'PONG')

    def test_arrays_without_end(self):
        self.closed(b'*1\r\n' * 100000)
        self.closed(b'*2\r\n*2\r\n$4\r\nPING\r\n')

    def test_bulk_without_its_end(self):
        self.closed(b'*1\r\n$4\r\nPINGxx' + resp_encode('PING'))

    def test_no_resp(self):
        self.closed(b'*1\r\n:1\r\n')
        self.closed(b'*1\n$4\nPING\n' + b'\0' * 100000 + b'\r\n')

    def test_command_too_large(self):
        self.closed(b'*2\r\n$4\r\nECHO\r\n$1073741824\r\n')
        self.closed(b'*100000000\r\n$4\r\nPING\r\n')

    def test_line_of_1_gb_is_bounded(self):
        sent = 0
        with connect(self.weir.resp) as sock, contextlib.suppress(OSError):
            while sent < 1 << 30:
                sent += sock.send(b'a' * 65536)
        self.assertLess(sent, 64 << 20)

    def test_http_on_the_wrong_port(self):
        self.closed(b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\nCL.THROTTLE crossed 1 3 6\r\n')
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('CL.THROTTLE', 'crossed', 15, 30, 60), FRESH)

    def test_keys_that_are_legal(self):
        for key in (b'', b'\xff\xfe', b'\0', b'\r\n', 'ä'.encode(), b'k' * 1000):
            with self.subTest(key=key[:10]), Resp(self.weir.resp) as client:
                self.assertEqual(client.ask('CL.THROTTLE', key, 15, 30, 60), FRESH)
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', b'x' + key)[0], 1)

    def test_key_too_long(self):
        self.error('CL.THROTTLE', b'k' * 10000, 15, 30, 60)

    def test_costs(self):
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('CL.THROTTLE', 'cost', 15, 30, 60, 0), [0, 16, 16, -1, 0])
            self.assertEqual(client.ask('CL.THROTTLE', 'cost', 15, 30, 60, 17)[:2], [1, 16])
            self.assertEqual(client.ask('CL.THROTTLE', 'cost', 15, 30, 60, 17)[3], -1)
            self.assertEqual(client.ask('CL.THROTTLE', 'cost', 15, 30, 60, 9223372036854775807)[3], -1)
            self.assertEqual(client.ask('WEIR.CHECK', 0, 'user', 'ada')[0], 1)
        for cost in (-1, 1 << 63, 1 << 64, '', 'x', '1.5', '1e3'):
            with self.subTest(cost=cost):
                self.error('CL.THROTTLE', 'cost', 15, 30, 60, cost)
                self.error('WEIR.CHECK', cost, 'user', 'ada')

    def test_an_attribute_that_holds_its_value(self):
        """It was an attribute of that name: no limit saw it, and it was admitted uncounted."""
        for words in ((1, 'user=ada', 'route=/x'), (1, 'route', '/x', 'user=ada', '')):
            for command in ('WEIR.CHECK', 'WEIR.PEEK', 'WEIR.REFUND'):
                with self.subTest(command=command, words=words):
                    self.assertIn('user ada, not user=ada', self.error(command, *words))
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'a=b')[0], 1)

    def test_rates_that_are_none(self):
        self.assertIn('Zero rates are not supported', self.error('CL.THROTTLE', 'rate', 15, 0, 60))
        self.assertIn('Zero rates are not supported', self.error('CL.THROTTLE', 'rate', 15, 30, 0))
        for words in ((-1, 30, 60), (15, -30, 60), (15, 30, -60), (1 << 63, 30, 60), (15, 1 << 63, 60),
                      (15, 30, 1 << 63), (9223372036854775807, 9223372036854775807, 9223372036854775807),
                      (15, 30, 9223372036854775807), (15, 2000000000, 1), ('x', 30, 60)):
            with self.subTest(words=words):
                self.error('CL.THROTTLE', 'rate', *words)

    def test_arity(self):
        for words in (('CL.THROTTLE',), ('CL.THROTTLE', 'key'), ('CL.THROTTLE', 'key', 1, 2),
                      ('CL.THROTTLE', 'key', 1, 2, 3, 4, 5), ('WEIR.CHECK',), ('WEIR.CHECK', 1, 'user'), ('ECHO',)):
            with self.subTest(words=words):
                self.error(*words)

    def test_unknown_command(self):
        self.assertIn('unknown command', self.error('FLUSHALL'))
        self.assertIn('unknown command', self.error(b'\xff\xfe'))

    def test_error_text_carries_no_line_break(self):
        with Resp(self.weir.resp) as client:
            self.assertIsInstance(client.ask(b'NO\r\n+OK'), Exception)
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_commands_before_a_bad_one_are_answered(self):
        answer = self.exchange(resp_encode('PING') + b'*1\r\n$-2\r\n' + resp_encode('PING'))
        self.assertRegex(answer, rb'\A\+PONG\r\n(-ERR [^\r\n]+\r\n)?\Z')


if __name__ == '__main__':
    unittest.main()
