# SPDX-License-Identifier: Apache-2.0
"""Servers that are none: they greet as Redis does, and say what a test wants."""
import contextlib
import socket
import threading
import time


class Fake(threading.Thread):
    """A server that greets as Redis does and answers everything else with `reply`."""

    def __init__(self, reply, greets=True):
        super().__init__(daemon=True)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.reply, self.greets = reply, greets
        self.node = None  # in the map of a cluster; None: this one
        self.connections = 0
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, contextlib.suppress(OSError):
            data = b''
            while piece := client.recv(65536):
                data += piece
                while b'\r\n' in data and (command := self.command(data)) is not None:
                    words, data = command
                    client.sendall(self.answer(*words))

    @staticmethod
    def command(data):
        """The words of a whole command, and what follows; None if there is more to come."""
        head, _, rest = data.partition(b'\r\n')
        words = []
        for _ in range(int(head[1:])):
            size, found, rest = rest.partition(b'\r\n')
            if not found or len(rest) < int(size[1:]) + 2:
                return None
            words.append(rest[:int(size[1:])])
            rest = rest[int(size[1:]) + 2:]
        return words, rest

    def answer(self, name, *_):
        slots = b'*1\r\n*3\r\n:0\r\n:16383\r\n' + (self.node or b'*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n' % self.port)
        greeting = {b'CLIENT': b'+OK\r\n', b'CLUSTER': slots, b'ROLE': b'*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n',
                    b'SCRIPT': b'$40\r\n' + b'a' * 40 + b'\r\n'}
        return greeting[name] if self.greets and name in greeting else self.reply

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class FakeSentinel(Fake):
    """Names `port` as the primary of failover `epoch`; silent while `mute`."""

    def __init__(self, port, epoch):
        super().__init__(b'')
        self.named, self.epoch, self.mute, self.delay_s = port, epoch, False, 0
        self.named_at = None  # the first time, by time.monotonic()

    def answer(self, name, *words):
        def array(*texts):
            return b'*%d\r\n' % len(texts) + b''.join(b'$%d\r\n%s\r\n' % (len(text), text) for text in texts)
        if name == b'ROLE':
            return array(b'sentinel')
        if name != b'SENTINEL' or self.mute:
            return b'' if self.mute else b'+OK\r\n'
        time.sleep(self.delay_s)
        if words[0] == b'MASTER':
            return array(b'ip', b'127.0.0.1', b'port', b'1', b'config-epoch', b'%d' % self.epoch)
        self.named_at = self.named_at or time.monotonic()
        return array(b'127.0.0.1', b'%d' % self.named)
