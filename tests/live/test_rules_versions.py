#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir rules apply, history, show, diff and rollback, as docs/rule-stores.md has them."""
import contextlib
import json
import os
import pathlib
import socket
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest

from postgres_server import Postgres
from redis_server import wait_for
from rule_store_case import url
from store_drive import StoreDrive
from test_rules_store import check, version
from weir_server import BUILD, Weir

RULES = 'unmatched: refuse\nlimits:\n  - name: api\n    rate: 10/day\n    key: [user]\n'


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rules-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / 'weir.yaml'
        self.config.write_text(f'rules: {{ store: "sqlite:{self.folder}/rules.db", timeout: 60s }}\n', encoding='utf-8')

    def finished(self, verb, *arguments, stdin=''):
        return subprocess.run([str(BUILD / 'weir'), 'rules', verb, '--config', str(self.config), *map(str, arguments)],
                              input=stdin, capture_output=True, encoding='utf-8', timeout=120, check=False,
                              env=dict(os.environ, LOGNAME='grace'))

    def run_verb(self, verb, *arguments, stdin='', code=0):
        done = self.finished(verb, *arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, done)
        return done.stdout if code == 0 else done.stderr

    def apply(self, text, *arguments, comment='why', code=0):
        return self.run_verb('apply', '--comment', comment, *arguments, '-', stdin=text, code=code)

    def history(self):
        return json.loads(self.run_verb('history', '--json'))


class Versions(Base):
    def test_who_when_why_and_what(self):
        self.assertEqual(self.apply(RULES, comment='the first'), 'version 1: api came (10/day)\n')
        shown = self.run_verb('show')
        self.assertEqual(shown, '# from version 1\n' + RULES)
        more = shown.replace('10/day', '20/day')
        self.assertEqual(self.apply(more, '--dry-run'), 'would change: api 10/day -> 20/day\n')
        self.assertEqual(len(self.history()), 1)
        self.assertEqual(self.apply(more, '--author', 'ada', comment='more for all'),
                         'version 2: api 10/day -> 20/day\n')
        self.assertIn('nothing to do', self.apply(more))
        self.assertIn('+    rate: 20/day', self.run_verb('diff', 1))
        self.assertIn('+    rate: 10/day', self.run_verb('diff', 2, 1))
        self.assertEqual(self.run_verb('rollback', '--comment', 'too many', 1), 'version 3: api 20/day -> 10/day\n')
        told = [(one['version'], one['author'], one['kind'], one['comment'], one['changes']) for one in self.history()]
        self.assertEqual(told, [(3, 'grace', 'rollback', 'too many', 'api 20/day -> 10/day'),
                                (2, 'ada', 'applied', 'more for all', 'api 10/day -> 20/day'),
                                (1, 'grace', 'applied', 'the first', 'api came (10/day)')])
        self.assertEqual(self.run_verb('show', 3), '# from version 3\n' + RULES)
        self.assertIn('why:   more for all', self.run_verb('history'))

    def test_of_two_conflicting_edits_one_is_refused(self):
        self.apply(RULES)
        shown = self.run_verb('show')
        self.apply(shown.replace('10/day', '20/day'))
        said = self.apply(shown.replace('10/day', '30/day'), code=1)
        self.assertIn('version 2 is the newest, and this was made from 1', said)
        self.assertIn('--from 2 is the newest', self.apply(RULES, code=2))
        self.assertEqual(len(self.history()), 2)

    def test_many_editors_at_once_lose_nothing(self):
        self.apply(RULES)
        shown, codes = self.run_verb('show'), []

        def edit(number):
            command = [str(BUILD / 'weir'), 'rules', 'apply', '--config', str(self.config), '--comment', 'why', '-']
            done = subprocess.run(command, input=shown.replace('10/day', f'{number}/day'), capture_output=True,
                                  encoding='utf-8', timeout=120, check=False)
            codes.append(done.returncode)

        threads = [threading.Thread(target=edit, args=(number,)) for number in range(11, 19)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(codes), [0] + [1] * 7)
        self.assertEqual(len(self.history()), 2)

    def test_what_would_be_is_told_before_there_is_a_store(self):
        self.assertEqual(self.apply(RULES, '--dry-run'), 'would change: api came (10/day)\n')
        self.assertFalse((self.folder / 'rules.db').exists())

    def test_editors_that_end_lines_otherwise(self):
        """A byte order mark, carriage returns: it still says which version it was made from."""
        self.apply(RULES)
        for number, mark in enumerate(('', '\ufeff'), 1):
            shown = mark + self.run_verb('show').replace(f'{10 * number}/day', f'{10 * number + 10}/day')
            self.assertIn(f'version {number + 1}: api', self.apply(shown.replace('\n', '\r\n')))
            self.assertNotIn('from version', self.run_verb('show').partition('\n')[2])

    def test_a_damaged_version_hides_no_other(self):
        self.apply(RULES)
        for number in (20, 30):
            self.apply(self.run_verb('show').replace(f'{number - 10}/day', f'{number}/day'), comment=f'to {number}')
        with contextlib.closing(sqlite3.connect(self.folder / 'rules.db')) as store:
            store.executescript("DROP TRIGGER versions_never_change;"
                                "UPDATE versions SET text = CAST('limits: []' AS BLOB) WHERE number = 2")
        done = self.finished('history')
        self.assertEqual((done.returncode, done.stderr.count('damaged')), (2, 1), done)
        self.assertIn('rules.db: the text of version', done.stderr)  # a sentence
        for text in ('to 20', 'to 30', 'not known: its text is damaged', 'the text of the version before is damaged',
                     'api came (10/day)'):
            self.assertIn(text, done.stdout)

    def test_a_note_that_no_node_wrote_hides_no_version(self):
        self.apply(RULES, comment='the first')
        with contextlib.closing(sqlite3.connect(self.folder / 'rules.db')) as store:
            store.executescript("INSERT INTO told (node, version, since_ns) VALUES ('two words', 1, 1)")
        done = self.finished('history')
        self.assertEqual(done.returncode, 2, done)
        self.assertIn('the note of a node is damaged', done.stderr)
        self.assertIn('the first', done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, 'becomes another user')
    def test_a_store_of_another_user(self):
        self.apply(RULES)
        self.folder.chmod(0o755)
        weir = shutil.copy(BUILD / 'weir', self.folder)  # the build may stand in a folder of root's
        done = subprocess.run([weir, 'rules', 'history', '--config', str(self.config)], check=False,
                              capture_output=True, encoding='utf-8', timeout=120, user=65534, group=65534, extra_groups=[])
        self.assertEqual(done.returncode, 2)
        self.assertIn("Permission denied: it is its owner's alone", done.stderr)

    def test_what_is_wrong_is_told_at_once_and_not_stored(self):
        said = self.apply('limits:\n  - nam: api\n    rate: 1/mn\n', code=2)
        self.assertIn('-:2:5: unknown key "nam" in a limit; did you mean "name"?', said)
        self.assertIn('-:3:11: rate "mn" has no unit', said)
        self.assertIn('unknown key "engine" in a set of rules', self.apply('limits: []\nengine: {}\n', code=2))
        self.assertIn('more than 32000', self.apply(
            'limits:\n' + ''.join(f'  - {{ name: l{i}, rate: 1/min, match: {{ a: b }} }}\n' for i in range(32001)), code=2))
        self.assertIn('say why: --comment WHY', self.run_verb('apply', '-', stdin=RULES, code=2))
        self.assertIn('must be', self.apply(RULES, comment='two\nlines', code=2))
        self.assertIn('must be 1 to', self.apply(RULES, '--author', 'a' * 129, code=2))
        self.assertIn('there is no store of rules', self.run_verb('history', code=2))
        self.apply(RULES)
        self.assertIn('version', self.run_verb('rollback', '--comment', 'why', 7, code=2))
        self.assertIn('must be a whole number', self.run_verb('show', 'x', code=2))
        self.assertIn('--count "1001" must be a whole number, 1 to 1000', self.run_verb('history', '--count', 1001, code=2))
        self.assertIn('made from 9, which is not there yet', self.apply(RULES + '#', '--from', 9, code=1))
        self.config.write_text('limits: []\n', encoding='utf-8')
        self.assertIn('names no store of rules', self.run_verb('history', code=2))

    def test_a_server_follows_and_history_says_since_when(self):
        self.apply(RULES)
        with Weir(self.config.read_text(encoding='utf-8')) as weir:
            self.assertEqual(check(weir, 10)[0], 200)
            self.apply(self.run_verb('show').replace('10/day', '20/day'))
            wait_for(lambda: version(weir) == 2, 'not followed')
            self.assertEqual([check(weir)[0], check(weir, 20, 'bob')[0]], [429, 200])
            self.run_verb('rollback', '--comment', 'why', 1)
            wait_for(lambda: version(weir) == 3, 'not followed')
            self.assertEqual(check(weir, 1, 'bob')[0], 429)
            wait_for(lambda: all(one['nodes'] for one in self.history()), 'the store was not told')

    def test_the_limits_are_listed(self):
        self.assertIn('there is no store of rules', self.run_verb('list', code=2))
        self.apply(RULES)
        more = '  - { name: all-of-it, rate: 100/min, burst: 20, match: { a: b }, mode: shadow }\n' \
               '  - { name: two, rate: 3/s, key: [user, route], overrides: [ { user: ada, rate: 5/s } ] }\n'
        self.apply(self.run_verb('show') + more)
        self.assertEqual(self.run_verb('list').splitlines(), [
            'limit      rate     capacity  algorithm     key            sharing  mode     overrides',
            'api        10/day   10        token_bucket  user           none     enforce  0',
            'all-of-it  100/min  20        token_bucket  (one counter)  none     shadow   0',
            'two        3/s      3         token_bucket  user,route     none     enforce  1'])
        self.assertEqual(len(self.run_verb('list', 1).splitlines()), 2)
        listed = json.loads(self.run_verb('list', '--json'))
        self.assertEqual([(one['limit'], one['key'], one['capacity']) for one in listed],
                         [('api', ['user'], 10), ('all-of-it', [], 20), ('two', ['user', 'route'], 3)])
        self.assertIn('there is no version 7', self.run_verb('list', 7, code=2))
        for arguments in (('list', 7), ('diff', 1, 7), ('rollback', '--comment', 'why', 7)):
            self.assertIn('rules.db: there is no version 7', self.run_verb(*arguments, code=2))
        self.assertIn('must be a whole number', self.run_verb('list', 'x', code=2))

    def test_check_and_explain_look_into_the_store(self):
        def run(*words, code=0):
            done = subprocess.run([str(BUILD / 'weir'), *words], capture_output=True, encoding='utf-8', timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, code, done)
            return done.stdout + done.stderr

        self.assertIn('the rules were not checked: ', run('rules', 'check', str(self.config)))
        self.assertIn('cannot be read: ', run('explain', '--config', str(self.config), 'user=ada', code=2))
        self.apply(RULES)
        self.apply(self.run_verb('show').replace('10/day', '20/day'))
        said = run('rules', 'check', str(self.config))
        self.assertIn(f'version 2 of sqlite:{self.folder}/rules.db:3:5: limit "api" lets 20 pass', said)
        self.assertIn(f'{self.config}: limits are counted in this process alone', said)
        self.assertEqual(json.loads(run('rules', 'check', '--json', str(self.config)))['rules'],
                         f'version 2 of sqlite:{self.folder}/rules.db')
        self.assertIn('20/day', run('explain', '--config', str(self.config), 'user=ada'))
        with Weir(self.config.read_text(encoding='utf-8')) as weir:
            said = run('explain', '--server', f'127.0.0.1:{weir.http}', 'user=ada')
            self.assertIn('20/day', said)
            self.assertIn(', in force at ', said)


class CutDoor:
    """A way to a server that lets one change through, and then neither its answer nor anybody else."""

    def __init__(self, to_port):
        self.to_port, self.cut = to_port, False
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.lead, args=(self.listener.accept()[0],), daemon=True).start()

    def lead(self, near):
        with contextlib.suppress(OSError), near, socket.create_connection(('127.0.0.1', self.to_port)) as far:
            threading.Thread(target=self.back, args=(far, near), daemon=True).start()
            while data := near.recv(1 << 20):
                if b'WITH made AS' in data:
                    self.cut = True
                    self.listener.shutdown(socket.SHUT_RDWR)
                    self.listener.close()
                far.sendall(data)

    def back(self, far, near):
        with contextlib.suppress(OSError):
            while data := far.recv(1 << 20):
                if self.cut:
                    near.shutdown(socket.SHUT_RDWR)
                else:
                    near.sendall(data)


class Unknown(Base):
    def test_what_is_not_known_is_not_told_as_not_done(self):
        """The answer to a change is lost, and then nobody answers any more."""
        server = Postgres()
        self.addCleanup(server.stop)
        store = StoreDrive(url(server))
        self.addCleanup(store.close)
        store.appended(0, '{}')
        door = CutDoor(server.port)
        self.config.write_text(f'rules: {{ store: "{url(door)}", timeout: 60s }}\n', encoding='utf-8')
        said = self.apply(RULES, '--from', 1, code=2)
        self.assertIn('it is not known whether it was stored', said)
        self.assertEqual(store.ask('head')['number'], 2)


if __name__ == '__main__':
    unittest.main()
