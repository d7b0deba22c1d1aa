# SPDX-License-Identifier: Apache-2.0
"""What only the built objects show: who calls whom, though no include says so, and what lives as long as the process.

upward() and mutable() return every violation as "object: what", cycles() those of files that call each other. All ask
nm. `python3 tests/lint/objects.py` lists the cycles."""
import pathlib
import re
import subprocess
import sys

import house

# Sections of what is written while the program runs; what the loader alone writes (.data.rel.ro) and what each thread
# has for itself (.tbss) are no globals that two could share.
WRITTEN = re.compile(r'\.(?:data|bss)(?!\.rel\.ro)')


# Files of one folder that call each other, in a circle, and why that is the shorter way. All others go one way.
EXPLAINED = {
    'core: limit_concurrency limit_limit limit_log':
        'limit.c asks the algorithm, and an algorithm that keeps times asks limit.c whether the clock has jumped',
    'core: session_health session_health_branch':
        "a standby is on the branch of the primary whose timeline it receives; who that is, all servers' states say",
    'limits: cluster inspect mark note redis request roll_back sentinel server':
        'callbacks of one event loop: a server that answers moves requests, and requests find out about servers',
    'locks: etcd etcd_op': 'each answer to an operation tells how far the store is, and may mean that it has gone back',
    'serve: conn conn_hand conn_socket hold_wait loop loop_hand permit shared sharer':
        'callbacks of one event loop: the loop runs its connections, and these put themselves on its lists',
    'serve: resp_cell resp_check resp_later resp_locks resp_throttle':
        'a command whose answer comes later is written by the file that began it, when it is its turn',
    'serve: resp resp_queue resp_session': 'EXEC runs the queued commands by the table that EXEC itself is in',
}


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


def calls(found, table):
    """{path: paths of the same floor that define what it needs}"""
    homes = {}
    for path, listed in table.items():
        for name, kind, _ in listed:
            if kind in 'TDBRVC':
                homes.setdefault((found[path], name), path)
    return {path: {homes[found[path], name] for name, kind, _ in listed
                   if kind == 'U' and (found[path], name) in homes} - {path} for path, listed in table.items()}


def circles(graph):
    """The sets of nodes of which each reaches each other: Tarjan's, by depth, without recursion."""
    number, low, stack, found = {}, {}, [], []
    for start in graph:
        work = [] if start in number else [(start, iter(graph[start]))]
        while work:
            node, below = work[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            onward = next((b for b in below if b not in number), None)
            if onward is not None:
                work.append((onward, iter(graph[onward])))
                continue
            work.pop()
            low[node] = min([low[node], *(low[b] for b in graph[node] if b in stack)])
            if low[node] == number[node]:
                at = stack.index(node)
                circle, stack[at:] = stack[at:], []
                found += [circle] if len(circle) > 1 else []
    return found


def cycles(found, table):
    """"floor: file file ..." of each circle."""
    return sorted(f'{found[circle[0]]}: ' + ' '.join(sorted({path.name.removesuffix('.c.o') for path in circle}))
                  for circle in circles(calls(found, table)))


def check(build):
    found = objects(pathlib.Path(build))
    table = symbols(list(found))
    seen = set(cycles(found, table))
    return (upward(found, table) + mutable(table) +
            [f'{cycle}: call each other, and nobody says why' for cycle in sorted(seen - set(EXPLAINED))] +
            [f'{cycle}: explained, and no cycle' for cycle in sorted(set(EXPLAINED) - seen) if len(found) > 100])


def main():
    found = objects(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else 'build'))
    for cycle in cycles(found, symbols(list(found))):
        print(f'{cycle}\n    {EXPLAINED.get(cycle, "NOT EXPLAINED")}')


if __name__ == '__main__':
    main()
