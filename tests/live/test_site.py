#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built by `make site`, whole and from nowhere else; served at /docs, where a path reaches
nothing but it; and in a real browser, under the policy that it is served with (docs/site.md)."""
import base64
import gzip
import hashlib
import html.parser
import http.client
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

from browser import Browser
from weir_server import BUILD, ROOT, Weir, connect, read_all

sys.path.insert(0, str(ROOT / 'tests/lint'))
from test_pages import words

BUILD_TIMEOUT_S = 900
HASH = f'sha256-{base64.b64encode(hashlib.sha256(b"").digest()).decode()}\n'
LIST = 'weir-site.txt'


class Page(html.parser.HTMLParser):
    """What a page leads to, loads, and would run; and the names that can be led to."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.links, self.loads, self.names, self.scripts, self.against = [], [], set(), [], []
        self.in_script = False
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names |= {attrs['id']} if 'id' in attrs else set()
        self.links += [attrs['href']] if tag == 'a' and 'href' in attrs else []
        self.loads += [attrs[name] for name in ('src', 'href', 'action', 'data', 'poster') if tag != 'a' and attrs.get(name)]
        self.against += [name for name in attrs if name == 'style' or name.startswith('on')] + [tag] * (tag == 'style')
        self.in_script = tag == 'script' and 'src' not in attrs and attrs.get('type') is None
        self.scripts += [''] * self.in_script

    def handle_data(self, data):
        if self.in_script:
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        self.in_script = False


def make_site(folder, root=ROOT):
    return subprocess.run([root / 'scripts/site/build', BUILD / 'site-tools', folder], check=root == ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_TIMEOUT_S)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """weir in a folder of its own, and the site beside it, as a build has them."""
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix='weir-site-')))
        cls.program = pathlib.Path(shutil.copy(BUILD / 'weir', cls.folder))

    def ask(self, weir, path, method='GET', **fields):
        deadline = time.monotonic() + 60
        while True:
            client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
            client.request(method, path, headers={name.replace('_', '-'): value for name, value in fields.items()})
            answer = client.getresponse()
            body = answer.read()
            client.close()
            if answer.status != 503 or time.monotonic() > deadline:  # it is being read
                return answer, body
            self.assertEqual(answer.getheader('Retry-After'), '1')


class Site(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.site = cls.folder / 'site'
        make_site(cls.site)
        cls.files = sorted(path for path in cls.site.rglob('*') if path.is_file())
        cls.pages = {path: Page(path) for path in cls.files if path.suffix == '.html'}
        cls.weir = cls.enterClassContext(Weir(program=cls.program))

    def test_every_page_is_in_it_with_the_anchors_that_it_has_elsewhere(self):
        sources = {path: self.site / (path.stem + '.html') for path in (ROOT / 'docs').glob('*.md')}
        sources[ROOT / 'README.md'] = self.site / 'source/index.html'
        self.assertGreater(len(sources), 50)
        for source, page in sources.items():
            text = re.sub(r'^```.*?^```', '', source.read_text(encoding='utf-8'), flags=re.M | re.S)
            self.assertLessEqual({words(heading) for heading in re.findall(r'^#+ (.*)$', text, re.M)}, self.pages[page].names,
                                 source.name)

    def test_every_link_leads_somewhere_in_it(self):
        looked = 0
        for path, page in self.pages.items():
            for link in page.links + page.loads:
                address, _, part = link.partition('#')
                if re.match(r'\w+:', address):
                    self.assertIn(link, page.links, f'{path.name} loads it from elsewhere')
                    continue
                target = (path.parent / urllib.parse.unquote(address.partition('?')[0])).resolve() if address else path
                target = target / 'index.html' if target == self.site else target
                self.assertTrue(target.is_file() and target.is_relative_to(self.site), f'{path.name}: {link}')
                self.assertTrue(not part or urllib.parse.unquote(part) in self.pages[target].names, f'{path.name}: {link}')
                looked += 1
        self.assertGreater(looked, 5000)

    def test_nothing_in_it_is_against_its_policy_and_the_list_has_what_may_run(self):
        scripts = set()
        for path, page in self.pages.items():
            self.assertEqual(page.against, [], path.name)
            scripts |= set(page.scripts)
        hashes = {'sha256-' + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
        self.assertEqual(hashes, set((self.site / LIST).read_text(encoding='utf-8').split()))
        self.assertTrue(hashes)
        for path in self.files:
            if path.suffix == '.css':
                sheet = path.read_text(encoding='utf-8')
                self.assertNotIn('@import', sheet)
                self.assertEqual([url for url in re.findall(r'url\(["\']?([^)"\']*)', sheet) if not url.startswith('data:')], [])

    def test_every_file_is_served_as_it_is(self):
        types = {'.html': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml',
                 '.js': 'text/javascript; charset=utf-8', '.json': 'application/json', '.png': 'image/png',
                 '.gz': 'application/gzip'}
        for path in self.files:
            answer, body = self.ask(self.weir, '/docs/' + path.relative_to(self.site).as_posix())
            self.assertEqual((answer.status, body), (200, path.read_bytes()), path)
            self.assertEqual(answer.getheader('Content-Type'), types.get(path.suffix, 'text/plain; charset=utf-8'), path)
            self.assertEqual((answer.getheader('X-Content-Type-Options'), answer.getheader('Cache-Control')),
                             ('nosniff', 'max-age=600'))
            self.assertIsNone(answer.getheader('Content-Encoding'))
        policy = answer.getheader('Content-Security-Policy')
        for part in ("default-src 'none'", "script-src 'self' 'sha256-", "style-src 'self';", "frame-ancestors 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn('unsafe', policy)

    def test_who_takes_gzip_gets_it(self):
        page = (self.site / 'rules.html').read_bytes()
        for accepted, packed in (('gzip', True), ('br , GZIP', True), ('deflate,gzip', True), ('gzipped', False), ('gzip;q=0', False),
                                 ('', False), (',,', False), ('identity', False)):
            answer, body = self.ask(self.weir, '/docs/rules.html', Accept_Encoding=accepted)
            self.assertEqual(answer.getheader('Content-Encoding'), 'gzip' if packed else None, accepted)
            self.assertEqual(gzip.decompress(body) if packed else body, page)
            self.assertEqual(answer.getheader('Vary'), 'Accept-Encoding')
        self.assertIsNone(self.ask(self.weir, '/docs/img/dashboard.png', Accept_Encoding='gzip')[0].getheader('Content-Encoding'))

    def test_what_comes_after_it_is_not_kept(self):
        with connect(self.weir.http) as client:
            client.sendall(b''.join(b'GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n' % (path, more) for path, more in
                                    ((b'/docs/img/boundary-burst.svg', b''), (b'/healthz', b'Connection: close\r\n'))))
            self.assertEqual(re.findall(rb'Cache-Control: (.*)\r\n', read_all(client)), [b'max-age=600', b'no-store'])

    def test_it_begins_at_docs(self):
        answer, _ = self.ask(self.weir, '/docs')
        self.assertEqual((answer.status, answer.getheader('Location')), (308, '/docs/'))
        answer, body = self.ask(self.weir, '/docs/?q=gossip')
        self.assertEqual((answer.status, body), (200, (self.site / 'index.html').read_bytes()))
        answer, body = self.ask(self.weir, '/docs/', 'HEAD')
        self.assertEqual((answer.status, body, answer.getheader('Content-Length')),
                         (200, b'', str((self.site / 'index.html').stat().st_size)))
        for method in ('POST', 'PUT', 'DELETE', 'OPTIONS'):
            answer, _ = self.ask(self.weir, '/docs/index.html', method)
            self.assertEqual((answer.status, answer.getheader('Allow')), (405, 'GET, HEAD'))

    def test_a_path_is_a_name_and_nothing_else(self):
        self.assertEqual(self.ask(self.weir, '/docs/')[0].status, 200)
        (self.folder / 'beside.html').write_text('not ours', encoding='utf-8')
        for path in (b'../beside.html', b'./index.html', b'assets/../index.html', b'%2e%2e/beside.html', b'..%2fbeside.html',
                     b'%2e%2e%2fbeside.html', b'..\\beside.html', b'..;/beside.html', b'/index.html', b'//beside.html', b'index.html/',
                     b'index.html/.', b'index.html%00', b'index.html%00.css', b'Index.html', b'INDEX.HTML', b'index%2ehtml', b'indexhtml',
                     b'index', b'index.htm', b'assets', b'assets/', b'source/', b'.', b'..', b'%', b'%25', b'x' * 300, b'x' * 5000,
                     str(self.folder / 'beside.html').encode(), b'/etc/passwd', b'index.html.gz.gz', b'.gz'):
            with connect(self.weir.http) as client:
                client.sendall(b'GET /docs/' + path + b' HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n'
                               b'Connection: close\r\n\r\n')
                said = read_all(client)
                self.assertTrue(said.startswith(b'HTTP/1.1 404 '), (path, said[:60]))
        for path in ('/docsx', '/docs.html', '/DOCS/', '/docs%2f'):
            self.assertEqual(self.ask(self.weir, path)[0].status, 404, path)

    def test_links_from_other_sites_lead_to_it(self):
        link = {'Sec_Fetch_Site': 'cross-site', 'Sec_Fetch_Mode': 'navigate'}
        self.assertEqual(self.ask(self.weir, '/docs/rules.html', **link)[0].status, 200)
        self.assertEqual(self.ask(self.weir, '/docsx', **link)[0].status, 403)
        self.assertEqual(self.ask(self.weir, '/docs/', Host='rebound.example')[0].status, 403)

    def test_in_a_browser(self):
        """Nothing from elsewhere, nothing against the policy, no page wider than the screen; search, colours, pictures."""
        docs = f'http://127.0.0.1:{self.weir.http}/docs/'
        with Browser() as browser:
            for width in (1280, 360):
                browser.shape(width)
                browser.open(docs + '?q=gossip')
                browser.until('document.querySelectorAll(".md-search-result__item a[href*=\'sharing-gossip.html\']").length')
                for page in ('index', 'rules', 'http', 'semantics-tests', 'scenarios', 'source/index'):
                    browser.open(f'{docs}{page}.html')
                    self.assertLessEqual(browser.run('document.documentElement.scrollWidth'), width, page)
                    self.assertTrue(browser.run('[...document.images].every(image => image.naturalWidth > 0)'), page)
                    self.assertGreater(browser.run('document.querySelectorAll("article h1, article p").length'), 1, page)
                before = browser.run('document.body.dataset.mdColorScheme')
                browser.run('document.querySelector("label[for^=__palette]:not([hidden])").click()')
                browser.until(f'document.body.dataset.mdColorScheme != {before!r}')
                browser.open(f'{docs}index.html')  # which remembers it
                self.assertNotEqual(browser.run('document.body.dataset.mdColorScheme'), before)
            self.assertEqual(browser.complaints, [])
            elsewhere = [url for url in browser.asked if not url.startswith((docs, 'data:image/'))]
            self.assertEqual(elsewhere, [])
            self.assertGreater(len(set(browser.asked)), 15)


    def test_axe_finds_nothing(self):
        docs = f'http://127.0.0.1:{self.weir.http}/docs/'
        for width, dark in ((1280, False), (360, True)):
            with Browser(width, dark=dark) as browser:  # one that has chosen no colours yet
                for page in ('index', 'rules', 'http', 'dashboard', 'scenarios', 'labs'):
                    browser.open(f'{docs}{page}.html')
                    browser.until('!document.querySelector(".md-typeset table:not([class])") || document.querySelector(".md-typeset__scrollwrap[tabindex]")')
                    browser.until('!document.querySelector("article pre") || document.querySelector(".md-code__nav[role]")')
                    self.assertEqual(browser.axe(), [], (page, width))


class Strict(Case):
    def test_what_leads_nowhere_and_what_nothing_leads_to_is_not_built(self):
        shutil.copytree(ROOT / 'scripts/site', self.folder / 'scripts/site')
        config = self.folder / 'scripts/site/mkdocs.yml'
        config.write_text(config.read_text(encoding='utf-8').partition('nav:\n')[0] + 'nav: [index.md]\n', encoding='utf-8')
        for name in ('README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'):
            (self.folder / name).write_text(f'# {name}\n', encoding='utf-8')
        (self.folder / 'docs').mkdir()
        good = '# Begin\n\n[here](#begin) [out](../README.md) [folder](../scripts/site/) [file](../scripts/site/links.py)\n'
        for more, files, why in (('', (), None), ('[x](gone.md)', (), 'gone.md'), ('[x](../gone.c)', (), 'gone.c'),
                                 ('[x](#gone)', (), '#gone'), ('[x](../README.md#gone)', (), '#gone'), ('', ('alone.md',), 'alone.md')):
            with self.subTest(more=more, files=files):
                for name in files:
                    (self.folder / 'docs' / name).write_text('# Alone\n', encoding='utf-8')
                (self.folder / 'docs/index.md').write_text(good + more, encoding='utf-8')
                done = make_site(self.folder / 'made', self.folder)
                self.assertEqual(done.returncode, 1 if why else 0, done.stdout)
                self.assertIn(why or 'index.html', done.stdout)
                self.assertTrue((self.folder / 'made/source/scripts/site/links.py').exists())  # of the good one, which stays


class Folders(Case):
    """What lies beside weir is read with care."""

    def setUp(self):
        self.site = self.folder / 'site'
        self.site.mkdir()
        self.addCleanup(shutil.rmtree, self.site)
        (self.site / LIST).write_text(HASH, encoding='utf-8')
        (self.site / 'index.html').write_text('ours', encoding='utf-8')

    def served(self, *paths):
        with Weir(program=self.program) as weir:
            statuses = [self.ask(weir, '/docs/' + path)[0].status for path in paths]
            return weir.output(), statuses

    def test_without_it_docs_says_how_to_make_it(self):
        (self.site / LIST).unlink()  # so this folder is somebody else's
        with Weir(program=self.program) as weir:
            self.assertNotIn('/docs', weir.output())
            for path in ('/docs', '/docs/', '/docs/index.html'):
                answer, body = self.ask(weir, path)
                self.assertEqual((answer.status, answer.getheader('Content-Type')), (404, 'text/plain; charset=utf-8'))
                self.assertIn(b'make site', body)

    def test_links_and_what_is_no_file_are_passed_over(self):
        (self.folder / 'secret.html').write_text('not ours', encoding='utf-8')
        os.symlink(self.folder / 'secret.html', self.site / 'link.html')
        os.symlink('index.html', self.site / 'inside.html')
        os.symlink('/etc', self.site / 'etc')
        os.mkfifo(self.site / 'fifo.html')
        for name in ('.hidden.html', 'sp ace.html', 'per%cent.html', 'ä.html'):
            (self.site / name).write_text('no', encoding='utf-8')
        (self.site / '.git').mkdir()
        (self.site / '.git/config').write_text('no', encoding='utf-8')
        said, statuses = self.served('index.html', 'link.html', 'inside.html', 'etc/passwd', 'fifo.html', '.hidden.html', 'sp%20ace.html',
                                     'per%cent.html', '%C3%A4.html', '.git/config')
        self.assertIn('documentation at /docs/, from ', said)
        self.assertEqual(statuses, [200] + [404] * 9)

    def test_what_is_too_large_is_not_served_and_weir_starts(self):
        def deep():
            (self.site / 'a/b/c/d/e/f/g/h/i').mkdir(parents=True)

        def many():
            for number in range(1023):
                (self.site / f'{number}.txt').touch()

        def large():
            with (self.site / 'large.txt').open('wb') as file:
                file.truncate((32 << 20) + 1)

        def another_list():
            (self.site / LIST).write_text(HASH + "sha256-x'; script-src *\n", encoding='utf-8')

        def long_list():
            (self.site / LIST).write_text(HASH * 33, encoding='utf-8')

        def cut_list():
            (self.site / LIST).write_text(HASH.strip(), encoding='utf-8')

        def linked_list():
            os.rename(self.site / LIST, self.site / 'other.txt')
            os.symlink('other.txt', self.site / LIST)

        for make, why in ((deep, 'deeper than 8 folders'), (many, 'more than 1024 files'), (large, 'larger than 32 MiB'),
                          (another_list, 'no list of'), (long_list, 'no list of'), (cut_list, 'no list of'), (linked_list, 'is not there')):
            with self.subTest(make.__name__):
                self.doCleanups()
                self.setUp()
                make()
                said, statuses = self.served('index.html')
                self.assertRegex(said, rf'warning: no documentation at /docs: .*{why}')
                self.assertEqual(statuses, [404])

    def test_as_much_as_may_be_is_served(self):
        (self.site / 'a/b/c/d/e/f/g/h').mkdir(parents=True)
        (self.site / 'a/b/c/d/e/f/g/h/i.html').write_text('deep', encoding='utf-8')
        (self.site / LIST).write_text(HASH * 32, encoding='utf-8')
        for number in range(1021):
            (self.site / f'{number}.txt').touch()
        said, statuses = self.served('a/b/c/d/e/f/g/h/i.html', '1020.txt')
        self.assertIn('documentation at /docs/, from ', said)
        self.assertEqual(statuses, [200, 200])


if __name__ == '__main__':
    unittest.main()
