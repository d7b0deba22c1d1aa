#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file is as `make format` leaves it, and every shell script is one."""
import pathlib
import subprocess
import unittest

import house

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Format(unittest.TestCase):
    def test_c(self):
        names = [relative for _, relative in house.files(ROOT) if relative.endswith(('.c', '.h'))]
        process = subprocess.run(['clang-format-14', '--dry-run', '--Werror', *names], cwd=ROOT, capture_output=True,
                                 text=True, check=False)
        found = {line.split(':')[0] for line in process.stderr.splitlines() if 'clang-format-violations' in line}
        self.assertEqual(sorted(found), [], 'run: make format')
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_shell(self):
        for name in ('scripts/bootstrap', 'scripts/run', 'scripts/test'):
            with self.subTest(name=name):
                process = subprocess.run(['sh', '-n', ROOT / name], capture_output=True, text=True, check=False)
                self.assertEqual((process.returncode, process.stderr), (0, ''))


if __name__ == '__main__':
    unittest.main()
