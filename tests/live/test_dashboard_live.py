#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /v1/live: rows as they come, to so many readers and no more, and to none that does not read."""
import contextlib
import http.client
import json
import re
import signal
import socket
import threading
import time
import unittest

from browser import Browser, visit
from redis_server import wait_for
from test_takeover import Chain
from weir_server import Resp, Weir, read_all, read_until

LIMITS = 'limits:\n  - { name: api, key: [user], rate: 5/day }\n'
SECRET = 'a-token-of-at-least-sixteen'
TOKENS = f'auth: {{ required: always, tokens: [ {{ name: view, secret: {SECRET}, rights: [metrics] }} ] }}\n'
STREAMS = 64


def ask(port, path, **fields):
    client = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    client.request('GET', path, headers={name.replace('_', '-'): value for name, value in fields.items()})
    answer = client.getresponse()
    body = answer.read()
    client.close()
    return answer, body


def metric(port, name):
    return int(re.search(rf'^{name} (\d+)$', ask(port, '/metrics')[1].decode(), re.M)[1])


class Stream:
    """A reader. Context manager."""

    def __init__(self, port, query='', token=None, receive=None, more=b''):
        self.socket = socket.socket()
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.settimeout(60)
        self.socket.connect(('127.0.0.1', port))
        shown = f'X-Weir-Token: {token}\r\n' if token else ''
        self.socket.sendall(f'GET /v1/live{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{shown}\r\n'.encode() + more)
        self.head = read_until(self.socket, b'\r\n\r\n')
        self.head, _, self.rest = self.head.partition(b'\r\n\r\n')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @property
    def status(self):
        return int(self.head.split()[1])

    def event(self):
        """The next one's lines as a dict; None at the end."""
        while b'\n\n' not in self.rest:
            piece = self.socket.recv(65536)
            if not piece:
                return None
            self.rest += piece
        text, _, self.rest = self.rest.partition(b'\n\n')
        return dict(line.split(': ', 1) for line in text.decode().split('\n'))

    def rest_of_it(self):
        """All events up to the end, which comes soon."""
        deadline, events = time.monotonic() + 60, []
        while (event := self.event()) is not None:
            events.append(event)
            assert time.monotonic() < deadline, 'it goes on and on'
        return events

    def rows(self, count):
        """The first so many that come, and when each event came."""
        found, times = [], []
        while len(found) < count:
            said = json.loads(self.event()['data'])
            times.append(time.monotonic())
            found += [dict(zip(said['hour']['columns'], row)) for row in said['hour']['rows']]
        return found, times


class Live(unittest.TestCase):
    def serve(self, config=LIMITS, **options):
        weir = Weir(config, **options)
        self.addCleanup(weir.stop)
        return weir

    def streams(self, weir):
        return metric(weir.http, 'weir_live_streams')

    def test_the_rows_are_those_of_the_hour(self):
        weir = self.serve()
        stop = threading.Event()

        def use():
            with Resp(weir.resp) as connection:
                while not stop.wait(0.01):
                    connection.ask('WEIR.CHECK', 1, 'user', 'ada')
        user = threading.Thread(target=use)
        user.start()
        self.addCleanup(user.join)
        self.addCleanup(stop.set)
        wait_for(lambda: json.loads(ask(weir.http, '/v1/hour')[1])['newest'] >= 3, 'no seconds go by')
        with Stream(weir.http, '?after=1') as old, Stream(weir.http) as new:
            self.assertIn(b'Content-Type: text/event-stream', old.head)
            self.assertIn(b'Cache-Control: no-store', old.head)
            self.assertNotIn(b'Content-Length', old.head)
            rows, times = old.rows(6)
            later, _ = new.rows(2)
        self.assertEqual([row['number'] for row in rows], list(range(2, 2 + len(rows))))
        self.assertGreater(later[0]['number'], 3, 'without `after` the old ones come, too')
        hour = json.loads(ask(weir.http, '/v1/hour?after=1')[1])
        told = [dict(zip(hour['columns'], row)) for row in hour['rows']]
        self.assertEqual(rows, told[:len(rows)])
        self.assertGreater(sum(row['refused'] for row in rows), 0)
        for first, third in zip(times, times[3:]):
            self.assertGreater(third - first, 0.9, 'more than two events in a second')

    def test_each_gets_the_rows_that_it_lacks(self):
        """Though all of a loop are served by one timer: one that is behind, and then one that is not."""
        weir = self.serve(threads=1)
        wait_for(lambda: json.loads(ask(weir.http, '/v1/hour')[1])['newest'] >= 7, 'no seconds go by')
        with Stream(weir.http, '?after=0') as old, Stream(weir.http, '?after=6') as new, Stream(weir.http, '?after=2') as third:
            for stream, first in ((old, 1), (new, 7), (third, 3)):
                rows, _ = stream.rows(9 - first)
                self.assertEqual([row['number'] for row in rows], list(range(first, first + len(rows))))

    def test_a_mark_changes_with_what_it_stands_for(self):
        weir = self.serve()
        with Stream(weir.http) as stream:
            def marks():
                return json.loads(stream.event()['data'])['marks']

            def settled():
                before = marks()
                while True:
                    now = marks()
                    if now == before and now['limits'] > 0:
                        return now
                    before = now
            first = settled()
            with Resp(weir.resp) as connection:
                for _ in range(6):
                    connection.ask('WEIR.CHECK', 1, 'user', 'ada')
            refused = settled()
            self.assertNotEqual(refused['state'], first['state'], 'a refusal is no news')
            self.assertEqual((refused['limits'], refused['nodes']), (first['limits'], first['nodes']))
        weir.process.send_signal(signal.SIGHUP)
        wait_for(lambda: json.loads(ask(weir.http, '/v1/limits')[1])['reloads']['done'] == 1, 'it was not reloaded')
        with Stream(weir.http) as stream:
            self.assertNotEqual(settled()['limits'], first['limits'], 'a reload is no news')

    def test_rights_and_other_sites(self):
        weir = self.serve(TOKENS + LIMITS)
        with Stream(weir.http) as stream:
            self.assertEqual(stream.status, 401)
        with Stream(weir.http, f'?token={SECRET}', SECRET) as stream:
            self.assertEqual(stream.status, 400, 'there is no token in an address')
        with Stream(weir.http, token=SECRET) as stream:
            self.assertEqual(stream.status, 200)
            self.assertIn('data', stream.event())
        for field in ({'Origin': 'http://evil.example'}, {'Sec_Fetch_Site': 'cross-site'}, {'Origin': 'null'}):
            self.assertEqual(ask(weir.http, '/v1/live', X_Weir_Token=SECRET, **field)[0].status, 403, field)
        client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
        client.request('HEAD', '/v1/live', headers={'X-Weir-Token': SECRET})
        self.assertEqual(client.getresponse().read(), b'')
        client.close()
        wait_for(lambda: 'weir_live_streams 0' in ask(weir.http, '/metrics', X_Weir_Token=SECRET)[1].decode(), 'HEAD began a stream')

    def test_a_token_that_is_taken_away_ends_its_stream(self):
        weir = self.serve(TOKENS + LIMITS)
        with Stream(weir.http, token=SECRET) as stream:
            stream.event()
            weir.config.write_text((TOKENS + LIMITS).replace(SECRET, 'another-token-of-sixteen'), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            events = stream.rest_of_it()
            self.assertEqual(events[-1]['event'], 'end')
        with Stream(weir.http, token=SECRET) as stream:
            self.assertEqual(stream.status, 401)

    def test_so_many_and_no_more(self):
        weir = self.serve()
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(Stream(weir.http)) for _ in range(STREAMS)]
            self.assertEqual({stream.status for stream in streams}, {200})
            with Stream(weir.http) as one_more:
                self.assertEqual(one_more.status, 503)
                self.assertIn(b'Retry-After:', one_more.head)
            self.assertEqual(self.streams(weir), STREAMS)
            text, _ = visit(f'http://127.0.0.1:{weir.http}/', '''
await shown("#state", "asks each second: too many streams");
await shown("#limits", "api");
return text_of("#state");
''')
            self.assertIn('too many streams', text)
            streams[0].socket.close()  # its end is noticed
            wait_for(lambda: self.streams(weir) == STREAMS - 1, 'the end of a reader is not noticed')
            with Stream(weir.http) as another:
                self.assertEqual(another.status, 200)
        wait_for(lambda: self.streams(weir) == 0, 'streams without a reader go on')

    def test_who_does_not_read_is_cut_off(self):
        names = [f'a-limit-with-a-name-that-takes-some-room-in-each-event-{i:03}' for i in range(63)]
        weir = self.serve('limits:\n' + ''.join(f'  - {{ name: {name}, rate: 1000000/s }}\n' for name in names))
        stop = threading.Event()

        def use():
            with Resp(weir.resp) as connection:
                while not stop.wait(0.05):
                    connection.ask('WEIR.CHECK', 1, 'user', 'ada')
        user = threading.Thread(target=use)
        user.start()
        self.addCleanup(user.join)
        self.addCleanup(stop.set)
        with Stream(weir.http) as reader, Stream(weir.http, receive=2048) as slow:
            wait_for(lambda: metric(weir.http, 'weir_live_streams') == 2, 'they did not begin')
            begun = time.monotonic()
            while metric(weir.http, 'weir_live_cut_total') == 0:
                reader.rows(1)
                self.assertLess(time.monotonic() - begun, 120, 'it is kept for ever')
                self.assertLess(metric(weir.http, 'weir_buffer_bytes'), 512 << 10, 'its bytes are kept without bound')
            wait_for(lambda: self.streams(weir) == 1, 'it is not gone')
            slow.socket.settimeout(60)
            left = len(read_all(slow.socket))
            self.assertLess(left, 256 << 10, 'the kernel kept more')
            reader.rows(2)
            wait_for(lambda: 'live_cut_begun' in weir.output(), 'the log does not say it')
            self.assertEqual(metric(weir.http, 'weir_live_cut_total'), 1)

    def test_what_comes_behind_it_is_not_answered(self):
        weir = self.serve()
        behind = b'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' * 3
        with Stream(weir.http, more=behind) as stream:
            self.assertEqual(stream.status, 200)
            stream.rows(2)
            with contextlib.suppress(OSError):  # no more is taken than a piece
                stream.socket.settimeout(0.5)
                for _ in range(400):
                    stream.socket.sendall(behind * 100)
                self.fail('whatever comes behind a stream is taken')
        self.assertEqual(metric(weir.http, r'weir_http_answers_total\{code="200"\}'), 1)

    def test_the_end_of_the_server_is_said(self):
        weir = self.serve()
        with Stream(weir.http) as stream:
            stream.event()
            begun = time.monotonic()
            self.assertEqual(weir.stop(), 0)
            self.assertLess(time.monotonic() - begun, 20, 'the server waits for a stream')
            events = stream.rest_of_it()
            self.assertEqual(events[-1]['event'], 'end')

    def test_a_successor_goes_on(self):
        with Chain(LIMITS) as chain:
            with Stream(chain.http) as stream:
                stream.rows(2)
                chain.take_over()
                events = stream.rest_of_it()
                self.assertEqual(events[-1].get('event'), 'end')
            with Stream(chain.http, '?after=100000') as stream:
                said = json.loads(stream.event()['data'])
                self.assertLess(said['hour']['newest'], 100000, 'that it is another process is not told')
                stream.rows(1)

    def test_the_page_goes_on_by_itself(self):
        """From stream to stream: over a reload, and over another process, whose rows begin anew."""
        with Chain(LIMITS) as chain:
            wait_for(lambda: json.loads(ask(chain.http, '/v1/hour')[1])['newest'] >= 4, 'no seconds go by')
            found = []

            def look():
                found.append(visit(f'http://127.0.0.1:{chain.http}/', '''
await shown("#state", /^live$/);
const before = await page.evaluate("after");
while (!await page.evaluate(`after > 0 && after < ${before}`))
  await page.waitForTimeout(100);
await shown("#state", /^live$/);
return [before, await page.evaluate("rows.length"), await page.evaluate("rows[rows.length - 1].number")];
'''))
            page = threading.Thread(target=look)
            page.start()
            wait_for(lambda: metric(chain.http, 'weir_live_streams') == 1, 'the page has no stream')
            chain.processes[0].send_signal(signal.SIGHUP)
            time.sleep(3)
            wait_for(lambda: metric(chain.http, 'weir_live_streams') == 1, 'the page has no stream after a reload')
            chain.take_over()
            page.join(120)
            [[before, count, newest], _] = found[0]
            self.assertLess(newest, before)
            self.assertEqual(count, newest, 'rows of two processes are in one chart')

    def test_the_page_goes_on_after_a_restart(self):
        """At the same address, an hour that begins anew; meanwhile it says that nobody answers."""
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        at_port = ('--http', f'127.0.0.1:{port}')
        with Browser() as browser:
            weir = Weir(LIMITS, arguments=at_port)
            self.assertEqual(weir.http, port)
            browser.open(f'http://127.0.0.1:{port}/')
            browser.until('document.getElementById("state").textContent === "live" && rows.length >= 3')
            weir.process.kill()  # no stream is ended in order
            weir.process.wait()
            browser.until('document.getElementById("state").className === "bad"')
            self.assertIn('does not answer', browser.run('document.getElementById("state").textContent'))
            self.assertTrue(browser.run('rows.length >= 3 && document.getElementById("shown").checkVisibility()'), 'what it had is gone')
            weir.stop()
            self.serve(arguments=at_port)
            browser.until('document.getElementById("state").textContent === "live" && rows[0]?.number === 1 && rows.length === after')
            self.assertEqual([one for one in browser.complaints if 'ERR_' not in one], [])


if __name__ == '__main__':
    unittest.main()
