#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `weir sim` over many seeds per mode on all cores, then with planted mistakes, and writes what it saw.

What was run is recorded by commit, a slice of seeds a line, in --work: a soak that was stopped goes on where it was, and
the tables are made of all records of this commit, whichever calls they are from. A tree with changes that are not committed
starts anew. Exit code 1 if a bound was broken, a planted mistake was not found, or runs were easier than they should be.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = ('exact', 'leased', 'batched', 'split', 'gossip', 'leased-host', 'batched-host',
         'gossip-host', 'exact-host')
SLICE = 250
SPEED_RUNS = 100
PLANT_RUNS = 1000
PLANTS = (('leased', 'sequence'), ('leased', 'epoch'), ('leased', 'return'), ('batched', 'sequence'),
          ('batched', 'epoch'), ('gossip', 'epoch'), ('gossip', 'overwrite'), ('batched-host', 'sequence'),
          ('gossip-host', 'epoch'))
LEAST = ('decisions_min', 'faults_min', 'nodes_min', 'virtual_min_ns')
MOST = ('nodes_max', 'near_max_ppm', 'peak_max')
BEGIN, END = '<!-- measured: begin -->', '<!-- measured: end -->'


def simulate(build, mode, *arguments):
    command = [build / 'weir', 'sim', '--soak', '--mode', mode, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8', check=False)


def merge(total, part):
    for name, value in part.items():
        if name == 'with':
            merge(total.setdefault('with', {}), value)
        elif name == 'mode' or name not in total:
            total[name] = value
        else:
            total[name] = (min if name in LEAST or name == 'first_broken' else max if name in MOST else int.__add__)(
                total[name], value)


class Records:
    """Of one commit: a line for each slice that was run."""

    def __init__(self, folder):
        def git(*words):
            return subprocess.run(['git', *words], cwd=ROOT, stdout=subprocess.PIPE, encoding='utf-8', check=True).stdout
        self.commit = git('rev-parse', '--short', 'HEAD').strip()
        dirty = git('status', '--porcelain', '--', 'include', 'sim', 'src') != ''
        self.path = folder / f'{self.commit}{"-changed" if dirty else ""}.jsonl'
        folder.mkdir(exist_ok=True)
        if dirty:
            self.path.unlink(missing_ok=True)
        text = self.path.read_text(encoding='utf-8') if self.path.exists() else ''
        if text and not text.endswith('\n'):
            self.path.write_text(text + '\n', encoding='utf-8')
        self.slices = {}
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # cut off in the middle: it is run again
                continue
            self.slices[record['mode'], record['from'], record['to']] = record['result']

    def add(self, mode, begin, end, result):
        self.slices[mode, begin, end] = result
        with self.path.open('a', encoding='utf-8') as file:
            file.write(json.dumps({'mode': mode, 'from': begin, 'to': end, 'result': result}) + '\n')

    def totals(self):
        """By mode; no seed twice."""
        totals = {}
        for mode in MODES:
            end = 0
            for (_, first, until), result in sorted((key, part) for key, part in self.slices.items() if key[0] == mode):
                if first >= end:
                    merge(totals.setdefault(mode, {}), result)
                    end = until
        return totals


def soak(options, mode, records):
    """What of the range is not recorded yet; says where it is."""
    end = options.first + options.runs
    slices = [(start, min(start + SLICE, end)) for start in range(options.first, end, SLICE)]
    slices = [(start, until) for start, until in slices if (mode, start, until) not in records.slices]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        done = pool.map(lambda s: simulate(options.build, mode, '--json', '--from', s[0], '--to', s[1]), slices)
        for (start, until), process in zip(slices, done):
            if process.returncode not in (0, 1):
                sys.exit(f'{mode} {start}: {process.stdout[-2000:]}')
            records.add(mode, start, until, json.loads(process.stdout))
            total = records.totals()[mode]
            if process.returncode == 1 and total['broken'] <= 3:
                print(simulate(options.build, mode, '--from', start, '--to', until).stdout, flush=True)
            if until % (SLICE * 10) < SLICE:
                print(f'{mode}: {total["runs"]} runs, {total["broken"]} broken; next seed {until}', flush=True)


def percent(part, whole):
    return f'{100 * part / whole:.1f} %' if whole else '-'


def table(totals, speeds):
    rows = [('', *totals)]
    both = list(totals.items())

    def row(name, value):
        rows.append((name, *(value(total) for _, total in both)))

    row('runs', lambda t: f'{t["runs"]:,}')
    row('**broken**', lambda t: f'**{t["broken"]}**')
    row('nodes', lambda t: f'{t["nodes_min"]} to {t["nodes_max"]}')
    row('virtual seconds of a run, at least', lambda t: f'{t["virtual_min_ns"] / 1e9:.1f}')
    row('decisions of a run, at least', lambda t: f'{t["decisions_min"]:,}')
    row('faults of a run, at least', lambda t: str(t['faults_min']))
    for name in sorted(set().union(*(t['with'] for _, t in both))):
        row(f'runs with {name}', lambda t, n=name: percent(t['with'].get(n, 0), t['runs']))
    row('decisions in all', lambda t: f'{t["decisions"]:,}')
    row('messages in all', lambda t: f'{t["messages"]:,}')
    row('most units over the limit', lambda t: str(t['peak_max']))
    row('closest to the bound', lambda t: f'{t["near_max_ppm"] / 1e4:.1f} %')
    row('runs within half of the bound', lambda t: percent(t['near_half'], t['runs']))
    row('virtual seconds per second of processor, 10 nodes', lambda t: f'{speeds[t["mode"]]:,.0f}')
    lines = ['| ' + ' | '.join(cells) + ' |' for cells in rows]
    return '\n'.join([lines[0], '|---' + '|--:' * len(both) + '|', *lines[1:]])


def speed(options, mode):
    """By processor time: a run is one thread and waits for nothing, and other work on the machine is not its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    part = json.loads(simulate(options.build, mode, '--json', '--nodes', 10, '--from', 1, '--to', SPEED_RUNS + 1).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return part['virtual_ns'] / 1e9 / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def plants(options):
    """What each planted mistake gave, and whether all were found."""
    texts, found = [], True
    for mode, plant in PLANTS:
        process = simulate(options.build, mode, '--plant', plant, '--from', 1, '--to', PLANT_RUNS + 1)
        found &= process.returncode == 1
        texts.append(f'$ weir sim --soak --mode {mode} --plant {plant} --from 1 --to {PLANT_RUNS + 1}\n{process.stdout}')
        print(f'{mode}, planted {plant}: {"found" if process.returncode == 1 else "NOT FOUND"}', flush=True)
    return '\n'.join(texts), found


def write(path, text):
    page = path.read_text(encoding='utf-8')
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    path.write_text(f'{head}{BEGIN}\n{text}\n{END}{tail}', encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path)
    parser.add_argument('--modes', default=','.join(MODES))
    parser.add_argument('--from', dest='first', default=1, type=int, help='the first seed (default: 1)')
    parser.add_argument('--runs', default=20000, type=int, help='per mode (default: 20000)')
    parser.add_argument('--work', default=ROOT / 'build-soak', type=pathlib.Path, help='where records are kept')
    parser.add_argument('--write', type=pathlib.Path, help='the page to put the tables into')
    options = parser.parse_args()
    options.build = options.build.resolve()
    records = Records(options.work)
    for mode in options.modes.split(','):
        soak(options, mode, records)
    totals = records.totals()
    speeds = {mode: speed(options, mode) for mode in totals}
    text, found = plants(options)
    result = table(totals, speeds)
    print(result)
    if options.write:
        write(options.write, f'{datetime.date.today()}, commit {records.commit}, {os.cpu_count()} cores.\n\n{result}\n\n'
                             f'### Planted mistakes\n\n```text\n{text.strip()}\n```')
    good = found and all(t['broken'] == 0 and t['decisions_min'] >= 1000 and t['faults_min'] >= 3 and
                         t['virtual_min_ns'] >= 10e9 for t in totals.values())
    good &= all(totals[m]['near_half'] * 100 >= totals[m]['runs'] for m in ('batched', 'gossip', 'batched-host') if m in totals)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
