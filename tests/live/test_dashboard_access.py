#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who can use the dashboard: axe-core finds nothing in the way, from 360 pixels to a wall, light and dark; a keyboard does all;
and a page of another origin can do nothing."""
import unittest

import test_dashboard_rules as rules
import test_sessions_http as sessions
from browser import visit
from test_dashboard_live import TOKENS, ask
from test_rules_http import ADMIN, ask as ask_rules
from test_web_page import ATTACK_FLAGS, Site
from weir_server import Resp, Weir

SIZES = ((360, 640), (1280, 900), (3840, 2160))
# Everything that there is to see is open: tables, what is wrong, the dialogs.
LOOK = '''
const findings = [];
const look = async where => {
  for (const [rule, places] of await axe())
    findings.push([where, rule, places]);
  const wide = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  if (wide[0] > wide[1])
    findings.push([where, "wider than the screen", wide]);
};
'''
OPEN = '''
await open();
while (await page.locator("details:not([open]) > summary:visible").count() > 0)
  await page.locator("details:not([open]) > summary:visible").first().click();
await edit("rate: 10/day", "rat: 10/day");
await judged("wrong");
await look("wrong");
await edit("rat: 10/day", "rate: 20/day");
await judged("valid");
await page.click("#rules-replay");
await page.locator("#rules-replayed tbody tr").first().waitFor();
await look("valid");
await api("PUT", "/v1/rules?comment=haste", (await text()).replace("20/day", "30/day"), "*");
await apply("mine");
await shown("#rules-newer", "haste");
await look("conflict");
await page.getByRole("button", {name: "Compare 1", exact: true}).click();
await page.locator("#rules-compare[open]").waitFor();
await look("compare");
await page.keyboard.press("Escape");
await page.getByRole("button", {name: "Roll back to 1", exact: true}).click();
await page.locator("#rules-confirm[open]").waitFor();
await look("confirm");
return findings;
'''
# What a page of somebody else's can send, and what it can try to read.
ATTACK = '''<!doctype html><title>attack</title><body><iframe name=t></iframe><iframe id=framed src="WEIR/"></iframe>
<form id=f method=post enctype=text/plain target=t action="WEIR/v1/rules/rollback?to=1&comment=form"><input name=a value=b></form>
<pre id=out></pre><script src="WEIR/page.js"></script><script>
const out = document.getElementById("out"), say = text => out.textContent += text + "\\n";
const body = "limits: []\\n";
async function one(name, path, options) {
  try {
    const answer = await fetch("WEIR" + path, options);
    say(name + " " + answer.type + " " + answer.status + " " + (await answer.text()).length);
  } catch (error) { say(name + " failed"); }
}
function events(name) {
  return new Promise(resolve => {
    const source = new EventSource("WEIR/v1/live");
    source.onmessage = () => { say(name + " got an event"); source.close(); resolve(); };
    source.onerror = () => { say(name + " failed"); source.close(); resolve(); };
  });
}
(async () => {
  say(typeof take === "undefined" ? "script refused" : "script ran");
  for (const path of ["/", "/play", "/learn", "/play.wasm", "/docs/", "/v1/hour", "/v1/live", "/v1/limits", "/v1/state", "/v1/top", "/v1/nodes",
                      "/v1/rules", "/metrics"]) {
    await one("read " + path, path, {});
    await one("blind " + path, path, {mode: "no-cors"});
  }
  const token = {"X-Weir-Token": "TOKEN"};
  await one("token", "/v1/rules", {headers: token});
  await one("put", "/v1/rules?comment=attack", {method: "PUT", body, headers: {...token, "If-Match": "*"}});
  await one("post", "/v1/rules/rollback?to=1&comment=attack", {method: "POST", headers: token});
  await one("blind post", "/v1/rules/rollback?to=1&comment=attack", {method: "POST", mode: "no-cors", body});
  await one("ban", "/v1/rules/ban?limit=api&comment=attack", {method: "POST", mode: "no-cors", body: '{"user":"ada"}'});
  navigator.sendBeacon("WEIR/v1/rules/rollback?to=1&comment=beacon", body);
  await events("events");
  document.getElementById("f").submit();
  await new Promise(resolve => setTimeout(resolve, 1000));
  try { say("frame " + document.getElementById("framed").contentDocument); } catch (error) { say("frame failed"); }
  say("done");
})();
</script>'''


class Access(rules.WithStore):
    def use_traffic(self, weir):
        with Resp(weir.resp) as connection:
            for user in ('ada', 'bob', 'bob'):
                for _ in range(6):
                    connection.ask('WEIR.CHECK', 1, 'user', user)

    def test_axe_finds_nothing(self):
        for dark in (False, True):
            for width, height in SIZES:
                with self.subTest(dark=dark, width=width):
                    weir = self.serve()
                    self.use_traffic(weir)
                    found = self.use(weir, LOOK + OPEN, dark=dark, width=width, height=height)
                    self.assertEqual(found, [])

    def test_axe_finds_nothing_where_a_token_is_asked_for(self):
        weir = Weir(TOKENS + rules.RULES)
        self.addCleanup(weir.stop)
        for dark in (False, True):
            found, _ = visit(f'http://127.0.0.1:{weir.http}/', LOOK + '''
await shown("#state", "a token is needed");
await look("form");
await page.fill("#token", "nobody-knows-this-one");
await page.keyboard.press("Enter");
await shown("#wrong", /./);
await look("wrong");
return findings;
''', width=360, dark=dark)
            self.assertEqual(found, [])

    def test_with_a_keyboard_alone(self):
        weir = self.serve()
        self.use_traffic(weir)
        stops, unseen, span, open_table, done = self.use(weir, '''
const at = () => page.evaluate(() => {
  const one = document.activeElement;
  return [one.id || one.name || one.textContent.trim().slice(0, 40), getComputedStyle(one).outlineStyle];
});
const until = async what => {
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    const [name] = await at();
    if (name === what)
      return;
  }
  throw new Error(`no Tab leads to ${what}`);
};
await shown("#state", "live");
await until("span");
await page.keyboard.press("ArrowRight");
const span = await page.evaluate("span");
await until("As a table");
await page.keyboard.press("Enter");
await page.locator("#rate-table tbody tr").first().waitFor();
const open_table = await page.isVisible("#rate-table");
await until("rules-token");
await page.keyboard.type(args.admin);
await page.keyboard.press("Enter");
await page.locator("#rules-history tbody tr").first().waitFor();
const stops = [], unseen = [];
for (let i = 0; i < 60; i++) {
  await page.keyboard.press("Tab");
  const [name, outline] = await at();
  stops.push(name);
  if (outline === "none" && await page.evaluate("document.activeElement !== document.body"))
    unseen.push(name);
}
await until("rules-text");
await page.keyboard.press("Control+End");
await page.keyboard.type("  - { name: more, key: [user], rate: 7/day }");
await judged("more came");
await until("rules-who");
await page.keyboard.type("ada");
await until("rules-why");
await page.keyboard.type("by keys");
await page.keyboard.press("Enter");
await shown("#rules-done", "This node decides by it");
return [stops, unseen, span, open_table, await text_of("#rules-done")];
''')
        self.assertEqual(span, 3600)
        self.assertTrue(open_table)
        for stop in ('rules-text', 'rules-limit', 'rules-shadow', 'rules-undo', 'percent', 'rules-propose', 'Put it into force', 'Compare'):
            self.assertIn(stop, stops)
        self.assertEqual(unseen, [], 'nothing shows where one is')
        self.assertIn('more came', done)
        self.assertEqual(self.versions(weir)[0][1:4], ('ada (deploy)', 'applied', 'by keys'))

    def test_another_origin_reads_nothing_and_changes_nothing(self):
        weir = self.serve()
        site = Site(ATTACK.replace('WEIR', f'http://127.0.0.1:{weir.http}').replace('TOKEN', ADMIN).encode())
        self.addCleanup(site.stop)
        before = ask_rules(weir, 'GET', '/v1/rules')[2]
        for host in ('evil.example', 'localhost', '127.0.0.1'):  # another site, and two that are of the same machine
            with self.subTest(host=host):
                (text, frames), _ = visit(f'http://{host}:{site.port}/', '''
await shown("#out", "done");
return [await text_of("#out"), await Promise.all(page.frames().map(frame => frame.content()))];
''', elsewhere=True, flags=ATTACK_FLAGS)
                lines = dict(line.rsplit(' ', 1) if line.endswith('failed') else line.split(' opaque ') if ' opaque ' in line
                             else (line, '') for line in text.splitlines() if line)
                for name, said in lines.items():
                    if name.startswith('blind') or name == 'ban':
                        self.assertIn(said, ('0 0', 'failed'), name)  # sent, and its answer is told to nobody
                    elif name not in ('done', 'script refused', 'frame null'):
                        self.assertEqual(said, 'failed', (name, text))
                self.assertIn('script refused', lines)
                self.assertEqual(sum('id="rules"' in frame for frame in frames), 0, 'it stands in a frame')
        self.assertEqual(ask_rules(weir, 'GET', '/v1/rules')[2], before)
        self.assertEqual(len(self.versions(weir)), 1)
        self.assertEqual(ask_rules(weir, 'GET', '/v1/rules/exceptions')[2]['exceptions'], [])
        refused = [line for line in ask(weir.http, '/metrics')[1].decode().splitlines()
                   if line.startswith('weir_browser_refused_total{by="origin"}')]
        self.assertGreaterEqual(int(refused[0].split()[-1]), 3 * 20, 'the browser did not even ask')


class WithSessions(sessions.WithReplicas):
    def test_axe_finds_nothing_where_there_are_sessions(self):
        for width, dark in ((360, True), (1280, False)):
            found, _ = visit(f'http://127.0.0.1:{self.weir.http}/', LOOK + '''
await page.locator("#sessions-part").waitFor();
await look("sessions");
return findings;
''', width=width, dark=dark)
            self.assertEqual(found, [])


if __name__ == '__main__':
    unittest.main()
