#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decision on a resident bucket costs in instructions, counted by callgrind (bench/instructions.c): they do not
depend on who else uses the machine. More than a tenth above what stands here fails; what is less by as much is to be
written down. With another compiler than Debian 12's the numbers are others."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ['WEIR_BUILD'])
# case: function, instructions of a decision (clock given, the key made before), what is aimed at
COSTS = {
    'admit': ('weir_limiter_admit', 89, 90),
    'admit_refused': ('weir_limiter_admit', 101, 90),
    'admit_many': ('weir_limiter_admit_many', 136, 90),
    'admit_many_refused': ('weir_limiter_admit_many', 144, 90),
    'decide': ('weir_limiter_decide', 153, 130),
    'decide_refused': ('weir_limiter_decide', 181, 130),
    'decide_many': ('weir_limiter_decide_many', 180, 150),
    'decide_many_refused': ('weir_limiter_decide_many', 203, 150),
    'key': ('weir_limiter_key', 199, 90),
}


def counted(case, function):
    """Instructions in the function and in what it calls, of one decision."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / 'out'
        run = subprocess.run(['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}', '--toggle-collect=counted',
                              BUILD / 'bench/bench_instructions', case], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             encoding='utf-8', check=True, timeout=100)
        told = subprocess.run(['callgrind_annotate', '--inclusive=yes', '--show-percs=no', '--threshold=100', out],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding='utf-8', check=True, timeout=100)
    line = re.search(rf'^ *([\d,]+) .*:{function} ', told.stdout, re.M)
    return int(line[1].replace(',', '')) / int(run.stdout)


def is_release():
    text = subprocess.run(['meson', 'introspect', '--buildoptions', BUILD], stdout=subprocess.PIPE, encoding='utf-8',
                          check=True).stdout
    return '"value": "release"' in text


class Instructions(unittest.TestCase):
    def test_a_decision_takes_no_more_than_it_did(self):
        self.assertTrue(is_release(), 'count in a release build')
        print(f'{"":20} {"counted":>8} {"written":>8} {"aim":>5}', file=sys.stderr)
        for case, (function, written, aim) in COSTS.items():
            with self.subTest(case):
                now = counted(case, function)
                print(f'{case:20} {now:8.0f} {written:8} {aim:5}', file=sys.stderr)
                self.assertLessEqual(now, written * 1.1, 'more than a tenth above what it was')
                self.assertGreaterEqual(now, written * 0.9, 'better: write it down here and in docs/performance.md')


if __name__ == '__main__':
    unittest.main()
