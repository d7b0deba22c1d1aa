#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions over HTTP, with a real primary and its replicas: where a read goes, what its check says there, and what is
answered where no server can serve it."""
import concurrent.futures
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from postgres_replicas import DEAD_PORT, Replicas
from postgres_server import Postgres
from redis_server import wait_for
from sessions_client import OTHER_KEY, Client, configuration
from weir_server import BUILD, ROOT, Weir

FAR = 'FFFFFFFF/FFFFFFF8'


class WithReplicas(unittest.TestCase):
    """Three servers: `a` is the primary at first."""
    group = weir = None
    lines = ()

    @classmethod
    def setUpClass(cls):
        cls.group = cls.enterClassContext(Replicas(2))
        cls.servers = dict(zip('abc', [cls.group.primary, *cls.group.standbys]))
        cls.conninfos = {name: server.conninfo() for name, server in cls.servers.items()}
        cls.weir = cls.enterClassContext(Weir(configuration(cls.conninfos, *cls.lines)))
        cls.group.primary.execute('CREATE TABLE seen (who text PRIMARY KEY, value int)')
        cls.group.wait_caught_up()

    def setUp(self):
        self.client = self.connect(self.weir)
        wait_for(lambda: all(server['usable'] for server in self.states().values()), 'they are not usable')

    def connect(self, weir, **options):
        client = Client(weir.http, **options)
        self.addCleanup(client.close)
        return client

    def states(self):
        return {server['name']: server for server in self.client.call('GET', '/v1/sessions/servers')[1]['servers']}

    def write(self, value, client=None, **who):
        """Returns whose it is now: the token moves on, the user stays."""
        client = client or self.client
        route = client.good('route', want='write', **who)
        server = self.servers[route['server']]
        name = who.get('user', 'token')
        server.execute('INSERT INTO seen VALUES (%s, %s) ON CONFLICT (who) DO UPDATE SET value = excluded.value', name,
                       value)
        answer = client.good('seen', wrote=True, place=server.value(route['place']), **who)
        return {'token': answer['token']} if 'token' in who else who

    def read_at(self, route, name):
        server = self.servers[route['server']]
        self.assertEqual(server.value(route['check']), 'ok', route)
        [[value]] = server.execute('SELECT value FROM seen WHERE who = %s', name)
        return value

    def paused(self, *names):
        for name in names:
            self.servers[name].pause()
            self.addCleanup(self.servers[name].resume)


class Routes(WithReplicas):
    def test_a_read_goes_where_its_write_is_shown(self):
        """And only there: what the check says of each server is what one sees at it."""
        self.servers['b'].set_delay(30)
        self.addCleanup(self.servers['b'].set_delay, 0)
        for name, who in (('token', {'token': ''}), ('ada', {'user': 'ada'})):
            for value in range(15):
                who = self.write(value, **who)
                route = self.client.good('route', **who)
                self.assertEqual((route['verdict'], self.read_at(route, name)), ('ok', value))
                for server in self.servers.values():
                    if server.value(route['check']) == 'ok':
                        self.assertGreaterEqual(server.execute('SELECT value FROM seen WHERE who = %s', name)[0][0],
                                                value)
                place = self.servers[route['server']].value(route['place'])
                seen = self.client.good('seen', place=place, server=route['server'], **who)
                who = {'token': seen['token']} if 'token' in who else who

        def waited():
            """Not each time: a poll may have come between the write and the question."""
            self.client.good('route', **self.write(1, token=''))
            return self.client.metric('weir_session_waits_total') > 0

        wait_for(waited, 'nobody had to wait')

    def test_a_paused_replica_is_left_alone(self):
        self.paused('b')
        for value in range(3):
            who, routes = self.write(value, user='bob'), []

            def read_at_the_other():  # or at the primary, if that one is late
                routes.append(self.client.good('route', stay='b', wait_ms=20000, **who))
                self.assertEqual((routes[-1]['server'] == 'b', self.read_at(routes[-1], 'bob')), (False, value))
                return routes[-1]['server'] == 'c'

            wait_for(read_at_the_other, 'it is not read at the other replica')
        self.assertEqual(self.servers['b'].value(routes[-1]['check']), 'behind')

    def test_behind_everywhere_the_policy_decides(self):
        self.paused('b', 'c')
        who = self.write(1, token='')
        leader = self.client.good('route', behind='leader', wait_ms=50, **who)
        self.assertEqual((leader['server'], leader['role'], self.read_at(leader, 'token')), ('a', 'primary', 1))
        self.assertEqual(self.client.good('route', behind='other', wait_ms=5000, **who)['server'], 'a')
        for policy in ('wait', 'error'):
            status, problem = self.client.settled('route', behind=policy, wait_ms=50, **who)
            self.assertEqual((status, problem['verdict'], problem['status']), (503, 'behind', 503))
            self.assertEqual(self.client.reply.headers['Retry-After'], '1')
            self.assertEqual(self.client.reply.headers['Content-Type'], 'application/problem+json')
            self.assertRegex(problem['detail'], r'has seen\. "behind":"stale" would read [bc]\. GET')
        stale = self.client.good('route', behind='stale', wait_ms=20, **who)
        self.assertEqual((stale['verdict'], stale['role']), ('stale', 'standby'))
        self.assertEqual(self.servers[stale['server']].value(stale['check']), 'ok')
        # Who waits has its answer when a replica comes.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            later = pool.submit(self.connect(self.weir).good, 'route', behind='wait', wait_ms=50000, **who)
            wait_for(lambda: self.client.metric('weir_session_waiting') == 1, 'it does not wait')
            self.servers['c'].resume()
            route = later.result(40)
        self.assertEqual((route['server'], self.read_at(route, 'token')), ('c', 1))

    def test_who_goes_while_it_waits_is_forgotten(self):
        self.paused('b', 'c')
        who = self.write(1, token='')
        with Weir(configuration(self.conninfos, 'freeze: 600s')) as weir:
            client, other = self.connect(weir), Client(weir.http)
            other.connection.request('POST', '/v1/sessions/route', json.dumps({'behind': 'wait', 'wait_ms': 60000, **who}))
            wait_for(lambda: client.metric('weir_session_waiting') == 1, 'it does not wait')
            other.close()
            wait_for(lambda: client.metric('weir_session_waiting') == 0, 'it waits for nobody')
            # And those who come later are not.
            self.assertEqual(client.settled('route', behind='wait', wait_ms=50, **who)[1]['verdict'], 'behind')

    def test_a_frozen_replica_leaves_the_rotation(self):
        self.paused('b')
        self.write(1, token='')
        wait_for(lambda: self.states()['b']['frozen'], 'it is not seen')
        self.assertFalse(self.states()['b']['usable'])
        self.assertNotIn('b', {self.client.good('route', token='')['server'] for _ in range(20)})

    def test_replicas_that_stand_still_are_what_there_is_for_stale(self):
        self.paused('b', 'c')
        who = self.write(1, token='')
        wait_for(lambda: self.states()['b']['frozen'] and self.states()['c']['frozen'], 'it is not seen')
        stale = self.client.good('route', behind='stale', wait_ms=20, **who)
        self.assertEqual((stale['verdict'], stale['role'], stale['holds_ms'] < 1000), ('stale', 'standby', True))
        self.assertEqual(self.servers[stale['server']].value(stale['check']), 'ok')
        other = self.client.good('route', behind='stale', wait_ms=20, avoid=[stale['server']], **who)
        self.assertEqual({stale['server'], other['server']}, {'b', 'c'})
        status, problem = self.client.settled('route', behind='stale', wait_ms=20, avoid=['b', 'c'], **who)
        self.assertEqual((status, problem['verdict']), (503, 'behind'))
        for policy in ('wait', 'error'):
            self.assertEqual(self.client.post('route', behind=policy, wait_ms=20, **who)[0], 503, policy)
        self.assertEqual(self.client.good('route', **who)['server'], 'a')

    def test_messages_in_the_wrong_order_lower_nothing(self):
        places = []
        for value in range(3):
            self.write(value, user='warm')
            places.append(self.servers['a'].value(self.client.good('route', token='')['place']))
        for who in ({'user': 'order'}, {'token': ''}):
            texts = []
            for place in reversed(places):
                seen = self.client.good('seen', place=place, **who)
                who = {'token': seen['token']} if 'token' in who else who
                texts.append(self.client.good('route', **who)['check'])
            self.assertEqual(texts, texts[:1] * 3)
            together = self.client.good('seen', places=places, token='')
            self.assertEqual(self.client.good('route', token=together['token'])['check'].count(places[2].split()[8]), 2)

    def test_sessions_spread_and_stick(self):
        def servers(**question):
            return {self.client.good('route', **question)['server'] for _ in range(40)}

        def go_to(expected, **question):
            """On a busy machine one is late now and then, and others are named."""
            wait_for(lambda: servers(**question) in expected, f'{question} is not answered with {expected}', 20)
        one = [{name} for name in 'abc']
        go_to([{'b', 'c'}], token='')
        go_to(one, token='', session='ada')
        go_to([{'b'}], token='', stay='b')
        go_to([{'c'}], token='', stay='b', avoid=['b'])
        go_to([{'a'}], token='', avoid=['a', 'b', 'c'])
        who = self.write(1, token='')
        go_to([{'a'}], strategy='window', session='ada', **who)
        go_to(one, strategy='sticky', session='ada', **who)


class Refusals(WithReplicas):
    def place(self):
        return self.servers['a'].value(self.client.good('route', token='')['place'])

    def far(self):
        words = self.place().split()
        return ' '.join([*words[:7], '744+0', FAR, FAR, words[10]])

    def test_a_forged_token_a_thousand_times(self):
        with Weir(configuration(self.conninfos, key=OTHER_KEY)) as other:
            client = self.connect(other)
            forged = client.good('seen', token='', place=self.far())['token']
        nonsense = 'A' * 80
        before = self.client.metric('weir_session_waits_total')
        for token, verdict in ((forged, 'forged'), (nonsense, 'malformed')):
            for _ in range(1000):
                status, problem = self.client.post('route', token=token, wait_ms=60000)
                assert (status, problem['verdict']) == (400, verdict), (status, problem)
        self.assertEqual(self.client.metric('weir_session_waits_total'), before)
        self.assertGreaterEqual(self.client.metric('weir_session_refused_total{verdict="forged"}'), 1000)

    def test_an_impossible_place(self):
        """Signed by us, because whoever tells places is believed for its own token: nobody waits for it. Of a user it is
        not even kept."""
        token = self.client.good('seen', token='', place=self.far())['token']
        for want in ('read', 'write'):
            status, problem = self.client.settled('route', token=token, want=want, wait_ms=60000)
            self.assertEqual((status, problem['verdict']), (409, 'lost'))
        accepted = self.client.good('accept', token=token)['token']
        self.client.good('route', token=accepted)
        status, problem = self.client.settled('seen', user='liar', place=self.far())
        self.assertEqual((status, problem['verdict']), (409, 'lost'))
        self.client.good('route', user='liar')

    def test_another_system(self):
        foreign = self.place().split()
        foreign[1] = str(int(foreign[1]) + 1)
        for who in ({'token': ''}, {'user': 'ada'}):
            status, problem = self.client.post('seen', place=' '.join(foreign), **who)
            self.assertEqual((status, problem['verdict']), (400, 'foreign'))
        # One with our key that knows no server of its own yet.
        with Weir(configuration({'x': f'host=127.0.0.1 port={DEAD_PORT}'})) as other:
            client = self.connect(other)
            token = client.good('seen', token='', place=' '.join(foreign))['token']
            status, problem = client.post('route', token='', behind='error')
            self.assertEqual((status, problem['verdict']), (503, 'down'))
            self.assertFalse(client.call('GET', '/v1/sessions/servers')[1]['servers'][0]['usable'])
        status, problem = self.client.post('route', token=token, wait_ms=60000)
        self.assertEqual((status, problem['verdict']), (400, 'foreign'))

    def test_what_is_no_question(self):
        for what, body, part in (
                ('route', '', 'not JSON'), ('route', '[]', 'must be an object'), ('route', b'{"user":"\xff"}', 'not JSON'),
                ('route', '{"user":"a","user":"b"}', 'duplicate'), ('route', '{"user":"a","us":1}', 'known are token user'),
                ('route', '{"user":"a","wait_ms":60001}', '0 to 60000'), ('route', '{"token":""} ', None),
                ('route', '{"user":"a","wait_ms":-1}', '0 to 60000'), ('route', '{}', 'is missing'),
                ('route', json.dumps({'user': 'a' * 1025}), '1 to 1024'), ('route', json.dumps({'user': 'a' * 1024}), None),
                ('route', json.dumps({'user': '\0' * 1024}), None), ('seen', '{"user":"a"}', 'is missing'),
                ('seen', '{"user":"a","place":"w1 1 2 3"}', 'not what the place statement answers'),
                ('seen', '{"user":"a","place":"\\u0000"}', 'not what the place statement answers'),
                ('seen', '{"token":"","place":"w1 1 1 2 p 00000001 0 0/8 0/8 1"}', 'not what the place statement answers'),
                ('accept', '{"user":"a","place":"b"}', 'unknown member')):
            status, answer = self.client.settled(what, body=body)
            self.assertEqual(status, 400 if part else 200, (body, answer))
            self.assertIn(part or 'server', answer['detail'] if part else answer)
        self.assertEqual(self.client.call('GET', '/v1/sessions/route')[0], 405)
        self.assertEqual(self.client.call('POST', '/v1/sessions/servers')[0], 405)
        self.assertEqual(self.client.call('GET', '/v1/sessions/other')[0], 404)
        status, problem = self.client.call('POST', '/v1/sessions/route', b'{"user":"' + b'a' * 70000 + b'"}')
        self.assertEqual(status, 413, problem)

    def test_who_may(self):
        tokens = 'auth: { required: always, tokens: [%s] }\nlimits: []\n' % ', '.join(
            f'{{ name: {right}, secret: {right}-0123456789, rights: [{right}] }}' for right in ('check', 'session', 'metrics'))
        with Weir(configuration(self.conninfos, more=tokens)) as weir:
            for right, routes, shows in ((None, 401, 401), ('check', 403, 403), ('session', 200, 403), ('metrics', 403, 200)):
                client = self.connect(weir, token=right and f'{right}-0123456789')
                self.assertEqual(client.settled('route', token='', wait_ms=9000)[0], routes)
                self.assertEqual(client.call('GET', '/v1/sessions/servers')[0], shows)

    def test_too_many_wait(self):
        self.paused('b', 'c')
        who = self.write(1, token='')
        with Weir(configuration(self.conninfos, 'waiters_max: 3')) as weir:
            waiting = [Client(weir.http) for _ in range(3)]
            for client in waiting:
                client.connection.request('POST', '/v1/sessions/route',
                                          json.dumps({'behind': 'wait', 'wait_ms': 60000, **who}))
            client = self.connect(weir)
            wait_for(lambda: client.metric('weir_session_waiting') == 3, 'they do not wait')
            status, problem = client.post('route', behind='wait', **who)
            self.assertEqual((status, client.reply.headers['Retry-After']), (503, '1'), problem)
            self.assertEqual(client.post('seen', place=self.place(), token='')[0], 200)
            # They are answered when the server ends, and it ends at once.
            begun = time.monotonic()
            weir.process.send_signal(signal.SIGTERM)
            statuses = [client.connection.getresponse().status for client in waiting]
            self.assertEqual((statuses, weir.process.wait(15)), ([503] * 3, 0))
            self.assertLess(time.monotonic() - begun, 30)
            for client in waiting:
                client.close()


class Without(unittest.TestCase):
    def test_no_sessions(self):
        with Weir('limits: []\n') as weir:
            client = Client(weir.http)
            for method, what in (('POST', 'route'), ('POST', 'seen'), ('POST', 'accept'), ('GET', 'servers')):
                status, problem = client.call(method, '/v1/sessions/' + what, '{}' if method == 'POST' else None)
                self.assertEqual(status, 404)
                self.assertIn('configure sessions: { servers:', problem['detail'])
            client.close()

    def test_what_is_said_at_the_start_and_at_a_reload(self):
        dead = {'x': f'host=127.0.0.1 port={DEAD_PORT}'}
        with Weir(configuration(dead, key=None)) as weir:
            self.assertIn('weir: sessions over 1 server, users in memory', weir.output())
            self.assertIn('warning: sessions: no keys', weir.output())
            weir.config.write_text(configuration(dead, 'poll: 60ms', key=None), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: re.search(r'kept until a restart: .*sessions', weir.output()), 'nothing')
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'weir.yaml')
            for text, code, part in ((configuration(dead), 0, 'is fine'),
                                     ('sessions: {}\n', 2, f'{path}:1:11: sessions lacks the key "servers"'),
                                     (configuration(dead, 'poll: 1ms'), 2, 'poll 1ms is out of range')):
                path.write_text(text, encoding='utf-8')
                done = subprocess.run([BUILD / 'weir', 'serve', '--check', path], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, code, done)
                self.assertIn(part, done.stdout + done.stderr)
        with self.assertRaisesRegex(AssertionError, '(?s)status 2:\nweir: sessions: conninfo must be [^:]*: [^:]*\n$'):
            Weir(configuration({'x': 'host=x password=my secret'}))

    def test_the_example_is_fine(self):
        done = subprocess.run([BUILD / 'weir', 'serve', '--check', ROOT / 'examples/sessions.yaml'], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class Faults(WithReplicas):
    def test_a_restart_forgets_nobody(self):
        """Users in memory are gone with it; who is not found has seen all that there is."""
        with Weir(configuration(self.conninfos)) as weir:
            client = self.connect(weir)
            self.write(1, client=client, user='eve')
            self.group.wait_caught_up()
            self.paused('b', 'c')
            self.write(2, client=client, user='eve')
        with Weir(configuration(self.conninfos)) as weir:
            client = self.connect(weir)
            wait_for(lambda: client.post('route', user='eve')[0] == 200, 'it does not begin')
            route = client.good('route', user='eve', wait_ms=20)
            self.assertEqual((route['server'], self.read_at(route, 'eve')), ('a', 2))
            self.assertEqual([self.servers[name].value(route['check']) for name in 'bc'], ['behind'] * 2)
            self.assertEqual(client.settled('route', user='eve', behind='error')[1]['verdict'], 'behind')

    def test_a_database_that_hangs_hangs_nothing_else(self):
        for name in 'bc':  # their receivers wait for it, however long this takes
            self.servers[name].configure(wal_receiver_timeout='600s')
            self.addCleanup(self.servers[name].configure, wal_receiver_timeout=None)
        limits = 'limits: [{ name: all, rate: 1000000/s }]\n'
        with Weir(configuration(self.conninfos, 'timeout: 300ms', more=limits), threads=1) as weir:
            client = self.connect(weir)
            wait_for(lambda: client.post('route', user='warm')[0] == 200, 'it does not begin')
            self.servers['a'].freeze()
            try:
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    asked = [pool.submit(self.hung, weir, f'new{number}') for number in range(8)]
                    calls = 0
                    while calls <= 100 or not all(future.done() for future in asked):
                        self.assertEqual(client.call('GET', '/healthz')[0], 200)
                        self.assertEqual(client.call('POST', '/v1/check', '{"attributes":{}}')[0], 200)
                        calls += 2
                    for future in asked:
                        future.result()
            finally:
                self.servers['a'].thaw()

    def hung(self, weir, user):
        """Reads go on at the replicas; who writes, or accepts, is told that nobody is there, as soon as that is seen."""
        with contextlib.closing(Client(weir.http)) as client:
            wait_for(lambda: client.post('route', user=user, want='write', wait_ms=50)[0] == 503, 'it is not seen')
            for who in {'token': ''}, {'user': user}:  # on a busy machine replicas do not always answer in time
                wait_for(lambda who=who: client.post('route', wait_ms=1000, **who)[0] == 200, 'no replica is read')
            status, problem = client.post('accept', user=user)
            self.assertEqual((status, problem['verdict']), (503, 'down'))

    def test_users_are_asked_for_by_many_at_once(self):
        """Each its own clients, each its own order: nobody ever goes back."""
        def run(number):
            with contextlib.closing(Client(self.weir.http)) as client, \
                    contextlib.closing(self.servers['a'].connect()) as connection:
                for value in range(12):
                    route = client.good('route', user=f'many{number}', want='write')
                    with connection.cursor() as cursor:
                        cursor.execute('INSERT INTO seen VALUES (%s, %s) ON CONFLICT (who) DO UPDATE SET '
                                       'value = excluded.value', (f'many{number}', value))
                        cursor.execute(route['place'])
                        client.good('seen', user=f'many{number}', wrote=True, place=cursor.fetchone()[0])
                    route = client.good('route', user=f'many{number}')
                    with self.lock:
                        self.assertEqual(self.read_at(route, f'many{number}'), value)
        self.lock = threading.Lock()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(run, range(8)))


class Failover(WithReplicas):
    def test_what_a_failover_cut_off(self):
        """Lossy: 409 for those who saw it, on the replicas and the new primary, until they accept; others go on."""
        kept = self.write(1, token='')
        self.write(1, user='bystander')
        self.group.wait_caught_up()
        lost = {}

        def lose():
            lost['token'] = self.write(2, **kept)
            self.write(2, user='ada')
        self.group.promote_lossily(self.servers['b'], lose)
        wait_for(lambda: self.states()['b'].get('role') == 'primary' and self.states()['c']['usable'] and
                 self.states()['c'].get('timeline') == 2, 'nobody takes over')
        for who in (lost['token'], {'user': 'ada'}):
            for want in ('read', 'write'):
                status, problem = self.client.settled('route', want=want, **who)
                self.assertEqual((status, problem['verdict']), (409, 'lost'))
        self.assertGreaterEqual(self.client.metric('weir_session_refused_total{verdict="lost"}'), 4)
        for name, who in (('token', kept), ('bystander', {'user': 'bystander'})):
            route = self.client.good('route', wait_ms=10000, **who)
            self.assertEqual(self.read_at(route, name), 1)
        for name, who in (('token', lost['token']), ('ada', {'user': 'ada'})):
            token = self.client.good('accept', **who)['token']
            who = {'token': token} if 'token' in who else who
            who = self.write(3, **who)
            route = self.client.good('route', wait_ms=10000, **who)
            self.assertEqual(self.read_at(route, name), 3)
        # The old primary comes back: nobody is sent there, and its check does not say ok.
        zombie = self.group.revive(self.servers['a'])
        wait_for(lambda: 'higher timeline' in self.states()['a'].get('fault', ''), 'the zombie is not seen')
        self.assertEqual(zombie.value(route['check']), 'diverged')
        self.assertNotIn('a', {self.client.good('route', want=want, **who)['server'] for want in ('read', 'write')
                               for _ in range(10)})


class Elsewhere(unittest.TestCase):
    """Users kept in PostgreSQL: two weirs, one user."""

    def test_two_weirs_share_users(self):
        with Replicas(1) as group, Postgres() as store:
            conninfos = {'a': group.primary.conninfo(), 'b': group.standbys[0].conninfo()}
            users = f'users: "postgresql://postgres@127.0.0.1:{store.port}/postgres"'
            with Weir(configuration(conninfos, users)) as one, Weir(configuration(conninfos, users)) as two:
                clients = [Client(weir.http) for weir in (one, two)]
                for client in clients:
                    wait_for(lambda client=client: client.post('route', user='warm')[0] == 200, 'it does not begin')
                group.primary.execute('CREATE TABLE seen (value int)')
                place = group.primary.value(clients[0].good('route', user='ada', want='write')['place'])
                clients[0].good('seen', user='ada', wrote=True, place=place)
                self.assertIn(place.split()[8], clients[1].good('route', user='ada')['check'])
                store.freeze()
                self.assertEqual(clients[1].post('route', user='ada')[1]['verdict'], 'down')
                clients[1].good('route', token='')
                store.thaw()
                wait_for(lambda: clients[1].post('route', user='ada')[0] == 200, 'it does not come back')
                for client in clients:
                    client.close()


if __name__ == '__main__':
    unittest.main()
