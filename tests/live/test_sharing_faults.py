#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything at once, by a seed: limits of every mode in one request, pipelines, MULTI, clients that leave, reloads, and
an engine that is killed, stopped and flushed. Every command is answered, and every process ends cleanly."""
import os
import random
import threading
import time
import unittest
import urllib.error

from redis_server import Redis
import test_sharing
from test_sharing import check, config, get
from weir_server import Resp, Weir, resp_encode

SECONDS = float(os.environ.get('WEIR_FAULTS_SECONDS', '8'))
COMMANDS = ('WEIR.CHECK', 'WEIR.CHECK', 'WEIR.CHECK', 'WEIR.PEEK', 'WEIR.REFUND')


def limit(name, rate, sharing, **more):
    if sharing != 'split':
        more['deadline'] = '20ms'
    return test_sharing.limit(name, rate, sharing=sharing, **more)


def every_mode(first, second):
    return (limit('exact', first, sharing='exact', count='attempts') +
            limit('leased', second, sharing='leased', on_failure='closed') +
            limit('batched', first, sharing='batched', on_failure='open') + limit('split', second, sharing='split') +
            limit('log', second, sharing='exact', key='[user, x]', algorithm='sliding_log') +
            limit('shadow', first, sharing='leased', mode='shadow'))


class Faults(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get('WEIR_SEED', time.time_ns() % 1_000_000))
        print(f'WEIR_SEED={self.seed}')
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        self.texts = [config(self.redis, limits) for limits in (
            every_mode('300/min', '200/min'), every_mode('200/min', '300/min'),
            limit('exact', '300/min', sharing='leased') + limit('leased', '100/min', sharing='batched'),
            limit('split', '300/min', sharing='exact'))]
        self.errors = []

    def command(self, choose):
        if choose.random() < 0.03:
            return resp_encode('PING')
        more = ('x', choose.choice('12')) if choose.random() < 0.5 else ()
        return resp_encode(choose.choice(COMMANDS), choose.choice((0, 1, 1, 1, 2, 50, 1000)), 'user',
                           choose.choice('abcdefgh'), *more)

    def one_batch(self, client, choose):
        """False: the client leaves without its answers."""
        count = choose.randrange(1, 400)
        multi = choose.random() < 0.25
        batch = b''.join(self.command(choose) for _ in range(count))
        client.send(resp_encode('MULTI') + batch + resp_encode('EXEC') if multi else batch)
        if choose.random() < 0.2:
            return False
        if multi:
            for _ in range(count + 1):
                client.read()
        answers = client.read() if multi else [client.read() for _ in range(count)]
        assert len(answers) == count, (len(answers), count)
        return True

    def resp_client(self, weirs, number, until):
        choose = random.Random(self.seed * 100 + number)
        while time.monotonic() < until:
            with Resp(choose.choice(weirs).resp) as client:
                while time.monotonic() < until and self.one_batch(client, choose):
                    pass

    @staticmethod
    def http_client(weirs, until):
        while time.monotonic() < until:
            for weir in weirs:
                check(weir, user='a', x='1')
                get(weir, '/metrics')
                get(weir, '/v1/nodes')

    def break_things(self, weirs, until):
        choose = random.Random(self.seed)
        while time.monotonic() < until:
            time.sleep(choose.random() * 0.7)
            what = choose.randrange(6)
            if what == 0:
                self.redis.kill()
                time.sleep(choose.random())
                self.redis.start()
            elif what == 1:
                self.redis.pause()
                time.sleep(choose.random() * 0.6)
                self.redis.resume()
            elif what == 2:
                self.redis.ask(*choose.choice((('FLUSHALL',), ('SCRIPT', 'FLUSH'))))
            else:
                weir = choose.choice(weirs)
                weir.config.write_text(choose.choice(self.texts), encoding='utf-8')
                weir.process.send_signal(1)

    def guarded(self, run, *arguments):
        try:
            run(*arguments)
        except (AssertionError, OSError, ConnectionError, urllib.error.URLError) as error:
            self.errors.append(repr(error))

    def test_every_command_is_answered_whatever_happens(self):
        with Weir(self.texts[0], arguments=('--node', 'n0')) as one, \
                Weir(self.texts[0], arguments=('--node', 'n1')) as two:
            weirs, until = (one, two), time.monotonic() + SECONDS
            runs = [(self.resp_client, weirs, number, until) for number in range(6)]
            runs += [(self.http_client, weirs, until), (self.break_things, weirs, until)]
            threads = [threading.Thread(target=self.guarded, args=run) for run in runs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(self.errors, [], one.output()[-3000:] + two.output()[-3000:])


if __name__ == '__main__':
    unittest.main()
