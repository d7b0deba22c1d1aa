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
from slow_door import SlowDoor
import test_sharing
from test_sharing import check, cluster, config, get, metric
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


class Contention(unittest.TestCase):
    """Six nodes ask for one leased key at once, over a link on which two round trips fit into the deadline and three do
    not. One is first; the others lose the race for the key, which is no failure of the engine: on_failure has no say."""
    NODES = 6

    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)

    @staticmethod
    def ask_at_once(weirs, user):
        answers = [None] * len(weirs)

        def ask(index):
            answers[index] = check(weirs[index], user=user)[0]

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(weirs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def contend(self):
        """The answers, and how often on_failure decided."""
        text = test_sharing.limit(rate='100/day', sharing='leased', on_failure='open', deadline='1200ms')
        with SlowDoor(self.redis.port, lag_s=0.45) as door:
            door.host = self.redis.host
            with cluster(door, text, self.NODES) as weirs:
                for weir in weirs:
                    check(weir, user='warm')

                def fallbacks():
                    return sum(metric(weir, 'weir_fallback_total{limit="api",policy="open"}') for weir in weirs)

                before = fallbacks()
                return self.ask_at_once(weirs, 'ada'), fallbacks() - before

    def test_who_is_outrun_at_a_key_is_refused_and_not_let_through(self):
        tries = []
        for _ in range(5):  # a machine that stands still for a moment is late, and that is a failure
            answers, fallbacks = self.contend()
            tries.append((answers, fallbacks))
            if fallbacks == 0 and answers.count(429) > self.NODES // 2:
                return
            self.redis.ask('FLUSHALL')
        self.fail(tries)


if __name__ == '__main__':
    unittest.main()
