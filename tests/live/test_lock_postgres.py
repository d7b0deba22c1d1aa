#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The postgres lock engine on real servers: what it answers, and what it promises when several nodes race
(docs/locks-postgres.md)."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest
import urllib.request

from lock_engine_drive import EngineDrive
from postgres_server import THEIRS, LockCase, Postgres
from redis_server import stand_still, wait_for
from weir_server import BUILD, ROOT, Resp, Weir


class Suite(LockCase):
    def test_what_every_lock_engine_must_pass(self):
        postgres = self.server()
        done = subprocess.run([str(BUILD / 'tests/lock/lock_suite'), 'postgres', postgres.conninfo(),
                               str(self.folder / 'witness')], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=600, encoding='utf-8', errors='replace', check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('lock__a_grant_survives_kill_9', done.stdout)


class Answers(LockCase):
    """One server for all of them, a table each."""

    @classmethod
    def setUpClass(cls):
        cls.postgres = Postgres(autovacuum='off')
        cls.addClassCleanup(cls.postgres.stop)

    def drive(self, **options):
        return self.engine(self.postgres, table=self.id().rsplit('.', maxsplit=1)[-1].lower()[:50], **options)

    def sessions(self, condition):
        return self.postgres.sql(f'SELECT count(*) FROM pg_stat_activity WHERE {condition} AND pid <> pg_backend_pid()')

    def said(self, answers):
        self.assertEqual([a['status'] for a in answers], ['OK'] * len(answers), answers)
        return [a['said'] for a in answers]

    def test_a_batch_is_decided_in_its_order(self):
        answers = self.drive().batch('acquire b x 5000', 'acquire a x 5000', 'acquire b y 5000', 'acquire b x 3000',
                                     'renew b x 9000', 'release b x', 'acquire b y 5000', 'show a', 'show b', 'show c',
                                     'renew b x 5000', 'release b x')
        self.assertEqual(self.said(answers), ['granted', 'granted', 'held', 'granted', 'granted', 'granted', 'granted',
                                              'granted', 'granted', 'free', 'free', 'free'])
        tokens = [tuple(a['token']) for a in answers]
        self.assertEqual(len({tokens[i] for i in (0, 2, 3, 4, 5)}), 1, 'one grant, one token')
        self.assertEqual([tokens[6][1], tokens[6][0]], [tokens[0][1] + 1, tokens[0][0]])
        self.assertEqual([a['holder'] for a in answers[6:9]], ['y', 'x', 'y'])
        self.assertEqual([answers[i]['lease_us'] for i in (0, 4, 5)], [5000000, 9000000, 0])
        self.assertGreater(answers[3]['lease_us'], 3000000, 'a lease never becomes shorter')

    def test_operators_of_others_are_not_run(self):
        with Postgres() as server:
            server.sql(THEIRS)
            engine = self.engine(server, table='locks')
            self.said(engine.batch('acquire a x 5000', 'renew a x 9000', 'show a', 'acquire a y 5000', 'release a x'))
            self.assertEqual(server.sql('SELECT is_called FROM theirs_called'), 'f')

    def test_names_are_bytes(self):
        names = ["'; DROP TABLE x", "a'b", 'a\\b', '$1', '%s', 'ä€😀', 'n' * 1024, '@', '--']
        names = [name.replace(' ', '_').replace(';', ':') for name in names]
        drive = self.drive()
        granted = drive.batch(*(f'acquire {n} {n[:200]} 60000' for n in names))
        self.assertEqual(self.said(granted), ['granted'] * len(names))
        shown = drive.batch(*(f'show {n}' for n in names))
        self.assertEqual([a['holder'] for a in shown], [n[:200] for n in names])

    def test_nothing_after_the_end_of_a_lease(self):
        drive = self.drive()
        first = drive.ask('acquire a x 100')['token']
        time.sleep(0.15)
        self.assertEqual(self.said(drive.batch('renew a x 5000', 'release a x', 'show a')), ['free', 'free', 'free'])
        again = drive.ask('acquire a x 5000')
        self.assertEqual(again['token'], [first[0], first[1] + 1], 'the same owner, a new grant')

    def test_a_batch_is_one_transaction(self):
        drive = self.drive(witness='w')
        self.said(drive.batch(*(f'acquire name{i} x 5000' for i in range(1000))))
        table = 'test_a_batch_is_one_transaction'
        self.assertEqual(self.postgres.sql(f'SELECT count(*), count(DISTINCT xmin::text) FROM {table}'), '1000|1')

    def test_who_waits_costs_no_write(self):
        drive = self.drive()
        drive.ask('acquire a x 60000')
        before = self.postgres.sql('SELECT pg_snapshot_xmax(pg_current_snapshot())')
        for _ in range(20):
            self.assertEqual(drive.ask('acquire a y 60000')['said'], 'held')
        self.assertEqual(self.postgres.sql('SELECT pg_snapshot_xmax(pg_current_snapshot())'), before)

    def test_the_incarnation_rises_at_each_start_and_by_request(self):
        one = self.drive(witness='one')
        first = one.ask('acquire a x 60000')['token']
        two = self.drive(witness='two')
        self.assertGreater(self.granted(two, 'acquire started x 60000')[0], first[0])
        self.assertGreater(two.state()['incarnation'], first[0])
        kept = two.ask('acquire a x 60000')['token']
        self.assertEqual(kept, first, 're-entry keeps the token, whoever asks')
        new = one.ask('acquire b x 60000')['token']
        self.assertEqual(new[0], two.state()['incarnation'], 'the other node has heard of it')
        raised = one.ask('raise')['token'][0]
        self.assertGreater(raised, new[0])
        self.assertEqual(two.ask('acquire c x 60000')['token'][0], raised)

    def test_a_second_node_is_no_fault_of_the_first(self):
        first = self.drive(witness='one')
        self.said(first.batch('acquire a x 5000'))
        second = self.drive(witness='two')
        self.said(second.batch('acquire b x 5000'))
        self.said(first.batch('acquire c x 5000'))  # its batch was refused once, because the second raised the incarnation
        self.assertEqual(first.state()['fault'], '')

    def test_what_a_resource_has_seen_raises_it(self):
        drive = self.drive()
        first = drive.ask('acquire a x 60000')['token']
        second = drive.ask(f'acquire a x 60000 {first[0] + 100}')['token']
        self.assertGreater(second[0], first[0] + 100)
        self.assertEqual(drive.ask('acquire a x 60000')['token'], second)
        self.assertEqual(drive.ask(f'acquire a x 60000 {2**62 + 1}')['status'], 'ERANGE')
        self.assertEqual(drive.ask(f'raise - - 0 {2**62 + 1}')['status'], 'ERANGE')
        self.assertEqual(drive.ask(f'raise - - 0 {second[0] + 1000}')['token'][0], second[0] + 1001)

    def test_an_incarnation_that_no_weir_wrote_is_not_taken_over(self):
        """By hand, say: new tokens wait for its correction, and the witness has never heard of it."""
        drive = self.drive()
        held = self.granted(drive, 'acquire a x 60000')
        for wrong, fault in ((2**62 + 5, 'no weir wrote'), (2**63 - 1, 'no weir wrote'), (-7, 'cannot be read')):
            with self.subTest(wrong=wrong):
                self.postgres.sql(f'UPDATE {self._testMethodName[:50]}_meta SET incarnation = {wrong}')
                self.assertEqual(drive.ask('acquire b x 60000')['status'], 'EDOWN')
                self.assertFalse(drive.state()['up'])
                self.assertIn(fault, drive.state()['fault'])
                if wrong > 0:
                    self.assertEqual(self.granted(drive, 'renew a x 60000'), held)
                self.postgres.sql(f'UPDATE {self._testMethodName[:50]}_meta SET incarnation = {held[0]}')
                self.granted(drive, 'acquire b x 60000')
                self.assertTrue(drive.state()['up'])
                self.assertEqual(drive.ask('release b x')['said'], 'granted')
        self.assertLess(drive.state()['incarnation'], 2**40)

    def test_no_grant_without_a_witness(self):
        (self.folder / 'sub').mkdir()
        drive = self.drive(witness='sub/witness')
        drive.ask('acquire a x 60000')
        shutil.rmtree(self.folder / 'sub')
        self.assertEqual(drive.ask('raise')['status'], 'EUNKNOWN')
        self.assertEqual(drive.ask('acquire b x 60000')['status'], 'EDOWN')
        self.assertEqual(drive.ask('renew a x 60000')['said'], 'granted', 'it needs none')
        self.assertIn('witness', drive.state()['fault'])
        (self.folder / 'sub').mkdir()
        self.granted(drive, 'acquire b x 60000')

    def test_a_damaged_witness_is_refused(self):
        (self.folder / 'witness').write_text('what is this\n', encoding='utf-8')
        drive = EngineDrive('postgres', self.postgres.conninfo(), self.folder / 'witness')
        self.assertEqual(drive.hear()['field'], 'witness')
        self.assertEqual(drive.close(), 1)

    def test_the_password_is_not_told(self):
        for conninfo in ('host=127.0.0.1 password=topsecret nonsense=topsecret', 'postgresql://a:topsecret@[/x',
                         f'host=127.0.0.1 port={self.postgres.port} user=topsecret password=topsecret'):
            drive = EngineDrive('postgres', conninfo, self.folder / 'w')
            self.addCleanup(drive.close)
            text = str(drive.hear() if drive.process.poll() is not None or 'user' not in conninfo else drive.state())
            self.assertNotIn('topsecret', text)

    def test_a_role_without_rights_to_create(self):
        text = (ROOT / 'docs/locks-postgres.md').read_text(encoding='utf-8')
        by_hand = re.search(r'```sql\n(.*?)```', text, re.S)[1].replace('weir_locks', 'handmade')
        self.postgres.sql('CREATE ROLE weir LOGIN;' + by_hand)
        drive = self.engine(self.postgres, table='handmade', extra=' user=weir')
        self.assertEqual(self.said(drive.batch('acquire a x 5000', 'renew a x 5000', 'release a x')), ['granted'] * 3)
        other = self.engine(self.postgres, table='nowhere', witness='w2', extra=' user=weir', up=False)
        self.assertEqual(other.ask('acquire a x 5000')['status'], 'EDOWN')
        self.assertIn('permission denied', other.state()['fault'])

    def test_tables_of_a_stranger_are_not_used(self):
        """Whoever owns a table, or gives it a trigger, has his code run with the rights of whoever writes to it."""
        meta = 'one boolean PRIMARY KEY DEFAULT true, incarnation bigint NOT NULL); INSERT INTO %s_meta VALUES (true, 0)'
        rows = ('name bytea PRIMARY KEY, owner bytea NOT NULL, incarnation bigint NOT NULL, number bigint NOT NULL, '
                'decided timestamptz NOT NULL, ends timestamptz NOT NULL')
        made = f'CREATE TABLE %s ({rows}); CREATE TABLE %s_meta ({meta}; GRANT ALL ON %s, %s_meta TO PUBLIC;'
        called = ('CREATE SEQUENCE called; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS '
                  "$$BEGIN PERFORM nextval('called'); RETURN NEW; END$$;")
        trigger = 'CREATE TRIGGER t BEFORE UPDATE OR INSERT ON %s FOR EACH ROW EXECUTE FUNCTION note();'
        self.postgres.sql('CREATE ROLE mallory LOGIN; CREATE ROLE victim LOGIN; GRANT CREATE ON SCHEMA public TO mallory;'
                          + called)
        cases = (('theirs', f'SET ROLE mallory; {made}', 'public.theirs belongs to mallory'),
                 ('metas', f'{made} ALTER TABLE metas_meta OWNER TO mallory', 'metas_meta belongs to mallory'),
                 ('triggered', made + trigger, 'triggered has triggers'),
                 ('ruled', f'{made} CREATE RULE r AS ON DELETE TO ruled DO ALSO SELECT 1', 'ruled has rules'),
                 ('secured', f'{made} ALTER TABLE secured ENABLE ROW LEVEL SECURITY', 'secured has row security'),
                 ('viewed', f'{made} ALTER TABLE viewed_meta RENAME TO below; '
                            'CREATE VIEW viewed_meta AS SELECT * FROM below', 'viewed_meta is no plain table'))
        for table, sql, fault in cases:
            with self.subTest(table=table):
                self.postgres.sql(sql.replace('%s', table))
                for extra in ('', ' user=victim'):
                    drive = self.engine(self.postgres, table=table, witness=table + extra[-6:], extra=extra, up=False)
                    self.assertEqual(drive.ask('acquire a x 5000')['status'], 'EDOWN')
                    self.assertIn(fault, drive.state()['fault'])
        self.assertEqual(self.postgres.sql('SELECT is_called FROM called'), 'f')

    def test_what_a_table_is_given_under_a_connection_is_seen_by_the_next_batch(self):
        """Its code never runs, and once it is gone the locks go on."""
        drive = self.drive()
        table = self.id().rsplit('.', maxsplit=1)[-1][:50]
        self.postgres.sql('CREATE SEQUENCE fired; CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS '
                          "$$BEGIN PERFORM nextval('fired'); RETURN NEW; END$$")
        self.addCleanup(self.postgres.sql, 'DROP FUNCTION fire() CASCADE; DROP SEQUENCE fired')
        trigger = 'CREATE TRIGGER t BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION fire()'
        for name, give, take, fault in (
                (table, trigger, 'DROP TRIGGER t ON %s', 'has triggers'),
                (f'{table}_meta', trigger, 'DROP TRIGGER t ON %s', 'has triggers'),
                (table, 'CREATE RULE r AS ON DELETE TO %s DO ALSO SELECT 1', 'DROP RULE r ON %s', 'has rules'),
                (table, 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY', 'ALTER TABLE %s DISABLE ROW LEVEL SECURITY',
                 'has row security')):
            with self.subTest(table=name, give=give):
                wait_for(lambda: drive.ask('acquire a x 60000')['status'] == 'OK', 'it is not granted')
                self.postgres.sql(give.replace('%s', name))
                for op in ('raise', 'acquire b x 60000', 'renew a x 60000'):
                    self.assertEqual(drive.ask(op)['status'], 'EUNKNOWN' if op == 'raise' else 'EDOWN')
                    self.assertIn(f'{name} {fault}', drive.state()['fault'])
                self.postgres.sql(take.replace('%s', name))
                wait_for(lambda: drive.ask('renew a x 60000')['status'] == 'OK', 'it is not renewed')
                self.assertEqual(drive.state()['fault'], '')
        self.assertEqual(self.postgres.sql('SELECT is_called FROM fired'), 'f')

    def test_what_the_operator_reads_of_a_trigger_ends_with_it(self):
        self.postgres.sql('CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$')
        self.addCleanup(self.postgres.sql, 'DROP FUNCTION pass() CASCADE')
        config = (f'locks: {{ engine: postgres, table: public.read_by_people, witness: {self.folder}/witness, '
                  f'conninfo: "{self.postgres.conninfo()}", timeout: 20s }}\n')
        with Weir(config) as weir, Resp(weir.resp, timeout_s=60) as client:
            def asked():
                return isinstance(client.ask('WEIR.LOCK', 'a', 'x', 60000), list)

            def fault():
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/nodes', timeout=60) as answer:
                    return json.loads(answer.read())['locks']['fault']

            def said():
                return [line.split()[2] for line in weir.output().splitlines() if ' locks_' in line]

            for before, table in ((0, 'read_by_people'), (2, 'read_by_people_meta')):
                with self.subTest(table=table):
                    wait_for(asked, 'it is not granted')
                    self.assertIsNone(fault())
                    self.postgres.sql(f'CREATE TRIGGER t BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION pass()')
                    wait_for(lambda: not asked(), 'it is granted')
                    self.assertIn(f'{table} has triggers', fault())
                    wait_for(lambda: said()[before:] == ['locks_lost:'], 'it is not logged')
                    self.postgres.sql(f'DROP TRIGGER t ON {table}')
                    wait_for(asked, 'it is not granted')
                    self.assertIsNone(fault())
                    wait_for(lambda: said()[before:] == ['locks_lost:', 'locks_back:'], 'its end is not logged')

    def test_the_table_that_was_found_is_the_one_that_is_used(self):
        """One of the same name that comes before it on the search path later is another one."""
        drive = self.drive()
        table = self.id().rsplit('.', maxsplit=1)[-1][:50]
        self.said(drive.batch('acquire a x 60000'))
        self.postgres.sql(f'CREATE SCHEMA postgres; CREATE TABLE postgres.{table} (LIKE public.{table} INCLUDING ALL)')
        self.addCleanup(self.postgres.sql, 'DROP SCHEMA postgres CASCADE')
        self.said(drive.batch('acquire b x 60000', 'show a'))
        self.assertEqual(self.postgres.sql(f'SELECT count(*) FROM public.{table}'), '2')

    def test_a_schema_is_made_use_of_by_its_name_or_by_the_search_path(self):
        self.postgres.sql('CREATE SCHEMA "My Schema"; CREATE SCHEMA plain; CREATE SCHEMA "it\'s"')
        for table, path, found in (('plain.one', '', 'plain.one'), ('two', 'My\\ Schema', '"My Schema".two')):
            extra = f" options='-csearch_path=\"{path}\"'" if path else ''
            drive = self.engine(self.postgres, table=table, witness=table, extra=extra.replace('\\', '\\\\'))
            self.said(drive.batch('acquire a x 5000', 'show a'))
            self.assertEqual(self.postgres.sql(f'SELECT count(*) FROM {found}'), '1')
        for path, fault in (('nowhere', 'no schema'), ("it\\'s", 'quote')):
            drive = self.engine(self.postgres, table='three', witness='three', up=False,
                                extra=f" options='-csearch_path=\"{path}\"'")
            self.assertEqual(drive.ask('acquire a x 5000')['status'], 'EDOWN')
            self.assertIn(fault, drive.state()['fault'])

    def test_tables_that_a_crash_would_empty_are_refused(self):
        drive = self.drive()
        drive.ask('acquire a x 5000')
        self.postgres.sql(f'ALTER TABLE {self.id().rsplit(".", maxsplit=1)[-1][:50]} SET UNLOGGED')
        self.assertEqual(drive.ask('acquire b x 5000')['status'], 'EDOWN')
        self.assertIn('UNLOGGED', drive.state()['fault'])

    def test_a_table_replaced_under_the_connection(self):
        """TRUNCATE, or a dump that is restored: numbers begin anew, so the incarnation must not stay."""
        table = self.id().rsplit('.', maxsplit=1)[-1][:50]
        drive = self.drive()
        tokens = [drive.ask('acquire a x 5000')['token']]
        self.postgres.sql(f'TRUNCATE {table}')
        tokens.append(self.granted(drive, 'acquire a y 5000'))
        self.postgres.sql(f'CREATE TABLE copy AS SELECT * FROM {table} WHERE false; DROP TABLE {table}; '
                          f'ALTER TABLE copy RENAME TO {table}; ALTER TABLE {table} ADD PRIMARY KEY (name)')
        tokens.append(self.granted(drive, 'acquire a z 5000'))
        self.assertTrue(tokens[0] < tokens[1] < tokens[2], tokens)
        self.assertEqual([number for _, number in tokens], [1, 1, 1], 'the test has shown nothing')

    def test_a_stop_of_weir_holds_no_lock_of_the_database(self):
        """A node that is stopped while it sends leaves the server nothing to wait with."""
        one, two = self.drive(witness='one'), self.drive(witness='two')
        names = [f'{"n" * 900}{i}' for i in range(1000)]
        one.timeout(60000)
        for _ in range(3):
            one.send(';'.join(f'acquire {n} x 60000' for n in names))
            time.sleep(random.random() * 0.02)
            stand_still(one.process.pid)
            wait_for(lambda: self.sessions("state = 'active'") == '0', 'a query of a stopped node goes on')
            self.assertEqual(self.sessions("state LIKE 'idle in%'"), '0')
            self.assertEqual(two.ask(f'acquire {names[-1]} y 60000')['status'], 'OK')
            self.said(two.batch(*(f'release {n} y' for n in names)))
            one.process.send_signal(signal.SIGCONT)
            self.assertEqual({a['status'] for a in one.hear()}, {'OK'})
            self.said(one.batch(*(f'release {n} x' for n in names)))


class History:
    """By name: grants as (started, ended, owner, token), and spans for which an owner held it for sure."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.grants, self.spans = {}, {}

    def grant(self, name, start, end, owner, token):
        with self.mutex:
            self.grants.setdefault(name, []).append((start, end, owner, tuple(token)))

    def held(self, name, start, end, owner):
        if end > start:
            with self.mutex:
                self.spans.setdefault(name, []).append((start, end, owner))

    def counts(self):
        with self.mutex:
            return [sum(map(len, found.values())) for found in (self.grants, self.spans)]

    def faults(self):
        """Two holders at once; a grant after another with a token that is no greater; a token given to two."""
        found = []
        for name, spans in self.spans.items():
            spans.sort()
            found += [('two holders', name, a, b) for a, b in zip(spans, spans[1:]) if b[0] < a[1] and a[2] != b[2]]
        for name, grants in self.grants.items():
            owners = {}
            for start, end, owner, token in grants:
                if owners.setdefault(token, owner) != owner:
                    found.append(('a token twice', name, token, owner))
                found += [('token went back', name, other, (start, end, owner, token)) for other in grants
                          if other[1] < start and other[3] > token]
        return found


class Races(LockCase):
    SECONDS = 3

    def contend(self, drive, node, seed, history, stop):
        """Batches of random ops on five names, in random order, under two owners of this node."""
        rng = random.Random(seed)
        leases = {}  # (name, owner) -> (from, until) in ns, by this machine's clock
        while not stop.is_set():
            ops = [(rng.choice(('acquire', 'acquire', 'renew', 'release')), f'lock{rng.randrange(5)}',
                    f'{node}{rng.randrange(2)}', rng.choice((30, 100, 300))) for _ in range(rng.randrange(1, 8))]
            start = time.monotonic_ns()
            answers = drive.batch(*(f'{verb} {name} {owner} {ttl}' for verb, name, owner, ttl in ops))
            end = time.monotonic_ns()
            for (verb, name, owner, _), answer in zip(ops, answers):
                key = name, owner
                self.statuses.append(answer['status'])
                if answer['status'] != 'OK':
                    continue
                if verb == 'release' and key in leases:
                    since, until = leases.pop(key)
                    history.held(name, since, min(until, start), owner)
                if verb in ('acquire', 'renew') and answer['said'] == 'granted':
                    history.grant(name, start, end, owner, answer['token'])
                    since, until = leases.pop(key, (end, 0))
                    if until < end:  # may have been lost, and granted to another, before this was decided
                        history.held(name, since, until, owner)
                        since = end
                    leases[key] = since, max(until, start + answer['lease_us'] * 1000)
        for (name, owner), (since, until) in leases.items():
            history.held(name, since, until, owner)

    def test_two_nodes_on_the_same_five_names(self):
        postgres = self.server()
        seed = int(os.environ.get('WEIR_TEST_SEED', random.randrange(2**32)))
        print(f'seed {seed}', flush=True)
        history, stop, self.statuses = History(), threading.Event(), []
        drives = [self.engine(postgres, witness=f'witness{node}') for node in range(2)]
        self.addCleanup(stop.set)
        self.assertTrue(all(drive.state()['up'] for drive in drives))
        threads = [threading.Thread(target=self.contend, args=(drive, 'ab'[node], seed + node, history, stop))
                   for node, drive in enumerate(drives)]
        for thread in threads:
            thread.start()
        def enough():
            grants, spans = history.counts()
            return grants > 200 and spans > 50
        end = time.monotonic() + self.SECONDS
        while time.monotonic() < end or (time.monotonic() < end + 60 and not enough()):
            if random.Random(time.monotonic_ns()).random() < 0.2:
                postgres.sql('UPDATE weir_locks_meta SET incarnation = incarnation + 1')  # as another node would
            time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(history.faults(), [], f'seed {seed}')
        self.assertEqual(set(self.statuses), {'OK'}, f'seed {seed}')
        self.assertTrue(enough(), history.counts())
        self.assertEqual(postgres.sql('SELECT sum(deadlocks) FROM pg_stat_database'), '0')

    def meanwhile(self, postgres, drive, op, sql):
        """What the engine answers to an op that waited for a row lock while `sql` was done and committed."""
        with contextlib.closing(postgres.connect()) as stranger, stranger.cursor() as cursor:
            cursor.execute("BEGIN; SELECT 1 FROM weir_locks WHERE name = 'a' FOR UPDATE")
            drive.timeout(60000)
            drive.send(op)
            wait_for(lambda: postgres.sql('SELECT count(*) FROM pg_locks WHERE NOT granted') == '1', 'it does not wait')
            cursor.execute(f'{sql}; COMMIT')
        return drive.hear()[0]

    def test_what_another_node_did_while_a_batch_waited(self):
        """Raised, granted and released: the token is above that one, though the batch began before."""
        postgres = self.server()
        drive = self.engine(postgres)
        first = drive.ask('acquire a x 60000')['token']
        drive.ask('release a x')
        answer = self.meanwhile(postgres, drive, 'acquire a x 600000',
                                'UPDATE weir_locks_meta SET incarnation = incarnation + 50; '
                                'UPDATE weir_locks SET incarnation = incarnation + 50, number = number + 1')
        self.assertEqual((answer['said'], answer['token']), ('granted', [first[0] + 50, first[1] + 2]))
        took = "UPDATE weir_locks SET owner = 'y', number = number + 1, ends = now() + interval '10 minutes'"
        self.assertEqual(self.meanwhile(postgres, drive, 'renew a x 60000', took)['said'], 'free')
        took = took.replace("'y'", "'z'")
        drive.ask('release a y')
        answer = self.meanwhile(postgres, drive, 'acquire a x 60000', took)
        self.assertEqual((answer['said'], answer['holder'], answer['token'][1]), ('held', 'z', first[1] + 4))

    def test_a_new_name_is_given_to_one(self):
        postgres = self.server()
        drives = [self.engine(postgres, witness=f'witness{node}') for node in range(3)]
        for i in range(60):
            ops = [f'acquire new{i}-{j} %s 60000' for j in range(4)]
            for node, drive in enumerate(drives):
                drive.send(';'.join(op % f'owner{node}' for op in (ops if node % 2 else reversed(ops))))
            answers = [drive.hear() for drive in drives]
            winners = [a['holder'] for batch in answers for a in batch if a['said'] == 'granted']
            self.assertEqual(len(winners), 4, answers)
            for batch, order in zip(answers, (-1, 1, -1)):
                self.assertEqual([a['holder'] for a in batch], [a['holder'] for a in answers[1][::order]])


if __name__ == '__main__':
    unittest.main()
