#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/alerts.md and deploy/prometheus: each metric of the rules is one that a server tells, with the labels that the rules
ask for; promtool sees each alert fire, and stay silent; the page says what to do at each alert; its command writes what
node_exporter takes."""
import copy
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from cluster import config
from told_metrics import OF_OTHERS, OPERATOR, get, labels_of, promtool, samples, selectors, told, untold
from weir_server import ROOT, Resp, Weir

RULES = ROOT / 'deploy/prometheus/weir.rules.yml'
CASES = ROOT / 'deploy/prometheus/weir.rules.test.yml'
PAGE = ROOT / 'docs/alerts.md'


def rules():
    [group] = yaml.safe_load(RULES.read_text(encoding='utf-8'))['groups']
    return group['rules']


def cases():
    return yaml.safe_load(CASES.read_text(encoding='utf-8'))['tests']


def is_good(labels):
    return 'good' in (labels.get('job'), labels.get('instance'))


def missing_cases(rule, tests):
    """What the cases lack of an alert: that it fires, and that it is silent where all that it looks at is there."""
    fires, silent = False, False
    names = {name for name, _ in selectors(rule['expr'])}
    for test in tests:
        expected = [one['exp_labels'] for check in test['alert_rule_test'] if check['alertname'] == rule['alert']
                    for one in check['exp_alerts']]
        good = {name for name, labels in samples('\n'.join(f'{one["series"]} 0' for one in test['input_series']))
                if is_good(labels)}
        fires = fires or bool(expected)
        silent = silent or (bool(expected) and names <= good and not any(is_good(labels) for labels in expected))
    return ([] if fires else ['no case in which it fires']) + ([] if silent else ['no case in which it is silent'])


class Cases(unittest.TestCase):
    def test_promtool_takes_the_rules(self):
        self.assertIsNone(promtool('check', 'rules', RULES))

    def test_each_alert_fires_when_it_should_and_only_then(self):
        self.assertIsNone(promtool('test', 'rules', CASES))

    def test_each_alert_has_its_cases(self):
        tests = cases()
        self.assertEqual({rule['alert']: missing for rule in rules() if (missing := missing_cases(rule, tests))}, {})
        named = [check['alertname'] for test in tests for check in test['alert_rule_test']]
        self.assertEqual(list(dict.fromkeys(named)), [rule['alert'] for rule in rules()])

    def test_a_case_that_is_not_there_is_seen(self):
        for rule in rules():
            def lacks(change, rule=rule):
                tests = copy.deepcopy(cases())
                [test] = [test for test in tests if test['alert_rule_test'][0]['alertname'] == rule['alert']]
                change(test)
                return missing_cases(rule, tests)

            with self.subTest(rule['alert']):
                self.assertEqual(len(lacks(lambda test: test.update(alert_rule_test=[]))), 2)
                self.assertEqual(lacks(lambda test: test.update(input_series=[
                    one for one in test['input_series'] if 'good' not in one['series']])), ['no case in which it is silent'])


class Units(unittest.TestCase):
    """The numbers behind WeirOverLimit."""
    LIMITS = '''limits:
  - { name: all, match: { kind: all }, key: [], rate: 10/min, cost: 2 }
  - { name: other, match: { kind: all }, key: [user], rate: 4/day }
  - { name: windows, match: { kind: windows }, key: [], rate: 5/hour, algorithm: fixed_window }
  - { name: quiet, match: { kind: all }, key: [], rate: 5/hour, mode: shadow }
  - { name: jobs, match: { kind: jobs }, key: [], rate: 5, algorithm: concurrency }
'''

    def units(self, weir, of):
        found = re.findall(rf'^weir_{of}\{{limit="(\w+)"[^}}]*\}} (\d+)$', get(weir, '/metrics'), re.M)
        return {limit: int(value) for limit, value in found}

    def test_what_was_admitted_and_what_may_be(self):
        with Weir(self.LIMITS) as weir:
            kind = ('kind', 'all', 'user', 'ada')
            self.assertEqual(self.units(weir, 'admitted_units_total'), {'all': 0, 'windows': 0})
            self.assertEqual(self.units(weir, 'limit_hour_units'), {'all': 610, 'windows': 15})
            with Resp(weir.resp) as resp:
                self.assertEqual([resp.ask('WEIR.CHECK', 3, *kind)[0], resp.ask('WEIR.CHECK', 1, *kind)[0]], [1, 1])
                self.assertEqual(resp.ask('WEIR.PEEK', 1, *kind)[0], 0)
                self.assertEqual(resp.ask('WEIR.CHECK', 1, *kind)[0], 0)  # by the other limit: nothing is charged
                self.assertEqual(self.units(weir, 'admitted_units_total'), {'all': 8, 'windows': 0})
                resp.ask('WEIR.REFUND', 1, *kind)
            self.assertEqual(self.units(weir, 'returned_units_total'), {'all': 2, 'windows': 0})

    def test_limits_that_nodes_share(self):
        """What on_failure admits is admitted: with `open`, as much as is asked for."""
        limits = '  - { name: all, key: [], rate: 2/day, sharing: exact, on_failure: open, deadline: 20ms }\n'
        with Weir(config(limits, 'servers: ["127.0.0.1:1"]', ('a', 'b'), ''), 1, ('--node', 'a')) as weir:
            with Resp(weir.resp) as resp:
                self.assertEqual([resp.ask('WEIR.CHECK', 2, 'user', 'ada')[0] for _ in range(10)], [1] * 10)
            self.assertEqual(self.units(weir, 'admitted_units_total'), {'all': 20})
            self.assertIn('weir_limit_hour_units{limit="all",to="nodes"} 2\n', get(weir, '/metrics'))


class Alerts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir, cls.samples = cls.enterClassContext(told())

    def test_a_server_tells_each_metric_of_the_rules_with_these_labels(self):
        for rule in rules():
            with self.subTest(rule['alert']):
                self.assertTrue(list(selectors(rule['expr'])))
                self.assertEqual(list(untold(self.samples, rule['expr'])), [])
        self.assertEqual(list(untold(self.samples, 'weir_none')), ['weir_none: no such metric'])
        self.assertEqual(len(list(untold(self.samples, 'sum by (nope) (weir_fallback_total{policy="nope"})'))), 2)

    def test_promtool_takes_what_a_server_tells(self):
        self.assertIsNone(promtool('check', 'metrics', stdin=get(self.weir, '/metrics')))
        self.assertIsNotNone(promtool('check', 'metrics', stdin='# TYPE weir_x counter\nweir_x 1\n'))

    def test_the_series_of_the_cases_are_such_as_servers_tell(self):
        for test in cases():
            for name, labels in samples('\n'.join(f'{one["series"]} 0' for one in test['input_series'])):
                with self.subTest(name):
                    self.assertEqual(set(labels), {'job', 'instance'} if name in OF_OTHERS else labels_of(self.samples, name))

    def test_the_labels_that_the_summaries_show_are_there(self):
        for rule in rules():
            [first, *_] = selectors(rule['expr'])
            shown = set(re.findall(r'\$labels\.(\w+)', rule['annotations']['summary']))
            self.assertLessEqual(shown, labels_of(self.samples, first[0]), rule['alert'])

    def test_each_rule_is_whole_and_the_page_says_what_to_do(self):
        for rule in rules():
            self.assertLessEqual({'alert', 'expr', 'labels', 'annotations'}, set(rule))
            self.assertLessEqual(set(rule), {'alert', 'expr', 'labels', 'annotations', 'for'})
            self.assertIn(rule['labels']['severity'], ('page', 'ticket'))
        named = re.findall(r'^\| `(Weir\w+)` \|', PAGE.read_text(encoding='utf-8'), re.M)
        self.assertEqual(named, [rule['alert'] for rule in rules()])

    def test_the_first_of_the_refused_is_a_key_among_others(self):
        """Six refusals of the limit that has one counter say nothing of keys."""
        self.assertIn(('weir_top_refused_first', {'limit': 'api'}), self.samples)
        self.assertNotIn(('weir_top_refused_first', {'limit': 'all'}), self.samples)

    def test_the_command_for_the_textfile_collector(self):
        [command] = re.findall(r'^```sh\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S)
        with tempfile.TemporaryDirectory(prefix='weir-textfile-') as folder:
            written = pathlib.Path(folder, 'weir.prom')

            def run(url, code):
                done = subprocess.run(['sh', '-c', command], capture_output=True, text=True, timeout=60, check=False,
                                      env={**os.environ, 'FOLDER': folder, 'WEIR': url, 'WEIR_TOKEN': OPERATOR})
                self.assertEqual(done.returncode, code, done.stderr)

            run(f'http://127.0.0.1:{self.weir.http}', 0)
            text = written.read_text(encoding='utf-8')
            self.assertIn('\nweir_engine_ready 0\n', text)
            self.assertNotIn('process_', text)
            run('http://127.0.0.1:1', 0)
            self.assertFalse(written.exists())


if __name__ == '__main__':
    unittest.main()
