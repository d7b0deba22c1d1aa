#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir sim as people and scripts use it: the table, JSON, the picture, many seeds, a broken bound, wrong arguments."""
import json
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml

from weir_server import BUILD, ROOT

MODES = ('exact', 'leased', 'batched', 'split', 'gossip', 'leased-host', 'batched-host', 'gossip-host', 'exact-host')


def sim(*arguments):
    return subprocess.run([str(BUILD / 'weir'), 'sim', *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          check=False, cwd=ROOT)


class Sim(unittest.TestCase):
    def test_every_mode_keeps_its_bound_and_repeats(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                runs = [sim('--mode', mode, '--seed', 7) for _ in range(2)]
                self.assertEqual((runs[0].returncode, runs[0].stderr), (0, ''))
                self.assertEqual(runs[0].stdout, runs[1].stdout)
                self.assertRegex(runs[0].stdout, r'overshoot: peak \d+, bound \d+')

    def test_options_shape_the_run(self):
        result = json.loads(sim('--mode', 'batched', '--nodes', 5, '--limit', '100/s', '--burst', 50, '--slack', 4,
                                '--clients', 60, '--partition', '2-4:0,1', '--latency', '3ms', '--loss', 0, '--seconds',
                                6, '--json').stdout)
        self.assertEqual((result['limit'], result['slack'], len(result['nodes']), result['duration_ns']),
                         ('token_bucket 100/1000ms burst 50', 4, 5, 6000000000))
        self.assertEqual([(fault['kind'], fault['nodes']) for fault in result['faults']],
                         [('cut', '0-1'), ('split', '0-1')])
        self.assertGreater(result['decisions'], 5 * 60 * 5)
        self.assertLessEqual(result['units'], 50 + 600 + result['bound'])
        self.assertEqual(result['bound'], 20)

    def test_the_picture_is_an_svg_for_light_and_dark(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'run.svg')
            self.assertEqual(sim('--mode', 'gossip', '--plot', path).returncode, 0)
            text = path.read_text(encoding='utf-8')
        self.assertTrue(xml.fromstring(text).tag.endswith('svg'))
        self.assertIn('prefers-color-scheme: dark', text)
        self.assertIn('the limit', text)

    def test_many_seeds(self):
        result = json.loads(sim('--soak', '--mode', 'leased', '--from', 5, '--to', 25, '--json').stdout)
        self.assertEqual((result['runs'], result['broken']), (20, 0))
        self.assertGreaterEqual(result['decisions_min'], 1000)

    def test_a_soak_of_one_algorithm(self):
        for name in ('leaky_bucket', 'sliding_counter'):
            run = sim('--mode', 'exact-host', '--algorithm', name, '--seed', 3)
            self.assertEqual((run.returncode, run.stderr), (0, ''))
            self.assertIn(f', {name} ', run.stdout)
        result = json.loads(sim('--soak', '--mode', 'batched-host', '--algorithm', 'sliding_log', '--to', 11, '--json').stdout)
        self.assertEqual((result['runs'], result['broken']), (10, 0))

    def test_a_broken_bound_is_shrunk_and_can_be_repeated(self):
        result = sim('--soak', '--mode', 'leased', '--plant', 'epoch', '--to', 1001)
        self.assertEqual(result.returncode, 1)
        command = next(line for line in result.stdout.splitlines() if line.startswith('  weir sim'))
        again = sim(*command.split()[2:])
        self.assertEqual(again.returncode, 1)
        self.assertIn('BROKEN', again.stdout)

    def test_a_scenario(self):
        result = sim('sim/scenarios/stale-cache')
        self.assertEqual(result.returncode, 0)
        self.assertIn('3.00x', result.stdout)
        self.assertEqual(sim('sim/scenarios/none').returncode, 2)

    def test_a_plan_is_written_and_run_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'plan')
            result = sim('--mode', 'leased-host', '--seed', 5, '--write', path)
            self.assertEqual(result.returncode, 0)
            again = sim(path)
            self.assertEqual(again.returncode, 0)
            admitted = next(line for line in result.stdout.splitlines() if line.startswith('  all ')).split()[2]
            self.assertIn(f' {admitted} ', next(line for line in again.stdout.splitlines() if line.startswith('leased-host ')))
            self.assertEqual(sim('--write', pathlib.Path(folder, 'none', 'plan')).returncode, 2)
            path.write_text(path.read_text(encoding='utf-8').replace('seed=', 'seed=x'), encoding='utf-8')
            self.assertEqual(sim(path).returncode, 2)

    def test_wrong_arguments(self):
        for arguments in (['--mode', 'x'], ['--nodes', '0'], ['--nodes', '65'], ['--limit', 'x'], ['--burst', '5'],
                          ['--partition', '4-2:0'], ['--partition', '1-2:64'], ['--plant', 'x'], ['--faults', 'x'],
                          ['--seed', '-1'], ['--seed', '18446744073709551616'], ['--latency', '1day'], ['--latency', '0ms'],
                          ['--soak', '--from', '5', '--to', '5'], ['--unknown'], ['--limit', '0/s', '--burst', '1', '--json', 'a', 'b'],
                          ['--mode', 'gossip', '--limit', '10/s', '--algorithm', 'sliding_log'],
                          ['--mode', 'leased', '--limit', '5000/s', '--algorithm', 'sliding_log']):
            with self.subTest(arguments=arguments):
                result = sim(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ''))
                self.assertIn('weir', result.stderr)

    def test_what_is_wrong_names_the_place(self):
        for arguments, said in ((['--limit', '0/s'], '--limit 0/s: must be above 0'),
                                (['--burst', '5'], '--burst: needs --limit'),
                                (['--from', '1', '--to', '5'], '--to: goes with --soak'),
                                (['--from', '5'], '--from: goes with --soak'),
                                (['--locks', '--from', '5', '--to', '3'], '--to 3: must be above --from'),
                                (['--locks', '--from', '5'], '--to 0: must be above --from'),
                                (['--sessions', '--plant', 'x'], '--plant x: there is no such mistake'),
                                (['--locks', 'x'], 'x: not an option')):
            with self.subTest(arguments=arguments):
                result = sim(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ''))
                self.assertIn(said, result.stderr)

    def test_the_largest_slack_ends(self):
        for mode in ('batched', 'gossip'):
            self.assertEqual(sim('--mode', mode, '--limit', '100/s', '--slack', 10 ** 12, '--seed', 3).returncode, 0)

    def test_a_picture_that_cannot_be_written_is_an_error(self):
        for path in ('/dev/full', '/none/such.svg'):
            for arguments in (['--seed', 3], ['sim/scenarios/stale-cache']):
                result = sim('--plot', path, *arguments)
                self.assertEqual((result.returncode, result.stderr), (2, f'weir: cannot write {path}\n'))

    def test_help(self):
        result = sim('--help')
        self.assertEqual((result.returncode, result.stderr), (0, ''))
        self.assertIn('Examples:', result.stdout)


if __name__ == '__main__':
    unittest.main()
