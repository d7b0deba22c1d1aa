#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The etcd lock engine against real servers: what every engine must pass; a store that was set back, with and without a
restart of weir; one that stops answering; a leader that is stopped, replaced and resumed."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from etcd_server import Etcd, cluster_of_three
from redis_server import wait_for
from weir_server import BUILD, Resp, Weir

TTL_MS = 2000


def installed(test):
    return unittest.skipUnless(shutil.which('etcd'), 'etcd-server is not installed')(test)


class Service:
    """weir serve with its locks in etcd."""

    def __init__(self, *urls):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-etcd-lock-'))
        self.config = (f'locks: {{ engine: etcd, endpoints: {json.dumps(urls)}, witness: {self.folder}/witness, '
                       'timeout: 1s }\n')
        self.weir = None
        self.start()

    def start(self):
        self.weir = Weir(self.config)

    def restart(self):
        self.weir.stop()
        self.start()

    def lock(self, name, owner, *more):
        with Resp(self.weir.resp) as client:
            return client.ask('WEIR.LOCK', name, owner, str(TTL_MS), *more)

    def until_granted(self, name, owner, seconds=15):
        """The token; while the store cannot be asked, that is neither granted nor denied."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.lock(name, owner)
            if isinstance(answer, list) and answer[0] == 1:
                return tuple(answer[1:3])
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)

    def stop(self):
        self.weir.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@installed
class LockEtcd(unittest.TestCase):
    def server(self):
        etcd = Etcd().start()
        self.addCleanup(etcd.stop)
        return etcd

    def service(self, *urls):
        service = Service(*urls)
        self.addCleanup(service.stop)
        return service

    def test_suite(self):
        etcd = self.server()
        run = subprocess.run([BUILD / 'tests/lock/lock_suite', 'etcd', etcd.url, etcd.folder / 'witness'],
                             capture_output=True, text=True, timeout=120, check=False)
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
        service = self.service(etcd.url)
        token = service.until_granted('name', 'A')
        etcd.signal(signal.SIGSTOP)
        begin = time.monotonic()
        answer = service.lock('name', 'B')
        self.assertLess(time.monotonic() - begin, 10)
        self.assertFalse(isinstance(answer, list) and answer[0] in (0, 1), answer)
        etcd.signal(signal.SIGCONT)
        self.assertGreater(service.until_granted('name', 'B'), token)

    def test_a_leader_stopped_and_resumed_grants_nothing_twice(self):
        members = cluster_of_three()
        for member in members:
            self.addCleanup(member.stop)
        service = self.service(*(member.url for member in members))
        tokens = [service.until_granted('name', 'A')]
        for number in range(2):
            wait_for(lambda: any(m.leads() for m in members), 'nobody leads')
            leader = next(m for m in members if m.leads())
            leader.signal(signal.SIGSTOP)
            tokens.append(service.until_granted('name', f'B{number}', 30))
            leader.signal(signal.SIGCONT)
            time.sleep(0.5)
            answer = service.lock('name', f'C{number}')
            self.assertFalse(isinstance(answer, list) and answer[0] == 1 and tuple(answer[1:3]) <= tokens[-1], answer)
        self.assertEqual(tokens, sorted(set(tokens)))


if __name__ == '__main__':
    sys.exit(unittest.main())
