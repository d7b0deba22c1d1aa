#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir top in a terminal: what it shows in 80 columns and 24 rows, that it follows the terminal's size, says so when the
server is away and goes on, and gives the terminal back however it ends. The picture in docs/top.md is made here:
`test_top_terminal.py --write` writes it, and the test says when it is not what weir shows."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from ports import free_port
from terminal import Terminal
from weir_server import BUILD, ROOT, Resp, Weir

PAGE = ROOT / 'docs' / 'top.md'
BEGIN, END = '<!-- the picture: tests/live/test_top_terminal.py -->\n```text\n', '```\n'
CONFIG = '''top: { keys: text }
limits:
  - { name: api-per-user, match: { route: /api/* }, key: [user], rate: 100/day, burst: 20 }
  - { name: login, match: { route: /login }, key: [ip], rate: 5/day }
  - { name: uploads, match: { route: /upload }, key: [user], rate: 10/day, mode: shadow }
'''
HOSTILE = '\x1b[2J\u202e\u4e2d\u6587'
WEIR = str(BUILD / 'weir')


def ask(weir, times, **attributes):
    words = [word for pair in attributes.items() for word in pair]
    with Resp(weir.resp) as resp:
        for _ in range(times):
            resp.ask('WEIR.CHECK', 1, *words)


def load(weir):
    ask(weir, 320, route='/api/x', user='ada')
    ask(weir, 50, route='/api/y', user='bob')
    ask(weir, 40, route='/login', ip='192.0.2.7')
    ask(weir, 12, route='/upload', user='eve')
    ask(weir, 3, route='/api/x', user='eve')


def settled(text):
    """All is told, and nothing moves: the same for every run."""
    rows = text.splitlines()
    return ('ada' in text and 'bob' in text and '192.0.2.7' in text and
            all(row.split()[:2] == ['0.0', '0.0'] for row in rows if re.search(r'  \d+/day', row)))


def picture(text):
    """Without what differs from run to run: ports, the time of day, the version, how many ask."""
    text = re.sub(r'127\.0\.0\.1:\d+', '127.0.0.1:8080', text)
    text = re.sub(r'\d\d:\d\d:\d\d UTC', '20:15:07 UTC', text)
    return re.sub(r'version \S+  connections \d+  requests/s [\d.]+', 'version 0.1.0  connections 1  requests/s 6.0', text)


def shown(weir):
    with Terminal(WEIR, 'top', '--server', f'127.0.0.1:{weir.http}', '--interval', '500ms', TERM='xterm') as terminal:
        text = terminal.wait_for(settled)
        terminal.type('q')
        assert terminal.wait() == 0
    return picture(text).rstrip('\n') + '\n'


class Top(unittest.TestCase):
    def setUp(self):
        self.weir = Weir(CONFIG, threads=1)
        self.addCleanup(self.weir.stop)
        self.server = ('--server', f'127.0.0.1:{self.weir.http}')

    def top(self, *arguments, **options):
        return Terminal(WEIR, 'top', *self.server, '--interval', '200ms', *arguments,
                        **{'TERM': 'xterm', 'LC_ALL': 'C.UTF-8', **options})

    def assert_given_back(self, terminal):
        self.assertEqual((terminal.screen.other, terminal.screen.cursor), (False, True))
        self.assertEqual(termios.tcgetattr(terminal.fd)[3], terminal.modes[3])

    def test_the_picture_in_the_docs_is_what_it_shows(self):
        load(self.weir)
        text = PAGE.read_text(encoding='utf-8').partition(BEGIN)[2].partition(END)[0]
        self.assertEqual(shown(self.weir), text, 'tests/live/test_top_terminal.py --write writes it anew')

    def test_it_is_quiet_about_colour(self):
        """Nor does it send any sequence but those that the terminal of these tests knows, which looks at each."""
        with self.top(NO_COLOR='1') as terminal:
            terminal.wait_for(lambda text: 'LIMIT' in text)
            self.assertTrue(terminal.screen.other and not terminal.screen.cursor)
            self.assertFalse(termios.tcgetattr(terminal.fd)[3] & termios.ECHO)
            self.assertNotRegex(terminal.raw, rb'\x1b\[[\d;]*m')
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)
            self.assert_given_back(terminal)

    def test_keys_choose_the_order(self):
        load(self.weir)
        with self.top() as terminal:
            terminal.wait_for(lambda text: 'REFUSED*' in text and 'ada' in text)
            terminal.type('e')
            terminal.wait_for(lambda text: 'EARLY*' in text and 'ada' in text)
            terminal.type('xr')
            terminal.wait_for(lambda text: 'REFUSED*' in text)
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)

    def test_it_gives_the_terminal_back_to_every_signal(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
            with self.subTest(number), self.top() as terminal:
                terminal.wait_for(lambda text: 'LIMIT' in text)
                terminal.signal(number)
                self.assertEqual(terminal.wait(), 0)
                self.assert_given_back(terminal)
        with self.top() as terminal:
            terminal.wait_for(lambda text: 'LIMIT' in text)
            terminal.type('\x03')  # as the keyboard sends it
            self.assertEqual(terminal.wait(), 0)
            self.assert_given_back(terminal)

    def test_it_follows_the_size_of_the_terminal(self):
        load(self.weir)
        with self.top(columns=60, rows=12) as terminal:
            terminal.wait_for(lambda text: 'weir top' in text and 'LIMIT' in text)
            terminal.resize(120, 40)
            text = terminal.wait_for(lambda text: 'q quit' in text and 'ada' in text)
            self.assertLessEqual(max(map(len, text.splitlines())), 120)
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)
        for columns, rows in (1, 1), (5, 2), (80, 3), (400, 5):
            with self.subTest((columns, rows)), self.top(columns=columns, rows=rows) as terminal:
                terminal.wait_for(lambda text: text.startswith('w'))
                terminal.type('q')
                self.assertEqual(terminal.wait(), 0)

    def test_hostile_keys_move_no_cursor(self):
        ask(self.weir, 40, route='/login', ip=HOSTILE)
        ask(self.weir, 40, route='/login', ip=b'\xff\xfe\n')
        ask(self.weir, 40, route='/login', ip=b'n\0l')
        with self.top() as terminal:
            terminal.wait_for(lambda text: '\\x1b[2J' in text and '\u4e2d\u6587' in text and 'n\\x00l' in text)
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)

    def test_a_server_that_is_away_is_asked_again(self):
        port = free_port()
        with Terminal(WEIR, 'top', '--server', f'127.0.0.1:{port}', '--interval', '100ms', TERM='xterm') as terminal:
            terminal.wait_for(lambda text: 'no answer' in text and '--server' in text)
            with Weir(CONFIG, threads=1, arguments=('--http', f'127.0.0.1:{port}')):
                terminal.wait_for(lambda text: 'LIMIT' in text)
            terminal.wait_for(lambda text: 'no answer' in text)
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)
            self.assert_given_back(terminal)

    def test_what_is_wrong_is_told_to_its_end(self):
        """In 80 columns and in 20."""
        port = free_port()
        asked = 'no answer: Connection refused: does weir serve run, and is this its --http address? weir top goes on asking.'
        for columns in (80, 20):
            with Terminal(WEIR, 'top', '--server', f'127.0.0.1:{port}', '--interval', '100ms', TERM='xterm',
                          columns=columns, rows=24) as terminal:
                terminal.wait_for(lambda text: 'right metrics.' in ' '.join(text.split()))
                terminal.wait_for(lambda text: asked in ' '.join(text.split()))
                terminal.type('q')
                self.assertEqual(terminal.wait(), 0)
        self.weir.config.write_text(CONFIG.replace('text', 'hash'), encoding='utf-8')
        self.weir.process.send_signal(signal.SIGHUP)
        with self.top() as terminal:
            terminal.wait_for(lambda text: 'KEY (names: top: { keys: text })\n' in text)
        self.weir.config.write_text('limits: [ { name: of-a-long-name, rate: 1/day, keys: [user], brst: 5 } ]\n', encoding='utf-8')
        self.weir.process.send_signal(signal.SIGHUP)
        with self.top(columns=40) as terminal:
            terminal.wait_for(lambda text: "did you mean" in ' '.join(text.split()))
            terminal.type('q')
            self.assertEqual(terminal.wait(), 0)

    def test_without_a_terminal(self):
        load(self.weir)

        def run(*words, **options):
            return subprocess.run([WEIR, 'top', *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60, check=False, **options)

        done = run(*self.server, '--once')
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        self.assertIn('ada', done.stdout.decode())
        self.assertTrue(all(char == '\n' or char.isprintable() for char in done.stdout.decode()))
        told = json.loads(run(*self.server, '--once', '--json').stdout)
        self.assertEqual(told['refused']['top'][0]['key'], ['ada'])
        self.assertEqual(told['decisions']['login']['refused'], 35)
        self.assertIsNone(told['sessions'])
        away = run('--server', f'127.0.0.1:{free_port()}', '--once')
        self.assertEqual((away.returncode, away.stdout), (2, b''))
        for wrong in ('--interval', '10ms'), ('--interval', 'soon'), ('--timeout', '2hour'), ('word',), ('--colour',):
            self.assertEqual(run(*wrong).returncode, 2, wrong)
        for environment in {'TERM': 'dumb'}, {'TERM': ''}:
            with self.subTest(environment), self.top(**environment) as terminal:
                terminal.wait_for(lambda text: text.count('weir top') >= 2)
                self.assertNotIn(b'\x1b', terminal.raw)
                terminal.signal(signal.SIGTERM)
                self.assertEqual(terminal.wait(), 0)

    def test_who_does_not_read_stops_no_signal(self):
        """A pager that waits for its reader; and a terminal that is held."""
        for words in (), ('--json',):
            with self.subTest(words), subprocess.Popen([WEIR, 'top', *self.server, '--interval', '100ms', *words],
                                                       stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
                self.assert_ends_stuck(process, process.stdout)
        primary, secondary = os.openpty()
        os.set_blocking(secondary, False)  # as some shell may have left it
        with open(primary, 'rb', buffering=0) as shown, subprocess.Popen(
                [WEIR, 'top', *self.server, '--interval', '100ms'], stdin=secondary, stdout=secondary,
                env=dict(os.environ, TERM='xterm')) as process:
            os.close(secondary)
            self.assert_ends_stuck(process, shown)

    def assert_ends_stuck(self, process, output):
        def waiting():
            return struct.unpack('i', fcntl.ioctl(output, termios.FIONREAD, b'\0' * 4))[0]

        last = -1
        while waiting() == 0 or waiting() != last:  # nothing fits any more
            last = waiting()
            time.sleep(1)
        process.send_signal(signal.SIGTERM)
        try:
            self.assertEqual(process.wait(60), 0)
        finally:
            process.kill()

    def test_it_needs_the_right(self):
        tokens = 'auth: { required: always, tokens: [ { name: shop, secret: 0123456789abcdef } ] }\n'
        with Weir(tokens + CONFIG, threads=1) as weir:
            with Terminal(WEIR, 'top', '--server', f'127.0.0.1:{weir.http}', TERM='xterm',
                          WEIR_TOKEN='0123456789abcdef') as terminal:
                terminal.wait_for(lambda text: '403' in text and 'right metrics' in ' '.join(text.split()))


def write():
    with Weir(CONFIG, threads=1) as weir:
        load(weir)
        text = shown(weir)
    page = PAGE.read_text(encoding='utf-8')
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding='utf-8')


if __name__ == '__main__':
    if sys.argv[1:] == ['--write']:
        write()
    else:
        unittest.main()
