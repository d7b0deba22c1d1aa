#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Levels of single keys, as docs/exceptions.md has them: what decides is the level, whatever else the limit has; a key keeps
what it has used when its level comes or goes; nodes that share the limit decide by it in every way of sharing; they end when
they say, and are there again after a restart, also without the store."""
import concurrent.futures
import json
import os
import random
import time
import unittest

import test_rules_rollout_load as load
from ports import free_ports
from redis_server import Redis, wait_for
from test_exceptions import YEAR, Banned, metric, wall_ns
from test_rules_store import check, in_force
from weir_server import Resp, Weir

SECONDS = {'short': 5, 'soak': 120}.get(os.environ.get('WEIR_TEST_EFFORT'), 8)
KEYED = {'name': 'api', 'key': ['user']}
AT_ENGINE = {'on_failure': 'closed', 'deadline': '10s'}
PLUS = {'plus': {'rate': '30/day'}}


def limits(*texts):
    return json.dumps({'limits': [dict(KEYED, **text) for text in texts]}, separators=(',', ':'))


def one(weir, user='ada', cost=0):
    """What is told of the only limit that is met."""
    told = check(weir, cost, user)[1]['limits']
    return (told[0].get('level'), told[0]['capacity']) if told else None


class InSqlite(Banned):
    def setUp(self):
        super().setUp()
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)

    def serve(self, rules, **options):
        self.version = getattr(self, 'version', 0)
        self.store.appended(self.version, rules)
        self.version += 1
        weir = Weir(self.config(self.spec, **options))
        self.addCleanup(weir.stop)
        return weir

    def level(self, weir, kind, user='ada', seconds=0):
        self.followed(self.except_(self.store, kind, user, seconds), weir)

    def test_it_decides_and_what_was_used_stays_used(self):
        weir = self.serve(limits({'rate': '10/year', 'algorithm': 'fixed_window',
                                  'levels': {'plus': {'rate': '30/year'}, 'low': {'rate': '4/year'}}}))
        self.assertEqual([check(weir)[0] for _ in range(11)], 10 * [200] + [429])
        self.level(weir, 'plus')
        status, told = check(weir, 5)  # a raise is felt at once
        self.assertEqual((status, told['limits'][0]['level'], told['remaining']), (200, 'plus', 15))
        self.assertEqual(one(weir, 'bob'), (None, 10))
        with Resp(weir.resp) as resp:
            self.assertEqual(resp.ask('WEIR.PEEK', 1, 'user', 'ada')[:4], [1, b'api', 30, 15])
            self.assertEqual(resp.ask('WEIR.REFUND', 1, 'user', 'ada'), [[b'api', 1]])
        self.assertEqual(check(weir)[1]['remaining'], 15)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="level"}'), 1)
        self.level(weir, 'ban')
        status, told = check(weir)
        self.assertEqual((status, told.get('banned')), (429, True))
        self.assertEqual([metric(weir, f'weir_exceptions{{kind="{kind}"}}') for kind in ('ban', 'level')], [1, 0])
        self.level(weir, 'plus')  # takes its place
        self.assertEqual(check(weir)[1]['remaining'], 14)
        self.level(weir, 'low')
        self.assertEqual((check(weir)[0], one(weir)), (429, ('low', 4)))
        self.level(weir, 'unban')
        self.assertEqual((check(weir)[0], one(weir)), (429, (None, 10)))
        self.level(weir, 'plus')
        self.assertEqual(check(weir)[1]['remaining'], 13)  # nothing is lost on the way

    def test_it_beats_overrides_and_a_rollout(self):
        weir = self.serve(limits({'rate': '10/day', 'levels': dict(PLUS, off={'mode': 'off'}), 'rollout': {'percent': 100, 'rate': '15/day'},
                                  'overrides': [{'user': 'ada', 'rate': '20/day'}]}))
        self.assertEqual([one(weir), one(weir, 'bob')], [(None, 20), (None, 15)])
        self.level(weir, 'plus')
        self.level(weir, 'plus', 'bob')
        self.assertEqual([one(weir), one(weir, 'bob')], [('plus', 30), ('plus', 30)])
        self.level(weir, 'off')
        self.assertEqual((check(weir, 1000)[0], one(weir)), (200, None))  # not even more than it ever admits
        self.level(weir, 'unban')
        self.assertEqual(one(weir), (None, 20))

    def test_it_enforces_where_the_limit_does_not(self):
        weir = self.serve(limits({'name': 'first', 'key': [], 'rate': '100/day'},
                                 {'rate': '2/day', 'mode': 'off', 'levels': {'on': {'mode': 'enforce'}, 'idle': {'burst': 1}}},
                                 {'name': 'last', 'key': [], 'rate': '100/day'}))
        self.assertEqual([told['limit'] for told in check(weir)[1]['limits']], ['first', 'last'])
        self.level(weir, 'on')
        self.assertEqual([(told['limit'], told.get('level')) for told in check(weir)[1]['limits']],
                         [('first', None), ('api', 'on'), ('last', None)])
        self.assertEqual([check(weir)[0] for _ in range(2)], [200, 429])
        self.assertEqual(check(weir, user='bob')[0], 200)
        self.level(weir, 'idle')
        self.assertEqual([told['limit'] for told in check(weir)[1]['limits']], ['first', 'last'])

    def test_the_same_words_again_and_again(self):
        """What the last request met is remembered; not whose level it was."""
        weir = self.serve(limits({'rate': '10/day', 'levels': PLUS}))
        for _ in range(3):
            self.level(weir, 'plus')
            self.assertEqual({one(weir) for _ in range(20)}, {('plus', 30)})
            self.level(weir, 'unban')
            self.assertEqual({one(weir) for _ in range(20)}, {(None, 10)})

    def test_permits_stay_out_when_the_level_of_their_key_changes(self):
        weir = self.serve(limits({'rate': 2, 'algorithm': 'concurrency', 'lease': '1hour', 'levels': {'plus': {'rate': 4}}}))
        permits = [check(weir)[1]['permit'] for _ in range(2)]
        self.assertEqual(check(weir)[0], 429)
        self.level(weir, 'plus')
        permits += [check(weir)[1]['permit'] for _ in range(2)]
        self.assertEqual((check(weir)[0], one(weir)), (429, ('plus', 4)))
        self.level(weir, 'unban')
        with Resp(weir.resp) as resp:
            self.assertEqual([resp.ask('WEIR.RELEASE', permit) for permit in permits[:2]], [1, 1])
            self.assertEqual(check(weir)[0], 429)  # two are out
            self.assertEqual([resp.ask('WEIR.RELEASE', permit) for permit in permits], [0, 0, 1, 1])
        self.assertEqual([check(weir)[0] for _ in range(3)], [200, 200, 429])

    def test_turns_of_a_queue_go_on(self):
        weir = self.serve(limits({'rate': '20/s', 'burst': 3, 'algorithm': 'leaky_bucket', 'throttle': 'hold',
                                  'levels': {'plus': {'burst': 6}, 'off': {'mode': 'off'}}}))
        for kind, least, told in (('plus', 6, ('plus', 6)), ('unban', 3, (None, 3)), ('off', 12, None),
                                  ('unban', 3, (None, 3))):
            self.level(weir, kind)
            self.assertEqual(one(weir), told)
            time.sleep(0.4)  # the queue is empty
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                admitted = [status for status, _ in pool.map(lambda _: check(weir), range(12))].count(200)
            self.assertGreaterEqual(admitted, least, kind)

    def test_it_ends_by_itself(self):
        weir = self.serve(limits({'rate': '10/day', 'levels': PLUS}))
        self.level(weir, 'plus', seconds=0.5)
        wait_for(lambda: one(weir) == (None, 10), 'the end of the level', 60)

    def test_one_that_the_limit_does_not_have_does_nothing(self):
        weir = self.serve(limits({'rate': '10/day', 'levels': PLUS}))
        self.level(weir, 'other')
        self.assertEqual((check(weir)[0], one(weir)), (200, (None, 10)))
        wait_for(lambda: 'exceptions_level_begun' in weir.output(), 'the log', 60)
        self.assertEqual(weir.output().count('exceptions_level'), 1)
        self.store.appended(1, limits({'rate': '10/day', 'levels': {'other': {'rate': '5/day'}}}))
        wait_for(lambda: one(weir) == ('other', 5), 'the new version', 60)

    def test_what_is_in_force_says_which_there_are(self):
        weir = self.serve(limits({'rate': '10/day', 'levels': dict(PLUS, no={'mode': 'off'})}))
        told = in_force(weir)['limits'][0]
        self.assertEqual((told['overrides'], told['levels']),
                         (0, [{'level': 'plus', 'mode': 'enforce', 'rate': '30/day', 'capacity': 30},
                              {'level': 'no', 'mode': 'off', 'rate': '10/day', 'capacity': 10}]))

    def test_a_start_without_the_store_has_those_that_are_kept(self):
        kept = self.folder / 'kept'
        text = limits({'rate': '10/day', 'levels': dict(PLUS, low={'rate': '2/day'})})
        weir = self.serve(text, kept=kept)
        self.except_(self.store, 'low', 'eve', YEAR)
        self.except_(self.store, 'ban', 'bob')
        self.level(weir, 'plus')
        weir.stop()
        self.store.close()
        for path in self.folder.glob('rules.db*'):
            path.rename(path.with_name('away-' + path.name))
        weir = Weir(self.config(self.spec, kept=kept))
        self.addCleanup(weir.stop)
        wait_for(lambda: '3 exceptions go on, up to change 3' in weir.output(), 'the log', 60)
        self.assertEqual([one(weir), one(weir, 'eve'), one(weir, 'joe')], [('plus', 30), ('low', 2), (None, 10)])
        self.assertEqual(check(weir, user='bob')[0], 429)


class Shared(Banned):
    """Two nodes that share the limit, with one store in SQLite."""
    def setUp(self):
        super().setUp()
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)
        seed = int(os.environ.get('WEIR_SEED', random.randrange(2**32)))
        self.random = random.Random(seed)
        print(f'WEIR_SEED={seed}')

    def serve(self, sharing, more):
        self.store.appended(0, limits(dict(
            sharing, rate='20/year', algorithm='fixed_window',
            levels={'plus': {'rate': '60/year'}, 'low': {'rate': '8/year'}, 'off': {'mode': 'off'}})))
        self.nodes = [Weir(self.config(self.spec, more=more), arguments=('--node', name)) for name in 'ab']
        for node in self.nodes:
            self.addCleanup(node.stop)

    def level(self, kind, user='ada'):
        self.followed(self.except_(self.store, kind, user), *self.nodes)

    def until_both_refuse(self, user='ada', patience_s=3):
        """How many were admitted; what one node holds, or has not heard of, may come to the other after a while."""
        admitted, refused_since = 0, None
        while refused_since is None or time.monotonic() - refused_since < patience_s:
            yes = sum(check(node, user=user)[0] == 200 for node in self.nodes)
            admitted += yes
            refused_since = None if yes else refused_since or time.monotonic()
            if not yes:
                time.sleep(0.05)
        return admitted

    def expect(self, user, most, slack, least):
        admitted = self.until_both_refuse(user)
        print(f'{user}: {admitted} of {most}, {slack} more may be')
        self.assertLessEqual(admitted, most + slack)
        self.assertGreaterEqual(admitted, least * most - slack)

    def run_through(self, slack=0, least=1.0, shares=1):
        self.level('plus')
        self.level('low', 'bob')
        self.assertEqual({one(node) for node in self.nodes}, {('plus', 60 // shares)})
        for user, most in (('ada', 60), ('bob', 8), ('joe', 20)):
            self.expect(user, most, slack, least)
        self.level('low')
        self.assertEqual({one(node) for node in self.nodes}, {('low', 8 // shares)})
        self.assertEqual(self.until_both_refuse(patience_s=1), 0)
        self.level('off')
        self.assertEqual([check(node, 1000)[0] for node in self.nodes], [200, 200])
        self.level('unban')
        self.assertEqual({one(node) for node in self.nodes}, {(None, 20 // shares)})
        self.assertEqual(self.until_both_refuse(patience_s=1), 0)
        self.level('plus', 'joe')  # who has used up the lower numbers, and feels it at once
        admitted = self.until_both_refuse('joe')
        self.assertLessEqual(admitted, 40 + slack)
        self.assertGreaterEqual(admitted, least * 40 - 2 * slack)
        self.alternate(slack)

    def alternate(self, slack):
        """However often its level changes, a key gets no more than the largest one gives."""
        admitted = 0
        for _ in range(30):
            self.store.ask('except', self.random.choice(('plus', 'plus', 'low', 'unban')), 'eve', 0, wall_ns(0), '-')
            for node in self.nodes:
                admitted += sum(check(node, user='eve')[0] == 200 for _ in range(self.random.randrange(6)))
        self.level('plus', 'eve')
        admitted += self.until_both_refuse('eve')
        print(f'eve: {admitted} of 60 at the most, {slack} more may be')
        self.assertLessEqual(admitted, 60 + slack)

    def engine(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        return ('cluster: { nodes: [ a, b ] }\ncluster_secret: 000102030405060708090a0b0c0d0e0f\n'
                f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\n')

    def test_exact(self):
        self.serve({'sharing': 'exact', **AT_ENGINE}, self.engine())
        self.run_through()

    def test_leased(self):
        self.serve({'sharing': 'leased', 'chunk_ttl': '1s', **AT_ENGINE}, self.engine())
        self.run_through(least=0.5)  # what is forfeited is not used

    def test_batched(self):
        self.serve({'sharing': 'batched', 'slack': 2, **AT_ENGINE}, self.engine())
        self.run_through(slack=4)

    def test_split(self):
        self.serve({'sharing': 'split'}, 'cluster: { nodes: [ a, b ] }\n')
        self.run_through(shares=2)

    def test_gossip(self):
        ports = free_ports(2)
        nodes = ', '.join(f'{{ name: {name}, gossip: "127.0.0.1:{port}" }}' for name, port in zip('ab', ports))
        self.serve({'sharing': 'gossip', 'slack': 2}, f'cluster: {{ nodes: [ {nodes} ] }}\n'
                                       'cluster_secret: 000102030405060708090a0b0c0d0e0f\n')
        self.run_through(slack=4, least=0.9)


class UnderLoad(Banned):
    """Levels of 200 keys come and go while each is asked for again and again: none gets more than a bucket with the larger
    rate and the larger burst gives, over all nodes that share the limit, and none waits longer than it can owe."""
    judge = load.Rollout.judge

    def run_with(self, names, more):
        seed = int(os.environ.get('WEIR_SEED', random.randrange(2**32)))
        choose = random.Random(seed)
        print(f'WEIR_SEED={seed}')
        spec = f'sqlite:{self.folder}/rules.db'
        store = self.drive(spec)
        (rate, burst), (more_rate, more_burst) = load.SMALL, load.LARGE
        shared = AT_ENGINE if more else {}
        store.appended(0, limits(dict(shared, rate=f'{rate}/s', burst=burst,
                                      levels={'plus': {'rate': f'{more_rate}/s', 'burst': more_burst}})))
        nodes = [Weir(self.config(spec, more=more), arguments=('--node', name) if name else ()) for name in names]
        for node in nodes:
            self.addCleanup(node.stop)
        self.loads = [load.Load(node) for node in nodes for _ in range(2)]
        try:
            until, changes = time.monotonic() + SECONDS, 0
            while time.monotonic() < until:
                kind = choose.choice(('plus', 'unban'))
                user = f'user-{choose.randrange(load.KEYS)}'
                changes += store.ask('except', kind, user, 0, wall_ns(0), '-')['status'] == 'OK'
            self.assertGreater(changes, load.KEYS)
            print(f'{changes} changes')
        finally:
            for one_load in self.loads:
                one_load.end()
        self.judge()

    def test_one_node(self):
        self.run_with(('',), '')

    def test_two_nodes_that_share_it(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        self.run_with('ab', 'cluster: { nodes: [ a, b ] }\ncluster_secret: 000102030405060708090a0b0c0d0e0f\n'
                            f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\n')


if __name__ == '__main__':
    unittest.main(verbosity=2)
