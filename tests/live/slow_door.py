# SPDX-License-Identifier: Apache-2.0
"""A way to a server that takes its time: who connects here is connected on after `delay_s`. What was sent is passed on
as it is."""
import contextlib
import socket
import threading
import time


class SlowDoor:
    """Listens on `port` of 127.0.0.1. A context manager."""

    def __init__(self, to_port, delay_s):
        self.to_port, self.delay_s = to_port, delay_s
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.lead, args=(self.listener.accept()[0],), daemon=True).start()

    def lead(self, near):
        time.sleep(self.delay_s)
        with near, contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.to_port)) as far:
            back = threading.Thread(target=self.pass_on, args=(far, near), daemon=True)
            back.start()
            self.pass_on(near, far)
            back.join()

    @staticmethod
    def pass_on(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
