# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads and ratios of the samples, as Markdown."""
import os
import pathlib
import platform
import re
import statistics
import subprocess

from lines import LINES, RATIOS

BEGIN, END = '<!-- measured: begin -->', '<!-- measured: end -->'


def number(value):
    """Three digits that count, with commas."""
    if value is None:
        return '–'
    if value >= 100:
        return f'{value:,.0f}'
    return f'{value:.3g}' if value >= 1 else f'{value:.2g}'


def spread(values):
    return f'{number(min(values))} to {number(max(values))}'


def rate_text(unit, median):
    """ns per decision as decisions per second, which is easier to hold against the servers' lines."""
    if unit != 'ns':
        return ''
    return f'{number(1e9 / median)}'


def table_of_lines(samples, foreign):
    out = []
    section = None
    for line in LINES:
        values = samples.get(line.name)
        if not values:
            continue
        if line.section != section:
            section = line.section
            out += ['', f'### {section}', '', '| | median | spread | decisions/s | others |', '|---|--:|--:|--:|--:|']
        median = statistics.median(values)
        per_second = number(median) if line.unit == '/s' else rate_text(line.unit, median)
        shown = '' if line.unit == '/s' else f'{number(median)} {line.unit}'
        out.append(f'| {line.text} | {shown} | {spread(values)} | {per_second} | '
                   f'{statistics.median(foreign[line.name]):.0%} |')
    return out


def ratio_values(samples, ratio):
    above, below = samples.get(ratio.above), samples.get(ratio.below)
    if not above or (ratio.below and not below):
        return []
    return [a / b for a, b in zip(above, below)] if ratio.below else above


def judge(ratio, value):
    """The strictest mark that the value reaches."""
    if ratio.must is None and ratio.gate is None:
        return ''
    for name in ('stretch', 'gate', 'must'):
        mark = getattr(ratio, name)
        if mark is not None and (value >= mark if ratio.least else value <= mark):
            return 'promised' if name == 'must' else name
    return '**short**'


def table_of_ratios(samples):
    out = ['| | ratio | spread | promised | gate | stretch | reached |', '|---|--:|--:|--:|--:|--:|---|']
    for ratio in RATIOS:
        values = ratio_values(samples, ratio)
        if not values:
            out.append(f'| {ratio.text} | – | not measured | | | | |')
            continue
        # A longest time is only ever lengthened by a disturbance: the least of all rounds is the nearest to the truth.
        value = min(values) if ratio.above.endswith('worst_cpu_us') else statistics.median(values)
        sign = '≥ ' if ratio.least else '≤ '
        marks = [sign + number(m) if m is not None else '' for m in (ratio.must, ratio.gate, ratio.stretch)]
        out.append(f'| {ratio.text} | {number(value)} | {spread(values)} | {" | ".join(marks)} | '
                   f'{judge(ratio, value)} |')
    return out


def version(*command):
    try:
        output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False,
                                encoding='utf-8').stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'\d+\.\d+(\.\d+)?', output)
    return found[0] if found else None


def machine():
    cpu = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text(encoding='ascii'))
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30
    tools = [('gcc', ('gcc', '-dumpfullversion')), ('Redis', ('redis-server', '--version')), ('Go', ('go', 'version')),
             ('rustc', ('rustc', '--version'))]
    found = [f'{name} {number_}' for name, command in tools if (number_ := version(*command))]
    return (f'{os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()}, {memory:.0f} GiB, '
            f'Linux {platform.release().split("-")[0]}; {", ".join(found)}')


def report(samples, foreign, missing, command, rounds):
    shares = [share for values in foreign.values() for share in values]
    out = [f'Made by `{command}`: {rounds} rounds, each taking every line once, in turn forwards and backwards.',
           f'{machine()}.',
           f'Other processes took {statistics.mean(shares):.0%} of a core on average and {max(shares):.0%} at most '
           'while a sample was taken.' if shares else '']
    out += [f'Not measured: {name}: {why}.' for name, why in sorted(missing.items())]
    return '\n'.join(out + ['', '### Ratios', ''] + table_of_ratios(samples) + table_of_lines(samples, foreign)) + '\n'


def write_into(path, text):
    """Puts the text between the two markers of a page."""
    page = path.read_text(encoding='utf-8')
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f'{path}: no {BEGIN} … {END}')
    path.write_text(f'{before}{BEGIN}\n{text}{END}{after}', encoding='utf-8')
