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


# Words of docs/glossary.md that nobody knows who has not read of distributed systems.
HARD = ('incarnation', 'zombie', 'witness', 'timeline', 'shadow', 'peek', 'slack', 'overshoot', 'stint', 'TAT', 'breaker',
        'forfeited', 'permit', 'lease', 'chunk', 'quorum', 'N + crashes')
# What is no prose: code, headings, generated parts, comments.
NO_PROSE = re.compile(r'^```.*?^```|^<!-- (\w+): begin -->.*?<!-- \1: end -->|<!--.*?-->|^#.*?$|^ {4}.*?$|`[^`\n]*`',
                      re.M | re.S)
FOR_ENGINEERS = ('glossary.md', 'semantics-tests.md', 'soak.md', 'mutants.md', 'walk.md')  # lists of tests, runs, files


def uses(page, word):
    """For each place where prose has the word, whether that is in the text of a link."""
    text = NO_PROSE.sub(lambda found: ' ' * len(found[0]), page.read_text(encoding='utf-8'))
    links_here = list(re.finditer(r'\[([^\]]*)\]\([^)]*\)', text))
    for found in re.finditer(rf'(?<![\w-]){re.escape(word)}(s|ed|ing)?(?![\w-])', text,
                             0 if word.isupper() else re.I):
        if not any(link.end(1) <= found.start() < link.end() for link in links_here):
            yield any(link.start(1) <= found.start() < link.end(1) for link in links_here)


# How the recipes of the pages take a lock, or guard a resource for it. A name in capitals stands for any.
LOCK = re.compile(r"""weir\ lock\ (?!show|release|restored|--)(?P<a>[a-z][a-z-]*)
                      |/v1/locks/(?P<b>[a-z][a-z-]*)/acquire
                      |WEIR\.LOCK\ (?P<c>[a-z][a-z-]*)
                      |weir_fence_install\((?:'(?P<d>[a-z-]*)')
                      |weir_fence_install\ VALUES\ \('(?P<e>[a-z-]*)'
                      |@LOCK@/(?P<f>[a-z-]*)/
                      |\{(?P<g>[a-z-]*)\}:fence""", re.X)


def locks(page):
    return {name for found in LOCK.finditer(page.read_text(encoding='utf-8')) for name in found.groupdict().values()
            if name}


class Pages(unittest.TestCase):
    def setUp(self):
        self.readme = ROOT / 'README.md'
        self.pages = sorted((ROOT / 'docs').glob('*.md'))
        self.assertGreater(len(self.pages), 20)

    def test_every_page_is_reached_from_the_readme_in_two_clicks(self):
        one = {page for page, _ in links(self.readme)}
        two = one | {page for first in one if first.suffix == '.md' and first.exists() for page, _ in links(first)}
        self.assertEqual([page.name for page in self.pages if page not in two], [])

    def test_hard_words_are_explained_on_each_page_that_uses_them(self):
        """By a link at one of the uses, best at the first: to the glossary, or to where it is said at length."""
        for page in [self.readme, *self.pages]:
            for word in HARD if page.name not in FOR_ENGINEERS else ():
                with self.subTest(page=page.name, word=word):
                    linked = list(uses(page, word))
                    self.assertTrue(not linked or any(linked), 'link its first use to glossary.md')

    def test_the_walk_names_files_and_functions_that_are_there(self):
        text, missing = (ROOT / 'docs' / 'walk.md').read_text(encoding='utf-8'), []
        code = '\n'.join(path.read_text(encoding='utf-8') for path in (ROOT / 'src').rglob('*.[ch]'))
        for name in re.findall(r'`([\w./*-]+\.(?:c|h|lua)|\w+\(\))`', text):
            if name.endswith('()'):
                there = re.search(rf'^\w.*\b{name[:-2]}\(.*[^;]$', code, re.M)
            elif '/' in name:
                there = list(ROOT.glob(name)) or list((ROOT / 'include').glob(name)) or list((ROOT / 'src').glob(name))
            else:
                there = list((ROOT / 'src').rglob(name))
            missing += [] if there else [name]
        self.assertEqual(missing, [])

    def test_the_walk_names_each_function_in_its_own_file(self):
        text, elsewhere, looked = (ROOT / 'docs' / 'walk.md').read_text(encoding='utf-8'), [], 0
        for name, file in re.findall(r'`(\w+)\(\)`(?: in | \(|, in )\s*`([\w./]+\.[ch])`', re.sub(r'\s+', ' ', text)):
            paths = list(ROOT.glob(file)) or list((ROOT / 'src').glob(file)) or list((ROOT / 'src').rglob(file))
            looked += 1
            if not any(re.search(rf'^\w.*\b{name}\(.*[^;]$', path.read_text(encoding='utf-8'), re.M) for path in paths):
                elsewhere.append(f'{name}() in {file}')
        self.assertGreater(looked, 50)
        self.assertEqual(elsewhere, [])

    def test_the_glossary_has_the_hard_words_in_order(self):
        text = (ROOT / 'docs' / 'glossary.md').read_text(encoding='utf-8')
        words = re.findall(r'^\| ([^|]*?) \|', text, re.M)[1:]
        self.assertEqual(words, sorted(words, key=str.lower))
        self.assertEqual([word for word in HARD if word.lower() not in text.lower()], [])

    def test_no_two_pages_take_a_lock_of_one_name(self):
        """Who follows one page after the other would be refused until the first lease has ended."""
        pages = {}
        for page in [self.readme, *self.pages]:
            for name in locks(page):
                pages.setdefault(name, []).append(page.name)
        self.assertEqual({name: where for name, where in pages.items() if len(where) > 1}, {})
        self.assertGreater(len(pages), 8)

    def test_no_link_leads_nowhere(self):
        for page in [self.readme, ROOT / 'CONTRIBUTING.md', *self.pages]:
            for target, part in links(page):
                with self.subTest(page=page.name, link=f'{target.name}{part}'):
                    self.assertTrue(target.exists())
                    self.assertTrue(not part or target.suffix != '.md' or part in anchors(target))


if __name__ == '__main__':
    unittest.main()
