#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slice of the randomised fault runs of sessions (session_faults.py), and mistakes of the library that they must catch.
The full count: make soak, or session_faults.py --runs 100."""
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
import unittest

import session_faults

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'session'))
import plants  # noqa: E402

SOAK = os.environ.get('WEIR_TEST_EFFORT') == 'soak'
PLANTED_RUNS_MAX = 20  # on a busy machine little happens in a run
JOBS = 2  # each has three servers and a dozen sessions: more at once keep all else from starting
# Where each is to be found at once.
PLANTED = {'token-ignored': 'all_delayed,nothing', 'reads-unmoved': 'all_delayed,nothing',
           'timeline-uncompared': 'calm,loss', 'check-in-snapshot': 'all_delayed,nothing'}


class SessionFaults(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get('WEIR_SEED', time.time_ns() % 1_000_000))
        print(f'WEIR_SEED={self.seed}')
        session_faults.prepare()

    def test_sessions_never_go_back(self):
        words = ['--runs', '100'] if SOAK else ['--runs', '3', '--steps', '1']
        options = session_faults.arguments([*words, '--jobs', str(JOBS), '--seed', str(self.seed)])
        self.assertEqual(session_faults.main(options), 0)

    def runs_until_caught(self, plant, folder):
        """0: never."""
        driver = plants.build(plant, session_faults.BUILD, pathlib.Path(folder) / plant)
        for run in range(1, PLANTED_RUNS_MAX + 1):
            options = session_faults.arguments(['--driver', str(driver), '--faults', PLANTED[plant], '--steps', '1',
                                                '--discard'])
            refused, _ = session_faults.one_run(self.seed + run, options)
            if refused and ('broke what their sessions were promised' in refused or 'not told' in refused):
                return run
        return 0

    def test_mistakes_are_caught_at_once(self):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            caught = dict(zip(PLANTED, pool.map(lambda plant: self.runs_until_caught(plant, folder), PLANTED)))
        print('runs until it was caught: ' + ', '.join(f'{plant} {runs}' for plant, runs in caught.items()))
        self.assertTrue(all(caught.values()), caught)


if __name__ == '__main__':
    unittest.main()
