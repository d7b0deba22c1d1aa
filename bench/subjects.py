# SPDX-License-Identifier: Apache-2.0
"""What is measured: programs that answer for samples, servers under load, and how busy everybody else was meanwhile."""
import os
import pathlib
import resource
import select
import shutil
import socket
import subprocess
import time

BENCH = pathlib.Path(__file__).resolve().parent
READY_TIMEOUT_S = 300
STOP_TIMEOUT_S = 10
TICKS = os.sysconf('SC_CLK_TCK')
MEASURABLE_S = 0.05  # processor time is counted in hundredths of a second


class Failed(Exception):
    """A subject could not be built, started or sampled."""


class Meter:
    """How much processor time others took, while `with` lasts, as a share of one core."""

    def __init__(self, pids):
        self.pids = pids
        self.foreign = 0.0

    @staticmethod
    def busy_s():
        with open('/proc/stat', encoding='ascii') as file:
            return sum(int(word) for word in file.readline().split()[1:4]) / TICKS

    def own_s(self):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = time.process_time() + usage.ru_utime + usage.ru_stime
        for pid in self.pids:
            try:
                fields = pathlib.Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()
            except OSError:
                continue
            total += (int(fields[11]) + int(fields[12])) / TICKS
        return total

    def __enter__(self):
        self.begin = (time.monotonic(), self.busy_s(), self.own_s())
        return self

    def __exit__(self, *_):
        begin, busy, own = self.begin
        elapsed = time.monotonic() - begin
        if elapsed < MEASURABLE_S:
            return
        self.foreign = max(0.0, (self.busy_s() - busy) - (self.own_s() - own)) / elapsed


def pinned(cpu):
    """A function that binds a process to one core, where there are two to choose from."""
    def pin():
        if len(os.sched_getaffinity(0)) > 1:
            os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[cpu]})
    return pin


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Process:
    """A child that is ended by its own handle."""

    def __init__(self, arguments, log, cpu=None, **options):
        self.log = log
        with open(log, 'ab') as file:
            try:
                self.child = subprocess.Popen([str(a) for a in arguments], stderr=file,
                                              preexec_fn=None if cpu is None else pinned(cpu), **options)
            except OSError as error:
                raise Failed(f'{arguments[0]}: {error.strerror}') from error

    @property
    def pid(self):
        return self.child.pid

    def complain(self, what):
        tail = pathlib.Path(self.log).read_text(encoding='utf-8', errors='replace')[-500:]
        raise Failed(f'{what}: {tail.strip().splitlines()[-1] if tail.strip() else "it said nothing"}')

    def line(self, timeout_s):
        ready, _, _ = select.select([self.child.stdout], [], [], timeout_s)
        line = self.child.stdout.readline() if ready else ''
        if not line:
            self.complain(f'{self.child.args[0]} ended or hung')
        return line.strip()

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Program(Process):
    """Set up once, then asked for one sample after the other."""

    def __init__(self, arguments, log):
        super().__init__(arguments, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def wait_ready(self):
        if self.line(READY_TIMEOUT_S) != 'ready':
            self.complain(f'{self.child.args[0]} is not ready')

    def sample(self, case, sample_ms):
        self.child.stdin.write(f'{case} {sample_ms}\n')
        return float(self.line(sample_ms / 1000 + 60))


class Server(Process):
    """Listens at `target`: a port of 127.0.0.1, or the path of a Unix socket."""

    def __init__(self, arguments, log, target, cpu=0, **options):
        super().__init__(arguments, log, cpu, **options)
        self.target = target

    def connect(self):
        unix = isinstance(self.target, pathlib.Path)
        client = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        try:
            client.settimeout(5)
            client.connect(str(self.target) if unix else ('127.0.0.1', self.target))
        except OSError:
            client.close()
            raise
        return client

    def wait_ready(self):
        for _ in range(100):
            if self.child.poll() is not None:
                self.complain(f'{self.child.args[0]} ended')
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.1)
        self.complain(f'{self.child.args[0]} does not listen')

    def call(self, *words):
        """The first line of the reply, and the second if the first announces one."""
        request = f'*{len(words)}\r\n' + ''.join(f'${len(w.encode())}\r\n{w}\r\n' for w in words)
        with self.connect() as client, client.makefile('rb') as replies:
            client.sendall(request.encode())
            first = replies.readline().decode().strip()
            return replies.readline().decode().strip() if first.startswith('$') else first


def echo_server(build, log, request, reply, path=None):
    """Answers each request of this many bytes with `reply`."""
    size = sum(len(f'${len(word)}\r\n{word}\r\n') for word in request) + len(f'*{len(request)}\r\n')
    server = Server([build / 'bench/bench_echo', path or '-', size, reply], log, path, stdout=subprocess.PIPE, text=True)
    port = int(server.line(5).split()[1])
    server.target = path or port
    return server


def redis_server(log, scripts):
    """Redis without persistence, and the digests of its scripts by name."""
    if shutil.which('redis-server') is None:
        raise Failed('redis-server is not installed')
    port = free_port()
    server = Server(['redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
                     '--daemonize', 'no'], log, port, stdout=subprocess.DEVNULL)
    server.wait_ready()
    digests = {}
    for name in scripts:
        digests[name] = server.call('SCRIPT', 'LOAD', (BENCH / f'{name}.lua').read_text(encoding='utf-8'))
    return server, digests


def weir_server(build, log, path=None):
    target = path or free_port()
    listen = f'unix:{path}' if path else f'127.0.0.1:{target}'
    server = Server([build / 'weir', 'serve', '--resp', listen, '--http', 'off', '--threads', '1'], log, target,
                    stdout=subprocess.DEVNULL)
    server.wait_ready()
    return server


def exact_server(build, log, folder, redis):
    """A node whose one limit lies in Redis, beside the generator: Redis, which nodes share, has a core of its own."""
    port, path = free_port(), pathlib.Path(folder, 'exact.yaml')
    path.write_text(f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.target}"] }} }}\n'
                    'limits: [{ name: exact, key: [user], rate: 100/s, sharing: exact, on_failure: closed, '
                    'deadline: 1s }]\n', encoding='utf-8')
    server = Server([build / 'weir', 'serve', '--config', path, '--resp', f'127.0.0.1:{port}', '--http', 'off',
                     '--threads', '1'], log, port, cpu=-1, stdout=subprocess.DEVNULL)
    server.wait_ready()
    return server


def figures(line):
    """'rate 12 cpu 0.5' as a dictionary."""
    words = line.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def one_shot(arguments, log, cpu=None, timeout_s=300):
    """Runs a program that prints one line of figures and ends."""
    process = Process(arguments, log, cpu, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.stop()
        process.complain(f'{arguments[0]} did not end')
    if process.child.returncode != 0:
        process.complain(f'{arguments[0]} ended with {process.child.returncode}')
    return figures(output)


def load(build, log, server, connections, depth, sample_ms, keys, verdict, command):
    return one_shot([build / 'bench/bench_load', server.target, connections, depth, sample_ms, keys, verdict, *command],
                    log, cpu=-1)


def build_peers(folder, log):
    """Builds the Go and the Rust peer into `folder`; returns {name: program} and {name: why not}."""
    peers, missing = {}, {}
    recipes = {
        'go': (['go', 'build', '-o', folder / 'rate_peer', '.'], folder / 'rate_peer', {}),
        'rust': (['cargo', 'build', '--quiet', '--release', '--locked'], folder / 'rust/release/governor_peer',
                 {'CARGO_TARGET_DIR': str(folder / 'rust')}),
    }
    for name, (command, program, env) in recipes.items():
        if shutil.which(command[0]) is None:
            missing[name] = f'{command[0]} is not installed'
            continue
        with open(log, 'ab') as file:
            try:
                status = subprocess.run([str(c) for c in command], cwd=BENCH / name, env=dict(os.environ, **env),
                                        stdout=file, stderr=file, timeout=600, check=False).returncode
            except subprocess.TimeoutExpired:
                status = 124
        if status == 0:
            peers[name] = program
        else:
            missing[name] = f'{" ".join(map(str, command[:2]))} failed: see {log.name}'
    return peers, missing
