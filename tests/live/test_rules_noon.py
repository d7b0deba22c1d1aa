#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""At noon somebody changes a limit, through one of three nodes, under load. At five past it is known which version each
node decides by, since when, who changed it and why, and how to go back."""
import http.client
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

from postgres_server import Postgres
from redis_server import Redis, wait_for
from rule_store_case import url
from test_rules_http import ADMIN, AUTH, ask
from weir_server import BUILD, Weir

NODES = ('a', 'b', 'c')


def rules(rate):
    """Two limits whose numbers belong together: who sees two different ones was decided by half of a set. Windows, so
    that nothing comes back meanwhile."""
    return json.dumps({'limits': [{'name': name, 'rate': f'{rate}/day', 'key': ['user'], 'sharing': 'exact',
                                   'algorithm': 'fixed_window', 'align': 'first', 'on_failure': 'closed',
                                   'deadline': '10s'} for name in ('first', 'second')]})


class Client(threading.Thread):
    """Asks one node, one request after the other, about users of its own, until it is told to end."""

    def __init__(self, weir, name):
        super().__init__()
        self.weir, self.name_, self.on = weir, name, True
        self.halves, self.errors, self.capacities, self.asked = [], [], [], 0
        self.start()

    def once(self, connection):
        body = json.dumps({'attributes': {'user': f'{self.name_}{self.asked % 50}'}})
        connection.request('POST', '/v1/check', body)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        self.asked += 1
        capacities = {limit['capacity'] for limit in told['limits']}
        if answer.status not in (200, 429) or len(told['limits']) != 2:
            self.errors.append((answer.status, told))
        elif len(capacities) != 1:
            self.halves.append(told)
        elif not self.capacities or self.capacities[-1] not in capacities:
            self.capacities += capacities

    def run(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=120)
        while self.on:
            try:
                self.once(connection)
            except OSError as error:
                self.errors.append(error)
                break
        connection.close()

    def end(self):
        self.on = False
        self.join()


class Noon(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-noon-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.postgres = Postgres()
        self.addCleanup(self.postgres.stop)
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        names = ', '.join(f'{{ name: {name} }}' for name in NODES)
        self.text = (f'rules: {{ store: "{url(self.postgres)}", timeout: 30s, kept: "{self.folder}/kept-%s" }}\n{AUTH}'
                     f'cluster: {{ nodes: [ {names} ] }}\n'
                     f'engine: {{ redis: {{ servers: ["127.0.0.1:{self.redis.port}"] }} }}\n')
        config = self.folder / 'weir.yaml'
        config.write_text(self.text % 'none', encoding='utf-8')
        subprocess.run([str(BUILD / 'weir'), 'rules', 'apply', '--config', str(config), '--comment', 'first', '-'],
                       input=rules(100).encode(), capture_output=True, timeout=120, check=True,
                       env=dict(os.environ, LOGNAME='grace'))
        self.nodes = {name: self.node(name) for name in NODES}
        self.addCleanup(lambda: [node.stop() for node in self.nodes.values()])

    def node(self, name):
        return Weir(self.text % name, arguments=('--node', name))

    def remaining(self, name, user):
        body = json.dumps({'attributes': {'user': user}, 'peek': True})
        return ask(self.nodes[name], 'POST', '/v1/check', body, token=None)[2]['remaining']

    def charge(self, name, user, cost):
        body = json.dumps({'attributes': {'user': user}, 'cost': cost})
        return ask(self.nodes[name], 'POST', '/v1/check', body, token=None)[0]

    def put(self, name, text, **rest):
        return ask(self.nodes[name], 'PUT', '/v1/rules', text.encode(), comment='why', **rest)

    def follow(self, number):
        """All decide by it."""
        for node in self.nodes.values():
            wait_for(lambda node=node: ask(node, 'GET', '/v1/limits', seen=number)[0] == 200, f'{number} is not followed')

    def test_a_limit_changed_through_one_node_under_load(self):
        self.assertEqual(self.charge('b', 'ada', 60), 200)
        clients = [Client(node, name) for name, node in self.nodes.items()]
        try:
            for number, rate in enumerate((200, 400, 300, 200), start=2):
                begun = time.monotonic()
                status, _, said = self.put('a', rules(rate), match=f'"{number - 1}"')
                self.assertEqual((status, said['version']), (200, number), said)
                stored = time.monotonic()
                self.follow(number)
                print(f'version {number}: stored after {1000 * (stored - begun):.0f} ms, on all nodes after '
                      f'{1000 * (time.monotonic() - begun):.0f} ms')
        finally:
            for client in clients:
                client.end()
        for client in clients:
            self.assertEqual((client.halves, client.errors), ([], []))
            self.assertGreater(client.asked, 0)
            print(f'{client.asked} requests, capacities {client.capacities}')
        # 60 units of 100 were used, and to raise a limit gives nothing back.
        self.assertEqual({self.remaining(name, 'ada') for name in NODES}, {40})
        self.assertEqual((self.charge('a', 'ada', 41), self.charge('c', 'ada', 40)), (429, 200))
        told = ask(self.nodes['c'], 'GET', '/v1/rules/versions')[2]['versions']
        self.assertEqual([(one['version'], one['author']) for one in told[:2]], [(5, 'deploy'), (4, 'deploy')])
        wait_for(lambda: {one['node'] for one in
                          ask(self.nodes['b'], 'GET', '/v1/rules/versions')[2]['versions'][0]['nodes']} == set(NODES),
                 'a node did not say since when it decides')

    def test_without_the_database_deciding_goes_on_and_restarts_do(self):
        self.text = self.text.replace('timeout: 30s', 'timeout: 1s')
        self.assertEqual(self.put('a', rules(200), match='"1"')[0], 200)
        self.follow(2)
        self.postgres.kill()
        self.assertEqual(self.charge('a', 'ada', 150), 200)
        self.assertEqual(self.nodes['b'].stop(), 0)
        self.nodes['b'] = self.node('b')
        self.assertEqual(ask(self.nodes['b'], 'GET', '/v1/limits', seen=2)[0], 200)
        self.assertEqual((self.charge('b', 'ada', 100), self.charge('b', 'ada', 40)), (429, 200))
        self.assertIn(self.put('b', rules(300), match='"2"')[0], (503, 504))
        self.postgres.start()
        self.assertEqual(self.put('c', rules(300), match='"2"')[1]['Content-Type'], 'application/json')
        self.follow(3)

    def test_of_two_conflicting_edits_through_two_nodes_one_is_refused(self):
        answers = {}
        threads = [threading.Thread(target=lambda name=name, rate=rate: answers.update(
            {name: self.put(name, rules(rate), match='"1"')})) for name, rate in (('a', 200), ('b', 300))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(status for status, _, _ in answers.values()), [200, 412], answers)
        refused = next(said for status, _, said in answers.values() if status == 412)
        self.assertEqual(refused['newest'], 2)
        self.follow(2)


if __name__ == '__main__':
    unittest.main()
