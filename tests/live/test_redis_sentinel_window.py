#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""While a failover of Sentinel is under way, which lasts as long as its slowest replica needs to follow: its leader
and the other sentinels say different things, and both servers say that they are primaries. The new primary is found
once and not left again, and each failover forgives at most one capacity."""
import time
import unittest

from fake_redis import FakeSentinel
from redis_drive import Drive
from redis_server import Redis, Sentinels, wait_for

WINDOW_MS = 5000  # failover-timeout: how long a failover lasts whose replica never follows
CAPACITY = 200


class Window(unittest.TestCase):
    replicas = 2

    def setUp(self):
        self.group = Sentinels(self.replicas, WINDOW_MS)
        self.addCleanup(self.group.stop)

    def drive(self):
        drive = Drive(*(f'127.0.0.1:{s.port}' for s in self.group.sentinels), sentinel='main')
        drive.limit('a', CAPACITY)
        return drive

    @staticmethod
    def one_after_the_other(*seen):
        ports = [port for some in seen for port in some]
        return [port for i, port in enumerate(ports) if i == 0 or port != ports[i - 1]]

    def primaries(self, drive, seconds):
        """The primaries that are used one after the other, for so long, while requests go on. With them what was
        admitted of one key."""
        seen, admitted, until = [], 0, time.monotonic() + seconds
        while time.monotonic() < until:
            admitted += drive.ask('decide', 'a:x:1', deadline_ms=100)[1]
            for address, role, state, _ in drive.servers():
                if (role, state) == ('primary', 'connected') and seen[-1:] != [address]:
                    seen.append(address)
            time.sleep(0.01)
        return [int(address.rpartition(':')[2]) for address in seen], admitted

    def slow_one(self):
        """All but one replica cannot follow a new primary; which one is promoted is told by its priority."""
        promoted, *others = self.group.replicas
        for server in others:
            server.ask('CONFIG', 'SET', 'replica-priority', '200')
            self.group.cannot_sync(server)
        wait_for(lambda: all(s.ask('SENTINEL', 'REPLICAS', 'main') and
                             sorted(row[row.index(b'slave-priority') + 1]
                                    for row in s.ask('SENTINEL', 'REPLICAS', 'main')) ==
                             [b'100'] + [b'200'] * len(others) for s in self.group.sentinels), 'no priorities')
        return promoted

    def check_bound(self, drive, admitted, losses, changes):
        stats = drive.stats()
        self.assertLessEqual(stats['losses'], losses, stats)
        self.assertEqual(stats['primary_changes'], changes, stats)
        self.assertLessEqual(admitted, CAPACITY * (1 + stats['losses']), stats)


class WithReplicas:
    """For each number of replicas."""

    def test_planned_failover_with_a_slow_replica(self):
        promoted = self.slow_one()
        with self.drive() as drive:
            drive.wait_ready()
            before, some = self.primaries(drive, 0.2)
            self.group.fail_over()
            seen, admitted = self.primaries(drive, WINDOW_MS / 1000 + 3)
            self.assertEqual(self.one_after_the_other(before, seen), [self.group.primary.port, promoted.port])
            self.check_bound(drive, some + admitted, 1, 1)

    def test_killed_primary_with_a_slow_replica(self):
        promoted = self.slow_one()
        with self.drive() as drive:
            drive.wait_ready()
            time.sleep(1.2)
            with self.group.losing(self.group.primary):
                self.group.primary.kill()
            self.assertEqual(set(self.group.named()), {promoted.port})
            wait_for(lambda: drive.ask('decide', 'a:x:1', deadline_ms=100)[1], 'not followed', 20)
            seen, admitted = self.primaries(drive, WINDOW_MS / 1000)
            self.assertEqual(seen, [promoted.port])
            self.check_bound(drive, admitted + 1, 1, 1)


class Two(WithReplicas, Window):
    def test_start_in_the_window(self):
        """The leader names the new primary, the old one still says that it is one."""
        promoted = self.slow_one()
        self.group.fail_over()
        self.assertEqual(self.group.named_by(0), promoted.port)
        for _ in range(3):  # weir waits 300 ms for the leader's word, which a busy machine may bring later
            with self.drive() as drive:
                drive.wait_ready()
                if self.primaries(drive, 0.1)[0] != [promoted.port] or drive.stats()['primary_changes'] > 0:
                    continue
                seen, admitted = self.primaries(drive, WINDOW_MS / 1000)
                self.assertEqual(seen, [promoted.port])
                self.check_bound(drive, admitted, 0, 0)
                return
        self.fail('it begins with the old one each time')

    def test_two_failovers_in_a_row(self):
        first = self.slow_one()
        for server in self.group.replicas[1:]:
            server.ask('CONFIG', 'SET', 'masterauth', '', 'masteruser', '')
        with self.drive() as drive:
            drive.wait_ready()
            told = [self.primaries(drive, 0.2)]
            self.group.fail_over()
            told.append(self.primaries(drive, 1))
            wait_for(lambda: set(self.group.named()) == {first.port} and self.group.settled(), 'no failover')
            told.append(self.primaries(drive, 1))
            self.group.fail_over(1)
            wait_for(lambda: first.port not in self.group.named(), 'no second failover')
            told.append(self.primaries(drive, 4))
            self.assertEqual(self.one_after_the_other(*(seen for seen, _ in told)),
                             [self.group.primary.port, first.port, self.group.primary_now().port])
            self.check_bound(drive, sum(admitted for _, admitted in told), 2, 2)

    def test_one_sentinel_has_not_heard(self):
        """A sentinel that was stopped during the failover wakes up and names the old primary, for a while."""
        self.slow_one()
        with self.drive() as drive:
            drive.wait_ready()
            self.group.sentinels[2].pause()
            self.group.fail_over()
            wait_for(lambda: self.primaries(drive, 1)[0] == [self.group.replica.port], 'not followed')
            self.group.sentinels[2].resume()
            seen, _ = self.primaries(drive, 3)
            self.assertEqual(seen, [self.group.replica.port], (self.group.named(), drive.servers(), drive.stats()))

    def test_rebuilt_sentinels_are_believed(self):
        """All three are made anew, with no memory of the failovers there were, and fail over themselves."""
        with self.drive() as drive:
            drive.wait_ready()
            self.group.fail_over()
            wait_for(lambda: self.group.primary.port not in self.group.named() and self.group.settled(), 'no failover')
            self.primaries(drive, 2)
            now = self.group.primary_now()
            self.group.watch(now)
            wait_for(lambda: not drive.ask('peek', 'a:x:1', deadline_ms=100)[0] == 'EDOWN', 'the primary is lost')
            with self.group.losing(now):
                now.kill()
            def follows():
                """For a second in which they did not fail over again, as sentinels on a busy machine may."""
                named = set(self.group.named())
                seen, _ = self.primaries(drive, 1)
                return named == set(self.group.named()) and {*seen} == named and len(seen) == 1
            wait_for(follows, 'not followed')


class Three(WithReplicas, Window):
    replicas = 3


class Words(unittest.TestCase):
    """What sentinels say, and two servers that both are primaries."""

    def setUp(self):
        self.one, self.two = Redis(), Redis()
        self.addCleanup(self.one.stop)
        self.addCleanup(self.two.stop)

    def sentinels(self, *said):
        sentinels = [FakeSentinel(server.port, epoch) for server, epoch in said]
        for sentinel in sentinels:
            self.addCleanup(sentinel.__exit__)
        return sentinels

    def drive(self, sentinels):
        return Drive(*(f'127.0.0.1:{s.port}' for s in sentinels), sentinel='main')

    def primary(self, drive):
        return [a for a, role, state, _ in drive.servers() if (role, state) == ('primary', 'connected')]

    def check_stays(self, drive, server, seconds=1.5):
        wait_for(lambda: self.primary(drive) == [f'127.0.0.1:{server.port}'], 'not followed')
        changes, until = drive.stats()['primary_changes'], time.monotonic() + seconds
        while time.monotonic() < until:
            self.assertEqual(drive.stats()['primary_changes'], changes)
            self.assertEqual(self.primary(drive), [f'127.0.0.1:{server.port}'])
            time.sleep(0.02)

    def test_at_one_epoch_the_first_address_stays(self):
        sentinels = self.sentinels((self.one, 3), (self.one, 3), (self.one, 3))
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)
            sentinels[0].named = sentinels[1].named = self.two.port
            self.check_stays(drive, self.one, 7)

    def test_the_latest_is_followed_whoever_tells_of_it(self):
        sentinels = self.sentinels((self.one, 3), (self.one, 3), (self.one, 3))
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)
            sentinels[2].named, sentinels[2].epoch = self.two.port, 4
            self.check_stays(drive, self.two, 7)

    def test_the_first_word_does_not_count_before_the_others_were_heard(self):
        sentinels = self.sentinels((self.two, 4), (self.one, 3), (self.one, 3))
        sentinels[0].delay_s = 0.05  # for each of two questions; weir waits 300 ms
        judged = 0
        for _ in range(50):
            sentinels = sentinels[1:] + sentinels[:1]
            for sentinel in sentinels:
                sentinel.named_at = None
            with self.drive(sentinels) as drive:
                self.check_stays(drive, self.two, 0.1)
                changes, heard = drive.stats()['primary_changes'], [s.named_at for s in sentinels]
            if all(heard) and max(heard) - min(heard) < 0.2:  # else this machine was slower than weir waits
                self.assertEqual(changes, 0)
                judged += 1
            if judged == 5:
                return
        self.fail(f'only {judged} starts of 50 were heard in time')

    def test_a_sentinel_that_is_silent_delays_the_start_shortly(self):
        sentinels = self.sentinels((self.one, 3), (self.one, 3), (self.two, 4))
        sentinels[2].mute = True
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)

    def test_most_that_agree_on_an_older_one_are_believed_when_nobody_contradicts(self):
        sentinels = self.sentinels((self.one, 9), (self.one, 9), (self.one, 9))
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)
            for sentinel in sentinels[:2]:
                sentinel.named, sentinel.epoch = self.two.port, 1
            self.check_stays(drive, self.one, 6)
            sentinels[2].epoch = 0
            self.check_stays(drive, self.two, 1)
            sentinels[0].named, sentinels[0].epoch = self.one.port, 2
            self.check_stays(drive, self.one, 1)

    def test_fewer_than_most_are_not(self):
        sentinels = self.sentinels((self.one, 9), (self.one, 9), (self.one, 9))
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)
            for sentinel in sentinels[:2]:
                sentinel.mute = True
            sentinels[2].named, sentinels[2].epoch = self.two.port, 1
            self.check_stays(drive, self.one, 8)

    def test_what_was_said_long_ago_does_not_count(self):
        """The only one that knew of a failover is gone; the others were made anew."""
        sentinels = self.sentinels((self.one, 9), (self.two, 1), (self.two, 1))
        with self.drive(sentinels) as drive:
            self.check_stays(drive, self.one, 0.1)
            sentinels[0].mute = True
            self.check_stays(drive, self.two, 3)


if __name__ == '__main__':
    unittest.main()
