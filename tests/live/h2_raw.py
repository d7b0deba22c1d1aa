# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand: frames that no client library would send."""
import contextlib
import socket
import struct

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PROTOCOL_ERROR, ENHANCE_YOUR_CALM = 1, 11
CHECK = '/grpc.health.v1.Health/Check'


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def fields(pairs):
    """HPACK without compression: each a literal that is not indexed (RFC 7541, 6.2.2)."""
    def text(value):
        value = value.encode() if isinstance(value, str) else value
        if len(value) < 127:
            return bytes([len(value)]) + value
        size, out = len(value) - 127, b'\x7f'
        while size >= 128:
            out, size = out + bytes([size % 128 | 128]), size // 128
        return out + bytes([size]) + value
    return b''.join(b'\0' + text(name) + text(value) for name, value in pairs)


def head(path=CHECK, extra=(), content='application/grpc', method='POST'):
    return fields([(':method', method), (':scheme', 'http'), (':path', path), (':authority', 'x'), ('content-type', content),
                   ('te', 'trailers'), *extra])


def message(data=b'', flag=0, size=None):
    return struct.pack('>BI', flag, len(data) if size is None else size) + data


def call(stream, data=b'', path=CHECK, extra=(), ends=True, **options):
    """HEADERS and DATA of a call."""
    return (frame(HEADERS, END_HEADERS, stream, head(path, extra, **options)) +
            frame(DATA, END_STREAM if ends else 0, stream, data))


class Connection:
    """A context manager. What comes is kept in `frames`: (kind, flags, stream, payload)."""

    def __init__(self, port, first=frame(SETTINGS), timeout_s=60, wrap=lambda sock: sock):
        self.socket = wrap(socket.create_connection(('127.0.0.1', port), timeout=timeout_s))
        self.data, self.frames, self.ended = b'', [], False
        if first is not None:
            self.send(PREFACE + first)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """One frame more, or None at the end."""
        while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], 'big'):
            piece = b''
            with contextlib.suppress(ConnectionError):
                piece = self.socket.recv(65536)
            if not piece:
                self.ended = True
                return None
            self.data += piece
        size = int.from_bytes(self.data[:3], 'big')
        kind, flags, stream = struct.unpack('>BBI', self.data[3:9])
        one = (kind, flags, stream, self.data[9:9 + size])
        self.data = self.data[9 + size:]
        self.frames.append(one)
        return one

    def until(self, wanted):
        """The first frame for which `wanted(kind, flags, stream, payload)` is so; None: the connection ended."""
        while (one := self.read()) is not None:
            if wanted(*one):
                return one
        return None

    def end_of(self, stream):
        """(status as text, message) of a call, or ('reset', code)."""
        one = self.until(lambda kind, flags, number, _: number == stream and
                         (kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM)))
        if one is None:
            return None
        if one[0] == RST_STREAM:
            return 'reset', int.from_bytes(one[3], 'big')
        return one[3]

    def goaway(self):
        """(last stream, code) of the last GOAWAY before the end."""
        while self.read() is not None:
            pass
        last = [payload for kind, _, _, payload in self.frames if kind == GOAWAY]
        return struct.unpack('>II', last[-1][:8]) if last else None
