#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a take-over does with each kind of connection and state: half a request, answers that are late, locks, permits,
TLS, the file of counters, a service manager."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from redis_server import Redis, wait_for
from service_manager import Service, listening
from takeover_fake import END, HELLO, PROTOCOL, SAYS_HELLO, SAYS_READY, Fake, Refused
from test_takeover import NEVER, Chain, check
from test_tls import TlsResp, make_certificate
from weir_server import BUILD, Resp, connect, read_all, read_until, resp_encode

BODY = b'{"attributes":{"user":"ada"}}'
POST = b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(BODY) + BODY
CHUNKED = (b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n' + BODY[:16] +
           b'\r\n%x\r\n' % (len(BODY) - 16) + BODY[16:] + b'\r\n0\r\n\r\n')
HELD = ('limits:\n  - { name: line, match: { queue: "*" }, key: [queue], rate: 1/s, burst: 1000,\n'
        '      algorithm: leaky_bucket, throttle: hold, hold_timeout: 100s }\n')
JOBS = '  - { name: jobs, key: [queue], rate: 5, algorithm: concurrency, lease: 5min }\n'


def answer(sock):
    head = read_until(sock, b'\r\n\r\n')
    head, _, body = head.partition(b'\r\n\r\n')
    size = int(dict(line.lower().split(b': ', 1) for line in head.split(b'\r\n')[1:])[b'content-length'])
    while len(body) < size:
        body += sock.recv(65536)
    return head, body


class Bytes(unittest.TestCase):
    def test_a_request_cut_anywhere_is_answered(self):
        """Some bytes are read by one weir, the rest by the next."""
        for request in (POST, CHUNKED):
            cuts = range(1, len(request), 7)
            with Chain() as chain, contextlib.ExitStack() as stack:
                socks = [stack.enter_context(connect(chain.http)) for _ in cuts]
                for sock, cut in zip(socks, cuts):
                    sock.sendall(request[:cut])
                time.sleep(0.2)  # most of them are read by the first one; all of it must do
                chain.take_over()
                for sock, cut in zip(socks, cuts):
                    sock.sendall(request[cut:])
                    self.assertIn(b'200 OK', answer(sock)[0], cut)
                    sock.sendall(POST)
                    self.assertIn(b'200 OK', answer(sock)[0], cut)

    def test_a_command_cut_anywhere_is_answered(self):
        command = resp_encode('WEIR.CHECK', 1, 'user', 'ada')
        with Chain() as chain, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Resp(chain.resp)) for _ in range(1, len(command))]
            for cut, client in enumerate(clients, 1):
                client.send(resp_encode('PING') + command[:cut])
                self.assertEqual(client.read(), 'PONG')
            chain.take_over()
            for cut, client in enumerate(clients, 1):
                client.send(command[cut:] + resp_encode('PING'))
                self.assertEqual(client.read()[0], 1)
                self.assertEqual(client.read(), 'PONG')

    def test_a_large_body_of_which_half_has_come(self):
        body = json.dumps({'attributes': {'user': 'ada'}}).encode().ljust(200000)
        with Chain('server: { body_bytes_max: 1MiB }\n' + NEVER) as chain, connect(chain.http) as sock:
            sock.sendall(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n' + body[:150000])
            time.sleep(0.3)
            chain.take_over()
            sock.sendall(body[150000:])
            self.assertIn(b'200 OK', answer(sock)[0])

    def test_what_the_client_was_told_is_known(self):
        """100 Continue once; RESP's version, name, transaction and token."""
        secret = 's' * 32
        config = f'auth: {{ tokens: [ {{ name: a, secret: {secret} }} ], required: always }}\n' + NEVER
        with Chain(config) as chain, connect(chain.http) as sock, Resp(chain.resp) as client, Resp(chain.resp) as other:
            sock.sendall(POST[:-len(BODY) - 2] + b'Authorization: Bearer %s\r\nExpect: 100-continue\r\n\r\n' %
                         secret.encode())
            self.assertEqual(read_until(sock, b'\r\n\r\n'), b'HTTP/1.1 100 Continue\r\n\r\n')
            self.assertEqual(client.ask('AUTH', secret), 'OK')
            self.assertEqual(client.ask('CLIENT', 'SETNAME', 'worker'), 'OK')
            number = client.ask('CLIENT', 'ID')
            self.assertEqual(client.ask('MULTI'), 'OK')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada'), 'QUEUED')
            chain.take_over()
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada'), 'QUEUED')
            chain.take_over()
            self.assertEqual([one[0] for one in client.ask('EXEC')], [1, 1])
            self.assertEqual(client.ask('CLIENT', 'GETNAME'), b'worker')
            self.assertEqual(client.ask('CLIENT', 'ID'), number)
            self.assertIsInstance(other.ask('WEIR.CHECK', 1, 'user', 'ada'), Exception)
            sock.sendall(BODY)
            self.assertIn(b'HTTP/1.1 200 OK', answer(sock)[0])

    def test_who_is_not_accepted_yet_is_answered(self):
        with Chain() as chain, Fake(chain.path / 'takeover') as fake, contextlib.ExitStack() as stack:
            fake.go_to('handed')  # frozen
            socks = [stack.enter_context(connect(chain.http)) for _ in range(100)]
            for sock in socks:
                sock.sendall(POST)
            fake.socket.close()
            self.assertEqual(sum(b'200 OK' in answer(sock)[0] for sock in socks), 100)


class Late(unittest.TestCase):
    """Who is in the midst of an answer gets it from the old one, and goes on with the new one."""

    def test_held_answers(self):
        with Chain(HELD) as chain, Resp(chain.resp) as client, \
                contextlib.closing(http.client.HTTPConnection('127.0.0.1', chain.http, timeout=60)) as web:
            client.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 3)  # two of them wait for a second each
            self.assertEqual(client.read()[0], 1)
            web.request('POST', '/v1/check', body='{"attributes":{"queue":"q"}}')
            time.sleep(0.1)
            number = chain.start()
            chain.wait_for(number, r'\bstarted\b')
            self.assertEqual([client.read()[0] for _ in range(2)], [1, 1])
            held = web.getresponse()
            held.read()
            self.assertEqual((held.status, held.getheader('Connection')), (200, None))
            self.assertEqual(client.ask('PING'), 'PONG')
            self.assertEqual(check(web), (200, None))
            self.assertEqual(chain.ended(number - 1), 0)
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_a_held_answer_that_tells_of_a_permit(self):
        """Its lease begins in memory, with its turn: whoever hands over waits for that, or does not hand over."""
        with Chain(HELD.replace('1/s', '1/90s') + JOBS) as chain, Resp(chain.resp) as other:
            with Resp(chain.resp) as client:
                client.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 2)
                self.assertEqual(client.read()[0], 1)
                number = chain.start()
                self.assertEqual(chain.ended(number), 2)
                self.assertIn('what is under way was not answered within 5 s', chain.output(number))
                self.assertEqual(other.ask('PING'), 'PONG')
            chain.wait_for(chain.start(), r'\bstarted\b')
            self.assertEqual(other.ask('PING'), 'PONG')
            self.assertEqual(chain.ended(0), 0)

    def test_one_that_does_not_read_its_answers(self):
        with Chain('server: { output_bytes_max: 4KiB }\nlimits: []\n') as chain, connect(chain.resp) as sock:
            sender = threading.Thread(target=sock.sendall, args=(resp_encode('ECHO', b'x' * 1000) * 20000,))
            sender.start()
            time.sleep(0.3)
            number = chain.start()
            chain.wait_for(number, r'\bstarted\b')
            size, got = 20000 * len(b'$1000\r\n' + b'x' * 1000 + b'\r\n'), 0
            while got < size:
                piece = sock.recv(1 << 16)
                self.assertTrue(piece, got)
                got += len(piece)
            sender.join()
            sock.sendall(resp_encode('PING'))
            self.assertEqual(sock.recv(100), b'+PONG\r\n')
            self.assertEqual(chain.ended(number - 1), 0)

    def test_while_the_one_before_has_not_ended_there_is_no_next(self):
        with Chain('server: { drain_timeout: 5min }\n' + HELD.replace('1/s', '1/90s')) as chain:
            with Resp(chain.resp) as client:
                client.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 2)
                self.assertEqual(client.read()[0], 1)
                number = chain.start()
                chain.wait_for(number, r'\bstarted\b')
                third = chain.start()
                self.assertEqual(chain.ended(third), 2)
                self.assertIn('the weir before this one has not ended yet', chain.output(third))
                self.assertIsNone(chain.processes[0].poll())
            self.assertEqual(chain.ended(0), 0)  # whom it waited for has gone

    def test_the_next_waits_for_a_moment(self):
        """Two upgrades, one right after the other: what is in the way passes."""
        with Chain(HELD.replace('1/s', '1/2s')) as chain, Resp(chain.resp) as client:
            client.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 2)
            self.assertEqual(client.read()[0], 1)
            number = chain.start()
            chain.wait_for(number, r'\bstarted\b')
            with Fake(chain.path / 'takeover') as fake:  # who says it twice does not
                for _ in range(2):
                    fake.say(SAYS_HELLO, HELLO.pack(PROTOCOL, os.getpid(), b'fake'))
                with self.assertRaisesRegex(Refused, 'what it should not say now'):
                    fake.hear()
            self.assertIsNone(chain.processes[0].poll())
            chain.wait_for(chain.start(), r'\bstarted\b')
            self.assertEqual([chain.ended(0), chain.ended(1)], [0, 0])
            self.assertEqual(chain.outputs().count('take_over_failed'), 1)
            self.assertEqual(client.read()[0], 1)
            self.assertEqual(client.ask('PING'), 'PONG')


class Locks(unittest.TestCase):
    def test_they_stay_held_and_who_waits_is_told(self):
        with tempfile.TemporaryDirectory(prefix='weir-locks-') as folder, \
                Chain(arguments=('--locks', folder + '/locks.db')) as chain, Resp(chain.resp) as ada, \
                Resp(chain.resp) as bob:
            granted = ada.ask('WEIR.LOCK', 'contract', 'ada', 60000)
            self.assertEqual(granted[0], 1)
            bob.send(resp_encode('WEIR.LOCK', 'contract', 'bob', 60000, 'WAIT', 50000))
            time.sleep(0.2)
            chain.take_over()
            self.assertEqual(bob.read()[0], 0)
            self.assertEqual(bob.ask('WEIR.LOCK', 'contract', 'bob', 60000)[0], 0)
            self.assertEqual(ada.ask('WEIR.LOCK', 'contract', 'ada', 60000)[:3], granted[:3])
            with Fake(chain.path / 'takeover') as fake:
                fake.go_to('taken')
            wait_for(lambda: 'take_over_failed' in chain.output(1), 'it is not noticed')
            self.assertEqual(ada.ask('WEIR.LOCK', 'contract', 'ada', 60000)[:3], granted[:3])
            bob.send(resp_encode('WEIR.LOCK', 'contract', 'bob', 60000, 'WAIT', 50000))
            time.sleep(0.1)
            self.assertEqual(ada.ask('WEIR.UNLOCK', 'contract', 'ada'), 1)
            token = bob.read()
            self.assertEqual((token[0], token[1:3] > granted[1:3]), (1, True))


class Counters(unittest.TestCase):
    def test_permits_stay_out(self):
        config = 'limits: [ { name: jobs, key: [user], rate: 2, algorithm: concurrency, lease: 1min } ]\n'
        with Chain(config) as chain, Resp(chain.resp) as client:
            one, two = (client.ask('WEIR.CHECK', 1, 'user', 'ada') for _ in range(2))
            self.assertEqual((one[0], two[0]), (1, 1))
            chain.take_over()
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0)
            permit = next(value for value in one if isinstance(value, bytes) and len(value) > 30)
            self.assertEqual(client.ask('WEIR.RELEASE', permit), 1)
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)

    def test_the_file_has_one_writer(self):
        with tempfile.TemporaryDirectory(prefix='weir-counters-') as folder:
            config = f'table: {{ snapshot: {folder}/counters, snapshot_every: 1s }}\n' + NEVER
            with Chain(config) as chain, Resp(chain.resp) as client:
                spent = sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(300))
                with Fake(chain.path / 'takeover') as fake:
                    fake.go_to('taken')
                wait_for(lambda: 'take_over_failed' in chain.output(0), 'it is not noticed')
                written = pathlib.Path(folder, 'counters')
                wait_for(written.exists, 'it does not write any more')
                chain.take_over()
                self.assertNotIn('counters of 1 key are in', chain.output(0))
                spent += sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(300))
                chain.processes[1].terminate()
                self.assertEqual(chain.ended(1), 0)
                self.assertIn('counters of 1 key are in', chain.output(1))
                number = chain.start()
                chain.wait_for(number, r'\bstarted\b')
                with Resp(chain.port('resp', number)) as other:
                    spent += sum(iter(lambda: other.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0))
            self.assertEqual(spent, 1000)

    def test_the_file_keeps_its_writer_though_the_successor_ends_half_way(self):
        """While connections are handed over: one of them has more to hand than the way there holds."""
        with tempfile.TemporaryDirectory(prefix='weir-counters-') as folder:
            config = (f'table: {{ snapshot: {folder}/counters, snapshot_every: 1s }}\n'
                      'server: { body_bytes_max: 8MiB }\n' + NEVER)
            with Chain(config) as chain, Resp(chain.resp) as client, connect(chain.http) as sock:
                client.ask('WEIR.CHECK', 1, 'user', 'ada')
                sock.sendall(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n')
                sock.sendall(bytes(4000000))
                with Fake(chain.path / 'takeover') as fake:
                    fake.go_to('half-way')
                wait_for(lambda: 'the successor has ended (handing)' in chain.output(0), 'it is not noticed')
                written = pathlib.Path(folder, 'counters')
                written.unlink(missing_ok=True)
                wait_for(written.exists, 'it does not write any more')
                chain.take_over()

    def test_the_file_that_the_successor_does_not_have_is_free(self):
        """So one can go back to the old configuration, by a take-over too."""
        with tempfile.TemporaryDirectory(prefix='weir-counters-') as folder:
            config = f'table: {{ snapshot: {folder}/counters, snapshot_every: 1s }}\n' + NEVER
            with Chain(config) as chain, Resp(chain.resp) as client:
                spent = sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(300))
                for text in (NEVER, config):
                    chain.config.write_text(text, encoding='utf-8')
                    chain.take_over()
                spent += sum(iter(lambda: client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0))
                self.assertEqual(spent, 1000)

    def test_exact_at_an_engine(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        config = (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\n'
                  'limits:\n  - { name: all, key: [user], rate: 1/day, burst: 1000, algorithm: token_bucket,\n'
                  '      sharing: exact, deadline: 5s }\n')
        with Chain(config) as chain, Resp(chain.resp) as client:
            admitted = sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(300))
            client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 200)
            chain.take_over()
            admitted += sum(client.read()[0] for _ in range(200))
            admitted += sum(iter(lambda: client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0))
            self.assertEqual(admitted, 1000)

    def test_other_limits_and_a_listener_less(self):
        """What a reload does not change may be another."""
        with Chain() as chain, Resp(chain.resp) as client, connect(chain.http) as web:
            self.assertEqual(sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(600)), 600)
            chain.config.write_text('table: { memory: 64MiB }\n' + NEVER.replace('burst: 1000', 'burst: 700'),
                                    encoding='utf-8')
            number = chain.start(arguments=('--http', 'off'))
            chain.wait_for(number, r'\bstarted\b')
            self.assertEqual(sum(iter(lambda: client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0)), 100)
            self.assertEqual(read_all(web), b'')
            self.assertEqual(chain.ended(0), 0)


class Kept(unittest.TestCase):
    def test_one_process_keeps_what_is_in_force(self):
        """The predecessor still answers somebody, and follows; two writers would take each other's file away."""
        with tempfile.TemporaryDirectory(prefix='weir-kept-') as folder:
            path = pathlib.Path(folder)
            config = path / 'weir.yaml'
            config.write_text(f'rules: {{ store: "sqlite:{path}/rules.db", kept: "{path}/kept" }}\n', encoding='utf-8')

            def rules(*arguments, text=None):
                subprocess.run([str(BUILD / 'weir'), 'rules', arguments[0], '--config', str(config), '--comment', 'why',
                                *arguments[1:]], input=text, encoding='utf-8', timeout=60, check=True)

            limits = NEVER + '  - { name: line, key: [queue], rate: 1/100s, burst: 9, algorithm: leaky_bucket,' \
                             ' throttle: hold, hold_timeout: 500s }\n'
            rules('apply', '-', text=limits)
            with Chain('server: { drain_timeout: 5min }\n' + config.read_text(encoding='utf-8')) as chain, \
                    Resp(chain.resp) as held:
                held.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 2)
                held.read()
                rules('ban', 'once', 'user=ada')
                kept = path / 'kept.exceptions'
                wait_for(kept.exists, 'no file')
                number = chain.start()
                chain.wait_for(number, r'\bstarted\b')
                self.assertIsNone(chain.processes[0].poll())

                def told():
                    done = subprocess.run([str(BUILD / 'weir'), 'rules', 'history', '--config', str(config), '--json'],
                                          stdout=subprocess.PIPE, timeout=60, check=True)
                    return len(json.loads(done.stdout)[0]['nodes'])

                wait_for(lambda: told() == 2, 'it has not told')  # and so writes no more
                chain.processes[number].send_signal(signal.SIGSTOP)
                before = kept.stat().st_ino
                rules('ban', 'once', 'user=eve')
                time.sleep(1)
                self.assertEqual(kept.stat().st_ino, before)
                chain.processes[number].send_signal(signal.SIGCONT)
                wait_for(lambda: kept.stat().st_ino != before, 'the successor does not write')
                held.socket.shutdown(socket.SHUT_RDWR)


class Tls(unittest.TestCase):
    def test_they_are_told_and_none_is_reset(self):
        with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
            path = pathlib.Path(folder)
            make_certificate(path, 1)
            context = ssl.create_default_context(cafile=str(path / 'cert.pem'))
            with Chain(f'tls: {{ cert: {path}/cert.pem, key: {path}/key.pem }}\n' + NEVER) as chain, \
                    TlsResp(chain.resp, context) as idle:
                web = http.client.HTTPSConnection('localhost', chain.http, timeout=60, context=context)
                self.assertEqual(idle.ask('PING'), 'PONG')
                self.assertEqual(check(web), (200, None))
                number, admitted, closed = chain.start(), 1, False
                while not closed:  # it asks all the time, and is told once
                    status, connection = check(web)
                    admitted += status == 200
                    closed = connection == 'close'
                chain.wait_for(number, r'\bstarted\b')
                with self.assertRaisesRegex(ConnectionError, 'closed'):
                    idle.read()  # the orderly end
                web.close()
                with TlsResp(chain.resp, context) as client:
                    rest = sum(iter(lambda: client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0))
                self.assertEqual(admitted + rest, 1000)
                self.assertEqual(chain.ended(0), 0)


    def test_a_ban_made_meanwhile_holds(self):
        """The successor has read the bans before, and looks again in a minute only."""
        with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
            path = pathlib.Path(folder)
            make_certificate(path, 1)
            context = ssl.create_default_context(cafile=str(path / 'cert.pem'))
            config = path / 'weir.yaml'
            config.write_text(f'rules: {{ store: "sqlite:{path}/rules.db", poll: 1min }}\n', encoding='utf-8')

            def rules(*arguments):
                subprocess.run([str(BUILD / 'weir'), 'rules', arguments[0], '--config', str(config), '--comment', 'why',
                                *arguments[1:]], input=NEVER, encoding='utf-8', timeout=60, check=True)

            rules('apply', '-')
            with Chain(f'tls: {{ cert: {path}/cert.pem, key: {path}/key.pem }}\n' + config.read_text(encoding='utf-8')) as chain:
                web = http.client.HTTPSConnection('localhost', chain.http, timeout=60, context=context)
                self.assertEqual(check(web), (200, None))
                number = chain.start()  # and waits for the end of that connection
                chain.wait_for(0, 'take_over_begun')
                rules('ban', 'once', 'user=ada')
                self.assertNotIn('taken_over', chain.output(0))
                web.close()
                chain.wait_for(number, r'\bstarted\b')
                web = http.client.HTTPSConnection('localhost', chain.http, timeout=60, context=context)
                self.assertEqual(check(web)[0], 429)
                web.close()


class Engine(unittest.TestCase):
    def test_one_that_hangs_holds_up_nobody(self):
        """The predecessor decided without it, and so does the successor, long before connect_timeout."""
        with Redis() as redis:
            config = (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"], connect_timeout: 1min }} }}\n'
                      'limits:\n  - { name: once, key: [user], rate: 1/day, burst: 1000, sharing: exact, on_failure: open }\n')
            with Chain(config) as chain, contextlib.closing(http.client.HTTPConnection('127.0.0.1', chain.http, timeout=60)) as web:
                self.assertEqual(check(web)[0], 200)
                os.kill(redis.process.pid, signal.SIGSTOP)
                try:
                    chain.take_over()
                    self.assertNotIn('take_over_failed', chain.output(0))
                    self.assertEqual(check(web)[0], 200)
                finally:
                    os.kill(redis.process.pid, signal.SIGCONT)

    def test_how_long_the_successor_prepared_does_not_count_for_what_comes_after(self):
        """It was longer than what is under way then may take."""
        with Redis() as redis:
            config = (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\n'
                      'limits: [ { name: once, key: [user], rate: 1/day, burst: 1000, sharing: exact, deadline: 1s } ]\n')
            with Chain(config) as chain, Resp(chain.resp) as client, connect(chain.resp) as other:
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
                with Fake(chain.path / 'takeover') as fake:
                    fake.go_to('greeted')
                    time.sleep(5.2)
                    os.kill(redis.process.pid, signal.SIGSTOP)
                    try:
                        other.sendall(resp_encode('WEIR.CHECK', 1, 'user', 'ada'))
                        self.assertEqual(client.ask('PING'), 'PONG')
                        fake.say(SAYS_READY)
                        fake.hear_until(END)
                    finally:
                        os.kill(redis.process.pid, signal.SIGCONT)


class Manager(unittest.TestCase):
    def test_it_is_told_whom_to_look_after(self):
        with tempfile.TemporaryDirectory(prefix='weir-notify-') as folder, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
            heard.bind(folder + '/notify')
            heard.settimeout(60)
            environment = {'NOTIFY_SOCKET': folder + '/notify', 'WATCHDOG_USEC': '2000000'}
            with Chain(environment=environment) as chain:
                self.assertIn(b'READY=1', heard.recv(1000))
                chain.environment = {}  # whoever starts the next does not know the manager
                number = chain.start()
                told = []
                while len(told) < 2:  # by both of them, whoever comes first
                    if b'MAINPID' in (line := heard.recv(1000)):
                        told.append(line)
                main = b'MAINPID=%d' % chain.processes[number].pid
                self.assertIn(main, told)
                self.assertTrue(any(line.startswith(main + b'\nREADY=1\n') for line in told), told)
                self.assertEqual(chain.ended(0), 0)
                self.assertEqual(heard.recv(1000), b'WATCHDOG=1')
                chain.processes[number].terminate()
                while (line := heard.recv(1000)) != b'STOPPING=1':
                    self.assertNotIn(b'READY', line)

    def test_sockets_that_it_passed_stay(self):
        """Though the file says another place."""
        with listening() as sock, tempfile.TemporaryDirectory(prefix='weir-passed-') as folder:
            port = sock.getsockname()[1]
            path = ('--take-over', folder + '/takeover')
            with Service(NEVER, arguments=path, sockets=[('http', sock)]) as first:
                first.hear_until('READY')
                sock.close()
                with contextlib.closing(http.client.HTTPConnection('127.0.0.1', port, timeout=60)) as web:
                    self.assertEqual(check(web)[0], 200)
                    with Service(NEVER, arguments=path, http='off') as second:
                        second.hear_until('READY')
                        self.assertEqual(check(web), (200, None))
                        self.assertEqual(first.ended(), 0)
                        with urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz', timeout=60) as ready:
                            self.assertEqual(ready.status, 200)


if __name__ == '__main__':
    unittest.main()
