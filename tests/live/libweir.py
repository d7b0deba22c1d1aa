# SPDX-License-Identifier: Apache-2.0
"""include/weir/lock.h for Python, by way of the shared library: as much of it as the demonstration and tests need."""
import ctypes

from weir_server import BUILD


RESERVED = 4 * ctypes.c_uint64  # 0, for later releases


class LocksOptions(ctypes.Structure):
    _fields_ = [('address', ctypes.c_char_p), ('token', ctypes.c_char_p), ('timeout_ms', ctypes.c_uint),
                ('reserved', RESERVED)]


class LockOptions(ctypes.Structure):
    _fields_ = [('owner', ctypes.c_char_p), ('owner_size', ctypes.c_size_t), ('ttl_ms', ctypes.c_uint64),
                ('wait_ms', ctypes.c_uint64), ('renew', ctypes.c_bool), ('progress_ms', ctypes.c_uint64),
                ('seen_incarnation', ctypes.c_uint64), ('reserved', RESERVED)]


class Token(ctypes.Structure):
    _fields_ = [('incarnation', ctypes.c_uint64), ('number', ctypes.c_uint64)]

    def __str__(self):
        return f'{self.incarnation}.{self.number}'


class Fault(ctypes.Structure):
    _fields_ = [('field', ctypes.c_char * 32), ('text', ctypes.c_char * 160)]


def load():
    library = ctypes.CDLL(str(BUILD / 'libweir.so'))
    pointer, error = ctypes.c_void_p, ctypes.c_int
    for name, result, *arguments in (
            ('weir_locks_connect', error, pointer, pointer, pointer),
            ('weir_locks_disconnect', None, pointer),
            ('weir_lock_acquire', error, pointer, ctypes.c_char_p, ctypes.c_size_t, pointer, pointer),
            ('weir_lock_token', Token, pointer),
            ('weir_lock_mine', ctypes.c_bool, pointer),
            ('weir_lock_release', error, pointer),
            ('weir_error_text', ctypes.c_char_p, error)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Lock:
    """Held from its construction to release(), renewed by a thread of the library. OSError: not granted."""

    def __init__(self, address, name, ttl_ms, wait_ms=0):
        self.library, self.fault = load(), Fault()
        self.locks, self.lock = ctypes.c_void_p(), ctypes.c_void_p()
        server = LocksOptions(address=address.encode())
        self.check(self.library.weir_locks_connect(ctypes.byref(server), ctypes.byref(self.locks),
                                                   ctypes.byref(self.fault)))
        options = LockOptions(ttl_ms=ttl_ms, wait_ms=wait_ms, renew=True)
        self.check(self.library.weir_lock_acquire(self.locks, name.encode(), len(name.encode()),
                                                  ctypes.byref(options), ctypes.byref(self.lock)))
        self.token = self.library.weir_lock_token(self.lock)

    def check(self, error):
        if error:
            raise OSError(self.library.weir_error_text(error).decode())

    def mine(self):
        return self.library.weir_lock_mine(self.lock)

    def release(self):
        """None, or what was wrong."""
        error = self.library.weir_lock_release(self.lock)
        self.library.weir_locks_disconnect(self.locks)
        return self.library.weir_error_text(error).decode() if error else None
