#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing in src/ (.clang-tidy says what it looks for)."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))


def tidy(path):
    process = subprocess.run(['clang-tidy-14', '--quiet', '-p', BUILD, path], cwd=ROOT, capture_output=True, text=True,
                             check=False)
    return process.returncode, process.stdout


class Tidy(unittest.TestCase):
    def test_sources(self):
        commands = json.loads((BUILD / 'compile_commands.json').read_text(encoding='utf-8'))
        paths = {(BUILD / command['file']).resolve() for command in commands}
        sources = sorted(str(path) for path in paths if path.is_relative_to(ROOT / 'src'))
        self.assertTrue(sources)
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            for path, (status, output) in zip(sources, pool.map(tidy, sources)):
                with self.subTest(path=path):
                    self.assertEqual(status, 0, output)


if __name__ == '__main__':
    unittest.main()
