#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Concurrency limits over RESP and HTTP: permits taken together with rates, given back, renewed, forged, and lost by
clients that are killed while they hold one."""
import contextlib
import http.client
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest

from cluster import metrics, wait_for
from weir_server import BUILD, FORWARDED_NGINX, NGINX_FIELDS, Resp, Weir, resp_encode

LEASE_S = 2     # of the crowd
SHORT_S = 12    # of permits whose end is awaited
LEASE_MS = 60000  # of all others: nothing here takes so long
CONFIG = FORWARDED_NGINX + f'''
auth:
  required: always
  tokens:
    - {{ name: all, secret: all-0123456789abcdef, rights: [all] }}
    - {{ name: metrics, secret: metrics-0123456789abcdef, rights: [metrics] }}
limits:
  - {{ name: jobs, match: {{ kind: job }}, key: [user], algorithm: concurrency, rate: 2, lease: 1min }}
  - {{ name: short, match: {{ kind: short }}, key: [user], algorithm: concurrency, rate: 2, lease: {SHORT_S}s }}
  - {{ name: rate, match: {{ rated: "1" }}, key: [user], rate: 3/hour, algorithm: fixed_window, align: first }}
  - {{ name: trial, match: {{ tried: "1" }}, key: [user], algorithm: concurrency, rate: 1, lease: 1s, mode: shadow }}
  - {{ name: turns, match: {{ turned: "1" }}, key: [user], rate: 12/min, burst: 9, algorithm: leaky_bucket, throttle: hold }}
'''
CROWD = 'limits:\n  - { name: crowd, algorithm: concurrency, rate: 50, lease: 2s }\n'
CALM = CROWD.replace('2s', '200s')
LIMIT = 50
CLIENTS = 200
RUN_S = 6
CRASHES_MIN = 20


class Permits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(CONFIG))

    def setUp(self):
        self.user = self.id()
        self.resp = Resp(self.weir.resp, timeout_s=60)
        self.addCleanup(self.resp.__exit__)
        self.assertEqual(self.resp.ask('AUTH', 'all-0123456789abcdef'), 'OK')

    def check(self, *attributes, cost=1, verb='WEIR.CHECK', kind='job'):
        return self.resp.ask(verb, cost, 'kind', kind, 'user', self.user, *attributes)

    def post(self, path, body=None, token='all-0123456789abcdef', method='POST'):
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.weir.http, timeout=60)) as client:
            client.request(method, path, json.dumps(body) if body else None, {'X-Weir-Token': token, **NGINX_FIELDS})
            answer = client.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None, answer.headers

    def out(self, kind='job'):
        verdict = self.check(cost=0, verb='WEIR.PEEK', kind=kind)
        return verdict[2] - verdict[3]

    def test_a_permit_comes_with_the_verdict_and_goes_back_once(self):
        verdict = self.check()
        self.assertEqual(verdict[:4] + verdict[8:], [1, b'jobs', 2, 1, LEASE_MS])
        self.assertEqual(self.check(verb='WEIR.PEEK')[7:], [b'', 0])
        self.assertEqual(self.check(cost=0)[7:], [b'', 0])
        other = self.check()
        refused = self.check()
        self.assertEqual(refused[:4] + refused[7:], [0, b'jobs', 2, 0, b'', 0])
        self.assertIn(refused[4], range(1, LEASE_MS + 1))
        self.assertEqual(self.resp.ask('WEIR.RENEW', verdict[7]), LEASE_MS)
        for permit in verdict[7], other[7]:
            self.assertEqual(self.resp.ask('WEIR.RELEASE', permit), 1)
            self.assertEqual(self.resp.ask('WEIR.RELEASE', permit), 0)
            self.assertEqual(self.resp.ask('WEIR.RENEW', permit), -1)
        self.assertEqual(self.out(), 0)
        self.assertEqual(len(self.resp.ask('WEIR.CHECK', 1, 'rated', '1', 'user', self.user)), 7)

    def test_over_http(self):
        question = {'attributes': {'kind': 'job', 'user': self.user}, 'cost': 2}
        status, body, fields = self.post('/v1/check', question)
        self.assertEqual((status, body['lease_ms']), (200, LEASE_MS))
        permit = body['permit']
        self.assertEqual((fields['Weir-Permit'], fields['Weir-Lease']), (permit, '60'))
        self.assertEqual(fields['RateLimit-Policy'], '"jobs";q=2;qu="concurrent-requests"')
        status, body, fields = self.post('/v1/check', question)
        self.assertEqual((status, body.get('permit'), fields['Weir-Permit']), (429, None, None))
        self.assertIn(int(fields['Retry-After']), range(1, 61))
        self.assertEqual(self.post(f'/v1/permits/{permit}/renew')[:2], (200, {'renewed': True, 'lease_ms': LEASE_MS}))
        self.assertEqual(self.post(f'/v1/permits/{permit}/release', method='GET')[0], 405)
        self.assertEqual(self.post(f'/v1/permits/{permit}/release', token='metrics-0123456789abcdef')[0], 403)
        self.assertEqual(self.post(f'/v1/permits/{permit}/release', token='nobody')[0], 401)
        self.assertEqual(self.post(f'/v1/permits/{permit}/release')[:2], (200, {'released': True}))
        self.assertEqual(self.post(f'/v1/permits/{permit}/release')[0], 404)
        self.assertEqual(self.post(f'/v1/permits/{permit}/renew')[0], 404)
        status, body, fields = self.post(f'/v1/auth?kind=job&user={self.user}', method='GET')
        self.assertEqual((status, body, fields['Weir-Lease']), (200, None, '60'))
        self.assertEqual(self.resp.ask('WEIR.RELEASE', fields['Weir-Permit']), 1)

    def test_together_with_a_rate_or_not_at_all(self):
        permits = [self.check('rated', 1) for _ in range(2)]
        self.assertEqual(self.check('rated', 1)[:2], [0, b'jobs'])
        self.assertEqual([self.resp.ask('WEIR.RELEASE', verdict[7]) for verdict in permits], [1, 1])
        last = self.check('rated', 1)  # what the permits refused has cost no unit
        self.assertEqual(last[0], 1)
        self.assertEqual(self.check('rated', 1)[:2], [0, b'rate'])
        self.assertEqual(self.out(), 1)  # what the rate refused has taken no permit
        self.assertEqual(self.resp.ask('WEIR.REFUND', 1, 'kind', 'job', 'rated', 1, 'user', self.user),
                         [[b'jobs', 0], [b'rate', 1]])
        self.assertEqual(self.out(), 1)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', last[7]), 1)

    def test_forged_permits_are_none(self):
        permit = self.check()[7].decode()
        rng = random.Random(4)
        forged = [permit[:i] + ('0' if permit[i] != '0' else '1') + permit[i + 1:] for i in range(len(permit))]
        forged += [permit.upper() + 'A', permit[:-2], permit + '00', permit[16:], '', '0' * 50, 'f' * 1200, 'é', '\0' * 50]
        forged += [f'{rng.getrandbits(200):050x}' for _ in range(200)]
        for text in forged:
            self.assertEqual(self.resp.ask('WEIR.RELEASE', text.encode()), 0)
            self.assertEqual(self.resp.ask('WEIR.RENEW', text.encode()), -1)
        for path in '/v1/permits//release', '/v1/permits/x/release', f'/v1/permits/{"f" * 1200}/renew', '/v1/permits/':
            self.assertEqual(self.post(path)[0], 404)
        self.assertEqual(self.out(), 1)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', permit), 1)

    def test_a_lease_ends_and_a_late_release_takes_nobodys(self):
        late = [self.check(kind='short')[7] for _ in range(2)]
        begun = time.monotonic()
        time.sleep(SHORT_S / 2)
        kept = late.pop()
        self.assertEqual(self.resp.ask('WEIR.RENEW', kept), SHORT_S * 1000)
        time.sleep(max(0, begun + SHORT_S - time.monotonic()))
        new = self.check(kind='short')
        self.assertEqual(new[0], 1)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', late[0]), 0)
        self.assertEqual(self.resp.ask('WEIR.RENEW', late[0]), -1)
        self.assertEqual(self.out('short'), 2)
        self.assertEqual([self.resp.ask('WEIR.RELEASE', permit) for permit in (kept, new[7])], [1, 1])

    def test_a_limit_in_shadow_loses_nobody_a_permit(self):
        permit = self.check('tried', 1)
        self.assertEqual(permit[8], LEASE_MS)
        self.assertEqual(self.check('tried', 1)[0], 1)
        time.sleep(1.2)  # the lease of the one in shadow
        self.assertEqual(self.resp.ask('WEIR.RENEW', permit[7]), LEASE_MS)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', permit[7]), 1)

    def test_who_leaves_while_its_answer_is_held_holds_nothing(self):
        first = self.check('turned', 1)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', first[7]), 1)
        with Resp(self.weir.resp) as leaver:
            self.assertEqual(leaver.ask('AUTH', 'all-0123456789abcdef'), 'OK')
            leaver.send(resp_encode('WEIR.CHECK', 1, 'kind', 'job', 'user', self.user, 'turned', 1))
            self.wait_until_out(1)
        self.wait_until_out(0)
        held = self.check('turned', 1)  # its lease begins with the answer
        self.assertEqual(held[8], LEASE_MS)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', held[7]), 1)

    def wait_until_out(self, wanted):
        deadline = time.monotonic() + 60
        with Resp(self.weir.resp) as other:
            other.ask('AUTH', 'all-0123456789abcdef')
            while time.monotonic() < deadline:
                verdict = other.ask('WEIR.PEEK', 0, 'kind', 'job', 'user', self.user)
                if verdict[2] - verdict[3] == wanted:
                    return
                time.sleep(0.01)
        self.fail(f'never were {wanted} out')

    def test_the_command_line_shows_lease_and_permit(self):
        def weir(*arguments):
            return subprocess.run([str(BUILD / 'weir'), *arguments], capture_output=True, text=True, check=True).stdout
        explained = weir('explain', '--config', str(self.weir.config), 'kind=job', f'user={self.user}')
        self.assertIn('applies: concurrency 2 at once, lease 1min', explained)
        rows = json.loads(weir('explain', '--json', '--config', str(self.weir.config), 'kind=job', f'user={self.user}'))
        self.assertEqual((rows[0]['rate'], rows[0]['capacity'], rows[0]['lease_ms']), ('2', 2, LEASE_MS))
        asked = weir('check', '--server', f'127.0.0.1:{self.weir.http}', '--token', 'all-0123456789abcdef', 'kind=job',
                     f'user={self.user}')
        permit = re.search(r'^permit ([0-9a-f]{50})\nlasts 1min', asked, re.M)
        self.assertEqual(self.resp.ask('WEIR.RELEASE', permit[1]), 1)

    def test_a_reload_keeps_permits(self):
        with Weir(CALM) as weir, Resp(weir.resp) as client:
            permits = [client.ask('WEIR.CHECK', 1)[7] for _ in range(3)]
            for rate in 2, 7, 4:
                weir.config.write_text(CALM.replace('50', str(rate)).replace('200s', f'{rate}00s'), encoding='utf-8')
                weir.process.send_signal(signal.SIGHUP)
                while client.ask('WEIR.PEEK', 0)[2] != rate:
                    time.sleep(0.01)
                verdict = client.ask('WEIR.PEEK', 1)
                self.assertEqual((verdict[0], verdict[3]), (int(rate > 3), max(0, rate - 3)))
            self.assertEqual(client.ask('WEIR.RENEW', permits[0]), 400000)
            self.assertEqual([client.ask('WEIR.RELEASE', permit) for permit in permits], [1, 1, 1])
            self.assertEqual(client.ask('WEIR.PEEK', 0)[3], 4)

    def test_a_permit_of_before_a_restart_is_none(self):
        with Weir(CALM) as weir, Resp(weir.resp) as client:
            permit = client.ask('WEIR.CHECK', 1)[7]
        with Weir(CALM) as weir, Resp(weir.resp) as client:
            self.assertEqual(client.ask('WEIR.CHECK', 1)[0], 1)
            self.assertEqual(client.ask('WEIR.RELEASE', permit), 0)
            self.assertEqual(client.ask('WEIR.RENEW', permit), -1)
            self.assertEqual(client.ask('WEIR.PEEK', 0)[3], LIMIT - 1)

    def test_lost_permits_are_seen(self):
        limits = ('limits:\n  - { name: long, match: { kind: long }, algorithm: concurrency, rate: 9, lease: 1hour }\n'
                  '  - { name: short, match: { kind: short }, algorithm: concurrency, rate: 9, lease: 1s }\n')

        def permits(weir, limit):
            counts = metrics(weir.http)
            names = ('out', 'given_total', 'released_total', 'ended_total')
            return [counts[f'weir_permits_{name}{{limit="{limit}"}}'] for name in names]

        def unknown(weir):
            counts = metrics(weir.http)
            return [counts[f'weir_releases_unknown_total{{cause="{cause}"}}'] for cause in ('foreign', 'ended')]

        with Weir(limits) as giver, Weir(limits) as other, Resp(giver.resp) as client, Resp(other.resp) as stray:
            held = [client.ask('WEIR.CHECK', 1, 'kind', 'long')[7] for _ in range(3)]
            self.assertEqual(permits(giver, 'long'), [3, 3, 0, 0])
            self.assertEqual([client.ask('WEIR.RELEASE', held[0]) for _ in range(2)], [1, 0])
            self.assertEqual(permits(giver, 'long'), [2, 3, 1, 0])
            self.assertEqual(unknown(giver), [0, 1])
            self.assertEqual(stray.ask('WEIR.RELEASE', held[1]), 0)
            self.assertEqual(unknown(other), [1, 0])
            self.assertEqual(permits(other, 'long'), [0, 0, 0, 0])
            wait_for(lambda: 'releases_ended_begun: ' in giver.output(), text='the late release is not told')
            wait_for(lambda: 'releases_foreign_begun: ' in other.output(), text='the stray release is not told')
            for _ in range(3):
                client.ask('WEIR.CHECK', 1, 'kind', 'short')
            wait_for(lambda: client.ask('WEIR.PEEK', 0, 'kind', 'short')[3] == 9, text='leases do not end')
            self.assertEqual(client.ask('WEIR.CHECK', 1, 'kind', 'short')[0], 1)  # which notices those that have ended
            out, given, released, ended = permits(giver, 'short')
            self.assertEqual((out + ended, given, released), (4, 4, 0))
            self.assertGreaterEqual(ended, 3)


# ---- 200 clients that are killed ----

# What each says of itself, in memory that outlives it: how many intervals it has begun, and of each when its permit
# came, until when it may believe in it, and when it gave it back (0: never).
ENTRY = struct.Struct('ddd')
ENTRIES_MAX = 60
SLOT_SIZE = 8 + ENTRIES_MAX * ENTRY.size


class Slot:
    def __init__(self, memory, number):
        self.memory, self.base = memory, number * SLOT_SIZE

    def count(self):
        return struct.unpack_from('q', self.memory, self.base)[0]

    def write(self, index, entry):
        ENTRY.pack_into(self.memory, self.base + 8 + index * ENTRY.size, *entry)

    def begin(self, entry):
        index = self.count()
        self.write(index, entry)
        struct.pack_into('q', self.memory, self.base, index + 1)
        return index

    def entries(self):
        return [ENTRY.unpack_from(self.memory, self.base + 8 + i * ENTRY.size) for i in range(self.count())]

    def holds(self):
        entries = self.entries()
        return bool(entries) and entries[-1][2] == 0 and time.monotonic() < entries[-1][1]


class RespCaller:
    def __init__(self, weir):
        self.resp = Resp(weir.resp, timeout_s=60)

    def take(self):
        verdict = self.resp.ask('WEIR.CHECK', 1)
        return (verdict[7], verdict[8] / 1000) if verdict[0] else (None, 0)

    def renew(self, permit):
        return max(0, self.resp.ask('WEIR.RENEW', permit)) / 1000

    def release(self, permit):
        return self.resp.ask('WEIR.RELEASE', permit) == 1


class HttpCaller:
    def __init__(self, weir):
        self.client = http.client.HTTPConnection('127.0.0.1', weir.http, timeout=60)

    def post(self, path, body=None):
        self.client.request('POST', path, body)
        answer = self.client.getresponse()
        return answer.status, json.loads(answer.read())

    def take(self):
        status, body = self.post('/v1/check', '{}')
        return (body['permit'], body['lease_ms'] / 1000) if status == 200 else (None, 0)

    def renew(self, permit):
        status, body = self.post(f'/v1/permits/{permit}/renew')
        return body['lease_ms'] / 1000 if status == 200 else 0

    def release(self, permit):
        return self.post(f'/v1/permits/{permit}/release')[0] == 200


def client_run(weir, slot, seed):
    """Until it is killed: takes permits, holds them, renews some, gives some back and forgets others."""
    rng = random.Random(seed)
    caller = (HttpCaller if seed % 2 else RespCaller)(weir)
    while slot.count() < ENTRIES_MAX:
        sent = time.monotonic()
        permit, lease_s = caller.take()
        if not permit:
            time.sleep(rng.uniform(0.05, 0.25))
            continue
        begun, until = time.monotonic(), sent + lease_s
        index = slot.begin((begun, until, 0))
        time.sleep(rng.uniform(0, 0.3))
        if rng.random() < 0.3:
            sent = time.monotonic()
            lease_s = caller.renew(permit)
            until = sent + lease_s if lease_s else until
            slot.write(index, (begun, until, 0))
            time.sleep(rng.uniform(0, 0.3))
        ended = time.monotonic()
        if ended >= until or rng.random() < 0.1:
            continue
        slot.write(index, (begun, until, ended))  # it is over before the server can hear of it
        if not caller.release(permit) and time.monotonic() < until:  # one that comes after the lease gives nothing back
            os._exit(3)
    time.sleep(3600)


def intervals_of(slots):
    """In which permits are held: who was killed or forgot holds one until its lease ends, as far as it could know."""
    entries = [entry for slot in slots for entry in slot.entries()]
    return [(begun, ended or until) for begun, until, ended in entries if (ended or until) > begun]


def most_at_once(intervals):
    """Of half-open intervals."""
    turns = sorted([(begin, 1) for begin, end in intervals] + [(end, -1) for begin, end in intervals])
    now = most = 0
    for _, step in turns:
        now += step
        most = max(most, now)
    return most


class Crowd(unittest.TestCase):
    def spawn(self, weir, memory, number, seed):
        pid = os.fork()
        if pid == 0:
            try:
                client_run(weir, Slot(memory, number), seed)
            except BaseException:  # whatever it is must not run the rest of the tests
                os._exit(4)
            os._exit(0)
        return pid

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        self.assertTrue(os.WIFSIGNALED(status), f'a client ended by itself: {status}')

    def test_200_crashing_clients_never_hold_more_than_50_and_all_comes_back_within_a_lease(self):
        seed = int(os.environ.get('WEIR_SEED', time.time_ns() % 1000000))
        print(f'WEIR_SEED={seed}')
        rng = random.Random(seed)
        slots_max = 6 * CLIENTS
        with Weir(CROWD) as weir, mmap.mmap(-1, slots_max * SLOT_SIZE) as memory:
            alive, used, crashed_holding = {}, 0, 0
            try:
                for used in range(1, CLIENTS + 1):
                    alive[used - 1] = self.spawn(weir, memory, used - 1, seed + used)
                end = time.monotonic() + RUN_S

                def is_crowd():
                    slots = [Slot(memory, number) for number in range(used)]
                    return crashed_holding > CRASHES_MIN and most_at_once(intervals_of(slots)) > LIMIT // 2

                while (time.monotonic() < end or not is_crowd()) and used < slots_max:
                    self.assertLess(time.monotonic(), end + 60)
                    time.sleep(0.01)
                    holders = [number for number in rng.sample(list(alive), 20) if Slot(memory, number).holds()]
                    if not holders:
                        continue
                    number = holders[0]
                    self.kill(alive.pop(number))
                    crashed_holding += 1
                    alive[used] = self.spawn(weir, memory, used, seed + used)
                    used += 1
                with Resp(weir.resp, timeout_s=60) as client:
                    for number in list(alive):
                        self.kill(alive.pop(number))
                    after, at = client.ask('WEIR.PEEK', 0), time.monotonic()
                    wait_for(lambda: metrics(weir.http)['weir_connections'] <= 2, text='it does not see that they are gone')
                    time.sleep(LEASE_S)
                    self.assertEqual(client.ask('WEIR.PEEK', 0)[3], LIMIT)  # one lease later all are back
            finally:
                for pid in alive.values():
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            slots = [Slot(memory, number) for number in range(used)]
            entries, most = [entry for slot in slots for entry in slot.entries()], most_at_once(intervals_of(slots))
        print(f'{len(entries)} permits, {crashed_holding} clients killed while holding, {most} at most at once')
        self.assertLessEqual(most, LIMIT)
        self.assertGreater(most, LIMIT // 2, 'the crowd was no crowd')
        self.assertGreater(crashed_holding, CRASHES_MIN)
        self.assertLessEqual(after[3], LIMIT - sum(not ended and until > at for _, until, ended in entries))


if __name__ == '__main__':
    unittest.main()
