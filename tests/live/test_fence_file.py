#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir fence file with real processes: late writers, writers stopped and killed anywhere, and what is left behind."""
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from weir_server import BUILD

DONE, REFUSED, ERROR, UNKNOWN = 0, 1, 2, 3
LARGEST = 2**63 - 1


class Fence(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-fence-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, verb, token=None, stdin=subprocess.DEVNULL):
        environment = {name: value for name, value in os.environ.items() if name != 'WEIR_FENCE'}
        if token is not None:
            environment['WEIR_FENCE'] = token
        return subprocess.Popen([str(BUILD / 'weir'), 'fence', 'file', verb, str(self.folder)], env=environment,
                                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_one(self, verb, token=None, data=None):
        """(exit code, stdout, stderr)"""
        process = self.start(verb, token, subprocess.PIPE if data is not None else subprocess.DEVNULL)
        out, err = process.communicate(data, timeout=60)
        return process.returncode, out, err.decode()

    def install(self, token):
        return self.run_one('install', token)[0]

    def write(self, token, data):
        return self.run_one('write', token, data)[0]

    def read(self):
        code, out, err = self.run_one('read')
        self.assertEqual(code, DONE, err)
        return out

    def test_a_later_token_fences_an_earlier_one(self):
        self.assertEqual(self.read(), b'')
        self.assertEqual(self.install('7.1'), DONE)
        self.assertEqual(self.read(), b'')
        self.assertEqual(self.write('7.1', b'a'), DONE)
        self.assertEqual(self.write('7.1', b'b'), DONE)
        self.assertEqual(self.install('7.2'), DONE)
        self.assertEqual(self.read(), b'b')
        code, _, err = self.run_one('write', '7.1', b'late')
        self.assertEqual((code, 'mark 7.2' in err), (REFUSED, True), err)
        self.assertEqual(self.install('7.1'), REFUSED)
        self.assertEqual(self.install('7.2'), DONE)
        self.assertEqual(self.read(), b'b')
        self.assertEqual(self.write('7.2', b'c' * 300000), DONE)
        self.assertEqual(self.read(), b'c' * 300000)

    def test_a_token_that_was_never_installed_is_refused(self):
        self.assertEqual(self.write('7.1', b'a'), REFUSED)
        self.install('7.1')
        self.assertEqual(self.write('7.2', b'a'), REFUSED)
        self.assertEqual(self.read(), b'')

    def test_incarnation_comes_before_number_and_both_go_to_the_largest(self):
        self.assertEqual(self.install(f'7.{LARGEST}'), DONE)
        self.assertEqual(self.install('10.9'), DONE)
        self.assertEqual(self.write(f'7.{LARGEST}', b'late'), REFUSED)
        self.assertEqual(self.install('10.10'), DONE)
        self.assertEqual(self.write('10.9', b'late'), REFUSED)
        self.assertEqual(self.install(f'{LARGEST}.{LARGEST}'), DONE)
        self.assertEqual(self.write(f'{LARGEST}.{LARGEST}', b'x'), DONE)
        self.assertEqual(self.read(), b'x')

    def test_a_value_that_was_not_printed_whole_is_an_error(self):
        self.install('7.1')
        for size in 1, 65536, 300000:
            self.assertEqual(self.write('7.1', b'c' * size), DONE)
            with open('/dev/full', 'wb') as full:
                read = subprocess.run([str(BUILD / 'weir'), 'fence', 'file', 'read', str(self.folder)], stdout=full,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual((read.returncode, b'No space left' in read.stderr), (ERROR, True), f'{size} bytes')

    def test_what_is_no_token_is_an_error(self):
        for token in (None, '', '7', '7.', '.7', '0.1', '1.0', '07.1', '+7.1', ' 7.1', '7.1 ', '7.1.1',
                      f'{LARGEST + 1}.1'):
            self.assertEqual(self.install(token), ERROR, token)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_writer_that_wakes_up_late_is_refused_and_never_read(self):
        """It has begun to write when it is replaced; nothing holds the new holder up."""
        self.install('7.1')
        self.write('7.1', b'before')
        late = self.start('write', '7.1', subprocess.PIPE)
        late.stdin.write(b'late' * 10)
        late.stdin.flush()
        while not list(self.folder.glob('.new.*')):
            time.sleep(0.005)
        self.assertEqual(self.install('7.2'), DONE)
        self.assertEqual(self.write('7.2', b'after'), DONE)
        late.communicate(timeout=60)
        self.assertEqual(late.returncode, REFUSED)
        self.assertEqual(self.read(), b'after')

    def test_what_is_left_behind_is_bounded(self):
        for number in range(1, 12):
            self.install(f'7.{number}')
            for _ in range(3):
                self.write(f'7.{number}', b'x')
        killed = self.start('write', '7.11', subprocess.PIPE)
        while not list(self.folder.glob('.new.*')):
            time.sleep(0.005)
        killed.kill()
        killed.communicate()
        self.assertEqual(self.install('8.1'), DONE)
        self.assertEqual(len(list(self.folder.iterdir())), 2, sorted(self.folder.iterdir()))

    def test_an_install_that_died_is_ended_by_the_next(self):
        self.install('7.1')
        self.write('7.1', b'a')
        (self.folder / f'{7:019}.{2:019}.mark').touch()  # killed between its mark and its value
        code, _, err = self.run_one('read')
        self.assertEqual((code, 'under way' in err), (UNKNOWN, True), err)
        self.assertEqual(self.write('7.1', b'late'), REFUSED)
        self.assertEqual(self.write('7.2', b'early'), REFUSED)
        self.assertEqual(self.install('7.3'), DONE)
        self.assertEqual(self.read(), b'a')

    def test_names_that_are_not_ours_are_left_alone(self):
        names = ['README', '.new.x', '1.2.mark', f'{7:019}.{2:019}.mark.old', f'{0:019}.{2:019}.mark', 'x' * 200]
        for name in names:
            (self.folder / name).touch()
        self.install('7.1')
        self.install('7.2')
        self.write('7.2', b'a')
        self.assertEqual(self.read(), b'a')
        self.assertEqual({name for name in names if (self.folder / name).exists()}, set(names))

    def test_no_acknowledged_update_is_lost_and_none_that_was_refused_is_kept(self):
        """Holders append their token to what they read; they are stopped and killed anywhere."""
        seed = random.randrange(2**32)
        print(f'seed {seed}', flush=True)
        numbers, lock, tally = random.Random(seed), threading.Lock(), {DONE: [], REFUSED: [], UNKNOWN: [], -9: []}
        self.install('7.1')
        counter = iter(range(2, 10**6))

        def disturbed(process, data=None):
            with lock:
                action, pause, length = numbers.random(), numbers.random() * .004, numbers.random() * .03
            if action < .5:
                time.sleep(pause)
                if process.poll() is None:
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(length)
                    process.send_signal(signal.SIGKILL if action < .1 else signal.SIGCONT)
            return process.communicate(data, timeout=60)[0]

        def hold():
            begun = time.monotonic()
            while time.monotonic() < begun + 3 or (not tally[DONE] and time.monotonic() < begun + 60):
                with lock:
                    token = f'7.{next(counter)}'
                process = self.start('install', token)
                disturbed(process)
                code, before, _ = self.run_one('read')
                if process.returncode != DONE or code != DONE:
                    continue
                process = self.start('write', token, subprocess.PIPE)
                disturbed(process, before + token.encode() + b'\n')
                tally[process.returncode].append(token)

        threads = [threading.Thread(target=hold) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.install('8.1')
        kept = self.read().decode().split()
        self.assertEqual(sorted(set(tally[DONE]) - set(kept)), [])
        self.assertEqual(sorted(set(tally[REFUSED]) & set(kept)), [])
        self.assertGreater(len(tally[DONE]), 0)
        print({code: len(tokens) for code, tokens in tally.items()}, flush=True)


if __name__ == '__main__':
    unittest.main()
