#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP as clients and proxies use it: connections, header fields, /v1/auth, tokens, metrics, TLS, drain."""
import contextlib
import hashlib
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Weir, connect, read_all, read_until, resp_encode

LIMITS = FORWARDED_NGINX + '''
limits:
  - { name: api, match: { route: /api/* }, key: [user], rate: 3/hour, algorithm: fixed_window, align: first }
  - { name: daily, match: { route: /api/* }, key: [user], rate: 1000/day, algorithm: fixed_window, align: first }
  - { name: trial, match: { route: /api/* }, key: [user], rate: 1/hour, mode: shadow }
  - { name: by-ip, match: { ip: "*" }, key: [ip], rate: 5/hour, algorithm: fixed_window, align: first }
  - { name: by-secret, match: { authorization: "*" }, key: [authorization], rate: 5/hour }
  - { name: methods, match: { method: PURGE }, key: [method], rate: 5/hour }
  - { name: closed, match: { route: /closed }, key: [], rate: 0/s }
'''
ADA = {'attributes': {'user': 'ada', 'route': '/api/x'}}


def request(method, target, body=b'', *fields):
    head = [f'{method} {target} HTTP/1.1', 'Host: localhost', *fields]
    if body:
        head.append(f'Content-Length: {len(body)}')
    return '\r\n'.join(head).encode() + b'\r\n\r\n' + body


class HttpCase(unittest.TestCase):
    config = LIMITS
    arguments = ()

    def setUp(self):
        self.weir = Weir(self.config, arguments=self.arguments)
        self.client = http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=60)

    def tearDown(self):
        self.client.close()
        self.assertEqual(self.weir.stop(), 0)

    def ask(self, method, target, body=None, **fields):
        """(status, header fields, body) on a connection that is kept."""
        self.client.request(method, target, body, {k.replace('_', '-'): v for k, v in fields.items()})
        answer = self.client.getresponse()
        return answer.status, answer.headers, answer.read()

    def check(self, question, **fields):
        status, head, body = self.ask('POST', '/v1/check', json.dumps(question), **fields)
        return status, head, json.loads(body)


class Connections(HttpCase):
    def test_kept_and_closed(self):
        for _ in range(3):
            self.assertEqual(self.check({})[0], 200)
        sock = self.client.sock
        self.assertEqual(self.check({})[0], 200)
        self.assertIs(self.client.sock, sock, 'the connection was kept')
        with connect(self.weir.http) as other:
            other.sendall(request('GET', '/healthz', b'', 'Connection: close'))
            self.assertIn(b'Connection: close\r\n', read_all(other))

    def test_http_1_0(self):
        with connect(self.weir.http) as sock:
            sock.sendall(b'GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n')
            self.assertIn(b'Connection: keep-alive', read_until(sock, b'ok\n'))
            sock.sendall(b'GET /healthz HTTP/1.0\r\n\r\n')
            self.assertTrue(read_all(sock).endswith(b'ok\n'))

    def test_pipelined(self):
        count = 500
        asked = b''.join(request('GET', f'/v1/auth?n={i}', b'', 'X-Original-URI: /', 'X-Original-Method: GET',
                                 f'X-Real-IP: 192.0.2.{i % 100}') for i in range(count - 1))
        with connect(self.weir.http) as sock:
            sock.sendall(asked + request('GET', '/healthz', b'', 'Connection: close'))
            data = read_all(sock)
        statuses = re.findall(rb'HTTP/1\.1 (\d+)', data)
        self.assertEqual(statuses, [b'200'] * count)
        self.assertTrue(data.endswith(b'ok\n'))
        remaining = [int(n) for n in re.findall(rb'X-RateLimit-Remaining: (\d+)', data)]
        self.assertEqual(remaining, [4 - i // 100 for i in range(count - 1)], 'answers come in the order of requests')

    def test_fragments(self):
        data = request('POST', '/v1/check', json.dumps(ADA).encode()) + request('GET', '/healthz')
        for size in (1, 2, 7, 50):
            with self.subTest(size=size), connect(self.weir.http) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(0, len(data), size):
                    sock.sendall(data[at:at + size])
                self.assertTrue(read_until(sock, b'ok\n').endswith(b'ok\n'))

    def test_expect_continue(self):
        body = json.dumps(ADA).encode()
        with connect(self.weir.http) as sock:
            sock.sendall(request('POST', '/v1/check', b'', 'Expect: 100-continue', f'Content-Length: {len(body)}'))
            self.assertEqual(read_until(sock, b'\r\n\r\n'), b'HTTP/1.1 100 Continue\r\n\r\n')
            sock.sendall(body)
            self.assertTrue(read_until(sock, b'\r\n\r\n').startswith(b'HTTP/1.1 200 OK'))

    def test_head(self):
        length = self.ask('GET', '/healthz')[1]['Content-Length']
        status, head, body = self.ask('HEAD', '/healthz')
        self.assertEqual((status, head['Content-Length'], body), (200, length, b''))
        self.assertEqual(self.ask('HEAD', '/metrics')[0], 200)
        self.assertEqual(self.ask('GET', '/healthz')[2], b'ok\n', 'nothing of the HEADs was left over')

    def test_problems(self):
        for method, target, status in (('GET', '/nowhere', 404), ('GET', '/v1/check', 405), ('POST', '/metrics', 405)):
            with self.subTest(target=target):
                got, head, body = self.ask(method, target)
                self.assertEqual((got, head['Content-Type']), (status, 'application/problem+json'))
                self.assertEqual(json.loads(body)['status'], status)
                self.assertEqual('Allow' in head, status == 405)
                self.assertIn({'/nowhere': 'no such path', '/v1/check': 'asked with POST', '/metrics': 'GET or HEAD'}[target],
                              body.decode())

    def test_curl(self):
        """The line of the README, word for word but the port."""
        statuses = []
        for _ in range(4):
            out = subprocess.run(['curl', '-si', f'localhost:{self.weir.http}/v1/check', '-d', json.dumps(ADA)],
                                 capture_output=True, text=True, timeout=60, check=True).stdout
            statuses.append(out.split()[1])
        self.assertEqual(statuses, ['200', '200', '200', '429'])
        self.assertIn('Retry-After: ', out)


class Verdicts(HttpCase):
    def test_fields_and_body(self):
        status, head, verdict = self.check(ADA)
        self.assertEqual(status, 200)
        self.assertEqual(head['Content-Type'], 'application/json')
        self.assertEqual(head['Cache-Control'], 'no-store')
        self.assertEqual(head['RateLimit-Policy'], '"api";q=3;w=3600, "daily";q=1000;w=86400')
        self.assertEqual(head['RateLimit'], '"api";r=2;t=3600, "daily";r=999;t=86400')
        self.assertEqual([head[f'X-RateLimit-{name}'] for name in ('Limit', 'Remaining', 'Reset')], ['3', '2', '3600'])
        self.assertNotIn('Retry-After', head)
        self.assertEqual({k: verdict[k] for k in ('admitted', 'limit', 'remaining', 'retry_after_ms', 'delay_ms')},
                         {'admitted': True, 'limit': 'api', 'remaining': 2, 'retry_after_ms': 0, 'delay_ms': 0})
        self.assertEqual([limit['limit'] for limit in verdict['limits']], ['api', 'daily', 'trial'])
        self.assertTrue(verdict['limits'][2]['shadow'])

    def test_refusal(self):
        for _ in range(3):
            self.assertEqual(self.check(ADA)[0], 200)
        status, head, verdict = self.check(ADA)
        self.assertEqual(status, 429)
        self.assertEqual(head['Content-Type'], 'application/problem+json')
        self.assertEqual(verdict['type'], 'https://iana.org/assignments/http-problem-types#quota-exceeded')
        self.assertEqual(verdict['violated-policies'], ['api'])
        self.assertEqual((verdict['admitted'], verdict['limit']), (False, 'api'))
        wait = verdict['retry_after_ms']
        self.assertTrue(3590000 < wait <= 3600000, wait)
        self.assertEqual(int(head['Retry-After']), -(-wait // 1000))
        self.assertGreaterEqual(int(head['Retry-After']), int(re.search(r'"api";r=0;t=(\d+)', head['RateLimit'])[1]))
        self.assertIn('"daily";r=997', head['RateLimit'], 'the other limit was not charged')
        self.assertNotIn('detail', verdict)

    def test_never(self):
        status, head, verdict = self.check({**ADA, 'cost': 4})
        self.assertEqual((status, verdict['retry_after_ms'], verdict['remaining']), (429, -1, 3))
        self.assertEqual(verdict['detail'], 'the request costs more than a limit can ever admit at once: no wait helps')
        self.assertNotIn('Retry-After', head)
        self.assertEqual(self.check({'attributes': {'route': '/closed'}})[2]['retry_after_ms'], -1)

    def test_peek_and_cost(self):
        self.assertEqual(self.check({**ADA, 'cost': 3, 'peek': True})[2]['remaining'], 3)
        self.assertEqual(self.check({**ADA, 'cost': 0})[2]['remaining'], 3)
        self.assertEqual(self.check({**ADA, 'cost': 2})[2]['remaining'], 1)
        self.assertEqual(self.check({**ADA, 'cost': 2, 'peek': True})[0], 429)

    def test_no_limit_applies(self):
        status, head, verdict = self.check({'attributes': {'user': 'ada'}})
        self.assertEqual((status, verdict['admitted'], verdict['limit'], verdict['limits']), (200, True, None, []))
        self.assertNotIn('RateLimit', head)

    def test_many_at_once_are_counted_exactly(self):
        import concurrent.futures

        def one(_):
            with connect(self.weir.http) as sock:
                sock.sendall(request('POST', '/v1/check', json.dumps(ADA).encode(), 'Connection: close'))
                return int(read_all(sock).split(b' ')[1])
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            statuses = list(pool.map(one, range(200)))
        self.assertEqual((statuses.count(200), statuses.count(429)), (3, 197))


class Auth(HttpCase):
    """As nginx asks. tests/live/test_recipes.py has the proxies themselves."""

    def auth(self, query='', **fields):
        """Fields beside what nginx says, or instead of it."""
        fields = {**NGINX_FIELDS, **{name.replace('_', '-'): value for name, value in fields.items()}}
        status, head, body = self.ask('GET', '/v1/auth' + query, **fields)
        self.assertEqual(body if status in (200, 403, 429) else b'', b'')
        return status, head

    def api(self, query='', **fields):
        return self.auth(query, **{'X-Original-URI': '/api/x', **fields})

    def metric(self, name):
        return int(re.search(rf'^{name} (\d+)$', self.ask('GET', '/metrics')[2].decode(), re.M)[1])

    def test_attributes_of_the_query_string(self):
        self.assertIn('"api";r=2', self.api('?user=a%20b')[1]['RateLimit'])
        self.assertIn('"api";r=1', self.api('?user=a+b')[1]['RateLimit'])
        self.assertEqual(self.auth('?user=%')[0], 400)
        self.assertEqual(self.auth('?user=%4')[0], 400)
        self.assertEqual(self.auth('?deny=500')[0], 400)
        self.assertEqual(self.auth('?' + '&'.join(f'a{i}' for i in range(65)))[0], 400)
        self.assertEqual(self.auth('?user=a&user=b')[0], 400)

    def test_attributes_of_fields(self):
        self.assertIn('"api";r=2', self.auth(X_WEIR_USER='ada', X_Original_URI='/api/y?z=1')[1]['RateLimit'])
        self.assertIn('"api";r=1', self.auth(X_Weir_User='ada', X_Original_URI='/%61pi/%79')[1]['RateLimit'])

    def test_the_query_string_wins(self):
        """A client's own field cannot change what the proxy's configuration says."""
        for _ in range(3):
            self.api('?user=ada', X_Weir_User='somebody-else')
        self.assertEqual(self.api('?user=ada', X_Weir_User='yet-another')[0], 429)

    def test_what_a_client_claims_of_reserved_names_is_ignored_and_counted(self):
        claims = {'X-Weir-Route': '/other', 'X-Weir-Method': 'GET', 'X-Weir-Ip': '203.0.113.9', 'X-Weir-Cost': '0',
                  'X-Weir-Authorization': 'x', 'X-Forwarded-Uri': '/other', 'X-Forwarded-Method': 'GET',
                  'X-Forwarded-For': '203.0.113.9'}
        for i in range(3):
            claims['X-Weir-Ip'] = claims['X-Forwarded-For'] = f'203.0.113.{i}'
            self.assertIn(f'"api";r={2 - i}', self.api('?user=ada', **claims)[1]['RateLimit'])
        self.assertEqual(self.api('?user=ada&route=/other&ip=203.0.113.9&cost=0', **claims)[0], 429)
        self.assertEqual(self.metric('weir_auth_claims_ignored_total'), 4 * 7 + 3)
        for i in range(2):
            self.assertEqual(self.auth(**claims)[0], 200)
        claims['X-Weir-Ip'] = '203.0.113.77'
        self.assertEqual(self.auth(**claims)[0], 429, 'by-ip was bypassed')

    def test_what_the_proxy_must_say_is_missing_or_there_twice(self):
        for name in NGINX_FIELDS:
            fields = {other: value for other, value in NGINX_FIELDS.items() if other != name}
            status, _, body = self.ask('GET', '/v1/auth', **fields)
            self.assertEqual((status, 'X-Original-Method' in json.loads(body)['detail']), (400, True))
            said = [f'{other}: {value}' for other, value in NGINX_FIELDS.items()]
            with connect(self.weir.http) as sock:
                sock.sendall(request('GET', '/v1/auth', b'', f'{name}: /other', *said, 'Connection: close'))
                self.assertIn(b' 400 ', read_all(sock)[:20])
        self.assertEqual(self.metric('weir_auth_refused_total'), 6)

    def test_spellings_of_a_path_are_one_path(self):
        for i, path in enumerate(('//api/x', '/o/../api/x', '/%2e/x%2f..%2fapi/x')):
            self.assertIn(f'"api";r={2 - i}', self.api('?user=ada', X_Original_URI=path)[1]['RateLimit'])
        self.assertEqual(self.api('?user=ada', X_Original_URI='/./api/x')[0], 429)

    def test_odd_paths_are_refused_where_told_to(self):
        self.weir.config.write_text(LIMITS.replace('forwarded: nginx', 'forwarded: nginx, path: refuse'), encoding='utf-8')
        self.weir.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while self.auth(X_Original_URI='//api/x')[0] != 400:  # a loop moves to the new file by itself
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        for path in ('//api/x', '/o/../api/x', '/api%2fx', '/api%5Cx', '/api\\x', '/api;x', '/api%00', '/api%252fx'):
            with self.subTest(path=path):
                self.assertEqual(self.auth(X_Original_URI=path)[0], 400)
        self.assertEqual(self.api(X_Original_URI='/%61pi/x?a=//')[0], 200)

    def test_each_method_has_its_limit(self):
        self.assertIn('"methods";r=4', self.auth(X_Original_Method='PURGE')[1]['RateLimit'])

    def test_authorization_is_hashed(self):
        secret = 'Basic YWRhOnNlY3JldA=='
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self.assertIn('"by-secret";r=4', self.auth(Authorization=secret)[1]['RateLimit'])
        answer = self.ask('POST', '/v1/check', json.dumps({'attributes': {'authorization': digest}}))
        self.assertIn('"by-secret";r=3', answer[1]['RateLimit'])
        self.assertNotIn('by-secret', self.auth('?authorization=' + digest)[1]['RateLimit'] or '')

    def test_deny_403(self):
        statuses = [self.api('?deny=403&user=ada') for _ in range(4)]
        self.assertEqual([status for status, _ in statuses], [200, 200, 200, 403])
        self.assertIn('Retry-After', statuses[3][1])

    def test_any_method_and_body(self):
        for method in ('GET', 'HEAD', 'POST', 'PUT', 'DELETE'):
            body = b'x' if method == 'POST' else None
            self.assertEqual(self.ask(method, '/v1/auth', body, **NGINX_FIELDS)[0], 200)


class NoProxy(HttpCase):
    config = LIMITS.replace(FORWARDED_NGINX, '')

    def test_auth_is_not_served_and_says_what_to_set(self):
        """What an upgrade sees that says nothing of `forwarded`."""
        status, _, body = self.ask('GET', '/v1/auth?user=ada', **NGINX_FIELDS)
        self.assertEqual(status, 404)
        self.assertIn('forwarded: nginx', json.loads(body)['detail'])
        self.assertIn('weir_auth_unserved_total 1\n', self.ask('GET', '/metrics')[2].decode())
        self.assertIn('no proxy can ask at /v1/auth', self.weir.output())


class Tokens(HttpCase):
    config = '''
auth:
  required: always
  tokens:
    - { name: app, secret: "0123456789abcdef-app", rights: [check] }
    - { name: watch, secret: "0123456789abcdef-watch", rights: [metrics] }
''' + LIMITS

    def test_tokens(self):
        status, head, _ = self.ask('POST', '/v1/check', '{}')
        self.assertEqual((status, head['WWW-Authenticate']), (401, 'Bearer realm="weir"'))
        for token, status in (('0123456789abcdef-app', 200), ('0123456789abcdef-ap', 401), ('', 401),
                              ('0123456789abcdef-watch', 403)):
            with self.subTest(token=token):
                self.assertEqual(self.ask('POST', '/v1/check', '{}', Authorization=f'Bearer {token}')[0], status)
        status, _, body = self.ask('GET', '/metrics')
        self.assertEqual(status, 401)
        self.assertIn(b'Authorization: Bearer TOKEN', body)
        _, _, body = self.ask('GET', '/metrics', Authorization='Bearer 0123456789abcdef-app')
        self.assertIn(b'lacks the right to that: metrics', body)
        self.assertEqual(self.ask('GET', '/metrics', Authorization='bearer 0123456789abcdef-watch')[0], 200)
        self.assertEqual(self.ask('GET', '/healthz')[0], 200)
        self.assertEqual(self.ask('GET', '/readyz')[0], 200)

    def test_a_proxy_shows_its_token_beside_its_clients_authorization(self):
        status, head, _ = self.ask('GET', '/v1/auth', **NGINX_FIELDS, Authorization='Bearer of-the-client',
                                   X_Weir_Token='0123456789abcdef-app')
        self.assertEqual(status, 200)
        self.assertIn('"by-secret";r=4', head['RateLimit'])
        status, head, _ = self.ask('GET', '/v1/auth', **NGINX_FIELDS, Authorization='Bearer 0123456789abcdef-app')
        self.assertEqual(status, 200)
        self.assertNotIn('by-secret', head['RateLimit'], 'its own token is no attribute')


class TokensOnLoopback(HttpCase):
    config = Tokens.config.replace('required: always', 'required: auto')

    def test_a_proxys_client_shows_a_bearer_that_is_none_of_ours(self):
        """Traefik hands Authorization on: what is not asked for is not judged, it is an attribute."""
        status, head, _ = self.ask('GET', '/v1/auth', **NGINX_FIELDS, Authorization='Bearer of-the-client')
        self.assertEqual(status, 200)
        self.assertIn('"by-secret";r=4', head['RateLimit'])


class Metrics(HttpCase):
    def metrics(self):
        """{name and labels: value}; every sample belongs to the metric announced before it."""
        status, head, body = self.ask('GET', '/metrics')
        self.assertEqual((status, head['Content-Type']), (200, 'text/plain; version=0.0.4; charset=utf-8'))
        samples, metric = {}, None
        for line in body.decode().splitlines():
            if line.startswith('# TYPE '):
                metric = line.split(' ')[2]
            elif not line.startswith('#'):
                match = re.fullmatch(r'(([a-z_]+)(?:\{[^{}]*\})?) ([0-9.]+)', line)
                self.assertTrue(match and match[2].startswith(metric), line)
                self.assertNotIn(match[1], samples)
                samples[match[1]] = float(match[3])
        return samples

    def test_what_was_done_is_counted(self):
        for _ in range(4):
            self.check(ADA)
        self.check({**ADA, 'cost': 9})
        self.check({**ADA, 'peek': True})
        with connect(self.weir.resp) as sock:
            for _ in range(3):
                sock.sendall(resp_encode('CL.THROTTLE', 'k', 1, 1, 60))
            read_until(sock, b':1\r\n:2\r\n:0\r\n:60\r\n')
        got = self.metrics()
        self.assertEqual({name: got[f'weir_decisions_total{{limit="{limit}",verdict="{verdict}"}}']
                          for name, limit, verdict in (('a', 'api', 'admitted'), ('r', 'api', 'refused'),
                                                       ('n', 'api', 'never'), ('s', 'trial', 'shadow_refused'),
                                                       ('ta', 'CL.THROTTLE', 'admitted'),
                                                       ('tr', 'CL.THROTTLE', 'refused'))},
                         {'a': 3, 'r': 1, 'n': 1, 's': 4, 'ta': 2, 'tr': 1})
        self.assertEqual(got['weir_request_seconds_count{protocol="http"}'], 6)
        self.assertEqual(got['weir_request_seconds_bucket{protocol="http",le="+Inf"}'], 6)
        self.assertEqual(got['weir_requests_total{protocol="resp"}'], 3)
        self.assertEqual(got['weir_table_evicted_total'], 0)
        self.assertGreater(got['weir_table_memory_bytes'], 0)
        self.assertGreaterEqual(got['weir_connections'], 1)

    def test_no_label_comes_from_a_request(self):
        for i in range(50):
            self.check({'attributes': {'user': f'user-{i}', 'route': f'/api/{i}', 'strange-attribute': 'x'}})
            self.ask('GET', f'/nowhere/{i}')
        text = self.ask('GET', '/metrics')[2].decode()
        self.assertNotIn('user-', text)
        self.assertNotIn('strange', text)
        self.assertNotIn('nowhere', text)

    def test_counters_survive_a_reload(self):
        self.check(ADA)
        self.weir.config.write_text(LIMITS.replace('3/hour', '5/hour') + '  - { name: new, key: [x], rate: 1/s }\n')
        self.weir.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while self.metrics().get('weir_limits') != 8:
            self.assertLess(time.monotonic(), deadline, self.weir.output())
            time.sleep(0.02)
        self.check(ADA)
        got = self.metrics()
        self.assertEqual(got['weir_decisions_total{limit="api",verdict="admitted"}'], 2)
        self.assertEqual(got['weir_decisions_total{limit="new",verdict="admitted"}'], 0)


class ManyLimits(HttpCase):
    config = 'server: { output_bytes_max: 64KiB }\nlimits:\n' + ''.join(
        f'  - {{ name: limit-{i}, match: {{ n: "{i}" }}, key: [user], rate: 10/hour }}\n' for i in range(3000))

    def test_metrics_longer_than_the_output_bound(self):
        status, head, body = self.ask('GET', '/metrics')
        self.assertEqual((status, int(head['Content-Length'])), (200, len(body)))
        self.assertGreater(len(body), 1 << 18)
        self.assertIn(b'weir_decisions_total{limit="limit-2999",verdict="refused"} 0\n', body)
        with connect(self.weir.http) as sock:  # and what was asked behind it is answered behind it
            sock.sendall(request('GET', '/metrics') + request('GET', '/healthz', b'', 'Connection: close'))
            self.assertTrue(read_all(sock, 16 << 20).endswith(b'\r\n\r\nok\n'))


class Drain(HttpCase):
    config = LIMITS + '''
  - { name: turn, match: { queue: q }, key: [queue], rate: 12/min, burst: 5, algorithm: leaky_bucket, throttle: hold,
      hold_timeout: 10s }
'''

    def test_not_ready_while_draining(self):
        """A held request keeps the server draining; a connection that had begun its question is told 503."""
        body = json.dumps({'attributes': {'queue': 'q'}}).encode()
        with connect(self.weir.http) as held:
            held.sendall(request('POST', '/v1/check', body) * 2 + request('GET', '/readyz'))
            self.assertTrue(read_until(held, b'"delay_ms":0}]}').startswith(b'HTTP/1.1 200'))
            self.weir.process.terminate()
            rest = read_all(held)
        self.assertTrue(rest.startswith(b'HTTP/1.1 200'), rest)
        self.assertIn(b'HTTP/1.1 503 Service Unavailable', rest)
        self.assertTrue(rest.endswith(b'draining\n'))
        self.assertEqual(self.weir.process.wait(60), 0)


class Tls(unittest.TestCase):
    def test_https(self):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='weir-live-')))
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                            '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost',
                            '-keyout', folder / 'key.pem', '-out', folder / 'cert.pem'], check=True, capture_output=True)
            weir = stack.enter_context(Weir(f'tls: {{ cert: {folder}/cert.pem, key: {folder}/key.pem }}\n' + LIMITS))
            context = ssl.create_default_context(cafile=folder / 'cert.pem')
            client = stack.enter_context(contextlib.closing(
                http.client.HTTPSConnection('localhost', weir.http, timeout=60, context=context)))
            statuses = []
            for _ in range(4):
                client.request('POST', '/v1/check', json.dumps(ADA))
                answer = client.getresponse()
                answer.read()
                statuses.append(answer.status)
            self.assertEqual(statuses, [200, 200, 200, 429])


if __name__ == '__main__':
    unittest.main()
