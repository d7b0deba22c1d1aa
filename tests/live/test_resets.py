#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resets of single keys, as docs/exceptions.md has them: the key is fresh, once, on every node and in every way of sharing,
whichever hears first; what was admitted since is not forgotten; a ban or a level of the key goes on; and it is so after a
restart, also without the store."""
import json
import os
import random
import sqlite3
import subprocess
import time
import unittest

from page_blocks import blocks
from postgres_server import Postgres
from redis_server import wait_for
from rule_store_case import url
from test_exceptions import Banned, metric, wall_ns
from test_levels import AT_ENGINE, PLUS, Shared, limits, one
from test_rules_store import check, version
from weir_server import BUILD, Resp, Weir

YEARLY = {'rate': '10/year', 'algorithm': 'fixed_window'}
SECONDS = {'short': 4, 'soak': 120}.get(os.environ.get('WEIR_TEST_EFFORT'), 6)


def admitted(weir, user='ada'):
    """How many in a row."""
    count = 0
    while check(weir, user=user)[0] == 200:
        count += 1
    return count


DAY = 86400


def statements(table):
    """What docs/exceptions.md has of a table: to make the log shorter, and to make room for resets."""
    return [one.text for one in blocks() if one.page == 'exceptions.md' and one.text.startswith(f'DELETE FROM {table} ')]


class Room(Banned):
    """The page's way to make room, beside a node that follows."""

    def make_room(self, execute, statements, nodes):
        """A log of resets of which some are old, the newest one too, and of bans that say nothing any more."""
        for user, age in (('ada', 50), ('bob', 50), ('eve', 39), ('ada', 45), ('bob', 1), ('joe', 60)):
            answer = self.store.ask('except', 'reset', user, 0, wall_ns(-age * DAY), '-')
            self.assertEqual(answer['status'], 'OK', answer)
        for kind in ('ban', 'unban', 'ban'):
            self.followed(self.except_(self.store, kind, 'ada'), *nodes)
        last = self.except_(self.store, 'reset', 'old')
        self.followed(last, *nodes)
        for statement, left in zip(statements, ([3, 4, 5, 6, 9, 10], [3, 5, 9, 10])):
            execute(statement)
            self.assertEqual(self.numbers(), left)
            self.followed(last, *nodes)  # what it knew is still there
        number = self.except_(self.store, 'reset', 'new')
        self.assertEqual(number, 11)
        self.followed(number, *nodes)
        for node in nodes:
            self.assertEqual(metric(node, 'weir_exceptions{kind="reset"}'), 6)  # those of before it was restarted
            self.assertEqual(check(node)[0], 429)

    def numbers(self):
        done = subprocess.run([str(BUILD / 'weir'), 'rules', 'exceptions', '--config', self.config_file(), '--all', '--json'],
                              check=True, capture_output=True)
        return sorted(told['change'] for told in json.loads(done.stdout))

    def config_file(self):
        path = self.folder / 'weir.yaml'
        path.write_text(self.config(self.spec), encoding='utf-8')
        return str(path)

    def serves_after(self):
        """A node that was restarted."""
        weir = Weir(self.config(self.spec))
        self.addCleanup(weir.stop)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="reset"}'), 4)
        self.assertEqual((check(weir)[0], check(weir, user='eve')[0]), (429, 200))

    def test_in_sqlite(self):
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)
        self.store.appended(0, limits(YEARLY))
        weir = Weir(self.config(self.spec))
        self.addCleanup(weir.stop)
        database = sqlite3.connect(self.folder / 'rules.db', isolation_level=None)
        self.addCleanup(database.close)
        self.make_room(database.execute, statements('exceptions'), [weir])
        self.serves_after()

    def test_in_postgres(self):
        server = Postgres()
        self.addCleanup(server.stop)
        self.spec = url(server)
        self.store = self.drive(self.spec)
        self.store.appended(0, limits(YEARLY))
        weir = Weir(self.config(self.spec))
        self.addCleanup(weir.stop)
        self.make_room(server.sql, statements('weir_rules_exceptions'), [weir])
        self.serves_after()


class InSqlite(Banned):
    def setUp(self):
        super().setUp()
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)
        self.version = 0

    def apply(self, text):
        self.store.appended(self.version, text)
        self.version += 1

    def serve(self, rules, **options):
        self.apply(rules)
        weir = Weir(self.config(self.spec, **options))
        self.addCleanup(weir.stop)
        return weir

    def make(self, weir, kind, user='ada', seconds=0):
        self.followed(self.except_(self.store, kind, user, seconds), weir)

    def test_what_was_used_is_forgotten_once(self):
        weir = self.serve(limits(YEARLY))
        self.assertEqual([admitted(weir), admitted(weir, 'bob')], [10, 10])
        self.make(weir, 'reset')
        with Resp(weir.resp) as resp:
            self.assertEqual(resp.ask('WEIR.PEEK', 1, 'user', 'ada')[:4], [1, b'api', 10, 10])
            self.assertEqual(check(weir, 4)[1]['remaining'], 6)
            self.assertEqual(resp.ask('WEIR.PEEK', 1, 'user', 'ada')[:4], [1, b'api', 10, 6])
            self.assertEqual(resp.ask('WEIR.REFUND', 1, 'user', 'ada'), [[b'api', 1]])  # to where it was charged
            self.assertEqual(check(weir, 0)[1]['remaining'], 7)
        self.assertEqual([admitted(weir), admitted(weir, 'bob')], [7, 0])
        self.assertEqual([metric(weir, f'weir_exceptions{{kind="{kind}"}}') for kind in ('ban', 'level', 'reset')], [0, 0, 1])
        self.make(weir, 'reset')
        self.assertEqual(admitted(weir), 10)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="reset"}'), 1)

    def test_the_same_words_again_and_again(self):
        """What the last request met is remembered; not where it was counted."""
        weir = self.serve(limits({'rate': '10/year', 'algorithm': 'fixed_window'}))
        for _ in range(4):
            self.assertEqual([check(weir)[1]['remaining'] for _ in range(10)], list(range(9, -1, -1)))
            self.assertEqual(check(weir)[0], 429)
            self.make(weir, 'reset')

    def test_a_ban_goes_on(self):
        weir = self.serve(limits(dict(YEARLY, levels=PLUS)))
        self.assertEqual(admitted(weir), 10)
        self.make(weir, 'ban')
        self.make(weir, 'reset')
        status, told = check(weir)
        self.assertEqual((status, told.get('banned')), (429, True))
        self.assertEqual([metric(weir, f'weir_exceptions{{kind="{kind}"}}') for kind in ('ban', 'reset')], [1, 1])
        self.make(weir, 'unban')
        self.assertEqual(admitted(weir), 10)  # which the reset outlived
        self.assertEqual(metric(weir, 'weir_exceptions{kind="reset"}'), 1)

    def test_a_level_counts_at_the_new_counter(self):
        weir = self.serve(limits(dict(YEARLY, levels={'plus': {'rate': '30/year'}})))
        self.assertEqual(admitted(weir), 10)
        self.make(weir, 'plus')
        self.make(weir, 'reset')
        self.assertEqual((admitted(weir), one(weir)), (30, ('plus', 30)))
        self.make(weir, 'unban')
        self.assertEqual(check(weir)[0], 429)  # what the level admitted stays used
        self.make(weir, 'reset')
        self.assertEqual((admitted(weir), one(weir)), (10, (None, 10)))

    def test_a_level_of_a_limit_that_is_off(self):
        weir = self.serve(limits(dict(YEARLY, mode='off', levels={'on': {'mode': 'enforce'}}),
                                 {'name': 'last', 'key': [], 'rate': '1000/year'}))
        self.make(weir, 'on')
        self.assertEqual(admitted(weir), 10)
        self.make(weir, 'reset')
        self.assertEqual(admitted(weir), 10)
        self.make(weir, 'unban')
        self.assertEqual([told['limit'] for told in check(weir)[1]['limits']], ['last'])

    def test_a_limit_that_is_permits_on_some_nodes(self):
        """The rate's nodes count anew at once; the others when their limit is a rate again."""
        more = 'cluster: { nodes: [a, b] }\n'
        permits = {'rate': '10', 'algorithm': 'concurrency', 'lease': '1hour'}
        for user, everywhere, on_a, before, after in (('ada', YEARLY, permits, [0, 10], [10, 0]),
                                                      ('bob', permits, YEARLY, [10, 0], [0, 10])):
            def ask(nodes, user=user):
                return [admitted(node, user) for node in nodes]
            reset = [str(BUILD / 'weir'), 'rules', 'reset', '--config', self.config_file(), '--comment', 'x', 'api',
                     f'user={user}']
            self.apply(limits(everywhere))
            nodes = [Weir(self.config(self.spec, more=more), arguments=('--node', name)) for name in 'ab']
            for node in nodes:
                self.addCleanup(node.stop)
            self.assertEqual(ask(nodes), [10, 10])
            if everywhere is permits:
                done = subprocess.run(reset, capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, 'gives permits, which are not reset' in done.stderr), (2, True))
            self.apply(limits(on_a)[:-1] + ',"nodes":["a"]}')
            wait_for(lambda nodes=nodes: version(nodes[0]) == self.version, 'the version for a is not in force', 60)
            self.assertEqual(ask(nodes), [0, 0])  # what is used is out, and the other way round
            subprocess.run(reset, check=True)
            self.followed(1 if user == 'ada' else 2, *nodes)
            self.assertEqual(ask(nodes), before)
            self.apply(limits(YEARLY))
            wait_for(lambda nodes=nodes: {version(node) for node in nodes} == {self.version}, 'not followed', 60)
            self.assertEqual(ask(nodes), after)
            for node in nodes:
                node.stop()

    def test_a_limit_without_a_key(self):
        weir = self.serve(limits(dict(YEARLY, key=[])))
        self.assertEqual(admitted(weir), 10)
        subprocess.run([str(BUILD / 'weir'), 'rules', 'reset', '--config', self.config_file(), '--comment', 'x', 'api'], check=True)
        self.followed(1, weir)
        self.assertEqual(admitted(weir), 10)

    def test_the_counter_of_requests_that_lack_an_attribute(self):
        """Which belongs to no value: neither to the empty one, nor to one that looks as it does in the store."""
        weir = self.serve(limits(dict(YEARLY, key=['user', 'route'], missing='share')))
        asked = [{}, {'route': 'x'}, {'user': 'ada'}, {'user': '', 'route': 'x'}, {'user': 'ada', 'route': 'x'},
                 {'user': '!user', 'route': 'x'}, {'user': '', 'route': ''}]

        def fresh():
            """Which of them had more than it had used; all of it is used then."""
            found = []
            with Resp(weir.resp) as resp:
                for attributes in asked:
                    words = [word for pair in attributes.items() for word in pair]
                    while resp.ask('WEIR.CHECK', 1, *words)[0] == 1:
                        found += [attributes] if attributes not in found else []
            return found

        def reset(*words):
            subprocess.run([str(BUILD / 'weir'), 'rules', 'reset', '--config', self.config_file(), '--comment', 'x', 'api',
                            *words], check=True)

        self.assertEqual(fresh(), asked)
        for number, attributes in enumerate(asked, 1):
            reset(*(f'{name}={attributes[name]}' if name in attributes else name for name in ('user', 'route')))
            self.followed(number, weir)
            self.assertEqual(fresh(), [attributes])
        weir.stop()
        self.assertEqual(len(asked), metric(self.serve_again(), 'weir_exceptions{kind="reset"}'))

    def serve_again(self):
        weir = Weir(self.config(self.spec))
        self.addCleanup(weir.stop)
        return weir

    def config_file(self):
        path = self.folder / 'weir.yaml'
        path.write_text(self.config(self.spec), encoding='utf-8')
        return str(path)

    def test_a_new_version_keeps_the_counter(self):
        weir = self.serve(limits(YEARLY))
        self.assertEqual(admitted(weir), 10)
        self.make(weir, 'reset')
        self.assertEqual(check(weir, 4)[0], 200)
        self.apply(limits(dict(YEARLY, rate='12/year')))
        wait_for(lambda: one(weir) == (None, 12), 'the new version', 60)
        self.assertEqual(admitted(weir), 6)  # a raise is felt as units come back: on_change: keep
        self.apply(limits(dict(YEARLY, rate='14/year', on_change='reset')))
        wait_for(lambda: one(weir) == (None, 14), 'the new version', 60)
        self.assertEqual(admitted(weir), 14)

    def test_permits_are_not_reset(self):
        """Also where the limit became one of permits after the reset."""
        weir = self.serve(limits(YEARLY))
        self.make(weir, 'reset')
        self.apply(limits({'rate': 2, 'algorithm': 'concurrency', 'lease': '1hour'}))
        wait_for(lambda: one(weir) == (None, 2), 'the new version', 60)
        permits = [check(weir)[1]['permit'] for _ in range(2)]
        self.make(weir, 'reset')
        self.assertEqual(check(weir)[0], 429)
        with Resp(weir.resp) as resp:
            self.assertEqual([resp.ask('WEIR.RELEASE', permit) for permit in permits], [1, 1])
        self.assertEqual([check(weir)[0] for _ in range(3)], [200, 200, 429])

    def test_the_store_went_back(self):
        """To a backup from before it: the former counter is used again. One that is made then is another one, whatever
        its number."""
        weir = self.serve(limits(YEARLY))
        self.assertEqual(admitted(weir), 10)
        self.except_(self.store, 'ban', 'bob')
        self.make(weir, 'reset')
        self.assertEqual(admitted(weir), 10)
        with sqlite3.connect(self.folder / 'rules.db') as database:
            database.execute('DELETE FROM exceptions WHERE number = 2')
        database.close()
        wait_for(lambda: metric(weir, 'weir_exceptions{kind="reset"}') == 0, 'what is there now', 60)
        self.assertEqual(admitted(weir), 0)
        self.assertEqual(self.except_(self.store, 'reset', 'ada'), 2)
        wait_for(lambda: metric(weir, 'weir_exceptions{kind="reset"}') == 1, 'what is there now', 60)
        self.assertEqual(admitted(weir), 10)

    def test_it_is_fast_where_many_were_reset(self):
        weir = self.serve(limits(YEARLY))
        for user in range(300):
            self.except_(self.store, 'reset', f'u{user}')
        self.make(weir, 'reset')
        self.assertEqual([admitted(weir, user) for user in ('u0', 'u299', 'ada', 'other')], [10] * 4)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="reset"}'), 301)


class Restarted(Banned):
    """Used units lie in an engine, so that a node which forgot a reset would find those of before it."""
    engine = Shared.engine

    def test_a_start_without_the_store_has_it(self):
        spec, kept = f'sqlite:{self.folder}/rules.db', self.folder / 'kept'
        store = self.drive(spec)
        store.appended(0, limits(dict(YEARLY, sharing='exact', **AT_ENGINE)))
        more = self.engine()

        def start():
            weir = Weir(self.config(spec, kept=kept, more=more), arguments=('--node', 'a'))
            self.addCleanup(weir.stop)
            return weir

        weir = start()
        self.assertEqual(check(weir, 6)[0], 200)  # 4 are left there
        self.except_(store, 'ban', 'bob')
        self.followed(self.except_(store, 'reset', 'ada'), weir)
        self.assertEqual(check(weir, 9)[0], 200)
        weir.stop()
        weir = start()  # with the store
        self.assertEqual(check(weir, 0)[1]['remaining'], 1)
        weir.stop()
        store.close()
        for path in self.folder.glob('rules.db*'):
            path.rename(path.with_name('away-' + path.name))
        weir = start()
        wait_for(lambda: '2 exceptions go on, up to change 2' in weir.output(), 'the log', 60)
        self.assertEqual(check(weir, user='bob')[0], 429)
        self.assertEqual(admitted(weir), 1)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="reset"}'), 1)


class OfTwoNodes(Shared):
    """20 in a year, at two nodes that share them."""
    def reset(self, *nodes, user='ada'):
        self.followed(self.except_(self.store, 'reset', user), *(nodes or self.nodes))

    def run_through(self, slack=0, least=1.0, shares=1):
        del shares
        self.expect('ada', 20, slack, least)
        self.reset()
        self.expect('ada', 20, slack, least)
        self.level('plus')
        self.reset()
        self.expect('ada', 60, slack, least)
        self.level('unban')
        self.assertEqual(self.until_both_refuse(patience_s=1), 0)
        self.under_way(slack)

    def under_way(self, slack):
        """Resets while it is asked for, at both nodes, which follow when they do: for each, one fresh counter more."""
        total, made = 0, 0
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if self.random.randrange(40) == 0:
                self.except_(self.store, 'reset', 'eve')
                made += 1
            for node in self.nodes:
                total += sum(check(node, user='eve')[0] == 200 for _ in range(self.random.randrange(6)))
        self.reset(user='eve')
        total += self.until_both_refuse('eve')
        most = 20 * (made + 2)
        print(f'eve: {total} of {most} at the most after {made + 1} resets, {slack} more each may be')
        self.assertLessEqual(total, most + slack * (made + 2))
        self.assertGreater(total, 40)


class OneIsLate(Banned):
    """A node that has not heard of it counts at the counter of before for that long, and nothing beyond."""
    engine = Shared.engine

    def test_what_the_bound_says(self):
        spec = f'sqlite:{self.folder}/rules.db'
        store = self.drive(spec)
        store.appended(0, limits(dict(YEARLY, rate='20/year', sharing='exact', **AT_ENGINE)))
        more, nodes = self.engine(), []
        for name, poll in (('a', '50ms'), ('b', '20s')):
            config = self.config(spec, more=more).replace('rules: {', f'rules: {{ poll: {poll},')
            nodes.append(Weir(config, arguments=('--node', name)))
            self.addCleanup(nodes[-1].stop)
        prompt, late = nodes
        self.assertEqual(check(prompt, 5)[0], 200)  # the counter of before has 15 left
        self.followed(self.except_(store, 'reset', 'ada'), prompt)
        self.assertEqual(admitted(prompt), 20)
        self.assertEqual(metric(late, 'weir_exceptions_change'), 0)
        self.assertEqual(check(late, 0)[1]['remaining'], 15)
        self.assertEqual(check(late, 9)[0], 200)
        self.followed(1, late)
        self.assertEqual([check(node)[0] for node in nodes], [429, 429])  # 6 of the former are not admitted any more
        self.assertEqual([check(node, 0)[1]['remaining'] for node in nodes], [0, 0])


class InPostgres(Banned):
    def test_both_nodes_follow(self):
        server = Postgres()
        self.addCleanup(server.stop)
        spec = url(server)
        store = self.drive(spec)
        store.appended(0, limits(dict(YEARLY, sharing='split')))
        nodes = [Weir(self.config(spec, more='cluster: { nodes: [a, b] }\n'), arguments=('--node', name)) for name in 'ab']
        for node in nodes:
            self.addCleanup(node.stop)
        self.assertEqual([admitted(node) for node in nodes], [5, 5])
        self.followed(self.except_(store, 'reset', 'ada'), *nodes)
        self.assertEqual([admitted(node) for node in nodes], [5, 5])
        self.followed(self.except_(store, 'reset', 'bob'), *nodes)
        self.assertEqual([admitted(node) for node in nodes], [0, 0])
        self.except_(store, 'ban', 'ada')
        path = self.folder / 'weir.yaml'
        path.write_text(self.config(spec), encoding='utf-8')
        listed = subprocess.run([str(BUILD / 'weir'), 'rules', 'exceptions', '--config', str(path), '--json', 'api', 'user=ada'],
                                check=True, capture_output=True).stdout
        self.assertEqual([(told['change'], told['what']) for told in json.loads(listed)], [(3, 'ban'), (1, 'reset')])


del Shared

if __name__ == '__main__':
    unittest.main(verbosity=2)
