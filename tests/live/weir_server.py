# SPDX-License-Identifier: Apache-2.0
"""A weir server of the test's own: on free ports, with a configuration of the test's, ended with the test."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))
READY_TIMEOUT_S = 180
DRAIN_TIMEOUT_S = 60
# For a server that is asked as nginx asks (docs/nginx.md), and what nginx then says of a request.
FORWARDED_NGINX = 'listen: { http: { forwarded: nginx } }\n'
NGINX_FIELDS = {'X-Original-URI': '/', 'X-Original-Method': 'GET', 'X-Real-IP': '192.0.2.1'}


class Weir:
    """weir serve, ready: `resp` and `http` are its ports. Without a configuration it has the example limits. A context
    manager; stop() returns the exit code."""

    def __init__(self, config='limits: []\n', threads=2, arguments=(), stdin=subprocess.DEVNULL, preexec=None,
                 program=BUILD / 'weir'):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-live-')
        self.config = pathlib.Path(self.folder.name, 'weir.yaml')
        if config is not None:
            self.config.write_text(config, encoding='utf-8')
            arguments = ('--config', str(self.config), *arguments)
        self.log = pathlib.Path(self.folder.name, 'log')
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                [str(program), 'serve', '--resp', '127.0.0.1:0', '--http', '127.0.0.1:0',
                 '--threads', str(threads), *arguments],
                stdin=stdin, stdout=log, stderr=subprocess.STDOUT, preexec_fn=preexec,
                env=dict(os.environ, STATE_DIRECTORY=self.folder.name))  # where the example keeps its locks
        try:
            self.resp, self.http = self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def output(self):
        return self.log.read_text(encoding='utf-8', errors='replace')

    def port(self, name):
        match = re.search(rf'^.*\b{name}\b.*127\.0\.0\.1:(\d+)', self.output(), re.M | re.I)
        return int(match[1]) if match else None

    def wait_ready(self):
        """It prints one line per listener, and the last thing that a start says is that it has started: what a test
        expects in the output, or expects not to be there, is looked for after it."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        is_quiet = self.config.exists() and 'level: warn' in self.config.read_text(encoding='utf-8', errors='replace')
        while time.monotonic() < deadline:
            ports = self.port('resp'), self.port('http')
            if all(ports) and (is_quiet or re.search(r'\bstarted\b.*\blimits? of\b', self.output())):
                return ports
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f'weir serve is not ready, status {self.process.poll()}:\n{self.output()}')

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(DRAIN_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.stop()
        assert status == 0, f'weir serve ended with {status}'


@contextlib.contextmanager
def serving(config='limits: []\n', **options):
    """A server that keeps locks."""
    with tempfile.TemporaryDirectory(prefix='weir-locks-') as folder:
        with Weir(config, arguments=('--locks', folder + '/locks.db'), **options) as weir:
            yield weir


def connect(port, timeout_s=60):
    return contextlib.closing(socket.create_connection(('127.0.0.1', port), timeout=timeout_s))


def read_all(sock, size_max=1 << 20):
    """What comes until the other side closes; a reset is an end too."""
    data = b''
    with contextlib.suppress(ConnectionError):
        while len(data) < size_max:
            piece = sock.recv(65536)
            if not piece:
                break
            data += piece
    return data


def read_until(sock, end):
    """Up to and with `end`; less if the other side closes."""
    data = b''
    while end not in data:
        piece = sock.recv(65536)
        if not piece:
            break
        data += piece
    return data


def resp_encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)


class Resp:
    """A small RESP2 client that can be as rude as a test needs."""

    def __init__(self, port, timeout_s=60, host='127.0.0.1'):
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.file = self.socket.makefile('rb')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, *words):
        self.send(resp_encode(*words))
        return self.read()

    def read(self):
        """A reply; an error is an Exception as a value, the end of the connection a ConnectionError."""
        line = self.file.readline()
        if not line.endswith(b'\r\n'):
            raise ConnectionError('closed')
        kind, rest = line[:1], line[1:-2]
        if kind == b'+':
            return rest.decode()
        if kind == b'-':
            return Exception(rest.decode('utf-8', 'backslashreplace'))
        if kind == b':':
            return int(rest)
        if kind == b'$':
            return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        if kind == b'*':
            return None if rest == b'-1' else [self.read() for _ in range(int(rest))]
        raise AssertionError(f'no RESP2 reply: {line!r}')
