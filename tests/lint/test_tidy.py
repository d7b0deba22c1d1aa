#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing in src/ (.clang-tidy says what it looks for).

Nearly all of its time goes to the analyzer, which walks the paths of each function until it has seen so many states of it:
225,000 by default, `make lint`, and fewer here. A tenth of the states takes a seventh of the time.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))


STATES = {'soak': 225_000}.get(os.environ.get('WEIR_TEST_EFFORT'), 20_000)


def tidy(path):
    config = [f'--extra-arg={word}' for word in ('-Xclang', '-analyzer-config', '-Xclang', f'max-nodes={STATES}')]
    process = subprocess.run(['clang-tidy-14', '--quiet', '-p', BUILD, *config, path], cwd=ROOT, capture_output=True,
                             text=True, check=False)
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
