#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulated beside observed, in a real browser: what the page says that a server answered is what it answered, to the trace; what
it says that core decides is what the same limit decides; it spends no more than it says, and of nobody else's unasked."""
import json
import time
import unittest

from cluster import metrics
from otlp_receiver import Receiver
from pages_case import PagesCase
from redis_server import wait_for
from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Weir

# The windows are so long that none ends in a test: what is refused depends on no clock.
LIMITS = '''limits:
  - { name: bucket, match: { kind: bucket }, key: [user], rate: 10/hour }
  - { name: queue, match: { kind: queue }, key: [user], rate: 10/hour, algorithm: leaky_bucket }
  - { name: log, match: { kind: log }, key: [user], rate: 10/hour, algorithm: sliding_log }
  - { name: counter, match: { kind: counter }, key: [user], rate: 10/hour, algorithm: sliding_counter }
  - { name: first, match: { kind: first }, key: [user], rate: 10/hour, algorithm: fixed_window, align: first }
  - { name: window, match: { kind: window }, key: [user], rate: 10/year, algorithm: fixed_window }
  - { name: dear, match: { kind: "dear*" }, key: [user], rate: 20/hour, cost: 3 }
  - { name: tried, match: { kind: tried }, key: [user], rate: 10/hour, mode: shadow }
  - { name: everybody, match: { kind: everybody }, rate: 20/hour }
  - { name: narrow, match: { kind: wide }, key: [user], rate: 5/hour }
  - { name: wide, match: { kind: wide }, key: [user], rate: 10/hour }
  - { name: listed, match: { kind: [listed, other] }, key: [user], rate: 10/hour }
  - { name: permits, match: { kind: permits }, key: [user], algorithm: concurrency, rate: 3 }
  - { name: strict, match: { kind: strict }, key: [user], rate: 10/hour, missing: refuse }
  - { name: own, match: { kind: charged }, key: [user], rate: 10/hour }
  - { name: total, match: { kind: charged }, rate: 90/hour }
  - { name: odd, match: { kind: odd, toString: "x*" }, key: [constructor], rate: 10/hour }
  - { name: tries, match: { kind: tries }, key: [user], rate: 10/hour, count: attempts }
'''
TRAFFIC = 'pattern=steady&rate=25&duration=1'
TOKENS = '''auth: { required: always, tokens: [ { name: page, secret: the-page-of-the-tests, rights: [metrics, check] },
  { name: blind, secret: sees-no-limits-of-tests, rights: [check] } ] }
'''


class Case(PagesCase):
    limits = LIMITS

    @classmethod
    def setUpClass(cls):
        cls.receiver = cls.enterClassContext(Receiver())
        cls.config = f'traces: {{ endpoint: "{cls.receiver.url}", timeout: 10s }}\n' + cls.limits
        super().setUpClass()

    def text(self, name):
        return self.browser.run(f'document.getElementById("beside-{name}").textContent')

    def open(self, limit, traffic=TRAFFIC, ready='document.getElementById("beside-says").textContent'):
        self.show(f'{self.own}play#observed?limit={limit}&{traffic}', ready)

    def press_run(self):
        self.browser.until('!document.getElementById("beside-run").disabled')
        self.browser.run('document.getElementById("beside-run").click()')

    def run_all(self):
        """The rows of the table."""
        self.press_run()
        self.browser.until('document.getElementById("beside-run").textContent === "Run"', 90)
        self.assertEqual(self.text('wrong'), '')
        return self.table('beside-rows')

    def set_attributes(self, text):
        self.browser.run(f'''(() => {{ const area = document.querySelector("#beside-limit textarea"); area.value = {json.dumps(text)}
          area.dispatchEvent(new Event("input", {{bubbles: true}})) }})()''')

    def check(self, **attributes):
        answer, body = self.ask('/v1/check', 'POST', json.dumps({'attributes': attributes}))
        return answer.status, json.loads(body)

    def decided(self, limit):
        return {verdict: metrics(self.weir.http).get(f'weir_decisions_total{{limit="{limit}",verdict="{verdict}"}}', 0)
                for verdict in ('admitted', 'refused', 'shadow_refused')}


class Observed(Case):
    def test_what_it_shows_is_what_the_server_answered_trace_by_trace(self):
        before = self.decided('bucket')
        self.open('bucket')
        self.assertIn('up to 25 real units of bucket on this server, under a key of its own', self.text('says'))
        rows = self.run_all()
        self.assertEqual([row[1] for row in rows], ['admitted'] * 10 + ['refused'] * 15)
        self.assertEqual(sorted(row[2] for row in rows), ['admitted'] * 10 + ['refused'] * 15)
        self.assertEqual({verdict: count - before[verdict] for verdict, count in self.decided('bucket').items()},
                         {'admitted': 10, 'refused': 15, 'shadow_refused': 0})
        self.assertEqual(self.table('beside-sums'), [['admitted', '10', '10'], ['delayed', '0', '0'], ['refused', '15', '15']])
        said = {row[7]: row[2] for row in rows}
        self.assertEqual(len(said), 25)

        def spans():
            return {one.trace: one for one in self.receiver.spans if one.trace in said}
        wait_for(lambda: len(spans()) == 25, 'not all spans came')
        self.assertEqual({trace: one['verdict'] for trace, one in spans().items()}, said)
        self.assertEqual({trace: one['remaining'] for trace, one in spans().items()}, {row[7]: int(row[5]) for row in rows})
        self.assertEqual({one.attributes['http.response.status_code'] for one in spans().values()}, {200})
        points = self.browser.run('''[...document.querySelectorAll("#beside-chart [data-trace]")].map(one =>
          [one.dataset.trace, one.querySelector("title").textContent])''')
        self.assertEqual([trace for trace, _ in points], [row[7] for row in rows])
        for (trace, title), row in zip(points, rows):
            self.assertEqual(title, f'{row[0]}: {row[2]}; trace {trace}')
        labels = self.browser.run('[...document.querySelectorAll("#beside-chart text")].map(one => one.textContent)')
        self.assertTrue(any(one.startswith('simulated') for one in labels) and any(one.startswith('observed') for one in labels), labels)
        self.assertEqual(self.browser.run('document.querySelectorAll("#beside-chart .line").length'), 2)

    def test_each_algorithm_with_its_own_numbers(self):
        for limit, sums in (('queue', [1, 9, 15]), ('log', [10, 0, 15]), ('counter', [10, 0, 15]), ('first', [10, 0, 15]),
                            ('window', [10, 0, 15]), ('dear', [6, 0, 19]), ('tried', [10, 0, 15])):
            with self.subTest(limit=limit):
                self.open(limit)
                rows = self.run_all()
                self.assertEqual([row[1:] for row in self.table('beside-sums')], [[str(one)] * 2 for one in sums])
                self.assertEqual([int(row[4]) for row in rows][:2], {'dear': [17, 14]}.get(limit, [9, 8]))
                self.assertEqual(sorted(int(row[5]) for row in rows), sorted(int(row[4]) for row in rows))
        self.assertEqual(self.decided('tried'), {'admitted': 10, 'refused': 0, 'shadow_refused': 15})

    def test_each_run_has_a_key_of_its_own(self):
        self.open('bucket')
        for _ in range(2):
            self.run_all()
            self.assertEqual(self.table('beside-sums')[0], ['admitted', '10', '10'])

    def test_what_others_spend_shows_as_a_difference(self):
        self.open('everybody')
        self.assertIn('missing to them', self.text('says'))
        self.assertTrue(self.browser.run('document.getElementById("beside-run").disabled'), 'it would spend what is not its own, unasked')
        for _ in range(15):
            self.assertEqual(self.check(kind='everybody')[0], 200)
        self.browser.run('document.getElementById("beside-mine").click()')
        rows = self.run_all()
        self.assertEqual(self.table('beside-sums'), [['admitted', '20', '5'], ['delayed', '0', '0'], ['refused', '5', '20']])
        self.assertEqual(self.text('differ'), '15 of 25 verdicts differ.')
        self.assertEqual(len([row for row in rows if row[3] == 'differs']), 15)
        self.assertIn('Shared keys', self.text('why'))

    def test_another_limit_that_refuses_is_named(self):
        self.open('wide')
        rows = self.run_all()
        self.assertIn('narrow', self.text('others'))
        self.assertEqual(sorted(row[2] for row in rows), ['admitted'] * 5 + ['refused by narrow'] * 20)
        self.assertIn('they refused 20 requests', self.text('why'))
        self.assertEqual(self.text('differ'), 'All 5 verdicts are the same.')
        self.assertEqual(self.browser.run('document.querySelectorAll("#beside-chart [data-trace]").length'), 5)

    def test_a_limit_of_others_that_is_charged_too_is_not_spent_unasked(self):
        before = self.decided('total')
        self.open('own')
        self.press_run()
        self.browser.until('document.getElementById("beside-wrong").textContent.includes("total")')
        self.browser.until('document.getElementById("beside-run").textContent === "Run"')
        self.assertEqual(self.decided('total'), before, 'it spends what is not its own, unasked')
        self.assertIn('as much of total, which others have too', self.text('says'))
        self.assertTrue(self.browser.run('document.getElementById("beside-run").disabled'))
        self.browser.run('document.getElementById("beside-mine").click()')
        self.run_all()
        self.assertEqual(self.table('beside-sums')[0], ['admitted', '10', '10'])
        self.assertGreater(self.decided('total')['admitted'], before['admitted'])
        self.set_attributes('user=play-{run}\nkind=bucket')
        self.assertIn('missing to nobody', self.text('says'), 'such requests were not looked at yet')

    def test_what_is_chosen_during_a_run_is_for_the_next_one(self):
        self.open('bucket', 'pattern=steady&rate=10&duration=5')
        self.press_run()
        self.browser.until('document.querySelectorAll("#beside-rows tbody tr").length >= 20')
        self.browser.until('document.getElementById("beside-went").textContent > "22 of 50"')
        self.browser.run('window.dispatchEvent(new Event("resize"))')  # more rows have come than were drawn
        self.browser.run('''(() => { const select = document.querySelector("#beside-limit select"); select.value = "dear"
          select.dispatchEvent(new Event("input", {bubbles: true})) })()''')
        self.browser.until('document.getElementById("beside-run").textContent === "Run"', 90)
        self.assertIn('bucket', self.browser.run('document.querySelector("#beside-sums caption").textContent'))
        self.assertEqual([row[1:] for row in self.table('beside-sums')], [['10', '10'], ['0', '0'], ['40', '40']])
        self.assertIn('units of dear', self.text('says'))

    def test_attributes_may_have_any_name(self):
        self.open('odd')
        self.assertEqual(self.browser.run('document.querySelector("#beside-limit textarea").value'),
                         'constructor=play-{run}\nkind=odd\ntoString=xx')
        self.assertIn('under a key of its own', self.text('says'))
        self.set_attributes('kind=odd\ntoString=xx\n__proto__=y')
        self.assertIn('of a counter that others have too', self.text('says'))
        self.set_attributes('constructor=play-{run}\nkind=odd\ntoString=xx')
        self.run_all()
        self.assertEqual(self.table('beside-sums')[0], ['admitted', '10', '10'])

    def test_what_does_not_meet_the_limit_spends_nothing(self):
        before = self.decided('bucket')
        self.open('bucket')
        for lines, wrong in (('user=play-{run}\nkind=none', 'meets no limit'), ('user=play-{run}\nkind=log', 'it meets log')):
            self.set_attributes(lines)
            self.press_run()
            self.browser.until(f'document.getElementById("beside-wrong").textContent.includes({json.dumps(wrong)})')
            self.browser.until('document.getElementById("beside-run").textContent === "Run"')
        self.set_attributes('nonsense')
        self.assertIn('is no NAME=VALUE', self.text('says'))
        self.assertTrue(self.browser.run('document.getElementById("beside-run").disabled'))
        self.set_attributes('user=ada\nkind=bucket')
        self.assertIn('of a counter that others have too', self.text('says'))
        self.assertTrue(self.browser.run('document.getElementById("beside-run").disabled'))
        self.assertEqual(self.decided('bucket'), before)
        self.open('listed')
        self.assertEqual(self.browser.run('document.querySelector("#beside-limit textarea").value'), 'user=play-{run}\nkind=')

    def test_limits_that_cannot_be_simulated_say_why(self):
        self.open('permits')
        self.assertIn('Not permits: it gives permits', self.text('of'))
        self.assertIn('Not tries: it charges refused requests too', self.text('of'))
        offered = self.browser.run('[...document.querySelector("#beside-limit select").options].map(one => one.value)')
        self.assertNotIn('permits', offered)
        self.assertNotIn('tries', offered)

    def test_bounds(self):
        self.open('bucket', 'pattern=burst&rate=100&size=500&at=0&duration=60')
        self.assertIn('only the first 1,000 of 6,500 requests', self.text('says'))
        self.assertIn('up to 1,000 real units', self.text('says'))
        self.browser.run('''(() => { const own = window.fetch; window.flying = window.most = window.asked = 0
          window.fetch = (...said) => { window.flying++; window.asked++; window.most = Math.max(window.most, window.flying)
            return own(...said).finally(() => window.flying--) } })()''')
        self.press_run()
        self.browser.until('window.asked > 300')
        self.assertLessEqual(self.browser.run('window.most'), 4)
        self.browser.run('document.getElementById("beside-run").click()')
        self.browser.until('document.getElementById("beside-run").textContent === "Run"')
        asked = self.browser.run('window.asked')
        time.sleep(1)
        self.assertEqual(self.browser.run('window.asked'), asked, 'it goes on after Stop')
        self.assertEqual(len(self.table('beside-rows')), asked - 2, 'all but the limits and the peek')
        self.open('bucket', 'pattern=steady&rate=1&duration=60')
        self.press_run()
        self.browser.until('/^\\d+ of 60 /.test(document.getElementById("beside-went").textContent)')
        answered = self.browser.run('document.getElementById("beside-run").click(), parseInt(document.getElementById("beside-went").textContent)')
        self.browser.until('document.getElementById("beside-run").textContent === "Run"')
        self.assertLessEqual(len(self.table('beside-rows')), answered + 1, 'who waits for its time is sent after Stop')
        for part in ('rate=5000', 'duration=9999'):
            self.open('bucket', f'pattern=steady&{part}')
            value = self.browser.run('[...document.querySelectorAll("#beside-traffic input")].map(one => one.value)')
            self.assertNotIn(part.split('=')[1], value)

    def test_everybody_can_use_it(self):
        for width, dark in ((1280, False), (360, True)):
            with self.subTest(width=width):
                self.browser.shape(width, dark=dark)
                self.open('queue')
                self.run_all()
                self.axe_finds_nothing(width)


class WithTokens(Case):
    limits = TOKENS + LIMITS

    def tearDown(self):
        self.browser.do('')
        self.browser.complaints[:] = [one for one in self.browser.complaints if ' 401 ' not in one and ' 403 ' not in one]
        super().tearDown()

    def show_token(self, token):
        self.browser.run(f'''(() => {{ document.getElementById("beside-token").value = {json.dumps(token)}
          document.querySelector("#beside-ask button").click() }})()''')

    def test_a_token_is_asked_for_and_goes_in_no_address(self):
        self.open('bucket', ready='document.getElementById("beside-ask").checkVisibility()')
        self.assertIn('a token is needed', self.text('wrong'))
        for token, said in (('is-none-of-the-tests', 'not known'), ('sees-no-limits-of-tests', 'metrics')):
            self.show_token(token)
            self.browser.until(f'document.getElementById("beside-wrong").textContent.includes({json.dumps(said)})')
        self.show_token('the-page-of-the-tests')
        self.browser.until('document.getElementById("beside-says").textContent')
        self.run_all()
        self.assertEqual(self.text('wrong'), '')
        self.assertFalse(self.browser.run('document.getElementById("beside-ask").checkVisibility()'))
        self.assertEqual(self.table('beside-sums')[0], ['admitted', '10', '10'])
        self.browser.until('location.hash.includes("limit=bucket")')
        self.assertFalse([one for one in self.browser.asked + [self.browser.run('location.href')] if 'the-page-of-the-tests' in one])
        self.assertEqual(self.browser.run('document.getElementById("beside-token").value'), '')


class DenyBy200(Case):
    """The call that the page makes."""

    def test_a_refusal_is_200_and_says_so(self):
        def ask(path, cost, **attributes):
            answer, body = self.ask(path, 'POST', json.dumps({'attributes': attributes or {'kind': 'log', 'user': 'deny'}, 'cost': cost}))
            said = json.loads(body)
            return answer.status, answer.getheader('Content-Type'), said['admitted'], said['limits'][0]['admitted'], answer.getheader('Retry-After')
        self.assertEqual(ask('/v1/check?deny=200', 10)[:4], (200, 'application/json', True, True))
        quiet = ask('/v1/check?deny=200', 1)
        self.assertEqual(quiet[:4], (200, 'application/json', False, False))
        self.assertIsNotNone(quiet[4])
        self.assertEqual(ask('/v1/check?deny=200', 100)[:4], (200, 'application/json', False, False))
        self.assertEqual(ask('/v1/check?deny=200', 1, kind='strict')[:4], (200, 'application/json', False, False), 'refused for good')
        for path in ('/v1/check', '/v1/check?deny=2000', '/v1/check?deny=403', '/v1/check?other=1'):
            self.assertEqual(ask(path, 1)[:4], (429, 'application/problem+json', False, False), path)

    def test_it_makes_nobody_admit(self):
        """Where the engine is gone and the limit closed, neither; and a proxy, which goes by the status, cannot ask for 200 at all."""
        config = FORWARDED_NGINX + """engine: { redis: { servers: ["127.0.0.1:1"] } }
limits: [ { name: closed, key: [user], rate: 5/hour, sharing: exact, on_failure: closed } ]
"""
        with Weir(config) as weir:
            question = json.dumps({'attributes': {'user': 'ada'}})
            answer, body = self.ask('/v1/check?deny=200', 'POST', question, port=weir.http)
            self.assertEqual((answer.status, json.loads(body)['admitted'], json.loads(body)['status']), (200, False, 503))
            self.assertEqual(self.ask('/v1/check', 'POST', question, port=weir.http)[0].status, 503)
            for query, status in (('', 503), ('&deny=403', 403), ('&deny=200', 400), ('&deny=%32%30%30', 400), ('&deny=403&deny=200', 400)):
                answer, _ = self.ask(f'/v1/auth?user=ada{query}', port=weir.http, **NGINX_FIELDS)
                self.assertEqual(answer.status, status, query)

    def test_the_limits_tell_their_numbers(self):
        limits = {one['limit']: one for one in json.loads(self.ask('/v1/limits')[1])['limits']}
        told = ('key', 'match', 'count', 'period_ms', 'cost', 'window', 'counts', 'throttle')

        def of(name):
            return {member: limits[name][member] for member in told if member in limits[name]}
        self.assertEqual(of('bucket'), {'key': ['user'], 'match': {'kind': 'bucket'}, 'count': 10, 'period_ms': 3600000, 'cost': 1})
        self.assertEqual(of('everybody')['key'], [])
        self.assertEqual((of('first')['window'], of('window')['window']), ('first', 'calendar'))
        self.assertEqual((of('dear')['match'], of('dear')['cost'], of('tries')['counts']), ({'kind': 'dear*'}, 3, 'attempts'))
        self.assertEqual(of('listed')['match'], {'kind': None})


if __name__ == '__main__':
    unittest.main()
