#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The postgres lock engine on real servers that crash, freeze, fail over and are restored: what holds after each
(docs/locks-postgres.md)."""
import contextlib
import os
import shutil
import signal
import time
import unittest

import lock_faults
from postgres_server import LockCase, alive
from redis_server import stand_still, wait_for

DEADLINE_MS = 2000  # of what is never answered, but sent before, even on a busy machine
SLACK_MS = 8000  # beyond a deadline, on a busy machine: a call that hangs is far over it


def unread(port):
    """Bytes that came for this port and that no process has read."""
    with open('/proc/net/tcp', encoding='ascii') as file:
        words = [line.split() for line in file][1:]
    listens = '0A'
    return sum(int(word[4].split(':')[1], 16) for word in words if word[1].endswith(f':{port:04X}') and word[3] != listens)


class Crashes(LockCase):
    def test_what_was_granted_survives_kill_9(self):
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire before x 60000')
        for i in range(3):
            token = self.granted(drive, f'acquire a{i} x 60000')
            postgres.kill()
            postgres.start()
            self.assertEqual(self.granted(drive, f'acquire a{i} x 60000'), token, 'it forgot a grant')
            self.assertGreater(self.granted(drive, f'acquire b{i} x 60000')[0], token[0])

    def test_a_server_without_fsync_is_told(self):
        drive = self.engine(self.server(fsync='off'))
        self.assertIn('fsync', drive.state()['fault'])
        self.granted(drive, 'acquire a x 60000')

    def test_a_server_that_goes_between_batches(self):
        """It is seen before anything is sent: nothing was done, and weir says so."""
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire a x 60000')
        postgres.shut()
        self.assertEqual(drive.ask('acquire b x 60000')['status'], 'EDOWN')
        self.assertFalse(drive.state()['up'])
        postgres.start()
        self.granted(drive, 'acquire b x 60000')

    def test_a_server_that_dies_with_a_batch(self):
        postgres = self.server()
        drive = self.engine(postgres)
        drive.timeout(20000)
        drive.ask('acquire a x 60000')
        postgres.freeze()
        drive.send('acquire b x 60000;show a')
        wait_for(lambda: unread(postgres.port), 'nothing is sent')
        postgres.kill()
        self.assertEqual([a['status'] for a in drive.hear()], ['EUNKNOWN', 'EUNKNOWN'])
        postgres.start()
        self.granted(drive, 'acquire b x 60000')

    def test_a_frozen_server_keeps_nobody_longer_than_the_deadline(self):
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire a x 60000')
        drive.timeout(DEADLINE_MS)
        postgres.freeze()
        answer = drive.ask('acquire b x 60000')
        self.assertEqual(answer['status'], 'EUNKNOWN')
        self.assertLess(answer['took_ms'], DEADLINE_MS + SLACK_MS)
        time.sleep(0.3)
        answer = drive.ask('acquire b y 60000')  # a new connection, which nobody takes up
        self.assertEqual(answer['status'], 'EDOWN')
        self.assertLess(answer['took_ms'], DEADLINE_MS + SLACK_MS)
        postgres.thaw()
        drive.timeout(5000)
        wait_for(lambda: drive.ask('show b')['status'] == 'OK', 'it does not come back')
        self.assertIn(drive.ask('show b').get('holder', ''), ('', 'x'))

    def test_a_row_that_a_stranger_locks(self):
        """The server gives up before the deadline: rolled back, nothing was done."""
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire a x 60000')
        drive.timeout(12000)  # a third of it is for hearing so
        with contextlib.closing(postgres.connect()) as stranger, stranger.cursor() as cursor:
            cursor.execute('BEGIN; SELECT 1 FROM weir_locks FOR UPDATE')
            self.assertEqual([a['status'] for a in drive.batch('acquire c x 60000', 'renew a x 60000')], ['EDOWN'] * 2)
            self.assertFalse(drive.state()['up'], 'nobody would hear of it')
            self.assertIn('statement timeout', drive.state()['fault'])
            drive.timeout(20000)
            self.assertEqual(drive.ask('show c')['said'], 'free')

    def test_a_replica_that_does_not_confirm(self):
        """Committed here and perhaps not there is neither granted nor denied, although the server reports success."""
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire a x 60000')
        postgres.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        postgres.sql('SELECT pg_reload_conf()')
        wait_for(lambda: postgres.sql('SHOW synchronous_standby_names') == 'nobody', 'not reloaded')
        drive.timeout(20000)
        drive.send('acquire b x 60000')
        wait_for(lambda: postgres.sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = "
                                      "'SyncRep'") == '1', 'nobody waits')
        self.assertEqual(drive.hear()[0]['status'], 'EUNKNOWN')
        self.assertIn('synchronous replication', drive.state()['fault'])


class Backwards(LockCase):
    """Servers that have forgotten grants. Tokens after are greater than all before, each time."""

    def lose(self, drive, count=3):
        """Grants that will be forgotten; their tokens."""
        return [self.granted(drive, f'acquire lost{i} x 60000') for i in range(count)]

    def check(self, drive, before, fault=None):
        after = [self.granted(drive, f'acquire lost{i} y 60000') for i in range(len(before))]
        self.assertEqual([number for _, number in after], [1] * len(after), 'nothing was forgotten: shows nothing')
        self.assertGreater(min(after), max(before))
        if fault:
            self.assertIn(fault, drive.state()['fault'])
        return after

    def test_a_replica_that_lacked_the_last_grants_is_promoted(self):
        primary = self.server()
        drive = self.engine(primary)
        drive.ask('acquire a x 60000')
        follower = primary.follower()
        self.addCleanup(follower.stop)
        drive.close()
        drive = self.engine(primary, follower)
        drive.ask('acquire a x 60000')
        wait_for(lambda: primary.caught_up(follower), 'the replica does not catch up')
        follower.kill()
        before = self.lose(drive)
        primary.kill()
        follower.start()
        self.assertEqual(drive.ask('acquire a x 60000')['status'], 'EDOWN', 'a replica is no primary')
        follower.promote()
        after = self.check(drive, before, 'timeline 2')
        # Its own backup, restored beside weir that is stopped: with the same timeline or a new one.
        drive.close()
        again = self.engine(follower)
        self.assertGreater(self.granted(again, 'acquire new x 60000'), max(after))

    def test_the_other_host_is_found_while_the_first_is_frozen(self):
        primary = self.server()
        follower = primary.follower()
        self.addCleanup(follower.stop)
        drive = self.engine(primary, follower)
        drive.timeout(5000)
        drive.ask('acquire a x 60000')
        wait_for(lambda: primary.caught_up(follower), 'the replica does not catch up')
        follower.kill()
        before = self.lose(drive)
        primary.freeze()
        follower.start()
        follower.promote()
        self.check(drive, before)
        primary.thaw()

    def test_yesterdays_base_backup(self):
        """Brought up on the same port by recovery, which makes a new timeline; weir runs on, or is started anew."""
        for restart in (False, True):
            with self.subTest(restart=restart):
                postgres = self.server()
                drive = self.engine(postgres, witness=f'w{restart}')
                drive.ask('acquire a x 60000')
                backup = postgres.backup()
                (backup / 'recovery.signal').touch()
                with open(backup / 'postgresql.conf', 'a', encoding='utf-8') as conf:
                    conf.write("restore_command = 'false'\n")
                before = self.lose(drive)
                if restart:
                    drive.close()
                postgres.shut()
                postgres.restore_files(backup)
                postgres.start()
                wait_for(lambda s=postgres: s.sql('SELECT pg_is_in_recovery()') == 'f', 'recovery does not end')
                drive = self.engine(postgres, witness=f'w{restart}') if restart else drive
                self.check(drive, before, 'timeline 2')

    def test_a_plain_copy_of_the_files(self):
        """The same system, the same timeline; and then other work has moved the position past what weir knew."""
        for restart, busy in ((False, False), (True, False), (False, True), (True, True)):
            with self.subTest(restart=restart, busy=busy):
                postgres = self.server()
                witness = f'w{restart}{busy}'
                drive = self.engine(postgres, witness=witness)
                drive.ask('acquire a x 60000')
                postgres.shut()
                postgres.copy_files(postgres.folder / 'copy')
                postgres.start()
                before = self.lose(drive)
                if restart:
                    drive.close()
                postgres.shut()
                postgres.restore_files(postgres.folder / 'copy')
                postgres.start()
                if busy:
                    postgres.sql('CREATE TABLE work AS SELECT repeat(md5(i::text), 20) FROM generate_series(1, 2000) i')
                drive = self.engine(postgres, witness=witness) if restart else drive
                self.check(drive, before, None if busy else 'went back')
                postgres.stop()

    def test_another_system(self):
        postgres, other = self.server(), self.server(another=True)
        drive = self.engine(postgres)
        before = self.lose(drive)
        drive.close()
        self.check(self.engine(other), before, 'another database system')

    def test_clocks_behind_and_an_old_store(self):
        """The store is older than an incarnation that was raised far above the clock: the witness knows it."""
        postgres = self.server()
        drive = self.engine(postgres)
        drive.ask('acquire a x 60000')
        postgres.shut()
        postgres.copy_files(postgres.folder / 'copy')
        postgres.start()
        self.granted(drive, 'show a')
        drive.ask(f'raise - - 0 {2**40}')
        before = self.lose(drive)
        drive.close()
        postgres.shut()
        postgres.restore_files(postgres.folder / 'copy')
        postgres.start()
        self.check(self.engine(postgres), before)


class Runs(LockCase):
    """The incarnation is raised once for each run of the server, and never outruns the clock."""

    def lose_connection(self, postgres):
        postgres.sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'weir'")

    def test_a_lost_connection_raises_nothing(self):
        postgres = self.server()
        drive = self.engine(postgres)
        first = self.granted(drive, 'acquire a x 600000')
        for i in range(10):
            self.lose_connection(postgres)
            self.assertEqual(self.granted(drive, 'acquire a x 600000'), first)
            self.assertEqual(self.granted(drive, f'acquire b{i} x 600000'), [first[0], 1])
        self.assertEqual(drive.state()['raised'], 1)

    def test_a_crash_of_one_backend_raises_nothing_and_forgets_nothing(self):
        postgres = self.server()
        drive = self.engine(postgres)
        first = self.granted(drive, 'acquire a x 600000')
        pid = int(postgres.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'weir'"))
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(pid), 'it does not die')
        self.assertEqual(self.granted(drive, 'acquire a x 600000'), first)
        self.assertEqual(drive.state()['raised'], 1)

    def test_a_release_that_comes_late_frees_nothing_that_was_told_since(self):
        """The session of before still lives: what it was sent is done after the next one has told who holds what, unless
        a raise came between; and that waits for the clock."""
        postgres = self.server()
        drive = self.engine(postgres)
        drive.timeout(20000)
        self.granted(drive, f'acquire a x 600000 {int(time.time()) + 10**6}')
        kept = self.granted(drive, 'acquire b x 600000')
        for _ in range(3):
            pid = int(postgres.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'weir'"))
            stand_still(pid)
            drive.timeout(DEADLINE_MS)
            self.assertEqual(drive.ask('release a x')['status'], 'EUNKNOWN')
            drive.timeout(20000)
            self.assertEqual(self.granted(drive, 'renew b x 600000'), kept)
            self.granted(drive, 'acquire a x 600000')
            os.kill(pid, signal.SIGCONT)
            wait_for(lambda pid=pid: not alive(pid), 'it does not end')
            self.assertEqual(drive.ask('show a').get('holder'), 'x')

    def test_a_raise_that_the_row_is_locked_against_holds_up_new_tokens_alone(self):
        postgres = self.server()
        kept = self.granted(self.engine(postgres, witness='one'), 'acquire a x 600000')
        with contextlib.closing(postgres.connect()) as stranger, stranger.cursor() as cursor:
            cursor.execute('BEGIN; SELECT 1 FROM weir_locks_meta FOR UPDATE')
            drive = self.engine(postgres, witness='two', up=False)
            drive.timeout(20000)
            for _ in range(3):
                self.assertEqual(self.granted(drive, 'renew a x 600000'), kept)
                self.assertEqual(self.granted(drive, 'acquire a x 600000'), kept)
                self.assertEqual(drive.ask('acquire a y 600000')['said'], 'held')
                self.assertEqual(drive.ask('acquire b x 600000')['status'], 'EDOWN')
            self.assertIn('lock timeout', drive.state()['fault'])
            self.assertFalse(drive.state()['up'])
        self.assertGreater(self.granted(drive, 'acquire b x 600000')[0], kept[0])
        self.assertEqual((drive.state()['up'], drive.state()['fault']), (True, ''))

    def test_starts_and_raises_do_not_outrun_the_clock(self):
        postgres = self.server()
        for _ in range(4):
            drive = self.engine(postgres)
            self.granted(drive, 'acquire a x 600000')
            self.assertLessEqual(drive.state()['incarnation'], time.time())
            drive.close()
        drive = self.engine(postgres)
        for _ in range(3):
            self.granted(drive, 'raise')
            self.assertLessEqual(drive.state()['incarnation'], time.time())

    def test_a_raise_far_above_the_clock_comes_in_short_batches_too(self):
        postgres = self.server()
        drive = self.engine(postgres)
        far = int(time.time()) + 10**6
        drive.timeout(400)  # less than the second that it waits for, and time for a commit on a busy disk
        deadline = time.monotonic() + 300
        while drive.ask(f'raise - - 0 {far}')['status'] != 'OK':
            self.assertLess(time.monotonic(), deadline, drive.state())
            time.sleep(0.02)
        self.assertGreater(drive.state()['incarnation'], far)

    def test_nodes_that_start_together_share_one_raise(self):
        postgres = self.server()
        first = self.engine(postgres, witness='w')
        at = self.granted(first, 'acquire a x 600000')[0]
        drives = [self.engine(postgres, witness=f'w{i}', up=False) for i in range(6)]
        tokens = [self.granted(drive, f'acquire a{i} x 600000') for i, drive in enumerate(drives)]
        self.assertGreater(min(tokens)[0], at)
        self.assertLessEqual(max(tokens)[0], time.time())

    def test_an_old_database_put_in_the_place_of_this_one(self):
        """The same server, the same files by their numbers: only the database's own number tells."""
        postgres = self.server()
        postgres.sql('CREATE DATABASE locks')
        drive = self.engine(postgres, extra=' dbname=locks')
        self.granted(drive, 'acquire a x 600000')
        end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'weir'"
        postgres.sql("UPDATE pg_database SET datallowconn = false WHERE datname = 'locks'")
        postgres.sql(end)
        postgres.sql('CREATE DATABASE yesterday TEMPLATE locks')
        postgres.sql("UPDATE pg_database SET datallowconn = true WHERE datname = 'locks'")
        before = self.granted(drive, 'acquire lost x 600000')
        postgres.sql("UPDATE pg_database SET datallowconn = false WHERE datname = 'locks'")
        postgres.sql(end)
        postgres.sql('ALTER DATABASE locks RENAME TO locks_then')
        postgres.sql('ALTER DATABASE yesterday RENAME TO locks')
        postgres.sql("UPDATE pg_database SET datallowconn = true WHERE datname = 'locks'")
        after = self.granted(drive, 'acquire lost y 600000')
        self.assertEqual(after[1], 1, 'nothing was forgotten: shows nothing')
        self.assertGreater(after, before)


class Drawn(unittest.TestCase):
    def test_a_few_runs_with_faults_that_are_drawn(self):
        """More by hand: tests/live/lock_faults.py --engine postgres --runs 200."""
        words = ['--engine', 'postgres', '--runs', '2', '--jobs', '2']
        self.assertEqual(lock_faults.main(lock_faults.arguments(words)), 0)


if __name__ == '__main__':
    unittest.main()
