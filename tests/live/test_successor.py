#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGUSR2: weir starts the process that takes over from it, as a service manager would have it done."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from redis_server import Redis, wait_for
from weir_server import BUILD, DRAIN_TIMEOUT_S, Resp, resp_encode

LIMIT = 'limits:\n  - { name: once, key: [user], rate: 1/day, burst: 1000, algorithm: token_bucket }\n'


def is_there(pid):
    """It runs; a zombie whose parent does not look after it does not."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def tell_early(pid):
    """SIGUSR2 and SIGHUP as soon as weir's own code runs, before it hears them."""
    while True:
        status = pathlib.Path(f'/proc/{pid}/status').read_text(encoding='ascii')
        masks = [int(re.search(rf'Sig{name}:\t(\w+)', status)[1], 16) for name in ('Blk', 'Cgt')]
        if masks[0] >> (signal.SIGUSR2 - 1) & 1:
            os.kill(pid, signal.SIGUSR2)
            os.kill(pid, signal.SIGHUP)
            return True
        if 'Name:\tweir\n' in status and masks[1] >> (signal.SIGUSR2 - 1) & 1:
            return False
        time.sleep(0.001)


class Family:
    """A weir of a program that may be replaced, and those that it starts. All write one log. `heard`: what it tells the
    service manager. `before`: what comes before the command, in a PID namespace of its own. `during`: called while it
    starts. A context manager that ends them all."""

    def __init__(self, take_over=True, config=LIMIT, program=None, environment=None, before=(), during=None):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-successor-')
        self.path, self.before = pathlib.Path(self.folder.name), before
        self.config, self.program = self.path / 'weir.yaml', program or self.path / 'weir'
        self.config.write_text(config, encoding='utf-8')
        if not program:
            shutil.copy2(BUILD / 'weir', self.program)
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(str(self.path / 'notify'))
        self.heard.settimeout(60)
        env = {**os.environ, 'STATE_DIRECTORY': self.folder.name, 'NOTIFY_SOCKET': str(self.path / 'notify'),
               'WATCHDOG_USEC': '2000000', **(environment or {})}
        arguments = ['--take-over', str(self.path / 'takeover')] if take_over else []
        with open(self.path / 'log', 'wb') as log:
            # With WATCHDOG_PID, as systemd has it: a shell says its number before it becomes weir.
            self.first = subprocess.Popen(
                [*before, 'bash', '-c', 'export WATCHDOG_PID=$$; exec "$@"', 'bash', str(self.program), 'serve', '--config',
                 str(self.config), '--resp', '127.0.0.1:0', '--http', 'off', '--threads', '2', *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env)
        if during:
            during(self.first.pid)
        self.wait_for(r'\bstarted\b')
        self.port = int(re.search(r'resp listening on 127\.0\.0\.1:(\d+)', self.output())[1])

    def output(self):
        return (self.path / 'log').read_text(encoding='utf-8', errors='replace')

    def wait_for(self, pattern, count=1):
        with contextlib.suppress(AssertionError):
            wait_for(lambda: len(re.findall(pattern, self.output())) >= count, pattern)
        assert len(re.findall(pattern, self.output())) >= count, (pattern, self.output())

    def successors(self):
        """The numbers of all that were started. Those of another namespace mean somebody else here."""
        return [] if self.before else [
            int(pid) for pid in re.findall(r'successor_started: SIGUSR2: process (\d+), ', self.output())]

    def main_pid(self):
        """Whom the manager is told to look after, once that one says so itself: its predecessor does before."""
        while True:
            told = re.match(rb'MAINPID=(\d+)\nREADY=1\n', self.heard.recv(1000))
            if told:
                return int(told[1])

    def heard_so_far(self):
        """What the manager was told by now."""
        lines = []
        self.heard.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                lines += self.heard.recv(1000).split(b'\n')
        self.heard.settimeout(60)
        return lines

    def __enter__(self):
        return self

    def __exit__(self, *_):
        everybody = [self.first.pid, *self.successors()]
        for pid in everybody:
            if self.first.pid != pid and is_there(pid) or self.first.pid == pid and self.first.poll() is None:
                os.kill(pid, signal.SIGTERM)
        try:
            self.first.wait(DRAIN_TIMEOUT_S)
            for pid in everybody[1:]:
                wait_for(lambda pid=pid: not is_there(pid), f'process {pid} ends')
        finally:
            self.heard.close()
            self.folder.cleanup()


class Successor(unittest.TestCase):
    def test_it_takes_over_and_so_does_the_next(self):
        with Family() as family, Resp(family.port) as client:
            pids = [family.first.pid]
            for left in (999, 998, 997):
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], left)
                os.kill(pids[-1], signal.SIGUSR2)
                pids.append(family.main_pid())
                self.assertEqual(family.successors()[-1], pids[-1])
            self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)
            self.assertEqual(family.output().count(' taken_over: '), 3)
            self.assertNotIn('successor_failed', family.output())
            self.assertEqual(len(set(pids)), 4)
            while b'WATCHDOG=1' not in family.heard.recv(1000):  # the manager hears of the last one as of the first
                pass
            wait_for(lambda: [is_there(pid) for pid in pids] == [False, False, False, True], 'the others end')

    def test_the_manager_hears_of_it_before_the_first_one_ends(self):
        """It would take that for the end of the service, and end the successor too: so the first one says it."""
        with Family() as family:
            family.first.send_signal(signal.SIGUSR2)
            self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)
            self.assertIn(b'MAINPID=%d' % family.successors()[0], family.heard_so_far())

    def test_it_is_the_program_that_is_there_by_then(self):
        """The file was replaced, as a package does it."""
        with Family() as family, Resp(family.port) as client:
            new = family.path / 'new'
            shutil.copy2(BUILD / 'weir', new)
            new.replace(family.program)
            self.assertEqual(os.readlink(f'/proc/{family.first.pid}/exe'), f'{family.program} (deleted)')
            family.first.send_signal(signal.SIGUSR2)
            self.assertEqual(os.readlink(f'/proc/{family.main_pid()}/exe'), str(family.program))
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)

    def test_one_that_is_wrong_changes_nothing(self):
        with Family() as family, Resp(family.port) as client:
            family.config.write_text('limits: [ 1 ]\n', encoding='utf-8')
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for(r'error successor_failed: process \d+ ended with code 2, and this one goes on')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
            family.program.unlink()
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for('error successor_failed: SIGUSR2: .*/weir cannot be started: no such file or directory')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
            shutil.copy2(BUILD / 'weir', family.program)
            family.config.write_text(LIMIT, encoding='utf-8')
            family.first.send_signal(signal.SIGUSR2)
            family.main_pid()
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], 997)
            self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)

    def test_one_at_a_time(self):
        """The first one's program only waits."""
        with Family() as family:
            family.program.unlink()
            family.program.write_text('#!/bin/sh\nexec sleep 600\n', encoding='utf-8')
            family.program.chmod(0o755)
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for('successor_started')
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for(r'warn successor_failed: SIGUSR2: process \d+ has been started for it, and still runs')
            time.sleep(0.1)
            self.assertEqual(len(family.successors()), 1)
            os.kill(family.successors()[0], signal.SIGKILL)
            family.wait_for(r'error successor_failed: process \d+ was ended by signal 9, and this one goes on')
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for('successor_started', 2)

    def test_not_without_take_over(self):
        with Family(take_over=False) as family:
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for('error successor_failed: SIGUSR2: weir was started without --take-over')
            with Resp(family.port) as client:
                self.assertEqual(client.ask('PING'), 'PONG')

    def test_none_is_started_by_one_that_ends(self):
        """It would find nobody, and go on where weir was told to end."""
        held = 'limits:\n  - { name: slow, rate: 1/2s, burst: 2, algorithm: leaky_bucket, throttle: hold }\n'
        with Family(config=held) as family, Resp(family.port) as client:
            self.assertEqual(client.ask('WEIR.CHECK', 1)[0], 1)
            client.send(resp_encode('WEIR.CHECK', 1))  # what the end waits for
            time.sleep(0.2)
            family.first.send_signal(signal.SIGTERM)
            family.wait_for('draining')
            family.first.send_signal(signal.SIGUSR2)
            family.wait_for('warn successor_failed: SIGUSR2: this weir ends')
            self.assertEqual(client.read()[0], 1)
            self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)
            self.assertEqual(family.successors(), [])

    def test_a_reload_that_came_meanwhile_is_done(self):
        """By the one that decides, which had read the file before: it waits for an engine that stands still."""
        text = ('engine: { redis: { servers: ["127.0.0.1:%d"], connect_timeout: 30s } }\n'
                'cluster_secret: "0123456789abcdef0123456789abcdef"\n'
                'limits:\n  - { name: far, match: { route: y }, key: [user], rate: 1/day }\n'
                '  - { name: near, match: { route: x }, key: [user], rate: 1/day, burst: %d, sharing: split }\n')
        with Redis() as redis, Family(config=text % (redis.port, 1000)) as family, Resp(family.port) as client:
            os.kill(redis.process.pid, signal.SIGSTOP)
            try:
                for count in range(1, 100):  # its revisions may just have got their numbers: it says to try again
                    family.first.send_signal(signal.SIGUSR2)
                    family.wait_for('take_over_begun|successor_failed', count)
                    if 'take_over_begun' in family.output():
                        break
                family.wait_for('"near" is split over one node', 2)  # it has read it
                family.config.write_text(text % (redis.port, 50), encoding='utf-8')
                family.first.send_signal(signal.SIGHUP)
                time.sleep(0.2)
            finally:
                os.kill(redis.process.pid, signal.SIGCONT)
            family.wait_for('info reloaded: 2 limits')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada', 'route', 'x')[2], 50)
            self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)

    def test_one_that_comes_during_the_start_is_obeyed(self):
        """Weir waits for an engine that stands still, and hears of the signal when it serves."""
        text = ('engine: { redis: { servers: ["127.0.0.1:%d"], connect_timeout: 2s } }\n'
                'limits:\n  - { name: far, key: [user], rate: 1/day, deadline: 1s }\n')
        with Redis() as redis:
            os.kill(redis.process.pid, signal.SIGSTOP)
            told = []
            try:
                with Family(config=text % redis.port, during=lambda pid: told.append(tell_early(pid))) as family:
                    family.wait_for('taken_over')
                    self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)
                    self.assertEqual(told, [True])
            finally:
                os.kill(redis.process.pid, signal.SIGCONT)

    def test_not_where_all_end_with_it(self):
        """Process 1 of a container."""
        user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
        unshare = ['unshare', *user, '--pid', '--fork', '--kill-child']
        if subprocess.run([*unshare, 'true'], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest('no PID namespace can be made here')
        with Family(before=unshare) as family, Resp(family.port) as client:
            inside = int(pathlib.Path(f'/proc/{family.first.pid}/task/{family.first.pid}/children').read_text(encoding='ascii'))
            try:
                os.kill(inside, signal.SIGUSR2)
                family.wait_for('take_over_failed: this weir goes on: this weir is process 1')
                family.wait_for(r'successor_failed: process \d+ ended with code 2')
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
            finally:
                os.kill(inside, signal.SIGTERM)

    def test_who_is_told_to_end_ends_the_one_that_it_has_started(self):
        """It would find nobody, and begin by itself; or somebody's sleep would go on."""
        for program in (None, '#!/bin/sh\nexec sleep 600\n'):
            with Family() as family:
                if program:
                    family.program.unlink()
                    family.program.write_text(program, encoding='utf-8')
                    family.program.chmod(0o755)
                family.first.send_signal(signal.SIGUSR2)
                family.wait_for('successor_started')
                family.first.send_signal(signal.SIGTERM)
                self.assertEqual(family.first.wait(DRAIN_TIMEOUT_S), 0)
                wait_for(lambda: 'taken_over' in family.output() or not is_there(family.successors()[0]), 'it ends')


if __name__ == '__main__':
    unittest.main()
