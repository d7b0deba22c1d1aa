#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The playground in a real browser, as weir serves it and from a disk: it complains of nothing, asks nobody else, shows the
numbers that the models have, keeps up, and can be used without a mouse and by a screen reader."""
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

from pages_case import LINK, PagesCase
from weir_server import BUILD, ROOT


class Case(PagesCase):
    def show(self, part='', ready='true'):
        super().show(f'{self.own}play{part}', ready)

    def set(self, form, label, value):
        """As a visitor does: by the words beside the control."""
        self.browser.run(f'''(() => {{
          const control = [...document.querySelectorAll("#{form} label")].find(one => !one.hidden && one.firstChild.textContent === {json.dumps(label)})
            .querySelector("input, select, textarea")
          if (control.type === "checkbox") control.checked = {json.dumps(value)}
          else control.value = {json.dumps(value)}
          control.dispatchEvent(new Event("input", {{bubbles: true}}))
        }})()''')


class Served(Case):
    def test_files_are_small_and_the_policy_is_strict(self):
        policy = self.looks_cold('play', 'play.css', 'play.js', 'play.wasm')
        for part in ("default-src 'none'", "script-src 'self' 'wasm-unsafe-eval';", "frame-ancestors 'none'", "form-action 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("'unsafe-inline'", policy)
        self.assertNotIn("'unsafe-eval'", policy)
        self.assertNotIn('wasm', self.ask('/')[0].getheader('Content-Security-Policy'))

    def test_a_link_may_lead_there_and_no_other_page_may_ask(self):
        self.assertEqual(self.ask('/play', **LINK)[0].status, 200)
        for path in ('/play.js', '/play.wasm', '/play.css'):
            self.assertEqual(self.ask(path, **LINK)[0].status, 403, path)

    def test_without_the_module_the_page_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, 'files.c')
            subprocess.run(['python3', ROOT / 'play/bundle.py', '--c', made], check=True)
            text = made.read_text(encoding='utf-8')
            page = bytes(map(int, text.split('file_0[] = { ')[1].split(' }')[0].split(',')))
            self.assertIn(b'built without its playground', page)
            self.assertIn('weir_play_files_count = 2;', text)
            done = subprocess.run(['python3', ROOT / 'play/bundle.py', '--folder', folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn('clang-14', done.stderr)


class Algorithms(Case):
    def test_the_tables_have_the_numbers(self):
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.assertIn('compiled to WebAssembly', self.browser.run('document.getElementById("from").textContent'))
        sums = {row[0]: row[1:5] for row in self.table('sums')}
        self.assertEqual(sums['Fixed window'], ['40', '40', '0', '0'])
        self.assertEqual(sums['Sliding log'], ['40', '20', '0', '20'])
        self.assertEqual(sums['Leaky bucket'], ['40', '1', '19', '20'])
        self.browser.run('(() => { const scrub = document.getElementById("scrub"); scrub.value = 30; scrub.dispatchEvent(new Event("input")) })()')
        inside = {row[0]: row[1:] for row in self.table('inside')}
        self.assertEqual(inside['Token bucket'][:2], ['0 of 20 tokens', '0'])
        self.assertEqual(inside['Fixed window'][0], '20 of 20 in this window, which ends in 10 s')
        self.assertEqual(inside['Sliding log'][0], '20 times in the log, the oldest 1 ms ago')
        self.assertEqual(inside['Sliding log'][-1], 'refused, again in 9.999 s')
        self.assertEqual(inside['Leaky bucket'][-1], 'refused, again in 499 ms')

    def test_a_shared_address_shows_the_same(self):
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.set('traffic', 'Traffic', 'poisson')
        self.set('traffic', 'requests a second', 7)
        self.set('limit', 'limit: requests', 33)
        self.browser.until('/^4.. requests/.test(document.getElementById("lanes-took").textContent) && location.hash.includes("count=33")')
        shared, sums = self.browser.run('location.hash'), self.table('sums')
        self.assertRegex(sums[0][1], '^4..$')
        self.assertIn('pattern=poisson', shared)
        self.show(shared, 'document.querySelector("#sums td")')
        self.assertEqual(self.table('sums'), sums)

    def test_a_pasted_log_is_text(self):
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.set('traffic', 'Traffic', 'log')
        self.set('traffic', 'lines of the log: only their times count', '1000 <img src=x onerror=alert(1)>\n1001\nnone\n')
        self.browser.until('document.getElementById("lanes-wrong").textContent.includes("1 lines")')
        self.assertEqual(self.table('sums')[0][1], '2')
        self.assertEqual(self.browser.run('document.querySelectorAll("img").length'), 0)
        self.browser.until('location.hash.includes("log=0%0A1")')
        self.assertNotIn('img', self.browser.run('location.hash'), 'of a log its times are shared')

    def test_what_is_said_of_a_log_comes_with_its_numbers(self):
        """A long one takes several turns of the page, and what stands there meanwhile is of the one before."""
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.browser.run('''window.seen = new Promise(resolve => new MutationObserver((_, observer) => {
          observer.disconnect()
          resolve([document.getElementById("lanes-wrong").textContent, document.querySelector("#sums td").textContent])
        }).observe(document.getElementById("lanes-wrong"), {childList: true}));0''')
        self.set('traffic', 'Traffic', 'log')
        self.set('traffic', 'lines of the log: only their times count', 'none\n' + '\n'.join(map(str, range(1000, 151000))))
        self.assertEqual(self.browser.run('window.seen'), ['1 lines without a time were left out', '150,000'])

    def test_what_is_no_limit_is_told(self):
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.set('limit', 'limit: requests', 1)
        self.set('limit', 'in so many seconds', 86400)
        self.set('limit', 'burst of the buckets (0: as the limit)', 1000000)
        self.browser.until('document.getElementById("lanes-wrong").textContent.includes("3650 days")')

    def test_a_minute_of_10000_a_second_drops_no_second(self):
        self.show('#algorithms?pattern=steady&rate=10000&count=5000&period=1', 'document.getElementById("lanes-took").textContent.startsWith("600,000")')
        print('\n' + self.browser.run('document.getElementById("lanes-took").textContent'))
        self.browser.run('document.getElementById("seconds").closest("details").open = true')
        self.browser.until('document.querySelectorAll("#seconds tbody tr").length === 60')
        rows = self.table('seconds')
        self.assertEqual({row[1] for row in rows}, {'10,000'})
        self.assertTrue(all(row[5] == '5,000' for row in rows), rows)
        bars = self.browser.run('document.querySelectorAll("#lanes .bar.yes")[3].getAttribute("d").split("z").length - 1')
        self.assertEqual(bars, 180, 'of the five columns of each second the three that its first half touches')
        self.browser.run('document.getElementById("speed").value = "10"')
        begun = time.monotonic()
        self.browser.run('document.getElementById("play").click()')
        # The page stands still for three seconds, which are thirty of those that it plays.
        self.browser.run('new Promise(resolve => setTimeout(resolve, 500)).then(() => { for (const end = performance.now() + 3000; performance.now() < end;); })')
        self.browser.until('document.getElementById("play").textContent === "Play"', 120)
        self.assertEqual(self.browser.run('document.getElementById("scrub-at").textContent'), '60.000 s')
        print(f'60 s played at ten times the speed in {time.monotonic() - begun:.1f} s')
        self.assertEqual(self.browser.run('document.getElementById("play").dataset.drawn'), '60')


class Nodes(Case):
    READY = 'document.querySelectorAll("#ways tbody tr").length === 11'

    def test_the_table_is_what_weir_sim_prints(self):
        self.show('#nodes?loss=1', self.READY)
        ways = {row[0].split(':')[0]: row[1:] for row in self.table('ways')}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'scenario')
            path.write_text(self.browser.run('document.getElementById("scenario").value'), encoding='utf-8')
            printed = subprocess.run([BUILD / 'weir', 'sim', path], capture_output=True, text=True, check=True).stdout
        for name in ('batched', 'naive-cache'):
            line = next(line for line in printed.splitlines() if line.startswith(name))
            self.assertEqual(line[36:].split()[1], ways[name][0].replace(',', ''), printed)
        self.assertEqual(ways['batched'][-1], 'yes')
        self.assertEqual(ways['naive-cache'][2], 'none')
        self.assertGreater(int(ways['naive-cache'][1]), int(ways['batched'][2]))

    def test_what_is_shown_says_whose_it_is(self):
        self.show('#nodes', self.READY)
        ways = [row[0] for row in self.table('ways')]
        chosen = self.browser.run('''[...document.querySelectorAll("#cluster select")[1].options].map(
          one => `${one.value}: ${one.label}`)''')
        self.assertEqual(ways, ['exact', 'leased', 'batched', 'split', 'gossip', *chosen])
        heads = self.browser.run('[...document.querySelectorAll("#by-node th")].slice(1, 6).map(one => one.innerText)')
        self.assertTrue(all(one.endswith(('(batched)', '(naive-cache)')) for one in heads), heads)
        colours = self.browser.run('''["stroke", "fill"].map((what, i) =>
          getComputedStyle(document.querySelector(["#ours-over .line.over", "#nodes-legend .over"][i]))[what])''')
        self.assertEqual(colours[0], colours[1], 'the legend has the colour of the line')

    def test_a_click_on_a_link_cuts_it_and_one_more_joins_it(self):
        self.show('#nodes?t=2', self.READY)
        before = self.table('by-node')
        self.browser.run('document.querySelectorAll("#net .reach")[1].dispatchEvent(new MouseEvent("click"))')
        self.browser.until('document.getElementById("faults").innerText.includes("node cut off from everybody (node 1)")')
        self.assertEqual(self.table('faults')[0][1:3], ['2.00 s', '10.00 s'])
        self.assertEqual(self.table('by-node')[1][-1], 'cut off')
        self.assertEqual([row[1] for row in self.table('by-node')], [row[1] for row in before], 'the past is another one')
        self.browser.until('location.hash.includes("faults=partition%3A2%3A2%3A10")')
        self.browser.run('(() => { const scrub = document.getElementById("nodes-scrub"); scrub.value = 4; scrub.dispatchEvent(new Event("input")) })()')
        self.browser.run('document.querySelectorAll("#net-buttons button")[1].focus(), document.activeElement.click()')
        self.browser.until('document.getElementById("faults").innerText.includes("4.00 s")')
        self.assertEqual(self.table('by-node')[1][-1], 'up')
        self.assertEqual(self.browser.run('document.activeElement.textContent'), 'cut 1', 'the focus stays')
        self.browser.until('document.querySelector("#faults button")')
        self.browser.run('document.querySelector("#faults button").focus(), document.activeElement.click()')
        self.browser.until('document.getElementById("faults").innerText.includes("none")')
        self.assertEqual(self.browser.run('document.activeElement.id'), 'fault-add')
        self.set('cluster', 'nodes', 3)
        self.browser.until('document.querySelectorAll("#net-buttons button").length === 3')

    def test_what_is_too_much_is_told(self):
        self.show('#nodes?nodes=16&rate=500&duration=60')
        self.assertIn('more than 200,000 requests', self.browser.run('document.getElementById("nodes-wrong").textContent'))


class Lock(Case):
    READY = 'document.querySelector("#lock-world td")'
    LOST = 'of that, lost: it is not in the value'

    def to_the_end(self, part):
        self.show(part, self.READY)
        self.browser.run('document.getElementById("lock-all").click()')
        return {row[0]: row[1] for row in self.table('lock-world')}, self.table('lock-log')

    def test_the_stories(self):
        world, log = self.to_the_end('#lock')
        self.assertEqual((world['value at the resource'], world[self.LOST]), ('110', '5'))
        self.assertEqual(log[-1][2:5], ['A', 'write', 'acknowledged: 100 + 10 = 110'])
        self.assertIn('Lost: 5', self.browser.run('document.getElementById("lock-verdict").textContent'))
        world, log = self.to_the_end('#lock?checked=1')
        self.assertEqual((world['value at the resource'], world[self.LOST]), ('105', '0'))
        self.assertEqual(log[-1][4], 'refused: a later token is installed: you have been replaced')
        world, _ = self.to_the_end('#lock?checked=1&order=late&story=between')
        self.assertEqual(world[self.LOST], '10')
        world, _ = self.to_the_end('#lock?checked=1&story=between')
        self.assertEqual(world[self.LOST], '0')

    def test_the_visitor_says_who_pauses_when(self):
        self.show('#lock?checked=1', self.READY)

        def click(words):
            self.browser.run(f'[...document.querySelectorAll("#demo-lock button")].find(one => one.textContent === {json.dumps(words)} && !one.disabled).click()')
        for words in ('C: acquire the lock', 'C: install the token', 'C: is paused', '11 s go by', 'B: acquire the lock', 'B: install the token', 'C: wakes up', 'C: read',
                      'C: is the lock still mine?'):
            click(words)
        self.assertEqual(self.table('lock-log')[-1][4], 'refused: the lease has ended: it is not yours any more')
        self.assertTrue(self.browser.run('[...document.querySelectorAll("#demo-lock button")].find(one => one.textContent === "C: write").disabled'))
        opacity, *colours = self.browser.run('''(() => {
          const [one, note] = ["button:disabled", ".note"].map(what =>
            getComputedStyle(document.querySelector(`#demo-lock ${what}`)))
          return [one.opacity, one.color, note.color] })()''')
        self.assertEqual((opacity, colours[0]), ('1', colours[1]), 'it can be read')


class Reads(Case):
    READY = 'document.querySelector("#read-sums td")'

    def sums(self, part):
        self.show(part, self.READY)
        return {row[0].split(':')[0]: [int(cell.replace(',', '')) for cell in row[1:6]] for row in self.table('read-sums')}

    def test_a_failover_loses_something_and_the_tracked_are_told(self):
        sums = self.sums('#reads')
        self.assertEqual(sums['tracked'][1:4], [0, 0, 0])
        self.assertGreater(sums['tracked'][4], 0)
        for name in ('plain', 'sticky', 'window'):
            self.assertGreater(sums[name][1] + sums[name][2], 0)
            self.assertEqual(sums[name][4], 0)
        self.browser.run('document.querySelector("#demo-reads details").open = true')
        rows = self.table('violations')
        self.assertTrue(rows)
        self.assertNotIn('tracked', {row[1] for row in rows})
        self.assertTrue(all(int(row[4]) < int(row[5]) for row in rows))
        times = [float(row[0]) for row in rows]
        self.assertEqual(times, sorted(times))

    def test_without_a_fault_nobody_is_told_lost(self):
        self.show('#reads', self.READY)
        self.browser.run('document.querySelector("#read-faults button").focus(), document.activeElement.click()')
        self.browser.until('document.getElementById("read-faults").innerText.includes("none")')
        self.assertEqual(self.browser.run('document.activeElement.id'), 'read-fault-add')
        rows = {row[0].split(':')[0]: row for row in self.table('read-sums')}
        self.assertEqual(rows['tracked'][2:6], ['0'] * 4)
        self.browser.run('(() => { const scrub = document.getElementById("read-scrub"); scrub.value = 5; scrub.dispatchEvent(new Event("input")) })()')
        self.browser.run('document.getElementById("read-fault-kind").value = "stall"; document.getElementById("read-fault-span").value = 3; document.getElementById("read-fault-add").click()')
        self.browser.until('document.getElementById("read-faults").innerText.includes("stands still")')
        self.assertEqual(self.table('read-faults')[0][:3], ['replica 2: stands still', '5.00 s', '8.00 s'])
        self.browser.run('(() => { const scrub = document.getElementById("read-scrub"); scrub.value = 7.9; scrub.dispatchEvent(new Event("input")) })()')
        self.assertGreater(int(self.table('lag-table')[2][1].replace(',', '')), 2500)
        self.browser.until('location.hash.includes("t=7.9")')
        address, shown = self.browser.run('location.hash'), self.table('lag-table')
        self.show('#reads', self.READY)
        self.assertNotIn('t=', self.browser.run('location.hash'))
        self.show(address, self.READY)
        self.assertEqual(self.browser.run('document.getElementById("read-at").textContent'), '7.90 s')
        self.assertEqual(self.table('lag-table'), shown, 'a shared address shows the same moment')


class Pages(Case):
    def test_links_go_from_one_to_the_other_and_back(self):
        self.show('#nodes?count=77', 'document.querySelectorAll("#ways tbody tr").length === 11')
        for name in ('lock', 'reads', 'observed', 'algorithms', 'nodes'):
            self.browser.run(f'document.querySelector("nav a[href=\\"#{name}\\"]").click()')
            self.browser.until(f'!document.getElementById("demo-{name}").hidden && document.querySelector("nav [aria-current]").hash === "#{name}"')
            self.assertEqual(self.browser.run('[...document.querySelectorAll("main > section")].filter(one => !one.hidden).length'), 1)
        self.browser.until('location.hash === "#nodes?count=77"')
        self.browser.run('location.hash = "#lock?checked=1"')
        self.browser.until('document.body?.dataset.ready === "yes" && document.querySelector("#lock-options input")?.checked')

    def test_a_demo_that_is_left_keeps_no_other_from_its_address(self):
        """It may still compute, and would then tell its own."""
        self.show('#nodes?count=77', 'document.querySelectorAll("#ways tbody tr").length === 11')
        self.browser.run('location.hash = "#algorithms"')
        self.browser.until('document.querySelector("#sums td")')
        self.browser.run('''new Promise(resolve => {
          addEventListener("hashchange", () => resolve(document.getElementById("scrub").dispatchEvent(new Event("input"))), {once: true})
          location.hash = "#nodes" })''')
        self.browser.until('location.hash === "#nodes?count=77"')

    def test_time_goes_on_from_where_it_is(self):
        """The first frame after a click may be of a time before the click."""
        for demo, ready, play, at in (('algorithms', 'document.querySelector("#sums td")', 'play', 'scrub-at'),
                                      ('nodes', 'document.querySelectorAll("#ways tbody tr").length === 11', 'nodes-play', 'nodes-at')):
            with self.subTest(demo=demo):
                self.show(f'#{demo}', ready)
                times = self.browser.run(f'''new Promise(resolve => {{
                  const own = window.requestAnimationFrame, seen = []
                  window.requestAnimationFrame = work => own(now => {{
                    work(now - 500)
                    if (seen.push(document.getElementById("{at}").textContent) === 5) resolve(seen) }})
                  document.getElementById("{play}").click() }})''')
                numbers = [float(one.removesuffix(' s')) for one in times]
                self.assertGreaterEqual(numbers[0], 0)
                self.assertEqual(numbers, sorted(numbers))

    def test_a_slider_that_moves_fast_is_no_trouble(self):
        self.show('#algorithms', 'document.querySelector("#sums td")')
        self.browser.run('''(() => { const scrub = document.getElementById("scrub")
          for (let i = 0; i < 600; i++) { scrub.value = i / 10; scrub.dispatchEvent(new Event("input")) } })()''')
        self.browser.until('location.hash.includes("t=59.9")')


class OfAFile(PagesCase):
    def test_one_file_from_a_disk(self):
        self.show(self.alone('playground.html'), 'document.querySelector("#sums td")')
        self.assertEqual(self.table('sums')[2][:3], ['Fixed window', '40', '40'])
        self.assertEqual([one for one in self.browser.asked if one.startswith('http')], [])

    def test_a_folder_on_any_web_server(self):
        with self.other_server() as own:
            self.show(own + '#lock', 'document.querySelector("#lock-world td")')
            self.browser.run('location.hash = "#observed"')
            self.browser.until('document.getElementById("beside-absent").checkVisibility()')
            self.assertFalse(self.browser.run('document.getElementById("beside-present").checkVisibility()'))
            self.assertEqual([one for one in self.browser.asked if '/v1/' in one], [], 'a copy asks nobody')


class Everybody(Case):
    PARTS = {'algorithms': 'document.querySelector("#sums td")', 'nodes': 'document.querySelectorAll("#ways tbody tr").length === 11',
             'lock': 'document.querySelector("#lock-world td")', 'reads': 'document.querySelector("#read-sums td")',
             'observed': 'document.getElementById("beside-of").textContent'}

    def test_axe_finds_nothing(self):
        for dark in (False, True):
            self.browser.shape(1280, dark=dark)
            for part, ready in self.PARTS.items():
                with self.subTest(part=part, dark=dark):
                    self.show(f'#{part}', ready)
                    self.axe_finds_nothing(1280)

    def test_on_a_small_screen_nothing_is_cut_off(self):
        self.browser.shape(360, 740)
        for part, ready in self.PARTS.items():
            with self.subTest(part=part):
                self.show(f'#{part}', ready)
                self.assertLessEqual(self.browser.run('document.scrollingElement.scrollWidth'), 360)

    def test_on_a_wall_lines_and_nodes_grow_with_the_words(self):
        self.browser.shape(3840, 2160)
        self.show('#nodes', self.PARTS['nodes'])
        scale, line = self.browser.run('''[document.getElementById("net").getScreenCTM().a,
          parseFloat(getComputedStyle(document.querySelector("#ours-over .line")).strokeWidth)]''')
        self.assertEqual((scale, line), (1.5, 3))

    def test_each_control_has_a_name_and_can_be_reached_by_keyboard(self):
        for part, ready in self.PARTS.items():
            with self.subTest(part=part):
                self.show(f'#{part}', ready)
                reached = set()
                for _ in range(80):
                    self.browser.press('Tab')
                    reached.add(self.browser.run('''(() => { const one = document.activeElement
                      return one.id || (one.labels && one.labels.length ? one.labels[0].textContent : one.textContent) })()'''))
                shown = self.browser.run(f'''[...document.querySelectorAll("#demo-{part} input, #demo-{part} select, #demo-{part} button, #demo-{part} textarea")]
                  .filter(one => one.checkVisibility() && !one.disabled).map(one => one.id || (one.labels && one.labels.length ? one.labels[0].textContent : one.textContent))''')
                self.assertEqual([one for one in shown if one not in reached], [])


if __name__ == '__main__':
    unittest.main()
