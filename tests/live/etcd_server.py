# SPDX-License-Identifier: Apache-2.0
"""etcd servers of the test's own: one, or a cluster of three; on free ports, with their files in a folder of the test's,
ended by their own handles. They can be killed, stopped, started again, and set back to a copy of their files."""
import base64
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from ports import free_ports
from redis_server import stand_still, wait_for


class Etcd:
    """One member. Alone, or of a cluster: {name: address of its peer port}."""

    def __init__(self, name='one', ports=None, cluster=None, token='weir'):
        client, peer = ports or free_ports(2)
        self.url = f'http://127.0.0.1:{client}'
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-etcd-'))
        peers = cluster or {name: f'http://127.0.0.1:{peer}'}
        self.command = [
            'etcd', '--name', name, '--data-dir', str(self.folder / 'data'), '--listen-client-urls', self.url,
            '--advertise-client-urls', self.url, '--listen-peer-urls', peers[name], '--initial-advertise-peer-urls',
            peers[name], '--initial-cluster', ','.join(f'{n}={a}' for n, a in peers.items()), '--initial-cluster-token',
            token, '--heartbeat-interval', '50', '--election-timeout', '500', '--log-level', 'error']
        self.process = None

    def start(self, wait=True):
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            wait_for(self.answers, f'etcd does not answer: {self.log()[-500:]}')
        return self

    def log(self):
        return (self.folder / 'log').read_text(encoding='utf-8', errors='replace')

    def ask(self, path, timeout_s=60, **body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout_s) as answer:
            return json.loads(answer.read())

    def answers(self):
        assert self.process.poll() is None, self.log()[-500:]
        try:
            self.ask('/v3/kv/range', timeout_s=2, key=base64.b64encode(b'ready').decode())
            return True
        except OSError:
            return False

    def leads(self):
        try:
            status = self.ask('/v3/maintenance/status', timeout_s=2)
        except OSError:
            return False
        return status.get('leader', 'none') == status['header']['member_id']

    def signal(self, number):
        if number == signal.SIGSTOP:
            stand_still(self.process.pid)
        else:
            self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def keep(self):
        """A copy of its files as they are, for `set_back`; it must not be running."""
        shutil.rmtree(self.folder / 'kept', ignore_errors=True)
        shutil.copytree(self.folder / 'data', self.folder / 'kept')

    def set_back(self):
        shutil.rmtree(self.folder / 'data')
        shutil.copytree(self.folder / 'kept', self.folder / 'data')

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def cluster_of_three():
    ports = free_ports(6)
    peers = {f'm{i}': f'http://127.0.0.1:{ports[3 + i]}' for i in range(3)}
    members = [Etcd(name, (ports[i], ports[3 + i]), peers).start(wait=False) for i, name in enumerate(peers)]
    for member in members:
        wait_for(member.answers, 'a member does not answer')
    return members
