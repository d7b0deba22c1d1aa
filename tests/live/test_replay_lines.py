#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir replay and lines that are none: they are counted and told with their place, and all others count. Times that go
back, a megabyte, a terminal's commands, gzip that is cut."""
import contextlib
import gzip
import json
import lzma
import os
import subprocess
import time
import unittest
import xml.etree.ElementTree
import zlib

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
        sums = packed[:-8] + bytes(byte ^ 0xff for byte in packed[-8:-4]) + packed[-4:]
        half = len(packed) // 2
        for data, what, at, all_of_it in (
                (packed[:-20], 'ends too soon', len(packed) - 20, False), (packed[:-1], 'ends too soon', None, True),
                (packed[:half], 'ends too soon', half, False), (packed[:3], 'ends too soon', 3, False),
                (packed[:1], 'ends too soon', 1, False), (b'', 'ends too soon', 0, False),
                (packed[:5000] + b'\xff' * 5000 + packed[10_000:], 'is damaged', None, False),
                (sums, 'is damaged', None, True),
                (packed + b'x', 'something that is no gzip follows', len(packed), True),
                (packed + b'\0' * 512 + lines, 'something that is no gzip follows', len(packed) + 512, True),
                (packed + packed[:9], 'ends too soon', len(packed) + 9, True),
                (packed + b'\x1f\x8bxxxxxxxxxxxx', 'is damaged', None, True)):
            with self.subTest(what=what, size=len(data)):
                log = self.write('log.gz', data)
                out, err = replay('--json', '--config', self.config, log, code=1)
                report = json.loads(out)
                self.assertIn(what, err)
                self.assertEqual([broken['file'] for broken in report['broken']], [str(log)])
                self.assertIn(what, report['broken'][0]['why'])
                self.assertEqual(report['lines'] == 20_000, all_of_it)
                self.assertEqual(report['broken'][0]['lines'], report['lines'] + report['unread'])
                self.assertEqual(report['broken'][0]['size'], len(data))
                if at is not None:
                    self.assertEqual(report['broken'][0]['bytes'], at)

    def test_the_rest_of_a_line_that_is_cut_is_no_line(self):
        """The user would be another one."""
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [user], rate: 1/hour } ]\n')
        packer = zlib.compressobj(wbits=31)
        cut = packer.compress(b'1794000000 /a peter\n1794000001 /a peterson') + packer.flush(zlib.Z_SYNC_FLUSH)
        log = self.write('log.gz', cut)
        out, err = replay('--config', config, '--format', '$time $request_uri $user', log, code=1)
        self.assertIn(f'not all of it was read: {log}: the gzip data ends too soon, after 1 line and {len(cut)} of '
                      f'{len(cut)} bytes\n', out)
        self.assertEqual(err, f'weir: {log}: the gzip data ends too soon, after 1 line and {len(cut)} of {len(cut)} '
                              'bytes\n')
        self.assertTrue(out.startswith('1 line '))

    def test_what_is_cut_is_said_of_each_file_and_pipe(self):
        """By name, once, also where the logs are read twice, and with the others read to their ends."""
        good = gzip.compress((line() + line(ip='192.0.2.2')).encode())
        names = [self.write('a.gz', good[:-5]), self.write('b.gz', good), self.write('c.gz', good + b'x')]
        out, err = replay('--json', '--config', self.config, *names, code=1)
        self.assertEqual([broken['file'] for broken in json.loads(out)['broken']], [str(names[0]), str(names[2])])
        self.assertEqual((err.count('\n'), json.loads(out)['lines']), (2, 6))
        out, err = replay('--suggest', '-', stdin=good[:-5], code=1)
        self.assertEqual(err, f'weir: standard input: the gzip data ends too soon, after 2 lines and {len(good) - 5} '
                              'bytes\n')
        self.assertIn('proposed', out)

    def test_gzip_of_several_members(self):
        """One after the other, an empty one among them, with zeros as blocks of a tape have."""
        one, two = (gzip.compress(line(ip=f'192.0.2.{n}').encode()) for n in (1, 2))
        for data, lines in ((one + two, 2), (one + gzip.compress(b'') + two, 2), (one + b'\0' * 200_000 + two, 2),
                            (one + two + b'\0' * 7, 2), (gzip.compress(b''), 0),
                            (gzip.compress(line().encode()[:50]) + gzip.compress(line().encode()[50:-1]), 1)):
            with self.subTest(lines=lines, size=len(data)):
                log = self.write('log.gz', data)
                report = report_of('--config', self.config, log)
                self.assertEqual((report['lines'], report['broken'], report['unread']), (lines, [], 0))

    def test_a_log_of_which_no_line_can_be_read(self):
        """Another packing, or another format. A script must not take the empty report for a quiet day."""
        good = self.write('good', line())
        packed = self.write('log.xz', lzma.compress(line().encode() * 100))
        out, err = replay('--json', '--config', self.config, good, packed, code=1)
        self.assertIn(f'weir: {packed}: no line of it could be read', err)
        self.assertEqual([broken['file'] for broken in json.loads(out)['broken']], [str(packed)])
        report_of('--config', self.config, self.write('some', 'no line\n' + line()))

    def test_terminals(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [user], rate: 1/hour } ]\n')
        log = self.write('log', line(user='\\x1b[2J') * 2 + line(user='a\x1b[2Jb') * 2)
        out, err = replay('--config', config, log)
        self.assertNotIn('\x1b', out + err)
        self.assertIn('user=\\x1b[2J', out)

    def test_names_of_files_on_a_terminal(self):
        """A log may have a name that somebody else chose, and a shell's *.log names it too."""
        odd = 'a\x1b[2J\nweir: b\u202e\udcff<&.'  # \udcff: a byte that is no UTF-8
        told = 'a\\x1b[2J\\x0aweir: b\\xe2\\x80\\xae\\xff<&.'
        limit = 'limits: [ { name: %s, key: [user], rate: 1/hour, cost: size },' \
                ' { name: c, key: [ip], rate: 1, algorithm: concurrency } ]\n'
        config, beside = self.write(odd + 'yaml', limit % 'l'), self.write(odd + 'beside', limit % 'm')
        log = self.write(odd + 'log', line() + 'no line\n' + line(at='06/Nov/2026:09:00:00 +0000'))
        packed = self.write(odd + 'log.gz', gzip.compress((line() * 9).encode())[:-9])
        broken = self.write(odd + 'wrong', 'limits: [ { name: l, rate: 1/week, key: [a], nam: b } ]\n')
        none, full, out, plot = (self.folder / (odd + end) for end in ('none', 'x/y', 'out', 'svg'))
        for code, *arguments in ((0, '--config', config, '--beside', beside, '--suggest', '--out', out, '--plot', plot, log),
                                 (1, '--config', config, packed), (2, '--config', broken, log), (2, '--config', none, log),
                                 (2, '--config', config, none), (2, '--config', config, '--plot', full, log),
                                 (2, '--config', config, '--suggest', '--out', full, log)):
            for shown in replay(*arguments, code=code):
                self.assertNotRegex(shown, '[\x00-\x09\x0b-\x1f\x7f\u202e\ufffd]|\nweir: b')
            self.assertIn(told, shown) if code else None
        text = xml.etree.ElementTree.parse(plot).getroot().itertext()
        self.assertIn(f'Refused by {self.folder}/{told}yaml: ', ' '.join(text))

    def test_bytes_that_are_no_text(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [user], rate: 1/hour } ]\n')
        log = self.write('log', (line(user='\\xff\\xfe') * 2).encode())
        report = report_of('--config', config, log)
        self.assertEqual(report['keys'][0]['key'], 'user=\ufffd\ufffd')


if __name__ == '__main__':
    unittest.main()
