# SPDX-License-Identifier: Apache-2.0
"""weir replay as the tests run it, on files of a test's own."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from weir_server import BUILD


def replay(*arguments, stdin=None, code=0):
    done = subprocess.run([str(BUILD / 'weir'), 'replay', *map(str, arguments)], input=stdin, capture_output=True,
                          check=False)
    out, err = (text.decode('utf-8', 'replace') for text in (done.stdout, done.stderr))
    if done.returncode != code:
        raise AssertionError(f'weir replay ended with {done.returncode}: {err}')
    return out, err


def report_of(*arguments, stdin=None):
    return json.loads(replay('--json', '--rows', 1_000_000, *arguments, stdin=stdin)[0])


def line(at='06/Nov/2026:10:00:00 +0000', ip='192.0.2.1', user='-', path='/api/x'):
    return f'{ip} - {user} [{at}] "GET {path} HTTP/1.1" 200 1 "-" "-"\n'


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-replay-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def day(self, seed, lines, *arguments):
        """The log, and what libweir decided."""
        log = self.folder / f'day-{seed}.log'
        done = subprocess.run([str(BUILD / 'tests/replay/replay_day'), str(seed), str(lines), str(log), *arguments],
                              capture_output=True, text=True, check=True)
        return log, sorted(done.stdout.splitlines())
