#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes whose files define one limit differently, as in a rollout node by node: all decide by the newest definition,
and a key ends as if all had been reloaded in the instant in which the first one was. The measure is one process alone
that is charged the same and reloaded then."""
import contextlib
import hmac
import json
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from cluster import NAMES, SECRET, get_json, metrics, wait_for
from ports import free_port
from redis_server import Cluster as RedisCluster, Redis, rights
from test_tls import make_certificate
from weir_server import BUILD, Weir

OTHER_SECRET = 'ffeeddccbbaa99887766554433221100'
AT_ENGINE = ('exact', 'leased', 'batched')
MODES = (*AT_ENGINE, 'gossip')
TRAFFIC_S = 1.5  # of it at most a second is decided by an older definition


def mac(secret, data):
    return hmac.digest(bytes.fromhex(secret), data, 'sha256')[:16]


def signed_definition(text, number, node, before=b'', secret=SECRET):
    """The bytes by which nodes tell each other a limit's definition (src/limits/revisions.c), after those of `before`.
    """
    data = b'WRV1' + struct.pack('>QQ', number, 0) + mac(secret, text)[:8] + bytes([len(node)]) + node
    data += bytes([1 if before else 0]) + before[20:28] + struct.pack('>I', len(text)) + text
    return data + mac(secret, data)


def check(node, key, cost=1, peek=False):
    """The limit's part of the answer."""
    body = json.dumps({'attributes': {'user': key}, 'cost': cost, 'peek': peek}).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{node.http}/v1/check', data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())['limits'][0]
    except urllib.error.HTTPError as refused:
        with refused:
            return json.loads(refused.read())['limits'][0]


def look(node, key='hot'):
    return check(node, key, 1, peek=True)


class Cluster:
    """Three nodes with files of their own, and one process alone beside them. A context manager."""

    def __init__(self, sharing, definition, redis=None, secret=SECRET, names=NAMES):
        self.sharing, self.secret, self.nodes = sharing, secret, {}
        self.members = ', '.join(f'{{ name: {name}, gossip: "127.0.0.1:{free_port()}" }}' for name in names)
        self.engine = f'engine: {{ redis: {{ {redis} }} }}\n' if redis else ''
        try:
            for name in names:
                self.start(name, definition)
            self.alone = Weir(self.alone_text(definition), 1)
            self.wait_known()
            if sharing == 'gossip':  # until then each key is empty there, which looks as if its charges were known
                wait_for(lambda: all(get_json(node.http, '/v1/nodes')['gossip']['synced']
                                     for node in self.nodes.values()), text='the nodes do not sync')
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def limit(definition):
        return 'limits:\n  - name: api\n    key: [user]\n' + ''.join(f'    {line}\n' for line in definition.split('; '))

    def alone_text(self, definition):
        return self.limit('; '.join(line for line in definition.split('; ') if not line.startswith('on_failure')))

    def text(self, definition, extra=''):
        more = f'sharing: {self.sharing}'
        if self.sharing in AT_ENGINE:
            more += '; deadline: 10s'
        return (f'cluster_secret: {self.secret}\n{extra}{self.engine}cluster: {{ nodes: [{self.members}] }}\n'
                + self.limit(f'{definition}; {more}'))

    def start(self, name, definition, extra=''):
        self.nodes[name] = Weir(self.text(definition, extra), 1, ('--node', name))
        return self.nodes[name]

    def wait_known(self):
        """Each node knows what the others have, and all have the same."""
        def known():
            return len({(look(node, 'none').get('revision', name)) for name, node in self.nodes.items()}) == 1
        wait_for(known, text='the nodes do not agree')

    def wait_capacity(self, capacity):
        wait_for(lambda: all(look(node, 'none')['capacity'] == capacity for node in self.nodes.values()),
                 text='not all nodes decide by the newest definition')

    def reload(self, name, definition, extra='', alone=False):
        nodes = [(self.nodes[name], self.text(definition, extra))]
        if alone:
            nodes.append((self.alone, self.alone_text(definition)))
        for node, text in nodes:
            self.reload_text(node, text)

    @staticmethod
    def reload_text(node, text):
        before = node.output().count('info reloaded:')
        node.config.write_text(text, encoding='utf-8')
        node.process.send_signal(signal.SIGHUP)
        wait_for(lambda: node.output().count('info reloaded:') > before)

    def take_out(self, name):
        """A reload without the limit."""
        text = self.text('rate: 1/day').replace('name: api', 'name: other')
        self.reload_text(self.nodes[name], text)

    def charge(self, name, cost=1, key='hot'):
        """At the node, and, if it admitted, at the process alone."""
        admitted = check(self.nodes[name], key, cost)['admitted']
        if admitted:
            check(self.alone, key, cost)
        return admitted

    def charge_known(self, name, cost):
        """Until all nodes know of it: of what one admits in the instant of a change the others may hear after it, and
        then it is for them as if it had been admitted after the change."""
        wait_for(lambda: self.charge(name, cost), text='a node that just started and gossips admits nothing')
        wait_for(lambda: all(seen['remaining'] <= seen['capacity'] - cost for seen in map(look, self.nodes.values())),
                 text='not all nodes know what was charged')

    def traffic(self, seconds=TRAFFIC_S):
        """At all nodes in turn, twice at least; how many were admitted."""
        end, admitted, rounds = time.monotonic() + seconds, 0, 0
        while time.monotonic() < end or rounds < 2:
            for name in self.nodes:
                admitted += self.charge(name)
            rounds += 1
            time.sleep(0.03)
        return admitted

    def stop(self):
        wrong = []
        for node in [*self.nodes.values(), *([self.alone] if hasattr(self, 'alone') else [])]:
            output = node.output()[-2000:] if node.log.exists() else ''
            status = node.stop()
            if status:
                wrong.append(f'status {status}: {output}')
        return wrong

    def __enter__(self):
        return self

    def __exit__(self, *_):
        wrong = self.stop()
        assert not wrong, wrong


class AtRedis(unittest.TestCase):
    """The engine is a real Redis, whose user has the rights that docs/redis.md lists."""

    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.redis.ask('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', *rights())
        cls.yaml = (f'servers: ["{cls.redis.host}:{cls.redis.port}"], username: weir, password: secret, '
                    'connect_timeout: 30s')

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()

    def setUp(self):
        self.redis.ask('FLUSHALL')

    @contextlib.contextmanager
    def cluster(self, sharing, definition, **more):
        with Cluster(sharing, definition, self.yaml if sharing in AT_ENGINE else None, **more) as cluster:
            yield cluster


class Rollout(AtRedis):
    def ends_alike(self, cluster, spare):
        """All nodes show what the process alone shows, give or take `spare` units."""
        want = look(cluster.alone)
        for name, node in cluster.nodes.items():
            wait_for(lambda node=node: abs(look(node)['remaining'] - want['remaining']) <= spare,
                     text=f'{cluster.sharing}: node {name} shows {look(node)}, one process alone {want}')
            self.assertEqual(look(node)['capacity'], want['capacity'])

    @contextlib.contextmanager
    def each(self, sharing, definition):
        self.redis.ask('FLUSHALL')
        with self.subTest(sharing=sharing), self.cluster(sharing, definition) as cluster:
            yield cluster

    # As it was reported: 2,980 of 3,000 a day left, and one second later nothing for the rest of the day.
    def test_a_raise_on_the_first_node_leaves_what_was_left(self):
        for sharing in MODES:
            with self.each(sharing, 'rate: 3000/day') as cluster:
                cluster.charge_known('a', 20)
                cluster.reload('a', 'rate: 6000/day', alone=True)
                admitted = cluster.traffic()
                self.assertGreater(admitted, 3)
                self.assertGreaterEqual(look(cluster.nodes['a'])['remaining'], 2980 - admitted - 150)
                cluster.wait_capacity(6000)
                self.ends_alike(cluster, 150)

    def test_node_by_node_up_down_and_back(self):
        steps = ('rate: 3000/300day', 'rate: 2500/300day', 'rate: 6000/300day', 'rate: 5000/300day; burst: 4500',
                 'rate: 6000/300day')
        for sharing in MODES:
            with self.each(sharing, steps[0]) as cluster:
                cluster.charge_known('b', 20)
                for step in steps[1:]:
                    cluster.reload('a', step, alone=True)
                    cluster.traffic(0.4)
                    cluster.reload('b', step)
                    cluster.traffic(0.4)
                    cluster.reload('c', step)
                    cluster.wait_capacity(look(cluster.alone)['capacity'])
                    self.ends_alike(cluster, 100)

    def test_a_change_of_algorithm(self):
        for sharing in MODES:
            with self.each(sharing, 'rate: 3000/300day') as cluster:
                cluster.charge_known('c', 20)
                # A log, and windows from a key's first hit: gossip carries neither.
                log, first = ('sliding_log', '; align: first') if sharing in AT_ENGINE else ('token_bucket', '')
                for step in ('rate: 2000/300day; algorithm: sliding_counter', f'rate: 2000/300day; algorithm: {log}',
                             f'rate: 4000/300day; algorithm: fixed_window{first}', 'rate: 3000/300day'):
                    cluster.reload('b', step, alone=True)
                    cluster.traffic()
                    cluster.wait_capacity(look(cluster.alone)['capacity'])
                    self.ends_alike(cluster, 100)

    def test_a_change_that_is_not_of_the_numbers_resets_nothing(self):
        """`on_change` is for keys whose limit became another one, as in one process."""
        for sharing in AT_ENGINE:
            with self.each(sharing, 'rate: 30/day; on_change: reset') as cluster:
                cluster.charge_known('a', 20)
                before = look(cluster.nodes['a'], 'none')['revision']
                cluster.reload('a', 'rate: 30/day; on_change: reset; on_failure: closed', alone=True)
                wait_for(lambda before=before: look(cluster.nodes['a'], 'none')['revision'] > before)
                cluster.wait_known()
                self.ends_alike(cluster, 3)
                if sharing == 'exact':  # elsewhere what was just taken in advance is charged after the reset
                    cluster.reload('b', 'rate: 40/day; on_change: reset', alone=True)
                    cluster.wait_capacity(40)
                    self.ends_alike(cluster, 0)

    def test_a_start_with_the_old_file_in_the_middle_changes_nothing(self):
        for sharing in MODES:
            with self.each(sharing, 'rate: 3000/300day') as cluster:
                cluster.charge_known('a', 20)
                cluster.reload('a', 'rate: 6000/300day', alone=True)
                cluster.wait_capacity(6000)
                newest = look(cluster.nodes['a'])
                self.assertEqual(newest['revision_of'], 'a')
                self.assertEqual(cluster.nodes.pop('c').stop(), 0)
                cluster.start('c', 'rate: 3000/300day')
                if sharing == 'gossip':  # who is asked before it has heard of the key begins with nothing
                    self.ends_alike(cluster, 100)
                cluster.traffic()
                cluster.wait_capacity(6000)
                cluster.wait_known()
                self.assertEqual(look(cluster.nodes['b'])['revision'], newest['revision'])
                self.ends_alike(cluster, 100)
                cluster.reload('b', 'rate: 6000/300day')  # what is the newest already is not made it again
                time.sleep(0.5)
                cluster.wait_known()
                self.assertEqual(look(cluster.nodes['c'])['revision'], newest['revision'])
                series = metrics(cluster.nodes['c'].http)
                self.assertEqual(series['weir_limit_revision{limit="api",of="a"}'], newest['revision'])

    def test_a_start_of_all_nodes_with_the_old_file_goes_back_by_a_revision(self):
        """Neither the start nor a reload of what the file says already."""
        for sharing in AT_ENGINE:
            with self.each(sharing, 'rate: 3000/300day') as cluster:
                cluster.reload('a', 'rate: 6000/300day')
                for name in NAMES:  # the first has told nobody yet, maybe; at its end it does
                    self.assertEqual(cluster.nodes.pop(name).stop(), 0)
                    cluster.start(name, 'rate: 3000/300day')
                cluster.wait_known()
                cluster.wait_capacity(6000)
                cluster.reload('a', 'rate: 3000/300day')
                time.sleep(1)
                cluster.wait_capacity(6000)
                cluster.reload('a', 'rate: 3000/300day', extra='revision: 1\n')
                cluster.wait_capacity(3000)

    def test_a_reload_that_brings_a_limit_back_has_the_last_word(self):
        """Though in a form that is superseded, and known to the node no more."""
        for sharing in ('exact', 'gossip'):
            with self.each(sharing, 'rate: 3000/300day') as cluster:
                cluster.charge_known('a', 20)
                cluster.reload('a', 'rate: 2000/300day', alone=True)
                cluster.wait_capacity(2000)
                cluster.take_out('a')
                cluster.reload('a', 'rate: 3000/300day', alone=True)
                cluster.wait_capacity(3000)
                cluster.wait_known()
                self.assertEqual(look(cluster.nodes['b'])['revision_of'], 'a')

    def test_a_cluster_with_another_secret_is_kept_apart(self):
        with self.cluster('exact', 'rate: 3000/300day') as ours, \
                self.cluster('exact', 'rate: 10/300day', secret=OTHER_SECRET, names=('a',)) as stray:
            ours.charge_known('a', 20)
            ours.reload('a', 'rate: 6000/300day', alone=True)
            stray.reload('a', 'rate: 7/300day')
            ours.traffic()
            ours.wait_capacity(6000)
            self.ends_alike(ours, 100)
            self.assertEqual(look(stray.nodes['a'])['capacity'], 7)
            self.assertEqual(look(stray.nodes['a'])['remaining'], 7)

    def test_a_given_revision_decides_whatever_is_started_or_reloaded(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            cluster.reload('a', 'rate: 6000/300day', extra='revision: 42\n')
            cluster.wait_capacity(6000)
            cluster.reload('b', 'rate: 4000/300day', extra='revision: 41\n')
            time.sleep(1)
            cluster.wait_capacity(6000)
            self.assertRegex(cluster.nodes['b'].output(), r' reloaded: node b: 1 limit of \S+; 1 is defined by other nodes')
            self.assertNotIn('; 1 is defined by other nodes', cluster.nodes['a'].output())
            cluster.reload('c', 'rate: 5000/300day', extra='revision: 43\n')
            cluster.wait_capacity(5000)

    def explain(self, node, *more):
        told = subprocess.run([str(BUILD / 'weir'), 'explain', '--server', f'127.0.0.1:{node.http}', *more, 'user=x'],
                              capture_output=True, text=True, timeout=60, check=True)
        return told.stdout, told.stderr

    def test_explain_says_what_decides_where_the_file_does_not(self):
        with self.cluster('exact', 'rate: 300/day') as cluster:
            self.assertNotIn('NOT', ''.join(self.explain(cluster.nodes['b'])))
            cluster.reload('a', 'rate: 600/day')
            cluster.wait_capacity(600)
            revision = look(cluster.nodes['b'])['revision']
            out, error = self.explain(cluster.nodes['b'])
            self.assertIn('applies, by the file: token_bucket 300/day', out)
            self.assertIn(f'NOT what decides there: revision {revision} of node a does, token_bucket 600/day capacity 600',
                          out)
            self.assertIn('but for 1 limit that other nodes define', error)
            told = json.loads(self.explain(cluster.nodes['b'], '--json')[0])[0]
            self.assertEqual((told['rate'], told['in_force']['rate']), ('300/day', '600/day'))
            self.assertNotIn('NOT', ''.join(self.explain(cluster.nodes['a'])))
            # b's file comes to say the same: a's definition decides all the same, and nobody is told of a difference.
            cluster.nodes['b'].config.write_text(cluster.nodes['b'].config.read_text().replace('300/day', '600/day'))
            out, _ = self.explain(cluster.nodes['b'], '--config', str(cluster.nodes['b'].config))
            self.assertNotIn('NOT', out)
            self.assertIn('applies: token_bucket 600/day', out)
            self.assertIn(f'there a definition with the same numbers decides: revision {revision} of node a\n', out)
            self.assertIn("1 shared limit is defined by other nodes, not by this one's file: api; "
                          'changed: api 300/day -> 600/day\n',
                          cluster.nodes['b'].output())
            cluster.reload('b', 'rate: 600/day')
            wait_for(lambda: 'NOT' not in ''.join(self.explain(cluster.nodes['b'])))
            for node in cluster.nodes.values():
                self.assertNotIn(' 0 shared', node.output())

    def test_files_of_secrets_and_certificates_are_not_read_for_it(self):
        """They are being replaced when another node's definition comes: it would be left out, and more admitted."""
        with tempfile.TemporaryDirectory(prefix='weir-files-') as folder, self.cluster('exact', 'rate: 100/day') as cluster:
            path = pathlib.Path(folder)
            make_certificate(path, 1)
            (path / 'token').write_text('abcdefghijklmnopqrst', encoding='utf-8')
            extra = (f'tls: {{ cert: {path}/cert.pem, key: {path}/key.pem }}\n'
                     f'auth: {{ tokens: [ {{ name: app, secret_file: {path}/token }} ] }}\n')
            name, first = list(cluster.nodes)[1], list(cluster.nodes)[0]
            cluster.nodes.pop(name).stop()
            with Weir(cluster.text('rate: 100/day', extra), 1, ('--node', name)) as node:
                for file in path.iterdir():
                    file.unlink()
                cluster.reload(first, 'rate: 5/day')
                wait_for(lambda: 'api 100/day -> 5/day' in node.output(), text='it does not decide by it')

    def test_a_definition_that_is_not_understood_falls_back(self):
        """A later version's, as this one's nodes would find it at the engine."""
        with self.cluster('exact', 'rate: 3000/300day; on_failure: closed') as cluster:
            text = b'{"name": "api", "key": ["user"], "rate": "1/s", "algorithm": "tomorrows"}'
            key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
            self.redis.ask('SET', key, signed_definition(text, int(time.time()) + 1000, b'z', self.redis.ask('GET', key)))
            for node in cluster.nodes.values():
                wait_for(lambda node=node: check(node, 'x').get('fallback') == 'closed', text='it does not fall back')
                self.assertEqual(metrics(node.http)['weir_limit_undecidable{limit="api"}'], 1)
                self.assertIn('of node z does, which is not understood there (on_failure: closed)',
                              self.explain(node)[0])
            cluster.reload('a', 'rate: 2000/300day')
            cluster.wait_capacity(2000)
            wait_for(lambda: all(check(node, 'x')['admitted'] for node in cluster.nodes.values()))

    def test_what_is_not_ours_is_left_alone(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
            text = b'{"name": "api", "key": ["user"], "rate": "1/s"}'
            forged = signed_definition(text, int(time.time()) + 1000, b'z', secret=OTHER_SECRET)
            self.redis.ask('SET', key, forged)
            wait_for(lambda: metrics(cluster.nodes['a'].http)['weir_revisions_corrupt_total'] > 0)
            self.assertEqual(self.redis.ask('GET', key), forged)
            cluster.wait_capacity(3000)
            wait_for(lambda: 'revision_corrupt_begun' in cluster.nodes['a'].output())

    def test_what_is_no_text_at_all_is_told_too(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
            # At once: a node writes back what is missing.
            self.redis.ask('EVAL', "redis.call('DEL', KEYS[1]); return redis.call('RPUSH', KEYS[1], 'x')", '1', key)
            wait_for(lambda: 'revision_corrupt_begun' in cluster.nodes['a'].output())
            self.assertGreater(metrics(cluster.nodes['a'].http)['weir_revisions_corrupt_total'], 0)

    def test_what_is_not_ours_and_too_long_does_not_end_the_connection(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            key = next(key for key in self.redis.ask('KEYS', '*:revision:*'))
            self.redis.ask('SET', key, b'WRV1' + struct.pack('>QQQ', int(time.time()) + 1000, 0, 0) + bytes(8 << 20))
            node = cluster.nodes['a']
            wait_for(lambda: metrics(node.http)['weir_revisions_corrupt_total'] > 1)
            self.assertNotIn('engine_lost', node.output())
            self.assertNotIn('fallback', look(node))

    def test_what_the_engine_lost_is_told_it_again(self):
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            cluster.reload('a', 'rate: 6000/300day')
            cluster.wait_capacity(6000)
            newest = look(cluster.nodes['a'])['revision']
            self.redis.ask('FLUSHALL')
            wait_for(lambda: any(b':revision:' in key for key in self.redis.ask('KEYS', '*')))
            self.assertEqual(cluster.nodes.pop('c').stop(), 0)
            cluster.start('c', 'rate: 3000/300day')
            cluster.wait_known()
            self.assertEqual(look(cluster.nodes['c'])['revision'], newest)

    def test_a_definition_that_outgrows_what_nodes_tell_decides_by_each_file(self):
        long = 'rate: 1000/300day; overrides:' + ''.join(f'; - {{ user: {i:0120}, rate: 1/s }}' for i in range(4000))
        with self.cluster('exact', 'rate: 3000/300day') as cluster:
            cluster.reload('a', 'rate: 6000/300day')
            cluster.wait_capacity(6000)
            self.assertTrue(cluster.charge('a'))
            for name in cluster.nodes:
                cluster.reload(name, long)
            for node in cluster.nodes.values():
                seen = check(node, 'hot')
                self.assertEqual((seen['capacity'], seen['admitted']), (1000, True))

    def test_where_the_engine_is_a_cluster(self):
        with RedisCluster() as servers, Cluster('exact', 'rate: 3000/300day', servers.yaml()) as cluster:
            cluster.charge_known('a', 20)
            cluster.reload('c', 'rate: 6000/300day', alone=True)
            cluster.traffic()
            cluster.wait_capacity(6000)
            self.ends_alike(cluster, 100)


if __name__ == '__main__':
    unittest.main()
