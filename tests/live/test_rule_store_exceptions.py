#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The log of exceptions per key in a real PostgreSQL: what is written, writers at once, who is killed, tables of others,
rights, and a weir that does not know of it beside one that does."""
import os
import pathlib
import re
import time
import unittest

from rule_store_case import OneServer, url

ROOT = pathlib.Path(__file__).resolve().parents[2]
HAMMERS = {'short': 10, 'soak': 400}.get(os.environ.get('WEIR_TEST_EFFORT'), 30)


class Exceptions(OneServer):
    def ban(self, drive, user, until=0, wall=1000, change='-'):
        return drive.ask('except', 'ban', user, until, wall, change)

    def all(self, drive, start=0, count=10000, at=0):
        answer = drive.ask('exceptions', start, count, at)
        self.expect(answer['answer'], 'OK')
        return answer['exceptions']

    def numbers(self, *arguments, **options):
        return [row['number'] for row in self.all(*arguments, **options)]

    def test_what_was_changed_is_read(self):
        first, second = self.drive(), self.drive(mode='use')
        first.appended(0)
        self.assertEqual(self.all(second), [])  # there is no table yet, and reading makes none
        self.assertEqual(self.server.sql(f"SELECT to_regclass('{self.table}_exceptions') IS NULL"), 't')
        self.assertEqual(self.ban(second, 'ada', 5000)['own'], 1)  # the first change makes it, whoever makes that
        self.assertEqual(self.ban(first, 'bob')['own'], 2)
        row = self.all(second)[0]
        self.assertEqual((row['kind'], row['wall_ns'], row['until_ns'], row['key'], row['comment']),
                         (1, 1000, 5000, '4:user,3:ada,', "be€''\\cause"))
        self.assertEqual(self.numbers(first, start=2), [2])
        self.assertEqual(self.numbers(first, count=1), [1])
        self.assertEqual(self.numbers(first, at=4999), [1, 2])
        self.assertEqual(self.numbers(first, at=5000), [2])
        self.assertEqual(first.ask('except', 'unban', 'bob', 0, 1001, '-')['own'], 3)
        self.assertEqual(self.numbers(second, at=4999), [1])
        self.expect(first.ask('except', 'unban', 'bob', 0, 1002, '-'), 'ENOENT', field='key')
        self.expect(first.ask('except', 'unban', 'ada', 0, 5000, '-'), 'ENOENT', field='key')
        self.assertEqual(first.ask('head')['number'], 1)

    def test_a_level(self):
        drive, other = self.drive(), self.drive(mode='use')
        drive.appended(0)
        self.assertEqual(self.ban(drive, 'ada')['own'], 1)
        self.assertEqual(self.numbers(other), [1])  # it has looked at the table, which has no such column yet
        answer = drive.ask('except', 'plus', 'ada', 5000, 1000, '-')
        self.assertEqual((answer['status'], answer['own']), ('OK', 2), answer)
        self.assertEqual([(row['kind'], row['level'], row['until_ns']) for row in self.all(other)],
                         [(1, '', 0), (3, 'plus', 5000)])
        self.assertEqual(self.numbers(other, at=4999), [2])
        again = drive.ask('except', 'plus', 'ada', 5000, 1001, answer['change'])
        self.assertEqual((again['status'], again['own']), ('OK', 2))
        self.expect(drive.ask('except', 'low', 'ada', 5000, 1001, answer['change']), 'EINVAL', field='change')
        self.assertEqual(other.ask('except', 'low', 'bob', 0, 1001, '-')['own'], 3)
        self.assertEqual(self.ban(other, 'ada')['own'], 4)
        self.assertEqual([row['level'] for row in self.all(drive)], ['', 'plus', 'low', ''])

    def test_a_reset(self):
        """Beside what else holds; and nothing is needed for it but what a ban needs."""
        admin = self.drive()
        admin.appended(0)
        self.ban(admin, 'ada')
        name = f's{self.table}'
        self.server.sql(f'CREATE ROLE {name} LOGIN; GRANT SELECT ON {self.table}, {self.table}_meta, {self.table}_nodes, '
                        f'{self.table}_exceptions TO {name}')
        editor = self.store(url(self.server, user=name), self.table, mode='use')
        self.expect(editor.ask('except', 'reset', 'ada', 0, 1001, '-'), 'EDOWN', 'permission denied')
        self.server.sql(f'GRANT INSERT ON {self.table}_exceptions TO {name}')
        answer = editor.ask('except', 'reset', 'ada', 0, 1001, '-')
        self.assertEqual((answer['status'], answer['own']), ('OK', 2), answer)
        again = editor.ask('except', 'reset', 'ada', 0, 1002, answer['change'])
        self.assertEqual((again['status'], again['own']), ('OK', 2))
        self.assertEqual(self.numbers(admin, at=1500), [1, 2])
        self.assertEqual([(row['kind'], row['key'], row['until_ns']) for row in self.all(admin)],
                         [(1, '4:user,3:ada,', 0), (4, '4:user,3:ada,', 0)])
        self.assertEqual(self.server.sql(f"SELECT convert_from(key, 'UTF8') FROM {self.table}_exceptions WHERE number = 2"),
                         '4:user,3:ada,0:,5:reset,')
        self.assertEqual(admin.ask('except', 'unban', 'ada', 0, 1003, '-')['own'], 3)
        self.assertEqual(self.numbers(admin, at=1500), [2])
        self.expect(admin.ask('except', 'unban', 'ada', 0, 1004, '-'), 'ENOENT', field='key')
        self.assertEqual(self.ban(admin, 'ada')['own'], 4)
        admin.ask('bounds', 2, 100)
        self.expect(admin.ask('except', 'reset', 'bob', 0, 1005, '-'), 'ELIMIT', 'a reset is one for good', field='exceptions')
        self.assertEqual(admin.ask('except', 'reset', 'ada', 0, 1005, '-')['own'], 5)  # none more
        self.assertEqual(self.server.sql(f'SELECT held FROM {self.table}_exceptions WHERE number = 5'), '2')

    def test_there_are_so_many_names_of_levels(self):
        drive = self.drive()
        drive.appended(0)
        self.assertEqual(drive.ask('except', 'first', 'ada', 0, 1000, '-')['own'], 1)
        self.server.sql(f"INSERT INTO {self.table}_exceptions SELECT 1 + i, kind, wall_ns, until_ns, int8send(i), digest, "
                        f"limit_name, key, author, comment, held, 'l' || i FROM {self.table}_exceptions, "
                        "generate_series(1, 254) AS i")
        self.expect(drive.ask('except', 'more', 'ada', 0, 1000, '-'), 'ELIMIT', '255 names', field='level')
        self.assertEqual(drive.ask('except', 'l7', 'bob', 0, 1000, '-')['own'], 256)

    def test_the_right_to_add_the_column(self):
        admin = self.drive()
        admin.appended(0)
        self.ban(admin, 'ada')
        name = f'l{self.table}'
        self.server.sql(f'CREATE ROLE {name} LOGIN; GRANT SELECT, INSERT ON {self.table}, {self.table}_meta, '
                        f'{self.table}_nodes, {self.table}_exceptions TO {name}')
        editor = self.store(url(self.server, user=name), self.table, mode='use')
        self.expect(editor.ask('except', 'plus', 'bob', 0, 1000, '-'), 'EDOWN', 'level_name yet: the role has not the right')
        self.assertEqual(self.ban(editor, 'bob')['own'], 2)  # bans are not concerned
        self.assertEqual(admin.ask('except', 'plus', 'eve', 0, 1000, '-')['own'], 3)
        self.assertEqual(editor.ask('except', 'plus', 'bob', 0, 1000, '-')['own'], 4)
        self.server.sql(f'ALTER TABLE {self.table}_exceptions DROP level_name; '
                        f'ALTER TABLE {self.table}_exceptions ADD level_name bytea')
        self.expect(self.drive().ask('exceptions', 0, 10, 0)['answer'], 'ECORRUPT', "none of weir")

    def test_the_same_id_again(self):
        drive = self.drive()
        drive.appended(0)
        answer = self.ban(drive, 'ada')
        again = self.ban(drive, 'ada', wall=1005, change=answer['change'])
        self.assertEqual((again['status'], again['own']), ('OK', 1))
        self.expect(self.ban(drive, 'bob', change=answer['change']), 'EINVAL', field='change')
        self.assertEqual(self.numbers(drive), [1])

    def test_bounds(self):
        drive = self.drive()
        drive.appended(0)
        drive.ask('bounds', 2, 5)
        self.assertEqual(self.ban(drive, 'a', 2000)['own'], 1)
        self.assertEqual(self.ban(drive, 'b')['own'], 2)
        self.expect(self.ban(drive, 'c'), 'ELIMIT', '2 hold', field='exceptions')
        self.assertEqual(self.ban(drive, 'b', 3000)['own'], 3)  # another one for the same key is none more
        self.assertEqual(self.ban(drive, 'c', 0, 2000)['own'], 4)  # the first has expired
        self.assertEqual(drive.ask('except', 'unban', 'b', 0, 2001, '-')['own'], 5)
        self.expect(self.ban(drive, 'd', 0, 2002), 'ELIMIT', '5 changes', field='exceptions')

    def fill(self, count):
        self.server.sql(f'INSERT INTO {self.table}_exceptions (number, kind, wall_ns, until_ns, change, digest, limit_name, key, '
                        "author, comment, held) SELECT i, 1, 1000, 0, decode(md5(i::text), 'hex'), decode(md5(-i || ''), 'hex'), "
                        "limit_name, key, author, comment, i FROM "
                        f'{self.table}_exceptions, generate_series(2, {count}) AS i')

    def test_full_and_no_time_to_count(self):
        """Whether some have ended is not known then; that it is full is, and who asks hears of it."""
        drive, count, said = self.drive(), 150000, []
        drive.appended(0)
        self.assertEqual(self.ban(drive, 'a')['own'], 1)
        self.fill(count)
        drive.ask('bounds', count, 10**7)
        for timeout_ms in (20 * 1.3**i for i in range(20)):
            drive.ask('timeout', int(timeout_ms))
            answer = self.ban(drive, 'another')
            said.append((int(timeout_ms), answer['status'], answer['field'], answer['fault']))
            if 'was not counted' in said[-1][-1]:
                break
        self.assertRegex(str(said[-1]), rf"'ELIMIT', 'exceptions', '{count} hold, which is the most; whether some have ended "
                                        r'was not counted \(rules: timeout\): .+', said)
        drive.ask('timeout', 60000)
        self.expect(self.ban(drive, 'another'), 'ELIMIT', f'{count} hold, which is the most: end some', field='exceptions')
        self.server.sql(f'UPDATE {self.table}_exceptions SET until_ns = 999 WHERE number = 7')
        self.assertEqual(self.ban(drive, 'another')['own'], count + 1)

    def rows_read(self):
        """Of the table, by all sessions that have ended: entries of the index of digests, and others."""
        digests = f"indexrelname LIKE '{self.table}_exceptions_digest%'"
        return [int(number) for number in self.server.sql(
            f"SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE {digests}), seq_tup_read + (SELECT "
            f"sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = '{self.table}_exceptions' AND NOT {digests}) FROM "
            f"pg_stat_user_tables WHERE relname = '{self.table}_exceptions'").split('|')]

    def test_full_is_counted_once_and_along_the_index(self):
        """Not by comparing each row with each other, in no order, and for each statement anew."""
        drive, count = self.drive(), 150000
        drive.appended(0)
        self.assertEqual(self.ban(drive, 'a')['own'], 1)
        self.fill(count)
        self.server.sql(f'VACUUM ANALYZE {self.table}_exceptions')
        drive.ask('bounds', count, 10**7)
        drive.ask('timeout', 60000)
        before = self.rows_read()
        self.expect(self.ban(drive, 'another'), 'ELIMIT', f'{count} hold, which is the most: end some', field='exceptions')
        self.server.sql(f'UPDATE {self.table}_exceptions SET until_ns = 999 WHERE number IN (7, 8)')
        self.assertEqual(self.ban(drive, 'another')['own'], count + 1)  # counted again, and now it is known
        answer = self.ban(drive, 'more')
        self.assertEqual((answer['status'], answer.get('own')), ('OK', count + 2), answer)
        self.expect(self.ban(drive, 'other'), 'ELIMIT', field='exceptions')
        drive.close()  # or it would be told later what it has read
        after = self.rows_read()
        self.assertEqual(round((after[0] - before[0]) / count, 1), 3)
        self.assertLess(after[1] - before[1], 100)

    def test_writers_at_once(self):
        """Each number once, and whoever follows by numbers misses none."""
        writers = [self.drive() for _ in range(3)]
        writers[0].appended(0)
        for writer in writers:
            writer.send('hammer-except', HAMMERS)
        follower, seen = self.drive(mode='use'), []
        acknowledged = []
        for writer in writers:
            for _ in range(HAMMERS):
                answer = writer.hear()
                self.expect(answer, 'OK')
                acknowledged.append((answer['own'], answer['change']))
                seen += self.all(follower, start=len(seen) + 1)
        seen += self.all(follower, start=len(seen) + 1)
        self.assertEqual([row['number'] for row in seen], list(range(1, 3 * HAMMERS + 1)))
        self.assertEqual(sorted(acknowledged), [(row['number'], row['change']) for row in seen])
        self.assertEqual(self.server.sql(f'SELECT held FROM {self.table}_exceptions ORDER BY number DESC LIMIT 1'),
                         str(HAMMERS))  # of each of the keys one holds

    def test_a_writer_is_killed(self):
        writer = self.drive()
        writer.appended(0)
        writer.send('hammer-except', 1000)
        acknowledged = [writer.hear() for _ in range(HAMMERS)]
        writer.kill()
        rows = {row['number']: row['change'] for row in self.all(self.drive(mode='use'))}
        self.assertEqual(sorted(rows), list(range(1, len(rows) + 1)))
        for answer in acknowledged:
            self.assertEqual(rows[answer['own']], answer['change'])

    def test_a_node_hears_of_it(self):
        """By a notification: it would look by itself after a minute."""
        admin = self.drive()
        admin.appended(0)
        self.ban(admin, 'ada')
        node = self.store(url(self.server), self.table, mode='use', poll_ms=60000)
        node.ask('timeout', 40000)
        self.assertEqual(node.ask('heard', 1)['found'], 1)  # listens by now, or soon
        node.send('heard', 2)
        self.assertEqual(self.ban(admin, 'bob')['own'], 2)
        self.assertEqual(node.hear(), {'status': 'OK', 'field': '', 'fault': '', 'found': 2})

    def test_tables_of_others(self):
        drive = self.drive()
        drive.appended(0)
        table = f'{self.table}_exceptions'
        self.server.sql(f'CREATE TABLE {table} (a int)')
        self.expect(self.ban(drive, 'ada'), 'ECORRUPT', "none of weir")
        self.assertEqual(drive.ask('head')['number'], 1)  # versions are not concerned
        self.server.sql(f'DROP TABLE {table}')
        self.assertEqual(self.ban(drive, 'ada')['own'], 1)
        for there, gone, text in (
                (f'CREATE TRIGGER t BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION '
                 'suppress_redundant_updates_trigger()', f'DROP TRIGGER t ON {table}', 'has triggers'),
                (f'CREATE RULE r AS ON INSERT TO {table} DO ALSO NOTHING', f'DROP RULE r ON {table}', 'has rules'),
                (f'ALTER TABLE {table} ENABLE ROW LEVEL SECURITY', f'ALTER TABLE {table} DISABLE ROW LEVEL SECURITY',
                 'row security'),
                (f'ALTER TABLE {table} SET UNLOGGED', f'ALTER TABLE {table} SET LOGGED', 'UNLOGGED')):
            with self.subTest(there):
                self.server.sql(there)
                self.expect(self.ban(drive, 'bob'), 'ECORRUPT', text)
                self.expect(drive.ask('exceptions', 0, 10, 0)['answer'], 'ECORRUPT', text)
                self.assertEqual(drive.ask('head')['number'], 1)
                self.server.sql(gone)
                self.assertEqual(self.numbers(drive), [1])

    def test_rights(self):
        admin = self.drive()
        admin.appended(0)
        self.ban(admin, 'ada')
        name = f'r{self.table}'
        self.server.sql(f'CREATE ROLE {name} LOGIN; GRANT SELECT ON {self.table}, {self.table}_meta, '
                        f'{self.table}_nodes TO {name}')
        node = self.store(url(self.server, user=name), self.table, mode='use')
        self.expect(node.ask('exceptions', 0, 10, 0)['answer'], 'EDOWN', 'permission denied')
        self.assertEqual(node.ask('head')['number'], 1)  # it follows the rules all the same
        self.server.sql(f'GRANT SELECT ON {self.table}_exceptions TO {name}')
        self.assertEqual(self.numbers(node), [1])
        self.expect(self.ban(node, 'bob'), 'EDOWN', 'permission denied')
        self.server.sql(f'GRANT INSERT ON {self.table}_exceptions TO {name}')
        self.assertEqual(self.ban(node, 'bob')['own'], 2)

    def test_a_table_that_nodes_would_refuse_is_not_made(self):
        """Somebody would be told that a key is banned, and no node would refuse it."""
        self.drive().appended(0)
        name = f'm{self.table}'
        self.server.sql(f'CREATE ROLE {name} LOGIN; GRANT CREATE ON SCHEMA public TO {name}; GRANT SELECT, INSERT ON '
                        f'{self.table}, {self.table}_meta, {self.table}_nodes TO {name}')
        editor = self.store(url(self.server, user=name), self.table, mode='use')
        self.expect(self.ban(editor, 'ada'), 'EDOWN', 'postgres, whose the other tables are, must make it')
        self.assertEqual(self.server.sql(f"SELECT to_regclass('{self.table}_exceptions') IS NULL"), 't')
        self.assertEqual(self.ban(self.drive(), 'ada')['own'], 1)
        self.server.sql(f'GRANT SELECT, INSERT ON {self.table}_exceptions TO {name}')
        self.assertEqual(self.ban(editor, 'bob')['own'], 2)

    def test_rows_that_hold_no_more_may_be_removed_by_hand(self):
        """As docs/exceptions.md tells it."""
        drive = self.drive()
        drive.appended(0)
        for wall, until in ((1000, 0), (1001, 0), (1002, 5000)):
            self.ban(drive, 'ada', until, wall)
        self.ban(drive, 'bob')
        self.server.sql(f'DELETE FROM {self.table}_exceptions AS e WHERE wall_ns < 1002 AND EXISTS (SELECT FROM '
                        f'{self.table}_exceptions AS l WHERE l.digest = e.digest AND l.number > e.number)')
        self.assertEqual(self.numbers(drive), [3, 4])
        self.assertEqual(self.numbers(drive, at=1500), [3, 4])
        self.assertEqual(self.ban(drive, 'eve')['own'], 5)

    def test_old_resets_may_be_removed_by_hand(self):
        """As docs/exceptions.md tells it."""
        drive = self.drive()
        drive.appended(0)
        now = int(time.time() * 1e9)
        for kind, user, days in (('reset', 'a', 50), ('ban', 'b', 50), ('reset', 'c', 30), ('reset', 'd', 60)):
            self.assertEqual(drive.ask('except', kind, user, 0, now - days * 86400 * 10**9, '-')['status'], 'OK')
        page = (ROOT / 'docs/exceptions.md').read_text(encoding='utf-8')
        told = re.search(r'^DELETE FROM weir_rules_exceptions WHERE kind = 4.*?;$', page, re.MULTILINE | re.DOTALL)[0]
        self.server.sql(told.replace('weir_rules_exceptions', f'{self.table}_exceptions'))
        self.assertEqual(self.numbers(drive), [2, 3, 4])  # the newest of all stays, by which nodes know the log
        drive.ask('bounds', 3, 100)
        self.expect(self.ban(drive, 'eve', 0, now), 'ELIMIT', '3 hold', field='exceptions')
        drive.ask('bounds', 4, 100)
        self.assertEqual(self.ban(drive, 'eve', 0, now)['own'], 5)


if __name__ == '__main__':
    unittest.main()
