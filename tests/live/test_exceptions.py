#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bans of single keys, as docs/exceptions.md has them: made at one place they are enforced by every node, told as what
they are, charge nothing, end when they say, and are there again after a restart, also without the store."""
import json
import re
import sqlite3
import time
import unittest

from postgres_server import Postgres
from redis_server import wait_for
from rule_store_case import url
from test_rules_store import Case, check, get, rules
from weir_server import Resp, Weir

YEAR = 366 * 86400


def wall_ns(seconds):
    return int((time.time() + seconds) * 1e9)


def metric(weir, name):
    found = re.search(rf'^{re.escape(name)} (\d+)$', get(weir, '/metrics'), re.MULTILINE)
    return int(found[1]) if found else None


class Banned(Case):
    def except_(self, store, kind, user, seconds=0):
        """Until it is stored; its number."""
        until = wall_ns(seconds) if seconds else 0
        answer = store.ask('except', kind, user, until, wall_ns(0), '-')
        self.assertEqual(answer['status'], 'OK', answer)
        return answer['own']

    def followed(self, number, *nodes):
        for node in nodes:
            wait_for(lambda node=node: metric(node, 'weir_exceptions_change') == number,
                     f'a node follows change {number}', 60)


class InSqlite(Banned):
    def setUp(self):
        super().setUp()
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)
        self.store.appended(0, rules('10/day'))

    def serve(self, **options):
        weir = Weir(self.config(self.spec, **options))
        self.addCleanup(weir.stop)
        return weir

    def test_who_is_banned_is_refused_and_charged_nothing(self):
        weir = self.serve(more='log: { refusals: 20 }\ntop: { keys: text }\n')
        self.assertEqual(check(weir)[1]['remaining'], 9)
        self.followed(self.except_(self.store, 'ban', 'ada'), weir)
        status, told = check(weir)
        self.assertEqual((status, told['admitted'], told['banned'], told['limit'], told['retry_after_ms']),
                         (429, False, True, 'api', -1), told)
        self.assertIn('banned', told['detail'])
        self.assertEqual(check(weir, user='bob')[0], 200)
        self.assertEqual(check(weir, cost=0)[0], 200)  # what costs nothing is not refused
        with Resp(weir.resp) as resp:
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'user', 'ada')[:5], [0, b'api', 10, 0, -1])
            self.assertEqual(resp.ask('WEIR.PEEK', 1, 'user', 'ada')[0], 0)
        decisions = 'weir_decisions_total{limit="api",verdict="%s"}'
        self.assertEqual(metric(weir, decisions % 'banned'), 2)  # a peek is none
        self.assertEqual(metric(weir, decisions % 'refused'), 0)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="ban"}'), 1)
        wait_for(lambda: ', banned' in weir.output(), 'the line of a refusal', 60)
        self.assertIn('["ada"]', weir.output())
        self.followed(self.except_(self.store, 'unban', 'ada'), weir)
        status, told = check(weir)
        self.assertEqual((status, told['remaining']), (200, 8))  # used units are as they were
        self.assertNotIn('banned', told)
        self.assertEqual(metric(weir, 'weir_exceptions{kind="ban"}'), 0)

    def test_a_ban_ends_by_itself(self):
        weir = self.serve()
        self.followed(self.except_(self.store, 'ban', 'ada', YEAR), weir)
        status, told = check(weir)
        self.assertEqual(status, 429)
        self.assertTrue(0 < told['retry_after_ms'] <= YEAR * 1000)
        self.followed(self.except_(self.store, 'ban', 'ada', 0.3), weir)  # the newest decides
        wait_for(lambda: check(weir)[0] == 200, 'the end of the ban', 60)

    def test_at_the_start_they_are_there(self):
        for user in ('ada', 'bob', 'eve'):
            self.except_(self.store, 'ban', user)
        self.except_(self.store, 'unban', 'bob')
        weir = self.serve()
        self.assertEqual([check(weir, user=user)[0] for user in ('ada', 'bob', 'eve')], [429, 200, 429])

    def test_a_new_version_ends_no_ban(self):
        weir = self.serve()
        self.followed(self.except_(self.store, 'ban', 'ada'), weir)
        self.store.appended(1, rules('20/day'))
        wait_for(lambda: check(weir, user='bob')[1]['limits'][0]['capacity'] == 20, 'the new version', 60)
        self.assertEqual(check(weir)[0], 429)

    def test_what_cannot_be_read_is_told_and_the_others_hold(self):
        weir = self.serve()
        self.followed(self.except_(self.store, 'ban', 'ada'), weir)
        self.except_(self.store, 'ban', 'bob')
        with sqlite3.connect(self.folder / 'rules.db') as database:
            database.execute("INSERT INTO exceptions SELECT 3, 9, wall_ns, until_ns, x'00112233445566778899aabbccddeeff', "
                             "x'00', limit_name, key, author, comment, held FROM exceptions WHERE number = 2")
            database.execute("INSERT INTO exceptions SELECT 4, 1, wall_ns, until_ns, x'01112233445566778899aabbccddeeff', "
                             "x'01', limit_name, x'ff', author, comment, held FROM exceptions WHERE number = 2")
        database.close()
        self.followed(4, weir)
        wait_for(lambda: 'exceptions_unknown' in weir.output() and 'exceptions_damaged' in weir.output(), 'the log', 60)
        self.assertEqual(check(weir)[0], 429)

    def test_the_store_went_back(self):
        """To a backup, with another change of the same number: what it has now holds."""
        weir = self.serve()
        self.except_(self.store, 'ban', 'ada')
        self.followed(self.except_(self.store, 'ban', 'bob'), weir)
        with sqlite3.connect(self.folder / 'rules.db') as database:
            database.execute('DELETE FROM exceptions WHERE number = 2')
        database.close()
        self.assertEqual(self.except_(self.store, 'ban', 'eve'), 2)
        wait_for(lambda: check(weir, user='eve')[0] == 429 and check(weir, user='bob')[0] == 200, 'what is there now', 60)
        self.assertEqual(check(weir)[0], 429)
        wait_for(lambda: 'exceptions_gone_back' in weir.output(), 'that bob is free is not told', 60)

    def test_the_store_went_back_before_a_start(self):
        """To one that lacks the last ban: who is free by that is told once, and nobody else."""
        weir = self.serve(kept=self.folder / 'kept')
        self.except_(self.store, 'ban', 'ada')
        self.followed(self.except_(self.store, 'ban', 'bob'), weir)
        weir.stop()
        with sqlite3.connect(self.folder / 'rules.db') as database:
            database.execute('DELETE FROM exceptions WHERE number = 2')
        database.close()
        weir = self.serve(kept=self.folder / 'kept')
        self.assertEqual([check(weir, user=user)[0] for user in ('ada', 'bob')], [429, 200])
        wait_for(lambda: 'exceptions_gone_back' in weir.output(), 'nothing is told', 60)
        weir.stop()
        weir = self.serve(kept=self.folder / 'kept')
        self.followed(self.except_(self.store, 'ban', 'eve'), weir)
        time.sleep(1.5)  # the log is looked after each second
        self.assertNotIn('exceptions_gone_back', weir.output())

    def away(self):
        """The store is gone; what brings it back."""
        self.store.close()
        for path in self.folder.glob('rules.db*'):
            path.rename(path.with_name('away-' + path.name))

    def back(self):
        for path in self.folder.glob('away-*'):
            path.rename(path.with_name(path.name.removeprefix('away-')))
        self.store = self.drive(self.spec)

    def test_a_start_without_the_store_has_those_that_are_kept(self):
        kept = self.folder / 'kept'
        weir = self.serve(kept=kept)
        self.except_(self.store, 'ban', 'ada', YEAR)
        self.except_(self.store, 'ban', 'bob')
        self.followed(self.except_(self.store, 'unban', 'bob'), weir)
        weir.stop()
        self.assertEqual((kept.with_name('kept.exceptions')).stat().st_mode & 0o777, 0o600)
        self.away()
        weir = self.serve(kept=kept)
        wait_for(lambda: 'exceptions_lost' in weir.output(), 'the log', 60)
        self.assertIn('1 exceptions go on, up to change 3', weir.output())
        self.assertEqual([check(weir, user=user)[0] for user in ('ada', 'bob', 'eve')], [429, 200, 200])
        self.back()
        self.followed(self.except_(self.store, 'ban', 'eve'), weir)  # it goes on from where it was
        self.assertEqual([check(weir, user=user)[0] for user in ('ada', 'bob', 'eve')], [429, 200, 429])
        wait_for(lambda: 'exceptions_back' in weir.output(), 'the log', 60)

    def test_a_kept_file_that_is_damaged_is_told(self):
        kept = self.folder / 'kept'
        weir = self.serve(kept=kept)
        self.followed(self.except_(self.store, 'ban', 'ada'), weir)
        weir.stop()
        file = kept.with_name('kept.exceptions')
        file.write_bytes(file.read_bytes()[:-1])
        self.away()
        weir = self.serve(kept=kept)
        wait_for(lambda: 'exceptions_lost' in weir.output(), 'the log', 60)
        self.assertIn('0 exceptions go on', weir.output())
        self.assertIn('is damaged or cut off', weir.output())
        self.assertEqual(check(weir)[0], 200)
        self.back()
        wait_for(lambda: check(weir)[0] == 429, 'what the store has', 60)

    def test_where_nobody_was_ever_banned_there_is_no_file(self):
        kept = self.folder / 'kept'
        weir = self.serve(kept=kept)
        wait_for(kept.exists, 'the rules are kept', 60)
        weir.stop()
        self.assertFalse(kept.with_name('kept.exceptions').exists())

    def test_a_shared_limit_and_two_in_one_request(self):
        """Whatever keeps the limit, the ban comes first; of two the longest is told, and neither is charged."""
        limits = [{'name': 'api', 'rate': '10/day', 'key': ['user']},
                  {'name': 'all', 'rate': '10/day', 'key': ['user'], 'sharing': 'split'},
                  {'name': 'shy', 'rate': '10/day', 'key': ['user'], 'mode': 'shadow'}]
        self.store.appended(1, json.dumps({'limits': limits}, separators=(',', ':')))
        weir = self.serve()
        self.followed(self.except_(self.store, 'ban', 'ada', YEAR), weir)
        status, told = check(weir)
        self.assertEqual((status, len(told['limits']), told['limits'][0]['limit']), (429, 1, 'api'))
        self.followed(self.except_(self.store, 'unban', 'ada'), weir)
        self.assertEqual([one['remaining'] for one in check(weir)[1]['limits']], [9, 9, 9])


class InPostgres(Banned):
    @classmethod
    def setUpClass(cls):
        cls.server = Postgres()
        cls.addClassCleanup(cls.server.stop)

    def test_a_ban_made_at_one_place_is_enforced_by_both_nodes(self):
        spec = url(self.server)
        store = self.drive(spec)
        store.appended(0, rules('10/day'))
        nodes = [Weir(self.config(spec, more='cluster: { nodes: [a, b] }\n'), arguments=('--node', name))
                 for name in ('a', 'b')]
        for node in nodes:
            self.addCleanup(node.stop)
        self.assertEqual([check(node)[0] for node in nodes], [200, 200])
        self.followed(self.except_(store, 'ban', 'ada'), *nodes)
        self.assertEqual([check(node)[0] for node in nodes], [429, 429])
        self.assertEqual([check(node, user='bob')[0] for node in nodes], [200, 200])
        self.followed(self.except_(store, 'unban', 'ada'), *nodes)
        self.assertEqual([check(node)[0] for node in nodes], [200, 200])


if __name__ == '__main__':
    unittest.main()
