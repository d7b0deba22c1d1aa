#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The logical clock of deploy/reads/lamport.sql: each transaction that writes moves it, once, and not at the same time as
another."""
import threading
import unittest

import psycopg2

from postgres_replicas import Replicas
from redis_server import wait_for
from weir_server import ROOT


class Clock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = Replicas(1)
        cls.addClassCleanup(cls.group.stop)
        cls.group.primary.sql((ROOT / 'deploy/reads/lamport.sql').read_text(encoding='utf-8'))
        cls.group.primary.execute('CREATE TABLE comments (id int PRIMARY KEY, text text)')
        cls.group.primary.execute("SELECT weir_clock_watch('comments')")

    def clock(self, server=None):
        return (server or self.group.primary).value('SELECT weir_clock()')

    def test_it_is_moved_once_by_each_transaction_that_writes(self):
        writer = self.group.primary.connect()
        self.addCleanup(writer.close)
        before = self.clock()
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO comments VALUES (1, 'a')")
            self.assertEqual(self.clock(), before + 1)
            cursor.execute('BEGIN')
            cursor.execute("UPDATE comments SET text = 'b'")
            cursor.execute("INSERT INTO comments VALUES (2, 'c')")
            cursor.execute('COMMIT')
            self.assertEqual(self.clock(), before + 2)
            cursor.execute('BEGIN')
            cursor.execute('SAVEPOINT early')
            cursor.execute("UPDATE comments SET text = 'd'")
            cursor.execute('ROLLBACK TO early')
            cursor.execute("UPDATE comments SET text = 'e'")
            cursor.execute('COMMIT')
            self.assertEqual(self.clock(), before + 3, 'the move that was rolled back is made again')
            cursor.execute('TRUNCATE comments')
            self.assertEqual(self.clock(), before + 4)
        self.group.wait_caught_up()
        self.assertEqual(self.clock(self.group.standbys[0]), before + 4)

    def test_writers_wait_for_each_other_until_the_commit(self):
        first, second = (self.group.primary.connect() for _ in range(2))
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        with first.cursor() as cursor:
            cursor.execute("BEGIN; INSERT INTO comments VALUES (11, 'a')")
        waiter = threading.Thread(target=lambda: second.cursor().execute("INSERT INTO comments VALUES (12, 'b')"))
        waiter.start()
        wait_for(lambda: self.group.primary.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
                 'nobody waits')
        with first.cursor() as cursor:
            cursor.execute('COMMIT')
        waiter.join(60)
        self.assertFalse(waiter.is_alive())

    def test_who_may_write_the_table_need_not_be_able_to_move_the_clock_back(self):
        primary = self.group.primary
        primary.execute('CREATE ROLE author LOGIN; GRANT SELECT, INSERT ON comments TO author')
        self.addCleanup(primary.execute, 'DROP OWNED BY author; DROP ROLE author')
        before = self.clock()
        with psycopg2.connect(primary.conninfo().replace('user=postgres', 'user=author')) as author:
            with author.cursor() as cursor:
                cursor.execute("INSERT INTO comments VALUES (21, 'a')")
        author.close()
        self.assertEqual(self.clock(), before + 1)
        with psycopg2.connect(primary.conninfo().replace('user=postgres', 'user=author')) as author:
            with self.assertRaises(psycopg2.errors.InsufficientPrivilege), author.cursor() as cursor:
                cursor.execute('UPDATE weir_clock SET value = 1')
        author.close()


if __name__ == '__main__':
    unittest.main()
