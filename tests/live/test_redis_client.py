#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The redis engine on one real server that is killed, stopped, flushed, replaced, full and read only: what is answered,
and within which time; and on servers that are none."""
import contextlib
import os
import pathlib
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from fake_redis import Fake
from redis_drive import Drive
from ports import free_port, free_ports
from redis_server import DURABLE, Redis, rights, wait_for

DEADLINE_MS = 20
RAMP_S = 0.7  # until a breaker that has closed lets all through
SLACK_TICKS = 5  # a timer beside the deadline's, on the same loop: on a busy machine both are late


def address(redis):
    return f'127.0.0.1:{redis.port}'


@contextlib.contextmanager
def driven(redis, capacity=1000000, **options):
    with Drive(address(redis), **options) as drive:
        drive.limit('a', capacity)
        drive.wait_ready()
        yield drive


class Answers(unittest.TestCase):
    def test_decides_exactly(self):
        with Redis() as redis, driven(redis, 10) as drive:
            self.assertEqual(drive.ask('decide', 'a:x:4'), ('OK', True, [6]))
            self.assertEqual(drive.ask('peek', 'a:x:6'), ('OK', True, [6]))
            self.assertEqual(drive.ask('decide', 'a:x:7'), ('OK', False, [6]))
            self.assertEqual(drive.ask('refund', 'a:x:100'), ('OK', False, [4]))
            self.assertEqual(drive.ask('decide', 'a:x:10', 'a:y:11'), ('OK', False, [10, 10]))
            self.assertEqual(drive.ask('decide', 'a:x:10', 'a:y:1'), ('OK', True, [0, 9]))
            self.assertEqual(drive.ask('forget', 'a:x:0')[0], 'OK')
            self.assertEqual(drive.ask('peek', 'a:x:1'), ('OK', True, [10]))
            self.assertEqual(drive.ask('decide', 'a:x:1', 'a:x:1')[0], 'EDUP')
            self.assertEqual(drive.servers(), [(address(redis), 'primary', 'connected', 'closed')])

    def test_admits_what_the_limit_holds_under_load(self):
        with Redis() as redis, driven(redis, 50) as drive:
            load = drive.load('a', 20, per_ms=4, ms=1000, deadline_ms=10000)
            self.assertEqual((load['admitted'], load['most'], load['told']), (1000, 50, 4000))

    def test_joins_what_one_turn_asks(self):
        """Sixteen requests of one turn are one batch: one mark for them, not sixteen."""
        with Redis() as redis, driven(redis) as drive:
            drive.ask('decide', 'a:x:1')
            drive.load('a', 1, per_ms=16, ms=100, deadline_ms=10000)
            mark = redis.ask('KEYS', 'weir:mark:*')
            self.assertEqual(len(mark), 1)
            self.assertLess(int(redis.ask('GET', mark[0])), 400)

    def test_every_key_expires(self):
        with Redis() as redis, driven(redis) as drive:
            drive.load('a', 50, ms=50, deadline_ms=10000)
            for key in redis.ask('KEYS', '*'):
                self.assertTrue(key.startswith(b'weir:'), key)
                self.assertNotEqual(redis.ask('PTTL', key), -1, key)  # -2: gone meanwhile

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'redis.sock')
            with Redis('--unixsocket', path), Drive(path) as drive:
                drive.limit('a', 5)
                drive.wait_ready()
                self.assertEqual(drive.ask('decide', 'a:x:2'), ('OK', True, [3]))
                self.assertEqual(drive.servers()[0][0], f'unix:{path}')

    def test_a_name_is_looked_up(self):
        with Redis() as redis, Drive(f'localhost:{redis.port}') as drive:
            drive.limit('a', 5)
            drive.wait_ready()
            self.assertTrue(drive.ask('decide', 'a:x:2')[1])

    def test_prefix(self):
        with Redis() as redis, driven(redis, prefix='other') as drive:
            drive.ask('decide', 'a:x:1')
            self.assertTrue(all(key.startswith(b'other:') for key in redis.ask('KEYS', '*')))

    def test_request_waits_for_the_first_connection(self):
        with Redis() as redis, Drive(address(redis), connect_timeout_ms=30000) as drive:
            drive.limit('a', 5)
            self.assertEqual(drive.ask('decide', 'a:x:1', deadline_ms=30000)[0], 'OK')

    def test_the_longest_log_is_converted(self):
        """A log of as many entries as there may be, and as much room in front, under a key whose limit is a bucket now:
        the value comes whole."""
        entries, period_ns = 65536, 3600 * 10**9
        with Redis() as redis, driven(redis, 100000) as drive:
            self.assertEqual(drive.ask('decide', 'a:x:1'), ('OK', True, [99999]))
            key, = redis.ask('KEYS', 'weir:{*}:a:*')
            now_ns = int(time.time() * 10**9)
            value = b'WEI1' + bytes((3, 0, 64, 0))
            value += struct.pack('>6Q', entries, 1, period_ns, period_ns, period_ns, 0)
            value += struct.pack('>6Q', now_ns + period_ns, (now_ns + period_ns) % 2**59, 0, 0, 0, 0)
            value += struct.pack('>4I', 0, entries, entries, 0) + bytes(16 * entries)
            value += b''.join(struct.pack('>2Q', now_ns - entries + i, i + 1) for i in range(entries))
            self.assertEqual(redis.ask('SET', key, value), 'OK')
            self.assertEqual(drive.ask('decide', 'a:x:1'), ('OK', False, [0]))
            self.assertEqual(redis.ask('STRLEN', key), 120)


class Outages(unittest.TestCase):
    def check_in_time(self, load):
        self.assertEqual(load['told'], load['admitted'] + load['refused'] + load['down'] + load['unknown'], load)
        self.assertLessEqual(load['longest_ticks'], DEADLINE_MS + SLACK_TICKS, load)

    def test_kill_and_come_back_without_loss(self):
        """What was answered survives a kill of a server that saves before it answers, and no loss is counted."""
        with Redis(*DURABLE) as redis, driven(redis, 300) as drive:
            before = drive.load('a', 1, ms=200, deadline_ms=10000)
            redis.kill()
            down = drive.load('a', 1, ms=300, deadline_ms=DEADLINE_MS)
            self.check_in_time(down)
            self.assertEqual(down['admitted'] + down['refused'], 0)
            self.assertFalse(drive.ready())
            redis.start()
            drive.wait_ready()
            time.sleep(RAMP_S)
            after = drive.load('a', 1, ms=300, deadline_ms=10000)
            self.assertEqual(before['admitted'] + after['admitted'] + down['unknown'], 300)
            stats = drive.stats()
            self.assertEqual((stats['losses'], stats['reconnects']), (0, 1))

    def test_kill_under_load(self):
        with Redis(*DURABLE) as redis, driven(redis, 100000) as drive:
            drive.start_load('a', 1, ms=2000, deadline_ms=DEADLINE_MS)
            time.sleep(0.5)
            redis.kill()
            time.sleep(0.3)
            redis.start()
            load = drive.end_load()
            self.check_in_time(load)
            drive.wait_ready()
            time.sleep(RAMP_S)
            wait_for(lambda: drive.ask('peek', 'a:key-0:1')[0] == 'OK', 'it does not come back')
            status, _, (remaining,) = drive.ask('peek', 'a:key-0:1')
            self.assertEqual(status, 'OK')
            used = 100000 - remaining
            self.assertGreaterEqual(used, load['admitted'])
            self.assertLessEqual(used, load['admitted'] + load['unknown'])

    def test_stopped(self):
        """SIGSTOP: everything is answered in time, the breaker opens, and the way back is found."""
        with Redis() as redis, driven(redis) as drive:
            drive.ask('decide', 'a:x:1')
            for _ in range(5):
                redis.pause()
                load = drive.load('a', 100, per_ms=2, ms=4000, deadline_ms=DEADLINE_MS)
                breaker = drive.servers()[0][3]
                redis.resume()
                self.check_in_time(load)
                self.assertEqual(load['admitted'], 0)
                drive.wait_ready()
                wait_for(lambda: drive.servers()[0][3] == 'closed', 'the breaker stays open')
                time.sleep(RAMP_S)
                if load['unknown'] > 0:  # else the connection was given up before anything was asked
                    break
            self.assertGreater(load['unknown'], 0)
            self.assertLess(load['unknown'], load['down'], 'the breaker does not open')
            self.assertIn(breaker, ('open', 'half-open', 'half open'))
            self.assertTrue(drive.ask('decide', 'a:x:1')[1])
            self.assertEqual(drive.stats()['losses'], 0)

    def test_a_stall_that_opens_the_breaker_for_short_deadlines_leaves_long_ones_alone(self):
        with Redis() as redis, driven(redis) as drive:
            drive.ask('decide', 'a:x:1')
            for _ in range(20):
                reconnects = drive.stats()['reconnects']
                redis.pause()
                load = drive.load('a', 1, ms=300, deadline_ms=DEADLINE_MS)
                opened = drive.servers()[0][2:] == ('connected', 'open')
                for number in range(3):  # one may be the breaker's probe
                    drive.send('decide', f'long{number}', 30000, 'a:x:1')
                drive.send('ready')
                lines = [drive.line()]
                redis.resume()
                lines += [drive.line() for _ in range(3)]
                # After a second without an answer the connection is closed, which is another matter.
                if opened and drive.stats()['reconnects'] == reconnects:
                    break
                drive.wait_ready()
            self.assertTrue(opened, load)
            longs = sorted(line.split()[:3] for line in lines if line.startswith('long'))
            self.assertEqual(longs, [[f'long{number}', 'WEIR_OK', '1'] for number in range(3)])

    def test_flush_is_a_loss_once(self):
        with Redis() as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:10')
            wait_for(lambda: redis.ask('KEYS', 'weir:mark:*'), 'no mark')
            redis.ask('FLUSHALL')
            drive.wait_error('state was lost')
            time.sleep(1.5)
            self.assertEqual(drive.stats()['losses'], 1)
            self.assertTrue(drive.ask('decide', 'a:x:10')[1])

    def test_restart_without_data_is_a_loss_once(self):
        with Redis() as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:10')
            redis.kill()
            redis.start()
            drive.wait_error('state was lost')
            drive.wait_ready()
            time.sleep(1.5)
            self.assertEqual(drive.stats()['losses'], 1)

    def test_scripts_flushed(self):
        with Redis() as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:1')
            redis.ask('SCRIPT', 'FLUSH')
            self.assertEqual(drive.ask('decide', 'a:x:1'), ('OK', True, [8]))

            def flushed():
                drive.start_load('a', 10, per_ms=4, ms=3000, deadline_ms=10000)
                for _ in range(20):
                    time.sleep(0.05)
                    redis.ask('SCRIPT', 'FLUSH')
                load = drive.end_load()
                self.assertEqual((load['down'], load['unknown']), (0, 0))
                return drive.stats()['scripts_loaded'] >= 3  # a load may be over before it is flushed
            wait_for(flushed, 'it is not loaded again')

    def test_full(self):
        with Redis() as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:1')
            redis.ask('CONFIG', 'SET', 'maxmemory', '1')
            self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')
            self.assertIn('OOM', drive.stats()['last_error'])
            redis.ask('CONFIG', 'SET', 'maxmemory', '0')
            wait_for(lambda: drive.ask('peek', 'a:x:1') == ('OK', True, [9]), 'it does not come back')

    def test_made_a_replica(self):
        with Redis() as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:1')
            redis.ask('REPLICAOF', '127.0.0.1', free_port())
            self.assertIn(drive.ask('decide', 'a:x:1')[0], ('EDOWN', 'EUNKNOWN'))  # asked before it was seen, or after
            drive.wait_error('replica')
            self.assertFalse(drive.ready())
            self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')
            redis.ask('REPLICAOF', 'NO', 'ONE')
            drive.wait_ready()
            wait_for(lambda: drive.ask('peek', 'a:x:1') == ('OK', True, [9]), 'it does not come back')

    def test_busy_script(self):
        with Redis('--busy-reply-threshold', '50') as redis, driven(redis, 10) as drive:
            drive.ask('decide', 'a:x:1')
            blocker = threading.Thread(target=redis.ask, args=('EVAL', 'while true do end', 0))
            blocker.start()
            wait_for(lambda: 'BUSY' in str(redis.ask('PING')), 'it is not busy')
            self.assertIn(drive.ask('decide', 'a:x:1', deadline_ms=100)[0], ('EDOWN', 'EUNKNOWN'))
            redis.ask('SCRIPT', 'KILL')
            blocker.join()
            wait_for(lambda: drive.ask('peek', 'a:x:1')[0] == 'OK', 'it does not come back')


class Refusals(unittest.TestCase):
    def check_error(self, drive, text):
        drive.limit('a', 5)
        drive.wait_error(text)
        self.assertFalse(drive.ready())
        self.assertEqual(drive.ask('decide', 'a:x:1', deadline_ms=200)[0], 'EDOWN')

    def test_nobody_there(self):
        with Drive(f'127.0.0.1:{free_port()}') as drive:
            self.check_error(drive, 'refused')
            wait_for(lambda: drive.servers()[0][3] != 'closed', 'the breaker stays closed')

    def test_passwords(self):
        with Redis() as redis:
            redis.ask('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', '+@all')
            redis.ask('CONFIG', 'SET', 'requirepass', 'right')
            with Drive(address(redis), password='wrong-one') as drive:
                self.check_error(drive, 'WRONGPASS')
                self.assertNotIn('wrong-one', drive.stats()['last_error'])
            with Drive(address(redis)) as drive:
                self.check_error(drive, 'NOAUTH')
            for options in ({'password': 'right'}, {'username': 'weir', 'password': 'secret'}):
                with driven(redis, 5, **options) as drive:
                    self.assertTrue(drive.ask('decide', 'a:x:1')[1])

    def test_least_rights(self):
        """What docs/redis.md says the user needs is enough."""
        with Redis() as redis:
            redis.ask('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', *rights())
            with driven(redis, 5, username='weir', password='secret') as drive:
                self.assertTrue(drive.ask('decide', 'a:x:1')[1])
                self.assertEqual(drive.ask('refund', 'a:x:1')[0], 'OK')
                self.assertEqual(drive.ask('forget', 'a:x:1')[0], 'OK')
                self.assertEqual(drive.stats()['last_error'], '')

    def test_a_cluster_node_without_cluster(self):
        port, bus = free_ports(2)
        with Redis('--cluster-enabled', 'yes', '--cluster-port', bus, port=port) as redis, \
                Drive(address(redis)) as drive:
            drive.limit('a', 5)
            drive.wait_ready()
            self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')
            drive.wait_error('CLUSTERDOWN')

    def test_cluster_wanted_and_none_there(self):
        with Redis() as redis, Drive(address(redis), cluster=1) as drive:
            self.check_error(drive, 'no node of a cluster')

    def test_sentinel_wanted_and_none_there(self):
        with Redis() as redis, Drive(address(redis), sentinel='main') as drive:
            self.check_error(drive, 'no sentinel')

    def test_options(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pipe = pathlib.Path(folder.name, 'pipe')
        os.mkfifo(pipe)  # nobody has it open
        for options, text in (({'prefix': 'a{b'}, 'prefix'), ({'prefix': 'x' * 33}, 'prefix'),
                              ({'tls_ca_file': '/nowhere'}, 'tls_ca_file'), ({'tls_ca_file': pipe}, 'regular file')):
            drive = Drive('127.0.0.1:1', **options)
            self.assertIn(text, drive.line())
            self.assertEqual(drive.end()[0], 1)


def certificates(folder):
    """An authority and a certificate of its for `localhost` and 127.0.0.1."""
    def openssl(*words):
        subprocess.run(['openssl', *words], check=True, capture_output=True, cwd=folder)
    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
    openssl('req', '-x509', *key, '-days', '2', '-subj', '/CN=authority', '-keyout', 'ca.key', '-out', 'ca.pem')
    openssl('req', *key, '-subj', '/CN=redis', '-keyout', 'redis.key', '-out', 'redis.csr')
    pathlib.Path(folder, 'names').write_text('subjectAltName=DNS:localhost,IP:127.0.0.1', encoding='utf-8')
    openssl('x509', '-req', '-in', 'redis.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2', '-extfile', 'names',
            '-out', 'redis.pem')


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-live-')
        certificates(cls.folder.name)
        cls.ca = f'{cls.folder.name}/ca.pem'
        cls.port = free_port()
        cls.redis = Redis('--tls-port', cls.port, '--tls-cert-file', f'{cls.folder.name}/redis.pem', '--tls-key-file',
                          f'{cls.folder.name}/redis.key', '--tls-ca-cert-file', cls.ca, '--tls-auth-clients', 'no')

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()
        cls.folder.cleanup()

    def test_decides(self):
        for host, options in (('127.0.0.1', {}), ('localhost', {}), ('127.0.0.1', {'tls_name': 'localhost'})):
            with Drive(f'{host}:{self.port}', tls_ca_file=self.ca, **options) as drive:
                drive.limit('a', 1000)
                drive.wait_ready()
                load = drive.load('a', 10, per_ms=4, ms=100, deadline_ms=10000)
                self.assertEqual(load['told'], load['admitted'], load)

    def test_stopped(self):
        with Drive(f'127.0.0.1:{self.port}', tls_ca_file=self.ca) as drive:
            drive.limit('a', 1000)
            drive.wait_ready()
            self.redis.pause()
            load = drive.load('a', 10, per_ms=4, ms=1500, deadline_ms=DEADLINE_MS)
            self.redis.resume()
            self.assertEqual(load['admitted'], 0)
            drive.wait_ready()

    def test_another_name(self):
        with Drive(f'127.0.0.1:{self.port}', tls_ca_file=self.ca, tls_name='other.example') as drive:
            drive.wait_error('certificate')
            self.assertFalse(drive.ready())

    def test_not_trusted(self):
        with Drive(f'127.0.0.1:{self.port}', tls_ca_file='/etc/ssl/certs/ca-certificates.crt') as drive:
            drive.wait_error('certificate')

    def test_wanted_and_not_offered(self):
        with Drive(f'127.0.0.1:{self.redis.port}', tls_ca_file=self.ca, connect_timeout_ms=300) as drive:
            wait_for(lambda: 'TLS' in drive.stats()['last_error'] or 'greeting' in drive.stats()['last_error'],
                     'no error about TLS')
            self.assertFalse(drive.ready())

    def test_offered_and_not_wanted(self):
        with Drive(f'127.0.0.1:{self.port}', connect_timeout_ms=300) as drive:
            wait_for(lambda: drive.stats()['last_error'], 'no error')
            self.assertFalse(drive.ready())


class Strangers(unittest.TestCase):
    def ask_fake(self, reply, text, greets=True):
        ms = 5000 if greets else 300  # what never greets is not waited for
        with Fake(reply, greets) as fake, Drive(f'127.0.0.1:{fake.port}', connect_timeout_ms=ms) as drive:
            drive.limit('a', 5)
            if greets:
                wait_for(lambda: fake.connections > 0, 'nobody comes')
            status = drive.ask('decide', 'a:x:1', deadline_ms=ms)[0]
            if text:
                drive.wait_error(text)
            for _ in range(20):
                drive.ask('decide', 'a:x:1', deadline_ms=50)
            time.sleep(0.5)
            self.assertLess(fake.connections, 30, 'it reconnects without a pause')
            return status

    def test_replies_that_break_the_connection(self):
        for reply, text in ((b'\x00\x01garbage\r\n', 'RESP'), (b'*2147483647\r\n', 'too long'),
                            (b'$2147483646\r\n' + b'x' * (1 << 21), 'too long'), (b'*1\r\n' * 100, 'RESP'),
                            (b'*60000\r\n' * 3, 'too long'), (b':1\r\n' * 3, 'nobody asked'),
                            (b'$-5\r\n', 'RESP')):
            with self.subTest(reply=reply[:20]):
                self.assertIn(self.ask_fake(reply, text), ('EUNKNOWN', 'EDOWN', 'ECORRUPT'))

    def test_replies_of_another_kind(self):
        for reply in (b'*0\r\n', b':7\r\n', b'$-1\r\n', b'$3\r\nabc\r\n', b'+OK\r\n', b'$0\r\n\r\n'):
            with self.subTest(reply=reply):
                self.assertEqual(self.ask_fake(reply, ''), 'ECORRUPT')

    def test_an_error_nobody_knows_is_unknown(self):
        self.assertEqual(self.ask_fake(b'-ERR what\r\n', 'ERR what'), 'EUNKNOWN')

    def test_a_greeting_that_is_none(self):
        for reply, text in ((b'-ERR unknown command\r\n', 'role'), (b'HTTP/1.1 400 Bad Request\r\n\r\n', 'RESP')):
            with self.subTest(reply=reply):
                self.assertEqual(self.ask_fake(reply, text, greets=False), 'EDOWN')

    def test_silence(self):
        self.assertEqual(self.ask_fake(b'', 'in time', greets=False), 'EDOWN')

    def test_a_password_is_not_repeated(self):
        with Fake(b"-ERR unknown command 'AUTH', with args beginning with: 'hush'\r\n", greets=False) as fake, \
                Drive(f'127.0.0.1:{fake.port}', password='hush') as drive:
            drive.wait_error('password')
            self.assertNotIn('hush', drive.stats()['last_error'])

    def test_a_redirect_to_the_host_that_was_asked(self):
        """"?", or nothing, for the host means the one that was asked."""
        for host in (b'?', b''):
            with self.subTest(host=host), Fake(b'') as one, Fake(b'$-1\r\n') as two:
                one.reply = b'-MOVED 1 %s:%d\r\n' % (host, two.port)
                with Drive(f'127.0.0.1:{one.port}', cluster=1) as drive:
                    drive.limit('a', 5)
                    drive.wait_ready()
                    self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'ECORRUPT', 'the second one answers')

    def test_a_node_without_a_name_has_an_address(self):
        """"?" in the map of a cluster whose nodes tell their names: its address stands beside it."""
        with Fake(b'$-1\r\n') as fake:
            fake.node = (b'*4\r\n$1\r\n?\r\n:%d\r\n$2\r\nid\r\n*4\r\n$5\r\nother\r\n$1\r\nx\r\n$2\r\nip\r\n'
                         b'$9\r\n127.0.0.1\r\n' % fake.port)
            with Drive(f'localhost:{fake.port}', cluster=1) as drive:
                drive.wait_ready()
                self.assertIn(f'127.0.0.1:{fake.port}', [address for address, *_ in drive.servers()])

    def test_a_stall_where_only_redirects_lead_is_one_failure(self):
        """A slot on its way to a node that has no other: all that miss their deadline there have met one stall."""
        stall = threading.Event()
        with Fake(b'') as old, Fake(b'$-1\r\n') as new:
            def stalling(name, *words, answer=new.answer):
                if name == b'EVALSHA' and stall.is_set():
                    stall.clear()
                    time.sleep(0.4)
                return answer(name, *words)

            old.reply = b'-ASK 1 127.0.0.1:%d\r\n' % new.port
            new.answer, new.node = stalling, b'*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n' % old.port
            for _ in range(5):  # on a busy machine there may be other stalls, or none while it is asked
                with Drive(f'127.0.0.1:{old.port}', cluster=1) as drive:
                    drive.limit('a', 1000000)
                    drive.wait_ready()
                    drive.start_load('a', 1, per_ms=1, ms=1500, deadline_ms=300)
                    time.sleep(0.5)
                    stall.set()
                    load = drive.end_load()
                if (held := load['unknown'] > 5 and load['down'] == 0):  # where some are down the breaker opened
                    break
            self.assertTrue(held, load)

    def test_endless_redirects(self):
        """A cluster that never settles: each node says the other has the slot."""
        with Fake(b'') as one, Fake(b'') as two:
            one.reply = b'-MOVED 1 127.0.0.1:%d\r\n' % two.port
            two.reply = b'-MOVED 1 127.0.0.1:%d\r\n' % one.port
            with Drive(f'127.0.0.1:{one.port}', cluster=1) as drive:
                drive.limit('a', 5)
                drive.wait_ready()
                self.assertEqual(drive.ask('decide', 'a:x:1')[0], 'EDOWN')
                self.assertLess(drive.stats()['redirects'], 10)


if __name__ == '__main__':
    unittest.main()
