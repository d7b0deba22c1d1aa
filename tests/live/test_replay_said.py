#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What weir replay says beside its numbers: what differs from a server, both sets side by side, wrong arguments."""
import re
import unittest
import xml.etree.ElementTree

from replay_case import Case, line, replay, report_of


class Said(Case):
    """What differs from a server is told; both sets stand side by side; wrong arguments are."""

    def test_beside(self):
        new = self.write('new.yaml', 'limits: [ { name: both, key: [ip], rate: 1/hour }, '
                                     '{ name: fresh, key: [user], rate: 1/hour } ]\n')
        old = self.write('old.yaml', 'limits: [ { name: both, key: [ip], rate: 2/hour } ]\n')
        log = self.write('log', line() * 4 + line(ip='192.0.2.2', user='ada') * 2)
        plot = self.folder / 'plot.svg'
        report = report_of('--config', new, '--beside', old, '--plot', plot, log)
        self.assertEqual((report['config']['refused'], report['beside']['refused']), (4, 2))
        self.assertEqual((report['config']['refused_alone'], report['beside']['refused_alone']), (2, 0))
        self.assertEqual({row['limit']: tuple(row[side] and row[side]['refused'] for side in ('config', 'beside'))
                          for row in report['limits']}, {'both': (4, 2), 'fresh': (1, None), '(unmatched)': (0, 0)})
        self.assertEqual([row['config']['keys_refused'] for row in report['limits'] if row['config']], [2, 1, 0])
        self.assertEqual([(row['limit'], row['key'], row['refused'], row['refused_beside']) for row in report['keys']],
                         [('both', 'ip=192.0.2.1', 3, 2), ('both', 'ip=192.0.2.2', 1, 0), ('fresh', 'user=ada', 1, 0)])
        self.assertEqual([(row['requests'], row['refused'], row['refused_beside']) for row in report['minutes']],
                         [(6, 4, 2)])
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
        log = self.write('log', ''.join(line(ip=ip) for ip in ('2001:db8::1', '2001:DB8:0:0:1::2', '::ffff:192.0.2.1',
                                                               '192.0.2.1')))
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
        of = ('--config', config)
        for arguments, what in (((log,), '--config FILE, or --suggest'),
                                (of, 'needs a LOG'),
                                (('--config', bad, log), f'{bad}:1:'),
                                ((*of, '/none'), 'No such file'),
                                ((*of, self.folder), 'Is a directory'),
                                (('--confg', log), "did you mean '--config'"),
                                ((*of, '--format', '$host', log), 'no field for the time'),
                                ((*of, '--format', 'x', log), 'combined, common, envoy, json'),
                                ((*of, '--map', 'x', log), 'FIELD=NAME'),
                                (('--suggest', '--percentile', '0', log), '1 to 100'),
                                (('--suggest', '--key', 'a b', log), 'is no name'),
                                (('--beside', config, '--suggest', log), 'needs --config'),
                                ((*of, '--plot', '/none/x', log), 'No such file'),
                                ((*of, '-', '-'), 'can be read once'),
                                (('--suggest', '--out', '/none/x', log), 'No such file'),
                                ((*of, '--out', 'x', log), 'needs --suggest'),
                                ((*of, '--rows', '0', log), '1 to 1000000')):
            with self.subTest(arguments=arguments):
                self.assertIn(what, replay(*arguments, stdin=b'', code=2)[1])
        self.assertIn('Examples:', replay('--help')[0])


if __name__ == '__main__':
    unittest.main()
