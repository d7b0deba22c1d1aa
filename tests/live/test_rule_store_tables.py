#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of a store of rule sets in a real PostgreSQL: whose they are, of which schema, and who has which rights."""
import pathlib
import re
import unittest

from postgres_server import THEIRS
from rule_store_case import OneServer, url
from store_drive import StoreDrive


class Theirs(OneServer):
    """Tables that somebody else has put there, or changed."""

    def refused(self, *texts, mode='create', status='ECORRUPT'):
        drive = self.drive(mode=mode)
        self.expect(drive.ask('head'), status, *texts)
        self.expect(drive.append(0), status, *texts)
        drive.close()

    def test_tables_of_the_same_name(self):
        for suffix in ('', '_meta', '_nodes'):
            with self.subTest(suffix):
                self.server.sql(f'CREATE TABLE {self.table}{suffix} (a int); INSERT INTO {self.table}{suffix} VALUES (1)')
                self.refused('none of weir')
                self.assertEqual(self.server.sql(f'SELECT * FROM {self.table}{suffix}'), '1')
                self.server.sql(f'DROP TABLE {self.table}{suffix}')

    def test_all_three_are_somebody_elses(self):
        self.server.sql(f'CREATE TABLE {self.table} (number text); CREATE TABLE {self.table}_meta (a int); '
                        f'CREATE TABLE {self.table}_nodes (a int)')
        self.refused('schema')
        self.server.sql(f'DROP TABLE {self.table}_meta; CREATE TABLE {self.table}_meta (schema int, store bytea); '
                        f'INSERT INTO {self.table}_meta VALUES (1, decode(repeat(\'00\', 16), \'hex\'))')
        self.refused('none of weir')

    def test_what_was_made_of_them(self):
        made = self.drive()
        made.appended(0)
        table = self.table
        for nodes, there, gone, text in (
                ('', f'CREATE TRIGGER t BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION '
                     'suppress_redundant_updates_trigger()', f'DROP TRIGGER t ON {table}', 'has triggers'),
                ('', f'CREATE RULE r AS ON INSERT TO {table} DO ALSO NOTHING', f'DROP RULE r ON {table}', 'has rules'),
                ('', f'CREATE TABLE child () INHERITS ({table})', 'DROP TABLE child', 'inherited from'),
                ('', f'ALTER TABLE {table} ENABLE ROW LEVEL SECURITY', f'ALTER TABLE {table} DISABLE ROW LEVEL SECURITY',
                 'row security'),
                ('', f'ALTER TABLE {table}_nodes SET UNLOGGED', f'ALTER TABLE {table}_nodes SET LOGGED', 'UNLOGGED'),
                ('', f'CREATE ROLE other; GRANT TRIGGER ON {table} TO other', f'DROP OWNED BY other; DROP ROLE other',
                 'lets others give it triggers'),
                ('', f'CREATE ROLE other; ALTER TABLE {table} OWNER TO other',
                 f'ALTER TABLE {table} OWNER TO postgres; DROP ROLE other', None)):
            with self.subTest(there):
                self.server.sql(there)
                if text and 'TRIGGER ON' not in there:  # who is connected sees it too, but for a right of others
                    self.expect(made.append(1), 'ECORRUPT', text)
                    self.expect(made.ask('head'), 'ECORRUPT', text)
                if text:
                    self.refused(text)
                self.server.sql(gone)
                self.assertEqual(made.ask('head')['number'], 1)

    def test_a_partitioned_table_and_a_view(self):
        made = self.drive()
        made.appended(0)
        self.server.sql(f'ALTER TABLE {self.table} RENAME TO {self.table}_kept; '
                        f'CREATE VIEW {self.table} AS SELECT * FROM {self.table}_kept')
        self.refused('is no plain table')
        self.server.sql(f'DROP VIEW {self.table}; CREATE TABLE {self.table} (LIKE {self.table}_kept) '
                        'PARTITION BY RANGE (number)')
        self.refused('is no plain table')

    def test_an_owner_who_could_run_code_by_us(self):
        self.server.sql('CREATE ROLE maker LOGIN; CREATE ROLE visitor LOGIN; GRANT CREATE ON SCHEMA public TO maker')
        self.store(url(self.server, 'maker'), self.table).appended(0)
        self.server.sql(f'GRANT SELECT, INSERT ON {self.table} TO visitor; GRANT SELECT ON {self.table}_meta TO visitor')
        self.expect(self.store(url(self.server, 'visitor'), self.table).append(1), 'ECORRUPT', 'belongs to maker')

    def test_operators_of_others_are_not_called(self):
        self.server.sql(f'CREATE SCHEMA trap; SET search_path = trap, pg_catalog; {THEIRS}')
        drive = self.store(url(self.server, options='?options=-csearch_path%3Dtrap,pg_catalog,public'), self.table)
        drive.appended(0)
        drive.append(1, '-', kind='rollback', of=1)
        drive.ask('tell', 'a', 1, 1)
        drive.told()
        drive.ask('timeout', 200)
        drive.ask('wait')
        self.assertEqual(self.server.sql('SELECT is_called FROM trap.theirs_called'), 'f')
        self.server.sql('DROP SCHEMA trap CASCADE')

    def test_rows_that_weir_did_not_write(self):
        made = self.drive()
        for i in range(3):
            made.appended(i)
        for damage in ('kind = 7', 'kind = 2', 'of_version = 1', 'wall_ns = -1', "author = ''", r"author = '\x0a'",
                       r"change = '\x00'", r"checksum = '\x00'", "text = ''", "text = 'other'"):
            with self.subTest(damage):
                self.server.sql(f'CREATE TABLE {self.table}_kept AS SELECT * FROM {self.table} WHERE number = 2; '
                                f'UPDATE {self.table} SET {damage} WHERE number = 2')
                self.expect(made.ask('read', 2), 'ECORRUPT')
                self.server.sql(f'DELETE FROM {self.table} WHERE number = 2; INSERT INTO {self.table} '
                                f'SELECT * FROM {self.table}_kept; DROP TABLE {self.table}_kept')
                self.expect(made.ask('read', 2), 'OK')
        self.server.sql(f'DELETE FROM {self.table} WHERE number = 2')
        self.expect(made.ask('read', 2), 'ECORRUPT', 'missing among others')
        self.expect(made.append(3, '-', kind='rollback', of=2), 'ECORRUPT', 'missing among others')
        self.server.sql(f"INSERT INTO {self.table}_nodes (node, version, since_ns) VALUES ('a b', 1, 1)")
        self.expect(made.ask('told', 'all')['answer'], 'ECORRUPT')

    def test_dropped_and_made_anew(self):
        drive = self.drive()
        drive.appended(0)
        first = drive.ask('head')
        self.server.sql(f'DROP TABLE {self.table}, {self.table}_meta, {self.table}_nodes')
        user = self.drive(mode='use')
        self.expect(user.ask('head'), 'ENOENT')
        second = drive.ask('head')
        self.assertEqual(second['number'], 0)
        self.assertNotEqual(second['store'], first['store'])


class Schema(OneServer):
    def test_a_later_schema_is_refused_with_both_numbers(self):
        drive = self.drive()
        drive.appended(0)
        self.server.sql(f'UPDATE {self.table}_meta SET schema = 2')
        for each in (drive, self.drive()):
            for answer in (each.ask('head'), each.append(1), each.ask('tell', 'a', 1, 1)):
                self.expect(answer, 'ERANGE', 'has schema 2, this weir knows 1', field='schema')

    def test_the_first_schema_is_read_as_it_was_released(self):
        """What has once been written must be read for ever."""
        name = self.table
        self.server.sql(
            f'CREATE TABLE {name} (number bigint PRIMARY KEY CHECK (number > 0), kind smallint NOT NULL, of_version bigint '
            'NOT NULL, wall_ns bigint NOT NULL, change bytea NOT NULL UNIQUE, author bytea NOT NULL, comment bytea NOT '
            'NULL, checksum bytea NOT NULL, text bytea NOT NULL); '
            f'CREATE TABLE {name}_nodes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text NOT NULL, version '
            'bigint NOT NULL, since_ns bigint NOT NULL, UNIQUE (node, id)); '
            f'CREATE TABLE {name}_meta (one boolean PRIMARY KEY DEFAULT true CHECK (one), schema integer NOT NULL, store '
            f"bytea NOT NULL); INSERT INTO {name}_meta VALUES (true, 1, decode(repeat('ab', 16), 'hex')); "
            f"INSERT INTO {name} VALUES (1, 3, 0, 1700000000000000000, decode(repeat('01', 16), 'hex'), 'ann', 'from Git', "
            "sha256('abc'), 'abc'), (2, 2, 1, 1700000001000000000, decode(repeat('02', 16), 'hex'), 'bob', 'back', "
            f"sha256('abc'), 'abc'); INSERT INTO {name}_nodes (node, version, since_ns) VALUES ('a', 2, 5)")
        drive = self.drive(mode='use')
        self.assertEqual(drive.ask('head')['store'], 'ab' * 16)
        read = drive.ask('read', 2)
        self.assertEqual((read['text'], read['author'], read['of']), ('abc', 'bob', 1))
        self.assertEqual(drive.told(), [['a', 2, 5]])
        drive.appended(2)

    def test_up_and_back(self):
        now = self.drive()
        now.appended(0)
        later = self.drive(mode='later')
        self.assertEqual(later.appended(1), 2)
        self.assertEqual(self.server.sql(f'SELECT schema FROM {self.table}_meta'), '2')
        self.expect(now.append(2), 'ERANGE', 'has schema 2, this weir knows 1')
        self.expect(later.ask('migrate', 3), 'ERANGE', field='schema')
        self.expect(later.ask('migrate', 1), 'OK')
        self.assertEqual(now.appended(2), 3)
        self.assertEqual(self.server.sql('SELECT count(*) FROM information_schema.columns WHERE '
                                         f"table_name = '{self.table}_nodes' AND column_name = 'late'"), '0')
        self.assertEqual(later.ask('head')['number'], 3)  # and up again
        self.expect(now.ask('migrate', 2), 'ERANGE', field='schema')

    def test_several_bring_it_up_at_once(self):
        self.drive().appended(0)
        drives = [self.drive(mode='later') for _ in range(4)]
        for drive in drives:
            drive.send('head')
        for drive in drives:
            self.expect(drive.hear(), 'OK')

    def test_several_make_it_at_once(self):
        drives = [self.drive() for _ in range(4)]
        for drive in drives:
            drive.send('head')
        self.assertEqual(len({drive.hear()['store'] for drive in drives}), 1)


FORM = """SELECT string_agg(concat_ws(' ', replace(c.relname, '{0}', 'T'), a.attname, format_type(a.atttypid, a.atttypmod),
 a.attnotnull, a.attidentity), ',' ORDER BY c.relname, a.attnum) || ' ' || (SELECT string_agg(
 replace(pg_get_constraintdef(o.oid), '{0}', 'T'), ',' ORDER BY pg_get_constraintdef(o.oid)) FROM pg_constraint AS o
 WHERE o.conrelid IN ('{0}'::regclass, '{0}_meta'::regclass, '{0}_nodes'::regclass))
 FROM pg_class AS c JOIN pg_attribute AS a ON attrelid = c.oid WHERE attnum > 0 AND c.oid IN
 ('{0}'::regclass, '{0}_meta'::regclass, '{0}_nodes'::regclass)"""


def page_sql(number):
    page = (pathlib.Path(__file__).resolve().parents[2] / 'docs/rule-stores.md').read_text(encoding='utf-8')
    return re.findall(r'```sql\n(.*?)```', page, re.DOTALL)[number]


class Rights(OneServer):
    def test_the_page_makes_what_weir_makes(self):
        self.server.sql(page_sql(0).replace('weir_rules', 'by_page'))
        drive = self.store(url(self.server), 'by_page', mode='use')
        drive.appended(0)
        self.assertEqual(len(set(drive.ask('head')['store'])) > 1, True)
        self.drive().appended(0)
        by_page, by_weir = (self.server.sql(FORM.format(table)) for table in ('by_page', self.table))
        self.assertEqual(by_page, by_weir)
        self.assertIn('T_nodes node text', by_page)

    def test_the_least_that_is_needed(self):
        """As docs/rule-stores.md has it."""
        table, sql = self.table, self.server.sql
        owner = self.drive()
        owner.appended(0)
        sql('CREATE ROLE weir_admin LOGIN; CREATE ROLE weir_node LOGIN; CREATE ROLE nobody LOGIN; '
            + page_sql(1).replace('weir_rules', table))
        admin, node, nobody = (self.store(url(self.server, role), table, mode='use')
                               for role in ('weir_admin', 'weir_node', 'nobody'))
        admin.appended(1)
        self.assertEqual(admin.append(2, '-', kind='rollback', of=1)['own'], 3)
        self.expect(admin.ask('tell', 'a', 1, 1), 'OK')
        self.assertEqual(node.ask('head')['number'], 3)
        self.expect(node.ask('read', 3), 'OK')
        self.expect(node.ask('tell', 'b', 3, 1), 'OK')
        self.assertEqual(len(node.told()), 2)
        node.ask('timeout', 200)
        self.expect(node.ask('wait'), 'OK')
        node.ask('timeout', 60000)
        self.expect(node.append(3), 'EDOWN', 'has not the right', f'permission denied for table {table}')
        self.expect(nobody.ask('head'), 'EDOWN', 'has not the right')
        self.assertEqual(owner.ask('head')['number'], 3)

    def test_who_may_not_make_tables(self):
        self.server.sql('CREATE ROLE maker_not LOGIN')
        drive = self.store(url(self.server, 'maker_not'), self.table)
        self.expect(drive.ask('head'), 'EDOWN', 'has not the right', 'permission denied for schema public')
        self.drive().appended(0)
        self.server.sql(f'GRANT SELECT ON {self.table}, {self.table}_meta TO maker_not')
        self.assertEqual(drive.ask('head')['number'], 1)

    def test_a_schema_of_its_own(self):
        self.server.sql('CREATE SCHEMA limits; CREATE SCHEMA "Odd one"')
        drive = self.store(url(self.server), f'limits.{self.table}')
        drive.appended(0)
        self.assertEqual(self.server.sql(f'SELECT count(*) FROM limits.{self.table}'), '1')
        other = self.store(url(self.server, options='?options=-csearch_path%3D%22Odd%5C%20one%22'), self.table)
        self.assertEqual(other.ask('head')['number'], 0)
        other.appended(0)
        self.assertEqual(self.server.sql(f'SELECT count(*) FROM "Odd one".{self.table}'), '1')
        refused = StoreDrive(url(self.server), 'Limits.x')
        self.addCleanup(refused.close)
        self.assertEqual(refused.opened['field'], 'table')


if __name__ == '__main__':
    unittest.main()
