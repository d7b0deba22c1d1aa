#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts faults that weir had back into it, one at a time, and tells by which seed the simulator finds each.

faults.txt has them. One build holds them all behind the switch of the mutants (docs/mutants.md); each meets the modes of
weir sim that are named beside it, seed by seed, until one is broken. Before, all those modes run without a fault. What is
known of the same sources is not run again. Exit code 1 if a fault is not found, or a run without a fault is broken."""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import draw
import report
import schemata

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
HEAD = re.compile(r'= (\S+), (\S+(?: \S+)*): (.+)')
BEGIN, END = '<!-- faults: begin -->', '<!-- faults: end -->'
SLICE = 25
SLICE_S = 600
FAULTLESS = 0


@dataclasses.dataclass
class Fault:
    """One that was in weir: where it is looked for, and the places that it has in today's sources."""
    number: int
    name: str
    modes: list
    what: str
    group: str
    sites: list


def read(root, listing):
    """The faults of a list, numbered from 1; their places are checked."""
    faults, group, sites = [], '', []
    for line in listing.read_text(encoding='utf-8').splitlines():
        head = HEAD.fullmatch(line)
        if line.startswith('% '):
            group = line[2:]
        elif head:
            sites = []
            faults.append(Fault(len(faults) + 1, head[1], head[2].split(), head[3], group, sites))
        elif line.strip() and not line.startswith('#'):
            sites.append(line)
    for fault in faults:
        fault.sites = draw.sites_by_hand(root, fault.sites)
    return faults


def command(*words):
    process = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, encoding='utf-8', errors='replace', check=False)
    if process.returncode != 0:
        sys.exit(f'{" ".join(map(str, words[:3]))}: {process.stdout[-4000:]}')


def build(options, faults):
    """weir sim with all of them in it."""
    tree, folder = options.work / 'tree', options.work / 'build'
    tree.mkdir(parents=True, exist_ok=True)
    schemata.write_tree(ROOT, tree, [(fault.number, site) for fault in faults for site in fault.sites])
    again = ['--reconfigure'] if (folder / 'build.ninja').exists() else []
    command('meson', 'setup', *again, folder, tree, '-Dbuildtype=release', '-Dwerror=false', '-Dwarning_level=0',
            '-Dc_args=-w', '-Dwasm=disabled')
    command('ninja', '-C', folder, '-j', options.jobs, 'weir-sim')
    return folder / 'weir-sim'


def words_of(mode):
    return ['--' + mode] if mode in ('sessions', 'locks') else ['--soak', '--mode', mode]


def simulate(program, number, mode, first, end):
    """(status, what it said) of the seeds from first up to and without end."""
    try:
        process = subprocess.run([program, *words_of(mode), '--from', str(first), '--to', str(end)],
                                 env={**os.environ, 'WEIR_MUTANT': str(number)}, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8', check=False,
                                 timeout=SLICE_S)
    except subprocess.TimeoutExpired:
        return None, ''
    return process.returncode, process.stdout


def first_broken(program, number, mode, seeds):
    """(seed, what is broken) of the first seed that is; None if none is. What ends by a signal was stopped by an assert, or
    runs without end: one seed at a time tells which."""
    for start in range(1, seeds + 1, SLICE):
        end = min(start + SLICE, seeds + 1)
        status, said = simulate(program, number, mode, start, end)
        if status == 0:
            continue
        if status == 1:
            seed, broken = re.search(r'seed (\d+)', said), re.search(r'BROKEN(?: at [\d.]+ s)?:? ?(.*)', said)
            return int(seed[1]), broken[1].strip() if broken else said.strip().splitlines()[0]
        for seed in range(start, end):
            status, said = simulate(program, number, mode, seed, seed + 1)
            if status != 0:
                lines = said.strip().splitlines()
                return seed, 'no end in time' if status is None else lines[-1] if lines else f'ends by {status}'
    return None


class Known:
    """What was found out of a fault in a mode, kept as it comes, while the program is the same."""

    def __init__(self, folder, program):
        version = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
        self.path = folder / f'faults-{version}.jsonl'
        self.results = {}
        if self.path.exists():
            for line in self.path.read_text(encoding='utf-8').splitlines():
                name, mode, seeds, found = json.loads(line)
                self.results[name, mode, seeds] = found

    def ask(self, program, fault, mode, seeds):
        name, number = (fault.name, fault.number) if fault else ('', FAULTLESS)
        if (name, mode, seeds) not in self.results:
            found = first_broken(program, number, mode, seeds)
            self.results[name, mode, seeds] = found
            with open(self.path, 'a', encoding='utf-8') as file:
                file.write(json.dumps([name, mode, seeds, found]) + '\n')
            said = f'seed {found[0]}: {found[1]}' if found else 'nothing is broken'
            print(f'{name or "no fault"}, {mode}: {said}', flush=True)
        return self.results[name, mode, seeds]


def table(faults, found, seeds):
    lines = []
    for group in dict.fromkeys(fault.group for fault in faults):
        lines += ['', f'**{group}**', '', '| Fault | Name | Mode | Seed | What the check says |', '|---|---|---|--:|---|']
        for fault in (fault for fault in faults if fault.group == group):
            for mode in fault.modes:
                seed, said = found[fault.name, mode] or ('none', '')
                lines.append(f'| {fault.what} | `{fault.name}` | `{mode}` | {seed} | {said} |')
    return '\n'.join([f'Seeds 1 to {seeds}.', *lines])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', default=ROOT / 'build-faults', type=pathlib.Path, help='where all of it is kept')
    parser.add_argument('--seeds', default=300, type=int, help='from 1 (default: 300)')
    parser.add_argument('--faults', default='', help='some of them, by name, with commas (default: all)')
    parser.add_argument('--jobs', default=os.cpu_count() or 1, type=int)
    parser.add_argument('--write', type=pathlib.Path, help='the page to put the table into')
    options = parser.parse_args()
    options.work = options.work.resolve()
    return options


def main():
    options = parse()
    faults = read(ROOT, HERE / 'faults.txt')
    program = build(options, faults)
    known = Known(options.work, program)
    wanted = [fault for fault in faults if not options.faults or fault.name in options.faults.split(',')]
    asked = [(None, mode) for mode in sorted({mode for fault in wanted for mode in fault.modes})]
    asked += [(fault, mode) for fault in wanted for mode in fault.modes]
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        answers = list(pool.map(lambda pair: known.ask(program, *pair, options.seeds), asked))
    found = {(fault.name if fault else '', mode): answer for (fault, mode), answer in zip(asked, answers)}
    text = table(wanted, found, options.seeds)
    print(text)
    if options.write:
        report.write(options.write, text, BEGIN, END)
    good = all(any(found[fault.name, mode] for mode in fault.modes) for fault in wanted)
    return 0 if good and not any(found['', mode] for fault, mode in asked if not fault) else 1


if __name__ == '__main__':
    sys.exit(main())
