#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""While a failover of Sentinel is under way, which lasts as long as its slowest replica needs to follow: its leader
and the other sentinels say different things, and both servers say that they are primaries. The new primary is found
once and not left again, and each failover forgives at most one capacity."""
import time
import unittest

from redis_drive import Drive
from redis_server import Sentinels, wait_for

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
            self.group.fail_over()
            seen, admitted = self.primaries(drive, WINDOW_MS / 1000 + 3)
            self.assertEqual(seen, [self.group.primary.port, promoted.port])
            self.check_bound(drive, admitted, 1, 1)

    def test_killed_primary_with_a_slow_replica(self):
        promoted = self.slow_one()
        with self.drive() as drive:
            drive.wait_ready()
            time.sleep(1.2)
            self.group.primary.kill()
            wait_for(lambda: set(self.group.named()) == {promoted.port}, 'no failover')
            wait_for(lambda: drive.ask('decide', 'a:x:1', deadline_ms=100)[1], 'not followed', 2)
            seen, admitted = self.primaries(drive, WINDOW_MS / 1000)
            self.assertEqual(seen, [promoted.port])
            self.check_bound(drive, admitted + 1, 1, 1)


class Two(WithReplicas, Window):
    def test_start_in_the_window(self):
        """The leader names the new primary, the old one still says that it is one."""
        promoted = self.slow_one()
        self.group.fail_over()
        wait_for(lambda: self.group.named()[0] == promoted.port, 'no failover')
        with self.drive() as drive:
            seen, admitted = self.primaries(drive, WINDOW_MS / 1000)
            self.assertEqual(seen, [promoted.port])
            self.check_bound(drive, admitted, 0, 0)

    def test_two_failovers_in_a_row(self):
        first = self.slow_one()
        for server in self.group.replicas[1:]:
            server.ask('CONFIG', 'SET', 'masterauth', '', 'masteruser', '')
        with self.drive() as drive:
            drive.wait_ready()
            self.group.fail_over()
            seen, admitted = self.primaries(drive, 1)
            wait_for(lambda: set(self.group.named()) == {first.port} and self.group.settled(), 'no failover')
            more = self.primaries(drive, 1)
            self.group.fail_over(1)
            wait_for(lambda: first.port not in self.group.named(), 'no second failover')
            last = self.primaries(drive, 4)
            seen = [port for i, port in enumerate(seen + more[0] + last[0])
                    if i == 0 or port != (seen + more[0] + last[0])[i - 1]]
            self.assertEqual(seen, [self.group.primary.port, first.port, self.group.primary_now().port])
            self.check_bound(drive, admitted + more[1] + last[1], 2, 2)

    def test_one_sentinel_has_not_heard(self):
        """A sentinel that was stopped during the failover wakes up and names the old primary, for a while."""
        self.slow_one()
        with self.drive() as drive:
            drive.wait_ready()
            self.group.sentinels[2].pause()
            self.group.fail_over()
            wait_for(lambda: self.group.named_by(0) != self.group.primary.port, 'no failover')
            self.primaries(drive, 1)
            self.group.sentinels[2].resume()
            seen, _ = self.primaries(drive, 3)
            self.assertEqual(seen, [self.group.replica.port])

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
            now.kill()
            wait_for(lambda: now.port not in self.group.named(), 'no failover')
            wait_for(lambda: drive.ask('peek', 'a:x:1', deadline_ms=100)[0] == 'OK', 'not followed')
            self.assertEqual(self.primaries(drive, 1)[0], [self.group.primary_now().port])


class Three(WithReplicas, Window):
    replicas = 3


if __name__ == '__main__':
    unittest.main()
