#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nginx with auth_request in front of a backend, loaded by wrk: what reaches the backend is what the limits allow."""
import collections
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from ports import free_port
from weir_server import FORWARDED_NGINX, Weir

HERE = pathlib.Path(__file__).resolve().parent
KEYS = 5
SECONDS, SECONDS_MAX = 4, 30
ATTEMPTS = 5
REFUSED_MIN = 100  # of each key
CONFIG_WINDOW = FORWARDED_NGINX + '''
limits:
  - { name: per-hour, algorithm: fixed_window, align: first, key: [user], rate: 100/hour }
'''
RATE, BURST = 10, 100  # which is not full again before a busy machine goes on
CONFIG_BUCKET = FORWARDED_NGINX + f'''
limits:
  - {{ name: per-second, key: [user], rate: {RATE}/s, burst: {BURST} }}
'''
CONFIG_CLOSED = FORWARDED_NGINX + '''
engine: { redis: { servers: ["127.0.0.1:1"] } }
limits:
  - { name: closed, key: [user], rate: 100/hour, on_failure: closed }
'''
Seen = collections.namedtuple('Seen', 'first_sent first_received refused_sent admitted refused other')


class Nginx:
    """nginx of Debian, front and backend, on free ports, with everything it writes in a folder of its own."""

    def __init__(self, weir_port, fail_open=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-nginx-'))
        self.front = free_port()
        text = (HERE / 'nginx.conf.in').read_text(encoding='utf-8')
        values = {'FOLDER': self.folder, 'WEIR': weir_port, 'FRONT': self.front, 'BACK': free_port(),
                  'OPEN': 'error_page 500 502 504 = /_weir_open;' if fail_open else ''}
        for name, value in values.items():
            text = text.replace(f'@{name}@', str(value))
        (self.folder / 'nginx.conf').write_text(text, encoding='utf-8')
        program = shutil.which('nginx') or '/usr/sbin/nginx'
        self.process = subprocess.Popen([program, '-p', str(self.folder), '-e', str(self.folder / 'error.log'), '-c',
                                         str(self.folder / 'nginx.conf')], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.errors()
            time.sleep(0.02)

    def answers(self):
        with socket.socket() as sock:
            return sock.connect_ex(('127.0.0.1', self.front)) == 0

    def errors(self):
        log = self.folder / 'error.log'
        return log.read_text(encoding='utf-8') if log.exists() else ''

    def admitted(self):
        """{key: requests that reached the backend}"""
        return collections.Counter((self.folder / 'backend.log').read_text(encoding='utf-8').split())

    def stop(self):
        """Lets the requests under way end, so that the log is whole; returns what it complained of."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.terminate()
                self.process.wait()
        return self.errors()


def load(port, seconds):
    """wrk for so long; {key: Seen}, and when it had ended."""
    output = subprocess.run(['wrk', '-t2', '-c16', f'-d{seconds}s', '--timeout', '60s', '-s', str(HERE / 'keys.lua'),
                             f'http://127.0.0.1:{port}', '--', str(KEYS)], capture_output=True, text=True, check=True,
                            timeout=seconds + 120).stdout
    ended_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    lines = [line.split() for line in output.splitlines() if line.startswith('key')]
    assert len(lines) == KEYS and 'errors 0\n' in output, output
    return {words[0]: Seen(*(int(word) for word in words[1:])) for words in lines}, ended_ns


class NginxInFront(unittest.TestCase):
    def start_and_load(self, config):
        """What `load` gives. All of it is begun anew where wrk itself crashes (its LuaJIT does now and then), and, for
        longer, where the machine was too busy for a load."""
        seconds = SECONDS
        for _ in range(ATTEMPTS):
            self.start(config)
            try:
                seen, ended_ns = load(self.nginx.front, seconds)
                if min(s.refused for s in seen.values()) > REFUSED_MIN:
                    return seen, ended_ns
                seconds = min(4 * seconds, SECONDS_MAX)
            except subprocess.CalledProcessError as error:
                if error.returncode != -signal.SIGSEGV:
                    raise
                print('wrk crashed')
            self.nginx.stop()
            self.stop_weir()
        self.fail('wrk crashes each time, or the load was no load')

    def start(self, config, **options):
        self.weir = Weir(config)
        self.addCleanup(self.stop_weir)
        self.nginx = Nginx(self.weir.http, **options)
        self.addCleanup(shutil.rmtree, self.nginx.folder)
        self.addCleanup(self.nginx.stop)

    def stop_weir(self):
        self.assertEqual(self.weir.stop(), 0)

    def finish(self, seen):
        """Ends nginx; {key: admitted}. No error was logged, and every answer was a 200, or a 429 with its headers."""
        self.assertEqual(self.nginx.stop(), '')
        self.assertEqual([key for key in seen if seen[key].other], [], seen)
        return self.nginx.admitted()

    def curl(self, key):
        command = ['curl', '-sS', '-i', '-H', f'X-Api-Key: {key}', f'http://127.0.0.1:{self.nginx.front}/']
        process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        head, _, body = process.stdout.partition('\n\n')
        lines = head.splitlines()
        fields = dict(line.split(': ', 1) for line in lines[1:])
        return int(lines[0].split()[1]), fields, body

    def test_fixed_window_admits_exactly_its_count(self):
        seen, _ = self.start_and_load(CONFIG_WINDOW)
        self.refused_answer('key0')
        self.assertEqual(self.finish(seen), {f'key{i}': 100 for i in range(KEYS)})
        self.assertEqual({s.admitted for s in seen.values()}, {100})

    def refused_answer(self, key):
        status, fields, body = self.curl(key)
        self.assertEqual((status, fields['Content-Type']), (429, 'application/problem+json'))
        self.assertIn('quota-exceeded', body)
        self.assertEqual(fields['RateLimit-Policy'], '"per-hour";q=100;w=3600')
        self.assertRegex(fields['RateLimit'], r'^"per-hour";r=0;t=\d+$')
        wait = int(fields['RateLimit'].rpartition('=')[2])
        self.assertTrue(3500 <= wait <= 3600, wait)
        self.assertGreaterEqual(int(fields['Retry-After']), wait)

    def test_token_bucket_admits_what_its_time_allows(self):
        seen, ended_ns = self.start_and_load(CONFIG_BUCKET)
        admitted = self.finish(seen)
        for key, s in seen.items():
            inner_ns = s.refused_sent - s.first_received
            outer_ns = ended_ns - s.first_sent
            least = BURST + RATE * inner_ns // 10**9 - 1
            most = BURST + RATE * outer_ns // 10**9
            with self.subTest(key=key):
                print(f'{key}: {least} <= {admitted[key]} <= {most}, {s.refused} refused')
                self.assertTrue(least <= admitted[key] <= most)

    def test_admitted_answer_carries_the_headers(self):
        self.start(CONFIG_WINDOW)
        status, fields, body = self.curl('once')
        self.assertEqual((status, body), (200, 'hello\n'))
        self.assertRegex(fields['RateLimit'], r'^"per-hour";r=99;t=3600$')
        self.assertNotIn('Retry-After', fields)
        self.finish({})

    def without_weir(self, **options):
        self.start(CONFIG_WINDOW, **options)
        self.assertEqual(self.curl('once')[0], 200)
        self.weir.process.terminate()
        self.weir.process.wait(60)
        status = self.curl('once')[0]
        self.nginx.stop()
        return status

    def test_without_weir_it_fails_closed(self):
        self.assertEqual(self.without_weir(), 500)

    def test_without_weir_it_fails_open_where_told_to(self):
        self.assertEqual(self.without_weir(fail_open=True), 200)

    def test_failing_open_opens_no_limit_that_is_closed_without_its_engine(self):
        self.start(CONFIG_CLOSED, fail_open=True)
        self.assertEqual(self.curl('once')[0], 500)
        self.nginx.stop()


if __name__ == '__main__':
    unittest.main()
