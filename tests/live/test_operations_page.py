#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/operations.md are run as they stand, against a server, its Redis and its locks, in calm and while
Redis is gone; and they say what the page says they do."""
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from redis_server import Redis
from weir_server import BUILD, ROOT, Weir

PAGE = ROOT / 'docs/operations.md'
TOKEN = 't' * 32
CONFIG = '''
auth: {{ required: always, tokens: [ {{ name: operator, secret: {token}, rights: [check, refund, reset, metrics, lock] }} ] }}
engine: {{ redis: {{ servers: [ "127.0.0.1:{redis}" ] }} }}
cluster: {{ nodes: [ a, b ], node: a }}
cluster_secret: 0123456789abcdef0123456789abcdef
locks: {{ engine: sqlite, path: {folder}/locks.db }}
limits:
  - {{ name: api, match: {{ route: /api/* }}, key: [user], rate: 20/hour, burst: 5, deadline: 10s }}
'''


def sections():
    """{heading: its commands, one block after the other}."""
    found = {}
    for part in re.split(r'^## ', '## \n' + PAGE.read_text(encoding='utf-8'), flags=re.M)[1:]:
        found[part.split('\n', 1)[0]] = re.findall(r'^```sh\n(.*?)^```', part, re.M | re.S)
    return found


class Operations(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-operations-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.redis = Redis('--maxmemory-policy', 'noeviction')
        self.addCleanup(self.redis.stop)
        self.config = self.folder / 'weir.yaml'
        self.config.write_text(CONFIG.format(token=TOKEN, redis=self.redis.port, folder=self.folder), encoding='utf-8')
        self.weir = Weir(config=None, arguments=('--config', str(self.config)))
        self.addCleanup(self.weir.stop)
        self.commands = sections()
        self.head = self.commands[''][0]

    def run_block(self, block):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('WEIR')}
        environment.update(WEIR=f'127.0.0.1:{self.weir.http}', RESP=f'127.0.0.1:{self.weir.resp}', CONFIG=str(self.config),
                           weir=str(BUILD / 'weir'), WEIR_TOKEN=TOKEN, LOCKS=f'{self.folder}/locks.db',
                           BACKUP=f'{self.folder}/backup.db', REDIS=f'redis://127.0.0.1:{self.redis.port}')
        done = subprocess.run(['bash', '-c', 'set -e -o pipefail\n' + self.head + block], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, f'{block}\n{done.stdout}')
        return done.stdout

    def run_section(self, name):
        return [self.run_block(block) for block in self.commands[name]]

    def check(self, count=1):
        for _ in range(count):
            subprocess.run([BUILD / 'weir', 'check', '--server', f'127.0.0.1:{self.weir.http}', 'user=ada', 'route=/api/x'],
                           env={**os.environ, 'WEIR_TOKEN': TOKEN}, check=False, stdout=subprocess.DEVNULL)

    def test_start_size_upgrade_and_backup(self):
        self.assertIn('is fine', self.run_section('To start with')[0])
        table, connections = self.run_section('Sizing')
        for name in ('keys', 'memory_bytes', 'memory_max_bytes', 'evicted_total', 'refused_total'):
            self.assertRegex(table, rf'(?m)^weir_table_{name} \d')
        self.assertRegex(connections, r'(?m)^process_max_fds \d')
        [upgrade] = self.run_section('Upgrade')
        self.assertTrue(upgrade.startswith('ready\n'), upgrade)
        self.assertIn('weir_info{', upgrade)
        backup, restored = self.commands['Backup']
        self.assertIn('incarnation', self.run_block(restored))
        self.weir.process.terminate()
        self.weir.process.wait(60)
        self.assertEqual(self.run_block(backup), 'ok\n')
        self.assertTrue((self.folder / 'backup.db').exists())

    def test_who_was_refused(self):
        self.check(7)
        metrics, standing, why, refund = self.run_section('Who was refused, and why')
        self.assertRegex(metrics, r'(?m)^weir_decisions_total\{limit="api",.*verdict="refused".*\} 2$')
        self.assertIn('exit code 1', standing)
        self.assertRegex(standing, r'\* api +refuses +0 +5')
        self.assertIn('api', why)
        self.assertIn('in force', why)
        self.assertIn('5', refund)
        self.assertNotIn('exit code', self.run_block(self.commands['Who was refused, and why'][1]), 'it has units again')

    def test_redis_is_gone(self):
        look, ask_redis = self.commands['Redis is gone']
        calm = self.run_block(look)
        self.assertTrue(calm.startswith('ready\n'), calm)
        self.assertIn('"ready": true', calm)
        self.assertEqual(self.run_block(ask_redis), 'PONG\nmaxmemory-policy\nnoeviction\n')
        self.redis.kill()
        deadline = time.monotonic() + 60
        while 'engine_lost' not in self.weir.output():
            self.assertLess(time.monotonic(), deadline, self.weir.output())
            self.check()
        lost = self.run_block(look)
        self.assertIn('ready, without the engine', lost)
        self.assertIn('"last_error": "', lost)
        self.assertRegex(lost, r'(?m)^weir_engine_ready 0')
        self.assertRegex(lost, r'(?m)^weir_fallback_total\{.*policy="local".*\} [1-9]')
        self.redis.start()
        while 'engine_back' not in self.weir.output():
            self.assertLess(time.monotonic(), deadline, self.weir.output())
            time.sleep(0.1)
        self.assertTrue(self.run_block(look).startswith('ready\n'))

    def test_a_node_is_new(self):
        worth, seen = self.run_section('A node is new')
        self.assertIn('api', worth)
        self.assertTrue(seen.startswith('ready\n'), seen)
        self.assertIn('"node": "a"', seen)


if __name__ == '__main__':
    unittest.main()
