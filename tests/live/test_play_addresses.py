#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Addresses of /play and /learn that nobody's page makes: a link may hold anything. Each shows one demonstration or question, with
numbers that are numbers; nothing in it is markup, nothing is complained of, and the page goes on answering."""
import unittest

from pages_case import PagesCase

MARKUP = '%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E'
PARTS = ('constructor', 'constructor?x=1', '__proto__', 'toString?a=b', '', '?', '%', '%E0%A4%A', MARKUP)
ALGORITHMS = ('pattern=constructor', 'pattern=log&log=0%0A1000000000', 'pattern=log&log=0%0A1000000', 'pattern=log&log=0%0A99999999999999999999',
              'pattern=log&log=9999-12-31T23:59:59%0A0001-01-01T00:00:00', f'pattern=log&log={MARKUP}', 'pattern=drawn&drawn=1e308',
              f'pattern=drawn&drawn=-1%20NaN%20Infinity%20{MARKUP}', 'pattern=drawn&drawn=', 'pattern=steady&rate=100000&duration=3600', 'count=0',
              'count=0&capacity=1000000', 'period=0.001&count=65536', 't=1e308', 't=Infinity', 't=NaN', 't=-5', 't=', 'shift=NaN&seed=-1&count=1e999',
              'pattern=burst&at=3600&size=100000&duration=1')
NODES = ('faults=partition:4294967296:0:1e308', 'faults=crash:-1:NaN:Infinity%20step:1:1:1%20constructor:1:1:1', 'faults=crash:1:5:1',
         'faults=' + '%20'.join(['crash:65535:0:60'] * 100), 'mode=__proto__&beside=constructor', 't=1e9', 'latency_min=2000&latency_max=0&loss=100',
         'nodes=16&interval=1&duration=60&rate=1', 'period=0.1&count=100000&drift=1000&skew=60000', f'faults={MARKUP}', 'count=0.5&burst=-3')
LOCK = ('story=constructor', 'story=toString&checked=1&order=__proto__', f'checked={MARKUP}')
READS = ('faults=fail:2:12000:12400%20fail:1:13000:13400', 'faults=fail:99:0:0', 'faults=stall:-1:-1:-1', 'faults=__proto__:1:1:1', f'faults={MARKUP}',
         'faults=' + '%20'.join(['restart:1:1:59999'] * 50), 'users=16&rate=50&duration_ms=60000&poll_ms=10', 'replicas=0', 't=1e308',
         'faults=clock:0:1e300:1e308', 'faults=fail:2:1:NaN', 'faults=fail:1.5:1.5:2.5')
OBSERVED = ('limit=__proto__', f'limit={MARKUP}&pattern=log', 'pattern=drawn&drawn=1e308', 'rate=1e308&duration=-1')
LEARN = ('1?seed=1e309', '2?seed=-1', '2?seed=1.5', f'2?seed={MARKUP}', '0', '__proto__', 'constructor?seed=2', '%', '9' * 100000,
         '2?seed=99999999999999999999', '2?' + 'seed=3&' * 20000)
# All that can be opened is open, and what comes late has come.
LOOK = '''
let loads = 0;
const count = () => loads++;
page.on("load", count);
await page.goto("about:blank");
await page.goto(args);
await page.locator("body[data-ready=yes]").waitFor();
const found = await page.evaluate(async () => {
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  await new Promise(resolve => setTimeout(resolve, 400));
  const values = [...document.querySelectorAll("svg *")].flatMap(one => [...one.attributes].map(attribute => attribute.value));
  const shown = [...document.querySelectorAll("main > section, #answered")].filter(one => !one.hidden);
  return [shown.length, document.getElementById("from").className, document.images.length,
          [...values, document.querySelector("main").innerText].filter(text => /\\b(NaN|undefined|Infinity)\\b/.test(text))];
});
page.off("load", count);
return [...found, loads];
'''


class Addresses(PagesCase):
    def look(self, page, *parts):
        for part in parts:
            with self.subTest(part=part[:100]):
                self.assertEqual(self.browser.do(LOOK, f'{self.own}{page}#{part}'), [1, '', 0, [], 2], 'one load each of about:blank and this')
                self.assertEqual(self.browser.complaints, [])
            self.browser.complaints.clear()

    def test_what_is_no_demonstration_is_the_first_one(self):
        self.look('play', *PARTS)

    def test_settings(self):
        for demo, parts in (('algorithms', ALGORITHMS), ('nodes', NODES), ('lock', LOCK), ('reads', READS), ('observed', OBSERVED)):
            self.look('play', *(f'{demo}?{part}' for part in parts))

    def test_questions(self):
        self.look('learn', *LEARN)

    def test_what_a_log_or_a_run_is_too_long_for_is_said(self):
        def said(part, name):
            self.browser.do(LOOK, f'{self.own}play#{part}')
            return self.browser.run(f'document.getElementById("{name}").textContent')
        self.assertEqual(said('algorithms?pattern=log&log=0%0A1000000000', 'lanes-wrong'), '1 lines more than 100 days after the first were left out')
        self.assertIn('more than 3,000,000 messages', said('nodes?nodes=16&interval=1&duration=60&rate=1', 'nodes-wrong'))
        said('algorithms?pattern=log&log=0%0A1000000', 'lanes-wrong')
        rows = self.table('seconds')
        self.assertEqual((len(rows), rows[0][1]), (3600, '1'))
        self.assertIn('the first 3,600', self.browser.run('document.querySelector("#seconds caption").textContent'))


if __name__ == '__main__':
    unittest.main()
