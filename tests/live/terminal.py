# SPDX-License-Identifier: Apache-2.0
"""A program in a terminal of the test's own: what it shows, and what it leaves behind. The terminal knows the few sequences
that weir may send, and is offended by every other byte that is not printable."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(r'\x1b\[(\?1049[hl]|\?25[hl]|H|K|J)')


class Screen:
    """Rows of text, as people see them."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.other, self.cursor, self.shown = False, True, ['']
        self.row = self.column = 0

    def feed(self, text):
        """Returns what is left, where it ends within a sequence."""
        at = 0
        while at < len(text):
            if text[at] == '\x1b':
                match = SEQUENCE.match(text, at)
                if not match and len(text) - at < 9:
                    return text[at:]
                assert match, f'not a sequence that every terminal knows: {text[at:at + 12]!r}'
                self.obey(match[1])
                at = match.end()
                continue
            self.put(text[at])
            at += 1
        return ''

    def obey(self, sequence):
        if sequence.startswith('?1049'):
            self.other, self.shown, self.row, self.column = sequence.endswith('h'), [''], 0, 0
        elif sequence.startswith('?25'):
            self.cursor = sequence.endswith('h')
        elif sequence == 'H':
            self.row = self.column = 0
        elif sequence == 'K':
            self.shown[self.row] = self.shown[self.row][:self.column]
        else:
            self.shown[self.row] = self.shown[self.row][:self.column]
            del self.shown[self.row + 1:]

    def put(self, char):
        if char == '\r':
            self.column = 0
        elif char == '\n':
            self.row += 1
            self.shown += [''] * (self.row + 1 - len(self.shown))
            assert not self.other or self.row < self.rows, 'it scrolls'
        else:
            assert char.isprintable(), repr(char)
            line = self.shown[self.row].ljust(self.column)
            self.shown[self.row] = line[:self.column] + char + line[self.column + 1:]
            self.column += 1
            assert not self.other or self.column <= self.columns, f'wider than the terminal: {line!r}'

    def text(self):
        return '\n'.join(line.rstrip() for line in self.shown)


class Terminal:
    """A context manager; the program is ended by its handle."""

    def __init__(self, *command, columns=80, rows=24, **environment):
        self.screen, self.left, self.raw = Screen(columns, rows), '', b''
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
            os.execvp(command[0], command)
        self.modes = termios.tcgetattr(self.fd)
        self.status = None

    def read(self, seconds=0.1):
        """False: the program has closed the terminal."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data
        text = self.left.encode() + data
        cut = len(text) - next((n for n in range(4) if is_whole(text[:len(text) - n])), 0)
        self.left = self.screen.feed(text[:cut].decode()) + text[cut:].decode('utf-8', 'surrogateescape')
        return bool(data)

    def wait_for(self, what, seconds=60):
        """Until the screen, as text, is as `what` says; returns it."""
        deadline = time.monotonic() + seconds
        while not what(self.screen.text()):
            assert time.monotonic() < deadline, 'it does not show that:\n' + self.screen.text()
            if not self.read():
                assert what(self.screen.text()), 'it has ended:\n' + self.screen.text()
        return self.screen.text()

    def type(self, text):
        os.write(self.fd, text.encode())

    def resize(self, columns, rows):
        self.screen.columns, self.screen.rows = max(columns, self.screen.columns), max(rows, self.screen.rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=60):
        """Its exit code, or minus the signal that ended it."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, 'it does not end:\n' + self.screen.text()
        while select.select([self.fd], [], [], 0)[0] and self.read(0):
            pass
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def is_whole(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False
