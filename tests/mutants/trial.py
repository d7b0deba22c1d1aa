# SPDX-License-Identifier: Apache-2.0
"""Runs test programs with a mutant alive: which reach it, how long they may take, which of them finds it."""
import contextlib
import dataclasses
import math
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
import time

# A mutant may loop for ever, or wait for ever, and take memory or disk as it goes. The first is told by processor time,
# which other work on the machine does not lengthen.
LIMIT_CPU_S, LIMIT_CPU_TIMES = 2, 5
LIMIT_S, LIMIT_TIMES = 20, 10
MEMORY_BYTES, FILE_BYTES = 8 << 30, 1 << 30
MEASURE_S = 1800
SAID_BYTES = 20_000
SKIPPED = 77


@dataclasses.dataclass
class Program:
    """A test program. seconds, cpu_s (of the processor) and reaches are those of runs without a mutant."""
    name: str
    command: list
    folder: str
    env: dict
    seconds: float = 0
    cpu_s: float = 0
    reaches: list = dataclasses.field(default_factory=list)
    version: str = ''
    roomy: bool = False  # a sanitizer's shadow takes more addresses than a limit could leave

    def limits(self):
        """(seconds, seconds of the processor) that it may take with a mutant."""
        return LIMIT_S + LIMIT_TIMES * self.seconds, math.ceil(LIMIT_CPU_S + LIMIT_CPU_TIMES * self.cpu_s)


def bound(cpu_s, roomy):
    if not roomy:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end(group):
    """All of the group that still runs: what a test started goes with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run(program, env, limits):
    """The exit status (negative: a signal; None: it did not end in time), seconds of the processor, what it said."""
    limit_s, cpu_s = limits
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(program.command, cwd=program.folder, env={**os.environ, **program.env, **env},
                                   stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=lambda: bound(cpu_s, program.roomy))
        late = threading.Event()
        timer = threading.Timer(limit_s, lambda: (late.set(), end(process.pid)))
        timer.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own until it is waited for
        timer.cancel()
        end(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - SAID_BYTES))
        text = said.read().decode('utf-8', 'replace')
    endless = late.is_set() or process.returncode == -signal.SIGXCPU
    return None if endless else process.returncode, used.ru_utime + used.ru_stime, text


def measure(program, count):
    """Runs it unchanged: sets its seconds and what it reaches. Returns what it said if it does not pass."""
    with tempfile.NamedTemporaryFile(prefix='weir-mutants-') as marks:
        marks.truncate(count + 1)
        start = time.monotonic()
        status, program.cpu_s, said = run(program, {'WEIR_MUTANT': '0', 'WEIR_MUTANTS_SEEN': marks.name,
                                                    'WEIR_MUTANTS_SIZE': str(count + 1)}, (MEASURE_S, MEASURE_S))
        program.seconds = time.monotonic() - start
        program.reaches = [number for number, mark in enumerate(pathlib.Path(marks.name).read_bytes()) if mark and number]
    return None if status == 0 else said or 'says nothing'


def word(status):
    return 'no end in time' if status is None else f'signal {-status}' if status < 0 else 'failed'


def fails(number, program):
    """How the program finds the mutant, or None. What fails once and then passes is chance."""
    for _ in range(2):
        status, _, _ = run(program, {'WEIR_MUTANT': str(number)}, program.limits())
        if status in (0, SKIPPED, None):
            break
    return None if status in (0, SKIPPED) else word(status)


def find(number, programs):
    """(the name of the program that finds the mutant, how) or None: fastest first, and only those that come by it."""
    for program in sorted((p for p in programs if number in p.reaches), key=lambda p: p.seconds):
        how = fails(number, program)
        if how:
            return program.name, how
    return None
