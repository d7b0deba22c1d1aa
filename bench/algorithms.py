#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the five algorithms and writes the table of docs/algorithms.md and one picture for each beside it.

All have the same limit: 100 in 60 s for the figures, 10 in 10 s for the pictures."""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys

import picture
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs/algorithms.md'
TITLES = {'token_bucket': 'Token bucket', 'leaky_bucket': 'Leaky bucket', 'fixed_window': 'Fixed window',
          'sliding_log': 'Sliding log', 'sliding_counter': 'Sliding counter'}
LIMIT, PERIOD_MS, SPAN_MS = 10, 10000, 65000
TIMEOUT_S = 300


def arrivals():
    """The same requests for every algorithm: a trickle, a burst on each side of a boundary, a steady overload, and a
    burst after a rest."""
    times = list(range(500, 9000, 2000))
    times += [19400 + 20 * i for i in range(15)] + [20200 + 20 * i for i in range(15)]
    times += [32000 + 333 * i for i in range(45)]
    return times + [58000 + 10 * i for i in range(15)]


def ask(build, *arguments, text=None):
    run = subprocess.run([str(build / 'bench/bench_algorithms'), *map(str, arguments)], input=text, check=True,
                         stdout=subprocess.PIPE, timeout=TIMEOUT_S, encoding='utf-8')
    return run.stdout


def figures(build, *arguments):
    words = ask(build, *arguments).split()
    return dict(zip(words[::2], map(float, words[1::2])))


def measure(build, keys):
    """{algorithm: figures}. Speed alone on the machine, the rest side by side."""
    found = {name: {} for name in TITLES}
    for name in TITLES:
        found[name].update(figures(build, 'speed', name))
        found[name]['one'] = figures(build, 'bytes', name, keys, 1)['bytes']
        found[name]['full'] = figures(build, 'bytes', name, keys // 10 if name == 'sliding_log' else keys, 100)['bytes']
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, worst in zip(TITLES, pool.map(lambda name: figures(build, 'worst', name), TITLES)):
            found[name].update(worst)
    return found


def table(found):
    columns = [('bytes a key, one request', 'one'), ('bytes a key, limit used up', 'full'),
               ('ns, admitted', 'admitted'), ('ns, refused', 'refused'), ('ns, 100,000 keys at random', 'random'),
               ('at once', 'burst'), ('most admitted in 60 s', 'rolling'), ('most that went on in 60 s', 'output'),
               ('refused though it would fit', 'shortfall'), ('longest delay', 'delay_s')]
    out = ['| 100 in 60 s | ' + ' | '.join(f'`{name}`' for name in TITLES) + ' |', '|---|' + '--:|' * len(TITLES)]
    for text, figure in columns:
        unit = ' s' if figure == 'delay_s' else ''
        out.append(f'| {text} | ' + ' | '.join(report.number(found[n][figure]) + unit for n in TITLES) + ' |')
    trials = min(found[name]['trials'] for name in TITLES)
    return out + ['', f'The most admitted and the most refused are the worst of {trials:,.0f} arrival patterns each: '
                  'all pairs of two bursts, a burst and then steadily, and hill-climbing over sets of bursts, on a grid '
                  'of one second and the nanosecond before.']


def pictures(build, folder):
    folder.mkdir(exist_ok=True)
    times = arrivals()
    for name, title in TITLES.items():
        lines = ask(build, 'trace', name, text='\n'.join(map(str, times))).splitlines()
        traces = [picture.Trace(int(ms), yes == '1', float(delay)) for ms, yes, delay in map(str.split, lines)]
        svg = picture.draw(f'{title}, {LIMIT} in {PERIOD_MS // 1000} s', traces, LIMIT, PERIOD_MS, SPAN_MS, 15, 20)
        (folder / f'{name}.svg').write_text(svg, encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--page', default=PAGE, type=pathlib.Path, help='default: docs/algorithms.md')
    parser.add_argument('--keys', default=1000000, type=int, help='for bytes a key (default: 1000000)')
    options = parser.parse_args()
    build = options.build.resolve()
    text = '\n'.join([f'Made by `make algorithms` on {report.machine()}.', ''] + table(measure(build, options.keys)))
    report.write_into(options.page, text + '\n')
    pictures(build, options.page.parent / options.page.stem)
    print(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
