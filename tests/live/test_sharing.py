#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits that weir processes share through one Redis: the bound of each mode, answers in order, and what happens when
the engine dies, stops, comes back, when a client leaves and when the rules are read again meanwhile."""
import contextlib
import itertools
import json
import re
import signal
import threading
import time
import unittest
import urllib.error
import urllib.request

from redis_server import DURABLE, Redis, stand_still, wait_for
from weir_server import Resp, Weir, resp_encode

SECRET = '6f0c1d2be9a84735b2d1708c5e4f93a6'
DEADLINE_S = 0.02
SPARE_S = 5  # for a busy machine, on top of a deadline


def config(redis, limits, nodes=2):
    names = ', '.join(f'{{ name: n{i} }}' for i in range(nodes))
    return (f'engine: {{ redis: {{ servers: ["{redis.host}:{redis.port}"] }} }}\n'
            f'cluster: {{ nodes: [ {names} ] }}\ncluster_secret: {SECRET}\nlimits:\n{limits}')


def limit(name='api', rate='100/day', **more):
    if more.get('sharing') in ('exact', 'leased', 'batched'):
        more.setdefault('deadline', '10s')  # a busy machine is no failure, where failures are not the point
    lines = ''.join(f'    {key}: {value}\n' for key, value in {'key': '[user]', **more}.items())
    return f'  - name: {name}\n    rate: {rate}\n{lines}'


@contextlib.contextmanager
def cluster(redis, limits, nodes=2):
    """Weir processes, all of them in touch with the engine."""
    with contextlib.ExitStack() as stack:
        weirs = [stack.enter_context(Weir(config(redis, limits, nodes), arguments=('--node', f'n{i}')))
                 for i in range(nodes)]
        for weir in weirs:
            wait_for(lambda weir=weir: nodes_of(weir)['engine']['ready'], 'the engine is not ready')
        yield weirs


def get(weir, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}{path}', timeout=60) as answer:
        return answer.read().decode()


def nodes_of(weir):
    return json.loads(get(weir, '/v1/nodes'))


def metric(weir, name):
    found = re.search(rf'^{re.escape(name)} (\d+)', get(weir, '/metrics'), re.M)
    return int(found[1]) if found else 0


def check(weir, cost=1, **attributes):
    """POST /v1/check: status and body."""
    body = json.dumps({'attributes': attributes, 'cost': cost}).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{weir.http}/v1/check', data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def pipeline(client, count, *attributes):
    """That many checks at once; how many were admitted."""
    client.send(resp_encode('WEIR.CHECK', 1, *attributes) * count)
    return sum(client.read()[0] for _ in range(count))


def flood(weirs, rounds, count, *attributes):
    """Each process from a thread of its own; how many were admitted in all."""
    admitted = [0] * len(weirs)

    def run(index):
        with Resp(weirs[index].resp) as client:
            for _ in range(rounds):
                admitted[index] += pipeline(client, count, *attributes)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(weirs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(admitted)


class Sharing(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)

    # ---- the bounds ----

    def test_exact_admits_exactly_the_limit_over_two_processes(self):
        with cluster(self.redis, limit(sharing='exact')) as weirs:
            self.assertEqual(flood(weirs, 5, 100, 'user', 'ada'), 100)
            for weir in weirs:
                status, body = check(weir, user='ada')
                self.assertEqual((status, body['limits'][0]['sharing']), (429, 'exact'))
            admitted = sum(check(weirs[i % 2], user='bob')[0] == 200 for i in range(120))
            self.assertEqual(admitted, 100)

    def test_leased_never_admits_more(self):
        with cluster(self.redis, limit(sharing='leased')) as weirs:
            admitted = flood(weirs, 10, 50, 'user', 'ada')
            self.assertLessEqual(admitted, 100)
            self.assertGreaterEqual(admitted, 50)

    def test_batched_stays_within_its_slack(self):
        with cluster(self.redis, limit(sharing='batched', slack=5)) as weirs:
            admitted = flood(weirs, 10, 50, 'user', 'ada')
            self.assertLessEqual(admitted, 100 + 2 * 5)
            self.assertGreaterEqual(admitted, 100)

    def test_a_key_that_one_leases_and_one_decides_exactly_is_no_failure(self):
        """As in a change of mode, node by node: what loses the race for the key is refused, not decided by on_failure."""
        with contextlib.ExitStack() as stack:
            leasing, exact = [
                stack.enter_context(Weir(config(self.redis, limit(rate='100000/hour', sharing=sharing, on_failure='open')),
                                         arguments=('--node', f'n{i}')))
                for i, sharing in enumerate(('leased', 'exact'))]
            for weir in (leasing, exact):
                wait_for(lambda weir=weir: nodes_of(weir)['engine']['ready'], 'the engine is not ready')
            with Resp(leasing.resp) as client:
                for _ in range(3):
                    self.assertEqual(pipeline(client, 200, 'user', 'ada'), 200)
            with Resp(exact.resp) as client:
                for _ in range(3):
                    self.assertEqual(pipeline(client, 200, 'user', 'ada'), 200)
            self.assertEqual(metric(exact, 'weir_fallback_total{limit="api",policy="open"}'), 0)

    def test_split_gives_each_process_its_share(self):
        with cluster(self.redis, limit(sharing='split')) as weirs:
            self.assertEqual(flood(weirs, 2, 100, 'user', 'ada'), 100)

    def test_a_drained_process_gives_its_chunk_back(self):
        with cluster(self.redis, limit(sharing='leased', chunk_ttl='1hour')) as weirs:
            with Resp(weirs[0].resp) as client:
                self.assertEqual(pipeline(client, 30, 'user', 'ada'), 30)
            held = nodes_of(weirs[0])['sharing']['held']
            self.assertEqual(weirs[0].stop(), 0)
            admitted = flood(weirs[1:], 5, 50, 'user', 'ada')
            self.assertEqual(admitted, 70, f'{held} were held')

    # ---- one request, several limits ----

    def test_a_refusal_of_one_limit_charges_none(self):
        limits = (limit('hot', '1000/day', sharing='leased') + limit('whole', '10/day', sharing='exact') +
                  limit('part', '1000/day', sharing='split') + limit('near', '500/day', sharing='batched'))
        with cluster(self.redis, limits) as weirs:
            with Resp(weirs[0].resp) as client:
                self.assertEqual(pipeline(client, 60, 'user', 'ada'), 10)
                answer = client.ask('WEIR.CHECK', 1, 'user', 'ada')
                self.assertEqual(answer[:2], [0, b'whole'])
                status, body = check(weirs[0], user='ada')
                remaining = {told['limit']: told['remaining'] for told in body['limits']}
                self.assertEqual(status, 429)
                self.assertEqual((remaining['part'], remaining['whole']), (490, 0))
                time.sleep(0.3)
            self.assertEqual(weirs[0].stop(), 0)  # what it holds is given back
            _, body = check(weirs[1], cost=0, user='ada')
            remaining = {told['limit']: told['remaining'] for told in body['limits']}
            self.assertEqual((remaining['hot'], remaining['near']), (990, 490))

    def test_a_limit_in_shadow_refuses_nobody(self):
        with cluster(self.redis, limit(rate='2/day', sharing='exact', mode='shadow')) as weirs:
            with Resp(weirs[0].resp) as client:
                self.assertEqual(pipeline(client, 10, 'user', 'ada'), 10)
            self.assertGreater(metric(weirs[0], 'weir_decisions_total{limit="api",verdict="shadow_refused"}'), 0)

    def test_a_peek_charges_nothing_and_a_refund_gives_back(self):
        for mode in ('exact', 'leased', 'batched'):
            with self.subTest(mode), cluster(self.redis, limit(mode, sharing=mode)) as weirs:
                with Resp(weirs[0].resp) as client:
                    for _ in range(20):
                        self.assertEqual(client.ask('WEIR.PEEK', 90, 'user', mode)[0], 1)
                    self.assertEqual(client.ask('WEIR.PEEK', 101, 'user', mode)[4], -1)
                    self.assertEqual(pipeline(client, 40, 'user', mode), 40)
                    if mode == 'exact':
                        self.assertEqual(client.ask('WEIR.REFUND', 15, 'user', mode), [[b'exact', 15]])
                        self.assertEqual(client.ask('WEIR.PEEK', 75, 'user', mode)[:4], [1, b'exact', 100, 75])

    # ---- order ----

    def test_answers_keep_the_order_of_their_commands(self):
        limits = limit(rate='1000/hour', sharing='exact') + limit('part', sharing='split', key='[here]')
        with cluster(self.redis, limits) as weirs, Resp(weirs[0].resp) as client:
            for _ in range(20):
                client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 3 + resp_encode('PING', 'one') +
                            resp_encode('WEIR.CHECK', 1, 'here', 'x') + resp_encode('WEIR.CHECK', 'x', 'user', 'y') +
                            resp_encode('WEIR.PEEK', 1, 'user', 'ada') + resp_encode('WEIR.CHECK', 1, 'here', 'y') +
                            resp_encode('WEIR.REFUND', 3, 'user', 'ada') + resp_encode('WEIR.CHECK', 1, 'no', 'no') +
                            resp_encode('ECHO', 'two') + resp_encode('CL.THROTTLE', 'k', 15, 30, 60) +
                            resp_encode('WEIR.CHECK', 1, 'user', 'ada') + resp_encode('NOPE'))
                got = [client.read() for _ in range(14)]
                self.assertEqual([answer[1] for answer in got[:3]], [b'api'] * 3)
                self.assertEqual(got[3], b'one')
                self.assertEqual(got[4][1], b'part')
                self.assertIn('cost must be', str(got[5]))
                self.assertEqual((got[6][1], got[7][1]), (b'api', b'part'))
                self.assertEqual(got[8], [[b'api', 3]])
                self.assertEqual(got[9][1], b'')
                self.assertEqual(got[10], b'two')
                self.assertEqual((len(got[11]), got[12][1]), (5, b'api'))
                self.assertIn('unknown command', str(got[13]))

    def test_more_than_may_be_under_way_are_all_answered(self):
        with cluster(self.redis, limit(rate='100000/hour', sharing='exact', deadline='10s')) as weirs:
            with Resp(weirs[0].resp) as client:
                self.assertEqual(pipeline(client, 5000, 'user', 'ada'), 5000)

    def test_exec_runs_checks_in_order(self):
        with cluster(self.redis, limit(rate='3/day', sharing='exact')) as weirs, Resp(weirs[0].resp) as client:
            client.send(resp_encode('MULTI') + resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 2 + resp_encode('PING') +
                        resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 2 + resp_encode('EXEC') + resp_encode('PING'))
            self.assertEqual([client.read() for _ in range(6)], ['OK'] + ['QUEUED'] * 5)
            answers = client.read()
            self.assertEqual(answers.pop(2), 'PONG')
            self.assertEqual([answer[0] for answer in answers], [1, 1, 1, 0])
            self.assertEqual(client.read(), 'PONG')

    def test_a_client_that_only_closes_its_side_is_answered(self):
        with cluster(self.redis, limit(sharing='exact')) as weirs, Resp(weirs[0].resp) as client:
            client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 50)
            client.socket.shutdown(1)
            self.assertEqual(sum(client.read()[0] for _ in range(50)), 50)
            with self.assertRaises(ConnectionError):
                client.read()

    # ---- the engine fails ----

    def timed(self, client, *words):
        start = time.monotonic()
        answer = client.ask(*words)
        self.assertLess(time.monotonic() - start, DEADLINE_S + SPARE_S)
        return answer

    def outage(self, break_engine, sharing):
        limits = ''.join(limit(policy, rate, sharing=sharing, on_failure=policy, key=f'[{policy}]', deadline='20ms')
                         for policy, rate in (('local', '100/s'), ('open', '100/hour'), ('closed', '100/hour')))
        with cluster(self.redis, limits) as weirs, Resp(weirs[0].resp) as client:
            time.sleep(1)  # the share has filled since the start
            break_engine()
            answers = {policy: [self.timed(client, 'WEIR.CHECK', 1, policy, 'ada') for _ in range(60)]
                       for policy in ('local', 'open', 'closed')}
            admitted = {policy: sum(answer[0] for answer in all_) for policy, all_ in answers.items()}
            self.assertGreaterEqual(admitted['local'], 50)
            self.assertEqual((admitted['open'], admitted['closed']), (60, 0))
            self.assertTrue(all(answer[4] > 0 for answer in answers['closed']))
            status, body = check(weirs[0], closed='ada')
            self.assertEqual((status, body['limits'][0]['fallback']), (503, 'closed'))
            self.assertIn('temporary-reduced-capacity', body['type'])
            self.assertEqual(check(weirs[0], open='ada')[1]['limits'][0]['fallback'], 'open')
            self.assertEqual(check(weirs[0], local='ada')[1]['limits'][0]['fallback'], 'local')
            for policy in ('local', 'open', 'closed'):
                name = f'weir_fallback_total{{limit="{policy}",policy="{policy}"}}'
                self.assertEqual(metric(weirs[0], name), 61)
            wait_for(lambda: 'without the engine' in get(weirs[0], '/readyz'), 'the breaker did not open')
            wait_for(lambda: not nodes_of(weirs[0])['engine']['ready'], 'it is shown as ready')
            self.come_back(weirs[0], client)

    def come_back(self, weir, client):
        if self.redis.process.poll() is None:
            self.redis.process.send_signal(signal.SIGCONT)
        else:
            self.redis.start()
        wait_for(lambda: nodes_of(weir)['engine']['ready'], 'the engine did not come back')
        before = nodes_of(weir)['sharing']['fallback_closed']
        wait_for(lambda: client.ask('WEIR.CHECK', 1, 'closed', 'cyd')[0] == 1, 'still falls back')
        wait_for(lambda: client.ask('WEIR.CHECK', 1, 'closed', 'eve') and
                 nodes_of(weir)['engine']['servers'][0]['breaker'] == 'closed', 'the breaker stays open')
        users = itertools.count()  # a busy machine may let a deadline of 20 ms pass, now and then
        wait_for(lambda: pipeline(client, 20, 'closed', f'dan{next(users)}') == 20, 'not all are decided there')
        self.assertGreaterEqual(nodes_of(weir)['sharing']['fallback_closed'], before)

    def test_a_killed_engine(self):
        self.outage(lambda: self.kill(self.redis), 'exact')

    def test_a_stopped_engine(self):
        self.outage(lambda: stand_still(self.redis.process.pid), 'exact')

    def test_a_killed_engine_under_leases(self):
        self.outage(lambda: self.kill(self.redis), 'leased')

    def test_a_stopped_engine_under_leases(self):
        self.outage(lambda: stand_still(self.redis.process.pid), 'leased')

    @staticmethod
    def kill(redis):
        redis.process.kill()
        redis.process.wait()

    def test_what_can_never_pass_is_refused_without_the_engine(self):
        limits = ''.join(limit(f'{policy}-{rate[0]}', rate, sharing='exact', on_failure=policy,
                               key=f'[{policy}{rate[0]}]')
                         for policy in ('local', 'open', 'closed') for rate in ('0/hour', '9/hour'))
        with cluster(self.redis, limits) as weirs, Resp(weirs[0].resp) as client:
            self.kill(self.redis)
            for policy in ('local', 'open', 'closed'):
                for key, cost in ((f'{policy}0', 1), (f'{policy}9', 10)):
                    answer = client.ask('WEIR.CHECK', cost, key, 'ada')
                    self.assertEqual((key, answer[0], answer[4]), (key, 0, -1))

    def test_what_is_held_is_spent_while_the_engine_is_away(self):
        with cluster(self.redis, limit(sharing='leased', chunk_ttl='1hour', on_failure='closed')) as weirs:
            with Resp(weirs[0].resp) as client:
                pipeline(client, 30, 'user', 'ada')
                wait_for(lambda: nodes_of(weirs[0])['sharing']['held'] > 0, 'nothing is held')
                told = []
                wait_for(lambda: told.append(nodes_of(weirs[0])['sharing']['held']) or len(set(told[-20:])) == 1 and
                         len(told) > 20, 'it changes')  # each loop has told of itself, every 100 ms if it can
                held = told[-1]
                self.assertGreater(held, 0)
                self.kill(self.redis)
                admitted = sum(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0] for _ in range(100))
                self.assertEqual(admitted, held)

    def test_closed_keeps_the_bound_through_outages(self):
        redis = Redis(*DURABLE)
        self.addCleanup(redis.stop)
        limits = ''.join(limit(mode, '600/day', sharing=mode, key=f'[{mode}]', on_failure='closed', deadline='50ms',
                               **({'slack': 10} if mode == 'batched' else {}))
                         for mode in ('exact', 'leased', 'batched'))
        with cluster(redis, limits) as weirs:
            done = threading.Event()
            admitted = {'exact': [], 'leased': [], 'batched': []}

            def run(weir, mode):
                with Resp(weir.resp) as client:
                    while not done.is_set():
                        admitted[mode].append(pipeline(client, 5, mode, 'ada'))
                        time.sleep(0.01)

            threads = [threading.Thread(target=run, args=(weir, mode)) for weir in weirs for mode in admitted]
            for thread in threads:
                thread.start()
            for _ in range(3):
                time.sleep(0.4)
                redis.pause()
                time.sleep(0.3)
                redis.resume()
                time.sleep(0.4)
                redis.kill()
                redis.start()
            wait_for(lambda: all(check(weirs[0], **{mode: 'ada'})[0] == 429 for mode in admitted),
                     'the limits are not used up')
            done.set()
            for thread in threads:
                thread.join()
            refill = 2  # of four minutes
            self.assertLessEqual(sum(admitted['exact']), 600 + refill)
            self.assertLessEqual(sum(admitted['leased']), 600 + refill)
            self.assertLessEqual(sum(admitted['batched']), 600 + refill + 2 * 10)

    # ---- meanwhile ----

    def test_a_client_that_leaves_midway_holds_nobody_up(self):
        with cluster(self.redis, limit(rate='100000/hour', sharing='exact') +
                     limit('hot', '100000/hour', sharing='leased')) as weirs:
            for stop in (False, True):
                if stop:
                    stand_still(self.redis.process.pid)
                for _ in range(20):
                    with Resp(weirs[0].resp) as client:
                        client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 300)
            self.redis.process.send_signal(signal.SIGCONT)
            wait_for(lambda: nodes_of(weirs[0])['sharing']['waiting'] == 0, 'requests are left over')
            with Resp(weirs[0].resp) as client:
                wait_for(lambda: client.ask('WEIR.CHECK', 1, 'user', 'bob')[0] == 1, 'not served')

    def on_one_connection(self, limits, act):
        """A machine that stands still for a second loses its connection to Redis, and with it what is under way, which is
        on_failure's then: once more."""
        for _ in range(5):
            with cluster(self.redis, limits) as weirs:
                try:
                    return act(weirs[0])
                except (AssertionError, TimeoutError):
                    self.redis.process.send_signal(signal.SIGCONT)  # it may have been continued before this
                    engine = nodes_of(weirs[0])['engine']
                    if not engine['reconnects'] and not engine['unknown'] and engine['ready']:
                        raise
        return self.fail('the connection was lost each time')

    def test_a_reload_midway_loses_no_answer(self):
        both = ''.join(limit(name, '1000000/hour', sharing=mode) for name, mode in (
            ('api', 'exact'), ('hot', 'leased'), ('part', 'split'), ('near', 'batched')))
        texts = [config(self.redis, both), config(self.redis, limit(rate='1000000/hour', sharing='exact')),
                 config(self.redis, limit(rate='1000000/hour', sharing='batched')), config(self.redis, both)]
        self.on_one_connection(both, lambda weir: self.reload_midway(weir, texts))

    def reload_midway(self, weir, texts):
        done = threading.Event()

        def reload():
            while not done.is_set():
                for text in texts:
                    weir.config.write_text(text, encoding='utf-8')
                    weir.process.send_signal(signal.SIGHUP)
                    time.sleep(0.03)

        thread = threading.Thread(target=reload)
        thread.start()
        try:
            with Resp(weir.resp) as client:
                rounds, deadline = 0, time.monotonic() + 60
                while rounds < 150 or weir.output().count('info reloaded:') <= 3 and time.monotonic() < deadline:
                    rounds += 1
                    client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 100)
                    got = [client.read() for _ in range(100)]
                    self.assertEqual([answer for answer in got if answer[0] != 1], [],
                                     (nodes_of(weir), weir.output()))
        finally:
            done.set()
            thread.join()
        self.assertGreater(weir.output().count('info reloaded:'), 3)

    def test_requests_under_way_end_by_the_rules_they_were_begun_by(self):
        """weir looks at Redis every 5 s: where that falls into a pause of more than a second, the connection is lost."""
        old = ''.join(limit(f'l{i}', '1000/hour', sharing='exact' if i % 2 else 'split') for i in range(8))

        def act(weir):
            with Resp(weir.resp) as client:
                self.reload_under_way(weir, client, old)

        self.on_one_connection(old, act)

    def reload_under_way(self, weir, client, old):
        for reloads in (1, 2):  # the second waits until the first has been moved to
            weir.config.write_text(config(self.redis, old), encoding='utf-8')
            before = weir.output().count('info reloaded:')
            self.redis.pause()
            client.send(resp_encode('WEIR.CHECK', 1, 'user', 'ada') * 50)
            wait_for(lambda: nodes_of(weir)['sharing']['waiting'] == 50, 'they are not under way')
            weir.config.write_text(config(self.redis, limit('new', '5/hour', sharing='exact')), encoding='utf-8')
            for _ in range(reloads):
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda before=before: weir.output().count('info reloaded:') > before, 'no reload')
                time.sleep(0.1)
            self.assertEqual(weir.output().count('info reloaded:') - before, 1)
            self.redis.resume()
            self.assertEqual([client.read()[0] for _ in range(50)], [1] * 50)
            self.assertEqual(client.ask('WEIR.PEEK', 1, 'user', 'ada')[1], b'new')
            count = before + reloads
            wait_for(lambda count=count: weir.output().count('info reloaded:') == count, 'no second reload')
            weir.config.write_text(config(self.redis, old), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda count=count: weir.output().count('info reloaded:') == count + 1, 'no reload')
            wait_for(lambda: client.ask('WEIR.PEEK', 1, 'user', 'ada')[1] != b'new', 'the old rules are not back')

    def test_a_reload_says_that_another_engine_takes_a_restart(self):
        with cluster(self.redis, limit(sharing='exact')) as weirs:
            text = weirs[0].config.read_text(encoding='utf-8')
            weirs[0].config.write_text(text.replace(f':{self.redis.port}', ':1'), encoding='utf-8')
            weirs[0].process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'kept until a restart: engine.redis' in weirs[0].output(), 'nothing was said')
            self.assertEqual(check(weirs[0], user='ada')[0], 200)

    def test_another_secret_takes_a_restart(self):
        with cluster(self.redis, limit(rate='2/day', sharing='exact')) as weirs:
            self.assertEqual([check(weir, user='ada')[0] for weir in weirs], [200, 200])
            text = weirs[0].config.read_text(encoding='utf-8')
            weirs[0].config.write_text(text.replace(SECRET, SECRET[::-1]), encoding='utf-8')
            weirs[0].process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'kept until a restart: cluster_secret' in weirs[0].output(), 'nothing was said')
            self.assertEqual(check(weirs[0], user='ada')[0], 429)  # not the first of another key

    def test_it_says_which_engine_and_which_node(self):
        with cluster(self.redis, limit(sharing='exact')) as weirs:
            self.assertIn(f'weir: engine redis at 127.0.0.1:{self.redis.port}\n', weirs[1].output())
            self.assertIn('weir: node n1, one of 2\n', weirs[1].output())


if __name__ == '__main__':
    unittest.main()
