#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Select-only load through sessions beside plain libpq: 8 connections, one primary and two replicas on this machine, the
same prepared reads of the same rows at the same replicas, in turn. Plain and weir alternate sample by sample, so that
what the machine does meanwhile happens to all of them."""
import argparse
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests/live'))
from postgres_replicas import Replicas  # pylint: disable=wrong-import-position

ROWS = 10000
CONNECTIONS = 8
MODES = {'plain': 'libpq alone', 'lazy': 'a session, place taken when it is needed',
         'token': 'a session, its token asked for after each read',
         'query': 'a session, its token with each read (weir_session_query)'}
FLOORS = {'lazy': 0.9, 'query': 0.6}


class Load:
    def __init__(self, build, group):
        arguments = [word for server in group.all() for word in (server.name, server.conninfo())]
        self.process = subprocess.Popen([build / 'bench/bench_reads_load', str(CONNECTIONS), *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def sample(self, mode, milliseconds):
        """Reads a second."""
        self.process.stdin.write(f'{mode} {milliseconds}\n')
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) * 1000 / milliseconds

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def fill(group):
    group.primary.execute('CREATE TABLE accounts (k int PRIMARY KEY, v bigint)')
    group.primary.execute(f'INSERT INTO accounts SELECT n, n FROM generate_series(0, {ROWS - 1}) AS n')
    group.primary.execute('VACUUM ANALYZE accounts')
    group.wait_caught_up()


def measure(build, rounds, milliseconds):
    """{mode: [reads a second, in each round]}"""
    found = {mode: [] for mode in MODES}
    with Replicas(2, shared_buffers='64MB') as group:
        fill(group)
        load = Load(build, group)
        for mode in MODES:
            load.sample(mode, milliseconds)  # statements are prepared, caches are filled
        for number in range(rounds):
            order = list(MODES)[number % len(MODES):] + list(MODES)[:number % len(MODES)]
            for mode in order:
                found[mode].append(load.sample(mode, milliseconds))
        load.close()
    return found


def table(found):
    """The share is of the same round's plain reads; the median of them."""
    lines = ['| reads | a second | of plain | lowest and highest | asked |', '|---|---|---|---|---|']
    shares = {}
    for mode, text in MODES.items():
        ratios = sorted(one / plain for one, plain in zip(found[mode], found['plain']))
        shares[mode] = statistics.median(ratios)
        asked = f'{FLOORS[mode]:.0%}' if mode in FLOORS else ''
        lines.append(f'| {text} | {statistics.median(found[mode]):,.0f} | {shares[mode]:.1%} | {ratios[0]:.1%}, '
                     f'{ratios[-1]:.1%} | {asked} |')
    return '\n'.join(lines), shares


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--milliseconds', type=int, default=1000)
    options = parser.parse_args()
    text, shares = table(measure(options.build, options.rounds, options.milliseconds))
    print(text)
    missed = [mode for mode, floor in FLOORS.items() if shares[mode] < floor]
    for mode in missed:
        print(f'{mode}: {shares[mode]:.1%} of plain, {FLOORS[mode]:.0%} asked')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
