# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL servers of the test's own: on free ports, with their files in a folder of the test's, fsync on, ended by
their own handles. They can be killed with all their processes, frozen, backed up, restored, followed and promoted.
The server refuses to run as root: then it runs as the user postgres."""
import atexit
import contextlib
import functools
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from lock_engine_drive import EngineDrive
from ports import free_port
from redis_server import stands_still, wait_for

READY_TIMEOUT_S = 300  # a busy machine may have fifty other things to do
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
fsync = on
max_connections = 40
shared_buffers = 16MB
wal_level = replica
wal_keep_size = 64MB
dynamic_shared_memory_type = mmap
"""


def new_folder():
    """In memory where there is room for some: what is killed here is processes, never the machine, so that nothing
    depends on a disk, and each start of a server would sync a thousand files to it."""
    shm = '/dev/shm'
    room = os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 2**31
    folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-postgres-', dir=shm if room else None))
    if os.geteuid() == 0:
        shutil.chown(folder, 'postgres', 'postgres')
    return folder


def binary(name):
    """Debian keeps them out of PATH, by version: the newest."""
    found = sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'), key=lambda path: int(path.split('/')[4]))
    return found[-1] if found else shutil.which(name)


def user():
    return {'user': 'postgres', 'group': 'postgres', 'extra_groups': []} if os.geteuid() == 0 else {}


def run(*words, timeout_s=READY_TIMEOUT_S, env=None):
    done = subprocess.run([binary(words[0]), *map(str, words[1:])], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout_s, cwd='/', encoding='utf-8', errors='replace',
                          check=False, env=dict(os.environ, **(env or {})), **user())
    assert done.returncode == 0, f'{words[0]}: {done.stdout}'
    return done.stdout


def alive(pid):
    """A zombie is not: whoever adopted it takes its time to bury it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='utf-8').rpartition(')')[2].split()[0] != 'Z'
    return False


# In a schema of the path where others may create: what fits some types better than the operators of pg_catalog, and is
# run as whoever asks. theirs_called tells.
THEIRS = """
CREATE SEQUENCE theirs_called;
CREATE FUNCTION theirs(numeric, int) RETURNS numeric LANGUAGE sql AS $$SELECT nextval('theirs_called')::numeric$$;
CREATE FUNCTION theirs(bigint, interval) RETURNS interval LANGUAGE sql AS
    $$SELECT make_interval(secs => nextval('theirs_called'))$$;
CREATE FUNCTION theirs(bigint, text) RETURNS text LANGUAGE sql AS $$SELECT nextval('theirs_called')::text$$;
CREATE OPERATOR * (FUNCTION = theirs, LEFTARG = numeric, RIGHTARG = int);
CREATE OPERATOR * (FUNCTION = theirs, LEFTARG = bigint, RIGHTARG = interval);
CREATE OPERATOR || (FUNCTION = theirs, LEFTARG = bigint, RIGHTARG = text);
"""


@functools.cache
def fresh(*options):
    """A data folder to copy: making one takes longer than most tests. Its copies are one system."""
    folder = new_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    initdb(folder, *options)
    return folder / 'data'


def initdb(folder, *options):
    run('initdb', '-D', folder / 'data', '-A', 'trust', '-U', 'postgres', '-E', 'UTF8',
        '--locale=C', '--no-sync', '--no-instructions', *options)


class Postgres:
    """One server. Its data folder is `data`, taken over, or a fresh one: all of those are one system, but with
    `another` it is a system of its own. With settings: Postgres(max_prepared_transactions=10). A context manager."""

    def __init__(self, data=None, another=False, **settings):
        self.port = free_port()
        self.folder = new_folder()
        self.data = self.folder / 'data'
        self.process = None
        try:
            if another:
                initdb(self.folder)
            elif data:
                shutil.move(data, self.data)
            else:
                subprocess.run(['cp', '-a', str(fresh()), str(self.data)], check=True)
            with open(self.data / 'postgresql.conf', 'a', encoding='utf-8') as conf:
                conf.write(SETTINGS.format(port=self.port, folder=self.folder))
                conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen([binary('postgres'), '-D', str(self.data)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd='/', **user())
        wait_for(self.answers, f'postgres does not answer: {self.log()[-500:]}', READY_TIMEOUT_S)

    def log(self):
        return (self.folder / 'log').read_text(encoding='utf-8', errors='replace')

    def answers(self):
        assert self.process.poll() is None, self.log()[-500:]
        return subprocess.run([binary('pg_isready'), '-q', '-h', '127.0.0.1', '-p', str(self.port)],
                              check=False).returncode == 0

    def sql(self, text):
        """The rows, unaligned."""
        return run('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', '127.0.0.1', '-p', self.port, '-U', 'postgres', '-d',
                   'postgres', '-c', text).strip()

    def conninfo(self, *others):
        """Of this one, and after it others."""
        ports = ','.join(str(server.port) for server in (self, *others))
        hosts = ','.join(['127.0.0.1'] * (1 + len(others)))
        return f'host={hosts} port={ports} user=postgres dbname=postgres'

    def connect(self, **options):
        """psycopg2's connection, in autocommit: what BEGIN means, a test says itself."""
        import psycopg2  # Debian's; who needs no session does without
        connection = psycopg2.connect(self.conninfo(), connect_timeout=10, **options)
        connection.autocommit = True
        return connection

    # ---- faults ----

    def children(self):
        """Of the postmaster; each has a session of its own, so there is no group to signal."""
        pid = self.process.pid
        with contextlib.suppress(FileNotFoundError):
            text = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='utf-8')
            return [int(word) for word in text.split()]
        return []

    @staticmethod
    def signal(pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def halt(self, pids):
        """Returns when they stand still: until then they would answer."""
        self.signal(pids, signal.SIGSTOP)
        wait_for(lambda: all(stands_still(pid) or not alive(pid) for pid in pids), 'they do not stand still')

    def kill(self):
        """All processes at once: what lies in shared memory is lost, what was written to files is not."""
        children = self.children()
        self.freeze()
        children = {*children, *self.children()}
        self.process.kill()
        self.signal(children, signal.SIGKILL)
        self.process.wait()
        wait_for(lambda: not any(map(alive, children)), 'they do not die')

    def freeze(self):
        """The postmaster first, so that it starts no more."""
        self.halt([self.process.pid])
        self.halt(self.children())

    def thaw(self):
        self.signal([self.process.pid, *self.children()], signal.SIGCONT)

    def shut(self):
        """In order (fast)."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(READY_TIMEOUT_S)

    # ---- copies ----

    def backup(self, *options):
        """A base backup, in this server's folder: Postgres(data=…) takes it over."""
        data = self.folder / f'backup{time.monotonic_ns()}'
        run('pg_basebackup', '-h', '127.0.0.1', '-p', self.port, '-U', 'postgres', '-D', data, '-c', 'fast',
            '--no-sync', *options)
        return data

    def copy_files(self, target):
        """Of a server that is shut."""
        subprocess.run(['cp', '-a', str(self.data), str(target)], check=True)

    def restore_files(self, source):
        shutil.rmtree(self.data)
        subprocess.run(['cp', '-a', str(source), str(self.data)], check=True)

    def follower(self):
        """A standby of this server, which streams."""
        return Postgres(data=self.backup('-R'))

    def promote(self):
        self.sql('SELECT pg_promote(true, 60)')
        wait_for(lambda: self.sql('SELECT pg_is_in_recovery()') == 'f', 'it is not promoted')

    def caught_up(self, follower):
        return follower.sql('SELECT pg_last_wal_replay_lsn()') == self.sql('SELECT pg_current_wal_lsn()')

    def stop(self):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.kill()
        with contextlib.suppress(FileNotFoundError, IndexError):
            # The one thing that outlives kill -9 and the folder: a System V segment of a few bytes.
            segment = (self.data / 'postmaster.pid').read_text(encoding='utf-8').splitlines()[6].split()[1]
            subprocess.run(['ipcrm', '-m', segment], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class LockCase(unittest.TestCase):
    """With a folder for witnesses, servers and lock engines that end with the test."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-lock-postgres-'))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def server(self, *arguments, **options):
        server = Postgres(*arguments, **options)
        self.addCleanup(server.stop)
        return server

    def engine(self, server, *others, witness='witness', table=None, extra='', up=True):
        """Has found its server, but with `up=False`; on a busy machine that takes longer than opening gives it."""
        drive = EngineDrive('postgres', server.conninfo(*others) + extra, self.folder / witness,
                            *([table] if table else []))
        self.addCleanup(drive.close)
        drive.timeout(10000)
        if up:
            wait_for(lambda: drive.ask('show up')['status'] == 'OK', 'the engine does not find its server')
        return drive

    def granted(self, drive, op, seconds=60):
        """Asks until the engine has found its server again; the token."""
        deadline = time.monotonic() + seconds
        while True:
            answer = drive.ask(op)
            if answer['status'] == 'OK':
                self.assertEqual(answer['said'], 'granted', answer)
                return answer['token']
            self.assertLess(time.monotonic(), deadline, (answer, drive.state()))
            time.sleep(0.1)
