#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The redis engine's script on a real server: the memory engine's verdicts, the ledger's answers, nothing that is not
ours touched, no key immortal. WEIR_SEED is 1 unless given, so that the suite does the same each time;
WEIR_TEST_EFFORT=soak draws the seeds, prints them, and does 1,000,000 operations.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from redis_server import Redis
from weir_server import Resp

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build')) / 'tests/redis'
OPS = {'soak': 1_000_000, 'short': 10_000}.get(os.environ.get('WEIR_TEST_EFFORT'), 30_000)
SEED = {} if OPS == 1_000_000 else {'WEIR_SEED': '1'}
TIMEOUT_S = 1500 if OPS == 1_000_000 else 200


class Script(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-script-')
        cls.socket = str(pathlib.Path(cls.folder.name, 'redis'))
        cls.redis = Redis(config=f'unixsocket {cls.socket}\n')

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()
        cls.folder.cleanup()

    def drive(self, name, *arguments):
        run = subprocess.run([str(PROGRAMS / f'redis_{name}'), self.socket, *map(str, arguments)], timeout=TIMEOUT_S,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             encoding='utf-8', env={**SEED, **os.environ}, check=False)
        print(run.stdout, file=sys.stderr)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:])

    def assert_no_key_is_immortal(self):
        """semantics.md: expiry inside the atomic step."""
        with Resp(self.redis.port) as client:
            cursor, keys = b'0', []
            while not keys or cursor != b'0':
                cursor, page = client.ask('SCAN', cursor, 'COUNT', 1000)
                keys += page
            for key in keys:
                self.assertNotEqual(client.ask('PTTL', key), -1, key)  # -2: gone meanwhile

    def test_every_verdict_is_the_memory_engines(self):
        self.drive('equal', '--ops', OPS)
        self.assert_no_key_is_immortal()

    def test_every_answer_is_the_ledgers(self):
        self.drive('ledger', '--ops', OPS // 2)
        self.assert_no_key_is_immortal()

    def test_what_is_not_ours_and_what_comes_twice(self):
        self.drive('faults')

    def test_clocks_that_step_back_or_went_ahead(self):
        self.drive('clocks')

    def test_what_is_left_in_a_key(self):
        self.drive('values')


if __name__ == '__main__':
    unittest.main(verbosity=2)
