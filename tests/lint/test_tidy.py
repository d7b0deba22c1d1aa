#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy finds nothing in src/ (.clang-tidy says what it looks for).

Nearly all of its time goes to the analyzer, which walks the paths of each function until it has seen so many states of it:
225,000 by default, `make lint`, and fewer here. A tenth of the states takes a seventh of the time.
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))


STATES = {'soak': 225_000}.get(os.environ.get('WEIR_TEST_EFFORT'), 8_000)


def tidy(database, path):
    config = [f'--extra-arg={word}' for word in ('-Xclang', '-analyzer-config', '-Xclang', f'max-nodes={STATES}')]
    process = subprocess.run(['clang-tidy-14', '--quiet', '-p', database, *config, path], cwd=ROOT, capture_output=True,
                             text=True, check=False)
    return process.returncode, process.stdout


class Tidy(unittest.TestCase):
    def test_sources(self):
        # Tests compile some sources once more. Each is read once: in a second reading of one file by one process,
        # clang-tidy 14 takes every va_list for uninitialized.
        commands = {}
        for command in json.loads((BUILD / 'compile_commands.json').read_text(encoding='utf-8')):
            commands.setdefault((pathlib.Path(command['directory']) / command['file']).resolve(), command)
        sources = sorted(str(path) for path in commands if path.is_relative_to(ROOT / 'src'))
        self.assertTrue(sources)
        with tempfile.TemporaryDirectory() as database, \
             concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            pathlib.Path(database, 'compile_commands.json').write_text(json.dumps(list(commands.values())), encoding='utf-8')
            for path, (status, output) in zip(sources, pool.map(functools.partial(tidy, database), sources)):
                with self.subTest(path=path):
                    self.assertEqual(status, 0, output)


if __name__ == '__main__':
    unittest.main()
