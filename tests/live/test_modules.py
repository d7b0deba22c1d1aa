#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a server maps: few shared objects, and libpq and libcurl only where a configuration names what needs them. What
it says of a module that is missing, or of no use."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from weir_server import BUILD, Weir

POSTGRES = 'limits: []\nlocks: { engine: postgres, conninfo: "host=127.0.0.1 port=1", witness: FOLDER/witness }\n'
ETCD = 'limits: []\nlocks: { engine: etcd, endpoints: [ "http://127.0.0.1:1" ], witness: FOLDER/witness }\n'
TRACES = 'limits: []\ntraces: { endpoint: "http://127.0.0.1:1/v1/traces" }\n'
GRPC = 'limits: []\nlisten: { grpc: "127.0.0.1:0" }\n'
SESSIONS = 'limits: []\nsessions: { servers: [ { name: a, url: "host=127.0.0.1 port=1" } ] }\n'


def mapped(process):
    """The shared objects of a process, by name without version."""
    paths = {line.split()[-1] for line in pathlib.Path(f'/proc/{process.pid}/maps').read_text(encoding='utf-8').splitlines()}
    return {os.path.basename(path).split('.so')[0] for path in paths if re.search(r'\.so(\.|$)', path)}


class Mapped(unittest.TestCase):
    def test_the_example_limits_with_locks(self):
        with Weir(config=None) as weir:
            self.assertIn('weir: locks in sqlite', weir.output())
            names = mapped(weir.process)
        self.assertIn('libsqlite3', names)
        self.assertLessEqual(len(names), 10, sorted(names))

    def test_each_module_where_it_is_named(self):
        for config, has, has_not in ((POSTGRES, {'weir-postgres', 'libpq'}, {'weir-etcd', 'libcurl'}),
                                     (SESSIONS, {'weir-postgres', 'libpq'}, {'weir-etcd', 'libcurl'}),
                                     (TRACES, {'weir-traces', 'libcurl'}, {'weir-etcd', 'weir-postgres', 'libpq'}),
                                     (GRPC, {'weir-grpc', 'libnghttp2'}, {'weir-etcd', 'weir-postgres', 'libpq', 'libcurl'}),
                                     (ETCD, {'weir-etcd', 'libcurl'}, {'weir-postgres', 'libpq', 'weir-grpc'})):
            with self.subTest(config), tempfile.TemporaryDirectory() as folder:
                with Weir(config.replace('FOLDER', folder)) as weir:
                    names = mapped(weir.process)
                self.assertLessEqual(has, names)
                self.assertEqual(has_not & names, set())


class Missing(unittest.TestCase):
    """weir is alone in a folder of its own; each test puts beside it what it is about."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-modules-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.weir = shutil.copy(BUILD / 'weir', self.folder)

    def refused(self, config, **options):
        """What weir says, which is the same for a check and a start."""
        path = self.folder / 'weir.yaml'
        path.write_text(config.replace('FOLDER', str(self.folder)), encoding='utf-8')
        told = [subprocess.run([self.weir, 'serve', *words, path], capture_output=True, text=True, timeout=60, check=False,
                               **options) for words in (('--check',), ('--config',))]
        for one in told:
            self.assertEqual((one.returncode, one.stdout), (2, ''), one.stderr)
        said = [[line for line in one.stderr.splitlines() if ' need ' in line] for one in told]
        self.assertEqual(said[0], said[1])
        self.assertEqual(len(said[0]), 1, told)
        return said[0][0]

    def test_not_there(self):
        for config, what, name in ((POSTGRES, 'locks in postgres', 'weir-postgres.so'),
                                   (SESSIONS, 'sessions', 'weir-postgres.so'), (TRACES, 'traces', 'weir-traces.so'),
                                   (GRPC, 'listeners for grpc', 'weir-grpc.so'), (ETCD, 'locks in etcd', 'weir-etcd.so')):
            said = self.refused(config)
            self.assertIn(f'weir: {what} need {name}, which is not in {self.folder} or {self.folder}/', said)
            self.assertIn('make install puts it there', said)

    def test_a_start_that_names_none_needs_none(self):
        told = subprocess.run([self.weir, 'serve', '--check', '/dev/stdin'], input='limits: []\n', text=True, timeout=60,
                              capture_output=True, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)

    def test_no_module(self):
        (self.folder / 'weir-etcd.so').touch()
        said = self.refused(ETCD)
        self.assertIn(f'need {self.folder}/weir-etcd.so, which cannot be loaded: ', said)
        self.assertIn('file too short', said)

    def test_of_another_build(self):
        module = (BUILD / 'weir-etcd.so').read_bytes()
        digest = re.search(rb'\0(\d+\.\d+\.\d+-)([0-9a-f]{16})\0', module)
        other = module[:digest.start(2)] + b'0' * 16 + module[digest.end(2):]
        (self.folder / 'weir-etcd.so').write_bytes(other)
        said = self.refused(ETCD)
        self.assertIn(f'which is of another build of weir ({digest[1].decode()}{"0" * 16}; this one is '
                      f'{digest[1].decode()}{digest[2].decode()})', said)

    def test_another_module(self):
        shutil.copy(BUILD / 'weir-postgres.so', self.folder / 'weir-etcd.so')
        self.assertIn('which is of another build of weir', self.refused(ETCD))

    def test_no_right_to_read_it(self):
        if os.getuid() != 0:
            self.skipTest('needs root, to be another user')
        shutil.copy(BUILD / 'weir-etcd.so', self.folder)
        (self.folder / 'weir-etcd.so').chmod(0o600)
        self.assertIn('Permission denied', self.refused(ETCD, user=64123))

    def test_rights_that_the_user_has_not(self):
        """A program that is more than its user takes nothing from where the user may have put it."""
        if os.getuid() != 0:
            self.skipTest('needs root, to be another user')
        shutil.copy(BUILD / 'weir-etcd.so', self.folder)
        os.chown(self.weir, 64123, -1)
        os.chmod(self.weir, 0o4755)
        said = self.refused(ETCD)
        self.assertNotIn(str(self.folder), said)


if __name__ == '__main__':
    unittest.main()
