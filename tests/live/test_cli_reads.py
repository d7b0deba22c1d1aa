#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir reads check as somebody runs it on their own servers: what it prints, what it refuses, and that its table is gone
afterwards, however it ended."""
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from postgres_replicas import Replicas, Server
from postgres_server import Postgres
from ports import free_port
from redis_server import wait_for
from weir_server import BUILD

DELAY_MS = 120
STRATEGIES = ['plain', 'sticky', 'window', 'physical', 'lamport', 'tracked']


def url(server, user='postgres'):
    return f'postgresql://{user}@127.0.0.1:{server.port}/postgres'


def name(server):
    return f'127.0.0.1:{server.port}'


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = Replicas(2)
        cls.addClassCleanup(cls.group.stop)
        cls.near, cls.far = cls.group.standbys
        cls.far.set_delay(DELAY_MS)

    def words(self, *more, primary=None, replicas=None):
        found = [str(BUILD / 'weir'), 'reads', 'check', '--primary', primary or url(self.group.primary)]
        for replica in replicas or (url(self.near), url(self.far)):
            found += ['--replica', replica]
        return found + list(more)

    def run_check(self, *more, **servers):
        return subprocess.run(self.words(*more, **servers), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding='utf-8', timeout=300, check=False)

    def begin(self, *more):
        process = subprocess.Popen(self.words(*more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding='utf-8')
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(self.table_is_there, 'it makes no table')
        return process

    def table_is_there(self):
        return self.group.primary.value("SELECT to_regclass('weir_reads_check') IS NOT NULL")

    def refused(self, *words, said, **servers):
        done = self.run_check(*words, **servers)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, '')
        self.assertIn(said, done.stderr)
        self.assertFalse(self.table_is_there())
        return done.stderr


class Running(Case):
    def test_it_prints_what_sessions_saw_and_draws_it(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder, 'reads.svg')
            done = self.run_check('--duration', '4s', '--rate', '25', '--writes', '25', '--plot', str(plot))
            self.assertEqual((done.returncode, done.stderr), (0, ''), done)
            picture = xml.etree.ElementTree.parse(plot).getroot()
        self.assertTrue(picture.tag.endswith('svg'))
        for title in ('What the sessions saw', 'What it cost', 'Where the reads went', 'How far the replicas were behind'):
            self.assertIn(title, done.stdout)
        seen = done.stdout.split('What the sessions saw')[1].split('What it cost')[0]
        lines = [line for line in seen.splitlines() if line.split()[:1] and line.split()[0] in STRATEGIES]
        self.assertEqual([line.split()[0] for line in lines], STRATEGIES)
        self.assertEqual(len({len(line) for line in lines}), 1, 'not aligned:\n' + seen)
        self.assertIn(name(self.far), done.stdout)
        self.assertFalse(self.table_is_there())

    def found(self, seconds):
        done = self.run_check('--duration', f'{seconds}s', '--rate', '25', '--writes', '25', '--json')
        self.assertEqual(done.returncode, 0, done)
        found = json.loads(done.stdout)
        by_name = {one['name']: one for one in found['strategies']}
        self.assertEqual(list(by_name), STRATEGIES)
        for promised in ('tracked', 'lamport'):
            self.assertEqual(by_name[promised]['violated'], 0, by_name[promised])
        return found, by_name

    def test_json_says_the_same_and_the_strategies_that_promise_keep_it(self):
        """Where a busy machine hardly asked, or kept an answer back for the second that it may take, it asks again."""
        for seconds in (4, 8, 16) * 3:
            found, by_name = self.found(seconds)
            enough = all(one['reads'] > 100 and one['failed'] == 0 for one in by_name.values())
            if enough and by_name['plain']['violated']:
                break
        for one in by_name.values():
            self.assertGreater(one['reads'], 100, one)
            self.assertEqual((one['failed'], one['lost']), (0, 0), one)
            self.assertEqual(sum(server['reads'] for server in one['servers'].values()), one['reads'])
            self.assertEqual(list(one['servers']), [name(self.group.primary), name(self.near), name(self.far)])
        # Each replica answers half of them, and one of the two is behind for longer than between write and read.
        self.assertGreater(by_name['plain']['went_back'] + by_name['plain']['missed_own_write'], 0)
        self.assertEqual(by_name['plain']['on_primary'], 0)
        self.assertEqual(sum(by_name['plain']['violated_over_time']), by_name['plain']['violated'])
        near, far = found['replicas']
        self.assertEqual((near['name'], far['name']), (name(self.near), name(self.far)))
        self.assertGreater(far['lag_p99_ms'], DELAY_MS / 2)

    def test_some_strategies_and_the_table_kept(self):
        done = self.run_check('--duration', '500ms', '--strategies', 'tracked,plain', '--json', '--keep')
        self.addCleanup(self.group.primary.execute, 'DROP TABLE IF EXISTS weir_reads_check')
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual([one['name'] for one in json.loads(done.stdout)['strategies']], ['plain', 'tracked'])
        self.assertTrue(self.table_is_there())
        again = self.run_check('--duration', '500ms')
        self.assertEqual(again.returncode, 2, again)
        self.assertIn('DROP TABLE weir_reads_check', again.stderr)
        self.assertTrue(self.table_is_there(), 'it is somebody else\'s')


class Ending(Case):
    def test_a_signal_ends_it_with_what_was_seen_and_without_the_table(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                process = self.begin('--duration', '10min', '--json')
                wait_for(lambda: self.group.primary.value('SELECT coalesce(sum(value), 0) FROM weir_reads_check') > 3,
                         'nobody writes')
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual((process.returncode, err), (130, ''))
                self.assertGreater(sum(one['writes'] for one in json.loads(out)['strategies']), 0)
                self.assertFalse(self.table_is_there())

    def test_a_signal_while_it_waits_for_a_replica(self):
        self.near.pause()
        self.addCleanup(self.near.resume)
        process = self.begin()
        process.send_signal(signal.SIGINT)
        self.assertEqual((process.communicate(timeout=60), process.returncode), (('', ''), 130))
        self.assertFalse(self.table_is_there())

    def test_nobody_is_left_at_the_servers(self):
        self.assertEqual(self.run_check('--duration', '500ms', '--json').stderr, '')
        ours = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%weir_reads_check%' AND pid <> pg_backend_pid()"
        for server in (self.group.primary, *self.group.standbys):
            wait_for(lambda server=server: server.value(ours) == 0, f'sessions are left at {server}')


class Refusing(Case):
    def test_arguments(self):
        for words, said in ((('--duration', '0'), '--duration'), (('--sessions', '65'), '1 to 64'),
                            (('--rate', '1001'), '--rate'), (('--strategies', 'plain,best'), '--strategies'),
                            (('--writes', '0'), '--writes'), (('what',), 'too many'), (('--best',), 'weir reads --help'),
                            (('--duration', '1hour', '--rate', '1000'), '2 million')):
            self.refused(*words, said=said)
        self.refused(said='--replica is given twice', replicas=[url(self.near), url(self.near)])
        self.refused(said='--primary must be', primary='db1')
        for words in ([], ['check'], ['check', '--primary', url(self.group.primary)]):
            done = subprocess.run([str(BUILD / 'weir'), 'reads', *words], capture_output=True, encoding='utf-8', check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ''))
        done = subprocess.run([str(BUILD / 'weir'), 'reads', '--help'], capture_output=True, encoding='utf-8', check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn('Examples:', done.stdout)

    def test_a_server_that_is_not_there_is_named_and_its_password_is_not(self):
        port = free_port()
        for servers in ({'primary': f'postgresql://app:s3cret@127.0.0.1:{port}/postgres'},
                        {'replicas': [f'host=127.0.0.1 port={port} user=app password=s3cret dbname=postgres']},
                        {'primary': 'host=127.0.0.1 password s3cret'}, {'replicas': ['postgresql://app:s3cret@[::1/x']}):
            error = self.refused(said=f'127.0.0.1:{port}' if str(port) in str(servers) else 'must be postgresql://', **servers)
            self.assertNotIn('s3cret', error)

    def test_servers_that_are_not_what_they_are_said_to_be(self):
        primary, near = url(self.group.primary), url(self.near)
        other_name = near.replace('127.0.0.1', 'localhost')
        self.refused(said='is a replica: --primary', primary=near, replicas=[url(self.far)])
        self.refused(said='is the same server as', replicas=[primary.replace('127.0.0.1', 'localhost')])
        self.refused(said='is the same server as', replicas=[near, other_name])
        with Postgres(another=True) as stranger:
            self.refused(said='is of another system', replicas=[near, url(stranger)])
        with Server('sibling') as sibling:  # of the same files, and never a replica
            self.refused(said='takes writes itself', replicas=[url(sibling)])

    def test_a_table_that_would_be_published_is_not_made(self):
        """A subscriber that lacks it would stop for good: the slot of such a one never moves on again."""
        primary = self.group.primary
        for tables in ('ALL TABLES', 'TABLES IN SCHEMA public'):
            primary.execute(f'CREATE PUBLICATION everything FOR {tables}')
            self.addCleanup(primary.execute, 'DROP PUBLICATION IF EXISTS everything')
            done = self.run_check('--duration', '1s')
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn('would be published by everything', done.stderr)
            self.assertFalse(self.table_is_there())
            primary.execute('DROP PUBLICATION everything')
        help_text = subprocess.run([BUILD / 'weir', 'reads', '--help'], stdout=subprocess.PIPE, encoding='utf-8',
                                   check=True).stdout
        self.assertIn('FOR ALL TABLES', help_text)

    def test_a_role_that_may_not_see_timelines_is_told_so(self):
        primary = self.group.primary
        primary.execute('CREATE ROLE blind LOGIN')
        self.addCleanup(primary.execute, 'DROP ROLE blind')
        self.group.wait_caught_up()
        blind = [url(server, 'blind') for server in (self.near, self.far)]
        done = self.run_check('--duration', '1s', replicas=blind)
        self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
        self.assertIn('GRANT pg_read_all_stats', done.stderr)
        self.assertFalse(self.table_is_there())
        self.assertEqual(self.run_check('--duration', '1s', '--strategies', 'plain', replicas=blind).returncode, 0)

    def test_a_role_that_may_not_make_a_table(self):
        self.group.primary.execute('CREATE ROLE guest LOGIN')
        self.addCleanup(self.group.primary.execute, 'DROP ROLE guest')
        self.group.primary.execute('REVOKE CREATE ON SCHEMA public FROM PUBLIC')
        self.group.wait_caught_up()
        self.refused(said='may not make the table weir_reads_check', primary=url(self.group.primary, 'guest'))

    def test_a_schema_of_any_name(self):
        """The table is made there, found at the replicas, and dropped."""
        primary = self.group.primary
        primary.execute('CREATE SCHEMA "a ""b|c"')
        self.addCleanup(primary.execute, 'DROP SCHEMA "a ""b|c"')
        primary.execute('CREATE ROLE odd LOGIN; GRANT ALL ON SCHEMA "a ""b|c" TO odd; GRANT pg_monitor TO odd')
        self.addCleanup(primary.execute, 'DROP OWNED BY odd; DROP ROLE odd')
        primary.execute('ALTER ROLE odd SET search_path = "a ""b|c"')
        done = self.run_check('--duration', '300ms', '--strategies', 'plain', primary=url(primary, 'odd'))
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertEqual(primary.value("SELECT count(*) FROM pg_class WHERE relname = 'weir_reads_check'"), 0)

    def test_more_sessions_than_there_are_connections(self):
        self.refused('--sessions', '64', said='more connections')


if __name__ == '__main__':
    unittest.main()
