#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No built object reaches upward, files call each other in a circle only where it is said why, and none has a global
that can be written. Each is broken once on purpose."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))


class Objects(unittest.TestCase):
    def test_the_build_keeps_the_rules(self):
        self.assertEqual(objects.check(BUILD), [])

    def test_the_build_is_looked_at(self):
        floors = set(objects.objects(BUILD).values())
        self.assertLessEqual({'base', 'core', 'wire', 'table', 'limits', 'locks', 'sessions', 'net', 'rules', 'serve', 'cli'}, floors)
        table = objects.symbols(list(objects.objects(BUILD)))
        named = {name for listed in table.values() for name, kind, _ in listed if kind == 'T'}
        self.assertIn('weir_table_hold', named)


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-lint-')
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def compiled(self, floor, name, text):
        made = self.root / 'src' / floor / 'planted.a.p' / f'{name}.c.o'
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(['gcc', '-O2', '-fPIC', '-x', 'c', '-', '-c', '-o', made], input=text.encode(), check=True)

    def test_an_extern_upward(self):
        self.compiled('serve', 'loop', 'int weir_loop(void) { return 1; }')
        self.compiled('wire', 'codec', 'extern int weir_loop(void); int weir_codec(void) { return weir_loop(); }')
        self.compiled('cli', 'verb', 'extern int weir_codec(void); int weir_verb(void) { return weir_codec(); }')
        self.assertEqual(objects.check(self.root), ['codec.c.o: wire/ (floor 2) needs weir_loop of serve/ (floor 6)'])

    def test_an_extern_sideways(self):
        self.compiled('limits', 'limiter', 'int weir_limiter(void) { return 1; }')
        self.compiled('observe', 'counts', 'extern int weir_limiter(void); int weir_counts(void) { return weir_limiter(); }')
        self.assertEqual(len(objects.check(self.root)), 1)

    def test_files_that_call_each_other(self):
        self.compiled('wire', 'one', 'extern int weir_two(void); int weir_one(void) { return weir_two(); }')
        self.compiled('wire', 'two', 'extern int weir_three(void); int weir_two(void) { return weir_three(); }')
        self.compiled('wire', 'three', 'extern int weir_one(void); int weir_three(void) { return weir_one(); }')
        self.compiled('wire', 'four', 'extern int weir_one(void); int weir_four(void) { return weir_one(); }')
        self.assertEqual(objects.check(self.root), ['wire: one three two: call each other, and nobody says why'])

    def test_globals_that_can_be_written(self):
        self.compiled('core', 'globals', 'int weir_shared; static int hidden = 7;\n'
                      'int weir_next(void) { static int last; return ++last + ++hidden; }')
        self.assertEqual(sorted(line.split(' can ')[0].split('.')[2] for line in objects.check(self.root)),
                         ['o: hidden', 'o: last', 'o: weir_shared'])

    def test_what_nobody_writes_is_no_global(self):
        self.compiled('core', 'tables', 'const int weir_table[2] = { 1, 2 };\n'
                      'const char *const weir_names[] = { "a", "b" };\n'
                      '__thread int weir_mine; const char *weir_name(int i) { return weir_names[i + weir_mine]; }')
        self.assertEqual(objects.check(self.root), [])


if __name__ == '__main__':
    unittest.main()
