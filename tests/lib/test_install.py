#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed: the headers and nothing private, a library that exports what they declare and nothing else, and
that needs nothing but libc; a weir.pc that finds both."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from installed import ROOT, Installed, run

# What C lets a program do without a library of its own. libatomic must not be here.
NEEDED = {'libc.so.6', 'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}


def declared(header='weir.h'):
    """The functions that the public headers declare: one, and what it includes."""
    text = run('cc', '-E', '-P', '-I', ROOT / 'include', '-x', 'c', ROOT / 'include/weir' / header)
    while text != (text := re.sub(r'\{[^{}]*\}', ';', text)):  # bodies of types, and of
        pass
    text = re.sub(r'static inline [^;]*;', '', text)  # what every program has a copy of
    return set(re.findall(r'\b(weir_\w+)\s*\(', text))


def symbols(path, *options):
    """{name: type letter}; A, absolute, is a version's name and no symbol."""
    lines = (line.split() for line in run('nm', *options, path).splitlines())
    return {words[-1].split('@')[0]: words[-2] for words in lines
            if len(words) >= 2 and len(words[-2]) == 1 and words[-2] != 'A'}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.remove)

    def test_headers(self):
        folder = self.installed.find('weir.h').parent
        self.assertEqual(folder.name, 'weir')
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         sorted(path.name for path in (ROOT / 'include/weir').iterdir()))

    def test_exports_exactly_what_the_headers_declare(self):
        names = declared()
        self.assertIn('weir_limiter_decide', names)
        self.assertEqual(set(symbols(self.installed.library, '-D', '--defined-only')), names)

    def test_needs_only_libc(self):
        needed = re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-d', self.installed.library))
        self.assertLessEqual(set(needed), NEEDED)

    def test_static_library_names_are_ours(self):
        defined = symbols(self.installed.find('libweir.a'), '--defined-only', '--extern-only')
        self.assertEqual([name for name in defined if not name.startswith('weir_')], [])
        self.assertLessEqual(declared(), set(defined))

    def test_library_keeps_no_state(self):
        """No variable that a program could share by accident, or two limiters could."""
        rows = [[cell.strip() for cell in line.split('|')]
                for line in run('nm', '--format=sysv', '--defined-only', self.installed.find('libweir.a')).splitlines()]
        rows = [row for row in rows if len(row) == 7]
        self.assertGreater(len(rows), 50)
        variables = [row[0] for row in rows if re.match(r'\.(data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM\*', row[6])]
        self.assertEqual(variables, [])

    def test_sessions(self):
        """libweir-session: what weir/session.h declares, no more, and no state either."""
        library, names = self.installed.find('libweir-session.so.0'), declared('session.h')
        self.assertIn('weir_session_read', names)
        self.assertEqual(set(symbols(library, '-D', '--defined-only')), names)
        needed = set(re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-d', library)))
        self.assertEqual({name.split('.so')[0] for name in needed - NEEDED}, {'libpq', 'libcrypto'})
        defined = symbols(self.installed.find('libweir-session.a'), '--defined-only', '--extern-only')
        self.assertEqual([name for name in defined if not name.startswith('weir_')], [])
        self.assertIn('-lweir-session', self.installed.pkg_config('--libs', package='weir-session'))

    def test_version(self):
        text = (ROOT / 'include/weir/version.h').read_text(encoding='utf-8')
        version = re.search(r'WEIR_VERSION "(.*)"', text)[1]
        self.assertEqual(self.installed.pkg_config('--modversion'), [version])
        numbers = [int(re.search(rf'WEIR_VERSION_{part} (\d+)', text)[1]) for part in ('MAJOR', 'MINOR', 'PATCH')]
        self.assertEqual('.'.join(map(str, numbers)), version)
        library = ctypes.CDLL(str(self.installed.library))
        library.weir_version.restype = ctypes.c_char_p
        self.assertEqual(library.weir_version().decode(), version)
        self.assertEqual(library.weir_version_number(), 10000 * numbers[0] + 100 * numbers[1] + numbers[2])

    def test_program(self):
        programs = list(self.installed.root.rglob('bin/weir'))
        self.assertEqual(len(programs), 1)
        self.assertIn('0.', run(programs[0], 'version'))

    def test_programs_beside(self):
        """`weir sim`, `weir lab` and `weir reads` are programs of their own, found from where weir is, however it is called."""
        weir = self.installed.find('bin/weir')
        link = self.installed.root / 'linked'
        link.symlink_to(weir)
        for called in (weir, link, os.path.relpath(weir)):
            self.assertIn('Usage: weir sim', run(called, 'sim', '--help'))
            self.assertIn('weir reads check', run(called, 'reads', '--help'))
            self.assertIn('Usage: weir lab', run(called, 'lab', '--help'))
            self.assertIn('Usage: weir replay', run(called, 'replay', '--help'))
        done = subprocess.run(['other', 'sim', '--nope'], executable=weir, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                         (2, "weir: sim has no option '--nope'; did you mean '--nodes'?"))

    def test_modules_beside(self):
        """What needs libpq or libcurl is loaded from where it was installed, and exports one name."""
        weir = self.installed.find('bin/weir')
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, 'weir.yaml')
            for engine, wants in (('postgres', 'conninfo: "host=127.0.0.1"'), ('etcd', 'endpoints: [ "http://127.0.0.1:1" ]')):
                config.write_text(f'limits: []\nlocks: {{ engine: {engine}, {wants}, witness: {folder}/witness }}\n',
                                  encoding='utf-8')
                self.assertIn(f'locks in {engine}', run(weir, 'serve', '--check', config))
                module = self.installed.find(f'weir-{engine}.so')
                self.assertEqual(set(symbols(module, '-D', '--defined-only')), {'weir_module'})

            config.write_text('limits: []\ntraces: { endpoint: "http://127.0.0.1:1/" }\n', encoding='utf-8')
            self.assertIn('is fine, 0 limits', run(weir, 'serve', '--check', config))
            self.assertEqual(set(symbols(self.installed.find('weir-traces.so'), '-D', '--defined-only')), {'weir_module'})

            config.write_text('limits: []\nlisten: { grpc: "127.0.0.1:0" }\n', encoding='utf-8')
            self.assertIn('is fine, 0 limits', run(weir, 'serve', '--check', config))
            self.assertEqual(set(symbols(self.installed.find('weir-grpc.so'), '-D', '--defined-only')), {'weir_module'})

    def test_programs_that_cannot_be_started(self):
        with tempfile.TemporaryDirectory() as folder:
            weir = shutil.copy(self.installed.find('bin/weir'), folder)
            other = pathlib.Path(folder, 'weir-sim')
            for made, why in ((lambda: None, f'is not in {folder} or {folder}/'),
                              (other.touch, f'{other}, which cannot be started: Permission denied'),
                              (lambda: other.chmod(0o755), 'cannot be started: Exec format error')):
                made()
                done = subprocess.run([weir, 'sim', '--seed', '1'], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                self.assertIn('weir: weir sim is the program ', done.stderr)
                self.assertIn(why, done.stderr)

    def test_nothing_else(self):
        names = {path.name for path in self.installed.root.rglob('*') if not path.is_dir()}
        headers = {path.name for path in pathlib.Path(ROOT / 'include/weir').iterdir()}
        libraries = {name for name in names if name.startswith(('libweir.', 'libweir-session.'))}
        pages = {name for name in names if re.fullmatch(r'weir(-[a-z]+)*\.1', name)}
        self.assertIn('weir-serve.1', pages)
        self.assertEqual(names - headers - libraries - pages - {'weir-session.pc', '_weir', 'weir.fish'},
                         {'weir', 'weir.pc', 'weir-etcd.so', 'weir-grpc.so', 'weir-lab', 'weir-postgres.so', 'weir-reads', 'weir-replay',
                          'weir-sim', 'weir-traces.so'})


if __name__ == '__main__':
    unittest.main()
