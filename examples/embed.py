#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libweir in a Python program, by ctypes: a token bucket per user.

    python3 embed.py [PATH OF libweir.so]

The structs follow include/weir/limit.h and include/weir/limiter.h, field by field."""
import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, \
    c_void_p

RESERVED = 3 * c_uint64  # 0, for later releases


class Fault(Structure):
    _fields_ = [('field', c_char * 32), ('text', c_char * 160)]


class Spec(Structure):
    _fields_ = [('algorithm', c_int), ('count', c_uint64), ('period_ns', c_uint64), ('burst', c_uint64),
                ('align', c_int), ('calendar', c_int), ('calendar_count', c_uint32), ('tz', c_char_p),
                ('spread_ns', c_uint64), ('count_mode', c_int), ('mode', c_int), ('on_full', c_int),
                ('on_change', c_int), ('reserves', c_uint64), ('reserved', RESERVED)]


class LimitDef(Structure):
    _fields_ = [('name', c_char_p), ('variant', c_char_p), ('spec', Spec)]


class Slice(Structure):
    _fields_ = [('data', c_char_p), ('size', c_size_t)]


class Key(Structure):
    _fields_ = [('hash', c_uint64), ('phase', c_uint64)]


class Charge(Structure):
    _fields_ = [('limit', c_uint64), ('key', Key), ('cost', c_uint64), ('delay_max_ns', c_uint64)]


class Verdict(Structure):
    _fields_ = [('admitted', c_bool), ('shadow', c_bool), ('full', c_bool), ('late', c_bool),
                ('capacity', c_uint64), ('remaining', c_uint64), ('retry_after_ns', c_uint64), ('reset_after_ns', c_uint64),
                ('next_after_ns', c_uint64), ('delay_ns', c_uint64), ('ticket', c_uint64)]


class Decision(Structure):
    _fields_ = [('admitted', c_bool), ('deciding', c_size_t), ('retry_after_ns', c_uint64), ('delay_ns', c_uint64)]


def load(path):
    weir = ctypes.CDLL(path)
    weir.weir_error_text.restype = c_char_p
    weir.weir_limiter_create.argtypes = [c_void_p, POINTER(c_void_p), POINTER(Fault)]
    weir.weir_limiter_destroy.argtypes = [c_void_p]
    weir.weir_limiter_define.argtypes = [c_void_p, POINTER(LimitDef), c_size_t, c_void_p, POINTER(c_uint64),
                                         POINTER(Fault)]
    weir.weir_limiter_key.argtypes = [c_void_p, c_uint64, POINTER(Slice), c_size_t, POINTER(Key)]
    weir.weir_limiter_decide.argtypes = [c_void_p, POINTER(Charge), c_size_t, c_void_p, c_uint, POINTER(Decision),
                                         POINTER(Verdict)]
    return weir


class Limiter:
    """One limit: `burst` at once, refilled with `count` per `period_s`."""

    def __init__(self, weir, count, period_s, burst):
        self.weir = weir
        self.limiter = c_void_p()
        self.limit = c_uint64()
        self.fault = Fault()
        self.check(weir.weir_limiter_create(None, byref(self.limiter), byref(self.fault)))
        spec = Spec(count=count, period_ns=int(period_s * 10**9), burst=burst)
        definition = LimitDef(name=b'per-user', spec=spec)
        self.check(weir.weir_limiter_define(self.limiter, byref(definition), 1, None, byref(self.limit),
                                            byref(self.fault)))

    def check(self, error):
        if error:
            text = self.weir.weir_error_text(error).decode()
            raise ValueError(f'{text} {self.fault.field.decode()} {self.fault.text.decode()}')

    def ask(self, user, cost=1):
        value = Slice(user.encode(), len(user.encode()))
        charge = Charge(limit=self.limit, cost=cost)
        self.check(self.weir.weir_limiter_key(self.limiter, self.limit, byref(value), 1, byref(charge.key)))
        decision, verdict = Decision(), Verdict()
        self.check(self.weir.weir_limiter_decide(self.limiter, byref(charge), 1, None, 0, byref(decision),
                                                 byref(verdict)))
        return verdict

    def close(self):
        self.weir.weir_limiter_destroy(self.limiter)


def main():
    limiter = Limiter(load(sys.argv[1] if len(sys.argv) > 1 else 'libweir.so.0'), count=1, period_s=60, burst=3)
    for _ in range(4):
        verdict = limiter.ask('ada')
        print('admitted' if verdict.admitted else 'refused', 'remaining', verdict.remaining, 'of', verdict.capacity,
              'retry after', -(-verdict.retry_after_ns // 10**9), 's')
    limiter.close()


if __name__ == '__main__':
    main()
