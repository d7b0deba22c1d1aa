#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs of the program as people and scripts use them: output, exit codes, help."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from test_tls import make_certificate
from weir_server import BUILD, ROOT, Weir

CONFIG = '''
cluster: { node: b, nodes: [ a, b, c ] }
limits:
  - { name: shared, match: { route: /shared }, key: [user], rate: 100/hour, sharing: split }
  - { name: per-user, match: { route: /api/* }, key: [user], rate: 100/hour, burst: 2 }
  - { name: quota, match: { route: /export }, key: [user], rate: 1/193hour }
  - { name: tried, match: { route: /api/* }, rate: 1/hour, mode: shadow }
'''
TOKEN = 'a-token-of-some-length'
EXAMPLE = str(ROOT / 'examples' / 'weir.yaml')


def weir(*arguments, environment=None):
    return subprocess.run([str(BUILD / 'weir'), *arguments], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **(environment or {})})


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))
        cls.server = f'127.0.0.1:{cls.weir.http}'

    def check(self, *arguments):
        return weir('check', '--server', self.server, *arguments)

    def test_admitted_is_0_and_refused_is_1(self):
        codes = [self.check('user=codes', 'route=/api/x').returncode for _ in range(3)]
        self.assertEqual(codes, [0, 0, 1])

    def test_the_verdict_is_aligned_for_people(self):
        result = self.check('user=people', 'route=/api/x')
        self.assertEqual(result.stderr, '')
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], 'admitted')
        self.assertRegex(lines[3], r'^\* per-user +admits +1 +2 ')
        self.assertRegex(lines[4], r'^  tried +\((admits|would)\) ')
        self.assertEqual(lines[2].index('says'), lines[3].index('admits'))

    def test_waits_are_in_units_that_people_use(self):
        result = self.check('--cost', '2', 'user=waits', 'route=/api/x')
        self.assertRegex(result.stdout, r'(?m)^\* per-user +admits +0 +2 +- +1min 12s +-$')
        self.check('user=waits', 'route=/export')
        result = self.check('user=waits', 'route=/export')
        self.assertRegex(result.stdout, r'(?m)^\* quota +refuses +0 +1 +8d 1h +8d 1h +-$')

    def test_a_shared_limit_says_how_and_what_that_is_worth(self):
        lines = self.check('user=people', 'route=/shared').stdout.splitlines()
        self.assertRegex(lines[3], r'^\* shared +admits +32 +33 ')
        # It has just started: the process before it may have admitted a share.
        self.assertRegex(lines[4], r"^ +split over 3 nodes, this node's share 33, overshoot at most 33$")
        limit = json.loads(self.check('--json', 'user=json', 'route=/shared').stdout)['limits'][0]
        self.assertEqual({name: limit[name] for name in ('sharing', 'nodes', 'share', 'slack', 'overshoot_max')},
                         {'sharing': 'split', 'nodes': 3, 'share': 33, 'slack': 0, 'overshoot_max': 33})

    def test_json_is_the_servers_answer(self):
        verdict = json.loads(self.check('--json', 'user=json', 'route=/api/x').stdout)
        self.assertTrue(verdict['admitted'])
        self.assertEqual(verdict['limit'], 'per-user')
        self.assertEqual(verdict['remaining'], 1)
        self.assertEqual([limit['limit'] for limit in verdict['limits']], ['per-user', 'tried'])

    def test_peek_and_cost_0_change_nothing(self):
        for arguments in (['--peek'], ['--cost', '0'], ['--peek', '--cost', '2']) * 2:
            self.assertEqual(self.check(*arguments, 'user=peek', 'route=/api/x').returncode, 0)
        result = self.check('--json', '--cost', '2', 'user=peek', 'route=/api/x')
        self.assertEqual(json.loads(result.stdout)['remaining'], 0)

    def test_a_cost_that_can_never_pass(self):
        result = self.check('--cost', '3', 'user=never', 'route=/api/x')
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r'(?m)^\* per-user +refuses +2 +2 +never ')
        self.assertEqual(result.stdout.splitlines()[1], 'per-user never admits it: it costs more than the capacity, 2')
        self.assertNotIn('never admits', self.check('user=never', 'route=/export').stdout)

    def test_no_limit_applies(self):
        result = self.check('user=nobody')
        self.assertEqual((result.returncode, result.stdout), (0, 'admitted: no limit applies\n'))

    def test_wrong_arguments_are_2(self):
        for arguments in (['user'], ['=x'], ['--cost', '-1'], ['--cost', '9223372036854775808'], ['--cost', 'x'],
                          ['--nonsense'], ['--timeout', '5'], ['user=a', 'user=b'],
                          [f'a{i}=1' for i in range(65)]):
            result = self.check(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stdout, '')
            self.assertNotEqual(result.stderr, '')

    def test_values_may_be_anything_in_utf8(self):
        result = self.check('user=ä=b "\\\n', 'route=/api/x')
        self.assertEqual((result.returncode, result.stderr), (0, ''))


class NoServer(unittest.TestCase):
    def test_nobody_listens(self):
        with socket.socket() as unused:  # and nobody else comes to listen there
            unused.bind(('127.0.0.1', 0))
            server = f'127.0.0.1:{unused.getsockname()[1]}'
            result = weir('check', '--server', server, 'user=a')
        self.assertEqual(result.returncode, 2)
        self.assertIn(server, result.stderr)
        self.assertIn('Connection refused: does weir serve run', result.stderr)

    def test_an_address_needs_no_thread_to_look_it_up(self):
        if os.getuid() != 0:
            self.skipTest('needs root, to be a user who may have no second thread')
        with tempfile.TemporaryDirectory() as folder:  # where another user may run it
            os.chmod(folder, 0o755)
            program = shutil.copy(BUILD / 'weir', folder)
            for server in ('127.0.0.1:1', '[::1]:1'):
                result = subprocess.run(['prlimit', '--nproc=1', program, 'check', 'a=b', '--server', server], text=True,
                                        capture_output=True, timeout=120, check=False, user=64123)
                self.assertNotIn('Resource temporarily unavailable', result.stderr)
                self.assertIn(f'weir: {server}: ', result.stderr)

    def test_addresses_that_are_none(self):
        for server in ('', 'nowhere', ':80', '127.0.0.1:', 'unix:', 'unix:' + 'x' * 200, 'unix:/no/such/socket'):
            result = weir('check', '--server', server, 'user=a')
            self.assertEqual(result.returncode, 2, server)
            self.assertNotEqual(result.stderr, '')

    def answer(self, data, timeout='60s'):
        """What the client makes of a server that sends `data` and then stays (None: sends nothing)."""
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0))
            listener.listen()
            done = threading.Event()

            def serve():
                peer, _ = listener.accept()
                with peer:
                    peer.recv(65536)
                    if data is not None:
                        peer.sendall(data)
                    else:
                        done.wait(30)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            result = weir('check', '--server', f'127.0.0.1:{listener.getsockname()[1]}', '--timeout', timeout, 'a=b')
            done.set()
            thread.join(60)  # for ever, if the time was over before it could connect
        self.assertEqual(result.returncode, 2)
        return result.stderr

    def test_servers_that_answer_badly(self):
        self.assertIn('no answer in time', self.answer(None, '100ms'))
        self.assertIn('closed before an answer', self.answer(b''))
        self.assertIn('closed before an answer', self.answer(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}'))
        self.assertIn('does not speak HTTP; this asks', self.answer(b'-ERR unknown command\r\n'))
        self.assertIn('port of HTTP (8080), not that of RESP', self.answer(b''))
        self.assertIn('its head than 1 MiB', self.answer(b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 400000))
        self.assertIn('answered 200', self.answer(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]'))
        self.assertIn('answered 500', self.answer(b'HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n'))


class Tokens(unittest.TestCase):
    def test_a_token_is_asked_for_and_may_come_from_the_environment(self):
        config = CONFIG + f'auth: {{ required: always, tokens: [{{ name: cli, secret: {TOKEN} }}] }}\n'
        with Weir(config) as server:
            ask = ['check', '--server', f'http://127.0.0.1:{server.http}', 'user=a', 'route=/api/x']
            self.assertEqual(weir(*ask).returncode, 2)
            self.assertEqual(weir(*ask, '--token', TOKEN).returncode, 0)
            self.assertEqual(weir(*ask, environment={'WEIR_TOKEN': TOKEN}).returncode, 0)
            wrong = weir(*ask, '--token', 'wrong-' + TOKEN)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn('401', wrong.stderr)
            self.assertNotIn(TOKEN, wrong.stderr)


class Tls(unittest.TestCase):
    def test_the_servers_certificate_is_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            make_certificate(path, 7)
            config = CONFIG + f'tls: {{ cert: {path}/cert.pem, key: {path}/key.pem }}\n'
            with Weir(config) as server:
                ask = ['check', 'user=a', 'route=/api/x', '--server']
                good = f'https://localhost:{server.http}'
                result = weir(*ask, good, '--ca', str(path / 'cert.pem'))
                self.assertEqual((result.returncode, result.stderr), (0, ''))
                for server_name, arguments, problem in (
                        (good, [], 'certificate'),
                        (f'https://127.0.0.1:{server.http}', ['--ca', str(path / 'cert.pem')], 'certificate'),
                        (good, ['--ca', str(path / 'key.pem')], 'no certificate'),
                        (f'http://localhost:{server.http}', [], 'weir: ')):
                    result = weir(*ask, server_name, *arguments)
                    self.assertEqual(result.returncode, 2, server_name)
                    self.assertIn(problem, result.stderr)
                pipe = path / 'pipe'
                os.mkfifo(pipe)
                late = threading.Timer(0.2, lambda: pipe.write_bytes((path / 'cert.pem').read_bytes()))
                late.start()
                result = weir(*ask, good, '--ca', str(pipe), '--timeout', '60s')
                late.join()
                self.assertEqual((result.returncode, result.stderr), (0, ''))
                result = weir(*ask, good, '--ca', str(pipe), '--timeout', '500ms')  # nobody has it open
                self.assertEqual(result.returncode, 2)
                self.assertIn('was not to be read in time', result.stderr)

    def test_the_time_is_for_all_pieces_of_an_answer_together(self):
        def drip(client):
            with client, contextlib.suppress(OSError):
                client.recv(65536)
                client.sendall(b'\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb')  # of a greeting, 16 KiB will come
                while True:
                    client.sendall(b'\x03')
                    time.sleep(0.1)

        def serve(listener):
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(listener.accept()[0],), daemon=True).start()

        with socket.create_server(('127.0.0.1', 0)) as listener:
            threading.Thread(target=serve, args=(listener,), daemon=True).start()
            server = f'https://127.0.0.1:{listener.getsockname()[1]}'
            result = weir('lock', 'show', 'a', '--server', server, '--timeout', '500ms')
            self.assertEqual(result.returncode, 2)
            self.assertIn('no answer in time', result.stderr)


class Offline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, 'weir.yaml')

    def test_explain_the_example(self):
        result = weir('explain', '--config', EXAMPLE, 'user=ada', 'route=/api/x')
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r'(?m)^api-per-user +applies: token_bucket 100/min burst 20 \(line \d+\)$')
        self.assertRegex(result.stdout, r'(?m)^login-failures +no: the request lacks "event"')
        self.assertRegex(result.stdout, r'(?m)^uploads-per-address +no: "route" does not match "/upload/\*"')

    def test_explain_says_what_would_be_an_error(self):
        result = weir('explain', '--config', EXAMPLE, 'tenant=acme', 'model=x')
        self.assertEqual(result.returncode, 0)
        self.assertIn('would be an error: tokens must be there', result.stderr)
        self.assertEqual(weir('explain', '--config', EXAMPLE, 'tenant=acme', 'model=x', 'tokens=3').stderr, '')

    def test_explain_as_json_names_the_override(self):
        result = weir('explain', '--config', str(ROOT / 'examples/weir.yaml'), '--json', 'user=monitoring',
                      'route=/api/x')
        first = json.loads(result.stdout)[0]
        self.assertEqual((first['limit'], first['applies'], first['reason'], first['override']),
                         ('api-per-user', False, 'off', 'user=monitoring'))

    def test_explain_states_the_bound_of_each_mode(self):
        """Five modes, in units: examples/cluster.yaml as node b reads it."""
        cluster = ['explain', '--config', str(ROOT / 'examples/cluster.yaml'), '--node', 'b']
        result = weir(*cluster, 'user=ada', 'tenant=acme', 'route=/api/x')
        self.assertEqual((result.returncode, result.stderr), (0, ''))
        self.assertRegex(result.stdout, r'(?m)^api-per-tenant +applies: token_bucket 60000/min burst 1000 \(line \d+\)\n'
                                        r' +leased in chunks for 2s: overshoot 0\. What one node holds and does not '
                                        r'use, the others lack; if .*: each node decides by its share \(node b: '
                                        r'20000/min capacity 333\), from empty if it has just started\. Each outage '
                                        r'adds to the overshoot at most 1000, and what comes back meanwhile$')
        self.assertRegex(result.stdout, r'(?m)^ +batched every 100ms over 3 nodes, slack 10: overshoot at most '
                                        r'N\*slack = 30, and 10 more for each node that crashed')
        result = weir(*cluster, 'account=7', 'route=/payments')
        self.assertRegex(result.stdout, r'(?m)^ +exact at the engine: overshoot 0; if the engine does not answer within '
                                        r'20ms: refused$')
        limits = {limit['limit']: limit['sharing'] for limit in json.loads(
            weir(*cluster, '--json', 'user=ada', 'ip=192.0.2.1', 'route=/upload/x').stdout)}
        self.assertEqual(limits['uploads-per-address'], {
            'mode': 'split', 'nodes': 3, 'node': 'b', 'share': {'rate': '30/hour', 'capacity': 30}, 'slack': 0,
            'overshoot_max': 0})
        self.assertEqual(limits['api-per-user'], {
            'mode': 'batched', 'nodes': 3, 'node': 'b', 'share': {'rate': '200/min', 'capacity': 200}, 'slack': 10,
            'overshoot_max': 30, 'interval_ms': 100, 'on_failure': 'local', 'outage_adds_max': 600, 'deadline_ms': 50})
        self.assertEqual((limits['searches-per-user']['mode'], limits['searches-per-user']['overshoot_max']),
                         ('gossip', 30))

    def test_nodes_without_an_engine_share_nothing(self):
        self.file.write_text('cluster: { nodes: [ a, b ] }\nlimits: [{ name: x, rate: 5/s }]\n', encoding='utf-8')
        result = weir('explain', '--config', str(self.file))
        self.assertIn('exact on each of 2 nodes by itself: they share nothing without an engine', result.stdout)
        report = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)
        self.assertEqual([(one['limit'], one['mode'], one['overshoot_max']) for one in report['sharing']],
                         [('x', 'exact', None)])

    def test_rules_check_shows_how_limits_are_shared(self):
        result = weir('rules', 'check', '--node', 'a', str(ROOT / 'examples/cluster.yaml'))
        self.assertEqual(result.returncode, 0)
        self.assertIn('limit "uploads-per-address": split: 90/hour over 3 nodes: overshoot 0, and a share more for '
                      'each node that restarted while the limit refilled once; the share of node a, '
                      '30/hour capacity 30', result.stdout)
        self.assertIn(': 5 limits, 0 warnings', result.stdout)

    def test_a_concurrency_limit_has_no_refill(self):
        self.file.write_text('cluster: { nodes: [ a, b ] }\nlimits:\n  - { name: x, algorithm: concurrency, rate: 4, '
                             'lease: 1min, sharing: split }\n', encoding='utf-8')
        self.assertIn('a share more for each node that restarted while a lease lasts; ',
                      weir('rules', 'check', '--node', 'a', str(self.file)).stdout)

    def test_rules_check_tells_the_largest_bound_of_the_overrides(self):
        self.file.write_text('cluster: { nodes: [ a, b ] }\ncluster_secret: 00112233445566778899aabbccddeeff\n'
                             'engine: { redis: { servers: [127.0.0.1:1] } }\nlimits:\n'
                             '  - name: api\n    key: [customer]\n    rate: 10/min\n    overrides:\n'
                             '      - { customer: acme, rate: 50/min }\n      - { customer: small, rate: 5/min }\n'
                             '      - { customer: free, mode: off, rate: 500/min }\n'
                             '  - name: ahead\n    key: [customer]\n    rate: 100/min\n    sharing: batched\n'
                             '    on_failure: closed\n    overrides: [ { customer: acme, rate: 540/min } ]\n',
                             encoding='utf-8')
        lines = weir('rules', 'check', str(self.file)).stdout.splitlines()
        self.assertRegex(lines[0], r'at most 10, .*; by overrides more: each outage adds at most 50 \(line 9\)$')
        self.assertRegex(lines[1], r'N\*slack = 10, .*; by overrides more: overshoot at most 54 \(line 17\)$')
        api, ahead = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['sharing']
        self.assertEqual((api['outage_adds_max'], api['outage_override_line'], 'overshoot_override_line' in api),
                         (50, 9, False))
        self.assertEqual((ahead['overshoot_max'], ahead['overshoot_override_line'], ahead['outage_adds_max']),
                         (54, 17, 0))

    def test_a_share_is_told_only_where_something_decides_by_it(self):
        self.file.write_text('cluster: { nodes: [ a, b ] }\ncluster_secret: 00112233445566778899aabbccddeeff\n'
                             'engine: { redis: { servers: [127.0.0.1:1] } }\nlimits:\n'
                             '  - { name: closed, rate: 8/s, on_failure: closed }\n'
                             '  - { name: open, rate: 8/s, on_failure: open, sharing: leased }\n'
                             '  - { name: local, rate: 8/s }\n'
                             '  - { name: split, rate: 8/s, sharing: split }\n', encoding='utf-8')
        lines = weir('rules', 'check', str(self.file)).stdout.splitlines()
        self.assertEqual([name for name in ('closed', 'open', 'local', 'split')
                          if any(f'"{name}"' in line and 'share ' in line and 'node a' in line for line in lines)],
                         ['local', 'split'])
        report = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)
        self.assertEqual([one['limit'] for one in report['sharing'] if 'share' in one], ['local', 'split'])

    def test_counts_agree_with_what_they_count(self):
        for limits, said in (('', '0 limits'), ('{ name: a, rate: 1/s }', '1 limit'),
                             ('{ name: a, rate: 1/s }, { name: b, rate: 2/s, match: { x: y } }', '2 limits')):
            self.file.write_text(f'limits: [{limits}]\n', encoding='utf-8')
            self.assertTrue(weir('serve', '--check', str(self.file)).stdout.endswith(f' is fine, {said}\n'))
            self.assertRegex(weir('rules', 'check', str(self.file)).stdout, rf'(?m): {said}, 0 warnings$')
        self.file.write_text('engine: { redis: { servers: [127.0.0.1:1] } }\n'
                             'limits: [{ name: a, rate: 9/s, sharing: batched }]\n', encoding='utf-8')
        self.assertRegex(weir('rules', 'check', str(self.file)).stdout, r'batched every 100ms over 1 node, slack')

    def test_a_newcomer_is_told_which_proxies_can_ask(self):
        for listen, said in (('', 'no proxy can ask at /v1/auth: listen.http.forwarded names none (docs/http.md)'),
                             ('listen: { http: { address: "127.0.0.1:1", forwarded: nginx } }\n',
                              'proxies that can ask at /v1/auth: nginx'),
                             ('listen: { http: off }\n', None)):
            self.file.write_text(f'{listen}limits: []\n', encoding='utf-8')
            lines = weir('rules', 'check', str(self.file)).stdout.splitlines()
            self.assertEqual([line for line in lines if '/v1/auth' in line], [f'{self.file}: {said}'] if said else [])

    def test_a_node_must_know_which_one_it_is(self):
        cluster = str(ROOT / 'examples/cluster.yaml')
        self.assertEqual(weir('serve', '--check', cluster).returncode, 0)
        self.assertEqual(weir('serve', '--check', cluster, '--node', 'c').returncode, 0)
        for arguments, words in ((['serve', '--config', cluster], 'nobody says which node this is: must be one of a, b, c'),
                                 (['serve', '--config', cluster, '--node', 'd'], 'node "d" must be one of a, b, c'),
                                 (['serve', '--check', cluster, '--node', 'd'], 'node "d" must be one of a, b, c'),
                                 (['explain', '--config', cluster, '--node', 'd'], 'node "d" must be one of a, b, c'),
                                 (['serve', '--node', 'a'], 'node "a" is not in it: there is no cluster')):
            result = weir(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ''), arguments)
            self.assertIn(words, result.stderr)

    def test_rules_check_says_where(self):
        self.file.write_text('limits:\n  - name: a\n    rate: 5/parsec\n', encoding='utf-8')
        result = weir('rules', 'check', str(self.file))
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, re.escape(str(self.file)) + r':3:11: rate .* must be one of ms s sec min hour')
        report = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)
        self.assertFalse(report['ok'])
        self.assertEqual((report['errors'][0]['line'], report['errors'][0]['column']), (3, 11))

    def test_rules_check_says_all_that_is_wrong(self):
        """And nothing that is wrong only because something else is, as the sharing of "good" without an engine."""
        self.file.write_text('\n'.join((
            'threads: 0', 'engine: { redis: { prefix: "?" } }', 'zzz: 1',
            'auth: { tokens: [ { name: a }, { name: b, secret: short } ] }',
            'limits:',
            '  - { name: a, rate: 5/parsec, burst: 0, what: 1 }',
            '  - { rate: 5/s }',
            '  - { name: b, rate: 5/s, match: { ip: 10.0.0.1/8, x: { nto: 1 } } }',
            '  - { name: c, rate: 5 }',
            '  - { name: c, rate: 5/s, key: [u], overrides: [ { u: a }, { rate: 1/s }, { u: b, burst: 1 } ] }',
            '  - { name: good, rate: 5/s, sharing: leased }',
            '  - { name: e, rate: 5/s }', '  - { name: e, rate: 5/s }', '  - { name: e, rate: 5/s }',
            '  - nonsense')), encoding='utf-8')
        errors = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['errors']
        lines = [1, 2, 2, 3, 4, 4, 6, 6, 6, 7, 8, 8, 9, 10, 10, 13, 14, 15]
        self.assertEqual([error['line'] for error in errors], lines, errors)
        result = weir('rules', 'check', str(self.file))
        self.assertEqual((result.returncode, result.stdout, len(result.stderr.splitlines())), (2, '', len(lines)))

    def test_rules_check_ends_after_a_hundred_errors(self):
        self.file.write_text('limits:\n' + '  - { name: a, rate: 5 }\n' * 101, encoding='utf-8')
        lines = weir('rules', 'check', str(self.file)).stderr.splitlines()
        self.assertEqual(len(lines), 101)
        self.assertIn(':101:', lines[99])
        self.assertIn('what comes after them was not read', lines[100])

    def test_rules_check_says_what_serve_refuses(self):
        text = 'listen: { http: "0.0.0.0:8080" }\nlimits: [{ name: a, rate: 1/s }]\n'
        why = 'http would listen on 0.0.0.0 for anybody'
        self.file.write_text(text, encoding='utf-8')
        served = weir('serve', '--check', str(self.file))
        self.assertEqual(served.returncode, 2)
        self.assertIn(f'weir: {why}', served.stderr)
        result = weir('rules', 'check', str(self.file))
        self.assertEqual(result.returncode, 0)
        self.assertIn(f':1:1: warning: {why}', result.stdout)
        self.assertIn('1 limit, 1 warning\n', result.stdout)
        warnings = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)['warnings']
        self.assertIn(why, warnings[0]['message'])
        self.file.write_text(text + 'auth: { tokens: [{ name: a, secret: 0123456789abcdef0123456789abcdef }] }\n', encoding='utf-8')
        self.assertIn('1 limit, 0 warnings\n', weir('rules', 'check', str(self.file)).stdout)
        self.file.write_text(text.replace('{ http', '{ resp: "[::]:6380", http'), encoding='utf-8')
        both = 'resp would listen on ::, http on 0.0.0.0 for anybody'
        self.assertIn(f'weir: {both}', weir('serve', '--check', str(self.file)).stderr)
        self.assertIn(f':1:1: warning: {both}', weir('rules', 'check', str(self.file)).stdout)

    def test_rules_check_warns_and_says_that_it_is_good(self):
        self.file.write_text('limits: [{ name: a, rate: 100/s, burst: 500 }]\n', encoding='utf-8')
        result = weir('rules', 'check', str(self.file))
        self.assertEqual(result.returncode, 0)
        self.assertIn(':1:41: warning: limit "a" has a burst of 500', result.stdout)
        report = json.loads(weir('rules', 'check', '--json', str(self.file)).stdout)
        self.assertTrue(report['ok'])
        self.assertEqual(len(report['warnings']), 1)

    def test_wrong_arguments_are_2(self):
        for arguments in ([], ['nonsense'], ['rules'], ['rules', 'nonsense'], ['rules', 'check'],
                          ['rules', 'check', 'a', 'b'], ['rules', 'check', '/no/such/file'],
                          ['explain', 'user'], ['explain', '--config', '/no/such/file', 'user=a'],
                          ['explain', 'user=a', 'user=b'], ['version', 'x'], ['check', '--server']):
            result = weir(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stdout, '', arguments)
            self.assertNotEqual(result.stderr, '', arguments)

    def test_every_verb_has_help_with_examples(self):
        overview = weir('--help')
        self.assertEqual(overview.returncode, 0)
        for verb in ('serve', 'check', 'explain', 'rules', 'version'):
            self.assertRegex(overview.stdout, rf'(?m)^  {verb} ')
            result = weir(verb, '--help')
            self.assertEqual((result.returncode, result.stderr), (0, ''), verb)
            self.assertRegex(result.stdout, rf'Examples?:\n(.*\n)*?  weir {verb}')
        self.assertEqual(weir('rules', 'check', '--help').returncode, 0)

    def test_what_may_have_been_meant_is_said(self):
        for typed, meant in (('serv', "no verb 'serv'; did you mean 'serve'?"),
                             ('serve --confg x', "serve has no option '--confg'; did you mean '--config'?"),
                             ('serve --confg=x', "serve has no option '--confg'; did you mean '--config'?"),
                             ('check --timout 5s', "check has no option '--timout'; did you mean '--timeout'?"),
                             ('explain --sever x', "explain has no option '--sever'; did you mean '--server'?"),
                             ('rules chekc x', "rules has no 'chekc'; did you mean 'check'?"),
                             ('rules check --jsno x', "check has no option '--jsno'; did you mean '--json'?"),
                             ('lock shwo x', "lock has no 'shwo'; did you mean 'show'?"),
                             ('lock relase', "lock has no 'relase'; did you mean 'release'?"),
                             ('lock show --jsn x', "show has no option '--jsn'; did you mean '--json'?"),
                             ('fence file wirte x', "fence file has no 'wirte'; did you mean 'write'?"),
                             ('sim --sed 1', "sim has no option '--sed'; did you mean '--seed'?"),
                             ('sim --locks --sed 1', "sim has no option '--sed'; did you mean '--seed'?"),
                             ('sim --sessions --plnt x', "sim has no option '--plnt'; did you mean '--plant'?")):
            result = weir(*typed.split())
            self.assertEqual(result.returncode, 2, typed)
            self.assertIn(meant, result.stderr)

    def test_what_is_near_to_nothing_is_refused_without_a_guess(self):
        for typed, said in (('nothing', "there is no verb 'nothing'"), ('serve --nothing', "no option '--nothing'"),
                            ('serve -x', "no option '-x'"), ('serve --config', "option '--config' needs a value"),
                            ('check --peek=1 a=b', "option '--peek' takes no value"),
                            ('sim --mode x', 'must be exact, leased, batched, split, gossip, leased-host, batched-host, gossip-host or exact-host'),
                            ('sim --limit 1/s --algorithm x', 'must be token_bucket, leaky_bucket, fixed_window')):
            result = weir(*typed.split())
            self.assertEqual(result.returncode, 2, typed)
            self.assertIn(said, result.stderr)
            self.assertNotIn('did you mean', result.stderr)

    def test_version(self):
        self.assertRegex(weir('version').stdout, r'^weir \d+\.\d+\.\d+\n$')


if __name__ == '__main__':
    unittest.main()
