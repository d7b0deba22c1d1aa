#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make mutants` over a toy: what a test can see is found, what it cannot see survives, and nothing else is changed."""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import draw
import faults
import lua_sites
import report
import schemata
import sites
import trial

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOY = '''#include <stdbool.h>
#define LIMIT 3
#define checked(truth) ((truth) ? (void)0 : __builtin_trap())

static bool beyond(int value)
{
    return value > LIMIT;
}

int most_of(int value);
int most_of(int value)
{
    _Static_assert(sizeof(int) == 4, "a constant");
    static int never = 7;
    checked(value + 1 > 0);
    if (beyond(value))
        value = LIMIT;
    for (int i = 0; i < 2; i++)
        never = value - i;
    switch (value) {
    case 0:
        break;
    default:
        never = 2;
    }
    return value;
}
'''
DRIVE = 'int most_of(int); int main(void) { return most_of(5) == 3 && most_of(2) == 2 && most_of(3) == 3 ? 0 : 1; }\n'
HAND = '''# A comment.
@ toy.c beyond: the limit itself is beyond
- value > LIMIT
+ value >= LIMIT

@ toy.c: nothing is held to the limit
- value = LIMIT;
'''


@unittest.skipUnless(shutil.which(sites.CLANG), f'no {sites.CLANG}')
class Toy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-mutants-')
        cls.root = pathlib.Path(cls.folder.name).resolve()
        cls.tree = cls.root / 'build'
        for name, text in (('toy.c', TOY), ('drive.c', DRIVE), ('hand.txt', HAND), ('compile_commands.json', '[]'),
                           ('.gitignore', 'build\n')):
            (cls.root / name).write_text(text, encoding='utf-8')
        (cls.root / 'tests/mutants').mkdir(parents=True)
        shutil.copy(pathlib.Path(__file__).with_name('switch.h'), cls.root / schemata.SWITCH)
        subprocess.run(['git', 'init', '-q', cls.root], check=True)
        cls.compiler = draw.Compiler(cls.root, cls.root)
        cls.found = draw.all_sites(cls.compiler, ['toy.c'])
        fitting = [site for site in cls.found['toy.c'] if cls.compiler.accepts(site)]
        cls.mutants = dict(enumerate(draw.by_hand(cls.root, cls.root / 'hand.txt') + fitting, 1))
        schemata.write_tree(cls.root, cls.tree, list(cls.mutants.items()))
        subprocess.run(['gcc', '-w', 'toy.c', 'drive.c', '-o', 'toy'], cwd=cls.tree, check=True)
        cls.program = trial.Program('toy', [str(cls.tree / 'toy')], str(cls.tree), {})
        cls.said = trial.measure(cls.program, len(cls.mutants))
        with unittest.mock.patch.object(trial, 'LIMIT_CPU_S', 0.5):
            cls.fates = {number: trial.find(number, [cls.program]) for number in cls.mutants}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fate(self, old, new):
        """Of the one mutant that makes new of old."""
        numbers = [number for number, site in self.mutants.items()
                   if TOY[site.start:site.end] == old and site.new == new and not site.name]
        self.assertEqual(len(numbers), 1, (old, new))
        return self.fates[numbers[0]]

    def test_all_of_them_in_one_program_change_nothing_until_one_lives(self):
        self.assertIsNone(self.said)

    def test_what_a_test_sees_is_found(self):
        self.assertEqual(self.fate('value > LIMIT', '(value) <= (LIMIT)'), ('toy', 'failed'))
        self.assertEqual(self.fate('value = LIMIT', '(void)0'), ('toy', 'failed'))
        self.assertEqual(self.fate('beyond(value)', '0'), ('toy', 'failed'))
        self.assertEqual(self.fate('beyond(value)', '1'), ('toy', 'failed'))

    def test_what_no_test_can_see_survives(self):
        self.assertIsNone(self.fate('value > LIMIT', '(value) >= (LIMIT)'))
        self.assertIsNone(self.fate('never = value - i', '(void)0'))

    def test_the_compiler_tells_what_is_the_same(self):
        same = {(TOY[site.start:site.end], site.new) for site in self.mutants.values() if self.compiler.same(site)}
        self.assertIn(('never = value - i', '(void)0'), same)
        self.assertNotIn(('value = LIMIT', '(void)0'), same)

    def test_those_by_hand(self):
        self.assertIsNone(self.fates[1])
        self.assertEqual(self.fates[2], ('toy', 'failed'))
        self.assertEqual(self.mutants[2].line, TOY[:TOY.index('value = LIMIT')].count('\n') + 1)

    def test_what_must_be_constant_and_what_a_macro_makes_is_left_alone(self):
        for site in self.found['toy.c']:
            for kept in ('_Static_assert', 'never = 7', 'checked(', 'case 0'):
                start = TOY.index(kept)
                inside = start <= site.start and site.end <= TOY.index('\n', start)
                self.assertFalse(inside and site.form != 'before', site)

    def test_a_mutant_without_end_is_found(self):
        for endless in ('sleep 600', 'while :; do :; done'):
            program = trial.Program('endless', ['sh', '-c', endless], str(self.tree), {}, reaches=[1])
            with unittest.mock.patch.multiple(trial, LIMIT_S=0.2 if 'sleep' in endless else 600, LIMIT_CPU_S=0.1):
                self.assertEqual(trial.find(1, [program]), ('endless', 'no end in time'))

    def test_what_fails_now_and_then_finds_nothing(self):
        now_and_then = 'test -e seen && rm seen || ! touch seen'
        program = trial.Program('chance', ['sh', '-c', now_and_then], str(self.tree), {}, reaches=[1])
        self.assertIsNone(trial.find(1, [program]))

    def test_the_script_of_a_redis_is_patched_as_it_is_loaded(self):
        (self.root / 'a.lua').write_text("local h = 1\nif h > 2 then return 'a > 1' end\n", encoding='utf-8')
        (self.root / 'b.lua').write_text('    h = g(a, h)\nreturn h\n', encoding='utf-8')
        found = [site for name in ('a.lua', 'b.lua') for site in lua_sites.sites_of(name, self.root)]
        mutants = dict(enumerate(found, 1))
        changes = {(site.path, site.line, site.kind, site.new) for site in found}
        self.assertIn(('a.lua', 2, 'comparison', '>='), changes)
        self.assertIn(('b.lua', 1, 'dropped statement', ''), changes)
        self.assertIn(('b.lua', 1, 'swapped arguments', 'h, a'), changes)
        self.assertNotIn("'a", ' '.join(site.new for site in found))
        folder = self.root / 'src/limits/redis'
        folder.mkdir(parents=True)
        (folder / 'embed.py').write_text(schemata.script_embed(mutants.items()), encoding='utf-8')
        subprocess.run([sys.executable, folder / 'embed.py', 'a.lua', 'b.lua', 'script.c'], cwd=self.root, check=True)
        (self.root / 'say.c').write_text('#include <stdio.h>\nextern const char weir_script_text[], weir_script_sha1[];\n'
                                         'int main(void) { printf("%s%s", weir_script_sha1, weir_script_text); }\n',
                                         encoding='utf-8')
        subprocess.run(['gcc', '-w', 'script.c', 'say.c', '-o', 'say'], cwd=self.root, check=True)
        for number, site in [(0, None), *mutants.items()]:
            said = subprocess.run([self.root / 'say'], env={'WEIR_MUTANT': str(number)}, check=True,
                                  stdout=subprocess.PIPE).stdout
            texts = {name: (self.root / name).read_text(encoding='latin-1') for name in ('a.lua', 'b.lua')}
            if site:
                texts[site.path] = schemata.alone(texts[site.path], site)
            expected = '\n'.join(texts.values()).encode('latin-1')
            self.assertEqual(said, hashlib.sha1(expected).hexdigest().encode() + expected)

    def test_a_seed_repeats_its_draw(self):
        def drawn(seed):
            return draw.draw(self.root, self.found, seed, 5, lambda site: True)
        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))
        everything = draw.draw(self.root, self.found, 1, 10_000, lambda site: True)
        self.assertEqual(len(everything), len(set(everything)))

    def test_a_name_lasts_and_a_reason_is_found_by_it(self):
        name = report.name_of(self.root, self.mutants[1])
        self.assertNotIn(':8:', name)
        listing = self.root / 'equivalent.txt'
        listing.write_text(f'# A comment.\n{name}\n    who is at the limit\n    is put there\n', encoding='utf-8')
        reasons = report.equivalents(listing)
        self.assertEqual(reasons, {name: 'who is at the limit is put there'})
        results = {number: {'found': fate, 'same': False} for number, fate in self.fates.items()}
        mutants = {number: self.mutants[number] for number in (1, 2)}
        self.assertEqual(report.share(mutants, results, reasons, self.root), 1)
        self.assertEqual(report.share(mutants, results, {}, self.root), 0.5)

    def test_a_list_that_fits_no_source_is_refused(self):
        listing = self.root / 'wrong.txt'
        for text in ('@ toy.c: twice\n- value\n', '@ toy.c nowhere: x\n- value\n', 'words\n'):
            listing.write_text(text, encoding='utf-8')
            with self.assertRaises(ValueError):
                draw.by_hand(self.root, listing)
        self.assertTrue(json.loads((self.root / 'compile_commands.json').read_text(encoding='utf-8')) == [])


class Faults(unittest.TestCase):
    """A simulator that is none: it breaks at seed 40 if fault 2 lives, and stops by a signal at 7 if 3 does."""
    SIMULATOR = """#!/bin/sh
from=$(echo "$*" | sed 's/.*--from \\([0-9]*\\) .*/\\1/'); to=${*##* }
holds() { [ "$from" -le "$1" ] && [ "$to" -gt "$1" ]; }
if [ "$WEIR_MUTANT" = 2 ] && holds 40; then echo "seed 40 is broken"; echo "BROKEN at 1.2 s: too much"; exit 1; fi
if [ "$WEIR_MUTANT" = 3 ] && holds 7; then kill -9 $$; fi
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-faults-')
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, 'simulator')
        self.program.write_text(self.SIMULATOR, encoding='utf-8')
        self.program.chmod(0o755)

    def test_the_first_seed_is_told_and_what_is_broken(self):
        self.assertIsNone(faults.first_broken(self.program, 1, 'gossip', 300))
        self.assertEqual(faults.first_broken(self.program, 2, 'gossip', 300), (40, 'too much'))
        self.assertIsNone(faults.first_broken(self.program, 2, 'gossip', 39))
        self.assertEqual(faults.first_broken(self.program, 3, 'locks', 300), (7, 'ends by -9'))

    def test_what_is_known_is_not_run_again(self):
        known = faults.Known(self.program.parent, self.program)
        fault = faults.Fault(2, 'name', ['gossip'], 'what', 'group', [])
        with unittest.mock.patch('builtins.print'):
            self.assertEqual(tuple(known.ask(self.program, fault, 'gossip', 300)), (40, 'too much'))
        with unittest.mock.patch.object(faults, 'first_broken', side_effect=AssertionError):
            again = faults.Known(self.program.parent, self.program)
            self.assertEqual(tuple(again.ask(self.program, fault, 'gossip', 300)), (40, 'too much'))


class Lists(unittest.TestCase):
    """What the lists of this folder speak of stands in the sources."""

    def test_each_mistake_by_hand_has_its_place(self):
        found = draw.by_hand(ROOT, HERE / 'hand.txt')
        self.assertGreater(len(found), 200)

    def test_each_fault_has_its_places_and_its_row(self):
        found = faults.read(ROOT, HERE / 'faults.txt')
        self.assertTrue(found)
        page = (ROOT / 'docs/mutants.md').read_text(encoding='utf-8')
        for fault in found:
            self.assertTrue(fault.sites and fault.group, fault.name)
            for mode in fault.modes:
                self.assertIn(f'| {fault.what} | `{fault.name}` | `{mode}` |', page)
            for site in fault.sites:
                crossed = [other for one in found for other in one.sites
                           if other.path == site.path and schemata.crosses(site, other)]
                self.assertEqual(crossed, [], fault.name)

    def test_what_is_planted_compiles(self):
        """All at once, as in the build that holds them: a name that the sources have no longer is seen here."""
        libraries = subprocess.run(['pkg-config', '--cflags', 'libpq', 'hiredis', 'jansson'], stdout=subprocess.PIPE,
                                   encoding='utf-8', check=True).stdout.split()
        planted = {'faults': [(fault.number, site) for fault in faults.read(ROOT, HERE / 'faults.txt')
                              for site in fault.sites],
                   'hand': list(enumerate(draw.by_hand(ROOT, HERE / 'hand.txt'), 1))}
        for name, numbered in planted.items():
            with tempfile.TemporaryDirectory(prefix='weir-planted-') as folder:
                tree = pathlib.Path(folder)
                schemata.write_tree(ROOT, tree, numbered)
                for path in sorted({site.path for _, site in numbered if site.path.endswith('.c')}):
                    with self.subTest(f'{name}: {path}'):
                        done = subprocess.run(['cc', '-fsyntax-only', '-Werror=implicit-function-declaration', '-std=c11',
                                               '-D_GNU_SOURCE', *libraries, f'-I{tree}/src', f'-I{tree}/include',
                                               tree / path],
                                              stderr=subprocess.PIPE, encoding='utf-8', check=False)
                        self.assertEqual(done.returncode, 0, done.stderr[:2000])

    def test_each_equivalent_has_its_line(self):
        for name in report.equivalents(HERE / 'equivalent.txt'):
            path, change = name.split(': ', 1)
            line = re.search(r' in `((?:(?!` in `).)*)`(?:, the \d+\.)?$', change)[1]
            with self.subTest(name):
                self.assertTrue(line in report.pairs_of(ROOT / path), 'no such line, or another before it')

    def test_a_draw_can_be_of_a_part(self):
        everything = draw.paths_of(ROOT, ('core', 'table'))
        self.assertEqual(draw.paths_of(ROOT, ('core', 'table'), ['src/core/*', '*/table.c']),
                         [path for path in everything if path.startswith('src/core/') or path == 'src/table/table.c'])


if __name__ == '__main__':
    unittest.main()
