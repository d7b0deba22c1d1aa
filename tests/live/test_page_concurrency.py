#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The job in the shell of docs/concurrency.md, as the page prints it, under Debian's sh: its unit comes back however it
ends, and its exit code says why it did not run."""
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from ports import free_port
from redis_server import wait_for
from weir_server import BUILD, ROOT, Weir

PAGE = (ROOT / 'docs' / 'concurrency.md').read_text(encoding='utf-8')
LIMITS = PAGE.partition('```yaml\n')[2].partition('```')[0].replace('rate: 50', 'rate: 1').replace('30s', '1hour')
JOB = PAGE.partition('A job in the shell')[2].partition('```sh\n')[2].partition('```')[0]


def hear_signals():
    """As a shell in a terminal does; who starts the tests may ignore them, and what sh finds ignored it cannot trap."""
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)


class Job(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def begin(self, port, rest):
        """`rest` is what the job does."""
        job = JOB.replace('build/weir check', f'{BUILD}/weir check --server 127.0.0.1:{port}')
        self.assertNotEqual(job, JOB)
        text = job.replace('localhost:8080', f'127.0.0.1:{port}')
        self.assertNotEqual(text, job)
        path = self.folder / 'job.sh'
        path.write_text(text + rest, encoding='utf-8')
        return subprocess.Popen(['/bin/sh', path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding='utf-8', preexec_fn=hear_signals)

    @staticmethod
    def out(weir):
        body = json.dumps({'attributes': {'route': '/jobs/x', 'tenant': 'acme'}, 'cost': 0}).encode()
        with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/check', body, timeout=60) as answer:
            return 1 - json.load(answer)['remaining']

    def test_the_unit_comes_back_however_it_ends(self):
        with Weir(LIMITS) as weir:
            for number, code in ((None, 0), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)):
                with self.subTest(number):
                    rest = 'echo begun\nuntil [ -e go ]; do sleep .01; done\n'.replace('go', f'{self.folder}/go')
                    with self.begin(weir.http, rest) as job:
                        self.assertEqual(job.stdout.readline(), 'begun\n')
                        self.assertEqual(self.out(weir), 1)
                        if number:
                            job.send_signal(number)
                        else:
                            (self.folder / 'go').touch()
                        self.assertEqual((job.wait(60), job.stderr.read()), (code, ''))
                    self.assertEqual(self.out(weir), 0)
                (self.folder / 'go').unlink(missing_ok=True)

    def test_the_exit_code_says_why_it_did_not_run(self):
        with Weir(LIMITS) as weir, self.begin(weir.http, 'echo begun\nread word\n') as first:
            self.assertEqual(first.stdout.readline(), 'begun\n')
            with self.begin(weir.http, 'echo begun\n') as second:
                self.assertEqual((second.wait(60), second.stderr.read()), (1, ''))
            first.kill()
        with self.begin(free_port(), 'echo begun\n') as job:
            self.assertEqual(job.wait(60), 2)
            self.assertRegex(job.stderr.read(), re.compile(r'\A[^\n]+\n\Z'))  # weir's own line, and no traceback


if __name__ == '__main__':
    unittest.main()
