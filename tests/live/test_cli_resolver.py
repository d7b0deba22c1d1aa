#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--timeout` of the client bounds the look-up of a name too. In a network namespace all addresses are this machine's, so
that of any nameserver as well: it hears, and is silent. The resolver itself would wait for minutes."""
import os
import subprocess
import sys
import unittest

from weir_server import BUILD

INSIDE = '''
import socket, subprocess, sys
for words in ('link set lo up', 'address add 192.0.2.1/32 dev lo', 'route add local 0.0.0.0/0 dev lo'):
    subprocess.run(['ip', *words.split()], check=True)
servers = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
servers[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for server, address in zip(servers, ('0.0.0.0', '::')):
    server.bind((address, 53))
    server.settimeout(0)
subprocess.run(['ip', '-6', 'route', 'add', 'local', '::/0', 'dev', 'lo'])  # where there is IPv6
def heard(server):
    try:
        return b'example' in server.recv(4096)
    except BlockingIOError:
        return False
for timeout in ('200ms', '2s', '20s'):  # a slow machine has not asked by the first
    asked = subprocess.run([sys.argv[1], 'check', '--server', 'weir.example:80', '--timeout', timeout, 'a=b'],
                           stderr=subprocess.PIPE, text=True, timeout=60)
    known = any(map(heard, servers))
    if known:
        break
print(asked.returncode, known, asked.stderr)
'''


class Resolver(unittest.TestCase):
    def test_one_that_does_not_answer_is_not_waited_for(self):
        run = subprocess.run(['unshare', '--net', sys.executable, '-c', INSIDE, str(BUILD / 'weir')], capture_output=True,
                             text=True, check=False, env=dict(os.environ, RES_OPTIONS='timeout:30 attempts:5'), timeout=120)
        if 'Operation not permitted' in run.stderr:
            self.skipTest('no network namespace')
        self.assertEqual(run.stdout, '2 True weir: weir.example:80: its name was not looked up in time\n\n', run.stderr)


if __name__ == '__main__':
    unittest.main()
