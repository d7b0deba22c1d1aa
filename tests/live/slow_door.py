# SPDX-License-Identifier: Apache-2.0
"""A way to a server that takes its time: who connects here is connected on after `delay_s`, and hears each answer
`lag_s` late. What was sent is passed on as it is."""
import contextlib
import queue
import socket
import threading
import time


class SlowDoor:
    """Listens on `port` of 127.0.0.1. A context manager."""

    def __init__(self, to_port, delay_s=0, lag_s=0):
        self.to_port, self.delay_s, self.lag_s = to_port, delay_s, lag_s
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
            answers = queue.SimpleQueue()
            back = [threading.Thread(target=self.hear, args=(far, answers), daemon=True),
                    threading.Thread(target=self.tell, args=(answers, near), daemon=True)]
            for thread in back:
                thread.start()
            self.pass_on(near, far)
            for thread in back:
                thread.join()

    def hear(self, source, answers):
        data = b' '
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b''
            answers.put((time.monotonic() + self.lag_s, data))

    @staticmethod
    def tell(answers, target):
        with contextlib.suppress(OSError):
            while True:
                at_s, data = answers.get()
                time.sleep(max(0, at_s - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

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
