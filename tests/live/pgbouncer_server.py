# SPDX-License-Identifier: Apache-2.0
"""A pgbouncer of the test's own, on a free port, with its file in a folder of the test's, before servers by name. It
refuses to run as root: then it runs as the user postgres."""
import shutil
import subprocess

from postgres_server import binary, new_folder, run, user
from ports import free_port
from redis_server import wait_for

SETTINGS = """
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = {mode}
ignore_startup_parameters = extra_float_digits
"""


class Pgbouncer:
    """Of mode session, transaction or statement. A context manager."""

    def __init__(self, mode, **servers):
        self.mode, self.port, self.folder, self.process = mode, free_port(), new_folder(), None
        try:
            self.write(servers)
            self.process = subprocess.Popen(
                [shutil.which('pgbouncer', path='/usr/sbin:/usr/bin:/usr/local/sbin'), self.folder / 'ini'],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd='/', **user())
            wait_for(self.answers, 'pgbouncer does not answer')
        except BaseException:
            self.stop()
            raise

    def write(self, servers):
        lines = [f'{name} = host=127.0.0.1 port={server.port} dbname=postgres user=postgres\n'
                 for name, server in servers.items()]
        (self.folder / 'ini').write_text('[databases]\n' + ''.join(lines) +
                                         SETTINGS.format(port=self.port, mode=self.mode), encoding='utf-8')
        (self.folder / 'ini').chmod(0o644)

    def answers(self):
        assert self.process.poll() is None, 'pgbouncer ended'
        return subprocess.run([binary('pg_isready'), '-q', '-h', '127.0.0.1', '-p', str(self.port), '-d', 'pgbouncer'],
                              check=False).returncode == 0

    def conninfo(self, name):
        return f'host=127.0.0.1 port={self.port} user=postgres dbname={name}'

    def connect(self, name):
        """psycopg2's connection, in autocommit."""
        import psycopg2
        connection = psycopg2.connect(self.conninfo(name))
        connection.autocommit = True
        return connection

    def point(self, **servers):
        """The names at other servers. Connections to the servers before are closed as soon as their clients let go."""
        self.write(servers)
        self.command('RELOAD')

    def command(self, text):
        return run('psql', '-XAtq', '-h', '127.0.0.1', '-p', self.port, '-U', 'postgres', '-d', 'pgbouncer', '-c', text)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
