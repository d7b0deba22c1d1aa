# SPDX-License-Identifier: Apache-2.0
"""One of two devices of the same users, as a process of its own: writes and reads by turns with the other, on connections
of its own to the servers, where the service says. The two tell each other only what they wrote and read: what a user has
seen, the service keeps."""
import http.client
import json
import multiprocessing
import threading
import time

import psycopg2

USERS_PER_LANE = 2
PATIENCE_S = 60


class Lane:
    """A thread of one device. Its pipe leads to the same lane of the other."""

    def __init__(self, device, number, pipe, port, conninfos):
        self.device, self.number, self.pipe, self.conninfos = device, number, pipe, conninfos
        self.service = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.connections = {}
        self.reads = self.older = self.at_primary = 0

    def ask(self, what, **question):
        return self.call('POST', what, json.dumps(question))

    def get(self, what):
        return self.call('GET', what)

    def call(self, method, what, body=None):
        """Again, while servers are too busy to answer in time."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.service.request(method, '/v1/sessions/' + what, body)
            answer = self.service.getresponse()
            text = answer.read()
            if answer.status == 200:
                return json.loads(text)
            assert answer.status == 503 and time.monotonic() < deadline, (answer.status, text)
            time.sleep(0.05)

    def run(self, server, statement):
        if server not in self.connections:
            self.connections[server] = psycopg2.connect(self.conninfos[server])
            self.connections[server].autocommit = True
        with self.connections[server].cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()[0][0]

    def write(self, user):
        route = self.ask('route', user=f'user {user}', want='write')
        value = self.run(route['server'],
                         f'UPDATE phone_laptop SET value = value + 1 WHERE name = {user} RETURNING value')
        self.ask('seen', user=f'user {user}', wrote=True, place=self.run(route['server'], route['place']))
        return value

    def read(self, user):
        route, avoid = self.ask('route', user=f'user {user}', wait_ms=20000), []
        while self.run(route['server'], route['check']) != 'ok':
            avoid.append(route['server'])
            route = self.ask('route', user=f'user {user}', wait_ms=20000, avoid=avoid[-16:])
        value = self.run(route['server'], f'SELECT value FROM phone_laptop WHERE name = {user}')
        self.ask('seen', user=f'user {user}', server=route['server'], place=self.run(route['server'], route['place']))
        self.reads += 1
        self.at_primary += route['role'] == 'primary'
        return value

    def play(self, rounds):
        newest = [0] * USERS_PER_LANE
        for number in range(rounds):
            which = number % USERS_PER_LANE
            user = 1 + self.number * USERS_PER_LANE + which
            if (number // USERS_PER_LANE + self.device) % 2 == 0:
                self.pipe.send(self.write(user))
                newest[which] = self.pipe.recv()
            else:
                newest[which] = max(newest[which], self.pipe.recv())
                value = self.read(user)
                self.older += value < newest[which]
                newest[which] = max(newest[which], value)
                self.pipe.send(newest[which])
        self.close()

    def close(self):
        self.service.close()
        for connection in self.connections.values():
            connection.close()


def device_run(device, pipes, port, conninfos, rounds, results):
    lanes = [Lane(device, number, pipe, port, conninfos) for number, pipe in enumerate(pipes)]
    threads = [threading.Thread(target=lane.play, args=(rounds,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send([sum(getattr(lane, name) for lane in lanes) for name in ('reads', 'older', 'at_primary')])


def play(lanes, rounds, port, conninfos, seconds=300):
    """(reads, older, at the primary) of both devices. Whoever fails in the middle is missed: fewer reads."""
    spawn = multiprocessing.get_context('spawn')
    pipes = [spawn.Pipe() for _ in range(lanes)]
    ours, theirs = spawn.Pipe()
    devices = [spawn.Process(target=device_run, args=(device, [ends[device] for ends in pipes], port, conninfos, rounds,
                                                      theirs)) for device in (0, 1)]
    try:
        for device in devices:
            device.start()
        found = [ours.recv() if ours.poll(seconds) else [0, 0, 0] for _ in devices]
    finally:
        for device in devices:
            device.kill()
            device.join()
    return [sum(counts) for counts in zip(*found)]
