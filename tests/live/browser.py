# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, driven through two pipes (the DevTools protocol): what a page asks for, what its console says, what
it looks like."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from test_web_page import BROWSER_TIMEOUT_S, FLAGS


class Browser:
    """One page. `asked` are the addresses that were asked for, `said` what the console has."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-browser-', ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        # It hears at descriptor 3 and speaks at 4; the shell puts them there.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ['bash', '-c', script, 'browser', shutil.which('chromium') or 'chromium', *FLAGS, '--remote-debugging-pipe',
             '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', f'--user-data-dir={self.folder.name}', 'about:blank'],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.unread, self.asked, self.said, self.loads = 0, b'', [], [], 0
        self.session = None
        target = next(one for one in self.ask('Target.getTargets')['targetInfos'] if one['type'] == 'page')
        self.session = self.ask('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Network', 'Runtime', 'Log'):
            self.ask(f'{domain}.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.folder.cleanup()

    def hear(self, until):
        """One message, or None when it is late."""
        while b'\0' not in self.unread:
            if not select.select([self.into], [], [], max(0, until - time.monotonic()))[0]:
                return None
            part = os.read(self.into, 1 << 20)
            assert part, 'the browser has ended'
            self.unread += part
        message, _, self.unread = self.unread.partition(b'\0')
        said = json.loads(message)
        method, what = said.get('method'), said.get('params', {})
        if method == 'Network.requestWillBeSent':
            self.asked.append(what['request']['url'])
        elif method == 'Log.entryAdded':
            self.said.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
        elif method == 'Runtime.consoleAPICalled':
            self.said.append(' '.join(str(one.get('value')) for one in what['args']))
        elif method == 'Runtime.exceptionThrown':
            self.said.append(str(what['exceptionDetails']))
        elif method == 'Page.loadEventFired':
            self.loads += 1
        return said

    def ask(self, method, **params):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        until = time.monotonic() + BROWSER_TIMEOUT_S
        while (said := self.hear(until)) is not None:
            if said.get('id') == self.number:
                assert 'error' not in said, said
                return said['result']
        raise AssertionError(f'{method}: no answer')

    def open(self, url, width=1280, height=900):
        """`url` once it is loaded, on a screen of that size."""
        self.ask('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        loads = self.loads
        self.ask('Page.navigate', url=url)
        until = time.monotonic() + BROWSER_TIMEOUT_S
        while self.loads == loads:
            assert self.hear(until) is not None, f'{url} is not loaded'

    def run(self, script):
        """What JavaScript in the page says; a policy of the page does not hinder it."""
        done = self.ask('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in done, done
        return done['result'].get('value')

    def wait(self, script):
        """Until it is true."""
        until = time.monotonic() + BROWSER_TIMEOUT_S
        while not (value := self.run(script)):
            assert time.monotonic() < until, f'never true: {script}'
            self.hear(time.monotonic() + 0.05)
        return value

    def picture(self, path):
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.ask('Page.captureScreenshot')['data']))
