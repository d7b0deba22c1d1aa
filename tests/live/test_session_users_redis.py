# SPDX-License-Identifier: Apache-2.0
"""Users in Redis: what it loses is never taken for "has seen nothing"."""
import contextlib
import os
import random
import signal
import socket
import threading
import time
import unittest

from redis_server import DURABLE, Redis, stand_still, wait_for
from users_drive import Crowd, UsersDrive, UsersTogether

RUN_S = 5
EPOCH = 'weir:session:epoch'
SWAP = b'*14\r\n'  # the only command of so many words


def user_key(user):
    return f'weir:session:user:{user}'


class RedisCase(unittest.TestCase):
    def server(self, *arguments, **options):
        server = Redis(*arguments, **options)
        self.addCleanup(server.stop)
        return server

    def drive(self, *servers, secret='', newest=1000, **options):
        hosts = ','.join(f'127.0.0.1:{server.port}' for server in servers)
        drive = UsersDrive(f'redis://{secret}{hosts}', **{'timeout_ms': 10000, **options})
        self.addCleanup(drive.close)
        drive.newest(newest)
        return drive

    def pair(self):
        primary = self.server('--repl-diskless-sync-delay', 0)
        replica = self.server('--replicaof', '127.0.0.1', primary.port, '--repl-diskless-sync-delay', 0)
        wait_for(lambda: replica.info('master_link_status') == 'up', 'the replica does not follow')
        return primary, replica


class Lost(RedisCase):
    """Each time the primary (of the database) shows 5000 afterwards, and the user had seen 1400."""

    def test_a_flush(self):
        server = self.server()
        drive, other = self.drive(server), self.drive(server)
        drive.added('ada', 1400)
        self.assertEqual(other.got('ada'), 1400)
        for command in ('FLUSHALL', 'FLUSHDB'):
            server.ask(command)
            for each in (drive, other):
                each.newest(5000)
            other.added('bob', 1200)  # it notices first; the other must all the same
            self.assertEqual(drive.got('ada'), 5000)
            self.assertEqual(other.got('ada'), 5000)
        self.assertEqual(drive.stats()['losses'], 2)

    def test_an_epoch_that_is_none_of_ours(self):
        """It names this server, and is replaced all the same."""
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1400)
        server.ask('SETRANGE', EPOCH, '0', 'ZZ')
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_kill_without_persistence(self):
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1400)
        server.kill()
        drive.newest(5000)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        server.start()
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_kill_with_an_old_dump(self):
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1200)
        server.ask('SAVE')
        drive.added('ada', 1400)
        server.kill()
        server.start()
        self.assertIn(b'1 ', server.ask('GET', user_key('ada')))
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_kill_with_full_persistence_costs_a_floor_and_no_more(self):
        server = self.server(*DURABLE)
        drive = self.drive(server)
        drive.added('ada', 1400)
        server.kill()
        server.start()
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)
        drive.newest(6000)
        self.assertEqual(drive.got('ada'), 5000)
        self.assertEqual(drive.stats()['questions'], 2)

    def test_a_promoted_replica_that_had_not_heard_the_newest(self):
        primary, replica = self.pair()
        drive = self.drive(primary, replica)
        drive.added('ada', 1200)
        wait_for(lambda: replica.ask('EXISTS', user_key('ada')) == 1, 'the replica does not hear of it')
        replica.ask('REPLICAOF', 'NO', 'ONE')
        drive.added('ada', 1400)
        primary.kill()
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_primary_that_was_a_replica_for_a_while_under_an_open_connection(self):
        primary, replica = self.pair()
        drive = self.drive(primary)
        drive.added('ada', 1200)
        wait_for(lambda: replica.ask('EXISTS', user_key('ada')) == 1, 'the replica does not hear of it')
        replica.ask('REPLICAOF', 'NO', 'ONE')
        drive.added('ada', 1400)
        clients = self.clients(primary)
        primary.ask('REPLICAOF', '127.0.0.1', replica.port)
        wait_for(lambda: primary.info('master_link_status') == 'up', 'it does not follow')
        drive.newest(5000)
        primary.ask('REPLICAOF', 'NO', 'ONE')
        self.assertEqual(drive.got('ada'), 5000)
        self.assertTrue(clients & self.clients(primary), 'it was no connection that stayed')

    @staticmethod
    def clients(server):
        return {line.split()[0] for line in server.ask('CLIENT', 'LIST').decode().splitlines() if 'cmd=evalsha' in line}

    def test_a_replica_is_never_asked(self):
        primary, replica = self.pair()
        drive = self.drive(replica)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        self.assertIn('is a replica', drive.stats()['fault'])
        # Nor one that has become one under an open connection.
        drive = self.drive(primary)
        drive.added('ada', 1400)
        other = self.server('--repl-diskless-sync-delay', 0)
        primary.ask('REPLICAOF', '127.0.0.1', other.port)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')

    def test_values_thrown_out_to_make_room(self):
        server = self.server('--maxmemory', '3mb', '--maxmemory-policy', 'allkeys-lru')
        drive = self.drive(server)
        drive.added('ada', 1400)
        for i in range(3000):  # what is thrown out is drawn, among those not used in this second
            server.ask('SET', f'flood{i}', 'x' * 100000)
            if not server.ask('EXISTS', user_key('ada')):
                break
        self.assertEqual(server.ask('EXISTS', user_key('ada')), 0)
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_values_thrown_out_by_a_policy_that_came_later(self):
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1400)
        self.assertEqual(drive.got('bob'), 1000)
        server.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
        server.ask('CONFIG', 'SET', 'maxmemory', '1mb')
        with self.subTest('it must throw them out first'):
            server.ask('SET', 'flood', 'x' * 100)
            self.assertEqual(server.ask('EXISTS', user_key('ada')), 0)
        server.ask('CONFIG', 'SET', 'maxmemory', '0')
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_ttl_that_is_over(self):
        drive = self.drive(self.server(), ttl_ms=1000)
        self.assertEqual(drive.got('bob'), 1000)
        drive.newest(5000)
        drive.added('ada', 4900)
        time.sleep(1.2)
        self.assertGreaterEqual(drive.got('ada'), 4900)

    def test_values_that_are_not_ours(self):
        server = self.server()
        drive = self.drive(server)
        for number, spoil in enumerate((('SET', 'x'), ('SET', '1 0123456789abcdef AgA'), ('SET', 'x' * 5000),
                                        ('RPUSH', '1', '2'), ('SET', ''), ('SET', '1 ' + 'f' * 16 + ' ' + 'A' * 400))):
            drive.added('ada', 1400 + number)
            server.ask('DEL', user_key('ada'))
            server.ask(spoil[0], user_key('ada'), *spoil[1:])
            drive.newest(5000 + number)
            self.assertEqual(drive.got('ada'), 5000 + number, spoil)
            drive.added('ada', 1)
            self.assertEqual(drive.got('ada'), 5000 + number, spoil)
            self.assertEqual(drive.stats()['corrupt'], 2 * (number + 1), spoil)
        for spoil in (('SET', EPOCH, 'x'), ('RPUSH', EPOCH, '1'), ('SET', EPOCH, '')):
            server.ask('DEL', EPOCH)
            server.ask(*spoil)
            drive.newest(9000)
            self.assertEqual(drive.got('ada'), 9000)
            drive.newest(9100)


class Late(RedisCase):
    def test_nobody_knows_what_the_primary_shows(self):
        drive = self.drive(self.server(), newest=0, timeout_ms=100)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        self.assertEqual(drive.add('ada', 1400)['status'], 'EDOWN')
        drive.newest(1000)
        drive.added('ada', 1400)
        drive.newest(0)
        self.assertEqual(drive.got('ada'), 1400)

    def test_a_stopped_server_is_not_waited_for(self):
        server = self.server()
        drive = self.drive(server, timeout_ms=200)
        drive.added('ada', 1400)
        stand_still(server.process.pid)
        try:
            for words in (('get', 'ada'), ('add', 'ada', 1, 1500), ('get', 'bob')):
                answer = drive.ask(*words)
                self.assertEqual(answer['status'], 'EDOWN')
                self.assertLess(answer['took_ms'], 5000)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        self.assertGreaterEqual(drive.got('ada'), 1400)

    def test_a_server_that_drips_its_answers(self):
        listener = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listener.close)

        def drip():
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(OSError):
                    connection.sendall(b'$4000000\r\n')
                    until = time.monotonic() + 8
                    while time.monotonic() < until:
                        connection.sendall(b'x')

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with UsersDrive(f'redis://127.0.0.1:{listener.getsockname()[1]}', timeout_ms=200) as drive:
            answer = drive.ask('get', 'ada')
            self.assertEqual(answer['status'], 'EDOWN')
            self.assertLess(answer['took_ms'], 5000)
        thread.join(20)

    def test_passwords_are_not_shown(self):
        server = self.server('--requirepass', 'richtig')
        drive = self.drive(server, secret=':geheim@')
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        fault = drive.stats()['fault']
        self.assertIn('WRONGPASS', fault)
        self.assertNotIn('geheim', fault)
        self.drive(server, secret=':richtig@').added('ada', 1400)

    def test_passwords_that_the_server_quotes_are_not_shown(self):
        """One that knows no AUTH says with which arguments it was called, and cuts them."""
        server = self.server('--rename-command', 'AUTH', '')
        for password in ('geheim' * 4, 'geheim' * 40):
            drive = self.drive(server, secret=f':{password}@')
            self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
            fault = drive.stats()['fault']
            self.assertIn('refuses AUTH: ERR', fault)
            self.assertNotIn('geheim', fault)

    def test_a_name_and_a_password(self):
        server = self.server('--requirepass', 'richtig')
        self.drive(server, secret='default:richtig@').added('ada', 1400)


class Together(RedisCase, UsersTogether):
    mark = SWAP

    def lose(self, server):
        server.ask('FLUSHALL')

    def test_faults_at_random(self):
        seed = int(os.environ.get('WEIR_SEED', random.SystemRandom().randrange(2**32)))
        print(f'WEIR_SEED={seed}')
        server = self.server()
        drives = [self.drive(server, timeout_ms=1000) for _ in range(2)]
        chance = random.Random(seed)

        def restart():
            server.kill()
            server.start()

        def spoil():
            server.ask('SET', user_key(f'user{chance.randrange(Crowd.USERS)}'), 'nonsense')

        faults = [lambda: server.ask('FLUSHALL'), lambda: server.ask('SAVE'), restart, spoil,
                  lambda: server.ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
                  lambda: server.ask('SCRIPT', 'FLUSH')]
        crowd = Crowd(drives, chance, faults).run(RUN_S)
        self.assertEqual(crowd.wrong, [])
        self.assertGreaterEqual(crowd.done, crowd.ENOUGH)
        self.assertGreater(crowd.done, 10 * crowd.failed)
        self.assertGreater(crowd.losses(), Crowd.LOSSES)


if __name__ == '__main__':
    unittest.main()
