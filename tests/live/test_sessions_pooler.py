#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check, read and place behind pgbouncer, in its three modes: docs/reads-postgres.md, "Poolers"."""
import re
import unittest

import psycopg2

import test_sessions_http as sessions
from pgbouncer_server import Pgbouncer
from redis_server import wait_for
from session_case import Drive
from weir_server import ROOT, Weir

PAGE = ROOT / 'docs/reads-postgres.md'
BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED'
READ = 'SELECT value FROM pooled'


def recipe():
    """What the page says, literally."""
    text = re.search(r'^```python\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S)[1]
    found = {}
    exec(text, found)  # pylint: disable=exec-used
    return found['read_pooled'], found['write_pooled']


class Between:
    """A cursor; what is to happen happens before the statement."""

    def __init__(self, cursor, statement, happens):
        self.cursor, self.statement, self.happens = cursor, statement, happens

    def execute(self, statement):
        if statement == self.statement:
            self.happens()
        self.cursor.execute(statement)

    def __getattr__(self, name):
        return getattr(self.cursor, name)


class Pooler(sessions.WithReplicas):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.group.primary.execute('CREATE TABLE pooled (value int)')
        cls.group.primary.execute('INSERT INTO pooled VALUES (0)')
        cls.group.wait_caught_up()

    def setUp(self):
        super().setUp()
        self.servers['a'].execute('UPDATE pooled SET value = 0')

    def behind(self):
        """`c` lacks what the session has seen; the route to `b`."""
        self.group.wait_caught_up()
        self.paused('c')
        self.servers['a'].execute('UPDATE pooled SET value = 1')
        self.group.wait_caught_up(self.servers['b'])
        place = self.servers['b'].value(self.client.good('route', token='')['place'])
        token = self.client.good('seen', token='', server='b', place=place)['token']
        route = self.client.good('route', token=token, stay='b', wait_ms=20000)
        self.assertEqual(route['server'], 'b')
        return route

    def pooler(self, mode, name='b'):
        pooler = Pgbouncer(mode, b=self.servers[name])
        self.addCleanup(pooler.stop)
        connection = pooler.connect('b')
        self.addCleanup(connection.close)
        return pooler, connection.cursor()

    def ask(self, cursor, statement):
        cursor.execute(statement)
        return cursor.fetchone()[0]

    def test_session_mode_is_as_without_one(self):
        route = self.behind()
        pooler, cursor = self.pooler('session')
        self.assertEqual(self.ask(cursor, route['check']), 'ok')
        pooler.point(b=self.servers['c'])
        self.assertEqual(self.ask(cursor, READ), 1)
        self.assertEqual(self.client.post('seen', token='', server='b', place=self.ask(cursor, route['place']))[0], 200)

    def test_transaction_mode_holds_within_one_transaction(self):
        read, _ = recipe()
        route = self.behind()
        pooler, cursor = self.pooler('transaction')
        # While it runs the name is pointed at another one.
        moved = Between(cursor, READ, lambda: pooler.point(b=self.servers['c']))
        rows, place = read(moved, route, READ)
        self.assertEqual(rows, [(1,)])
        self.assertEqual(self.client.post('seen', token='', server='b', place=place)[0], 200)
        # The next transaction is there, and its check says so.
        self.assertEqual(read(cursor, route, READ), (None, None))

    def test_transaction_mode_does_not_hold_between_two(self):
        """Why they have to be one: what comes after the check is an older value."""
        route = self.behind()
        pooler, cursor = self.pooler('transaction')
        self.assertEqual(self.ask(cursor, route['check']), 'ok')
        pooler.point(b=self.servers['c'])
        self.assertEqual(self.ask(cursor, READ), 0)

    def test_a_write_in_transaction_mode_compares_two_places(self):
        """The one before the commit names the server that commits; what another says after it tells nothing of it."""
        _, write = recipe()
        route = self.client.good('route', token='', want='write')
        pooler, cursor = self.pooler('transaction', 'a')
        place = write(cursor, route, 'UPDATE pooled SET value = 2')
        token = self.client.good('seen', token='', wrote=True, place=place)['token']
        self.assertEqual(self.client.good('route', token=token, wait_ms=20000)['verdict'], 'ok')
        moved = Between(cursor, 'COMMIT', lambda: pooler.point(b=self.servers['b']))
        with self.assertRaisesRegex(RuntimeError, 'another server'):
            write(moved, route, 'UPDATE pooled SET value = 3')

    def test_statement_mode_is_refused(self):
        """By the pooler, where the recipe begins its transaction; by weir, where it has connections of its own."""
        pooler, cursor = self.pooler('statement')
        self.assertEqual(self.ask(cursor, READ), 0)
        with self.assertRaises(psycopg2.OperationalError):
            cursor.execute(BEGIN)
        with Weir(sessions.configuration({'b': pooler.conninfo('b')})) as weir:
            client = self.connect(weir)
            wait_for(lambda: 'a pooler in statement mode' in
                     client.call('GET', '/v1/sessions/servers')[1]['servers'][0].get('fault', ''), 'it is not said')
            self.assertEqual(client.post('route', token='', wait_ms=50)[0], 503)

    def test_the_library_refuses_statement_mode_and_says_so(self):
        class Named:
            name = 'b'
            conninfo = staticmethod(lambda: pooler.conninfo('b'))
        pooler, _ = self.pooler('statement')
        drive = Drive([Named])
        self.addCleanup(drive.close)
        drive.open(0, wait_ms=500)
        wait_for(lambda: 'a pooler in statement mode' in drive.ask('read', 0, READ), 'it is not said')

    def test_weir_itself_goes_through_the_other_modes(self):
        for mode in ('session', 'transaction'):
            pooler = Pgbouncer(mode, **self.servers)
            self.addCleanup(pooler.stop)
            with Weir(sessions.configuration({name: pooler.conninfo(name) for name in 'abc'})) as weir:
                client = self.connect(weir)
                wait_for(lambda client=client: all(server['usable'] for server in client.call(
                    'GET', '/v1/sessions/servers')[1]['servers']), 'they are not usable')


if __name__ == '__main__':
    unittest.main()
