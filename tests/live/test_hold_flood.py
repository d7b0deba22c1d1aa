#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throttle: hold under a flood, on two threads: what is refused has charged nothing, turns are those of the bucket, and
who leaves takes its turn along."""
import contextlib
import json
import re
import select
import signal
import socket
import threading
import time
import unittest

from redis_server import stand_still, wait_for
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
  - { name: gone, match: { queue: gone* }, key: [queue], rate: 2/min, burst: 100, algorithm: leaky_bucket,
      throttle: hold, hold_timeout: 1hour }
  - { name: doors, match: { door: '*' }, key: [door], algorithm: concurrency, rate: 10, lease: 2s }
'''
TURNS = 10  # of the server's loop, in which an answer that is due has come


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
        found = re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)
        return float(found[1]) if found or 'shed' not in name else 0  # a limit has it from the first time on

    def remaining(self, queue):
        with Resp(self.weir.resp) as client:
            return client.ask('WEIR.PEEK', 0, 'queue', queue)[3]

    def await_remaining(self, queue, least):
        deadline = time.monotonic() + 60
        while (left := self.remaining(queue)) < least and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertGreaterEqual(left, least)

    def flood(self, queue, seconds=3, admitted_min=90):
        """16 connections over two loops ask for all they can, until so many are admitted. How many were refused, how many
        admitted, how long."""
        answers, lock = [0, 0], threading.Lock()
        progress = [0] * 16

        def ask(number):
            counts, begun = [0, 0], time.monotonic()
            with connect(self.weir.resp) as sock:
                while time.monotonic() < begun + seconds or \
                        (sum(progress) < admitted_min and time.monotonic() < begun + 60):
                    sock.sendall(command(queue) * 50)
                    data = b''
                    while sum(counts_of(data)) < 50:
                        data += sock.recv(65536)
                    counts = [sum(pair) for pair in zip(counts, counts_of(data))]
                    progress[number] = counts[1]
            with lock:
                answers[:] = [sum(pair) for pair in zip(answers, counts)]

        start = time.monotonic()
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
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
        self.assertGreaterEqual(admitted, 90)
        self.assertLessEqual(admitted, 100 * took + 1)
        self.assertGreaterEqual(self.remaining('flood-one'), 10000 - 20, 'no queue of phantoms')

    def test_limits_beside_it_lose_what_was_admitted_and_attempts_what_was_asked(self):
        begun = time.monotonic()
        refused, admitted, _ = self.flood('flood-all')
        with connect(self.weir.http) as sock:
            sock.sendall(post('flood-all', 0))
            head = read_until(sock, b'\r\n\r\n')
            body = head.partition(b'\r\n\r\n')[2]
            while len(body) < int(re.search(rb'content-length: (\d+)', head.lower())[1]):
                body += sock.recv(65536)
        left = {limit['limit']: limit['remaining'] for limit in json.loads(body)['limits']}
        took = time.monotonic() - begun
        # 100,000 a day are 1.2 a second, 100,000,000 a year 3.2.
        self.assertIn(100000 - left['beside'], range(admitted - int(1.2 * took) - 2, admitted + 1))
        tries = 100000000 - left['tries']
        self.assertIn(tries, range(refused + admitted - int(3.2 * took) - 2, refused + admitted + 1))

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
        """Eight turns, 0.3 s apart, pass while the server stands still: then all of them go in one turn of its loop, not
        one by one."""
        self.assertEqual(self.weir.stop(), 0)
        self.weir = Weir(CONFIG, threads=1)
        clients = [Resp(self.weir.resp) for _ in range(8)]
        with Resp(self.weir.resp) as beside:
            beside.ask('WEIR.CHECK', 20, 'queue', 'line')
            for client in clients:
                client.send(command('line', 3))
            wait_for(lambda: self.metric('weir_holds_begun_total') == 8, 'they do not wait')
            stand_still(self.weir.process.pid)
            time.sleep(4.5)
            self.weir.process.send_signal(signal.SIGCONT)
            for _ in range(TURNS):
                beside.ask('PING')
            sockets = [client.socket for client in clients]
            self.assertEqual(len(select.select(sockets, [], [], 0)[0]), 8, 'some wait for others')
        for client in clients:
            client.__exit__()

    def test_mass_hang_ups_leave_no_phantom_turns(self):
        clients = [Resp(self.weir.resp) for _ in range(60)]
        self.assertEqual(clients[0].ask('WEIR.CHECK', 1, 'queue', 'gone')[0], 1)
        for client in clients[1:]:
            client.send(command('gone'))
        wait_for(lambda: self.remaining('gone') == 40, 'not all wait')
        for client in clients[1:]:  # the first in line first: each time others are behind it
            client.__exit__()
        self.await_remaining('gone', 98)
        self.assertEqual(clients[0].ask('WEIR.CHECK', 1, 'queue', 'gone-2')[0], 1)
        self.assertEqual(self.metric('weir_hold_waiting{limit="gone"}'), 0)
        clients[0].__exit__()

    def test_a_half_closed_client_gets_its_held_answer(self):
        for port, request, answer in ((self.weir.resp, command('line-r', 3), b'*7\r\n:1\r\n'),
                                      (self.weir.http, post('line-h', 3), b'HTTP/1.1 200 OK\r\n')):
            with connect(port) as sock:
                start = time.monotonic()
                sock.sendall(request * 2)
                sock.shutdown(socket.SHUT_WR)
                data = read_all(sock)
                self.assertEqual(data.count(answer), 2, data)
                self.assertGreaterEqual(time.monotonic() - start, 0.29)
        self.assertEqual(self.metric('weir_holds_total{end="left"}'), 0)

    def test_who_waits_is_bounded_in_memory(self):
        """64 KiB for all: a hundred and some."""
        clients = [Resp(self.weir.resp) for _ in range(400)]
        for i, client in enumerate(clients):
            client.send(command(f'slow-{i}', 50) + command(f'slow-{i}', 1))
        answers = []
        for client in clients:
            self.assertEqual(client.read()[0], 1)
        deadline = time.monotonic() + 30
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
        while self.metric('weir_hold_memory_bytes') > 0 and time.monotonic() < deadline + 60:
            time.sleep(0.02)
        self.assertEqual(self.metric('weir_hold_memory_bytes'), 0)
        del answers

    def test_a_peek_counts_its_own_bytes_too(self):
        """One after the other, until there is room for less than one more."""
        shed = 'weir_decisions_total{limit="slow",verdict="shed"}'
        with contextlib.ExitStack() as clients:
            for number in range(400):
                client = clients.enter_context(Resp(self.weir.resp))
                client.send(command(f'slow-{number}', 50) + command(f'slow-{number}', 1))
                self.assertEqual(client.read()[0], 1)
                wait_for(lambda number=number: self.metric('weir_hold_waiting{limit="slow"}') + self.metric(shed) > number,
                         'neither waits nor is refused')
                if self.metric(shed):
                    break
            self.assertLess(self.metric('weir_hold_memory_bytes'), 65536)  # else this tests nothing
            with Resp(self.weir.resp) as client:
                self.assertEqual(client.ask('WEIR.CHECK', 50, 'queue', 'slow-more')[0], 1)
                answers = [client.ask(f'WEIR.{verb}', 1, 'queue', 'slow-more')[0] for verb in ('PEEK', 'CHECK', 'PEEK')]
        self.assertEqual(answers, [0, 0, 0])

    def test_a_permit_begins_with_its_turn(self):
        """The lease told is that from the answer on: it outlives one that began before the turn came. What would be held past
        a lease is refused."""
        with Resp(self.weir.resp) as client, Resp(self.weir.resp) as beside:
            for i in range(10):
                begun = time.monotonic()
                first = client.ask('WEIR.CHECK', 10, 'queue', f'line-p{i}', 'door', f'd{i}')
                self.assertEqual((first[0], first[8]), (1, 2000))
                client.ask('WEIR.RELEASE', first[7])
                client.send(command(f'line-p{i}', 1, 'door', f'd{i}'))
                time.sleep(0.6)
                beside.ask('WEIR.CHECK', 1, 'door', f'before-{i}')
                in_time = time.monotonic() < begun + 1
                second = client.read()  # after 1 s
                if isinstance(second, Exception) and time.monotonic() > begun + 2:
                    self.assertIn('permit was over', str(second))  # the server stood still
                    continue
                self.assertEqual((second[0], second[8]), (1, 2000))
                if in_time:
                    break
            else:
                self.fail('each turn came before the other permit')
            left = [9, 9]
            while left[1] == 9:
                self.assertEqual(left[0], 9, 'its lease began before the answer')
                beside.send(b''.join(resp_encode('WEIR.PEEK', 0, 'door', f'{door}{i}') for door in ('d', 'before-')))
                left = [beside.read()[3] for _ in left]
            client.ask('WEIR.CHECK', 100, 'queue', 'line-q')
            refused = client.ask('WEIR.CHECK', 1, 'queue', 'line-q', 'door', 'd')
            self.assertEqual(refused[:2], [0, b'line'])
            self.assertGreater(refused[4], 900)

    def test_a_permit_that_is_over_is_not_told(self):
        """The server stands still while the permit's lease ends."""
        for _ in range(10):
            lost = self.lost_while_it_stood_still()
            if lost:
                self.assertEqual(lost, (True, True))
                return
            self.tearDown()
            self.setUp()
        self.fail('each turn came before the server stood still')

    def lost_while_it_stood_still(self):
        """Whether those over RESP and HTTP are; None where their turns, after 1 s, may have come before."""
        with Resp(self.weir.resp) as resp, connect(self.weir.http) as http:
            body = json.dumps({'attributes': {'queue': 'line-y', 'door': 'e'}, 'cost': 1}).encode()
            begun = time.monotonic()
            resp.ask('WEIR.CHECK', 10, 'queue', 'line-x')
            resp.ask('WEIR.CHECK', 10, 'queue', 'line-y')
            resp.send(command('line-x', 1, 'door', 'd'))
            http.sendall(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            wait_for(lambda: self.metric('weir_holds_begun_total') == 2, 'they do not wait')
            stand_still(self.weir.process.pid)
            in_time = time.monotonic() < begun + 1
            time.sleep(2.2)
            self.weir.process.send_signal(signal.SIGCONT)
            answers = str(resp.read()), read_until(http, b'\r\n\r\n')
            self.assertEqual(resp.ask('PING'), 'PONG')
        lost = 'permit was over' in answers[0], answers[1].startswith(b'HTTP/1.1 503 ')
        self.assertEqual(self.metric('weir_holds_total{end="lost"}'), sum(lost))
        return lost if in_time else None


if __name__ == '__main__':
    unittest.main()
