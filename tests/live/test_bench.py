#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench still works: one short round of small tables takes every line that needs no peer built elsewhere. Says
nothing about speed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))
TIMEOUT_S = 900

sys.path.insert(0, str(ROOT / 'bench'))
import lines  # noqa: E402  (a module of bench/)
import report  # noqa: E402


class Bench(unittest.TestCase):
    def test_every_line_is_measured(self):
        with tempfile.TemporaryDirectory(prefix='weir-bench-test-') as folder:
            page = pathlib.Path(folder, 'page.md')
            page.write_text(f'before\n{report.BEGIN}\nold\n{report.END}\nafter\n', encoding='utf-8')
            run = subprocess.run([sys.executable, ROOT / 'bench/run.py', '--build', BUILD, '--quick', '--no-peers',
                                  '--write', page], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=TIMEOUT_S, encoding='utf-8', check=False)
            self.assertEqual(run.returncode, 0, run.stdout)
            written = page.read_text(encoding='utf-8')
        self.assertTrue(written.startswith('before\n') and written.endswith('after\n') and 'old' not in written)
        samples = json.loads((BUILD / 'bench/samples.json').read_text(encoding='utf-8'))
        missing = [line.name for line in lines.LINES
                   if not samples.get(line.name) and line.source[1].rstrip('10') not in ('go', 'rust')]
        self.assertEqual(missing, [], run.stdout)
        for line in lines.LINES:
            if samples.get(line.name):
                self.assertIn(f'| {line.text} |', written)


class Sharing(unittest.TestCase):
    def test_leased_and_exact_are_measured(self):
        run = subprocess.run([sys.executable, ROOT / 'bench/sharing.py', '--build', BUILD, '--rounds', '1', '--sample-ms',
                              '100'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=TIMEOUT_S, encoding='utf-8', check=False)
        self.assertRegex(run.stdout, r'(?m)^exact +[\d,]+ decisions a second')
        self.assertRegex(run.stdout, r'(?m)^leased is [\d.]+ times as fast as exact')


class Ratios(unittest.TestCase):
    def test_they_compare_lines_that_exist(self):
        names = {line.name for line in lines.LINES}
        self.assertEqual(len(names), len(lines.LINES))
        for ratio in lines.RATIOS:
            self.assertIn(ratio.above, names)
            self.assertTrue(ratio.below is None or ratio.below in names, ratio.below)

    def test_the_strictest_mark_counts(self):
        more = lines.Ratio('', 'a', 'b', True, 2, 3, 4)
        less = lines.Ratio('', 'a', 'b', False, 4, 3, 2)
        self.assertEqual([report.judge(more, v) for v in (1.9, 2, 3.5, 4)],
                         ['**short**', 'promised', 'gate', 'stretch'])
        self.assertEqual([report.judge(less, v) for v in (4.1, 4, 2.5, 2)],
                         ['**short**', 'promised', 'gate', 'stretch'])


if __name__ == '__main__':
    unittest.main()
