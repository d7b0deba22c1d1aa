# SPDX-License-Identifier: Apache-2.0
"""A page in Debian's Chromium, driven over its DevTools protocol: by two pipes, so nothing is needed but Chromium.

Whatever the browser complains of is kept (`complaints`), and each address that it asks (`asked`). No other host can be
reached."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from test_web_page import BROWSER_TIMEOUT_S, FLAGS


class Browser:
    """A context manager; one page in it, blank at first."""

    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-browser-', ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        self.log = open(pathlib.Path(self.folder.name, 'log'), 'wb')
        # The browser reads from 3 and writes to 4; our ends may have those numbers, so they go by way of 98 and 99.
        os.dup2(to_read, 98)
        os.dup2(back_write, 99)
        script = 'exec 3<&98 4>&99 98<&- 99>&-; exec "$0" "$@"'
        self.process = subprocess.Popen(
            ['bash', '-c', script, shutil.which('chromium') or 'chromium', *FLAGS, f'--user-data-dir={self.folder.name}/profile',
             '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', '--remote-debugging-pipe', '--hide-scrollbars', 'about:blank'],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(98, 99), start_new_session=True)
        for end in (to_read, back_write, 98, 99):
            os.close(end)
        self.number, self.rest, self.answers, self.session = 0, b'', {}, None
        self.complaints, self.asked, self.loaded, self.received = [], [], 0, 0
        target = next(one for one in self.ask('Target.getTargets')['targetInfos'] if one['type'] == 'page')
        self.session = self.ask('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.ask(f'{domain}.enable')
        self.shape(width, height, dark)

    def shape(self, width, height=900, dark=False):
        self.ask('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    # ---- the protocol ----

    def ask(self, method, **arguments):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': arguments}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to, json.dumps(message).encode() + b'\0')
        number, deadline = self.number, time.monotonic() + BROWSER_TIMEOUT_S
        while number not in self.answers:
            if time.monotonic() > deadline:
                raise AssertionError(f'{method}: the browser does not answer')
            self.hear()
        answer = self.answers.pop(number)
        if 'error' in answer:
            raise AssertionError(f'{method}: {answer["error"]}')
        return answer['result']

    def hear(self):
        """What it says next."""
        if not select.select([self.back], [], [], BROWSER_TIMEOUT_S)[0]:
            raise AssertionError('the browser says nothing')
        more = os.read(self.back, 1 << 20)
        if not more:
            raise AssertionError(f'the browser has ended:\n{pathlib.Path(self.folder.name, "log").read_text(errors="replace")[-2000:]}')
        *messages, self.rest = (self.rest + more).split(b'\0')
        for message in map(json.loads, messages):
            if 'id' in message:
                self.answers[message['id']] = message
            else:
                self.note(message['method'], message['params'])

    def note(self, method, said):
        if method == 'Runtime.exceptionThrown':
            self.complaints.append(said['exceptionDetails'].get('exception', {}).get('description') or said['exceptionDetails']['text'])
        elif method == 'Runtime.consoleAPICalled' and said['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(' '.join(str(one.get('value', one.get('description'))) for one in said['args']))
        elif method == 'Log.entryAdded' and said['entry']['level'] in ('error', 'warning'):
            self.complaints.append(f'{said["entry"]["text"]} {said["entry"].get("url", "")}')
        elif method == 'Network.requestWillBeSent':
            self.asked.append(said['request']['url'])
        elif method == 'Network.loadingFinished':
            self.received += said['encodedDataLength']
        elif method == 'Page.loadEventFired':
            self.loaded += 1

    # ---- the page ----

    def open(self, address):
        before = self.loaded
        self.ask('Page.navigate', url=address)
        while self.loaded == before:
            self.hear()

    def run(self, script):
        """The value of an expression, which may be a promise."""
        answer = self.ask('Runtime.evaluate', expression=script, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in answer:
            raise AssertionError(f'{script}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def holds(self, script):
        """Whether it is true; not while the page gives way to another."""
        try:
            return self.run(f'!!({script})')
        except AssertionError as error:
            if 'navigated' in str(error) or 'context' in str(error):
                return False
            raise

    def until(self, script, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while not self.holds(script):
            if time.monotonic() > deadline:
                raise AssertionError(f'not within {timeout_s} s: {script}\n{self.complaints}')
            time.sleep(0.05)

    def picture(self, path, whole=True):
        data = self.ask('Page.captureScreenshot', format='png', captureBeyondViewport=whole)['data']
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        try:
            os.write(self.to, json.dumps({'id': 0, 'method': 'Browser.close'}).encode() + b'\0')
            self.process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.log.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
