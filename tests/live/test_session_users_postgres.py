# SPDX-License-Identifier: Apache-2.0
"""Users in PostgreSQL: what it loses is never taken for "has seen nothing"."""
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from postgres_server import THEIRS, Postgres, binary
from redis_server import wait_for
from users_drive import Crowd, UsersDrive, UsersTogether

RUN_S = 5
TABLE = 'weir_session_users'
USERS_SQL = pathlib.Path(__file__).resolve().parents[2] / 'deploy/reads/users.sql'


class PostgresCase(unittest.TestCase):
    def server(self, *arguments, **options):
        server = Postgres(*arguments, **options)
        self.addCleanup(server.stop)
        return server

    def drive(self, *servers, user='postgres', newest=1000, **options):
        hosts = ','.join(f'127.0.0.1:{server.port}' for server in servers)
        drive = UsersDrive(f'postgresql://{user}@{hosts}/postgres', **{'timeout_ms': 10000, **options})
        self.addCleanup(drive.close)
        drive.newest(newest)
        return drive


class Lost(PostgresCase):
    """Each time the primary (of the database) shows more afterwards, and the user had seen less."""

    def test_by_hand(self):
        server = self.server()
        drive, other = self.drive(server), self.drive(server)
        shown = 5000
        server.sql('CREATE TABLE kept AS SELECT 1')
        for loss in (f'TRUNCATE {TABLE}', f'DROP TABLE {TABLE}', f'DELETE FROM {TABLE}',
                     f'DELETE FROM {TABLE} WHERE length(user_id) = 0',
                     f'CREATE TABLE copy AS SELECT * FROM {TABLE}; TRUNCATE {TABLE};'
                     f'INSERT INTO {TABLE} SELECT * FROM copy; DROP TABLE copy'):
            with self.subTest(loss):
                other.added('ada', shown - 100)
                self.assertGreaterEqual(drive.got('ada'), shown - 100)
                server.sql(loss)
                for each in (drive, other):
                    each.newest(shown)
                other.added('bob', 1)  # it notices first; the other must all the same
                self.assertEqual(drive.got('ada'), shown)
                self.assertEqual(other.got('ada'), shown)
                self.assertEqual(drive.got('eve'), shown)
                shown += 1000

    def test_values_that_are_not_ours(self):
        server = self.server()
        drive = self.drive(server)
        for number, spoil in enumerate(("'x'", "''", "repeat('x', 5000)::bytea", "'1 0123456789abcdef AgA'",
                                        "(seen || '='::bytea)", "substring(seen FROM 1 FOR length(seen) - 1)")):
            drive.added('ada', 1400 + number)
            server.sql(f"UPDATE {TABLE} SET seen = {spoil} WHERE user_id = 'ada'")
            drive.newest(5000 + number)
            self.assertEqual(drive.got('ada'), 5000 + number, spoil)
            drive.added('ada', 1)
            self.assertEqual(drive.got('ada'), 5000 + number, spoil)
            self.assertEqual(drive.stats()['corrupt'], 2 * (number + 1), spoil)

    def test_an_epoch_that_is_none_of_ours(self):
        """It names this server, and is replaced all the same."""
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1400)
        server.sql(f"UPDATE {TABLE} SET seen = overlay(seen PLACING 'ZZ' FROM 1 FOR 2) WHERE user_id = ''")
        drive.newest(5000)
        self.assertEqual(drive.got('ada'), 5000)

    def test_a_crash_and_an_older_copy(self):
        server = self.server()
        drive = self.drive(server)
        drive.added('ada', 1200)
        server.shut()
        copy = server.folder / 'copy'
        server.copy_files(copy)
        server.start()
        drive.added('ada', 1400)
        server.kill()
        drive.newest(5000)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        server.start()
        self.assertEqual(drive.got('ada'), 5000)
        drive.added('ada', 5100)
        server.shut()
        server.restore_files(copy)
        server.start()
        drive.newest(6000)
        self.assertEqual(drive.got('ada'), 6000)

    def test_a_promoted_standby_that_had_not_heard_the_newest(self):
        primary = self.server()
        drive = self.drive(primary)
        drive.added('ada', 1200)
        standby = primary.follower()
        self.addCleanup(standby.stop)
        wait_for(lambda: primary.caught_up(standby), 'the standby does not follow')
        both = self.drive(primary, standby)
        both.added('bob', 1200)
        standby.freeze()
        both.added('ada', 1400)
        primary.kill()
        standby.thaw()
        standby.promote()
        both.newest(5000)
        self.assertEqual(both.got('ada'), 5000)

    def test_what_a_crash_of_the_backends_leaves_is_all_that_was_added(self):
        """The server stays and so does the epoch: what was added must be durable, whatever the server's settings."""
        server = self.server(synchronous_commit='off', wal_writer_delay='10s')
        drive = self.drive(server)
        drive.added('ada', 1200)
        drive.added('ada', 1400)
        victim = int(server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'"))
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: 'all server processes terminated' in server.log(), 'it does not crash')
        wait_for(server.answers, 'it does not come back')
        self.assertEqual(drive.got('ada'), 1400)


class Kept(PostgresCase):
    def test_without_the_right_to_create(self):
        server = self.server()
        server.sql('CREATE ROLE weir LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC')
        drive = self.drive(server, user='weir')
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        self.assertIn('permission denied', drive.stats()['fault'])
        subprocess.run([binary('psql'), '-XAtq', '-h', '127.0.0.1', '-p', str(server.port), '-U', 'postgres', '-v',
                        'ON_ERROR_STOP=1', '-v', 'role=weir', '-f', str(USERS_SQL), 'postgres'], check=True)
        drive.added('ada', 1400)
        self.assertEqual(drive.got('ada'), 1400)

    def test_operators_of_others_are_not_run(self):
        server = self.server()
        server.sql(THEIRS)
        drive = self.drive(server)
        drive.added('ada', 1400)
        self.assertEqual(drive.got('ada'), 1400)
        self.assertEqual(server.sql('SELECT is_called FROM theirs_called'), 'f')

    def test_functions_of_others_are_not_run(self):
        """A text without a type finds one that takes a text before the server's own, which takes something else."""
        server = self.server()
        server.sql('CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; CREATE SEQUENCE called; '
                   'CREATE FUNCTION public.pg_relation_filenode(text) RETURNS oid LANGUAGE SQL VOLATILE '
                   "AS $$SELECT nextval('called')::oid$$; GRANT ALL ON SEQUENCE called TO PUBLIC")
        self.drive(server, user='app').added('ada', 1400)
        self.assertEqual(server.sql('SELECT is_called FROM called'), 'f')

    def test_a_table_of_a_stranger_is_not_used(self):
        """Whoever owns a table, or gives it a trigger, has his code run with the rights of whoever writes to it."""
        server = self.server()
        server.sql('CREATE ROLE plain LOGIN; CREATE ROLE mallory; CREATE FUNCTION note() RETURNS trigger LANGUAGE '
                   "plpgsql AS $$BEGIN RAISE 'called'; END$$")
        text = USERS_SQL.read_text(encoding='utf-8').replace(':role', 'plain')
        for made, why in (
                (f'ALTER TABLE {TABLE} OWNER TO mallory', 'belongs to neither this role'),
                (f'GRANT TRIGGER ON {TABLE} TO mallory', 'lets others make some'),
                (f'CREATE TRIGGER t BEFORE INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION note()', 'has triggers'),
                (f'CREATE RULE r AS ON DELETE TO {TABLE} DO ALSO SELECT 1', 'has rules'),
                (f'ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY', 'row security'),
                (f'ALTER TABLE {TABLE} RENAME TO below; CREATE VIEW {TABLE} AS SELECT * FROM below',
                 'is no plain table')):
            with self.subTest(made=made):
                server.sql(f'DROP TABLE IF EXISTS {TABLE}; {text}; {made};'
                           f'GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLE} TO plain')
                drive = self.drive(server, user='plain')
                self.assertEqual(drive.add('ada', 1400)['status'], 'EDOWN')
                self.assertIn(why, drive.stats()['fault'])
        server.sql(f'DROP VIEW {TABLE}; ALTER TABLE below RENAME TO {TABLE}; GRANT ALL ON {TABLE} TO plain')
        self.assertEqual(drive.added('ada', 1400)['status'], 'OK')

    def test_who_is_not_heard_of_is_forgotten_into_the_floor(self):
        server = self.server()
        drive = self.drive(server, ttl_ms=1000)
        for i in range(300):
            drive.added(f'user{i}', 1400)
        drive.newest(5000)
        deadline = time.monotonic() + 300
        while int(server.sql(f"SELECT count(*) FROM {TABLE} WHERE user_id LIKE 'user%'")) > 0:
            for _ in range(130):  # now and then one of them looks through a page
                drive.added('ada', 1)
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(drive.got('user7'), 5000)

    def test_nobody_knows_what_the_primary_shows(self):
        drive = self.drive(self.server(), newest=0, timeout_ms=300)
        self.assertEqual(drive.ask('get', 'ada')['status'], 'EDOWN')
        self.assertEqual(drive.add('ada', 1400)['status'], 'EDOWN')
        drive.newest(1000)
        drive.added('ada', 1400)
        drive.newest(0)
        self.assertEqual(drive.got('ada'), 1400)

    def test_a_frozen_server_is_not_waited_for(self):
        server = self.server()
        drive = self.drive(server, timeout_ms=300)
        drive.added('ada', 1400)
        server.freeze()
        try:
            for words in (('get', 'ada'), ('add', 'ada', 1, 1500), ('get', 'bob')):
                answer = drive.ask(*words)
                self.assertEqual(answer['status'], 'EDOWN')
                self.assertLess(answer['took_ms'], 5000)
        finally:
            server.thaw()
        self.assertGreaterEqual(drive.got('ada'), 1400)

    def test_a_row_that_somebody_holds_is_not_waited_for(self):
        server = self.server()
        drive = self.drive(server, timeout_ms=500)
        drive.added('ada', 1400)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute('BEGIN')
            cursor.execute(f"SELECT FROM {TABLE} WHERE user_id = 'ada' FOR UPDATE")
            answer = drive.add('ada', 1500)
            self.assertIn(answer['status'], ('EDOWN', 'EBUSY'))
            self.assertLess(answer['took_ms'], 5000)
            self.assertEqual(drive.got('ada'), 1400)
            cursor.execute('ROLLBACK')
        drive.added('ada', 1500)
        self.assertEqual(drive.got('ada'), 1500)

    def test_passwords_are_not_shown(self):
        server = self.server()
        server.sql("CREATE ROLE weir LOGIN PASSWORD 'richtig'")
        drive = self.drive(server, user='weir:geheim')
        conf = (server.data / 'pg_hba.conf')
        conf.write_text('host all weir all scram-sha-256\nhost all all all trust\n', encoding='utf-8')
        server.sql('SELECT pg_reload_conf()')
        wait_for(lambda: 'password' in self.fault_of(drive), 'it does not ask for a password')
        self.assertNotIn('geheim', self.fault_of(drive))

    @staticmethod
    def fault_of(drive):
        drive.ask('get', 'ada')
        return drive.stats()['fault']


class Together(PostgresCase, UsersTogether):
    mark = b'pg_advisory_xact_lock_shared'

    def lose(self, server):
        server.sql(f'TRUNCATE {TABLE}')

    def test_faults_at_random(self):
        seed = int(os.environ.get('WEIR_SEED', random.SystemRandom().randrange(2**32)))
        print(f'WEIR_SEED={seed}')
        server = self.server()
        drives = [self.drive(server) for _ in range(2)]
        chance = random.Random(seed)
        control = server.connect()
        self.addCleanup(control.close)
        cursor = control.cursor()

        def sql(text):
            return lambda: cursor.execute(text.format(user=f'user{chance.randrange(Crowd.USERS)}'))

        exists = f"DO $$ BEGIN IF to_regclass('{TABLE}') IS NOT NULL THEN {{}}; END IF; END $$"
        faults = [sql(exists.format(f'TRUNCATE {TABLE}')), sql(exists.format(f'DELETE FROM {TABLE}')),
                  sql(f'DROP TABLE IF EXISTS {TABLE}'),
                  sql(exists.format(f"UPDATE {TABLE} SET seen = ''x'' WHERE user_id = ''{{user}}''".replace("''", "'"))),
                  sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = \'weir\'')]
        crowd = Crowd(drives, chance, faults).run(RUN_S)
        self.assertEqual(crowd.wrong, [])
        self.assertGreaterEqual(crowd.done, crowd.ENOUGH)
        self.assertGreater(crowd.done, 10 * crowd.failed, [drive.stats() for drive in drives])
        self.assertGreater(crowd.losses(), Crowd.LOSSES)


if __name__ == '__main__':
    unittest.main()
