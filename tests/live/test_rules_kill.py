#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A weir that changes its own rules over HTTP is killed at random moments, again and again: it starts with what is
there, and no change that was acknowledged is lost."""
import http.client
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import time
import unittest

from test_rules_http import AUTH, ask
from weir_server import BUILD, Weir

KILLS = {'short': 3, 'soak': 300}.get(os.environ.get('WEIR_TEST_EFFORT'), 6)


def rules(number):
    return f'limits:\n  - {{ name: api, key: [user], rate: {number}/day }}\n'


class Kill(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-kill-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = (f'rules: {{ store: "sqlite:{self.folder}/rules.db", timeout: 60s, kept: {self.folder}/kept }}\n'
                       + AUTH)
        config = self.folder / 'weir.yaml'
        config.write_text(self.config, encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(config), '--comment', 'first', '-'],
                       input=rules(1).encode(), capture_output=True, timeout=120, check=True)

    def editor(self, weir, told):
        """Changes the rate again and again, until the server is gone; `told`: the last version that was acknowledged,
        and one that was not, if there is one."""
        while True:
            told['asked'] = told['version'] + 1
            try:
                status, _, said = ask(weir, 'PUT', '/v1/rules', rules(told['asked']).encode(), comment='why',
                                      match=f'"{told["version"]}"')
            except (OSError, ValueError, http.client.HTTPException):
                return
            self.told_ok = self.told_ok and status == 200 and said['version'] == told['asked']
            told['version'] = said.get('version', told['version'])

    def test_no_acknowledged_change_is_lost(self):
        chance = random.Random(seed := random.randrange(1 << 32))
        print('seed', seed)
        told, self.told_ok = {'version': 1, 'asked': 1}, True
        for life in range(KILLS):
            weir = Weir(self.config)
            try:
                text = ask(weir, 'GET', '/v1/rules')[2]
                newest = int(text.split('\n')[0].split()[-1])
                self.assertIn(newest, (told['version'], told['asked']), life)
                self.assertEqual(text, f'# from version {newest}\n{rules(newest)}')
                self.assertEqual(ask(weir, 'GET', '/v1/limits', seen=newest)[2]['limits'][0]['rate'], f'{newest}/day')
                told['version'] = newest
                thread = threading.Thread(target=self.editor, args=(weir, told))
                thread.start()
                time.sleep(chance.uniform(0, 0.5))
            finally:
                weir.process.kill()
                weir.process.wait()
                weir.folder.cleanup()
            thread.join()
            self.assertTrue(self.told_ok, life)
        self.assertGreater(told['version'], 1)
        print(f'{KILLS} kills, {told["version"]} versions')


if __name__ == '__main__':
    unittest.main()
