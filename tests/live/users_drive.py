# SPDX-License-Identifier: Apache-2.0
"""Drives a store of users in a process of its own (tests/session/users_drive.c)."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

from weir_server import BUILD

PROGRAM = pathlib.Path(os.environ.get('WEIR_USERS_DRIVE', BUILD / 'tests/session/users_drive'))


class UsersDrive:
    def __init__(self, url, ttl_ms=60000, timeout_ms=500):
        self.process = subprocess.Popen([str(PROGRAM), url, str(ttl_ms), str(timeout_ms)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, encoding='utf-8')

    def ask(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f'the store is gone: {self.process.poll()}'
        return json.loads(line)

    def newest(self, position, timeline=1):
        """What the primary shows from now on; 0: nobody knows."""
        self.ask('newest', timeline, position)

    def add(self, user, position, timeline=1):
        return self.ask('add', user, timeline, position)

    def added(self, user, position, seconds=60):
        """Again and again until it is."""
        return self.until('add', user, 1, position, seconds=seconds)

    def got(self, user, seconds=60):
        """How far the user has seen, as soon as the store says so."""
        answer = self.until('get', user, seconds=seconds)
        assert answer['places'], answer
        return max(position for _, position in answer['places'])

    def until(self, *words, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            answer = self.ask(*words)
            if answer['status'] == 'OK':
                return answer
            assert time.monotonic() < deadline, (words, answer, self.stats())
            time.sleep(0.02)

    def stats(self):
        return self.ask('stats')

    def close(self):
        """At the end of its input it ends by itself; the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Between:
    """Stands before a server and calls `meanwhile` once, before it hands on the first message that has `mark` in it."""

    def __init__(self, port, mark, meanwhile):
        self.server, self.mark, self.meanwhile = port, mark, meanwhile
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(('127.0.0.1', self.server))
                threading.Thread(target=self.hand_on, args=(client, server, self.look), daemon=True).start()
                threading.Thread(target=self.hand_on, args=(server, client, lambda _: None), daemon=True).start()

    def look(self, data):
        if self.meanwhile and self.mark in data:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    @staticmethod
    def hand_on(source, target, look):
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65536):
                look(data)
                target.sendall(data)

    def close(self):
        self.listener.close()


class Crowd:
    """Two processes on one store, users that are added to through either, and faults in between: what a user is said to
    have seen contains all that was added for it. `faults` are called by turns of chance."""

    USERS = 20
    ENOUGH = 400
    LOSSES = 2

    def __init__(self, drives, random, faults, fault_every=40):
        self.drives, self.random, self.faults, self.every = drives, random, faults, fault_every
        self.position = 1000
        self.seen = {}
        self.done = self.failed = 0
        self.wrong = []

    def step(self):
        drive = self.random.choice(self.drives)
        user = f'user{self.random.randrange(self.USERS)}'
        self.position += self.random.randrange(100)
        for each in self.drives:
            each.newest(self.position)
        if self.random.random() < 0.5:
            position = self.position - self.random.choice((0, 0, 50, 500))
            answer = drive.add(user, max(1, position))
            if answer['status'] == 'OK':
                self.seen[user] = max(self.seen.get(user, 0), position)
        else:
            answer = drive.ask('get', user)
        if answer['status'] != 'OK':
            self.failed += 1
            return
        self.done += 1
        shown = max((position for _, position in answer['places']), default=0)
        if shown < self.seen.get(user, 0):
            self.wrong.append((user, shown, self.seen[user], answer))

    def losses(self):
        return sum(drive.stats()['losses'] for drive in self.drives)

    def run(self, seconds):
        """And for as long as a busy machine takes to do enough, and chance to lose something often enough."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or (time.monotonic() < deadline + 300 and
                                              (self.done < self.ENOUGH or self.losses() <= self.LOSSES)):
            if self.random.randrange(self.every) == 0:
                self.random.choice(self.faults)()
            self.step()
        return self


class UsersTogether:
    """Tests of several processes on one store. The case has server() and drive(), lose(server) that begins an epoch, and a
    `mark`, by which a swap is known on its way."""

    def test_two_processes_on_one_user(self):
        server = self.server()
        drives = [self.drive(server) for _ in range(2)]
        threads = [threading.Thread(target=lambda drive=drive, i=i: [drive.added('ada', 1000 + 8 * (2 * k + i))
                                                                    for k in range(300)])
                   for i, drive in enumerate(drives)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for drive in drives:
            self.assertEqual(drive.got('ada'), 1000 + 8 * 599)

    def between(self, server, meanwhile):
        between = Between(server.port, self.mark, meanwhile)
        self.addCleanup(between.close)
        return self.drive(between)

    def test_another_adds_between_fetch_and_swap(self):
        server = self.server()
        other = self.drive(server)
        other.added('ada', 1200)
        slow = self.between(server, lambda: other.added('ada', 1600))
        slow.added('ada', 1400)
        self.assertEqual(slow.got('ada'), 1600)
        self.assertEqual(other.got('ada'), 1600)

    def test_an_epoch_begins_between_fetch_and_swap(self):
        """What is put then must not be of the epoch before: the other's floor is older than it."""
        server = self.server()
        other = self.drive(server)

        def meanwhile():
            self.lose(server)
            other.newest(5000)
            self.assertEqual(other.got('ada'), 5000)

        slow = self.between(server, meanwhile)
        slow.newest(5500)
        slow.added('ada', 5500)
        self.assertEqual(other.got('ada'), 5500)
