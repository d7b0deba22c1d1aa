#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each flag of `weir serve` may stand in the environment. The flag wins; what looks like one and is none is told."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from weir_server import BUILD, ROOT, Weir

VALUES = {'config': 'weir.yaml', 'resp': '127.0.0.1:0', 'http': '127.0.0.1:0', 'grpc': '127.0.0.1:0', 'memory': '64MiB', 'threads': '3', 'node': 'a',
          'locks': 'off', 'insecure': 'true', 'check': 'weir.yaml'}


def check(*arguments, config='limits: []\n', **environment):
    """`weir serve --check`, with these variables and none of ours: (exit code, output)."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, 'weir.yaml').write_text(config, encoding='utf-8')
        env = {name: value for name, value in os.environ.items() if not name.startswith('WEIR_')}
        done = subprocess.run([BUILD / 'weir', 'serve', *arguments], env={'WEIR_CHECK': 'weir.yaml', **env, **environment},
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                              check=False)
        return done.returncode, done.stdout


class Environment(unittest.TestCase):
    def test_every_flag_has_its_variable(self):
        """Of the table of options in the source."""
        source = (ROOT / 'src/cli/serve_flags.c').read_text(encoding='utf-8')
        flags = set(re.findall(r'\{ "(\w+)", \.', source))
        self.assertEqual(flags, set(VALUES))
        for flag, value in VALUES.items():
            with self.subTest(flag):
                status, output = check(**{f'WEIR_{flag.upper()}': value})
                self.assertNotIn('no flag', output)
                self.assertEqual(status, 2 if flag == 'node' else 0, output)  # no cluster: to be a node of
        self.assertIn('Each flag may stand in the environment', check('--help')[1])

    def test_a_server_is_run_by_them(self):
        kept = dict(os.environ)
        self.addCleanup(os.environ.update, kept)
        self.addCleanup(os.environ.clear)
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, 'weir.yaml')
            config.write_text('limits: [ { name: api, key: [user], rate: 5/min } ]\n', encoding='utf-8')
            os.environ.update(WEIR_CONFIG=str(config), WEIR_LOCKS=folder + '/locks.db', WEIR_HTTP='0.0.0.0:1',
                              WEIR_TOKEN='secret')
            with Weir(config=None) as weir:  # --resp and --http are flags, which win
                self.assertIn(f'1 limit of {config}, 2 loops', weir.output())
                self.assertIn(f'locks in sqlite at {folder}/locks.db', weir.output().replace('"', ''))
                self.assertNotIn('warning', weir.output())
                self.assertNotIn('secret', weir.output())

    def test_the_flag_wins(self):
        self.assertEqual(check(WEIR_THREADS='0')[0], 2)
        self.assertEqual(check('--threads', '2', WEIR_THREADS='0')[0], 0)
        config = 'limits: []\nlisten: { http: "0.0.0.0:8080" }\n'
        self.assertEqual(check(config=config)[0], 2)
        self.assertEqual(check(config=config, WEIR_INSECURE='true')[0], 0)
        self.assertEqual(check(config=config, WEIR_INSECURE='false')[0], 2)
        self.assertEqual(check('--insecure', config=config, WEIR_INSECURE='0')[0], 0)
        self.assertEqual(check(config=config, WEIR_HTTP='off')[0], 0, 'it wins over the file')

    def test_an_empty_one_is_none(self):
        self.assertEqual(check(**{f'WEIR_{flag.upper()}': '' for flag in VALUES if flag != 'check'})[0], 0)

    def test_what_is_wrong_with_one(self):
        for name, value, said in (('WEIR_THREADS', '257', 'weir: WEIR_THREADS 257: must be 1 to 256'),
                                  ('WEIR_MEMORY', '1XB', 'weir: WEIR_MEMORY 1XB: '),
                                  ('WEIR_HTTP', 'here', 'weir: WEIR_HTTP here: must be HOST:PORT'),
                                  ('WEIR_RESP', '\x1b[2J', r'weir: WEIR_RESP \x1b[2J: must be HOST:PORT'),
                                  ('WEIR_INSECURE', 'maybe', 'weir: WEIR_INSECURE maybe: must be true or false')):
            status, output = check(**{name: value})
            self.assertEqual(status, 2)
            self.assertTrue(output.startswith(said), output)
            self.assertEqual(len(output.splitlines()), 1)
        self.assertIn('weir: --threads 257: must be', check('--threads', '257')[1])

    def test_one_that_is_no_flag(self):
        for name, said in (('WEIR_HTPP', 'WEIR_HTPP in the environment is no flag of weir serve; did you mean WEIR_HTTP?\n'),
                           ('WEIR_CONFIG_FILE', 'WEIR_CONFIG_FILE in the environment is no flag of weir serve\n'),
                           ('WEIR_HELP', 'WEIR_HELP in the environment is no flag of weir serve\n'),
                           ('WEIR_\x1b[2J', 'WEIR_\\x1b[2J in the environment is no')):
            status, output = check(**{name: 'very-secret'})
            self.assertEqual(status, 0)
            self.assertIn('weir: warning: ' + said, output)
            self.assertNotIn('very-secret', output)
        status, output = check(**{f'WEIR_X{i}': 'x' for i in range(20)})
        self.assertEqual((status, output.count('is no flag')), (0, 8))
        self.assertIn('12 more such variables', output)

    def test_in_json_it_is_a_line_of_the_log(self):
        _, output = check(config='limits: []\nlog: { format: json }\n', WEIR_NODES='a')
        line = json.loads(output.splitlines()[0])
        self.assertEqual((line['event'], line['message']),
                         ('start_warning', 'WEIR_NODES in the environment is no flag of weir serve; did you mean WEIR_NODE?'))

    def test_what_others_mean_is_left_alone(self):
        """Other verbs' variables, and those that Kubernetes makes for a service that is called weir."""
        status, output = check(WEIR_TOKEN='x', WEIR_FENCE='1.2', WEIR_LOCK_NAME='x', WEIR_SERVICE_HOST='10.0.0.1',
                               WEIR_SERVICE_PORT='8080', WEIR_PORT='tcp://10.0.0.1:8080', WEIR_SERVICE_PORT_HTTP='8080',
                               WEIR_PORT_8080_TCP_ADDR='10.0.0.1', WEIR_PORT_8080_TCP='tcp://10.0.0.1:8080', XWEIR_Y='z')
        self.assertEqual((status, 'warning' in output), (0, False), output)


if __name__ == '__main__':
    unittest.main()
