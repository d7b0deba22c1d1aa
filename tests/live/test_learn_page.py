#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of questions in a real browser, as weir serves it and from a disk: its numbers are those of the native simulator
and of the records, it complains of nothing, asks nobody else, and everybody can use it."""
import json
import re
import subprocess
import unittest

from pages_case import LINK, PagesCase
from weir_server import BUILD, ROOT

SEEDS = (1, 7, 4294967295)
DRAWN = (2, 9)
SIZES = ((360, 640, False), (1280, 900, True), (3840, 2160, False))
PAGE = '''
const ready = () => page.locator("body[data-ready=yes]").waitFor();
const open = async address => { await page.goto("about:blank"); await page.goto(address); await ready(); };
const titled = words => page.locator("h2", {hasText: words}).waitFor();
'''
READ = '''
const read = () => page.evaluate(() => {
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  return new Promise(done => setTimeout(() => done({
    title: document.getElementById("title").textContent,
    heads: [...document.querySelectorAll("#reports h3")].map(one => one.textContent),
    columns: [...document.querySelectorAll("#numbers thead th")].map(one => one.textContent),
    numbers: [...document.querySelectorAll("#numbers tbody tr")].map(row => [...row.cells].map((cell, i) =>
      i === 0 ? cell.textContent : cell.querySelector("data")?.value ?? null)),
    points: [...document.querySelectorAll("#reports table")].map(table => [...table.tBodies[0].rows].map(row =>
      [...row.cells].map(cell => cell.textContent))),
    series: [...document.querySelectorAll("#reports table")].map(table =>
      [...table.tHead.rows[0].cells].slice(1).map(cell => cell.textContent)),
    lines: [...document.querySelectorAll("#reports svg.chart")].map(svg => svg.querySelectorAll("path.line").length),
    docs: document.getElementById("docs")?.hash ?? null,
    panels: [...document.querySelectorAll("#reports > section")].map(one => one.innerText),
    text: document.getElementById("answered").innerText,
  })));
});
'''


def native(*asked):
    """The reports of (question, seed) by the simulator as built for this machine."""
    done = subprocess.run([BUILD / 'tests/play/play_labs'], input='\n'.join(f'{lab} {seed}' for lab, seed in asked), check=True,
                          stdout=subprocess.PIPE, encoding='utf-8', timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(lab):
    path = ROOT / f'docs/labs/{lab}.json'
    return json.loads(path.read_text(encoding='utf-8')) if path.exists() else None


class Case(PagesCase):
    def visit(self, script, args=None):
        return self.browser.do(PAGE + script, args or self.own)


class Served(Case):
    def test_files_are_small_and_the_policy_is_that_of_the_playground(self):
        policy = self.looks_cold('learn', 'learn.js', 'play.css', 'play.wasm')
        self.assertEqual(policy, self.ask('/play')[0].getheader('Content-Security-Policy'))

    def test_a_link_may_lead_there_and_no_other_page_may_ask(self):
        self.assertEqual(self.ask('/learn', **LINK)[0].status, 200)
        self.assertEqual(self.ask('/learn.js', **LINK)[0].status, 403)


class Numbers(Case):
    def test_each_question_has_those_of_the_simulator_and_of_the_record(self):
        asked = [(lab, seed) for lab in range(1, 11) for seed in (SEEDS if lab in DRAWN else (1,))]
        found = self.visit(READ + '''
            const found = [];
            await open(args.own + "learn");
            for (const [lab, seed] of args.asked) {
              await page.locator("#questions li").nth(lab - 1).locator("a").click();
              await titled(`${lab}. `);
              if (args.drawn.includes(lab)) {
                await page.getByLabel("seed").fill(String(seed));
                await page.locator("h3", {hasText: `, seed ${seed}`}).first().waitFor();
              }
              found.push(await read());
            }
            return found;''', {'own': self.own, 'asked': asked, 'drawn': DRAWN})
        self.assertTrue(self.browser.asked)
        anchors = {'#' + re.sub(r'[-\s]+', '-', re.sub(r'[^\w\s-]', '', head).strip().lower())
                   for head in re.findall(r'^## (.*)$', (ROOT / 'docs/labs.md').read_text(encoding='utf-8'), re.M)}
        for (lab, seed), page, report in zip(asked, found, native(*asked), strict=True):
            with self.subTest(lab=lab, seed=seed):
                self.compare(page, report, record(lab), f', seed {seed}' if lab in DRAWN else '')
                self.assertIn(page['docs'], anchors)
                self.assertTrue(page['title'].startswith(f'{lab}. '))

    def compare(self, page, report, recorded, seed):
        reports = [report, recorded] if recorded else [report]
        label = 'Computed' if report['source'] == 'core' else 'Simulated'
        heads = [label + seed, f'Recorded, {recorded["recorded"]}{seed and ", seed 1"}' if recorded else 'Not recorded']
        self.assertEqual(page['heads'], heads)
        columns = ['what', label.lower() + seed, 'recorded' + (seed and ', seed 1')]
        self.assertEqual(page['columns'], columns if recorded else columns[:2])
        self.assertEqual(recorded['machine'] in page['text'] if recorded else 'no real processes' in page['text'], True)
        self.assertEqual(page['lines'], [len(one['series']) for one in reports])
        self.assertNotIn('`', page['text'])
        for column, one in enumerate(reports):
            gaps = any('' in row for row in page['points'][column])
            self.assertEqual('An empty cell' in page['panels'][column], gaps)
            values = {number['name']: number['value'] for number in one['numbers']}
            shown = {name.removesuffix(f' ({unit})'): value for name, *cells in page['numbers'] for unit in [name.split('(')[-1].rstrip(')')]
                     for value in [cells[column]] if value is not None}
            self.assertEqual({name: float(value) for name, value in shown.items()}, values)
            self.assertEqual(page['series'][column], [series['name'] for series in one['series']])
            for i, series in enumerate(one['series']):
                points = [[float(row[0]), float(row[1 + i])] for row in page['points'][column] if row[1 + i] != '']
                self.assertEqual(points, list(map(list, dict(map(tuple, series['points'])).items())))
        units = {number['name']: number['unit'] for one in reports for number in one['numbers']}
        for name, *_ in page['numbers']:
            self.assertTrue(any(name in (of, f'{of} ({unit})') for of, unit in units.items()), name)


class Addresses(Case):
    def test_one_for_each_question_and_seed(self):
        found = self.visit('''
            const found = [], note = async () => found.push(await page.evaluate(() => [location.hash,
              document.getElementById("title").textContent.split(".")[0], document.querySelector("#questions [aria-current]").hash,
              document.querySelector("#reports h3").textContent, document.activeElement.id]));
            await open(args + "learn#9?seed=12");
            await note();
            await page.locator("#questions a").nth(2).click();
            await titled("3. ");
            await note();
            await page.goBack();
            await titled("9. ");
            await note();
            await page.getByLabel("seed").fill("31");
            await page.waitForFunction(() => location.hash === "#9?seed=31");
            await page.reload();
            await ready();
            await note();
            await open(args + "learn#77");
            await titled("1. ");
            await note();
            return found;''')
        self.assertEqual(found, [['#9?seed=12', '9', '#9', 'Simulated, seed 12', ''], ['#3', '3', '#3', 'Computed', 'title'],
                                 ['#9?seed=12', '9', '#9', 'Simulated, seed 12', 'title'],
                                 ['#9?seed=31', '9', '#9', 'Simulated, seed 31', ''], ['#77', '1', '#1', 'Simulated', '']])

    def test_pages_lead_to_each_other(self):
        found = self.visit('''
            const found = [];
            for (const from of ["", "play", "learn"]) {
              await page.goto("about:blank");
              await page.goto(args + from);
              found.push(await page.locator("nav[aria-label=Pages] a").evaluateAll(all => all.map(one => one.href)));
            }
            await page.getByRole("link", {name: "Playground"}).click();
            await ready();
            await page.getByRole("link", {name: "Ten questions"}).click();
            await titled("1. ");
            return found;''')
        own = {name: self.own + name for name in ('', 'play', 'learn', 'docs/')}
        for there, links in zip(('', 'play', 'learn'), found):
            self.assertEqual(links, [address for name, address in own.items() if name != there])


class Everybody(Case):
    def test_axe_finds_nothing_and_nothing_is_cut_off(self):
        for width, height, dark in SIZES:
            self.browser.shape(width, height, dark)
            found = self.visit('''
                const found = [];
                for (let lab = 1; lab <= 10; lab++) {
                  await open(`${args}learn#${lab}`);
                  await page.locator("summary").first().click();
                  for (const [rule, places] of await axe())
                    found.push([lab, rule, places]);
                  if (await page.evaluate(() => document.scrollingElement.scrollWidth > innerWidth))
                    found.push([lab, "wider than the screen"]);
                }
                return found;''')
            self.assertEqual(found, [], (width, dark))

    def test_a_keyboard_does_all(self):
        self.assertEqual(self.visit('''
            await open(args + "learn");
            const at = () => page.evaluate(() => document.activeElement.textContent);
            const go = async words => {
              for (let i = 0; i < 40 && !(await at()).startsWith(words); i++)
                await page.keyboard.press("Tab");
            };
            await go("Write on the phone");
            await page.keyboard.press("Enter");
            await titled("2. ");
            await page.keyboard.press("Tab");
            await page.keyboard.press("ControlOrMeta+a");
            await page.keyboard.type("5");
            await page.locator("h3", {hasText: "Simulated, seed 5"}).waitFor();
            await go("As a table");
            await page.keyboard.press("Enter");
            await page.locator("#reports details[open] td").first().waitFor();
            await page.keyboard.press("Tab");
            return page.evaluate(() => document.activeElement.ariaLabel);'''), 'Simulated, as a table')


class OfFiles(Case):
    LOOK = READ + '''
        await open(args);
        return [await read(), await page.locator("nav[aria-label=Pages] a").evaluateAll(all => all.map(one => one.href))];'''

    def test_one_file_from_a_disk(self):
        address = self.alone('questions.html')
        page, links = self.visit(self.LOOK, f'{address}#9?seed=4')
        Numbers.compare(self, page, native((9, 4))[0], record(9), ', seed 4')
        self.assertEqual((links, page['docs']), ([address.replace('questions', 'playground')], None))

    def test_a_folder_on_any_web_server(self):
        with self.other_server() as own:
            page, links = self.visit(self.LOOK, f'{own}learn.html#4')
            Numbers.compare(self, page, native((4, 1))[0], None, '')
            self.assertEqual((links, page['docs']), ([own], None))
            links = self.visit('await open(args); return page.locator("nav[aria-label=Pages] a").evaluateAll(all => all.map(one => one.href));', own)
            self.assertEqual(links, [f'{own}learn.html'])


if __name__ == '__main__':
    unittest.main()
