#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad HTTP: the server answers with a clear error or closes, and goes on serving others."""
import json
import signal
import time
import unittest

from weir_server import Weir, connect, read_all, read_until

CONFIG = '''
server: { request_timeout: 1s, header_bytes_max: 8KiB, body_bytes_max: 64KiB, headers_max: 50 }
limits:
  - { name: wide, key: [user], rate: 1000000/s }
'''
BODY = b'{"attributes":{"user":"ada"}}'


def post(body=BODY, *fields, line=b'POST /v1/check HTTP/1.1', host=b'Host: localhost'):
    """A request; Content-Length comes from `fields`, or is right."""
    lengths = [field for field in fields if field.lower().startswith((b'content-length', b'transfer-encoding'))]
    head = [line] + ([host] if host else []) + list(fields)
    if not lengths:
        head.append(b'Content-Length: %d' % len(body))
    return b'\r\n'.join(head) + b'\r\n\r\n' + body


class BadHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))

    def tearDown(self):
        """Others are still served."""
        self.assertEqual(self.status(post()), 200)

    def exchange(self, *pieces, pause_s=0.0):
        """Sends the pieces, then reads until the server closes."""
        with connect(self.weir.http) as sock:
            try:
                for piece in pieces:
                    sock.sendall(piece)
                    time.sleep(pause_s)
            except ConnectionError:
                pass
            return read_all(sock)

    def status(self, *pieces, pause_s=0.0):
        """The status of the first answer."""
        with connect(self.weir.http) as sock:
            for piece in pieces:
                sock.sendall(piece)
                time.sleep(pause_s)
            answer = read_until(sock, b'\r\n\r\n')
        return int(answer.split(b' ')[1]) if answer else None

    def refused(self, *pieces, statuses=(400,)):
        """One clear error, and the connection is closed: nothing after it is taken for a request."""
        answer = self.exchange(*pieces)
        self.assertRegex(answer, rb'^HTTP/1\.1 \d{3} ')
        self.assertEqual(answer.count(b'HTTP/1.1 '), 1, answer)
        self.assertIn(int(answer[9:12]), statuses, answer)
        self.assertIn(b'connection: close', answer.lower())
        return answer

    def test_half_a_request_is_given_up(self):
        start = time.monotonic()
        answer = self.exchange(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Le')
        self.assertIn(answer[9:12], (b'', b'408'), answer)
        self.assertGreater(time.monotonic() - start, 0.5)

    def test_half_a_body_is_given_up(self):
        answer = self.exchange(post(BODY[:5], b'Content-Length: 29'))
        self.assertIn(answer[9:12], (b'', b'408'), answer)

    def test_half_a_request_and_gone(self):
        for cut in (1, 10, 40, 60):
            with connect(self.weir.http) as sock:
                sock.sendall(post()[:cut])

    def test_one_byte_at_a_time(self):
        with Weir(CONFIG.replace('1s', '1min')) as weir, connect(weir.http) as sock:
            for byte in post():
                sock.sendall(bytes([byte]))
            self.assertTrue(read_until(sock, b'\r\n\r\n').startswith(b'HTTP/1.1 200 '))

    def test_two_content_lengths(self):
        self.refused(post(BODY, b'Content-Length: 29', b'Content-Length: 5'))

    def test_two_content_lengths_alike(self):
        self.refused(post(BODY, b'Content-Length: 29', b'Content-Length: 29'))

    def test_content_length_list(self):
        self.refused(post(BODY, b'Content-Length: 29, 29'))

    def test_content_length_and_transfer_encoding(self):
        body = b'1d\r\n' + BODY + b'\r\n0\r\n\r\n'
        self.refused(post(body, b'Content-Length: 29', b'Transfer-Encoding: chunked'))
        self.refused(post(body, b'Transfer-Encoding: chunked', b'Content-Length: 29'))

    def test_transfer_encoding_disguised(self):
        body = b'1d\r\n' + BODY + b'\r\n0\r\n\r\n'
        for value in (b'xchunked', b'chunked, identity', b'identity', b' chunked, chunked'):
            with self.subTest(value=value):
                self.refused(post(body, b'Transfer-Encoding:' + value), statuses=(400, 501))
        self.refused(post(body, b'X: a\rTransfer-Encoding: chunked', b'Content-Length: 29'))
        self.refused(post(body, b'Transfer-Encoding : chunked', b'Content-Length: 29'))

    def test_chunked_is_fine(self):
        body = b'5\r\n' + BODY[:5] + b'\r\n18;x=y\r\n' + BODY[5:] + b'\r\n0\r\nTrailer: x\r\n\r\n'
        self.assertIn(self.status(post(body, b'Transfer-Encoding: chunked')), (200, 400))
        plain = b'1d\r\n' + BODY + b'\r\n0\r\n\r\n'
        self.assertEqual(self.status(post(plain, b'Transfer-Encoding: chunked')), 200)

    def test_bad_chunk_sizes(self):
        for size in (b'-1', b'fffffffffffffffff', b'g', b'', b'0x1d'):
            with self.subTest(size=size):
                self.refused(post(size + b'\r\n' + BODY + b'\r\n0\r\n\r\n', b'Transfer-Encoding: chunked'),
                             statuses=(400, 413))

    def test_bad_content_lengths(self):
        for value in (b'-1', b'+29', b'29x', b'0x1d', b'', b'99999999999999999999'):
            with self.subTest(value=value):
                self.refused(post(BODY, b'Content-Length: ' + value), statuses=(400, 413))

    def test_obs_fold(self):
        self.refused(post(BODY, b'X-Weir-User: ada\r\n bob'))
        self.refused(post(BODY, b'X-Weir-User: ada\r\n\tbob'))

    def test_missing_host(self):
        self.refused(post(host=None))

    def test_missing_host_is_fine_in_http_1_0(self):
        answer = self.exchange(post(line=b'POST /v1/check HTTP/1.0', host=None))
        self.assertIn(int(answer[9:12]), (200, 505))

    def test_two_hosts(self):
        self.refused(post(BODY, b'Host: other'))
        self.refused(post(BODY, b'Host: localhost'))

    def test_bare_lf(self):
        self.refused(post().replace(b'\r\n', b'\n'))
        self.refused(post(BODY, b'X: a\nContent-Length: 29'))

    def test_space_before_colon(self):
        self.refused(post(BODY, b'X : a'))

    def test_nul_in_a_field(self):
        self.refused(post(BODY, b'X: a\0b'))

    def test_no_http(self):
        self.refused(b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + b'\0' * 64 + b'\r\n\r\n')
        self.refused(b'*1\r\n$4\r\nPING\r\n\r\n')

    def test_http_2_preface(self):
        self.refused(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', statuses=(400, 505))

    def test_head_too_large(self):
        self.refused(post(BODY, b'X: ' + b'a' * 10000), statuses=(431, 400))
        self.refused(b'GET /' + b'a' * 10000 + b' HTTP/1.1\r\nHost: localhost\r\n\r\n', statuses=(414, 431, 400))

    def test_a_head_within_its_bounds_has_room_beside_a_small_body(self):
        """The target, the fields and the body each have a bound of their own; the last byte comes late."""
        config = CONFIG.replace('header_bytes_max: 8KiB, body_bytes_max: 64KiB', 'header_bytes_max: 16KiB, body_bytes_max: 64B')
        with Weir(config) as weir:
            for target, fields in ((8 << 10, 16 << 10), (8 << 10, 300), (20, 16 << 10)):
                with self.subTest(target=target, fields=fields), connect(weir.http) as sock:
                    line = b'POST ' + b'/v1/check?'.ljust(target, b'a') + b' HTTP/1.1'
                    body = BODY.ljust(64)
                    empty = len(post(body, b'X: ', line=line)) - len(body) - len(line) - 2
                    request = post(body, b'X: ' + b'a' * (fields - empty), line=line)
                    sock.sendall(request[:-1])
                    time.sleep(0.1)
                    sock.sendall(request[-1:])
                    self.assertEqual(read_until(sock, b'\r\n\r\n')[:12], b'HTTP/1.1 200')

    def test_a_bound_that_a_reload_raises_is_raised_for_open_connections(self):
        with Weir(CONFIG) as weir, connect(weir.http) as sock:
            sock.sendall(post())
            self.assertEqual(read_until(sock, b'"limits":')[:12], b'HTTP/1.1 200')
            weir.config.write_text(CONFIG.replace('8KiB', '200KiB'), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            while 'reloaded' not in weir.output():
                time.sleep(0.01)
            sock.sendall(post(BODY, b'Connection: close', b'X: ' + b'a' * 190000))
            self.assertIn(b'HTTP/1.1 200', read_all(sock))

    def test_framing_is_bounded_beside_the_body(self):
        self.refused(post(b'1\r\na\r\n' * 20000, b'Transfer-Encoding: chunked'), statuses=(413,))

    def test_too_many_fields(self):
        self.refused(post(BODY, *[b'X%d: a' % i for i in range(100)]), statuses=(431, 400))

    def test_body_too_large(self):
        self.refused(post(b'', b'Content-Length: 100000000'), statuses=(413,))

    def test_endless_head_is_bounded(self):
        """A line of 1 GB is not read: the server closes long before."""
        sent = 0
        with connect(self.weir.http) as sock:
            try:
                sock.sendall(b'GET /')
                while sent < 1 << 30:
                    sent += sock.send(b'a' * 65536)
            except OSError:
                pass
        self.assertLess(sent, 64 << 20)

    def test_bad_json(self):
        for body in (b'', b'{', b'[]', b'null', b'{"attributes":{"user":"ada"}', b'{"attributes":[]}',
                     b'{"attributes":{}} x',
                     b'{"attributes":{"user":[1]}}', b'{"attributes":{"user":"a","user":"b"}}', b'{"atributes":{}}',
                     b'{"attributes":{"user":"\xff"}}', b'[' * 60000, b'{"attributes":' * 4000,
                     b'{"attributes":{"user":"ada"},"peek":1}'):
            with self.subTest(body=body[:60]):
                self.assertEqual(self.status(post(body)), 400)

    def test_bad_costs(self):
        for cost in (b'-1', b'9223372036854775808', b'1e3', b'1.5', b'"1"', b'null', b'1' * 400):
            with self.subTest(cost=cost[:20]):
                answer = self.answer(b'{"attributes":{"user":"ada"},"cost":' + cost + b'}')
                self.assertEqual(answer[0], 400, answer)
                self.assertRegex(answer[1], r'cost|integers here are 0 to 9223372036854775807')

    def test_cost_0_is_admitted(self):
        status, body = self.answer(b'{"attributes":{"user":"nobody"},"cost":0}')
        self.assertEqual((status, json.loads(body)['admitted']), (200, True))
        self.assertEqual(json.loads(body)['remaining'], 1000000)

    def test_cost_above_capacity_is_never(self):
        status, body = self.answer(b'{"attributes":{"user":"ada"},"cost":9223372036854775807}')
        self.assertEqual(status, 429)
        self.assertNotIn('retry-after:', self.head.lower())
        self.assertEqual(json.loads(body).get('retry_after_ms', -1), -1)

    def test_empty_and_strange_keys_are_legal(self):
        for user in ('', '\0', 'ä', '\U0001f600', 'a' * 1000):
            with self.subTest(user=user[:10]):
                status, body = self.answer(json.dumps({'attributes': {'user': user}}).encode())
                self.assertEqual((status, json.loads(body)['remaining']), (200, 999999))

    def answer(self, body):
        with connect(self.weir.http) as sock:
            sock.sendall(post(body, b'Connection: close'))
            head, _, rest = read_all(sock).partition(b'\r\n\r\n')
        self.head = head.decode()
        return int(head.split(b' ')[1]), rest.decode()

    def test_unknown_places_and_methods(self):
        self.assertEqual(self.status(b'GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n'), 404)
        self.assertEqual(self.status(b'DELETE /v1/check HTTP/1.1\r\nHost: localhost\r\n\r\n'), 405)

    def test_pipelined_requests_after_a_bad_one_are_not_run(self):
        answer = self.exchange(post() + post(host=None) + post())
        self.assertEqual([answer.count(b'HTTP/1.1 %d' % s) for s in (200, 400)], [1, 1], answer)


if __name__ == '__main__':
    unittest.main()
