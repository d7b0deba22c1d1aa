#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store of rule sets in SQLite: writers that are killed at any moment, and a disk that is really full. What needs no
process of its own is in tests/unit/rules/test_rule_store.c and test_rule_store_file.c."""
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from store_drive import PROGRAM, StoreDrive
from weir_server import BUILD

KILLS = {'short': 10, 'soak': 500}.get(os.environ.get('WEIR_TEST_EFFORT'), 25)

# Fills the file system, and makes room again.
FULL = '''
mount -t tmpfs -o size=1m weir-test {disk} && cd {disk} || exit 9
( echo append 0 - applied 0 one; echo large 1 4000000; echo head; echo append 1 - applied 0 two; echo head ) |
    {drive} sqlite:{disk}/rules.db - create 0
'''


def run(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600, encoding='utf-8', check=False)


class RuleStoreSqlite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-rule-store-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.spec = f'sqlite:{self.folder}/rules.db'
        seed = int(os.environ.get('WEIR_SEED', random.randrange(2**32)))
        self.random, self.seed = random.Random(seed), f'WEIR_SEED={seed}'

    def test_writers_killed_again_and_again(self):
        """Two at a time, so that one is killed while another waits for its lock; also while they make the file."""
        acknowledged = []
        for _ in range(KILLS):
            drives = [StoreDrive(self.spec) for _ in range(2)]
            for drive in drives:
                drive.send('hammer', 100000)
            for drive in drives:
                for _ in range(self.random.randrange(6)):
                    acknowledged.append(drive.hear())
            for drive in drives:
                drive.kill()
                while answer := drive.hear():  # what it had been told
                    acknowledged.append(answer)
                drive.close()
        with StoreDrive(self.spec) as drive:
            head, changes = drive.ask('head')['number'], {}
            for start in range(head, 0, -1000):
                changes |= {version['number']: version['change'] for version in drive.versions(start)}
            self.assertEqual(sorted(changes), list(range(1, head + 1)), self.seed)
            self.assertEqual(len(set(changes.values())), head, self.seed)
            for answer in acknowledged:
                self.assertEqual(answer['status'], 'OK', answer)
                self.assertEqual(changes[answer['own']], answer['change'], self.seed)
            self.assertEqual(drive.appended(head), head + 1)

    def test_paths_that_are_too_long(self):
        """SQLite takes 504 bytes, with the folders, and says no more than that it is unable to open the file."""
        rules, config = self.folder / 'rules.yaml', self.folder / 'weir.yaml'
        rules.write_text('limits: []\n', encoding='utf-8')
        folder = self.folder / ('a' * 200) / ('b' * 200)
        folder.mkdir(parents=True)
        room = 504 - len(str(folder)) - 1
        for path, words in ((folder / ('n' * (room + 1)), 'with its folders it has 505 bytes, and may have 504'),
                            (self.folder / ('n' * 248), 'its name has 248 bytes, and may have 247'),
                            (folder / ('n' * room), None)):
            config.write_text(f'rules: {{ store: "sqlite:{path}" }}\n', encoding='utf-8')
            ran = run(BUILD / 'weir', 'rules', 'apply', '--config', config, '--comment', 'first', rules)
            self.assertEqual(ran.returncode, 2 if words else 0, ran.stdout)
            self.assertIn(words or '', ran.stdout)
            self.assertEqual(path.exists() if len(path.name) < 256 else False, not words)

    def test_disk_that_is_really_full(self):
        disk = self.folder / 'disk'
        disk.mkdir()
        script = FULL.format(disk=disk, drive=PROGRAM)
        for rights in ([], ['--propagation', 'unchanged'], ['--user', '--map-root-user']):
            inside = ['unshare', *rights, '--mount', 'sh', '-c']
            tried = run(*inside, f'mount -t tmpfs -o size=1m weir-test {disk}')
            if tried.returncode == 0:
                break
        if tried.returncode != 0:  # root has the right, but a container may withhold it
            self.skipTest('a small file system takes root or user namespaces: ' + tried.stdout)
        ran = run(*inside, script)
        lines = ran.stdout.splitlines()
        self.assertEqual(len(lines), 6, ran.stdout)
        _, first, large, before, second, after = lines
        self.assertIn('"own":1', first)
        self.assertRegex(large, '"status":"(EDOWN|EUNKNOWN)"')
        self.assertIn('"number":1', before)
        self.assertIn('"own":2', second)
        self.assertIn('"number":2', after)


if __name__ == '__main__':
    unittest.main()
