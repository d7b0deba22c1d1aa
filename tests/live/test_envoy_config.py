#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""envoyproxy/ratelimit's configuration files, as they are: weir serve --ratelimit-config, and weir rules import ratelimit,
asked by grpcio; what docs/envoy.md says of moving over."""
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time
import unittest

from envoy_client import OK, OVER_LIMIT, UNITS, Envoy
from grpc_case import GrpcCase
from redis_server import Redis
from weir_server import BUILD, Weir

GRPC = ('--grpc', '127.0.0.1:0')
EDGE = '''\
domain: edge
descriptors:
  # 10 in a day for each address
  - key: remote_address
    rate_limit:
      unit: day
      requests_per_unit: 10
  - key: remote_address
    value: 50.0.0.5
    rate_limit:
      unit: day
      requests_per_unit: 0
  - key: tenant
    descriptors:
      - key: path
        value: /api/*/action
        rate_limit: { name: base, unit: week, requests_per_unit: 3 }
      - key: path
        value: files/*
        share_threshold: true
        rate_limit: { unit: month, requests_per_unit: 2 }
      - key: path
        value: quiet
        shadow_mode: true
        rate_limit: { unit: year, requests_per_unit: 1 }
      - key: path
        value: free
        rate_limit: { unlimited: true }
  - key: tenant
    value: closed
    descriptors:
      - key: path
        value: /x
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: generic_key
    value: one
    descriptors:
      - key: generic_key
        rate_limit: { unit: day, requests_per_unit: 1 }
'''
OTHER = '''\
domain: other
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }
'''


class Folder:
    """A folder of such files. A context manager; `path` is its name."""

    def __init__(self, **files):
        self.files = files

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-ratelimit-')
        self.path = pathlib.Path(self.folder.name)
        for name, text in self.files.items():
            self.write(name, text)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def write(self, name, text):
        self.path.joinpath(name + '.yaml').write_text(text, encoding='utf-8')


def run(*arguments):
    return subprocess.run([str(BUILD / 'weir'), *arguments], capture_output=True, text=True, timeout=120)


def metrics_of(weir):
    return subprocess.run(['curl', '-s', f'http://127.0.0.1:{weir.http}/metrics'], capture_output=True, text=True, check=True).stdout


def until(condition, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Case(GrpcCase):
    def serve(self, folder, config=None, arguments=()):
        weir = self.enterContext(Weir(config, arguments=('--ratelimit-config', str(folder.path), *GRPC, *arguments)))
        return weir, self.enterContext(Envoy(weir.port('grpc')))

    def one(self, envoy, *entries, domain='edge', hits=0):
        """What is said of one descriptor, whose keys may repeat."""
        question = envoy.question(domain=domain, hits_addend=hits)
        descriptor = question.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
        return envoy.call(question, timeout=60).statuses[0]


class Served(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(Folder(edge=EDGE, other=OTHER))
        cls.weir = cls.enterClassContext(Weir(None, arguments=('--ratelimit-config', str(cls.folder.path), *GRPC)))
        cls.envoy = cls.enterClassContext(Envoy(cls.weir.port('grpc')))

    def test_what_is_served(self):
        self.assertRegex(self.weir.output(), rf'started.*9 limits of {self.folder.path}')

    def test_a_limit_and_its_window(self):
        one = self.one(self.envoy, ('remote_address', '192.0.2.1'))
        self.assertEqual((one.code, one.limit_remaining, one.current_limit.requests_per_unit, one.current_limit.unit, one.current_limit.name),
                         (OK, 9, 10, UNITS['DAY'], 'edge.remote_address'))
        self.assertLessEqual(abs(one.duration_until_reset.seconds - (86400 - time.time() % 86400)), 60)
        for left in (2, 1, 0):
            one = self.one(self.envoy, ('tenant', 't'), ('path', '/api/1/action'))
            self.assertEqual((one.code, one.limit_remaining, one.current_limit.unit), (OK, left, UNITS['WEEK']))
        one = self.one(self.envoy, ('tenant', 't'), ('path', '/api/1/action'))
        self.assertEqual((one.code, one.limit_remaining), (OVER_LIMIT, 0))
        # weeks, months and years begin where that service lets them begin, so many seconds after 1970
        for path, seconds in (('/api/2/action', 7 * 86400), ('files/w', 30 * 86400), ('quiet', 365 * 86400)):
            one = self.one(self.envoy, ('tenant', 'window'), ('path', path))
            self.assertLessEqual(abs(one.duration_until_reset.seconds - (seconds - time.time() % seconds)), 60, path)

    def test_none_for_an_address(self):
        for hits, address in ((1, '50.0.0.5'), (11, 'x')):
            one = self.one(self.envoy, ('remote_address', address), hits=hits)
            self.assertEqual((one.code, one.HasField('duration_until_reset')), (OVER_LIMIT, False))

    def test_values_that_share(self):
        tenant = ('tenant', 'shares')
        codes = [self.one(self.envoy, tenant, ('path', f'files/{name}')).code for name in 'abc']
        self.assertEqual(codes, [OK, OK, OVER_LIMIT])
        self.assertEqual(self.one(self.envoy, ('tenant', 'another'), ('path', 'files/a')).code, OK)

    def test_shadow_and_unlimited(self):
        tenant = ('tenant', 's')
        first, second = (self.one(self.envoy, tenant, ('path', 'quiet')) for _ in range(2))
        self.assertEqual((first.code, first.limit_remaining, second.code, second.limit_remaining), (OK, 0, OK, 0))
        self.assertEqual(second.current_limit.unit, UNITS['YEAR'])
        one = self.one(self.envoy, tenant, ('path', 'free'))
        self.assertEqual((one.code, one.limit_remaining, one.HasField('current_limit')), (OK, 2 ** 32 - 1, False))

    def test_depth_order_and_no_way_back(self):
        for entries in ([('tenant', 't')], [('path', '/x'), ('tenant', 'closed')], [('tenant', 't'), ('path', '/x'), ('more', '1')],
                        [('tenant', 'closed'), ('path', 'free')], [('tenant', 't'), ('path', 'elsewhere')], [('remote_address', 'a'), ('x', 'y')]):
            one = self.one(self.envoy, *entries)
            self.assertEqual((one.code, one.limit_remaining, one.HasField('current_limit')), (OK, 0, False), entries)
        self.assertEqual(self.one(self.envoy, ('tenant', 'closed'), ('path', '/x')).current_limit.requests_per_unit, 1)
        self.assertFalse(self.one(self.envoy, ('remote_address', 'a'), domain='other').HasField('current_limit'))

    def test_a_key_that_stands_twice(self):
        codes = [self.one(self.envoy, ('generic_key', 'one'), ('generic_key', value)).code for value in ('two', 'three', 'two')]
        self.assertEqual(codes, [OK, OK, OVER_LIMIT])
        for entries in ([('generic_key', 'other'), ('generic_key', 'two')], [('generic_key', 'one')], [('generic_key', 'one')] * 3):
            self.assertFalse(self.one(self.envoy, *entries).HasField('current_limit'))

    def test_all_or_nothing(self):
        self.assertEqual(self.envoy.codes({'remote_address': 'all'}, {'remote_address': '50.0.0.5'}), [OK, OVER_LIMIT])
        self.assertEqual(self.envoy.ask({'remote_address': 'all'}).statuses[0].limit_remaining, 9)

    def test_many_entries(self):
        entries = {f'k{i}': 'v' * 20 for i in range(63)}
        self.assertFalse(self.envoy.ask(entries).statuses[0].HasField('current_limit'))
        self.assertFalse(self.one(self.envoy, *[('k' * 64, 'v')] * 62).HasField('current_limit'))


class Replaces(Case):
    """As envoyproxy/ratelimit has it: what is replaced is as if no limit applied, in this question."""
    FILE = '''\
domain: edge
descriptors:
  - { key: user, rate_limit: { name: base, unit: day, requests_per_unit: 2 } }
  - { key: path, rate_limit: { name: base, unit: day, requests_per_unit: 3 } }
  - { key: vip, rate_limit: { name: vip, unit: day, requests_per_unit: 10, replaces: [ { name: base } ] } }
  - { key: all, rate_limit: { unlimited: true, replaces: [ { name: vip } ] } }
  - { key: quiet, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 0, replaces: [ { name: base } ] } }
  - { key: other, rate_limit: { unit: day, requests_per_unit: 5 } }
'''

    def look(self, envoy):
        def told(*descriptors, **options):
            return [(one.code, one.limit_remaining, one.HasField('current_limit')) for one in envoy.ask(*descriptors, **options).statuses]
        self.assertEqual(told({'user': 'u'}), [(OK, 1, True)])
        for left in (9, 8, 7):
            self.assertEqual(told({'user': 'u'}, {'vip': 'v'}, {'path': 'p'}, {'other': f'o{left}'}),
                             [(OK, 0, False), (OK, left, True), (OK, 0, False), (OK, 4, True)])
        self.assertEqual(told({'user': 'u'}), [(OK, 0, True)])  # it was not charged meanwhile
        self.assertEqual(told({'user': 'u'}), [(OVER_LIMIT, 0, True)])
        # what is replaced replaces all the same, and so does what is unlimited or in shadow
        self.assertEqual(told({'all': 'a'}, {'vip': 'v'}, {'user': 'u'}), [(OK, 2 ** 32 - 1, False), (OK, 0, False), (OK, 0, False)])
        self.assertEqual(told({'vip': 'v'}), [(OK, 6, True)])
        self.assertEqual(told({'quiet': 'q'}, {'user': 'u'}), [(OK, 0, True), (OK, 0, False)])
        self.assertEqual(told({'user': 'u'}, ({'vip': 'v'}, {'limit': (5, UNITS['DAY'])})), [(OVER_LIMIT, 0, True), (OK, 5, True)])

    def test_of_files(self):
        with Folder(edge=self.FILE) as folder:
            self.look(self.serve(folder)[1])

    def test_of_what_is_printed(self):
        with Folder(edge=self.FILE) as folder:
            printed = run('rules', 'import', 'ratelimit', str(folder.path)).stdout
            with Weir(printed, arguments=GRPC) as weir, Envoy(weir.port('grpc')) as envoy:
                self.look(envoy)

    def test_counting_all(self):
        with Folder(edge=self.FILE) as folder:
            _, envoy = self.serve(folder, 'envoy: { count_all: true }\n')
            self.assertEqual(envoy.codes({'user': 'u'}, {'vip': 'v'}, hits=3), [OK, OK])
            self.assertEqual(envoy.codes({'user': 'u'}, hits=3), [OVER_LIMIT])
            self.assertEqual(envoy.codes({'vip': 'v'}, {'user': 'u'}, hits=3), [OK, OK])

    def test_of_unmatched(self):
        with Folder(edge=self.FILE) as folder:
            _, envoy = self.serve(folder, 'unmatched: refuse\n')
            self.assertEqual(envoy.codes({'user': 'u'}, {'vip': 'v'}, {'none': 'n'}), [OK, OK, OVER_LIMIT])


class Statistics(Case):
    def hits(self, weir, limit):
        text = metrics_of(weir)
        return {match[1]: int(match[2]) for match in re.finditer(rf'^weir_envoy_hits_total{{limit="{re.escape(limit)}",statistic="(\w+)"}} (\d+)$', text, re.M)}

    def test_each_has_its_name(self):
        with Folder(edge=EDGE, other=OTHER) as folder:
            weir, envoy = self.serve(folder)
            self.assertEqual(self.hits(weir, 'other.user'), {})
            self.one(envoy, ('user', 'u'), domain='other', hits=3)
            self.assertEqual(self.hits(weir, 'other.user'), {'total_hits': 3, 'within_limit': 3, 'near_limit': 0, 'over_limit': 0, 'shadow_mode': 0})
            self.one(envoy, ('user', 'u'), domain='other', hits=2)
            self.one(envoy, ('user', 'u'), domain='other', hits=4)
            self.one(envoy, ('user', 'v'), domain='other')
            self.assertEqual(self.hits(weir, 'other.user'), {'total_hits': 10, 'within_limit': 6, 'near_limit': 1, 'over_limit': 4, 'shadow_mode': 0})
            envoy.ask({'remote_address': 'a'}, {'remote_address': '50.0.0.5'}, ({'remote_address': 'a'}, {'hits': 0}))
            self.assertEqual(self.hits(weir, 'edge.remote_address'), {'total_hits': 1, 'within_limit': 0, 'near_limit': 0, 'over_limit': 0, 'shadow_mode': 0})
            self.assertEqual(self.hits(weir, 'edge.remote_address_50.0.0.5')['over_limit'], 1)
            for _ in range(3):
                self.one(envoy, ('tenant', 't'), ('path', 'quiet'))
                self.one(envoy, ('tenant', 't'), ('path', 'free'))
            self.assertEqual(self.hits(weir, 'edge.tenant.path_quiet'), {'total_hits': 3, 'within_limit': 1, 'near_limit': 1, 'over_limit': 2, 'shadow_mode': 2})
            self.assertEqual(self.hits(weir, 'edge.tenant.path_free'), {})
            envoy.ask(*[({'x': f'{i}'}, {'limit': (1, UNITS['DAY'])}) for i in range(50)])
            self.assertEqual(self.hits(weir, '(override)')['within_limit'], 50)

    def test_counting_all(self):
        with Folder(edge=EDGE) as folder:
            weir, envoy = self.serve(folder, 'envoy: { count_all: true }\n')
            envoy.ask({'remote_address': 'a'}, {'remote_address': '50.0.0.5'})
            self.assertEqual(self.hits(weir, 'edge.remote_address')['within_limit'], 1)


class CountAll(Case):
    def test_each_by_itself(self):
        """As that service counts: each descriptor, and what is refused as well."""
        with Folder(edge=EDGE) as folder:
            _, envoy = self.serve(folder, 'envoy: { count_all: true }\n')
            self.assertEqual(envoy.codes({'remote_address': 'all'}, {'remote_address': '50.0.0.5'}), [OK, OVER_LIMIT])
            self.assertEqual(envoy.ask({'remote_address': 'all'}, hits=5).statuses[0].limit_remaining, 4)
            self.assertEqual(envoy.codes({'remote_address': 'all'}, hits=5), [OVER_LIMIT])
            self.assertEqual(envoy.codes({'remote_address': 'all'}), [OVER_LIMIT])

    def test_what_is_refused_counts_for_nothing_else(self):
        with Folder(edge=EDGE) as folder:
            _, envoy = self.serve(folder)
            self.assertEqual(envoy.codes({'remote_address': 'all'}, hits=6), [OK])
            self.assertEqual(envoy.codes({'remote_address': 'all'}, hits=5), [OVER_LIMIT])
            self.assertEqual(envoy.codes({'remote_address': 'all'}, hits=4), [OK])


class Shared(Case):
    """Two weirs of one folder and one Redis: one count, as of two servers of that service."""

    CONFIG = '''
engine: {{ redis: {{ servers: ["127.0.0.1:{port}"] }} }}
cluster_secret: 000102030405060708090a0b0c0d0e0f
'''

    def ask(self, envoys):
        return ([self.one(envoys[i % 2], ('tenant', 't'), ('path', '/api/1/action')) for i in range(4)],
                [self.one(envoys[i % 2], ('tenant', 't'), ('path', f'files/{i}')).code for i in range(3)],
                [envoy.ask({'remote_address': 'x'}, {'remote_address': '50.0.0.5'}).overall_code for envoy in envoys],
                envoys[0].ask({'remote_address': 'x'}).statuses[0].limit_remaining)

    def test_one_count(self):
        """On a machine that is busy the engine may miss its 20 ms, and a node's share decides: that run says nothing."""
        for _ in range(10):
            with Redis() as redis, Folder(edge=EDGE) as folder:
                served = [self.serve(folder, self.CONFIG.format(port=redis.port)) for _ in range(2)]
                weeks, files, together, left = self.ask([envoy for _, envoy in served])
                fell_back = [re.findall(r'^weir_fallback_total{.*} [1-9]', metrics_of(weir), re.M) for weir, _ in served]
            if not any(fell_back):
                break
        self.assertEqual([(one.code, one.limit_remaining) for one in weeks], [(OK, 2), (OK, 1), (OK, 0), (OVER_LIMIT, 0)])
        seconds = 7 * 86400
        self.assertLessEqual(abs(weeks[0].duration_until_reset.seconds - (seconds - time.time() % seconds)), 60)
        self.assertEqual((files, together, left), ([OK, OK, OVER_LIMIT], [OVER_LIMIT] * 2, 9))


class Reload(Case):
    def codes(self, envoy, count=4):
        return [self.one(envoy, ('user', 'u'), domain='other').code for _ in range(count)]

    def test_whole_or_not_at_all(self):
        with Folder(other=OTHER) as folder:
            weir, envoy = self.serve(folder)
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').current_limit.requests_per_unit, 5)
            folder.write('edge', EDGE)
            folder.write('third', 'domain: third\ndescriptors:\n  - { key: user, rate_limits: 5 }\n')
            self.assertTrue(until(lambda: 'reload_failed' in weir.output()))
            self.assertIn(f'{folder.path}/third.yaml:3:18: unknown key "rate_limits" in a descriptor', weir.output())
            self.assertFalse(self.one(envoy, ('remote_address', 'a')).HasField('current_limit'))
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').limit_remaining, 3)
            folder.write('third', OTHER.replace('other', 'third').replace('5', '7'))
            self.assertTrue(until(lambda: self.one(envoy, ('remote_address', 'a')).HasField('current_limit')))
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='third').current_limit.requests_per_unit, 7)
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').limit_remaining, 2)  # what was used stays used
            folder.path.joinpath('third.yaml').unlink()
            self.assertTrue(until(lambda: not self.one(envoy, ('user', 'v'), domain='third').HasField('current_limit')))
            self.assertEqual(weir.output().count('reload_failed'), 1)

    def test_a_raise_is_felt_in_the_next_window(self):
        with Folder(other=OTHER.replace('hour', 'year')) as folder:
            _, envoy = self.serve(folder)
            self.assertEqual(self.codes(envoy, 6), [OK] * 5 + [OVER_LIMIT])
            folder.write('other', OTHER.replace('hour', 'year').replace('5', '8'))
            self.assertTrue(until(lambda: self.one(envoy, ('user', 'u'), domain='other').current_limit.requests_per_unit == 8))
            self.assertEqual(self.codes(envoy, 2), [OVER_LIMIT] * 2)
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').limit_remaining, 7)

    def test_a_folder_that_is_swapped(self):
        """As a mounted ConfigMap is: the files are links through a link that is renamed."""
        with Folder() as folder:
            for version, count in (('..1', '5'), ('..2', '6')):
                folder.path.joinpath(version).mkdir()
                folder.path.joinpath(version, 'other.yaml').write_text(OTHER.replace('5', count))
            folder.path.joinpath('..data').symlink_to('..1')
            folder.path.joinpath('other.yaml').symlink_to('..data/other.yaml')
            _, envoy = self.serve(folder)
            self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').current_limit.requests_per_unit, 5)
            folder.path.joinpath('..next').symlink_to('..2')
            os.rename(folder.path / '..next', folder.path / '..data')
            self.assertTrue(until(lambda: self.one(envoy, ('user', 'v'), domain='other').current_limit.requests_per_unit == 6))

    def test_a_folder_that_goes(self):
        with Folder(other=OTHER) as folder:
            weir, envoy = self.serve(folder)
            os.rename(folder.path, str(folder.path) + '-away')
            try:
                self.assertTrue(until(lambda: 'reload_failed' in weir.output()))
                self.assertEqual(self.one(envoy, ('user', 'v'), domain='other').current_limit.requests_per_unit, 5)
            finally:
                os.rename(str(folder.path) + '-away', folder.path)


class Refused(unittest.TestCase):
    def refused(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_with_the_place(self):
        serve = ('serve', '--resp', 'off', '--http', 'off', '--ratelimit-config')
        with Folder(edge=EDGE, twice=EDGE) as folder:
            path = str(folder.path)
            self.assertIn(f'{path}/twice.yaml:1:9: the domain "edge" stands already in {path}/edge.yaml:1', self.refused(*serve, path))
            folder.write('twice', EDGE.replace('domain: edge', 'domain: twice').replace('shadow_mode', 'quota_mode'))
            self.assertIn(f'{path}/twice.yaml:24:21: quota_mode: true is not what weir can do', self.refused(*serve, path))
            self.assertIn(f'{path}/twice.yaml:24:21: quota_mode: true', self.refused('rules', 'import', 'ratelimit', path))
            folder.write('twice', 'domain: twice\ndescriptors:\n  - { key: k, rate_limit: { unit: second, requests_per_unit: 4000000000 } }\n')
            for arguments in ((*serve, path), ('rules', 'import', 'ratelimit', path)):
                self.assertIn(f'{path}/twice.yaml:3:5: ', self.refused(*arguments))

    def test_a_folder_that_is_none(self):
        with Folder() as folder:
            path = str(folder.path)
            for arguments in (('serve', '--resp', 'off', '--http', 'off', '--ratelimit-config', path), ('rules', 'import', 'ratelimit', path)):
                self.assertIn(f'{path}: has no file whose name ends in .yaml', self.refused(*arguments))
            self.assertIn('No such file', self.refused('rules', 'import', 'ratelimit', path + '/none'))
            folder.path.joinpath('sub').mkdir()
            self.assertIn(f'{path}/sub: is a folder', self.refused('rules', 'import', 'ratelimit', path))
            folder.path.joinpath('sub').rmdir()
            folder.path.joinpath('README').write_text('x')
            self.assertIn(f'{path}/README: would not be read', self.refused('rules', 'import', 'ratelimit', path))
            folder.path.joinpath('README').unlink()
            os.mkfifo(folder.path / 'pipe.yaml')
            self.assertIn('not a regular file', self.refused('rules', 'import', 'ratelimit', path))

    def test_limits_in_two_places(self):
        with Folder(edge=EDGE) as folder, tempfile.TemporaryDirectory() as other:
            config = pathlib.Path(other, 'weir.yaml')
            config.write_text('limits:\n  - { name: a, rate: 1/s }\n')
            said = self.refused('serve', '--check', str(config), '--ratelimit-config', str(folder.path))
            self.assertIn(f'{config}:2:5: with --ratelimit-config all limits are in the files of its folder', said)
            config.write_text(f'envoy: {{ ratelimit_config: {folder.path} }}\nlimits:\n  - {{ name: a, rate: 1/s }}\n')
            for arguments in (('serve', '--check', str(config)), ('rules', 'check', str(config))):
                self.assertIn(f'{config}:2:1: limits', self.refused(*arguments))
            config.write_text(f'rules: {{ store: "sqlite:{other}/rules.db" }}\nenvoy: {{ ratelimit_config: {folder.path} }}\n')
            for arguments in (('serve', '--check', str(config)), ('rules', 'check', str(config))):
                self.assertIn(f'{config}:2:1: envoy.ratelimit_config names files, and rules a store', self.refused(*arguments))


class Key(Case):
    """envoy: { ratelimit_config: FOLDER } in the file."""

    def test_relative_to_the_file(self):
        with Folder(edge=EDGE) as folder:
            config = folder.path.parent / (folder.path.name + '.conf')
            config.write_text(f'envoy: {{ ratelimit_config: {folder.path.name} }}\nlisten: {{ resp: off, http: off }}\n')
            try:
                done = run('serve', '--check', str(config))
                self.assertEqual((done.returncode, done.stderr), (0, ''))
                self.assertIn('8 limits', done.stdout)
                done = run('rules', 'check', str(config))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('limit "edge.remote_address"', done.stdout)
                done = run('explain', '--config', str(config), 'domain=edge', 'descriptor=remote_address', 'remote_address=192.0.2.1')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r'edge\.remote_address\b.*applies|applies.*edge\.remote_address\b')
                folder.write('edge', EDGE.replace('unit: day', 'unit: fortnight'))
                for arguments in (('serve', '--check', str(config)), ('rules', 'check', str(config))):
                    done = run(*arguments)
                    self.assertEqual(done.returncode, 2)
                    self.assertIn('edge.yaml:6:13: unit must be second', done.stderr)
            finally:
                config.unlink()


class Import(Case):
    def questions(self, rng, envoy):
        """Each of some descriptors, as often as may refuse."""
        values = {'remote_address': ['50.0.0.5', '192.0.2.1', 'x'], 'tenant': ['t', 'closed', ''], 'generic_key': ['one', 'two'], 'user': ['u'],
                  'path': ['/api/1/action', '/api/2/action', 'files/a', 'files/b', 'quiet', 'free', '/x', 'other']}
        for _ in range(300):
            question = envoy.question(domain=rng.choice(['edge', 'edge', 'edge', 'other', 'none']), hits_addend=rng.choice([0, 0, 1, 2, 3]))
            for _ in range(rng.choice([1, 1, 2, 3])):
                descriptor = question.descriptors.add()
                keys = rng.choice([['remote_address'], ['tenant', 'path'], ['tenant', 'path'], ['tenant', 'path'], ['path', 'tenant'],
                                   ['generic_key', 'generic_key'], ['tenant'], ['user']])
                for key in keys:
                    descriptor.entries.add(key=key, value=rng.choice(values[key]))
            yield question

    def compare(self, folder, config, printed):
        """One server of the files, one of what they were printed as: every answer is the same but for its times."""
        seed = int(os.environ.get('WEIR_SEED', time.time_ns()))
        print(f'WEIR_SEED={seed}')
        rng = random.Random(seed)
        _, one = self.serve(folder, config)
        other = self.enterContext(Envoy(self.enterContext(Weir(printed, arguments=GRPC)).port('grpc')))
        refused = 0
        for question in self.questions(rng, one):
            told = []
            for envoy in (one, other):
                answer = envoy.call(envoy.question.FromString(question.SerializeToString()), timeout=60)
                told.append((answer.overall_code, [(status.code, status.limit_remaining, status.current_limit.name, status.current_limit.unit,
                                                    status.current_limit.requests_per_unit) for status in answer.statuses]))
            self.assertEqual(*told, question)
            refused += told[0][0] == OVER_LIMIT
        self.assertTrue(20 < refused < 280, refused)

    def test_the_same_decisions(self):
        with Folder(edge=EDGE, other=OTHER) as folder:
            done = run('rules', 'import', 'ratelimit', str(folder.path))
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.compare(folder, None, done.stdout)

    def test_the_same_decisions_counting_all(self):
        with Folder(edge=EDGE, other=OTHER) as folder:
            done = run('rules', 'import', 'ratelimit', '--count-all', str(folder.path))
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertIn('count: attempts', done.stdout)
            self.compare(folder, 'envoy: { count_all: true }\n', done.stdout)


if __name__ == '__main__':
    unittest.main()
