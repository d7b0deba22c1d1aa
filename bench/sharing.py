#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One hot key on three weir servers and one Redis, leased against exact: the limit is above both rates, so what is
measured is how fast they decide. Prints the total of the three for each mode, and the ratio."""
import argparse
import concurrent.futures
import pathlib
import statistics
import subprocess
import sys
import tempfile

import subjects

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = ('a', 'b', 'c')
MODES = ('exact', 'leased')
DEPTH, CONNECTIONS = 64, 4
WARM_UP_MS = 500
RATIO_MIN = 20


def config(redis_port):
    limits = ''.join(f'  - {{ name: {mode}, match: {{ what: {mode} }}, key: [user], rate: 100000000/s, '
                     f'sharing: {mode}, on_failure: closed, deadline: 1s }}\n' for mode in MODES)
    return ('cluster_secret: 00112233445566778899aabbccddeeff\n'
            f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis_port}"] }} }}\n'
            f'cluster: {{ nodes: [{", ".join(f"{{ name: {node} }}" for node in NODES)}] }}\nlimits:\n{limits}')


def start(build, log, folder, redis_port):
    path = pathlib.Path(folder, 'weir.yaml')
    path.write_text(config(redis_port), encoding='utf-8')
    servers = []
    for node in NODES:
        port = subjects.free_port()
        servers.append(subjects.Server([build / 'weir', 'serve', '--config', path, '--node', node, '--resp',
                                        f'127.0.0.1:{port}', '--http', 'off', '--threads', '1'], log, port,
                                       stdout=subprocess.DEVNULL))
    for server in servers:
        server.wait_ready()
    return servers


def total(build, log, servers, mode, sample_ms):
    """Decisions a second of all nodes at once, and how many of the last ones were admitted."""
    command = ('WEIR.CHECK', '1', 'what', mode, 'user', 'hot')
    with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
        runs = list(pool.map(lambda server: subjects.one_shot(
            [build / 'bench/bench_load', server.target, CONNECTIONS, DEPTH, sample_ms, 1, 'first-1', *command], log, -1),
            servers))
    refused = sum(run['refused'] for run in runs)
    if refused:
        raise subjects.Failed(f'{mode}: {refused:,.0f} were refused, under a limit above the rate')
    return sum(run['rate'] for run in runs)


def measure(build, rounds, sample_ms):
    """{mode: [decisions a second, by round]}"""
    log = build / 'bench/sharing.log'
    found = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory(prefix='weir-sharing-') as folder:
        redis, _ = subjects.redis_server(log, ())
        servers = []
        try:
            servers = start(build, log, folder, redis.target)
            for mode in MODES:
                total(build, log, servers, mode, WARM_UP_MS)
            for _ in range(rounds):
                for mode in MODES:
                    found[mode].append(total(build, log, servers, mode, sample_ms))
        finally:
            for process in (*servers, redis):
                process.stop()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=ROOT / 'build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--rounds', default=3, type=int, help='of each mode, in turn (default: 3)')
    parser.add_argument('--sample-ms', default=3000, type=int, help='default: 3000')
    options = parser.parse_args()
    found = measure(options.build.resolve(), options.rounds, options.sample_ms)
    for mode in MODES:
        print(f'{mode:8} {statistics.median(found[mode]):14,.0f} decisions a second, of three nodes together')
    ratio = statistics.median(b / a for a, b in zip(found['exact'], found['leased']))
    print(f'leased is {ratio:.1f} times as fast as exact (at least {RATIO_MIN} is promised)')
    return 0 if ratio >= RATIO_MIN else 1


if __name__ == '__main__':
    sys.exit(main())
