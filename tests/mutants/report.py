# SPDX-License-Identifier: Apache-2.0
"""The table: of each file what was planted, found and survived; and why what survives may."""
import collections
import datetime

import draw

BEGIN, END = '<!-- measured: begin -->', '<!-- measured: end -->'


def pairs_of(path):
    """Each line with the one before it."""
    lines = [line.strip() for line in path.read_text(encoding='latin-1').splitlines()]
    return [' '.join(lines[max(0, at - 1):at + 1]).strip() for at in range(len(lines))]


def name_of(root, site):
    """What an entry of equivalent.txt names a mutant by: no line number, which others move, but the line and the one
    before it; and which it is of those, if there are more."""
    path, _, rest = draw.shown(root, site).split(':', 2)
    pairs = pairs_of(root / site.path)[:site.line]
    count = pairs.count(pairs[-1])
    return f'{path}: {rest.strip()} in `{pairs[-1]}`' + (f', the {count}.' if count > 1 else '')


def equivalents(listing):
    """{mutant: why no test can find it}: a line "path: kind: change", then lines of reason, indented."""
    reasons, name = {}, None
    for line in listing.read_text(encoding='utf-8').splitlines() if listing.exists() else []:
        if line[:1].isspace() and name:
            reasons[name] = f'{reasons[name]} {line.strip()}'.strip()
        elif line and not line.startswith('#'):
            name = line
            reasons[name] = ''
    return reasons


def fate(root, site, result, reasons):
    if result['found']:
        return 'found'
    return 'equivalent' if result['same'] or name_of(root, site) in reasons else 'survived'


def fates(root, mutants, results, reasons):
    return {number: fate(root, site, results[number], reasons) for number, site in mutants.items()}


def share(mutants, results, reasons, root):
    """Of those that a test could find, how many one did."""
    count = collections.Counter(fates(root, mutants, results, reasons).values())
    able = count['found'] + count['survived']
    return count['found'] / able if able else 1


def row(name, counts):
    able = counts['found'] + counts['survived']
    percent = f'{100 * counts["found"] / able:.0f} %' if able else '-'
    cells = (name, sum(counts.values()), counts['found'], counts['equivalent'], counts['survived'], percent)
    return '| ' + ' | '.join(map(str, cells)) + ' |'


def by_group(title, groups):
    lines = [f'| {title} | planted | found | equivalent | survived | found of what can be |',
             '|---|--:|--:|--:|--:|--:|']
    lines += [row(name, counts) for name, counts in sorted(groups.items())]
    return lines + [row('**all**', sum(groups.values(), collections.Counter()))]


def table(root, options, mutants, results, reasons):
    files, kinds, finders = (collections.defaultdict(collections.Counter) for _ in range(3))
    lasting, found_by = fates(root, mutants, results, reasons), collections.Counter()
    for number, site in mutants.items():
        files[f'`{site.path}`'][lasting[number]] += 1
        kinds[site.kind][lasting[number]] += 1
        if results[number]['found']:
            found_by[results[number]['found'][0]] += 1
    lines = [f'{datetime.date.today()}, seed {options.seed}, sets {", ".join(options.sets)}'
             + (f', files {" ".join(options.files)}.' if options.files != ['*'] else '.'), '',
             *by_group('file', files), '', *by_group('kind', kinds), '',
             'Found by: ' + ', '.join(f'{name} {count}' for name, count in found_by.most_common()) + '.', '']
    for what, title in (('survived', 'Survived'), ('equivalent', 'Equivalent')):
        named = [(site, results[number]) for number, site in mutants.items() if lasting[number] == what]
        lines += [f'### {title}', ''] * bool(named)
        for site, result in named:
            why = ('' if what == 'survived' and result['passed'] else ': no test comes by' if what == 'survived' else
                   ': the same code' if result['same'] else ': ' + reasons[name_of(root, site)])
            lines.append(f'- {draw.shown(root, site)}{why}')
        lines += [''] * bool(named)
    return '\n'.join(lines).strip()


def write(path, text, begin=BEGIN, end=END):
    page = path.read_text(encoding='utf-8')
    head, tail = page.split(begin)[0], page.split(end)[1]
    path.write_text(f'{head}{begin}\n{text}\n{end}{tail}', encoding='utf-8')
