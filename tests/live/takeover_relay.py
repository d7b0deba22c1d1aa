# SPDX-License-Identifier: Apache-2.0
"""Stands between a weir and its successor, and tells the successor one thing wrong of what the weir says: a broken
predecessor. `python3 takeover_relay.py WEIR PATH MISTAKE` listens at PATH, says "ready", and ends with either of them.
A program of its own, because a successor that is broken in turn would be killed (takeover_fake.py)."""
import array
import contextlib
import os
import select
import socket
import struct
import sys

from takeover_fake import BYTES, CONN, END, GO, HEAD, LISTENER, MAGIC, STATE, TAKEN, WELCOME

COUNT = struct.Struct('=Q')
CONNECTION = struct.Struct('=8s8sIIQ32s')  # struct weir_takeover_conn


def cut(fd):
    """The counters without their last byte."""
    size = os.fstat(fd).st_size
    copy = os.memfd_create('counters')
    os.sendfile(copy, fd, 0, size - 1)
    return copy


def of(wanted, change):
    """A mistake in each message of a kind: what is said in its place."""
    return lambda kind, body, fds: change(kind, body, fds) if kind == wanted else [(kind, body, fds)]


def sized(state, given):
    """Other sizes of a connection."""
    def change(kind, body, fds):
        name, flags, _, _, idle, token = CONNECTION.unpack(body)
        return [(kind, CONNECTION.pack(name, flags, state, given, idle, token), fds)]
    return of(CONN, change)


def one_more(before, state, given):
    """A connection that nobody has: the first one, or the last."""
    def change(kind, body, fds):
        made = (CONN, CONNECTION.pack(b'resp', b'', state, given, 0, b''), [os.memfd_create('connection')])
        if kind == END:
            end = (END, COUNT.pack(COUNT.unpack(body)[0] + 1), [])
            return [end] if before else [made, end]
        return [(kind, body, fds), made] if before and kind == STATE else [(kind, body, fds)]
    return change


MISTAKES = {
    'bytes that are missing': of(BYTES, lambda kind, body, fds: [(kind, body[:-1], fds)]),
    'bytes that do not come': of(BYTES, lambda kind, body, fds: []),
    'bytes too many': of(BYTES, lambda kind, body, fds: [(kind, body + b'x', fds)]),
    'bytes of nothing': of(STATE, lambda kind, body, fds: [(kind, body, fds), (BYTES, b'x', [])]),
    'a first connection without its bytes': one_more(True, 0, 5),
    'a last connection without its bytes': one_more(False, 0, 5),
    'a last connection without its state': one_more(False, 5, 0),
    'more bytes told than may be': sized(0, 0xffffffff),
    'sizes that wrap': sized(0xffffffff, 1),
    'sizes that wrap, at the end': one_more(False, 0xffffffff, 1),
    'a connection without its socket': of(CONN, lambda kind, body, fds: [(kind, body, [])]),
    'a connection with two': of(CONN, lambda kind, body, fds: [(kind, body, fds * 2)]),
    'a connection cut off': of(CONN, lambda kind, body, fds: [(kind, body[:-1], fds)]),
    'one connection more at the end': of(END, lambda kind, body, fds: [(kind, COUNT.pack(COUNT.unpack(body)[0] + 1), fds)]),
    'one connection less at the end': of(END, lambda kind, body, fds: [(kind, COUNT.pack(COUNT.unpack(body)[0] - 1), fds)]),
    'an end without a number': of(END, lambda kind, body, fds: [(kind, b'', fds)]),
    'no end': of(END, lambda kind, body, fds: [(GO, b'', [])]),
    'go too early': of(STATE, lambda kind, body, fds: [(GO, b'', [])]),
    'the end in place of go': of(GO, lambda kind, body, fds: [(END, COUNT.pack(0), [])]),
    'counters that are cut off': of(STATE, lambda kind, body, fds: [(kind, body, [cut(fds[0]), *fds[1:]])]),
    'no counters': of(STATE, lambda kind, body, fds: [(kind, body, [])]),
    'three descriptors with the counters': of(STATE, lambda kind, body, fds: [(kind, body, (fds * 3)[:3])]),
    'a welcome without a socket': of(WELCOME, lambda kind, body, fds: [(kind, body, [])]),
    'a welcome cut off': of(WELCOME, lambda kind, body, fds: [(kind, body[:-1], fds)]),
    'a listener of a number that is none': of(LISTENER, lambda kind, body, fds: [(kind, body[:8] + b'\xff' * 4 + body[12:], fds)]),
    'a kind that nobody knows': of(STATE, lambda kind, body, fds: [(99, body, fds)]),
    'what only a successor says': of(STATE, lambda kind, body, fds: [(TAKEN, b'', [])]),
}


def hear(sock):
    """(kind, body, descriptors), or None at the end."""
    try:
        data, control, *_ = sock.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
    except ConnectionResetError:  # it ended with words of ours unread
        return None
    fds = array.array('i')
    for _, _, rights in control:
        fds.frombytes(rights)
    return (HEAD.unpack(data[:HEAD.size])[1], data[HEAD.size:], list(fds)) if data else None


def say(sock, kind, body, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
    with contextlib.suppress(ConnectionError):  # its end is heard next
        sock.sendmsg([HEAD.pack(MAGIC, kind, len(fds), len(body), 0) + body], rights)


def main():
    _, weir, path, mistake = sys.argv
    change = MISTAKES[mistake]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as before:
        listening.bind(path)
        listening.listen()
        print('ready', flush=True)
        after = listening.accept()[0]
        before.connect(weir)
        while True:
            for sock in select.select([before, after], [], [])[0]:
                heard = hear(sock)
                if heard is None:
                    return
                for kind, body, fds in change(*heard) if sock is before else [heard]:
                    say(after if sock is before else before, kind, body, fds)
                for fd in heard[2]:
                    os.close(fd)


if __name__ == '__main__':
    main()
