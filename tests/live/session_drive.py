# SPDX-License-Identifier: Apache-2.0
"""Drives the pollers of servers, and what a server shows, in a process of its own (tests/session/servers_drive.c)."""
import contextlib
import json
import os
import pathlib
import subprocess
import threading
import unittest

from postgres_replicas import Replicas
from redis_server import wait_for
from weir_server import BUILD

PROGRAM = pathlib.Path(os.environ.get('WEIR_SERVERS_DRIVE', BUILD / 'tests/session/servers_drive'))


class ServersDrive:
    """Of the servers given: objects with `name` and conninfo(). Times in ms, as a busy machine needs them. `more` goes to
    each conninfo."""

    def __init__(self, *servers, poll=50, freeze=1000, timeout=10000, more='', clock_query=None):
        words = [word for server in servers for word in (server.name, server.conninfo() + more)]
        env = dict(os.environ, CLOCK_QUERY=clock_query) if clock_query else None
        self.process = subprocess.Popen([str(PROGRAM), str(poll), str(freeze), str(timeout), *words], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding='utf-8')

    def ask(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f'the drive is gone: {self.process.poll()}'
        return json.loads(line)

    def error(self, *words):
        return self.ask(*words)['error']

    def look(self):
        return self.ask('look')

    def server(self, server):
        return self.look()['servers'][server.name]

    def wait(self, server, what, text, seconds=60):
        """Until what(the server's state) is true; that state."""
        seen = []

        def is_so():
            seen[:] = [self.server(server)]
            return what(seen[0])

        wait_for(is_so, f'{server} {text}: {self.server(server)}', seconds)
        return seen[0]

    def wait_usable(self, *servers):
        for server in servers:
            self.wait(server, lambda state: state['usable'], 'does not become usable')

    def open(self, link, server, more=''):
        assert self.error('open', link, server.conninfo() + more) == 'OK'

    def shown(self, link, how='shown'):
        answer = self.ask(how, link)
        assert answer['error'] == 'OK', answer
        return answer

    def place(self, link, number):
        """What is shown on the link now, as a place of that number."""
        self.shown(link)
        answer = self.ask('place', link, number)
        assert answer['error'] == 'OK', answer
        return answer

    def verdict(self, number, link):
        """Of that place, by what is shown on the link now."""
        self.shown(link)
        return self.ask('compare', number, link)['verdict']

    def close(self):
        """At the end of its input it ends by itself; the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return self.process.returncode


class ReplicasCase(unittest.TestCase):
    """One group for the class; each test leaves it as it found it."""

    standbys = 2

    @classmethod
    def setUpClass(cls):
        cls.group = Replicas(cls.standbys, max_prepared_transactions=5)
        cls.addClassCleanup(cls.group.stop)
        cls.group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        cls.group.primary.execute('INSERT INTO t VALUES (1, 0)')
        cls.group.wait_caught_up()

    def setUp(self):
        self.primary, self.one, self.two = self.group.primary, *self.group.standbys[:2]

    def drive(self, *servers, **options):
        drive = ServersDrive(*(servers or self.group.all()), **options)
        self.addCleanup(lambda: self.assertEqual(drive.close(), 0))
        return drive

    def write(self, server=None):
        return (server or self.primary).value('UPDATE t SET v = v + 1 RETURNING v')

    def value(self, server):
        return server.value('SELECT v FROM t')

    def writing(self):
        """Somebody commits every few ms until the test ends, or stop.set()."""
        stop = threading.Event()
        primary = self.primary

        def run():
            connection = primary.connect()
            with connection.cursor() as cursor:
                while not stop.wait(0.005):
                    cursor.execute('UPDATE t SET v = v + 1')
            connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        return stop
