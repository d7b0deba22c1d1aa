#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks acquired and released per second, durable before the answer: weir's embedded engine beside etcd and ZooKeeper,
each with the same number of clients, one lock per client, all on one disk, in turn. etcd is asked in two ways: one lease
per client, kept for all its locks, and a lease per lock, which is what a lock with a ttl of its own takes there."""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import subjects

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENTS = (1, 8, 32)
TIMES_ETCD = {1: 3, 8: 5, 32: 5}
TIMES_ZOOKEEPER = 3
SUBJECTS = ('weir', 'etcd', 'etcd, lease per lock', 'zookeeper')


def start_weir(options, log, folder):
    config = pathlib.Path(folder, 'weir.yaml')
    config.write_text(f'locks: {{ engine: sqlite, path: {folder}/locks.db }}\n', encoding='utf-8')
    port = subjects.free_port()
    return subjects.Server([options.build / 'weir', 'serve', '--config', config, '--resp', f'127.0.0.1:{port}', '--http',
                            'off'], log, port, cpu=None, stdout=subprocess.DEVNULL)


def start_etcd(_, log, folder):
    client, peer = (f'http://127.0.0.1:{subjects.free_port()}' for _ in range(2))
    return subjects.Server(['etcd', '--data-dir', f'{folder}/etcd', '--listen-client-urls', client,
                            '--advertise-client-urls', client, '--listen-peer-urls', peer,
                            '--initial-advertise-peer-urls', peer, '--initial-cluster', f'default={peer}', '--log-level',
                            'error'], log, int(client.rpartition(':')[2]), cpu=None, stdout=subprocess.DEVNULL)


def start_zookeeper(_, log, folder):
    port = subjects.free_port()
    data = pathlib.Path(folder, 'zookeeper')
    data.mkdir()
    config = pathlib.Path(folder, 'zoo.cfg')
    config.write_text(f'tickTime=2000\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n'
                      'admin.enableServer=false\nmaxClientCnxns=0\n', encoding='utf-8')
    return subjects.Server(['java', '-cp', '/usr/share/java/*', '-Dlog4j.configuration=none',
                            'org.apache.zookeeper.server.quorum.QuorumPeerMain', config], log, port, cpu=None,
                           stdout=subprocess.DEVNULL)


def build_etcd_client(folder, log):
    if shutil.which('go') is None:
        raise subjects.Failed('go is not installed')
    program = folder / 'lock_etcd'
    with open(log, 'ab') as file:
        if subprocess.run(['go', 'build', '-o', program, '.'], cwd=ROOT / 'bench/locks/etcd', stdout=file, stderr=file,
                          env=dict(os.environ, CGO_ENABLED='0'), timeout=900, check=False).returncode != 0:
            raise subjects.Failed(f'the etcd client did not build: see {log}')
    return program


def commands(options, log):
    """{subject: (how its server starts, what asks it given the port and the number of clients)}"""
    found, milliseconds = {}, options.sample_ms
    bench = options.build / 'bench'
    found['weir'] = (start_weir, lambda port, n: [bench / 'bench_lock_weir', f'127.0.0.1:{port}', n, milliseconds])
    try:
        client = build_etcd_client(bench, log)
        for name, how in (('etcd', 'session'), ('etcd, lease per lock', 'lease')):
            found[name] = (start_etcd, lambda port, n, how=how: [client, f'127.0.0.1:{port}', n, milliseconds, how])
    except subjects.Failed as failure:
        print(f'without etcd: {failure}', file=sys.stderr)
    if (bench / 'bench_lock_zookeeper').exists():
        found['zookeeper'] = (start_zookeeper, lambda port, n: [bench / 'bench_lock_zookeeper', f'127.0.0.1:{port}', n,
                                                                milliseconds])
    else:
        print('without ZooKeeper: its client was not there when this was built', file=sys.stderr)
    return found


def measure(options, log, folder):
    """{(subject, clients): [figures by round]}"""
    found, servers = {}, {}
    asks = commands(options, log)
    try:
        for name, (start, _) in asks.items():
            if start not in servers:
                servers[start] = start(options, log, folder)
                servers[start].wait_ready()
        for number in range(-1, options.rounds):
            for clients in CLIENTS:
                for name, (start, command) in asks.items():
                    got = subjects.one_shot(command(servers[start].target, clients), log)
                    if number >= 0:
                        found.setdefault((name, clients), []).append(got)
            print(f'round {number + 1} of {options.rounds}' if number >= 0 else 'warm-up', file=sys.stderr, flush=True)
    finally:
        for server in servers.values():
            server.stop()
    return found


def table(found):
    rows = ['| Clients | | Locks/s | p50 of an acquire, µs | p99, µs | weir is so many times as fast |', '|---|---|---|---|---|---|']
    short = []
    for clients in CLIENTS:
        for name in SUBJECTS:
            runs = found.get((name, clients))
            if not runs:
                continue
            rate, p50, p99 = (statistics.median(run[field] for run in runs) for field in ('rate', 'p50_us', 'p99_us'))
            times = ''
            if name != 'weir':
                ratio = statistics.median(a['rate'] / b['rate'] for a, b in zip(found['weir', clients], runs))
                asked = TIMES_ZOOKEEPER if name == 'zookeeper' else TIMES_ETCD[clients]
                times = f'{ratio:.1f} (at least {asked} asked)'
                ours = statistics.median(run['p99_us'] for run in found['weir', clients])
                if ratio < asked or ours >= p99:
                    short.append(f'{clients} clients against {name}: {ratio:.1f} times, p99 {ours:.0f} against {p99:.0f} us')
            rows.append(f'| {clients} | {name} | {rate:,.0f} | {p50:,.0f} | {p99:,.0f} | {times} |')
    return rows, short


def write(page, rows):
    begin, end = '<!-- locks: begin -->', '<!-- locks: end -->'
    text = page.read_text(encoding='utf-8')
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    page.write_text(f'{head}{begin}\n' + '\n'.join(rows) + f'\n{end}{tail}', encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--folder', default=None, help='on the disk to measure (default: the folder for temporary files)')
    parser.add_argument('--rounds', default=3, type=int, help='default: 3')
    parser.add_argument('--sample-ms', default=2000, type=int, help='default: 2000')
    parser.add_argument('--write', type=pathlib.Path, help='put the table between the markers of this page')
    options = parser.parse_args()
    options.build = options.build.resolve()
    log = options.build / 'bench/locks.log'
    with tempfile.TemporaryDirectory(prefix='weir-locks-', dir=options.folder) as folder:
        found = measure(options, log, folder)
    rows, short = table(found)
    print('\n'.join(rows))
    if options.write:
        write(options.write, rows)
    for line in short:
        print(f'short: {line}')
    return 1 if short else 0


if __name__ == '__main__':
    sys.exit(main())
