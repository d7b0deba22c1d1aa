#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the README lets a newcomer try: `weir serve` as it comes, and the other verbs beside it."""
import http.client
import json
import re
import subprocess
import unittest

from weir_server import BUILD, ROOT, Weir

ADA = ('user=ada', 'route=/api/x')
BODY = '{"attributes":{"user":"%s","route":"/api/x"}}'


def weir(*words):
    """(exit code, stdout, stderr)"""
    process = subprocess.run([str(BUILD / 'weir'), *words], capture_output=True, text=True, check=False, timeout=60)
    return process.returncode, process.stdout, process.stderr


class FrontDoor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Weir(config=None)
        cls.address = f'127.0.0.1:{cls.server.http}'

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def check(self, *words):
        return weir('check', '--server', self.address, *words)

    def curl(self, user):
        output = subprocess.run(['curl', '-sSi', f'http://{self.address}/v1/check', '-d', BODY % user], check=True,
                                capture_output=True, text=True, timeout=60).stdout
        head, _, body = output.partition('\n\n')
        return int(head.split()[1]), dict(line.split(': ', 1) for line in head.splitlines()[1:]), json.loads(body)

    def spend(self, user):
        """What is left to him, faster than it comes back."""
        client = http.client.HTTPConnection(self.address, timeout=60)
        status = 200
        while status == 200:
            client.request('POST', '/v1/check', BODY % user)
            answer = client.getresponse()
            answer.read()
            status = answer.status
        client.close()

    def test_redis_cli(self):
        output = subprocess.run(['redis-cli', '-p', str(self.server.resp), 'CL.THROTTLE', 'user123', '15', '30', '60'],
                                check=True, capture_output=True, text=True, timeout=60).stdout
        self.assertEqual(output.split(), ['0', '16', '15', '-1', '2'])

    def test_curl_until_429(self):
        status, fields, body = self.curl('bob')
        self.assertEqual((status, body['limit'], body['remaining']), (200, 'api-per-user', 19))
        self.assertEqual(fields['RateLimit-Policy'], '"api-per-user";q=20;w=12')
        self.assertEqual(fields['RateLimit'], '"api-per-user";r=19;t=1')
        for _ in range(100):
            self.spend('bob')
            status, fields, body = self.curl('bob')
            if status == 429:
                break
        self.assertEqual((status, fields['Content-Type'], body['admitted']), (429, 'application/problem+json', False))
        self.assertEqual((fields['Retry-After'], fields['RateLimit']), ('1', '"api-per-user";r=0;t=1'))
        self.assertTrue(0 < body['retry_after_ms'] <= 600)

    def test_check_exit_codes(self):
        code, output, _ = self.check('--json', *ADA)
        self.assertEqual((code, json.loads(output)['remaining']), (0, 19))
        for _ in range(100):
            self.spend('ada')
            code, output, _ = self.check(*ADA)
            if code != 0:
                break
        self.assertEqual((code, output.splitlines()[0]), (1, 'refused'))
        self.assertRegex(output, r'\* api-per-user +refuses +0 +20 ')
        self.assertEqual(weir('check', '--server', '127.0.0.1:1', *ADA)[0], 2)
        self.assertEqual(self.check('no-attribute')[0], 2)

    def test_explain(self):
        code, output, _ = weir('explain', '--server', f'127.0.0.1:{self.server.http}', *ADA)
        self.assertEqual(code, 0)
        self.assertRegex(output, r'(?m)^api-per-user +applies: token_bucket 100/min burst 20')
        self.assertRegex(output, r'(?m)^login-failures +no: the request lacks "event"')

    def test_rules_check(self):
        code, output, _ = weir('rules', 'check', str(ROOT / 'examples/weir.yaml'))
        self.assertEqual((code, '0 warnings' in output), (0, True), output)
        bad = self.server.config.with_name('bad.yaml')
        bad.write_text('limits:\n  - { name: x, rate: 5/fortnight }\n', encoding='utf-8')
        code, output, errors = weir('rules', 'check', str(bad))
        self.assertEqual(code, 2)
        self.assertIn('bad.yaml:2:', output + errors)
        self.assertEqual(weir('serve', '--check', str(bad))[0], 2)
        self.assertEqual(weir('serve', '--check', str(ROOT / 'examples/weir.yaml'))[0], 0)

    def test_version_and_help(self):
        self.assertRegex(weir('version')[1], r'^weir \d+\.\d+\.\d+\n$')
        for verb in ('serve', 'check', 'explain', 'rules', 'version'):
            code, output, _ = weir(verb, '--help')
            self.assertEqual((code, 'Usage: weir ' + verb in output), (0, True), verb)
        code, output, _ = weir('--help')
        self.assertEqual(code, 0)
        self.assertEqual(len(re.findall(r'(?m)^  (serve|check|explain|rules|version) ', output)), 5)
        self.assertEqual(weir('nonsense')[0], 2)
        self.assertEqual(weir()[0], 2)

    def test_a_second_server_on_the_same_port_is_told(self):
        code, output, errors = weir('serve', '--resp', f'127.0.0.1:{self.server.resp}', '--http', 'off')
        self.assertEqual(code, 2)
        self.assertIn('in use', output + errors)


if __name__ == '__main__':
    unittest.main()
