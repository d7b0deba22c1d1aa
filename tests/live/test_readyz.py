#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What /readyz says of locks and sessions: a server without them is ready, for it limits, and says what is missing."""
import pathlib
import socket
import tempfile
import unittest
import urllib.request

from postgres_replicas import DEAD_PORT
from redis_server import wait_for
from weir_server import Resp, Weir

LOCKS = 'ready, without the store of the locks: nobody gets or renews one\n'
SESSIONS = 'ready, without a primary of the sessions: no writes, and hardly any reads\n'


def ready(weir, query=''):
    """Its text; of an answer that is not 200, an exception."""
    with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/readyz{query}', timeout=60) as answer:
        return answer.read().decode()


class Readyz(unittest.TestCase):
    def test_a_store_of_the_locks_that_is_out_and_comes_back(self):
        with tempfile.TemporaryDirectory(prefix='weir-readyz-') as name:
            there, away = pathlib.Path(name, 'there'), pathlib.Path(name, 'away')
            there.mkdir()
            locks = f'limits: []\nlocks: {{ engine: sqlite, path: {there}/locks.db, witness: {name}/witness }}\n'
            with Weir(locks) as weir, Resp(weir.resp) as client:
                self.assertEqual(ready(weir), 'ready\n')
                there.rename(away)
                wait_for(lambda: isinstance(client.ask('WEIR.LOCK', 'a', 'x', 60000), Exception), 'it is granted')
                wait_for(lambda: ready(weir) == LOCKS, 'it does not say so')
                self.assertRegex(ready(weir, '?verbose'), f'^{LOCKS}0 limits, in force since ')
                away.rename(there)
                wait_for(lambda: ready(weir) == 'ready\n', 'it stays out')

    def test_no_primary_and_no_store(self):
        """A line each. A store in a database that never answered is out before anybody asks for a lock."""
        with tempfile.TemporaryDirectory(prefix='weir-readyz-') as name:
            dead = f'"host=127.0.0.1 port={DEAD_PORT}"'
            sessions = f'limits: []\nsessions: {{ servers: [ {{ name: x, url: {dead} }} ] }}\n'
            with Weir(sessions) as weir:
                wait_for(lambda: ready(weir) == SESSIONS, 'it does not say so')
            with Weir(f'{sessions}locks: {{ engine: postgres, conninfo: {dead}, witness: {name}/witness }}\n') as weir:
                wait_for(lambda: ready(weir) == LOCKS + SESSIONS, 'it does not say so')
                self.assertRegex(ready(weir, '?verbose'), f'^{LOCKS}{SESSIONS}0 limits, in force since ')

    def test_a_server_of_sessions_that_was_not_asked_yet_may_be_the_primary(self):
        with socket.create_server(('127.0.0.1', 0)) as silent:
            dead, slow = (f'"host=127.0.0.1 port={port}"' for port in (DEAD_PORT, silent.getsockname()[1]))
            with Weir(f'limits: []\nsessions: {{ timeout: 1min, servers: [ {{ name: x, url: {dead} }}, '
                      f'{{ name: y, url: {slow} }} ] }}\n') as weir:
                connection, _ = silent.accept()
                try:
                    self.assertEqual(ready(weir), 'ready\n')
                finally:
                    silent.close()
                    connection.close()
                wait_for(lambda: ready(weir) == SESSIONS, 'it does not say so')


if __name__ == '__main__':
    unittest.main()
