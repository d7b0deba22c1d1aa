#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""include/weir/session.h against real servers: what a session asks of them, and what it says when they lag, go and lie."""
import itertools
import subprocess
import threading
import time
import unittest

from postgres_replicas import Replicas
from postgres_server import Postgres
from redis_server import wait_for
from session_case import ERROR, LAMPORT, LEADER, OTHER, PHYSICAL, STALE, STICKY, WAIT, WINDOW, Case
from weir_server import BUILD


class Steady(Case):
    """One primary, two replicas, none of which comes to harm."""

    def test_a_write_is_read_back_and_costs_one_question_once(self):
        drive = self.drive()
        drive.open(1)
        drive.write(1, 1)
        self.assertEqual(drive.read(1)[1:], (False, '1'))
        for n in range(2, 12):
            drive.write(1, n)
            before = drive.trips()
            server, leader, value = drive.read(1)  # elsewhere, if that one was far enough first
            self.assertEqual((leader, value), (False, str(n)))
            after = drive.trips()
            # Its own trip is one; the place of the write is asked of the primary.
            for name in after.keys() - {'primary'}:
                self.assertLessEqual(after[name] - before.get(name, 0), 2)
            self.assertEqual(after['primary'] - before['primary'], 1)
            for _ in range(5):
                self.assertEqual(drive.read(1), (server, False, str(n)))
            self.assertEqual(drive.trips(), {**after, server: after[server] + 5})

    def test_a_token_costs_one_question_and_none_if_nothing_was_read(self):
        drive = self.drive()
        drive.open(1)
        server = drive.read(1)[0]
        token = drive.ok('token', 1)
        before = drive.trips()[server]
        self.assertEqual(drive.ok('token', 1), token)
        self.assertEqual(drive.trips()[server], before)
        for _ in range(3):
            drive.read(1)
            drive.ok('token', 1)
        self.assertEqual(drive.trips()[server], before + 6)

    def test_a_query_brings_its_place_with_it(self):
        drive = self.drive()
        drive.open(1)
        drive.open(2)
        drive.write(1, 30)
        server = drive.read(1)[0]
        drive.read(1, command='query')  # prepared now
        drive.ok('token', 1)
        before = drive.trips()
        for _ in range(5):
            self.assertEqual(drive.read(1, command='query'), (server, False, '30'))
            token = drive.ok('token', 1)
        after = drive.trips()
        self.assertEqual((after[server] - before[server], after['primary']), (5, before['primary']))
        drive.write(2, 31)
        drive.ok('join', 1, drive.ok('token', 2))
        self.assertEqual(drive.read(1, command='query')[2], '31')
        self.assertNotEqual(drive.ok('token', 1), token)
        # What the server refuses is its answer, not an error of ours; what was seen is taken all the same.
        self.assertIn('division by zero', drive.read(1, 'SELECT 1 / (v - v) FROM t', command='query')[2])
        self.assertIn('syntax error', drive.read(1, 'SELEC', command='query')[2])
        self.assertIn('read-only', drive.read(1, 'UPDATE t SET v = 0', command='query')[2])
        drive.ok('token', 1)
        self.assertEqual(drive.read(1, command='query')[2], '31')

    def test_a_query_at_the_primary_is_followed_by_its_place(self):
        """Even if it writes, which it should not: the place is of after its commit."""
        primary = self.group.primary
        drive = self.drive(servers=[primary])
        drive.open(1)
        drive.read(1, 'UPDATE t SET v = 40 RETURNING v', command='query')
        token = drive.ok('token', 1)
        drive = self.drive()
        drive.open(1)
        drive.ok('join', 1, token)
        self.assertEqual(drive.read(1)[1:], (False, '40'))

    def test_what_is_still_in_use_is_not_taken_back(self):
        drive = self.drive()
        drive.open(1)
        self.assertEqual(drive.ok('write', 1, 'BEGIN'), 'BEGIN')
        for command in ('read 1 SELECT 1', 'write 1 SELECT 1', 'token 1', 'rest 1', 'accept 1'):
            self.assertTrue(drive.ask(command).startswith('WEIR_EBUSY'), command)
        self.assertEqual(drive.ok('again', 1, 'COMMIT'), 'COMMIT')
        drive.read(1)
        drive.ok('again', 1, 'BEGIN')
        self.assertIn('no_such', drive.ok('again', 1, 'SELECT no_such'))  # failed, and open all the same
        self.assertTrue(drive.ask('token 1').startswith('WEIR_EBUSY'))
        drive.ok('again', 1, 'ROLLBACK')
        drive.ok('token', 1)
        drive.read(1)
        drive.ok('again', 1, 'BEGIN')
        drive.ok('close', 1)  # the connection with it
        drive.open(1)
        drive.read(1)

    def test_a_paused_replica_is_left_and_nothing_goes_back(self):
        drive = self.drive('freeze=200')
        drive.open(1)
        drive.write(1, 100)
        server = drive.read(1)[0]
        paused, = (standby for standby in self.group.standbys if standby.name == server)
        paused.pause()
        try:
            drive.write(1, 101)
            elsewhere, _, value = drive.read(1)
            self.assertNotEqual(elsewhere, server)
            self.assertEqual(value, '101')
            token = drive.ok('token', 1)
            self.assertEqual(drive.read(1)[2], '101')
        finally:
            paused.resume()
        phone = self.drive()  # another process
        phone.open(1)
        phone.ok('join', 1, token)
        self.assertEqual(phone.read(1)[2], '101')

    def test_policies_for_those_behind(self):
        primary = self.group.primary
        for standby in self.group.standbys:
            standby.pause()
        try:
            drive = self.drive('freeze=60000')
            for policy in (LEADER, WAIT, OTHER, STALE, ERROR):
                drive.open(policy, f'user{policy}', behind=policy, wait_ms=200)
            primary.execute('UPDATE t SET v = 200')
            for policy in (LEADER, WAIT, OTHER, STALE, ERROR):
                drive.write(policy, 201 + policy)
            self.assertEqual(drive.read(LEADER), ('primary', True, '205'))
            self.assertEqual(drive.read(OTHER), ('primary', True, '205'))
            self.assertTrue(drive.settled('read', WAIT, 'SELECT 1').startswith('WEIR_EBEHIND'))
            self.assertTrue(drive.settled('read', ERROR, 'SELECT 1').startswith('WEIR_EBEHIND'))
            server, role, fresh, _, value = drive.ok('read', STALE, 'SELECT v FROM t').split()
            self.assertEqual((role, fresh), ('replica', 'stale'))
            self.assertNotEqual(value, '205')
        finally:
            for standby in self.group.standbys:
                standby.resume()
        for policy in (WAIT, STALE):  # 200 ms are not enough for a busy machine each time
            wait_for(lambda policy=policy: ' replica fresh ' in drive.settled('read', policy, 'SELECT v FROM t'),
                     'they do not catch up')
            self.assertEqual(drive.read(policy)[1:], (False, '205'))

    def test_replicas_that_stand_still_are_read_as_stale_and_by_no_other_policy(self):
        for standby in self.group.standbys:
            standby.pause()
        try:
            drive = self.drive('freeze=100')
            drive.open(1, behind=STALE, wait_ms=1500)  # by then they are seen to stand still
            drive.open(2, behind=WAIT, wait_ms=0)
            for session in (1, 2):
                drive.write(session, 250 + session)
            server, role, fresh, _, value = drive.ok('read', 1, 'SELECT v FROM t').split()
            self.assertEqual((role, fresh), ('replica', 'stale'))
            self.assertNotIn(value, ('251', '252'))
            self.assertTrue(drive.settled('read', 2, 'SELECT 1').startswith('WEIR_EBEHIND'))
        finally:
            for standby in self.group.standbys:
                standby.resume()
        self.assertEqual(drive.read(1)[1:], (False, '252'))

    def test_forged_tokens_are_refused_without_waiting_for_them(self):
        """Not signed; and, where tokens are not signed, of the highest position there is."""
        honest = self.drive(key=None)
        honest.open(1)
        honest.write(1, 300)
        honest.read(1)
        token = honest.ok('token', 1)
        signed = self.drive()
        signed.open(1)
        for text in (token, token[:-1] + ('A' if token[-1] != 'A' else 'B')):
            self.assertRegex(signed.ask('join', 1, text), 'WEIR_EFORGED|WEIR_EPROTO')
        forged = honest.ok('forge', token)
        # Of 1000 none may wait: together they would have 30 minutes to.
        drive = self.drive(key=None)
        for n in range(1000):
            drive.open(2, f'user{n}', wait_ms=2000)
            drive.ok('join', 2, forged)
            self.assertTrue(drive.settled('read', 2, 'SELECT 1').startswith('WEIR_ECUTOFF'))
            drive.ok('close', 2)
        drive.open(2)
        drive.ok('join', 2, forged)
        self.assertTrue(drive.settled('read', 2, 'SELECT 1').startswith('WEIR_ECUTOFF'))
        drive.ok('accept', 2)
        self.assertEqual(drive.read(2)[2], '300')

    def test_a_users_sessions_overlap_and_are_joined_in_any_order(self):
        drive = self.drive()
        drive.open(1)
        drive.open(2)
        drive.write(1, 400)
        first = drive.ok('token', 1)
        drive.write(2, 401)
        second = drive.ok('token', 2)
        for session, order in ((3, (first, second)), (4, (second, first)), (5, (second, first, second))):
            drive.open(session, f'device{session}')
            for token in order:
                drive.ok('join', session, token)
            self.assertEqual(drive.read(session)[2], '401')
        self.assertEqual(len({drive.ok('token', session) for session in (3, 4)}), 1)

    def test_a_connection_that_was_reset_is_not_the_one_that_was_checked(self):
        """Its server may have begun again, with less to show."""
        drive = self.drive()
        drive.open(1)
        drive.write(1, 450)
        drive.read(1)
        drive.ok('reset', 1)
        reset = drive.ok('again', 1, 'SELECT pg_backend_pid()')
        self.assertNotEqual(drive.read(1, 'SELECT pg_backend_pid()')[2], reset)
        self.assertEqual(drive.read(1)[2], '450')

    def test_an_accept_that_fails_forgets_nothing(self):
        primary = self.group.primary
        drive = self.drive('timeout=300', 'freeze=60000')
        drive.open(1, wait_ms=300)
        drive.write(1, 460)
        reads = []
        wait_for(lambda: reads.append(drive.read(1)) or not reads[-1][1], 'no standby is read')
        here = reads[-1][0]
        behind, = (standby for standby in self.group.standbys if standby.name != here)
        behind.pause()
        self.addCleanup(behind.resume)
        primary.execute('UPDATE t SET v = 461')
        wait_for(lambda: drive.read(1) == (here, False, '461'), 'it does not come')
        primary.freeze()
        self.addCleanup(primary.thaw)
        wait_for(lambda: drive.ask('accept 1').startswith('WEIR_EDOWN'), 'there is a primary')
        drive.ok('remove', here)
        self.assertTrue(drive.settled('read 1 SELECT v FROM t').startswith('WEIR_EBEHIND'))

    def test_without_a_primary_nothing_is_written(self):
        drive = self.drive(servers=self.group.standbys)
        drive.open(1, wait_ms=300)
        wait_for(lambda: drive.ask('read 1 SELECT 1').startswith('ok'), 'nobody is read from')
        self.assertTrue(drive.ask('write 1 SELECT 1').startswith('WEIR_EDOWN'))

    def test_the_number_of_connections_is_bounded(self):
        drive = self.drive('max=2')
        for session in (1, 2, 3):
            drive.open(session, 'ada', wait_ms=100)
        drive.read(1)
        drive.read(2)
        self.assertTrue(drive.settled('read 3 SELECT 1').startswith('WEIR_ELIMIT'))
        drive.ok('rest', 1)
        drive.read(3)

    def test_replicas_come_and_go(self):
        primary, (one, two) = self.group.primary, self.group.standbys
        drive = self.drive(servers=[primary, one])
        drive.open(1)
        drive.write(1, 500)
        wait_for(lambda: drive.read(1) == ('standby1', False, '500'), 'standby1 is not read from')
        self.assertTrue(drive.ask('remove nobody').startswith('WEIR_ENOENT'))
        self.assertTrue(drive.ask('add', 'standby1', one.conninfo()).startswith('WEIR_EEXIST'))
        drive.ok('add', 'standby2', two.conninfo())
        drive.ok('remove', 'standby1')
        wait_for(lambda: drive.read(1) == ('standby2', False, '500'), 'standby2 is not read from')
        drive.ok('remove', 'standby2')
        self.assertEqual(drive.read(1), ('primary', True, '500'))

    def test_the_example(self):
        output = subprocess.run([BUILD / 'example_reads', *(server.conninfo() for server in self.group.all())],
                                stdout=subprocess.PIPE, text=True, check=False, timeout=60).stdout.splitlines()
        self.assertEqual(output[0], 'laptop at the primary: CREATE TABLE')
        self.assertEqual([line.split(': ')[1] for line in output[1:]], ['wrote first!', 'sees first!', 'sees first!'])

    def test_users_in_threads_while_replicas_come_and_go(self):
        self.group.primary.execute('CREATE TABLE threads (k int PRIMARY KEY, v int)')
        self.group.wait_caught_up()
        process = subprocess.run([BUILD / 'tests/session/session_threads', '6', '60',
                                  *(server.conninfo() for server in self.group.all())], stdout=subprocess.PIPE,
                                 text=True, check=False, timeout=250)
        word, reads, leader_reads = process.stdout.split()
        self.assertEqual((process.returncode, word, int(reads)), (0, 'ok', 6 * 60 + 6 * 20), process.stdout)
        self.assertLess(int(leader_reads), int(reads))

    def test_the_other_strategies(self):
        self.group.primary.execute('CREATE TABLE IF NOT EXISTS clock (c bigint)')
        self.group.primary.execute('INSERT INTO clock VALUES (1)')
        self.group.wait_caught_up()
        drive = self.drive('clock=SELECT max(c) FROM clock')
        for strategy in (STICKY, WINDOW, PHYSICAL, LAMPORT):
            drive.open(strategy, strategy=strategy)
        sticky = drive.read(STICKY)[0]
        drive.write(STICKY, 600)
        self.assertEqual(drive.read(STICKY)[0], sticky)
        drive.write(WINDOW, 601)
        self.assertEqual(drive.read(WINDOW), ('primary', True, '601'))
        drive.write(PHYSICAL, 602)
        self.assertEqual(drive.read(PHYSICAL)[2], '602')
        self.assertEqual(drive.ok('write', LAMPORT, 'UPDATE t SET v = 603; UPDATE clock SET c = c + 1'), 'UPDATE 1')
        self.assertEqual(drive.read(LAMPORT)[1:], (False, '603'))
        self.assertTrue(self.drive().ask('open 1 ada', LAMPORT, LEADER, 0).startswith('WEIR_EINVAL'))


class Failing(Case):
    """Servers go, and come back as others."""

    def test_faults(self):
        """In one group, since each failover takes a server away."""
        self.broken_connection()
        self.frozen_server()
        self.lossy_failover()
        self.zombie()

    def broken_connection(self):
        drive = self.drive()
        drive.open(1)
        drive.write(1, 1)
        server = drive.read(1)[0]
        standby, = (one for one in self.group.standbys if one.name == server)
        standby.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT v FROM t'")
        # What was seen there cannot be asked any more: the primary bounds it. (Unless the end has yet to arrive.)
        wait_for(lambda: drive.read(1)[2] == '1', 'it does not get over it')
        drive.write(1, 2)
        self.group.primary.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                   "WHERE query = 'UPDATE t SET v = 2'")
        drive.ok('token', 1)
        self.assertEqual(drive.read(1)[2], '2')
        server = drive.read(1, command='query')[0]
        self.server(server).execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        wait_for(lambda: drive.ask('query', 1, 'SELECT v FROM t').endswith(' 2'), 'it does not get over it')

    def server(self, name):
        return next(server for server in self.group.all() if server.name == name)

    def frozen_server(self):
        drive = self.drive('timeout=300')
        for session in range(8):  # some at each
            drive.open(session, f'user{session}', wait_ms=300)
            drive.read(session)
        frozen = self.group.standbys[0]
        frozen.freeze()
        begun = time.monotonic()
        try:
            for session in range(8):
                drive.write(session, 10 + session)
                self.assertNotEqual(drive.read(session, 'SELECT 1')[0], frozen.name)
        finally:
            frozen.thaw()
        self.assertLess(time.monotonic() - begun, 60)  # a hang, not a speed

    def lossy_failover(self):
        group = self.group
        drive = self.drive()
        drive.open(1, wait_ms=500)
        drive.open(2, wait_ms=500)
        drive.write(1, 50)
        drive.read(1)
        group.wait_caught_up()
        kept = drive.ok('token', 1)
        successor = group.standbys[1]
        group.promote_lossily(successor, lambda: drive.write(1, 51))
        drive.ok('join', 2, kept)
        wait_for(lambda: drive.ask('write', 2, 'UPDATE t SET v = 60') == 'ok UPDATE 1', 'no new primary is found')
        self.assertEqual(drive.read(2)[2], '60')
        self.assertTrue(drive.settled('read', 1, 'SELECT v FROM t').startswith('WEIR_ECUTOFF'))
        self.assertTrue(drive.settled('read', 1, 'SELECT v FROM t').startswith('WEIR_ECUTOFF'))
        drive.ok('accept', 1)
        self.assertEqual(drive.read(1)[2], '60')

    def zombie(self):
        """Its connections live on; what they showed last is asked for when the session writes elsewhere."""
        group = self.group
        drive = self.drive()
        drive.open(1)
        successor = group.standbys[0]
        group.wait_caught_up()
        successor.cut()
        successor.wait_settled()
        drive.write(1, 71)
        group.succeed(successor)
        number = itertools.count(80)

        def writes_at_the_successor():
            drive.open(2)
            answer = drive.ask('write', 2, f'UPDATE t SET v = {next(number)}')
            drive.ok('close', 2)
            return answer == 'ok UPDATE 1' and successor.value('SELECT v FROM t') >= 80

        wait_for(writes_at_the_successor, 'no new primary is found')
        self.assertTrue(drive.settled('write', 1, 'UPDATE t SET v = 72').startswith('WEIR_ECUTOFF'))
        drive.ok('accept', 1)
        self.assertEqual(drive.settled('write', 1, 'UPDATE t SET v = 73'), 'ok UPDATE 1')
        self.assertEqual(successor.value('SELECT v FROM t'), 73)


class Anew(Case):
    def test_a_standby_that_began_anew_and_hides_what_it_showed_is_not_read(self):
        """A commit that waits for another standby is none of those that had ended at its checkpoint."""
        primary, (one, two) = self.group.primary, self.group.standbys
        drive = self.drive(servers=[primary, two])
        drive.open(1, wait_ms=300)
        wait_for(lambda: drive.read(1)[0] == two.name, f'{two} is not read from')
        primary.synchronous('on', f'FIRST 1 ({one.name})')
        one.cut()
        writing = threading.Thread(target=lambda: primary.connect().cursor().execute('UPDATE t SET v = 1'))
        writing.start()
        wait_for(lambda: two.value('SELECT v FROM t') == 1, f'{two} does not show it')
        self.assertEqual(drive.read(1), (two.name, False, '1'))
        token = drive.ok('token', 1)
        primary.execute('CHECKPOINT')
        self.group.wait_caught_up(two)
        two.execute('CHECKPOINT')
        two.shut()
        two.start()
        self.assertEqual(two.value('SELECT v FROM t'), 0)
        for session in (2, 3, 4):
            drive.open(session, f'user{session}', wait_ms=300)
            drive.ok('join', session, token)
            self.assertIn(drive.ask('read', session, 'SELECT v FROM t').split(' ')[0], ('WEIR_EBEHIND', 'WEIR_EDOWN'))
        primary.synchronous()
        writing.join()
        primary.execute('UPDATE t SET v = 2')
        wait_for(lambda: drive.read(1) == (two.name, False, '2'), f'{two} is not read from')


class Orphans(Case):
    def test_while_there_is_no_primary_its_standbys_are_read(self):
        """They have no receiver that tells their timeline: the replication connection does."""
        drive = self.drive()
        drive.open(1, wait_ms=20000)
        drive.write(1, 1)
        wait_for(lambda: not drive.read(1)[1], 'no standby is seen to show it')
        token = drive.ok('token', 1)
        self.group.wait_caught_up()
        self.group.primary.kill()
        for standby in self.group.standbys:
            wait_for(lambda one=standby: one.value('SELECT count(*) FROM pg_stat_wal_receiver') == 0, 'it receives')
        drive.open(2, 'eve', wait_ms=20000)
        drive.ok('join', 2, token)
        self.assertEqual(drive.read(2)[1:], (False, '1'))


class Foreign(Case):
    @classmethod
    def make(cls):
        return Replicas(0)

    def test_a_token_of_another_cluster(self):
        with Postgres() as other:
            other.name = 'other'
            here, there = self.drive(), self.drive(servers=[other])
            here.open(1)
            there.open(1)
            here.read(1, 'SELECT 1')
            there.ok('join', 1, here.ok('token', 1))
            self.assertTrue(there.settled('read', 1, 'SELECT 1').startswith('WEIR_EFOREIGN'))


if __name__ == '__main__':
    unittest.main()
