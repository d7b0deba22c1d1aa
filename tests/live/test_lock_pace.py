#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A weir that is killed and started again and again uses up one incarnation a second at most: what it grants under is
never above the clock, over each store. What an acquire has seen burns no incarnations for who may lock alone, and holds
up nobody else. And a raise that the store itself needs (a start, a store that was lost) holds up new tokens alone."""
import contextlib
import json
import pathlib
import select
import shutil
import signal
import tempfile
import time
import unittest

import postgres_server
from etcd_server import Etcd
from weir_server import Resp, Weir, resp_encode

STARTS = 6
DAY_S = 86400
HOUR_S = 3600
TRIES_MAX = 60
BESIDE = 5


class Pace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-pace-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def lock(self, client, *words):
        """Granted, or that what was seen is not believed. Until then: between the engine's attempts it is down."""
        deadline = time.monotonic() + 60
        while True:
            answer = client.ask('WEIR.LOCK', *words)
            if isinstance(answer, list) or 'SEEN' in str(answer):
                return answer
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.05)

    def granted(self, client, *words):
        """The token."""
        answer = self.lock(client, *words)
        self.assertIsInstance(answer, list, answer)
        self.assertEqual(answer[0], 1, answer)
        return tuple(answer[1:3])

    def config(self, locks):
        return f'limits: []\nlocks: {{ {locks}, witness: {self.folder}/witness, timeout: 20s }}\n'

    def sqlite(self):
        return self.config(f'engine: sqlite, path: {self.folder}/locks.db')

    def etcd(self):
        etcd = Etcd().start()
        self.addCleanup(etcd.stop)
        return self.config(f'engine: etcd, endpoints: {json.dumps([etcd.url])}')

    def crash(self, config):
        tokens = []
        for i in range(STARTS):
            weir = Weir(config)
            self.addCleanup(weir.stop)
            with Resp(weir.resp) as client:
                tokens.append(self.granted(client, f'lock{i}', 'me', '60000'))
            self.assertLessEqual(tokens[-1][0], time.time(), tokens)
            weir.process.send_signal(signal.SIGKILL)
            weir.process.wait(60)
        self.assertEqual(len({incarnation for incarnation, _ in tokens}), STARTS, tokens)
        self.assertEqual(tokens, sorted(tokens))

    def test_starts_over_sqlite(self):
        self.crash(self.sqlite())

    @unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')
    def test_starts_over_etcd(self):
        self.crash(self.etcd())

    def seen(self, config):
        """Without the right to reset: a day above the clock at most, in however many steps."""
        secret = 'locker-0123456789'
        tokens = f'auth: {{ required: always, tokens: [{{ name: locker, secret: {secret}, rights: [lock] }}] }}\n'
        with Weir(config + tokens) as weir, Resp(weir.resp) as client:
            self.assertEqual(client.ask('AUTH', secret), 'OK')
            begun = int(time.time())
            self.assertIn('SEEN', str(self.lock(client, 'a', 'x', '60000', 'SEEN', str(begun + 2 * DAY_S))))
            top = self.granted(client, 'a', 'x', '60000', 'SEEN', str(begun + DAY_S))[0]
            self.assertEqual(top, begun + DAY_S + 1)
            for _ in range(3):
                answer = self.lock(client, 'a', 'x', '60000', 'SEEN', str(top + 1))
                if isinstance(answer, list):  # the clock went on meanwhile
                    top = answer[1]
                self.assertLessEqual(top, int(time.time()) + DAY_S + 1, answer)

    def test_seen_over_sqlite(self):
        self.seen(self.sqlite())

    @unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')
    def test_seen_over_etcd(self):
        self.seen(self.etcd())

    def holds_up_nobody(self, config):
        """One who asks for one raise after the other: every grant is answered by a higher SEEN. While it waits for the
        clock others are answered, who hold and who are new."""
        with Weir(config) as weir, Resp(weir.resp) as client, Resp(weir.resp) as evil:
            held = self.granted(client, 'held', 'me', '60000')
            incarnation, most = held[0], 0
            for _ in range(TRIES_MAX):
                evil.send(resp_encode('WEIR.LOCK', 'evil', 'm', '2000', 'SEEN', str(incarnation + 1)))
                beside = 0
                while not select.select([evil.socket], [], [], 0)[0]:
                    self.assertEqual(client.ask('WEIR.RELOCK', 'held', 'me', '60000')[:3], [1, *held])
                    self.assertEqual(client.ask('WEIR.LOCK', 'new', 'me', '60000')[0], 1)
                    self.assertEqual(client.ask('WEIR.UNLOCK', 'new', 'me'), 1)
                    beside += 1
                answer = evil.read()
                if isinstance(answer, list):
                    self.assertGreater(answer[1], incarnation + 1)
                    incarnation, most = answer[1], max(most, beside)
                if most >= BESIDE:
                    break
            self.assertGreaterEqual(most, BESIDE)
            self.assertNotIn('locks_lost', weir.output())

    def test_a_raise_asked_for_holds_up_nobody_over_sqlite(self):
        self.holds_up_nobody(self.sqlite())

    @unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')
    def test_a_raise_asked_for_holds_up_nobody_over_etcd(self):
        self.holds_up_nobody(self.etcd())

    def test_a_raise_asked_for_holds_up_nobody_over_postgres(self):
        with postgres_server.Postgres() as postgres:
            self.holds_up_nobody(self.config(f'engine: postgres, conninfo: "{postgres.conninfo()}"'))

    # ---- raises that the store needs ----

    def renewed(self, client, held):
        """Until it is: the store may be gone for a while."""
        deadline = time.monotonic() + 60
        while (answer := client.ask('WEIR.RELOCK', 'held', 'me', '60000'))[:3] != [1, *held]:
            self.assertTrue('DOWN' in str(answer) or answer == [-2], answer)
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.01)

    def beside(self, port, name, held):
        """How often what is held was answered while a new lock waited for the raise."""
        with Resp(port) as client, Resp(port) as new:
            self.renewed(client, held)
            new.send(resp_encode('WEIR.LOCK', name, 'me', '60000'))
            beside = 0
            while not select.select([new.socket], [], [], 0)[0]:
                self.assertEqual(client.ask('WEIR.RELOCK', 'held', 'me', '60000')[:3], [1, *held])
                self.assertEqual(client.ask('WEIR.LOCK', 'held', 'me', '60000')[:3], [1, *held])
                self.assertEqual(client.ask('WEIR.LOCK', 'held', 'other', '60000')[0], 0)
                self.assertEqual(client.ask('WEIR.UNLOCK', name, 'other'), 0)
                beside += 1
            answer = new.read()
            self.assertEqual(answer[0], 1, answer)
            self.assertGreater(answer[1], held[0])
            self.assertEqual(client.ask('WEIR.UNLOCK', name, 'me'), 1)
            return beside

    def goes_on(self, config, trouble=None):
        """Of a weir far above the clock, as after a clock that was set back, every raise waits. Each time the `trouble`,
        or a restart of weir, makes one needed."""
        weir = Weir(config)
        try:
            with Resp(weir.resp) as client:
                self.granted(client, 'far', 'me', '60000', 'SEEN', str(int(time.time()) + HOUR_S))
                held = self.granted(client, 'held', 'me', '60000')
            most = 0
            for i in range(TRIES_MAX):
                if trouble:
                    with Resp(weir.resp) as client:
                        trouble(i, lambda client=client: self.renewed(client, held))
                else:
                    weir.process.send_signal(signal.SIGKILL)
                    weir.process.wait(60)
                    weir.stop()
                    weir = Weir(config)
                most = max(most, self.beside(weir.resp, f'new{i}', held))
                if most >= BESIDE:
                    break
            self.assertGreaterEqual(most, BESIDE)
        finally:
            weir.stop()

    @unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')
    def test_a_start_holds_up_new_tokens_alone_over_etcd(self):
        self.goes_on(self.etcd())

    def test_a_start_holds_up_new_tokens_alone_over_postgres(self):
        with postgres_server.Postgres() as postgres:
            self.goes_on(self.config(f'engine: postgres, conninfo: "{postgres.conninfo()}"'))

    def test_a_lost_store_holds_up_new_tokens_alone_over_sqlite(self):
        self.goes_on(self.sqlite(), lambda *_: (self.folder / 'locks.db').unlink())

    def test_a_store_that_stays_lost_is_told_at_once_over_sqlite(self):
        """A raise waits for the clock, and then the store is gone for good: nobody waits for that raise any more."""
        store = self.folder / 'locks.db'
        config = self.sqlite().replace('timeout: 20s', 'timeout: 1min')
        with Weir(config) as weir, Resp(weir.resp) as client, Resp(weir.resp, timeout_s=60) as new:
            held = self.granted(client, 'far', 'me', '60000', 'SEEN', str(int(time.time()) + HOUR_S))
            for i in range(TRIES_MAX):
                store.unlink()
                new.send(resp_encode('WEIR.LOCK', f'new{i}', 'me', '60000'))
                while not store.exists():
                    time.sleep(0.01)
                time.sleep(0.05)  # now it waits for the raise
                while not store.is_dir():  # or it is made anew between the two
                    store.unlink(missing_ok=True)
                    with contextlib.suppress(FileExistsError):
                        store.mkdir()
                answer = new.read()
                if isinstance(answer, Exception):
                    break
                store.rmdir()  # the clock was faster than this machine
                self.granted(client, 'again', 'me', '60000')
            self.assertIn('DOWN', str(answer))
            self.assertIn('DOWN', str(client.ask('WEIR.LOCK', 'other', 'me', '60000')))
            self.assertEqual(client.ask('WEIR.RELOCK', 'far', 'me', '60000')[:3], [1, *held])
            self.told(weir, 'locks_lost')
            store.rmdir()
            self.assertGreater(self.granted(client, 'other', 'me', '60000'), held)

    def told(self, weir, event):
        deadline = time.monotonic() + 60
        while event not in weir.output():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_a_raise_that_cannot_be_made_is_told_over_sqlite(self):
        blocked = self.folder / 'witness.next'  # where the witness is written first
        with Weir(self.sqlite()) as weir, Resp(weir.resp) as client:
            held = self.granted(client, 'held', 'me', '60000')
            blocked.mkdir()
            (self.folder / 'locks.db').unlink()
            self.assertIn('DOWN', str(client.ask('WEIR.LOCK', 'new', 'me', '60000')))
            self.assertEqual(client.ask('WEIR.RELOCK', 'held', 'me', '60000')[:3], [1, *held])
            self.told(weir, 'locks_lost')
            self.assertIn(f'{self.folder}/witness', weir.output())
            blocked.rmdir()
            self.assertGreater(self.granted(client, 'new', 'me', '60000'), held)
            self.told(weir, 'locks_back')

    @unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')
    def test_a_lost_store_holds_up_new_tokens_alone_over_etcd(self):
        etcd = Etcd().start()
        self.addCleanup(etcd.stop)

        def trouble(i, renewed):
            if i == 0:
                etcd.kill()
                etcd.keep()
                etcd.start()
            for _ in range(20):  # revisions that are lost
                etcd.ask('/v3/kv/put', key='eA==', value='eA==')
            renewed()  # and seen
            etcd.kill()
            etcd.set_back()
            etcd.start()

        self.goes_on(self.config(f'engine: etcd, endpoints: {json.dumps([etcd.url])}'), trouble)

    def test_a_lost_store_holds_up_new_tokens_alone_over_postgres(self):
        with postgres_server.Postgres() as postgres:

            def trouble(*_):
                postgres.kill()
                postgres.start()

            self.goes_on(self.config(f'engine: postgres, conninfo: "{postgres.conninfo()}"'), trouble)


if __name__ == '__main__':
    unittest.main()
