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
TIMEOUT_S = 600


def run(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S, encoding='utf-8', check=False)


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
        mount = f'mount -t tmpfs -o size=1m weir-test {disk}'
        # Root's, also where its / is no mount of its own (chroot), or those that a namespace gives to anybody.
        for rights in ([], ['--propagation', 'unchanged'], ['--user', '--map-root-user']):
            inside = ['unshare', *rights, '--mount', 'sh', '-c']
            tried = run(*inside, mount)
            if tried.returncode == 0:
                break
        if tried.returncode != 0:  # root has the right, but a container may withhold it
            self.skipTest('a small file system takes root or user namespaces: ' + tried.stdout)
        ran = run(*inside, f'{mount} && exec {FAULTS} {disk}')
        self.assertEqual(ran.returncode, 0, ran.stdout)


if __name__ == '__main__':
    unittest.main()
