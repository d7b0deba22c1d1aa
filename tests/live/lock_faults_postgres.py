# SPDX-License-Identifier: Apache-2.0
"""The postgres engine under faults drawn by lock_faults.py: a primary and what becomes of it."""
import shutil
import time

from postgres_server import Postgres
from redis_server import wait_for

import lock_faults


class Engine(lock_faults.Engine):
    """`crash` and `freeze` forget nothing; `failover` promotes a replica that lacks the last grants, `restore` puts
    an older copy of the files in place. Of both the service can know."""

    def __init__(self, folder):
        super().__init__(folder)
        self.primary = Postgres()
        self.follower = None
        try:
            self.follower = self.primary.follower()
            self.locks = (f'locks: {{ engine: postgres, witness: {folder / "witness"}, '
                          f'conninfo: "{self.primary.conninfo(self.follower)}" }}\n')
        except BaseException:
            self.stop()
            raise
        self.faults = {'crash': self.crash, 'freeze': self.freeze, 'failover': self.failover, 'restore': self.restore}

    def crash(self, run):
        started_ns = time.monotonic_ns()
        self.primary.kill()
        run.sleep(0, 0.5)
        self.primary.start()
        run.event('restart', started_ns)

    def freeze(self, run):
        self.primary.freeze()
        run.sleep(0.5, 3)
        self.primary.thaw()

    def failover(self, run):
        """Once: then the replica is the primary, and nobody follows it."""
        if self.follower is None:
            self.crash(run)
            return
        wait_for(lambda: self.primary.caught_up(self.follower), 'the replica does not catch up')
        started_ns = time.monotonic_ns()
        self.follower.kill()
        run.sleep(0.3, 1.2)
        self.primary.kill()
        self.follower.start()
        self.follower.promote()
        self.primary.stop()
        self.primary, self.follower = self.follower, None
        run.event('restore', started_ns)

    def restore(self, run):
        started_ns = time.monotonic_ns()
        copy = self.primary.folder / 'copy'
        self.primary.shut()
        self.primary.copy_files(copy)
        self.primary.start()
        run.sleep(0.3, 1.2)
        self.primary.kill()
        self.primary.restore_files(copy)
        shutil.rmtree(copy)
        self.primary.start()
        run.event('restore', started_ns)

    def stop(self):
        for server in (self.primary, self.follower):
            if server:
                server.stop()
