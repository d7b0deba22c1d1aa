#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir rules export` and `import`: a store of rules moves into another one as it was, or not at all."""
import hashlib
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import unittest

from postgres_server import Postgres
from rule_store_case import url
from test_rules_store import version
from weir_server import BUILD, Weir


def rules(rate):
    return json.dumps({'limits': [{'name': 'api', 'rate': rate, 'key': ['user'], 'levels': {'plus': {'burst': 50}}}]})


class Transfer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-transfer-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        seed = int(os.environ.get('WEIR_SEED', random.randrange(2**32)))
        self.random, self.seed = random.Random(seed), f'WEIR_SEED={seed}'

    def store(self, name, spec=None, more=''):
        """The configuration of a store that is not there yet."""
        config = self.folder / f'{name}.yaml'
        config.write_text('rules: { store: "%s", timeout: 30s%s }\n' % (spec or f'sqlite:{self.folder}/{name}.db', more),
                          encoding='utf-8')
        return config

    def run_verb(self, verb, config, *arguments, stdin=''):
        return subprocess.run([str(BUILD / 'weir'), 'rules', verb, '--config', str(config), *map(str, arguments)],
                              input=stdin, capture_output=True, encoding='utf-8', timeout=120, check=False)

    def verb(self, verb, config, *arguments, stdin='', code=0):
        done = self.run_verb(verb, config, *arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, (done, self.seed))
        return done.stdout if code == 0 else done.stderr

    def apply(self, config, rate, number, *arguments):
        self.verb('apply', config, '--comment', f'naïve "{number}"', '--from', number, *arguments, '-', stdin=rules(rate))

    def filled(self):
        """A store with all kinds of versions and exceptions; and its export, as a file."""
        config = self.store('filled')
        self.apply(config, '10/day', 0)
        self.apply(config, '20/day', 1)
        self.verb('rollback', config, '--comment', 'back', 1)
        self.apply(config, '30/day', 3, '--propose')
        self.verb('approve', config, '--comment', 'seen', '--author', 'grace', 4)
        self.apply(config, '40/day', 5, '--propose')
        self.verb('ban', config, '--comment', 'too fast', '--for', '6hour', 'api', 'user=ada')
        self.verb('unban', config, '--comment', 'stopped', 'api', 'user=ada')
        self.verb('ban', config, '--comment', 'for good', 'api', 'user=бob\t')
        self.verb('level', config, '--comment', 'has paid', 'api', 'plus', 'user=eve')
        self.verb('reset', config, '--comment', 'our mistake', 'api', 'user=eve')
        exported = self.folder / 'filled.jsonl'
        exported.write_text(self.verb('export', config), encoding='utf-8')
        return config, exported

    def test_it_is_the_same_in_postgres_and_back_in_sqlite(self):
        _, exported = self.filled()
        postgres = Postgres()
        self.addCleanup(postgres.stop)
        there = self.store('there', url(postgres))
        said = '6 versions and 5 changes of exceptions'
        self.assertEqual(self.verb('import', there, '--dry-run', exported), f'good: {said}\n')
        self.assertEqual(self.run_verb('show', there).returncode, 2)
        self.assertEqual(self.verb('import', there, exported), f'stored: {said}\n')
        self.assertEqual(self.verb('export', there), exported.read_text(encoding='utf-8'))
        back = self.store('back')
        again = self.folder / 'again.jsonl'
        again.write_text(self.verb('export', there), encoding='utf-8')
        self.verb('import', back, again)
        self.assertEqual(self.verb('export', back), exported.read_text(encoding='utf-8'))
        # And it decides: by the newest version that is approved, with its exceptions.
        weir = Weir(there.read_text(encoding='utf-8'))
        self.addCleanup(weir.stop)
        self.assertEqual(version(weir), 5)
        self.assertIn('30/day', self.verb('show', there, 5))
        self.assertEqual([(one['key'], one.get('level')) for one in json.loads(self.verb('exceptions', there, '--json'))],
                         [({'user': 'eve'}, None), ({'user': 'eve'}, 'plus'), ({'user': 'бob\t'}, None)])

    def test_a_rollback_to_a_rollback(self):
        """Its text stands in the line of the version that wrote it, two steps away."""
        config = self.store('back')
        self.apply(config, '10/day', 0)
        self.apply(config, '20/day', 1)
        self.verb('rollback', config, '--comment', 'back', 1)
        self.apply(config, '30/day', 3)
        self.verb('rollback', config, '--comment', 'back', 3)
        exported = self.folder / 'back.jsonl'
        exported.write_text(self.verb('export', config), encoding='utf-8')
        there = self.store('there')
        self.assertEqual(self.verb('import', there, exported), 'stored: 5 versions and 0 changes of exceptions\n')
        self.assertIn('10/day', self.verb('show', there))

    def test_a_disk_that_is_full_is_told(self):
        """Wherever it becomes full: a short export is written at its end, a long one in the midst of it."""
        config = self.store('long')
        self.apply(config, '10/day', 0)
        for _ in range(2):
            with open('/dev/full', 'w', encoding='utf-8') as full:
                done = subprocess.run([str(BUILD / 'weir'), 'rules', 'export', '--config', str(config)], stdout=full,
                                      stderr=subprocess.PIPE, encoding='utf-8', timeout=120, check=False)
            self.assertEqual((done.returncode, done.stderr), (2, 'weir: standard output: No space left on device\n'))
            self.run_verb('apply', config, '--comment', 'long', '--from', 1, '-', stdin='# ' + 'x' * 20000 + '\n' + rules('20/day'))

    def test_one_that_was_killed_is_run_again(self):
        config = self.store('long')
        for number in range(40):
            self.apply(config, f'{number + 1}/day', number)
        exported = self.folder / 'long.jsonl'
        exported.write_text(self.verb('export', config), encoding='utf-8')
        there, kills = self.store('there'), 0
        for _ in range(20):
            importing = subprocess.Popen([str(BUILD / 'weir'), 'rules', 'import', '--config', str(there), str(exported)],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.random.uniform(0, 0.1))
            importing.kill()
            kills += importing.wait() != 0
        self.assertRegex(self.verb('import', there, exported), r'^stored: 40 versions and 0 changes of exceptions(; \d+ of )?')
        self.assertEqual(self.verb('export', there), exported.read_text(encoding='utf-8'), (kills, self.seed))
        self.assertIn('; 40 of the versions were there', self.verb('import', there, exported))

    def test_what_is_damaged_makes_no_store(self):
        _, exported = self.filled()
        lines = exported.read_bytes().splitlines(keepends=True)
        broken = [lines[:count] for count in range(len(lines))]                # cut off
        broken += [lines[:at] + lines[at + 1:] for at in range(len(lines))]    # a line is missing
        broken += [lines[:at] + lines[at:at + 1] + lines[at:] for at in range(len(lines))]  # one is there twice
        whole = b''.join(lines)
        for _ in range(60):
            at = self.random.randrange(len(whole))
            broken.append([whole[:at], bytes([self.random.randrange(256)]), whole[at + 1:]])
        config, path = self.store('there'), self.folder / 'broken.jsonl'
        refused = 0
        for number, some in enumerate(broken):
            path.write_bytes(b''.join(some))
            done = self.run_verb('import', config, path)
            self.assertIn(done.returncode, (0, 2), (done, number, self.seed))
            if done.returncode == 2:
                refused += 1
                self.assertTrue(done.stderr, (done, number))
                self.assertFalse((self.folder / 'there.db').exists(), (done, number, self.seed))
            else:  # a comment, say, is another one
                (self.folder / 'there.db').unlink()
        self.assertGreater(refused, 3 * len(lines) - 1)

    def test_what_may_not_be_is_refused(self):
        config, exported = self.filled()
        other = self.store('other')
        self.apply(other, '5/day', 0)
        before = self.verb('export', other)
        self.assertIn('version 1 of the store is another one: it must be empty', self.verb('import', other, exported, code=2))
        self.assertEqual(self.verb('export', other), before)
        one = self.folder / 'one.jsonl'
        one.write_text(before, encoding='utf-8')
        self.assertEqual(self.verb('import', self.store('single'), one), 'stored: 1 version and 0 changes of exceptions\n')
        self.assertIn('turn it off while you import', self.verb('import', self.store('approved', more=', approval: on'), exported, code=2))
        for pipe in '/dev/stdin', '-':
            self.assertIn('a pipe does not do', self.verb('import', self.store('there'), pipe, stdin='{}', code=2))
        self.assertIn('of a later weir (format 2)', self.changed(exported, '"weir_rules":1', '"weir_rules":2'))
        self.assertIn('changed.jsonl:1:37: rate "none"', self.changed_text(exported))
        self.assertFalse((self.folder / 'there.db').exists())
        self.assertIn('wrong arguments', self.verb('import', config, code=2))
        self.assertIn('wrong arguments', self.verb('export', config, exported, code=2))
        self.assertIn('has no version that a node could decide by', self.proposals_alone())

    def changed(self, exported, before, after):
        path = self.folder / 'changed.jsonl'
        text = exported.read_text(encoding='utf-8')
        self.assertIn(before, text)
        path.write_text(text.replace(before, after), encoding='utf-8')
        return self.verb('import', self.store('there'), path, code=2)

    def changed_text(self, exported):
        """An export that is whole, with rules that no server would start with."""
        path = self.folder / 'changed.jsonl'
        line = json.loads(exported.read_text(encoding='utf-8').splitlines()[1])
        line['text'] = '{"limits": [{"name": "api", "rate": "none"}]}'
        line['sha256'] = hashlib.sha256(line['text'].encode()).hexdigest()
        path.write_text('\n'.join(map(json.dumps, ({'weir_rules': 1}, line, {'end': True, 'versions': 1, 'exceptions': 0}))),
                        encoding='utf-8')
        return self.verb('import', self.store('there'), path, code=2)

    def proposals_alone(self):
        config, path = self.store('proposals'), self.folder / 'proposals.jsonl'
        self.apply(config, '10/day', 0, '--propose')
        path.write_text(self.verb('export', config), encoding='utf-8')
        return self.verb('import', self.store('there'), path, code=2)


if __name__ == '__main__':
    unittest.main()
