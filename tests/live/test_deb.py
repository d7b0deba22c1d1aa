#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages are built, and installed into a fresh Debian folder (debian_root.py): they need no more than they
say, serve as the user weir, upgrade with the administrator's configuration kept, go and are purged. A weir that runs is
asked to hand over to the new one.

What it does not show: systemd starting the service. It is not there in a folder, and where it is asked somebody else
answers (Manager). The unit is looked at by systemd-analyze; what weir tells systemd is test_systemd.py's."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from debian_root import DebianRoot, field, names
from redis_server import wait_for
from weir_server import BUILD, ROOT, Resp, read_all

PACKAGES = ('weir', 'libweir0', 'libweir-session0', 'libweir-dev')
HEALTH = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'

DOCS = HEALTH.replace(b'/healthz', b'/docs/')


def make(out, *arguments):
    done = subprocess.run([ROOT / 'scripts/deb', '--build', f'{BUILD}-deb', '--out', out, *arguments], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Served:
    """A server in the folder, as the unit runs it, on free ports."""

    def __init__(self, root, env=()):
        command = root.command('STATE_DIRECTORY=/var/lib/weir', 'WEIR_HTTP=127.0.0.1:0', 'WEIR_RESP=127.0.0.1:0',
                               'WEIR_THREADS=2', *env, '/usr/bin/weir', 'serve', '--config', '/etc/weir/weir.yaml',
                               user='weir:weir')
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.output = ''
        while 'http listening on' not in self.output:
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line
        self.port = int(re.search(r'http listening on 127\.0\.0\.1:(\d+)', self.output)[1])
        self.resp = int(re.search(r'resp listening on 127\.0\.0\.1:(\d+)', self.output)[1])

    def ask(self, request=HEALTH):
        with socket.create_connection(('127.0.0.1', self.port), timeout=60) as sock:
            sock.sendall(request)
            return read_all(sock)

    def documentation(self):
        """It is read beside a server that serves already (503 until then)."""
        wait_for(lambda: not self.ask(DOCS).startswith(b'HTTP/1.1 503'), 'the documentation is not read')
        return self.ask(DOCS)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode


SYSTEMCTL = """#!/bin/sh
case "$*" in
*MainPID*) cat /run/main.pid ;;
*is-enabled*) echo enabled ;;
*restart*) touch /run/restarted ;;
esac
"""
UNIT = 'lib/systemd/system/weir.service'
LIMIT = 'limits: []\n'
LIMITED = 'limits: [ { name: once, key: [user], rate: 1/day, burst: 1000, algorithm: token_bucket } ]\n'


class Manager:
    """What stands for systemd in the folder: it hears which process is the service's main one, and `systemctl` tells. A
    context manager; `environment` is what the unit sets."""

    def __init__(self, root, environment=('WEIR_TAKE_OVER=/run/weir/takeover',)):
        self.run, self.root, self.environment = root.path / 'run', root, environment

    def hear(self):
        while True:
            said = self.heard.recv(1000)
            if said == b'end':
                return
            if told := re.match(rb'MAINPID=(\d+)', said):
                self.tell(int(told[1]))

    def tell(self, pid):
        self.pids.append(pid)
        (self.run / 'new.pid').write_text(f'{pid}\n', encoding='ascii')
        (self.run / 'new.pid').replace(self.run / 'main.pid')

    def __enter__(self):
        self.pids, self.heard = [], socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        (self.run / 'systemd/system').mkdir(parents=True)
        (self.root.path / 'usr/bin/systemctl').write_text(SYSTEMCTL, encoding='ascii')
        (self.root.path / 'usr/bin/systemctl').chmod(0o755)
        entry = self.root.run('getent', 'passwd', 'weir').split(':')
        (self.run / 'weir').mkdir()
        os.chown(self.run / 'weir', int(entry[2]), int(entry[3]))
        self.heard.bind(str(self.run / 'notify'))
        (self.run / 'notify').chmod(0o666)
        self.thread = threading.Thread(target=self.hear)
        self.thread.start()
        self.served = Served(self.root, env=('NOTIFY_SOCKET=/run/notify', *self.environment))
        self.tell(self.served.process.pid)
        return self

    def restarted(self):
        """Since it was asked the last time."""
        there = (self.run / 'restarted').exists()
        (self.run / 'restarted').unlink(missing_ok=True)
        return there

    def __exit__(self, *_):
        if self.pids[-1] != self.served.process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[-1], signal.SIGTERM)
        self.served.stop()  # all that have its output have ended
        self.heard.sendto(b'end', str(self.run / 'notify'))
        self.thread.join()
        self.heard.close()
        for name in ('notify', 'main.pid'):
            (self.run / name).unlink()
        for name in ('systemd', 'weir'):
            shutil.rmtree(self.run / name)
        (self.root.path / 'usr/bin/systemctl').unlink()


@unittest.skipIf(os.geteuid() != 0, 'a folder to live in (chroot) needs root')
class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='weir-deb-')
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        site = cls.path / 'site'  # what `make site` makes is looked at in test_site.py
        site.mkdir()
        (site / 'weir-site.txt').touch()
        (site / 'index.html').write_text('the pages', encoding='utf-8')
        cls.output = make(cls.path / 'old', '--site', site)
        make(cls.path / 'new', '--version', '0.1.0+1', '--site', cls.path)
        depends = {name: field(subprocess.run(['dpkg-deb', '-f', cls.deb('old', name)], capture_output=True, text=True,
                                              check=True).stdout, 'Depends') for name in PACKAGES}
        (cls.path / 'root').mkdir()
        wanted = [group[0] for name in ('weir', 'libweir0') for group in names(depends[name])]
        cls.root = DebianRoot(cls.path / 'root', wanted)
        shutil.copytree(cls.path / 'old', cls.path / 'root/old')
        shutil.copytree(cls.path / 'new', cls.path / 'root/new')

    @classmethod
    def deb(cls, which, name):
        return next((cls.path / which).glob(f'{name}_*.deb'))

    def install(self, which, *packages):
        return self.root.run('dpkg', '-i', *(f'/{which}/{self.deb(which, name).name}' for name in packages))

    def state(self, name):
        done = subprocess.run(self.root.command('dpkg-query', '-W', '-f', '${db:Status-Abbrev}${Version}', name),
                              capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def test_from_the_first_installation_to_the_purge(self):
        """One story: what stands on the step before it cannot be told apart."""
        root = self.root
        self.assertNotIn('warning', self.output)
        self.assertFalse(any((root.path / name).exists() for name in ('usr/lib/x86_64-linux-gnu/libpq.so.5', 'etc/weir')))
        self.install('old', 'libweir0', 'weir')
        self.assertEqual(self.state('weir'), 'ii 0.1.0')
        self.installed()
        self.serves()
        self.unit()
        self.library()
        self.upgraded()
        self.handed_over()
        self.restarted()
        root.run('dpkg', '-r', 'weir')
        self.assertEqual(self.state('weir'), 'rc 0.1.0+1')
        self.assertFalse((root.path / 'usr/bin/weir').exists())
        self.assertIn('# mine', (root.path / 'etc/weir/weir.yaml').read_text(encoding='utf-8'))
        self.assertTrue((root.path / 'var/lib/weir').exists(), 'what it kept is still there')
        self.install('new', 'weir')
        self.assertIn('# mine', (root.path / 'etc/weir/weir.yaml').read_text(encoding='utf-8'))
        self.assertEqual(root.run('dpkg', '-V', 'weir').split()[-1:], ['/etc/weir/weir.yaml'], 'nothing else was changed')
        root.run('dpkg', '-P', 'weir', 'libweir0')
        left = [str(path) for path in root.path.rglob('*weir*') if '/proc/' not in str(path) and '/old/' not in str(path) and
                '/new/' not in str(path)]
        self.assertEqual(left, [])
        self.assertEqual(self.state('weir'), '')

    def installed(self):
        root = self.root
        self.assertEqual(root.run('weir', 'version').strip(), 'weir 0.1.0')
        entry = root.run('getent', 'passwd', 'weir').strip().split(':')
        self.assertLess(int(entry[2]), 1000)
        self.assertEqual(entry[5:], ['/var/lib/weir', '/usr/sbin/nologin'])
        file = root.path / 'etc/weir/weir.yaml'
        group = int(root.run('getent', 'group', 'weir').split(':')[2])
        self.assertEqual((file.stat().st_mode & 0o777, file.stat().st_uid, file.stat().st_gid), (0o640, 0, group))
        self.assertIn('is fine', root.run('weir', 'serve', '--check', '/etc/weir/weir.yaml', user='weir:weir'))
        self.assertIn('Usage: weir sim', root.run('weir', 'sim', '--help'))
        self.assertEqual(root.run('dpkg', '-V', 'weir', 'libweir0'), '')
        self.assertTrue((root.path / 'etc/systemd/system/multi-user.target.wants/weir.service').is_symlink(), 'it is enabled')
        said = root.run('weir', 'reads', 'check', '--primary', 'host=x', '--replica', 'host=y', status=127)
        self.assertIn('libpq', said)  # recommended, and not there

    def serves(self):
        state = self.root.path / 'var/lib/weir'  # as StateDirectory= makes it
        state.mkdir(mode=0o700)
        entry = self.root.run('getent', 'passwd', 'weir').split(':')
        os.chown(state, int(entry[2]), int(entry[3]))
        served = Served(self.root)
        try:
            self.assertIn(b'200 OK', served.ask())
            self.assertTrue(served.documentation().endswith(b'the pages'))
            lock = b'{"owner":"me","ttl_ms":15000}'
            self.assertIn(b'"granted":true', served.ask(b'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n'
                                                        b'Connection: close\r\nContent-Length: %d\r\n\r\n' % len(lock) + lock))
        finally:
            self.assertEqual(served.stop(), 0)
        self.assertEqual((state / 'locks.db').stat().st_uid, int(entry[2]))

    def unit(self):
        """As systemd reads it, in a folder that has systemd's own units too."""
        units = self.root.path / 'lib/systemd/system'
        own = units / 'weir.service'
        kept = set(units.iterdir())
        for path in pathlib.Path('/lib/systemd/system').iterdir():
            if path.suffix in ('.target', '.slice', '.socket', '.mount', '.service') and not (units / path.name).exists():
                shutil.copy(path, units / path.name)
        shutil.copy(ROOT / 'deploy/systemd/weir.socket', units)
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', f'--root={self.root.path}', 'weir.service', 'weir.socket'],
                              capture_output=True, text=True, check=False)
        for path in set(units.iterdir()) - kept:
            path.unlink()
        self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if 'weir' in line]), (0, []), done.stderr)
        subprocess.run(['systemd-analyze', 'security', '--offline=yes', '--threshold=20', own], check=True,
                       stdout=subprocess.DEVNULL)

    def library(self):
        """A program is built with the headers and runs, in the folder, with the library."""
        root = self.root.path
        self.root.run('dpkg', '--force-depends', '-i', f'/old/{self.deb("old", "libweir-dev").name}')
        folder = next((root / 'usr/lib').glob('*/libweir.a')).parent
        subprocess.run(['cc', '-std=c11', ROOT / 'examples/embed.c', '-I', root / 'usr/include', f'-L{folder}', '-lweir', '-o',
                        root / 'embed'], check=True)
        self.root.run('/embed')
        (root / 'embed').unlink()
        self.root.run('dpkg', '-r', 'libweir-dev')

    def upgraded(self):
        file = self.root.path / 'etc/weir/weir.yaml'
        with file.open('a', encoding='utf-8') as text:
            text.write('# mine\n')
        served = Served(self.root)
        try:
            self.install('new', 'libweir0', 'weir')
            self.assertIn(b'200 OK', served.ask(), 'what runs goes on')
        finally:
            self.assertEqual(served.stop(), 0)
        self.assertEqual(self.state('weir'), 'ii 0.1.0+1')
        self.assertIn('# mine', file.read_text(encoding='utf-8'))
        self.assertEqual(file.stat().st_mode & 0o777, 0o640)
        served = Served(self.root)
        self.assertIn(b'200 OK', served.ask())
        self.assertIn(b'make site', served.documentation(), 'this one was made without')
        self.assertEqual(served.stop(), 0)

    def handed_over(self):
        """There and back again, over one connection, with one counter. The first one runs, the others are its children's."""
        file = self.root.path / 'etc/weir/weir.yaml'
        text = file.read_text(encoding='utf-8')
        self.assertIn(LIMIT, text)
        file.write_text(text.replace(LIMIT, LIMITED), encoding='utf-8')
        with Manager(self.root) as manager, Resp(manager.served.resp) as client:
            for left, which in ((999, 'old'), (998, 'new'), (997, 'old')):
                before = manager.pids[-1]
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], left)
                said = self.install(which, 'weir')
                self.assertRegex(said, rf'weir: process {manager.pids[-1]} has taken over from process {before}\n')
                self.assertNotEqual(manager.pids[-1], before)
                self.assertTrue(os.path.samefile(f'/proc/{manager.pids[-1]}/exe', self.root.path / 'usr/bin/weir'))
                self.assertEqual(client.ask('WEIR.PEEK', 1, 'user', 'ada')[3], left)
                self.assertFalse(manager.restarted())
            file.write_text('nonsense: 1\n' + file.read_text(encoding='utf-8'), encoding='utf-8')
            said = self.install('new', 'weir')
            self.assertIn('goes on, of the version before: mend what is wrong', said)
            self.assertIn('/etc/weir/weir.yaml:1:1: ', said)
            self.assertFalse(manager.restarted(), 'nobody would be there')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[3], 996)
        file.write_text(text, encoding='utf-8')
        self.assertFalse((self.root.path / 'run/weir.service.before').exists())

    def restarted(self):
        """What cannot hand over, and is not harmed by being asked."""
        unit, policy = self.root.path / UNIT, self.root.path / 'usr/sbin/policy-rc.d'
        with Manager(self.root, environment=()) as manager:
            self.assertIn('without --take-over), and is restarted', self.install('old', 'weir'))
            self.assertTrue(manager.restarted())
            with subprocess.Popen(self.root.command('WEIR_TAKE_OVER=/run/weir/takeover', 'sleep', '600')) as older:
                wait_for(lambda: pathlib.Path(f'/proc/{older.pid}/comm').read_text(encoding='ascii') == 'sleep\n', 'it runs')
                manager.tell(older.pid)
                self.assertIn('does not know SIGUSR2 yet), and is restarted', self.install('new', 'weir'))
                manager.tell(manager.served.process.pid)
                self.assertIsNone(older.poll(), 'it was not killed')
                older.kill()
            self.assertTrue(manager.restarted())
        with Manager(self.root) as manager:
            unit.write_text('# another\n' + unit.read_text(encoding='utf-8'), encoding='utf-8')
            self.assertIn('its unit has changed), and is restarted', self.install('new', 'weir'))
            self.assertTrue(manager.restarted())
            policy.write_text('#!/bin/sh\nexit 101\n', encoding='ascii')
            policy.chmod(0o755)
            self.install('new', 'weir')
            policy.unlink()
            self.assertFalse(manager.restarted())
            self.assertEqual(manager.pids, [manager.served.process.pid])


if __name__ == '__main__':
    unittest.main()
