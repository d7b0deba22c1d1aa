#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The etcd lock engine against real servers: what every engine must pass; a store that was set back, with and without a
restart of weir; one that stops answering; a leader that is stopped, replaced and resumed."""
import base64
import contextlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from etcd_server import Etcd, cluster_of_three
from redis_server import wait_for
from weir_server import BUILD, Resp, Weir, resp_encode

TTL_MS = 2000
HELD_MS = 600000  # where the lease is not to end


class Service:
    """weir serve with its locks in etcd, which has long to answer where nobody stops it."""

    def __init__(self, *urls, timeout='20s'):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-etcd-lock-'))
        self.config = (f'locks: {{ engine: etcd, endpoints: {json.dumps(urls)}, witness: {self.folder}/witness, '
                       f'timeout: {timeout} }}\n')
        self.weir = None
        self.start()

    def start(self):
        self.weir = Weir(self.config)

    def restart(self):
        self.weir.stop()
        self.start()

    def lock(self, name, owner, ttl_ms=TTL_MS):
        with Resp(self.weir.resp, timeout_s=60) as client:
            return client.ask('WEIR.LOCK', name, owner, str(ttl_ms))

    def until_granted(self, name, owner, ttl_ms=TTL_MS):
        """The token; while the store cannot be asked, that is neither granted nor denied."""
        deadline = time.monotonic() + 60
        while True:
            answer = self.lock(name, owner, ttl_ms)
            if isinstance(answer, list) and answer[0] == 1:
                return tuple(answer[1:3])
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)

    def stop(self):
        self.weir.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Door:
    """An address before another port of loopback, that can be closed."""

    def __init__(self, port):
        self.target = port
        self.sockets = [socket.create_server(('127.0.0.1', 0))]
        self.port = self.sockets[0].getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.sockets[0].accept()
                far = socket.create_connection(('127.0.0.1', self.target))
                self.sockets += [near, far]
                for pair in (near, far), (far, near):
                    threading.Thread(target=self.pump, args=pair, daemon=True).start()

    @staticmethod
    def pump(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def close(self):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class LockEtcd(unittest.TestCase):
    def server(self):
        etcd = Etcd().start()
        self.addCleanup(etcd.stop)
        return etcd

    def service(self, *urls, **options):
        service = Service(*urls, **options)
        self.addCleanup(service.stop)
        return service

    def test_suite(self):
        etcd = self.server()
        run = subprocess.run([BUILD / 'tests/lock/lock_suite', 'etcd', etcd.url, etcd.folder / 'witness'],
                             capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def set_back(self, restart):
        """Grants, an older copy of the store, and a grant again: its token is above all before."""
        etcd = self.server()
        service = self.service(etcd.url)
        first = service.until_granted('before', 'A')
        etcd.kill()
        etcd.keep()
        etcd.start()
        later = [service.until_granted(f'after-{i}', 'A') for i in range(20)]
        etcd.kill()
        etcd.set_back()
        etcd.start()
        if restart:
            service.restart()
        again = service.until_granted('after-19', 'B')
        self.assertGreater(again, max(later))
        self.assertGreater(min(later), first)
        return service

    def test_a_store_set_back_without_a_restart_raises_the_incarnation(self):
        self.set_back(restart=False)

    def test_a_store_set_back_with_a_restart_raises_the_incarnation(self):
        self.set_back(restart=True)

    def test_what_does_not_answer_is_unknown_or_down_never_denied(self):
        etcd = self.server()
        service = self.service(etcd.url, timeout='1s')
        token = service.until_granted('name', 'A')
        etcd.signal(signal.SIGSTOP)
        answer = service.lock('name', 'B')  # in the time that a client waits
        self.assertFalse(isinstance(answer, list) and answer[0] in (0, 1), answer)
        etcd.signal(signal.SIGCONT)
        self.assertGreater(service.until_granted('name', 'B'), token)

    def test_an_endpoint_that_is_gone_costs_no_answer(self):
        etcd = self.server()
        port = int(etcd.url.rpartition(':')[2])
        door = Door(port)
        self.addCleanup(door.close)
        service = self.service(f'http://127.0.0.1:{door.port}', etcd.url)
        service.until_granted('first', 'a')
        door.close()
        with Resp(service.weir.resp, timeout_s=60) as client:
            for i in range(4):  # as many at once as there are endpoints
                client.send(b''.join(resp_encode('WEIR.LOCK', f'{name}{i}', 'a', TTL_MS) for name in 'pq'))
                answers = [client.read(), client.read()]
                self.assertEqual([answer[:1] for answer in answers], [[1], [1]], answers)

    def test_the_log_says_why_the_store_cannot_be_asked_and_when_it_can_again(self):
        etcd = self.server()
        service = self.service(etcd.url)
        service.until_granted('name', 'A')
        self.assertNotIn('cannot be asked', service.weir.output())
        etcd.kill()
        for _ in range(3):
            service.lock('name', 'B')
        wait_for(lambda: 'cannot be asked' in service.weir.output(), 'its loss was not told')
        etcd.start()
        service.until_granted('other', 'B')
        wait_for(lambda: 'the store answers again' in service.weir.output(), 'its return was not told')
        said = [line.split(' ', 1)[1] for line in service.weir.output().splitlines() if 'the store' in line]
        self.assertEqual(said, [f"error locks_lost: locks in etcd: the store cannot be asked: {etcd.url}: "
                                "Couldn't connect to server",
                                'info locks_back: locks in etcd: the store answers again'])

    def test_an_incarnation_that_no_weir_wrote_is_not_taken_over(self):
        """By hand, say: new tokens wait for its correction, what is held goes on."""
        etcd = self.server()
        service = self.service(etcd.url)
        held = service.until_granted('name', 'A', HELD_MS)

        def write(value):
            etcd.ask('/v3/kv/put', key=base64.b64encode(b'weir/locks/incarnation').decode(),
                     value=base64.b64encode(str(value).encode()).decode())

        for wrong in (2**62 + 5, 2**64 - 5, -5):
            with self.subTest(wrong=wrong):
                write(wrong)
                self.assertIn('DOWN', str(service.lock(f'new{wrong}', 'B')))
                self.assertEqual(service.until_granted('name', 'A', HELD_MS), held)
                wait_for(lambda: 'an incarnation that no weir wrote' in service.weir.output(), 'it is not told')
                write(held[0])
                self.assertLess(service.until_granted(f'new{wrong}', 'B')[0], 2**40)

    def test_a_wrong_password_is_what_people_are_told(self):
        etcd = self.server()
        etcd.ask('/v3/auth/user/add', name='root', password='right')
        etcd.ask('/v3/auth/role/add', name='root')
        etcd.ask('/v3/auth/user/grant', user='root', role='root')
        service = self.service(etcd.url)
        password = service.folder / 'password'
        password.write_text('wrong-0123456789', encoding='utf-8')
        service.config = service.config.replace(' }', f', username: root, password_file: {password} }}')
        service.restart()
        service.until_granted('n', 'a', HELD_MS)  # etcd does not ask for one yet
        etcd.ask('/v3/auth/enable')
        self.assertIn('DOWN', str(service.lock('n', 'b')))
        with urllib.request.urlopen(f'http://127.0.0.1:{service.weir.http}/v1/nodes', timeout=60) as answer:
            fault = json.loads(answer.read())['locks']['fault']
        self.assertIn('authentication failed', fault)
        self.assertNotIn('wrong-0123456789', fault + service.weir.output())
        password.write_text('right', encoding='utf-8')
        service.restart()
        service.until_granted('n', 'a')

    def test_a_leader_stopped_and_resumed_grants_nothing_twice(self):
        members = cluster_of_three()
        for member in members:
            self.addCleanup(member.stop)
        service = self.service(*(member.url for member in members), timeout='1s')
        tokens, leaders = [service.until_granted('name', 'A')], []

        def found():
            leaders[:] = [member for member in members if member.leads()]
            return leaders

        for number in range(2):
            wait_for(found, 'nobody leads')
            leader = leaders[0]
            leader.signal(signal.SIGSTOP)
            tokens.append(service.until_granted('name', f'B{number}'))
            leader.signal(signal.SIGCONT)
            time.sleep(0.5)
            answer = service.lock('name', f'C{number}')
            self.assertFalse(isinstance(answer, list) and answer[0] == 1 and tuple(answer[1:3]) <= tokens[-1], answer)
        self.assertEqual(tokens, sorted(set(tokens)))


if __name__ == '__main__':
    sys.exit(unittest.main())
