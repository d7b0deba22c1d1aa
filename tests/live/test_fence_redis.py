#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/fence/redis.lua on a real Redis: install, guarded commands, exact numbers, marks that cannot expire."""
import pathlib
import random
import threading
import unittest

from redis_server import DURABLE, Redis
from weir_server import Resp

ROOT = pathlib.Path(__file__).resolve().parents[2]
LUA = (ROOT / 'deploy/fence/redis.lua').read_bytes()
LARGEST = 2**63 - 1
MARK, DATA = '{l}:fence', '{l}:value'


class Fence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis(*DURABLE)
        cls.addClassCleanup(cls.redis.stop)
        for _ in range(2):
            assert cls.redis.ask('FUNCTION', 'LOAD', 'REPLACE', LUA) == b'weir_fence'

    def setUp(self):
        self.ask('FLUSHALL')

    def ask(self, *words):
        return self.redis.ask(*words)

    def install(self, token, key=MARK):
        return self.ask('FCALL', 'weir_fence_install', 1, key, token)

    def set(self, token, value, *options):
        return self.ask('FCALL', 'weir_fence_set', 2, MARK, DATA, token, value, *options)

    def refused(self, answer, code):
        self.assertIsInstance(answer, Exception, answer)
        self.assertEqual(str(answer).split(' ', 1)[0], code, answer)

    def test_a_later_token_fences_an_earlier_one(self):
        self.assertEqual(self.install('7.1'), 'OK')
        self.assertEqual(self.set('7.1', 'a'), 'OK')
        self.assertEqual(self.install('7.2'), 'OK')
        self.refused(self.set('7.1', 'late'), 'FENCED')
        self.assertIn('mark 7.2', str(self.set('7.1', 'late')))
        self.refused(self.install('7.1'), 'FENCED')
        self.assertEqual(self.ask('GET', DATA), b'a')
        self.assertEqual(self.install('7.2'), 'OK')
        self.assertEqual(self.set('7.2', 'b'), 'OK')
        self.assertEqual(self.ask('GET', DATA), b'b')
        self.assertEqual(self.ask('FCALL_RO', 'weir_fence_mark', 1, MARK), b'7.2')
        self.assertIsNone(self.ask('FCALL_RO', 'weir_fence_mark', 1, 'none'))

    def test_a_token_that_was_never_installed_is_refused(self):
        self.refused(self.set('7.1', 'a'), 'NOTINSTALLED')
        self.install('7.1')
        self.refused(self.set('7.2', 'a'), 'NOTINSTALLED')
        self.assertIsNone(self.ask('GET', DATA))

    def test_numbers_are_compared_exactly_beyond_doubles(self):
        seed = random.randrange(2**32)
        print(f'seed {seed}', flush=True)
        numbers = random.Random(seed)
        self.addCleanup(self.ask, 'CONFIG', 'SET', 'appendfsync', 'always')
        self.ask('CONFIG', 'SET', 'appendfsync', 'no')  # nothing is killed here
        edges = [1, 2, 9, 10, 11, 99, 100, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, LARGEST - 1, LARGEST]
        with Resp(self.redis.port) as client:
            for _ in range(2000):
                a, b = ((numbers.choice(edges) if numbers.random() < .7 else numbers.randrange(1, LARGEST),
                         numbers.choice(edges)) for _ in range(2))
                client.ask('DEL', MARK)
                assert client.ask('FCALL', 'weir_fence_install', 1, MARK, '%d.%d' % a) == 'OK'
                answer = client.ask('FCALL', 'weir_fence_set', 2, MARK, DATA, '%d.%d' % b, 'x')
                expected = 'OK' if a == b else 'FENCED' if b < a else 'NOTINSTALLED'
                self.assertEqual(str(answer).split(' ', 1)[0], expected, (a, b))

    def test_what_is_no_token_is_an_error(self):
        for token in ('', '7', '7.', '.7', '0.1', '1.0', '07.1', '7.01', '-1.1', '+7.1', ' 7.1', '7.1 ', '7.1\n', '7,1',
                      '7.1.1', '7e3.1', '7.1\0', f'{LARGEST + 1}.1', f'1.{LARGEST + 1}', '1.' + '9' * 40):
            self.refused(self.install(token), 'BADTOKEN')
            self.refused(self.set(token, 'x'), 'BADTOKEN')
        self.assertEqual(self.install(f'{LARGEST}.{LARGEST}'), 'OK')

    def test_a_mark_that_would_expire_is_refused_loudly(self):
        self.install('7.1')
        self.assertEqual(self.ask('PTTL', MARK), -1)
        self.ask('EXPIRE', MARK, 100)
        self.refused(self.set('7.1', 'x'), 'BADMARK')
        self.refused(self.install('7.2'), 'BADMARK')
        self.refused(self.ask('FCALL_RO', 'weir_fence_mark', 1, MARK), 'BADMARK')
        self.ask('PERSIST', MARK)
        self.assertEqual(self.set('7.1', 'x'), 'OK')

    def test_a_key_that_holds_something_else_is_refused_and_kept(self):
        self.ask('HSET', MARK, 'a', 1)
        self.refused(self.install('7.1'), 'BADMARK')
        self.assertEqual(self.ask('TYPE', MARK), 'hash')
        self.ask('SET', 'text', 'hello')
        self.refused(self.install('7.1', 'text'), 'BADMARK')
        self.refused(self.ask('FCALL', 'weir_fence_set', 2, 'text', DATA, '7.1', 'x'), 'BADMARK')
        self.assertEqual(self.ask('GET', 'text'), b'hello')

    def test_a_server_that_may_evict_marks_is_refused(self):
        self.addCleanup(self.ask, 'CONFIG', 'SET', 'maxmemory', 0)
        self.addCleanup(self.ask, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
        for policy, answer in (('allkeys-lru', 'EVICTABLE'), ('allkeys-lfu', 'EVICTABLE'),
                               ('allkeys-random', 'EVICTABLE'), ('volatile-lru', 'OK'), ('volatile-ttl', 'OK'),
                               ('noeviction', 'OK')):
            for memory in ('512mb', 0):
                self.ask('CONFIG', 'SET', 'maxmemory', memory)
                self.ask('CONFIG', 'SET', 'maxmemory-policy', policy)
                self.assertEqual(str(self.install('7.1')).split(' ', 1)[0], answer, (policy, memory))

    def test_a_policy_that_changes_after_the_install_stops_the_writes(self):
        """Installed while nothing was evicted; then the server's memory was bounded, and marks may go."""
        self.addCleanup(self.ask, 'CONFIG', 'SET', 'maxmemory', 0)
        self.addCleanup(self.ask, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
        self.assertEqual(self.install('7.2'), 'OK')
        self.ask('CONFIG', 'SET', 'maxmemory', '512mb')
        self.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
        self.ask('DEL', MARK)  # as an eviction would
        self.refused(self.install('7.1'), 'EVICTABLE')
        self.refused(self.set('7.2', 'x'), 'EVICTABLE')
        self.refused(self.ask('FCALL', 'weir_fence_call', 2, MARK, '{l}:hash', '7.2', 'HSET', 'a', 1), 'EVICTABLE')
        self.assertIsNone(self.ask('GET', DATA))

    def test_any_command_on_one_key_can_be_guarded(self):
        call = ('FCALL', 'weir_fence_call', 2, MARK, '{l}:hash')
        self.install('7.1')
        self.assertEqual(self.ask(*call, '7.1', 'HSET', 'a', '1', 'b', '2'), 2)
        self.assertEqual(self.ask(*call, '7.1', 'DEL'), 1)
        self.install('7.2')
        self.refused(self.ask(*call, '7.1', 'HSET', 'a', '1'), 'FENCED')
        self.assertEqual(self.ask('EXISTS', '{l}:hash'), 0)

    def test_a_guarded_set_takes_the_options_of_set(self):
        self.install('7.1')
        self.assertEqual(self.set('7.1', 'x', 'EX', 100), 'OK')
        self.assertGreater(self.ask('TTL', DATA), 0)
        self.assertIsNone(self.set('7.1', 'x', 'NX'))

    def test_the_mark_cannot_be_written_as_data(self):
        self.install('7.1')
        for name, rest in (('weir_fence_set', ('7.1', '1.1')), ('weir_fence_call', ('7.1', 'SET', '1.1'))):
            self.refused(self.ask('FCALL', name, 2, MARK, MARK, *rest), 'ERR')
        for words in (('weir_fence_set', 1, MARK, '7.1', 'x'), ('weir_fence_set', 2, MARK, DATA, '7.1'),
                      ('weir_fence_call', 2, MARK, DATA, '7.1'), ('weir_fence_install', 2, MARK, DATA, '7.1'),
                      ('weir_fence_install', 1, MARK)):
            self.refused(self.ask('FCALL', *words), 'ERR')
        self.assertEqual(self.ask('GET', MARK), b'7.1')

    def test_marks_survive_a_kill_where_writes_are_synced(self):
        self.install('7.2')
        self.redis.kill()
        self.redis.start()
        self.refused(self.set('7.1', 'x'), 'FENCED')
        self.assertEqual(self.set('7.2', 'x'), 'OK')

    def test_no_acknowledged_update_is_lost(self):
        """Holders come and go; each reads after its install and adds one by a guarded write, some of them late."""
        holders, added, problems = 6, [], []
        self.ask('SET', DATA, 0)

        def hold(number):
            with Resp(self.redis.port) as client:
                for turn in range(60):
                    token = f'7.{turn * holders + number + 1}'
                    answer = client.ask('FCALL', 'weir_fence_install', 1, MARK, token)
                    if answer == 'OK':
                        before = int(client.ask('GET', DATA))
                        answer = client.ask('FCALL', 'weir_fence_set', 2, MARK, DATA, token, before + 1)
                    if answer == 'OK':
                        added.append(token)
                    elif not str(answer).startswith('FENCED'):
                        problems.append(answer)

        threads = [threading.Thread(target=hold, args=(number,)) for number in range(holders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(int(self.ask('GET', DATA)), len(added))
        self.assertGreater(len(added), 0)


if __name__ == '__main__':
    unittest.main()
