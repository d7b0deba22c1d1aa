# SPDX-License-Identifier: Apache-2.0
"""Drives a lock engine through engine.h, in a process of its own that can be stopped and killed
(tests/lock/engine_drive.c)."""
import contextlib
import json
import os
import pathlib
import subprocess

from weir_server import BUILD

PROGRAM = pathlib.Path(os.environ.get('WEIR_ENGINE_DRIVE', BUILD / 'tests/lock/engine_drive'))


class EngineDrive:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([str(PROGRAM), *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, encoding='utf-8')

    def send(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, f'the engine is gone: {self.process.poll()}'
        return json.loads(line)

    def batch(self, *ops):
        """Each "verb name owner ttl_ms seen"; an answer each: a dict."""
        self.send(';'.join(ops))
        return self.hear()

    def ask(self, op):
        return self.batch(op)[0]

    def state(self):
        self.send('state')
        return self.hear()

    def timeout(self, milliseconds):
        self.send(f'timeout {milliseconds}')

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

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
