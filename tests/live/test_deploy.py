#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is in deploy/ for systemd, containers and Kubernetes, as far as that can be tried without them.

The unit: systemd-analyze's judgement, and its filter of system calls around a real server. The container: the folder that
it consists of is made and lived in, by its user. Manifests: they are read, each flag, path, port and probe that they name
is there, and the configurations in them are good. Not shown: that docker, compose and Kubernetes take them as they are."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import yaml

from weir_server import BUILD, ROOT, Weir, connect, read_all, resp_encode

DEPLOY = ROOT / 'deploy'
TOKEN = 't' * 32
FLAGS = {f'WEIR_{flag.upper()}' for flag in
         re.findall(r'\{ "(\w+)", \.', (ROOT / 'src/cli/serve_flags.c').read_text(encoding='utf-8'))}


def checked(config, *arguments):
    """`weir rules check --json` of a configuration, with files that are elsewhere put where it names them."""
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder, 'token')
        token.write_text(TOKEN + '\n', encoding='utf-8')
        config, count = re.subn(r'secret_file: [^ }]+', f'secret_file: {token}', config)
        assert count == 1, config
        path = pathlib.Path(folder, 'weir.yaml')
        path.write_text(config, encoding='utf-8')
        done = subprocess.run([BUILD / 'weir', 'rules', 'check', '--json', *arguments, path],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout)


def listens(config):
    return {name: int(str(place).rsplit(':', 1)[1]) for name, place in yaml.safe_load(config)['listen'].items()}


def filtered(allowed):
    """A function for a child: from now on only these system calls, others fail with EPERM, as the unit says."""
    library = ctypes.CDLL('libseccomp.so.2', use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    numbers = [library.seccomp_syscall_resolve_name(name.encode()) for name in allowed]

    def install():
        context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(0x00050000 | 1)))  # SCMP_ACT_ERRNO(EPERM)
        for number in numbers:
            if number >= 0:
                library.seccomp_rule_add(context, ctypes.c_uint32(0x7fff0000), number, 0)
        if library.seccomp_load(context):
            os._exit(99)
    return install


def calls_of(group, seen=None):
    """The system calls of one of systemd's groups, and of those in it."""
    seen = set() if seen is None else seen
    names = set()
    if group not in seen:
        seen.add(group)
        text = subprocess.run(['systemd-analyze', 'syscall-filter', group], capture_output=True, text=True, check=True).stdout
        for word in re.findall(r'^    ([@\w-]+)', text, re.M):
            names |= calls_of(word, seen) if word[0] == '@' else {word}
    return names


class Unit(unittest.TestCase):
    def setUp(self):
        self.path = DEPLOY / 'systemd/weir.service'
        self.text = self.path.read_text(encoding='utf-8')

    def test_it_is_hardened(self):
        done = subprocess.run(['systemd-analyze', 'security', '--offline=yes', '--threshold=20', self.path], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_server_lives_under_its_filter_of_system_calls(self):
        """With locks, a reload, and clients of both protocols, in plain text."""
        allowed = set()
        for words in re.findall(r'^SystemCallFilter=(.*)', self.text, re.M):
            names = set().union(*(calls_of(word) if word[0] == '@' else {word} for word in words.lstrip('~').split()))
            allowed = allowed - names if words[0] == '~' else allowed | names
        self.assertNotIn('mount', allowed)
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, 'weir.yaml')
            config.write_text(f'limits: []\nlocks: {{ engine: sqlite, path: {folder}/locks.db }}\n', encoding='utf-8')
            refused = subprocess.run(['mount', '--version'], preexec_fn=filtered(allowed - {'openat', 'open'}), check=False,
                                     capture_output=True)
            self.assertNotEqual(refused.returncode, 0, 'the filter filters')
            with Weir(config=None, arguments=('--config', str(config)), preexec=filtered(allowed)) as weir:
                with connect(weir.http) as sock:
                    sock.sendall(b'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 28\r\n'
                                 b'Connection: close\r\n\r\n{"owner":"x","ttl_ms":15000}')
                    self.assertIn(b'"granted":true', read_all(sock))
                with connect(weir.resp) as sock:
                    sock.sendall(resp_encode('CL.THROTTLE', 'k', 1, 1, 60) + b'QUIT\r\n')
                    self.assertIn(b':0\r\n', read_all(sock))
                with connect(weir.http) as sock:
                    sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                    metrics = read_all(sock, 4 << 20).decode()
                self.assertIn('process_start_time_seconds', metrics)
                self.assertIn('process_max_fds', metrics)
                weir.process.send_signal(signal.SIGHUP)
                while 'reloaded' not in weir.output():
                    self.assertIsNone(weir.process.poll(), weir.output())
                self.assertNotIn('Operation not permitted', weir.output())

    def test_flags_and_names_in_it_are_there(self):
        options = set(re.findall(r'--[a-z]+', ' '.join(re.findall(r'^Exec\w+=/usr/bin/weir (.*)', self.text, re.M))))
        self.assertLessEqual({f'WEIR_{option[2:].upper()}' for option in options}, FLAGS)
        for name in re.findall(r'WEIR_[A-Z]+', (DEPLOY / 'debian/weir.default').read_text(encoding='utf-8')):
            self.assertIn(name, FLAGS)
        socket = (DEPLOY / 'systemd/weir.socket').read_text(encoding='utf-8')
        self.assertIn(re.search(r'^FileDescriptorName=(.*)', socket, re.M)[1], ('http', 'resp'))
        done = subprocess.run([BUILD / 'weir', 'rules', 'check', DEPLOY / 'debian/weir.yaml'], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, 'warning' in done.stderr), (0, False), done.stdout + done.stderr)


@unittest.skipIf(os.geteuid() != 0, 'a folder to live in (chroot) needs root')
class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='weir-container-')
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name, 'root')
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', folder.name + '/installed'],
                       check=True)
        subprocess.run([DEPLOY / 'container/rootfs', folder.name + '/installed', cls.root], check=True)
        cls.weir = '/' + str(next(cls.root.rglob('bin/weir')).relative_to(cls.root))

    def command(self, *words):
        mounts = f'mkdir -p {self.root}/proc {self.root}/dev && mount -t proc proc {self.root}/proc && ' \
                 f'mount --rbind /dev {self.root}/dev && exec chroot --userspec=65532:65532 {self.root} "$@"'
        return ['unshare', '--mount', 'sh', '-c', mounts, 'sh', self.weir, *words]

    def test_there_is_no_more_in_it_than_it_needs(self):
        files = [path for path in self.root.rglob('*') if path.is_file() and not path.is_symlink()]
        self.assertEqual([path for path in files if path.stat().st_mode & 0o6000], [])
        self.assertFalse([path for path in files if path.name in ('sh', 'bash', 'dash', 'busybox', 'apt', 'dpkg')])
        size = sum(path.stat().st_size for path in files if '/zoneinfo/' not in str(path))
        self.assertLess(size, 45_000_000)
        print(f'\ncontainer: {len(files)} files, {size / 1e6:.1f} MB and time zones')

    def test_its_user_serves_in_it(self):
        """A token is asked for, a calendar window has its time zone, and PostgreSQL's module finds its library."""
        config = self.root / 'etc/weir/weir.yaml'
        config.write_text(f'auth: {{ required: always, tokens: [ {{ name: a, secret: {TOKEN} }} ] }}\nlimits:\n'
                          '  - { name: day, key: [user], rate: 5/day, algorithm: fixed_window, tz: Europe/Berlin }\n'
                          'locks: { engine: sqlite, path: /var/lib/weir/locks.db }\n', encoding='utf-8')
        env = {'WEIR_CONFIG': '/etc/weir/weir.yaml', 'WEIR_HTTP': '127.0.0.1:0', 'WEIR_RESP': 'off', 'WEIR_THREADS': '2',
               'PATH': os.environ['PATH']}
        with subprocess.Popen(self.command('serve'), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            line = process.stdout.readline()
            match = re.search(r'http listening on 127\.0\.0\.1:(\d+)', line)
            self.assertTrue(match, line + (process.stdout.read() if not match else ''))
            for path, status in (('/readyz', b' 200 '), ('/healthz', b' 200 '), ('/v1/limits', b' 401 ')):
                with connect(int(match[1])) as sock:
                    sock.sendall(f'GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n'.encode())
                    self.assertIn(status, read_all(sock)[:20], path)
            done = subprocess.run(self.command('check', '--server', f'127.0.0.1:{match[1]}', 'user=ada'), check=False,
                                  env=dict(env, WEIR_TOKEN=TOKEN), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            process.send_signal(signal.SIGTERM)
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, output)
        config.write_text('limits: []\nlocks: { engine: postgres, conninfo: "host=127.0.0.1", witness: /var/lib/weir/w }\n',
                          encoding='utf-8')
        done = subprocess.run(self.command('serve', '--check', '/etc/weir/weir.yaml'), capture_output=True, text=True, check=False)
        self.assertIn('locks in postgres', done.stdout + done.stderr)

    def test_its_recipe_names_what_is_there(self):
        text = (DEPLOY / 'container/Containerfile').read_text(encoding='utf-8')
        for path in re.findall(r'(?:scripts|deploy)/[\w/-]+', text):
            self.assertTrue((ROOT / path).exists() or path.endswith('Containerfile'), path)
        self.assertLessEqual(set(re.findall(r'WEIR_[A-Z]+', text)) - {'WEIR_CONFIG'}, FLAGS)
        self.assertIn('USER 65532:65532', text)
        self.assertIn('\nuser=65532\n', (DEPLOY / 'container/rootfs').read_text(encoding='utf-8'))


class Manifests(unittest.TestCase):
    def good(self, config, *arguments):
        """Once its secret has been made: as it is it is refused."""
        found = checked(config, *arguments)
        self.assertEqual([error['message'][:14] for error in found['errors']], ['cluster_secret'])
        found = checked(config.replace('CHANGE-ME', '0123456789abcdef' * 2), *arguments)
        self.assertEqual((found['ok'], found['errors'], found['warnings']), (True, [], []))

    def test_compose(self):
        compose = yaml.safe_load((DEPLOY / 'container/compose.yaml').read_text(encoding='utf-8'))
        config = (DEPLOY / 'container/weir.yaml').read_text(encoding='utf-8')
        nodes = yaml.safe_load(config)['cluster']['nodes']
        services = {name: service for name, service in compose['services'].items() if service['image'] == 'weir'}
        self.assertEqual(sorted(services), sorted(nodes), 'each node is a service')
        for name, service in services.items():
            self.good(config, '--node', name)
            self.assertEqual(service['environment'], {'WEIR_NODE': name})
            self.assertLessEqual(set(service['environment']), FLAGS)
            self.assertEqual(service['ports'][0].rsplit(':', 1)[1], str(listens(config)['http']))
            self.assertTrue((DEPLOY / 'container' / service['build']['context'] / service['build']['dockerfile']).exists())
            self.assertEqual(service['volumes'], ['./weir.yaml:/etc/weir/weir.yaml:ro'])
            self.assertIn('/run/secrets/' + service['secrets'][0], config)
            self.assertGreaterEqual(int(service['stop_grace_period'][:-1]), 10 + 3)
            self.assertTrue(service['read_only'])
        self.assertIn('redis', compose['services'])

    def test_kubernetes(self):
        things = {(thing['kind'], thing['metadata']['name']): thing for thing in
                  yaml.safe_load_all((DEPLOY / 'kubernetes/weir.yaml').read_text(encoding='utf-8'))}
        config = things['Secret', 'weir']['stringData']['weir.yaml']
        read, ports = yaml.safe_load(config), listens(config)
        stateful = things['StatefulSet', 'weir']['spec']
        pod, container = stateful['template']['spec'], stateful['template']['spec']['containers'][0]
        self.assertEqual(read['cluster']['nodes'], [f'weir-{i}' for i in range(stateful['replicas'])])
        for node in read['cluster']['nodes']:
            self.good(config, '--node', node)
        self.assertIn(('Service', stateful['serviceName']), things)
        self.assertEqual(things['Service', stateful['serviceName']]['spec']['clusterIP'], 'None')
        self.assertEqual({port['name']: port['containerPort'] for port in container['ports']}, ports)
        self.assertEqual({port['name']: port['port'] for port in things['Service', 'weir']['spec']['ports']}, ports)
        self.assertLessEqual({variable['name'] for variable in container['env']}, FLAGS)
        labels = stateful['template']['metadata']['labels']
        for thing in things.values():
            selector = thing['spec'].get('selector') if 'spec' in thing else None
            if selector:
                self.assertEqual(selector.get('matchLabels', selector), labels)
        seconds = int(read['server']['drain_timeout'][:-1]) + container['lifecycle']['preStop']['sleep']['seconds'] + 3
        self.assertGreaterEqual(pod['terminationGracePeriodSeconds'], seconds)
        self.assertEqual({mount['name'] for mount in container['volumeMounts']}, {volume['name'] for volume in pod['volumes']})
        mounts = [mount['mountPath'] for mount in container['volumeMounts']]
        named = [read['auth']['tokens'][0]['secret_file'], *(one['value'] for one in container['env'] if one.get('value', '')[:1] == '/')]
        for path in named:
            self.assertIn(os.path.dirname(path), mounts)
        self.assertTrue(pod['securityContext']['runAsNonRoot'])
        self.assertFalse(pod['enableServiceLinks'])

    def test_probes_are_answered(self):
        text = (DEPLOY / 'kubernetes/weir.yaml').read_text(encoding='utf-8')
        probes = set(re.findall(r'httpGet: \{ path: (\S+),', text))
        self.assertEqual(probes, {'/readyz', '/healthz'})
        with Weir(f'auth: {{ required: always, tokens: [ {{ name: a, secret: {TOKEN} }} ] }}\nlimits: []\n') as weir:
            for path in probes:
                with connect(weir.http) as sock:  # by an address that is in no `hosts`, and without a token
                    sock.sendall(f'GET {path} HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nConnection: close\r\n\r\n'.encode())
                    self.assertIn(b' 200 ', read_all(sock)[:20])

    def test_files_that_are_links_are_read(self):
        """As Kubernetes mounts a ConfigMap and a Secret: links to links, which a change moves; SIGHUP then reads it."""
        with tempfile.TemporaryDirectory() as folder:
            for version, rate in (('1', '5/min'), ('2', '7/min')):
                data = pathlib.Path(folder, f'..{version}')
                data.mkdir()
                (data / 'token').write_text(TOKEN, encoding='utf-8')
                (data / 'weir.yaml').write_text(
                    f'auth: {{ tokens: [ {{ name: a, secret_file: {folder}/token }} ] }}\n'
                    f'limits: [ {{ name: api, key: [user], rate: {rate} }} ]\n', encoding='utf-8')
            pathlib.Path(folder, '..data').symlink_to('..1')
            for name in ('token', 'weir.yaml'):
                pathlib.Path(folder, name).symlink_to(f'..data/{name}')
            with Weir(config=None, arguments=('--config', f'{folder}/weir.yaml')) as weir:
                pathlib.Path(folder, '..new').symlink_to('..2')
                pathlib.Path(folder, '..new').rename(pathlib.Path(folder, '..data'))
                weir.process.send_signal(signal.SIGHUP)
                while 'reloaded' not in weir.output():
                    self.assertIsNone(weir.process.poll(), weir.output())
                self.assertIn('api 5/min -> 7/min', weir.output())


if __name__ == '__main__':
    unittest.main()
