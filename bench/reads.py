#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The strategies for reads of replicas, on one workload, at a real primary with three replicas that are 10, 50 and 300 ms
behind. `weir reads check` is the workload and the judge. Meanwhile replicas are taken away and come back, and one stands
still for a while. Then once more, while the servers' clock is set back now and then, which is what
strategy physical cannot bear. Last, ten thousand rounds of a phone and a laptop."""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / 'tests/live'))
from postgres_replicas import Replicas  # noqa: E402 (its folder comes first)
import report  # noqa: E402

DELAYS_MS = (10, 50, 300)
ROUNDS, USERS, PHONE_DELAY_MS = 10000, 50, 50
STEP_MS, STEPS = 400, 4
WINDOW_MS = 200
BEGIN, END = '<!-- reads: begin -->', '<!-- reads: end -->'
COLUMNS = ('strategy', 'reads', 'went back', 'missed own write', 'of all reads', 'at the primary', 'waited', 'wait p50, ms',
           'wait p99, ms', 'read p50, ms', 'read p99, ms', 'write p50, ms')

Row = collections.namedtuple('Row', 'name found')


class Clock:
    """The wall clock of the servers that are started inside."""

    def __init__(self, build):
        self.library = build / 'bench/reads_clock.so'
        self.file = tempfile.NamedTemporaryFile(prefix='weir-clock-')
        self.set(0)
        os.chmod(self.file.name, 0o644)

    def set(self, milliseconds):
        self.file.seek(0)
        self.file.write(struct.pack('<q', milliseconds * 1000))
        self.file.flush()

    @contextlib.contextmanager
    def inside(self):
        os.environ.update(LD_PRELOAD=str(self.library), WEIR_CLOCK_OFFSET=self.file.name)
        try:
            yield
        finally:
            del os.environ['LD_PRELOAD'], os.environ['WEIR_CLOCK_OFFSET']


def addresses(group):
    words = ['--primary', group.primary.conninfo()]
    for standby in group.standbys:
        words += ['--replica', standby.conninfo()]
    return words


def check(options, group, seconds, during, *more):
    """What `weir reads check` says, while `during` does what it does; `during` gets a function that waits until a share
    of the run is over."""
    words = [options.build / 'weir', 'reads', 'check', *addresses(group), '--duration', f'{seconds}s', '--json',
             '--sessions', options.sessions, '--rate', options.rate, '--writes', 20, '--window', f'{WINDOW_MS}ms', *more]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, encoding='utf-8')
    try:
        # Its table is there shortly before its sessions begin.
        while process.poll() is None and not group.primary.value("SELECT to_regclass('weir_reads_check') IS NOT NULL"):
            time.sleep(0.02)
        begun = time.monotonic()

        def wait(share):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, begun + share * seconds - time.monotonic()))
                raise SystemExit(f'weir reads check ended with {process.returncode} before its time')

        during(wait)
        text = process.communicate(timeout=seconds + 60)[0]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise SystemExit(f'weir reads check ended with {process.returncode}')
    return json.loads(text)


def routes_change(group):
    """The replica that is 10 ms behind goes and comes back, then it and the one that is 50 ms behind, twice; that one
    stands still for a while."""
    quick, middle = group.standbys[:2]

    def during(wait):
        for begin, end, those in ((0.1, 0.2, [quick]), (0.3, 0.4, [quick, middle]), (0.5, 0.6, [quick, middle])):
            wait(begin)
            for standby in those:
                standby.shut()
            wait(end)
            for standby in those:
                standby.start()
        wait(0.75)
        middle.pause()
        wait(0.88)
        middle.resume()
    return during


def clock_steps(clock):
    def during(wait):
        for step in range(1, STEPS + 1):
            wait(step / (STEPS + 1))
            clock.set(-STEP_MS * step)
    return during


def delayed(group):
    for standby, delay in zip(group.standbys, DELAYS_MS):
        standby.set_delay(delay)
    return group


def compare(options, picture):
    rows = []
    with Replicas(len(DELAYS_MS)) as group:
        found = check(options, delayed(group), options.seconds, routes_change(group), '--plot', picture)
    rows += [Row(one['name'], one) for one in found['strategies']]
    clock = Clock(options.build)
    with clock.inside():
        group = Replicas(len(DELAYS_MS))
    with group:
        steps = check(options, delayed(group), options.seconds // 2, clock_steps(clock), '--strategies', 'physical,tracked')
    rows += [Row(f'{one["name"]}, clock set back', one) for one in steps['strategies']]
    return found, rows


def phone_and_laptop(options):
    with Replicas(len(DELAYS_MS)) as group:
        group.primary.execute('CREATE TABLE phone_laptop (name int PRIMARY KEY, value bigint NOT NULL)')
        group.primary.execute('INSERT INTO phone_laptop SELECT name, 0 FROM generate_series(1, %s) name', USERS)
        group.wait_caught_up()
        for standby in group.standbys:
            standby.set_delay(PHONE_DELAY_MS)
        done = subprocess.run([str(word) for word in (options.build / 'tests/session/phone_laptop', *addresses(group),
                                                      '--users', USERS, '--rounds', options.rounds)],
                              stdout=subprocess.PIPE, encoding='utf-8', check=False, timeout=600)
    return json.loads(done.stdout)


def table(found, rows):
    out = ['| ' + ' | '.join(COLUMNS) + ' |', '|---|' + '--:|' * (len(COLUMNS) - 1)]
    for name, one in rows:
        cells = [name, f'{one["reads"]:,}', one['went_back'], one['missed_own_write'],
                 f'{100 * one["violated_share"]:.1f} %', f'{100 * one["on_primary"]:.1f} %', f'{one["waits"]:,}']
        cells += ['' if one[key] is None else f'{one[key]:.1f}'
                  for key in ('wait_p50_ms', 'wait_p99_ms', 'read_p50_ms', 'read_p99_ms', 'write_p50_ms')]
        out.append('| ' + ' | '.join(map(str, cells)) + ' |')
    names = [one['name'] for one in found['replicas']]
    out += ['', '| reads, by server | primary | ' + ' | '.join(f'{ms} ms behind' for ms in DELAYS_MS) + ' |',
            '|---|' + '--:|' * (1 + len(names))]
    for one in found['strategies']:
        shares = [one['servers'][name]['reads'] / max(one['reads'], 1) for name in (found['primary'], *names)]
        out.append(f'| {one["name"]} | ' + ' | '.join(f'{100 * share:.1f} %' for share in shares) + ' |')
    out += ['', '| replica | lag p50, ms | p99 | most | not in use |', '|---|--:|--:|--:|--:|']
    for delay, one in zip(DELAYS_MS, found['replicas']):
        cells = ['' if one[key] is None else f'{one[key]:,.0f}' for key in ('lag_p50_ms', 'lag_p99_ms', 'lag_max_ms')]
        out.append(f'| {delay} ms behind | ' + ' | '.join(cells) + f' | {100 * one["not_in_use"]:.0f} % |')
    return out


def short(rows, phone):
    """What is asked of the comparison and did not come out."""
    by_name = {row.name: row.found for row in rows}
    out = [f'{name}: {one["violated"]} violations' for name, one in by_name.items()
           if name.split(',')[0] in ('tracked', 'lamport') and one['violated']]
    if not by_name['sticky']['went_back']:
        out.append('sticky: nobody went back when the routes changed')
    out += [f'{name}: no violation is to be seen' for name in ('plain', 'window', 'physical, clock set back')
            if not by_name[name]['violated']]
    out += [f'phone and laptop: {phone["older"]} older values, {phone["failed"]} failed ({phone["fault"]})'
            for _ in range(1) if phone['older'] or phone['failed']]
    out += [f'phone and laptop: {phone["at_primary_percent"]} % of reads at the primary'
            for _ in range(1) if phone['at_primary_percent'] >= 5]
    return out


def write(page, lines):
    head, _, rest = page.read_text(encoding='utf-8').partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text(f'{head}{BEGIN}\n' + '\n'.join(lines) + f'\n{END}{tail}', encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--seconds', default=40, type=int, help='of the first run; the second takes half (default: 40)')
    parser.add_argument('--sessions', default=12, type=int, help='of each strategy (default: 12)')
    parser.add_argument('--rate', default=10, type=int, help='requests a second of each (default: 10)')
    parser.add_argument('--rounds', default=ROUNDS, type=int, help=f'of phone and laptop (default: {ROUNDS})')
    parser.add_argument('--write', action='store_true', help='into docs/reads.md and docs/img/reads.svg')
    options = parser.parse_args()
    options.build = options.build.resolve()
    picture = ROOT / 'docs/img/reads.svg' if options.write else options.build / 'bench/reads.svg'
    found, rows = compare(options, picture)
    phone = phone_and_laptop(options)
    lines = [f'Made by `make bench` on {report.machine().split(";")[0]}, PostgreSQL {found["version"] // 10000}: {options.sessions} sessions of each strategy at the same time, '
             f'{options.rate} requests a second each, 20 % of them writes, {options.seconds} s; the window is {WINDOW_MS} ms.', '', *table(found, rows), '',
             f'Phone and laptop: {phone["reads"]:,} rounds of {USERS} users in {phone["seconds"]:.0f} s, all three replicas '
             f'{PHONE_DELAY_MS} ms behind: {phone["older"]} older values, {phone["at_primary_percent"]} % of reads at the '
             f'primary, {phone["mean_wait_ms"]:.0f} ms of waiting a read.']
    print('\n'.join(lines))
    if options.write:
        write(ROOT / 'docs/reads.md', lines)
    failures = short(rows, phone)
    for line in failures:
        print(f'short: {line}')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
