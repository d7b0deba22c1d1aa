#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every page of docs/ is reached from the README in two clicks, and no link leads nowhere."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r'\]\((?!https?:)([^)#]*)(#[^)]*)?\)')


def words(heading):
    """A heading as the part of an address behind '#', as the usual renderers make it."""
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')


def anchors(page):
    return {'#' + words(heading) for heading in re.findall(r'^#+ (.*)$', page.read_text(encoding='utf-8'), re.M)}


def links(page):
    """(file, '#part' or '') of each link to a file of the project."""
    for path, part in LINK.findall(page.read_text(encoding='utf-8')):
        yield ((page.parent / path).resolve() if path else page, part)


class Pages(unittest.TestCase):
    def setUp(self):
        self.readme = ROOT / 'README.md'
        self.pages = sorted((ROOT / 'docs').glob('*.md'))
        self.assertGreater(len(self.pages), 20)

    def test_every_page_is_reached_from_the_readme_in_two_clicks(self):
        one = {page for page, _ in links(self.readme)}
        two = one | {page for first in one if first.suffix == '.md' and first.exists() for page, _ in links(first)}
        self.assertEqual([page.name for page in self.pages if page not in two], [])

    def test_no_link_leads_nowhere(self):
        for page in [self.readme, ROOT / 'CONTRIBUTING.md', *self.pages]:
            for target, part in links(page):
                with self.subTest(page=page.name, link=f'{target.name}{part}'):
                    self.assertTrue(target.exists())
                    self.assertTrue(not part or target.suffix != '.md' or part in anchors(target))


if __name__ == '__main__':
    unittest.main()
