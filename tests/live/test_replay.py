#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir replay: what it says was refused is what libweir decides, given the log's times (tests/replay/day.c), however the
log is written; what cannot be read is counted, not guessed; and what it proposes does to the next day what it says.

WEIR_TEST_EFFORT=soak takes a day of 50 million lines."""
import datetime
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from weir_server import BUILD

SOAK = os.environ.get('WEIR_TEST_EFFORT') == 'soak'
LINES = 60_000
DAY = datetime.datetime(2026, 11, 6, tzinfo=datetime.timezone.utc)
TIMED = '$remote_addr - $remote_user [$time_local] "$request" $status $size "$http_referer" "$http_user_agent" $request_time'

# The limits of day.c, as a configuration.
LIMITS = '''limits:
  - name: api-per-ip
    match: {{ route: "/api/*" }}
    key: [ip]
    rate: 3/min
    burst: 4
    overrides: [ {{ ip: 10.0.0.1, rate: 1/min, burst: 2 }} ]
  - {{ name: login, match: {{ route: /login }}, key: [user], rate: 2/min, algorithm: sliding_log }}
  - {{ name: quota, key: [user], rate: 300/day, algorithm: fixed_window, tz: Europe/Berlin }}
  - {{ name: shaped, match: {{ route: "/export/*" }}, key: [ip], rate: 2/min, burst: 3, algorithm: leaky_bucket }}
  - {{ name: counter, match: {{ route: "/static/*" }}, key: [ip], rate: 3/min, algorithm: sliding_counter }}
  - {{ name: all, rate: {rate}/sec, burst: 5 }}
'''
AT_ONCE = '''  - name: at-once
    match: { route: "/export/*" }
    key: [ip]
    rate: 1
    algorithm: concurrency
    lease: 2s
'''


def limits_of(lines):
    return LIMITS.format(rate=3 * lines // 86400 // 2 + 1)


def soak(test):
    """One that only WEIR_TEST_EFFORT=soak runs; else it is no test at all, rather than one that is skipped."""
    return test if SOAK else None


def replay(*arguments, stdin=None, code=0):
    done = subprocess.run([str(BUILD / 'weir'), 'replay', *map(str, arguments)], input=stdin, capture_output=True,
                          check=False)
    out, err = (text.decode('utf-8', 'replace') for text in (done.stdout, done.stderr))
    if done.returncode != code:
        raise AssertionError(f'weir replay ended with {done.returncode}: {err}')
    return out, err


def report_of(*arguments, stdin=None):
    return json.loads(replay('--json', '--rows', 1_000_000, *arguments, stdin=stdin)[0])


def counts_of(report):
    """The report as day.c prints its counts."""
    lines = [f"limit {row['limit']} {row['config']['refused']}" for row in report['limits'] if row['limit'] != '(unmatched)']
    lines += [f"key {row['limit']} {row['key']} {row['refused']}" for row in report['keys']]
    lines += [f"route {row['route']} {row['refused']}" for row in report['routes']]
    for row in report['minutes']:
        began = datetime.datetime.fromisoformat(row['minute'].replace('Z', '+00:00'))
        if row['refused']:
            lines.append(f"minute {(began - DAY) // datetime.timedelta(minutes=1)} {row['refused']}")
    return sorted(lines)


def line(at='06/Nov/2026:10:00:00 +0000', ip='192.0.2.1', user='-', path='/api/x'):
    return f'{ip} - {user} [{at}] "GET {path} HTTP/1.1" 200 1 "-" "-"\n'


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-replay-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def day(self, seed, lines, *arguments):
        """The log, and what libweir decided."""
        log = self.folder / f'day-{seed}.log'
        done = subprocess.run([str(BUILD / 'tests/replay/replay_day'), str(seed), str(lines), str(log), *arguments],
                              capture_output=True, text=True, check=True)
        return log, sorted(done.stdout.splitlines())


class Exact(Case):
    """The same numbers as libweir's: of each limit, each key, each route and each minute."""

    def test_combined(self):
        log, expected = self.day(1, LINES)
        report = report_of('--config', self.write('weir.yaml', limits_of(LINES)), log)
        self.assertEqual(counts_of(report), expected)
        self.assertEqual((report['lines'], report['unread'], report['whole_seconds']), (LINES, 0, True))
        self.assertGreater(report['went_back'], 0)
        refused = {row['limit']: row['config']['refused'] for row in report['limits']}
        for name in ('api-per-ip', 'login', 'quota', 'shaped', 'counter', 'all'):
            self.assertGreater(refused[name], 0, f'{name} refused nothing: nothing was compared')

    def test_permits_end_when_the_log_says(self):
        log, expected = self.day(2, LINES, 'durations')
        config = self.write('weir.yaml', limits_of(LINES) + AT_ONCE)
        report = report_of('--config', config, '--format', TIMED, log)
        self.assertEqual(counts_of(report), expected)
        at_once = [row['config']['refused'] for row in report['limits'] if row['limit'] == 'at-once']
        self.assertGreater(at_once[0], 0)
        self.assertFalse(report['config']['concurrency_skipped'])

    def test_however_it_comes(self):
        """Compressed, in two members, by a pipe, as two files that are named in the wrong order, as JSON."""
        log, expected = self.day(3, LINES)
        config = self.write('weir.yaml', limits_of(LINES))
        lines = log.read_bytes().splitlines(keepends=True)
        noon = next(i for i, each in enumerate(lines) if b'2026:12:00:1' in each)
        packed = self.write('log.gz', gzip.compress(b''.join(lines[:noon])) + gzip.compress(b''.join(lines[noon:])))
        early, late = self.write('early', b''.join(lines[:noon])), self.write('late.gz', gzip.compress(b''.join(lines[noon:])))
        self.assertEqual(counts_of(report_of('--config', config, packed)), expected)
        self.assertEqual(counts_of(report_of('--config', config, '-', stdin=log.read_bytes())), expected)
        self.assertEqual(counts_of(report_of('--config', config, '-', stdin=packed.read_bytes())), expected)
        self.assertEqual(counts_of(report_of('--config', config, late, early)), expected)
        parts = re.compile(rb'(\S+) - (\S+) \[(.*?)\] "(\S+) (\S+) ')
        json_log = self.write('log.json', '\n'.join(
            json.dumps(dict(remote_addr=ip, remote_user=user, time_local=at, method=method, uri=uri, more={'a': [1]}))
            for ip, user, at, method, uri in
            ([field.decode() for field in parts.match(each).groups()] for each in lines)))
        report = report_of('--config', config, json_log)
        self.assertEqual((counts_of(report), report['format']), (expected, 'json'))

    @soak
    def test_fifty_million(self):
        lines = 50_000_000
        log, expected = self.day(4, lines)
        report = report_of('--config', self.write('weir.yaml', limits_of(lines)), log)
        print(f"{report['lines']} lines, {report['lines'] / report['seconds']:.0f} a second", file=sys.stderr)
        self.assertEqual(counts_of(report), expected)


class Suggestion(Case):
    def proposed_and_met(self, lines):
        """What the proposal said that it would refuse of one day, and what it refuses of the next."""
        one, _ = self.day(11, lines)
        two, _ = self.day(12, lines)
        proposed = self.folder / 'proposed.yaml'
        said = report_of('--suggest', '--percentile', 95, '--out', proposed, one)
        met = report_of('--config', proposed, two)
        return said, met, proposed

    def test_next_day(self):
        said, met, proposed = self.proposed_and_met(50_000_000 if SOAK else 400_000)
        expected = sum(row['refused'] for row in said['proposed'])
        print(f"said {expected} of {said['lines']}, met {met['config']['refused']}", file=sys.stderr)
        self.assertGreater(expected, 10_000)
        self.assertLess(abs(met['config']['refused'] - expected) / expected, 0.01)
        self.assertEqual({row['route'] for row in said['proposed']}, {'/api/*', '/login', '/static/*', '/export/*', '/'})
        self.assertEqual(subprocess.run([str(BUILD / 'weir'), 'rules', 'check', str(proposed)], capture_output=True,
                                        check=False).returncode, 0)

    def test_said_is_what_it_does(self):
        """On the day itself, to the unit, by a pipe too; and whom it hits."""
        log, _ = self.day(13, 30_000)
        proposed = self.folder / 'proposed.yaml'
        said = report_of('--suggest', '--out', proposed, '-', stdin=log.read_bytes())
        met = report_of('--config', proposed, log)
        self.assertEqual({row['limit']: (row['refused'], row['keys_refused']) for row in said['proposed']},
                         {row['limit']: (row['config']['refused'], row['config']['keys_refused'])
                          for row in met['limits'] if row['limit'] != '(unmatched)'})
        self.assertEqual(said['proposed_keys'], met['keys'])
        self.assertGreater(len(met['keys']), 0)

    def test_percentiles(self):
        """Of 100 keys, key n sends n in one minute, in the first second: 99 % stay within the next to last."""
        log = self.write('log', ''.join(line(at=f'06/Nov/2026:10:{key % 60:02}:00 +0000', ip=f'192.0.2.{key}')
                                        for key in range(1, 101) for _ in range(key)))
        row, = report_of('--suggest', log)['proposed']
        self.assertEqual([row[name] for name in ('keys', 'minute_median', 'minute_high', 'minute_most', 'rate_per_minute',
                                                 'burst', 'refused', 'keys_refused')],
                         [100, 50, 99, 100, 99, 99, 1, 1])
        row, = report_of('--suggest', '--percentile', 100, log)['proposed']
        self.assertEqual((row['rate_per_minute'], row['refused']), (100, 0))
        rows = report_of('--suggest', '--key', 'user', log)['proposed']
        self.assertEqual(rows, [])  # nobody has one
        self.assertIn('nothing is proposed', replay('--suggest', '--key', 'user', log)[0])
        self.assertEqual(replay('--suggest', '-', stdin=b'\n\n')[0].splitlines()[0], '0 lines (none)')

    def test_minutes_are_those_of_the_clock(self):
        """And so are the ten seconds: the first and the last second of each count together, no others do."""
        log = self.write('log', ''.join(line(at=f'06/Nov/2026:10:{at} +0000') for at in ('00:00', '00:59', '01:00', '01:10', '01:19')))
        row, = report_of('--suggest', '--percentile', 100, log)['proposed']
        self.assertEqual((row['minute_most'], row['burst']), (3, 2))
        log = self.write('log', ''.join(line(at=f'06/Nov/2026:10:{at} +0000') for at in ('00:59', '01:00')))
        row, = report_of('--suggest', '--percentile', 100, log)['proposed']
        self.assertEqual((row['minute_most'], row['burst']), (1, 1))

    def test_routes_that_no_rule_can_name(self):
        paths = ['/a/b', '/a', '/a/b/c', '/*', '/%22/x', '/%1b[2J/x', '/%7f', '/%c3%a4', '/' + 'l' * 200]
        log = self.write('log', ''.join(line(path=path, ip='192.0.2.9') for path in paths))
        rows = {row['route']: row['requests'] for row in report_of('--suggest', '--depth', 2, log)['routes']}
        self.assertEqual(rows, {'/a/b': 1, '/a': 1, '/a/b/*': 1, '(others)': 6})
        rows = {row['route'] for row in report_of('--suggest', '--depth', 2, log)['proposed']}
        self.assertEqual(rows, {'/a/b', '/a', '/a/b/*'})


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
        self.assertEqual((report['went_back'], report['went_back_max_ns'], report['went_back_line']), (3, 10800 * 10**9, 7))
        out, _ = replay('--config', self.config, log)
        self.assertIn(f'3 lines went back and were decided at the highest time before; the longest way by 10800.000 s, '
                      f'from {log}:6 to {log}:7', out)

    def test_one_line_that_is_far_ahead(self):
        """It is not believed: all that follow it would be decided at its time. Two in a row are, and so is a gap."""
        def days(*numbers):
            log = self.write('log', ''.join(line(at=f'{number:02}/Nov/2026:10:00:{i:02} +0000')
                                            for i, number in enumerate(numbers)))
            report = report_of('--config', self.config, '--suggest', log)
            self.assertEqual(sum(row['requests'] for row in report['proposed']), report['lines'])  # of the second reading
            self.assertEqual(report['config'], report_of('--config', self.config, '-', stdin=log.read_bytes())['config'])
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
        self.assertEqual((report['lines'], report['unread'], report['unread_too_long'], report['unread_path']), (3, 5, 2, 1))
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
            done = subprocess.run([str(BUILD / 'weir'), 'replay', '--json', '--suggest', '--config', str(self.config), '-'],
                                  stdin=file, capture_output=True, check=True)
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
        process = subprocess.Popen([str(BUILD / 'weir'), 'replay', '--config', str(self.config), '-'], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=theirs)
        process.stdin.write(line().encode() * 40_000)
        process.stdin.flush()
        time.sleep(0.6)
        process.communicate(line().encode() * 40_000)
        shown = os.read(ours, 1 << 16).decode()
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
                           (packed[:5000] + b'\xff' * 5000 + packed[10_000:], 'is damaged'), (packed + b'x', 'ends too soon'),
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


class Said(Case):
    """What differs from a server is told; both sets stand side by side; wrong arguments are."""

    def test_beside(self):
        new = self.write('new.yaml', 'limits: [ { name: both, key: [ip], rate: 1/hour }, { name: fresh, key: [user], rate: 1/hour } ]\n')
        old = self.write('old.yaml', 'limits: [ { name: both, key: [ip], rate: 2/hour } ]\n')
        log = self.write('log', line() * 4 + line(ip='192.0.2.2', user='ada') * 2)
        plot = self.folder / 'plot.svg'
        report = report_of('--config', new, '--beside', old, '--plot', plot, log)
        self.assertEqual((report['config']['refused'], report['beside']['refused']), (4, 2))
        self.assertEqual((report['config']['refused_alone'], report['beside']['refused_alone']), (2, 0))
        self.assertEqual({row['limit']: (row['config'] and row['config']['refused'], row['beside'] and row['beside']['refused'])
                          for row in report['limits']}, {'both': (4, 2), 'fresh': (1, None), '(unmatched)': (0, 0)})
        self.assertEqual([row['config']['keys_refused'] for row in report['limits'] if row['config']], [2, 1, 0])
        self.assertEqual([(row['limit'], row['key'], row['refused'], row['refused_beside']) for row in report['keys']],
                         [('both', 'ip=192.0.2.1', 3, 2), ('both', 'ip=192.0.2.2', 1, 0), ('fresh', 'user=ada', 1, 0)])
        self.assertEqual([(row['requests'], row['refused'], row['refused_beside']) for row in report['minutes']], [(6, 4, 2)])
        picture = xml.etree.ElementTree.parse(plot).getroot()
        self.assertEqual(len([each for each in picture.iter() if each.get('class') == 'refused']), 2)
        out, _ = replay('--config', new, '--beside', old, log)
        self.assertIn(f'{new}: 4 of 6 refused (66.67 %), 2 of them not by {old}', out)
        heads = [each for each in out.splitlines() if each.startswith('  by limit') and 'requests' in each]
        row = next(each for each in out.splitlines() if each.startswith('  both '))
        self.assertEqual(heads[0].rindex('%') + 1, re.match(r'.*\d\.\d\d', row).end())  # aligned

    def test_missing_unmatched_shadow_and_cost(self):
        config = self.write('weir.yaml', '''unmatched: refuse
limits:
  - { name: needs-user, match: { route: /a }, key: [user], missing: refuse, rate: 10/min }
  - { name: shadowed, match: { route: /b }, key: [ip], mode: shadow, rate: 1/hour }
  - { name: off, match: { route: /c }, key: [ip], mode: 'off', rate: 1/hour }
  - { name: by-size, match: { route: /d }, key: [ip], cost: size, rate: 10/min }
''')
        log = self.write('log', ''.join(line(path=path) for path in '/a /b /b /c /none /d'.split()))
        report = report_of('--config', config, log)
        rows = {row['limit']: row['config'] for row in report['limits']}
        self.assertEqual((rows['needs-user']['refused'], rows['shadowed']['shadow_refused'], rows['off']['requests'],
                          rows['(unmatched)']['refused']), (1, 1, 0, 1))
        self.assertEqual(report['config']['refused'], 2)
        self.assertEqual((report['config']['errors'], 'size' in report['config']['error']), (1, True))
        self.assertIn({'limit': 'needs-user', 'key': 'without user', 'refused': 1}, report['keys'])
        timed = self.write('log', ''.join(f'1793923200 192.0.2.1 /d {size}.\n' for size in (5, 5, 1)))
        report = report_of('--config', config, '--format', '$msec $remote_addr $uri $size.', timed)
        self.assertEqual((report['config']['errors'], report['config']['refused']), (0, 1))

    def test_who_would_wait_too_long_is_refused(self):
        """throttle: hold refuses what would wait longer than hold_timeout; delay lets it through."""
        limit = 'limits: [ { name: l, key: [ip], rate: 1/s, burst: 9, algorithm: leaky_bucket, %s } ]\n'
        log = self.write('log', line() * 5)
        for throttle, refused in (('throttle: delay', 0), ('throttle: hold, hold_timeout: 2s', 2)):
            report = report_of('--config', self.write('weir.yaml', limit % throttle), log)
            self.assertEqual(report['config']['refused'], refused)

    def test_lines_far_apart(self):
        """Permits end between two lines, at their own times; nobody is refused for a clock that seems to go back."""
        config = self.write('weir.yaml', '''limits:
  - { name: log, key: [ip], rate: 10/min, algorithm: sliding_log }
  - { name: first, key: [ip], rate: 10/min, algorithm: fixed_window, align: first }
  - { name: at-once, key: [ip], rate: 1, algorithm: concurrency, lease: 30s }
  - { name: one-lease, key: [user], missing: share, rate: 1, algorithm: concurrency, lease: 3s }
''')
        for gap, took, refused in ((70, 5, 0), (7000, 5, 0), (4, 5, 0), (2, 5, 50)):
            log = self.write('log', ''.join(f'{1793923200 + n * gap} 10.0.0.{n} /x {took}.0\n' for n in range(100)))
            report = report_of('--config', config, '--format', '$msec $remote_addr $uri $request_time', log)
            self.assertEqual(report['config']['refused'], refused, (gap, took))

    def test_times_with_fractions(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [ip], rate: 1/s, burst: 1 } ]\n')
        log = self.write('log', ''.join(f'{{"ts":1793923200.{part},"ip":"192.0.2.1","path":"/"}}\n'
                                        for part in ('5', '999999999', '')).replace('.,', ','))
        report = report_of('--config', config, log)
        self.assertEqual((report['config']['refused'], report['whole_seconds'], report['went_back']), (2, False, 1))

    def test_the_table_is_as_large_as_the_servers(self):
        config = self.write('weir.yaml', 'table: { memory: 64KiB }\nlimits: [ { name: l, key: [ip], rate: 1/hour } ]\n')
        log = self.write('log', ''.join(line(ip=f'10.{n >> 8}.{n & 255}.1') for n in range(20_000)))
        self.assertGreater(report_of('--config', config, log)['config']['evicted'], 0)
        self.assertIn('keys lost their place', replay('--config', config, log)[0])

    def test_ipv6_is_cut(self):
        config = self.write('weir.yaml', 'limits: [ { name: l, key: [ip], rate: 1/hour } ]\n')
        log = self.write('log', line(ip='2001:db8::1') + line(ip='2001:DB8:0:0:1::2') + line(ip='::ffff:192.0.2.1') + line())
        self.assertEqual([row['key'] for row in report_of('--config', config, log)['keys']],
                         ['ip=192.0.2.1', 'ip=2001:db8::'])

    def test_what_nodes_share(self):
        config = self.write('weir.yaml', '''cluster: { nodes: [a, b] }
engine: { redis: { servers: ["127.0.0.1:1"] } }
limits:
  - { name: exact, match: { route: /e }, key: [ip], rate: 2/hour }
  - { name: split, match: { route: /s }, key: [ip], rate: 2/hour, sharing: split }
  - { name: leased, match: { route: /l }, key: [ip], rate: 2/hour, sharing: leased }
  - { name: busy, key: [ip], rate: 1, algorithm: concurrency, sharing: split }
''')
        log = self.write('log', ''.join(line(path=path) * 3 for path in ('/e', '/s', '/l')))
        report = report_of('--config', config, log)
        self.assertEqual([row['config']['refused'] for row in report['limits']], [1, 1, 1, 0, 0])
        self.assertTrue(report['config']['shared_as_exact'] and report['config']['concurrency_skipped'])
        out, _ = replay('--config', config, log)
        self.assertIn('replayed as one exact counter each', out)
        self.assertIn('limits of concurrency were left out', out)

    def test_wrong_arguments(self):
        config = self.write('weir.yaml', 'limits: []\n')
        bad = self.write('bad.yaml', 'limits: [ { name: x } ]\n')
        log = self.write('log', line())
        for arguments, what in (((log,), '--config FILE, or --suggest'), (('--config', config), 'needs a LOG'),
                                (('--config', bad, log), f'{bad}:1:'), (('--config', config, '/none'), 'No such file'),
                                (('--config', config, self.folder), 'Is a directory'), (('--confg', log), "did you mean '--config'"),
                                (('--config', config, '--format', '$host', log), 'no field for the time'),
                                (('--config', config, '--format', 'x', log), 'combined, common, envoy, json'),
                                (('--config', config, '--map', 'x', log), 'FIELD=NAME'), (('--suggest', '--percentile', '0', log), '1 to 100'),
                                (('--suggest', '--key', 'a b', log), 'is no name'), (('--beside', config, '--suggest', log), 'needs --config'),
                                (('--config', config, '--plot', '/none/x', log), 'No such file'), (('--config', config, '-', '-'), 'can be read once'),
                                (('--suggest', '--out', '/none/x', log), 'No such file'), (('--config', config, '--rows', '0', log), '1 to 1000000')):
            with self.subTest(arguments=arguments):
                self.assertIn(what, replay(*arguments, stdin=b'', code=2)[1])
        self.assertIn('Examples:', replay('--help')[0])


if __name__ == '__main__':
    unittest.main()
