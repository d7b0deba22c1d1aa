#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slice of the randomised fault runs (lock_faults.py) over the embedded engine, and one mistake that they must catch.
The full count: lock_faults.py --runs 200."""
import os
import time
import unittest

import lock_faults

PLANTED_RUNS_MAX = 60


class LockFaults(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get('WEIR_SEED', time.time_ns() % 1_000_000))
        print(f'WEIR_SEED={self.seed}')

    def test_locks_hold(self):
        options = lock_faults.arguments(['--runs', '4', '--jobs', '4', '--seed', str(self.seed)])
        self.assertEqual(lock_faults.main(options), 0)

    def test_an_install_after_the_read_is_caught(self):
        for seed in range(self.seed, self.seed + PLANTED_RUNS_MAX, 4):
            if lock_faults.main(lock_faults.arguments(['--runs', '4', '--jobs', '4', '--seed', str(seed), '--calm',
                                                       '--discard', '--plant', 'install-late'])) > 0:
                return
        self.fail('nothing was refused')


if __name__ == '__main__':
    unittest.main()
