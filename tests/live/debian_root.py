# SPDX-License-Identifier: Apache-2.0
"""A fresh Debian folder, without a network: what is essential, and what some packages say they depend on, copied from the
packages that this machine has, with their entries in dpkg's database and nothing else. Who depends on something without
saying so does not find it there."""
import os
import pathlib
import re
import shutil
import subprocess

DPKG = pathlib.Path('/var/lib/dpkg')
LINKS = ('bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32')
# Nobody needs them to run.
LEFT_OUT = re.compile(r'^/usr/share/(doc|man|locale|info|lintian|i18n)/|^/usr/lib/[^/]+/(perl|gconv)/.*\.(pod|ph)$')


def stanzas():
    """{package: [its stanza of the status file]}, of those of this architecture that are installed."""
    found = {}
    native = subprocess.run(['dpkg', '--print-architecture'], capture_output=True, text=True, check=True).stdout.strip()
    for text in (DPKG / 'status').read_text(encoding='utf-8').split('\n\n'):
        if re.search(r'^Status: install ok installed', text, re.M) and field(text, 'Architecture') in (native, 'all'):
            found.setdefault(re.search(r'^Package: (.*)', text)[1], []).append(text)
    return found


def field(text, name):
    match = re.search(rf'^{name}: (.*)$', text, re.M)
    return match[1] if match else ''


def names(dependencies):
    """Of "libc6 (>= 2.34), a | b" [['libc6'], ['a', 'b']]."""
    return [[re.match(r'\s*([^\s:(]+)', word)[1] for word in group.split('|')] for group in dependencies.split(',')
            if group.strip()]


class DebianRoot:
    """Has a folder `path`; run() runs a command in it. Needs root."""

    def __init__(self, path, wanted):
        self.path = pathlib.Path(path)
        self.installed = stanzas()
        self.packages = self.closure([*wanted, *(name for name, texts in self.installed.items()
                                                 if field(texts[0], 'Essential') == 'yes')])
        self.copy()
        self.database()

    def closure(self, wanted):
        provided = {}
        for name, texts in self.installed.items():
            for group in names(field(texts[0], 'Provides')):
                provided.setdefault(group[0], name)
        found, left = set(), list(wanted)
        while left:
            name = left.pop()
            name = name if name in self.installed else provided.get(name)
            if name is None or name in found:
                continue
            found.add(name)
            for kind in ('Depends', 'Pre-Depends'):
                for group in names(field(self.installed[name][0], kind)):
                    there = [one for one in group if one in self.installed] or [one for one in group if one in provided]
                    left += there[:1]
        return found

    def info(self, name):
        """The files of a package in dpkg's folder of them."""
        return [path for path in (DPKG / 'info').glob(f'{name}[.:]*')
                if re.fullmatch(rf'{re.escape(name)}(:[a-z0-9]+)?\.[a-z0-9]+', path.name)]

    def copy(self):
        for name in LINKS:
            if os.path.islink('/' + name):
                (self.path / name).symlink_to(os.readlink('/' + name))
                (self.path / os.readlink('/' + name)).mkdir(parents=True, exist_ok=True)
        files = set()
        for name in self.packages:
            for listed in self.info(name):
                if listed.suffix == '.list':
                    files |= set(listed.read_text(encoding='utf-8').splitlines())
        there = sorted(name[1:] for name in files
                       if len(name) > 2 and name[1:] not in LINKS and not LEFT_OUT.search(name) and os.path.lexists(name))
        packed = self.path / 'packed'
        subprocess.run(['tar', '-C', '/', '--no-recursion', '-cf', packed, '-T', '-'], input='\n'.join(there).encode(),
                       check=True)
        subprocess.run(['tar', '-C', self.path, '--keep-directory-symlink', '-xf', packed], check=True)
        packed.unlink()
        for name in ('dev', 'proc', 'sys', 'tmp', 'run', 'root', 'var/log', 'var/lib', 'etc', 'home'):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        (self.path / 'tmp').chmod(0o1777)

    def database(self):
        folder = self.path / 'var/lib/dpkg'
        for name in ('info', 'updates', 'triggers', 'alternatives', 'parts'):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / 'status').write_text(''.join('\n\n'.join(self.installed[name]) + '\n\n' for name in sorted(self.packages)),
                                       encoding='utf-8')
        for name in self.packages:
            for path in self.info(name):
                shutil.copy2(path, folder / 'info')
        (folder / 'info/format').write_text('1\n', encoding='utf-8')
        if (DPKG / 'triggers/ldconfig').exists():
            shutil.copy2(DPKG / 'triggers/ldconfig', folder / 'triggers/ldconfig')
        for name in ('passwd', 'group'):
            shutil.copy(f'/usr/share/base-passwd/{name}.master', self.path / 'etc' / name)
        subprocess.run(['ldconfig', '-r', self.path], check=True)

    def command(self, *words, user=None):
        """With /proc and /dev of its own mount namespace, and an environment of its own."""
        inside = ['chroot', *([f'--userspec={user}'] if user else []), str(self.path), 'env', '-i',
                  'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/', 'LANG=C.UTF-8', 'DEBIAN_FRONTEND=noninteractive']
        mounts = f'mount -t proc proc {self.path}/proc && mount --rbind /dev {self.path}/dev && exec "$@"'
        return ['unshare', '--mount', 'sh', '-c', mounts, 'sh', *inside, *(str(word) for word in words)]

    def run(self, *words, user=None, status=0):
        """What it prints. Another exit code than `status` is an AssertionError that shows it."""
        done = subprocess.run(self.command(*words, user=user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert done.returncode == status, f'{words}: {done.returncode}\n{done.stdout}'
        return done.stdout
