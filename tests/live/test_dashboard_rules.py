#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules on the dashboard, as a person changes them in a browser: what is stored is what was typed, and nothing typed is
lost."""
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

from browser import visit
from test_rules_http import ADMIN, AUTH, OTHER, ask
from weir_server import BUILD, Weir

RULES = '''unmatched: admit
limits:
  - name: api # of people
    key: [user]
    rate: 10/day
    overrides:
      - { user: ada, mode: "off" }
      - user: bob
        mode: "off"
  - { name: tried, key: [user], rate: 5/day }
'''
REVIEW = 'another-admin-of-the-tests'
HOSTILE = '<img src=x onerror=alert(1)>'
# What people do on the page, for the scripts below.
HANDS = '''
const api = (method, path, body, match) => fetch(new URL(path, args.url), {method, body, headers:
  {"X-Weir-Token": args.admin, ...(match ? {"If-Match": match} : {})}}).then(answer => answer.text());
const open = async () => {
  await page.fill("#rules-token", args.admin);
  await page.click("#rules-ask button");
  await page.locator("#rules-history tbody tr").first().waitFor();
};
const text = () => page.inputValue("#rules-text");
const edit = async (from, to) => page.fill("#rules-text", (await text()).replace(from, to));
const judged = what => shown("#rules-check", what);
const apply = async why => {
  await page.fill("#rules-why", why);
  await page.click("#rules-apply button");
};
const go_on = async () => {
  await page.click("#rules-go-on");
  await page.locator("#rules-newer").waitFor({state: "hidden"}); // the newest is there
};
const history = () => page.locator("#rules-history tbody tr").allInnerTexts();
'''


class WithStore(unittest.TestCase):
    """Rules that stand in a store, and tokens that may change them."""

    def serve(self, more='', rules=RULES):
        folder = tempfile.TemporaryDirectory(prefix='weir-dashboard-')
        self.addCleanup(folder.cleanup)
        config = f'rules: {{ store: "sqlite:{folder.name}/rules.db", timeout: 60s{more} }}\n{AUTH}'.replace(
            'tokens: [', f'tokens: [ {{ name: review, secret: {REVIEW}, rights: [admin] }},')
        path = pathlib.Path(folder.name, 'weir.yaml')
        path.write_text(config.replace(', approval: on', ''), encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(path), '--comment', HOSTILE, '--author', 'grace', '-'],
                       input=rules.encode(), capture_output=True, timeout=120, check=True)
        weir = Weir(config)
        self.addCleanup(weir.stop)
        return weir

    def use(self, weir, script, token=ADMIN, quiet=True, **options):
        """Runs the script on the page; the browser complains of nothing but of answers that say no."""
        url = f'http://127.0.0.1:{weir.http}/'
        result, said = visit(url, HANDS + script, {'url': url, 'admin': token}, **options)
        if quiet:
            self.assertEqual([line for line in said if not line.startswith('Failed to load resource')], [])
        return result

    def versions(self, weir):
        return [(one['version'], one['author'], one['kind'], one['comment'], one['changes'])
                for one in ask(weir, 'GET', '/v1/rules/versions')[2]['versions']]


class DashboardRules(WithStore):
    def test_typed_judged_compared_and_put_into_force(self):
        weir = self.serve()
        wrong, mark, place, diff, done, lines, addresses, kept = self.use(weir, '''
const asked = [];
page.on("request", request => asked.push(request.url()));
await open();
await edit("rate: 10/day", "rat: 10/day");
await judged("wrong");
const wrong = await text_of("#rules-errors"), mark = await page.locator(".mark").last().evaluate(
  one => [one.textContent, one.getBoundingClientRect().top - document.querySelector("#rules-text").getBoundingClientRect().top]);
await page.locator("#rules-errors button").last().click();
const place = await page.evaluate(() => [document.activeElement.id, document.activeElement.selectionStart]);
await edit("rat: 10/day", "rate: 20/day");
await judged("api 10/day -> 20/day");
const invalid = await page.getAttribute("#rules-text", "aria-invalid");
await page.fill("#rules-who", "ada");
await apply("more for all");
await shown("#rules-done", "This node decides by it");
return [wrong, mark, place, await text_of("#rules-diff"), await text_of("#rules-done"), await history(), asked,
        await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie, location.href]))];
''')
        self.assertIn('line 5, column 5: unknown key "rat" in a limit; did you mean "rate"?', wrong)
        self.assertIn('did you mean "rate"?', mark[0])
        self.assertEqual(mark[1], 8 + 4 * 20, 'beside line 5')
        self.assertEqual(place, ['rules-text', RULES.replace('rate: 10', 'rat: 10').index('rat:')])
        self.assertEqual(diff, 'nothing', 'after it is in force')
        self.assertIn('Version 2 is stored: api 10/day -> 20/day (overrides). This node decides by it since', done)
        self.assertEqual(self.versions(weir)[0], (2, 'ada (deploy)', 'applied', 'more for all', 'api 10/day -> 20/day (overrides)'))
        self.assertEqual(ask(weir, 'GET', '/v1/rules')[2].split('\n', 1)[1], RULES.replace('10/day', '20/day'))
        self.assertIn(HOSTILE, lines[1], 'a comment is no markup')
        self.assertEqual([url for url in addresses if ADMIN in url], [], 'the token stands in an address')
        self.assertNotIn(ADMIN, kept)

    def test_nothing_typed_is_lost_when_somebody_else_was_faster(self):
        weir = self.serve()
        told, kept, diff, again, done = self.use(weir, '''
await open();
await edit("5/day", "6/day");
await judged("tried 5/day -> 6/day");
await api("PUT", "/v1/rules?comment=haste&author=eve", (await text()).replace("10/day", "11/day").replace("6/day", "5/day"), '"1"');
await apply("mine");
await shown("#rules-newer", "haste");
await shown("#rules-done", "What you typed is kept");
const told = await text_of("#rules-newer-text"), kept = await text();
await go_on();
await shown("#rules-diff", "11/day");
const diff = await text_of("#rules-diff");
await edit("10/day", "11/day");
await api("PUT", "/v1/rules?comment=more+haste", (await text()).replace("11/day", "12/day").replace("6/day", "5/day"), '"2"');
await judged("api 12/day -> 11/day");
await shown("#rules-newer", "more haste");
const again = await text();
await go_on();
await edit("11/day", "12/day");
await judged("tried 5/day -> 6/day");
await apply("mine at last");
await shown("#rules-done", "Version 4");
return [told, kept, diff, again, await text_of("#rules-done")];
''')
        self.assertIn('Version 2 came since you began from version 1', told)
        self.assertIn('2 by eve (deploy), “haste”: api 10/day -> 11/day (overrides)', told)
        self.assertEqual(kept, RULES.replace('5/day', '6/day'))
        self.assertIn('-     rate: 11/day', diff)
        self.assertIn('6/day', again)
        self.assertIn('tried 5/day -> 6/day', done)
        self.assertEqual([one[3] for one in self.versions(weir)], ['mine at last', 'more haste', 'haste', HOSTILE])

    def test_in_steps_and_back(self):
        weir = self.serve()
        steps, back = self.use(weir, '''
await open();
await edit("5/day", "50/day");
const steps = [];
for (const [percent, what] of [["10", "for 10 %"], ["50", "10 % -> 50 %"], ["100", "ended"]]) {
  await page.check(`input[name=percent][value="${percent}"]`);
  await judged(what);
  await apply(`step ${percent}`);
  await shown("#rules-done", "This node decides by it");
  steps.push(await text_of("#rules-done"));
  steps.push(await page.isVisible("#rules-newer"));
}
await page.getByRole("button", {name: "Roll back to 1", exact: true}).click();
await shown("#rules-confirm-said", "tried 50/day -> 5/day");
await page.fill("#rules-confirm-why", "too many");
await page.keyboard.press("Enter");
await shown("#rules-done", "Version 5");
return [steps, await text()];
''')
        self.assertIn('Version 2 is stored: tried 50/day for 10 % of its keys.', steps[0])
        self.assertEqual(steps[1::2], [False, False, False], 'its own steps are told as somebody else\'s')
        self.assertEqual(back, RULES)
        self.assertEqual([(one[0], one[2], one[3]) for one in self.versions(weir)][:-1],
                         [(5, 'rollback', 'too many'), (4, 'applied', 'step 100'), (3, 'applied', 'step 50'),
                          (2, 'applied', 'step 10')])

    def test_into_shadow_and_out_of_it(self):
        weir = self.serve()
        found = self.use(weir, '''
await open();
const found = [];
for (const [limit, button] of [["api", "shadow"], ["tried", "shadow"], ["api", "enforce"], ["tried", "enforce"]]) {
  await page.selectOption("#rules-limit", limit);
  await page.click(`#rules-${button}`);
  await judged(/This is valid/);
  found.push(await text());
}
await page.click("#rules-undo");
return [...found, await text()];
''')
        api = RULES.replace('of people\n', 'of people\n    mode: shadow\n')
        both = api.replace('5/day }', '5/day, mode: shadow }')
        self.assertEqual(found, [api, both, both.replace('    mode: shadow\n', '    mode: enforce\n'),
                                 both.replace('shadow', 'enforce'), RULES])

    def test_the_last_hour_is_replayed_against_what_is_typed(self):
        weir = self.serve()
        for _ in range(15):
            ask(weir, 'POST', '/v1/check', json.dumps({'attributes': {'user': 'eve'}}), token=OTHER)
        time.sleep(1.1)
        before, said, lines, left, wrong, marks = self.use(weir, '''
await open();
const before = await page.isVisible("#rules-replayed");
await edit("rate: 5/day", "rate: 8/day");
await page.click("#rules-replay");
await page.locator("#rules-replayed tbody tr").first().waitFor();
const lines = async () => (await page.locator("#rules-replayed tbody tr").all()).reduce(
  async (all, line) => [...await all, await line.locator("td").allInnerTexts()], []);
const first = [await text_of("#rules-replay-said"), await lines()];
await edit("name: tried", "name: fresh");
await page.focus("#rules-replay");
await page.keyboard.press("Enter");
await page.locator("#rules-replayed tbody tr", {hasText: "fresh"}).waitFor();
const left = await lines();
await edit("rate: 10/day", "rat: 10/day");
await page.click("#rules-replay");
await shown("#rules-replay-said", "these are no rules");
return [before, ...first, left, await page.isVisible("#rules-replayed"), await page.locator("#rules-errors li").count()];
''')
        self.assertFalse(before)
        self.assertRegex(said, r'The last \d+ s of this node, all keys, from .*Every key begins fresh')
        self.assertEqual([line[:7] for line in lines], [['api', 'all keys', '1', '5', '0', '0', '0'],
                                                        ['tried', 'all keys', '1', '15', '10', '10', '7']])
        self.assertIn('overrides', lines[0][7])
        self.assertEqual([line[0] for line in left], ['api', 'fresh', 'tried'])
        self.assertEqual([line[6] for line in left], ['0', 'not known', '0'])
        self.assertIn('it is new', left[1][7])
        self.assertIn('not in this text', left[2][7])
        self.assertFalse(wrong)
        self.assertGreater(marks, 0)
        self.assertEqual(len(self.versions(weir)), 1, 'a replay stores nothing')

    def test_a_proposal_is_approved_by_somebody_else(self):
        weir = self.serve(', approval: on')
        alone, proposed = self.use(weir, '''
await open();
await edit("5/day", "50/day");
await apply("alone");
await shown("#rules-done", "What you typed is kept");
const alone = await text_of("#rules-done");
await page.focus("#rules-propose"); // by keyboard: what stands above may grow just as a mouse clicks
await page.keyboard.press("Space");
await apply("together");
await shown("#rules-done", "Nobody decides by it");
return [alone, await text_of("#rules-done")];
''')
        self.assertIn('propose', alone)
        self.assertEqual(self.versions(weir)[0][2:4], ('proposed', 'together'))
        approve = '''
await open();
await page.getByRole("button", {name: "Approve 2"}).click();
await page.fill("#rules-confirm-why", "seen");
await page.keyboard.press("Enter");
await shown("ANSWER", "WORDS");
return [await text_of("ANSWER"), await text_of("#rules-nodes")];
'''
        self.use(weir, approve.replace('ANSWER', '#rules-confirm-said').replace('WORDS', 'somebody else'))
        version, own = self.use(weir, 'await open(); return [await text_of("#rules-version"), await text()];')
        self.assertIn('a proposal: nobody decides by it', version)
        self.assertEqual(own, RULES.replace('5/day', '50/day'), "the server's own lines are no part of the text")
        self.assertEqual(self.versions(weir)[0][2], 'proposed')
        done, _ = self.use(weir, approve.replace('ANSWER', '#rules-done').replace('WORDS', 'decides by it'), token=REVIEW)
        self.assertIn('Version 3 is stored: tried 5/day -> 50/day', done)
        self.assertEqual(self.versions(weir)[0][1:4], ('review', 'approved', 'seen'))

    def test_a_token_without_the_right_and_one_that_nobody_knows(self):
        weir = self.serve()
        for token, said in ((OTHER, 'lacks the right'), ('nobody-knows-this-one', 'not known here')):
            shown, text = self.use(weir, '''
await page.fill("#rules-token", args.admin);
await page.click("#rules-ask button");
await shown("#rules-wrong", /./);
return [await text_of("#rules-wrong"), await page.isVisible("#rules-work")];
''', token=token)
            self.assertIn(said, shown)
            self.assertFalse(text)

    def test_of_a_file_they_are_read_only(self):
        weir = Weir(RULES)
        self.addCleanup(weir.stop)
        note, text, asked = self.use(weir, '''
await shown("#rules-note", "read-only");
return [await text_of("#rules-note"), await text_of("#rules-file"), await page.isVisible("#rules-ask")];
''')
        self.assertIn(str(weir.config), note)
        self.assertIn('- name: api\n    algorithm: token_bucket\n    rate: 10/day', text)
        self.assertFalse(asked)


if __name__ == '__main__':
    unittest.main()
