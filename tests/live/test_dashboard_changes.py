#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes of the rules on the dashboard that do not go as planned: twice at once, with an answer that is lost, while somebody else
changes them too, with a token that is none any more. What the page says of what is stored is so, and what was typed is there."""
import unittest

import test_dashboard_rules as rules
from test_rules_http import ADMIN

TURNED = '\u202e'
# The answers of changes: `lose` lets the server do it and loses what it says, `delay` brings it late.
ON_THE_WAY = '''
const changes = handle => page.route(url => /^.v1.rules/.test(url.pathname), route => {
  const request = route.request();
  return request.method() === "GET" || request.url().includes("dry_run") ? route.continue() : handle(route);
});
const lose = () => changes(async route => {
  await route.fetch();
  await route.abort();
});
const typed_is_there = async part => (await text()).includes(part);
'''


class Changes(rules.WithStore):
    def go(self, script, weir=None):
        weir = weir or self.serve()
        return weir, self.use(weir, ON_THE_WAY + script, quiet=False)

    def stored(self, weir):
        return [(number, why) for number, _, _, why, _ in self.versions(weir)][:-1]

    def test_a_second_click_is_none(self):
        """Its refusal would stand where it is said that the first one is stored."""
        for press in ('await page.dblclick("#rules-apply button");',
                      'await page.focus("#rules-why"); for (let i = 0; i < 3; i++) await page.keyboard.press("Enter");'):
            weir, (asked, said) = self.go('''
let asked = 0;
await changes(async route => {
  const answer = await route.fetch();
  asked++;
  await page.waitForTimeout(answer.ok() ? 500 : 2000);
  await route.fulfill({response: answer});
});
await open();
await edit("10/day", "20/day");
await page.fill("#rules-why", "once");
PRESS
await shown("#rules-done", "This node decides by it");
await page.waitForTimeout(3000);
return [asked, await text_of("#rules-done")];
'''.replace('PRESS', press))
            self.assertEqual(asked, 1)
            self.assertRegex(said, '^Version 2 is stored: .*This node decides by it since')
            self.assertEqual(self.stored(weir), [(2, 'once')])

    def test_what_was_looked_at_is_what_is_rolled_back(self):
        """Between the look and the click somebody else stored a version, which nobody here has seen."""
        weir, (first, second, done) = self.go('''
await open();
await api("PUT", "/v1/rules?comment=two", (await text()).replace("10/day", "20/day"), "*");
await until('element("limits").innerText.includes("20/day")', 60);
await page.evaluate(() => refresh_history());
await page.getByRole("button", {name: "Roll back to 1", exact: true}).click();
await shown("#rules-confirm-said", "api 20/day -> 10/day");
await api("PUT", "/v1/rules?comment=three", (await text()).replace("5/day", "77/day"), "*");
await until("rules.newest === 3", 60);
await page.fill("#rules-confirm-why", "back");
await page.keyboard.press("Enter");
await shown("#rules-confirm-said", "By now");
const first = await text_of("#rules-confirm-said");
await page.keyboard.press("Enter");
await shown("#rules-done", "Version 4");
return [await api("GET", "/v1/rules?version=3"), first, await text_of("#rules-done")];
''')
        self.assertIn('77/day', first)
        self.assertRegex(second, 'version 3 is the newest.*By now: It changes: .*tried 77/day -> 5/day')
        self.assertIn('Version 4 is stored', done)
        self.assertEqual(self.stored(weir), [(4, 'back'), (3, 'three'), (2, 'two')])

    def test_an_answer_that_is_lost(self):
        """It may be stored: nothing else may be said of it, and so it is told when it turns out."""
        weir, (said, newer, kept, after) = self.go('''
await open();
await lose();
await edit("10/day", "20/day");
await apply("lost");
await shown("#rules-done", "not known");
const said = await text_of("#rules-done");
await shown("#rules-newer", "Version 2");
const newer = await text_of("#rules-newer"), kept = await typed_is_there("20/day");
await go_on();
return [said, newer, kept, await text_of("#rules-diff")];
''')
        self.assertIn('Whether it is stored is not known', said)
        self.assertIn('What you typed is kept', said)
        self.assertIn('“lost”', newer)
        self.assertIn('One of them may be yours', newer)
        self.assertNotIn('Nothing of yours was stored', newer)
        self.assertTrue(kept)
        self.assertEqual(after, 'nothing')
        self.assertEqual(self.stored(weir), [(2, 'lost')])

    def test_an_answer_to_a_roll_back_that_is_lost(self):
        _, said = self.go('''
await open();
await edit("10/day", "20/day");
await apply("two");
await shown("#rules-done", "This node decides by it");
await lose();
await page.getByRole("button", {name: "Roll back to 1", exact: true}).click();
await shown("#rules-confirm-said", "It changes");
await page.fill("#rules-confirm-why", "back");
await page.keyboard.press("Enter");
await shown("#rules-confirm-said", "not known");
return text_of("#rules-confirm-said");
''')
        self.assertIn('Whether it is stored is not known', said)

    def test_what_is_stored_is_called_so_though_the_server_went_away(self):
        weir, (said, next_one) = self.go('''
await open();
await page.route("**/v1/limits?seen=*", route => route.abort());
await page.route("**/v1/rules/versions*", route => route.abort());
await edit("10/day", "20/day");
await apply("stored");
await shown("#rules-done", "The history below is older");
const said = await text_of("#rules-done");
await page.unrouteAll();
await edit("20/day", "30/day");
await apply("next");
await shown("#rules-done", "This node decides by it");
return [said, await text_of("#rules-done")];
''')
        self.assertRegex(said, '^Version 2 is stored: .*Whether this node decides by it yet is not known.*The history below is older')
        self.assertIn('Version 3 is stored', next_one)
        self.assertEqual(self.stored(weir), [(3, 'next'), (2, 'stored')])

    def test_a_token_that_is_none_any_more(self):
        """Another one is asked for, and what was typed waits for it."""
        weir, (before, said, after, kept) = self.go('''
await open();
const before = await page.isVisible("#rules-ask");
await edit("10/day", "20/day");
await judged("valid");
await page.route("**/v1/rules*", route => route.continue({headers: {...route.request().headers(), "x-weir-token": "is-none-any-more"}}));
await apply("too late");
await shown("#rules-done", "What you typed is kept");
await shown("#rules-wrong", /./);
await page.waitForTimeout(2500); // the limits are shown anew meanwhile
const said = [await text_of("#rules-done"), await text_of("#rules-wrong"), await page.isVisible("#rules-token")];
await page.unrouteAll();
await page.fill("#rules-token", args.admin);
await page.keyboard.press("Enter");
await page.locator("#rules-ask").waitFor({state: "hidden"});
const kept = await typed_is_there("20/day");
await apply("in time");
await shown("#rules-done", "This node decides by it");
return [before, said, await text_of("#rules-done"), kept];
''')
        self.assertFalse(before)
        self.assertEqual(said, ['this token is not known here. What you typed is kept.', 'this token is not known here', True])
        self.assertTrue(kept)
        self.assertIn('Version 2 is stored', after)
        self.assertEqual(self.stored(weir), [(2, 'in time')])

    def test_lines_that_end_as_on_windows_are_no_change(self):
        weir = self.serve(rules=rules.RULES.replace('\n', '\r\n'))
        _, (said, typed, left) = self.go('''
await open();
await judged(/./);
return [await text_of("#rules-check"), await text(), await page.evaluate(() => is_changed())];
''', weir)
        self.assertEqual((said, typed, left), ('Nothing is changed.', rules.RULES, False))

    def test_a_store_that_did_not_answer(self):
        """504: the server does not know either."""
        _, (said, newer) = self.go('''
await open();
await changes(async route => {
  await route.fetch();
  await route.fulfill({status: 504, contentType: "application/problem+json", body: '{"detail": "the store did not answer in time"}'});
});
await edit("10/day", "20/day");
await apply("slow");
await shown("#rules-newer", "Version 2");
return [await text_of("#rules-done"), await text_of("#rules-newer")];
''')
        self.assertEqual(said, 'the store did not answer in time. What you typed is kept.')
        self.assertIn('One of them may be yours', newer)

    def test_what_turns_the_writing_shows_in_the_comparison(self):
        """Else a proposal would look to its reader like another one."""
        _, (diff, compared) = self.go('''
await open();
await edit("# of people", "# of people" + args.turned);
await judged("valid");
const diff = await text_of("#rules-diff");
await apply("a comment");
await shown("#rules-done", "This node decides by it");
await page.getByRole("button", {name: "Compare 1", exact: true}).click();
await shown("#rules-compare-diff", "people");
return [diff, await text_of("#rules-compare-diff")];
'''.replace('args.turned', f'"{TURNED}"'))
        for text in (diff, compared):
            self.assertIn('# of people\\u202e', text)
            self.assertNotIn(TURNED, text)

    def test_what_is_not_seen_shows_in_who_and_why(self):
        """Else one author would look like another one. The server takes no text that turns the writing."""
        _, (newer, history, body) = self.go('''
await open();
const said = new URLSearchParams({comment: `is\u200b why`, author: `gra\u00adce`});
await api("PUT", `/v1/rules?${said}`, (await text()).replace("5/day", "6/day"), "*");
await edit("10/day", "7/day");
await shown("#rules-newer", "Version 2");
await page.evaluate(() => refresh_history());
return [await text_of("#rules-newer"), await text_of("#rules-history"), await page.innerText("body")];
''')
        for text in (newer, history):
            self.assertIn('gra\\u00adce', text)
            self.assertIn('is\\u200b why', text)
        self.assertNotRegex(body, '[\u00ad\u200b]')

    def test_names_as_long_as_they_may_be_on_a_phone(self):
        _, found = self.go('''
await page.setViewportSize({width: 360, height: 640});
const found = [], look = async where => found.push([where, await page.evaluate("document.scrollingElement.scrollWidth")]);
const name = "a".repeat(128);
await open();
await edit("name: tried", `name: ${name}`);
await judged("valid");
await look("valid");
await edit("5/day", "5/dayy");
await judged("wrong");
await look("wrong");
await edit("5/dayy", "5/day");
await judged("valid");
await apply("w".repeat(200));
await shown("#rules-done", "This node decides by it");
await look("done");
await page.getByRole("button", {name: "Roll back to 1", exact: true}).click();
await shown("#rules-confirm-said", name);
await look("confirm");
await page.keyboard.press("Escape");
await api("PUT", `/v1/rules?comment=${"v".repeat(4000)}`, (await text()).replace("5/day", "6/day"), "*");
await edit("5/day", "7/day");
await shown("#rules-newer", "vvv");
await look("newer");
return found;
''')
        self.assertEqual([one for one in found if one[1] != 360], [])
        self.assertEqual(len(found), 5)


if __name__ == '__main__':
    unittest.main()
