# SPDX-License-Identifier: Apache-2.0
"""The redis engine in a program of its own (tests/redis/drive.c), told what to do a line at a time."""
import os
import queue
import subprocess
import threading

from redis_server import wait_for
from weir_server import BUILD

PROGRAM = os.environ.get('WEIR_REDIS_DRIVE', str(BUILD / 'tests' / 'redis' / 'redis_drive'))
LINE_TIMEOUT_S = 300  # a load of some seconds, on a machine with twenty other things to do
YEAR_MS = 365 * 86400000  # so long that nothing refills while a test runs


class Drive:
    """One engine. Options are drive.c's: a server is 'HOST:PORT'. A context manager; its end must be clean."""

    def __init__(self, *servers, **options):
        words = [f'{name}={value}' for name, value in options.items()] + [f'server={s}' for s in servers]
        self.process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, encoding='utf-8')
        self.lines = queue.Queue()
        self.errors = []
        self.readers = [threading.Thread(target=self.read, daemon=True),
                        threading.Thread(target=lambda: self.errors.append(self.process.stderr.read()), daemon=True)]
        for reader in self.readers:
            reader.start()
        self.asked = 0

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip('\n'))
        self.lines.put(None)

    def line(self):
        line = self.lines.get(timeout=LINE_TIMEOUT_S)
        if line is None:
            for reader in self.readers:
                reader.join(5)
            raise AssertionError(f'the program ended: {"".join(self.errors)}')
        return line

    def send(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()

    def say(self, *words):
        self.send(*words)
        return self.line().split(' ', 1)[1]

    def limit(self, name, count, period_ms=YEAR_MS, burst=None):
        answer = self.say('limit', name, count, period_ms, burst or count)
        assert answer.startswith('WEIR_OK'), answer

    def ask(self, verb, *ops, deadline_ms=5000):
        """(status, admitted, numbers) of one request; an op is 'LIMIT:KEY:UNITS'."""
        self.asked += 1
        words = self.say(verb, f'r{self.asked}', deadline_ms, *ops).split()
        return words[0].removeprefix('WEIR_'), words[1] == '1', [int(n) for n in words[3:]]

    def start_load(self, limit, keys, per_ms=1, ms=1000, deadline_ms=20, ops=1):
        self.send('load', limit, keys, per_ms, ms, deadline_ms, ops)

    def end_load(self):
        words = self.line().split()
        assert words[0] == 'load', words
        return {name: int(value) for name, value in (word.split('=') for word in words[1:])}

    def load(self, *arguments, **options):
        self.start_load(*arguments, **options)
        return self.end_load()

    def stats(self):
        numbers, _, error = self.say('stats').partition(' last_error=')
        return dict({name: int(value) for name, value in (word.split('=') for word in numbers.split())},
                    last_error=error)

    def servers(self):
        return [tuple(server.split(',')) for server in self.say('servers').split()]

    def warning(self):
        """Of the first server that has one."""
        return self.say('warning')

    def ready(self):
        return self.say('ready') == '1'

    def wait_ready(self, seconds=60):
        wait_for(self.ready, 'the engine does not get ready', seconds)

    def wait_error(self, text, seconds=60):
        """Until the last error has `text` in it."""
        wait_for(lambda: text in self.stats()['last_error'], f'no error with "{text}"', seconds)

    def end(self):
        """(status, what sanitizers said)"""
        self.process.stdin.close()
        try:
            status = self.process.wait(LINE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader in self.readers:
            reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return status, ''.join(self.errors)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status, errors = self.end()
        if kind is None:
            assert status == 0, f'status {status}: {errors}'
