#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Randomised fault runs over a real primary, its replicas, and processes whose threads read and write in sessions of the
C library (tests/session/faults_drive.c), over few rows, handing each other tokens.

    session_faults.py [--runs 100] [--seed S] [--jobs 3] [--faults paused,loss] [--driver PROGRAM] [--build FOLDER] [--keep]

Each run draws its faults by its seed (S, S + 1, ...) from session_faults_postgres.py. After it: every session goes on;
the history is accepted (tests/session/session_check); whoever saw what was lost in the end was told so before it was
shown a successor (values have names besides versions); no call took for ever; no forgery was let in. Exit code 1: a run
was refused; its seed and its folder, with the history and the servers' logs, are printed."""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import session_faults_postgres as faults
from postgres_replicas import INITDB, Replicas
from postgres_server import fresh
from weir_server import BUILD

PROCESSES, ACTORS, USERS, KEYS = 3, 4, 5, 3
ANSWER_TIMEOUT_S = 120
GOES_ON_TIMEOUT_S = 120
CALL_MAX_NS = 20_000_000_000  # a hang, not a speed
# What servers do to a session. Everything else it is told would be somebody's mistake.
USUAL = {'WEIR_EBEHIND', 'WEIR_EDOWN', 'WEIR_EIO', 'WEIR_EUNKNOWN', 'WEIR_ELIMIT'}
COUNTED = ('reads', 'at the primary', 'waited', 'stale', 'writes', 'unknown', 'lost', 'lost without need', 'behind', 'down')


class Driver:
    """One process of sessions."""

    def __init__(self, run, number):
        choose = run.choose
        self.log = run.folder / f'driver-{number}.log'
        self.history = run.folder / f'history-{number}'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                [str(word) for word in (run.options.driver, run.folder, number, run.seed, ACTORS, USERS, KEYS,
                                        choose.choice((10, 20, 50)), choose.choice((300, 1000)),
                                        choose.choice((300, 1000)))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding='utf-8')

    def tell(self, command):
        self.process.stdin.write(command + '\n')
        self.process.stdin.flush()

    def answer(self):
        said = self.process.stdout.readline().strip()
        assert said == 'done', f'driver: {said}: {self.log.read_text(errors="replace")[-500:]}'

    def end(self):
        with contextlib.suppress(OSError):
            self.tell('end')
        try:
            self.process.communicate(timeout=ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError('a call of a session does not return') from None
        assert self.process.returncode == 0, f'driver: exit code {self.process.returncode}: ' + self.log.read_text()


    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(OSError):  # what was to be told to one that is dead
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def lines(path):
    for line in path.read_text(encoding='utf-8').splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


class Run:
    now_ns = staticmethod(time.monotonic_ns)

    def __init__(self, seed, options):
        self.seed, self.options = seed, options
        self.choose = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f'weir-sessions-{seed}-'))
        (self.folder / 'board').mkdir()
        self.group, self.drivers, self.touched, self.state = None, [], [], None
        self.cuts, self.calms, self.told, self.healed_ns = [], [], [], 0
        self.counted, self.truth, self.why_lost = collections.Counter(), {}, None

    # ---- for faults ----

    def sleep(self, low_s, high_s):
        time.sleep(self.choose.uniform(low_s, high_s))

    def tell(self, command, drivers=None):
        for driver in drivers or self.drivers:
            driver.tell(command)
        for driver in drivers or self.drivers:
            driver.answer()

    def cut(self, since_ns):
        """From then until now something that was seen may have been lost."""
        self.cuts.append((since_ns, self.now_ns()))

    def grow(self, at_least=2):
        """There are as many standbys."""
        if len(self.group.standbys) < at_least:
            upstreams = [None, None, *(standby for standby in self.group.standbys if standby not in self.touched)]
            standby = self.group.add(self.choose.choice(upstreams))
            self.tell(f'add {standby.name} {standby.conninfo()}')

    # ---- the run ----

    def set_up(self):
        self.group = Replicas(self.choose.choice((2, 3, 3)))
        primary = self.group.primary
        primary.execute('CREATE TABLE t (key int PRIMARY KEY, version bigint, tag text);'
                        'CREATE TABLE log (key int, version bigint, tag text, PRIMARY KEY (key, version))')
        primary.execute("INSERT INTO t SELECT key, 0, '' FROM generate_series(0, %s) key", KEYS - 1)
        if len(self.group.standbys) == 3 and self.choose.random() < 0.5:
            self.group.standbys[2].attach(self.group.standbys[0])
        self.group.wait_caught_up()
        (self.folder / 'servers').write_text(''.join(f'{server.name} {server.conninfo()}\n'
                                                     for server in self.group.all()), encoding='utf-8')
        for number in range(1, PROCESSES + 1):
            self.drivers.append(Driver(self, number))

    def draw(self, table):
        asked = [name for name in self.options.faults if name in table]
        if not asked and self.options.faults:
            return next(iter(table))
        return self.choose.choice(asked or sorted(table))

    def break_things(self):
        for _ in range(self.options.steps or self.choose.choice((2, 3))):
            state, event = self.draw(faults.STATES), self.draw(faults.EVENTS)
            self.told.append(f'{state}+{event}')
            self.state = faults.STATES[state]
            with self.state(self):
                self.sleep(0.1, 0.5)
                faults.EVENTS[event](self)
                self.sleep(0.1, 0.5)
        faults.heal(self)
        self.healed_ns = self.now_ns()

    def wait_until_all_go_on(self):
        """Each session reads and writes."""
        deadline = time.monotonic() + GOES_ON_TIMEOUT_S
        everybody = PROCESSES * ACTORS
        while True:
            done = collections.defaultdict(set)
            for driver in self.drivers:
                for op in lines(driver.history):
                    if op['start_ns'] > self.healed_ns and op.get('server') != 'token' and op['op'] in ('read', 'write'):
                        done[op['session']].add(op['op'])
            if sum(len(ops) == 2 for ops in done.values()) == everybody:
                return
            assert time.monotonic() < deadline, f'not all sessions go on: {dict(done)}'
            time.sleep(0.2)

    def go(self):
        """None, or why it is refused."""
        try:
            self.set_up()
            self.break_things()
            self.wait_until_all_go_on()
            for driver in self.drivers:
                driver.end()
            self.truth = {(str(key), version): tag for key, version, tag in
                          self.group.primary.execute('TABLE log')}
            return self.judge()
        finally:
            for driver in self.drivers:
                driver.stop()
            self.keep_logs()
            if self.group:
                self.group.stop()

    def keep_logs(self):
        for server in self.group.all() if self.group else ():
            with contextlib.suppress(OSError):
                shutil.copy(server.folder / 'log', self.folder / f'{server.name}-{server.port}.log')

    def reads_since(self, since_ns):
        """Those that were told of up to now: (at all servers, at the primary)."""
        reads = [op for driver in self.drivers for op in lines(driver.history)
                 if op['op'] == 'read' and op['server'] != 'token' and op['start_ns'] > since_ns]
        return len(reads), sum(op['leader'] for op in reads)

    # ---- after it ----

    def is_lost(self, op):
        return op['version'] > 0 and self.truth.get((op['key'], op['version'])) != op['tag']

    def cut_lines(self, ops):
        """Each loss, key by key: the highest version that survived is the one before the first that did not."""
        for since_ns, until_ns in self.cuts:
            survived = {}
            for op in ops:
                if 'tag' in op and op['start_ns'] <= until_ns and op['op'] != 'inherit' and \
                        self.is_lost(op) and not op.get('cut'):
                    survived[op['key']] = min(survived.get(op['key'], op['version']), op['version'] - 1)
                    op['cut'] = True
            for key, version in survived.items():
                yield {'op': 'cut', 'key': key, 'version': version, 'start_ns': since_ns, 'end_ns': until_ns}

    def not_told(self, ops):
        """Did a session see a value that is none of the final history, and later, without LOST between, one of that
        history that came after it? The versions alone may not show it. Counts the LOST that nothing asked for."""
        pending = collections.defaultdict(dict)  # of each session: by key, what it saw and was lost, the lowest
        for op in ops:
            lost = pending[op.get('session')]
            if op['op'] == 'lost':
                self.why_lost = op
                self.counted['lost without need'] += not lost
                lost.clear()
            elif op['op'] in ('read', 'write', 'inherit'):
                key = op['key']
                if not self.is_lost(op):
                    if op.get('server') != 'token' and key in lost and lost[key]['version'] <= op['version'] and op['start_ns'] > lost[key]['end_ns']:
                        return f'not told that it was lost: {lost[key]}, and then shown {op}'
                elif key not in lost or op['version'] < lost[key]['version']:
                    lost[key] = op
        return None

    def count(self, ops):
        counted = self.counted
        for op in ops:
            if op['op'] == 'read' and op['server'] != 'token':
                counted['reads'] += 1
                counted['at the primary'] += op['leader']
                counted['waited'] += op['waited_ms'] > 1
            elif op['op'] == 'refused':
                counted['behind'] += op['error'] == 'WEIR_EBEHIND'
                counted['down'] += op['error'] == 'WEIR_EDOWN'
            else:
                counted[{'write': 'writes'}.get(op['op'], op['op'])] += 1

    def judge(self):
        ops = sorted((op for driver in self.drivers for op in lines(driver.history)), key=lambda op: op['start_ns'])
        self.count(ops)
        not_told = self.not_told(ops)
        told = [*ops, *self.cut_lines(ops)]
        path = self.folder / 'history.jsonl'
        judged = {'op', 'session', 'key', 'version', 'server', 'start_ns', 'end_ns'}
        path.write_text(''.join(json.dumps({name: value for name, value in op.items() if name in judged}) + '\n'
                                for op in sorted(told, key=lambda op: op['start_ns'])
                                if op['op'] in ('read', 'write', 'stale', 'unknown', 'lost', 'cut')), encoding='utf-8')
        done = subprocess.run([str(self.options.checker), str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding='utf-8', check=False)
        if done.returncode != 0:
            return done.stdout.strip()
        return not_told or self.odd(ops)

    def odd(self, ops):
        for op in ops:
            if op['op'] == 'refused' and op['error'] not in USUAL or op['op'] == 'forged' and (
                    op['wrong'] or op['error'] not in {'WEIR_OK', *USUAL}):
                return f'told what it should not be: {op}'
            if op['op'] == 'long' and op['took_ns'] > CALL_MAX_NS:
                return f'took too long: {op}'
            if 'tag' in op and op['op'] != 'inherit' and op['server'] != 'token' and self.is_lost(op) and not op.get('cut'):
                return f'lost without a fault that loses: {op}'
        for since_ns, until_ns in self.calms:
            reads = [op for op in ops if op['op'] == 'read' and since_ns < op['start_ns'] < until_ns
                     and op['server'] != 'token']
            if not reads or sum(op['leader'] for op in reads) * 2 > len(reads):
                return f'{len(reads)} reads while the primary was idle, too many of them there'
        return None


def one_run(seed, options):
    run = Run(seed, options)
    try:
        refused = run.go()
    except Exception as error:  # pylint: disable=broad-except
        refused = f'{type(error).__name__}: {error}'
    word = 'REFUSED' if refused else 'held'
    if run.counted['lost'] and not {name.split('+')[1] for name in run.told} & faults.FAILOVERS:
        print(f'    seed {seed}: LOST was told, and no primary failed: {run.why_lost}', flush=True)
    counted = ', '.join(f'{run.counted[name]} {name}' for name in COUNTED)
    print(f'seed {seed}: {word}: {", ".join(run.told)}; {counted}', flush=True)
    if refused:
        print(f'    {refused}\n    {run.folder}', flush=True)
        if not options.discard:
            print(f'    again: {sys.argv[0]} --runs 1 --seed {seed}', flush=True)
    if options.discard or (not refused and not options.keep):
        shutil.rmtree(run.folder)
    return refused, run.counted


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--runs', default=4, type=int)
    parser.add_argument('--seed', default=time.time_ns() % 1_000_000, type=int)
    parser.add_argument('--jobs', default=3, type=int)
    parser.add_argument('--faults', default='', help='only these, a state or an event each; others are nothing')
    parser.add_argument('--steps', type=int, help='faults of each run, one after the other; by default 2 or 3')
    parser.add_argument('--build', default=BUILD, type=pathlib.Path)
    parser.add_argument('--driver', type=pathlib.Path, help='one that was built with a mistake, say')
    parser.add_argument('--checker', type=pathlib.Path)
    parser.add_argument('--keep', action='store_true', help='the folders of runs that held, too')
    parser.add_argument('--discard', action='store_true', help='those of runs that were refused, too')
    options = parser.parse_args(words)
    options.driver = options.driver or options.build / 'tests/session/faults_drive'
    options.checker = options.checker or options.build / 'tests/session/session_check'
    options.faults = [name for name in options.faults.split(',') if name]
    assert all(name in {**faults.STATES, **faults.EVENTS} for name in options.faults), options.faults
    return options


def prepare():
    """Once, before runs ask for it side by side."""
    fresh(*INITDB)


def main(options):
    """The number of runs that were refused."""
    prepare()
    print(f'{options.runs} runs from seed {options.seed}', flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda seed: one_run(seed, options), range(options.seed, options.seed + options.runs)))
    refused, total = sum(why is not None for why, _ in done), collections.Counter()
    for _, counted in done:
        total.update(counted)
    share = 100 * total['at the primary'] / max(1, total['reads'])
    print(', '.join(f'{total[name]} {name}' for name in COUNTED) + f'; {share:.1f} % of reads at the primary')
    print(f'{options.runs - refused} held, {refused} refused', flush=True)
    return refused


if __name__ == '__main__':
    sys.exit(1 if main(arguments()) else 0)
