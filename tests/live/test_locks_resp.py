#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks over RESP: the contract's answers, waits in order of arrival, pipelines, disconnects, drains, restarts."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import redis
from cluster import wait_for
from weir_server import BUILD, Resp, Weir, resp_encode, serving

QUICK = 'server: { idle_timeout: 4s, request_timeout: 4s }\nlimits: []\n'
TTL = 60000


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.weir = cls.stack.enter_context(serving())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def client(self):
        return Resp(self.weir.resp)

    def waiters(self, client, name):
        return client.ask('WEIR.LOCKS', name)[4]

    def test_the_answers_of_the_contract(self):
        with self.client() as client:
            one, incarnation, number, lease_ms = client.ask('WEIR.LOCK', 'contract', 'ada', TTL)
            self.assertEqual(one, 1)
            self.assertGreater(incarnation, 1_700_000_000)
            self.assertGreater(number, 0)
            self.assertTrue(0 < lease_ms <= TTL)
            self.assertEqual(client.ask('WEIR.LOCK', 'contract', 'ada', TTL)[:3], [1, incarnation, number])
            zero, remaining_ms = client.ask('WEIR.LOCK', 'contract', 'bob', TTL)
            self.assertEqual(zero, 0)
            self.assertTrue(0 < remaining_ms <= TTL)
            shown = client.ask('WEIR.LOCKS', 'contract')
            self.assertEqual(shown[:3] + shown[4:], [b'ada', incarnation, number, 0])
            self.assertEqual(client.ask('WEIR.RELOCK', 'contract', 'ada', 2 * TTL)[:3], [1, incarnation, number])
            self.assertEqual(client.ask('WEIR.RELOCK', 'contract', 'bob', TTL), [0, 0])
            self.assertEqual(client.ask('WEIR.UNLOCK', 'contract', 'bob'), 0)
            self.assertEqual(client.ask('WEIR.UNLOCK', 'contract', 'ada'), 1)
            self.assertEqual(client.ask('WEIR.UNLOCK', 'contract', 'ada'), 0)
            self.assertEqual(client.ask('WEIR.RELOCK', 'contract', 'ada', TTL), [0, 0])
            self.assertEqual(client.ask('WEIR.LOCKS', 'contract'), [None, 0, 0, 0, 0])
            self.assertGreater(client.ask('WEIR.LOCK', 'contract', 'ada', TTL)[2], number)

    def test_bad_arguments_are_named_with_their_range(self):
        with self.client() as client:
            for words, part in (
                    (('WEIR.LOCK', 'a', 'x', 1999), 'ttl_ms must be an integer from 2000 to 86400000'),
                    (('WEIR.LOCK', 'a', 'x', 'soon'), 'ttl_ms must be'),
                    (('WEIR.LOCK', 'a', 'x', TTL, 'WAIT', 86400001), 'WAIT must be an integer from 0 to 86400000'),
                    (('WEIR.LOCK', 'a', 'x', TTL, 'SEEN', -1), 'SEEN must be an integer from 0 to'),
                    (('WEIR.LOCK', 'a', 'x', TTL, 'FOR', 1), 'Usage: WEIR.LOCK'),
                    (('WEIR.LOCK', '', 'x', TTL), 'name must be 1 to 1024 bytes'),
                    (('WEIR.LOCK', 'n' * 10240, 'x', TTL), 'name must be 1 to 1024 bytes'),
                    (('WEIR.LOCK', 'a', '', TTL), 'owner must be 1 to 256 bytes'),
                    (('WEIR.LOCK', 'a', 'o' * 257, TTL), 'owner must be 1 to 256 bytes'),
                    (('WEIR.UNLOCK', 'a'), 'wrong number of arguments')):
                answer = client.ask(*words)
                self.assertIsInstance(answer, Exception, words[0])
                self.assertIn(part, str(answer))

    def test_names_and_owners_are_any_bytes(self):
        name, owner = bytes(range(256)) * 4, bytes(reversed(range(256)))
        with self.client() as client:
            self.assertEqual(client.ask('WEIR.LOCK', name, owner, TTL)[0], 1)
            self.assertEqual(client.ask('WEIR.LOCKS', name)[0], owner)
            self.assertEqual(client.ask('WEIR.LOCKS', name[:-1])[0], None)
            self.assertEqual(client.ask('WEIR.UNLOCK', name, owner[:-1]), 0)
            self.assertEqual(client.ask('WEIR.UNLOCK', name, owner), 1)

    def test_waiters_are_granted_in_order_of_arrival(self):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(self.client())
            clients = [stack.enter_context(self.client()) for _ in range(8)]
            number = first.ask('WEIR.LOCK', 'order', 'first', TTL)[2]
            for i, client in enumerate(clients):
                client.send(resp_encode('WEIR.LOCK', 'order', f'w{i}', TTL, 'WAIT', TTL))
                wait_for(lambda: self.waiters(first, 'order') == i + 1)
            self.assertEqual(first.ask('WEIR.LOCK', 'order', 'late', TTL)[0], 0)
            self.assertEqual(first.ask('WEIR.UNLOCK', 'order', 'first'), 1)
            for i, client in enumerate(clients):
                granted = client.read()
                self.assertEqual(granted[0], 1)
                self.assertGreater(granted[2], number)
                number = granted[2]
                self.assertEqual(first.ask('WEIR.LOCKS', 'order')[0], f'w{i}'.encode())
                self.assertEqual(client.ask('WEIR.UNLOCK', 'order', f'w{i}'), 1)

    def test_a_wait_outlives_the_idle_timeout_and_ends_by_itself(self):
        with serving(QUICK) as weir, Resp(weir.resp) as holder, Resp(weir.resp) as client:
            holder.ask('WEIR.LOCK', 'idle', 'holder', TTL)
            began = time.monotonic()
            zero, remaining_ms = client.ask('WEIR.LOCK', 'idle', 'other', TTL, 'WAIT', 6000)
            self.assertGreaterEqual(time.monotonic() - began, 6)
            self.assertEqual(zero, 0)
            self.assertGreater(remaining_ms, 0)

    def test_a_lease_that_ends_is_handed_on(self):
        with self.client() as holder, self.client() as client:
            number = holder.ask('WEIR.LOCK', 'expiry', 'holder', 2000)[2]
            granted = client.ask('WEIR.LOCK', 'expiry', 'other', TTL, 'WAIT', 9000)
            self.assertEqual(granted[0], 1)
            self.assertGreater(granted[2], number)

    def test_a_wait_delays_its_own_connection_only(self):
        with self.client() as holder, self.client() as client, self.client() as other:
            holder.ask('WEIR.LOCK', 'delay', 'holder', TTL)
            client.send(resp_encode('PING', 'before') + resp_encode('WEIR.LOCK', 'delay', 'x', TTL, 'WAIT', 9000) +
                        resp_encode('WEIR.UNLOCK', 'delay', 'x') + resp_encode('PING', 'after') +
                        resp_encode('CL.THROTTLE', 'delay', 9, 1, 60))
            self.assertEqual(client.read(), b'before')
            wait_for(lambda: self.waiters(other, 'delay') == 1)
            self.assertEqual(other.ask('PING'), 'PONG')
            self.assertEqual(holder.ask('WEIR.UNLOCK', 'delay', 'holder'), 1)
            self.assertEqual(client.read()[0], 1)
            self.assertEqual([client.read() for _ in range(3)], [1, b'after', [0, 10, 9, -1, 60]])
            self.assertEqual(other.ask('WEIR.LOCKS', 'delay')[0], None)

    def test_pipelines_do_as_if_one_after_the_other(self):
        """Names of this connection alone, so that a dictionary knows every answer."""
        seed = random.randrange(1 << 32)
        print(f'seed {seed}')
        rng = random.Random(seed)
        names = [f'pipe-{seed}-{i}' for i in range(3)]
        held, commands, expected = {}, [], []
        for _ in range(1500):
            name, owner, kind = rng.choice(names), rng.choice('xy'), rng.randrange(6)
            mine = held.get(name) == owner
            if kind < 3:
                words = ('WEIR.LOCK', name, owner, 60000) + (('WAIT', 0) if kind == 0 else ())
                held.setdefault(name, owner)
                expected.append(held[name] == owner)
            elif kind == 3:
                words, answer = ('WEIR.RELOCK', name, owner, 60000), mine
                expected.append(answer)
            elif kind == 4:
                words = ('WEIR.UNLOCK', name, owner)
                expected.append(mine)
                if mine:
                    del held[name]
            else:
                words = ('WEIR.LOCKS', name)
                expected.append(held[name].encode() if name in held else None)
            commands.append(words)
        with self.client() as client:
            sender = threading.Thread(target=client.send, args=(b''.join(resp_encode(*c) for c in commands),))
            sender.start()
            for words, answer in zip(commands, expected):
                got = client.read()
                self.assertEqual(got[0] if isinstance(got, list) else got, answer, words)
            sender.join()

    def test_who_leaves_is_out_of_the_queue_at_once(self):
        behind = resp_encode('PING') + b'x' * 20000  # gated, and more to read than it may
        for tail in (b'', resp_encode('PING'), behind):
            with self.client() as holder:
                self.assertEqual(holder.ask('WEIR.LOCK', 'leave', 'holder', TTL)[0], 1)
                client = self.client()
                client.send(resp_encode('WEIR.LOCK', 'leave', 'gone', TTL, 'WAIT', 60000) + tail)
                wait_for(lambda: self.waiters(holder, 'leave') == 1)
                client.__exit__()
                wait_for(lambda: self.waiters(holder, 'leave') == 0)
                self.assertEqual(holder.ask('WEIR.UNLOCK', 'leave', 'holder'), 1)
                self.assertEqual(holder.ask('WEIR.LOCKS', 'leave')[0], None)

    def test_a_grant_to_one_who_left_is_released(self):
        """Whoever goes in the same moment as the lock is handed on."""
        with self.client() as holder:
            for turn in range(100):
                name = f'race-{turn}'
                holder.ask('WEIR.LOCK', name, 'holder', 60000)
                client = self.client()
                client.send(resp_encode('WEIR.LOCK', name, 'gone', 60000, 'WAIT', 60000))
                wait_for(lambda: self.waiters(holder, name) == 1)
                holder.send(resp_encode('WEIR.UNLOCK', name, 'holder'))
                client.socket.setsockopt(1, 13, b'\1\0\0\0\0\0\0\0')  # SO_LINGER: a reset
                client.__exit__()
                self.assertEqual(holder.read(), 1)
        # Where the answer had been sent already nobody can know that it was lost: that lease runs out.

    def test_who_asks_again_elsewhere_keeps_the_lock(self):
        with self.client() as first:
            granted = first.ask('WEIR.LOCK', 'again', 'ada', TTL)
            for _ in range(50):
                client = self.client()
                client.send(resp_encode('WEIR.LOCK', 'again', 'ada', TTL, 'WAIT', 1000))
                client.__exit__()
            shown = first.ask('WEIR.LOCKS', 'again')
            self.assertEqual(shown[:3], [b'ada', *granted[1:3]])
            self.assertEqual(first.ask('WEIR.RELOCK', 'again', 'ada', TTL)[:3], granted[:3])

    def test_in_a_transaction_nobody_waits(self):
        with self.client() as holder, self.client() as client:
            holder.ask('WEIR.LOCK', 'multi', 'holder', TTL)
            self.assertEqual(client.ask('MULTI'), 'OK')
            for words in (('WEIR.LOCK', 'multi', 'x', TTL, 'WAIT', 60000), ('PING',),
                          ('WEIR.LOCK', 'multi-free', 'x', TTL), ('WEIR.UNLOCK', 'multi-free', 'x'),
                          ('WEIR.LOCK', 'multi', 'x', 1), ('WEIR.LOCKS', 'multi-free')):
                self.assertEqual(client.ask(*words), 'QUEUED')
            held, pong, granted, released, wrong, shown = client.ask('EXEC')
            self.assertEqual((held[0], pong, granted[0], released), (0, 'PONG', 1, 1))
            self.assertIn('ttl_ms', str(wrong))
            self.assertEqual(shown, [None, 0, 0, 0, 0])
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_redis_py(self):
        for protocol in (2, 3):
            client = redis.Redis(port=self.weir.resp, protocol=protocol) if protocol == 3 and \
                redis.VERSION >= (5,) else redis.Redis(port=self.weir.resp)
            with contextlib.closing(client):
                one, incarnation, number, _ = client.execute_command('WEIR.LOCK', 'py', 'x', TTL, 'WAIT', 100)
                self.assertEqual(one, 1)
                pipeline = client.pipeline()
                pipeline.execute_command('WEIR.LOCK', 'py', 'x', TTL)
                pipeline.execute_command('WEIR.UNLOCK', 'py', 'x')
                again, released = pipeline.execute()
                self.assertEqual((again[:3], released), ([1, incarnation, number], 1))

    def test_ten_thousand_waiters(self):
        connections, each = 40, 250
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(self.client())
            holder.ask('WEIR.LOCK', 'crowd', 'holder', 600000)
            clients = [stack.enter_context(self.client()) for _ in range(connections)]
            for i, client in enumerate(clients):
                client.send(b''.join(resp_encode('WEIR.LOCK', 'crowd', f'{i}-{k}', 60000, 'WAIT', 600000)
                                     for k in range(each)))
            wait_for(lambda: self.waiters(holder, 'crowd') == connections * each)
            self.assertEqual(holder.ask('WEIR.UNLOCK', 'crowd', 'holder'), 1)
            wait_for(lambda: holder.ask('WEIR.LOCKS', 'crowd')[4] == connections * each - 1)
            for client in clients:
                client.__exit__()
            wait_for(lambda: self.waiters(holder, 'crowd') == 0)


class Servers(unittest.TestCase):
    def test_drain_answers_those_who_wait(self):
        with serving() as weir, Resp(weir.resp) as holder, Resp(weir.resp) as client:
            holder.ask('WEIR.LOCK', 'drain', 'holder', 60000)
            client.send(resp_encode('WEIR.LOCK', 'drain', 'x', 60000, 'WAIT', 60000) + resp_encode('PING'))
            wait_for(lambda: holder.ask('WEIR.LOCKS', 'drain')[4] == 1)
            weir.process.send_signal(signal.SIGTERM)
            zero, remaining_ms = client.read()
            self.assertEqual(zero, 0)
            self.assertGreater(remaining_ms, 0)
            self.assertEqual(client.read(), 'PONG')
            self.assertEqual(weir.process.wait(60), 0)

    def test_what_was_granted_outlives_a_kill(self):
        with tempfile.TemporaryDirectory(prefix='weir-locks-') as folder:
            arguments = ('--locks', folder + '/locks.db')
            tokens = []
            for turn in range(3):
                weir = Weir(arguments=arguments)
                with Resp(weir.resp) as client:
                    if tokens:
                        kept = client.ask('WEIR.LOCK', 'kept', 'ada', 60000)
                        self.assertEqual(kept[:3], [1, *tokens[0]])
                        self.assertEqual(client.ask('WEIR.LOCK', 'kept', 'bob', 60000)[0], 0)
                    else:
                        tokens.append(client.ask('WEIR.LOCK', 'kept', 'ada', 60000)[1:3])
                    tokens.append(client.ask('WEIR.LOCK', f'turn-{turn}', 'ada', 60000)[1:3])
                    weir.process.kill()
                    weir.process.wait()
                    weir.stop()
            self.assertEqual(tokens, sorted(tokens))
            self.assertGreater(tokens[2][0], tokens[1][0], 'the incarnation rises with each start')

    def test_a_reload_keeps_the_locks(self):
        with serving() as weir, Resp(weir.resp) as client:
            granted = client.ask('WEIR.LOCK', 'reload', 'ada', 60000)
            weir.config.write_text('limits: []\nlocks: { engine: sqlite, path: /elsewhere }\n', encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'reloaded' in weir.output())
            self.assertNotIn('restart', weir.output())  # --locks wins, so nothing has changed
            self.assertEqual(client.ask('WEIR.RELOCK', 'reload', 'ada', 60000)[:3], granted[:3])
        with tempfile.TemporaryDirectory(prefix='weir-locks-') as folder:
            text = 'limits: []\nlocks: {{ engine: sqlite, path: {}/{}.db }}\n'
            with Weir(text.format(folder, 'one')) as weir, Resp(weir.resp) as client:
                granted = client.ask('WEIR.LOCK', 'reload', 'ada', 60000)
                weir.config.write_text(text.format(folder, 'two'), encoding='utf-8')
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda: 'reloaded' in weir.output())
                self.assertRegex(weir.output(), 'kept until a restart: locks')
                self.assertEqual(client.ask('WEIR.RELOCK', 'reload', 'ada', 60000)[:3], granted[:3])
                self.assertFalse(pathlib.Path(folder, 'two.db').exists())

    def test_who_may(self):
        config = '''
auth:
  required: always
  tokens:
    - { name: locker, secret: locker-0123456789, rights: [lock] }
    - { name: checker, secret: checker-0123456789 }
limits: []
'''
        with serving(config) as weir, Resp(weir.resp) as client:
            self.assertIn('NOAUTH', str(client.ask('WEIR.LOCK', 'a', 'x', TTL)))
            self.assertEqual(client.ask('AUTH', 'checker-0123456789'), 'OK')
            for words in (('WEIR.LOCK', 'a', 'x', TTL), ('WEIR.RELOCK', 'a', 'x', TTL), ('WEIR.UNLOCK', 'a', 'x'),
                          ('WEIR.LOCKS', 'a')):
                self.assertIn('NOPERM', str(client.ask(*words)))
            self.assertEqual(client.ask('AUTH', 'locker-0123456789'), 'OK')
            self.assertEqual(client.ask('WEIR.LOCK', 'a', 'x', TTL)[0], 1)
            self.assertIn('NOPERM', str(client.ask('WEIR.CHECK', 1, 'user', 'x')))

    def test_without_locks(self):
        for arguments in ((), ('--locks', 'off')):
            with Weir(arguments=arguments) as weir, Resp(weir.resp) as client:
                answer = str(client.ask('WEIR.LOCK', 'a', 'x', TTL))
                self.assertTrue(answer.startswith('NOLOCKS '), answer)
                self.assertIn('locks: { engine: sqlite', answer)

    def test_one_database_is_one_process(self):
        with serving() as weir:
            path = weir.process.args[weir.process.args.index('--locks') + 1]
            command = [BUILD / 'weir', 'serve', '--resp', '127.0.0.1:0', '--http', 'off', '--locks', path]
            second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(second.returncode, 2, second.stderr)
            self.assertIn(path, second.stderr)

    def test_the_example_keeps_its_locks_in_the_state_directory(self):
        with Weir(config=None) as weir, Resp(weir.resp) as client:
            self.assertIn(f'locks in sqlite at {weir.folder.name}/locks.db', weir.output())
            self.assertEqual(client.ask('WEIR.LOCK', 'a', 'x', TTL)[0], 1)
            with tempfile.NamedTemporaryFile(prefix='weir-locks-') as log:
                second = subprocess.Popen([BUILD / 'weir', 'serve', '--resp', '127.0.0.1:0', '--http', 'off'],
                                          stdout=log, stderr=subprocess.STDOUT,
                                          env=dict(os.environ, STATE_DIRECTORY=weir.folder.name))
                try:
                    wait_for(lambda: b'resp listening' in pathlib.Path(log.name).read_bytes())
                finally:
                    second.terminate()
                    self.assertEqual(second.wait(60), 0)
                self.assertIn('warning: no locks', pathlib.Path(log.name).read_text(encoding='utf-8'))


if __name__ == '__main__':
    unittest.main()
