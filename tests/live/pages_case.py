# SPDX-License-Identifier: Apache-2.0
"""What the tests of /play and /learn have in common: a server and a browser, one each for a class, in which nothing is complained
of and nobody else is asked; and the pages as files."""
import contextlib
import functools
import gzip
import http.client
import http.server
import json
import pathlib
import subprocess
import tempfile
import threading
import unittest

from browser import Browser
from weir_server import BUILD, ROOT, Weir

RECEIVED_MAX = 300_000
TYPES = {'': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
         '.wasm': 'application/wasm'}
LINK = {'Sec_Fetch_Site': 'cross-site', 'Sec_Fetch_Mode': 'navigate'}  # what comes with a click on another site's page
CELLS = '''(id => [...document.querySelectorAll(`#${id} tbody tr`)].map(row => [...row.cells].map(cell => cell.innerText)))'''


class PagesCase(unittest.TestCase):
    config = None  # the example's limits

    @classmethod
    def setUpClass(cls):
        if not (BUILD / 'play/play.wasm').exists():
            raise unittest.SkipTest('built without WebAssembly')
        cls.weir = cls.enterClassContext(Weir(cls.config))
        cls.own = f'http://127.0.0.1:{cls.weir.http}/'
        cls.browser = cls.enterClassContext(Browser())

    def setUp(self):
        self.browser.open('about:blank')
        self.browser.shape(1280)
        self.browser.complaints.clear()
        self.browser.asked.clear()
        self.may_ask = {self.own}

    def tearDown(self):
        self.browser.do('')  # what it has said by now
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual([one for one in self.browser.asked if not one.startswith((*self.may_ask, 'data:,', 'about:blank'))], [])

    def ask(self, path, method='GET', body=None, port=None, **fields):
        client = http.client.HTTPConnection('127.0.0.1', port or self.weir.http, timeout=60)
        client.request(method, path, body, {name.replace('_', '-'): value for name, value in fields.items()})
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer, body

    def show(self, address, ready='true'):
        """A fresh page, with nothing of the one before."""
        self.browser.open('about:blank')
        self.browser.open(address)
        self.browser.until(f'document.body?.dataset.ready === "yes" && ({ready})')

    def table(self, name):
        return self.browser.run(f'{CELLS}({json.dumps(name)})')

    def looks_cold(self, page, *paths):
        """Opens a page in a browser that has nothing of it: what it loads is that, as it comes is small, and packed for who takes it so.
        Returns the policy of all of it."""
        policies = set()
        with Browser() as fresh:
            fresh.open(self.own + page)
            fresh.until('document.body?.dataset.ready === "yes"')
            self.assertEqual(sorted(one.removeprefix(self.own) for one in fresh.asked if one.startswith('http')), sorted((page, *paths)))
            print(f'\n/{page} and what it loads: {fresh.received:,} bytes')
            self.assertLess(fresh.received, RECEIVED_MAX)
            self.assertEqual(fresh.complaints, [])
        for path in (page, *paths):
            answer, body = self.ask('/' + path)
            self.assertEqual((answer.status, answer.getheader('Content-Type')), (200, TYPES[pathlib.Path(path).suffix]))
            self.assertNotRegex(body, rb'(?i)https?://(?!www\.w3\.org/)', 'it names another host')
            self.assertEqual((answer.getheader('Content-Encoding'), answer.getheader('Vary')), (None, 'Accept-Encoding'))
            policies.add(answer.getheader('Content-Security-Policy'))
            packed, small = self.ask('/' + path, Accept_Encoding='gzip, br')
            self.assertEqual((packed.getheader('Content-Encoding'), packed.getheader('Vary')), ('gzip', 'Accept-Encoding'))
            self.assertEqual(gzip.decompress(small), body)
            self.assertLess(len(small), len(body))
        self.assertEqual(len(policies), 1)
        return policies.pop()

    def axe_finds_nothing(self, width):
        self.browser.run('document.querySelectorAll("details").forEach(one => { one.open = true })')
        self.assertEqual(self.browser.axe(), [])
        self.assertLessEqual(self.browser.run('document.scrollingElement.scrollWidth'), width)

    def files(self):
        """The folder that `make playground` makes."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        subprocess.run(['python3', ROOT / 'play/bundle.py', '--wasm', BUILD / 'play/play.wasm', '--folder', folder], check=True,
                       stdout=subprocess.DEVNULL)
        return pathlib.Path(folder)

    def alone(self, name):
        """The address of one of these files, with none of the others beside it; it may ask for nothing but itself."""
        folder = self.files()
        alone = folder / 'alone'
        alone.mkdir()
        (folder / name).rename(alone / name)
        self.may_ask = {f'file://{alone}/{name}'}
        return f'file://{alone}/{name}'

    @contextlib.contextmanager
    def other_server(self):
        """The address of these files at a web server that is no weir, which alone may be asked."""
        handler = functools.partial(Quiet, directory=self.files())
        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.may_ask = {f'http://127.0.0.1:{server.server_address[1]}/'}
            try:
                yield next(iter(self.may_ask))
            finally:
                self.browser.do('await page.goto("about:blank");')
                server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
