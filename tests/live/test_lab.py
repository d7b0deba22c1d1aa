#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir lab as people and programs use it: the list, the text, JSON and its record, wrong arguments, and docs/labs.md.
What the simulated numbers must be is tests/sim/test_labs.c."""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from weir_server import BUILD, ROOT

SCRIPT = ROOT / 'scripts/labs'


def lab(*arguments, **options):
    return subprocess.run([str(BUILD / 'weir'), 'lab', *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          check=False, **options)


def answered(*arguments):
    done = lab(*arguments)
    assert (done.returncode, done.stderr) == (0, ''), (arguments, done)
    return done.stdout


def questions():
    return json.loads(answered('--json'))


def script():
    loader = importlib.machinery.SourceFileLoader('labs', str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('labs', loader))
    loader.exec_module(module)
    return module


class Lab(unittest.TestCase):
    def test_the_list(self):
        listed = re.findall(r'^ +(\d+)  (\S.*?)(?:  \(.*\))?$', answered(), re.M)
        self.assertEqual(listed, [(str(question['lab']), question['title']) for question in questions()])
        self.assertGreaterEqual(len(listed), 4)

    def test_text_and_json_say_the_same(self):
        for question in questions():
            number = question['lab']
            with self.subTest(number):
                text, found = answered(number, '--sim'), json.loads(answered(number, '--sim', '--json'))
                self.assertEqual((found['lab'], found['title']), (number, question['title']))
                self.assertIn(found['source'], ('core', 'simulated'))
                self.assertIn('Answered by the code of core/' if found['source'] == 'core' else 'Answered in the simulator',
                              text)
                printed = dict(re.findall(r'^  (\S.*?)  +(-?[\d.]+) +\S.*$', text, re.M))
                self.assertEqual(list(printed), [one['name'] for one in found['numbers']])
                for one in found['numbers']:
                    self.assertAlmostEqual(float(printed[one['name']]), one['value'], delta=0.051)
                    self.assertTrue(one['unit'])
                for letter, series in zip('abcdefgh', found['series']):
                    end = series['points'][-1][1]
                    self.assertIn(f'\n  {letter}  {series["name"]}, {end:.6g} at the end\n', text)
                flat = ' '.join(text.split())
                for part in ('question', 'shows', 'shows_not'):
                    self.assertIn(found[part], flat)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_the_plot_stands_where_the_points_are(self):
        """The letter of the first series, of question 4: down to nothing in the middle, and there to the end."""
        rows = [line.partition('|')[2] for line in answered(4).splitlines() if re.match(r'^ +\d* \|', line)]
        self.assertEqual({len(row) for row in rows}, {72})
        columns = [next(len(rows) - 1 - at for at, row in enumerate(rows) if 'a' in row[column] or at == len(rows) - 1)
                   for column in range(72)]
        points = json.loads(answered(4, '--json'))['series'][0]['points']
        for column, height in enumerate(columns):
            x = 19.95 * (column + 1) / 72
            value = [y for at, y in points if at <= x + 1e-9][-1]
            self.assertAlmostEqual(height, 15 * value / 101, delta=0.51)

    def test_a_record_is_what_json_prints(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'lab.json')
            self.assertEqual(answered(4, '--record', path), answered(4))
            self.assertEqual(path.read_text(encoding='utf-8'), answered(4, '--json'))
        done = lab(4, '--record', '/nowhere/lab.json')
        self.assertEqual((done.returncode, done.stderr), (2, 'weir: --record /nowhere/lab.json: No such file or directory\n'))

    def test_wrong_arguments(self):
        for arguments, said in (((0,), 'weir: lab 0: there is no such question; weir lab lists them'),
                                ((11,), 'weir: lab 11: there is no such question; weir lab lists them'),
                                (('four',), 'weir: lab four: there is no such question; weir lab lists them'),
                                ((4, 6), 'weir: 6: one question at a time'),
                                ((4, '--seed', 0), f'weir: --seed 0: must be a whole number, 1 to {2**63 - 1}'),
                                ((4, '--jsn'), "weir: lab has no option '--jsn'; did you mean '--json'?")):
            with self.subTest(arguments):
                done = lab(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                self.assertEqual(done.stderr.splitlines()[0], said)

    def test_the_help_fits(self):
        self.assertLessEqual(len(answered('--help').encode()), 4095)

    def test_the_page_has_what_is_printed(self):
        """In the simulator; the real runs are those of the machine that the page was made on."""
        page = (ROOT / 'docs/labs.md').read_text(encoding='utf-8')
        with tempfile.TemporaryDirectory() as folder:
            again = pathlib.Path(folder, 'labs.md')
            again.write_text(page, encoding='utf-8')
            subprocess.run([SCRIPT, '--build', BUILD, '--page', again, '--sim'], check=True, timeout=120)
            self.assertEqual(again.read_text(encoding='utf-8'), page, 'make labs writes it again')
        for question in questions():
            self.assertIn(f'## {question["lab"]}. ', page)


if __name__ == '__main__':
    unittest.main()
