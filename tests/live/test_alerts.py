#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/alerts.md and deploy/prometheus/weir.rules.yml: each metric of the rules is one that a server tells, with the labels
that the rules ask for; the page says what to do at each alert; its command writes what node_exporter takes."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import yaml

from ports import free_port
from redis_server import wait_for
from weir_server import FORWARDED_NGINX, ROOT, Resp, Weir

RULES = ROOT / 'deploy/prometheus/weir.rules.yml'
PAGE = ROOT / 'docs/alerts.md'
OF_OTHERS = {'up'}  # Prometheus' own
TOKEN = 'operator-0123456789'
# A server of which everything is wrong: no engine, no other node, no primary, callers without tokens.
CONFIG = FORWARDED_NGINX + '''
auth: { required: always, tokens: [ { name: operator, secret: ''' + TOKEN + ''', rights: [check, metrics] } ] }
engine: { redis: { servers: [127.0.0.1:1], connect_timeout: 10ms } }
cluster_secret: 00112233445566778899aabbccddeeff
cluster: { node: a, nodes: [ { name: a, gossip: 127.0.0.1:PORT }, { name: b, gossip: 127.0.0.1:1 } ] }
locks: { engine: sqlite, path: FOLDER/locks.db }
table: { snapshot: FOLDER/counters }
sessions: { servers: [ { name: x, url: "host=127.0.0.1 port=1" } ] }
limits:
  - { name: api, match: { route: /api }, key: [user], rate: 10/min }
  - { name: told, match: { route: /told }, key: [user], rate: 10/min, sharing: gossip }
  - { name: jobs, match: { route: /jobs }, key: [user], rate: 10, algorithm: concurrency, sharing: split }
'''
SELECTOR = re.compile(r'\b([a-z_]+)(?:\{([^}]*)\})?')
WORDS = {'increase', 'unless', 'offset', 'or', 'on', 'by', 'count', 'job', 'instance', 'm'}


def rules():
    [group] = yaml.safe_load(RULES.read_text(encoding='utf-8'))['groups']
    return group['rules']


def selectors(expression):
    """(metric, {label: value}) of each metric in it."""
    for name, labels in SELECTOR.findall(re.sub(r'\[\w+\]', '', expression)):
        if name not in WORDS:
            yield name, dict(re.findall(r'(\w+)=~?"([^"]*)"', labels))


def get(weir, path, token=TOKEN):
    request = urllib.request.Request(f'http://127.0.0.1:{weir.http}{path}',
                                     headers={'Authorization': f'Bearer {token}'} if token else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


class Alerts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='weir-alerts-'))
        cls.weir = cls.enterClassContext(Weir(CONFIG.replace('FOLDER', folder).replace('PORT', str(free_port()))))
        with Resp(cls.weir.resp) as client:
            client.ask('AUTH', TOKEN)
            for attributes in (('route', '/api', 'user', 'ada'), ('route', '/api'), ('route', '/other')):
                client.ask('WEIR.CHECK', 1, *attributes)
        try:
            get(cls.weir, '/metrics', None)
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        wait_for(lambda: 'weir_fallback_total{' in get(cls.weir, '/metrics'), 'no fallback is counted')
        cls.samples = [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels or ''))) for name, labels in
                       re.findall(r'^(\w+)(?:\{(.*)\})? \S+$', get(cls.weir, '/metrics'), re.M)]

    def test_a_server_tells_each_metric_of_the_rules_with_these_labels(self):
        found = 0
        for rule in rules():
            for name, labels in selectors(rule['expr']):
                with self.subTest(rule['alert'], name=name):
                    if name in OF_OTHERS:
                        continue
                    found += 1
                    has = [sample for sample_name, sample in self.samples if sample_name == name]
                    self.assertTrue(has, 'no such metric')
                    if labels.get('role') == 'primary':  # there is none here
                        del labels['role']
                        self.assertIn('role', has[0])
                    self.assertTrue(any(all(re.fullmatch(value, sample.get(label, '')) for label, value in labels.items())
                                        for sample in has), (labels, has))
        self.assertGreater(found, 20)

    def test_the_labels_that_the_summaries_show_are_there(self):
        for rule in rules():
            [first, *_] = selectors(rule['expr'])
            known = {'job', 'instance'}.union(*(sample for name, sample in self.samples if name == first[0]))
            shown = set(re.findall(r'\$labels\.(\w+)', rule['annotations']['summary']))
            self.assertLessEqual(shown, known, rule['alert'])

    def test_each_rule_is_whole_and_the_page_says_what_to_do(self):
        for rule in rules():
            self.assertLessEqual({'alert', 'expr', 'labels', 'annotations'}, set(rule))
            self.assertLessEqual(set(rule), {'alert', 'expr', 'labels', 'annotations', 'for'})
            self.assertIn(rule['labels']['severity'], ('page', 'ticket'))
            self.assertEqual(rule['expr'].count('('), rule['expr'].count(')'))
        named = re.findall(r'^\| `(Weir\w+)` \|', PAGE.read_text(encoding='utf-8'), re.M)
        self.assertEqual(named, [rule['alert'] for rule in rules()])

    def test_the_command_for_the_textfile_collector(self):
        [command] = re.findall(r'^```sh\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S)
        with tempfile.TemporaryDirectory(prefix='weir-textfile-') as folder:
            written = pathlib.Path(folder, 'weir.prom')

            def run(url, code):
                done = subprocess.run(['sh', '-c', command], capture_output=True, text=True, timeout=60, check=False,
                                      env={**os.environ, 'FOLDER': folder, 'WEIR': url, 'WEIR_TOKEN': TOKEN})
                self.assertEqual(done.returncode, code, done.stderr)

            run(f'http://127.0.0.1:{self.weir.http}', 0)
            text = written.read_text(encoding='utf-8')
            self.assertIn('\nweir_engine_ready 0\n', text)
            self.assertNotIn('process_', text)
            run('http://127.0.0.1:1', 0)
            self.assertFalse(written.exists())


if __name__ == '__main__':
    unittest.main()
