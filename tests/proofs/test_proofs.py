#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spin searches every interleaving of the models in proofs/: the protocol as weir has it keeps its claims, and each way
to break it is found. With --trace DEFINES (say "TEXTBOOK") prints the shortest counterexample of proofs/fence.pml."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROOFS = pathlib.Path(__file__).resolve().parents[2] / 'proofs'
SEARCH_TIMEOUT_S = 240


def run(folder, *arguments):
    done = subprocess.run([str(a) for a in arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SEARCH_TIMEOUT_S, encoding='utf-8', check=False)
    return done.returncode, done.stdout


def search(model, defines, folder, compiler=()):
    """(complete without an error, the claim that was broken or None, the output)"""
    options = [f'-D{define}' for define in defines]
    shutil.copy(PROOFS / model, folder)  # the trail is written beside it
    status, output = run(folder, 'spin', '-a', *options, model)
    assert status == 0 and (pathlib.Path(folder) / 'pan.c').exists(), output
    status, output = run(folder, 'cc', '-O1', '-w', '-DSAFETY', '-DCOLLAPSE', '-DMEMLIM=1024', *compiler,
                         '-o', 'pan', 'pan.c')
    assert status == 0, output
    _, output = run(folder, './pan', '-E', '-m100000')
    broken = re.search(r'assertion violated (.*) \(at depth', output)
    complete = 'errors: 0' in output and 'Search not completed' not in output and 'too small' not in output
    return complete, broken[1] if broken else None, output


def trace(defines):
    with tempfile.TemporaryDirectory(prefix='weir-proofs-') as folder:
        _, broken, output = search('fence.pml', defines, folder, ('-DBFS',))
        assert broken, output
        _, replay = run(folder, 'spin', '-t', *(f'-D{define}' for define in defines), 'fence.pml')
        return [line.strip() for line in replay.splitlines() if re.match(r'\s*(holder \d|the )', line)]


class Proofs(unittest.TestCase):
    def search(self, model, *defines):
        with tempfile.TemporaryDirectory(prefix='weir-proofs-') as folder:
            return search(model, defines, folder)

    def safe(self, model, *defines):
        complete, broken, output = self.search(model, *defines)
        self.assertTrue(complete and broken is None, output)

    def unsafe(self, model, claim, *defines):
        _, broken, output = self.search(model, *defines)
        self.assertIsNotNone(broken, output)
        self.assertIn(claim, broken)

    def test_install_then_read_loses_no_acknowledged_update(self):
        self.safe('fence.pml')

    def test_the_textbook_order_loses_one(self):
        self.unsafe('fence.pml', 'acknowledged', 'TEXTBOOK')

    def test_the_textbook_trace_is_the_one_of_the_page(self):
        page = (PROOFS.parent / 'docs/lock-proofs.md').read_text(encoding='utf-8')
        found = trace(('TEXTBOOK', 'HOLDERS=2'))
        self.assertIn('\n'.join('    ' + line for line in found), page, found)

    def test_install_after_read_loses_one(self):
        self.unsafe('fence.pml', 'acknowledged', 'INSTALL_LATE')

    def test_a_durable_mark_survives_a_crash_of_the_resource(self):
        self.safe('fence.pml', 'CRASH')

    def test_a_mark_that_is_not_durable_does_not(self):
        self.unsafe('fence.pml', 'acknowledged', 'CRASH', 'UNSYNCED')

    def test_a_raised_incarnation_survives_a_restored_store(self):
        self.safe('fence.pml', 'RESTORE')

    def test_numbers_that_come_again_do_not(self):
        self.unsafe('fence.pml', 'acknowledged', 'RESTORE', 'NO_RAISE')

    def test_a_quorum_keeps_its_claims(self):
        self.safe('quorum.pml')

    def test_f_plus_w_not_above_n_is_found(self):
        self.unsafe('quorum.pml', 'late', 'F=1')

    def test_r_plus_w_not_above_n_is_found(self):
        self.unsafe('quorum.pml', 'seen', 'R=1')

    def test_no_write_back_is_found(self):
        self.unsafe('quorum.pml', 'shown', 'NO_WRITE_BACK')

    def test_reads_that_do_not_fence_are_found(self):
        self.unsafe('quorum.pml', 'seen', 'PLAIN_READ')

    def test_reads_that_do_not_fence_need_a_larger_install(self):
        self.safe('quorum.pml', 'PLAIN_READ', 'F=3')


if __name__ == '__main__':
    if sys.argv[1:2] == ['--trace']:
        print('\n'.join(trace(sys.argv[2:])))
    else:
        unittest.main()
