#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throttle: hold. Answers wait in the server for their turn, on HTTP and RESP; who does not fit is refused at once."""
import json
import os
import random
import re
import selectors
import signal
import socket
import time
import unittest

from redis_server import wait_for
from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Resp, Weir, connect, read_until, resp_encode

CHAOS_S = float(os.environ.get('WEIR_CHAOS_S', 2))
GAP_S = 5  # of limits whose turns come after a test has looked, however busy the machine is
CONFIG = FORWARDED_NGINX + '''
server: { drain_timeout: 30s }
limits:
  - { name: mail, match: { queue: mail* }, key: [queue], rate: 50/s, burst: 100, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 10s }
  - { name: few, match: { queue: few }, key: [queue], rate: 12/min, burst: 50, algorithm: leaky_bucket, throttle: hold,
      hold_max: 2 }
  - { name: brief, match: { queue: brief }, key: [queue], rate: 12/min, burst: 50, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 5s }
  - { name: quota, match: { queue: brief }, key: [queue], rate: 1000/day }
  - { name: told, match: { queue: told }, key: [queue], rate: 1/min, burst: 50, algorithm: leaky_bucket }
'''


def check(queue, *fields, cost=1):
    body = json.dumps({'attributes': {'queue': queue}, 'cost': cost}).encode()
    head = [b'POST /v1/check HTTP/1.1', b'Host: localhost', b'Content-Length: %d' % len(body), *fields]
    return b'\r\n'.join(head) + b'\r\n\r\n' + body


def read_answer(sock):
    """(status, header fields in lower case, body)."""
    data = read_until(sock, b'\r\n\r\n')
    head, _, body = data.partition(b'\r\n\r\n')
    length = int(re.search(rb'content-length: (\d+)', head.lower())[1])
    while len(body) < length:
        body += sock.recv(65536)
    return int(head.split(b' ')[1]), head.decode().lower(), body


class Hold(unittest.TestCase):
    def setUp(self):
        self.weir = Weir(CONFIG)

    def tearDown(self):
        self.assertEqual(self.weir.stop(), 0)

    def metrics(self):
        with connect(self.weir.http) as sock:
            sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
            return read_answer(sock)[2].decode()

    def metric(self, name):
        text = self.metrics()
        for line in text.splitlines():
            if line.startswith(name + ' '):
                return float(line.split(' ')[1])
        raise AssertionError(f'no {name} in\n{text}')

    def await_metric(self, name, value):
        wait_for(lambda: self.metric(name) == value, f'{name} is not {value}')

    def decided(self, limit):
        return sum(map(int, re.findall(rf'^weir_decisions_total{{limit="{limit}".*}} (\d+)$', self.metrics(), re.M)))

    def at_once(self, port, request, count):
        """Sends it on `count` connections at once; returns the seconds in which all were decided, and [(seconds until the
        answer, first bytes of it)], in order."""
        socks = [socket.create_connection(('127.0.0.1', port)) for _ in range(count)]
        answers, selector = [], selectors.DefaultSelector()
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
        start = time.monotonic()
        for sock in socks:
            sock.sendall(request)
        wait_for(lambda: self.decided('mail') == count, 'not all are decided')
        decided_s = time.monotonic() - start
        while len(answers) < count and time.monotonic() < start + 60:
            for key, _ in selector.select(1):
                data = key.fileobj.recv(4096)
                answers.append((time.monotonic() - start, data[:64]))
                selector.unregister(key.fileobj)
        for sock in socks:
            sock.close()
        self.assertEqual(len(answers), count)
        return decided_s, answers

    def judge(self, decided_s, answers, admitted_is):
        admitted = [at for at, data in answers if admitted_is(data)]
        refused = [at for at, data in answers if not admitted_is(data)]
        # While the thousand were on their way the bucket leaked one per 20 ms.
        self.assertGreaterEqual(len(admitted), 100)
        self.assertLessEqual(len(admitted), 100 + int(decided_s / 0.02) + 1)
        self.assertGreaterEqual(max(admitted), 0.02 * (len(admitted) - 1) - 0.01)
        # Who was refused was not held; who found the bucket empty, as the first did, had nothing to wait for.
        self.assertIn(self.metric('weir_holds_begun_total'), range(99, len(admitted)))
        self.assertEqual(self.metric('weir_hold_seconds_count'), self.metric('weir_holds_begun_total'))
        self.assertEqual(self.metric('weir_hold_waiting{limit="mail"}'), 0)
        print(f'{len(answers)} at once: {len(refused)} refused within {max(refused):.3f} s, {len(admitted)} answered over '
              f'{max(admitted) - min(admitted):.3f} s')

    def test_a_thousand_at_once_over_http(self):
        answers = self.at_once(self.weir.http, check('mail-1'), 1000)
        self.judge(*answers, lambda data: b' 200 OK' in data)

    def test_a_thousand_at_once_over_resp(self):
        answers = self.at_once(self.weir.resp, resp_encode('WEIR.CHECK', 1, 'queue', 'mail-1'), 1000)
        self.judge(*answers, lambda data: data.startswith(b'*7\r\n:1\r\n'))

    def test_auth_is_held_too(self):
        with connect(self.weir.http) as sock:
            start = time.monotonic()
            for _ in range(3):
                fields = ''.join(f'{name}: {value}\r\n' for name, value in NGINX_FIELDS.items())
                sock.sendall(f'GET /v1/auth?queue=mail-2 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n'.encode())
                self.assertEqual(read_answer(sock)[0], 200)
            self.assertGreaterEqual(time.monotonic() - start, 0.04)

    def test_pipelined_answers_keep_their_order(self):
        """The connection answers one after the other, in the order asked, held or not."""
        with connect(self.weir.http) as sock:
            sock.sendall(check('mail-3') * 3 + b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            data = b''
            while piece := sock.recv(65536):
                data += piece
        self.assertEqual(data.count(b'HTTP/1.1 200 OK'), 4)
        self.assertTrue(data.endswith(b'ok\n'), data)

    def test_a_held_answer_tells_no_delay(self):
        with connect(self.weir.http) as first, connect(self.weir.http) as second:
            first.sendall(check('mail-4', cost=10))
            self.assertEqual(read_answer(first)[0], 200)
            second.sendall(check('mail-4'))
            status, _, body = read_answer(second)
            verdict = json.loads(body)
            self.assertEqual((status, verdict['delay_ms'], verdict['limits'][0]['delay_ms']), (200, 0, 0))
            self.assertLessEqual(verdict['reset_after_ms'], 20)

    def test_delay_is_told_and_not_held(self):
        with connect(self.weir.http) as sock:
            start = time.monotonic()
            delays = []
            for _ in range(3):
                sock.sendall(check('told'))
                delays.append(json.loads(read_answer(sock)[2])['delay_ms'])
            took_ms = (time.monotonic() - start) * 1000
        self.assertEqual(delays[0], 0)
        self.assertTrue(60000 - took_ms <= delays[1] <= 60000 and 120000 - took_ms <= delays[2] <= 120000, delays)
        self.assertEqual(self.metric('weir_holds_begun_total'), 0)

    def line_up(self, limit, *waiters):
        """One after the other."""
        for i, waiter in enumerate(waiters):
            waiter.send(resp_encode('WEIR.CHECK', 1, 'queue', limit))
            self.await_metric(f'weir_hold_waiting{{limit="{limit}"}}', i + 1)

    def clients(self, count):
        return [self.enterContext(Resp(self.weir.resp, timeout_s=60)) for _ in range(count)]

    def test_waiters_are_bounded(self):
        a, b, c, d = self.clients(4)
        self.assertEqual(a.ask('WEIR.CHECK', 1, 'queue', 'few')[0], 1)
        self.line_up('few', b, c)
        reply = d.ask('WEIR.CHECK', 1, 'queue', 'few')
        self.assertEqual((reply[0], reply[1]), (0, b'few'))
        self.assertGreater(reply[4], 0)
        # What was refused was given back: two wait, one went, so 47 of 50 are left.
        self.assertEqual(reply[3], 47)
        self.assertEqual([waiter.read()[0] for waiter in (b, c)], [1, 1])
        self.assertEqual(self.metric('weir_decisions_total{limit="few",verdict="shed"}'), 1)

    def test_waits_are_bounded_and_other_limits_get_their_charge_back(self):
        a, b, c = self.clients(3)
        start = time.monotonic()
        a.ask('WEIR.CHECK', 1, 'queue', 'brief')
        self.line_up('brief', b)
        reply = c.ask('WEIR.CHECK', 1, 'queue', 'brief')
        took_ms = (time.monotonic() - start) * 1000
        self.assertEqual((reply[0], reply[1]), (0, b'brief'))
        self.assertTrue(5000 - took_ms <= reply[4] <= 5000, reply)  # 10 s to wait, 5 allowed
        time.sleep(reply[4] / 1000)
        self.assertEqual(c.ask('WEIR.CHECK', 1, 'queue', 'brief')[0], 1)
        self.assertEqual(b.read()[0], 1)
        with connect(self.weir.http) as sock:
            sock.sendall(check('brief', cost=0))
            limits = {limit['limit']: limit for limit in json.loads(read_answer(sock)[2])['limits']}
        self.assertEqual(limits['quota']['remaining'], 997)

    def test_a_client_that_leaves_last_gets_its_charge_back(self):
        a, b = self.clients(2)
        a.ask('WEIR.CHECK', 1, 'queue', 'few')
        self.line_up('few', b)
        self.assertEqual(a.ask('WEIR.PEEK', 0, 'queue', 'few')[3], 48)
        b.__exit__()
        self.await_metric('weir_holds_total{end="left"}', 1)
        self.assertGreaterEqual(a.ask('WEIR.PEEK', 0, 'queue', 'few')[3], 49)

    def test_a_client_that_leaves_the_middle_does_not(self):
        a, b, c = self.clients(3)
        start = time.monotonic()
        a.ask('WEIR.CHECK', 1, 'queue', 'few')
        self.line_up('few', b, c)
        b.__exit__()
        self.await_metric('weir_holds_total{end="left"}', 1)
        self.assertEqual(a.ask('WEIR.PEEK', 0, 'queue', 'few')[3], 47)
        self.assertEqual(c.read()[0], 1)
        self.assertGreaterEqual(time.monotonic() - start, 2 * GAP_S, 'the turn of the one behind was promised')

    def ended(self):
        return [self.metric(f'weir_holds_total{{end="{way}"}}') for way in ('released', 'left')]

    def test_clients_that_come_and_go(self):
        """Random questions, departures and reloads; in the end nobody waits and every hold has ended one way."""
        seed = int(os.environ.get('WEIR_SEED', time.time_ns()))
        print(f'WEIR_SEED={seed}')
        chance, socks, end = random.Random(seed), [], time.monotonic() + CHAOS_S
        while time.monotonic() < end or (time.monotonic() < end + 60 and min(self.ended()) == 0):
            queue = chance.choice(['mail-1', 'mail-2', 'few', 'brief', 'told'])
            if chance.random() < 0.5:
                sock = socket.create_connection(('127.0.0.1', self.weir.http))
                sock.sendall(check(queue, cost=chance.randint(0, 5)) * chance.randint(1, 3))
            else:
                sock = socket.create_connection(('127.0.0.1', self.weir.resp))
                sock.sendall(resp_encode('WEIR.CHECK', chance.randint(0, 5), 'queue', queue) * chance.randint(1, 3))
            socks.append(sock)
            time.sleep(chance.choice((0, 0.005)))  # some live long enough to have their turn
            while len(socks) > 100 or (socks and chance.random() < 0.1):
                socks.pop(chance.randrange(len(socks))).close()
            if chance.random() < 0.01:
                self.weir.process.send_signal(signal.SIGHUP)
        for sock in socks:
            sock.close()
        self.await_metric('weir_connections', 1)
        for limit in ('mail', 'few', 'brief'):
            self.assertEqual(self.metric(f'weir_hold_waiting{{limit="{limit}"}}'), 0)
        released, left = self.ended()
        print(f"{released:.0f} released, {left:.0f} left")
        self.assertGreater(min(released, left), 0)
        self.assertEqual(self.metric('weir_holds_begun_total'), released + left)

    def test_a_transaction_is_not_held(self):
        with Resp(self.weir.resp) as client:
            for words in (('MULTI',), *[('WEIR.CHECK', 1, 'queue', 'told')] * 2, *[('WEIR.CHECK', 1, 'queue', 'few')] * 2):
                client.ask(*words)
            replies = client.ask('EXEC')
            self.assertTrue(all(reply[0] == 1 for reply in replies))
            self.assertGreater(replies[3][6], 0, 'the delay is told instead')
        self.assertEqual(self.metric('weir_holds_begun_total'), 0)

    def test_draining_waits_for_those_held(self):
        with connect(self.weir.http) as sock:
            sock.sendall(check('few') * 2)
            self.assertEqual(read_answer(sock)[0], 200)
            self.await_metric('weir_hold_waiting{limit="few"}', 1)
            self.weir.process.terminate()
            self.assertEqual(read_answer(sock)[0], 200)
        self.assertEqual(self.weir.process.wait(60), 0)


if __name__ == '__main__':
    unittest.main()
