#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house keeps its rules, and house.py sees it when it does not: each rule is broken on purpose in a copy."""
import pathlib
import shutil
import tempfile
import unittest

import house

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = '/* SPDX-License-Identifier: Apache-2.0\n *\n * Is for a test. */\n'


def function(lines, head='static int long_one(void)\n{\n'):
    """A function of so many lines, braces and signature included."""
    body = lines - head.count('\n') - 1
    return head + '    (void)0;\n' * body + '}\n'


class House(unittest.TestCase):
    def test_tree_keeps_the_rules(self):
        self.assertEqual(house.check(ROOT) + house.check_asserts(ROOT), [])

    def test_tree_is_looked_at(self):
        names = [relative for _, relative in house.files(ROOT)]
        for name in ('include/weir/limit.h', 'src/base/siphash.c', 'tests/run.py', 'scripts/run', '.ci/run'):
            self.assertIn(name, names)

    def test_npm_lockfile_names_no_place(self):
        """Where a package comes from is the machine's business; what it must be is the lockfile's."""
        text = (ROOT / 'tests/live/package-lock.json').read_text(encoding='utf-8')
        self.assertIn('"integrity"', text)
        self.assertNotIn('"resolved"', text)


class Planted(unittest.TestCase):
    """One violation in a copy of the tree gives one finding that names the file and the rule."""

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix='weir-lint-'))
        cls.addClassCleanup(shutil.rmtree, cls.root)
        for folder in ('include', 'src'):
            shutil.copytree(ROOT / folder, cls.root / folder, ignore=shutil.ignore_patterns('*.c'))
        cls.before = set(house.check(cls.root))

    def found(self):
        return [finding for finding in house.check(self.root) if finding not in self.before]

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding='utf-8')
        self.addCleanup(target.unlink)

    def expect(self, path, words, text, spdx=SPDX):
        self.plant(path, spdx + text)
        found = self.found()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(path + ':'), found)
        self.assertIn(words, found[0])

    def nothing(self, path, text):
        self.plant(path, SPDX + text)
        self.assertEqual(self.found(), [])

    def test_upward(self):
        self.expect('src/wire/planted.c', 'includes upward: serve/loop.h', '#include "serve/loop.h"\n')

    def test_upward_by_one_floor(self):
        self.expect('src/limits/planted.h', 'includes upward: rules/rules.h', '#include "rules/rules.h"\n')

    def test_upward_in_angle_brackets(self):
        self.expect('src/wire/planted.c', 'includes upward', '#include <serve/loop.h>\n')

    def test_upward_with_spaces(self):
        self.expect('src/wire/planted.c', 'includes upward', '  #  include "serve/loop.h"\n')

    def test_sideways(self):
        self.expect('src/observe/planted.c', 'includes upward', '#include "limits/planted.h"\n')

    def test_downward_and_own_folder_are_fine(self):
        self.nothing('src/serve/planted.c',
                     '#include "base/assert.h"\n#include "serve/loop.h"\n#include "weir/weir.h"\n')

    def test_no_folder(self):
        self.expect('src/wire/planted.c', 'names no floor', '#include "planted.h"\n')

    def test_walks_the_tree(self):
        self.expect('src/wire/planted.c', 'walks the tree', '#include "../serve/loop.h"\n')

    def test_sim_stands_on_core_and_its_hosts(self):
        self.expect('sim/planted.c', 'sim/ may not include rules/planted.h', '#include "rules/planted.h"\n')

    def test_play_stands_on_core_and_sim(self):
        self.expect('play/planted.c', 'play/ may not include limits/planted.h', '#include "limits/planted.h"\n')

    def test_sim_is_for_cli(self):
        self.expect('src/serve/planted.c', 'names no floor', '#include "sim/run.h"\n')

    def test_sim_in_cli(self):
        self.nothing('src/cli/planted.c', '#include "sim/run.h"\n')

    def test_unknown_folder(self):
        self.expect('src/utils/planted.c', 'is no floor', 'int planted;\n')

    def test_core_standard_header(self):
        self.expect('src/core/limit/planted.c', 'core/ may not include stdio.h', '#include <stdio.h>\n')

    def test_core_public_header(self):
        self.expect('src/core/limit/planted.c', 'core/ may not include weir/limiter.h', '#include "weir/limiter.h"\n')

    def test_core_what_it_may(self):
        self.nothing('src/core/limit/planted.c',
                     '#include <stdint.h>\n#include "base/checked.h"\n#include "weir/limit.h"\n')

    def test_public_header_with_private_one(self):
        self.expect('include/weir/planted.h', 'a public header includes base/assert.h', '#include "base/assert.h"\n')

    def test_one_tag_with_two_meanings(self):
        self.expect('src/wire/twice.h', 'struct weir_limit_spec is another one in include/weir/limit.h',
                    'struct weir_limit_spec {\n    int x;\n};\n')

    def test_a_file_that_is_not_there(self):
        self.plant('src/serve/planted_there.c', SPDX)
        self.plant('src/client/planted_other.c', SPDX)
        named = '/* Called by %s. */\n'
        for i, name in enumerate(('planted_there.c', 'serve/planted_there.c', 'src/client/planted_other.c')):
            self.nothing(f'src/serve/planted_{i}.c', named % name)
        for i, name in enumerate(('planted_gone.c', 'planted_other.c', 'wire/planted_there.c')):
            path = f'src/serve/planted_bad_{i}.c'
            self.plant(path, SPDX + named % name)
            self.assertEqual([line for line in self.found() if line.startswith(path)],
                             [f'{path}:4: names {name}, which is not there'])

    def test_cycle(self):
        self.plant('src/wire/planted_c.h', SPDX + '#include "wire/planted_a.h"\n')
        self.plant('src/wire/planted_a.h', SPDX + '#include "wire/planted_b.h"\n')
        self.plant('src/wire/planted_b.h', SPDX + '#include "wire/planted_c.h"\n')
        found = self.found()
        self.assertEqual(len(found), 1, found)
        self.assertIn('cycle: ' + ' > '.join(f'src/wire/planted_{letter}.h' for letter in 'abca'), found[0])

    def test_function_of_71_lines(self):
        self.expect('src/wire/planted.c', 'long_one is 71 lines', function(71))

    def test_function_of_70_lines(self):
        self.nothing('src/wire/planted.c', 'struct planted {\n    int x;\n};\n\n' + function(70))

    def test_function_with_two_lines_of_signature(self):
        self.expect('src/wire/planted.c', 'long_one is 71 lines',
                    'int x;\n\n' + function(71, 'static int long_one(int a,\n                    int b)\n{\n'))

    def test_function_with_brace_on_the_same_line(self):
        self.expect('src/wire/planted.c', 'long_one is 71 lines', function(71, 'static int long_one(void) {\n'))

    def test_python_function_of_71_lines(self):
        self.expect('tests/planted.py', 'long_one is 71 lines', 'def long_one():\n' + '    pass\n' * 70, '')

    def test_file_of_501_lines(self):
        self.expect('src/wire/planted.c', '501 lines (500 at most)', '\n' * (501 - SPDX.count('\n')))

    def test_script_of_501_lines(self):
        self.expect('scripts/planted', '501 lines (500 at most)', '\n' * 501, '')

    def test_file_of_500_lines(self):
        self.nothing('src/wire/planted.c', '\n' * (500 - SPDX.count('\n')))

    def test_no_head_comment(self):
        self.expect('src/wire/mute.h', 'nothing says what the file is', 'int x;\n',
                    spdx='/* SPDX-License-Identifier: Apache-2.0 */\n')

    def test_no_licence(self):
        self.expect('src/wire/planted.c', 'names no licence', 'int planted;\n', '')

    def test_line_of_121_columns(self):
        self.expect('src/wire/planted.c', '121 columns (120 at most)', f'/* {"x" * 115} */\n')

    def test_line_of_120_columns(self):
        self.nothing('src/wire/planted.c', f'/* {"x" * 114} */\n')

    def test_asserts_too_few(self):
        self.plant('src/table/planted.c', SPDX + '    weir_assert(count <= room);\n' * 500)
        found = house.check_asserts(self.root)
        self.assertEqual([line.split(':')[0] for line in found], ['src/core', 'src/table'])
        self.assertIn('in 1,000 at least', found[1])

    def test_which_asserts_count(self):
        text = ('weir_assert(slot);\nweir_assert(!key->next && options);\nweir_assert(at != NULL);\n'
                'weir_assert(count <= room);\nweir_debug_assert(count <=\n    room);\nweir_debug_assert(f(a, (b)) > 0);\n')
        self.assertEqual(house.asserted(text), {'count <= room', 'f(a, (b)) > 0'})

    def test_unfinished(self):
        self.expect('src/wire/planted.c', 'unfinished', 'int planted; /* TO' 'DO */\n')


if __name__ == '__main__':
    unittest.main()
