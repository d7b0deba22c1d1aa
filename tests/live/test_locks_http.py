#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks over HTTP: the contract's answers, waits, names of any bytes, who may, and what bad bytes get."""
import base64
import contextlib
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.parse

from cluster import wait_for
from weir_server import Resp, Weir, connect, read_all, read_until, serving

TTL = 60000
PROBLEM = 'application/problem+json'


class Client:
    """One kept connection."""

    def __init__(self, port, token=None):
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.headers = {'Authorization': f'Bearer {token}'} if token else {}

    def call(self, method, path, body=None):
        if isinstance(body, dict):
            body = json.dumps(body)
        self.connection.request(method, path, body, self.headers)
        self.reply = self.connection.getresponse()
        text = self.reply.read()
        return self.reply.status, json.loads(text) if text else None

    def post(self, name, verb, **members):
        return self.call('POST', f'/v1/locks/{urllib.parse.quote(name, safe="")}/{verb}', members)

    def show(self, name):
        return self.call('GET', '/v1/locks/' + urllib.parse.quote(name, safe=''))

    def close(self):
        self.connection.close()


def request(name, verb, **members):
    body = json.dumps(members).encode()
    return f'POST /v1/locks/{name}/{verb} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n'.encode() + body


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.weir = cls.stack.enter_context(serving())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def setUp(self):
        self.client = Client(self.weir.http)
        self.addCleanup(self.client.close)

    def waiters(self, name):
        return self.client.show(name)[1]['waiters']

    def test_the_answers_of_the_contract(self):
        status, granted = self.client.post('contract', 'acquire', owner='ada', ttl_ms=TTL)
        self.assertEqual((status, granted['granted']), (200, True))
        self.assertEqual(granted['fence'], f'{granted["incarnation"]}.{granted["token"]}')
        self.assertTrue(0 < granted['lease_ms'] <= TTL)
        self.assertEqual(self.client.reply.headers['Content-Type'], 'application/json')
        status, held = self.client.post('contract', 'acquire', owner='bob', ttl_ms=TTL)
        self.assertEqual((status, held['granted'], held['holder'], held['status']), (409, False, 'ada', 409))
        self.assertTrue(0 < held['remaining_ms'] <= TTL)
        self.assertEqual(self.client.reply.headers['Content-Type'], PROBLEM)
        self.assertGreaterEqual(1000 * int(self.client.reply.headers['Retry-After']), held['remaining_ms'])
        status, renewed = self.client.post('contract', 'renew', owner='ada', ttl_ms=2 * TTL)
        self.assertEqual((status, renewed['fence']), (200, granted['fence']))
        status, lost = self.client.post('contract', 'renew', owner='bob', ttl_ms=TTL)
        self.assertEqual((status, lost['granted']), (409, False))
        self.assertIn('lost', lost['detail'])
        status, shown = self.client.show('contract')
        self.assertGreater(shown.pop('lease_ms'), TTL)
        self.assertEqual((status, shown), (200, {
            'name': 'contract', 'held': True, 'holder': 'ada', 'incarnation': granted['incarnation'],
            'token': granted['token'], 'fence': granted['fence'], 'waiters': 0}))
        status, other = self.client.post('contract', 'release', owner='bob')
        self.assertEqual((status, other['released']), (404, False))
        self.assertEqual(self.client.post('contract', 'release', owner='ada'), (200, {'released': True}))
        self.assertEqual(self.client.show('contract'), (200, {'name': 'contract', 'held': False, 'waiters': 0}))
        self.assertGreater(self.client.post('contract', 'acquire', owner='ada', ttl_ms=TTL)[1]['token'],
                           granted['token'])

    def test_http_and_resp_are_the_same_locks(self):
        with Resp(self.weir.resp) as resp:
            granted = self.client.post('both', 'acquire', owner='ada', ttl_ms=TTL)[1]
            self.assertEqual(resp.ask('WEIR.LOCKS', 'both')[:3], [b'ada', granted['incarnation'], granted['token']])
            self.assertEqual(resp.ask('WEIR.UNLOCK', 'both', 'ada'), 1)

    def test_what_is_wrong_is_named_with_its_range(self):
        for name, verb, members, part in (
                ('a', 'acquire', {'owner': 'x', 'ttl_ms': 1}, 'ttl_ms: must be an integer, 2000 to 86400000'),
                ('a', 'acquire', {'owner': 'x', 'ttl_ms': TTL, 'wait_ms': -1}, 'wait_ms: must be an integer, 0 to'),
                ('a', 'acquire', {'owner': 'x', 'ttl_ms': TTL, 'seen': 1 << 63}, 'out of range'),
                ('a', 'acquire', {'owner': 'x' * 257, 'ttl_ms': TTL}, 'owner: must be 1 to 256 bytes'),
                ('a', 'acquire', {'ttl_ms': TTL}, 'owner: is missing'),
                ('a', 'renew', {'owner': 'x', 'ttl_ms': TTL, 'wait_ms': 1}, 'wait_ms: unknown member'),
                ('', 'acquire', {'owner': 'x', 'ttl_ms': TTL}, 'name: must be 1 to 1024 bytes'),
                ('n' * 1025, 'acquire', {'owner': 'x', 'ttl_ms': TTL}, 'name: must be 1 to 1024 bytes')):
            status, problem = self.client.post(name, verb, **members)
            self.assertEqual(status, 400, problem)
            self.assertIn(part, problem['detail'])
            self.assertEqual(self.client.reply.headers['Content-Type'], PROBLEM)
        self.assertIn('hexadecimal', self.client.call('GET', '/v1/locks/%4')[1]['detail'])
        self.assertIn('not JSON', self.client.call('POST', '/v1/locks/a/acquire', '{')[1]['detail'])

    def test_methods_and_paths(self):
        for method, path, status, allow in (('GET', '/v1/locks/a/acquire', 405, 'POST'),
                                            ('PUT', '/v1/locks/a/renew', 405, 'POST'),
                                            ('POST', '/v1/locks/a', 405, 'GET, HEAD'),
                                            ('POST', '/v1/locks/a/steal', 404, None), ('GET', '/v1/locks', 404, None)):
            self.assertEqual(self.client.call(method, path, '{}' if method != 'GET' else None)[0], status, path)
            self.assertEqual(self.client.reply.headers['Allow'], allow)
        self.assertEqual(self.client.call('HEAD', '/v1/locks/a'), (200, None))

    def test_names_and_owners_are_any_bytes(self):
        name = bytes(range(256)) * 4
        path = '/v1/locks/' + ''.join(f'%{byte:02x}' for byte in name)
        owner = {'owner_base64': base64.b64encode(b'\xff\0\xfe').decode()}
        self.assertEqual(self.client.call('POST', path + '/acquire', {'ttl_ms': TTL, **owner})[0], 200)
        shown = self.client.call('GET', path)[1]
        self.assertEqual(base64.b64decode(shown['name_base64']), name)
        self.assertEqual(shown['holder_base64'], owner['owner_base64'])
        held = self.client.call('POST', path + '/acquire', {'ttl_ms': TTL, 'owner': 'x'})[1]
        self.assertEqual(held['holder_base64'], owner['owner_base64'])
        self.assertEqual(self.client.call('POST', path + '/release', owner)[0], 200)
        self.assertEqual(self.client.post('a/b?c#d', 'acquire', owner='é\0"', ttl_ms=TTL)[0], 200)
        shown = self.client.show('a/b?c#d')[1]
        self.assertEqual((shown['name'], shown['holder']), ('a/b?c#d', 'é\0"'))

    def test_a_name_of_ten_kilobytes(self):
        with connect(self.weir.http) as sock:
            sock.sendall(request('n' * 10240, 'acquire', owner='x', ttl_ms=TTL))
            self.assertTrue(read_all(sock).startswith(b'HTTP/1.1 414 '))

    def test_a_wait_is_granted_and_is_no_idleness(self):
        """It lasts longer than the timeout. What follows it comes soon after, but not at once."""
        with serving('server: { idle_timeout: 8s, request_timeout: 8s }\nlimits: []\n') as weir, \
                contextlib.closing(Client(weir.http)) as holder, contextlib.closing(Client(weir.http)) as other:
            holder.post('wait', 'acquire', owner='holder', ttl_ms=9500)
            status, granted = other.post('wait', 'acquire', owner='other', ttl_ms=TTL, wait_ms=60000)
            self.assertEqual((status, granted['granted']), (200, True))
            time.sleep(2)
            self.assertEqual(other.show('wait')[1]['holder'], 'other')

    def test_a_wait_ends_by_itself(self):
        self.client.post('ends', 'acquire', owner='holder', ttl_ms=60000)
        began = time.monotonic()
        status, held = self.client.post('ends', 'acquire', owner='other', ttl_ms=TTL, wait_ms=700)
        self.assertGreaterEqual(time.monotonic() - began, 0.7)
        self.assertEqual((status, held['holder']), (409, 'holder'))

    def test_pipelined_requests_keep_their_order(self):
        self.client.post('line', 'acquire', owner='holder', ttl_ms=60000)
        with connect(self.weir.http) as sock:
            sock.sendall(request('line', 'acquire', owner='x', ttl_ms=60000, wait_ms=9000) +
                         request('line', 'release', owner='x') + b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n'
                         b'Connection: close\r\n\r\n')
            wait_for(lambda: self.waiters('line') == 1)
            self.client.post('line', 'release', owner='holder')
            answers = read_all(sock).decode()
        self.assertEqual(re.findall(r'HTTP/1.1 (\d+)', answers), ['200', '200', '200'])
        self.assertLess(answers.index('"granted":true'), answers.index('"released":true'))
        self.assertEqual(self.client.show('line')[1]['held'], False)

    def test_who_leaves_is_out_of_the_queue_at_once(self):
        self.client.post('leave', 'acquire', owner='holder', ttl_ms=60000)
        for tail in (b'', b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n' * 2000):
            with connect(self.weir.http) as sock:
                sock.sendall(request('leave', 'acquire', owner='gone', ttl_ms=60000, wait_ms=60000) + tail)
                wait_for(lambda: self.waiters('leave') == 1)
            wait_for(lambda: self.waiters('leave') == 0)
        self.client.post('leave', 'release', owner='holder')
        self.assertEqual(self.client.show('leave')[1]['held'], False)

    def test_curl(self):
        def curl(*arguments):
            run = subprocess.run(['curl', '-sS', '-w', '\n%{http_code}', *arguments], capture_output=True, text=True,
                                 timeout=60, check=True)
            body, status = run.stdout.rsplit('\n', 1)
            return int(status), json.loads(body)
        url = f'http://127.0.0.1:{self.weir.http}/v1/locks/cu%2Frl'
        ada, bob = ['-d', '{"owner":"ada","ttl_ms":2000}'], ['-d', '{"owner":"bob","ttl_ms":60000,"wait_ms":9000}']
        self.assertEqual(curl(url + '/acquire', *ada)[0], 200)
        self.assertEqual(curl(url)[1]['name'], 'cu/rl')
        self.assertEqual(curl(url + '/acquire', *bob)[0], 200)
        self.assertEqual(curl(url + '/release', '-d', '{"owner":"bob"}'), (200, {'released': True}))

    def test_seen_raises_the_incarnation(self):
        before = self.client.post('seen', 'acquire', owner='ada', ttl_ms=TTL)[1]
        self.client.post('seen', 'release', owner='ada')
        seen = before['incarnation'] + 1000
        after = self.client.post('seen', 'acquire', owner='ada', ttl_ms=TTL, seen=seen)[1]
        self.assertGreater(after['incarnation'], seen)
        status, raised = self.client.call('POST', '/v1/locks/restored', {'seen': after['incarnation'] + 7})
        self.assertEqual(status, 200)
        self.assertGreater(raised['incarnation'], after['incarnation'] + 7)
        self.assertGreater(self.client.call('POST', '/v1/locks/restored')[1]['incarnation'], raised['incarnation'])
        self.assertEqual(self.client.call('POST', '/v1/locks/restored', {'seen': (1 << 62) + 1})[0], 400)

    def test_operators_see_the_store(self):
        self.client.post('seen-by', 'acquire', owner='ada', ttl_ms=TTL)
        locks = self.client.call('GET', '/v1/nodes')[1]['locks']
        self.assertEqual((locks['name'], locks['up'], locks['fault']), ('sqlite', True, None))
        self.assertGreater(locks['granted'], 0)
        with connect(self.weir.http) as sock:
            sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            text = read_all(sock).decode()
        for name in ('granted_total', 'refused_total', 'lost_total', 'unknown_total', 'released_total', 'forgone_total',
                     'waiters', 'batches_total', 'failures_total', 'raised_total', 'incarnation',
                     'up{engine="sqlite"}'):
            self.assertRegex(text, rf'(?m)^weir_locks_{re.escape(name)} \d+$')

    def test_bad_bytes(self):
        seed = random.randrange(1 << 32)
        print(f'seed {seed}')
        rng = random.Random(seed)
        good = request('b%41d', 'acquire', owner='ada', ttl_ms=TTL, wait_ms=1, seen=3)
        for _ in range(200):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with connect(self.weir.http) as sock:
                sock.sendall(data[:rng.randrange(1, len(data) + 1)] if rng.randrange(2) else data)
                sock.shutdown(socket.SHUT_WR)
                answer = read_all(sock)
                self.assertTrue(not answer or answer.startswith(b'HTTP/1.1 '), answer[:80])
        self.assertEqual(self.client.call('GET', '/v1/locks/alive')[0], 200)


class Servers(unittest.TestCase):
    def test_drain_answers_those_who_wait(self):
        with serving() as weir, connect(weir.http) as sock:
            holder = Client(weir.http)
            holder.post('drain', 'acquire', owner='holder', ttl_ms=60000)
            sock.sendall(request('drain', 'acquire', owner='x', ttl_ms=60000, wait_ms=60000))
            wait_for(lambda: holder.show('drain')[1]['waiters'] == 1)
            weir.process.send_signal(signal.SIGTERM)
            answer = read_all(sock)
            self.assertTrue(answer.startswith(b'HTTP/1.1 409 '), answer)
            self.assertIn(b'"holder":"holder"', answer)
            holder.close()
            self.assertEqual(weir.process.wait(60), 0)

    def test_who_may(self):
        config = '''
auth:
  required: always
  tokens:
    - { name: locker, secret: locker-0123456789, rights: [lock] }
    - { name: manager, secret: manager-0123456789, rights: [reset] }
limits: []
'''
        with serving(config) as weir:
            for token, acquire, restored in ((None, 401, 401), ('nobody-0123456789', 401, 401),
                                             ('locker-0123456789', 200, 403), ('manager-0123456789', 403, 200)):
                with contextlib.closing(Client(weir.http, token)) as client:
                    self.assertEqual(client.post('a', 'acquire', owner='x', ttl_ms=TTL)[0], acquire)
                    self.assertEqual(client.show('a')[0], acquire)
                    self.assertEqual(client.show('')[0], 400 if acquire == 200 else acquire)
                    self.assertEqual(client.call('POST', '/v1/locks/restored')[0], restored)

    def test_a_mark_far_above_the_clock_takes_the_right_to_restore(self):
        """Incarnations are used up for good: the right to hold a lock does not burn them."""
        config = '''
auth:
  required: always
  tokens:
    - { name: locker, secret: locker-0123456789, rights: [lock] }
    - { name: both, secret: manager-both-0123456789, rights: [lock, reset] }
limits: []
'''
        now = int(time.time())
        with serving(config) as weir, contextlib.closing(Client(weir.http, 'locker-0123456789')) as locker, \
                contextlib.closing(Client(weir.http, 'manager-both-0123456789')) as both, Resp(weir.resp) as resp:
            for far in (now + 2 * 86400, 2**60):
                status, problem = locker.post('a', 'acquire', owner='x', ttl_ms=TTL, seen=far)
                self.assertEqual(status, 400, problem)
                self.assertIn('right reset', problem['detail'])
                self.assertEqual(resp.ask('AUTH', 'locker-0123456789'), 'OK')
                self.assertIn('right reset', str(resp.ask('WEIR.LOCK', 'a', 'x', TTL, 'SEEN', far)))
            near = now + 80000
            self.assertEqual(locker.post('a', 'acquire', owner='x', ttl_ms=TTL, seen=near)[1]['incarnation'], near + 1)
            far = both.post('b', 'acquire', owner='x', ttl_ms=TTL, seen=2**40)[1]['incarnation']
            self.assertEqual(far, 2**40 + 1)
            self.assertEqual(locker.post('c', 'acquire', owner='x', ttl_ms=TTL, seen=far)[1]['incarnation'], far)
            self.assertEqual(locker.post('c', 'acquire', owner='y', ttl_ms=TTL, seen=far + 1)[0], 400)
            self.assertEqual(resp.ask('AUTH', 'manager-both-0123456789'), 'OK')
            status, problem = both.post('d', 'acquire', owner='x', ttl_ms=TTL, seen=2**61 + 1)
            self.assertEqual((status, problem['detail']), (400, 'seen: is above 2^61: no incarnation of these locks'))
            self.assertIn('above 2^61', str(resp.ask('WEIR.LOCK', 'd', 'x', TTL, 'SEEN', 2**61 + 1)))
            self.assertEqual(resp.ask('WEIR.LOCK', 'd', 'x', TTL, 'SEEN', 2**41)[1], 2**41 + 1)

    def test_without_locks(self):
        with Weir() as weir, contextlib.closing(Client(weir.http)) as client:
            status, problem = client.post('a', 'acquire', owner='x', ttl_ms=TTL)
            self.assertEqual(status, 404)
            self.assertIn('locks: { engine: sqlite', problem['detail'])
            self.assertEqual(client.call('GET', '/v1/nodes')[1]['locks'], None)
            with connect(weir.http) as sock:
                sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
                self.assertNotIn(b'weir_locks', read_until(sock, b'process_max_fds gauge'))


if __name__ == '__main__':
    unittest.main()
