#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bound that a verdict tells is the bound in force: with the failures that this node saw."""
import json
import unittest

from redis_server import Redis, wait_for
from test_restart import config, fill, mortal, start
from test_sharing import check, get, limit, metric

COUNT = 300


def bound(weir, name):
    """overshoot_max of a verdict, and whether the engine failed it."""
    told = check(weir, **{name: 'ada'})[1]['limits'][0]
    return told['overshoot_max'], 'fallback' in told


def in_force(weir):
    return {one['limit']: one['overshoot_max'] for one in json.loads(get(weir, '/v1/limits'))['limits']}


class Told(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.stop)

    def limits(self):
        return ''.join(limit(f'{sharing}-{policy}', f'{COUNT}/day', sharing=sharing, on_failure=policy,
                             key=f'[{sharing}-{policy}]', deadline='20ms',
                             **({'slack': 5} if sharing == 'batched' else {}))
                       for sharing in ('exact', 'leased', 'batched') for policy in ('local', 'open', 'closed'))

    def test_with_fallbacks_counted_in(self):
        names = [f'{sharing}-{policy}' for sharing in ('exact', 'leased', 'batched')
                 for policy in ('local', 'open', 'closed')]
        calm = {name: 3 * 5 + 5 if 'batched' in name else 0 for name in names}  # the start may have been a crash
        with start(config(self.redis.port, self.limits())) as weir:
            for name in names:
                wait_for(lambda name=name: not bound(weir, name)[1], 'the engine does not answer')
            told = in_force(weir), {name: bound(weir, name)[0] for name in names}
            if sum(metric(weir, f'weir_sharing_fallback_{policy}_total') for policy in ('local', 'open', 'closed')) == 0:
                self.assertEqual(told, (calm, calm))  # else the machine was too busy for it
            self.redis.pause()
            for name in names:
                wait_for(lambda name=name: check(weir, **{name: 'bob'})[1]['limits'][0].get('fallback'), 'no fallback')
            self.assert_bounds(weir, names, calm)
            self.redis.resume()
            for name in names:
                wait_for(lambda name=name: not bound(weir, name)[1], 'the engine does not answer')
            self.assert_bounds(weir, names, calm)  # nor does it forget when the engine is back

    def assert_bounds(self, weir, names, calm):
        told = in_force(weir)
        for name in names:
            with self.subTest(name):
                for now in (bound(weir, name)[0], told[name]):
                    if 'closed' in name:
                        self.assertEqual(now, calm[name])
                    elif 'open' in name:
                        self.assertIsNone(now)
                    else:
                        self.assertGreaterEqual(now, calm[name] + COUNT)
                        self.assertLess(now, calm[name] + COUNT + 10)

    def test_the_wait_told_is_no_longer_than_the_engine_may_be_away(self):
        """Not the share's own wait, hours of a quota: the engine may be back any moment."""
        with start(config(self.redis.port, limit('api', '5/day', sharing='exact', on_failure='local', key='[api]',
                                                 algorithm='fixed_window'))) as weir:
            wait_for(lambda: not bound(weir, 'api')[1], 'the engine does not answer')
            self.redis.pause()
            wait_for(lambda: check(weir, api='bob')[1]['limits'][0].get('fallback'), 'no fallback')
            status, told = check(weir, api='ada')[:2]
            self.assertEqual((status, told['limits'][0]['fallback'], told['remaining']), (429, 'local', 0))
            self.assertIn(told['retry_after_ms'], range(1, 1001))
            self.assertEqual(check(weir, cost=6, api='ada')[1]['retry_after_ms'], -1)  # never, engine or not
            self.redis.resume()
            wait_for(lambda: check(weir, api='ada')[1]['admitted'], 'the engine does not answer')

    def test_with_losses_counted_in(self):
        with start(config(self.redis.port, limit('api', f'{COUNT}/day', sharing='exact', on_failure='closed',
                                                 key='[api]'))) as weir:
            self.assertEqual(bound(weir, 'api')[0], 0)
            self.redis.ask('FLUSHALL')
            wait_for(lambda: bound(weir, 'api')[0] == COUNT, 'the loss is not told')

    def test_with_what_a_split_node_forgot(self):
        limits = limit('api', '90/hour', sharing='split', key='[api]') + limit('soon', '6/2s', sharing='split',
                                                                              key='[soon]')
        with mortal(start(config(self.redis.port, limits))) as weir:
            self.assertEqual(fill(weir, 'api', 'ada'), 30)
            weir.process.kill()
        with start(config(self.redis.port, limits)) as weir:
            self.assertEqual(fill(weir, 'api', 'ada'), 30)  # of 90 three such nodes admit 120
            self.assertEqual((bound(weir, 'api')[0], in_force(weir)['api']), (30, 30))
            wait_for(lambda: (bound(weir, 'soon')[0], in_force(weir)['soon']) == (0, 0), 'the start counts for ever')

    def test_with_the_largest_of_the_overrides(self):
        limits = limit('api', '10/day', sharing='exact', key='[api]', deadline='20ms',
                       overrides='[ { api: acme, rate: 50/day }, { api: small, rate: 5/day } ]')
        with start(config(self.redis.port, limits)) as weir:
            def told():
                return json.loads(get(weir, '/v1/limits'))['limits'][0]
            wait_for(lambda: not bound(weir, 'api')[1], 'the engine does not answer')
            if metric(weir, 'weir_sharing_fallback_local_total') == 0:
                self.assertEqual((told()['overshoot_max'], told().get('overshoot_of')), (0, None))
            self.redis.pause()
            wait_for(lambda: check(weir, api='acme')[1]['limits'][0].get('fallback'), 'no fallback')
            self.assertGreaterEqual(told()['overshoot_max'], 50)
            self.assertEqual(told()['overshoot_of'], 'override')


if __name__ == '__main__':
    unittest.main()
