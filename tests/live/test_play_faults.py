#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated beside observed while the server goes away or stands still, and with tokens that are none: the page says what is so, shows
what had come, and can be used again."""
import re
import signal
import time
import unittest

from pages_case import PagesCase
from test_play_observed import TOKENS
from weir_server import Weir

LIMITS = 'limits:\n  - { name: bucket, match: { kind: bucket }, key: [user], rate: 10/hour }\n'
WRONG = 'document.getElementById("beside-wrong").textContent'
RUNS = 'document.getElementById("beside-run").textContent === "Stop"'
ENDED = 'document.getElementById("beside-run").textContent === "Run"'


class Faults(PagesCase):
    def tearDown(self):
        self.browser.do('')
        self.browser.complaints[:] = [one for one in self.browser.complaints if not one.startswith('Failed to load resource')]
        super().tearDown()

    def open(self, config=LIMITS, ready='document.getElementById("beside-says").textContent'):
        weir = Weir(config)
        self.addCleanup(weir.stop)
        own = f'http://127.0.0.1:{weir.http}/'
        self.may_ask = {own}
        self.show(own + 'play#observed?limit=bucket&pattern=steady&rate=10&duration=8', ready)
        return weir

    def begin(self):
        self.browser.until('!document.getElementById("beside-run").disabled')
        self.browser.run('document.getElementById("beside-run").click()')
        self.browser.until(f'{RUNS} && /^[2-9]/.test(document.getElementById("beside-went").textContent)')

    def test_a_server_that_goes_away(self):
        weir = self.open()
        self.begin()
        weir.process.kill()
        weir.process.wait()
        self.browser.until(ENDED)
        self.assertRegex(self.browser.run(WRONG), '^this server does not answer: ')
        rows = [row[2] for row in self.table('beside-rows')]
        self.assertIn('admitted', rows)
        self.assertTrue(any(said.startswith('no answer: this server does not answer') for said in rows), rows)
        self.browser.run('document.getElementById("beside-run").click()')
        self.browser.until(f'{ENDED} && {WRONG}.startsWith("this server does not answer")')

    def test_a_server_that_stands_still(self):
        weir = self.open()
        self.begin()
        weir.process.send_signal(signal.SIGSTOP)
        try:
            self.browser.until(ENDED, 90)
            self.assertEqual(self.browser.run(WRONG), 'this server does not answer: nothing came for 10 s')
        finally:
            weir.process.send_signal(signal.SIGCONT)
        self.begin()
        self.assertEqual(self.browser.run(WRONG), '')

    def test_what_is_no_token_is_called_so(self):
        weir = self.open(TOKENS + LIMITS, 'document.getElementById("beside-ask").checkVisibility()')
        give = '''await page.fill("#beside-token", args); await page.keyboard.press("Enter");'''
        self.browser.do(give, '“the-page-of-the-tests”')
        self.browser.until(f'{WRONG}.includes("printable ASCII")')
        for number in range(40):
            answer, _ = self.ask('/v1/hour', port=weir.http, X_Weir_Token=f'wrong-token-number-{number}')
            if answer.status == 429:
                break
        self.browser.do(give, 'yet-another-wrong-token')
        self.browser.until(f'{WRONG}.includes("too many wrong tokens")')
        again_s = int(re.search(r'; try again in (\d+) s$', self.browser.run(WRONG))[1])
        self.assertTrue(self.browser.run('document.getElementById("beside-ask").checkVisibility()'), 'no other can be given')
        time.sleep(again_s)
        self.browser.do(give, 'the-page-of-the-tests')
        self.browser.until('document.getElementById("beside-says").textContent')
        self.assertEqual(self.browser.run(WRONG), '')


if __name__ == '__main__':
    unittest.main()
