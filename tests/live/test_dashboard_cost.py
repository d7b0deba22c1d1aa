#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What dashboards cost the server, measured by getrusage (process_cpu_seconds_total) and printed: the target is 1 % of a core
for one and 3 % for twenty (issue: the dashboard). Asserted is only what no busy machine changes: how often they ask."""
import asyncio
import gzip
import json
import os
import re
import tempfile
import threading
import time
import unittest

from browser import visit
from test_dashboard_live import ask
from weir_server import Resp, Weir

SECONDS = 60 if os.environ.get('WEIR_TEST_EFFORT') == 'soak' else 4
LIMITS = 'top: { keys: text }\nlimits:\n' + ''.join(f'  - {{ name: limit-{i}, key: [user], rate: 100/min, burst: 20 }}\n'
                                                     for i in range(20))
# What beat.js asks for when a mark changes, and how often at most and at least.
PARTS = {'limits': ['/v1/limits'], 'nodes': ['/v1/nodes'], 'state': ['/v1/state', '/v1/top?n=20']}
PART_EVERY_S, PART_ALL_S = 2, 15


def cpu_s(weir):
    return float(re.search(r'^process_cpu_seconds_total ([\d.]+)$', ask(weir.http, '/metrics')[1].decode(), re.M)[1])


class Reader:
    """Asks as the page does, without drawing."""

    def __init__(self, port):
        self.port, self.asked, self.events = port, 0, 0

    async def ask(self, path):
        self.writer.write(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.encode())
        head = await self.reader.readuntil(b'\r\n\r\n')
        self.asked += 1
        return await self.reader.readexactly(int(re.search(rb'Content-Length: (\d+)', head)[1]))

    async def run(self, stop):
        self.reader, self.writer = await asyncio.open_connection('127.0.0.1', self.port, limit=1 << 22)
        stream, asks = await asyncio.open_connection('127.0.0.1', self.port, limit=1 << 22)
        asks.write(b'GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
        await stream.readuntil(b'\r\n\r\n')
        marks, asked = {}, {}
        while not stop.is_set():
            said = json.loads((await stream.readuntil(b'\n\n')).split(b'data: ', 1)[1])['marks']
            self.events += 1
            for name, paths in PARTS.items():
                age = time.monotonic() - asked.get(name, -PART_ALL_S)
                if age >= PART_ALL_S or (age >= PART_EVERY_S and said[name] != marks.get(name)):
                    asked[name], marks[name] = time.monotonic(), said[name]
                    for path in paths:
                        await self.ask(path)
        for writer in (asks, self.writer):
            writer.close()


class Cost(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-dashboard-')
        self.addCleanup(folder.cleanup)
        self.weir = Weir(LIMITS, arguments=('--locks', f'{folder.name}/locks.db'))
        self.addCleanup(self.weir.stop)
        stop = threading.Event()

        def use():
            """Some traffic, so that there is something to tell."""
            with Resp(self.weir.resp) as connection:
                while not stop.wait(0.02):
                    for user in ('ada', 'bob', 'carl'):
                        connection.ask('WEIR.CHECK', 1, 'user', user)
        user = threading.Thread(target=use)
        user.start()
        self.addCleanup(user.join)
        self.addCleanup(stop.set)

    async def measure(self, count):
        """Percent of a core while so many read."""
        stop, readers = asyncio.Event(), [Reader(self.weir.http) for _ in range(count)]
        tasks = [asyncio.create_task(reader.run(stop)) for reader in readers]
        await asyncio.sleep(3)  # what is read once
        before, begun, counted = cpu_s(self.weir), time.monotonic(), [(one.asked, one.events) for one in readers]
        await asyncio.sleep(SECONDS)
        took = time.monotonic() - begun
        percent = 100 * (cpu_s(self.weir) - before) / took
        for reader, (asked, events) in zip(readers, counted):
            self.assertLessEqual(reader.events - events, 2 * took + 2, 'more than two events in a second')
            self.assertLessEqual(reader.asked - asked, 2 * took + 8, 'it asks more than the page may')
        stop.set()
        await asyncio.gather(*tasks)
        return percent

    def test_one_and_twenty(self):
        base = asyncio.run(self.measure(0))
        for count, most in ((1, 1), (20, 3)):
            percent = asyncio.run(self.measure(count)) - base
            print(f'{count} dashboards: {percent:.2f} % of a core')
            self.assertLessEqual(percent, most)  # of processor time: a slow machine does not raise it

    def test_the_page_itself(self):
        """The readers above ask no less than it does; and what it costs to load it."""
        used = []

        def look():
            _, said = visit(f'http://127.0.0.1:{self.weir.http}/', f'''
await shown("#state", "live");
await page.waitForTimeout({SECONDS * 1000});
''')
            used.extend(said)
        before, begun = cpu_s(self.weir), time.monotonic()
        asyncio.run(asyncio.sleep(SECONDS))
        base = (cpu_s(self.weir) - before) / (time.monotonic() - begun)
        page = threading.Thread(target=look)
        page.start()
        asked = self.requests()
        before, begun = cpu_s(self.weir), time.monotonic()
        page.join()
        took = time.monotonic() - begun
        print(f'a page in Chromium, loading included: {100 * ((cpu_s(self.weir) - before) / took - base):.2f} % of a core')
        self.assertLessEqual(self.requests() - asked, 2 * took + 20)
        self.assertEqual(used, [])

    def requests(self):
        return int(re.search(r'^weir_requests_total\{protocol="http"\} (\d+)$', ask(self.weir.http, '/metrics')[1].decode(), re.M)[1])

    def test_it_is_small(self):
        sizes = [len(gzip.compress(ask(self.weir.http, path)[1])) for path in ('/', '/page.css', '/page.js')]
        print(f'the page: {sum(sizes)} bytes, compressed')
        self.assertLess(sum(sizes), 300000)
        self.assertLess(sum(len(ask(self.weir.http, path)[1]) for path in ('/', '/page.css', '/page.js')), 300000, 'as it is sent')


if __name__ == '__main__':
    unittest.main()
