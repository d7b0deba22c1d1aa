#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test, names the slowest and ends with one line: N passed, N failed.

Stages, in order: lint, unit (and the library as installed), asan (unit tests, and the server's input, under ASan and
UBSan), tsan (the tests of suite 'threads' under TSan), fuzz (a short slice of each target), live (real servers and
clients). Each builds what it needs: build/, build-asan/, build-tsan/, build-fuzz/. The live tests mostly wait: they run
beside the other stages, and those that measure or fill the machine run alone at the end.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAGES = ('lint', 'unit', 'asan', 'tsan', 'fuzz', 'live')
# These end what hangs; they are no measure of speed. A machine may have five other things to do on each core.
PROGRAM_TIMEOUT_S = 1800
LINT_TIMEOUT_S = 3600  # clang-tidy takes two minutes of a free core
UNIT_TIMEOUT_MULTIPLIER = 10  # of 30 s
SANITIZED_TIMEOUT_MULTIPLIER = 40
# What strangers can send, and when; the longest first.
LIVE_UNDER_ASAN = ('test_sharing', 'test_rules_http', 'test_locks_http', 'test_locks_resp', 'test_serve_resp', 'test_http',
                   'test_bad_http', 'test_bad_resp', 'test_bad_grpc', 'test_grpc', 'test_envoy_service', 'test_replay_lines', 'test_top_terminal')
ASAN_LIVE_WORKERS = 2
# Live tests mostly wait, for leases to end or servers to start, and take no harm from a busy machine: some run at a time,
# beside the other stages.
# The longest begin first, so that none is left at the end. Those that measure, or fill the machine, run alone.
UNIT_WORKERS = 4  # some of them sleep; those begin first, by their priority in meson.build
LIVE_WORKERS = 4
LIVE_ALONE = {'test_bench', 'test_redis_overload'}
LIVE_LONGEST = ('test_deb', 'test_lab', 'test_dashboard_access', 'test_play_page', 'test_learn_page', 'test_play_addresses', 'test_dashboard_live', 'test_dashboard_rules', 'test_site', 'test_redis_sentinel_window', 'test_revisions', 'test_cli_lock', 'test_lock_postgres', 'test_redis_rights',
                'test_lock_postgres_faults', 'test_redis_cluster', 'test_lock_etcd', 'test_session_branch_table',
                'test_redis_sentinel', 'test_lock_sqlite', 'test_cluster', 'test_hold', 'test_redis_faults',
                'test_recipe_haproxy', 'test_session_servers', 'test_redis_client', 'test_session', 'test_sessions_http',
                'test_restart', 'test_session_users_postgres', 'test_session_faults', 'test_session_branches',
                'test_permits', 'test_postgres_replicas')
FUZZ_INPUT_TIMEOUT_S = 60
# Debug builds assert more (WEIR_DEBUG); of -g, lines are all that a report needs.
DEBUG = ('-Ddebug=true', '-Dc_args=-g1')
SANITIZER_ENV = {
    'ASAN_OPTIONS': 'abort_on_error=0:detect_leaks=1:strict_string_checks=1',
    'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1',
    'TSAN_OPTIONS': 'halt_on_error=1:second_deadlock_stack=1',
    'WEIR_TEST_EFFORT': 'short',  # randomised tests do a slice of their operations
}


class Tally:
    """What passed and failed so far; names what failed."""

    def __init__(self, shown):
        self.shown = shown
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.times = []  # (seconds, of processors, name)
        self.lock = threading.Lock()

    def add(self, name, passed, failed, skipped, seconds, output='', cpu_s=0):
        word = 'FAIL' if failed else 'ok' if passed else 'skip'
        hole = f', {skipped} skipped' if skipped else ''
        lines = [f'{word:4} {name}: {passed} passed, {failed} failed{hole} ({seconds:.1f} s)']
        if failed:
            lines += ['    | ' + line for line in output.splitlines()[-120:]]
        with self.lock:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            self.failures += [name] * bool(failed)
            self.times.append((seconds, cpu_s, name))
            print('\n'.join(lines), flush=True)

    def add_step(self, name, process, seconds):
        """A step that is no test: says nothing unless it failed."""
        if process.returncode != 0:
            self.add(name, 0, 1, 0, seconds, process.stdout)
        else:
            self.times.append((seconds, process.cpu_s, name))
        return process.returncode == 0

    def close(self):
        for by, text in ((0, 'the slowest'), (1, 'what took most of the processors')):
            print(f'{text}:')
            for measured in sorted(self.times, key=lambda one, by=by: one[by], reverse=True)[:self.shown]:
                print(f'{measured[by]:8.1f} s  {measured[2]}')
        if self.failures:
            print('failed: ' + ', '.join(self.failures))
        skipped = f', {self.skipped} skipped' if self.skipped else ''
        print(f'{self.passed} passed, {self.failed} failed{skipped}', flush=True)
        return 1 if self.failed or not self.passed else 0


def run(arguments, timeout_s=None, env=None):
    """Runs to the end, output in one piece; a timeout is returncode 124. Says what it took of the processors: `cpu_s`."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(a) for a in arguments], cwd=ROOT, env=dict(os.environ, **(env or {})),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        late = threading.Event()
        killer = threading.Timer(timeout_s or threading.TIMEOUT_MAX,
                                 lambda: (late.set(), os.kill(process.pid, signal.SIGKILL)))
        killer.daemon = True  # who is interrupted does not wait for it
        killer.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        finally:
            killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode('utf-8', 'replace')
    done = subprocess.CompletedProcess(arguments, process.returncode, text)
    if late.is_set():
        done = subprocess.CompletedProcess(arguments, 124, f'{text}\nno end within {timeout_s} s\n')
    done.cpu_s = used.ru_utime + used.ru_stime
    return done


def build(tally, folder, *options, wanted=lambda folder: [], env=None):
    """Builds what `wanted` names, or all. Configures too, each time: what a folder was configured without, cmocka say,
    may be there now."""
    start = time.monotonic()
    again = ['--reconfigure'] if (folder / 'build.ninja').exists() else []
    process = run(['meson', 'setup', *again, folder, *options], env=env)
    if not tally.add_step(f'meson setup {folder.name}', process, time.monotonic() - start):
        return False
    process = run(['ninja', '-C', folder, *wanted(folder)], env=env)
    ok = tally.add_step(f'ninja {folder.name}', process, time.monotonic() - start)
    if ok:
        print(f'built {folder.name} ({time.monotonic() - start:.1f} s)', flush=True)
    return ok


def tests_of(suite):
    """What names to `build` the programs of a suite, as meson knows them."""
    def wanted(folder):
        tests = json.loads(run(['meson', 'introspect', '--tests', folder]).stdout)
        return sorted({os.path.relpath(word, folder) for test in tests for word in test['cmd']
                       if word.startswith(f'{folder}/') and f'weir:{suite}' in test['suite']})
    return wanted


def count_cases(result, output):
    """(passed, failed, skipped) of one test program, by case where it says so: cmocka, Python's unittest, or ours."""
    cmocka = [sum(int(n) for n in re.findall(r'\[\s*' + word + r'\s*\] (\d+) test\(s\)', output))
              for word in ('PASSED', 'FAILED', 'SKIPPED')]
    ran = sum(int(n) for n in re.findall(r'^Ran (\d+) tests? in', output, re.M))
    ours = re.findall(r'^(\d+) passed, (\d+) failed$', output, re.M)
    if any(cmocka):
        passed, failed, skipped = cmocka
    elif ran:
        closing = ' '.join(re.findall(r'^(?:OK|FAILED)(?: \((.*)\))?$', output, re.M))
        count = {word: sum(int(n) for n in re.findall(word + r'=(\d+)', closing))
                 for word in ('failures', 'errors', 'skipped')}
        failed, skipped = count['failures'] + count['errors'], count['skipped']
        passed = max(0, ran - failed - skipped)
    elif ours:
        passed, failed, skipped = sum(int(o[0]) for o in ours), sum(int(o[1]) for o in ours), 0
    elif result == 'skip':
        return 0, 0, 1
    else:
        passed, failed, skipped = (1, 0, 0) if result == 'ok' else (0, 1, 0)
    return (passed, max(1, failed), skipped) if result == 'fail' else (passed, failed, skipped)


def meson_test(tally, stage, folder, suites, env=None, multiplier=1):
    log = folder / 'meson-logs' / f'{stage}.json'
    log.unlink(missing_ok=True)
    names = [argument for suite in suites for argument in ('--suite', suite)]
    process = run(['meson', 'test', '-C', folder, '--no-rebuild', '--num-processes', UNIT_WORKERS, '--logbase', stage,
                   '-t', multiplier, *names],
                  env=env)
    if not log.exists():
        tally.add(f'{stage}: no test', 0, 1, 0, 0, process.stdout)
        return
    tally.times.append((0, process.cpu_s, f'{stage}: all of it'))
    for line in log.read_text(encoding='utf-8', errors='replace').splitlines():
        test = json.loads(line)
        output = test.get('stdout', '') + test.get('stderr', '')
        result = {'OK': 'ok', 'EXPECTEDFAIL': 'ok', 'SKIP': 'skip'}.get(test['result'], 'fail')
        name = test['name'].split(' / ')[-1]
        if result == 'fail':
            output += f'\n{test["result"]}, status {test.get("returncode")}'
        tally.add(f'{stage} {name}', *count_cases(result, output), test['duration'], output)


def program(path, timeout_s, env):
    start = time.monotonic()
    return run([sys.executable, path], timeout_s, env), time.monotonic() - start


def programs(tally, stage, names, env, timeout_s=PROGRAM_TIMEOUT_S, workers=1):
    """Runs tests/STAGE/NAME.py for each name, some at a time."""
    def one(name):
        process, seconds = program(ROOT / 'tests' / ('lint' if stage == 'lint' else 'live') / f'{name}.py', timeout_s, env)
        counts = count_cases('ok' if process.returncode == 0 else 'fail', process.stdout)
        tally.add(f'{stage} {name}', *counts, seconds, process.stdout, process.cpu_s)

    with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        list(pool.map(one, names))


def names_in(folder):
    return sorted(path.stem for path in (ROOT / 'tests' / folder).glob('test_*.py'))


def stage_lint(tally, options):
    programs(tally, 'lint', names_in('lint'), {'WEIR_BUILD': str(options.build)}, LINT_TIMEOUT_S)


def stage_unit(tally, options):
    """Meson would have malloc fill all that it gives, which took half of this stage: tables are large and mostly unused. The
    first 4 KiB of each are filled under ASan."""
    env = {'MALLOC_PERTURB_': '0', **({'WEIR_TEST_EFFORT': 'soak'} if options.soak else {})}
    meson_test(tally, 'unit', options.build, ['unit', 'lib'], env, 0 if options.soak else UNIT_TIMEOUT_MULTIPLIER)
    if options.soak:
        names = ('test_redis_script', 'test_redis_plans', 'test_redis_faults', 'test_phone_laptop', 'test_session_faults')
        programs(tally, 'soak', names, dict(env, WEIR_BUILD=str(options.build)), None)


def stage_asan(tally, options):
    """With -Og: the tests take up to twice as long as with -O2, but compiling, most of this stage, less than half. What it
    warns of that the other builds do not is no matter: it follows values less far."""
    folder = options.build.with_name(options.build.name + '-asan')
    if build(tally, folder, '-Doptimization=g', *DEBUG, '-Db_sanitize=address,undefined', '-Dwerror=false',
             '-Dwasm=disabled', wanted=lambda folder: ['weir', 'weir-grpc.so', 'weir-postgres.so', 'weir-replay', *tests_of('unit')(folder)]):
        meson_test(tally, 'asan', folder, ['unit'], SANITIZER_ENV, SANITIZED_TIMEOUT_MULTIPLIER)
        programs(tally, 'asan live', LIVE_UNDER_ASAN, dict(SANITIZER_ENV, WEIR_BUILD=str(folder)),
                 workers=ASAN_LIVE_WORKERS)


def stage_tsan(tally, options):
    folder = options.build.with_name(options.build.name + '-tsan')
    if build(tally, folder, '-Doptimization=2', *DEBUG, '-Db_sanitize=thread', '-Dwasm=disabled',
             wanted=tests_of('threads')):
        meson_test(tally, 'tsan', folder, ['threads'], SANITIZER_ENV, SANITIZED_TIMEOUT_MULTIPLIER)


def fuzz_one(target, seconds):
    """Runs one target over a copy of its kept corpus, so that what it finds does not land in the tree."""
    corpus = ROOT / 'fuzz' / 'corpus' / target.name.removeprefix('fuzz_')
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix='weir-fuzz-') as work:
        arguments = [target, f'-max_total_time={seconds}', f'-timeout={FUZZ_INPUT_TIMEOUT_S}', '-print_final_stats=1',
                     f'-artifact_prefix={target.parent}/{target.name}-', work]
        process = run(arguments + ([corpus] if corpus.is_dir() else []), seconds + 120, SANITIZER_ENV)
    return process, time.monotonic() - start


def stage_fuzz(tally, options):
    folder = options.build.with_name(options.build.name + '-fuzz')
    if not build(tally, folder, '-Doptimization=1', *DEBUG, '-Dfuzz=true', '-Db_lundef=false', '-Dwasm=disabled',
                 wanted=lambda _: [f'fuzz/{path.stem}' for path in (ROOT / 'fuzz').glob('fuzz_*.c')],
                 env={'CC': 'clang-14'}):
        return
    targets = sorted(p for p in folder.glob('fuzz/fuzz_*') if p.is_file() and os.access(p, os.X_OK))
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        done = pool.map(lambda target: fuzz_one(target, options.fuzz_seconds), targets)
        for target, (process, seconds) in zip(targets, done):
            failed = int(process.returncode != 0)
            found = '\n'.join(line for line in process.stdout.splitlines() if not line.startswith('#'))  # not its progress
            tally.add(target.name, 1 - failed, failed, 0, seconds, found, process.cpu_s)


def stage_live(tally, options):
    def order(name):
        return LIVE_LONGEST.index(name) if name in LIVE_LONGEST else len(LIVE_LONGEST)

    names = sorted((name for name in names_in('live') if name not in LIVE_ALONE), key=order)
    programs(tally, 'live', names, {'WEIR_BUILD': str(options.build)}, workers=LIVE_WORKERS)


def stages(tally, options, names):
    """The live tests beside the other stages; what must be alone at the end."""
    if {'lint', 'unit', 'live'} & set(names) and not build(tally, options.build):
        return
    others = [name for name in names if name != 'live']
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        live = pool.submit(stage_live, tally, options) if 'live' in names else None
        for name in others:
            globals()['stage_' + name](tally, options)
        if live:
            live.result()
            programs(tally, 'live', sorted(LIVE_ALONE), {'WEIR_BUILD': str(options.build)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build', type=pathlib.Path, help='build folder (default: build)')
    parser.add_argument('--only', default=','.join(STAGES), help='stages, with commas')
    parser.add_argument('--fuzz-seconds', default=2, type=int, help='for each fuzz target (default: 2)')
    parser.add_argument('--slowest', default=15, type=int, help='how many of the slowest are named (default: 15)')
    parser.add_argument('--soak', action='store_true', help='unit tests with their full counts, without a time limit')
    options = parser.parse_args()
    options.build = (ROOT / options.build).resolve()
    names = ['unit'] if options.soak else options.only.split(',')
    for name in names:
        if name not in STAGES:
            parser.error(f'no stage {name!r}; there are {", ".join(STAGES)}')
    tally = Tally(options.slowest)
    start = time.monotonic()
    stages(tally, options, names)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f'{time.monotonic() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors')
    return tally.close()


if __name__ == '__main__':
    sys.exit(main())
