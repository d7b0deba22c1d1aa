#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulator's plans of exact-host with the script itself in a real Redis, on the plans' clock (tests/redis/plans.c):
the simulator's checks hold, the double answers the same, and planted mistakes are found. WEIR_TEST_EFFORT=soak plays 300
seeds, and a mistake is found by more of them.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from redis_server import Redis

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build')) / 'tests/redis/redis_plans'
SOAK = os.environ.get('WEIR_TEST_EFFORT') == 'soak'
# Every algorithm, reloads, failovers, flushes, steps of the clock. Some seeds take a hundred times as long as others.
SEEDS = [(1, 301)] if SOAK else [(2, 4), (5, 6), (10, 11), (20, 22)]
TIMEOUT_S = 7200 if SOAK else 600


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-plans-')
        cls.socket = str(pathlib.Path(cls.folder.name, 'redis'))
        cls.redis = Redis(config=f'unixsocket {cls.socket}\n')

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()
        cls.folder.cleanup()

    def play(self, *arguments):
        run = subprocess.run([str(PROGRAM), self.socket, *map(str, arguments)], timeout=TIMEOUT_S,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             encoding='utf-8', check=False)
        print(run.stdout, file=sys.stderr)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:])

    def test_the_script_keeps_what_the_simulator_checks(self):
        for first, until in SEEDS:
            self.play('--from', first, '--to', until)

    def test_planted_mistakes_are_found(self):
        self.play('--plants')


if __name__ == '__main__':
    unittest.main(verbosity=2)
