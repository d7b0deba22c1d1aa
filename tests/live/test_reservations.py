#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reservations over HTTP and RESP: reserve, settle, extend, cancel, the ttl; bad input; metrics; many clients at once."""
import contextlib
import http.client
import json
import random
import re
import threading
import time
import unittest

from weir_server import Resp, Weir, resp_encode

BIG = 2 ** 63
CONFIG = '''
limits:
  - { name: tokens, match: { kind: llm }, key: [user], missing: refuse, algorithm: fixed_window, rate: 1000/year, cost: amount }
  - { name: calls, match: { kind: llm }, key: [user], algorithm: fixed_window, rate: 5/year }
  - { name: cut, match: { kind: cut }, key: [user], algorithm: sliding_log, rate: 100/hour, cost: amount, reserve_max: 0.5,
      reserve_ttl_max: 5s }
  - { name: kept, match: { kind: kept }, key: [user], rate: 100/hour, cost: amount, on_expiry: keep }
  - { name: guess, match: { kind: guess }, key: [user], algorithm: fixed_window, rate: 1000000/year, cost: amount, estimate: p90,
      estimate_first: 700 }
  - { name: jobs, match: { kind: job }, key: [user], algorithm: concurrency, rate: 1, lease: 30s }
  - { name: crowd, match: { kind: crowd }, algorithm: fixed_window, rate: 1000000/year, cost: amount }
'''
REDIS = '''
engine: { redis: { servers: [127.0.0.1:1] } }
limits:
  - { name: far, match: { kind: far }, rate: 100/hour, cost: amount }
  - { name: near, match: { kind: near }, rate: 100/hour, cost: amount, sharing: split }
'''


class Case(unittest.TestCase):
    def setUp(self):
        self.user = self.id()
        self.resp = Resp(self.weir.resp, timeout_s=60)
        self.addCleanup(self.resp.__exit__)

    def ask(self, method, path, body=None, weir=None):
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', (weir or self.weir).http, timeout=60)) as client:
            client.request(method, path, body if isinstance(body, (str, bytes)) else json.dumps(body) if body is not None else None)
            answer = client.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None, answer.headers

    def reserve(self, amount, kind='llm', **more):
        status, answer, _ = self.ask('POST', '/v1/reservations',
                                     {'attributes': {'kind': kind, 'user': self.user}, 'amount': amount, **more})
        return status, answer

    def admitted(self, amount, kind='llm', **more):
        status, answer = self.reserve(amount, kind, **more)
        self.assertEqual((status, answer['admitted']), (200, True), answer)
        return answer

    def settle(self, identity, actual):
        status, answer, _ = self.ask('POST', f'/v1/reservations/{identity}/settle', {'actual': actual})
        self.assertEqual(status, 200, answer)
        return answer

    def left(self, kind='llm', limit=None):
        """Of each limit, or of one."""
        status, answer, _ = self.ask('POST', '/v1/check', {'attributes': {'kind': kind, 'user': self.user, 'amount': 1},
                                                           'cost': 0, 'peek': True})
        self.assertEqual(status, 200)
        found = {one['limit']: one['remaining'] for one in answer['limits']}
        return found[limit] if limit else found


class Reservations(Case):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))

    def test_reserve_and_settle_over_http(self):
        answer = self.admitted(600, ttl_ms=60000)
        self.assertEqual((answer['held'], answer['cut'], answer['expires_in_ms'], answer['limit']), (600, False, 60000, 'calls'))
        self.assertEqual({one['limit']: one['remaining'] for one in answer['limits']}, {'tokens': 400, 'calls': 4})
        status, shown, _ = self.ask('GET', f'/v1/reservations/{answer["id"]}')
        self.assertEqual((status, shown['state'], shown['held']), (200, 'open', 600))
        self.assertLessEqual(shown['expires_in_ms'], 60000)
        status, refused = self.reserve(401)
        self.assertEqual((status, refused['limit'], refused['status']), (429, 'tokens', 429))
        self.assertEqual(self.left(), {'tokens': 400, 'calls': 4})  # all or none
        told = self.settle(answer['id'], 100)
        self.assertEqual(told, {'given_back': 500, 'under_estimated': 0, 'uncharged': 0, 'late': False,
                                'limits': [{'limit': 'tokens', 'given_back': 500}]})
        self.assertEqual(self.left(), {'tokens': 900, 'calls': 4})  # a request was made all the same
        self.assertEqual(self.settle(answer['id'], 900), told)  # twice changes nothing
        self.assertEqual(self.left('llm', 'tokens'), 900)
        self.assertEqual(self.ask('GET', f'/v1/reservations/{answer["id"]}')[1]['state'], 'settled')

    def test_reserve_and_settle_over_resp(self):
        answer = self.resp.ask('WEIR.RESERVE', 600, 60000, 'kind', 'llm', 'user', self.user)
        self.assertEqual(answer[:4] + answer[8:], [1, b'calls', 5, 4, 600])
        self.assertRegex(answer[7].decode(), '^[0-9a-f]{40}$')
        refused = self.resp.ask('WEIR.RESERVE', 401, 60000, 'kind', 'llm', 'user', self.user)
        self.assertEqual(refused[:4] + refused[7:], [0, b'tokens', 1000, 400, b'', 0])
        self.assertGreater(refused[4], 0)
        extended = self.resp.ask('WEIR.EXTEND', answer[7], 400)
        self.assertEqual(extended[:4] + extended[7:], [1, b'tokens', 1000, 0, answer[7], 1000])
        self.assertEqual(self.resp.ask('WEIR.EXTEND', answer[7], 1, 1000)[0], 0)
        self.assertEqual(self.resp.ask('WEIR.SETTLE', answer[7], 1200), [0, 200, 0])
        self.assertEqual(self.resp.ask('WEIR.SETTLE', answer[7], 1), [0, 200, 0])
        self.assertEqual(self.left('llm', 'tokens'), 0)
        self.assertEqual(self.resp.ask('WEIR.RESERVE', 1001, 60000, 'kind', 'llm', 'user', self.user)[4], -1)  # never

    def test_cancel_gives_the_amount_back_and_no_more(self):
        answer = self.admitted(1000)
        status, told, _ = self.ask('DELETE', f'/v1/reservations/{answer["id"]}')
        self.assertEqual((status, told['given_back']), (200, 1000))
        self.assertEqual(self.ask('DELETE', f'/v1/reservations/{answer["id"]}')[1], told)
        self.assertEqual(self.left(), {'tokens': 1000, 'calls': 4})

    def test_a_stream_asks_before_it_goes_on(self):
        identity = self.admitted(100)['id']
        for i in range(7):
            status, answer, _ = self.ask('POST', f'/v1/reservations/{identity}/extend', {'more': 100, 'ttl_ms': 50000 + i})
            self.assertEqual((status, answer['held'], answer['id'], answer['expires_in_ms']),
                             (200, 200 + 100 * i, identity, 50000 + i))
        status, answer, _ = self.ask('POST', f'/v1/reservations/{identity}/extend', {'more': 1})
        self.assertEqual((status, answer['detail'][:4]), (409, 'full'))
        self.assertEqual(self.settle(identity, 555)['given_back'], 245)
        self.assertEqual(self.ask('POST', f'/v1/reservations/{identity}/extend', {'more': 1})[0], 409)
        identity = self.admitted(100)['id']
        self.assertEqual(self.ask('POST', f'/v1/reservations/{identity}/extend', {'more': 346})[0], 429)
        self.assertEqual(self.left('llm', 'tokens'), 345)

    def test_an_amount_is_cut_and_a_ttl_is_bounded_as_the_limit_says(self):
        answer = self.admitted(80, 'cut')
        self.assertEqual((answer['held'], answer['cut'], answer['expires_in_ms']), (50, True, 5000))
        self.settle(answer['id'], 10)
        self.assertEqual(self.left('cut', 'cut'), 90)
        for ttl in 5001, 365 * 86400 * 1000, 2 ** 62:
            status, answer = self.reserve(1, 'cut', ttl_ms=ttl)
            self.assertEqual((status, 'must be 1 to 5000' in answer['detail']), (400, True), answer)

    def test_what_nobody_settles_is_released_or_kept_within_a_second_of_its_end(self):
        released, kept = self.admitted(80, 'cut', ttl_ms=300), self.admitted(80, 'kept', ttl_ms=300)
        deadline = time.monotonic() + 20
        while self.ask('GET', f'/v1/reservations/{released["id"]}')[1]['state'] == 'open' and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.ask('GET', f'/v1/reservations/{released["id"]}')[1]['state'], 'released')
        self.assertEqual(self.left('cut', 'cut'), 100)
        while self.ask('GET', f'/v1/reservations/{kept["id"]}')[1]['state'] == 'open' and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.ask('GET', f'/v1/reservations/{kept["id"]}')[1]['state'], 'kept')
        self.assertEqual(self.left('kept', 'kept'), 20)
        told = self.settle(released['id'], 30)
        self.assertEqual((told['late'], told['under_estimated'], told['given_back']), (True, 30, 0))
        self.assertEqual(self.left('cut', 'cut'), 70)
        self.assertEqual(self.settle(kept['id'], 85)['under_estimated'], 5)

    def test_what_nobody_asks_for_is_swept(self):
        before = self.metric('weir_reservations_total{event="released"}')
        for _ in range(20):
            self.admitted(1, 'cut', ttl_ms=100)
        deadline = time.monotonic() + 20
        while self.metric('weir_reservations_total{event="released"}') < before + 20 and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertGreaterEqual(self.metric('weir_reservations_total{event="released"}'), before + 20)

    def test_the_permit_of_a_reservation_goes_back_with_it(self):
        identity = self.admitted(1, 'job', ttl_ms=20000)['id']
        self.assertEqual(self.reserve(1, 'job', ttl_ms=20000)[0], 429)
        self.settle(identity, 1)
        self.settle(self.admitted(1, 'job', ttl_ms=20000)['id'], 5)
        status, answer = self.reserve(1, 'job', ttl_ms=31000)
        self.assertEqual((status, 'lease' in answer['detail']), (400, True), answer)

    def test_auto_reserves_what_answers_took_lately(self):
        self.assertEqual(self.admitted('auto', 'guess')['held'], 700)
        for actual in range(1, 101):
            self.settle(self.admitted(500, 'guess')['id'], actual)
        self.assertIn(self.admitted('auto', 'guess')['held'], range(90, 102))
        self.assertEqual(self.resp.ask('WEIR.RESERVE', 'auto', 1000, 'kind', 'guess', 'user', self.user)[8],
                         self.metric('weir_reserve_estimate{limit="guess"}'))
        status, answer = self.reserve('auto')
        self.assertEqual((status, 'estimate' in answer['detail']), (400, True), answer)

    def metric(self, name):
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=60)) as client:
            client.request('GET', '/metrics')
            text = client.getresponse().read().decode()
        found = re.search(rf'^{re.escape(name)} (\d+)$', text, re.M)
        return int(found[1]) if found else 0

    def test_metrics_tell_of_units_and_estimates(self):
        before = {name: self.metric(name) for name in (
            'weir_reserved_units{limit="tokens"}', 'weir_reservations_open', 'weir_reservations_total{event="settled"}',
            'weir_reserved_units_total{limit="tokens",what="reserved"}',
            'weir_reserved_units_total{limit="tokens",what="given_back"}',
            'weir_reserved_units_total{limit="tokens",what="under_estimated"}',
            'weir_reserve_ratio_total{limit="tokens",le="0.5"}', 'weir_reserve_ratio_total{limit="tokens",le="+Inf"}')}
        one, two = self.admitted(300)['id'], self.admitted(200)['id']
        self.settle(one, 100)
        after = {name: self.metric(name) - value for name, value in before.items()}
        self.assertEqual(list(after.values()), [200, 1, 1, 500, 200, 0, 1, 1])
        self.settle(two, 250)
        after = {name: self.metric(name) - value for name, value in before.items()}
        self.assertEqual(list(after.values()), [0, 0, 2, 500, 200, 50, 1, 2])

    def test_clients_at_once_are_charged_what_they_settled(self):
        settled, open_units, lock = [0], [0], threading.Lock()
        before = self.left('crowd', 'crowd')

        def work(seed):
            dice = random.Random(seed)
            with Resp(self.weir.resp, timeout_s=60) as resp:
                for _ in range(150):
                    answer = resp.ask('WEIR.RESERVE', dice.randint(1, 100), 60000, 'kind', 'crowd')
                    held, actual = answer[8], dice.randint(0, 120)
                    if dice.random() < 0.3:
                        held = resp.ask('WEIR.EXTEND', answer[7], 10)[8]
                    if dice.random() < 0.8:
                        resp.ask('WEIR.SETTLE', answer[7], actual)
                    state = self.ask('GET', f'/v1/reservations/{answer[7].decode()}')[1]
                    with lock:
                        if state['state'] == 'open':
                            open_units[0] += held
                        else:
                            settled[0] += actual

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(before - self.left('crowd', 'crowd'), settled[0] + open_units[0])


class BadInput(Case):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))
        cls.other = cls.enterClassContext(Weir(CONFIG))

    def test_bodies(self):
        good = {'attributes': {'kind': 'llm', 'user': 'bad'}, 'amount': 1}
        for change, part in [({'amount': 0}, 'amount'), ({'amount': -1}, 'amount'), ({'amount': BIG}, ''), ({'amount': 1.5}, 'amount'),
                             ({'amount': 'all'}, 'auto'), ({'amount': None}, 'amount'), ({'ttl_ms': 0}, 'ttl_ms'),
                             ({'ttl_ms': -1}, 'ttl_ms'), ({'ttl_ms': 365 * 86400 * 1000}, 'must be 1 to 600000'),
                             ({'ttl_ms': BIG}, ''), ({'ttl_ms': '1s'}, 'ttl_ms'), ({'ttl': 5}, 'unknown member'),
                             ({'attributes': []}, 'attributes'), ({'attributes': {'kind': 'llm', 'user': 'bad', 'amount': '5'}}, 'amount'),
                             ({'attributes': {str(i): 'x' for i in range(64)}}, 'at most')]:
            with self.subTest(change=change):
                status, answer, _ = self.ask('POST', '/v1/reservations', {**good, **change})
                self.assertEqual((status, part in answer['detail']), (400, True), answer)
        for body in b'', b'{', b'[]', b'null', b'\xff\x00', b'{"amount":1,"amount":2}', b'{"attributes":{}}':
            self.assertEqual(self.ask('POST', '/v1/reservations', body)[0], 400, body)
        status, answer, _ = self.ask('POST', '/v1/reservations', {'attributes': {'kind': 'llm'}, 'amount': 1})
        self.assertEqual((status, answer['missing']), (429, 'user'))
        self.user = 'bad'
        self.assertEqual(self.left(), {'tokens': 1000, 'calls': 5})  # nothing was charged

    def test_ids_and_methods(self):
        mine = self.admitted(10)['id']
        theirs = self.ask('POST', '/v1/reservations', {'attributes': {'kind': 'llm', 'user': 'x'}, 'amount': 10}, self.other)[1]['id']
        forged = mine[:-1] + ('0' if mine[-1] != '0' else '1')
        hostile = [theirs, forged, mine.upper() if mine.upper() != mine else mine[1:], mine + '0', mine[:-2], 'x', '0' * 40, 'f' * 40,
                   '%00', '..%2f..', 'a' * 4000, mine + '/settle', '-1']
        for identity in hostile:
            with self.subTest(identity=identity[:60]):
                for method, tail, body in (('GET', '', None), ('DELETE', '', None), ('POST', '/settle', {'actual': 1}),
                                           ('POST', '/extend', {'more': 1})):
                    if identity.endswith('/settle') and not tail:
                        continue
                    self.assertEqual(self.ask(method, f'/v1/reservations/{identity}{tail}', body)[0], 404)
                self.assertIn(b'not one of ours', self.fails('WEIR.SETTLE', identity, 1))
                self.assertIn(b'not one of ours', self.fails('WEIR.EXTEND', identity, 1))
        for method, path, allow in (('GET', '', 'POST'), ('POST', f'/{mine}', 'GET, HEAD, DELETE'), ('PUT', f'/{mine}', 'GET, HEAD, DELETE'),
                                    ('GET', f'/{mine}/settle', 'POST'), ('DELETE', f'/{mine}/extend', 'POST')):
            status, _, headers = self.ask(method, f'/v1/reservations{path}', {})
            self.assertEqual((status, headers['Allow']), (405, allow), (method, path))
        for body in {}, {'actual': -1}, {'actual': BIG}, {'actual': 'x'}, {'actual': 1, 'more': 1}, []:
            self.assertEqual(self.ask('POST', f'/v1/reservations/{mine}/settle', body)[0], 400, body)
        for body in {}, {'more': 0}, {'more': BIG}, {'more': 1, 'ttl_ms': 0}, {'more': 1, 'ttl_ms': 365 * 86400 * 1000}, {'mre': 1}:
            self.assertEqual(self.ask('POST', f'/v1/reservations/{mine}/extend', body)[0], 400, body)
        self.assertEqual(self.left('llm', 'tokens'), 990)

    def fails(self, *command):
        answer = self.resp.ask(*command)
        self.assertIsInstance(answer, Exception, command)
        return str(answer).encode()

    def test_resp(self):
        for command, part in [(('WEIR.RESERVE', BIG, 1000, 'kind', 'llm', 'user', 'r'), b'amount'),
                              (('WEIR.RESERVE', 0, 1000, 'kind', 'llm', 'user', 'r'), b'amount'),
                              (('WEIR.RESERVE', -5, 1000, 'kind', 'llm', 'user', 'r'), b'amount'),
                              (('WEIR.RESERVE', 'all', 1000, 'kind', 'llm', 'user', 'r'), b'amount'),
                              (('WEIR.RESERVE', 5, -1, 'kind', 'llm', 'user', 'r'), b'ttl_ms'),
                              (('WEIR.RESERVE', 5, 365 * 86400 * 1000, 'kind', 'llm', 'user', 'r'), b'must be 1 to 600000'),
                              (('WEIR.RESERVE', 5, 1000, 'user=ada', 'x'), b'two words'),
                              (('WEIR.RESERVE', 5, 1000, 'kind'), b'Usage'), (('WEIR.RESERVE', 5), b'wrong number'),
                              (('WEIR.SETTLE', 'x'), b'wrong number'), (('WEIR.SETTLE', 'x', -1), b'actual'),
                              (('WEIR.SETTLE', 'x', BIG), b'actual'), (('WEIR.EXTEND', 'x', 0), b'more'),
                              (('WEIR.EXTEND', 'x', 1, 0), b'ttl_ms'), (('WEIR.SETTLE', b'\x00\xff\r\n', 1), b'not one of ours')]:
            self.assertIn(part, self.fails(*command), command)

    def test_limits_that_nodes_share_refuse_a_reserve_and_say_so(self):
        with Weir(REDIS) as weir:
            status, answer, _ = self.ask('POST', '/v1/reservations', {'attributes': {'kind': 'far'}, 'amount': 1}, weir)
            self.assertEqual(status, 400)
            self.assertIn('reservations under it are not supported yet', answer['detail'])
            status, answer, _ = self.ask('POST', '/v1/reservations', {'attributes': {'kind': 'near'}, 'amount': 1}, weir)
            self.assertEqual((status, answer['held']), (200, 1))

    def test_more_than_there_is_room_for(self):
        with Weir(CONFIG) as weir, Resp(weir.resp, timeout_s=120) as resp:
            first = resp.ask('WEIR.RESERVE', 1, 600000, 'kind', 'crowd')[7].decode()
            for _ in range(66):
                resp.send(resp_encode('WEIR.RESERVE', 1, 600000, 'kind', 'crowd') * 1000)
                answers = [resp.read() for _ in range(1000)]
            self.assertIn('full', str(answers[-1]))
            status, answer, headers = self.ask('POST', '/v1/reservations', {'attributes': {'kind': 'crowd'}, 'amount': 1}, weir)
            self.assertEqual((status, headers['Retry-After']), (503, '1'), answer)
            self.assertEqual(self.ask('DELETE', f'/v1/reservations/{first}', None, weir)[0], 200)
            self.assertEqual(resp.ask('WEIR.RESERVE', 1, 600000, 'kind', 'crowd')[0], 1)  # who has ended gives way
            self.assertEqual(self.ask('GET', f'/v1/reservations/{first}', None, weir)[0], 404)  # and its id is nobody's


if __name__ == '__main__':
    unittest.main()
