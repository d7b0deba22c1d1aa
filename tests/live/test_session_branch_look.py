#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One look at the branch table (deploy/reads/branches.sql, src/sessions/branch_table.c), each condition of its
statements by itself: on one server, which was promoted once, with the table made anew for each test."""
import subprocess
import unittest

from postgres_server import Postgres, run
from redis_server import wait_for
from weir_server import BUILD, ROOT

OURS = 'pg_current_xact_id()::xid'
PLAIN = ' user=plain'


class Look(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Postgres()
        cls.addClassCleanup(cls.server.stop)
        cls.server.shut()
        (cls.server.data / 'standby.signal').touch()
        cls.server.start()
        cls.server.promote()
        cls.server.sql('CREATE ROLE plain LOGIN; CREATE ROLE other')

    def setUp(self):
        self.sql('DROP SCHEMA IF EXISTS weir CASCADE')
        self.make()

    def sql(self, text):
        return self.server.sql(text)

    def make(self, role='plain', user='postgres'):
        text = (ROOT / 'deploy/reads/branches.sql').read_text(encoding='utf-8').replace(':role', role)
        run('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', '127.0.0.1', '-p', self.server.port, '-U', user, '-d',
            'postgres', '-c', text)

    def started(self):
        return int(self.sql("SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint"))

    def look(self, extra=PLAIN, timeline=2, started=None, role='primary', table='weir.branches'):
        done = subprocess.run([str(BUILD / 'tests/session/branch_look'), self.server.conninfo().replace(
            ' user=postgres', extra or ' user=postgres'), table, str(timeline),
            str(started or self.started()), role], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120,
            encoding='utf-8', check=True)
        return done.stdout.strip()

    def rows(self):
        return self.sql('SELECT timeline, runs, xmin = written FROM weir.branches ORDER BY 1')

    def put(self, timeline, runs, written=OURS):
        self.sql(f"INSERT INTO weir.branches VALUES ({timeline}, '{{{runs}}}', {written})")

    def expect_good(self, extra=PLAIN):
        self.assertEqual(self.look(extra), f'ok 2:{self.started()}')

    def expect_refused(self, text, **options):
        said = self.look(**options)
        self.assertTrue(said.startswith('WEIR_EAGAIN branch_table '), said)
        self.assertIn(text, said)

    def test_a_run_is_written_once(self):
        self.expect_good()
        before = self.sql('SELECT xmin, ctid FROM weir.branches')
        self.expect_good()
        self.expect_good(extra=None)
        self.assertEqual(self.sql('SELECT xmin, ctid FROM weir.branches'), before)
        self.assertEqual(self.rows(), f'2|{{{self.started()}}}|t')

    def test_the_file_may_be_run_again_and_by_the_role_itself(self):
        self.make()
        self.expect_good()
        self.sql('DROP SCHEMA weir CASCADE; GRANT CREATE ON DATABASE postgres TO plain')
        self.addCleanup(self.sql, 'REVOKE CREATE ON DATABASE postgres FROM plain')
        self.make(user='plain')
        self.expect_good()

    def test_only_a_plain_table_is_used(self):
        columns = '(timeline bigint PRIMARY KEY, runs bigint[] NOT NULL, written xid NOT NULL)'
        rename = 'ALTER TABLE weir.branches RENAME TO below;'
        for sql in (f'{rename} CREATE VIEW weir.branches AS SELECT * FROM weir.below',
                    f'{rename} CREATE TABLE weir.branches {columns} PARTITION BY RANGE (timeline)',
                    f'{rename} CREATE TABLE weir.whole {columns} PARTITION BY RANGE (timeline);'
                    'CREATE TABLE weir.branches PARTITION OF weir.whole FOR VALUES FROM (-1000) TO (1000)',
                    'CREATE TABLE weir.child () INHERITS (weir.branches)',
                    'CREATE RULE r AS ON DELETE TO weir.branches DO ALSO SELECT 1',
                    'ALTER TABLE weir.branches ENABLE ROW LEVEL SECURITY',
                    'ALTER TABLE weir.branches SET UNLOGGED'):
            with self.subTest(sql=sql):
                self.setUp()
                self.sql(f'{sql}; GRANT ALL ON ALL TABLES IN SCHEMA weir TO plain')
                self.expect_refused('must be a plain table')

    def test_what_was_there_once_is_no_matter(self):
        self.sql('CREATE TABLE weir.child () INHERITS (weir.branches); DROP TABLE weir.child;'
                 'CREATE RULE r AS ON DELETE TO weir.branches DO ALSO SELECT 1; DROP RULE r ON weir.branches')
        self.expect_good()

    def test_whose_it_is(self):
        for sql, text in (('ALTER TABLE weir.branches OWNER TO other', 'must belong to this role or a superuser'),
                          ('ALTER SCHEMA weir OWNER TO other', 'must belong to this role or a superuser'),
                          ('GRANT TRIGGER ON weir.branches TO PUBLIC', 'lets others make some'),
                          ('GRANT TRIGGER ON weir.branches TO other', 'lets others make some'),
                          ('CREATE TRIGGER x BEFORE DELETE ON weir.branches EXECUTE FUNCTION '
                           'suppress_redundant_updates_trigger()', 'has triggers')):
            with self.subTest(sql=sql):
                self.setUp()
                self.sql(sql)
                self.expect_refused(text)
        self.setUp()
        self.sql('GRANT ALL ON weir.branches TO plain')  # who is no other
        self.expect_good()
        self.setUp()
        self.sql('GRANT UPDATE, REFERENCES ON weir.branches TO other; ALTER SCHEMA weir OWNER TO plain;'
                 'ALTER TABLE weir.branches OWNER TO plain')
        self.expect_good()

    def test_a_table_of_that_name_in_another_schema_is_another(self):
        self.sql('CREATE SCHEMA "Other"; CREATE TABLE "Other".branches (LIKE weir.branches INCLUDING ALL);'
                 'GRANT ALL ON SCHEMA "Other" TO plain;'
                 'GRANT SELECT, INSERT, UPDATE, DELETE ON "Other".branches TO plain')
        self.addCleanup(self.sql, 'DROP SCHEMA "Other" CASCADE')
        self.sql('DROP TABLE weir.branches')
        self.expect_refused('is missing')
        self.expect_refused('is missing', table='other.branches')
        self.assertEqual(self.look(table='Other.branches'), f'ok 2:{self.started()}')

    def test_each_right_is_needed_and_at_a_standby_one_is_enough(self):
        for right in ('SELECT', 'INSERT', 'UPDATE', 'DELETE'):
            with self.subTest(right=right):
                self.setUp()
                self.sql(f'REVOKE {right} ON weir.branches FROM plain')
                self.expect_refused('is not granted to this role')
        self.setUp()
        self.sql('REVOKE USAGE ON SCHEMA weir FROM plain')
        self.expect_refused('is not granted to this role')
        self.expect_refused('is not granted to this role', role='standby')
        self.setUp()
        self.put(2, 7)
        self.sql('REVOKE INSERT, UPDATE, DELETE ON weir.branches FROM plain')
        self.assertEqual(self.look(role='standby'), 'ok 2:7')
        self.sql('REVOKE SELECT ON weir.branches FROM plain')
        self.expect_refused('is not granted to this role', role='standby')

    def test_another_server_than_the_one_that_was_shown_is_not_written_and_not_believed(self):
        """A pooler may have put it there since."""
        self.put(2, 7)
        before = self.rows()
        self.expect_refused('did not take the row of this run', started=self.started() + 1)
        self.assertEqual(self.look(role='standby', started=self.started() + 1), 'ok')
        self.assertEqual(self.rows(), before)
        self.expect_refused('did not take the row of this run', timeline=3)
        self.assertEqual(self.rows(), before)

    def test_it_does_not_wait_for_standbys(self):
        self.addCleanup(self.sql, 'SELECT pg_reload_conf()')
        self.addCleanup(self.sql, 'ALTER SYSTEM RESET synchronous_standby_names')
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        self.sql('SELECT pg_reload_conf()')
        wait_for(lambda: self.sql('SHOW synchronous_standby_names') == 'nobody', 'it is not taken')
        self.expect_good()

    def test_rows_that_nobody_of_ours_wrote_are_none(self):
        self.put(2, f'{self.started()},8,9', written="'3'")
        self.assertEqual(self.look(role='standby'), 'ok')
        self.expect_good()
        self.assertEqual(self.rows(), f'2|{{{self.started()}}}|t')
        self.put(-1, '5', written="'3'")
        self.expect_good()
        self.sql("DELETE FROM weir.branches")
        self.put(2, '')
        self.expect_refused('has a row that is none of ours', role='standby')

    def test_a_row_of_another_form_is_written_over(self):
        self.put(2, 7)
        for runs in ('{NULL}', '{{7,8}}', '{{7}}', '{}'):
            with self.subTest(runs=runs):
                self.sql(f"UPDATE weir.branches SET runs = '{runs}', written = pg_current_xact_id()::xid")
                self.expect_good()

    def test_what_has_no_branches_has_no_row(self):
        """Timeline 1 has one branch, and none is below: such a row, even with the right transaction, spoils nothing."""
        for timeline in (1, 0, -1):
            self.put(timeline, 5)
        for timeline in (1, 2):
            self.assertEqual(self.look(role='standby', timeline=timeline), 'ok')
        self.assertEqual(self.look(timeline=1), 'ok')
        self.expect_good()

    def test_the_newest_timelines_are_read_and_none_above(self):
        for timeline in range(2, 14):
            self.put(timeline, 100 + timeline)
        newest = [f'{timeline}:{100 + timeline}' for timeline in range(12, 4, -1)]
        self.assertEqual(self.look(role='standby', timeline=12), ' '.join(['ok', *newest]))

    def test_the_newest_runs_come_first_and_the_oldest_go(self):
        self.put(2, ','.join(str(i) for i in range(16, 0, -1)))
        runs = [self.started(), *range(16, 1, -1)]
        self.assertEqual(self.look(), 'ok 2:' + ','.join(map(str, runs)))
        self.assertEqual(self.rows(), f'2|{{{",".join(map(str, runs))}}}|t')

    def test_sixty_four_timelines_are_kept(self):
        for timeline in (-63, -62, -61):
            self.put(timeline, 5, written="'3'")
        self.expect_good()
        self.assertEqual(self.sql('SELECT timeline FROM weir.branches ORDER BY 1').split(), ['-61', '2'])

    def test_a_lock_on_the_table_is_not_waited_for(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        connection.cursor().execute('BEGIN; LOCK TABLE weir.branches IN EXCLUSIVE MODE')
        self.expect_refused('lock timeout')


if __name__ == '__main__':
    unittest.main()
