#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/grafana/weir.json: it is whole, its panels lie beside each other, and each expression asks for what servers tell,
in words that Prometheus understands. Not shown: that Grafana draws it."""
import itertools
import json
import pathlib
import re
import tempfile
import unittest

import yaml

from told_metrics import labels_of, promtool, selectors, told, untold
from weir_server import ROOT

DASHBOARD = ROOT / 'deploy/grafana/weir.json'
RULES = ROOT / 'deploy/prometheus/weir.rules.yml'
COLUMNS = 24
SOURCE = {'type': 'prometheus', 'uid': '${datasource}'}


def dashboard():
    return json.loads(DASHBOARD.read_text(encoding='utf-8'))


def targets():
    """(title of the panel, its target) of each."""
    for panel in dashboard()['panels']:
        for target in panel.get('targets', []):
            yield panel['title'], target


def plain(expression):
    """Without Grafana's variables."""
    return expression.replace('$__rate_interval', '5m').replace('$node', '.+')


def cells(panel):
    place = panel['gridPos']
    return set(itertools.product(range(place['x'], place['x'] + place['w']), range(place['y'], place['y'] + place['h'])))


class Form(unittest.TestCase):
    def test_ids_and_titles_are_unique(self):
        panels = dashboard()['panels']
        for name in 'id', 'title':
            values = [panel[name] for panel in panels]
            self.assertEqual(len(set(values)), len(values), name)

    def test_panels_do_not_overlap_and_leave_no_row_empty(self):
        taken = set()
        for panel in dashboard()['panels']:
            here = cells(panel)
            self.assertFalse(here & taken, panel['title'])
            self.assertTrue(here and all(0 <= column < COLUMNS for column, _ in here), panel['title'])
            taken |= here
        lines = {line for _, line in taken}
        self.assertEqual(lines, set(range(max(lines) + 1)))

    def test_where_the_data_come_from_is_chosen_and_so_is_the_node(self):
        shown = dashboard()
        self.assertGreaterEqual(shown['schemaVersion'], 39)  # Grafana 10.4
        self.assertIsNone(shown['id'])
        variables = {variable['name']: variable for variable in shown['templating']['list']}
        self.assertEqual(list(variables), ['datasource', 'node'])
        self.assertEqual((variables['datasource']['type'], variables['datasource']['query']), ('datasource', 'prometheus'))
        self.assertEqual(variables['node']['datasource'], SOURCE)
        self.assertEqual(variables['node']['query']['query'], 'label_values(weir_info, instance)')
        for panel in shown['panels']:
            if panel['type'] != 'row':
                self.assertEqual(panel['datasource'], SOURCE, panel['title'])
                self.assertTrue(panel['targets'], panel['title'])
        for title, target in targets():
            with self.subTest(title):
                self.assertEqual(target['datasource'], SOURCE)
                names = [name for name, _ in selectors(target['expr'])]
                self.assertEqual(target['expr'].count('{instance=~"$node"'), len(names))
                self.assertLessEqual(set(re.findall(r'\$\w+', target['expr'])), {'$node', '$__rate_interval'})
        for panel in shown['panels']:
            references = [target['refId'] for target in panel.get('targets', [])]
            self.assertEqual(len(set(references)), len(references), panel['title'])

    def test_the_alerts_that_it_names_are_there(self):
        [group] = yaml.safe_load(RULES.read_text(encoding='utf-8'))['groups']
        named = set(re.findall(r'\bWeir\w+', DASHBOARD.read_text(encoding='utf-8')))
        self.assertLessEqual(named, {rule['alert'] for rule in group['rules']})
        self.assertGreater(len(named), 10)

    def test_the_worst_keys_are_one_click_away(self):
        links = [link['url'] for panel in dashboard()['panels'] if panel['type'] != 'row'
                 for link in panel['fieldConfig']['defaults'].get('links', [])]
        self.assertEqual(links, ['http://${__field.labels.instance}/v1/top'])

    def test_prometheus_understands_each_expression(self):
        with tempfile.TemporaryDirectory(prefix='weir-dashboard-') as folder:
            path = pathlib.Path(folder, 'rules.yml')

            def check(expressions):
                rules = [{'record': f'dashboard:{number}', 'expr': expression} for number, expression in enumerate(expressions)]
                path.write_text(yaml.safe_dump({'groups': [{'name': 'dashboard', 'rules': rules}]}), encoding='utf-8')
                return promtool('check', 'rules', path)

            self.assertIsNone(check([plain(target['expr']) for _, target in targets()]))
            self.assertIn('parse error', check(['sum by (limit) (weir_limits']))


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, cls.samples = cls.enterClassContext(told())

    def test_servers_tell_what_it_asks_for(self):
        for title, target in targets():
            with self.subTest(title):
                self.assertTrue(list(selectors(target['expr'])))
                self.assertEqual(list(untold(self.samples, plain(target['expr']))), [])

    def test_the_labels_in_its_legends_are_there(self):
        for title, target in targets():
            with self.subTest(title):
                known = set().union(*(labels_of(self.samples, name) for name, _ in selectors(target['expr'])))
                self.assertLessEqual(set(re.findall(r'\{\{(\w+)\}\}', target['legendFormat'])), known)
                for group in re.findall(r'\bby \(([^)]*)\)', target['expr'])[:1]:  # what it does not group by is gone
                    self.assertLessEqual(set(re.findall(r'\{\{(\w+)\}\}', target['legendFormat'])), set(group.split(', ')))


if __name__ == '__main__':
    unittest.main()
