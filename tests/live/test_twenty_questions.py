#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Twenty questions whose answers differ with the seed, answered as a new user does: by what stands on /play and /learn, in words that are
seen. What is read there is held against `weir lab` and `weir sim`, which are told the seed and know nothing of the page."""
import json
import pathlib
import subprocess
import tempfile
import unittest

from pages_case import PagesCase
from weir_server import BUILD

SEEDS = (1205612197, 1626195614, 437118862, 798690185, 1258422343)
LABS = ((2, 'any replica: missed the write', 'how many reads on the laptop missed what the phone wrote, of any replica?'),
        (9, 'no tokens: drawn, an acknowledged update is lost', 'in how many schedules that were drawn is an update lost, without tokens?'))
# Five nodes and 2 % of all messages lost, else as the page has it at first.
WAYS = (('batched', 'how many requests does batched sharing admit?'), ('naive-cache', 'and how many nodes that cache the count?'))
PLAN = '''title twenty questions
set   algorithm=token_bucket rate=300/60s nodes=5 slack=6 seed={seed}
set   span=10s latency_min=5ms latency_max=20ms interval=500ms chunk_ttl=2s deadline=100ms skew=0ns loss_ppm=20000 drift_ppm=0
load  nodes=all from=0ns until=10s rate=30
way   batched : batched
way   naive-cache : naive-cache
'''


class Twenty(PagesCase):
    def read(self, script, *args):
        """A number, as it is seen."""
        return int(self.browser.do(script, args).replace(',', ''))

    def learnt(self, lab, seed, name):
        return self.read('''await page.goto("about:blank"); await page.goto(args[0]); await page.locator("#questions a").nth(args[1] - 1).click();
            await page.getByLabel("seed").fill(args[2]); await page.locator("h3", {hasText: `, seed ${args[2]}`}).first().waitFor();
            return page.locator("#numbers tr", {has: page.locator("th", {hasText: args[3]})}).first().locator("td").first().innerText();''',
                         self.own + 'learn', lab, str(seed), name)

    def played(self, seed, way):
        return self.read('''await page.goto("about:blank"); await page.goto(args[0]); await page.getByRole("link", {name: "Many nodes"}).click();
            await page.locator("#cluster").getByLabel("messages lost, %").fill("2");
            await page.locator("#cluster").getByLabel("seed").fill(args[1]);
            await page.waitForFunction(seed => document.getElementById("scenario").value.includes(` seed=${seed}\\n`) &&
                document.getElementById("scenario").value.includes("loss_ppm=20000") && document.querySelectorAll("#ways tbody tr").length === 11, args[1]);
            return page.locator("#ways tr", {has: page.locator("th", {hasText: args[2]})}).locator("td").first().innerText();''',
                         self.own + 'play', str(seed), way)

    def test_each_is_what_the_programs_say(self):
        answers = {}
        print()
        for seed in SEEDS:
            for lab, name, question in LABS:
                report = json.loads(subprocess.run([BUILD / 'weir', 'lab', str(lab), '--sim', '--json', '--seed', str(seed)], check=True,
                                                   capture_output=True, timeout=120).stdout)
                native = next(one['value'] for one in report['numbers'] if one['name'] == name)
                answers[seed, question] = self.learnt(lab, seed, name), native
            with tempfile.TemporaryDirectory() as folder:
                plan = pathlib.Path(folder, 'plan')
                plan.write_text(PLAN.format(seed=seed), encoding='utf-8')
                printed = subprocess.run([BUILD / 'weir', 'sim', plan], check=True, capture_output=True, text=True, timeout=120).stdout
            for way, question in WAYS:
                line = next(line for line in printed.splitlines() if line.startswith(way))
                answers[seed, question] = self.played(seed, way), int(line[36:].split()[1])
        for (seed, question), (seen, native) in answers.items():
            print(f'seed {seed}: {question} {seen}')
            self.assertEqual(seen, native, (seed, question))
        self.assertEqual(len(answers), 20)
        for _, _, question in LABS:
            self.assertGreater(len({seen for (_, asked), (seen, _) in answers.items() if asked == question}), 1, 'it does not depend on the seed')


if __name__ == '__main__':
    unittest.main()
