#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""traces: a span for each decision that is sampled, at a receiver made from the published definitions of OTLP: whose it
is, what it tells, and what it must not; and a receiver that is slow, gone, refuses, or comes back."""
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from cluster import config as cluster_config, metrics
from otlp_receiver import Receiver, partial
from ports import free_port
from redis_server import Redis, stand_still, wait_for
from store_drive import StoreDrive
from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Weir, connect

LIMITS = '''limits:
  - { name: api, match: { kind: api }, key: [user], rate: 2/hour }
  - { name: leak, match: { kind: leak }, key: [user], algorithm: fixed_window, rate: 5/hour, cost: 2 }
  - { name: quiet, match: { kind: quiet }, key: [user], rate: 1/hour, mode: shadow }
  - { name: off, match: { kind: off }, key: [user], rate: 1/hour, mode: off }
'''
TRACE, PARENT = '4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'


def traces(url, more=''):
    """However slow this machine is, an answer is not given up, unless that is what the test is about."""
    more += '' if 'timeout' in more else ', timeout: 10s'
    return f'traces: {{ endpoint: "{url}"{more} }}\n'


def parent(number=0, flags='01'):
    """A traceparent, of a trace of its own for each number."""
    return f'00-{number:016x}{TRACE[16:]}-{PARENT}-{flags}'


def trace_of(number):
    return f'{number:016x}{TRACE[16:]}'


class Client:
    """One connection, kept."""

    def __init__(self, weir):
        self.client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def check(self, traceparent=None, cost=1, peek=False, fields=(), **attributes):
        """The status, and the answer."""
        body = json.dumps({'attributes': attributes, 'cost': cost, 'peek': peek}).encode()
        return self.ask('POST', '/v1/check', traceparent, body, fields)

    def ask(self, method, path, traceparent=None, body=b'', fields=()):
        self.client.putrequest(method, path)
        for name, value in [('Content-Length', str(len(body))), *fields]:
            self.client.putheader(name, value)
        for one in [traceparent] if isinstance(traceparent, (str, bytes)) else traceparent or []:
            self.client.putheader('traceparent', one)
        self.client.endheaders(body)
        answer = self.client.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def counted(weir):
    """What /metrics says of traces: {name without weir_traces_ and _total, label: number}."""
    return {re.sub(r'^weir_traces_|_total|["{}]|why=', '', name): int(value) for name, value in metrics(weir.http).items()
            if name.startswith('weir_traces_')}


class Case(unittest.TestCase):
    def receiver(self, *arguments, **options):
        receiver = Receiver(*arguments, **options)
        self.addCleanup(receiver.__exit__, None)
        return receiver

    def wait_for_spans(self, receiver, count):
        """On a busy machine an answer may be late, and its spans come twice, with the same ids."""
        def spans():
            return list({one.id: one for one in receiver.spans}.values())
        wait_for(lambda: len(spans()) >= count, f'not {count} spans came')
        self.assertEqual(len(spans()), count)
        return spans()

    def wait_for_line(self, weir, event, times=1):
        wait_for(lambda: len(re.findall(rf'\b{event}\b', weir.output())) >= times, f'no line {event}: {weir.output()}')


class Spans(Case):
    def test_what_a_span_tells(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url, ', service: "front door"') + LIMITS) as weir, Client(weir) as client:
            before_ns = time.time_ns()
            for number in range(3):
                client.check(parent(number), kind='api', user='ada')
            client.check(parent(3), kind='leak', user='ada')
            client.check(parent(4), kind='leak', user='ada', cost=100)
            client.check(parent(5), kind='none')
            client.check(parent(6), kind='api', user='bob', peek=True)
            client.check(parent(7), kind='quiet', user='bob', cost=1)
            client.check(parent(8), kind='quiet', user='bob', cost=1)
            client.check(parent(9), kind='off', user='bob')
            self.wait_for_spans(receiver, 10)
            after_ns = time.time_ns()
            checksum = client.ask('GET', '/v1/limits')[1]['checksum']
            wait_for(lambda: counted(weir)['sent'] == 10, 'they are not counted')
            self.assertEqual(counted(weir), {'sampled': 10, 'sent': 10, 'droppedfull': 0, 'droppedlost': 0, 'droppedrefused': 0,
                                             'messages': len(receiver.bodies), 'failing': 0})
        spans = sorted(receiver.spans, key=lambda one: one.trace)
        for number, one in enumerate(spans):
            self.assertEqual((one.trace, one.parent), (trace_of(number), PARENT))
            self.assertEqual((one.span.name, one.span.kind, one.span.flags), ('check', 2, 0x301))
            self.assertTrue(before_ns <= one.span.start_time_unix_nano <= one.span.end_time_unix_nano <= after_ns, one.span)
            self.assertEqual(one.resource['service.name'], 'front door')
            self.assertRegex(one.resource['service.version'], r'^\d+\.\d+\.\d+')
            self.assertEqual(one.scope.name, 'weir')
            self.assertEqual((one['rules_checksum'], one.get('rules_version')), (checksum, None))
            self.assertEqual(one.attributes['http.route'], '/v1/check')
            self.assertEqual(one.span.status.code, 0)
            self.assertIsNone(one.get('engine_round_trips'))
        self.assertEqual(len({one.id for one in spans}), 10)
        self.assertTrue(all(int(one.id, 16) for one in spans))
        told = [(one['limit'], one['algorithm'], one['verdict'], one['remaining'], one['capacity'], one['cost'],
                 one.attributes['http.response.status_code']) for one in spans[:5]]
        self.assertEqual(told, [('api', 'token_bucket', 'admitted', 1, 2, 1, 200),
                                ('api', 'token_bucket', 'admitted', 0, 2, 1, 200),
                                ('api', 'token_bucket', 'refused', 0, 2, 1, 429),
                                ('leak', 'fixed_window', 'admitted', 3, 5, 2, 200),
                                ('leak', 'fixed_window', 'never', 3, 5, 200, 429)])
        self.assertEqual([one.get('retry_after_ms') is not None for one in spans[:5]], [False, False, True, False, True])
        self.assertTrue(1790000 <= spans[2]['retry_after_ms'] <= 1800000)
        self.assertEqual(spans[4]['retry_after_ms'], -1)
        self.assertEqual((spans[5]['verdict'], spans[5]['unmatched'], spans[5].get('limit')), ('admitted', True, None))
        self.assertEqual((spans[6]['peek'], spans[6]['remaining'], spans[0].get('peek')), (True, 2, None))
        self.assertEqual([(one['verdict'], one['limits'], one.get('limit'), one.get('unmatched'), one.get('shadow_refused'))
                          for one in spans[7:]], [('admitted', 1, None, None, None), ('admitted', 1, None, None, 1),
                                                  ('admitted', 0, None, None, None)])
        self.assertEqual([one['limits'] for one in spans[:7]], [1] * 5 + [0, 1])

    def test_a_span_holds_no_key_and_no_value(self):
        receiver = self.receiver()
        with Weir(FORWARDED_NGINX + traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            client.check(parent(1), kind='api', user='sekrit-user')
            client.check(parent(2), kind='sekrit-kind', other='sekrit-other')
            client.ask('GET', '/v1/auth?kind=api&user=sekrit-auth', parent(3),
                       fields=[*NGINX_FIELDS.items(), ('Authorization', 'Basic sekrit'), ('X-Weir-Mail', 'sekrit-mail')])
            self.wait_for_spans(receiver, 3)
            self.assertEqual(receiver.spans[2].span.name, 'auth')
            self.assertEqual(receiver.spans[2].attributes['http.route'], '/v1/auth')
            self.assertEqual(receiver.spans[2]['limit'], 'api')
        for body in receiver.bodies:
            self.assertNotIn(b'sekrit', body)
            self.assertNotIn(NGINX_FIELDS['X-Real-IP'].encode(), body)
        self.assertNotIn('sekrit', weir_output(weir))

    def test_what_is_no_decision_has_no_span(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            self.assertEqual(client.ask('POST', '/v1/check', parent(1), b'no JSON')[0], 400)
            self.assertEqual(client.ask('GET', '/v1/auth', parent(2))[0], 404)
            self.assertEqual(client.ask('GET', '/v1/limits', parent(3))[0], 200)
            client.check(parent(4), kind='api', user='ada')
            self.assertEqual([one.trace for one in self.wait_for_spans(receiver, 1)], [trace_of(4)])

    def test_the_version_of_rules_in_a_store(self):
        receiver = self.receiver()
        with tempfile.TemporaryDirectory(prefix='weir-rules-') as folder:
            store = StoreDrive(f'sqlite:{folder}/rules.db')
            self.addCleanup(store.close)
            for before, rate in enumerate(('5/hour', '6/hour')):
                store.appended(before, json.dumps({'limits': [{'name': 'api', 'rate': rate, 'key': ['user']}]},
                                                  separators=(',', ':')))
            with Weir(f'rules: {{ store: "sqlite:{folder}/rules.db" }}\n' + traces(receiver.url)) as weir:
                with Client(weir) as client:
                    client.check(parent(1), user='ada')
                    self.assertEqual(self.wait_for_spans(receiver, 1)[0]['rules_version'], 2)


def weir_output(weir):
    return weir.output() if weir.log.exists() else ''


class Sampling(Case):
    def test_the_flag_decides(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            for number, flags in enumerate(('00', '01', '02', '03', 'ff', 'fe')):
                client.check(parent(number, flags), kind='api', user='ada')
            client.check(kind='api', user='ada')
            spans = self.wait_for_spans(receiver, 3)
            self.assertEqual([(one.trace, one.span.flags) for one in spans],
                             [(trace_of(1), 0x301), (trace_of(3), 0x303), (trace_of(4), 0x3ff)])

    def test_hostile_values_are_none(self):
        """They are not refused either: a trace is nobody's right to be let in."""
        good = f'00-{TRACE}-{PARENT}-01'
        hostile = ['', '-', '00', good[:-1], good + '-', good + '-00', good + '0', ' '.join(good), good.upper(),
                   good.replace('4bf', '4bg'), f'00-{"0" * 32}-{PARENT}-01', f'00-{TRACE}-{"0" * 16}-01',
                   f'ff-{TRACE}-{PARENT}-01', f'0x-{TRACE}-{PARENT}-01', f'01-{TRACE}-{PARENT}-01x',
                   f'00-{TRACE[:-1]}-{PARENT}0-01', f'00_{TRACE}_{PARENT}_01', f'00-{TRACE}-{PARENT}-0g', '%00' * 20,
                   'x' * 8000, b'\xff' * 55, b'00-' + b'\xc3\xa9' * 16 + b'-' + PARENT.encode() + b'-01', [good, good],
                   [good, 'no'], ['no', good]]
        receiver = self.receiver()
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            for value in hostile:
                self.assertEqual(client.check(value, kind='none')[0], 200, value)
            self.assertEqual(client.check(f'cc-{TRACE}-{PARENT}-ff-later parts', kind='none')[0], 200)
            span = self.wait_for_spans(receiver, 1)[0]
            self.assertEqual((span.trace, span.parent, span.span.flags), (TRACE, PARENT, 0x301))
            self.assertEqual(counted(weir)['sampled'], 1)

    def test_without_a_parent_one_in_so_many(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url, ', sample: 1/4') + LIMITS) as weir, Client(weir) as client:
            for _ in range(800):
                client.check(kind='none')
            sampled = counted(weir)['sampled']
            self.assertTrue(100 <= sampled <= 300, sampled)  # 200, and 12 as its standard deviation
            spans = self.wait_for_spans(receiver, sampled)
        self.assertEqual({(one.parent, one.span.flags) for one in spans}, {('', 0x101)})
        self.assertEqual(len({one.trace for one in spans}), sampled)
        self.assertEqual(len({one.id for one in spans}), sampled)

    def test_all_without_a_parent_and_others_by_their_flag(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url, ', sample: 1/1') + LIMITS) as weir, Client(weir) as client:
            client.check(kind='none')
            client.check(parent(1, '00'), kind='none')
            client.check(parent(2, '01'), kind='none')
            client.check('no traceparent', kind='none')
            self.assertEqual([one.parent for one in self.wait_for_spans(receiver, 3)], ['', PARENT, ''])

    def test_switched_by_reloads(self):
        receiver, other = self.receiver(), self.receiver()
        with Weir(LIMITS, threads=1) as weir, Client(weir) as client:
            def checksum():
                return client.ask('GET', '/v1/limits')[1]['checksum']
            client.check(parent(1), kind='none')
            self.assertEqual(counted(weir), {})
            for text, number in ((traces(receiver.url), 2), ('', 3), (traces(other.url), 4),
                                 (traces(other.url, ', timeout: 1s'), 5)):
                before = checksum()
                weir.config.write_text(text + LIMITS, encoding='utf-8')
                weir.process.send_signal(signal.SIGHUP)
                wait_for(lambda before=before: checksum() != before, 'the loop has not moved')
                client.check(parent(number), kind='none')
                if not text:  # else what is written down for the next one may go along, on a busy machine
                    self.wait_for_spans(receiver, 1)
            self.wait_for_spans(other, 2)
            # What cannot be a receiver leaves the one before.
            weir.config.write_text(traces('http://127.0.0.1:99999/') + LIMITS, encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            self.wait_for_line(weir, 'reload_failed')
            self.assertIn('traces: endpoint is no URL', weir.output())
            client.check(parent(6), kind='none')
            self.wait_for_spans(other, 3)
        self.assertEqual([one.trace for one in receiver.spans + other.spans], [trace_of(n) for n in (2, 4, 5, 6)])


class Troubles(Case):
    def test_gone_at_first_and_then_there(self):
        port = free_port()
        with Weir(traces(f'http://127.0.0.1:{port}/v1/traces') + LIMITS) as weir, Client(weir) as client:
            self.assertEqual(client.check(parent(1), kind='none')[0], 200)
            self.wait_for_line(weir, 'traces_lost')
            self.assertEqual(counted(weir)['failing'], 1)
            self.assertEqual(client.check(parent(2), kind='none')[0], 200)
            receiver = self.receiver(port)
            self.wait_for_spans(receiver, 2)
            self.wait_for_line(weir, 'traces_back')
            self.assertRegex(weir.output(), r'warn traces_lost: the receiver of traces does not take them: \S.*')
            self.assertEqual(counted(weir)['failing'], 0)
            receiver.stop()
            client.check(parent(3), kind='none')
            self.wait_for_line(weir, 'traces_lost', 2)
            receiver.start()
            self.assertEqual(sorted(one.trace for one in self.wait_for_spans(receiver, 3)),
                             [trace_of(number) for number in (1, 2, 3)])
            self.wait_for_line(weir, 'traces_back', 2)

    def test_asked_to_come_later(self):
        receiver = self.receiver()
        receiver.answers += [(503, {}, b''), (429, {'Retry-After': '1'}, b''), (502, {}, b''), (504, {}, b'')]
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            client.check(parent(1), kind='none')
            self.wait_for_spans(receiver, 1)
            self.assertEqual(receiver.statuses, [503, 429, 502, 504, 200])
            self.wait_for_line(weir, 'traces_back')
            self.assertIn('it answers 5', weir.output())
            self.assertEqual([counted(weir)[name] for name in ('sent', 'droppedlost', 'droppedrefused')], [1, 0, 0])

    def test_refused(self):
        receiver = self.receiver()
        receiver.answers += [(400, {}, b''), (302, {'Location': receiver.url}, b''), (200, {}, partial(1))]
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            for number in range(2):
                client.check(parent(number), kind='none')
                wait_for(lambda wanted=number + 1: counted(weir)['droppedrefused'] == wanted, 'it is not counted')
                self.wait_for_line(weir, 'traces_lost')
            self.assertIn('it answers 400', weir.output())
            client.check(parent(2), kind='none')
            wait_for(lambda: counted(weir)['droppedrefused'] == 3, 'a partial success is not counted')
            self.wait_for_line(weir, 'traces_back')
            client.check(parent(3), kind='none')
            self.wait_for_spans(receiver, 2)  # the one that it said it did not take, and the last
            self.assertEqual(receiver.statuses, [400, 302, 200, 200])
            wait_for(lambda: counted(weir)['sent'] == 1, 'it is not counted')

    def test_what_is_no_answer_of_otlp(self):
        receiver = self.receiver()
        receiver.answers += [(200, {}, body) for body in (b'{}', b'\x0a\xff', b'\x80' * 20, b'x' * 100000)]
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            for number in range(4):
                client.check(parent(number), kind='none')
                wait_for(lambda wanted=number + 1: counted(weir)['sent'] == wanted, 'it is not counted as sent')

    def test_a_certificate_that_nobody_vouches_for(self):
        with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
            pair = f'{folder}/pair.pem'
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                            '-days', '2', '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1',
                            '-keyout', pair, '-out', f'{folder}/certificate'], check=True, capture_output=True, timeout=60)
            with open(pair, 'a', encoding='ascii') as file, open(f'{folder}/certificate', encoding='ascii') as certificate:
                file.write(certificate.read())
            receiver = self.receiver(tls=pair)
        with Weir(traces(receiver.url) + LIMITS) as weir, Client(weir) as client:
            client.check(parent(1), kind='none')
            self.wait_for_line(weir, 'traces_lost')
            self.assertRegex(weir.output(), 'traces_lost: .*certificate')
        self.assertEqual(receiver.spans, [])

    def ask_at_once(self, weir, numbers):
        """Sampled requests, all sent before the first answer is read."""
        body = b'{"attributes":{"kind":"none"}}'
        with connect(weir.http) as sock, sock.makefile('rb') as answers:
            sock.sendall(b''.join(b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\ntraceparent: %s\r\nContent-Length: %d\r\n'
                                  b'\r\n%s' % (parent(number).encode(), len(body), body) for number in numbers))
            for _ in numbers:
                self.assertEqual(answers.readline(), b'HTTP/1.1 200 OK\r\n')
                fields = dict(line.lower().split(b': ') for line in iter(answers.readline, b'\r\n'))
                self.assertIn(b'"admitted":true', answers.read(int(fields[b'content-length'])))

    def test_slow_for_three_seconds_and_too_many(self):
        """Meanwhile all is decided; what finds no place is counted, and nothing else is missing."""
        receiver = self.receiver()
        receiver.gate.clear()
        with Weir(traces(receiver.url) + LIMITS, threads=1) as weir, Client(weir) as client:
            client.check(parent(0), kind='none')
            self.assertTrue(receiver.asked.acquire(timeout=60))
            slow_until = time.monotonic() + 3
            self.ask_at_once(weir, range(1, 2400))
            while time.monotonic() < slow_until:
                self.assertEqual(client.check(kind='none')[0], 200)
            told = counted(weir)
            self.assertEqual((told['sampled'], told['droppedfull'], told['sent']), (2400, 2400 - 1 - 2048, 0))
            receiver.gate.set()
            spans = self.wait_for_spans(receiver, 2049)
            self.assertEqual([one.trace for one in spans], [trace_of(number) for number in range(2049)])
            self.assertLessEqual(max(body.count(b'http.route') for body in receiver.bodies), 512)


class Stops(Case):
    def test_what_there_is_goes_first(self):
        receiver = self.receiver()
        with Weir(traces(receiver.url) + LIMITS, threads=2) as weir:
            for number in range(100):
                with Client(weir) as client:
                    client.check(parent(number), kind='none')
            weir.process.send_signal(signal.SIGTERM)
            weir.process.wait(60)
            self.assertIn('stopped: units unconfirmed: 0\n', weir.output())
        self.assertEqual(sorted(one.trace for one in receiver.spans), [trace_of(number) for number in range(100)])

    def test_a_silent_receiver_keeps_nobody(self):
        receiver = self.receiver()
        receiver.gate.clear()
        with Weir(traces(receiver.url, ', timeout: 500ms') + LIMITS) as weir:
            with Client(weir) as client:
                for number in range(7):
                    client.check(parent(number), kind='none')
            weir.process.send_signal(signal.SIGTERM)
            self.assertEqual(weir.process.wait(60), 0)
            self.assertIn('stopped: units unconfirmed: 0; spans unsent: 7', weir.output())

    def test_killed_and_started_again(self):
        """What it had not sent is gone; nothing else is."""
        receiver = self.receiver()
        for number in range(2):
            weir = Weir(traces(receiver.url) + LIMITS)
            self.addCleanup(weir.stop)
            with Client(weir) as client:
                client.check(parent(number), kind='none')
                self.wait_for_spans(receiver, number + 1)
            weir.process.kill()
            weir.process.wait(60)


class Shared(Case):
    """A limit that nodes share through Redis."""

    def test_round_trips_fallback_and_breaker(self):
        receiver = self.receiver()
        limit = '  - { name: api, key: [user], rate: 100/hour, sharing: exact, on_failure: open, deadline: 2s }'
        with Redis() as redis:
            text = cluster_config(limit, redis=f'servers: [ 127.0.0.1:{redis.port} ]', names='a',
                                  extra=traces(receiver.url))
            with Weir(text, arguments=('--node', 'a')) as weir, Client(weir) as client:
                client.check(parent(1), user='ada')
                span = self.wait_for_spans(receiver, 1)[0]
                self.assertEqual((span['verdict'], span['remaining'], span['engine_round_trips'], span.get('fallback'),
                                  span['breaker']), ('admitted', 99, 1, None, 'closed'))
                self.assertGreater(span.span.end_time_unix_nano, span.span.start_time_unix_nano)
                self.assertEqual(span.resource.get('service.instance.id'), 'a')
                stand_still(redis.process.pid)
                number, took_ns = 2, []

                def breaker_opens():
                    nonlocal number
                    asked_ns = time.monotonic_ns()
                    client.check(parent(number), user='ada')
                    took_ns.append(time.monotonic_ns() - asked_ns)
                    number += 1
                    return receiver.spans[-1].get('breaker') == 'open'

                wait_for(breaker_opens, 'the breaker stays closed')
                os.kill(redis.process.pid, signal.SIGCONT)
                spans = sorted(receiver.spans, key=lambda one: one.trace)
                self.assertEqual((spans[1]['verdict'], spans[1]['fallback'], spans[1]['engine_round_trips'],
                                  spans[1]['breaker']), ('admitted', 'open', 1, 'closed'))
                lasted_ns = spans[1].span.end_time_unix_nano - spans[1].span.start_time_unix_nano
                self.assertTrue(took_ns[0] / 2 < lasted_ns <= took_ns[0], (lasted_ns, took_ns[0]))  # it waited for Redis
                self.assertEqual(spans[-1]['fallback'], 'open')


if __name__ == '__main__':
    unittest.main()
