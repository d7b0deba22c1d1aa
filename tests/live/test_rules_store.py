#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir serve whose rules stand in a store: each version is followed by all nodes, a wrong one by none, used units carry
over, and a node goes on, and starts, without the store."""
import contextlib
import json
import pathlib
import shutil
import signal
import sqlite3
import tempfile
import time
import types
import unittest
import urllib.error
import urllib.request

from postgres_server import Postgres
from redis_server import wait_for
from rule_store_case import url
from slow_door import SlowDoor
from store_drive import StoreDrive
from weir_server import Weir


def rules(rate):
    """JSON is YAML."""
    limit = {'name': 'api', 'rate': rate, 'key': ['user']}
    return json.dumps({'limits': [limit]}, separators=(',', ':'))


def get(weir, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}{path}', timeout=60) as answer:
        return answer.read().decode()


def in_force(weir):
    return json.loads(get(weir, '/v1/limits'))


def version(weir):
    return in_force(weir)['rules']['version']


def check(weir, cost=1, user='ada'):
    body = json.dumps({'attributes': {'user': user}, 'cost': cost}).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{weir.http}/v1/check', data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rules-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def drive(self, spec):
        drive = StoreDrive(spec)
        self.addCleanup(drive.close)
        self.assertEqual(drive.opened['status'], 'OK', drive.opened)
        return drive

    def config(self, spec, kept=True, more=''):
        kept = f', kept: {self.folder}/kept-{time.monotonic_ns()}' if kept is True else f', kept: {kept}' if kept else ''
        return f'rules: {{ store: "{spec}"{kept} }}\n{more}'


class InSqlite(Case):
    def setUp(self):
        super().setUp()
        self.spec = f'sqlite:{self.folder}/rules.db'
        self.store = self.drive(self.spec)

    def test_without_a_version_it_does_not_start(self):
        with self.assertRaisesRegex(AssertionError, 'there is no store of rules: weir rules apply'):
            Weir(self.config(self.spec, kept=None))
        self.assertEqual(self.store.ask('head')['number'], 0)
        with self.assertRaisesRegex(AssertionError, 'has no rules yet: weir rules apply'):
            Weir(self.config(self.spec, kept=None))

    def test_versions_are_followed_and_used_units_carry_over(self):
        self.store.appended(0, rules('10/day'))
        with Weir(self.config(self.spec)) as weir:
            self.assertIn('rules: version 1 of sqlite:', weir.output())
            self.assertEqual(check(weir, 10)[0], 200)
            self.assertEqual(check(weir)[0], 429)
            self.store.appended(1, rules('15/day'))
            wait_for(lambda: version(weir) == 2, 'not followed')
            shown = in_force(weir)
            self.assertEqual((shown['by'], shown['rules']['newest']), ('rules', 2))
            self.assertEqual(check(weir)[0], 429)  # what was used stays used
            self.assertEqual([check(weir, 15, 'bob')[0], check(weir, 1, 'bob')[0]], [200, 429])
            self.assertIn('version 2 of sqlite:', weir.output())
            self.assertIn('api 10/day -> 15/day', weir.output())
            self.assertIn('weir_rules_version 2', get(weir, '/metrics'))
            wait_for(lambda: len(self.store.told()) == 2, 'the store was not told')
            self.assertEqual([told[1] for told in self.store.told()], [2, 1])

    def test_a_wrong_version_changes_nothing(self):
        self.store.appended(0, rules('1/day'))
        with Weir(self.config(self.spec)) as weir:
            self.assertEqual(check(weir)[0], 200)
            for number, text in enumerate(('{"limits":[{"name":"api"}]}', '{"engine":{}}', 'nonsense'), 2):
                self.store.appended(number - 1, text)
                wait_for(lambda number=number: f'version {number} of the rules:1:' in weir.output(), 'nothing is told')
            self.assertEqual(version(weir), 1)
            self.assertEqual(check(weir)[0], 429)
            self.store.appended(4, rules('2/day'))
            wait_for(lambda: version(weir) == 5, 'not followed')
            self.assertEqual([check(weir, 1, 'bob')[0] for _ in range(3)], [200, 200, 429])

    def test_a_restart_goes_on_with_what_is_kept(self):
        kept = self.folder / 'kept'
        config = self.config(self.spec, kept)
        self.store.appended(0, rules('1/day'))
        with Weir(config):
            wait_for(kept.exists, 'nothing is kept')
        self.store.appended(1, '{"limits":3}')  # by who does not check
        with Weir(config) as weir:
            self.assertEqual(version(weir), 1)
            self.assertIn('version 2 of the rules:1:', weir.output())
            self.assertEqual([check(weir)[0] for _ in range(2)], [200, 429])
        self.store.close()
        for path in self.folder.glob('rules.db*'):
            path.unlink()
        with Weir(config) as weir:
            self.assertEqual(version(weir), 1)
            self.assertIn('the store of rules cannot be asked', weir.output())
            anew = self.drive(self.spec)
            anew.appended(0, rules('3/day'))
            wait_for(lambda: '1/day -> 3/day' in weir.output(), 'the store that was made anew is not followed')
        kept.write_bytes(kept.read_bytes()[:-1])
        anew.close()
        for path in self.folder.glob('rules.db*'):
            path.unlink()
        with self.assertRaisesRegex(AssertionError, 'kept here'):
            Weir(config)
        with self.assertRaisesRegex(AssertionError, f'kept here: {kept} is damaged or cut off: it is not used\\n'):  # to the end
            Weir(config)

    def restore(self, copy=None):
        """Puts a copy of the store in its place, or makes one now."""
        if not copy:
            copy = self.folder / 'copy.db'
            with contextlib.closing(sqlite3.connect(self.folder / 'rules.db')) as store, \
                    contextlib.closing(sqlite3.connect(copy)) as into:
                store.backup(into)
            return copy
        for path in self.folder.glob('rules.db*'):
            path.unlink()
        return shutil.copy(copy, self.folder / 'rules.db')

    def test_a_start_does_not_bring_back_what_was_superseded(self):
        """The store was restored, or a standby answers that lacks the last version: as for who runs on, SIGHUP does."""
        config = self.config(self.spec, self.folder / 'kept')
        self.store.appended(0, rules('10/day'))
        copy = self.restore()
        self.store.appended(1, rules('3/day'))
        with Weir(config):
            pass
        self.store.close()
        self.restore(copy)
        for _ in range(2):
            with Weir(config) as weir:
                self.assertEqual(version(weir), 2)
                self.assertIn('rules: version 2 of sqlite:', weir.output())
                wait_for(lambda weir=weir: 'rules_behind_begun: the newest version in the store is 1 and 2 decides'
                         in weir.output(), 'nothing is told')
                self.assertEqual(version(weir), 2)
        with Weir(config) as weir:
            wait_for(lambda: 'rules_behind_begun' in weir.output(), 'nothing is told')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: version(weir) == 1, 'a reload does not take it')
        with Weir(config) as weir:
            self.assertEqual(version(weir), 1)
            again = self.drive(self.spec)
            again.appended(1, rules('5/day'))
            again.appended(2, rules('6/day'))
            wait_for(lambda: version(weir) == 3, 'not followed')

    def test_what_is_kept_and_cannot_be_used_is_no_reason_not_to_start(self):
        engine = 'engine: { redis: { servers: ["127.0.0.1:1"], connect_timeout: 10ms } }\n'
        kept = self.folder / 'kept'
        self.store.appended(0, rules('10/day'))
        copy = self.restore()
        self.store.appended(1, rules('3/day').replace('"rate"', '"sharing":"leased","rate"'))
        with Weir(self.config(self.spec, kept, engine)):
            pass
        self.store.close()
        self.restore(copy)
        with Weir(self.config(self.spec, kept)) as weir:
            self.assertEqual(version(weir), 1)
            self.assertRegex(weir.output(), 'version 2 of the rules:1:.* the newest in the store decides until')

    def test_what_is_in_force_is_kept_even_if_a_wrong_one_comes_at_once(self):
        kept = self.folder / 'kept'
        self.store.appended(0, rules('1/day'))
        with Weir(self.config(self.spec, kept)) as weir:
            for number in range(2, 12, 2):
                self.store.appended(number - 1, rules(f'{number}/day'))
                wait_for(lambda number=number: version(weir) == number, 'not followed')
                self.store.appended(number, 'nonsense')
                wait_for(lambda number=number: kept.read_bytes().split()[2] == b'%d' % number, 'not kept')

    def test_a_start_with_what_no_limits_can_be_made_of(self):
        """Each limit of it is right, and all together are too many of a kind."""
        config = self.config(self.spec, self.folder / 'kept')
        self.store.appended(0, rules('1/day'))
        with Weir(config):
            wait_for((self.folder / 'kept').exists, 'nothing is kept')
        limits = [{'name': f'l{i}', 'rate': '1/day', 'match': {'route': f'/a*{i}b*z'}} for i in range(200)]
        self.store.appended(1, json.dumps({'limits': limits}, separators=(',', ':')))
        with Weir(config) as weir:
            self.assertEqual(version(weir), 1)
            self.assertRegex(weir.output(), r'version 2 of the rules:1:\d+: more than 64 patterns .* kept here decides')
            wait_for(lambda: 'reload_failed' in weir.output(), 'nothing is told')
            self.assertRegex(weir.output(), r'reload_failed.* version 2 of the rules:1:')

    def test_a_version_does_not_read_the_file_again(self):
        """It may be half edited, or wait for the SIGHUP that is to bring it."""
        self.store.appended(0, rules('1/day'))
        with Weir(self.config(self.spec)) as weir:
            whole = weir.config.read_text(encoding='utf-8')
            weir.config.write_text(whole + 'top: {{ half an edit', encoding='utf-8')
            self.store.appended(1, rules('2/day'))
            wait_for(lambda: version(weir) == 2, 'not followed')
            weir.config.write_text(whole + 'top: { keys: text }\n', encoding='utf-8')
            self.store.appended(2, rules('3/day'))
            wait_for(lambda: version(weir) == 3, 'not followed')
            self.assertEqual(json.loads(get(weir, '/v1/top'))['keys'], 'hash')
            weir.process.send_signal(1)
            wait_for(lambda: json.loads(get(weir, '/v1/top'))['keys'] == 'text', 'the file is not read')
            self.assertEqual(version(weir), 3)

    def test_a_version_does_not_read_files_of_secrets_again(self):
        """One that is being replaced would keep the node at the version before, and one that was replaced is SIGHUP's."""
        old, new = 'abcdefghijklmnopqrst', 'zyxwvutsrqponmlkjihg'
        token = self.folder / 'token'
        token.write_text(old, encoding='utf-8')
        self.store.appended(0, rules('1/day'))
        more = f'auth: {{ required: always, tokens: [ {{ name: app, secret_file: {token}, rights: [all] }} ] }}\n'

        def shown(secret):
            request = urllib.request.Request(f'http://127.0.0.1:{weir.http}/v1/limits', headers={'X-Weir-Token': secret})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())['rules']['version']

        with Weir(self.config(self.spec, more=more)) as weir:
            token.write_text(new, encoding='utf-8')
            self.store.appended(1, rules('2/day'))
            wait_for(lambda: shown(old) == 2, 'not followed')
            token.unlink()
            self.store.appended(2, rules('3/day'))
            wait_for(lambda: shown(old) == 3, 'not followed')
            token.write_text(new, encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: weir.output().count('reloaded:') == 3, 'no reload')
            self.assertEqual(shown(new), 3)

    def test_who_names_a_store_has_no_limits_in_the_file(self):
        self.store.appended(0, rules('1/day'))
        with self.assertRaisesRegex(AssertionError, 'limits stands in the store'):
            Weir(self.config(self.spec, more='limits: []\n'))

    def test_a_reload_neither_leaves_a_store_nor_comes_to_one(self):
        self.store.appended(0, rules('1/day'))
        for before, after in ((self.config(self.spec), 'limits: []\n'), ('limits: []\n', self.config(self.spec))):
            with Weir(before) as weir:
                weir.config.write_text(after, encoding='utf-8')
                weir.process.send_signal(1)
                wait_for(lambda weir=weir: 'changes with a restart only' in weir.output(), 'nothing is told')


class InPostgres(Case):
    NODES = 3

    def setUp(self):
        super().setUp()
        self.server = Postgres()
        self.addCleanup(self.server.stop)
        self.spec = url(self.server)
        self.store = self.drive(self.spec)

    def node(self, number):
        names = ', '.join(f'{{ name: n{i} }}' for i in range(self.NODES))
        more = f'cluster: {{ nodes: [ {names} ] }}\n'
        return Weir(self.config(self.spec, self.folder / f'kept{number}', more), arguments=('--node', f'n{number}'))

    def test_all_nodes_follow_and_go_on_without_it(self):
        self.store.appended(0, rules('1/day'))
        nodes = [self.node(i) for i in range(self.NODES)]
        try:
            for number in range(2, 6):
                begun = time.monotonic()
                self.store.appended(number - 1, rules(f'{number}/day'))
                wait_for(lambda number=number: all(version(node) == number for node in nodes), 'not followed')
                print(f'version {number} decides on all nodes after {1000 * (time.monotonic() - begun):.0f} ms')
            told = lambda: {(row[0], row[1]) for row in self.store.told()}  # noqa: E731
            expected = {(f'n{i}', number) for i in range(self.NODES) for number in (1, 5)}
            wait_for(lambda: expected <= told(), 'the store was not told')
            self.server.kill()
            for node in nodes:
                wait_for(lambda node=node: 'rules_lost' in node.output(), 'nothing is told')
                self.assertEqual([check(node)[0] for _ in range(6)], [200] * 5 + [429])
            self.assertEqual(nodes[0].stop(), 0)
            nodes[0] = self.node(0)
            self.assertEqual(version(nodes[0]), 5)
            self.server.start()
            store = self.drive(self.spec)
            store.appended(5, rules('6/day'))
            wait_for(lambda: all(version(node) == 6 for node in nodes), 'not followed')
            for node in nodes[1:]:  # the first one began in the outage, and said so
                wait_for(lambda node=node: 'rules_back' in node.output(), 'nothing is told')
        finally:
            for node in nodes:
                node.stop()

    def test_who_may_only_read_follows_and_has_not_lost_it(self):
        """A role without the right to note, and a database that only reads."""
        self.store.appended(0, rules('1/day'))
        self.server.sql('CREATE ROLE reader LOGIN; GRANT SELECT ON weir_rules, weir_rules_meta, weir_rules_nodes TO reader;'
                        'ALTER ROLE postgres IN DATABASE postgres SET default_transaction_read_only = on')
        for number, user in enumerate(('reader', 'postgres'), 1):
            with Weir(self.config(url(self.server, user), kept=None)) as weir:
                wait_for(lambda weir=weir: 'rules_untold' in weir.output(), 'nothing is told')
                self.store.appended(number, rules(f'{number + 1}/day'))
                wait_for(lambda weir=weir, number=number: version(weir) == number + 1, 'not followed')
                self.assertIn('weir_rules_store_failing 0', get(weir, '/metrics'))
                self.assertNotIn('rules_lost', weir.output())

    def test_a_slow_store_is_followed_and_is_not_lost(self):
        """Each answer takes longer than one look of who waits, and less than the timeout."""
        self.store.appended(0, rules('1/day'))
        with SlowDoor(self.server.port, lag_s=0.3) as door:
            spec = url(types.SimpleNamespace(port=door.port))
            with Weir(f'rules: {{ store: "{spec}", timeout: 30s }}\n') as weir:
                for number in (2, 3):
                    self.store.appended(number - 1, rules(f'{number}/day'))
                    wait_for(lambda number=number: version(weir) == number, 'not followed')
                self.assertNotIn('rules_lost', weir.output())


if __name__ == '__main__':
    unittest.main()
