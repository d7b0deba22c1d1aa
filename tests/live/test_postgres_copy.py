#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands between weir and PostgreSQL answers with the beginning of a COPY, which nobody asked for. libpq then has one
more result for ever: the connection is given up, and weir goes on with another."""
import contextlib
import json
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

from postgres_replicas import Replicas
from redis_server import wait_for
from sessions_client import Client, configuration
from weir_server import BUILD, Weir

COPIES = {'in': b'G', 'out': b'H', 'both': b'W'}
PATIENCE_S = 60


class CopyDoor:
    """A way to a server. From `spoil` on the next row that comes is replaced, once, by the begin of a COPY."""

    def __init__(self, to_port):
        self.to_port, self.kind, self.spoilt = to_port, None, threading.Event()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def spoil(self, kind):
        self.spoilt.clear()
        self.kind = kind

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.lead, args=(self.listener.accept()[0],), daemon=True).start()

    def lead(self, near):
        with near, contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.to_port)) as far:
            threading.Thread(target=self.up, args=(near, far), daemon=True).start()
            rest = b''
            while data := far.recv(65536):
                rest += data
                while len(rest) >= 5 and len(rest) > (size := struct.unpack('>I', rest[1:5])[0]):
                    near.sendall(self.change(rest[:size + 1]))
                    rest = rest[size + 1:]

    def change(self, message):
        if not self.kind or message[:1] != b'D':
            return message
        kind, self.kind = self.kind, None
        self.spoilt.set()
        return kind + struct.pack('>IBHH', 9, 0, 1, 0)

    @staticmethod
    def up(near, far):
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)

    def dsn(self):
        return (f'host=127.0.0.1 port={self.port} user=postgres dbname=postgres sslmode=disable gssencmode=disable')


class Copy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-copy-')
        cls.addClassCleanup(cls.folder.cleanup)
        group = Replicas(1)
        cls.addClassCleanup(group.stop)
        cls.server, cls.standby = group.primary, group.standbys[0]
        cls.polled, cls.locks, cls.users = (CopyDoor(cls.server.port) for _ in range(3))
        users = f'users: "postgresql://postgres@127.0.0.1:{cls.users.port}/postgres?sslmode=disable&gssencmode=disable"'
        cls.weir = Weir(configuration({'p': cls.polled.dsn()}, 'timeout: 1s', users, more=(
            f'limits: []\nlocks: {{ engine: postgres, conninfo: "{cls.locks.dsn()}", '
            f'witness: {cls.folder.name}/witness }}\n')), 2)
        cls.addClassCleanup(cls.weir.stop)
        cls.client = Client(cls.weir.http)
        wait_for(lambda: cls.routed('ada') and cls.granted('first'), 'it does not start', PATIENCE_S)

    @classmethod
    def routed(cls, user):
        return cls.client.post('route', user=user, want='write', wait_ms=100)[0] == 200

    @classmethod
    def granted(cls, name):
        body = json.dumps({'owner': 'a', 'ttl_ms': 5000})
        status, answer = cls.client.call('POST', f'/v1/locks/{name}/acquire', body)
        return status == 200 and answer['granted']

    def goes_on(self, door, works):
        for name, kind in COPIES.items():
            with self.subTest(copy=name):
                door.spoil(kind)
                wait_for(lambda: works() and door.spoilt.is_set(), 'nothing came', PATIENCE_S)
                wait_for(works, 'it does not go on', PATIENCE_S)

    def test_the_poller_goes_on(self):
        def is_fresh():
            status, answer = self.client.call('GET', '/v1/sessions/servers')
            return status == 200 and answer['servers'][0]['age_ms'] < 3000 and answer['servers'][0]['usable']
        self.goes_on(self.polled, is_fresh)

    def test_the_store_of_locks_goes_on(self):
        self.goes_on(self.locks, lambda: self.granted('again'))

    def test_the_store_of_users_goes_on(self):
        self.goes_on(self.users, lambda: self.routed('grace'))

    def test_weir_reads_check_ends_and_drops_its_table(self):
        doors = CopyDoor(self.server.port), CopyDoor(self.standby.port)
        process = subprocess.Popen([str(BUILD / 'weir'), 'reads', 'check', '--primary', doors[0].dsn(),
                                    '--replica', doors[1].dsn(), '--duration', '600s'],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        wait_for(lambda: int(self.server.sql(clients)) > 10, 'its sessions do not begin', PATIENCE_S)
        for door in doors:
            for kind in COPIES.values():
                door.spoil(kind)
                self.assertTrue(door.spoilt.wait(PATIENCE_S))
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        self.assertNotIn('weir_reads_check', self.server.sql('SELECT relname FROM pg_class'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
