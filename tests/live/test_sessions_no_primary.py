#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP while the primary is dead and nobody is promoted: its standbys have all of its log, and no receiver
that would tell on which timeline that is."""
import contextlib
import unittest

import test_sessions_http as sessions
from postgres_replicas import DEAD_PORT
from postgres_server import Postgres
from redis_server import wait_for
from weir_server import Weir

LACKING = 'ready, without a primary of the sessions: no writes, and hardly any reads\n'


class NoPrimary(sessions.WithReplicas):
    # Whatever the primary wrote at its end, they are not frozen while this runs, and who is late is not gone.
    lines = ('freeze: 600s', 'timeout: 10s')

    def setUp(self):
        super().setUp()
        self.who = self.write(1, token='')
        self.write(1, user='ada')
        self.group.wait_caught_up()
        wait_for(lambda: self.client.good('route', **self.who)['role'] == 'standby', 'no standby is seen to show it')
        self.check = self.client.good('route', **self.who)['check']
        wait_for(lambda: self.client.call('GET', '/readyz') == (200, 'ready\n'), 'it is not ready')
        self.group.primary.kill()
        wait_for(lambda: not self.states()['a']['usable'] and
                 all('receives nothing' in self.states()[name].get('fault', '') for name in 'bc'), 'it is not seen')

    def refused(self, **question):
        status, problem = self.client.post('route', wait_ms=50, **question)
        self.assertEqual((status, problem['verdict'], self.client.reply.headers['Retry-After']), (503, 'down', '1'))
        self.assertIn('GET /v1/sessions/servers', problem['detail'])
        return problem['detail']

    def stale(self, **question):
        route = self.client.good('route', behind='stale', wait_ms=50, **question)
        self.assertEqual((route['verdict'], route['role']), ('stale', 'standby'))
        name = 'ada' if 'user' in question else 'token'
        self.assertEqual(self.read_at(route, name), 1)
        return route['server']

    def is_read(self):
        """As a client does: a standby that is named just before it follows the new primary proves nothing in between."""
        route = self.client.good('route', wait_ms=20000, **self.who)
        server = self.servers[route['server']]
        if server.value(route['check']) != 'ok':
            return False
        self.assertEqual((route['verdict'], server.execute('SELECT value FROM seen WHERE who = %s', 'token')), ('ok', [(1,)]))
        return True

    def test_until_another_is_promoted(self):
        wait_for(lambda: 'there is no primary: nothing can be written, and a standby that receives nothing is read only '
                 'with behind: stale' in self.weir.output(), 'the log does not say it')
        self.assertTrue(all(self.states()[name]['usable'] for name in 'bc'))
        self.assertEqual(self.client.call('GET', '/readyz'), (200, LACKING))
        self.assertEqual([self.servers[name].value(self.check) for name in 'bc'], ['unproven'] * 2)
        for who in (self.who, {'user': 'ada'}):
            for policy in ('leader', 'wait', 'other', 'error'):
                said = self.refused(behind=policy, **who)
                self.assertNotIn('avoid', said)
                self.assertIn('cannot prove what this session has seen, since they receive nothing: b, c ("behind":"stale"',
                              said)
            self.assertIn('receive nothing: c ("behind":"stale" would read c)', self.refused(avoid=['b'], **who))
            written = self.refused(want='write', **who)
            self.assertNotIn('receive nothing', written)
            self.assertNotIn('stale', written)
            self.assertRegex(self.refused(avoid=['c', 'x', 'b', 'a'], **who),
                             r'those to avoid: b, c\. "behind":"stale" would read [bc]\.')
            first = self.stale(**who)
            self.assertEqual({first, self.stale(avoid=[first], **who)}, {'b', 'c'})
            self.stale(avoid=['b', 'c'], **who)
        self.assertEqual(self.client.good('route', strategy='sticky', session='ada', **self.who)['verdict'], 'stale')
        self.assertEqual(self.client.good('route', token='')['verdict'], 'ok')
        self.group.succeed(self.servers['b'])
        wait_for(lambda: self.client.post('route', **self.who)[0] == 200, 'nobody takes over')
        wait_for(self.is_read, 'nobody proves it')
        wait_for(lambda: self.client.good('route', wait_ms=20000, **self.who)['server'] == 'c', 'the standby stays out')
        self.assertNotIn('fault', self.states()['c'])
        wait_for(lambda: self.client.call('GET', '/readyz') == (200, 'ready\n'), 'it is not ready')
        former = self.states()['a']
        self.assertEqual((former['role'], former['lag_ms'], former['usable']), ('former primary', None, False))
        self.assertEqual(self.client.metric('weir_session_server_usable{server="a",role="former primary"}'), 0)
        metrics = self.client.call('GET', '/metrics')[1]
        self.assertEqual(metrics.count('role="primary"'), 1)
        self.assertNotIn('weir_session_lag_seconds{server="a"}', metrics)


class NeverReached(unittest.TestCase):
    def test_nobody_knows_its_role(self):
        with Weir(sessions.configuration({'x': f'host=127.0.0.1 port={DEAD_PORT}'})) as weir, \
                contextlib.closing(sessions.Client(weir.http)) as client:
            [server] = client.call('GET', '/v1/sessions/servers')[1]['servers']
            self.assertEqual((server.get('role'), server['usable']), (None, False))
            self.assertEqual(client.metric('weir_session_server_usable{server="x",role="unknown"}'), 0)
            self.assertNotIn('role="standby"', client.call('GET', '/metrics')[1])


class Users(unittest.TestCase):
    def test_those_not_seen_before_need_the_primary(self):
        """What it shows is what they have seen: where users are kept, in memory, is not what fails."""
        with Weir(sessions.configuration({'x': f'host=127.0.0.1 port={DEAD_PORT}'})) as weir, \
                contextlib.closing(sessions.Client(weir.http)) as client:
            status, problem = client.post('route', user='ada', wait_ms=50)
            self.assertEqual((status, problem['verdict']), (503, 'down'))
            self.assertIn('this user was not seen before, and the primary cannot be asked', problem['detail'])
            wait_for(lambda: 'or the primary does not, which is asked for users not seen before' in weir.output(),
                     'the log does not say it')

    def test_the_log_says_what_is_wrong_with_the_store(self):
        with Postgres() as server:
            server.sql('CREATE ROLE plain LOGIN')
            store = f'users: "postgresql://plain@127.0.0.1:{server.port}/postgres"'
            with Weir(sessions.configuration({'x': server.conninfo()}, store)) as weir, \
                    contextlib.closing(sessions.Client(weir.http)) as client:
                self.assertEqual(client.post('route', user='ada', wait_ms=50)[0], 503)
                wait_for(lambda: 'What was wrong last: permission denied for schema public' in weir.output(),
                         'the log does not say it')


if __name__ == '__main__':
    unittest.main()
