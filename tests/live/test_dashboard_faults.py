#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the dashboard says while its server stands still, is slow, is another one, or several; of tokens that are none; and of names
that are made to be misread. What it says is so, and what it had stays."""
import json
import re
import signal
import socket
import threading
import time
import unittest

from browser import Browser
from redis_server import wait_for
from test_dashboard_live import LIMITS, SECRET, TOKENS, ask
from weir_server import Resp, Weir

STATE = 'document.getElementById("state").textContent'
LIVE = f'{STATE} === "live"'
BAD = 'document.getElementById("state").className === "bad"'
TURNED = '\u202e'  # from here on, from right to left


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as free:
        return free.getsockname()[1]


class InTurn:
    """An address at which each connection leads to the next one of these servers. Context manager; `port`."""

    def __init__(self, *ports):
        self.ports = list(ports)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        for one in self.sockets:
            one.close()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(('127.0.0.1', self.ports[0]))
            self.ports.append(self.ports.pop(0))
            self.sockets += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.hand_on, args=pair, daemon=True).start()

    @staticmethod
    def hand_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Faults(unittest.TestCase):
    def serve(self, config=LIMITS, **options):
        weir = Weir(config, **options)
        self.addCleanup(weir.stop)
        return weir

    def show(self, port, ready=LIVE):
        browser = self.enterContext(Browser())
        browser.open(f'http://127.0.0.1:{port}/')
        browser.until(ready)
        return browser

    def test_a_server_that_stands_still(self):
        """It takes connections and answers nothing: that is no server that is live."""
        weir = self.serve()
        browser = self.show(weir.http, f'{LIVE} && rows.length > 1')
        weir.process.send_signal(signal.SIGSTOP)
        try:
            browser.until(BAD, 60)
            self.assertRegex(browser.run(STATE), r'^nothing came for 5 s\. What is shown is of \d+:\d+:\d+')
            browser.until(f'{STATE}.includes("does not answer")', 60)
            self.assertRegex(browser.run(STATE), r'nothing came in time\. What is shown is of \d+:\d+:\d+')
            self.assertTrue(browser.run('document.getElementById("shown").checkVisibility()'), 'what it had is gone')
        finally:
            weir.process.send_signal(signal.SIGCONT)
        browser.until(LIVE, 60)
        numbers = browser.run('rows.map(row => row.number)')
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)), 'a second is missing')

    def test_a_stream_that_does_not_begin(self):
        """The page asks each second in its place, and says so."""
        weir = self.serve()
        browser = self.enterContext(Browser())
        browser.do('await page.route("**/v1/live?*", () => {});')  # no answer ever
        browser.open(f'http://127.0.0.1:{weir.http}/')
        browser.until(f'{STATE}.includes("the stream does not begin")', 60)
        count = browser.run('rows.length')
        browser.until(f'rows.length > {count}')

    def test_slow_for_three_seconds(self):
        weir = self.serve()
        browser = self.show(weir.http)
        weir.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        weir.process.send_signal(signal.SIGCONT)
        browser.until(f'{LIVE} && rows.some(row => row.span_ms > 2500) && rows[rows.length - 1].span_ms < 2500')
        numbers = browser.run('rows.map(row => row.number)')
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)), 'a second is missing')
        self.assertEqual(browser.complaints, [])

    def test_another_process_that_is_older_by_now(self):
        """The page was away while the server was started anew and went on for longer than the page had seen of the first one."""
        port = free_port()
        at_port = ('--http', f'127.0.0.1:{port}')
        weir = Weir(LIMITS, arguments=at_port)
        self.addCleanup(weir.stop)
        browser = self.show(port, f'{LIVE} && rows.length > 0')
        browser.do('await context.setOffline(true);')
        browser.until(BAD)
        had = browser.run('after')
        weir.process.kill()
        weir.process.wait()
        weir.stop()
        first = self.serve(arguments=at_port)
        wait_for(lambda: json.loads(ask(port, '/v1/hour')[1])['newest'] > had + 1, 'no seconds go by')
        browser.do('await context.setOffline(false);')
        browser.until(LIVE)
        rows = json.loads(ask(first.http, '/v1/hour')[1])['rows']
        shown = browser.run('rows.map(row => [row.number, row.wall_ms])')
        self.assertEqual(shown, [row[:2] for row in rows][:len(shown)], 'rows of two processes are in one chart')

    def test_the_hour_says_of_which_process_it_is(self):
        weir, other = self.serve(), self.serve()
        said = [json.loads(ask(one.http, '/v1/hour')[1])['process'] for one in (weir, weir, other)]
        self.assertEqual(said[0], said[1])
        self.assertNotEqual(said[0], said[2])
        self.assertLess(max(said), 1 << 53)

    def test_several_servers_that_answer_in_turn(self):
        with InTurn(self.serve().http, self.serve().http) as address:
            browser = self.show(address.port, f'{LIVE} && rows.length > 1')
            browser.until(f'{STATE}.includes("several servers answer in turn")', 120)
            self.assertTrue(browser.run(BAD))
            rows = browser.run('rows.map(row => row.number)')
            self.assertEqual(rows, list(range(1, len(rows) + 1)))

    def test_one_server_after_another_is_not_in_turn(self):
        weir = self.serve()
        browser = self.show(weir.http)
        self.assertEqual(browser.run('[1, 1, 2, 3, 3].map(process => { meet(process); return in_turn(); })'), [False] * 5)
        self.assertFalse(browser.run('(meet(2), meet(3), in_turn())'), 'one that hands over may come back once more')
        self.assertTrue(browser.run('(meet(2), in_turn())'))

    def test_a_page_that_is_older_than_its_server(self):
        weir = self.serve()
        browser = self.show(weir.http)
        self.assertFalse(browser.run('document.getElementById("older").checkVisibility()'))
        browser.do('''await page.route("**/v1/state", async route => {
  const answer = await route.fetch();
  await route.fulfill({response: answer, json: {...await answer.json(), version: "9.9.9"}});
});''')
        browser.until('document.getElementById("older").checkVisibility()')
        version = json.loads(ask(weir.http, '/v1/state')[1])['version']
        self.assertRegex(browser.run('document.getElementById("older").textContent'),
                         rf'is weir 9\.9\.9 by now, and this page is of weir {re.escape(version)}: load it anew')
        self.assertEqual(browser.axe(), [])

    def test_many_windows_of_one_browser(self):
        """It keeps six connections to an address: if each window had a stream, none would be left to ask by."""
        weir = self.serve()
        browser = self.show(weir.http)
        said, others = browser.do('''
const pages = [page];
while (pages.length < 8) {
  pages.push(await context.newPage());
  await pages.at(-1).goto(args);
}
const found = new Set();
for (let times = 0; times < 75; times++) {
  for (const one of pages)
    found.add(await one.evaluate("element('state').textContent"));
  await page.waitForTimeout(200);
}
const last = await Promise.all(pages.map(one => one.evaluate("[element('state').textContent, rows.length]")));
return [[...found], last];
''', f'http://127.0.0.1:{weir.http}/')
        self.assertEqual([one for one in said if 'does not answer' in one or 'nothing came' in one], [])
        self.assertEqual(sorted(one for one, _ in others),
                         ['asks each second: other windows of this browser have streams'] * 5 + ['live'] * 3)
        self.assertLessEqual(max(count for _, count in others) - min(count for _, count in others), 3, 'one stands still')

    def test_an_answer_that_is_none(self):
        """What another server answers there, or a weir of other times."""
        weir = self.serve()
        browser = self.show(weir.http)
        for body, said in (('<!doctype html>', 'does not understand this server: load it anew'), ('{}', 'does not understand')):
            browser.do('''await page.unrouteAll();
await page.route("**/v1/state", route => route.fulfill({contentType: "application/json", body: args}));''', body)
            browser.until(f'{BAD} && {STATE}.includes({json.dumps(said)})', 60)
        browser.do('''await page.unrouteAll();
await page.route("**/v1/*", route => route.fulfill({status: 503, contentType: "application/json", body: '{"detail": "memory is out"}'}));''')
        browser.until(f'{BAD} && {STATE}.includes("this server refuses: memory is out")', 60)


class Tokens(unittest.TestCase):
    def setUp(self):
        self.weir = Weir(TOKENS + LIMITS)
        self.addCleanup(self.weir.stop)
        self.browser = self.enterContext(Browser())
        self.browser.open(f'http://127.0.0.1:{self.weir.http}/')
        self.browser.until(f'{STATE} === "a token is needed"')

    def give(self, token, said):
        """Waits for what the page then says beside the field."""
        self.browser.run('document.getElementById("wrong").textContent = ""')
        self.browser.do('await page.fill("#token", args); await page.keyboard.press("Enter");', token)
        self.browser.until(f'document.getElementById("wrong").textContent.includes({json.dumps(said)})')
        self.assertEqual(self.browser.run(f'[{STATE}, document.getElementById("shown").hidden]'), ['a token is needed', True])

    def test_what_is_no_token_is_called_so(self):
        """With quotation marks around it, say, as programs for letters make them."""
        for wrong in (f'“{SECRET}”', 'пароль-из-шестнадцати', SECRET + '\u200b'):
            self.give(wrong, 'printable ASCII')
        self.browser.do('await page.fill("#token", args); await page.keyboard.press("Enter");', SECRET)
        self.browser.until(LIVE)

    def test_too_many_wrong_ones(self):
        for number in range(40):
            answer, body = ask(self.weir.http, '/v1/hour', X_Weir_Token=f'wrong-token-number-{number}')
            if answer.status == 429:
                break
        self.assertEqual(answer.status, 429, body)
        self.give('yet-another-wrong-token', 'too many wrong tokens')
        again_s = int(re.search(r'; try again in (\d+) s$', self.browser.run('document.getElementById("wrong").textContent'))[1])
        time.sleep(again_s)
        self.browser.do('await page.fill("#token", args); await page.keyboard.press("Enter");', SECRET)
        self.browser.until(LIVE)


class Names(unittest.TestCase):
    def test_what_turns_the_writing_is_told_and_not_done(self):
        weir = Weir('top: { keys: text }\nlimits:\n  - { name: one, key: [user], rate: 1/day }\n'
                    '  - { name: two, key: [tenant, user], rate: 1/day }\n')
        self.addCleanup(weir.stop)
        unseen = ['ad\u00admin', 'ad\u200cmin', 'ad\u3164min', 'ad\U000e0041min']
        names = [f'nimda{TURNED}resu', 'zero\u200bwidth', 'אבג', '<b>bold</b>', 'a' * 63]
        with Resp(weir.resp) as connection:
            connection.ask('WEIR.CHECK', 2**63 - 1, 'user', 'rich')  # the first one, which is told
            for name in names + unseen:
                for _ in range(2):
                    connection.ask('WEIR.CHECK', 1, 'user', name)
            for _ in range(2):
                connection.ask('WEIR.CHECK', 1, 'tenant', 'דהו', 'user', '5')
        with Browser(width=360, height=640) as browser:
            browser.open(f'http://127.0.0.1:{weir.http}/')
            browser.until(f'{LIVE} && document.querySelectorAll("#top tbody tr").length > 6')
            keys = browser.run('[...document.querySelectorAll("#top tbody tr")].map(row => row.cells[1].textContent)')
            self.assertIn('nimda\\u202eresu', keys)
            self.assertIn('zero\\u200bwidth', keys)
            for shown in ('ad\\u00admin', 'ad\\u200cmin', 'ad\\u3164min', 'ad\\u{e0041}min'):
                self.assertIn(shown, keys)
            for name in names[2:]:
                self.assertIn(name, keys)
            self.assertNotIn(TURNED, browser.run('document.body.textContent'))
            both = browser.run('[...document.querySelectorAll("#top td")].find(one => one.textContent === "דהו 5").innerHTML')
            self.assertEqual(both, '<span><bdi>דהו</bdi> <bdi>5</bdi></span>')
            reasons = browser.run('[...document.querySelectorAll("#refusals td.wrap")].map(one => one.textContent)')
            self.assertTrue([one for one in reasons if one.startswith('more than 9007199254740991 units at once: never')], reasons)
            self.assertTrue([one for one in reasons if re.search(r'Admitted (24|23\.\d) h later', one)], reasons)  # of the limit two
            self.assertEqual(browser.run('document.scrollingElement.scrollWidth'), 360)
            self.assertEqual(browser.complaints, [])


class ManyLimits(unittest.TestCase):
    def test_what_is_counted_together_is_not_said_of_one(self):
        """64 names are told apart. Of what came later, nothing else is known than the sum."""
        count = 70
        weir = Weir('limits:\n' + ''.join(f'  - {{ name: l{i}, match: {{ n: "{i}" }}, key: [user], rate: 5/day }}\n' for i in range(count)))
        self.addCleanup(weir.stop)
        with Browser() as browser:
            browser.open(f'http://127.0.0.1:{weir.http}/')
            browser.until(LIVE)
            with Resp(weir.resp) as connection:
                for i in range(count):
                    connection.ask('WEIR.CHECK', 1, 'user', 'ada', 'n', i)
                connection.ask('CL.THROTTLE', 'ada', 5, 5, 60)
            browser.until('document.getElementById("limits").innerText.includes("(other)\\t")')
            browser.until('last_minute("(other)")[0] > 1 && last_minute("l0")[0] === 1')
            browser.run('draw_limits()')
            lines = browser.run('[...document.querySelectorAll("#limits tbody tr")].map(row => [0, 5, 6].map(i => row.cells[i].innerText))')
        said = {name: numbers for name, *numbers in lines}
        together = [name for name in said if said[name] == ['in (other)'] * 2]
        told = json.loads(ask(weir.http, '/v1/limits')[1])['limits']
        self.assertEqual(together, [one['limit'] for one in told if one.get('hour') == '(other)'])
        self.assertEqual(len(together), count - 62, 'two names are no limits')
        self.assertEqual(said.pop('(other)'), [str(len(together)), '0'])
        self.assertEqual(len(said), count + 1)
        self.assertEqual([numbers for name, numbers in said.items() if name not in together], [['1', '0']] * 63)


class NoScript(unittest.TestCase):
    def test_each_page_says_that_it_needs_it(self):
        weir = Weir(None)
        self.addCleanup(weir.stop)
        with Browser() as browser:
            for path in ('', 'play', 'learn'):
                text = browser.do('''
const bare = await context.browser().newContext({javaScriptEnabled: false});
const other = await bare.newPage();
await other.goto(args);
const text = await other.innerText("body");
await bare.close();
return text;
''', f'http://127.0.0.1:{weir.http}/{path}')
                self.assertIn('JavaScript', text, path)
                self.assertNotRegex(text, 'connecting|loading', path)


if __name__ == '__main__':
    unittest.main()
