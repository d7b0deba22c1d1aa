#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser, and GET /v1/hour, from which it draws: what both say is what the server counted."""
import http.client
import json
import re
import unittest

from browser import visit
from redis_server import wait_for
from weir_server import Resp, Weir

LIMITS = '''top: { keys: text }
limits:
  - { name: api, key: [user], rate: 5/day }
  - { name: tried, key: [user], rate: 2/day, mode: shadow }
'''
SECRET = 'a-token-of-at-least-sixteen'
HOSTILE = '<img src=x onerror=alert(1)>&amp;'


def browse(url, **options):
    """What the page looks like once it is live, or asks for a token; and what the browser said of it."""
    return visit(url, '''
await page.locator("#state").filter({hasText: /^(live|a token is needed)$/}).waitFor();
return page.content();
''', **options)


class Dashboard(unittest.TestCase):
    def serve(self, more=''):
        weir = Weir(more + LIMITS)
        self.addCleanup(weir.stop)
        return weir

    def ask(self, weir, path, **fields):
        client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)
        client.request('GET', path, headers={name.replace('_', '-'): value for name, value in fields.items()})
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer, body

    def hour(self, weir, after=0):
        answer, body = self.ask(weir, f'/v1/hour?after={after}')
        self.assertEqual(answer.status, 200, body)
        said = json.loads(body)
        return said, [dict(zip(said['columns'], row)) for row in said['rows']]

    def use(self, weir):
        """9 admitted by `api`, 3 refused, and one that no limit meets."""
        with Resp(weir.resp) as connection:
            for user, count in (('ada', 4), ('bob', 2), (HOSTILE, 6)):
                for _ in range(count):
                    connection.ask('WEIR.CHECK', 1, 'user', user)
            connection.ask('WEIR.CHECK', 2, 'user', 'bob')
            connection.ask('WEIR.CHECK', 5, 'user', 'bob')
            connection.ask('WEIR.CHECK', 5, 'user', 'bob')
            connection.ask('WEIR.CHECK', 1, 'other', 'x')

    def counted(self, weir):
        text = self.ask(weir, '/metrics')[1].decode()
        return {match[1]: int(match[2]) for match in re.finditer(r'^(\S+) (\d+)$', text, re.M)}

    def test_the_hour_says_what_was_counted(self):
        weir = self.serve()
        self.use(weir)
        wait_for(lambda: sum(row['unmatched'] for row in self.hour(weir)[1]) == 1, 'it is not there')
        said, rows = self.hour(weir)
        metrics = self.counted(weir)
        for verdict in ('admitted', 'refused', 'never', 'shadow_refused', 'shed', 'banned'):
            total = sum(metrics.get(f'weir_decisions_total{{limit="{limit}",verdict="{verdict}"}}', 0) for limit in ('api', 'tried'))
            self.assertEqual(sum(row[verdict] for row in rows), total, verdict)
        self.assertGreater(sum(row['shadow_refused'] for row in rows), 0)
        for limit in said['limits']:
            admitted = metrics[f'weir_decisions_total{{limit="{limit["name"]}",verdict="admitted"}}']
            self.assertEqual(sum(limit['admitted']), admitted, limit['name'])
        self.assertEqual([limit['name'] for limit in said['limits']], ['api', 'tried'])
        self.assertEqual(rows[-1]['keys'], metrics['weir_table_keys'])
        self.assertGreater(max(row['p50_ns'] for row in rows), 0)
        self.assertLessEqual([row['p50_ns'] for row in rows], [row['p99_ns'] for row in rows])
        self.assertEqual([row['number'] for row in rows], list(range(1, len(rows) + 1)))

    def test_who_asks_again_gets_what_came_since(self):
        weir = self.serve()
        wait_for(lambda: len(self.hour(weir)[1]) >= 2, 'no second went by')
        first = self.hour(weir)[1]
        wait_for(lambda: self.hour(weir, first[-1]['number'])[1], 'no second went by')
        self.assertEqual(self.hour(weir, first[-1]['number'])[1][0]['number'], first[-1]['number'] + 1)
        self.assertEqual(self.hour(weir, 10**9)[1], [])
        for query in ('after=', 'after=-1', 'after=x', 'after=1&after=2', 'before=1', 'after=9999999999999999999'):
            answer, body = self.ask(weir, f'/v1/hour?{query}')
            self.assertEqual(answer.status, 400, (query, body))

    def test_the_page_shows_it_and_takes_no_name_for_markup(self):
        weir = self.serve()
        self.use(weir)
        wait_for(lambda: sum(row['unmatched'] for row in self.hour(weir)[1]) == 1, 'it is not there')
        shown, complaints = browse(f'http://127.0.0.1:{weir.http}/')
        self.assertEqual(complaints, [])
        self.assertIn('<div id="shown">', shown)
        self.assertRegex(shown, r'<p id="state" role="status"[^>]*>live</p>')
        self.assertIn('<td class="">api</td>', shown)
        self.assertIn('<td class="">' + HOSTILE.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;') + '</td>', shown)
        self.assertNotIn('<img', shown)
        self.assertIn('<polyline class="c0" points="', shown)
        top = json.loads(self.ask(weir, '/v1/top')[1])['top']
        for row in top:
            self.assertIn(f'<td class="n">{row["count"]}</td>', shown)
        self.assertTrue(top)

    def test_a_line_of_a_chart_is_called_what_it_is(self):
        weir = self.serve()
        marks, said = visit(f'http://127.0.0.1:{weir.http}/', 'return page.evaluate("[0, 0.125, 0.375, 62.5, 3750, 12500, 1250000].map(mark_of)");')
        self.assertEqual((marks, said), (['0', '0.125', '0.375', '62.5', '3750', '12.5 k', '1.25 M'], []))

    def test_without_a_token_nothing_is_shown(self):
        weir = self.serve(f'auth: {{ required: always, tokens: [ {{ name: view, secret: {SECRET}, rights: [metrics] }} ] }}\n')
        shown, _ = browse(f'http://127.0.0.1:{weir.http}/')
        self.assertIn('<form id="ask">', shown)
        self.assertIn('<div id="shown" hidden="">', shown)
        self.assertNotIn('<td class="">api</td>', shown)
        self.assertEqual(self.ask(weir, '/v1/hour')[0].status, 401)
        self.assertEqual(self.ask(weir, '/v1/hour', X_Weir_Token=SECRET)[0].status, 200)

    def test_what_other_sites_can_do_with_it(self):
        """A link may lead to the page. It says nothing by itself, no page can frame it, and what it asks is refused to others."""
        weir = self.serve()
        for path, kind in (('/', 'text/html'), ('/page.css', 'text/css'), ('/page.js', 'text/javascript')):
            answer, body = self.ask(weir, path)
            self.assertEqual((answer.status, answer.getheader('Content-Type')), (200, f'{kind}; charset=utf-8'))
            policy = answer.getheader('Content-Security-Policy')
            for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
                self.assertIn(part, policy)
            self.assertEqual(answer.getheader('X-Content-Type-Options'), 'nosniff')
            self.assertNotIn(b'api', body.split(b'</h1>')[0] if path == '/' else b'')
            self.assertNotRegex(body, rb'(?i)https?://(?!www\.w3\.org/)', 'it names another host')
        link = {'Sec_Fetch_Site': 'cross-site', 'Sec_Fetch_Mode': 'navigate'}
        self.assertEqual(self.ask(weir, '/', **link)[0].status, 200)
        for path in ('/page.js', '/v1/hour', '/v1/limits', '/v1/top'):
            self.assertEqual(self.ask(weir, path, **link)[0].status, 403, path)
        self.assertEqual(self.ask(weir, '/', Host='rebound.example')[0].status, 403)


if __name__ == '__main__':
    unittest.main()
