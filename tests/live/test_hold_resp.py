#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throttle: hold over RESP: answers come in order and at their turn, and only their own connection waits."""
import select
import signal
import time
import unittest

from redis_server import stand_still
from weir_server import Resp, Weir, resp_encode

CONFIG = '''
limits:
  - { name: shaped, key: [job], rate: 50/s, burst: 20, algorithm: leaky_bucket, throttle: hold, hold_max: 100 }
  - { name: many, key: [many], rate: 10/s, burst: 20, algorithm: leaky_bucket, throttle: hold, hold_max: 100 }
  - { name: slow, key: [slow], rate: 1/min, burst: 20, algorithm: leaky_bucket, throttle: hold, hold_timeout: 1hour }
'''
GAP_S = 0.020


def check(job):
    return resp_encode('WEIR.CHECK', 1, 'job', job)


class Hold(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))

    def test_a_pipeline_waits_in_order(self):
        with Resp(self.weir.resp) as client:
            start = time.monotonic()
            client.send(b''.join(check('order') + resp_encode('PING', str(i)) for i in range(10)))
            for i in range(10):
                self.assertEqual(client.read()[:2], [1, b'shaped'])
                self.assertGreaterEqual(time.monotonic() - start, i * GAP_S)
                self.assertEqual(client.read(), str(i).encode())

    def test_only_its_own_connection_waits(self):
        with Resp(self.weir.resp) as client, Resp(self.weir.resp) as other:
            client.send(resp_encode('WEIR.CHECK', 1, 'slow', 'own') * 2)
            self.assertEqual(client.read()[0], 1)
            self.assertEqual(other.ask('PING'), 'PONG')
            self.assertEqual(select.select([client.socket], [], [], 0)[0], [], 'for a minute')

    def test_what_does_not_fit_is_refused_at_once(self):
        clients = [Resp(self.weir.resp) for _ in range(100)]
        stand_still(self.weir.process.pid)  # so that all of them come together
        for client in clients:
            client.send(resp_encode('WEIR.CHECK', 1, 'many', 'crowd'))
        self.weir.process.send_signal(signal.SIGCONT)
        answers = [client.read() for client in clients]
        for client in clients:
            client.__exit__()
        admitted = sum(answer[0] for answer in answers)
        self.assertIn(admitted, range(20, 100))  # 20 at once, and those whose turn came free meanwhile
        self.assertTrue(all(answer[4] > 0 for answer in answers if not answer[0]))

    def test_a_waiter_that_leaves_gives_its_place_back(self):
        with Resp(self.weir.resp) as first:
            self.assertEqual(first.ask('WEIR.CHECK', 10, 'slow', 'x')[0], 1)
            with Resp(self.weir.resp) as leaver:
                leaver.send(resp_encode('WEIR.CHECK', 1, 'slow', 'x'))
                self.wait_until_fits(first, 9, True)
                self.wait_until_fits(first, 10, False)
            self.wait_until_fits(first, 10, True)

    def wait_until_fits(self, client, cost, fits):
        """Well before a unit drains, which takes a minute."""
        deadline = time.monotonic() + 30
        while client.ask('WEIR.PEEK', cost, 'slow', 'x')[0] != int(fits):
            self.assertLess(time.monotonic(), deadline)

    def test_nothing_is_held_in_a_transaction(self):
        with Resp(self.weir.resp) as client:
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'job', 'before')[0], 1)  # could have waited, but not for so long
            client.send(resp_encode('MULTI') + resp_encode('WEIR.CHECK', 1, 'slow', 'multi') * 5 + resp_encode('EXEC'))
            for expected in ['OK'] + ['QUEUED'] * 5:
                self.assertEqual(client.read(), expected)
            answers = client.read()
            delays = [answer[6] for answer in answers]
            self.assertEqual(delays[0], 0)
            self.assertEqual(delays, sorted(delays))
            self.assertGreater(delays[4], 180000, answers)

    def test_drain_answers_those_who_wait(self):
        with Weir(CONFIG) as weir, Resp(weir.resp) as client:
            client.send(b''.join(check('drain') + resp_encode('PING', str(i)) for i in range(8)))
            self.assertEqual(client.read()[0], 1)
            weir.process.terminate()
            self.assertEqual(client.read(), b'0')
            for i in range(1, 8):
                self.assertEqual(client.read()[0], 1)
                self.assertEqual(client.read(), str(i).encode())
            with self.assertRaises(ConnectionError):
                client.read()
            self.assertEqual(weir.process.wait(60), 0)


if __name__ == '__main__':
    unittest.main()
