# SPDX-License-Identifier: Apache-2.0
"""What only the built objects show: who calls whom, though no include says so, and what lives as long as the process.

upward() and mutable() return every violation as "object: what". Both ask nm."""
import pathlib
import re
import subprocess

import house

# Sections of what is written while the program runs; what the loader alone writes (.data.rel.ro) and what each thread
# has for itself (.tbss) are no globals that two could share.
WRITTEN = re.compile(r'\.(?:data|bss)(?!\.rel\.ro)')


def objects(build):
    """{path: floor} of what is built of src/; weir's own are named after their source."""
    found = {}
    for path in sorted((build / 'src').glob('*/**/*.o')):
        floor = path.relative_to(build / 'src').parts[0]
        # Of generated and foreign sources no floor is responsible.
        found[path] = floor if floor in house.FLOORS and 'llhttp' not in path.parent.name else None
    for path in sorted(build.glob('weir*.p/src_*.o')):
        floor = path.name.split('_')[1]
        found[path] = floor if floor in house.FLOORS else None
    return {path: floor for path, floor in found.items() if floor}


def symbols(paths):
    """{path: (name, class, section) of each symbol} of all objects, by one nm."""
    process = subprocess.run(['nm', '-A', '-f', 'sysv', *paths], stdout=subprocess.PIPE, encoding='utf-8', check=True)
    table = {str(path): [] for path in paths}
    for line in process.stdout.splitlines():
        cells = [cell.strip() for cell in line.split('|')]
        if len(cells) == 7:
            path, name = cells[0].rsplit(':', 1)
            table[path].append((name, cells[2], cells[6]))
    return {path: table[str(path)] for path in paths}


def upward(found, table):
    """Objects that need what a floor above, or another folder of their own floor, defines."""
    homes = {name: found[path] for path, listed in table.items() for name, kind, _ in listed if kind in 'TDBRWVC'}
    violations = []
    for path, listed in table.items():
        own = found[path]
        for name, kind, _ in listed:
            home = homes.get(name) if kind == 'U' else None
            if home and home != own and house.FLOORS[home] >= house.FLOORS[own]:
                violations.append(f'{path.name}: {own}/ (floor {house.FLOORS[own]}) needs {name} of {home}/ '
                                  f'(floor {house.FLOORS[home]})')
    return violations


def mutable(table):
    return [f'{path.name}: {name} can be written by anybody ({section})'
            for path, listed in table.items() for name, kind, section in listed
            if kind.upper() in 'BDC' and WRITTEN.match(section)]


def check(build):
    found = objects(pathlib.Path(build))
    table = symbols(list(found))
    return upward(found, table) + mutable(table)
