#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The branch table proves which promotion a timeline comes from where nobody saw it: what was seen is lost, or kept, and
that is told at once (docs/reads-postgres.md, "Branches"). All that holds without it holds with it, too."""
import contextlib
import time
import unittest

import test_session_branches as branches
from redis_server import wait_for
from session_case import Drive
from test_sessions_http import Client, configuration
from weir_server import ROOT, Weir

TABLE = 'weir.branches'
LONG = 60  # seconds that nobody waits where something is proven


def make_table(server, role='postgres'):
    text = (ROOT / 'deploy/reads/branches.sql').read_text(encoding='utf-8')
    server.execute(text.replace(':role', role))


class WithTable(branches.Branches):
    """Also the tests of those without."""
    table = TABLE
    timeout = '500ms'

    def setUp(self):
        super().setUp()
        make_table(self.group.primary)
        self.group.wait_caught_up()
        self.asking = self.enterContext(contextlib.ExitStack())

    def drive(self):
        options = [f'branch_table={self.table}'] if self.table else []
        drive = Drive(self.servers, 'timeout=500', f'freeze={self.freeze_s * 1000}', *options)
        self.asking.callback(lambda: self.assertEqual(drive.close(), 0))
        return drive

    def service(self):
        lines = [f'timeout: {self.timeout}', f'freeze: {self.freeze_s}s']
        lines += [f'branch_table: {self.table}'] if self.table else []
        self.weir = weir = self.asking.enter_context(Weir(configuration(self.conninfos, *lines)))
        client = Client(weir.http)
        self.asking.callback(client.close)
        return client

    def anew(self):
        """Nobody asks any more who asked before."""
        self.asking.close()
        return self.drive(), self.service()

    def fault(self, client, server):
        states = {one['name']: one for one in client.call('GET', '/v1/sessions/servers')[1]['servers']}
        return states[server.name].get('fault', '')

    def expect_fault(self, client, server, text):
        wait_for(lambda: text in self.fault(client, server), f'the fault of {server} does not say: {text}')

    def rows(self, server):
        return server.execute(f'SELECT timeline, cardinality(runs) FROM {TABLE} WHERE xmin = written ORDER BY 1')

    def expect_rows(self, server, rows):
        """At last: who had no time for the table looks again a second later."""
        wait_for(lambda: self.rows(server) == rows, f'{server} has other rows than {rows}')

    def expect_lost_at_once(self, what, drive, client, mine, theirs):
        begun = time.monotonic()
        drive.open(3, wait_ms=LONG * 1000)
        drive.ok('join', 3, mine)
        for command in ('write 3 UPDATE t SET v = v', 'read 3 SELECT v FROM t'):
            self.assertTrue(drive.settled(command).startswith('WEIR_ECUTOFF'), (what, command))
        drive.ok('close', 3)
        for want in ('read', 'write'):
            status, answer = client.post('route', token=theirs, want=want, wait_ms=LONG * 1000)
            self.assertEqual((status, answer.get('verdict')), (409, 'lost'), (what, want))
        self.assertLess(time.monotonic() - begun, LONG / 2, f'{what}: it was waited for')


class Proofs(WithTable):
    timeout = f'{LONG}s'
    test_a_second_promotion_to_the_same_timeline_loses_what_the_first_showed = None
    test_what_was_seen_outlives_new_starts_that_somebody_saw = None
    test_a_standby_that_could_not_tell_its_timeline_for_a_moment_stays_on_its_branch = None

    def test_equal_forks_are_told_apart_by_a_weir_that_was_started_anew(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        self.expect_rows(self.first, [(2, 1)])
        self.asking.close()
        self.promote_second()
        drive, client = self.anew()
        self.leads(self.second, drive, client)
        self.expect_lost_at_once('weir was started anew', drive, client, *tokens)
        self.second.kill()
        self.second.start()
        drive, client = self.anew()
        self.leads(self.second, drive, client)
        self.expect_rows(self.second, [(2, 2)])
        self.expect_lost_at_once('both were', drive, client, *tokens)

    def test_without_the_table_nothing_is_proven_until_the_time_is_over(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        self.promote_second()
        self.table = None
        drive, client = self.anew()
        self.leads(self.second, drive, client)
        client.connection.timeout = 2
        client.close()
        with self.assertRaises(TimeoutError):
            client.post('route', token=tokens[1], want='write', wait_ms=100)
        self.timeout = '500ms'
        client = self.service()
        self.leads(self.second, drive, client)
        self.expect_lost('the time is over', drive, client, *tokens)

    def test_a_row_that_was_copied_from_the_other_branch_is_none(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        copied = self.first.execute(f'SELECT timeline, runs, written::text FROM {TABLE}')
        self.asking.close()
        self.promote_second()
        for row in copied:
            self.second.execute(f'INSERT INTO {TABLE} VALUES (%s, %s, %s::text::xid)', *row)
        drive, client = self.anew()
        self.leads(self.second, drive, client)
        self.expect_rows(self.second, [(2, 1)])
        self.expect_lost_at_once('a row was copied', drive, client, *tokens)

    def test_runs_that_nobody_saw_follow_each_other_are_one_branch(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        for how in (self.first.shut, self.first.kill):
            self.asking.close()
            how()
            self.first.start()
            drive, client = self.anew()
            self.leads(self.first, drive, client)
            self.expect_kept('weir and the primary were started anew', drive, client, *tokens)
        self.expect_rows(self.first, [(2, 3)])
        # A promotion that nobody saw, of one that followed.
        self.second.attach(self.first)
        self.group.primary, self.group.standbys = self.first, [self.second]
        self.group.wait_caught_up()
        self.asking.close()
        self.group.promote_cleanly(self.second)
        self.first = self.second
        drive, client = self.anew()
        self.leads(self.second, drive, client, timeline=3)
        self.expect_kept('another was promoted', drive, client, *tokens)
        self.expect_rows(self.second, [(2, 3), (3, 1)])

    def test_a_standby_says_its_branch_while_no_primary_answers(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        self.second.attach(self.first)
        tokens = self.see_first(drive, client)
        self.group.primary, self.group.standbys = self.first, [self.second]
        self.group.wait_caught_up()
        self.asking.close()
        self.first.kill()
        drive, client = self.anew()
        # No check could say ok where no receiver runs; of another branch it would not be read at all.
        self.assertEqual(client.good('route', token=tokens[1], behind='stale', wait_ms=50)['server'], self.second.name)
        drive.open(4, wait_ms=20000)
        drive.ok('join', 4, tokens[0])
        self.assertEqual(drive.read(4), (self.second.name, False, '11'))

    def test_a_history_that_comes_late_finds_the_rows(self):
        """The right that shows it was forgotten, and is granted: nothing else has to be done."""
        self.group.primary.execute('CREATE ROLE plain LOGIN; GRANT pg_read_all_stats TO plain')
        make_table(self.group.primary, 'plain')
        self.group.wait_caught_up()
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        self.second.attach(self.first)
        _, theirs = self.see_first(drive, client)
        self.group.primary, self.group.standbys = self.first, [self.second]
        self.group.wait_caught_up()
        self.asking.close()
        self.group.promote_cleanly(self.second)
        self.conninfos = {name: text + ' user=plain' for name, text in self.conninfos.items()}
        client = self.service()
        self.expect_fault(client, self.second, 'must be superuser or replication role')
        wait_for(lambda: self.rows(self.second) == [(2, 1), (3, 1)], 'no row')
        self.second.execute('ALTER ROLE plain REPLICATION')
        wait_for(lambda: not self.fault(client, self.second), 'the fault does not go')
        self.assertEqual(client.good('route', token=theirs, want='write')['server'], self.second.name)


class Keeping(WithTable):
    test_a_second_promotion_to_the_same_timeline_loses_what_the_first_showed = None
    test_what_was_seen_outlives_new_starts_that_somebody_saw = None
    test_a_standby_that_could_not_tell_its_timeline_for_a_moment_stays_on_its_branch = None

    def test_several_weirs_write_one_row_and_one_run_each(self):
        self.promote_first()
        clients = [self.service() for _ in range(3)]
        drives = [self.drive() for _ in range(3)]
        for drive, client in zip(drives, clients):
            self.leads(self.first, drive, client)
        wait_for(lambda: self.rows(self.first) == [(2, 1)], 'no row')
        self.first.shut()
        self.first.start()
        for drive, client in zip(drives, clients):
            self.leads(self.first, drive, client)
        wait_for(lambda: self.rows(self.first) == [(2, 2)], 'no second run')

    def test_what_the_table_grows_to_is_bounded(self):
        self.group.primary.execute(f"INSERT INTO {TABLE} VALUES (-62, '{{5}}', '3')")
        self.group.primary.execute(f"INSERT INTO {TABLE} SELECT 2, array_agg(i), '3' FROM generate_series(1, 16) AS i")
        self.group.wait_caught_up()
        self.promote_first()
        self.leads(self.first, self.drive(), self.service())
        kept = f'SELECT timeline, cardinality(runs) FROM {TABLE}'
        wait_for(lambda: self.first.execute(kept) == [(2, 1)], 'others stay')
        # As if there had been so many, of ours.
        self.first.execute(f'UPDATE {TABLE} SET runs = runs || ARRAY(SELECT generate_series(1::bigint, 15)),'
                           ' written = pg_current_xact_id()::xid')
        self.first.shut()
        self.first.start()
        self.leads(self.first, self.drive(), self.service())
        wait_for(lambda: self.first.value(f'SELECT 15 = ANY(runs) FROM {TABLE}') is False, 'no new run')
        self.expect_rows(self.first, [(2, 16)])

    def test_a_table_that_cannot_be_trusted_or_used_is_told_and_done_without(self):
        self.group.primary.execute('CREATE ROLE plain LOGIN REPLICATION; GRANT pg_read_all_stats TO plain;'
                                   'CREATE ROLE other; GRANT SELECT, UPDATE ON t TO plain')
        self.group.wait_caught_up()
        self.promote_first()
        self.conninfos = {name: text + ' user=plain' for name, text in self.conninfos.items()}
        client = self.service()
        primary = self.first

        def expect(text, statement):
            primary.execute(statement)
            self.expect_fault(client, primary, text)
            self.assertEqual(client.good('route', token='', want='write')['server'], primary.name)

        expect('branch_table is not granted to this role', 'SELECT 1')
        told = f'session_server_warning: sessions: {primary.name}: '
        wait_for(lambda: f'warn {told}branch_table is not granted' in self.weir.output(), 'the log does not say it')
        make_table(primary, 'plain')
        wait_for(lambda: self.rows(primary) == [(2, 1)], 'no row')
        wait_for(lambda: not self.fault(client, primary), 'the fault does not go')
        wait_for(lambda: f'info {told}mended' in self.weir.output(), 'the log does not say that it is mended')
        client = self.service()
        for text, before, after in (
            ('is missing', 'ALTER TABLE weir.branches RENAME TO away', 'ALTER TABLE weir.away RENAME TO branches'),
            ('must belong to this role or a superuser', 'ALTER TABLE weir.branches OWNER TO other',
             'ALTER TABLE weir.branches OWNER TO postgres'),
            ('must belong to this role or a superuser', 'ALTER SCHEMA weir OWNER TO other',
             'ALTER SCHEMA weir OWNER TO postgres'),
            ('lets others make some', 'GRANT TRIGGER ON weir.branches TO other',
             'REVOKE TRIGGER ON weir.branches FROM other'),
            ('has triggers', 'CREATE TRIGGER x BEFORE INSERT ON weir.branches EXECUTE FUNCTION '
             'suppress_redundant_updates_trigger()', 'DROP TRIGGER x ON weir.branches'),
            ('must be a plain table', 'ALTER TABLE weir.branches SET UNLOGGED', 'ALTER TABLE weir.branches SET LOGGED'),
            ('must be a plain table', 'ALTER TABLE weir.branches ENABLE ROW LEVEL SECURITY',
             'ALTER TABLE weir.branches DISABLE ROW LEVEL SECURITY'),
            ('column "written"', 'ALTER TABLE weir.branches RENAME written TO away',
             'ALTER TABLE weir.branches RENAME away TO written'),
        ):
            primary.shut()
            primary.start()
            primary.execute(before)
            client = self.service()
            with self.subTest(before):
                expect(text, 'SELECT 1')
            primary.execute(after)
            wait_for(lambda: not self.fault(client, primary), f'the fault does not go after {after}')

    def test_a_table_that_was_forgotten_is_told_before_the_first_failover(self):
        primary = self.group.primary
        primary.execute('DROP SCHEMA weir CASCADE')
        client = self.service()
        self.expect_fault(client, primary, 'branch_table is missing')
        make_table(primary)
        wait_for(lambda: not self.fault(client, primary), 'the fault does not go')
        self.assertEqual(client.good('route', token='', want='write')['server'], primary.name)
        self.assertEqual(primary.execute(f'SELECT FROM {TABLE}'), [])

    def test_a_table_that_is_emptied_or_goes_is_noticed(self):
        """A dump that was restored over it, say. The run is written down again before somebody has to prove it."""
        self.promote_first()
        client = self.service()
        wait_for(lambda: self.rows(self.first) == [(2, 1)], 'no row')
        self.first.execute(f'TRUNCATE {TABLE}')
        wait_for(lambda: self.rows(self.first) == [(2, 1)], 'it stays empty', seconds=40)
        wait_for(lambda: not self.fault(client, self.first), 'there is a fault')
        written = self.first.value(f'SELECT xmin::text FROM {TABLE}')
        self.first.execute('DROP SCHEMA weir CASCADE')
        wait_for(lambda: 'branch_table is missing' in self.fault(client, self.first), 'nobody is told', seconds=40)
        make_table(self.first)
        wait_for(lambda: self.rows(self.first) == [(2, 1)], 'the new one stays empty')
        wait_for(lambda: not self.fault(client, self.first), 'the fault does not go')
        self.assertNotEqual(self.first.value(f'SELECT xmin::text FROM {TABLE}'), written)

    def test_who_locks_the_table_does_not_hold_up_the_poller(self):
        self.promote_first()
        connection = self.first.connect()
        self.addCleanup(connection.close)
        connection.autocommit = False
        with connection.cursor() as cursor:
            cursor.execute(f'LOCK TABLE {TABLE}')
        client = self.service()
        self.expect_fault(client, self.first, 'lock timeout')
        self.assertEqual(client.good('route', token='', want='write')['server'], self.first.name)
        connection.rollback()
        wait_for(lambda: not self.fault(client, self.first), 'the fault does not go')
        self.expect_rows(self.first, [(2, 1)])


if __name__ == '__main__':
    unittest.main()
