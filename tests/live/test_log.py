#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the operator hears: one line for each change of state, with its time and level, in text or JSON, and nothing per
request. Every event that docs/log.md names is one that the source writes, and the other way round."""
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from redis_server import Redis, wait_for
from weir_server import BUILD, Resp, Weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r'^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (error|warn|info) ([a-z_]+): (.*)$', re.M)
LIMIT = '{ name: api, key: [user], rate: 1000/hour, sharing: exact, deadline: 5s }'


def engine(port, more=''):
    return f'''
cluster_secret: 00112233445566778899aabbccddeeff
engine: {{ redis: {{ servers: [ 127.0.0.1:{port} ] }} }}
{more}
limits: [ {LIMIT} ]
'''


def events(weir):
    return [match[3] for match in LINE.finditer(weir.output())]


def message(weir, event):
    return next((match[4] for match in LINE.finditer(weir.output()) if match[3] == event), None)


class Log(unittest.TestCase):
    def hears(self, weir, event):
        wait_for(lambda: event in events(weir), f'{event} was not told: {events(weir)}')
        return message(weir, event)

    def test_an_engine_lost_and_back_is_told_once_each_and_no_request_is(self):
        with Redis() as redis, Weir(engine(redis.port)) as weir, Resp(weir.resp) as client:
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
            redis.kill()
            for _ in range(300):
                client.ask('WEIR.CHECK', 1, 'user', 'secret-user-name')
            self.assertIn('127.0.0.1', self.hears(weir, 'engine_lost'))
            self.hears(weir, 'breaker_open')
            self.assertIn('api: ', self.hears(weir, 'fallback_local_begun'))
            redis.start()
            self.hears(weir, 'engine_back')
            self.hears(weir, 'engine_state_lost')
            told = events(weir)
            for event in 'engine_lost', 'engine_back', 'fallback_local_begun', 'engine_state_lost':
                self.assertEqual(told.count(event), 1, told)
            self.assertLess(len(told), 20)
            self.assertNotIn('secret-user-name', weir.output())

    def test_what_a_batched_key_that_left_had_not_told_the_engine_is_told(self):
        text = LIMIT.replace('exact', 'batched, slack: 500, interval: 60s')
        with Redis() as redis, Weir(engine(redis.port).replace(LIMIT, text)) as weir, Resp(weir.resp) as client:
            def owes():
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
                time.sleep(0.2)  # what is told of it is up to 100 ms old
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/nodes', timeout=30) as answer:
                    return json.loads(answer.read())['sharing']['unsettled'] > 0
            wait_for(owes, 'each unit is confirmed at once')
            redis.kill()
            self.reload(weir, engine(redis.port).replace('api', 'other'))
            wait_for(lambda: 'sharing_untold_begun' in events(weir), 'it was not told', 60)  # after ten seconds
            self.assertRegex(message(weir, 'sharing_untold_begun'), r'did not confirm them in time.* \([1-9]\d* so far\)$')
            with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/metrics', timeout=30) as answer:
                self.assertRegex(answer.read().decode(), r'(?m)^weir_sharing_untold_total [1-9]\d*$')

    def test_a_stop_tells_what_batched_keys_had_not_told_the_engine(self):
        text = LIMIT.replace('exact', 'batched, slack: 500, interval: 60s')
        with Redis() as redis, Weir(engine(redis.port).replace(LIMIT, text)) as weir, Resp(weir.resp) as client:
            def owes():
                self.assertEqual(client.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 1)
                time.sleep(0.2)
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/nodes', timeout=30) as answer:
                    return json.loads(answer.read())['sharing']['unsettled'] > 0
            wait_for(owes, 'each unit is confirmed at once')
            redis.kill()
            weir.process.send_signal(signal.SIGTERM)
            weir.process.wait(60)
            self.assertRegex(message(weir, 'stopped'), r'units unconfirmed: [1-9]\d*$')

    def test_start_drain_and_stop_are_told_with_their_time(self):
        with Weir() as weir:
            wait_for(lambda: 'started' in events(weir), 'the start was not told')
            weir.process.send_signal(signal.SIGTERM)
            weir.process.wait(60)
            self.assertEqual(events(weir), ['started', 'draining', 'stopped'])
            self.assertIn('SIGTERM', message(weir, 'draining'))
            told = datetime.datetime.strptime(LINE.search(weir.output())[1], '%Y-%m-%dT%H:%M:%S.%f%z')
            self.assertLess(abs((datetime.datetime.now(datetime.timezone.utc) - told).total_seconds()), 600)

    def test_a_reload_that_fails_says_where_and_one_that_works_names_what_it_did_not_take(self):
        with Redis() as redis, Weir(engine(redis.port)) as weir:
            weir.config.write_text(engine(redis.port).replace('1000/hour', '1000'), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            self.assertRegex(self.hears(weir, 'reload_failed'), r'old limits stay in force: .*weir\.yaml:5:\d+: rate')
            weir.config.write_text(engine(1, 'threads: 7\ntable: { memory: 1MiB, skew_max: 2s }\n'
                                             'log: { format: json }'), encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            wait_for(lambda: '"reloaded"' in weir.output(), 'no line in JSON')
            line = next(json.loads(line) for line in weir.output().splitlines() if '"reloaded"' in line)
            self.assertEqual((line['level'], line['event']), ('info', 'reloaded'))
            self.assertEqual(line['message'].split(': ')[-1],
                             'table.memory, table.skew_max, threads, engine.redis')

    def reload(self, weir, text):
        """The line that says what came of it."""
        before = events(weir).count('reloaded')
        weir.config.write_text(text, encoding='utf-8')
        weir.process.send_signal(signal.SIGHUP)
        wait_for(lambda: events(weir).count('reloaded') > before, 'no reload is told')
        return [match[4] for match in LINE.finditer(weir.output()) if match[3] == 'reloaded'][-1]

    def test_a_reload_says_what_each_limit_was_and_is(self):
        head = 'cluster: { nodes: [ a, b ], node: a }\nlimits:\n'
        limits = {'api': 'key: [user], rate: 100/min, sharing: split', 'old': 'rate: 5/s, sharing: split',
                  'same': 'rate: 6/s, sharing: split', 'some': 'key: [user], rate: 7/s, sharing: split',
                  'window': 'rate: 8/day, algorithm: fixed_window, sharing: split'}

        def text():
            return head + ''.join(f'  - {{ name: {name}, {rest} }}\n' for name, rest in limits.items())
        with Weir(text()) as weir:
            def told():
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/limits', timeout=60) as answer:
                    return json.loads(answer.read())
            first = told()
            self.assertEqual({limit['since'] for limit in first['limits']}, {first['since']})
            self.assertRegex(self.reload(weir, text() + '# as before\n'), r'^node a: 5 limits of [^;]+(; \d warning.*)?$')
            self.assertEqual({limit['since'] for limit in told()['limits']}, {first['since']})
            del limits['old']
            limits |= {'api': 'key: [user], rate: 200/min, burst: 20, sharing: split',
                       'some': 'key: [user], rate: 7/s, sharing: split, overrides: [ { user: secret-user, rate: 8/s } ]',
                       'window': 'rate: 9/month, mode: shadow, sharing: split', 'new': 'rate: 1/s, sharing: split'}
            line = self.reload(weir, text())
            self.assertIn('; changed: api 100/min -> 200/min burst 20, some (overrides), window fixed_window 8/day -> '
                          'token_bucket 9/month in shadow, new came (1/s), old went (5/s); on this node alone until '
                          'the others are reloaded: api, some, window, new, old', line)
            second = told()
            self.assertEqual(second['reloads']['said'], line.removeprefix('node a: '))
            self.assertEqual({limit['limit']: limit['since'] == second['since'] for limit in second['limits']},
                             {'api': True, 'some': True, 'window': True, 'new': True, 'same': False})
            limits['same'] += ', cost: 2'
            self.assertIn('; changed: same (other settings); on', self.reload(weir, text()))
            self.assertNotIn('secret-user', weir.output())

    def test_a_reload_of_very_many_limits_names_some_and_counts_the_rest(self):
        def text(rate):
            return 'limits:\n' + ''.join(f'  - {{ name: {i:04}{"x" * 4 * (i % 2)}, match: {{ user: u{i} }}, rate: {rate} }}\n'
                                            for i in range(999))
        with Weir(text('5/s')) as weir:
            line = self.reload(weir, text('6/s'))
            self.assertEqual(line.count('->'), 10)
            self.assertRegex(line, r'changed: 0000 5/s -> 6/s, 0001xxxx 5/s .* and 989 more$')
            self.assertLess(len(line), 600)
            self.assertRegex(self.reload(weir, 'limits: []\n'), r'changed: 0000 went \(6/s\), .* and 989 more$')

    def test_a_plain_start_is_by_start_when_the_engine_has_its_numbers_too(self):
        with Redis() as redis, Weir(engine(redis.port)) as weir:
            def told():
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/v1/limits', timeout=60) as answer:
                    return json.loads(answer.read())
            since = told()['since']
            wait_for(lambda: told()['limits'][0].get('revision'), 'no revision is known')
            self.assertEqual((told()['by'], told()['since']), ('start', since))
            self.reload(weir, engine(redis.port).replace('1000/hour', '2000/hour'))
            revision = told()['limits'][0].get('revision')
            wait_for(lambda: (told()['limits'][0].get('revision') or 0) > 1, f'the change has no number: {revision}')
            self.assertEqual(told()['by'], 'SIGHUP')

    def test_a_reload_waits_for_no_pipe(self):
        """Nobody writes to it: whoever opens it waits, and would hear no SIGTERM."""
        secret = '0123456789abcdef0123456789abcdef'
        with tempfile.TemporaryDirectory(prefix='weir-live-') as folder:
            pipe = pathlib.Path(folder, 'pipe')
            os.mkfifo(pipe)
            for end in os.openpty():
                self.addCleanup(os.close, end)
            lines = {'itself': None, 'token': f'auth: {{ tokens: [ {{ name: a, secret_file: {pipe} }} ] }}\n',
                     'certificate': f'tls: {{ cert: {pipe}, key: {pipe} }}\n'}
            terminal = os.ttyname(end)
            lines['terminal'] = f'tls: {{ cert: {terminal}, key: {terminal} }}\n'
            for name, line in lines.items():
                with self.subTest(name), Weir(f'cluster_secret: {secret}\nlimits: []\n') as weir:
                    if line:
                        weir.config.write_text(f'cluster_secret: {secret}\nlimits: []\n{line}', encoding='utf-8')
                    else:
                        weir.config.unlink()
                        os.mkfifo(weir.config)
                    weir.process.send_signal(signal.SIGHUP)
                    self.assertIn('it is not a regular file', self.hears(weir, 'reload_failed'))

    def test_a_pipe_is_a_configuration_at_the_start(self):
        ours, theirs = os.pipe()
        os.write(theirs, b'limits: []\n')
        os.close(theirs)
        with Weir(None, arguments=('--config', '/dev/stdin'), stdin=ours) as weir:
            os.close(ours)
            weir.process.send_signal(signal.SIGHUP)
            self.assertIn('it is not a regular file', self.hears(weir, 'reload_failed'))

    def test_whom_no_limit_counts_is_told(self):
        limit = '{ name: api, match: { route: /api/* }, key: [user], rate: 9/s }'
        with Weir(f'limits: [ {limit} ]\n') as weir, Resp(weir.resp) as client:
            for _ in range(50):
                client.ask('WEIR.CHECK', 1, 'rout', '/api/x', 'user', 'ada')
                client.ask('WEIR.CHECK', 1, 'route', '/api/x', 'usr', 'ada')
            self.hears(weir, 'unmatched_admitted_begun')
            self.assertTrue(self.hears(weir, 'missing_skipped_begun').startswith('api: '))
            self.assertEqual(len(events(weir)), 3, events(weir))

    def test_what_a_proxy_does_not_send_is_named(self):
        with Weir('limits: []\nlisten: { http: { forwarded: nginx } }\n') as weir:
            question = urllib.request.Request(f'http://127.0.0.1:{weir.http}/v1/auth',
                                              headers={'X-Original-URI': '/secret-path', 'X-Original-Method': 'GET'})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(question, timeout=60)
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()
            self.assertIn('X-Real-IP is missing', self.hears(weir, 'auth_refused_begun'))
            self.assertNotIn('secret-path', weir.output())

    def test_the_level_is_as_configured(self):
        with Weir('log: { level: warn }\nlimits: []\n') as weir:
            weir.config.write_text('limits: [', encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            self.hears(weir, 'reload_failed')
            weir.process.send_signal(signal.SIGTERM)
            weir.process.wait(60)
            self.assertEqual(events(weir), ['reload_failed'])

    def test_what_is_in_force_and_that_a_reload_failed_can_be_asked(self):
        with Weir('limits: [ { name: api, key: [user], rate: 5/min, missing: share } ]\n') as weir:
            def get(path):
                with urllib.request.urlopen(f'http://127.0.0.1:{weir.http}{path}', timeout=60) as answer:
                    return answer.read().decode()
            first = json.loads(get('/v1/limits'))
            self.assertEqual((first['source'], first['by'], first['reloads']['failed']), (str(weir.config), 'start', 0))
            self.assertEqual(first['limits'][0].pop('since'), first['since'])
            self.assertEqual(first['limits'], [{'limit': 'api', 'algorithm': 'token_bucket', 'mode': 'enforce',
                                                'rate': '5/min', 'capacity': 5, 'missing': 'share', 'key': ['user'], 'match': {},
                                                'count': 5, 'period_ms': 60000, 'cost': 1, 'overrides': 0}])
            weir.config.write_text('limits: [ { name: api, rate: 6 } ]\n', encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            self.hears(weir, 'reload_failed')
            failed = json.loads(get('/v1/limits'))
            self.assertIn('weir.yaml:1:', failed['reloads'].pop('said'))
            self.assertEqual((failed['reloads']['failed'], failed['reloads']['last_failed']), (1, True))
            self.assertEqual(failed['limits'][0].pop('since'), first['since'])
            self.assertEqual((failed['checksum'], failed['limits']), (first['checksum'], first['limits']))
            self.assertRegex(get('/readyz?verbose'), r'^ready\n1 limit, in force since .*Z by start\n'
                                                     r'the last reload failed, at .*Z; GET /v1/limits says why\n$')
            self.assertEqual(get('/readyz'), 'ready\n')
            self.assertIn('\nweir_reload_last_failed 1\n', get('/metrics'))
            weir.config.write_text('limits: [ { name: api, rate: 6/min } ]\n', encoding='utf-8')
            weir.process.send_signal(signal.SIGHUP)
            self.hears(weir, 'reloaded')
            mended = json.loads(get('/v1/limits'))
            self.assertEqual((mended['by'], mended['reloads']['last_failed']), ('SIGHUP', False))
            self.assertNotEqual(mended['checksum'], first['checksum'])
            self.assertNotIn('failed', get('/readyz?verbose'))

    def test_explain_explains_what_is_in_force(self):
        limits = 'limits: [ { name: mine, key: [user], rate: 5/min } ]\n'
        with Weir(limits) as weir:
            def explain(*more):
                return subprocess.run([str(BUILD / 'weir'), 'explain', '--server', f'127.0.0.1:{weir.http}', *more,
                                       'user=ada'], capture_output=True, text=True, timeout=60, check=False)
            asked = explain()
            self.assertIn('mine  applies: token_bucket 5/min', asked.stdout)
            self.assertRegex(asked.stderr, rf'of {weir.config}, in force at .* since .*Z by start\n')
            weir.config.write_text(limits.replace('5/min', '6/min'), encoding='utf-8')
            asked = explain()
            self.assertIn('6/min', asked.stdout)
            self.assertRegex(asked.stderr, r'NOT in force at .*: it has changed since it was read there')
            example = str(ROOT / 'examples' / 'weir.yaml')
            self.assertIn('NOT in force', explain('--config', example).stderr)
            weir.config.unlink()
            asked = explain()
            self.assertEqual(asked.returncode, 2)
            self.assertIn('--config', asked.stderr)
        gone = explain()
        self.assertEqual((gone.returncode, gone.stdout), (2, ''))

    def test_explain_asks_a_server_of_very_many_limits(self):
        limits = ''.join(f'  - {{ name: {"n" * 50}{i}, match: {{ user: u{i} }}, key: [ip], rate: 5/min }}\n'
                         for i in range(10000))
        with Weir('limits:\n' + limits) as weir:
            told = subprocess.run([str(BUILD / 'weir'), 'explain', '--server', f'127.0.0.1:{weir.http}', 'user=u9999',
                                   'ip=192.0.2.1'], capture_output=True, text=True, timeout=120, check=False)
            self.assertIn('9999  applies: token_bucket 5/min', told.stdout, told.stderr)
            self.assertIn(', in force at ', told.stderr)

    def test_metrics_are_named_for_what_they_are(self):
        with Weir() as weir, urllib.request.urlopen(f'http://127.0.0.1:{weir.http}/metrics', timeout=60) as answer:
            text = answer.read().decode()
        kinds = re.findall(r'^# TYPE (\S+) (\S+)$', text, re.M)
        names = [name for name, _ in kinds]
        self.assertEqual(sorted(names), sorted(set(names)))
        for name, kind in kinds:
            self.assertEqual(name.endswith('_total'), kind == 'counter', name)
            self.assertIn(f'# HELP {name} ', text)
        self.assertNotIn('weir_locks_held_total', text)
        for name in ('weir_http_answers_total', 'process_cpu_seconds_total', 'process_resident_memory_bytes',
                     'process_open_fds', 'process_start_time_seconds', 'weir_reloads_total'):
            self.assertIn(name, names)

    def test_warnings_at_the_start_are_json_where_the_log_is(self):
        config = ('limits: [ { name: fast, rate: 1000/s, burst: 5000 } ]\n'
                  'sessions: { servers: [ { name: x, url: "host=127.0.0.1 port=1" } ] }\n')
        with Weir(config) as weir:
            self.assertRegex(weir.output(), r'(?m)^\S+weir\.yaml:1:\d+: warning: ')
            self.assertIn('\nweir: warning: sessions: no keys', weir.output())
        with Weir(config + 'log: { format: json }\n') as weir:
            wait_for(lambda: '"event":"started"' in weir.output(), 'the start was not told')
            # Standard output names the listeners; the test's file has both.
            lines = [json.loads(line) for line in weir.output().splitlines() if not line.startswith('weir: ')]
            self.assertNotIn('warning:', weir.output())
        told = {line['event']: line for line in lines}
        self.assertEqual((told['config_warning']['level'], told['start_warning']['level']), ('warn', 'warn'))
        self.assertRegex(told['config_warning']['message'], r'weir\.yaml:1:\d+: ')
        self.assertIn('sessions: no keys', told['start_warning']['message'])

    def test_wrong_words_are_errors_with_their_place(self):
        for text in 'log: { format: xml }', 'log: { level: debug }', 'log: { file: x }', 'log: text':
            done = subprocess.run([str(BUILD / 'weir'), 'rules', 'check', '/dev/stdin'], input=text, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 2, text)
            self.assertRegex(done.stdout + done.stderr, r'/dev/stdin:1:\d+: ')

    def test_the_page_names_every_event_and_no_other(self):
        source = ''.join((ROOT / 'src' / name).read_text(encoding='utf-8')
                         for name in ('serve/watch_look.c', 'serve/server.c', 'serve/supervisor.c', 'serve/refusal_lines.c',
                                      'serve/successor.c', 'cli/serve_warn.c'))
        takeover = (ROOT / 'src/serve/takeover.c').read_text(encoding='utf-8')
        written = set(re.findall(r'WEIR_LOG_[A-Z]+,\s*"([a-z_]+)"', source + takeover))
        for pair in re.findall(r'\?\s*"([a-z_]+)"\s*:\s*"([a-z_]+)",', source):
            written |= set(pair)
        written |= set(re.findall(r'weir_watch_event\(\s*watch, ALONE\("([a-z_]+)"\)', source))
        kinds = set(re.findall(r'weir_watch_condition\(\s*watch, ALONE\("([a-z_]+)"\)', source))
        kinds |= set(re.findall(r'(?<!\(struct weir_subject\))\{ "([a-z_]+)",', source))
        written |= {f'{kind}_{end}' for kind in kinds for end in ('begun', 'over')}
        page = (ROOT / 'docs' / 'log.md').read_text(encoding='utf-8').partition('\n## Events\n')[2]
        named = {word for row in re.findall(r'^\| (`[^|]*`) \|', page, re.M) for word in re.findall(r'`([a-z_]+)`', row)}
        self.assertEqual(written, named)


if __name__ == '__main__':
    unittest.main()
