#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir replay: what it says was refused is what libweir decides, given the log's times (tests/replay/day.c), however
the log is written; and what it proposes does to the next day what it says.

WEIR_TEST_EFFORT=soak takes a day of 50 million lines."""
import datetime
import gzip
import json
import os
import re
import subprocess
import sys
import unittest

from replay_case import Case, line, replay, report_of
from weir_server import BUILD

SOAK = os.environ.get('WEIR_TEST_EFFORT') == 'soak'
LINES = 60_000
DAY = datetime.datetime(2026, 11, 6, tzinfo=datetime.timezone.utc)
TIMED = ('$remote_addr - $remote_user [$time_local] "$request" $status $size "$http_referer" "$http_user_agent" '
         '$request_time')

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


def counts_of(report):
    """The report as day.c prints its counts."""
    lines = [f"limit {row['limit']} {row['config']['refused']}" for row in report['limits']
             if row['limit'] != '(unmatched)']
    lines += [f"key {row['limit']} {row['key']} {row['refused']}" for row in report['keys']]
    lines += [f"route {row['route']} {row['refused']}" for row in report['routes']]
    for row in report['minutes']:
        began = datetime.datetime.fromisoformat(row['minute'].replace('Z', '+00:00'))
        if row['refused']:
            lines.append(f"minute {(began - DAY) // datetime.timedelta(minutes=1)} {row['refused']}")
    return sorted(lines)


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
        early = self.write('early', b''.join(lines[:noon]))
        late = self.write('late.gz', gzip.compress(b''.join(lines[noon:])))
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
        self.assertEqual({row['route'] for row in said['proposed']},
                         {'/api/*', '/login', '/static/*', '/export/*', '/'})
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
        self.assertEqual([row[name] for name in ('keys', 'minute_median', 'minute_high', 'minute_most',
                                                 'rate_per_minute', 'burst', 'refused', 'keys_refused')],
                         [100, 50, 99, 100, 99, 99, 1, 1])
        row, = report_of('--suggest', '--percentile', 100, log)['proposed']
        self.assertEqual((row['rate_per_minute'], row['refused']), (100, 0))
        rows = report_of('--suggest', '--key', 'user', log)['proposed']
        self.assertEqual(rows, [])  # nobody has one
        self.assertIn('nothing is proposed', replay('--suggest', '--key', 'user', log)[0])
        self.assertEqual(replay('--suggest', '-', stdin=b'\n\n')[0].splitlines()[0], '0 lines (none)')

    def test_minutes_are_those_of_the_clock(self):
        """And so are the ten seconds: the first and the last second of each count together, no others do."""
        log = self.write('log', ''.join(line(at=f'06/Nov/2026:10:{at} +0000')
                                        for at in ('00:00', '00:59', '01:00', '01:10', '01:19')))
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


if __name__ == '__main__':
    unittest.main()
