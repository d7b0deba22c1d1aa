# SPDX-License-Identifier: Apache-2.0
"""tests/session/session_drive.c: sessions of include/weir/session.h, a line a call; and a case with servers for them."""
import contextlib
import itertools
import subprocess
import unittest

from postgres_replicas import Replicas
from redis_server import wait_for
from weir_server import BUILD

TRACKED, STICKY, WINDOW, PHYSICAL, LAMPORT = range(5)
LEADER, WAIT, OTHER, STALE, ERROR = range(5)
KEY = 'a key of the tests, sixteen bytes'


class Drive:
    """tests/session/session_drive.c. What options do not say is as a busy machine needs it."""

    def __init__(self, servers, *options, key=KEY):
        arguments = [f'key={key}'] if key else []
        options = 'timeout=10000', 'freeze=10000', *options
        for server in servers:
            arguments += ['server', server.name, server.conninfo()]
        self.process = subprocess.Popen([BUILD / 'tests/session/session_drive', *options, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        assert ready == 'ready\n', ready

    def ask(self, *words):
        """The words of the answer, the last one to the end of the line."""
        self.process.stdin.write(' '.join(str(word) for word in words) + '\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f'{words}: the program ended: {self.process.wait()}'
        return line.rstrip('\n')

    def settled(self, *words):
        """What is answered once servers answer, which on a busy machine they do not always do in time."""
        answers = []

        def is_settled():
            answers[:] = [self.ask(*words)]
            return not answers[0].startswith('WEIR_EDOWN') and 'no primary can be asked' not in answers[0]

        with contextlib.suppress(AssertionError):
            wait_for(is_settled, '')
        return answers[0]

    def ok(self, *words):
        answer = self.settled(*words)
        assert answer.split(' ')[0] == 'ok', f'{words}: {answer}'
        return answer[3:]

    def open(self, session, user='ada', strategy=TRACKED, behind=LEADER, wait_ms=20000):
        self.ok('open', session, user, strategy, behind, wait_ms)

    def read(self, session, query='SELECT v FROM t', command='read'):
        """(server, is the leader, value)"""
        server, role, fresh, _, value = self.ok(command, session, query).split(' ', 4)
        assert fresh == 'fresh'
        return server, role == 'leader', value

    def settle(self, names):
        """Until all replicas are known: until then the primary is all there is."""
        users, found = itertools.count(), set()

        def all_found():
            self.open(63, f'settling{next(users)}')
            found.add(self.read(63, 'SELECT 1')[0])
            self.ok('close', 63)
            return found >= names
        wait_for(all_found, 'not all replicas are read from')

    def write(self, session, value):
        return self.ok('write', session, f'UPDATE t SET v = {value}')

    def trips(self):
        words = self.ok('trips').split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = cls.make()
        cls.addClassCleanup(cls.group.stop)
        cls.group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        cls.group.primary.execute('INSERT INTO t VALUES (1, 0)')
        cls.group.wait_caught_up()

    @classmethod
    def make(cls):
        return Replicas(2)

    def drive(self, *options, servers=None, **named):
        drive = Drive(servers or self.group.all(), *options, **named)
        self.addCleanup(lambda: self.assertEqual(drive.close(), 0))
        if self.group.standbys and not servers:
            drive.settle({standby.name for standby in self.group.standbys})
        return drive
