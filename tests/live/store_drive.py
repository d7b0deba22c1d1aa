# SPDX-License-Identifier: Apache-2.0
"""Drives a store of rule sets in a process of its own (tests/rules/store_drive.c)."""
import contextlib
import json
import os
import pathlib
import subprocess

from weir_server import BUILD

PROGRAM = pathlib.Path(os.environ.get('WEIR_STORE_DRIVE', BUILD / 'tests/rules/store_drive'))


class StoreDrive:
    """`opened` is what was said of the spec. Of mode create, use or later. A context manager."""

    def __init__(self, spec, table='-', mode='create', poll_ms=0):
        self.process = subprocess.Popen([str(PROGRAM), str(spec), table, mode, str(poll_ms)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding='utf-8')
        self.opened = self.hear()

    def send(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()

    def hear(self):
        """None: it has ended."""
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith('\n') else None

    def ask(self, *words):
        self.send(*words)
        answer = self.hear()
        assert answer is not None, f'the store is gone: {self.process.poll()}'
        return answer

    def append(self, expected, text='text', change='-', kind='applied', of=0):
        return self.ask('append', expected, change, kind, of, text)

    def appended(self, expected, text='text'):
        """Expects that; its number."""
        answer = self.append(expected, text)
        assert answer['status'] == 'OK' and answer['said'] == 'appended', answer
        return answer['own']

    def versions(self, start=0, count=1000):
        answer = self.ask('list', start, count)
        assert answer['answer']['status'] == 'OK', answer
        return answer['versions']

    def told(self, which='all'):
        answer = self.ask('told', which)
        assert answer['answer']['status'] == 'OK', answer
        return answer['told']

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """At the end of its input it ends by itself; the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
