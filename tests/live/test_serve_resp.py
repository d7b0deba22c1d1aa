#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server under its RESP side: order, pieces, slow and many clients, tokens, drain, reload, Unix sockets."""
import contextlib
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import wait_for
from weir_server import BUILD, Resp, Weir, read_all, resp_encode

LIMITS = '''
limits:
  - { name: wide, key: [user], rate: 1000000/hour }
'''
CHECK_WIDE = ('WEIR.CHECK', 1, 'user', 'ada')


def mixed(count, seed):
    """Commands and the answers they must get."""
    rng = random.Random(seed)
    pairs = []
    for i in range(count):
        kind = rng.randrange(4)
        if kind == 0:
            pairs.append((resp_encode('CL.THROTTLE', f'{seed}:{i}', 9, 1, 60), [0, 10, 9, -1, 60]))
        elif kind == 1:
            text = rng.randbytes(rng.randrange(200))
            pairs.append((resp_encode('ECHO', text), text))
        elif kind == 2:
            pairs.append((b'PING\r\n', 'PONG'))
        else:
            pairs.append((resp_encode('CL.THROTTLE', f'{seed}:{i}', 'x', 1, 60), None))
    return pairs


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(LIMITS))

    def expect(self, client, pairs):
        for _, expected in pairs:
            answer = client.read()
            if expected is None:
                self.assertIsInstance(answer, Exception)
            else:
                self.assertEqual(answer, expected)

    def test_pipelined_answers_keep_their_order(self):
        pairs = mixed(20000, 1)
        with Resp(self.weir.resp) as client:
            sender = threading.Thread(target=client.send, args=(b''.join(pair[0] for pair in pairs),))
            sender.start()
            self.expect(client, pairs)
            sender.join()

    def test_pieces_of_any_size(self):
        seed = random.randrange(1 << 32)
        print(f'seed {seed}')
        rng = random.Random(seed)
        pairs = mixed(300, seed)
        stream = b''.join(pair[0] for pair in pairs)
        with Resp(self.weir.resp) as client:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while stream:
                size = rng.choice((1, 2, 7, 100, 3000))
                client.send(stream[:size])
                stream = stream[size:]
            self.expect(client, pairs)

    def test_slow_reader_is_held_back_and_loses_nothing(self):
        text = b'x' * 1000
        one = resp_encode('ECHO', text)
        with Resp(self.weir.resp) as client:
            client.socket.setblocking(False)
            sent = 0
            stuck_since = time.monotonic()
            while time.monotonic() - stuck_since < 0.5:  # until neither side moves
                try:
                    sent += client.socket.send((one * 100)[sent % len(one):])
                    stuck_since = time.monotonic()
                except BlockingIOError:
                    time.sleep(0.01)
                self.assertLess(sent, 256 << 20, 'the server takes without end')
            with Resp(self.weir.resp) as other:
                self.assertEqual(other.ask('PING'), 'PONG')
            client.socket.setblocking(True)
            for _ in range(sent // len(one)):
                self.assertEqual(client.read(), text)

    def test_many_connections(self):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Resp(self.weir.resp)) for _ in range(800)]
            for turn in range(3):
                for client in clients:
                    client.send(resp_encode('PING', str(turn)))
                for client in clients:
                    self.assertEqual(client.read(), str(turn).encode())

    def test_transactions(self):
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('MULTI'), 'OK')
            self.assertIn('nested', str(client.ask('MULTI')))
            self.assertEqual(client.ask('CL.THROTTLE', 'multi', 1, 1, 60), 'QUEUED')
            self.assertEqual(client.ask('CL.THROTTLE', 'multi', 'x', 1, 60), 'QUEUED')
            self.assertEqual(client.ask('PING'), 'QUEUED')
            answers = client.ask('EXEC')
            self.assertEqual((answers[0], answers[2]), ([0, 2, 1, -1, 60], 'PONG'))
            self.assertIsInstance(answers[1], Exception)

            self.assertEqual(client.ask('MULTI'), 'OK')
            self.assertEqual(client.ask('CL.THROTTLE', 'multi', 1, 1, 60), 'QUEUED')
            self.assertEqual(client.ask('DISCARD'), 'OK')
            self.assertEqual(client.ask('MULTI'), 'OK')
            self.assertIn('unknown command', str(client.ask('NONSENSE')))
            self.assertIn('EXECABORT', str(client.ask('EXEC')))
            self.assertIn('without MULTI', str(client.ask('EXEC')))
            answer = client.ask('CL.THROTTLE', 'multi', 1, 1, 60, 0)
            self.assertEqual(answer[:4], [0, 2, 1, -1])
            self.assertIn(answer[4], range(1, 61))

    def test_transactions_are_bounded(self):
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('MULTI'), 'OK')
            for _ in range(1024):
                self.assertEqual(client.ask('PING'), 'QUEUED')
            self.assertIn('at most', str(client.ask('PING')))
            self.assertIn('EXECABORT', str(client.ask('EXEC')))
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_check_peek_refund_del(self):
        ada = ('user', 'refunded')
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('WEIR.PEEK', 5, *ada)[:4], [1, b'wide', 1000000, 1000000])
            self.assertEqual(client.ask('WEIR.CHECK', 1000000, *ada)[:2], [1, b'wide'])
            self.assertEqual(client.ask('WEIR.CHECK', 1000001, *ada)[4], -1)
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'nobody', 'matches'), [1, b'', -1, -1, 0, 0, 0])
            self.assertEqual(client.ask('WEIR.REFUND', 10, *ada), [[b'wide', 10]])
            self.assertIn('WEIR.CHECK', str(client.ask('WEIR.CHECK', 1, 'user')))
            client.ask('CL.THROTTLE', 'gone', 0, 1, 60)
            self.assertEqual(client.ask('DEL', 'gone', 'never'), 1)
            self.assertEqual(client.ask('CL.THROTTLE', 'gone', 0, 1, 60)[0], 0)

    def test_second_server_is_told(self):
        for _ in range(3):
            second = subprocess.run([BUILD / 'weir', 'serve', '--resp', f'127.0.0.1:{self.weir.resp}', '--http', 'off'],
                                    capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(second.returncode, 2)
            self.assertIn(f'127.0.0.1:{self.weir.resp} is in use', second.stderr)

    def test_resp3(self):
        with Resp(self.weir.resp) as client:
            client.send(resp_encode('HELLO', 3) + resp_encode('CLIENT', 'GETNAME') + resp_encode('HELLO', 4))
            self.assertEqual(client.file.readline(), b'%7\r\n')
            head = [client.read() for _ in range(14)]
            self.assertEqual(head[4:6], [b'proto', 3])
            self.assertEqual(client.file.readline(), b'_\r\n')
            self.assertIn('NOPROTO', str(client.read()))


class Bounds(unittest.TestCase):
    def test_connections_max(self):
        with Weir('server: { connections_max: 50 }\n' + LIMITS) as weir, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Resp(weir.resp)) for _ in range(50)]
            for client in clients:
                self.assertEqual(client.ask('PING'), 'PONG')
            with Resp(weir.resp) as extra:
                self.assertEqual(str(extra.read()), 'ERR max number of clients reached')
            clients[0].socket.close()
            clients[0].file.close()

            def admitted():
                with Resp(weir.resp) as again, contextlib.suppress(ConnectionError):
                    return again.ask('PING') == 'PONG'
                return False
            wait_for(admitted)

    def test_idle_clients_are_closed(self):
        """The other one asks every 200 ms, on a busy machine after some seconds."""
        with Weir('server: { idle_timeout: 6s }\n' + LIMITS) as weir, Resp(weir.resp) as idle, Resp(weir.resp) as busy:
            deadline = time.monotonic() + 60
            while not select.select([idle.socket], [], [], 0.2)[0]:
                self.assertEqual(busy.ask('PING'), 'PONG')
                self.assertLess(time.monotonic(), deadline, 'it is not closed')
            self.assertEqual(read_all(idle.socket), b'')
            self.assertEqual(busy.ask('PING'), 'PONG')


class DrainAndReload(unittest.TestCase):
    def test_drain_answers_what_has_come(self):
        patient = 'server: { drain_timeout: 50s }\n' + LIMITS
        with Weir(patient) as weir, Resp(weir.resp) as client, Resp(weir.resp) as idle:
            self.assertEqual(idle.ask('PING'), 'PONG')
            client.send(b'INFO\r\n' * 8000)  # many turns of work, and all of it there
            self.assertIn(b'loading:0', client.read())
            weir.process.send_signal(signal.SIGTERM)
            for _ in range(7999):
                self.assertIn(b'loading:0', client.read())
            self.assertEqual(read_all(client.socket), b'')
            self.assertEqual(read_all(idle.socket), b'')
            self.assertEqual(weir.process.wait(60), 0)

    def test_reload_under_load(self):
        with Weir(LIMITS) as weir:
            stop = threading.Event()
            failures = []

            def load(name):
                with Resp(weir.resp) as client:
                    while not stop.is_set():
                        client.send(resp_encode('WEIR.CHECK', 1, 'user', name) * 50)
                        answers = [client.read() for _ in range(50)]
                        failures.extend(a for a in answers if not isinstance(a, list) or a[1] not in (b'wide', b'next'))

            threads = [threading.Thread(target=load, args=(f'u{i}',)) for i in range(4)]
            for thread in threads:
                thread.start()
            try:
                for turn in range(1, 21):
                    weir.config.write_text(LIMITS.replace('wide', 'next' if turn % 2 else 'wide'))
                    weir.process.send_signal(signal.SIGHUP)
                    wait_for(lambda: weir.output().count('info reloaded:') == turn)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(failures, [])

    def test_wrong_reload_keeps_the_old_limits(self):
        with Weir(LIMITS) as weir, Resp(weir.resp) as client:
            weir.config.write_text(LIMITS + '  - { name: bad, rate: 0 }\n')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'stay in force' in weir.output())
            self.assertRegex(weir.output(), r'weir\.yaml:\d+:\d+: ')
            self.assertEqual(client.ask(*CHECK_WIDE)[1], b'wide')


class Tokens(unittest.TestCase):
    CONFIG = '''
auth:
  required: always
  tokens:
    - { name: reader, secret: reader-0123456789, rights: [check] }
    - { name: writer, secret: writer-0123456789, rights: [check, refund, reset, metrics] }
''' + LIMITS

    def test_tokens(self):
        with Weir(self.CONFIG) as weir, Resp(weir.resp) as client:
            for words in (('PING',), CHECK_WIDE, ('HELLO', 3), ('CL.THROTTLE', 'a', 1, 1, 1), ('INFO',)):
                self.assertIn('NOAUTH', str(client.ask(*words)))
            for token in ('', 'reader-012345678', 'reader-01234567890', 'x' * 600):
                self.assertIn('WRONGPASS', str(client.ask('AUTH', token)))
            self.assertIn('WRONGPASS', str(client.ask('AUTH', 'someone', 'reader-0123456789')))
            self.assertEqual(client.ask('AUTH', 'reader-0123456789'), 'OK')
            self.assertEqual(client.ask(*CHECK_WIDE)[0], 1)
            self.assertIn('NOPERM', str(client.ask('WEIR.REFUND', 1, 'user', 'ada')))
            self.assertIn('NOPERM', str(client.ask('DEL', 'a')))
            self.assertNotIn(b'used_memory', client.ask('INFO'))
            self.assertEqual(client.ask('AUTH', 'default', 'writer-0123456789'), 'OK')
            self.assertEqual(client.ask('DEL', 'a'), 0)
            self.assertEqual(client.ask('RESET'), 'RESET')
            self.assertIn('NOAUTH', str(client.ask('PING')))
            self.assertEqual(client.ask('HELLO', 2, 'AUTH', 'default', 'reader-0123456789')[5], 2)
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_a_token_that_is_taken_away_ends_with_the_reload(self):
        with Weir(self.CONFIG) as weir, Resp(weir.resp) as client:
            self.assertEqual(client.ask('AUTH', 'reader-0123456789'), 'OK')
            for kept, answer in ((True, 'PONG'), (False, 'NOAUTH Authentication required.')):
                before = weir.output().count('info reloaded:')
                weir.config.write_text(self.CONFIG if kept else self.CONFIG.replace('reader-0', 'other-0'))
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda: weir.output().count('info reloaded:') > before)
                wait_for(lambda: str(client.ask('PING')) == answer)

    def test_strangers_get_little_room(self):
        with Weir(self.CONFIG) as weir:
            for data in (resp_encode(*['ECHO'] * 11), b'*2\r\n$4\r\nECHO\r\n$20000\r\n'):
                with Resp(weir.resp) as client:
                    client.send(data)
                    self.assertIn('Protocol error', str(client.read()))

    def test_listening_to_others_needs_tokens(self):
        def serve(*arguments):
            return subprocess.Popen([BUILD / 'weir', 'serve', '--http', 'off', '--resp', '0.0.0.0:0', *arguments],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with serve() as refused:
            self.assertIn('--insecure', refused.communicate(timeout=60)[1])
            self.assertEqual(refused.returncode, 2)
        with serve('--insecure') as served:
            self.assertIn('resp listening on 0.0.0.0:', served.stdout.readline())
            served.terminate()
            self.assertEqual(served.wait(20), 0)


class UnixSocket(unittest.TestCase):
    def test_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix='weir-live-') as folder:
            path = pathlib.Path(folder, 'weir.sock')
            command = [BUILD / 'weir', 'serve', '--http', 'off', '--resp', f'unix:{path}', '--threads', '3']
            for end in (signal.SIGKILL, signal.SIGTERM):  # the second start finds what the first one left
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                    self.assertEqual(server.stdout.readline(), f'weir: resp listening on unix:{path}\n')
                    answer = subprocess.run(['redis-cli', '-s', path, 'CL.THROTTLE', 'user123', '15', '30', '60'],
                                            capture_output=True, text=True, timeout=60, check=True)
                    self.assertEqual(answer.stdout.split(), ['0', '16', '15', '-1', '2'])
                    server.send_signal(end)
                    server.wait(20)
            self.assertFalse(os.path.exists(path))

    def test_path_too_long(self):
        server = subprocess.run([BUILD / 'weir', 'serve', '--resp', 'unix:/tmp/' + 'x' * 108], capture_output=True,
                                text=True, timeout=60, check=False)
        self.assertEqual(server.returncode, 2)
        self.assertIn('107', server.stderr)


if __name__ == '__main__':
    unittest.main()
