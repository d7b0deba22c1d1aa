#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants mistakes in weir's sources, one at a time, and sees whether the tests find them (docs/mutants.md).

One build holds them all; a mutant lives in the runs that name it. Each meets the unit tests that come by it, fastest
first, until one fails; what survives meets those under ASan and UBSan too. What is known already is not run again: a
stopped run goes on where it was, and a survivor meets again what has changed since. Exit code 1 if fewer than 95 % are
found."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import draw
import report
import schemata
import trial

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
ENOUGH = 0.95
# As tests/run.py has it.
SANITIZER_ENV = {'ASAN_OPTIONS': 'abort_on_error=0:detect_leaks=1:strict_string_checks=1',
                 'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1', 'WEIR_TEST_EFFORT': 'short'}
MEASURED = ('version', 'seconds', 'cpu_s', 'reaches')


def command(*words, cwd=ROOT):
    process = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, encoding='utf-8', errors='replace', check=False)
    if process.returncode != 0:
        sys.exit(f'{" ".join(map(str, words[:3]))}: {process.stdout[-4000:]}')
    return process.stdout


def build_programs(options, build, live, *more):
    """The unit tests and the live ones that are asked for, built as scripts/test does. Warnings are no matter, nor is
    WebAssembly, which has no environment."""
    tree = options.work / 'tree'
    again = ['--reconfigure'] if (build / 'build.ninja').exists() else []
    command('meson', 'setup', *again, build, tree, '-Dwerror=false', '-Dwarning_level=0', '-Dc_args=-w',
            '-Dwasm=disabled', *more)
    listed = [test for test in json.loads(command('meson', 'introspect', '--tests', build))
              if 'weir:unit' in test['suite'] and (not options.tests or test['name'] in options.tests)]
    targets = {str(pathlib.Path(test['cmd'][0]).relative_to(build)) for test in listed}
    command('ninja', '-C', build, '-j', options.jobs, *(['all'] if live else sorted(targets)))
    return [trial.Program(test['name'], test['cmd'], test['workdir'] or str(build), test['env']) for test in listed] + [
        trial.Program(name, [sys.executable, str(tree / 'tests/live' / f'{name}.py'), '--failfast'], str(tree),
                      {'WEIR_BUILD': str(build)}) for name in live]


def sanitized_programs(options, programs, numbers):
    """The unit tests that come by one of the mutants, watched for leaks and what is not defined."""
    build = options.work / 'build-asan'
    made = build_programs(options, build, [], '-Dbuildtype=debugoptimized', '-Db_sanitize=address,undefined')
    reaches = {program.name: program.reaches for program in programs}
    found = []
    for program in made:
        if set(reaches.get(program.name, ())) & set(numbers):
            env = {**program.env, **SANITIZER_ENV}
            found.append(trial.Program(f'asan {program.name}', program.command, program.folder, env, roomy=True))
    return found


def version_of(options, program):
    """Changes with the program; a live test's with all that it may start."""
    whole, parts = hashlib.sha256(), program.command[:1]
    if program.name in options.live:
        build = options.work / 'build'
        drives = [path for path in (build / 'tests').glob('*/*_*')
                  if path.parent.name != 'unit' and path.is_file() and os.access(path, os.X_OK)]
        parts = [build / 'weir', *sorted(drives), *sorted(pathlib.Path(program.command[1]).parent.glob('*.py'))]
    for path in parts:
        whole.update(pathlib.Path(path).read_bytes())
    return whole.hexdigest()[:16]


def baseline(options, programs, count):
    """Every program unchanged: it must pass, and tells its time and what it comes by. Kept until the program changes."""
    kept = options.work / 'baseline.json'
    known = json.loads(kept.read_text(encoding='utf-8')) if kept.exists() else {}
    for program in programs:
        program.version = version_of(options, program)
    todo = [program for program in programs if known.get(program.name, {}).get('version') != program.version]
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for program, said in zip(todo, pool.map(lambda p: trial.measure(p, count), todo)):
            known[program.name] = {**{name: getattr(program, name) for name in MEASURED}, 'sound': not said}
            schemata.place(kept, json.dumps(known))
            if said:
                print(f'{program.name} does not pass without a mutant and is left out:\n{said[-2000:]}', flush=True)
    for program in programs:
        for name in MEASURED:
            setattr(program, name, known[program.name][name])
    return [program for program in programs if known[program.name]['sound']]


class Results:
    """What was found out, a line for each mutant, kept as it comes."""

    def __init__(self, path):
        self.path, self.lock, self.known = path, threading.Lock(), {}
        if path.exists():
            for line in path.read_text(encoding='utf-8').splitlines():
                result = json.loads(line)
                self.known[result['mutant']] = result

    def add(self, result):
        with self.lock:
            self.known[result['mutant']] = result
            with open(self.path, 'a', encoding='utf-8') as file:
                file.write(json.dumps(result) + '\n')

    def left(self, mutant, number, programs):
        """Those that come by it and have not let it pass as they are now; none if its fate is known."""
        known = self.known.get(mutant, {})
        if known.get('found') or known.get('same'):
            return []
        passed = known.get('passed', {})
        return [p for p in programs if number in p.reaches and passed.get(p.name) != p.version]


class Hunt:
    """The mutants, the tests that look for them, and what is known."""

    def __init__(self, options, mutants, compiler):
        self.options, self.mutants, self.compiler = options, mutants, compiler
        self.names = {number: draw.identity(ROOT, site) for number, site in mutants.items()}
        self.results = Results(options.work / 'results.jsonl')

    def alive(self):
        known = {number: self.results.known.get(name, {}) for number, name in self.names.items()}
        return [number for number, result in known.items() if not result.get('found') and not result.get('same')]

    def try_one(self, number, programs):
        """A survivor remembers whom it has passed; one that is the same code is not tried on others."""
        left = self.results.left(self.names[number], number, programs)
        found = trial.find(number, left)
        same = not found and self.compiler.same(self.mutants[number])
        passed = {**self.results.known.get(self.names[number], {}).get('passed', {}), **{p.name: p.version for p in left}}
        self.results.add({'mutant': self.names[number], 'found': found, 'same': same,
                          'passed': {} if found or same else passed})
        return number, found, same

    def meet(self, programs):
        numbers = [number for number in self.alive() if self.names[number] not in self.results.known or
                   self.results.left(self.names[number], number, programs)]
        print(f'{len(self.mutants)} mutants, {len(self.mutants) - len(numbers)} known', flush=True)
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.options.jobs) as pool:
            tried = pool.map(lambda number: self.try_one(number, programs), numbers)
            for done, (number, found, same) in enumerate(tried, 1):
                fate = f'{found[0]} ({found[1]})' if found else 'same code' if same else 'survives'
                print(f'{done}/{len(numbers)} {draw.shown(ROOT, self.mutants[number])}: {fate}', flush=True)

    def known(self):
        return {number: self.results.known[name] for number, name in self.names.items()}


def hunt(options, mutants, compiler):
    start = time.monotonic()
    tree = options.work / 'tree'
    tree.mkdir(parents=True, exist_ok=True)
    schemata.write_tree(ROOT, tree, list(mutants.items()))
    hunting = Hunt(options, mutants, compiler)
    if not hunting.alive():
        return hunting.known()
    programs = build_programs(options, options.work / 'build', options.live)
    print(f'built ({time.monotonic() - start:.0f} s)', flush=True)
    programs = baseline(options, programs, len(mutants))
    print(f'{len(programs)} programs, {sum(p.seconds for p in programs):.0f} s ({time.monotonic() - start:.0f} s)',
          flush=True)
    hunting.meet(programs)
    watched = [number for number in hunting.alive() if mutants[number].form != 'script']  # Redis itself is not
    if watched and options.asan:
        print('with sanitizers:', flush=True)
        sanitized = sanitized_programs(options, programs, watched)
        hunting.meet(baseline(options, sanitized, len(mutants)))
    return hunting.known()


def plant(options):
    """{number: site}: what the seed draws, and what stands in the list."""
    compiler = draw.Compiler(ROOT, options.build)
    drawn = []
    try:
        if options.count:
            sites = draw.all_sites(compiler, draw.paths_of(ROOT, options.sets, options.files))
            print(f'seed {options.seed}: {options.count} of {sum(map(len, sites.values()))} changes of {len(sites)} files',
                  flush=True)
            drawn = draw.draw(ROOT, sites, options.seed, options.count, compiler.accepts)
        hand = draw.by_hand(ROOT, HERE / 'hand.txt', options.sets) if options.hand else []
        hand = [site for site in hand if draw.asked_for(site.path, options.files)]
        refused = [site for site in hand if not compiler.accepts(site)]
    finally:
        compiler.lua.close()
    if refused:
        sys.exit('\n'.join('does not compile: ' + draw.shown(ROOT, site) for site in refused))
    drawn = [site for site in drawn if not any(site.path == h.path and schemata.crosses(site, h) for h in hand)]
    return compiler, dict(enumerate(hand + drawn, 1))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='a build folder, for its flags')
    parser.add_argument('--work', default=ROOT / 'build-mutants', type=pathlib.Path, help='where all of it is kept')
    parser.add_argument('--seed', default=int(time.time()), type=int, help='of the draw (default: a fresh one)')
    parser.add_argument('--count', default=300, type=int, help='mutants to draw (default: 300)')
    parser.add_argument('--sets', default='core,table,hosts,limits',
                        help=f'of {", ".join(draw.TARGETS)} (default: %(default)s)')
    parser.add_argument('--files', default='*', help="of these the files that fit, as 'src/core/share/*,*/table.c'")
    parser.add_argument('--live', default='', help='tests of tests/live to meet too, with commas')
    parser.add_argument('--tests', default='', help='unit tests to meet, with commas (default: all)')
    parser.add_argument('--no-hand', dest='hand', action='store_false', help='without those of hand.txt')
    parser.add_argument('--no-asan', dest='asan', action='store_false', help='survivors do not meet the sanitizers')
    parser.add_argument('--jobs', default=os.cpu_count() or 1, type=int)
    parser.add_argument('--write', type=pathlib.Path, help='the page to put the table into')
    options = parser.parse_args()
    options.sets, options.files, options.live, options.tests = (
        [name for name in names.split(',') if name]
        for names in (options.sets, options.files, options.live, options.tests))
    options.build, options.work = options.build.resolve(), options.work.resolve()
    return options


def main():
    options = parse()
    start = time.monotonic()
    compiler, mutants = plant(options)
    results = hunt(options, mutants, compiler)
    reasons = report.equivalents(HERE / 'equivalent.txt')
    table = report.table(ROOT, options, mutants, results, reasons)
    print(table)
    if options.write:
        report.write(options.write, table)
    print(f'{time.monotonic() - start:.0f} s')
    return 0 if report.share(mutants, results, reasons, ROOT) >= ENOUGH else 1


if __name__ == '__main__':
    sys.exit(main())
