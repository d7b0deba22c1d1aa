# SPDX-License-Identifier: Apache-2.0
"""Stores of rule sets in PostgreSQL, for tests."""
import itertools
import os
import random
import unittest

from postgres_server import Postgres
from store_drive import StoreDrive


def url(server, user='postgres', database='postgres', options=''):
    return f'postgresql://{user}@127.0.0.1:{server.port}/{database}{options}'


class StoreCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        seed = int(os.environ.get('WEIR_SEED', random.randrange(2**32)))
        self.random = random.Random(seed)
        self.seed = f'WEIR_SEED={seed}'

    def own_server(self, *arguments, **settings):
        server = Postgres(*arguments, **settings)
        self.addCleanup(server.stop)
        return server

    def store(self, spec, *arguments, **options):
        drive = StoreDrive(spec, *arguments, **options)
        self.addCleanup(drive.close)
        self.assertEqual(drive.opened['status'], 'OK', drive.opened)
        return drive

    def expect(self, answer, status, *texts, field=None):
        self.assertEqual(answer['status'], status, answer)
        for text in texts:
            self.assertIn(text, answer['fault'])
        if field:
            self.assertEqual(answer['field'], field, answer)

    def all_versions(self, drive):
        """The oldest first; without gaps."""
        found = []
        while not found or found[-1]['number'] > 1:
            some = drive.versions(found[-1]['number'] - 1 if found else 0)
            if not some:
                break
            found += some
        found.reverse()
        self.assertEqual([version['number'] for version in found], list(range(1, len(found) + 1)), self.seed)
        return found

    def expect_kept(self, drive, acknowledged):
        """Each number and its change once, and no change twice."""
        changes = [version['change'] for version in self.all_versions(drive)]
        self.assertEqual(len(set(changes)), len(changes))
        numbers = [number for number, _ in acknowledged]
        self.assertEqual(len(set(numbers)), len(numbers), self.seed)
        for number, change in acknowledged:
            self.assertEqual(changes[number - 1], change, self.seed)


class OneServer(StoreCase):
    """Each test has tables of its own."""
    names = itertools.count()

    @classmethod
    def setUpClass(cls):
        cls.server = Postgres(max_prepared_transactions=2)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        self.table = f'rules_{next(self.names)}'

    def drive(self, **options):
        return self.store(url(self.server), self.table, **options)
