#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/semantics-tests.md names only tests that exist."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / 'docs' / 'semantics-tests.md').read_text(encoding='utf-8')
NAMED = set(re.findall(r'`((?:[a-z]\w*__|test_)\w+)`', PAGE))


def text_of(pattern):
    return '\n'.join(path.read_text(encoding='utf-8') for path in sorted((ROOT / 'tests').rglob(pattern)))


class Page(unittest.TestCase):
    def test_every_test_it_names_exists(self):
        registered = set(re.findall(r'(?:cmocka_unit_test(?:_setup_teardown)?|CASE)\(\s*(\w+)', text_of('*.c')))
        registered |= set(re.findall(r'def (test_\w+)', text_of('*.py')))
        registered |= {path.stem for path in (ROOT / 'tests').rglob('test_*.c')}
        self.assertGreater(len(NAMED), 80)
        self.assertEqual(sorted(NAMED - registered), [])


if __name__ == '__main__':
    unittest.main()
