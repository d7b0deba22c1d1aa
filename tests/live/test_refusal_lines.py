#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""log: { refusals: N }: some refusals as lines of the log, whatever way they came; what is left out is told; a key's text
only where `top: { keys: text }` allows it."""
import collections
import contextlib
import json
import signal
import unittest
import urllib.request

from cluster import config
from redis_server import wait_for
from weir_server import Resp, Weir, resp_encode

LOG = 'log: { format: json, refusals: 2 }\n'
TEXT = 'top: { keys: text }\n'
LIMITS = '''limits:
  - { name: api, match: { kind: api }, key: [user, route], missing: share, rate: 1/hour, cost: 3, burst: 3 }
  - { name: quiet, match: { kind: api }, key: [user], rate: 1/day, mode: shadow }
  - { name: never, match: { kind: never }, key: [user], rate: 1/day }
'''


def lines(weir):
    """Those of refusals."""
    told = [json.loads(line) for line in weir.output().splitlines() if line.startswith('{')]
    return [line for line in told if line['event'] == 'refused']


def check(resp, times, cost=1, **attributes):
    """How many were refused."""
    words = [word for pair in attributes.items() for word in pair]
    return sum(resp.ask('WEIR.CHECK', cost, *words)[0] == 0 for _ in range(times))


def top(weir):
    with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/top', timeout=60) as answer:
        return json.loads(answer.read())['top']


def accounted(told):
    """Refusals that the lines tell of."""
    return len(told) + sum(line['left_out'] for line in told)


class Lines(unittest.TestCase):
    def expect(self, weir, what):
        wait_for(lambda: what(lines(weir)), f'not so: {weir.output()}')

    def test_what_a_line_says(self):
        with Weir(LOG + TEXT + LIMITS) as weir, Resp(weir.resp) as resp:
            self.assertEqual(check(resp, 2, kind='api', user='a"d\x1ba\n'), 1)
            self.assertEqual(check(resp, 1, cost=2, kind='never', user='bob'), 1)
            self.expect(weir, lambda told: len(told) == 2)
            [api] = [line for line in lines(weir) if line['limit'] == 'api']
            [never] = [line for line in lines(weir) if line['limit'] == 'never']
            self.assertEqual((api['key'], api['cost'], api['left_out'], api['level']), (['a"d\x1ba\n', None], 3, 0, 'info'))
            self.assertGreater(api['retry_after_ms'], 3600000)
            self.assertNotIn('cut', api)
            self.assertEqual((never['key'], never['cost'], never['retry_after_ms']), (['bob'], 2, None))
            wait_for(lambda: {row['hash'] for row in top(weir)} == {api['hash'], never['hash']}, 'other hashes')
            check(resp, 1, cost=2, kind='never', user='x' * 100)
            self.expect(weir, lambda told: len(told) == 3)
            self.assertEqual((lines(weir)[-1]['cut'], lines(weir)[-1]['key']), (True, ['x' * 63]))

    def test_most_are_left_out_and_the_next_line_says_how_many(self):
        """Four loops pick for themselves; the rate is of all of them."""
        with Weir(LOG + LIMITS, threads=4) as weir, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Resp(weir.resp)) for _ in range(16)]
            refused = sum(check(client, 1, kind='api', user='ada') for _ in range(32) for client in clients)
            self.assertEqual(refused, 511)

            def told():
                nonlocal refused
                refused += sum(check(client, 1, kind='api', user='ada') for client in clients)
                return accounted(lines(weir)) > 511

            wait_for(told, 'the lines do not tell of all')
            self.assertLessEqual(accounted(lines(weir)), refused)
            self.assertNotIn('ada', weir.output())
            self.assertEqual({(line['limit'], line['key']) for line in lines(weir)}, {('api', None)})
            seconds = collections.Counter(line['time'][:19] for line in lines(weir))
            self.assertLessEqual(max(seconds.values()), 2 * 2)  # a second of ours lies in two of the wall's

    def test_of_calls_decided_together_each_is_accounted_for_under_its_own_key(self):
        """Calls that come at once are counted at once: those that were admitted lie between those that were not."""
        with Weir(LOG + TEXT, 1) as weir, Resp(weir.resp) as resp:
            refused = []

            def burst():
                calls = [(f'key{number % 7}', number % 5 + 1) for number in range(64)]
                resp.send(b''.join(resp_encode('CL.THROTTLE', key, 9, 10, 3600, cost) for key, cost in calls))
                refused.extend(call for call in calls if resp.read()[0] == 1)
                return accounted(lines(weir)) > 64

            wait_for(burst, 'the lines do not tell of all')
            told = lines(weir)
            self.assertEqual({line['limit'] for line in told}, {'CL.THROTTLE'})
            for number, line in enumerate(told):  # it says which one it is: so many came before it
                self.assertEqual((line['key'][0], line['cost']), refused[accounted(told[:number + 1]) - 1])
            wait_for(lambda: sum(row['count'] for row in top(weir)) == len(refused), 'not all are counted')
            self.assertEqual({row['key'][0]: row['count'] for row in top(weir)}, collections.Counter(key for key, _ in refused))

    def test_other_events_find_room(self):
        limits = 'limits:\n' + ''.join(f'  - {{ name: l{i}, match: {{ kind: k{i} }}, key: [user], rate: 0/s }}\n'
                                       for i in range(40))
        with Weir(LOG.replace('2', '20') + limits) as weir, Resp(weir.resp) as resp:
            for number in range(40):
                resp.send(b''.join(resp_encode('WEIR.CHECK', 1, 'kind', f'k{number}', 'user', 'ada') for _ in range(30)))
                self.assertEqual(sum(resp.read()[0] for _ in range(30)), 0)
            self.expect(weir, bool)
            check(resp, 1, unmatched='x')
            wait_for(lambda: 'unmatched_admitted_begun' in weir.output(), 'the other event is not told')
            seconds = collections.Counter(line['time'][:19] for line in lines(weir))
            self.assertLessEqual(max(seconds.values()), 2 * 50)
            self.assertNotIn('dropped)', weir.output())

    def test_whatever_way_it_came(self):
        limits = '''  - { name: far, match: { kind: far }, key: [user], rate: 9/s, sharing: exact, on_failure: closed, deadline: 20ms }
  - { name: own, match: { kind: own }, key: [user], rate: 1/day, sharing: split }
'''
        throttle = 'cl_throttle: { sharing: exact, engine: redis, deadline: 20ms, on_failure: closed }\n'
        for more, cost in (throttle, 5), ('', 5):
            text = config(limits, 'servers: ["127.0.0.1:1"]', ('a',), LOG + TEXT + more)
            with self.subTest(more), Weir(text, 1, ('--node', 'a')) as weir, Resp(weir.resp) as resp:
                self.assertEqual(check(resp, 1, kind='far', user='ada'), 1)
                self.assertEqual(check(resp, 2, kind='own', user='bob'), 1)
                self.assertEqual([resp.ask('CL.THROTTLE', 'hot', 0, 1, 3600, cost)[0] for _ in range(1)], [1])
                self.expect(weir, lambda told: len(told) == 3)
                self.assertEqual({(line['limit'], line['key'][0], line['cost'], line['node']) for line in lines(weir)},
                                 {('far', 'ada', 1, 'a'), ('own', 'bob', 1, 'a'), ('CL.THROTTLE', 'hot', cost, 'a')})

    def test_it_is_off_until_a_reload_asks_for_it_and_text_is_text(self):
        with Weir(LIMITS) as weir, Resp(weir.resp) as resp:
            def reload(text):
                reloads = weir.output().count('reloaded')
                weir.config.write_text(text, encoding='utf-8')
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda: weir.output().count('reloaded') > reloads, 'no reload is told')

            check(resp, 5, kind='api', user='ada')
            reload('log: { refusals: 1 }\ntop: { keys: off }\n' + LIMITS)
            wait_for(lambda: check(resp, 1, kind='api', user='ada') and ' info refused: ' in weir.output(), 'no line')
            [line, *_] = [line for line in weir.output().splitlines() if ' refused: ' in line]
            self.assertRegex(line, r'^\S+Z info refused: limit api, key null, hash [0-9a-f]{16}, cost 3, retry_after_ms \d+, '
                                   r'left out \d+$')
            reload(LIMITS)
            wait_for(lambda: top(weir) is not None, 'no answer')
            before = weir.output().count(' refused: ')
            reload('unmatched: refuse\n' + LIMITS)  # two looks and more lie between
            check(resp, 5, kind='api', user='ada')
            reload(LIMITS)
            self.assertLessEqual(weir.output().count(' refused: '), before + 1)


if __name__ == '__main__':
    unittest.main()
