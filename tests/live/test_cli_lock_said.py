#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What weir lock says while its command runs: nothing hangs on whether anybody reads it."""
import contextlib
import os
import signal
import sys
import unittest

from test_cli_lock import WORK, Base


class Said(Base):
    def test_what_it_says_and_nobody_reads_ends_nothing(self):
        """A pipe to a logger that has died: the command runs on, and finds that signal as it always is."""
        reads, writes = os.pipe()
        os.close(reads)
        enough, ignored = self.folder / 'enough', self.folder / 'ignored'
        script = f'grep SigIgn /proc/self/status > {ignored}; while ! [ -e {enough} ]; do sleep 0.05; done; exit 7'
        process = self.begin('--ttl', '1hour', '--', 'sh', '-c', script, stderr=writes)
        os.close(writes)
        self.until(lambda: ignored.exists() and ignored.read_text(encoding='ascii').endswith('\n'))
        before = self.guards(process)
        for guard in before:
            os.kill(guard, signal.SIGKILL)
        self.until(lambda: process.poll() is not None or (self.guards(process) or before) != before)
        enough.touch()
        self.assertEqual(process.wait(60), 7)
        self.assertIsNone(self.server.locks['job'].owner)
        self.assertEqual(int(ignored.read_text(encoding='ascii').split()[1], 16) >> (signal.SIGPIPE - 1) & 1, 0)

    def test_who_reads_what_it_says_is_not_waited_for(self):
        """A pipe that is full: the command is asked to end all the same, and not killed for a lock that is renewed."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        os.set_blocking(writes, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writes, b'x' * size)
        os.set_blocking(writes, True)
        self.log = self.folder / 'log'
        with open(self.log, 'wb') as log:
            process = self.begin('--ttl', '15s', '--', sys.executable, '-c', WORK, stdout=log, stderr=writes)
        os.close(writes)
        self.until(lambda: self.times('alive') and self.guards(process))
        before = self.guards(process)
        os.kill(before[0], signal.SIGKILL)
        self.until(lambda: (self.guards(process) or before) != before)
        renewed = self.server.count('WEIR.RELOCK')
        self.until(lambda: self.server.count('WEIR.RELOCK') > renewed + 3)  # another length of the lease
        self.assertIsNone(process.poll())
        self.server.mute = True
        self.assertEqual(process.wait(60), 70)
        self.assertTrue(self.times('asked'))


if __name__ == '__main__':
    unittest.main()
