#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A predecessor that says something wrong (takeover_relay.py): its successor ends, tells why, and the weir there goes on
with all that it had."""
import contextlib
import http.client
import pathlib
import subprocess
import sys
import unittest

from redis_server import wait_for
from takeover_relay import MISTAKES
from test_takeover import Chain, check
from weir_server import Resp, connect, resp_encode

COMMAND = resp_encode('WEIR.CHECK', 1, 'user', 'ada')


class Broken(unittest.TestCase):
    def refused(self, chain, mistake):
        """What a successor says of it."""
        path = chain.path / 'relay'
        relay = subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name('takeover_relay.py')),
                                  str(chain.path / 'takeover'), str(path), mistake], stdout=subprocess.PIPE)
        try:
            self.assertEqual(relay.stdout.readline(), b'ready\n')
            number = chain.start(arguments=('--take-over', str(path)))
            self.assertEqual(chain.ended(number), 2, chain.output(number))
            self.assertEqual(relay.wait(20), 0)
        finally:
            relay.kill()
            relay.wait()
            relay.stdout.close()
            path.unlink()
        return chain.output(number)

    def test_its_successor_does_not_believe_it(self):
        with Chain() as chain, Resp(chain.resp) as client, \
                contextlib.closing(http.client.HTTPConnection('127.0.0.1', chain.http, timeout=60)) as web:
            for count, mistake in enumerate(MISTAKES, 1):
                with self.subTest(mistake), connect(chain.resp) as half, connect(chain.resp) as other:
                    for sock in (half, other):
                        sock.sendall(COMMAND[:-3])
                    self.assertEqual(check(web), (200, None))
                    said = self.refused(chain, mistake)
                    self.assertRegex(said, r'(?m)^weir: --take-over: \w')
                    self.assertNotRegex(said, r'\bstarted\b')
                    wait_for(lambda count=count: chain.output(0).count('take_over_failed') >= count, 'it is not noticed')
                    for sock in (half, other):
                        sock.sendall(COMMAND[-3:])
                        self.assertEqual(sock.recv(3), b'*7\r')
                    self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], 1000 - 4 * count)
            chain.wait_for(chain.start(), r'\bstarted\b')
            self.assertEqual(chain.ended(0), 0)
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], 1000 - 4 * len(MISTAKES) - 1)


if __name__ == '__main__':
    unittest.main()
