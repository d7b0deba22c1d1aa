#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store of rule sets in a real PostgreSQL: writers at once, what is killed, read-only or slow, and how a node hears
of a new version. Tables of others, schemas and rights are in test_rule_store_tables.py."""
import os
import shutil
import unittest

from pgbouncer_server import Pgbouncer
from redis_server import wait_for
from rule_store_case import OneServer, StoreCase, url
from store_drive import StoreDrive

KILLS = {'short': 5, 'soak': 300}.get(os.environ.get('WEIR_TEST_EFFORT'), 15)


class Versions(OneServer):
    def test_what_was_appended_is_read(self):
        first, second = self.drive(), self.drive(mode='use')
        self.expect(second.ask('head'), 'ENOENT', 'there are no such tables', field='store')
        self.assertEqual(first.ask('head')['number'], 0)
        self.assertEqual(first.appended(0, 'zero'), 1)
        self.assertEqual(first.appended(1, 'one'), 2)
        answer = second.append(1)
        self.assertEqual((answer['said'], answer['number']), ('conflict', 2))
        rolled = second.append(2, '-', kind='rollback', of=1)
        self.assertEqual(rolled['own'], 3)
        read = first.ask('read', 3)
        self.assertEqual((read['kind'], read['of'], read['text'], read['author'], read['comment']),
                         ('rollback', 1, 'zero', 'ann', "be€''\\cause"))
        self.assertEqual(read['checksum'], first.ask('read', 1)['checksum'])
        self.expect(first.ask('read', 4), 'ENOENT', 'the newest is 3', field='version')
        self.assertEqual([version['number'] for version in second.versions(2, 5)], [2, 1])
        head = second.ask('head')
        self.assertEqual((head['number'], head['checksum']), (3, read['checksum']))

    def test_the_same_id_again_is_the_same_version(self):
        drive = self.drive()
        answer = drive.append(0, 'one')
        drive.appended(1, 'two')
        again = drive.append(0, 'one', change=answer['change'])
        self.assertEqual((again['said'], again['again'], again['own'], again['number']), ('appended', True, 1, 2))
        self.expect(drive.append(0, 'eins', change=answer['change']), 'EINVAL', 'version 1', field='change')
        self.assertEqual(drive.ask('head')['number'], 2)

    def test_the_largest_text(self):
        drive = self.drive()
        self.assertEqual(drive.ask('large', 0, 16 << 20)['own'], 1)
        self.expect(drive.ask('large', 1, (16 << 20) + 1), 'ERANGE', '16777216', field='text')
        self.assertEqual(drive.ask('read', 1)['size'], 16 << 20)

    def test_what_nodes_tell(self):
        drive = self.drive()
        for node, version, since in (('b', 1, 9), ('a', 1, 8), ('a', 2, 7), ('a', 2, 7), ('a', 1, 6)):
            self.expect(drive.ask('tell', node, version, since), 'OK')
        self.assertEqual(drive.told(), [['a', 1, 6], ['a', 2, 7], ['a', 1, 8], ['b', 1, 9]])
        self.assertEqual(drive.told('newest'), [['a', 1, 6], ['b', 1, 9]])
        self.expect(drive.ask('tell', "a'b", 1, 1), 'EINVAL', field='node')
        for i in range(70):
            drive.ask('tell', 'a', 1 + i, i)
        told = [row for row in drive.told() if row[0] == 'a']
        self.assertEqual(told, [['a', 1 + i, i] for i in reversed(range(6, 70))])
        self.server.sql(f"INSERT INTO {self.table}_nodes (node, version, since_ns) SELECT 'n' || i, 1, 1 "
                        'FROM generate_series(1, 1022) AS i')
        drive.ask('tell', 'b', 3, 3)
        drive.ask('tell', 'new', 3, 3)  # a node too many: the one heard of longest ago is a
        nodes = [row[0] for row in drive.told('newest')]
        self.assertEqual(len(nodes), 1024)
        self.assertNotIn('a', nodes)
        self.assertIn('new', nodes)

    def test_writers_at_once(self):
        """Each makes its change from what it found: nothing is lost, and no number given twice."""
        writers = [self.drive() for _ in range(3)]
        for writer in writers:
            writer.send('hammer', 60)
        acknowledged = []
        for writer in writers:
            for _ in range(60):
                answer = writer.hear()
                self.expect(answer, 'OK')
                acknowledged.append((answer['own'], answer['change']))
        self.assertEqual(sorted(number for number, _ in acknowledged), list(range(1, 181)))
        self.expect_kept(writers[0], acknowledged)

    def test_other_encodings(self):
        """In LATIN1 there is no €; weir keeps its bytes."""
        for encoding in ('LATIN1', 'SQL_ASCII'):
            name = encoding.lower()
            self.server.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
            drive = self.store(url(self.server, database=name))
            drive.appended(0)
            self.assertEqual(drive.ask('read', 1)['comment'], "be€''\\cause")

    def test_settings_of_the_database(self):
        self.server.sql('CREATE DATABASE odd')
        for setting in ("default_transaction_isolation = 'serializable'", 'standard_conforming_strings = off',
                        "bytea_output = 'escape'", "client_encoding = 'LATIN1'", "search_path = nowhere, public"):
            self.server.sql(f'ALTER DATABASE odd SET {setting}')
        drive = self.store(url(self.server, database='odd'))
        drive.appended(0)
        self.assertEqual(drive.append(1, '-', kind='rollback', of=1)['own'], 2)
        self.assertEqual(drive.ask('read', 2)['comment'], "be€''\\cause")


class Hearing(OneServer):
    def test_a_notification_wakes_who_waits(self):
        """Nobody looks within the time: only the notification can have told it."""
        writer, waiter = self.drive(), self.drive(poll_ms=60000)
        writer.appended(0)
        self.assertEqual(waiter.ask('wait')['number'], 1)
        waiter.ask('timeout', 50000)
        waiter.send('wait')
        wait_for(lambda: self.server.sql(f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN weir_rules_%' "
                                         f"OR query LIKE '%FROM public.{self.table} ORDER BY number DESC LIMIT 1%'") != '0',
                 'it does not listen')
        writer.appended(1)
        answer = waiter.hear()
        self.expect(answer, 'OK')
        self.assertEqual(answer['number'], 2)
        writer.appended(2)  # while nobody waits
        self.assertEqual(waiter.ask('wait')['number'], 3)

    def test_who_waits_hears_nothing_of_what_was_not_committed(self):
        waiter = self.drive(poll_ms=60000)
        waiter.ask('head')
        waiter.ask('timeout', 300)
        answer = waiter.ask('wait')
        self.expect(answer, 'OK')
        self.assertEqual(answer['number'], 0)

    @unittest.skipUnless(shutil.which('pgbouncer', path='/usr/sbin:/usr/bin:/usr/local/sbin'), 'no pgbouncer')
    def test_behind_a_pooler_looking_does(self):
        for mode in ('transaction', 'session'):
            with self.subTest(mode), Pgbouncer(mode, postgres=self.server) as pooler:
                spec, table = f'postgresql://postgres@127.0.0.1:{pooler.port}/postgres', f'{self.table}_{mode[0]}'
                writer = self.store(spec, table)
                waiter = self.store(spec, table, poll_ms=50)
                writer.appended(0)
                self.assertEqual(waiter.ask('wait')['number'], 1)
                waiter.send('wait')
                writer.appended(1)
                answer = waiter.hear()
                self.assertEqual(answer['number'], 2)
                self.assertEqual(writer.append(2, '-', kind='rollback', of=1)['own'], 3)
                self.assertEqual(waiter.ask('read', 3)['text'], 'text')
                for drive in (writer, waiter):
                    drive.close()


class Faults(StoreCase):
    """Servers of their own."""

    def test_writers_killed_again_and_again(self):
        server = self.own_server()
        acknowledged = []
        for _ in range(KILLS):
            drive = self.store(url(server))
            drive.send('hammer', 1000)
            for _ in range(self.random.randrange(8)):
                answer = drive.hear()
                acknowledged.append((answer['own'], answer['change']))
            drive.kill()
            while answer := drive.hear():  # what it had been told
                acknowledged.append((answer['own'], answer['change']))
        self.expect_kept(self.store(url(server)), acknowledged)

    def test_server_killed_again_and_again(self):
        """Even where the database says that commits need not wait for the disk."""
        server = self.own_server()
        server.sql("ALTER DATABASE postgres SET synchronous_commit = 'off'")
        writers = [self.store(url(server)) for _ in range(2)]
        acknowledged, rounds = [], max(3, KILLS // 8)
        for writer in writers:
            writer.ask('timeout', 2000)
            writer.send('hammer', 1000000)
        for _ in range(rounds):
            for writer in writers:
                for _ in range(2 + self.random.randrange(20)):
                    answer = writer.hear()
                    self.expect(answer, 'OK')
                    acknowledged.append((answer['own'], answer['change']))
            server.kill()
            server.start()
        for writer in writers:
            writer.kill()
            while answer := writer.hear():
                acknowledged.append((answer['own'], answer['change']))
        self.expect_kept(self.store(url(server)), acknowledged)

    def test_a_server_that_stands_still(self):
        server = self.own_server()
        drive, other = self.store(url(server)), self.store(url(server))
        drive.appended(0)
        other.ask('head')
        drive.ask('timeout', 300)
        server.freeze()
        other.ask('timeout', 300)
        self.expect(other.ask('head'), 'EDOWN', 'did not answer in time')
        lost = drive.append(1, 'lost?')
        self.expect(lost, 'EUNKNOWN', 'did not answer in time')
        self.expect(drive.append(1, 'lost?', change=lost['change']), 'EDOWN')
        server.thaw()
        drive.ask('timeout', 60000)
        found = drive.append(1, 'lost?', change=lost['change'])
        self.assertEqual((found['status'], found['said'], found['own']), ('OK', 'appended', 2), found)
        self.assertEqual(len(self.all_versions(drive)), 2)

    def test_a_table_that_is_locked(self):
        server = self.own_server()
        drive = self.store(url(server))
        drive.appended(0)
        with server.connect() as stranger, stranger.cursor() as cursor:
            cursor.execute('BEGIN; LOCK TABLE weir_rules IN EXCLUSIVE MODE')
            drive.ask('timeout', 600)
            lost = drive.append(1)
            self.expect(lost, 'EDOWN', 'did not answer in time')
            self.assertEqual(drive.ask('head')['number'], 1)  # reading goes on
            cursor.execute('ROLLBACK')
        drive.ask('timeout', 60000)
        self.assertEqual(drive.append(1, change=lost['change'])['own'], 2)

    def test_read_only(self):
        server = self.own_server()
        drive = self.store(url(server))
        drive.appended(0)
        drive.ask('tell', 'a', 1, 1)
        server.sql('ALTER DATABASE postgres SET default_transaction_read_only = on')
        reader = self.store(url(server))
        self.assertEqual(reader.ask('head')['number'], 1)
        self.assertEqual(reader.ask('read', 1)['text'], 'text')
        self.assertEqual(reader.told(), [['a', 1, 1]])
        self.expect(reader.append(1), 'EDOWN', 'is read-only')
        self.expect(reader.ask('tell', 'a', 2, 2), 'EDOWN', 'is read-only')
        with server.connect(options='-c default_transaction_read_only=off') as again, again.cursor() as cursor:
            cursor.execute('ALTER DATABASE postgres RESET default_transaction_read_only')
        self.assertEqual(reader.append(1)['own'], 2)

    def test_a_standby(self):
        server = self.own_server()
        self.store(url(server)).appended(0)
        follower = server.follower()
        self.addCleanup(follower.stop)
        wait_for(lambda: server.caught_up(follower), 'it does not catch up')
        drive = self.store(url(follower), poll_ms=50)
        self.assertEqual(drive.ask('head')['number'], 1)
        self.expect(drive.append(1), 'EDOWN', 'is read-only')
        drive.send('wait')  # a standby cannot listen: it looks
        writer = self.store(url(server))
        writer.appended(1)
        self.assertEqual(drive.hear()['number'], 2)
        # Of both, the one that takes writes.
        both = self.store(f'postgresql://postgres@127.0.0.1:{follower.port},127.0.0.1:{server.port}/postgres')
        self.assertEqual(both.append(2)['own'], 3)
        server.kill()
        self.assertEqual(both.ask('read', 1)['text'], 'text')
        follower.promote()
        self.assertEqual(both.append(3)['own'], 4)

    def test_a_server_that_is_not_there(self):
        server = self.own_server()
        server.shut()
        drive = self.store(url(server))
        drive.ask('timeout', 500)
        self.expect(drive.ask('head'), 'EDOWN')
        self.expect(drive.ask('wait'), 'EDOWN')
        server.start()
        drive.ask('timeout', 60000)
        self.assertEqual(drive.ask('wait')['number'], 0)  # another store than none
        drive.send('wait')
        self.store(url(server)).appended(0)
        self.assertEqual(drive.hear()['number'], 1)

    def test_no_password_is_told(self):
        server = self.own_server()
        server.sql("CREATE ROLE secretive LOGIN PASSWORD 'pa55word'")
        drive = self.store(f'postgresql://secretive:pa55word@127.0.0.1:{server.port}/postgres', mode='use')
        self.assertNotIn('pa55word', str(drive.opened))
        self.assertNotIn('secretive', drive.opened['name'])
        self.assertNotIn('pa55word', str(drive.ask('head')))
        refused = StoreDrive('postgresql://secretive:pa55word@[::/postgres')
        self.addCleanup(refused.close)
        self.assertEqual((refused.opened['status'], refused.opened['field']), ('EINVAL', 'spec'))
        self.assertNotIn('pa55word', str(refused.opened))


if __name__ == '__main__':
    unittest.main()
