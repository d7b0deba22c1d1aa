#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around nodes that share a limit: names given twice, N that changes, forged and replayed datagrams,
foreign values under our keys, a wrong password, TLS that nobody offers. Clear errors, no crash, bounds kept."""
import os
import pathlib
import random
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import cluster
from cluster import Load, Nodes, ask_many, get_json, metrics, wait_for
from ports import free_port
from redis_server import Redis
from weir_server import BUILD, Resp, Weir

COUNT, SLACK = 300, 10
ENGINE_LIMITS = f'''
  - {{ name: exact, match: {{ what: exact }}, key: [user], rate: {COUNT}/day, sharing: exact, on_failure: closed, deadline: 1s }}
  - {{ name: leased, match: {{ what: leased }}, key: [user], rate: {COUNT}/day, sharing: leased, on_failure: closed, deadline: 1s }}
  - {{ name: batched, match: {{ what: batched }}, key: [user], rate: {COUNT}/day, sharing: batched, slack: {SLACK}, on_failure: closed, deadline: 1s }}
'''
GOSSIP_LIMITS = f'''
  - {{ name: gossip, match: {{ what: gossip }}, key: [user], rate: {COUNT}/day, sharing: gossip, slack: {SLACK} }}
'''
SLOW_BIND = '''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>
int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    usleep(30000);
    return ((int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind"))(fd, address, size);
}
'''
OVER = {'exact': 0, 'leased': 0, 'batched': SLACK, 'gossip': SLACK}


def servers_of(redis):
    return f'servers: ["127.0.0.1:{redis.port}"]'


def engine_ready(nodes):
    return all(get_json(node.http, '/v1/nodes')['engine']['ready'] for node in nodes.nodes.values())


def last_error(node):
    return get_json(node.http, '/v1/nodes')['engine']['last_error'] or ''


class Base(unittest.TestCase):
    def spend(self, nodes, limit, key='k', times=COUNT):
        """Asks every node `times` times for the key at once; how many were admitted."""
        admitted = []
        cluster.run_threads([lambda port=port: admitted.append(ask_many(port, limit, [key], times)[key])
                             for port in nodes.ports()])
        return sum(admitted)

    def assert_bound(self, nodes, limit, key='k', count=None):
        admitted = self.spend(nodes, limit, key)
        self.assertLessEqual(admitted, COUNT + (count or len(nodes.nodes)) * OVER[limit], limit)
        return admitted


class Names(Base):
    def test_a_name_given_twice_shares_one_engine_without_a_unit_too_many(self):
        """Two processes called a: each life of a node has stints of its own."""
        with Redis() as redis, Nodes(cluster.config(ENGINE_LIMITS, servers_of(redis)), ('a', 'b')) as nodes:
            elsewhere = cluster.config(ENGINE_LIMITS, servers_of(redis))  # other addresses for gossip
            nodes.nodes['twin of a'] = Weir(elsewhere, 1, ('--node', 'a'))
            wait_for(lambda: engine_ready(nodes), text='the engine is not ready')
            for limit in ('exact', 'leased', 'batched'):
                self.assert_bound(nodes, limit)

    def test_a_name_that_is_not_in_the_configuration_is_an_error(self):
        with self.assertRaises(AssertionError) as caught:
            Weir(cluster.config(GOSSIP_LIMITS), 1, ('--node', 'nobody'))
        self.assertIn('nobody', str(caught.exception))

    def test_a_second_node_on_the_same_gossip_address_says_so_and_ends(self):
        text = cluster.config(GOSSIP_LIMITS)
        with Nodes(text, ('a',)):
            with self.assertRaises(AssertionError) as caught:
                Weir(text, 1, ('--node', 'a'))
        self.assertRegex(str(caught.exception), 'gossip|7946|address already in use')

    def test_so_it_does_when_binding_takes_long(self):
        """What runs every 10 ms is due then, and has nothing to work on."""
        text = cluster.config(GOSSIP_LIMITS)
        with Nodes(text, ('a',)), tempfile.TemporaryDirectory() as folder:
            config, slow = pathlib.Path(folder, 'weir.yaml'), pathlib.Path(folder, 'slow.so')
            config.write_text(text, encoding='utf-8')
            subprocess.run(['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o', slow], input=SLOW_BIND, text=True, check=True)
            ended = subprocess.run([BUILD / 'weir', 'serve', '--config', config, '--node', 'a', '--resp', '127.0.0.1:0'],
                                   env=dict(os.environ, LD_PRELOAD=str(slow)), capture_output=True, text=True, timeout=60,
                                   check=False)
        self.assertEqual(ended.returncode, 2, ended)
        self.assertIn('address already in use', ended.stderr)


class Reload(Base):
    def test_nodes_come_and_go_while_traffic_flows(self):
        with Redis() as redis:
            text = cluster.config(ENGINE_LIMITS, servers_of(redis), ('a', 'b', 'c', 'd'))
            three = re.sub(r', \{ name: d, [^}]*\}', '', text)
            self.assertNotIn('name: d', three)
            with Nodes(three, ('a', 'b', 'c')) as nodes:
                wait_for(lambda: engine_ready(nodes), text='the engine is not ready')
                with Load(nodes.ports(), 'exact', connections=1) as exact, \
                        Load(nodes.ports(), 'leased', connections=1) as leased:
                    for config in (text, three, text):
                        nodes.reload(config)
                        time.sleep(0.4)
                    nodes.start('d')
                    wait_for(lambda: get_json(nodes['a'].http, '/v1/nodes')['nodes'] == 4, text='N is still 3')
                for load, limit in ((exact, 'exact'), (leased, 'leased')):
                    self.assertEqual(load.errors, {})
                    self.assertLessEqual(load.admitted['k'], COUNT, limit)


class Relay:
    """Hands on what is sent to one node, and remembers it. deaf: hands on nothing."""

    def __init__(self, target):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 0))
        self.port, self.target = self.socket.getsockname()[1], target
        self.heard, self.deaf, self.ended = [], False, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended:
            datagram = self.socket.recv(65536)
            self.heard.append(datagram)
            if not self.deaf:
                self.socket.sendto(datagram, self.target)

    def close(self):
        self.ended = True
        self.socket.sendto(b'end', ('127.0.0.1', self.port))
        self.thread.join()
        self.socket.close()


class Datagrams(Base):
    """What a and b say to c goes through a relay of the test, which also sends what it likes."""

    def start(self):
        text = cluster.config(GOSSIP_LIMITS)
        addresses = {name: int(port) for name, port in re.findall(r'name: (\w), gossip: "127.0.0.1:(\d+)', text)}
        self.targets = [('127.0.0.1', port) for port in addresses.values()]
        self.relay = Relay(self.targets[2])
        self.addCleanup(self.relay.close)
        nodes = Nodes(text.replace(f':{addresses["c"]}"', f':{self.relay.port}"'), ('a', 'b'))
        self.addCleanup(self.end, nodes)
        nodes.text = text
        nodes.start('c')
        wait_for(lambda: set(self.states(nodes, 'b').values()) <= {'self', 'alive'}, text='c is not heard')
        wait_for(lambda: all(get_json(node.http, '/v1/nodes')['gossip']['synced'] for node in nodes.nodes.values()),
                 text='they do not sync')
        return nodes

    def end(self, nodes):
        self.assertEqual(nodes.stop(), [])

    def states(self, nodes, name):
        members = get_json(nodes[name].http, '/v1/nodes')['gossip']['members']
        return {member['name']: member['state'] for member in members}

    def heard(self, count):
        wait_for(lambda: len(self.relay.heard) >= count, text='nobody speaks')
        return self.relay.heard[-count:]

    def bad(self, nodes):
        return sum(metrics(node.http)[f'weir_gossip_{what}_total'] for node in nodes.nodes.values()
                   for what in ('forged', 'replayed', 'foreign', 'malformed', 'twins'))

    def shower(self, datagrams):
        for datagram in datagrams:
            for target in self.targets:
                self.relay.socket.sendto(datagram, target)

    def test_forged_ones_are_counted_and_change_nothing(self):
        seed = random.randrange(1 << 32)
        print(f'seed {seed}')
        rng = random.Random(seed)
        nodes = self.start()
        self.assertGreater(self.spend(nodes, 'gossip', 'before', 10), 0)
        forged = [rng.randbytes(rng.randrange(1, 1400)) for _ in range(300)]
        for datagram in self.heard(20) * 10:
            at = rng.randrange(len(datagram))
            forged.append(datagram[:at] + bytes([datagram[at] ^ 1 << rng.randrange(8)]) + datagram[at + 1:])
            forged.append(datagram[:rng.randrange(len(datagram))])
        self.shower(forged)
        self.assertGreater(self.assert_bound(nodes, 'gossip'), 0)
        wait_for(lambda: self.bad(nodes) > 100, text='they are not counted')

    def test_replayed_ones_are_counted_and_give_and_take_nothing(self):
        nodes = self.start()
        self.spend(nodes, 'gossip', 'before', 20)
        for _ in range(3):
            self.shower(self.heard(40) * 10)
            self.spend(nodes, 'gossip')
        total = sum(self.spend(nodes, 'gossip', 'other') for _ in range(3))
        self.assertGreater(total, 0)
        self.assertLessEqual(total, COUNT + len(nodes.nodes) * SLACK)
        wait_for(lambda: self.bad(nodes) > 100, text='they are not counted')

    def test_a_member_that_hears_nothing_costs_no_bound(self):
        """c does not learn what the others admit, and they do not learn that it knows: slack is all that is lent."""
        nodes = self.start()
        self.relay.deaf = True
        total = sum(self.spend(nodes, 'gossip') for _ in range(3))
        self.assertGreater(total, 0)
        self.assertLessEqual(total, COUNT + len(nodes.nodes) * SLACK)

    def test_a_member_that_is_gone_is_seen(self):
        nodes = self.start()
        gone = nodes.nodes.pop('c')
        gone.process.kill()
        gone.stop()
        wait_for(lambda: self.states(nodes, 'a')['b'] == 'alive' and
                 self.states(nodes, 'a')['c'] in ('suspect', 'dead'), text='c is still believed to be there')
        self.assert_bound(nodes, 'gossip', count=3)


class Engine(Base):
    def test_foreign_values_under_our_keys_are_counted_and_admit_nothing_extra(self):
        with Redis() as redis, Nodes(cluster.config(ENGINE_LIMITS, servers_of(redis))) as nodes:
            wait_for(lambda: engine_ready(nodes), text='the engine is not ready')
            for limit in ('exact', 'leased', 'batched'):
                self.assert_bound(nodes, limit)
            keys = redis.ask('KEYS', 'weir*')
            self.assertGreater(len(keys), 2)
            for key in keys:
                redis.ask('DEL', key)
                redis.ask('LPUSH', key, 'not', 'ours')

            def seen():
                for limit in ('exact', 'leased', 'batched'):
                    for port in nodes.ports():
                        with Resp(port) as client:
                            answer = client.ask('WEIR.CHECK', 1, 'what', limit, 'user', 'k')
                            self.assertTrue(isinstance(answer, Exception) or answer[0] in (0, 1), answer)
                engines = [get_json(node.http, '/v1/nodes')['engine'] for node in nodes.nodes.values()]
                return sum(engine['corrupt'] + engine['losses'] for engine in engines) > 0
            wait_for(seen, text='it is not counted')

    def refused(self, redis_yaml, words):
        """Nodes start, refuse (on_failure: closed), and say why."""
        with Nodes(cluster.config(ENGINE_LIMITS, redis_yaml), ('a',)) as nodes:
            self.assertEqual(self.spend(nodes, 'exact', times=20), 0)
            wait_for(lambda: re.search(words, last_error(nodes['a']), re.I), 60,
                     f'the error is {last_error(nodes["a"])!r}')
            state = get_json(nodes['a'].http, '/v1/nodes')
            self.assertFalse(state['engine']['ready'])
            self.assertGreater(state['sharing']['fallback_closed'], 0)

    def test_a_wrong_password_is_said(self):
        with Redis('--requirepass', 'right') as redis:
            with Resp(redis.port) as client:
                client.ask('AUTH', 'right')
            self.refused(f'{servers_of(redis)}, password: wrong-one', 'password|WRONGPASS|NOAUTH')

    def test_tls_that_is_not_offered_is_said(self):
        with Redis() as redis:
            self.refused(f'{servers_of(redis)}, tls: true', 'tls|ssl')

    def test_nobody_there_is_said(self):
        port = free_port()
        self.refused(f'servers: ["127.0.0.1:{port}"]', 'refused|connect')

    def test_check_says_what_is_wrong_before_anything_starts(self):
        run = subprocess.run([str(BUILD / 'weir'), 'serve', '--check', '/dev/stdin', '--node', 'a'], text=True,
                             input=f'cluster: {{ nodes: [{{ name: a }}] }}\nlimits:{ENGINE_LIMITS}',
                             capture_output=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        self.assertIn('engine', run.stdout + run.stderr)


if __name__ == '__main__':
    unittest.main()
