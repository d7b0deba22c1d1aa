#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redis clients that exist connect without special settings and agree on CL.THROTTLE; curl gets the HTTP answers."""
import json
import pathlib
import subprocess
import time
import unittest

import redis

from node_packages import install_node_packages
from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Weir

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = 'a-secret-of-the-live-tests'
CONFIG = FORWARDED_NGINX + '''
limits:
  - { name: per-user, key: [user], rate: 3/hour }
'''
CONFIG_TOKEN = CONFIG + f'''
auth: {{ required: always, tokens: [ {{ name: live, secret: {TOKEN}, rights: [all] }} ] }}
'''
EXAMPLE = [0, 16, 15, -1, 2]
# max_burst 3, 10 per 6000 s: a unit every 600 s.
BUCKET = 3, 10, 6000
SEQUENCE = [[0, 4, 3, -1, 600], [0, 4, 2, -1, 1200], [0, 4, 1, -1, 1800], [0, 4, 0, -1, 2400], [1, 4, 0, 600, 2400]]


def run(*command, text=None, timeout_s=120):
    process = subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True, check=False,
                             timeout=timeout_s, cwd=HERE)
    assert process.returncode == 0, f'{command}: {process.returncode}\n{process.stdout}\n{process.stderr}'
    return process.stdout


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_node_packages()
        cls.weir, cls.weir_token = (cls.enterClassContext(Weir(config)) for config in (CONFIG, CONFIG_TOKEN))

    def setUp(self):
        self.begun = time.monotonic()

    def assertTimes(self, times, expected):
        """Seconds that are left, less those that this test has taken."""
        took = int(time.monotonic() - self.begun) + 1
        for left, at_most in zip(times, expected, strict=True):
            self.assertIn(left, range(at_most - took, at_most + 1) if at_most > 0 else [at_most])

    def assertSequence(self, answers):
        self.assertEqual([answer[:3] for answer in answers], [answer[:3] for answer in SEQUENCE])
        for answer, expected in zip(answers, SEQUENCE):
            self.assertTimes(answer[3:], expected[3:])

    # ---- the Redis tools ----

    def cli(self, *words, text=None, port=None):
        return run('redis-cli', '-p', port or self.weir.resp, *words, text=text)

    def numbers(self, *words):
        return [int(line) for line in self.cli(*words).split()]

    def test_redis_cli(self):
        self.assertEqual(self.cli('PING'), 'PONG\n')
        self.assertEqual(self.numbers('CL.THROTTLE', 'user123', 15, 30, 60), EXAMPLE)
        self.assertSequence([self.numbers('CL.THROTTLE', 'cli', *BUCKET) for _ in range(5)])

    def test_redis_cli_resp3(self):
        self.assertEqual(self.numbers('-3', 'CL.THROTTLE', 'cli3', 15, 30, 60), EXAMPLE)

    def test_redis_cli_refuses_the_second(self):
        self.assertEqual(self.numbers('CL.THROTTLE', 'second', 0, 1, 2000, 1), [0, 1, 0, -1, 2000])
        refused = self.numbers('CL.THROTTLE', 'second', 0, 1, 2000, 1)
        self.assertEqual(refused[:3], [1, 1, 0])
        self.assertTimes(refused[3:], [2000, 2000])

    def test_redis_cli_fed_by_a_pipe(self):
        output = self.cli(text='CL.THROTTLE piped 15 30 60\nPING\n')
        self.assertEqual(output.split(), [str(number) for number in EXAMPLE] + ['PONG'])

    def test_redis_cli_mass_insertion(self):
        output = self.cli('--pipe', text='CL.THROTTLE mass 15 30 60\r\n' * 100)
        self.assertIn('errors: 0, replies: 100', output)

    def test_redis_cli_with_a_token(self):
        port = self.weir_token.resp
        self.assertIn('NOAUTH', self.cli('PING', port=port))
        self.assertEqual(self.cli('--no-auth-warning', '-a', TOKEN, 'PING', port=port), 'PONG\n')
        self.assertIn('WRONGPASS', self.cli('AUTH', TOKEN + 'x', port=port))

    def test_redis_benchmark(self):
        output = run('redis-benchmark', '-p', self.weir.resp, '-n', 20000, '-c', 20, '-P', 16, '-r', 1000, '--csv',
                     'CL.THROTTLE', 'bench:__rand_int__', 15, 30, 60)
        self.assertIn('"CL.THROTTLE', output)
        self.assertNotIn('rror', output)
        output = run('redis-benchmark', '-p', self.weir.resp, '-n', 5000, '-t', 'ping_inline,ping_mbulk', '--csv')
        self.assertIn('"PING_INLINE"', output)
        self.assertIn('"PING_MBULK"', output)

    # ---- libraries ----

    def agree(self, answers, name):
        self.assertEqual(answers['ping'], 'PONG')
        self.assertEqual(answers['example'], EXAMPLE)
        for how in ('sequence', 'pipeline', 'multi'):
            self.assertSequence(answers[how])
        self.assertEqual((answers['deleted'], answers['again']), (1, SEQUENCE[0]))
        self.assertEqual(answers['check'][:4], [1, 'per-user', 3, 2], name)
        self.assertIn('Zero rates are not supported', answers['error'])

    def node(self, library):
        self.agree(json.loads(run('node', 'clients.mjs', self.weir.resp, library)), library)
        self.agree(json.loads(run('node', 'clients.mjs', self.weir_token.resp, library, TOKEN)), library)

    def test_ioredis_5(self):
        self.node('ioredis')

    def test_ioredis_6(self):
        self.node('ioredis-6')

    def test_node_redis_5(self):
        self.node('redis')

    def test_node_redis_6(self):
        self.node('redis-6')

    def redis_py_answers(self, client):
        def throttle(where, key):
            return where.execute_command('CL.THROTTLE', 'redis-py:' + key, *BUCKET)

        answers = {'ping': 'PONG' if client.ping() else None,
                   'example': client.execute_command('CL.THROTTLE', 'redis-py:example', 15, 30, 60),
                   'sequence': [throttle(client, 'sequence') for _ in range(5)]}
        for how, transaction in (('pipeline', False), ('multi', True)):
            with client.pipeline(transaction=transaction) as pipeline:
                for _ in range(5):
                    throttle(pipeline, how)
                answers[how] = pipeline.execute()
        answers['deleted'] = client.delete('redis-py:sequence')
        answers['again'] = throttle(client, 'sequence')
        answers['check'] = client.execute_command('WEIR.CHECK', 1, 'user', 'redis-py')
        try:
            client.execute_command('CL.THROTTLE', 'redis-py:error', 15, 0, 60)
        except redis.ResponseError as error:
            answers['error'] = str(error)
        return answers

    def test_redis_py(self):
        for port, options in ((self.weir.resp, {}), (self.weir_token.resp, {'password': TOKEN})):
            client = redis.Redis(port=port, decode_responses=True, client_name='live', **options)
            self.agree(self.redis_py_answers(client), 'redis-py')
            client.close()

    def test_redis_py_with_a_wrong_token(self):
        client = redis.Redis(port=self.weir_token.resp, password=TOKEN + 'x')
        with self.assertRaisesRegex(redis.ResponseError, 'WRONGPASS'):
            client.ping()
        client.close()

    # ---- curl ----

    def curl(self, *words, port=None):
        """(status, {field: value}, body)"""
        output = run('curl', '-sS', '-i', '--max-time', 60, *words[:-1], f'http://127.0.0.1:{port or self.weir.http}'
                     + words[-1])
        head, _, body = output.partition('\n\n')
        lines = head.splitlines()
        fields = dict(line.split(': ', 1) for line in lines[1:])
        return int(lines[0].split()[1]), {name.lower(): value for name, value in fields.items()}, body

    def test_curl_check(self):
        data = ('-d', '{"attributes":{"user":"curl","route":"/api/x"}}')
        for remaining in (2, 1, 0):
            status, fields, body = self.curl(*data, '/v1/check')
            self.assertEqual((status, json.loads(body)['remaining']), (200, remaining))
            self.assertEqual(fields['ratelimit-policy'], '"per-user";q=3;w=3600')
        status, fields, body = self.curl(*data, '/v1/check')
        self.assertEqual((status, fields['content-type']), (429, 'application/problem+json'))
        policy, told = fields['ratelimit'].rsplit('=', 1)
        legacy = [fields['x-ratelimit-' + name] for name in ('limit', 'remaining', 'reset')]
        self.assertEqual((policy, legacy[:2]), ('"per-user";r=0;t', ['3', '0']))
        self.assertTimes(map(int, (fields['retry-after'], told, legacy[2])), [1200, 1200, 3600])
        self.assertFalse(json.loads(body)['admitted'])

    def test_curl_auth(self):
        said = [word for field in NGINX_FIELDS.items() for word in ('-H', ': '.join(field))]
        self.assertEqual(self.curl(*said, '-H', 'X-Weir-User: auth', '/v1/auth')[0], 200)
        statuses = [self.curl(*said, '/v1/auth?user=auth&deny=403')[0] for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 403])

    def test_curl_with_a_token(self):
        data = ('-d', '{"attributes":{"user":"curl"}}')
        port = self.weir_token.http
        self.assertEqual(self.curl(*data, '/v1/check', port=port)[0], 401)
        self.assertEqual(self.curl('-H', f'Authorization: Bearer {TOKEN}', *data, '/v1/check', port=port)[0], 200)
        self.assertEqual(self.curl('-H', f'Authorization: Bearer {TOKEN}x', *data, '/v1/check', port=port)[0], 401)

    def test_curl_health_and_metrics(self):
        self.assertEqual(self.curl('/healthz')[0], 200)
        self.assertEqual(self.curl('/readyz')[0], 200)
        status, _, body = self.curl('/metrics')
        self.assertEqual(status, 200)
        self.assertIn('# TYPE weir_', body)


if __name__ == '__main__':
    unittest.main()
