# SPDX-License-Identifier: Apache-2.0
"""Plays systemd for one server: hears what it tells, passes sockets that listen, watches."""
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from weir_server import BUILD, DRAIN_TIMEOUT_S, READY_TIMEOUT_S

FIRST_DESCRIPTOR = 3


def listening(place=('127.0.0.1', 0), family=socket.AF_INET):
    sock = socket.socket(family)
    sock.bind(place)
    sock.listen(1024)
    return sock


class Service:
    """A `weir serve` with NOTIFY_SOCKET; `sockets` are (name, socket) that it is passed. A context manager that ends it
    and says that it must have ended well."""

    def __init__(self, config='limits: []\n', arguments=(), sockets=(), abstract=False, watchdog_s=None, environment=None,
                 resp='off', http='off'):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-service-')
        self.path = pathlib.Path(self.folder.name)
        self.config = self.path / 'weir.yaml'
        self.config.write_text(config, encoding='utf-8')
        name = f'@weir-notify-{os.getpid()}-{time.monotonic_ns()}' if abstract else str(self.path / 'notify')
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind('\0' + name[1:] if abstract else name)
        env = dict(os.environ, STATE_DIRECTORY=self.folder.name, NOTIFY_SOCKET=name)
        if watchdog_s is not None:
            env['WATCHDOG_USEC'] = str(int(watchdog_s * 1e6))
        env.update(environment or {})
        passed = {name for name, _ in sockets}
        flags = [] if 'resp' in passed else ['--resp', resp]
        flags += [] if 'http' in passed else ['--http', http]
        command = [str(BUILD / 'weir'), 'serve', '--config', str(self.config), *flags, '--threads', '2', *arguments]
        with open(self.path / 'log', 'wb') as log:
            self.process = self.start(command, sockets, env, log)

    def start(self, command, sockets, env, log):
        """With the sockets from descriptor 3 on, and LISTEN_PID: a shell says its number before it becomes weir."""
        if not sockets:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env)
        env.setdefault('LISTEN_FDS', str(len(sockets)))
        env.setdefault('LISTEN_FDNAMES', ':'.join(name for name, _ in sockets))
        # Away from those that they become, so that none is overwritten before it was copied.
        kept = [os.dup(sock.fileno()) for _, sock in sockets]
        moved = ' '.join(f'{FIRST_DESCRIPTOR + i}<&{100 + i} {100 + i}<&-' for i in range(len(kept)))
        far = ' '.join(f'{100 + i}<&{fd}' for i, fd in enumerate(kept))
        script = f'exec {far}; exec {moved}; export LISTEN_PID=${{LISTEN_PID:-$$}}; exec "$@"'
        try:
            return subprocess.Popen(['bash', '-c', script, 'bash', *command], stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=subprocess.STDOUT, env=env, pass_fds=kept)
        finally:
            for fd in kept:
                os.close(fd)

    def rewrite(self, config):
        """In one step: a reload reads the old file or the new one."""
        new = self.path / 'new.yaml'
        new.write_text(config, encoding='utf-8')
        new.replace(self.config)

    def output(self):
        return (self.path / 'log').read_text(encoding='utf-8', errors='replace')

    def hear(self, timeout_s=READY_TIMEOUT_S):
        """The next thing that it tells: {variable: value}. None: it said nothing."""
        self.heard.settimeout(timeout_s)
        try:
            lines = self.heard.recv(65536).decode().splitlines()
        except (TimeoutError, BlockingIOError):
            return None
        return dict(line.split('=', 1) for line in lines)

    def forget(self, for_s):
        """What was on its way."""
        deadline = time.monotonic() + for_s
        while (left := deadline - time.monotonic()) > 0:
            self.hear(left)

    def hear_until(self, variable, timeout_s=READY_TIMEOUT_S):
        """All that it tells, up to and with `variable`."""
        told, deadline = [], time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.poll() is None:
            if one := self.hear(0.2):
                told.append(one)
                if variable in one:
                    return told
        raise AssertionError(f'{variable} was not told, but {told}; status {self.process.poll()}:\n{self.output()}')

    def ended(self):
        return self.process.wait(READY_TIMEOUT_S)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(DRAIN_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.heard.close()
        self.folder.cleanup()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        output = self.output()
        status = self.stop()
        assert status == 0, f'weir serve ended with {status}:\n{output}'
