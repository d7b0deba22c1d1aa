#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whom a read at the primary waits for that may have been seen at a replica: who may be committing, and nobody else."""
import contextlib
import threading
import unittest

import test_sessions_http as sessions
from postgres_replicas import Replicas
from redis_server import wait_for
from weir_server import Weir


class Settling(sessions.WithReplicas):
    @classmethod
    def setUpClass(cls):
        cls.group = cls.enterClassContext(Replicas(1, max_prepared_transactions=10))
        cls.servers = dict(zip('ab', [cls.group.primary, *cls.group.standbys]))
        cls.conninfos = {name: server.conninfo() for name, server in cls.servers.items()}
        cls.weir = cls.enterClassContext(Weir(sessions.configuration(cls.conninfos)))
        cls.group.primary.execute('CREATE TABLE seen (who text PRIMARY KEY, value int)')
        cls.group.primary.execute("INSERT INTO seen VALUES ('all', 0)")
        cls.group.wait_caught_up()

    def seen_at_replica(self):
        place = self.servers['b'].value(self.client.good('route', token='')['place'])
        return self.client.good('seen', token='', server='b', place=place)['token']

    def ask(self, token, wait_ms):
        """At the primary, which a busy machine may keep from answering in time."""
        told = []

        def is_up():
            told[:] = self.client.post('route', token=token, avoid=['b'], wait_ms=wait_ms)[:2]
            return told[1].get('verdict') != 'down'
        wait_for(is_up, 'the primary does not come back')
        return told

    def answered(self, token):
        """At the primary, and its check says so too."""
        status, route = self.ask(token, 20000)
        self.assertEqual((status, route.get('server')), (200, 'a'), route)
        self.assertEqual(self.servers['a'].value(route['check']), 'ok')

    def hidden_until_released(self, statement):
        """It is in the log, and seen at the replica; the primary hides it, for as long as a standby is missing."""
        value = self.value('b')
        self.group.primary.synchronous('on', 'missing')
        self.addCleanup(self.group.primary.synchronous)
        thread = threading.Thread(target=statement)
        thread.start()
        wait_for(lambda: self.value('b') == value + 1, 'the replica does not show it')
        token = self.seen_at_replica()
        for _ in range(3):
            status, problem = self.ask(token, 100)
            self.assertEqual((status, problem.get('verdict')), (503, 'behind'), problem)
        self.assertEqual(self.value('a'), value)
        self.group.primary.synchronous()
        thread.join()
        self.answered(token)
        self.assertEqual(self.value('a'), value + 1)

    def value(self, server):
        return self.servers[server].value("SELECT value FROM seen WHERE who = 'all'")

    def begin(self, statement):
        connection = self.servers['a'].connect()
        self.addCleanup(connection.close)
        cursor = connection.cursor()
        cursor.execute('BEGIN')
        cursor.execute(statement)
        return cursor

    def test_who_waits_for_his_client_is_not_waited_for(self):
        """He has not begun to commit. Also where another is committing, and where he ends by himself."""
        idle = self.begin("INSERT INTO seen VALUES ('idle', 1)")
        failed = self.begin("INSERT INTO seen VALUES ('failed', 1)")
        with contextlib.suppress(Exception):
            failed.execute('SELECT 1 / 0')
        self.answered(self.seen_at_replica())
        for user in ('new', 'newer'):
            place = self.servers['b'].value(self.client.good('route', user=user, avoid=['a'])['place'])
            self.client.good('seen', user=user, server='b', place=place)
            self.assertEqual(self.client.good('route', user=user, avoid=['b'])['server'], 'a')
        self.hidden_until_released(lambda: self.servers['a'].sql("UPDATE seen SET value = value + 1 WHERE who = 'all'"))
        idle.execute('ROLLBACK')
        failed.execute('ROLLBACK')

    def test_a_commit_that_began_before_is_waited_for(self):
        """Whoever sat idle in it until then."""
        idle = self.begin("UPDATE seen SET value = value + 1 WHERE who = 'all'")
        self.answered(self.seen_at_replica())
        self.hidden_until_released(lambda: idle.execute('COMMIT'))

    def test_a_prepared_one_is_waited_for_while_somebody_may_be_committing_it(self):
        primary = self.servers['a']
        primary.execute("BEGIN; UPDATE seen SET value = value + 1 WHERE who = 'all'; PREPARE TRANSACTION 'p'")
        self.answered(self.seen_at_replica())
        self.hidden_until_released(lambda: primary.sql("COMMIT PREPARED 'p'"))


if __name__ == '__main__':
    unittest.main()
