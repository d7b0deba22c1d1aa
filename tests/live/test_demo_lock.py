#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/demo-lock tells its story to the end, on whatever of its stores is installed."""
import contextlib
import importlib.machinery
import importlib.util
import io
import re
import subprocess
import sys
import unittest

from weir_server import BUILD, ROOT

SCRIPT = ROOT / 'scripts/demo-lock'


def load():
    loader = importlib.machinery.SourceFileLoader('demo_lock', str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('demo_lock', loader))
    loader.exec_module(module)
    return module


class Demo(unittest.TestCase):
    def test_the_paused_client_is_refused_and_without_the_guard_an_update_is_lost(self):
        done = subprocess.run([sys.executable, str(SCRIPT), '--ttl-ms', '2000', '--build', str(BUILD)], text=True,
                              capture_output=True, timeout=600, check=False)
        print(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        skipped = set(re.findall(r'^(\w+) is skipped', done.stdout, re.M))
        rows = re.findall(r'^  (\S.{9})  (refused|went through) +(LOST|kept) +(\d+)$', done.stdout, re.M)
        there = [title for title in ('PostgreSQL', 'Redis', 'SQLite', 'a file') if title not in skipped]
        self.assertEqual([(title.strip(), *rest) for title, *rest in rows],
                         [(title, 'went through', 'LOST', '110') for title in there]
                         + [(title, 'refused', 'kept', '105') for title in there])
        self.assertEqual(len(re.findall(r' A .*REFUSED', done.stdout)), len(there))

    def test_a_guard_that_does_not_refuse_is_told(self):
        demo = load()
        with contextlib.redirect_stdout(io.StringIO()) as told:
            self.assertFalse(demo.table({'Redis': 'FENCED', 'SQLite': None}, {'Redis': 105, 'SQLite': 110}))
            self.assertFalse(demo.table({'Redis': None}, {'Redis': 105}))
            self.assertTrue(demo.table({'Redis': 'FENCED'}, {'Redis': 105}))
        self.assertIn('LOST', told.getvalue())


if __name__ == '__main__':
    unittest.main()
