#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The embedded lock engine: all that every engine must pass, with leases that really end, and a disk that is really
full. Faults that need no file system of their own are in tests/lock/sqlite_faults.c."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from weir_server import Weir

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

    def tried(self, *options):
        """What a server that cannot start says, and what it leaves behind."""
        config = self.folder / 'weir.yaml'
        config.write_text('limits: []\n', encoding='utf-8') if not config.exists() else None
        ran = run(BUILD / 'weir', 'serve', '--http', '127.0.0.1:0', '--config', config, *options)
        self.assertEqual(ran.returncode, 2, ran.stdout)
        left = [path for path in self.folder.rglob('*')
                if path not in (config, self.folder / 'nowhere') and not path.is_dir()]
        return ran.stdout, left

    def test_paths_that_are_too_long(self):
        """SQLite takes 504 bytes, with the folders, and says no more than that it is unable to open the file."""
        folder = self.folder / ('a' * 200) / ('b' * 200)
        folder.mkdir(parents=True)
        room = 504 - len(str(folder)) - 1
        link, nowhere = self.folder / 'link', self.folder / 'nowhere'
        link.symlink_to(folder)
        nowhere.symlink_to(folder / ('n' * (room + 1)))
        for path, size in ((folder / ('n' * (room + 1)), 505), (link / ('n' * (room + 1)), 505), (nowhere, 505),
                           (self.folder / ('n' * 4000), len(str(self.folder)) + 4001), (f'/{"n" * 4094}', 4095),
                           (f'/{"n" * 5000}', 5001)):
            said, left = self.tried('--locks', path)
            self.assertIn(f': with its folders it has {size} bytes, and may have 504\n', said)
            self.assertEqual(left, [])
        said, left = self.tried('--locks', self.folder / ('n' * 243))  # n….witness.next
        self.assertIn(': its name has 243 bytes, and may have 242\n', said)
        self.assertEqual(left, [])
        config = f'limits: []\nlocks: {{ engine: sqlite, path: {self.folder}/locks.db, witness: %s }}\n'
        for witness, words in ((self.folder / ('n' * 251), 'the witness: its name has 251 bytes, and may have 250'),
                               ('/' * 4091, 'witness must be 1 to 4090 bytes')):
            (self.folder / 'weir.yaml').write_text(config % witness, encoding='utf-8')
            said, left = self.tried()
            self.assertIn(words, said)
            self.assertEqual(left, [])
        with Weir(arguments=('--locks', str(folder / ('n' * room)))) as weir:
            self.assertNotIn('warning', weir.output())
        with Weir(config % (self.folder / ('n' * 250))):
            self.assertTrue((self.folder / ('n' * 250)).exists())

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
