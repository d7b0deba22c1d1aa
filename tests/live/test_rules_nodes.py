#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A version of the rules that is for some nodes alone: these decide by it, the others by what they have, also after a
restart with and without the store; then it is for all, or goes back."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from redis_server import Redis, wait_for
from test_rules_http import ask
from test_rules_store import check, in_force
from weir_server import BUILD, Weir


def rules(rate, nodes=None, sharing='split'):
    limit = {'name': 'api', 'rate': rate, 'key': ['user'], 'algorithm': 'fixed_window', 'sharing': sharing}
    return json.dumps(({'nodes': nodes} if nodes else {}) | {'limits': [limit]})


class Case(unittest.TestCase):
    engine, newest = '', 0

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-nodes-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / 'weir.yaml'
        self.config.write_text(self.text('none'), encoding='utf-8')
        self.apply(rules('100/day', sharing=self.sharing))

    def text(self, name):
        return (f'rules: {{ store: "sqlite:{self.folder}/rules.db", timeout: 60s, kept: "{self.folder}/kept-{name}" }}\n'
                f'cluster: {{ nodes: [ {{ name: a }}, {{ name: b }} ] }}\n{self.engine}')

    def verb(self, verb, *arguments, stdin='', code=0):
        done = subprocess.run([str(BUILD / 'weir'), 'rules', verb, '--config', str(self.config), *map(str, arguments)],
                              input=stdin, capture_output=True, encoding='utf-8', timeout=120, check=False,
                              env=dict(os.environ, LOGNAME='grace'))
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def apply(self, text, code=0):
        said = self.verb('apply', '--comment', 'why', *(('--from', self.newest) if self.newest else ()), '-', stdin=text,
                         code=code)
        self.newest += code == 0
        return said

    def node(self, name):
        weir = Weir(self.text(name), arguments=('--node', name))
        self.addCleanup(weir.stop)
        return weir

    def follow(self, weir, version, others=None):
        wait_for(lambda: (in_force(weir)['rules']['version'], in_force(weir)['rules'].get('for_others')) == (version, others),
                 f'not {version} and {others}')

    def capacity(self, weir):
        return check(weir)[1]['limits'][0]['capacity']


class Alone(Case):
    sharing = 'split'

    def test_history_of_a_node_that_there_is_no_more(self):
        self.apply(rules('200/day', ['b']))
        self.apply(rules('300/day'))
        self.config.write_text(self.text('none').replace('{ name: b }', '{ name: c }'), encoding='utf-8')
        said = self.verb('history')
        self.assertEqual(said.count('not known: its text is no set of rules for this configuration: node "b" must be one of a, c'), 1)
        self.assertEqual(said.count('not known: the text before is no set of rules for this configuration: node "b"'), 1)
        self.assertNotIn('no limit has other numbers', said)
        self.assertIn('say which configuration: --config FILE',
                      subprocess.run([str(BUILD / 'weir'), 'rules', 'history'], capture_output=True, encoding='utf-8',
                                     check=False).stderr)

    def test_one_node_first_then_all_then_back(self):
        a, b = self.node('a'), self.node('b')
        self.assertEqual((self.capacity(a), self.capacity(b)), (50, 50))
        self.apply(rules('200/day', ['a']))
        self.follow(a, 2)
        self.follow(b, 1, others=2)
        self.assertEqual((self.capacity(a), self.capacity(b)), (100, 50))
        self.assertIn('changed: api ', a.output())
        self.assertNotIn('until the others are reloaded', a.output())  # nobody would have to
        # Whoever starts again finds the version that is its own: with the store, at SIGHUP, and without it.
        a.stop(), b.stop()
        a, b = self.node('a'), self.node('b')
        self.follow(b, 1, others=2)
        os.kill(b.process.pid, signal.SIGHUP)
        wait_for(lambda: in_force(b)['reloads']['done'] == 1, 'no reload')
        self.assertEqual((in_force(b)['rules']['version'], self.capacity(a), self.capacity(b)), (1, 100, 50))
        a.stop(), b.stop()
        away = self.folder / 'away'
        away.mkdir()
        for path in self.folder.glob('rules.db*'):
            shutil.move(path, away)
        a, b = self.node('a'), self.node('b')
        self.assertEqual((self.capacity(a), self.capacity(b)), (100, 50))
        a.stop(), b.stop()
        for path in away.iterdir():
            shutil.move(path, self.folder)
        a, b = self.node('a'), self.node('b')
        # Another one for b alone: a stays with its own.
        self.apply(rules('300/day', ['b']))
        self.follow(b, 3, others=2)
        self.follow(a, 2, others=3)
        status, _, told = ask(a, 'GET', '/v1/limits', token=None, seen=3)
        self.assertEqual((status, 'version 3 is for other nodes' in told['detail']), (409, True), told)
        self.assertEqual((self.capacity(a), self.capacity(b)), (100, 150))
        self.apply(rules('400/day'))
        for weir in (a, b):
            wait_for(lambda weir=weir: in_force(weir)['rules']['version'] == 4, 'not for all')
        self.verb('rollback', '--comment', 'back', 3)
        self.follow(b, 5, others=2)
        wait_for(lambda: in_force(a)['rules'] == in_force(a)['rules'] | {'version': 4, 'for_others': 5}, 'a follows')
        history = json.loads(self.verb('history', '--json'))
        self.assertEqual([one['version'] for one in history], [5, 4, 3, 2, 1])

    def test_what_a_node_missed_is_found_behind_one_for_others(self):
        b = self.node('b')
        wait_for(lambda: json.loads(self.verb('history', '--json'))[0]['nodes'], 'it has not told')  # and so writes no more
        os.kill(b.process.pid, signal.SIGSTOP)
        self.apply(rules('300/day'))
        self.apply(rules('200/day', ['a']))
        os.kill(b.process.pid, signal.SIGCONT)
        self.follow(b, 2, others=3)
        self.assertEqual(self.capacity(b), 150)

    def test_a_ban_is_of_a_limit_of_any_node(self):
        a, b = self.node('a'), self.node('b')
        self.apply(rules('100/day', ['a']).replace('"api"', '"new"'))
        self.follow(a, 2)
        for name, weir in (('api', b), ('new', a)):
            self.verb('ban', '--comment', 'why', name, 'user=eve')
            wait_for(lambda weir=weir: check(weir, user='eve')[0] == 429, 'not banned')
        self.assertIn('no limit "none"', self.verb('ban', '--comment', 'why', 'none', 'user=eve', code=2))
        self.verb('unban', '--comment', 'why', 'api', 'user=eve')
        self.verb('unban', '--comment', 'why', 'new', 'user=eve')
        self.apply(rules('100/day'))
        self.assertIn('no limit "new"', self.verb('ban', '--comment', 'why', 'new', 'user=eve', code=2))

    def test_however_the_key_is_written(self):
        b = self.node('b')
        for version, key in enumerate(('"nodes"', "'nodes'", '"n\\x6fdes"', '? nodes\n', '"\\u006eodes"'), 2):
            self.apply(f'{key}: [a]\n' + rules(f'{version}00/day').replace('{"limits"', 'limits', 1)[:-1])
            self.follow(b, 1, others=version)

    def test_what_is_wrong_is_refused_with_its_place(self):
        for text, said in ((rules('200/day', ['c']), 'node "c" must be one of a, b'),
                           (rules('200/day', ['a', 'a']), 'node "a" stands twice in nodes'),
                           ('nodes: a\n' + 'limits: []\n', 'nodes must be a list'),
                           ('nodes: []\nlimits: []\n', 'nodes must be 1 to 256'),
                           ('nodes: [[a]]\nlimits: []\n', "a node's name"),
                           (f'nodes: [{"a" * 65}]\nlimits: []\n', 'must be 1 to 64 bytes long')):
            self.assertIn(said, self.apply(text, code=2), text)
        self.assertEqual(len(json.loads(self.verb('history', '--json'))), 1)

    def test_a_first_version_is_for_all(self):
        (self.folder / 'rules.db').unlink()
        self.newest = 0
        self.assertIn('the first version must be for all nodes', self.apply(rules('10/day', ['a']), code=2))

    def test_a_hundred_versions_for_others_are_looked_through_and_no_more(self):
        for _ in range(99):
            self.apply(rules('200/day', ['a']).replace('200', str(200 + _)))
        b = self.node('b')
        self.assertEqual(in_force(b)['rules'], in_force(b)['rules'] | {'version': 1, 'for_others': 100})
        b.stop()
        os.unlink(self.folder / 'kept-b')
        self.apply(rules('500/day', ['a']))
        with self.assertRaisesRegex(AssertionError, 'has no version that is for node b'):
            self.node('b')


class Shared(Case):
    sharing = 'exact'

    def setUp(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        self.engine = f'engine: {{ redis: {{ servers: ["127.0.0.1:{redis.port}"] }} }}\n'
        super().setUp()

    def test_a_limit_that_nodes_share_changes_on_all_at_once(self):
        said = self.apply(rules('200/day', ['a'], 'exact'), code=2)
        self.assertIn('limit "api" would change, and the nodes share it', said)
        self.assertIn('limit "api" would change', self.apply(json.dumps({'nodes': ['a'], 'limits': []}), code=2))
        more = json.loads(rules('100/day', ['a'], 'exact'))
        more['limits'].append({'name': 'own', 'rate': '7/day', 'key': ['user'], 'sharing': 'split'})
        self.apply(json.dumps(more))
        a, b = self.node('a'), self.node('b')
        self.assertEqual((len(in_force(a)['limits']), len(in_force(b)['limits'])), (2, 1))

    def test_what_was_rolled_back_while_no_node_ran_is_enforced(self):
        """The engine knows the newer definition, and starts alone would go by it: the store has the last word."""
        nodes = [self.node(name) for name in 'ab']
        self.apply(rules('200/day', sharing='exact'))
        for node in nodes:
            self.follow(node, 2)
            wait_for(lambda node=node: self.capacity(node) == 200, 'not followed')
        for node in nodes:
            self.assertEqual(node.stop(), 0)
        self.verb('rollback', '--comment', 'why', 1)
        nodes = [self.node(name) for name in 'ab']
        for node in nodes:
            wait_for(lambda node=node: self.capacity(node) == 100, 'the engine has the last word')
            self.assertEqual(in_force(node)['rules']['version'], 3)
        nodes.pop().stop()
        self.newest = 3
        self.apply(rules('300/day', sharing='exact'))
        wait_for(lambda: self.capacity(nodes[0]) == 300, 'not followed')
        nodes.append(self.node('b'))  # it had 100
        for node in nodes:
            wait_for(lambda node=node: self.capacity(node) == 300, 'a start alone has brought nothing back')


if __name__ == '__main__':
    unittest.main()
