#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Envoy's rate limit service on weir's own limits, asked by grpcio: what docs/envoy.md says of it."""
import concurrent.futures
import http.client
import json
import subprocess
import time
import unittest

import h2_raw
from envoy_client import OK, OVER_LIMIT, SERVICE, UNITS, Envoy, grpc
from grpc_case import GrpcCase
from redis_server import Redis
from weir_server import Resp, Weir

GRPC = ('--grpc', '127.0.0.1:0')
LIMITS = '''
limits:
  - { name: per-user, match: { domain: edge }, key: [user], rate: 10/day, algorithm: fixed_window }
  - { name: per-path, match: { domain: edge }, key: [path], rate: 5/week, algorithm: fixed_window }
  - { name: both, match: { domain: both }, key: [site], rate: 3/day, algorithm: fixed_window }
  - { name: watched, match: { domain: edge }, key: [watched], rate: 1/day, algorithm: fixed_window, mode: shadow }
  - { name: odd, match: { domain: edge }, key: [odd], rate: 7/90s }
  - { name: none, match: { domain: edge }, key: [none], rate: 1/day, mode: off }
  - { name: needs, match: { domain: needs }, key: [user], rate: 1/day, missing: refuse }
'''


class Decisions(GrpcCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(LIMITS, arguments=GRPC))
        cls.envoy = cls.enterClassContext(Envoy(cls.weir.port('grpc')))

    def metric(self, start):
        text = subprocess.run(['curl', '-s', f'http://127.0.0.1:{self.weir.http}/metrics'], capture_output=True, text=True, check=True).stdout
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(start)), 0)

    def test_a_limit_is_told(self):
        answer = self.envoy.ask({'user': 'ada'})
        self.assertEqual((answer.overall_code, len(answer.statuses)), (OK, 1))
        one = answer.statuses[0]
        self.assertEqual((one.code, one.limit_remaining), (OK, 9))
        self.assertEqual((one.current_limit.name, one.current_limit.requests_per_unit, one.current_limit.unit), ('per-user', 10, UNITS['DAY']))
        self.assertTrue(0 <= one.duration_until_reset.seconds <= 86400)
        for left in range(8, -1, -1):
            self.assertEqual(self.envoy.ask({'user': 'ada'}).statuses[0].limit_remaining, left)
        answer = self.envoy.ask({'user': 'ada'})
        self.assertEqual((answer.overall_code, answer.statuses[0].code, answer.statuses[0].limit_remaining), (OVER_LIMIT, OVER_LIMIT, 0))
        self.assertTrue(0 < answer.statuses[0].duration_until_reset.seconds <= 86400)
        self.assertEqual(self.envoy.codes({'user': 'ben'}), [OK])

    def test_headers(self):
        for answer, names in ((self.envoy.ask({'user': 'headers'}), ['RateLimit-Policy', 'RateLimit', 'X-RateLimit-Limit',
                                                                     'X-RateLimit-Remaining', 'X-RateLimit-Reset']),
                              (self.envoy.ask({'user': 'headers'}, hits=50), ['RateLimit-Policy', 'RateLimit', 'X-RateLimit-Limit',
                                                                              'X-RateLimit-Remaining', 'X-RateLimit-Reset'])):
            self.assertEqual([one.key for one in answer.response_headers_to_add], names)
        self.envoy.ask({'user': 'headers'}, hits=9)
        fields = {one.key: one.value for one in self.envoy.ask({'user': 'headers'}).response_headers_to_add}
        self.assertEqual(fields['RateLimit-Policy'], '"per-user";q=10;w=86400')
        self.assertTrue(fields['RateLimit'].startswith('"per-user";r=0;t='))
        self.assertTrue(1 <= int(fields['Retry-After']) <= 86400)
        self.assertEqual(list(self.envoy.ask({'x': 'y'}).response_headers_to_add), [])

    def test_what_meets_no_limit(self):
        answer = self.envoy.ask({'x': 'y'})
        self.assertEqual(answer.overall_code, OK)
        self.assertFalse(answer.statuses[0].HasField('current_limit'))
        self.assertEqual(answer.statuses[0].limit_remaining, 0)
        answer = self.envoy.ask({'none': 'y'})
        self.assertFalse(answer.statuses[0].HasField('current_limit'))
        self.assertEqual(answer.statuses[0].limit_remaining, 2 ** 32 - 1)
        self.assertEqual(self.envoy.codes({'user': 'ada'}, domain='elsewhere'), [OK])

    def test_shadow(self):
        first, second = (self.envoy.ask({'watched': 'w'}).statuses[0] for _ in range(2))
        self.assertEqual((first.code, second.code, second.limit_remaining), (OK, OK, 0))
        self.assertEqual(second.current_limit.name, 'watched')

    def test_a_period_that_is_no_unit(self):
        limit = self.envoy.ask({'odd': 'x'}).statuses[0].current_limit
        self.assertEqual((limit.name, limit.requests_per_unit, limit.unit), ('odd', 7, 0))

    def test_all_or_nothing(self):
        """Whichever refuses, none is charged; statuses stand in the order of the descriptors."""
        for _ in range(5):
            self.assertEqual(self.envoy.codes({'user': 'all'}, {'path': '/all'}), [OK, OK])
        for _ in range(3):
            self.assertEqual(self.envoy.codes({'user': 'all'}, {'path': '/all'}), [OK, OVER_LIMIT])
            self.assertEqual(self.envoy.codes({'path': '/all'}, {'x': 'y'}, {'user': 'all'}), [OVER_LIMIT, OK, OK])
        self.assertEqual(self.envoy.ask({'user': 'all'}).statuses[0].limit_remaining, 4)

    def test_one_counter_of_two_descriptors(self):
        """They are charged together, once or not at all."""
        site = {'site': 'x'}
        self.assertEqual(self.envoy.codes(site, {**site, 'more': '1'}, domain='both'), [OK, OK])
        answer = self.envoy.ask(site, {**site, 'more': '1'}, domain='both')
        self.assertEqual((answer.overall_code, [one.code for one in answer.statuses]), (OVER_LIMIT, [OVER_LIMIT, OVER_LIMIT]))
        self.assertEqual(self.envoy.ask(site, domain='both').statuses[0].limit_remaining, 0)

    def test_hits(self):
        self.assertEqual(self.envoy.ask({'user': 'hits'}, hits=4).statuses[0].limit_remaining, 6)
        answer = self.envoy.ask(({'user': 'hits'}, {'hits': 2}), {'path': '/hits'}, hits=3)
        self.assertEqual([one.limit_remaining for one in answer.statuses], [4, 2])
        for _ in range(2):  # looks
            answer = self.envoy.ask(({'user': 'hits'}, {'hits': 0}))
            self.assertEqual((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 4))
        answer = self.envoy.ask({'user': 'hits'}, hits=5)
        self.assertEqual((answer.overall_code, answer.statuses[0].limit_remaining), (OVER_LIMIT, 0))
        self.assertEqual(self.envoy.codes(({'user': 'hits'}, {'hits': 2 ** 64 - 1})), [OVER_LIMIT])
        self.assertEqual(self.envoy.codes({'user': 'hits'}, hits=2 ** 32 - 1), [OVER_LIMIT])
        self.assertEqual(self.envoy.codes({'user': 'hits'}, hits=4), [OK])
        self.assertEqual(self.envoy.codes(({'user': 'hits'}, {'hits': 0})), [OVER_LIMIT])
        self.assertEqual(self.envoy.codes(({'user': 'hits'}, {'hits': 0}), {'path': '/look'}), [OVER_LIMIT, OK])
        self.assertEqual(self.envoy.ask({'path': '/look'}).statuses[0].limit_remaining, 4)

    def test_hits_given_back(self):
        self.envoy.ask({'user': 'back'}, hits=8)
        answer = self.envoy.ask(({'user': 'back'}, {'hits': 3, 'negative': True}))
        self.assertEqual((answer.overall_code, answer.statuses[0].limit_remaining), (OK, 5))
        answer = self.envoy.ask(({'user': 'back'}, {'hits': 2 ** 64 - 1, 'negative': True}))
        self.assertEqual(answer.statuses[0].limit_remaining, 10)

    def test_overrides(self):
        for left in (1, 0):
            one = self.envoy.ask(({'user': 'own'}, {'limit': (2, UNITS['HOUR'])})).statuses[0]
            self.assertEqual((one.code, one.limit_remaining, one.current_limit.requests_per_unit, one.current_limit.unit),
                             (OK, left, 2, UNITS['HOUR']))
        self.assertEqual(self.envoy.codes(({'user': 'own'}, {'limit': (2, UNITS['HOUR'])})), [OVER_LIMIT])
        self.assertEqual(self.envoy.ask({'user': 'own'}).statuses[0].limit_remaining, 9)  # the rules' own was not asked
        self.assertEqual(self.envoy.codes(({'user': 'zero'}, {'limit': (0, UNITS['DAY'])})), [OVER_LIMIT])
        for unit in UNITS.values():
            one = self.envoy.ask(({'user': f'most{unit}'}, {'limit': (2 ** 32 - 1, unit)})).statuses[0]
            self.assertEqual((one.code, one.current_limit.requests_per_unit), (OK, 2 ** 32 - 1))
        self.assertEqual(self.envoy.codes({'path': '/own'}, ({'user': 'own'}, {'limit': (2, UNITS['HOUR'])})), [OK, OVER_LIMIT])
        self.assertEqual(self.envoy.ask({'path': '/own'}).statuses[0].limit_remaining, 4)  # nothing was charged beside it
        self.assertEqual(self.envoy.codes(({'user': 'own'}, {'limit': (2, UNITS['HOUR']), 'hits': 0})), [OVER_LIMIT])
        self.assertGreaterEqual(self.metric('weir_decisions_total{limit="(override)",verdict="refused"}'), 2)
        self.assertEqual(self.envoy.codes({'path': '/used'}, hits=5), [OK])
        one, same_length = (({'user': name}, {'limit': (1, UNITS['YEAR'])}) for name in ('first', 'other'))
        self.assertEqual(self.envoy.codes({'path': '/used'}, one), [OVER_LIMIT, OK])  # nor is it, for another's refusal
        self.assertEqual([self.envoy.codes(each) for each in (one, same_length, one)], [[OK], [OK], [OVER_LIMIT]])
        for unit in (0, 8, 77):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.envoy.ask, ({'user': 'own'}, {'limit': (1, unit)}))

    def test_a_missing_attribute(self):
        answer = self.envoy.ask({'x': 'y'}, {'user': 'u'}, domain='needs')
        self.assertEqual([one.code for one in answer.statuses], [OVER_LIMIT, OK])
        self.assertEqual(self.envoy.ask({'user': 'u'}, domain='needs').statuses[0].code, OK)

    def test_questions_that_are_none(self):
        for bad in (self.envoy.make({'a': 'b'}, domain=''), self.envoy.make(), self.envoy.make({}), self.envoy.make({'': 'b'}),
                    self.envoy.make({'domain': 'other'})):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.envoy.call, bad, timeout=60)
        for bad in (b'\x0a\x01\xff\x12\x08\x0a\x06\x0a\x01a\x12\x01b', b'\x0a\x01x\x12\x08\x0a\x06\x0a\x01\xff\x12\x01b',
                    b'\x0a\x01x\x12\x08\x0a\x06\x0a\x01a\x12\x01\x80', b'\xff', b'\x0a\x05x'):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, self.envoy.bytes, bad, timeout=60)
        many = self.envoy.make(*[{'a': 'b'}] * 65)
        self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.envoy.call, many, timeout=60)
        for count in (2000, 6000):  # of 10,000 the message is too long
            details = self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.envoy.bytes, b'\x0a\x01x' + b'\x12\x00' * count, timeout=60)
            self.assertNotIn('body_bytes_max', details)
        self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.envoy.call, self.envoy.make(*[{'key': 'value'}] * 10000), timeout=60)
        entries = self.envoy.make({f'k{i}': 'v' for i in range(64)})
        self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.envoy.call, entries, timeout=60)
        self.assertEqual(self.envoy.codes({f'k{i}': 'v' for i in range(63)}), [OK])
        self.assertEqual(self.envoy.codes({'user': 'long' * 500}), [OK])

    def test_unknown_fields_and_values_are_passed_over(self):
        answer = self.envoy.answer.FromString(self.envoy.bytes(
            b'\x0a\x04edge\x12\x11\x0a\x0d\x0a\x04user\x12\x03unk\x1a\x00\x50\x01\x7a\x03abc\xf8\x06\x07', timeout=60))
        self.assertEqual([one.code for one in answer.statuses], [OK])

    def test_nul_bytes_are_bytes(self):
        """A value goes on behind one."""
        self.envoy.ask({'user': 'n\0a'}, hits=7)
        self.assertEqual(self.envoy.ask({'user': 'n\0b'}).statuses[0].limit_remaining, 9)
        self.assertEqual(self.envoy.ask({'user': 'n'}).statuses[0].limit_remaining, 9)

    def test_exactly_so_many(self):
        """16 threads, one key: as many as the limit says, whatever else was refused."""
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            codes = list(pool.map(lambda _: self.envoy.ask({'user': 'race'}, {'path': '/race'}).overall_code, range(200)))
        self.assertEqual(codes.count(OK), 5)
        self.assertEqual(self.envoy.ask({'user': 'race'}).statuses[0].limit_remaining, 4)


class Json(GrpcCase):
    """POST /json, as envoyproxy/ratelimit has it."""

    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(LIMITS))

    def post(self, body, weir=None):
        connection = http.client.HTTPConnection('127.0.0.1', (weir or self.weir).http, timeout=60)
        try:
            connection.request('POST', '/json', body if isinstance(body, (str, bytes)) else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def question(self, *descriptors, **members):
        return {'domain': 'edge', 'descriptors': [{'entries': [{'key': key, 'value': value} for key, value in one.items()]}
                                                  for one in descriptors], **members}

    def test_both_answers(self):
        question = self.question({'path': '/json'}, {'user': 'json'})
        status, answer = self.post({**question, 'hitsAddend': 4})
        self.assertEqual((status, answer['overallCode'], [one['limitRemaining'] for one in answer['statuses']]), (200, 'OK', [1, 6]))
        self.assertEqual(answer['statuses'][0]['currentLimit'], {'name': 'per-path', 'requestsPerUnit': 5, 'unit': 'WEEK'})
        self.assertRegex(answer['statuses'][0]['durationUntilReset'], r'^\d+(\.\d{9})?s$')
        status, answer = self.post({**question, 'hits_addend': '2'})
        self.assertEqual((status, answer['overallCode'], [one['code'] for one in answer['statuses']]), (429, 'OVER_LIMIT', ['OVER_LIMIT', 'OK']))
        self.assertIn('Retry-After', [one['key'] for one in answer['responseHeadersToAdd']])

    def test_all_members(self):
        question = self.question({'user': 'members'})
        question['descriptors'][0] |= {'limit': {'requests_per_unit': '3', 'unit': 'DAY'}, 'hitsAddend': '2', 'isNegativeHits': False}
        self.assertEqual(self.post(question)[1]['statuses'][0]['limitRemaining'], 1)
        question['descriptors'][0] |= {'limit': {'requestsPerUnit': 3, 'unit': 4}}
        self.assertEqual(self.post(question)[0], 429)
        question['descriptors'][0] |= {'limit': None, 'hitsAddend': None}
        self.assertEqual(self.post(question)[1]['statuses'][0]['limitRemaining'], 9)
        question['descriptors'][0] |= {'hitsAddend': 1, 'isNegativeHits': True}
        self.assertEqual(self.post(question)[1]['statuses'][0]['limitRemaining'], 10)

    def test_questions_that_are_none(self):
        good = self.question({'a': 'b'})
        for bad in ('', 'x', '[]', {}, {**good, 'domain': ''}, {**good, 'descriptors': []}, {**good, 'other': 1}, {**good, 'domain': 5},
                    {**good, 'hitsAddend': -1}, {**good, 'hitsAddend': 2 ** 32}, {**good, 'hitsAddend': 'x'}, {**good, 'hitsAddend': ''},
                    {**good, 'hitsAddend': 1.5}, {**good, 'hitsAddend': '18446744073709551616'}, {**good, 'descriptors': {}},
                    {**good, 'descriptors': [{'entries': [{'key': 'a', 'val': 'b'}]}]}, {**good, 'descriptors': [5]},
                    {**good, 'descriptors': [{'entries': [{'key': 'domain', 'value': 'b'}]}]},
                    {**good, 'descriptors': [good['descriptors'][0] | {'limit': {'unit': 'FORTNIGHT'}}]},
                    {**good, 'descriptors': [good['descriptors'][0] | {'limit': {}}]},
                    {**good, 'descriptors': [good['descriptors'][0] | {'isNegativeHits': 1}]}, {**good, 'descriptors': good['descriptors'] * 65}):
            status, answer = self.post(bad)
            self.assertEqual((status, answer['status']), (400, 400), bad)
        self.assertEqual(self.post(good)[0], 200)

    def test_with_an_engine(self):
        with Redis() as redis, Weir(Shared.CONFIG.format(port=redis.port, on_failure='closed')) as weir:
            question = self.question({'path': '/json'}, {'user': 'json'})
            self.assertEqual([self.post(question, weir)[0] for _ in range(7)], [200] * 5 + [429] * 2)
            self.assertEqual(self.post(self.question({'user': 'json'}), weir)[1]['statuses'][0]['limitRemaining'], 4)


class Options(GrpcCase):
    def test_count_all(self):
        with Weir('envoy: { count_all: true }\n' + LIMITS, arguments=GRPC) as weir, Envoy(weir.port('grpc')) as envoy:
            for _ in range(5):
                self.assertEqual(envoy.codes({'user': 'all'}, {'path': '/all'}), [OK, OK])
            for left in (4, 3, 2):
                answer = envoy.ask({'user': 'all'}, {'path': '/all'})
                self.assertEqual((answer.overall_code, [one.code for one in answer.statuses]), (OVER_LIMIT, [OK, OVER_LIMIT]))
                self.assertEqual(answer.statuses[0].limit_remaining, left)
            limited = ({'user': 'own'}, {'limit': (1, UNITS['HOUR'])})
            self.assertEqual(envoy.codes({'path': '/all'}, limited), [OVER_LIMIT, OK])
            self.assertEqual(envoy.codes(limited), [OVER_LIMIT])

    def test_unmatched_refused_and_headers_off(self):
        config = 'unmatched: refuse\nheaders: { ratelimit: off, x_ratelimit: off }\n' + LIMITS
        with Weir(config, arguments=GRPC) as weir, Envoy(weir.port('grpc')) as envoy:
            answer = envoy.ask({'x': 'y'}, {'user': 'u'})
            self.assertEqual([one.code for one in answer.statuses], [OVER_LIMIT, OK])
            answer = envoy.ask({'user': 'u'})
            self.assertEqual((answer.statuses[0].limit_remaining, list(answer.response_headers_to_add)), (9, []))

    def test_tokens(self):
        config = LIMITS + '''
auth: { required: always, tokens: [ { name: envoy, secret: 0123456789abcdef, rights: [check] },
                                    { name: giver, secret: 0123456789abcdeg, rights: [check, refund] },
                                    { name: looks, secret: 0123456789abcdeh, rights: [metrics] } ] }
'''
        back = ({'user': 'u'}, {'hits': 1, 'negative': True})
        with Weir(config, arguments=GRPC) as weir:
            port = weir.port('grpc')
            with Envoy(port) as envoy:
                self.assertIn('authorization: Bearer', self.refused(grpc.StatusCode.UNAUTHENTICATED, envoy.ask, {'user': 'u'}))
            with Envoy(port, '0123456789abcdef') as envoy:
                self.assertEqual(envoy.codes({'user': 'u'}), [OK])
                self.assertIn('refund', self.refused(grpc.StatusCode.PERMISSION_DENIED, envoy.ask, back))
            with Envoy(port, '0123456789abcdeg') as envoy:
                self.assertEqual(envoy.codes(back), [OK])
            with Envoy(port, '0123456789abcdeh') as envoy:
                self.refused(grpc.StatusCode.PERMISSION_DENIED, envoy.ask, {'user': 'u'})
            with Envoy(port, 'x' * 700) as envoy:
                self.refused(grpc.StatusCode.UNAUTHENTICATED, envoy.ask, {'user': 'u'})
            with Envoy(port, 'not-one-of-them-0') as envoy:
                self.refused(grpc.StatusCode.UNAUTHENTICATED, envoy.ask, {'user': 'u'})

    def test_one_limit_with_the_other_protocols(self):
        with Weir(LIMITS, arguments=GRPC) as weir, Envoy(weir.port('grpc')) as envoy:
            envoy.ask({'user': 'u'}, hits=4)
            with Resp(weir.resp) as resp:
                self.assertEqual(resp.ask('WEIR.CHECK', '1', 'domain', 'edge', 'user', 'u')[3], 5)
            self.assertEqual(envoy.ask({'user': 'u'}).statuses[0].limit_remaining, 4)


class Shared(GrpcCase):
    CONFIG = '''
engine: {{ redis: {{ servers: ["127.0.0.1:{port}"] }} }}
cluster_secret: 000102030405060708090a0b0c0d0e0f
limits:
  - {{ name: per-user, match: {{ domain: edge }}, key: [user], rate: 10/day, algorithm: fixed_window, deadline: 10s, on_failure: {on_failure} }}
  - {{ name: per-path, match: {{ domain: edge }}, key: [path], rate: 5/day, algorithm: fixed_window, deadline: 10s, on_failure: {on_failure} }}
'''

    def test_two_weirs_one_limit(self):
        with Redis() as redis:
            config = self.CONFIG.format(port=redis.port, on_failure='closed')
            with Weir(config, arguments=GRPC) as one, Weir(config, arguments=GRPC) as other, \
                    Envoy(one.port('grpc')) as a, Envoy(other.port('grpc')) as b:
                for left in (4, 3, 2, 1, 0):
                    envoy = a if left % 2 else b
                    answer = envoy.ask({'user': 'u'}, {'path': '/p'})
                    self.assertEqual([status.limit_remaining for status in answer.statuses], [left + 5, left])
                    self.assertEqual(answer.overall_code, OK)
                for envoy in (a, b, a):
                    self.assertEqual(envoy.codes({'user': 'u'}, {'path': '/p'}), [OK, OVER_LIMIT])
                self.assertEqual(a.ask({'user': 'u'}).statuses[0].limit_remaining, 4)
                a.ask(({'user': 'u'}, {'hits': 2, 'negative': True}))
                self.assertEqual(b.ask(({'user': 'u'}, {'hits': 0})).statuses[0].limit_remaining, 6)
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    codes = list(pool.map(lambda i: (a, b)[i % 2].ask({'user': 'race'}, {'path': '/race'}).overall_code, range(100)))
                self.assertEqual(codes.count(OK), 5)
                self.assertEqual(a.ask({'user': 'race'}).statuses[0].limit_remaining, 4)

    def test_an_engine_that_stands_still(self):
        """grpc-timeout ends the call; the connection and other calls go on."""
        with Redis() as redis, Weir(self.CONFIG.format(port=redis.port, on_failure='closed'), arguments=GRPC) as weir, \
                Envoy(weir.port('grpc')) as envoy:
            self.assertEqual(envoy.codes({'user': 'u'}, {'path': '/p'}), [OK, OK])
            redis.pause()
            self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, envoy.ask, {'user': 'u'}, {'path': '/p'}, timeout=0.3)
            self.assertEqual(envoy.codes({'x': 'y'}), [OK])
            redis.resume()
            self.assertEqual(envoy.codes({'user': 'v'}, {'path': '/v'}), [OK, OK])

    def test_a_message_that_came_late_is_waited_for(self):
        """server.request_timeout is over with the message; the engine may take longer. A run in which this process stood
        still for too long before its message says nothing, and is made anew."""
        config = 'server: {{ request_timeout: 1s }}\n' + self.CONFIG
        with Redis() as redis, Weir(config.format(port=redis.port, on_failure='closed'), arguments=GRPC) as weir, \
                Envoy(weir.port('grpc')) as envoy:
            message = h2_raw.message(envoy.make({'user': 'u'}).SerializeToString())
            for _ in range(10):
                with h2_raw.Connection(weir.port('grpc')) as raw:
                    self.assertEqual(envoy.codes({'x': 'y'}), [OK])
                    redis.pause()
                    began = time.monotonic()
                    raw.send(h2_raw.frame(h2_raw.HEADERS, h2_raw.END_HEADERS, 1, h2_raw.head(f'/{SERVICE}/ShouldRateLimit')))
                    raw.send(h2_raw.frame(h2_raw.PING, 0, 0, b'12345678'))
                    self.assertIsNotNone(raw.until(lambda kind, flags, *_: kind == h2_raw.PING and flags & h2_raw.ACK))
                    raw.send(h2_raw.frame(h2_raw.DATA, h2_raw.END_STREAM, 1, message))
                    valid = time.monotonic() < began + 0.5
                    time.sleep(1.3)
                    redis.resume()
                    self.assertIsInstance(raw.end_of(1), bytes)
                    told = [payload for kind, _, _, payload in raw.frames if kind == h2_raw.DATA]
                if valid:
                    break
            self.assertTrue(valid)
            self.assertEqual(len(told), 1)  # it was decided, by whomever


if __name__ == '__main__':
    unittest.main()
