# SPDX-License-Identifier: Apache-2.0
"""A lock service of the test's own, over RESP: real leases, in memory, and the faults that a test asks for. What the
client's side of a lock does when the service fails is shown with it; weir itself is tested elsewhere."""
import contextlib
import socket
import threading
import time


class Lock:
    def __init__(self):
        self.owner, self.number, self.end = None, 0, 0.0


class FakeLocks:
    """`address` is where it answers. Faults: `deny` (renewals find nothing), `mute` (says nothing to anybody), `hasty`
    (waits end at once, as where a server is asked to end), stop().
    A context manager."""

    def __init__(self):
        self.deny = self.mute = self.hasty = False
        self.locks, self.commands = {}, []
        self.changed = threading.Condition()
        self.sockets = []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = f'127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for sock in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.sockets.append(sock)
                threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        with contextlib.suppress(OSError, ValueError), sock.makefile('rb') as file:
            while line := file.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(file.read(int(file.readline()[1:]) + 2)[:-2].decode())
                answer = self.answer(words)
                if not self.mute:
                    sock.sendall(answer)

    def count(self, verb):
        return sum(words[0] == verb for words in self.commands)

    def answer(self, words):
        with self.changed:
            self.commands.append(words)
            if words[0] == 'HELLO':
                return b'*2\r\n$6\r\nserver\r\n$4\r\nweir\r\n'
            handler = {'WEIR.LOCK': self.acquire, 'WEIR.RELOCK': self.renew, 'WEIR.UNLOCK': self.release,
                       'WEIR.LOCKS': self.show}[words[0]]
            return handler(self.locks.setdefault(words[1], Lock()), *words[2:])

    def granted(self, lock, ttl_ms):
        lock.end = max(lock.end, time.monotonic() + int(ttl_ms) / 1000)
        left = round((lock.end - time.monotonic()) * 1000)
        return b'*4\r\n:1\r\n:7\r\n:%d\r\n:%d\r\n' % (lock.number, left)

    def acquire(self, lock, owner, ttl_ms, *options):
        options = dict(zip(options[::2], options[1::2]))
        until = time.monotonic() + (0 if self.hasty else int(options.get('WAIT', 0)) / 1000)
        while lock.owner not in (None, owner) and lock.end > time.monotonic():
            left = min(until, lock.end) - time.monotonic()
            if time.monotonic() >= until:
                return b'*2\r\n:0\r\n:%d\r\n' % max(1, round((lock.end - time.monotonic()) * 1000))
            self.changed.wait(max(left, 0))
        if lock.owner != owner or lock.end <= time.monotonic():
            lock.number, lock.end = lock.number + 1, 0.0
        lock.owner = owner
        return self.granted(lock, ttl_ms)

    def renew(self, lock, owner, ttl_ms):
        if self.deny or lock.owner != owner or lock.end <= time.monotonic():
            return b'*2\r\n:0\r\n:0\r\n'
        return self.granted(lock, ttl_ms)

    def release(self, lock, owner):
        held = lock.owner == owner and lock.end > time.monotonic()
        if held:
            lock.owner = None
            self.changed.notify_all()
        return b':%d\r\n' % held

    def show(self, lock):
        left = round((lock.end - time.monotonic()) * 1000)
        owner = lock.owner.encode() if lock.owner and left > 0 else None
        return b'*5\r\n%s:7\r\n:%d\r\n:%d\r\n:0\r\n' % (
            b'$%d\r\n%s\r\n' % (len(owner), owner) if owner else b'$-1\r\n', lock.number, max(left, 0))
