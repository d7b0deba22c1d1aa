#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong tokens are counted, bounded by the address they come from, and wrong on loopback too."""
import itertools
import re
import socket
import subprocess
import tempfile
import time
import unittest

from ports import free_port
from redis_server import wait_for
from weir_server import BUILD, Resp, Weir, connect, read_all, resp_encode

READER, WRITER = 'reader-0123456789', 'writer-0123456789'
CONFIG = f'''
listen: {{ http: {{ address: 127.0.0.1:0, forwarded: nginx }} }}
auth:
  required: %s
  tokens:
    - {{ name: reader, secret: {READER}, rights: [check] }}
    - {{ name: writer, secret: {WRITER}, rights: [check, refund, reset, metrics] }}
limits: []
'''
BODY = b'{"attributes":{}}'
GUESSES = 10


class Guesses(unittest.TestCase):
    def serve(self, required):
        self.weir = Weir(CONFIG % required)
        self.addCleanup(self.weir.stop)

    def http(self, fields, path='/v1/check', source='127.0.0.1'):
        """(status, all of the answer)"""
        body = BODY if path == '/v1/check' else b''
        with socket.create_connection(('127.0.0.1', self.weir.http), 60, (source, 0)) as sock:
            sock.sendall(f'{"POST" if body else "GET"} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
                         f'X-Original-URI: /a\r\nX-Original-Method: GET\r\nX-Real-IP: 192.0.2.1\r\n'
                         f'{fields}Content-Length: {len(body)}\r\n\r\n'.encode() + body)
            answer = read_all(sock)
        return int(answer.split(b' ')[1]), answer

    def resp(self, source='127.0.0.1'):
        client = Resp.__new__(Resp)
        client.socket = socket.create_connection(('127.0.0.1', self.weir.resp), 60, (source, 0))
        client.file = client.socket.makefile('rb')
        self.addCleanup(client.__exit__)
        return client

    def metric(self, name):
        text = self.http(f'X-Weir-Token: {WRITER}\r\n', '/metrics', '127.0.0.9')[1].decode()
        return float(re.search(rf'^{name} (\S+)$', text, re.M)[1])

    def test_on_loopback_a_wrong_token_does_not_pass(self):
        self.serve('auto')
        self.assertEqual(self.http('')[0], 200)
        for fields in (f'X-Weir-Token: {READER}x\r\n', f'Authorization: Bearer {READER}x\r\n'):
            self.assertEqual(self.http(fields)[0], 401)
            self.assertEqual(self.http(fields, '/metrics')[0], 401)
        self.assertEqual(self.http(f'X-Weir-Token: {READER}x\r\n', '/v1/auth')[0], 401)
        for fields in (f'X-Weir-Token: {READER}\r\n', f'Authorization: Bearer {READER}\r\n'):
            self.assertEqual(self.http(fields)[0], 200)
            self.assertEqual(self.http(fields, '/metrics')[0], 403, 'who shows a token has its rights')
        # What a proxy hands on is its client's.
        self.assertEqual(self.http('Authorization: Bearer of-the-application\r\n', '/v1/auth')[0], 200)
        self.assertEqual(self.http(f'X-Weir-Token: {READER}x\r\n', '/healthz')[0], 200)

    def test_without_tokens_there_is_none_to_be_wrong(self):
        self.weir = Weir('limits: []\n')
        self.addCleanup(self.weir.stop)
        self.assertEqual(self.http('X-Weir-Token: anything\r\n')[0], 200)

    def exhaust(self, source):
        """All the guesses that an address has, in one go: the next one comes back six seconds after the first."""
        client = self.resp(source)
        client.send(b''.join(resp_encode('AUTH', f'guess-{i:011}') for i in range(GUESSES)))
        for _ in range(GUESSES):
            self.assertIn('WRONGPASS', str(client.read()))

    def with_no_guess_left(self, ask, *sources):
        """What is answered while the address has no guess: if this machine takes longer, at the next address."""
        for source in sources:
            self.exhausted += 1
            begun = time.monotonic()
            self.exhaust(source)
            answer = ask(source)
            if time.monotonic() - begun < 6:
                return answer
        self.fail('each time it took six seconds')

    def test_guesses_are_bounded_by_address_and_counted(self):
        self.serve('always')
        self.exhausted = 0
        known = self.resp('127.0.0.3')
        self.assertEqual(known.ask('AUTH', READER), 'OK')
        self.assertIn('too many wrong tokens', str(self.with_no_guess_left(
            lambda source: self.resp(source).ask('AUTH', 'guess-%011d' % 99), '127.0.0.3', '127.0.1.3', '127.0.2.3')))
        # A right one that this address has not shown yet is not looked at either, over HTTP neither.
        self.assertIn('too many wrong tokens', str(self.with_no_guess_left(
            lambda source: self.resp(source).ask('AUTH', WRITER), '127.0.0.4', '127.0.1.4', '127.0.2.4')))
        status, answer = self.with_no_guess_left(
            lambda source: self.http(f'X-Weir-Token: {WRITER}\r\n', source=source), '127.0.0.5', '127.0.1.5', '127.0.2.5')
        self.assertEqual(status, 429)
        self.assertIn(int(re.search(rb'Retry-After: (\d+)', answer)[1]), range(1, 7))
        # Who is known there stays, and so does who has an old token; another address is not concerned.
        self.assertEqual(self.resp('127.0.0.3').ask('AUTH', READER), 'OK')
        self.assertEqual(self.http(f'Authorization: Bearer {READER}\r\n', source='127.0.0.3')[0], 200)
        self.assertEqual(known.ask('PING'), 'PONG')
        self.assertIn('WRONGPASS', str(self.resp('127.0.0.3').ask('AUTH', 'guess-%011d' % 0)))
        self.assertEqual(self.resp('127.0.0.2').ask('AUTH', WRITER), 'OK')
        late = self.exhausted - 3  # a token shown too late may have been looked at
        wrong = self.exhausted * GUESSES + 1
        self.assertIn(self.metric('weir_tokens_wrong_total'), range(wrong, wrong + late + 1))
        self.assertIn(self.metric('weir_tokens_unseen_total'), range(3, 3 + late + 1))

    def told(self, pattern):
        wait_for(lambda: re.search(pattern, self.weir.output(), re.M), f'it is not in the log: {pattern}')

    def test_the_log_says_who_guesses(self):
        self.serve('always')
        self.assertEqual(self.http('X-Weir-Token: of-last-year-0123\r\n', source='127.0.0.6')[0], 401)
        self.told(r' warn tokens_wrong_begun: .*, the last from 127\.0\.0\.6 \(')
        self.exhaust('127.0.0.7')
        more = itertools.count(GUESSES)  # however slow this machine is: guesses come back one by one
        wait_for(lambda: 'too many wrong tokens' in str(self.resp('127.0.0.7').ask('AUTH', 'guess-%011d' % next(more))),
                 'it is not refused')
        self.told(r' error tokens_unseen_begun: .*, the last from 127\.0\.0\.7 \(')

    def test_the_log_says_that_it_was_loopback_of_ipv6_or_a_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix='weir-guess-') as folder:
            for listen, at, told in ((f'[::1]:{free_port()}', '::1', '::1'),
                                     (f'unix:{folder}/resp', None, 'a Unix socket')):
                process = subprocess.Popen([BUILD / 'weir', 'serve', '--config', '/dev/stdin', '--resp', listen, '--http', 'off'],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                try:
                    process.stdin.write(CONFIG.replace('required: %s', 'required: always'))
                    process.stdin.close()
                    lines = iter(process.stdout.readline, '')
                    self.assertTrue(any(listen in line for line in lines), 'it does not listen')
                    address = (at, int(listen.rpartition(':')[2])) if at else f'{folder}/resp'
                    with socket.socket(socket.AF_INET6 if at else socket.AF_UNIX) as sock:
                        sock.connect(address)
                        sock.sendall(resp_encode('AUTH', 'of-last-year-0123'))
                        self.assertIn(b'WRONGPASS', sock.recv(4096))
                    self.assertTrue(any(re.search(rf' tokens_wrong_begun: .*, the last from {told} \(', line)
                                        for line in lines), told)
                finally:
                    process.terminate()
                    process.wait(60)
                    process.stdout.close()

    def test_one_old_token_is_one_guess(self):
        """A client that was forgotten when tokens changed harms nobody beside it."""
        self.serve('always')
        for _ in range(50):
            self.assertEqual(self.http('X-Weir-Token: of-last-year-0123\r\n')[0], 401)
        self.assertEqual(self.http(f'X-Weir-Token: {READER}\r\n')[0], 200)
        self.assertEqual(self.metric('weir_tokens_wrong_total'), 50)

    def test_a_connection_ends_with_its_eleventh_wrong_token(self):
        self.serve('always')
        with connect(self.weir.resp) as sock:
            sock.sendall((resp_encode('AUTH', 'of-last-year-0123') + resp_encode('HELLO', 3, 'AUTH', 'default', 'x')) * 20)
            answer = read_all(sock)
        self.assertEqual(answer.count(b'-WRONGPASS'), GUESSES + 1)


if __name__ == '__main__':
    unittest.main()
