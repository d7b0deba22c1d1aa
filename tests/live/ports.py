# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that must be told theirs before they start, and may be started on it again: nobody else takes them
meanwhile. They are outside of the range from which the system deals, and claimed against other tests until this
process ends."""
import atexit
import pathlib
import random
import socket

DEALT = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range')
PORTS = range(10000, 64000)
TRIES = 1000


def candidates():
    low, high = map(int, DEALT.read_text(encoding='ascii').split())
    return [port for port in PORTS if not low <= port <= high] or list(PORTS)


def is_free(port):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as sock:
            try:
                sock.bind(('', port))
            except OSError:
                return False
    return True


def claimed(port):
    """An abstract name is there once, and goes with its process."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f'\0weir-test-port-{port}')
    except OSError:
        claim.close()
        return False
    atexit.register(claim.close)  # open as long as the process lives
    return True


def free_port():
    for port in random.choices(candidates(), k=TRIES):
        if is_free(port) and claimed(port):
            return port
    raise AssertionError('no port is free')


def free_ports(count):
    return [free_port() for _ in range(count)]
