#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redis as its page tells operators to set it up, and set up otherwise: the rights of the user, keys that are evicted,
errors. All limits work with exactly the rights on the page, and what is wrong is told whole, before a limit needs it."""
import contextlib
import signal
import time
import unittest
import urllib.request

from redis_drive import Drive
from redis_server import Redis, rights, wait_for
from test_sharing import SECRET, check, metric, nodes_of
from weir_server import Resp, Weir

ALGORITHMS = {
    'token_bucket': 'burst: 5, ',
    'leaky_bucket': 'burst: 5, ',
    'fixed_window': '',
    'first_window': 'align: first, ',
    'sliding_log': '',
    'sliding_counter': '',
}
MODES = {
    'exact': ALGORITHMS,
    'leased': [name for name in ALGORITHMS if name != 'leaky_bucket'],
    'batched': [name for name in ALGORITHMS if name != 'leaky_bucket'],
}


def grant(redis, words, keys='~weir:*'):
    redis.ask('ACL', 'SETUSER', 'weir', 'reset')
    assert redis.ask('ACL', 'SETUSER', 'weir', 'on', '>secret', keys, *words) == 'OK'


def config(redis, limits):
    return (f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"], username: weir, password: secret, '
            f'connect_timeout: 30s }} }}\ncluster_secret: {SECRET}\n'
            f'cl_throttle: {{ engine: redis, deadline: 5s }}\nlimits:\n{limits}')


def limit(sharing, algorithm, count='admitted', rate='5/year'):
    kind = 'fixed_window' if algorithm == 'first_window' else algorithm
    return (f'  - {{ name: {sharing}-{algorithm}-{count}, match: {{ mode: {sharing}, what: {algorithm}-{count} }}, '
            f'key: [user], algorithm: {kind}, rate: {rate}, {ALGORITHMS[algorithm]}sharing: {sharing}, '
            f'count: {count}, deadline: 5s, on_failure: closed }}\n')


@contextlib.contextmanager
def weir_with(redis, limits):
    with Weir(config(redis, limits)) as weir:
        wait_for(lambda: nodes_of(weir)['engine']['ready'], 'the engine is not ready')
        yield weir


class Rights(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)

    def ready(self, weir):
        with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/readyz', timeout=60) as answer:
            return answer.read().decode()

    def denied(self):
        return [dict(zip(row[::2], row[1::2]))[b'object'] for row in self.redis.ask('ACL', 'LOG')]

    def test_every_algorithm_and_mode_with_the_rights_on_the_page(self):
        """Admitted, refused, given back, converted at a reload: nothing is denied, so nothing else is needed."""
        grant(self.redis, [word for word in rights() if 'cluster' not in word and 'asking' not in word])
        cases = [(mode, name, 'admitted') for mode, names in MODES.items() for name in names]
        cases += [('exact', name, 'attempts') for name in ALGORITHMS]
        with weir_with(self.redis, ''.join(limit(*case) for case in cases)) as weir:
            for sharing, algorithm, count in cases:
                with self.subTest(sharing=sharing, algorithm=algorithm, count=count):
                    self.check_limit(weir, sharing, f'{algorithm}-{count}')
            with Resp(weir.resp) as client:
                self.assertEqual(client.ask('CL.THROTTLE', 'ada', 0, 1, 1000), [0, 1, 0, -1, 1000])
                self.assertEqual(client.ask('CL.THROTTLE', 'ada', 1, 1, 1000)[0], 0)
                self.assertEqual(client.ask('DEL', 'ada'), 1)
            weir.config.write_text(config(self.redis, ''.join(limit(*case, rate='7/year') for case in cases)),
                                   encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'reloaded' in weir.output(), 'no reload')
            for sharing, algorithm, count in cases:
                with self.subTest(sharing=sharing, algorithm=algorithm, count=count, reloaded=True):
                    status, body = check(weir, mode=sharing, what=f'{algorithm}-{count}', user='bob')
                    self.assertEqual((status, body['limits'][0].get('fallback')), (200, None), body)
            nodes = nodes_of(weir)
            self.assertEqual((nodes['engine']['last_error'], nodes['engine']['warnings']), (None, 0))
            self.assertEqual([server['warning'] for server in nodes['engine']['servers']], [None])
            self.assertEqual(nodes['sharing']['fallback_closed'], 0)
        self.assertEqual(self.denied(), [])

    def check_limit(self, weir, sharing, what):
        """5 in a year, whatever the algorithm."""
        answers = [check(weir, mode=sharing, what=what, user='ada')[0] for _ in range(7)]
        admitted = answers.count(200)
        self.assertEqual(admitted + answers.count(429), 7)
        self.assertLessEqual(5, admitted)
        self.assertLessEqual(admitted, 6 if sharing == 'batched' else 5)  # its slack is 1

    def test_each_right_that_is_missing_is_told_by_name(self):
        """Before a limit needs it; and no longer when it is granted."""
        words = [word for word in rights() if 'cluster' not in word and 'asking' not in word]
        needed = ('+script|load', '+evalsha', '+get', '+set')  # without these it is no engine at all
        with Drive(f'127.0.0.1:{self.redis.port}', username='weir', password='secret') as drive:
            for word in words[1:]:
                with self.subTest(word=word):
                    grant(self.redis, [other for other in words if other != word])
                    drive.wait_error(word[1:])
                    if word not in needed:
                        wait_for(lambda: word[1:] in drive.warning(), 'no warning')
            grant(self.redis, words)
            wait_for(lambda: drive.ready() and drive.warning() == '', 'the warning stays')

    def test_other_keys(self):
        grant(self.redis, rights(), keys='~other:*')
        with Drive(f'127.0.0.1:{self.redis.port}', username='weir', password='secret') as drive:
            drive.limit('a', 5)
            wait_for(lambda: 'may not use the keys weir:*' in drive.warning(), 'no warning')
            self.assertNotIn('may not run', drive.warning())
            self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')

    def test_a_right_that_is_withdrawn(self):
        grant(self.redis, rights())
        with weir_with(self.redis, limit('exact', 'sliding_log')) as weir:
            for _ in range(2):
                self.assertEqual(check(weir, mode='exact', what='sliding_log-admitted', user='ada')[0], 200)
            self.assertEqual(self.ready(weir), 'ready\n')
            grant(self.redis, [word for word in rights() if word not in ('+setrange', '+pexpire')])
            text = 'its user may not run setrange pexpire'
            wait_for(lambda: nodes_of(weir)['engine']['servers'][0]['warning'] == text, 'no warning')
            self.assertEqual(metric(weir, 'weir_engine_warnings'), 1)
            wait_for(lambda: text in weir.output() and 'engine_warning' in weir.output(), 'not in the log')
            self.assertEqual(check(weir, mode='exact', what='sliding_log-admitted', user='ada')[0], 503)
            wait_for(lambda: 'without the engine' in self.ready(weir), '/readyz says nothing of it')
            # Another right, in a text of the same length.
            grant(self.redis, [word for word in rights() if word not in ('+getrange', '+pexpire')])
            wait_for(lambda: 'its user may not run getrange pexpire' in weir.output(), 'the other one is not in the log')
            grant(self.redis, [word for word in rights() if word != '+ping'])
            wait_for(lambda: 'ping' in nodes_of(weir)['engine']['servers'][0]['warning'], 'no warning')
            wait_for(lambda: self.ready(weir) == 'ready\n', 'no limit needs that right')


class Evictions(unittest.TestCase):
    def test_evicted_keys_are_losses_and_are_warned_of(self):
        with Redis() as redis, Drive(f'127.0.0.1:{redis.port}') as drive:
            drive.limit('a', 10)
            drive.wait_ready()
            self.assertEqual(drive.ask('decide', 'a:x:10'), ('OK', True, [0]))
            time.sleep(1.2)
            self.assertEqual((drive.warning(), drive.stats()['losses']), ('', 0))
            redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
            time.sleep(6)
            self.assertEqual(drive.warning(), '', 'nothing is evicted without a bound')
            redis.ask('CONFIG', 'SET', 'maxmemory', '4mb')
            wait_for(lambda: 'maxmemory-policy is allkeys-lru' in drive.warning(), 'no warning')
            for i in range(60000):
                redis.ask('SET', f'other:{i}', 'x' * 1000)
                if i % 100 == 0 and not any(b':a:' in key for key in redis.ask('KEYS', 'weir:*')):
                    break
            self.assertEqual(drive.ask('decide', 'a:x:10', deadline_ms=60000), ('OK', True, [0]), (i, drive.stats()))
            wait_for(lambda: drive.stats()['evicted'] == int(redis.info('evicted_keys')) > 0, 'not counted')
            self.assertGreaterEqual(drive.stats()['losses'], drive.stats()['evicted'])
            redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
            wait_for(lambda: drive.warning() == '', 'the warning stays')

    def test_what_was_evicted_before_is_not_counted(self):
        with Redis() as redis:
            redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random', 'maxmemory', '3mb')
            for i in range(3000):
                redis.ask('SET', f'other:{i}', 'x' * 1000)
            redis.ask('CONFIG', 'SET', 'maxmemory', '0')
            self.assertGreater(int(redis.info('evicted_keys')), 0)
            with Drive(f'127.0.0.1:{redis.port}') as drive:
                drive.wait_ready()
                time.sleep(6)
                self.assertEqual((drive.stats()['evicted'], drive.stats()['losses']), (0, 0))


class Errors(unittest.TestCase):
    def check_whole(self, redis, error, change, back):
        """`last_error` holds all of what Redis answers, however long."""
        with Drive(f'127.0.0.1:{redis.port}') as drive:
            drive.limit('a', 10)
            drive.wait_ready()
            drive.ask('decide', 'a:x:1')
            change()
            whole = redis.ask('SET', 'weir:x', '1')
            self.assertTrue(str(whole).startswith(error), whole)
            self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')
            wait_for(lambda: str(whole) in drive.stats()['last_error'], str(whole))
            back()
            wait_for(lambda: drive.ask('decide', 'a:x:1')[0] == 'OK', 'it does not come back')

    def test_misconf_is_told_whole(self):
        with Redis('--enable-protected-configs', 'yes') as redis:
            def fail():
                redis.ask('CONFIG', 'SET', 'save', '3600 1')
                folder = redis.folder / 'gone'
                folder.mkdir()
                redis.ask('CONFIG', 'SET', 'dir', str(folder))
                folder.rmdir()
                redis.ask('BGSAVE')
                wait_for(lambda: redis.info('rdb_last_bgsave_status') == 'err', 'it saves')
            self.check_whole(redis, 'MISCONF', fail, lambda: redis.ask('CONFIG', 'SET',
                                                                       'stop-writes-on-bgsave-error', 'no'))

    def test_oom_is_told_whole(self):
        with Redis() as redis:
            self.check_whole(redis, 'OOM', lambda: redis.ask('CONFIG', 'SET', 'maxmemory', '1'),
                             lambda: redis.ask('CONFIG', 'SET', 'maxmemory', '0'))


if __name__ == '__main__':
    unittest.main()
