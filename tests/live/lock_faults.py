#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Randomised fault runs over a real weir serve, real client processes (lock_client.py) and a real guarded resource.

    lock_faults.py [--engine sqlite] [--runs 200] [--seed S] [--jobs 4] [--plant install-late] [--build FOLDER] [--keep]

Each run draws its faults by its seed (S, S + 1, ...): holders stopped past their lease and in the middle of a write,
clients killed, the service killed (between commit and answer too), restarted, its database set back to an older copy
with and without a restart. After it: the history is accepted (tests/history, models fenced and register), and the
counters hold every acknowledged update. Exit code 1: a run was refused; its seed and folder are printed.

Another engine brings itself: lock_faults_ENGINE.py with a class Engine like Sqlite below."""
import argparse
import concurrent.futures
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lock_client import Resource, now_ns
from ports import free_port
from weir_server import BUILD, Resp

SECONDS = 5.0
CLIENTS = 6
LOCKS = ('a', 'b')
READY_TIMEOUT_S = 60
END_TIMEOUT_S = 120
TTL_S = 2.0
HERE = pathlib.Path(__file__).resolve().parent


class Service:
    """weir serve on a port that stays the same when it is started again."""

    def __init__(self, build, folder, locks):
        self.build, self.folder = build, folder
        self.port = free_port()
        self.config = folder / 'weir.yaml'
        self.config.write_text(f'limits: []\n{locks}', encoding='utf-8')
        self.process = None

    def start(self):
        with open(self.folder / 'weir.log', 'ab') as log:
            self.process = subprocess.Popen(
                [str(self.build / 'weir'), 'serve', '--config', str(self.config), '--resp', f'127.0.0.1:{self.port}',
                 '--http', 'off', '--threads', '1'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with Resp(self.port, 1) as client:
                    if client.ask('PING') == 'PONG':
                        return
            except OSError:
                time.sleep(0.01)
        raise AssertionError('weir serve is not ready: ' + (self.folder / 'weir.log').read_text(errors='replace'))

    def end(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Engine:
    """What a store brings to a run. `faults`: names and what they do to the run; they are drawn besides the common ones.
    A fault that sets the store back says so with run.event('restore') (the service can know it: tokens still increase)
    or run.event('rewind') (it cannot)."""

    locks = ''              # the section of the configuration
    lease_ends_late = False  # leases may end later than they should: nothing is asked of their latest end

    def __init__(self, folder):
        self.folder = folder
        self.faults = {}

    def stop(self):
        """After the run."""


class Sqlite(Engine):
    def __init__(self, folder):
        super().__init__(folder)
        self.store = folder / 'locks.db'
        self.locks = f'locks: {{ engine: sqlite, path: {self.store} }}\n'
        self.set_back = False
        self.faults = {'restore': self.restore, 'restore_hot': self.restore_hot}

    def copy(self, source, target):
        for suffix in ('', '-wal'):
            pathlib.Path(f'{target}{suffix}').unlink(missing_ok=True)
            if pathlib.Path(f'{source}{suffix}').exists():
                shutil.copy(f'{source}{suffix}', f'{target}{suffix}')

    def back_up(self, run):
        """Of a service that is not running: a copy of a file that is being written would be no backup."""
        run.service.end(signal.SIGKILL)
        self.copy(self.store, self.folder / 'backup.db')

    def older_copy(self, run):
        started_ns = now_ns()
        self.back_up(run)
        run.service.start()
        run.event('restart', started_ns)
        run.sleep(0.3, 1.2)

    def restore(self, run):
        self.older_copy(run)
        started_ns = now_ns()
        run.service.end(signal.SIGKILL)
        pathlib.Path(f'{self.store}-shm').unlink(missing_ok=True)
        self.copy(self.folder / 'backup.db', self.store)
        run.service.start()
        run.event('restore', started_ns)

    def restore_hot(self, run):
        """Under the running service."""
        self.older_copy(run)
        started_ns = now_ns()
        fresh = self.folder / 'fresh.db'
        self.copy(self.folder / 'backup.db', fresh)
        for suffix in ('-wal', '-shm'):
            pathlib.Path(f'{self.store}{suffix}').unlink(missing_ok=True)
        if pathlib.Path(f'{fresh}-wal').exists():
            os.replace(f'{fresh}-wal', f'{self.store}-wal')
        os.replace(fresh, self.store)
        run.restarts_as = 'restore'  # what was granted just before is lost with a kill soon after
        run.event('restore', started_ns)


def engine_class(name):
    return Sqlite if name == 'sqlite' else importlib.import_module(f'lock_faults_{name}').Engine


class Run:
    def __init__(self, seed, options):
        self.seed, self.options = seed, options
        self.choose = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f'weir-locks-{seed}-'))
        self.engine = engine_class(options.engine)(self.folder)
        self.service = Service(options.build, self.folder, self.engine.locks)
        self.events, self.clients, self.told = [], [], []
        self.restarts_as = 'restart'
        self.drains = []
        self.undecided = False
        self.over = threading.Event()

    # ---- for faults ----

    def event(self, op, started_ns):
        self.events.append({'op': op, 'start_ns': started_ns, 'end_ns': now_ns(), 'result': 'ok'})

    def sleep(self, low_s, high_s):
        self.over.wait(self.choose.uniform(low_s, high_s))

    def restart(self, number):
        started_ns = now_ns()
        self.service.end(number)
        self.sleep(0, 0.4)
        self.service.start()
        self.event(self.restarts_as, started_ns)
        if number == signal.SIGTERM:
            self.drains.append((started_ns, now_ns()))

    def kill(self):
        self.restart(signal.SIGKILL)

    def kill_twice(self):
        self.kill()
        self.sleep(0, 0.2)
        self.kill()

    def end_and_start(self):
        self.restart(signal.SIGTERM)

    def stop_a_client(self):
        self.choose.choice(self.clients).send_signal(signal.SIGSTOP)

    def kill_a_client(self):
        self.choose.choice(self.clients).kill()

    # ---- the run ----

    def start_client(self, number, until_ns):
        with open(self.folder / f'client-{number}.log', 'wb') as log:
            self.clients.append(subprocess.Popen(
                [sys.executable, str(HERE / 'lock_client.py'), str(self.folder), str(number), str(self.seed),
                 str(self.service.port), str(until_ns), self.options.plant or '-'],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log))

    def wake_the_stopped(self):
        """Whoever stopped, or was stopped, sleeps for a while that is drawn: mostly past its lease."""
        choose = random.Random(self.seed + 1)
        asleep = {}
        while not self.over.wait(0.02):
            for client in self.clients:
                try:
                    stat = pathlib.Path(f'/proc/{client.pid}/stat').read_text(encoding='ascii')
                except OSError:
                    continue
                state = stat.rsplit(')', 1)[1].split()[0]
                if state == 'T' and client.pid not in asleep:
                    asleep[client.pid] = time.monotonic() + choose.choice((0.1, TTL_S + 0.2, TTL_S + 0.3, TTL_S + 1.3))
                elif state == 'T' and time.monotonic() >= asleep[client.pid]:
                    del asleep[client.pid]
                    client.send_signal(signal.SIGCONT)

    def break_things(self):
        common = {name: getattr(self, name) for name in
                  ('kill', 'kill', 'kill_twice', 'end_and_start', 'stop_a_client', 'kill_a_client')}
        faults = {**common, **self.engine.faults}
        names = sorted(faults)
        until = time.monotonic() + SECONDS
        for _ in range(0 if self.options.calm else self.choose.randrange(2, 5)):
            self.sleep(0.2, 1.4)
            if time.monotonic() >= until:
                return
            name = self.choose.choice(names)
            self.told.append(name)
            faults[name](*(() if name in common else (self,)))

    def go(self):
        """None, or why it is refused."""
        for lock in LOCKS:
            Resource.create(self.folder, lock)
        self.service.start()
        until_ns = now_ns() + int(SECONDS * 1e9)
        waker = threading.Thread(target=self.wake_the_stopped)
        try:
            for number in range(1, CLIENTS + 1):
                self.start_client(number, until_ns)
            waker.start()
            self.break_things()
            deadline = time.monotonic() + SECONDS + END_TIMEOUT_S
            for client in self.clients:
                client.wait(max(0.1, deadline - time.monotonic()))
        finally:
            self.over.set()
            waker.join()
            for client in self.clients:
                if client.poll() is None:
                    client.kill()
                    client.wait()
            self.service.end(signal.SIGTERM)
        return self.judge()

    # ---- after it ----

    def history(self):
        ops = list(self.events)
        for part in sorted(self.folder.glob('history-*')):
            begun = {}
            for line in part.read_text(encoding='utf-8').splitlines():
                try:
                    fields = json.loads(line)
                except ValueError:
                    continue  # killed while it wrote
                begun.setdefault(fields.pop('id'), {}).update(fields)
            ops += begun.values()
        for op in ops:
            if 'result' not in op:
                op['result'] = 'unknown'
            # Who waits when the service ends is told "held", whoever holds it: perhaps nobody, and what it was granted
            # meanwhile was taken back.
            if op['result'] == 'held' and any(begin <= op['end_ns'] <= end for begin, end in self.drains):
                op['result'] = 'unknown'
            if self.engine.lease_ends_late:
                op.pop('lease_max_ns', None)
        return sorted(ops, key=lambda op: op['start_ns'])

    def judge(self):
        ops = self.history()
        path = self.folder / 'history.jsonl'
        path.write_text(''.join(json.dumps(op) + '\n' for op in ops), encoding='utf-8')
        self.counted = {kind: sum(op['op'] == verb and op['result'] == result for op in ops)
                        for kind, verb, result in (('granted', 'acquire', 'granted'), ('written', 'write', 'ok'),
                                                   ('fenced', 'install', 'fenced'), ('write fenced', 'write', 'fenced'),
                                                   ('unknown', 'acquire', 'unknown'))}
        for client in self.folder.glob('client-*.log'):
            if client.stat().st_size > 0:
                return f'{client.name}: {client.read_text(errors="replace")[-500:]}'
        for lock in LOCKS:
            acknowledged = sum(op['op'] == 'write' and op['result'] == 'ok' and op['lock'] == lock for op in ops)
            value = Resource(self.folder, lock).read()
            if value < acknowledged:
                return f'lock {lock}: {acknowledged} updates were acknowledged, the counter is {value}'
        for model in ('fenced', 'register'):
            done = subprocess.run([str(self.options.checker), str(path), '--model', model], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding='utf-8', check=False)
            if done.returncode == 3:
                self.undecided = True
                print(f'    seed {self.seed}: {done.stdout.strip()}', flush=True)
            elif done.returncode != 0:
                return done.stdout.strip()
        return None


def one_run(seed, options):
    run = Run(seed, options)
    try:
        refused = run.go()
    except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
        refused, run.counted = f'{type(error).__name__}: {error}', {}
    finally:
        run.engine.stop()
    counted = ', '.join(f'{count} {kind}' for kind, count in run.counted.items())
    word = 'REFUSED' if refused else 'undecided' if run.undecided else 'held'
    print(f'seed {seed}: {word}: {", ".join(run.told) or "no fault"}; {counted}', flush=True)
    if refused:
        print(f'    {refused}\n    {run.folder}', flush=True)
    if options.discard or (not refused and not options.keep):
        shutil.rmtree(run.folder)
    return refused


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--engine', default='sqlite')
    parser.add_argument('--runs', default=4, type=int)
    parser.add_argument('--seed', default=time.time_ns() % 1_000_000, type=int)
    parser.add_argument('--jobs', default=4, type=int)
    parser.add_argument('--plant', choices=['install-late'], help='a mistake of the clients that must be caught')
    parser.add_argument('--calm', action='store_true', help='no faults but what clients do to themselves')
    parser.add_argument('--build', default=BUILD, type=pathlib.Path, help='whose weir')
    parser.add_argument('--checker', default=BUILD / 'tests/history/history_check', type=pathlib.Path)
    parser.add_argument('--keep', action='store_true', help='the folders of runs that held, too')
    parser.add_argument('--discard', action='store_true', help='those of runs that were refused, too')
    return parser.parse_args(words)


def main(options):
    """The number of runs that were refused."""
    print(f'{options.runs} runs over {options.engine} from seed {options.seed}', flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        refused = list(pool.map(lambda seed: one_run(seed, options),
                                range(options.seed, options.seed + options.runs)))
    print(f'{refused.count(None)} held, {len(refused) - refused.count(None)} refused', flush=True)
    return len(refused) - refused.count(None)


if __name__ == '__main__':
    sys.exit(1 if main(arguments()) else 0)
