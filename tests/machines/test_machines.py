#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other machines than the one at hand: another compiler, another processor, another byte order, another C library.

What needs nothing but a C library (libweir, the codecs that need no other, and the unit tests of these) is built for
each machine, and its tests run there, by QEMU where the processor is another one. `make machines` installs what that
takes and runs them; one of them alone: python3 tests/machines/test_machines.py Machines.test_arm64"""
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / 'build-machines'
JOBS = os.cpu_count() or 1
# name: the compiler with its flags, what runs its programs, how many unit tests there are at least.
MACHINES = {
    'clang': (['clang-14', '-Wall', '-Wextra', '-Werror', '-mcx16'], [], 80),
    'arm64': (['aarch64-linux-gnu-gcc', '-Wall', '-Wextra', '-Werror'], ['qemu-aarch64'], 80),
    # Big-endian. It swaps no 16 bytes at once as the table does: the core and the codecs.
    's390x': (['s390x-linux-gnu-gcc', '-Wall', '-Wextra', '-Werror'], ['qemu-s390x'], 40),
    'musl': (['musl-gcc', '-mcx16', '-static'], [], 0),  # there is no cmocka for it: the example
}
FLAGS = ['-std=c11', '-O2', '-g1', '-D_GNU_SOURCE', '-DWEIR_DEBUG', '-pthread', '-Iinclude', '-Isrc', '-I.', '-Itests/unit']
# What a C library does not bring.
LIBRARIES = re.compile(r'^#include <(curl|hiredis|jansson|libpq|llhttp|openssl|sqlite3|uv|yaml)', re.M)
# main(), and a file for programs alone.
ELSEWHERE = ('src/cli/', 'src/modules/', 'src/base/beside.c')


def included(path, seen=None):
    """All files of ours that it includes, those by way of others too, and None for one that is not found."""
    seen = set() if seen is None else seen
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding='utf-8'), re.M):
        tried = [folder / name for folder in (path.parent, ROOT / 'src', ROOT / 'include', ROOT)]
        other = next((path for path in tried if path.exists()), None)
        if other not in seen:
            seen.add(other)
            if other:
                included(other, seen)
    return seen


def is_plain(path):
    """It needs a C library alone."""
    return not any(LIBRARIES.search(one.read_text(encoding='utf-8')) for one in {path} | included(path) - {None})


@functools.cache
def sources():
    return [path for path in sorted((ROOT / 'src').rglob('*.c'))
            if not str(path.relative_to(ROOT)).startswith(ELSEWHERE) and is_plain(path)]


@functools.cache
def tests():
    """The unit tests that need no more than that. (What they link may: then they are left out, below.)"""
    return [test for test in sorted((ROOT / 'tests/unit').glob('*/test_*.c'))
            if '__wrap_' not in test.read_text(encoding='utf-8') and None not in included(test) and is_plain(test)]


class Machine:
    """One of them, and what is built for it."""

    def __init__(self, name):
        (self.compiler, self.runner, self.least), self.work = MACHINES[name], WORK / name
        self.work.mkdir(parents=True, exist_ok=True)

    def missing(self):
        return [word for word in (self.compiler[0], *self.runner) if not shutil.which(word)]

    def compile(self, source, *more):
        made = self.work / (str(source.relative_to(ROOT)).replace('/', '_') + '.o')
        run(*self.compiler, *FLAGS, *more, '-c', source.relative_to(ROOT), '-o', made)
        return made

    def build(self):
        """The library of all that is built here, and a program for each test."""
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            objects = list(pool.map(self.compile, sources()))
            self.library = self.work / 'libweir.a'
            self.library.unlink(missing_ok=True)
            run('ar', 'crs', self.library, *objects)
            made = pool.map(self.program, tests() if self.least else [])
            return {test: program for test, program in made if program}

    def program(self, test):
        made = self.work / test.stem
        fakes = [self.compile(ROOT / 'tests/unit/fake_weir.c')] if test.stem == 'test_lock_client' else []
        own = self.compile(test)
        linked = subprocess.run([*self.compiler, '-pthread', own, *fakes, self.library, '-lcmocka', '-lm', '-o', made],
                                capture_output=True, text=True, check=False)
        if re.search(r'undefined reference to `(weir_|__sync_)', linked.stderr):
            return test.stem, None
        if linked.returncode != 0:
            raise AssertionError(linked.stderr)
        return test.stem, made

    def run(self, program, *arguments):
        return run(*self.runner, program, *arguments, env={'WEIR_TEST_EFFORT': 'short'})


def run(*command, env=None):
    """What it says; a failure is an AssertionError that shows it."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env={**os.environ, **(env or {})}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, command))}: {done.returncode}\n{done.stdout[-3000:]}')
    return done.stdout


class Machines(unittest.TestCase):
    """A test for each, made below."""

    def check(self, name):
        machine = Machine(name)
        self.assertEqual(machine.missing(), [], 'scripts/bootstrap machines')
        self.addCleanup(shutil.rmtree, machine.work)
        programs = machine.build()
        self.assertGreaterEqual(len(programs), machine.least)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for test, done in [(test, pool.submit(machine.run, program)) for test, program in programs.items()]:
                with self.subTest(machine=name, test=test):
                    done.result()
        if name != 's390x':
            example = machine.work / 'embed'
            run(*machine.compiler, *FLAGS, 'examples/embed.c', machine.library, '-o', example)
            self.assertIn('5 admitted', machine.run(example))


for _name in MACHINES:
    setattr(Machines, f'test_{_name}', lambda self, name=_name: self.check(name))

if __name__ == '__main__':
    unittest.main()
