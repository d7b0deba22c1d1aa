# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL of the test's own: a fresh cluster in a folder of the test's, on a free port of loopback, ended by its
own handle. As root it runs as user postgres, which is the only way that it runs at all."""
import glob
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psycopg2

READY_TIMEOUT_S = 30


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


def program(name):
    """Debian keeps them out of PATH, by version."""
    found = sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'))
    return found[-1] if found else shutil.which(name) or name


class Postgres:
    """One server. With settings of its own: Postgres(max_prepared_transactions=10). A context manager."""

    def __init__(self, **settings):
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-postgres-'))
        self.data = self.folder / 'data'
        self.prefix = []
        self.settings = {'fsync': 'off', 'listen_addresses': '127.0.0.1', 'unix_socket_directories': '', **settings}
        self.process = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, 'postgres', 'postgres')
            self.prefix = ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups']
        try:
            subprocess.run([*self.prefix, program('initdb'), '-D', str(self.data), '-U', 'postgres', '-A', 'trust',
                            '-N', '-E', 'UTF8', '--locale=C'],
                           check=True, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        options = [word for name, value in self.settings.items() for word in ('-c', f'{name}={value}')]
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen(
                [*self.prefix, program('postgres'), '-D', str(self.data), '-p', str(self.port), *options],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()[-2000:]
            try:
                self.connect().close()
                return
            except psycopg2.OperationalError:
                time.sleep(0.05)

    def log(self):
        return (self.folder / 'log').read_text(encoding='utf-8', errors='replace')

    def conninfo(self):
        return f'host=127.0.0.1 port={self.port} user=postgres dbname=postgres'

    def connect(self, **options):
        """psycopg2's connection, in autocommit: what BEGIN means, a test says itself."""
        connection = psycopg2.connect(self.conninfo(), connect_timeout=10, **options)
        connection.autocommit = True
        return connection

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
