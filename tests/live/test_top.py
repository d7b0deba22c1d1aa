#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /v1/top: the keys that limits refuse most, and those that come back too early, whatever way they came and
wherever their counters are; how they are named; and that /metrics knows nothing of keys."""
import http.client
import json
import os
import signal
import unittest

from cluster import config
from redis_server import Redis, wait_for
from weir_server import Resp, Weir, resp_encode

KEYS = 'top: {{ keys: {} }}\n'
LIMITS = KEYS.format('text') + '''limits:
  - { name: api, match: { kind: api }, key: [user], rate: 1/hour }
  - { name: pair, match: { kind: pair }, key: [user, route], missing: share, rate: 1/hour }
  - { name: all, match: { kind: all }, key: [], rate: 1/hour }
  - { name: ip, match: { kind: ip }, key: [ip], rate: 1/hour }
  - { name: quiet, match: { kind: quiet }, key: [user], rate: 1/hour, mode: shadow }
  - { name: quick, match: { kind: quick }, key: [user], rate: 1/ms, burst: 1 }
  - { name: strict, match: { kind: strict }, key: [user], rate: 1/hour, missing: refuse }
'''
METRICS_KEYS = {'short': 20000, 'soak': 10000000}.get(os.environ.get('WEIR_TEST_EFFORT'), 100000)


def get(weir, path, **fields):
    client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
    client.request('GET', path, headers=fields)
    answer = client.getresponse()
    body = answer.read()
    client.close()
    return answer.status, body


def top(weir, query=''):
    status, body = get(weir, '/v1/top' + query)
    assert status == 200, (status, body)
    return json.loads(body)


def rows(weir, query=''):
    """[(limit, key, count)], all of them certain."""
    shown = top(weir, query)
    assert all(row['error'] == 0 for row in shown['top']) and shown['one_in'] == 1 and shown['unlisted_max'] == 0
    return [(row['limit'], row['key'], row['count']) for row in shown['top']]


def check(resp, times, **attributes):
    """Asks so often; how many were refused."""
    words = [word for pair in attributes.items() for word in pair]
    return sum(resp.ask('WEIR.CHECK', 1, *words)[0] == 0 for _ in range(times))


class Top(unittest.TestCase):
    def wait_for_rows(self, weir, expected, query=''):
        """A loop shows what it has counted within a second."""
        wait_for(lambda: rows(weir, query) == expected or None, f'not {expected}: {rows(weir, query)}')

    def test_whichever_way_it_comes(self):
        with Weir(LIMITS) as weir, Resp(weir.resp) as resp:
            self.assertEqual(rows(weir), [])
            self.assertEqual(check(resp, 6, kind='api', user='ada'), 5)
            self.assertEqual(check(resp, 3, kind='api', user='bob'), 2)
            client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
            for status in (200, 429, 429, 429, 429):
                client.request('POST', '/v1/check', json.dumps({'attributes': {'kind': 'api', 'user': 'eve'}}))
                answer = client.getresponse()
                answer.read()
                self.assertEqual(answer.status, status)
            client.close()
            throttle = ('CL.THROTTLE', 'hot', 0, 1, 3600)
            resp.send(resp_encode(*throttle) * 8)
            self.assertEqual([resp.read()[0] for _ in range(8)], [0, *[1] * 7])
            resp.send(b''.join(resp_encode(*words) for words in [
                ('MULTI',), throttle, ('WEIR.CHECK', 1, 'kind', 'api', 'user', 'bob'), throttle, ('EXEC',)]))
            self.assertEqual([reply[0] for reply in [resp.read() for _ in range(5)][-1]], [1, 0, 1])
            self.wait_for_rows(weir, [('CL.THROTTLE', ['hot'], 9), ('api', ['ada'], 5), ('api', ['eve'], 4),
                                      ('api', ['bob'], 3)])
            self.wait_for_rows(weir, [('CL.THROTTLE', ['hot'], 8), ('api', ['ada'], 4), ('api', ['eve'], 3),
                                      ('api', ['bob'], 2)], '?by=early')
            self.assertEqual(rows(weir, '?n=1&by=refused'), [('CL.THROTTLE', ['hot'], 9)])
            self.assertEqual(rows(weir, '?limit=api&n=2'), [('api', ['ada'], 5), ('api', ['eve'], 4)])
            self.assertEqual(rows(weir, '?limit=CL.THROTTLE'), [('CL.THROTTLE', ['hot'], 9)])
            shown = top(weir)
            self.assertEqual((shown['total'], shown['by'], shown['keys'], shown['node']), (21, 'refused', 'text', None))
            self.assertEqual(len({row['hash'] for row in shown['top']}), 4)

    def test_what_a_key_is_called(self):
        with Weir(LIMITS, threads=1) as weir, Resp(weir.resp) as resp:
            check(resp, 9, kind='pair', user='ada', route='/x')
            check(resp, 8, kind='pair', route='/x')
            check(resp, 7, kind='all')
            check(resp, 6, kind='ip', ip='2001:DB8:0:0:1::1')
            check(resp, 5, kind='ip', ip='::ffff:192.0.2.1')
            check(resp, 4, kind='api', user=b'\x1b[2J\xff"\n')
            check(resp, 3, kind='api', user='\u00e9' * 100)
            self.assertEqual(rows(weir), [
                ('pair', ['ada', '/x'], 8), ('pair', [None, '/x'], 7), ('all', [], 6), ('ip', ['2001:db8::'], 5),
                ('ip', ['192.0.2.1'], 4), ('api', ['\x1b[2J\ufffd"\n'], 3), ('api', ['\u00e9' * 31], 2)])
            self.assertEqual([row['cut'] for row in top(weir)['top']], [False] * 6 + [True])
            self.assertNotIn(b'\x1b', get(weir, '/v1/top')[1])

    def test_who_is_not_there(self):
        """Who was admitted, peeked, would have been refused, has no key; and who came again when he was told to is not
        early."""
        with Weir(LIMITS, threads=1) as weir, Resp(weir.resp) as resp:
            self.assertEqual(check(resp, 1, kind='api', user='ada'), 0)
            for _ in range(3):
                resp.ask('WEIR.PEEK', 1, 'kind', 'api', 'user', 'ada')
            self.assertEqual(check(resp, 3, kind='quiet', user='ada'), 0)
            self.assertEqual(check(resp, 3, kind='strict'), 3)
            self.assertEqual(rows(weir), [])
            self.assertEqual(resp.ask('WEIR.CHECK', 2, 'kind', 'quick', 'user', 'ada')[4], -1)  # never: no time is told
            self.assertEqual(resp.ask('WEIR.CHECK', 2, 'kind', 'quick', 'user', 'ada')[4], -1)
            self.assertEqual(rows(weir), [('quick', ['ada'], 2)])
            self.assertEqual(rows(weir, '?by=early'), [])

    def test_how_keys_are_named_changes_with_a_reload(self):
        with Weir(LIMITS, threads=1) as weir, Resp(weir.resp) as resp:
            check(resp, 3, kind='api', user='ada')
            self.assertEqual(rows(weir), [('api', ['ada'], 2)])

            def reload(text):
                reloads = weir.output().count('info reloaded:')
                weir.config.write_text(text, encoding='utf-8')
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda: weir.output().count('info reloaded:') > reloads, 'no reload is told')

            for keys, first in ('hash', None), ('off', 'nobody'), ('text', ['ada']):
                with self.subTest(keys):
                    reload(LIMITS.replace('keys: text', f'keys: {keys}'))
                    wait_for(lambda keys=keys: top(weir)['keys'] == keys, 'it is not in force')
                    self.assertEqual(rows(weir), [])
                    self.assertEqual(check(resp, 2, kind='api', user='ada'), 2)
                    found = rows(weir)
                    self.assertEqual(found, [] if keys == 'off' else [('api', first, 2)])
                    self.assertEqual(top(weir)['since'] is None, keys == 'off')
            reload(LIMITS.replace('name: api', 'name: web'))
            wait_for(lambda: get(weir, '/v1/top?limit=web')[0] == 200, 'the limit is not there')
            check(resp, 4, kind='api', user='ada')
            self.assertEqual(rows(weir), [('web', ['ada'], 3), ('api', ['ada'], 2)])  # what it was called stays
            self.assertEqual(rows(weir, '?limit=web'), [('web', ['ada'], 3)])

    def test_keys_are_hashed_unless_told_otherwise(self):
        with Weir(LIMITS.replace(KEYS.format('text'), ''), threads=1) as weir, Resp(weir.resp) as resp:
            check(resp, 3, kind='api', user='ada')
            shown = top(weir)
            self.assertEqual((shown['keys'], shown['top'][0]['key'], shown['top'][0]['count']), ('hash', None, 2))
            self.assertNotIn(b'ada', get(weir, '/v1/top')[1])

    def test_wrong_questions(self):
        tokens = '''auth: { required: always, tokens: [ { name: shop, secret: 0123456789abcdef, rights: [check] },
  { name: prometheus, secret: fedcba9876543210, rights: [metrics] } ] }
'''
        with Weir(LIMITS, threads=1) as weir:
            for query, why in {
                    'by=worst': 'by: must be refused or early', 'n=0': 'n: must be 1 to 100', 'n=101': 'n: must be 1 to 100',
                    'n=': 'n: must be 1 to 100', 'n=1e1': 'n: must be 1 to 100', 'n=%31%zz': 'n: is not percent-encoded',
                    'n=1&n=1': 'n: stands twice', 'order=by': 'there are by, n, limit', '&': 'there are by, n, limit',
                    'limit': 'limit: must be the name of a limit', 'limit=nobody': 'no limit in force has that name',
                    'limit=' + 'x' * 129: 'limit: is not percent-encoded, has a NUL, or is longer than 128 bytes',
                    'limit=%00': 'limit: is not percent-encoded, has a NUL',
                    'limit=' + 'x' * 4000: 'limit: is not percent-encoded'}.items():
                with self.subTest(query[:40]):
                    status, body = get(weir, '/v1/top?' + query)
                    self.assertEqual(status, 400)
                    self.assertIn(why, json.loads(body)['detail'])
            self.assertEqual(get(weir, '/v1/top?n=%31%30')[0], 200)
            self.assertEqual(get(weir, '/v1/top?limit=%61pi&by=early')[0], 200)
        with Weir(tokens + LIMITS, threads=1) as weir:
            for token, status in ('', 401), ('0123456789abcdef', 403), ('fedcba9876543210', 200):
                fields = {'Authorization': f'Bearer {token}'} if token else {}
                self.assertEqual(get(weir, '/v1/top', **fields)[0], status)

    def test_limits_that_nodes_share(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        modes = 'exact', 'leased', 'batched', 'split', 'gossip'
        limits = ''.join(f'  - {{ name: {mode}, match: {{ kind: {mode} }}, key: [user], rate: 4/hour, sharing: {mode}'
                         f'{", deadline: 5s" if mode in ("exact", "leased", "batched") else ""} }}\n' for mode in modes)
        both = '''  - { name: first, match: { kind: both }, key: [user], rate: 2/hour }
  - { name: then, match: { kind: both }, key: [user], rate: 1000/hour, sharing: exact, deadline: 5s }
'''
        throttle = 'cl_throttle: { sharing: exact, engine: redis, deadline: 5s }\n'
        text = config(limits + both, f'servers: ["127.0.0.1:{redis.port}"]', ('a',), KEYS.format('text') + throttle)
        with Weir(text, 1, ('--node', 'a')) as weir, Resp(weir.resp) as resp:
            expected = []
            for number, mode in enumerate([*modes, 'both']):
                refused = check(resp, 20 + 10 * number, kind=mode, user=mode + '-user')
                self.assertGreater(refused, 0)
                expected.append(('first' if mode == 'both' else mode, [mode + '-user'], refused))
            refused = sum(resp.ask('CL.THROTTLE', 'hot', 0, 1, 3600)[0] for _ in range(100))
            self.assertEqual(refused, 99)
            expected.append(('CL.THROTTLE', ['hot'], refused))
            self.assertEqual(sorted(rows(weir), key=lambda row: row[2]), sorted(expected, key=lambda row: row[2]))
            self.assertEqual(top(weir)['node'], 'a')
            early = {row[0]: row[2] for row in rows(weir, '?by=early')}
            self.assertEqual(early['CL.THROTTLE'], 98)

    def test_metrics_keep_their_size(self):
        """However many keys are refused; and of them those are named that are refused most."""
        with Weir(KEYS.format('text'), threads=1) as weir, Resp(weir.resp) as resp:
            def lines():
                return [line.split(' ')[0] for line in get(weir, '/metrics')[1].decode().splitlines()]

            self.assertEqual([resp.ask('CL.THROTTLE', 'hot', 0, 1, 3600)[0] for _ in range(2)], [0, 1])
            wait_for(lambda: 'weir_top_refused_first{limit="CL.THROTTLE"}' in lines(), 'the first refusal is not told')
            before, refused = lines(), 0
            for first in range(0, METRICS_KEYS, 500):
                batch = [word for number in range(first, first + 500)
                         for word in [('CL.THROTTLE', f'key-{number}', 0, 1, 3600)] * 2]
                batch += [('CL.THROTTLE', 'hot', 0, 1, 3600)] * 10
                resp.send(b''.join(resp_encode(*words) for words in batch))
                refused += sum(resp.read()[0] for _ in batch)
            self.assertEqual(lines(), before)
            shown = top(weir, '?n=100')
            hot = shown['top'][0]
            count = METRICS_KEYS // 50 + 1
            self.assertEqual((hot['limit'], hot['key']), ('CL.THROTTLE', ['hot']))
            slack = 8 * (shown['one_in'] * count) ** 0.5 if shown['one_in'] > 1 else 0
            self.assertLessEqual(hot['count'] - hot['error'], count + slack)
            self.assertGreaterEqual(hot['count'], count - slack)
            self.assertEqual(len(shown['top']), 100)
            self.assertLessEqual(shown['unlisted_max'], shown['total'] // 2048)
            self.assertGreater(refused, count)


if __name__ == '__main__':
    unittest.main()
