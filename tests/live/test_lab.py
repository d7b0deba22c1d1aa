#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir lab as people and programs use it: the list, the text, JSON and its record, wrong arguments, and docs/labs.md.
What the simulated numbers must be is tests/sim/test_labs.c and test_lab_stores.c."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import postgres_server
from postgres_server import alive
from redis_server import wait_for
from weir_server import BUILD, ROOT

SCRIPT = ROOT / 'scripts/labs'
TIMEOUT_S = 200  # after 120 s an experiment is ended


def lab(*arguments, **options):
    return subprocess.run([str(BUILD / 'weir'), 'lab', *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False, **options)


def answered(*arguments):
    done = lab(*arguments)
    assert (done.returncode, done.stderr) == (0, ''), (arguments, done)
    return done.stdout


def questions():
    return json.loads(answered('--json'))


class Lab(unittest.TestCase):
    def test_the_list(self):
        listed = re.findall(r'^ +(\d+)  (\S.*?)(?:  \(.*\))?$', answered(), re.M)
        self.assertEqual(listed, [(str(question['lab']), question['title']) for question in questions()])
        self.assertEqual([number for number, _ in listed], [str(number) for number in range(1, 11)])

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


def processes(folder):
    """Servers of experiments that run now, in their folder in this one."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cwd'):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith(f'{folder}/weir-lab-'):
                found.append(path.parent.name)
    return found


class Real(unittest.TestCase):
    """With real servers. Each takes what it takes: no number here is a speed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-labs-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o711)  # PostgreSQL, which does not run as root, has its files in it
        self.environment = dict(os.environ, TMPDIR=str(self.folder))

    def real(self, number):
        """{name: value} of what was found; and those of the simulator."""
        needs = next(question['needs'] for question in questions() if question['lab'] == number)
        missing = [name for name in needs if not postgres_server.binary(name)]
        if missing:
            self.skipTest(f'{missing} is not installed')
        done = lab(number, '--json', env=self.environment)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        found, simulated = json.loads(done.stdout), json.loads(answered(number, '--sim', '--json'))
        self.assertEqual(found['source'], 'real')
        self.assertEqual(list(self.folder.iterdir()), [], 'it takes its folder away')
        values = [{one['name']: one['value'] for one in report['numbers']} for report in (found, simulated)]
        print(number, values[0])
        self.assertGreater(len(set(values[0]) & set(values[1])), 2, 'what counts the same has the same name')
        return values

    def test_1_pauses(self):
        real, simulated = self.real(1)
        self.assertEqual({name: real[name] for name in simulated}, simulated)
        # Of each run the second and the third client wait for a lease of 300 ms.
        self.assertGreaterEqual(real['all eight runs took'], 8 * 2 * 300 - 50)

    def test_2_phone_and_laptop(self):
        real, _ = self.real(2)
        for way in ('any replica', 'sticky by user', 'a token for each device', "the user's token"):
            self.assertEqual(real[f'{way}: reads on the laptop'], 64)
        for way in ('any replica', 'sticky by user', 'a token for each device'):
            self.assertGreater(real[f'{way}: missed the write'], 0)
        self.assertEqual(real["the user's token: missed the write"], 0)
        self.assertEqual(real["the user's token: older than read there before"], 0)

    def test_5_the_crash_between(self):
        real, simulated = self.real(5)
        for what in ('asked', 'admitted', 'of them after 2 s'):
            self.assertEqual(real[f'INCR, then EXPIRE: {what}'], simulated[f'INCR, then EXPIRE: {what}'])
        self.assertEqual(real['INCR, then EXPIRE: time to live after the crash (-1: none)'], -1)
        self.assertTrue(0 < real['one script: time to live after the crash (-1: none)'] <= 1000)
        # Of five windows a busy machine may fill one less, and never one more.
        self.assertIn(real['one script: admitted'], range(30, int(simulated['one script: admitted']) + 1))
        self.assertIn(real['one script: of them after 2 s'], range(10, 41))

    def test_7_sticky(self):
        real, _ = self.real(7)
        self.assertGreater(real['sticky: went back'], 0)
        self.assertGreater(real['sticky: users who went back, of 6'], 0)
        self.assertEqual((real['tracked: went back'], real['tracked: furthest step back']), (0, 0))
        self.assertGreater(real['tracked: reads'], 100)

    def test_9_replicas(self):
        real, simulated = self.real(9)
        self.assertEqual(real, {name: simulated[name] for name in real})
        self.assertEqual(real['installed at 2, reads fence too: drawn, an acknowledged update is lost'], 0)
        self.assertGreater(real['installed at 2 of 3: drawn, an acknowledged update is lost'], 0)

    def test_10_tenants(self):
        # Decisions share an ask where they come at their pace: a machine that did not keep it is asked anew.
        for _ in range(3):
            real, simulated = self.real(10)
            ways = [name.partition(': ')[0] for name in simulated if name.endswith(': admitted')]
            if all(real[f'{way}: decisions a second'] > 0.9 * real['requests that there are'] for way in ways):
                break
        self.assertEqual(len(ways), 3)
        asks = [real[f'{way}: asks of Redis per 100 decisions'] for way in ways]
        self.assertAlmostEqual(asks[0], 100, delta=2)
        # On a machine that is busy fewer decisions share an ask.
        self.assertTrue(50 <= asks[1] < 95 and asks[2] < 85 and asks[2] < asks[1], asks)
        for way in ways:
            self.assertLessEqual(real[f'{way}: the large one had'], real[f'{way}: the large one may have'])
            self.assertGreaterEqual(real[f'{way}: the large one had'], 100)
            self.assertLess(real[f'{way}: admitted'], real[f'{way}: decisions'])
            for when in ('', '; Redis busy'):
                self.assertLessEqual(real[f'{way}{when}: half of the waits below'],
                                     real[f'{way}{when}: 95 % of the waits below'])
                self.assertGreater(real[f'{way}{when}: of a processor, Redis'], 0)

    def test_what_is_missing_is_said(self):
        done = lab(5, env=dict(os.environ, PATH='/nowhere'))
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, '', 'weir: lab 5 needs redis-server, which is not in PATH; --sim answers it in the simulator\n'))
        self.assertIn('Answered in the simulator', lab(5, '--sim', env=dict(os.environ, PATH='/nowhere')).stdout)

    def test_a_server_that_does_not_start(self):
        fake = self.folder / 'redis-server'
        fake.write_text('#!/bin/sh\nexit 1\n', encoding='utf-8')
        fake.chmod(0o755)
        done = lab(5, env=dict(self.environment, PATH=f'{self.folder}:/usr/bin:/bin'))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, '', 'weir: redis-server did not start\n'))
        self.assertEqual(list(self.folder.iterdir()), [fake])

    def test_what_a_program_says_is_told(self):
        fake = self.folder / 'initdb'
        fake.write_text('#!/bin/sh\necho first\necho "initdb: there is no room"\nexit 1\n', encoding='utf-8')
        fake.chmod(0o755)
        done = lab(2, env=dict(self.environment, PATH=f'{self.folder}:/usr/bin:/bin'))
        if 'needs' in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, '', 'weir: initdb failed: initdb: there is no room\n'))

    def test_ended_in_the_middle_it_leaves_nothing(self):
        if not shutil.which('redis-server'):
            self.skipTest('redis-server is not installed')
        for number, said in ((signal.SIGINT, 'weir: ended by a signal\n'), (signal.SIGKILL, '')):
            with self.subTest(number):
                process = subprocess.Popen([str(BUILD / 'weir'), 'lab', '5'], env=self.environment, text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_for(lambda: processes(self.folder), 'no Redis')
                mine = processes(self.folder)
                process.send_signal(number)
                _, error = process.communicate(timeout=60)
                self.assertEqual((process.returncode, error), (2, said) if said else (-number, ''))
                wait_for(lambda: not any(map(alive, mine)), 'its Redis lives on')
                if said:
                    self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == '__main__':
    unittest.main()
