#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each header compiles alone: the public ones as C11 and as C++11, strictly, the others as C11."""
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Werror', '-fsyntax-only']


def compile_alone(compiler, header, *options):
    """Includes it twice, so that a missing guard shows too."""
    home = next((folder for folder in ('include', 'src') if folder in header.relative_to(ROOT).parts), '')
    name = header.relative_to(ROOT / home)
    source = f'#include "{name}"\n#include "{name}"\nint planted_by_the_test;\n'
    command = [*compiler, *STRICT, *options, '-I', ROOT / 'include', '-I', ROOT / 'src', '-I', ROOT, '-']
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr


class Headers(unittest.TestCase):
    def each(self, folder, compiler, *options):
        headers = sorted((ROOT / folder).rglob('*.h'))
        self.assertTrue(headers)
        for header in headers:
            with self.subTest(header=header.name):
                self.assertEqual(compile_alone(compiler, header, *options), '')

    def test_public_as_c(self):
        self.each('include', ['cc', '-x', 'c'], '-std=c11', '-Wshadow', '-Wstrict-prototypes')

    def test_public_as_cpp(self):
        self.each('include', ['c++', '-x', 'c++'], '-std=c++11')

    def test_sim_as_c(self):
        self.each('sim', ['cc', '-x', 'c'], '-std=c11', '-D_GNU_SOURCE', '-Wshadow')

    def test_private_as_c(self):
        llhttp = '/usr/include/llhttp' if pathlib.Path('/usr/include/llhttp').exists() else '/usr/share/include/llhttp'
        self.each('src', ['cc', '-x', 'c'], '-std=c11', '-D_GNU_SOURCE', '-Wshadow', '-isystem', llhttp)


if __name__ == '__main__':
    unittest.main()
