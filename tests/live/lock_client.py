#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One client of a fault run (lock_faults.py): acquires, installs, reads a counter, writes counter + 1 with its token,
releases, until its time is over. A process of its own, so that it can be stopped and killed.

What it does goes into its part of the history before it is sent, and what came of it after: whatever it was doing when
it was killed is then known to be unknown. It never looks at its own deadline: the resource alone must stop it. It stops
itself (SIGSTOP) where that hurts most, and whoever started it wakes it."""
import json
import os
import pathlib
import random
import signal
import sqlite3
import sys
import time

from weir_server import Resp

TTL_MS = 2000
WAIT_MS = 1500
LEASE_SLACK_NS = 30_000_000
ANSWER_TIMEOUT_S = 4
BUSY_TIMEOUT_S = 60
STOP_CHANCE = 0.05
ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = ROOT / 'deploy/fence'


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Resource:
    """A counter in SQLite behind weir's own guard."""

    def __init__(self, folder, lock):
        self.lock = lock
        self.base = sqlite3.connect(folder / f'resource-{lock}.db', timeout=BUSY_TIMEOUT_S, isolation_level=None)
        self.base.execute('PRAGMA foreign_keys = ON')
        self.base.execute('PRAGMA synchronous = OFF')  # processes are killed here, not machines

    @staticmethod
    def create(folder, lock):
        base = sqlite3.connect(folder / f'resource-{lock}.db')
        base.execute('PRAGMA journal_mode = WAL')
        base.executescript((FENCE / 'sqlite.sql').read_text(encoding='utf-8'))
        base.executescript('CREATE TABLE counter (value INTEGER NOT NULL);')
        base.execute('INSERT INTO counter VALUES (0)')
        guard = (FENCE / 'sqlite-guard.sql').read_text(encoding='utf-8')
        base.commit()
        base.executescript(guard.replace('@TABLE@', 'counter').replace('@LOCK@', lock))
        base.close()

    def step(self, run):
        """'ok', or what the guard said."""
        try:
            run()
            return 'ok'
        except sqlite3.IntegrityError as error:
            if self.base.in_transaction:
                self.base.execute('ROLLBACK')
            if 'weir_fence: fenced' in str(error):
                return 'fenced'
            if 'weir_fence: not installed' in str(error):
                return 'uninstalled'
            raise

    def install(self, token):
        return self.step(lambda: self.base.execute('INSERT INTO weir_fence_install VALUES (?, ?, ?)',
                                                   (self.lock, *token)))

    def read(self):
        return self.base.execute('SELECT value FROM counter').fetchone()[0]

    def write(self, token, value, pause):
        def run():
            self.base.execute('BEGIN IMMEDIATE')
            self.base.execute('INSERT INTO weir_fence_check VALUES (?, ?, ?)', (self.lock, *token))
            pause()
            self.base.execute('UPDATE counter SET value = ?', (value,))
            self.base.execute('DELETE FROM weir_fence_open')
            self.base.execute('COMMIT')
        return self.step(run)

    def mark(self):
        return self.base.execute('SELECT incarnation FROM weir_fence WHERE name = ?', (self.lock,)).fetchone()[0]


class Client:
    def __init__(self, folder, number, seed, port, until_ns, plant):
        self.choose = random.Random(seed * 1000 + number)
        self.number, self.port, self.until_ns, self.plant = number, port, until_ns, plant
        self.resources = {lock: Resource(folder, lock) for lock in 'ab'}
        self.out = os.open(folder / f'history-{number}', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.connection = None
        self.count = self.session = 0
        self.seen = {}

    def log(self, **fields):
        os.write(self.out, (json.dumps(fields) + '\n').encode())

    def record(self, run, **fields):
        """Runs it between two lines of the history; `run` gives what is to be in the second."""
        self.count += 1
        self.log(id=self.count, client=self.number, start_ns=now_ns(), **fields)
        done = run()
        self.log(id=self.count, end_ns=now_ns(), **done)
        return done

    def stop_here(self, chance=STOP_CHANCE):
        if self.choose.random() < chance:
            os.kill(os.getpid(), signal.SIGSTOP)

    # ---- the service ----

    def ask(self, *words):
        """The answer; None if there was none and it may have been done; an Exception if it certainly was not."""
        if self.connection is None:
            try:
                self.connection = Resp(self.port, ANSWER_TIMEOUT_S)
            except OSError as error:
                time.sleep(0.03)
                return error
        try:
            answer = self.connection.ask(*words)
        except (OSError, ValueError):
            self.connection = None
            return None
        if answer in (-2, [-2]):
            return None
        return answer

    def lease(self, answer, refusal):
        if answer is None:
            return {'result': 'unknown'}
        if isinstance(answer, Exception):
            return {'result': 'down', 'text': str(answer)}
        if answer[0] != 1:
            return {'result': refusal}
        lease_ns = answer[3] * 1_000_000
        return {'result': 'granted', 'incarnation': answer[1], 'number': answer[2], 'lease_ns': lease_ns,
                'lease_max_ns': lease_ns + LEASE_SLACK_NS}

    def acquire(self, lock, owner):
        words = ['WEIR.LOCK', lock, owner, TTL_MS]
        more = {'seen': self.seen[lock]} if lock in self.seen else {}
        if more:
            words += ['SEEN', self.seen.pop(lock)]
        if self.choose.random() < 0.7:
            words += ['WAIT', WAIT_MS]
        return self.record(lambda: self.lease(self.ask(*words), 'held'), op='acquire', lock=lock, owner=owner,
                           lease_ns=TTL_MS * 1_000_000, **more)

    def renew(self, lock, owner):
        return self.record(lambda: self.lease(self.ask('WEIR.RELOCK', lock, owner, TTL_MS), 'lost'), op='renew',
                           lock=lock, owner=owner, lease_ns=TTL_MS * 1_000_000)['result']

    def release(self, lock, owner):
        def run():
            answer = self.ask('WEIR.UNLOCK', lock, owner)
            if answer is None:
                return {'result': 'unknown'}
            if isinstance(answer, Exception):
                return {'result': 'down', 'text': str(answer)}
            return {'result': 'ok' if answer == 1 else 'lost'}
        self.record(run, op='release', lock=lock, owner=owner)

    # ---- the resource ----

    def install(self, lock, token):
        self.stop_here(0.5 if self.plant == 'install-late' else STOP_CHANCE / 2)
        resource = self.resources[lock]
        said = self.record(lambda: {'result': resource.install(token)}, op='install', lock=lock, incarnation=token[0],
                           number=token[1])['result']
        if said == 'fenced':
            self.seen[lock] = resource.mark()
        return said == 'ok'

    def read(self, lock):
        self.stop_here(STOP_CHANCE / 2)
        resource = self.resources[lock]
        return self.record(lambda: {'result': 'ok', 'value': resource.read()}, op='read', lock=lock)['value']

    def write(self, lock, token, value):
        self.stop_here()
        resource = self.resources[lock]
        fields = {'op': 'write', 'lock': lock, 'incarnation': token[0], 'number': token[1], 'value': value + 1,
                  'from': value}
        return self.record(lambda: {'result': resource.write(token, value + 1, lambda: self.stop_here(0.01))},
                           **fields)['result'] == 'ok'

    def work(self, lock, owner, token):
        if self.plant == 'install-late':
            value = self.read(lock)
            if not self.install(lock, token):
                return
        else:
            if not self.install(lock, token):
                return
            value = self.read(lock)
        for _ in range(self.choose.randrange(1, 5)):
            time.sleep(self.choose.random() * 0.02)
            if not self.write(lock, token, value):
                return
            value += 1
            self.stop_here(STOP_CHANCE / 2)
            if self.choose.random() < 0.4 and self.renew(lock, owner) != 'granted':
                return

    def one_session(self):
        self.session += 1
        lock = self.choose.choice('ab')
        owner = f'{self.number}-{self.session}'
        for _ in range(3):
            grant = self.acquire(lock, owner)
            if grant['result'] != 'unknown':
                break
        if grant['result'] != 'granted':
            time.sleep(0.02)
            return
        self.work(lock, owner, (grant['incarnation'], grant['number']))
        if self.choose.random() < 0.97:
            self.release(lock, owner)
        time.sleep(self.choose.random() * 0.05)

    def run(self):
        while now_ns() < self.until_ns:
            self.one_session()


if __name__ == '__main__':
    _, work_folder, client_number, client_seed, client_port, client_until_ns, client_plant = sys.argv
    Client(pathlib.Path(work_folder), int(client_number), int(client_seed), int(client_port), int(client_until_ns),
           client_plant).run()
