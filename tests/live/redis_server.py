# SPDX-License-Identifier: Apache-2.0
"""Redis servers of the test's own: one, a primary with a replica and sentinels, a cluster; on free ports, with their
files in a folder of the test's, ended by their own handles. They can be killed, stopped, flushed, failed over and (in
a network namespace) cut off."""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

from ports import free_port, free_ports
from weir_server import ROOT, Resp

READY_TIMEOUT_S = 60
SENTINEL_PATIENCE_MS = 60000  # for so long a busy machine keeps no server silent
DURABLE = ('--appendonly', 'yes', '--appendfsync', 'always')


def wait_for(what, text, seconds=READY_TIMEOUT_S):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def stand_still(pid):
    """SIGSTOP, until all threads have heard of it: others run on until the one that takes it has had its turn."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: stands_still(pid), 'it does not stand still')


def stands_still(pid):
    try:
        return all(path.read_text(encoding='ascii', errors='replace').rpartition(')')[2].split()[0] == 'T'
                   for path in pathlib.Path('/proc', str(pid), 'task').glob('*/stat'))
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
        return False


def rights():
    """What docs/redis.md grants the user of a server or a cluster, and nothing else: arguments of ACL SETUSER."""
    page = (ROOT / 'docs' / 'redis.md').read_text(encoding='utf-8')
    return ['-@all', *(word for word in page.partition('ACL SETUSER weir')[2].partition('```')[0].split()
                       if word.startswith('+'))]


class Redis:
    """One redis-server. With `arguments` of its own (DURABLE: what was answered survives a kill)."""

    def __init__(self, *arguments, host='127.0.0.1', port=None, prefix=(), program='redis-server', config=''):
        self.host, self.port = host, port or free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-redis-'))
        path = self.folder / 'redis.conf'
        path.write_text(f'port {self.port}\nbind {host}\ndir {self.folder}\nprotected-mode no\n{config}',
                        encoding='utf-8')
        self.command = [*prefix, shutil.which(program) or program, str(path), *map(str, arguments)]
        if program == 'redis-server':
            self.command += ['--save', '']
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self.answers, f'{self.command[0]} does not answer: {self.log()[-500:]}')

    def log(self):
        return (self.folder / 'log').read_text(encoding='utf-8', errors='replace')

    def answers(self):
        assert self.process.poll() is None, self.log()[-500:]
        try:
            answer = self.ask('PING')
            return answer == 'PONG' or 'NOAUTH' in str(answer)
        except OSError:
            return False

    def ask(self, *words):
        with Resp(self.port, timeout_s=60, host=self.host) as client:
            return client.ask(*words)

    def info(self, name):
        """None, too, where it closes the connection: it changes its role."""
        try:
            text = self.ask('INFO').decode()
        except ConnectionError:
            return None
        return next((line.partition(':')[2].strip() for line in text.splitlines() if line.startswith(name + ':')), None)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        stand_still(self.process.pid)

    def resume(self):
        assert stands_still(self.process.pid), 'somebody else continued it: what was measured meanwhile says nothing'
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Group:
    """Several of them. A context manager."""

    def __init__(self):
        self.servers = []

    def add(self, *arguments, **options):
        self.servers.append(Redis(*arguments, **options))
        return self.servers[-1]

    def stop(self):
        for server in self.servers:
            server.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Sentinels(Group):
    """A primary, its replicas, and three sentinels that know it as `main`."""

    def __init__(self, replicas=1, failover_timeout_ms=3000):
        super().__init__()
        self.failover_timeout_ms = failover_timeout_ms
        try:
            self.primary = self.add()
            self.replicas = [self.add('--replicaof', '127.0.0.1', self.primary.port) for _ in range(replicas)]
            self.replica = self.replicas[0]
            self.sentinels = []
            self.watch(self.primary)
        except BaseException:
            self.stop()
            raise

    def watch(self, primary):
        """Three sentinels that know nothing but this primary; those that were there are gone, with their ports."""
        ports = [s.port for s in self.sentinels] or free_ports(3)
        for sentinel in self.sentinels:
            sentinel.stop()
            self.servers.remove(sentinel)
        config = (f'sentinel monitor main 127.0.0.1 {primary.port} 2\n'
                  f'sentinel down-after-milliseconds main {SENTINEL_PATIENCE_MS}\n'
                  f'sentinel failover-timeout main {self.failover_timeout_ms}\n')
        self.sentinels = [self.add('--sentinel', program='redis-sentinel', config=config, port=port) for port in ports]
        wait_for(self.settled, 'replicas and sentinels do not find each other')

    def settled(self):
        known = f'slaves={len(self.replicas)},sentinels=3'
        links = [s.info('master_link_status') for s in [self.primary, *self.replicas]]
        return sorted(links, key=str) == [None] + ['up'] * len(self.replicas) and all(
            known in s.ask('INFO', 'sentinel').decode() for s in self.sentinels)

    def named_by(self, sentinel):
        """The port of the primary that it names."""
        return int(self.sentinels[sentinel].ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')[1])

    def named(self):
        return [self.named_by(i) for i in range(len(self.sentinels))]

    def fail_over(self, leader=0):
        """Planned, led by one of the sentinels, until it names another primary. It is refused until they all have seen
        that the servers are well, and comes to nothing if a busy machine takes longer than the timeout: then again."""
        before = self.named_by(leader)
        for _ in range(5):
            wait_for(lambda: self.sentinels[leader].ask('SENTINEL', 'FAILOVER', 'main') == 'OK', 'no failover begins')
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.named_by(leader) != before, '', self.failover_timeout_ms / 1000 + 5)
                return
        raise AssertionError('no failover comes to its end')

    @contextlib.contextmanager
    def losing(self, primary):
        """Inside, the primary dies or stands still. Half a second of silence counts as its death, until all name another:
        a busy machine makes no second failover of it."""
        self.set_down_after(500)
        yield
        wait_for(lambda: primary.port not in self.named(), 'no failover', 90)
        self.set_down_after(SENTINEL_PATIENCE_MS)

    def set_down_after(self, milliseconds):
        for sentinel in self.sentinels:
            sentinel.ask('SENTINEL', 'SET', 'main', 'down-after-milliseconds', milliseconds)

    def primary_now(self):
        """Of our servers, the one that the first sentinel names."""
        return next(s for s in [self.primary, *self.replicas] if s.port == self.named_by(0))

    @staticmethod
    def cannot_sync(server):
        """It keeps the primary that it has, and can follow no other: a failover then lasts until its timeout."""
        server.ask('CONFIG', 'SET', 'masterauth', 'wrong', 'masteruser', 'nobody')

    def yaml(self):
        return 'sentinel: main, servers: [' + ', '.join(f'"127.0.0.1:{s.port}"' for s in self.sentinels) + ']'


class Cluster(Group):
    """Three primaries and a replica of each; servers[0:3] are the primaries."""

    def __init__(self, node_timeout_ms=15000):
        super().__init__()
        self.node_timeout_ms = node_timeout_ms
        try:
            for _ in range(6):
                self.add_node()
            self.join()
            wait_for(self.settled, 'the cluster does not settle')
        except BaseException:
            self.stop()
            raise

    def add_node(self):
        port, bus = free_ports(2)
        return self.add('--cluster-enabled', 'yes', '--cluster-port', bus, '--cluster-node-timeout', self.node_timeout_ms,
                        '--cluster-config-file', 'nodes.conf', '--cluster-require-full-coverage', 'no', port=port)

    def join(self):
        addresses = [f'127.0.0.1:{s.port}' for s in self.servers]
        self.manage('create', *addresses, '--cluster-replicas', 1, '--cluster-yes')

    def agrees(self):
        """All nodes know of all, and of the same owner of each slot."""
        done = subprocess.run(['redis-cli', '--cluster', 'check', f'127.0.0.1:{self.servers[0].port}'], check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        return done.returncode == 0

    @staticmethod
    def manage(*words):
        """redis-cli --cluster …"""
        done = subprocess.run(['redis-cli', '--cluster', *map(str, words)], check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8', timeout=200)
        assert done.returncode == 0, done.stdout[-1000:]

    def settled(self):
        known = f'cluster_known_nodes:{len(self.servers)}\r'
        infos = [s.ask('CLUSTER', 'INFO').decode() for s in self.servers]
        return all('cluster_state:ok' in info and known in info for info in infos) and all(
            s.info('master_link_status') in (None, 'up') for s in self.servers)

    @contextlib.contextmanager
    def losing(self):
        """Inside, primaries die, and others take over: two seconds of silence count as a death there."""
        self.set_node_timeout(2000)
        yield
        self.set_node_timeout(self.node_timeout_ms)

    def set_node_timeout(self, milliseconds):
        for server in self.servers:
            if server.process.poll() is None:
                server.ask('CONFIG', 'SET', 'cluster-node-timeout', milliseconds)

    def yaml(self):
        return 'cluster: true, servers: [' + ', '.join(f'"127.0.0.1:{s.port}"' for s in self.servers[:3]) + ']'


class Namespace:
    """A network namespace of its own, joined to this one by a cable that can be cut. Needs root: PermissionError."""

    def __init__(self):
        for _ in range(5):  # a number may be somebody else's
            number = random.randrange(256)
            try:
                self.make(number)
                return
            except subprocess.CalledProcessError as failed:
                error = failed
        raise PermissionError(f'no network namespace: {error}: {error.stderr}') from error

    def make(self, number):
        self.name, self.outside, self.inside = f'weir{number}', f'weiro{number}', f'weiri{number}'
        self.here, self.there = f'10.231.{number}.1', f'10.231.{number}.2'
        self.ip('netns', 'add', self.name)
        try:
            self.ip('link', 'add', self.outside, 'type', 'veth', 'peer', 'name', self.inside, 'netns', self.name)
            self.ip('address', 'add', f'{self.here}/30', 'dev', self.outside)
            self.ip('link', 'set', self.outside, 'up')
            self.ip('-n', self.name, 'address', 'add', f'{self.there}/30', 'dev', self.inside)
            self.ip('-n', self.name, 'link', 'set', self.inside, 'up')
            self.ip('-n', self.name, 'link', 'set', 'lo', 'up')
        except subprocess.CalledProcessError:
            self.close()
            raise

    @staticmethod
    def ip(*words):
        subprocess.run(['ip', *words], check=True, capture_output=True, timeout=60)

    def prefix(self):
        return ['ip', 'netns', 'exec', self.name]

    def cut(self):
        """What is sent from now on is lost; connections stay open and silent."""
        self.ip('-n', self.name, 'link', 'set', self.inside, 'down')

    def heal(self):
        self.ip('-n', self.name, 'link', 'set', self.inside, 'up')

    def close(self):
        self.ip('netns', 'del', self.name)
