#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two promotions that took the same timeline number: what was seen on the one is lost on the other, whoever was started
anew meanwhile; and what goes on through a new start of the primary is not (docs/reads-postgres.md, "Branches")."""
import concurrent.futures
import contextlib
import itertools
import os
import signal
import unittest

from postgres_replicas import Replicas
from redis_server import wait_for
from session_case import Drive
from sessions_client import Client, configuration
from weir_server import Weir

FILL = 64  # records, so that the other branch is beyond what was seen on the first


def crash_backend(server):
    """A crash recovery under a postmaster that lives on."""
    started = server.sql('SELECT pg_postmaster_start_time()')
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute('SELECT pg_backend_pid()')
        [[pid]] = cursor.fetchall()
    server.forget_connection()
    os.kill(pid, signal.SIGKILL)

    def is_back():
        with contextlib.suppress(Exception):
            return server.sql('SELECT pg_postmaster_start_time()') == started and gone(server, pid)
        return False

    wait_for(is_back, 'it does not recover')
    with contextlib.suppress(Exception):
        connection.close()


def gone(server, pid):
    server.forget_connection()
    return not server.value('SELECT count(*) FROM pg_stat_activity WHERE pid = %s', pid)


class Branches(unittest.TestCase):
    freeze_s = 1

    def setUp(self):
        self.group = self.enterContext(Replicas(2))
        self.group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        self.group.primary.execute('INSERT INTO t VALUES (1, 0)')
        self.group.wait_caught_up()
        self.servers = self.group.all()
        self.first, self.second = self.group.standbys
        self.conninfos = {server.name: server.conninfo() for server in self.servers}

    # ---- who asks ----

    def drive(self):
        drive = Drive(self.servers, 'timeout=500', f'freeze={self.freeze_s * 1000}')
        self.addCleanup(lambda: self.assertEqual(drive.close(), 0))
        return drive

    def service(self):
        weir = self.enterContext(Weir(configuration(self.conninfos, f'freeze: {self.freeze_s}s')))
        client = Client(weir.http)
        self.addCleanup(client.close)
        return client

    def leads(self, server, drive, client, timeline=2):
        """Both know the primary."""
        number = []

        def is_known():
            number.append(len(number))
            drive.open(40, f'user{len(number)}')
            answer = drive.ask('write', 40, 'UPDATE t SET v = v')
            drive.ok('close', 40)
            states = {one['name']: one for one in client.call('GET', '/v1/sessions/servers')[1]['servers']}
            told = states[server.name]
            return answer == 'ok UPDATE 1' and told.get('role') == 'primary' and told.get('usable') and \
                told.get('timeline') == timeline and client.post('route', token='', want='write')[0] == 200

        wait_for(is_known, f'{server} is not known to lead')

    def follows(self, server, drive, token):
        """The library reads there what was seen: who has not seen a standby follow cannot tell its promotion from another branch."""
        users = itertools.count()

        def is_read():
            drive.open(41, f'follower{next(users)}')
            drive.ok('join', 41, token)
            name = drive.read(41)[0]
            drive.ok('close', 41)
            return name == server.name

        wait_for(is_read, f'{server} is not read')

    def others(self, server):
        """Who was started just now, and knows the primary."""
        drive, client = self.drive(), self.service()
        self.leads(server, drive, client)
        return drive, client

    # ---- what happens ----

    def cut_alike(self):
        """The primary may write a record by itself after the first is cut and before the second is."""
        for standby in (self.first, self.second):
            standby.cut()
            standby.wait_settled()
        if self.first.replayed() == self.second.replayed():
            return True
        for standby in (self.first, self.second):
            standby.attach(self.group.primary)
        return False

    def promote_first(self):
        """Both standbys have the same of the log, and neither hears of the other."""
        wait_for(self.cut_alike, 'the standbys do not stop at one place')
        self.group.primary.kill()
        self.first.promote()

    def promote_second(self):
        self.first.kill()
        self.second.promote()
        self.assertEqual(self.second.timeline(), 2)
        for _ in range(FILL):
            self.second.execute("SELECT pg_logical_emit_message(true, 'fill', repeat('x', 4000))")

    def see_first(self, drive, client):
        """What a session of the library, and one of the service, has seen at the first: their tokens."""
        drive.open(1, wait_ms=2000)
        drive.write(1, 10)
        self.assertEqual(drive.read(1)[2], '10')
        mine = drive.ok('token', 1)
        route = client.good('route', token='', want='write')
        self.assertEqual(route['server'], self.first.name)
        self.first.execute('UPDATE t SET v = 11')
        theirs = client.good('seen', wrote=True, token='', place=self.first.value(route['place']))['token']
        return mine, theirs

    # ---- what is said ----

    def expect_lost(self, what, drive, client, mine, theirs):
        drive.open(2, wait_ms=300)
        drive.ok('join', 2, mine)
        for command in ('write 2 UPDATE t SET v = v', 'read 2 SELECT v FROM t', 'query 2 SELECT v FROM t'):
            self.assertTrue(drive.settled(command).startswith('WEIR_ECUTOFF'), (what, command))
        drive.ok('accept', 2)
        self.assertEqual(drive.read(2)[2], '0', what)
        drive.ok('close', 2)
        for want in ('read', 'write'):
            status, answer = client.settled('route', token=theirs, want=want, wait_ms=300)
            self.assertEqual((status, answer.get('verdict')), (409, 'lost'), (what, want))
        token = client.good('accept', token=theirs)['token']
        route = client.good('route', token=token)
        self.assertEqual(self.second.value(route['check']), 'ok', what)

    def expect_welcome(self, client, user, primary):
        """Who was never heard of has seen nothing that could be lost, whatever was kept for others."""
        for want in ('write', 'read'):
            route = client.good('route', user=user, want=want)
            self.assertEqual((route['server'], primary.value(route['check'])), (primary.name, 'ok'))

    def expect_kept(self, what, drive, client, mine, theirs):
        drive.open(2)
        drive.ok('join', 2, mine)
        self.assertEqual(drive.read(2)[2], '11', what)
        self.assertEqual(drive.settled('write', 2, 'UPDATE t SET v = v'), 'ok UPDATE 1', what)
        drive.ok('close', 2)
        route = client.good('route', token=theirs, wait_ms=20000)
        self.assertEqual(self.first.value(route['check']), 'ok', what)

    # ---- the tests ----

    def test_a_second_promotion_to_the_same_timeline_loses_what_the_first_showed(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        self.expect_welcome(client, 'early', self.first)
        route = client.good('route', token=tokens[1])
        self.assertEqual(self.first.value(route['check']), 'ok')
        self.promote_second()
        self.leads(self.second, drive, client)
        self.expect_welcome(client, 'late', self.second)
        self.assertEqual(self.second.value(route['check']), 'unproven')  # which was made for the other
        self.expect_lost('nobody was started anew', drive, client, *tokens)
        self.assertTrue(drive.settled('read', 1, 'SELECT v FROM t').startswith('WEIR_ECUTOFF'))
        self.expect_lost('weir was', *self.others(self.second), *tokens)
        crash_backend(self.second)
        self.leads(self.second, drive, client)
        self.expect_lost('the processes of the primary were', drive, client, *tokens)
        self.second.shut()
        self.second.start()
        self.leads(self.second, drive, client)
        self.expect_welcome(client, 'later', self.second)
        self.expect_lost('the primary was', drive, client, *tokens)
        self.second.kill()
        self.second.start()
        self.expect_lost('both were', *self.others(self.second), *tokens)

    def test_what_was_seen_outlives_new_starts_that_somebody_saw(self):
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        tokens = self.see_first(drive, client)
        self.expect_kept('nothing happened', drive, client, *tokens)
        self.expect_kept('weir was started anew', *self.others(self.first), *tokens)
        crash_backend(self.first)
        self.leads(self.first, drive, client)
        self.expect_kept('the processes of the primary', drive, client, *tokens)
        self.expect_kept('they, and then weir', *self.others(self.first), *tokens)
        self.first.shut()
        self.first.start()
        self.leads(self.first, drive, client)
        self.expect_kept('the primary', drive, client, *tokens)
        self.first.kill()
        self.first.start()
        self.leads(self.first, drive, client)
        self.expect_kept('the primary, after a crash', drive, client, *tokens)
        # The other one follows, from the beginning of the timeline: it is of the branch, and its promotion is seen.
        self.second.attach(self.first)
        self.group.primary, self.group.standbys = self.first, [self.second]
        self.group.wait_caught_up()
        wait_for(lambda: client.good('route', token=tokens[1], wait_ms=0)['server'] == self.second.name,
                 'the standby is not read')
        self.follows(self.second, drive, tokens[0])
        self.group.promote_cleanly(self.second)
        self.first = self.second
        self.leads(self.second, drive, client, timeline=3)
        self.expect_kept('another is promoted', drive, client, *tokens)

    def test_a_standby_that_could_not_tell_its_timeline_for_a_moment_stays_on_its_branch(self):
        """While there is no primary only the replication protocol tells it, and that connection may end. What the primary wrote
        at its end may be missing there: it stands still then, and is to be read all the same, however long this takes."""
        self.freeze_s = 600
        drive, client = self.drive(), self.service()
        self.promote_first()
        self.leads(self.first, drive, client)
        self.second.attach(self.first)
        mine, theirs = self.see_first(drive, client)
        self.group.primary, self.group.standbys = self.first, [self.second]
        self.group.wait_caught_up()
        wait_for(lambda: client.good('route', token=theirs)['server'] == self.second.name, 'the standby is not read')
        self.first.kill()
        senders = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'"

        def fault():
            states = {one['name']: one for one in client.call('GET', '/v1/sessions/servers')[1]['servers']}
            return states[self.second.name].get('fault', '')

        wait_for(lambda: 'receives nothing' in fault() and len(self.second.execute(senders)) == 2, 'nobody asks it')
        before = set(self.second.execute(senders))
        self.second.execute(f'SELECT pg_terminate_backend(pid) FROM ({senders}) AS one')

        def others_ask():  # what is shown in between may be over before one has looked
            now = set(self.second.execute(senders))
            return len(now) == 2 and not now & before

        wait_for(others_ask, 'the end of the connection is not noticed')
        wait_for(lambda: 'receives nothing' in fault(), 'its branch is forgotten')
        self.assertEqual(client.good('route', token=theirs, behind='stale', wait_ms=50)['server'], self.second.name)
        drive.open(4, wait_ms=20000)
        drive.ok('join', 4, mine)
        self.assertEqual(drive.read(4), (self.second.name, False, '11'))


class StartedAnew(unittest.TestCase):
    def test_a_place_of_a_standby_that_was_not_asked_since_its_start_is_taken(self):
        """Above timeline 1 the place names its start, which nobody has heard of: whoever says the server has it asked."""
        with Replicas(2) as group:
            one, two = group.standbys
            group.promote_cleanly(one)
            conninfos = {server.name: server.conninfo() for server in (one, two)}
            with Weir(configuration(conninfos, 'poll: 10s', 'freeze: 600s', 'timeout: 60s')) as weir, \
                    contextlib.closing(Client(weir.http)) as client:
                wait_for(lambda: client.post('route', token='')[1].get('server') == two.name, 'the standby is not read')
                place = client.good('route', token='')['place']
                two.shut()
                two.start()
                group.wait_streaming(two)
                shown = two.value(place)
                for who in ({'token': ''}, {'user': 'ada'}):
                    self.assertEqual(client.post('seen', server=two.name, place=shown, **who)[0], 200)


class WithoutHistories(unittest.TestCase):
    def test_what_no_role_may_prove_is_lost_and_accepted(self):
        """After a clean failover, by a role that may not ask for the history of a timeline: users and tokens are told that
        what they saw is lost, which it is not, and go on when they accept."""
        with Replicas(1) as group:
            group.primary.execute('CREATE ROLE plain LOGIN; GRANT pg_read_all_stats TO plain; CREATE TABLE t (v int)')
            group.wait_caught_up()
            conninfos = {server.name: server.conninfo() + ' user=plain' for server in group.all()}
            with Weir(configuration(conninfos, 'timeout: 500ms')) as weir, contextlib.closing(Client(weir.http)) as client:
                wait_for(lambda: client.post('route', token='', want='write')[0] == 200, 'nobody leads')
                place = group.primary.value(client.good('route', token='', want='write')['place'])
                token = client.good('seen', token='', wrote=True, place=place)['token']
                client.good('seen', user='ada', wrote=True, place=place)
                group.promote_cleanly(group.standbys[0])
                wait_for(lambda: client.post('route', token='', want='write')[0] == 200, 'nobody takes over')
                for who in ({'token': token}, {'user': 'ada'}):
                    for want in ('read', 'write'):
                        status, answer = client.settled('route', want=want, wait_ms=100, **who)
                        self.assertEqual((status, answer['verdict']), (409, 'lost'))
                    accepted = client.good('accept', **who)
                    who = {'token': accepted['token']} if 'token' in who else who
                    for want in ('read', 'write', 'primary'):
                        self.assertEqual(client.good('route', want=want, **who)['server'], group.primary.name)
                # Who was never heard of has seen nothing that could be lost.
                self.assertEqual(client.good('route', user='newcomer', want='write')['server'], group.primary.name)

    def test_what_weir_had_no_time_to_prove_before_its_end_is_not_called_lost(self):
        """Who waits while it ends is answered at once, and told to ask again: the next one may prove it."""
        for _ in range(3):  # a primary that is busy in that moment is down
            if (told := self.told_at_the_end()) != (503, 'down'):
                break
        self.assertEqual(told, (503, 'behind'))

    @staticmethod
    def told_at_the_end():
        with Replicas(1) as group:
            group.primary.execute('CREATE ROLE plain LOGIN; GRANT pg_read_all_stats TO plain')
            group.wait_caught_up()
            conninfos = {server.name: server.conninfo() + ' user=plain' for server in group.all()}
            with Weir(configuration(conninfos, 'timeout: 60s')) as weir, contextlib.closing(Client(weir.http)) as client:
                wait_for(lambda: client.post('route', token='', want='write')[0] == 200, 'nobody leads')
                token = client.good('seen', token='', wrote=True, place=group.primary.value(
                    client.good('route', token='', want='write')['place']))['token']
                group.promote_cleanly(group.standbys[0])
                wait_for(lambda: client.post('route', token='', want='write')[0] == 200, 'nobody takes over')
                with concurrent.futures.ThreadPoolExecutor() as pool, contextlib.closing(Client(weir.http)) as other:
                    asked = pool.submit(client.post, 'route', token=token, want='write')
                    wait_for(lambda: other.metric('weir_session_waiting') == 1, 'it does not wait')
                    weir.process.send_signal(signal.SIGTERM)
                    status, answer = asked.result(20)
                return status, answer['verdict']


if __name__ == '__main__':
    unittest.main()
