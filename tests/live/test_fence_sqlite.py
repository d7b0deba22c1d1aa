#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/fence/sqlite.sql and sqlite-guard.sql on real database files: install, check, guard, under concurrency."""
import contextlib
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SQL = (ROOT / 'deploy/fence/sqlite.sql').read_text(encoding='utf-8')
GUARD = (ROOT / 'deploy/fence/sqlite-guard.sql').read_text(encoding='utf-8')
LARGEST = 2**63 - 1


class Fence(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-sqlite-')
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, 'test.db')
        self.a, self.b = self.connect(), self.connect()
        for _ in range(2):  # again: nothing is lost, nothing complains
            self.a.executescript('PRAGMA journal_mode = WAL;' + SQL)
        self.a.executescript('CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER);'
                             'INSERT INTO account VALUES (1, 100), (2, 100);')
        self.a.executescript(GUARD.replace('@TABLE@', 'account').replace('@LOCK@', 'l'))

    def test_a_guard_that_cannot_be_made_takes_none_away(self):
        wrong = GUARD.replace('@TABLE@', 'account').replace('@LOCK@', "o'b")
        with contextlib.closing(self.connect()) as other, self.assertRaises(sqlite3.OperationalError):
            other.executescript(wrong)
        if shutil.which('sqlite3'):
            done = subprocess.run(['sqlite3', '-bail', self.path], input=wrong.encode(), capture_output=True, timeout=60,
                                  check=False)
            self.assertNotEqual(done.returncode, 0)
        for write in ('INSERT INTO account VALUES (3, 1)', 'UPDATE account SET balance = 1', 'DELETE FROM account'):
            with self.refused('unguarded'):
                self.a.execute(write)

    def connect(self, keys=True):
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60, check_same_thread=False)
        self.addCleanup(connection.close)
        connection.execute(f'PRAGMA foreign_keys = {int(keys)}')
        return connection

    @contextlib.contextmanager
    def refused(self, words):
        with self.assertRaises(sqlite3.IntegrityError) as caught:
            yield
        self.assertIn(words, str(caught.exception))

    @staticmethod
    def install(connection, name, *token):
        connection.execute('INSERT INTO weir_fence_install VALUES (?, ?, ?)', (name, *token))

    @staticmethod
    def check(connection, name, *token):
        connection.execute('INSERT INTO weir_fence_check VALUES (?, ?, ?)', (name, *token))

    def write(self, connection, balance, *token):
        """The recipe, whole."""
        connection.execute('BEGIN IMMEDIATE')
        try:
            self.check(connection, 'l', *token)
            connection.execute('UPDATE account SET balance = ? WHERE id = 1', (balance,))
            connection.execute('DELETE FROM weir_fence_open')
            connection.execute('COMMIT')
        except BaseException:
            connection.execute('ROLLBACK')
            raise

    def balance(self):
        return self.b.execute('SELECT balance FROM account WHERE id = 1').fetchone()[0]

    def test_a_later_token_fences_an_earlier_one(self):
        self.install(self.a, 'l', 7, 1)
        self.write(self.a, 1, 7, 1)
        self.install(self.b, 'l', 7, 2)
        with self.refused('weir_fence: fenced'):
            self.write(self.a, 2, 7, 1)
        with self.refused('weir_fence: fenced'):
            self.install(self.a, 'l', 7, 1)
        self.assertEqual(self.balance(), 1)
        self.install(self.b, 'l', 7, 2)
        self.write(self.b, 3, 7, 2)
        self.assertEqual(self.balance(), 3)

    def test_a_token_that_was_never_installed_is_refused(self):
        with self.refused('weir_fence: not installed'):
            self.write(self.a, 1, 7, 1)
        self.install(self.a, 'l', 7, 1)
        with self.refused('weir_fence: not installed'):
            self.write(self.a, 1, 7, 2)

    def test_incarnation_comes_before_number_and_both_go_to_the_largest(self):
        self.install(self.a, 'l', 7, LARGEST)
        with self.refused('weir_fence: fenced'):
            self.write(self.a, 1, 7, LARGEST - 1)
        self.install(self.b, 'l', 8, 1)
        with self.refused('weir_fence: fenced'):
            self.write(self.a, 1, 7, LARGEST)
        self.install(self.b, 'l', LARGEST, LARGEST)
        self.write(self.b, 1, LARGEST, LARGEST)

    def test_what_is_no_token_is_an_error(self):
        for token in ((0, 1), (1, 0), (-1, 1), ('7', 1), (7, '1'), (7.0, 1), (None, 1), (7, None), (7, b'1')):
            with self.refused('weir_fence: no token'):
                self.install(self.a, 'l', *token)
            with self.refused('weir_fence: no token'):
                self.check(self.a, 'l', *token)
        for name in ('', 'x' * 1025, 'ä' * 513, None, b'l'):
            with self.refused('weir_fence: no token'):
                self.install(self.a, name, 7, 1)
        self.install(self.a, 'x' * 1024, 7, 1)

    def test_conflict_clauses_do_not_soften_a_refusal(self):
        self.install(self.a, 'l', 7, 2)
        for clause in ('IGNORE', 'REPLACE', 'FAIL'):
            with self.refused('weir_fence: fenced'):
                self.a.execute(f'INSERT OR {clause} INTO weir_fence_install VALUES (?, 7, 1)', ('l',))
            with self.refused('weir_fence: fenced'):
                self.a.execute(f'INSERT OR {clause} INTO weir_fence_check VALUES (?, 7, 1)', ('l',))
            with self.refused('weir_fence: unguarded'):
                self.a.execute(f'INSERT OR {clause} INTO account VALUES (1, 5)')
        self.assertEqual(self.a.execute('SELECT * FROM weir_fence').fetchall(), [('l', 7, 2)])

    def test_the_guard_refuses_writes_without_a_check(self):
        self.install(self.a, 'l', 7, 1)
        for write in ('INSERT INTO account VALUES (3, 1)', 'UPDATE account SET balance = 0', 'DELETE FROM account',
                      'REPLACE INTO account VALUES (1, 2)',
                      'INSERT INTO account VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = 2'):
            with self.refused('weir_fence: unguarded'):
                self.a.execute(write)
        self.assertEqual(self.balance(), 100)

    def test_a_check_is_good_for_its_transaction_and_its_lock_only(self):
        self.install(self.a, 'l', 7, 1)
        self.install(self.a, 'other', 7, 1)
        with self.refused('FOREIGN KEY'):
            self.check(self.a, 'l', 7, 1)  # outside of a transaction
        self.a.execute('BEGIN IMMEDIATE')
        self.check(self.a, 'other', 7, 1)
        with self.refused('weir_fence: unguarded'):
            self.a.execute('DELETE FROM account')
        self.check(self.a, 'l', 7, 1)
        self.a.execute('UPDATE account SET balance = 5')
        with self.refused('FOREIGN KEY'):
            self.a.execute('COMMIT')  # a check that was not ended
        self.a.execute('DELETE FROM weir_fence_open')
        with self.refused('weir_fence: unguarded'):
            self.a.execute('DELETE FROM account')
        self.a.execute('COMMIT')
        self.assertEqual(self.balance(), 5)
        self.assertEqual(self.b.execute('SELECT count(*) FROM weir_fence_open').fetchone(), (0,))

    def test_a_check_that_was_rolled_back_to_a_savepoint_is_none(self):
        self.install(self.a, 'l', 7, 1)
        self.a.execute('BEGIN IMMEDIATE')
        self.a.execute('SAVEPOINT s')
        self.check(self.a, 'l', 7, 1)
        self.a.execute('ROLLBACK TO s')
        with self.refused('weir_fence: unguarded'):
            self.a.execute('DELETE FROM account')
        self.a.execute('ROLLBACK')

    def test_a_connection_without_foreign_keys_cannot_check(self):
        loose = self.connect(keys=False)
        self.install(loose, 'l', 7, 1)
        loose.execute('BEGIN IMMEDIATE')
        with self.refused('PRAGMA foreign_keys'):
            self.check(loose, 'l', 7, 1)
        loose.execute('ROLLBACK')

    def test_install_cannot_pass_between_check_and_commit(self):
        self.install(self.a, 'l', 7, 1)
        quick = self.connect()
        quick.execute('PRAGMA busy_timeout = 0')
        self.a.execute('BEGIN')  # not even IMMEDIATE: the check is a write
        self.check(self.a, 'l', 7, 1)
        with self.assertRaisesRegex(sqlite3.OperationalError, 'locked'):
            self.install(quick, 'l', 7, 2)
        self.a.execute('ROLLBACK')
        self.install(quick, 'l', 7, 2)

    def test_a_read_from_before_the_install_cannot_check(self):
        self.install(self.a, 'l', 7, 1)
        self.a.execute('BEGIN')
        self.a.execute('SELECT * FROM account').fetchall()
        self.install(self.b, 'l', 7, 2)
        with self.assertRaisesRegex(sqlite3.OperationalError, 'locked'):  # SQLITE_BUSY_SNAPSHOT
            self.check(self.a, 'l', 7, 1)
        self.a.execute('ROLLBACK')

    def test_no_acknowledged_update_is_lost(self):
        """Holders come and go; each reads after its install and adds one by a checked write, some of them late."""
        holders, added, problems = 4, [], []

        def hold(number):
            connection = self.connect()
            for turn in range(15):
                token = (7, turn * holders + number + 1)
                try:
                    self.install(connection, 'l', *token)
                    before = connection.execute('SELECT balance FROM account WHERE id = 1').fetchone()[0]
                    self.write(connection, before + 1, *token)
                    added.append(token)
                except sqlite3.Error as error:
                    if 'weir_fence: fenced' not in str(error):
                        problems.append(error)

        threads = [threading.Thread(target=hold, args=(number,)) for number in range(holders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(self.balance(), 100 + len(added))
        self.assertGreater(len(added), 0)


if __name__ == '__main__':
    unittest.main()
