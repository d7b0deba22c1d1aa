# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, driven by playwright-core (browser.mjs), as people use it. The one way in which a test opens a page.

Whatever the browser complains of is kept (`complaints`), and each address that it asks (`asked`), and the bytes that
came (`received`). No other host can be reached, and axe-core looks for what keeps people out."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from node_packages import install_node_packages

HERE = pathlib.Path(__file__).resolve().parent
BROWSER_TIMEOUT_S = 400
FLAGS = ('--disable-gpu', '--disable-quic', '--no-first-run', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
         '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1')


class Browser:
    """A context manager; one page in it, blank at first. Of a flag that is given twice, the last one counts."""

    def __init__(self, width=1280, height=900, dark=False, flags=()):
        install_node_packages()
        self.complaints, self.asked, self.received, self.rest = [], [], 0, b''
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(['node', 'browser.mjs'], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        start_new_session=True)
        self.say({'executable': shutil.which('chromium') or 'chromium', 'flags': [*FLAGS, *flags], 'width': width, 'height': height,
                  'dark': dark})
        try:
            self.do('')
        except BaseException:
            self.close()
            raise

    def do(self, script, args=None):
        """What the body of an async function returns. It has `page` (Playwright's) and what browser.mjs names beside it."""
        self.say({'script': script, 'args': args})
        answer = self.hear()
        self.complaints += answer['said']
        self.asked += answer['asked']
        self.received += answer['received']
        if 'error' in answer:
            raise AssertionError(f'{answer["error"]}\n{self.complaints}')
        return answer['result']

    def say(self, line):
        self.process.stdin.write(json.dumps(line).encode() + b'\n')
        self.process.stdin.flush()

    def hear(self):
        deadline = time.monotonic() + BROWSER_TIMEOUT_S
        while b'\n' not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError('the browser does not answer')
            more = os.read(self.process.stdout.fileno(), 1 << 20)
            if not more:
                self.log.seek(0)
                raise AssertionError(f'the browser has ended:\n{self.log.read().decode(errors="replace")[-2000:]}')
            self.rest += more
        line, _, self.rest = self.rest.partition(b'\n')
        return json.loads(line)

    def shape(self, width, height=900, dark=False):
        self.do('await page.setViewportSize(args.size); await page.emulateMedia({colorScheme: args.colours});',
                {'size': {'width': width, 'height': height}, 'colours': 'dark' if dark else 'light'})

    def open(self, address):
        self.do('await page.goto(args);', address)

    def run(self, expression):
        """Its value in the page; it may be a promise."""
        return self.do('return page.evaluate(args);', expression)

    def until(self, expression, timeout_s=30):
        self.do('await until(...args);', [expression, timeout_s])

    def press(self, key):
        self.do('await page.keyboard.press(args);', key)

    def axe(self):
        """[[rule, places]] of what is against it."""
        return self.do('return axe();')

    def picture(self, path, whole=True):
        self.do('await page.screenshot(args);', {'path': str(path), 'fullPage': whole})

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def visit(url, script, args=None, elsewhere=False, **options):
    """(what the script returns, what the browser complained of), of a browser of its own; the page may ask its own server alone."""
    with Browser(**options) as browser:
        browser.open(url)
        result = browser.do(script, args)
        own = re.match(r'\w+://[^/]*/', url)[0]
        others = [one for one in browser.asked if not one.startswith((own, 'data:', 'about:'))]
        assert elsewhere or not others, others
        return result, browser.complaints
