# SPDX-License-Identifier: Apache-2.0
"""libweir installed into a folder of its own, as a package would be, and what pkg-config then says."""
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', ROOT / 'build'))


def run(*command, env=None):
    """The output; a failure is an AssertionError that shows it."""
    process = subprocess.run([str(part) for part in command], env=dict(os.environ, **(env or {})), check=False,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=100)
    if process.returncode != 0:
        raise AssertionError(f'{shlex.join(str(part) for part in command)}: {process.returncode}\n{process.stdout}')
    return process.stdout


class Installed:
    """Installed below `root` by way of DESTDIR."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix='weir-installed-'))
        run('meson', 'install', '-C', BUILD, '--no-rebuild', '--destdir', self.root)
        self.library = self.find('libweir.so.0')
        self.env = {'PKG_CONFIG_PATH': str(self.find('weir.pc').parent), 'PKG_CONFIG_SYSROOT_DIR': str(self.root),
                    'PKG_CONFIG_ALLOW_SYSTEM_LIBS': '1', 'LD_LIBRARY_PATH': str(self.library.parent)}

    def find(self, name):
        found = [path for path in self.root.rglob(name)]
        assert len(found) == 1, f'{name}: {found}'
        return found[0]

    def pkg_config(self, *arguments, package='weir'):
        return shlex.split(run('pkg-config', *arguments, package, env=self.env))

    def remove(self):
        shutil.rmtree(self.root)
