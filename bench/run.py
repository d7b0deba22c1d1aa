#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures weir beside its floors and its peers, and prints the table of docs/performance.md.

Every round takes each line once, subject, floor and peer next to each other; what is compared are two lines of one
round. A sample during which other processes took too much of the machine is taken again, a few times."""
import argparse
import json
import pathlib
import signal
import sys
import tempfile
import time

import lines
import report
import subjects
from subjects import Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOISE_MAX = 0.15  # of a core
TAKES_MAX = 2
WARM_UP_ROUNDS = 1
TIME_MAX_S = 14 * 60
SIZES = {'full': (1000000, 10000000), 'quick': (2000, 20000)}
BYTES_PER_KEY = 32


class Bench:
    def __init__(self, options, scratch):
        self.options = options
        self.build = options.build
        self.log = options.build / 'bench/run.log'
        self.scratch = scratch
        self.small, self.large = SIZES['quick' if options.quick else 'full']
        self.keys = {1: self.small, 10: self.large}
        self.programs, self.servers = {}, {}
        self.digests = {}
        self.growth = {}
        self.missing = {}
        self.samples = {line.name: [] for line in lines.LINES}
        self.foreign = {line.name: [] for line in lines.LINES}

    # ---- set-up ----

    def start_programs(self):
        peers, missing = ({}, {}) if self.options.no_peers else subjects.build_peers(self.build / 'bench', self.log)
        self.missing.update(missing)
        table = str(max(1, self.large * BYTES_PER_KEY >> 20))
        wanted = {'cas': [self.build / 'bench/bench_cas'], 'memory': [self.build / 'bench/bench_memory', table],
                  'bans': [self.build / 'bench/bench_bans', self.small]}
        for size, keys in self.keys.items():
            wanted[f'weir{size}'] = [self.build / 'bench/bench_decide', keys]
            for peer, program in peers.items():
                wanted[f'{peer}{size}'] = [program, keys]
        for name, arguments in wanted.items():
            self.attempt(name, self.start_program, name, arguments)

    def start_program(self, name, arguments):
        program = subjects.Program(arguments, self.log)
        self.programs[name] = program
        try:
            program.wait_ready()
        except Failed:
            del self.programs[name]
            program.stop()
            raise

    def start_servers(self):
        unix = pathlib.Path(self.scratch)
        echo = (self.build, self.log, lines.THROTTLE_WIRE, lines.THROTTLE_REPLY)
        starts = {'echo': (subjects.echo_server, *echo), 'echo-unix': (subjects.echo_server, *echo, unix / 'echo'),
                  'weir': (subjects.weir_server, self.build, self.log),
                  'weir-unix': (subjects.weir_server, self.build, self.log, unix / 'weir')}
        for name, (start, *arguments) in starts.items():
            def keep(name=name, start=start, arguments=arguments):
                self.servers[name] = start(*arguments)
            self.attempt(name, keep)
        self.attempt('redis', self.start_redis)
        self.attempt('exact', self.start_exact)

    def start_redis(self):
        self.servers['redis'], self.digests = subjects.redis_server(self.log, lines.SCRIPTS)

    def start_exact(self):
        if 'redis' not in self.servers:
            raise Failed('there is no Redis')
        self.servers['exact'] = subjects.exact_server(self.build, self.log, self.scratch, self.servers['redis'])

    def attempt(self, name, action, *arguments):
        """What cannot be had is left out and said, not fatal."""
        try:
            action(*arguments)
        except Failed as failure:
            self.missing[name] = str(failure)

    def stop(self):
        for process in [*self.programs.values(), *self.servers.values()]:
            process.stop()

    # ---- samples ----

    def command(self, name):
        if name in self.digests:
            return 'first-1', ('EVALSHA', self.digests[name], '1', f'@{name}', '100', '100', '1')
        return {'throttle': ('first-0', lines.THROTTLE), 'check': ('first-1', lines.CHECK), 'ping': ('none', ('PING',)),
                'incr': ('none', ('INCR', '@incr'))}[name]

    def take(self, line):
        kind, *rest = line.source
        if kind == 'program':
            program, case = rest
            return self.programs[program].sample(case, self.options.sample_ms)
        if kind == 'growth':
            name, figure = rest
            if name not in self.growth:
                keys = self.keys[int(name.removeprefix('growth'))]
                self.growth[name] = subjects.one_shot([self.build / 'bench/bench_growth', keys], self.log)
            return self.growth[name][figure]
        server, command, connections, depth = rest
        verdict, words = self.command(command)
        got = subjects.load(self.build, self.log, self.servers[server], connections, depth,
                            self.options.load_ms, lines.SERVER_KEYS, verdict, words)
        if got['refused'] > 0:
            raise Failed(f'{got["refused"]:,.0f} were refused, and nothing should be')
        return got['rate' if line.unit == '/s' else 'p50_us']

    def available(self, line):
        kind, name = line.source[:2]
        if kind == 'program':
            return name in self.programs and name not in self.missing
        return name not in self.missing and (kind == 'growth' or name in self.servers)

    def take_calm(self, line):
        """The sample during which others took the least, of as many as it takes to find a calm one."""
        best = None
        for _ in range(1 if self.options.quick or line.source[0] == 'growth' else TAKES_MAX):
            pids = [process.pid for process in [*self.programs.values(), *self.servers.values()]]
            with subjects.Meter(pids) as meter:
                value = self.take(line)
            if best is None or meter.foreign < best[1]:
                best = (value, meter.foreign)
            if meter.foreign <= NOISE_MAX:
                break
        return best

    def run_round(self, number, keep):
        self.growth = {}  # one run of the program gives several lines
        for line in lines.LINES if number % 2 == 0 else reversed(lines.LINES):
            if not self.available(line):
                continue
            try:
                value, foreign = self.take_calm(line)
            except Failed as failure:
                self.missing[line.source[1]] = str(failure)
                self.samples[line.name] = []
                continue
            if keep:
                self.samples[line.name].append(value)
                self.foreign[line.name].append(foreign)

    def run(self):
        begin = time.monotonic()
        self.start_programs()
        self.start_servers()
        say(f'set up ({time.monotonic() - begin:.0f} s)')
        for number in range(-WARM_UP_ROUNDS, self.options.rounds):
            started = time.monotonic()
            self.run_round(number, keep=number >= 0)
            took = time.monotonic() - started
            say(f'round {number + 1} of {self.options.rounds} ({took:.0f} s)' if number >= 0 else
                f'warm-up ({took:.0f} s)')
            if time.monotonic() - begin + took > TIME_MAX_S and number + 1 < self.options.rounds:
                say('out of time')
                return number + 1
        return self.options.rounds


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--rounds', type=int, help='default: 7')
    parser.add_argument('--only', default='', help='only lines whose name contains this, such as weir10')
    parser.add_argument('--quick', action='store_true', help='one short round of small tables: only that all of it runs')
    parser.add_argument('--no-peers', action='store_true', help='without the peers in Go and Rust, which are built')
    parser.add_argument('--write', type=pathlib.Path, help='put the table between the markers of this page')
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.rounds = options.rounds or (1 if options.quick else 7)
    options.sample_ms, options.load_ms = (10, 50) if options.quick else (200, 700)
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers are stopped then, too
    wanted = options.only.split(',')
    lines.LINES[:] = [line for line in lines.LINES if any(word in line.name for word in wanted)]
    with tempfile.TemporaryDirectory(prefix='weir-bench-') as scratch:
        bench = Bench(options, scratch)
        bench.log.write_text('', encoding='utf-8')
        try:
            rounds = bench.run()
        finally:
            bench.stop()
    (options.build / 'bench/samples.json').write_text(json.dumps(bench.samples, indent=1), encoding='utf-8')
    table = report.report(bench.samples, bench.foreign, bench.missing, 'make bench', rounds)
    print(table)
    if options.write:
        report.write_into(options.write, table)
    return 0


if __name__ == '__main__':
    sys.exit(main())
