#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a server that decides 10,000 times in a second: each second of it is drawn, with all that was decided in it. For 60 s
in a soak. How much was really asked it prints: a busy machine may ask less, and no second is left out for that."""
import os
import re
import threading
import time
import unittest

from browser import Browser
from test_dashboard_live import ask
from weir_server import Resp, Weir, resp_encode

SECONDS = 60 if os.environ.get('WEIR_TEST_EFFORT') == 'soak' else 6
A_SECOND, BATCHES = 10000, 20
LIMITS = 'limits:\n  - { name: api, key: [user], rate: 100/s }\n  - { name: tried, key: [user], rate: 10/s, mode: shadow }\n'
# What the chart, its table and the page itself have of the seconds; and which of them stood at the end of a chart, one after the other.
LOOK = '''
await shown("#state", "live");
await page.locator("input[name=span]").first().check();
await page.locator("#rate-table").evaluate(one => { one.closest("details").open = true; });
await page.evaluate(() => {
  window.ends = new Set();
  new MutationObserver(() => window.ends.add(rows[rows.length - 1].number)).observe(document.getElementById("rate"), {childList: true});
});
const first = await page.evaluate("rows.length > 0 ? rows[rows.length - 1].number : 0");
await page.waitForFunction(last => rows[rows.length - 1].number >= last, first + args, {timeout: 300000, polling: 200});
return page.evaluate(first => ({
  first,
  rows: rows.map(row => [row.number, row.span_ms, row.requests]),
  ends: [...window.ends].filter(one => one > first),
  points: document.querySelector("#rate polyline").getAttribute("points").split(" ").length,
  table: [...document.querySelectorAll("#rate-table tbody tr")].map(row => row.cells[1].textContent),
}), first);
'''


class Asking(threading.Thread):
    """Asks all the time, `A_SECOND` in a second or as many as can be."""

    def __init__(self, port):
        super().__init__()
        self.connection, self.ended = Resp(port), threading.Event()
        self.batch = b''.join(resp_encode('WEIR.CHECK', 1, 'user', f'user-{i % 50}') for i in range(A_SECOND // BATCHES))

    def run(self):
        reader = threading.Thread(target=self.read)
        reader.start()
        begun, sent = time.monotonic(), 0
        while not self.ended.is_set():
            self.connection.send(self.batch)
            sent += 1
            time.sleep(max(0, begun + sent / BATCHES - time.monotonic()))
        self.connection.socket.shutdown(1)
        reader.join()
        self.connection.__exit__()

    def read(self):
        while self.connection.socket.recv(1 << 20):
            pass


class Busy(unittest.TestCase):
    def test_no_second_is_left_out(self):
        with Weir(LIMITS) as weir, Browser() as browser:
            asking = Asking(weir.resp)
            asking.start()
            try:
                browser.open(f'http://127.0.0.1:{weir.http}/')
                found = browser.do(LOOK, SECONDS)
            finally:
                asking.ended.set()
                asking.join()
            self.assertEqual(browser.complaints, [])
            rows = found['rows']
            self.assertEqual([row[0] for row in rows], list(range(1, len(rows) + 1)), 'a second is missing')
            self.assertGreaterEqual(rows[-1][0] - found['first'], SECONDS)
            self.assertEqual(found['points'], min(60, len(rows)), 'one is not drawn')
            self.assertEqual(len(found['table']), min(60, len(rows)))
            seen = rows[found['first']:]
            rate = sum(row[2] for row in seen) / sum(row[1] for row in seen) * 1000
            print(f'\n{len(seen)} s of {rate:,.0f} requests a second: {len(found["ends"])} of them were drawn one by one')
            # What the page has is what was counted, to the last one.
            text = ask(weir.http, '/metrics')[1].decode()
            counted = sum(int(value) for value in re.findall(r'^weir_decisions_total\{.*\} (\d+)$', text, re.M))
            self.assertGreater(counted, 0)
            browser.until(f'rows.reduce((sum, row) => sum + row.admitted + row.refused + row.shadow_refused, 0) === {counted}')


if __name__ == '__main__':
    unittest.main()
