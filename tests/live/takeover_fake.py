# SPDX-License-Identifier: Apache-2.0
"""A successor that goes as far as it is told to and then ends, or stands still: `python3 takeover_fake.py PATH STEP`
says STEP and sleeps; with a third word it says something out of turn first. What is said when:
src/serve/takeover_channel.h."""
import array
import os
import socket
import struct
import sys
import time

HEAD = struct.Struct('=IHHII')
HELLO = struct.Struct('=Ii64s')
MAGIC, PROTOCOL = 0x57544f31, 1
(_, SAYS_HELLO, REFUSED, WELCOME, LISTENER, LISTENED, SAYS_READY, STATE, CONN, BYTES, END, TAKEN, GO,
 DECIDING) = range(14)
STEPS = ('connected', 'greeted', 'ready', 'half-way', 'handed', 'taken', 'told')


class Refused(Exception):
    """The weir there said why not."""


class Fake:
    """A context manager: it ends with it."""

    def __init__(self, path, protocol=PROTOCOL):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.protocol, self.connections, self.descriptors = protocol, 0, []

    def say(self, kind, body=b''):
        self.socket.send(HEAD.pack(MAGIC, kind, 0, len(body), 0) + body)

    def hear(self):
        """Kind and body; the descriptors are kept until the end."""
        try:
            data, control, *_ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
        except ConnectionResetError:  # it ended with words of ours unread: what it had said is behind that
            data, control, *_ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
        for level, kind, rights in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.descriptors += array.array('i', rights)
        if not data:
            raise ConnectionError('the weir there has ended or given up')
        _, kind, _, size, _ = HEAD.unpack(data[:HEAD.size])
        body = data[HEAD.size:HEAD.size + size]
        if kind == REFUSED:
            raise Refused(body.rstrip(b'\0').decode())
        return kind, body

    def hear_until(self, *kinds):
        while True:
            kind, body = self.hear()
            self.connections += kind == CONN
            if kind in kinds:
                return body

    def go_to(self, step):
        """Up to and with one of STEPS."""
        at = STEPS.index(step)
        if at >= 1:
            self.say(SAYS_HELLO, HELLO.pack(self.protocol, os.getpid(), b'fake'))
            self.hear_until(LISTENED)
        if at >= 2:
            self.say(SAYS_READY)
        if at >= 3:
            self.hear_until(STATE)
        if at >= 4:
            self.hear_until(END)
        if at >= 5:
            self.say(TAKEN)
        if at >= 6:
            self.hear_until(GO)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


if __name__ == '__main__':
    with Fake(sys.argv[1]) as fake:
        fake.go_to(sys.argv[2])
        print(sys.argv[2], flush=True)
        if 'ready' in sys.argv[3:]:
            fake.say(SAYS_READY)
        if 'nonsense' in sys.argv[3:]:
            fake.socket.send(b'nonsense')
        time.sleep(600)
