#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir replay and lines that are none: they are counted and told with their place, and all others count. Times that go
back, a megabyte, a terminal's commands, gzip that is cut."""
import contextlib
import gzip
import json
import os
import subprocess
import time
import unittest

from replay_case import Case, line, replay, report_of
from weir_server import BUILD


class Lines(Case):
    """What is no line is told with its place, and all others count."""
    CONFIG = 'limits: [ { name: l, key: [ip], rate: 1/hour } ]\n'

    def setUp(self):
        super().setUp()
        self.config = self.write('weir.yaml', self.CONFIG)

    def test_times_that_go_back(self):
        """They are decided at the highest time: nothing comes back twice."""
        times = ('10:00:00', '11:00:00', '10:00:00', '10:59:59', '11:59:59', '12:00:00', '09:00:00')
        log = self.write('log', ''.join(line(f'06/Nov/2026:{each} +0000') for each in times))
        report = report_of('--config', self.config, log)
        self.assertEqual(report['config']['refused'], 4)
        self.assertEqual((report['went_back'], report['went_back_max_ns'], report['went_back_line']),
                         (3, 10800 * 10**9, 7))
        out, _ = replay('--config', self.config, log)
        self.assertIn(f'3 lines went back and were decided at the highest time before; the longest way by 10800.000 s, '
                      f'from {log}:6 to {log}:7', out)

    def test_one_line_that_is_far_ahead(self):
        """It is not believed: all that follow it would be decided at its time. Two in a row are, and so is a gap."""
        def days(*numbers):
            log = self.write('log', ''.join(line(at=f'{number:02}/Nov/2026:10:00:{i:02} +0000')
                                            for i, number in enumerate(numbers)))
            report = report_of('--config', self.config, '--suggest', log)
            # What was proposed tells of the second reading.
            self.assertEqual(sum(row['requests'] for row in report['proposed']), report['lines'])
            piped = report_of('--config', self.config, '-', stdin=log.read_bytes())
            self.assertEqual(report['config'], piped['config'])
            return (report['config']['refused'], report['went_back'], [row['line'] for row in report['unread_first']])
        self.assertEqual(days(6, 9, 6, 7), (1, 0, [2]))
        self.assertEqual(days(9, 6, 6), (1, 0, [1]))
        self.assertEqual(days(9, 6, 9, 6, 9, 6), (2, 0, [1, 3, 5]))
        self.assertEqual(days(6, 9, 9, 6), (2, 1, []))
        self.assertEqual(days(6, 9), (0, 0, []))
        self.assertEqual(days(6, 9, 12, 15, 18), (0, 0, []))
        self.assertEqual(days(6, 7, 6), (1, 1, []))  # a day is not more than a day

    def test_offsets(self):
        times = ('06/Nov/2026:10:00:00 +0000', '06/Nov/2026:11:59:00 +0200', '06/Nov/2026:03:00:00 -0800')
        log = self.write('log', ''.join(map(line, times)))
        report = report_of('--config', self.config, log)
        self.assertEqual((report['went_back'], report['config']['refused']), (1, 1))

    def test_lines_that_are_none(self):
        long = line(path='/' + 'x' * (1 << 20))
        near = line(path='/' + 'x' * 65000, ip='192.0.2.2')
        garbage = b'\x00\xff\x1b[2J\n'
        cut = line(ip='192.0.2.3')[:60]
        log = self.write('log', line().encode() + long.encode() + b'\n\n' + near.encode() + garbage +
                         line(path='x').encode() + long.encode() + line().encode() + cut.encode())
        report = report_of('--config', self.config, log)
        self.assertEqual((report['lines'], report['unread'], report['unread_too_long'], report['unread_path']),
                         (3, 5, 2, 1))
        self.assertEqual([(row['file'], row['line']) for row in report['unread_first']],
                         [(str(log), number) for number in (2, 6, 7, 8, 10)])
        self.assertEqual(report['config']['refused'], 1)
        out, _ = replay('--config', self.config, log)
        self.assertIn(f'{log}:2: it is longer than 64 KiB', out)

    def test_a_first_line_that_is_none(self):
        log = self.write('log', 'the end of some line\n' + '{"ts":1793923200,"path":"/","ip":"192.0.2.1"}\n' * 2)
        report = report_of('--config', self.config, log)
        self.assertEqual((report['lines'], report['unread'], report['format']), (2, 1, 'json'))
        both = report_of('--config', self.config, log, self.write('other', line()))
        self.assertEqual((both['lines'], both['format']), (3, 'several formats'))

    def test_standard_input_that_was_read_before(self):
        head = 'a head as long as a line ' * 4 + '\n'
        log = self.write('log', head + line() * 3)
        with open(log, 'rb', buffering=0) as file:
            file.read(len(head))
            done = subprocess.run([str(BUILD / 'weir'), 'replay', '--json', '--suggest', '--config', str(self.config),
                                   '-'], stdin=file, capture_output=True, check=True)
        report = json.loads(done.stdout)
        self.assertEqual((report['lines'], report['unread'], report['proposed'][0]['requests']), (3, 0, 3))

    def test_a_full_disk(self):
        log = self.write('log', line())
        with open('/dev/full', 'wb') as full:
            done = subprocess.run([str(BUILD / 'weir'), 'replay', '--config', str(self.config), str(log)], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, b'No space left' in done.stderr), (2, True))

    def test_progress_on_a_terminal(self):
        """Shown every half a second, looked for every 32,768 lines; gone at the end."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([str(BUILD / 'weir'), 'replay', '--config', str(self.config), '-'],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs)
        process.stdin.write(line().encode() * 40_000)
        process.stdin.flush()
        time.sleep(0.6)
        process.communicate(line().encode() * 40_000)
        os.set_blocking(ours, False)
        shown = ''
        with contextlib.suppress(BlockingIOError):  # that was all
            while True:
                shown += os.read(ours, 1 << 16).decode()
        os.close(theirs)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(shown, r'read 65536 lines, \d+ a second\r\x1b\[K$')

    def test_a_last_line_without_an_end(self):
        log = self.write('log', (line() + line()).rstrip('\n'))
        self.assertEqual(report_of('--config', self.config, log)['lines'], 2)
        self.assertEqual(report_of('--config', self.config, self.write('none', ''))['lines'], 0)
        dos = self.write('dos', line().replace('\n', '\r\n') * 2)
        self.assertEqual(report_of('--config', self.config, dos)['lines'], 2)

    def test_gzip_that_is_cut_or_damaged(self):
        lines = b''.join(line(ip=f'10.{n >> 8}.{n & 255}.1').encode() for n in range(20_000))
        packed = gzip.compress(lines)
        for data, what in ((packed[:-20], 'ends too soon'), (packed[:len(packed) // 2], 'ends too soon'),
                           (packed[:5000] + b'\xff' * 5000 + packed[10_000:], 'is damaged'),
                           (packed + b'x', 'ends too soon'),
                           (packed + b'\x1f\x8bxxxxxxxxxxxx', 'is damaged')):
            log = self.write('log.gz', data)
            out, err = replay('--json', '--config', self.config, log)
            with self.subTest(what=what):
                self.assertIn(what, err)
                self.assertLessEqual(json.loads(out)['lines'], 20_000)
        self.assertEqual(report_of('--config', self.config, self.write('two.gz', packed))['lines'], 20_000)

    def test_terminals(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [user], rate: 1/hour } ]\n')
        log = self.write('log', line(user='\\x1b[2J') * 2 + line(user='a\x1b[2Jb') * 2)
        out, err = replay('--config', config, log)
        self.assertNotIn('\x1b', out + err)
        self.assertIn('user=\\x1b[2J', out)

    def test_bytes_that_are_no_text(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [user], rate: 1/hour } ]\n')
        log = self.write('log', (line(user='\\xff\\xfe') * 2).encode())
        report = report_of('--config', config, log)
        self.assertEqual(report['keys'][0]['key'], 'user=\ufffd\ufffd')


if __name__ == '__main__':
    unittest.main()
