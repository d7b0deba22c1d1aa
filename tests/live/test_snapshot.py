#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir serve with table.snapshot: what a stop, a kill and a restart remember, and what is said of a file that cannot be
used (docs/restart.md)."""
import contextlib
import os
import pathlib
import random
import resource
import signal
import stat
import subprocess
import tempfile
import time
import unittest

from cluster import metrics, wait_for
from weir_server import BUILD, Resp, Weir

LIMITS = '''
limits:
  - { name: quota, match: { kind: quota }, key: [user], rate: 100/month, algorithm: fixed_window }
  - { name: bucket, match: { kind: bucket }, key: [user], rate: 1000/366day, burst: 1000 }
  - { name: log, match: { kind: log }, key: [user], rate: 100/day, algorithm: sliding_log }
  - { name: jobs, match: { kind: job }, key: [user], algorithm: concurrency, rate: 3, lease: 10min }
'''
KILLS = {'short': 4, 'soak': 300}.get(os.environ.get('WEIR_TEST_EFFORT'), 12)


class Snapshot(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='weir-snapshot-')))
        self.path = self.folder / 'counters'

    def config(self, limits=LIMITS, every='1hour', more=''):
        return f'table: {{ memory: 16MiB, snapshot: {self.path}, snapshot_every: {every}{more} }}\n{limits}'

    def check(self, weir, kind, user, cost=1):
        """Its answer: docs/resp.md."""
        with Resp(weir.resp) as client:
            return client.ask('WEIR.CHECK', cost, 'kind', kind, 'user', user)

    def remaining(self, weir, kind, user):
        return self.check(weir, kind, user, 0)[3]

    def fails(self, text, **options):
        """It does not start, and says so."""
        (self.folder / 'weir.yaml').write_text(self.config(**options), encoding='utf-8')
        run = subprocess.run([BUILD / 'weir', 'serve', '--config', self.folder / 'weir.yaml', '--resp', '127.0.0.1:0', '--http',
                              'off'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8', timeout=60,
                             check=False)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn(text, run.stdout)
        if text not in ('cannot open', 'cannot make', 'another weir keeps its counters in'):  # which only a start can see
            run = subprocess.run([BUILD / 'weir', 'serve', '--check', self.folder / 'weir.yaml'], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, encoding='utf-8', timeout=60, check=False)
            # A folder that is not there may be made by who starts weir: that is said, and is no mistake of the file.
            self.assertEqual(run.returncode, 0 if 'No such file' in text else 2, run.stdout)
            self.assertIn(text, run.stdout)

    # ---- stop and start ----

    def test_a_restart_remembers_every_unit(self):
        with Weir(self.config()) as weir:
            for user, units in (('ada', 7), ('bob', 40)):
                for kind in ('quota', 'bucket', 'log'):
                    self.check(weir, kind, user, units)
            self.assertIn('counters will be kept in', weir.output())
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        for _ in range(2):
            with Weir(self.config()) as weir:
                self.assertRegex(weir.output(), r'weir: counters of 6 keys from .*counters, \d+m?s old')
                for user, units in (('ada', 7), ('bob', 40)):
                    for kind, of in (('quota', 100), ('bucket', 1000), ('log', 100)):
                        self.assertEqual(self.remaining(weir, kind, user), of - units, (kind, user))
                self.assertEqual(self.remaining(weir, 'quota', 'eve'), 100)

    def test_permits_are_given_back_after_a_restart(self):
        with Weir(self.config()) as weir:
            first, second = (self.check(weir, 'job', 'ada')[7] for _ in range(2))
        with Weir(self.config()) as weir, Resp(weir.resp) as client:
            self.assertEqual(self.remaining(weir, 'job', 'ada'), 1)
            self.assertEqual(client.ask('WEIR.RELEASE', first), 1)
            self.assertEqual(client.ask('WEIR.RELEASE', first), 0)
            self.assertGreater(client.ask('WEIR.RENEW', second), 500000)
            self.assertEqual(self.remaining(weir, 'job', 'ada'), 2)

    def test_a_limit_that_changed_meanwhile_keeps_what_was_used(self):
        with Weir(self.config()) as weir:
            self.check(weir, 'quota', 'ada', 60)
        with Weir(self.config(LIMITS.replace('100/month', '50/month'))) as weir:
            self.assertEqual(self.remaining(weir, 'quota', 'ada'), 0)
        with Weir(self.config()) as weir:
            self.assertEqual(self.remaining(weir, 'quota', 'ada'), 0)  # what a raise adds is not given (reload.md)
            self.assertEqual(self.remaining(weir, 'quota', 'bob'), 100)

    def test_a_reload_does_not_move_it(self):
        with Weir(self.config()) as weir:
            self.check(weir, 'quota', 'ada', 60)
            weir.config.write_text(self.config(every='30min').replace('counters', 'elsewhere'), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: 'reloaded' in weir.output())
            self.assertRegex(weir.output(), r'kept until a restart: .*table\.snapshot, table\.snapshot_every')
        self.assertTrue(self.path.exists())
        self.assertFalse((self.folder / 'elsewhere').exists())

    # ---- kill ----

    def live_until_killed(self, life, chance, admitted, safe):
        """Asks until it is killed. `admitted`: by user, in all; returns what a snapshot that was written must hold."""
        weir = Weir(self.config(every='1s'))
        try:
            if life:
                self.assertRegex(weir.output(), r'counters of \d+ keys? from')
            for user in admitted:
                used = 1000 - self.remaining(weir, 'bucket', user)
                self.assertGreaterEqual(used, safe[user], (life, user))
                self.assertLessEqual(used, admitted[user], (life, user))
                admitted[user] = used
            safe, waits = dict(admitted), (0, dict(admitted))
            ended = time.monotonic() + chance.uniform(0.3, 3) + (0 if life else 3)
            with Resp(weir.resp) as client:
                while time.monotonic() < ended:
                    for _ in range(20):
                        user = chance.randrange(20)
                        admitted[user] += client.ask('WEIR.CHECK', 1, 'kind', 'bucket', 'user', user)[0]
                    done = metrics(weir.http)['weir_snapshots_total{end="done"}']
                    if done >= waits[0] + 2:  # one was begun, and ended, after this was noted
                        safe, waits = waits[1], (done, dict(admitted))
                    time.sleep(0.02)
            return safe
        finally:
            weir.process.kill()
            weir.process.wait()
            weir.folder.cleanup()

    def test_a_kill_forgives_at_most_what_was_admitted_since_the_last_snapshot(self):
        """At random moments, again and again: no snapshot that cannot be used, and no key with more than it had."""
        chance = random.Random(seed := random.randrange(1 << 32))
        print('seed', seed)
        admitted = {user: 0 for user in range(20)}
        safe = dict(admitted)
        for life in range(KILLS):
            safe = self.live_until_killed(life, chance, admitted, safe)
        self.assertGreater(sum(safe.values()), 0)
        self.assertFalse((self.folder / 'counters.ignored').exists())

    # ---- what cannot be used ----

    def test_a_damaged_file_is_put_aside_and_said(self):
        with Weir(self.config()) as weir:
            self.check(weir, 'quota', 'ada', 60)
        whole = self.path.read_bytes()
        for damaged, said in ((whole[:-1], 'damaged or cut off at byte'), (whole[:8] + b'\x07' + whole[9:], 'later weir'),
                              (whole[:300] + b'!' + whole[301:], 'damaged')):
            self.path.write_bytes(damaged)
            with Weir(self.config()) as weir:
                self.assertIn(said, weir.output())
                self.assertIn('all keys are fresh, and it is kept as .ignored', weir.output())
                self.assertEqual(self.remaining(weir, 'quota', 'ada'), 100)
            self.assertEqual((self.folder / 'counters.ignored').read_bytes(), damaged)

    def test_somebody_elses_file_is_left_alone(self):
        self.path.write_text('the work of years\n' * 100, encoding='utf-8')
        self.fails('table.snapshot: ')
        self.fails('is no snapshot of weir')
        self.assertTrue(self.path.read_text(encoding='utf-8').startswith('the work of years'))
        self.path.write_text('short\n', encoding='utf-8')
        self.fails('is no snapshot of weir')
        self.path.unlink()
        self.path.mkdir()
        self.fails('is no file')

    def test_one_file_is_not_two_things(self):
        self.fails('is the database of the locks as well', limits=f'locks: {{ engine: sqlite, path: {self.path} }}' + LIMITS)
        self.path = self.folder / 'weir.yaml'
        self.fails('is the configuration as well')
        self.assertTrue(self.path.read_text(encoding='utf-8').startswith('table:'))

    def test_a_link_is_followed(self):
        (self.folder / 'disk').mkdir()
        with Weir(self.config()) as weir:
            self.check(weir, 'quota', 'ada', 60)
        self.path.rename(self.folder / 'disk/real')
        self.path.symlink_to('disk/real')
        for used in (60, 61):
            with Weir(self.config()) as weir:
                self.assertEqual(self.remaining(weir, 'quota', 'ada'), 100 - used)
                self.check(weir, 'quota', 'ada')
            self.assertTrue(self.path.is_symlink())

    def test_two_weirs_do_not_share_one_file(self):
        with Weir(self.config()):
            self.fails('another weir keeps its counters in')

    def test_missing_rights_are_said_at_the_start(self):
        if os.geteuid() == 0:
            self.path = pathlib.Path('/proc/counters')  # where nobody may make a file
        else:
            self.folder.chmod(0o500)
            self.addCleanup(self.folder.chmod, 0o700)
        self.fails('cannot open')
        self.path = self.folder / 'none/counters'
        self.fails('No such file or directory')
        self.path = self.folder / 'counters'
        (self.folder / 'counters.new').mkdir()  # in the way of each snapshot
        self.fails('cannot make')

    def test_a_snapshot_that_cannot_be_written_is_said_and_so_is_the_next_that_can(self):
        with Weir(self.config(every='1s')) as weir:
            for user in range(2000):
                self.check(weir, 'bucket', user)
            resource.prlimit(weir.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            wait_for(lambda: 'snapshot_failed' in weir.output())
            self.assertIn('a restart forgets what was admitted since the last snapshot: cannot write', weir.output())
            self.assertGreater(metrics(weir.http)['weir_snapshots_total{end="failed"}'], 0)
            resource.prlimit(weir.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            wait_for(lambda: 'snapshot_again' in weir.output())
            since = metrics(weir.http)['weir_snapshot_since_seconds']
        with Weir(self.config()) as weir:
            self.assertRegex(weir.output(), 'counters of 2000 keys')
            self.assertGreaterEqual(metrics(weir.http)['weir_snapshot_since_seconds'], since - 1)  # of the one restored

    def test_a_last_snapshot_that_fails_is_no_success(self):
        weir = Weir(self.config())
        (self.folder / 'counters.new').mkdir()
        weir.process.send_signal(signal.SIGTERM)
        self.assertEqual(weir.process.wait(60), 2)
        self.assertIn('what was admitted since the last snapshot is forgotten: cannot make', weir.output())
        weir.folder.cleanup()

    def test_a_smaller_memory_says_who_found_no_place(self):
        log = LIMITS + '  - { name: wide, match: { kind: wide }, key: [user], algorithm: concurrency, rate: 3, lease: 10min }\n'
        with Weir(self.config(log)) as weir:
            with Resp(weir.resp) as client:
                for user in range(4000):
                    client.ask('WEIR.CHECK', 1, 'kind', 'wide', 'user', user)
        with Weir(self.config(log).replace('16MiB', '128KiB')) as weir:
            self.assertRegex(weir.output(), r'counters of \d+ keys from .*; \d+ found no place')

    def test_the_configuration_says_what_it_may_be(self):
        for table, said in (('{ snapshot_every: 5s }', 'snapshot_every needs snapshot: a path'),
                            ('{ snapshot: x, snapshot_every: 10ms }', 'snapshot_every'), ('{ snapshot: "" }', 'snapshot')):
            file = self.folder / 'bad.yaml'
            file.write_text(f'table: {table}\n{LIMITS}', encoding='utf-8')
            run = subprocess.run([BUILD / 'weir', 'rules', 'check', file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 encoding='utf-8', timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stdout)
            self.assertRegex(run.stdout, rf'bad.yaml:1:\d+: .*{said}')


if __name__ == '__main__':
    unittest.main()
