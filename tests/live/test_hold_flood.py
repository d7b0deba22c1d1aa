#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throttle: hold under a flood, on two threads: what is refused has charged nothing, turns are those of the bucket, and
who leaves takes its turn along."""
import json
import re
import socket
import threading
import time
import unittest

from weir_server import Resp, Weir, connect, read_all, read_until, resp_encode

CONFIG = '''
server: { hold_bytes_max: 64KiB }
limits:
  - { name: flood, match: { queue: flood* }, key: [queue], rate: 100/s, burst: 10000, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 50ms }
  - { name: beside, match: { queue: flood-all }, key: [queue], rate: 100000/day }
  - { name: tries, match: { queue: flood-all }, key: [queue], rate: 100000000/year, count: attempts }
  - { name: line, match: { queue: line* }, key: [queue], rate: 10/s, burst: 1000, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 100s }
  - { name: slow, match: { queue: slow* }, key: [queue], rate: 1/s, burst: 100, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 100s }
  - { name: doors, match: { door: '*' }, key: [door], algorithm: concurrency, rate: 10, lease: 2s }
'''


def command(queue, cost=1, *more):
    return resp_encode('WEIR.CHECK', cost, 'queue', queue, *more)


def post(queue, cost=1):
    body = json.dumps({'attributes': {'queue': queue}, 'cost': cost}).encode()
    return b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body


def counts_of(data):
    """How many answers refuse, how many admit; each ends with its seventh element, the delay."""
    if not data.endswith(b':0\r\n'):
        return 0, 0
    return data.count(b'*7\r\n:0\r\n'), data.count(b'*7\r\n:1\r\n')


class Flood(unittest.TestCase):
    def setUp(self):
        self.weir = Weir(CONFIG)

    def tearDown(self):
        self.assertEqual(self.weir.stop(), 0)

    def metric(self, name):
        with connect(self.weir.http) as sock:
            sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            text = read_all(sock).decode()
        return float(re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)[1])

    def remaining(self, queue):
        with Resp(self.weir.resp) as client:
            return client.ask('WEIR.PEEK', 0, 'queue', queue)[3]

    def await_remaining(self, queue, least):
        deadline = time.monotonic() + 10
        while (left := self.remaining(queue)) < least and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertGreaterEqual(left, least)

    def flood(self, queue, seconds=3):
        """16 connections over two loops ask for all they can. How many were refused, how many admitted, how long."""
        answers, lock = [0, 0], threading.Lock()

        def ask():
            counts, end = [0, 0], time.monotonic() + seconds
            with connect(self.weir.resp, timeout_s=60) as sock:
                while time.monotonic() < end:
                    sock.sendall(command(queue) * 50)
                    data = b''
                    while sum(counts_of(data)) < 50:
                        data += sock.recv(65536)
                    counts = [sum(pair) for pair in zip(counts, counts_of(data))]
            with lock:
                answers[:] = [sum(pair) for pair in zip(answers, counts)]

        start = time.monotonic()
        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - start
        print(f'{answers[1]} of {sum(answers)} admitted in {took:.2f} s')
        return *answers, took

    def test_what_is_refused_has_charged_nothing(self):
        """One passes every 10 ms, as for one who asks alone."""
        _, admitted, took = self.flood('flood-one')
        self.assertGreaterEqual(admitted, 0.3 * 100 * took)  # a busy machine may ask too seldom
        self.assertLessEqual(admitted, 100 * took + 1)
        self.assertGreaterEqual(self.remaining('flood-one'), 10000 - 20, 'no queue of phantoms')

    def test_limits_beside_it_lose_what_was_admitted_and_attempts_what_was_asked(self):
        refused, admitted, took = self.flood('flood-all')
        with connect(self.weir.http) as sock:
            sock.sendall(post('flood-all', 0))
            head = read_until(sock, b'\r\n\r\n')
            body = head.partition(b'\r\n\r\n')[2]
            while len(body) < int(re.search(rb'content-length: (\d+)', head.lower())[1]):
                body += sock.recv(65536)
        left = {limit['limit']: limit['remaining'] for limit in json.loads(body)['limits']}
        # 100,000 a day are 1.2 a second, 100,000,000 a year 3.2.
        self.assertIn(100000 - left['beside'], range(admitted - int(1.2 * took) - 2, admitted + 1))
        tries = 100000000 - left['tries']
        self.assertIn(tries, range(refused + admitted - int(3.2 * (took + 5)) - 2, refused + admitted + 1))

    def test_turns_are_as_far_apart_as_the_bucket_says(self):
        clients = [Resp(self.weir.resp) for _ in range(21)]
        start = time.monotonic()
        clients[0].ask('WEIR.CHECK', 1, 'queue', 'line')
        for client in clients[1:]:
            client.send(command('line'))
        arrivals = []
        for client in clients[1:]:
            self.assertEqual(client.read()[0], 1)
            arrivals.append(time.monotonic() - start)
        for client in clients:
            client.__exit__()
        for i, at in enumerate(arrivals):
            self.assertGreaterEqual(at, 0.1 * (i + 1))

    def test_an_answer_that_is_late_delays_no_other(self):
        """Eight turns, half a second apart, pass while the server stands still: then all of them go, not one by one."""
        clients = [Resp(self.weir.resp) for _ in range(9)]
        clients[0].ask('WEIR.CHECK', 5, 'queue', 'line')
        begun = time.monotonic()
        for client in clients[1:]:
            client.send(command('line', 5))
        deadline = time.monotonic() + 10
        while self.metric('weir_hold_waiting{limit="line"}') < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.weir.process.send_signal(19)  # SIGSTOP
        time.sleep(4.2)
        self.weir.process.send_signal(18)  # SIGCONT
        gone = time.monotonic()
        for client in clients[1:]:
            self.assertEqual(client.read()[0], 1)
        for client in clients:
            client.__exit__()
        # One gap more after each would add 0.5 + 1 + ... + 3.5 = 14 seconds.
        self.assertLess(self.metric('weir_hold_seconds_sum'), 8 * (gone - begun) + 7)

    def test_mass_hang_ups_leave_no_phantom_turns(self):
        clients = [Resp(self.weir.resp) for _ in range(60)]
        self.assertEqual(clients[0].ask('WEIR.CHECK', 1, 'queue', 'slow')[0], 1)
        for client in clients[1:]:
            client.send(command('slow'))
        deadline = time.monotonic() + 10
        while self.remaining('slow') > 45 and time.monotonic() < deadline:
            time.sleep(0.01)
        for client in clients[1:]:  # the first in line first: each time others are behind it
            client.__exit__()
        self.await_remaining('slow', 98)
        self.assertEqual(clients[0].ask('WEIR.CHECK', 1, 'queue', 'slow-2')[0], 1)
        self.assertEqual(self.metric('weir_hold_waiting{limit="slow"}'), 0)
        clients[0].__exit__()

    def test_a_half_closed_client_gets_its_held_answer(self):
        for port, request, answer in ((self.weir.resp, command('line-r', 3), b'*7\r\n:1\r\n'),
                                      (self.weir.http, post('line-h', 3), b'HTTP/1.1 200 OK\r\n')):
            with connect(port) as sock:
                sock.sendall(request * 2)
                sock.shutdown(socket.SHUT_WR)
                start = time.monotonic()
                data = read_all(sock)
                self.assertEqual(data.count(answer), 2, data)
                self.assertGreaterEqual(time.monotonic() - start, 0.25)
        self.assertEqual(self.metric('weir_holds_total{end="left"}'), 0)

    def test_who_waits_is_bounded_in_memory(self):
        """64 KiB for all: a hundred and some."""
        clients = [Resp(self.weir.resp) for _ in range(400)]
        for i, client in enumerate(clients):
            client.send(command(f'slow-{i}', 50) + command(f'slow-{i}', 1))
        answers = []
        for client in clients:
            self.assertEqual(client.read()[0], 1)
        deadline = time.monotonic() + 10
        while self.metric('weir_decisions_total{limit="slow",verdict="admitted"}') + \
                self.metric('weir_decisions_total{limit="slow",verdict="shed"}') < 800 and time.monotonic() < deadline:
            time.sleep(0.02)
        waiting = self.metric('weir_hold_waiting{limit="slow"}')
        used = self.metric('weir_hold_memory_bytes')
        print(f'{waiting:.0f} wait in {used:.0f} bytes')
        self.assertTrue(50 < waiting < 300)
        self.assertLessEqual(used, 65536 + 2 * 4096)
        self.assertGreater(used, 65536 - 4096)
        for client in clients:
            client.__exit__()
        while self.metric('weir_hold_memory_bytes') > 0 and time.monotonic() < deadline + 10:
            time.sleep(0.02)
        self.assertEqual(self.metric('weir_hold_memory_bytes'), 0)
        del answers

    def test_a_permit_begins_with_its_turn(self):
        """The lease told is that from the answer on; what would be held past a lease is refused."""
        with Resp(self.weir.resp) as client:
            first = client.ask('WEIR.CHECK', 10, 'queue', 'line-p', 'door', 'd')
            self.assertEqual((first[0], first[8]), (1, 2000))
            self.assertEqual(client.ask('WEIR.RELEASE', first[7]), 1)
            second = client.ask('WEIR.CHECK', 1, 'queue', 'line-p', 'door', 'd')  # after 1 s
            self.assertEqual((second[0], second[8]), (1, 2000))
            time.sleep(1.3)
            self.assertEqual(client.ask('WEIR.RELEASE', second[7]), 1, 'its lease began with the answer')
            client.ask('WEIR.CHECK', 30, 'queue', 'line-q')
            refused = client.ask('WEIR.CHECK', 1, 'queue', 'line-q', 'door', 'd')
            self.assertEqual(refused[:2], [0, b'line'])
            self.assertGreater(refused[4], 900)

    def test_a_permit_that_is_over_is_not_told(self):
        """The server stands still while the permit's lease ends."""
        with Resp(self.weir.resp) as resp, connect(self.weir.http) as http:
            body = json.dumps({'attributes': {'queue': 'line-y', 'door': 'e'}, 'cost': 1}).encode()
            resp.ask('WEIR.CHECK', 10, 'queue', 'line-x')
            resp.ask('WEIR.CHECK', 10, 'queue', 'line-y')
            resp.send(command('line-x', 1, 'door', 'd'))
            http.sendall(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            deadline = time.monotonic() + 10
            while self.metric('weir_hold_waiting{limit="line"}') < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.weir.process.send_signal(19)  # SIGSTOP
            time.sleep(2.2)
            self.weir.process.send_signal(18)  # SIGCONT
            self.assertIn('permit was over', str(resp.read()))
            self.assertEqual(resp.ask('PING'), 'PONG')
            self.assertTrue(read_until(http, b'\r\n\r\n').startswith(b'HTTP/1.1 503 '))
        self.assertEqual(self.metric('weir_holds_total{end="lost"}'), 2)


if __name__ == '__main__':
    unittest.main()
