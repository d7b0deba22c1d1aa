#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/fence/postgres.sql on a real PostgreSQL: install, check, guard, in each isolation level, under concurrency."""
import contextlib
import pathlib
import threading
import time
import unittest

import psycopg2

from postgres_server import Postgres

ROOT = pathlib.Path(__file__).resolve().parents[2]
SQL = (ROOT / 'deploy/fence/postgres.sql').read_text(encoding='utf-8')
LARGEST = 2**63 - 1
FENCED, NOT_INSTALLED, UNGUARDED, PAST, NO_TOKEN, TOO_LARGE, SERIALIZATION = (
    'WF001', 'WF002', 'WF003', 'WF004', '22023', '22003', '40001')


class Client:
    """One connection. ask() returns the rows; an error is raised."""

    def __init__(self, server, user='postgres'):
        self.connection = server.connect(user=user)
        self.cursor = self.connection.cursor()

    def ask(self, sql, *values):
        self.cursor.execute(sql, values or None)
        return self.cursor.fetchall() if self.cursor.description else []

    def install(self, name, token):
        self.ask('SELECT weir_fence_install(%s, %s)', name, token)

    def check(self, name, token):
        self.ask('SELECT weir_fence_check(%s, %s)', name, token)

    def later(self, sql, *values):
        """Runs it beside us: a handle to wait for."""
        return Later(self, sql, values)

    def close(self):
        self.connection.close()


class Later(threading.Thread):
    def __init__(self, client, sql, values):
        super().__init__(daemon=True)
        self.client, self.sql, self.values, self.error = client, sql, values, None
        self.start()

    def run(self):
        try:
            self.client.ask(self.sql, *self.values)
        except psycopg2.Error as error:
            self.error = error

    def waits(self, observer):
        """It stands before a lock: seen in the server, not guessed from the clock."""
        deadline = time.monotonic() + 60
        pid = self.client.connection.get_backend_pid()
        while time.monotonic() < deadline and self.is_alive():
            if observer.ask('SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted', pid):
                return True
            time.sleep(0.01)
        return False

    def end(self):
        self.join(60)
        assert not self.is_alive(), 'it still waits'
        return self.error.pgcode if self.error else None


class Fence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Postgres(max_prepared_transactions=4)
        cls.addClassCleanup(cls.server.stop)
        admin = Client(cls.server)
        admin.ask(SQL)
        admin.ask(SQL)  # again: nothing is lost, nothing complains
        admin.close()

    def setUp(self):
        self.clients = []
        self.a, self.b, self.c = self.client(), self.client(), self.client()
        self.a.ask('TRUNCATE weir_fence')
        self.a.ask('DROP TABLE IF EXISTS parted, child, account CASCADE')
        self.a.ask('CREATE TABLE account (id int PRIMARY KEY, balance int)')
        self.a.ask('INSERT INTO account VALUES (1, 100), (2, 100)')

    def client(self, user='postgres'):
        client = Client(self.server, user)
        self.clients.append(client)
        return client

    def tearDown(self):
        last = Client(self.server)  # ends those that still wait for each other, after a failure
        last.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
        for client in [*self.clients, last]:
            client.close()

    @contextlib.contextmanager
    def refused(self, code):
        with self.assertRaises(psycopg2.Error) as caught:
            yield caught
        self.assertEqual(caught.exception.pgcode, code, caught.exception)

    def balance(self, account=1):
        return self.c.ask('SELECT balance FROM account WHERE id = %s', account)[0][0]

    # ---- install and check ----

    def test_a_later_token_fences_an_earlier_one(self):
        self.a.install('l', '7.1')
        self.a.check('l', '7.1')
        self.b.install('l', '7.2')
        with self.refused(FENCED) as caught:
            self.a.check('l', '7.1')
        self.assertEqual(caught.exception.diag.message_detail, 'mark 7.2')
        self.assertIn('acquire', caught.exception.diag.message_hint)
        with self.refused(FENCED):
            self.a.install('l', '7.1')
        self.b.install('l', '7.2')
        self.b.check('l', '7.2')
        self.assertEqual(self.c.ask("SELECT * FROM weir_fence_mark('l')"), [(7, 2)])
        self.assertEqual(self.c.ask("SELECT * FROM weir_fence_mark('m')"), [])

    def test_a_token_that_was_never_installed_is_refused(self):
        with self.refused(NOT_INSTALLED):
            self.a.check('l', '7.1')
        self.a.install('l', '7.1')
        with self.refused(NOT_INSTALLED):
            self.a.check('l', '7.2')
        with self.refused(NOT_INSTALLED):
            self.a.check('m', '7.1')

    def test_incarnation_comes_before_number_and_both_go_to_the_largest(self):
        self.a.install('l', f'7.{LARGEST}')
        self.a.check('l', f'7.{LARGEST}')
        with self.refused(FENCED):
            self.a.check('l', f'7.{LARGEST - 1}')
        self.b.install('l', '8.1')
        with self.refused(FENCED):
            self.a.check('l', f'7.{LARGEST}')
        self.b.ask('SELECT weir_fence_install(%s, %s, %s)', 'l', LARGEST, LARGEST)
        self.b.ask('SELECT weir_fence_check(%s, %s, %s)', 'l', LARGEST, LARGEST)

    def test_what_is_no_token_is_an_error(self):
        for token in ('', '7', '7.', '.7', '0.1', '1.0', '07.1', '7.01', '-1.1', '+7.1', ' 7.1', '7.1 ', '7.1\n', '7,1',
                      '7.1.1', '0x7.1', '١.1', None, '7.' + '9' * 20):
            with self.refused(NO_TOKEN):
                self.a.install('l', token)
            with self.refused(NO_TOKEN):
                self.a.check('l', token)
        with self.refused(TOO_LARGE):
            self.a.install('l', f'{LARGEST + 1}.1')
        for name in ('', 'x' * 1025, None):
            with self.refused(NO_TOKEN):
                self.a.install(name, '7.1')
        with self.refused(NO_TOKEN):
            self.a.ask('SELECT weir_fence_check(%s, NULL::bigint, 1)', 'l')
        self.a.install('x' * 1024, '7.1')

    # ---- nothing passes between check and commit ----

    def between(self, isolation):
        """B installs while A has checked: it waits for A's commit, and sees what A wrote."""
        self.a.install('l', '7.1')
        self.a.ask(f'BEGIN ISOLATION LEVEL {isolation}')
        self.a.check('l', '7.1')
        install = self.b.later("SELECT weir_fence_install('l', '7.2')")
        self.assertTrue(install.waits(self.c))
        self.a.ask('UPDATE account SET balance = 70 WHERE id = 1')
        self.a.ask('COMMIT')
        self.assertIsNone(install.end())
        self.assertEqual(self.b.ask('SELECT balance FROM account WHERE id = 1'), [(70,)])
        with self.refused(FENCED):
            self.a.check('l', '7.1')

    def test_install_waits_for_a_checked_writer_in_read_committed(self):
        self.between('READ COMMITTED')

    def test_install_waits_for_a_checked_writer_in_repeatable_read(self):
        self.between('REPEATABLE READ')

    def test_install_waits_for_a_checked_writer_in_serializable(self):
        self.between('SERIALIZABLE')

    def test_install_waits_for_a_prepared_writer(self):
        self.a.install('l', '7.1')
        self.a.ask('BEGIN')
        self.a.check('l', '7.1')
        self.a.ask('UPDATE account SET balance = 70 WHERE id = 1')
        self.a.ask("PREPARE TRANSACTION 'p'")
        install = self.b.later("SELECT weir_fence_install('l', '7.2')")
        self.assertTrue(install.waits(self.c))
        self.a.ask("COMMIT PREPARED 'p'")
        self.assertIsNone(install.end())

    def test_check_waits_for_an_install_and_is_fenced_by_it(self):
        self.a.install('l', '7.1')
        self.b.ask('BEGIN')
        self.b.install('l', '7.2')
        check = self.a.later("SELECT weir_fence_check('l', '7.1')")
        self.assertTrue(check.waits(self.c))
        self.b.ask('COMMIT')
        self.assertEqual(check.end(), FENCED)

    def test_an_install_that_is_rolled_back_fences_nobody(self):
        self.a.install('l', '7.1')
        self.b.ask('BEGIN')
        self.b.install('l', '7.2')
        check = self.a.later("SELECT weir_fence_check('l', '7.1')")
        self.assertTrue(check.waits(self.c))
        self.b.ask('ROLLBACK')
        self.assertIsNone(check.end())

    def test_a_snapshot_from_before_the_install_cannot_check(self):
        for isolation in ('REPEATABLE READ', 'SERIALIZABLE'):
            self.a.ask('TRUNCATE weir_fence')
            self.a.install('l', '7.1')
            self.a.ask(f'BEGIN ISOLATION LEVEL {isolation}')
            self.a.ask('SELECT * FROM account')
            self.b.install('l', '7.2')
            with self.refused(SERIALIZATION):
                self.a.check('l', '7.1')
            self.a.ask('ROLLBACK')
            with self.refused(FENCED):
                self.a.check('l', '7.1')

    def test_install_is_refused_where_the_reads_after_it_could_be_of_the_past(self):
        for isolation in ('REPEATABLE READ', 'SERIALIZABLE'):
            self.a.ask(f'BEGIN ISOLATION LEVEL {isolation}')
            with self.refused(PAST):
                self.a.install('l', '7.1')
            self.a.ask('ROLLBACK')
        self.a.ask('BEGIN')
        self.a.install('l', '7.1')
        self.a.ask('COMMIT')

    def test_writers_under_one_token_go_on_beside_each_other(self):
        self.a.install('l', '7.1')
        self.a.ask('BEGIN')
        self.a.check('l', '7.1')
        self.b.ask('BEGIN')
        self.b.check('l', '7.1')
        self.b.ask('COMMIT')
        self.a.ask('COMMIT')

    def test_writers_that_never_pause_do_not_keep_install_out(self):
        """Each begins before the one before it has ended: without a queue the row is never free."""
        self.a.install('l', '7.1')
        self.a.ask('BEGIN')
        self.a.check('l', '7.1')
        install = self.b.later("SELECT weir_fence_install('l', '7.2')")
        self.assertTrue(install.waits(self.c))
        other = self.client()
        other.ask('BEGIN')
        check = other.later("SELECT weir_fence_check('l', '7.1')")
        self.assertTrue(check.waits(self.c), 'a newcomer passed the install that waits')
        self.a.ask('COMMIT')
        self.assertIsNone(install.end())
        self.assertEqual(check.end(), FENCED)

    def test_no_acknowledged_update_is_lost(self):
        """Holders come and go; each reads after its install and adds one by a checked write, some of them late."""
        holders, added, problems = 6, [], []

        def hold(number):
            client = Client(self.server)
            try:
                for turn in range(15):
                    token = f'7.{turn * holders + number + 1}'
                    try:
                        client.install('l', token)
                        before = client.ask('SELECT balance FROM account WHERE id = 1')[0][0]
                        client.ask('BEGIN')
                        client.check('l', token)
                        client.ask('UPDATE account SET balance = %s WHERE id = 1', before + 1)
                        client.ask('COMMIT')
                        added.append(token)
                    except psycopg2.Error as error:
                        client.ask('ROLLBACK')
                        if error.pgcode != FENCED:
                            problems.append(error)
            finally:
                client.close()

        threads = [threading.Thread(target=hold, args=(number,)) for number in range(holders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(self.balance(), 100 + len(added))
        self.assertGreater(len(added), 0)

    # ---- the guard ----

    def guard(self, *arguments):
        self.a.ask(f"SELECT weir_fence_guard({', '.join(arguments)})")

    def test_the_guard_refuses_writes_without_a_check(self):
        self.guard("'account'", "'l'")
        self.guard("'account'", "'l'")
        self.a.install('l', '7.1')
        self.a.ask('CREATE TABLE IF NOT EXISTS source (id int, balance int)')
        for write in ('INSERT INTO account VALUES (3, 1)', 'UPDATE account SET balance = 0', 'DELETE FROM account',
                      'UPDATE account SET balance = 0 WHERE false', 'TRUNCATE account',
                      'MERGE INTO account a USING source s ON a.id = s.id WHEN MATCHED THEN DELETE',
                      'INSERT INTO account VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = 2',
                      "WITH c AS (SELECT weir_fence_check('l', '7.1')) UPDATE account SET balance = 0 FROM c"):
            with self.refused(UNGUARDED) as caught:
                self.a.ask(write)
            self.assertIn('weir_fence_check', caught.exception.diag.message_hint)
        with self.refused(UNGUARDED), open('/dev/null', encoding='utf-8') as nothing:
            self.a.cursor.copy_expert('COPY account FROM STDIN', nothing)
        self.assertEqual(self.balance(), 100)
        self.a.ask('BEGIN')
        self.a.check('l', '7.1')
        self.a.ask('UPDATE account SET balance = 5 WHERE id = 1')
        self.a.ask('COMMIT')
        self.assertEqual(self.balance(), 5)
        self.a.ask("SELECT weir_fence_unguard('account')")
        self.a.ask('DELETE FROM account')

    def test_a_check_is_good_for_its_transaction_and_its_lock_only(self):
        self.guard("'account'", "'l'")
        self.a.install('l', '7.1')
        self.a.install('other', '7.1')
        self.a.check('l', '7.1')  # a transaction of its own: over
        with self.refused(UNGUARDED):
            self.a.ask('DELETE FROM account')
        self.a.ask('BEGIN')
        self.a.check('other', '7.1')
        with self.refused(UNGUARDED):
            self.a.ask('DELETE FROM account')
        self.a.ask('ROLLBACK')

    def test_a_check_that_was_rolled_back_to_a_savepoint_is_none(self):
        self.guard("'account'", "'l'")
        self.a.install('l', '7.1')
        self.a.ask('BEGIN')
        self.a.ask('SAVEPOINT s')
        self.a.check('l', '7.1')
        self.a.ask('ROLLBACK TO s')
        self.b.install('l', '7.2')  # the row lock went with the savepoint
        with self.refused(UNGUARDED):
            self.a.ask('DELETE FROM account')
        self.a.ask('ROLLBACK')

    def test_without_a_name_any_checked_token_will_do(self):
        self.guard("'account'")
        self.a.install('account 1', '7.1')
        with self.refused(UNGUARDED):
            self.a.ask('DELETE FROM account')
        self.a.ask('BEGIN')
        self.a.check('account 1', '7.1')
        self.a.ask('UPDATE account SET balance = 5 WHERE id = 1')
        self.a.ask('COMMIT')

    def test_partitions_and_cascades_are_guarded_too(self):
        self.a.ask('CREATE TABLE parted (id int) PARTITION BY RANGE (id)')
        self.a.ask('CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (9)')
        self.a.ask('CREATE TABLE child (id int REFERENCES account ON DELETE CASCADE)')
        self.a.ask('INSERT INTO child VALUES (1)')
        self.guard("'parted'", "'l'")
        self.guard("'child'", "'l'")
        for write in ('INSERT INTO parted VALUES (1)', 'INSERT INTO parted_low VALUES (1)', 'TRUNCATE parted_low',
                      'DELETE FROM account WHERE id = 1', 'TRUNCATE account CASCADE'):
            with self.refused(UNGUARDED):
                self.a.ask(write)

    # ---- who may what, and where names lead ----

    def test_a_writer_needs_execute_and_no_right_to_the_marks(self):
        self.a.ask("DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN "
                   'CREATE ROLE app LOGIN; END IF; END $$')
        self.a.ask('GRANT ALL ON account TO app')
        self.a.ask('REVOKE EXECUTE ON FUNCTION weir_fence_install(text, text), weir_fence_check(text, text) FROM app')
        self.guard("'account'", "'l'")
        app = self.client('app')
        for attempt in ("SELECT weir_fence_install('l', '7.1')", "SELECT weir_fence_install('l', 7, 1)",
                        "SELECT weir_fence_check('l', '7.1')", "SELECT * FROM weir_fence_mark('l')",
                        'SELECT * FROM weir_fence', 'DELETE FROM weir_fence'):
            with self.refused('42501'):
                app.ask(attempt)
        self.a.ask('GRANT EXECUTE ON FUNCTION weir_fence_install(text, text), weir_fence_check(text, text) TO app')
        app.install('l', '7.1')
        app.ask('BEGIN')
        app.check('l', '7.1')
        app.ask('UPDATE account SET balance = 5 WHERE id = 1')
        app.ask('COMMIT')
        with self.refused('42501'):
            app.ask('DELETE FROM weir_fence')

    def test_the_callers_search_path_leads_nowhere(self):
        self.a.ask('DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil')
        self.a.ask('CREATE TABLE evil.weir_fence (name text PRIMARY KEY, incarnation bigint, number bigint)')
        self.a.ask("CREATE FUNCTION evil.split_part(text, text, int) RETURNS text LANGUAGE sql AS $$SELECT '1'$$")
        self.a.ask('CREATE TEMP TABLE weir_fence (name text PRIMARY KEY, incarnation bigint, number bigint)')
        self.a.ask('SET search_path = evil, public, pg_catalog')
        self.a.install('l', '7.1')
        self.assertEqual(self.c.ask("SELECT incarnation, number FROM public.weir_fence WHERE name = 'l'"), [(7, 1)])
        self.assertEqual(self.a.ask('SELECT * FROM evil.weir_fence'), [])

    def test_an_install_waits_for_its_record_even_where_commits_do_not(self):
        self.a.ask('SET synchronous_commit = off')
        self.a.ask('BEGIN')
        self.a.install('l', '7.1')
        self.assertEqual(self.a.ask('SHOW synchronous_commit'), [('on',)])
        self.a.ask('COMMIT')
        self.assertEqual(self.a.ask('SHOW synchronous_commit'), [('off',)])


if __name__ == '__main__':
    unittest.main()
