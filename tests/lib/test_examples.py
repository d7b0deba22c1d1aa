#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples, built against the installed library alone, say what they should."""
import pathlib
import shlex
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'live'))
from fake_locks import FakeLocks
from installed import ROOT, Installed, run

STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Werror']


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.remove)

    def build(self, name, *compiler):
        source = self.installed.root / name
        shutil.copy(ROOT / 'examples' / name, source)  # where no header of the tree is beside it
        program = source.with_suffix('.out')
        run(*compiler, *STRICT, source, *self.installed.pkg_config('--cflags', '--libs'), '-pthread', '-o', program)
        return program

    def test_c(self):
        output = run(self.build('embed.c', 'cc', '-std=c11'), env=self.installed.env).splitlines()
        words = [line.split()[:2] for line in output]
        self.assertEqual(words, [['ada', 'admitted']] * 3 + [['ada', 'refused']] + [['bob', 'admitted']] * 2
                         + [['bob', 'refused']] * 2 + [['5', 'admitted,']])
        self.assertIn('remaining 2 of 3, together 4', output[0])
        self.assertIn('together 0', output[5])

    def test_c_static(self):
        program = self.build('embed.c', 'cc', '-std=c11', '-static')
        self.assertIn('5 admitted', run(program))

    def test_cpp(self):
        program = self.build('embed.cpp', 'c++', '-std=c++11')
        self.assertEqual(run(program, env=self.installed.env), '1000 of 4000 admitted, the limit is 1000\n')

    def test_lock_c(self):
        program = self.build('lock.c', 'cc', '-std=c11')
        with FakeLocks() as server:
            output = run(program, server.address, 'job', env=self.installed.env).splitlines()
            self.assertEqual(output, ['granted: 7.1', 'mine for 3 steps', 'released'])
            server.deny = True
            output = run(program, server.address, 'job', env=self.installed.env).splitlines()
            self.assertEqual(output, ['granted: 7.2', 'lost: the lease has ended: it is not yours any more'])
        self.assertIn('cannot connect', run('sh', '-c', f'{program} {server.address} job || true', env=self.installed.env))

    def test_reads(self):
        """Built; what it says to servers is said in tests/live."""
        source = self.installed.root / 'reads.c'
        shutil.copy(ROOT / 'examples/reads.c', source)
        program = source.with_suffix('.out')
        flags = [*self.installed.pkg_config('--cflags', '--libs', package='weir-session'),
                 *shlex.split(run('pkg-config', '--cflags', '--libs', 'libpq'))]  # the machine's own
        run('cc', '-std=c11', *STRICT, source, *flags, '-o', program)
        self.assertIn('server_count must be 1 to 64', run('sh', '-c', f'{program} || true', env=self.installed.env))

    def test_lock_cpp(self):
        program = self.build('lock.cpp', 'c++', '-std=c++11')
        with FakeLocks() as server:
            output = run(program, server.address, env=self.installed.env)
            self.assertEqual(output, '8 threads counted to 80, one at a time\n')
            self.assertEqual(server.locks['counter'].number, 80)

    def test_python(self):
        output = run(sys.executable, ROOT / 'examples/embed.py', self.installed.library).splitlines()
        self.assertEqual(output, [f'admitted remaining {n} of 3 retry after 0 s' for n in (2, 1, 0)]
                         + ['refused remaining 0 of 3 retry after 60 s'])


if __name__ == '__main__':
    unittest.main()
