#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /v1/state, and what the dashboard shows of it: the table, the last refusals and why, locks held and waited for,
sessions by outcome."""
import http.client
import json
import re
import threading
import time
import unittest

import test_sessions_http as sessions
from browser import visit
from redis_server import wait_for
from weir_server import Resp, Weir, serving

LIMITS = '''limits:
  - { name: api, key: [user], rate: 5/day }
  - { name: few, key: [client, path], rate: 2/day, burst: 3 }
'''


def call(weir, path, body=None):
    client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
    client.request('POST' if body else 'GET', path, body and json.dumps(body))
    text = client.getresponse().read().decode()
    client.close()
    return text


def ask(weir, path, body=None):
    return json.loads(call(weir, path, body))


def counted(weir):
    return {match[1]: int(match[2]) for match in re.finditer(r'^(\S+) (\d+)$', call(weir, '/metrics'), re.M)}


class State(unittest.TestCase):
    def serve(self, keys, more=''):
        weir = Weir(f'top: {{ keys: {keys} }}\n{more}{LIMITS}')
        self.addCleanup(weir.stop)
        return weir

    def refuse(self, weir, count=1):
        """Returns what is told of them, once it is."""
        with Resp(weir.resp) as connection:
            for _ in range(5 + count):
                connection.ask('WEIR.CHECK', 1, 'user', 'ada')
        wait_for(lambda: ask(weir, '/v1/state')['refusals'], 'no refusal is told')
        return ask(weir, '/v1/state')['refusals']

    def test_the_table_is_that_of_the_metrics(self):
        weir = self.serve('text')
        with Resp(weir.resp) as connection:
            for user in range(100):
                connection.ask('WEIR.CHECK', 1, 'user', f'user {user}')
        told, metrics = ask(weir, '/v1/state')['table'], counted(weir)
        self.assertEqual(told['keys'], 100)
        for member, metric in (('keys', 'keys'), ('memory_used', 'memory_bytes'), ('memory_max', 'memory_max_bytes'),
                               ('evicted', 'evicted_total'), ('refused_full', 'refused_total'), ('inserted', 'inserted_total')):
            self.assertEqual(told[member], metrics[f'weir_table_{metric}'], member)

    def test_the_last_refusals_and_why(self):
        weir = self.serve('text')
        before_ms = time.time() * 1000
        [told] = self.refuse(weir)
        self.assertLessEqual(abs(told.pop('wall_ms') - before_ms), 60000)
        wait_for(lambda: ask(weir, '/v1/top')['top'], 'it is not counted')
        [top] = ask(weir, '/v1/top')['top']
        retry_ms = told.pop('retry_after_ms')
        self.assertTrue(17100000 < retry_ms <= 17280000, retry_ms)  # a fifth of a day, and what the test took
        self.assertEqual(told, {'limit': 'api', 'key': ['ada'], 'cut': False, 'hash': top['hash'], 'cost': 1, 'banned': False})
        with Resp(weir.resp) as connection:
            connection.ask('WEIR.CHECK', 4, 'client', 'c', 'path', '<b>/x</b>')
        wait_for(lambda: ask(weir, '/v1/state')['refusals'][0]['limit'] == 'few', 'it is not told')
        told = ask(weir, '/v1/state')['refusals'][0]
        self.assertEqual((told['key'], told['cost'], told['retry_after_ms']), (['c', '<b>/x</b>'], 4, None))
        lines, said = visit(f'http://127.0.0.1:{weir.http}/', '''
await shown("#refusals", "few");
return page.locator("#refusals tbody tr").allInnerTexts();
''')
        self.assertEqual(said, [])
        self.assertIn('few\tc <b>/x</b>\t4 units at once: never admitted, for at most 3 are.', lines[0])
        self.assertRegex(lines[1], 'api\tada\tOne unit more than 5/day, at most 5 at once, had left. Admitted 28[78] min later.')

    def test_how_many_are_kept(self):
        weir = self.serve('text')
        self.refuse(weir)
        with Resp(weir.resp) as connection:
            for _ in range(3):
                for _ in range(20):
                    connection.ask('WEIR.CHECK', 1, 'user', 'ada')
                time.sleep(1.1)
        told = ask(weir, '/v1/state')['refusals']
        self.assertTrue(3 <= len(told) <= 8, 'a few of each limit in a second')
        self.assertEqual([one['wall_ms'] for one in told], sorted((one['wall_ms'] for one in told), reverse=True))

    def test_keys_are_told_only_where_they_may_be(self):
        [told] = self.refuse(self.serve('hash'))
        self.assertEqual((told['key'], len(told['hash'])), (None, 16))
        weir = self.serve('text')
        self.assertEqual(self.refuse(weir)[0]['key'], ['ada'])
        weir.config.write_text(weir.config.read_text(encoding='utf-8').replace('keys: text', 'keys: hash'), encoding='utf-8')
        weir.process.send_signal(1)
        wait_for(lambda: ask(weir, '/v1/limits')['reloads']['done'] == 1, 'it was not reloaded')
        wait_for(lambda: ask(weir, '/v1/state')['refusals'][0]['key'] is None, 'a key that was kept is told on')
        off = self.serve('off')
        with Resp(off.resp) as connection:
            for _ in range(9):
                connection.ask('WEIR.CHECK', 1, 'user', 'ada')
        time.sleep(1)
        self.assertEqual(ask(off, '/v1/state')['refusals'], [])

    def test_no_line_is_written_for_them(self):
        weir = self.serve('text')
        self.refuse(weir, 20)
        self.assertNotIn('refused:', weir.output())


class Locks(unittest.TestCase):
    def test_held_and_waited_for(self):
        with serving('limits: []\n') as weir:
            def held():
                return ask(weir, '/v1/nodes')['locks']['held']
            self.assertEqual(held(), 0)
            for name in 'ab':
                self.assertTrue(ask(weir, f'/v1/locks/{name}/acquire', {'owner': 'me', 'ttl_ms': 60000})['granted'])
            ask(weir, '/v1/locks/short/acquire', {'owner': 'me', 'ttl_ms': 2000})
            self.assertEqual(held(), 3)
            waiter = threading.Thread(target=ask, args=(weir, '/v1/locks/a/acquire', {'owner': 'you', 'ttl_ms': 60000, 'wait_ms': 60000}))
            waiter.start()
            wait_for(lambda: held() == 2, 'the lease of the third did not end')
            wait_for(lambda: ask(weir, '/v1/nodes')['locks']['waiters'] == 1, 'nobody waits')
            self.assertEqual(counted(weir)['weir_locks_held'], 2)
            text, said = visit(f'http://127.0.0.1:{weir.http}/', '''
await page.locator("#locks-part").waitFor();
return [await text_of("#locks"), await page.isVisible("#sessions-part")];
''')
            self.assertEqual(said, [])
            self.assertIn('held now\t2\nclients that wait now\t1\n', text[0])
            self.assertFalse(text[1], 'there are no sessions')
            ask(weir, '/v1/locks/a/release', {'owner': 'me'})
            waiter.join(60)
            ask(weir, '/v1/locks/b/release', {'owner': 'me'})
            self.assertEqual(held(), 1)


class Sessions(sessions.WithReplicas):
    def test_by_outcome(self):
        who = self.write(1, token='')
        for _ in range(5):
            self.client.good('route', **who)
        self.client.post('route', token='nonsense')
        told, metrics = ask(self.weir, '/v1/state')['sessions'], counted(self.weir)
        self.assertEqual(told['refused']['malformed'], 1)
        for verdict, count in told['refused'].items():
            self.assertEqual(count, metrics[f'weir_session_refused_total{{verdict="{verdict}"}}'], verdict)
        for server in told['servers']:
            self.assertEqual(server['ok'], metrics[f'weir_session_routes_total{{server="{server["name"]}",verdict="ok"}}'])
        self.assertEqual(sum(server['ok'] for server in told['servers']), 6)
        self.assertEqual([(one['name'], one['role']) for one in told['servers']], [('a', 'primary'), ('b', 'standby'), ('c', 'standby')])
        text, said = visit(f'http://127.0.0.1:{self.weir.http}/', '''
await page.locator("#sessions-part").waitFor();
return [await text_of("#replicas"), await text_of("#outcomes"), await page.isVisible("#locks-part")];
''')
        self.assertEqual(said, [])
        self.assertRegex(text[0], r'a\tprimary\tread\t0 ms\t\d+\t0')
        self.assertRegex(text[0], r'b\tstandby\tread\t')
        self.assertIn('sent to a server\t6\n', text[1])
        self.assertIn('no token\t1', text[1])
        self.assertFalse(text[2], 'there are no locks')


if __name__ == '__main__':
    unittest.main()
