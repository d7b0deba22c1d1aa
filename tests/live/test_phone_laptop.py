#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One user, two processes, three replicas that are 50 ms behind: write through one, read through the other, by turns.
Never an older value, and hardly a read at the primary. A short slice; WEIR_TEST_EFFORT=soak does 10,000 rounds."""
import json
import os
import subprocess
import unittest

import phone_laptop_http
from postgres_replicas import Replicas
from redis_server import wait_for
from weir_server import BUILD, Weir

SOAK = os.environ.get('WEIR_TEST_EFFORT') == 'soak'
DELAY_MS, USERS = 50, 50
ATTEMPTS = 3  # where all stand still for a moment, all go to the primary
ROUNDS = 10000 if SOAK else 750
HTTP_LANES, HTTP_ROUNDS = 10, 200 if SOAK else 20  # rounds of each lane


class PhoneAndLaptop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.group = Replicas(3)
        cls.addClassCleanup(cls.group.stop)
        cls.group.primary.execute('CREATE TABLE phone_laptop (name int PRIMARY KEY, value bigint NOT NULL)')
        cls.group.primary.execute('INSERT INTO phone_laptop SELECT name, 0 FROM generate_series(1, %s) name', USERS)
        cls.group.wait_caught_up()
        for standby in cls.group.standbys:
            standby.set_delay(DELAY_MS)

    def play(self, rounds, *more):
        words = [BUILD / 'tests/session/phone_laptop', '--primary', self.group.primary.conninfo()]
        for standby in self.group.standbys:
            words += ['--replica', standby.conninfo()]
        done = subprocess.run([*map(str, words), '--users', str(USERS), '--rounds', str(rounds), *more],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding='utf-8', timeout=250, check=False)
        print(done.stdout, end='', flush=True)
        return done.returncode, json.loads(done.stdout)

    def test_what_one_wrote_the_other_reads_and_hardly_at_the_primary(self):
        for _ in range(ATTEMPTS):
            status, found = self.play(ROUNDS)
            self.assertEqual((status, found['older'], found['failed'], found['reads']), (0, 0, 0, ROUNDS), found)
            if found['at_primary_percent'] < 5:
                break
        self.assertLess(found['at_primary_percent'], 5, found)

    def test_who_forgets_the_token_reads_older_values(self):
        for standby in self.group.standbys:  # still behind when somebody reads on a busy machine, and not yet frozen
            standby.set_delay(600)
            self.addCleanup(standby.set_delay, DELAY_MS)
        status, found = self.play(100, '--forget')
        self.assertEqual((status, found['failed']), (1, 0), found)
        self.assertGreater(found['older'], 10, found)

    def test_the_service_keeps_what_a_user_has_seen(self):
        """Two processes that tell each other nothing of what was seen."""
        names = dict(zip('abcd', (self.group.primary, *self.group.standbys)))
        conninfos = {name: server.conninfo() for name, server in names.items()}
        lines = ''.join(f'    - {{ name: {name}, url: "{conninfo}" }}\n' for name, conninfo in conninfos.items())
        with Weir('limits: []\nsessions:\n  servers:\n' + lines) as weir:
            lane = phone_laptop_http.Lane(0, 0, None, weir.http, conninfos)
            for _ in range(ATTEMPTS):
                wait_for(lambda: all(server['usable'] for server in lane.get('servers')['servers']),
                         'they are not usable')
                reads, older, at_primary = phone_laptop_http.play(HTTP_LANES, HTTP_ROUNDS, weir.http, conninfos)
                print(f'through the service: {reads} reads, {older} older, {at_primary} at the primary', flush=True)
                self.assertEqual((reads, older), (HTTP_LANES * HTTP_ROUNDS, 0))
                if at_primary < reads * 0.05:
                    break
            lane.close()
        self.assertLess(at_primary, reads * 0.05)


if __name__ == '__main__':
    unittest.main()
