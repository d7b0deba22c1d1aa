#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The embedded lock engine: all that every engine must pass, with leases that really end, and a disk that is really
full. Faults that need no file system of their own are in tests/lock/sqlite_faults.c."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))
SUITE, FAULTS = BUILD / 'tests/lock/lock_suite', BUILD / 'tests/lock/sqlite_faults'
TIMEOUT_S = 120


def run(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S, encoding='utf-8', check=False)


@unittest.skipUnless(FAULTS.exists(), 'built without sqlite or cmocka')
class LockSqlite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-locks-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_passes_what_every_engine_must(self):
        """Twice over one store: what the first run left is no matter."""
        for options in (('--waiters', '10000'), ('--fast',)):
            ran = run(SUITE, 'sqlite', self.folder / 'locks.db', self.folder / 'witness', *options)
            self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_disk_that_is_really_full(self):
        disk = self.folder / 'disk'
        disk.mkdir()
        mounted = run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'weir-test', disk)
        if mounted.returncode != 0:
            self.skipTest(f'no small file system can be had here: {mounted.stdout.strip()}')
        try:
            ran = run(FAULTS, disk)
        finally:
            run('umount', disk)
        self.assertEqual(ran.returncode, 0, ran.stdout)


if __name__ == '__main__':
    unittest.main()
