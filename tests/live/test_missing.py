#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whoever is not counted is seen: requests that lack an attribute of a limit's key, and requests that meet no limit."""
import json
import re
import subprocess
import time
import unittest

from test_http import HttpCase
from weir_server import BUILD, FORWARDED_NGINX, NGINX_FIELDS, Resp

NO_LIMIT = 'refused: no limit applies (unmatched: refuse); weir explain says why'

LIMITS = '''
limits:
  - { name: skips, match: { route: /skip }, key: [user], rate: 2/hour }
  - { name: shares, match: { route: /share }, key: [user], missing: share, rate: 2/hour }
  - { name: refuses, match: { route: /refuse }, key: [user], missing: refuse, rate: 2/hour }
  - { name: tried, match: { route: /tried }, key: [user], missing: refuse, rate: 2/hour, mode: shadow }
  - { name: paid, match: { route: /refuse }, rate: 100/hour, algorithm: fixed_window, align: first }
  - { name: free, match: { route: /free }, key: [user], rate: 2/hour, mode: off }
'''


class MissingCase(HttpCase):
    config = FORWARDED_NGINX + LIMITS

    def auth(self, route, **fields):
        """What a proxy is told."""
        fields |= {**NGINX_FIELDS, 'X-Original-URI': route}
        return self.ask('GET', '/v1/auth', **fields)

    def check(self, route, user=None, **more):
        """(status, header fields, body) of a check."""
        attributes = {'route': route} | ({} if user is None else {'user': user})
        status, head, body = self.ask('POST', '/v1/check', json.dumps({'attributes': attributes, **more}))
        return status, head, json.loads(body)

    def metric(self, line):
        found = re.search(rf'^{re.escape(line)} (\d+)$', self.ask('GET', '/metrics')[2].decode(), re.M)
        return int(found[1]) if found else 0


class Missing(MissingCase):
    def test_skip_admits_and_is_counted(self):
        for _ in range(4):
            status, head, body = self.check('/skip')
            self.assertEqual((status, body['limit'], body['limits']), (200, None, []))
            self.assertEqual(head['Weir-Limits'], 'none')
        self.assertEqual(self.metric('weir_missing_total{limit="skips",got="skipped"}'), 4)
        self.assertEqual(self.metric('weir_unmatched_total{got="admitted"}'), 4)
        self.check('/skip', peek=True)
        self.assertEqual(self.metric('weir_unmatched_total{got="admitted"}'), 4, 'looking is not passing')

    def test_share_is_one_counter_that_is_not_the_empty_values(self):
        self.assertEqual([self.check('/share')[0] for _ in range(3)], [200, 200, 429])
        self.assertEqual([self.check('/share', '')[0] for _ in range(3)], [200, 200, 429])
        self.assertEqual(self.check('/share', 'ada')[0], 200)
        self.assertEqual(self.metric('weir_missing_total{limit="shares",got="shared"}'), 3)
        self.assertEqual(self.metric('weir_unmatched_total{got="admitted"}'), 0)

    def test_refuse_says_what_is_missing_and_charges_nobody(self):
        status, head, body = self.check('/refuse')
        self.assertEqual((status, body['status'], body['admitted']), (429, 429, False))
        self.assertEqual((body['limit'], body['missing'], body['retry_after_ms']), ('refuses', 'user', -1))
        self.assertEqual((head['Weir-Missing'], head['Retry-After']), ('"user"', None))
        self.assertEqual(head['Content-Type'], 'application/problem+json')
        self.assertIn('lacks an attribute', body['detail'])
        self.assertEqual(self.check('/refuse', peek=True)[0], 429, 'a peek refuses as the charge would')
        self.assertEqual(self.check('/refuse', cost=0)[0], 200, 'what costs nothing is admitted')
        status, _, body = self.check('/refuse', '')
        self.assertEqual((status, [(limit['limit'], limit['remaining']) for limit in body['limits']]),
                         (200, [('refuses', 1), ('paid', 99)]))
        self.assertEqual(self.metric('weir_missing_total{limit="refuses",got="refused"}'), 1)
        self.assertEqual(self.metric('weir_decisions_total{limit="refuses",verdict="never"}'), 1)

    def test_the_log_says_when_it_begins(self):
        for route in ('/skip', '/share', '/refuse', '/skip'):
            self.check(route)
        for event in (r'missing_skipped_begun\b.*\bskips\b', r'missing_shared_begun\b.*\bshares\b',
                      r'missing_refused_begun\b.*\brefuses\b', r'unmatched_admitted_begun\b'):
            deadline = time.monotonic() + 60
            while not re.search(event, self.weir.output()):
                self.assertLess(time.monotonic(), deadline, f'{event} in\n{self.weir.output()}')
                time.sleep(0.05)
            self.assertEqual(len(re.findall(event, self.weir.output())), 1, 'a line each, not one for each request')

    def test_a_proxys_client_is_told_403(self):
        status, head, _ = self.auth('/refuse')
        self.assertEqual((status, head['Weir-Missing'], head['Retry-After']), (403, '"user"', None))
        status, head, _ = self.auth('/skip', X_Weir_User='ada')
        self.assertEqual((status, head['Weir-Limits']), (200, None))
        self.assertEqual(self.auth('/skip')[1]['Weir-Limits'], 'none')

    def test_shadow_refuses_nobody_and_says_so(self):
        self.assertEqual(self.check('/tried')[0], 200)
        self.assertEqual(self.metric('weir_missing_total{limit="tried",got="shadow_refused"}'), 1)
        self.assertEqual(self.metric('weir_decisions_total{limit="tried",verdict="shadow_refused"}'), 1)

    def test_resp_answers_as_ever(self):
        with Resp(self.weir.resp) as resp:
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'route', '/skip'), [1, b'', -1, -1, 0, 0, 0])
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'route', '/refuse'), [0, b'refuses', 2, 0, -1, 0, 0])
            self.assertEqual(resp.ask('WEIR.REFUND', 1, 'route', '/refuse'), [])
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'ROUTE', '/share'), [1, b'', -1, -1, 0, 0, 0])
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'route', '/share')[:4], [1, b'shares', 2, 1])
        self.assertEqual(self.metric('weir_unmatched_total{got="admitted"}'), 2)

    def test_the_command_line_says_it(self):
        ask = [BUILD / 'weir', 'check', '--server', f'127.0.0.1:{self.weir.http}', 'route=/refuse']
        result = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn('the request lacks "user"', result.stdout)
        result = subprocess.run([BUILD / 'weir', 'explain', '--config', self.weir.config, 'route=/refuse'],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertIn('refuses: the request lacks "user" (missing: refuse)', result.stdout)
        result = subprocess.run([BUILD / 'weir', 'explain', '--config', self.weir.config, 'route=/skip'],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertIn('no limit applies: such a request is admitted (unmatched: admit)', result.stdout)


class Unmatched(MissingCase):
    config = FORWARDED_NGINX + 'unmatched: refuse\n' + LIMITS

    def test_what_meets_no_limit_is_refused(self):
        status, head, body = self.check('/nowhere')
        self.assertEqual((status, body['admitted'], body['limit'], body['limits']), (429, False, None, []))
        self.assertEqual((head['Weir-Limits'], head['Retry-After'], body['retry_after_ms']), ('none', None, -1))
        self.assertIn('no limit matches', body['detail'])
        self.assertEqual(self.check('/skip')[0], 429, 'for want of an attribute, too')
        self.assertEqual(self.check('/skip', 'ada')[0], 200)
        self.assertEqual(self.check('/free', 'ada')[0], 200, 'a limit that is off was thought of')
        self.assertEqual(self.auth('/nowhere')[0], 403)
        self.assertEqual(self.check('/nowhere', cost=0)[0], 200)
        with Resp(self.weir.resp) as resp:
            self.assertEqual(resp.ask('WEIR.CHECK', 1, 'route', '/nowhere'), [0, b'', -1, -1, -1, 0, 0])
            self.assertEqual(resp.ask('CL.THROTTLE', 'k', 1, 1, 60)[0], 0, 'needs no limit')
        self.assertEqual(self.metric('weir_unmatched_total{got="refused"}'), 4)

    def test_the_command_line_says_refused(self):
        ask = [BUILD / 'weir', 'check', '--server', f'127.0.0.1:{self.weir.http}', 'route=/nowhere']
        result = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout.strip()), (1, NO_LIMIT))


if __name__ == '__main__':
    unittest.main()
