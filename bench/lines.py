# SPDX-License-Identifier: Apache-2.0
"""The lines of the table: what is sampled, and which ratios of samples are asked for.

A line is named SUBJECT.CASE; lines next to each other are sampled next to each other, in every round. A ratio compares
two lines of the same round, so that a machine that drifts does not count."""
import collections

Line = collections.namedtuple('Line', 'name section text unit source')
Ratio = collections.namedtuple('Ratio', 'text above below least must gate stretch')

THROTTLE = ('CL.THROTTLE', '@user', '99', '100', '1')
THROTTLE_WIRE = ('CL.THROTTLE', 'user:0000000000', '99', '100', '1')
THROTTLE_REPLY = '*5,:0,:100,:99,:-1,:0'
SCRIPTS = ('bucket', 'gcra')
CHECK = ('WEIR.CHECK', '1', 'user', '@user')
DEPTHS = (1, 16, 64)
CONNECTIONS = 50
SERVER_KEYS = 1000000


def _program(section, *rows):
    return [Line(f'{program}.{case}', section, text, 'ns', ('program', program, case)) for program, case, text in rows]


def _network(depth):
    section = f'RESP over TCP, {CONNECTIONS} connections, {depth} commands in flight on each'
    rows = [('echo', 'throttle', 'floor: epoll echo of the same sizes'), ('weir', 'throttle', 'weir CL.THROTTLE'),
            ('redis', 'bucket', 'Redis, token bucket in Lua'), ('exact', 'check', 'weir, exact over Redis'),
            ('weir', 'ping', 'weir PING'), ('redis', 'gcra', 'Redis, leanest GCRA in Lua'),
            ('redis', 'incr', 'Redis INCR'), ('redis', 'ping', 'Redis PING')]
    return [Line(f'{server}.{command}.{depth}', section, text, '/s', ('load', server, command, CONNECTIONS, depth))
            for server, command, text in rows]


def _single(section, kind, rows):
    return [Line(f'{server}.{command}.{kind}', section, text, 'us', ('load', server, command, 1, 1))
            for server, command, text in rows]


LINES = [
    *_program('One hot key, one thread',
              ('cas', 'given-1', 'floor: bare compare-and-swap loop, clock given'),
              ('weir1', 'hot-given-1', 'weir, clock given'),
              ('cas', 'clock', 'floor: one reading of the clock'),
              ('cas', 'own-1', 'floor: bare loop that reads the clock'),
              ('weir1', 'hot-own-1', 'weir, own clock'),
              ('weir1', 'hot-bucket-1', 'weir, own clock, bucket without a definition'),
              ('go1', 'hot-1', 'x/time/rate'),
              ('rust1', 'hot-1', 'governor'),
              ('weir1', 'hot-batch32-1', 'weir, own clock, batches of 32'),
              ('cas', 'deny-1', 'floor, refused'),
              ('weir1', 'hot-deny-1', 'weir, refused'),
              ('go1', 'deny-1', 'x/time/rate, refused'),
              ('rust1', 'deny-1', 'governor, refused')),
    *_program('One hot key, two threads',
              ('cas', 'given-2', 'floor: bare compare-and-swap loop, clock given'),
              ('weir1', 'hot-given-2', 'weir, clock given'),
              ('cas', 'own-2', 'floor: bare loop that reads the clock'),
              ('weir1', 'hot-own-2', 'weir, own clock'),
              ('go1', 'hot-2', 'x/time/rate'),
              ('rust1', 'hot-2', 'governor'),
              ('cas', 'deny-2', 'floor, refused'),
              ('weir1', 'hot-deny-2', 'weir, refused'),
              ('go1', 'deny-2', 'x/time/rate, refused'),
              ('rust1', 'deny-2', 'governor, refused')),
    *_program('1 million keys at random',
              ('weir1', 'key', 'weir, making and hashing the key alone'),
              ('weir1', 'random-own-1', 'weir, one call each, one thread'),
              ('go1', 'random-1', 'x/time/rate, mutex and map, one thread'),
              ('weir1', 'random-batch32-1', 'weir, batches of 32, one thread'),
              ('rust1', 'random-1', 'governor, keyed, one thread'),
              ('weir1', 'random-own-2', 'weir, one call each, two threads'),
              ('go1', 'random-2', 'x/time/rate, mutex and map, two threads'),
              ('weir1', 'random-batch32-2', 'weir, batches of 32, two threads'),
              ('rust1', 'random-2', 'governor, keyed, two threads')),
    *_program('10 million keys at random',
              ('memory', 'dependent', 'floor: one dependent miss'),
              ('memory', 'dependent-clock', 'floor: the same, with the clock read and the line written'),
              ('weir10', 'random-own-1', 'weir, one call each, one thread'),
              ('weir10', 'random-given-1', 'weir, one call each, clock given, one thread'),
              ('go10', 'random-1', 'x/time/rate, mutex and map, one thread'),
              ('rust10', 'random-1', 'governor, keyed, one thread'),
              ('memory', 'batch32-1', 'floor: 32 lines prefetched, then swapped, one thread'),
              ('weir10', 'random-batch32-1', 'weir, batches of 32, one thread'),
              ('memory', 'batch32-2', 'floor: 32 lines prefetched, then swapped, two threads'),
              ('weir10', 'random-batch32-2', 'weir, batches of 32, two threads'),
              ('weir10', 'random-own-2', 'weir, one call each, two threads'),
              ('go10', 'random-2', 'x/time/rate, mutex and map, two threads'),
              ('rust10', 'random-2', 'governor, keyed, two threads')),
    *_program('1 million keys are banned',
              ('bans', 'none', 'nobody has an exception: what it costs a request'),
              ('bans', 'hash', 'the hash of the key alone'),
              ('bans', 'miss', 'a request whose key is not banned, one thread'),
              ('bans', 'miss-2', 'a request whose key is not banned, two threads'),
              ('bans', 'hit', 'a request whose key is banned, one thread'),
              ('bans', 'level', 'a million have a level: a request whose key has one, one thread'),
              ('bans', 'reset', 'a million were reset: a request whose key was, one thread')),
    Line('bans.bytes', '1 million keys are banned', 'memory: bytes a key', 'B', ('program', 'bans', 'bytes')),
    Line('growth1.bytes', 'A table from its first key on', '1 million keys: bytes a key', 'B', ('growth', 'growth1', 'bytes')),
    Line('growth10.bytes', 'A table from its first key on', '10 million keys: bytes a key', 'B',
         ('growth', 'growth10', 'bytes')),
    Line('growth10.bytes_most', 'A table from its first key on', '10 million keys: the most on the way', 'B',
         ('growth', 'growth10', 'bytes_most')),
    Line('growth10.worst_us', 'A table from its first key on', 'longest decision by the wall clock', 'us',
         ('growth', 'growth10', 'worst_us')),
    Line('growth10.worst_cpu_us', 'A table from its first key on', 'longest decision by its own processor time', 'us',
         ('growth', 'growth10', 'worst_cpu_us')),
    Line('growth10.p9999_us', 'A table from its first key on', 'one decision in 10,000 takes longer than', 'us',
         ('growth', 'growth10', 'p9999_us')),
    *(line for depth in DEPTHS for line in _network(depth)),
    *_single('One connection, one command in flight: median round trip over TCP', 'rtt',
             [('echo', 'throttle', 'floor: epoll echo of the same sizes'), ('weir', 'throttle', 'weir CL.THROTTLE'),
              ('redis', 'bucket', 'Redis, token bucket in Lua')]),
    *_single('One connection, one command in flight: median round trip over a Unix socket', 'unix',
             [('echo-unix', 'throttle', 'floor: epoll echo of the same sizes'),
              ('weir-unix', 'throttle', 'weir CL.THROTTLE')]),
]

# What is compared: above / below. least: the ratio should be at least this (else: at most). must: what weir promises;
# gate and stretch: what its design aims at. None: shown, not asked.
RATIOS = [
    Ratio('hot key, both read the clock: time of the bare loop', 'weir1.hot-own-1', 'cas.own-1', False, 2, 1.4, 1.15),
    Ratio('hot key, clock given: time of the bare loop', 'weir1.hot-given-1', 'cas.given-1', False, 2, 1.4, 1.15),
    Ratio('hot key: faster than x/time/rate', 'go1.hot-1', 'weir1.hot-own-1', True, None, 2.8, 3.3),
    Ratio('hot key in batches: faster than x/time/rate', 'go1.hot-1', 'weir1.hot-batch32-1', True, None, 7, 9),
    Ratio('hot key: faster than governor', 'rust1.hot-1', 'weir1.hot-own-1', True, None, None, None),
    Ratio('hot key in batches: faster than governor', 'rust1.hot-1', 'weir1.hot-batch32-1', True, None, None, None),
    Ratio('hot key, two threads: faster than x/time/rate', 'go1.hot-2', 'weir1.hot-own-2', True, None, 2, 2.3),
    Ratio('hot key, two threads: faster than governor', 'rust1.hot-2', 'weir1.hot-own-2', True, None, None, None),
    Ratio('hot key, two threads, refused: faster than x/time/rate', 'go1.deny-2', 'weir1.hot-deny-2', True, None, 10,
          14),
    Ratio('1 million keys: faster than mutex and map in Go', 'go1.random-1', 'weir1.random-own-1', True, None, 3.5,
          4.5),
    Ratio('1 million keys in batches: faster than mutex and map in Go', 'go1.random-1', 'weir1.random-batch32-1', True,
          None, 30, 60),
    Ratio('1 million keys: faster than governor', 'rust1.random-1', 'weir1.random-own-1', True, None, None, None),
    Ratio('10 million keys: in batches faster than one by one', 'weir10.random-own-1', 'weir10.random-batch32-1', True,
          4, None, None),
    Ratio('10 million keys: time of a dependent miss with clock', 'weir10.random-own-1', 'memory.dependent-clock',
          False, None, 1.4, 1.15),
    Ratio('10 million keys in batches: share of the floor\'s speed', 'memory.batch32-1', 'weir10.random-batch32-1',
          True, None, 0.45, 0.6),
    Ratio('10 million keys in batches: two threads over one', 'weir10.random-batch32-1', 'weir10.random-batch32-2',
          True, None, 1.8, 1.9),
    Ratio('10 million keys: faster than mutex and map in Go', 'go10.random-1', 'weir10.random-own-1', True, None, None,
          None),
    Ratio('10 million keys: faster than governor', 'rust10.random-1', 'weir10.random-own-1', True, None, None, None),
    Ratio('1 million keys: bytes a key', 'growth1.bytes', None, False, 32, 27, 22),
    Ratio('10 million keys: bytes a key', 'growth10.bytes', None, False, 32, 27, 22),
    Ratio('10 million keys: bytes a key while growing', 'growth10.bytes_most', None, False, None, 36, 30),
    Ratio('longest decision while growing, us of its own', 'growth10.worst_cpu_us', None, False, 1000, 1000, 100),
    Ratio('depth 1: faster than the bucket on Redis', 'weir.throttle.1', 'redis.bucket.1', True, 2.5, 2.8, 3.3),
    Ratio('depth 1: share of the echo\'s speed', 'weir.throttle.1', 'echo.throttle.1', True, None, 0.9, 0.95),
    Ratio('depth 16: faster than the bucket on Redis', 'weir.throttle.16', 'redis.bucket.16', True, 12, 18, 25),
    Ratio('depth 16: share of weir\'s own PING', 'weir.throttle.16', 'weir.ping.16', True, None, 0.55, 0.7),
    Ratio('depth 64: faster than the bucket on Redis', 'weir.throttle.64', 'redis.bucket.64', True, 30, 45, 65),
    Ratio('depth 64: faster than INCR on Redis', 'weir.throttle.64', 'redis.incr.64', True, None, 5, 8),
    Ratio('depth 64: faster than the leanest Lua on Redis', 'weir.throttle.64', 'redis.gcra.64', True, None, None, None),
    *(Ratio(f'depth {depth}: exact over Redis, share of the {text}\'s speed', f'exact.check.{depth}',
            f'redis.{script}.{depth}', True, None, None, None)
      for depth in DEPTHS for script, text in (('bucket', 'bucket'), ('gcra', 'leanest Lua'))),
    Ratio('round trip: of the echo\'s', 'weir.throttle.rtt', 'echo.throttle.rtt', False, None, 1.15, 1.05),
    Ratio('round trip: of the bucket on Redis', 'weir.throttle.rtt', 'redis.bucket.rtt', False, None, 0.6, 0.5),
]
