# SPDX-License-Identifier: Apache-2.0
"""etcd for lock_faults.py: one server, or three in every third run, that are killed, stopped and resumed, lose their
leader, and are set back to an older copy with and without a restart of weir."""
import json
import signal

from etcd_server import Etcd, cluster_of_three
from lock_faults import Engine as Base
from lock_faults import now_ns

STOPPED_S = (0.2, 3.0)


class Engine(Base):
    lease_ends_late = True  # a new leader gives every lease its whole time again

    def __init__(self, folder):
        super().__init__(folder)
        seed = int(folder.name.split('-')[2])
        self.members = cluster_of_three() if seed % 3 == 0 else [Etcd().start()]
        urls = json.dumps([member.url for member in self.members])
        self.locks = (f'locks: {{ engine: etcd, endpoints: {urls}, witness: {folder}/witness, timeout: 1s }}\n')
        self.faults = {'stop_store': self.stop_store, 'kill_store': self.kill_store}
        if len(self.members) == 1:
            self.faults |= {'restore': self.restore, 'restore_hot': self.restore_hot}

    def stop(self):
        for member in self.members:
            member.stop()

    def leader(self):
        return next((member for member in self.members if member.leads()), self.members[0])

    def stop_store(self, run):
        leader = self.leader()
        leader.signal(signal.SIGSTOP)
        run.sleep(*STOPPED_S)
        leader.signal(signal.SIGCONT)

    def kill_store(self, run):
        leader = self.leader()
        leader.kill()
        run.sleep(0, 1)
        leader.start()

    def older_copy(self, run):
        self.members[0].kill()
        self.members[0].keep()
        self.members[0].start()
        run.sleep(0.3, 1.2)

    def set_back(self):
        self.members[0].kill()
        self.members[0].set_back()
        self.members[0].start()

    def restore(self, run):
        self.older_copy(run)
        started_ns = now_ns()
        run.service.end(signal.SIGKILL)
        self.set_back()
        run.service.start()
        run.event('restore', started_ns)

    def restore_hot(self, run):
        """Under the running service."""
        self.older_copy(run)
        started_ns = now_ns()
        self.set_back()
        run.event('restore', started_ns)
