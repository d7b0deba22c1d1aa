#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir under a service manager: what it tells and when, a loop that hangs, sockets that are passed, and what is wrong
with them."""
import contextlib
import ctypes
import os
import signal
import socket
import time
import unittest

from service_manager import Service, listening
from weir_server import connect, read_all, read_until, resp_encode

HEALTH = b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
LIMIT = 'limits: [ { name: api, key: [user], rate: %d/min } ]\n'
TOKEN = f'auth: {{ tokens: [ {{ name: proxy, secret: {"t" * 32} }} ] }}\n'
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000


@contextlib.contextmanager
def standing_still(thread):
    """One thread of a child of ours stands still, the others go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ptrace(request):
        if libc.ptrace(request, thread, None, None):
            raise OSError(ctypes.get_errno(), f'ptrace {request:#x}')
    ptrace(PTRACE_SEIZE)
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH)


def asked(place, family=socket.AF_INET, request=HEALTH):
    with socket.socket(family) as sock:
        sock.settimeout(60)
        sock.connect(place)
        sock.sendall(request)
        return read_all(sock)


class Told(unittest.TestCase):
    def test_ready_when_it_listens_and_stopping_at_sigterm(self):
        for abstract in (False, True):
            with Service(LIMIT % 5, abstract=abstract, http='127.0.0.1:0') as service:
                ready = service.hear()
                self.assertEqual(ready['READY'], '1')
                self.assertEqual(ready['STATUS'], f'1 limit of {service.config}')
                port = int(service.output().split('http listening on 127.0.0.1:')[1].split()[0])
                self.assertIn(b'200 OK', asked(('127.0.0.1', port)))
                service.process.terminate()
                self.assertEqual(service.hear(), {'STOPPING': '1'})
                self.assertEqual(service.ended(), 0)
                self.assertIsNone(service.hear(0), 'nothing after the end')

    def test_without_anybody_to_tell(self):
        """A socket that is not there, or none: it serves all the same, and says what is wrong."""
        for place, said in (('/nowhere/notify', 'does not listen: No such file'), ('relative', 'must be /path, or @name'),
                            ('vsock:2:1', 'must be /path'), ('@' + 'x' * 200, r'has 201 bytes \(107 at most\)')):
            with Service(environment={'NOTIFY_SOCKET': place}) as service:
                while 'started' not in service.output():
                    self.assertIsNone(service.process.poll(), service.output())
                    time.sleep(0.01)
                self.assertRegex(service.output(), 'weir: warning: NOTIFY_SOCKET .*' + said)
        with Service(environment={'WATCHDOG_USEC': 'soon'}) as service:
            while 'started' not in service.output():
                self.assertIsNone(service.process.poll(), service.output())
                time.sleep(0.01)
            self.assertIn("WATCHDOG_USEC is 'soon', which is no number", service.output())

    def test_a_reload_begins_and_ends(self):
        with Service(LIMIT % 5) as service:
            service.hear_until('READY')
            before_us = time.monotonic_ns() // 1000
            service.rewrite(LIMIT % 7)
            service.process.send_signal(signal.SIGHUP)
            reloading, ready = service.hear(), service.hear()
            self.assertEqual(reloading['RELOADING'], '1')
            self.assertLessEqual(before_us, int(reloading['MONOTONIC_USEC']))
            self.assertLessEqual(int(reloading['MONOTONIC_USEC']), time.monotonic_ns() // 1000)
            self.assertEqual(ready['READY'], '1')
            self.assertIn('api 5/min -> 7/min', ready['STATUS'])
            service.rewrite('limits: [ 1 ]\n')
            service.process.send_signal(signal.SIGHUP)
            self.assertEqual(service.hear()['RELOADING'], '1')
            failed = service.hear()
            self.assertEqual((failed['READY'], failed['STATUS']),
                             ('1', 'the last reload failed, and the old limits are in force'))

    def test_a_long_status_is_cut_between_characters(self):
        with Service(LIMIT % 5) as service:
            service.hear_until('READY')
            for length in range(4):
                folder = service.path / ('x' * length + 'ä' * 110)
                folder.mkdir()
                other = folder / 'weir.yaml'
                other.write_text('limits: []\n', encoding='utf-8')
                with Service(arguments=('--config', str(other))) as long:  # the later flag wins
                    status = long.hear()['STATUS']  # what is no UTF-8 fails here
                    self.assertTrue(status.endswith('ä'), status)
                    self.assertLess(len(status.encode()), 200)

    def test_many_reloads_at_once_end_ready(self):
        with Service(LIMIT % 5) as service:
            service.hear_until('READY')
            for rate in range(10, 40):
                service.rewrite(LIMIT % rate)
                service.process.send_signal(signal.SIGHUP)
            last, deadline = {}, time.monotonic() + 30
            while '-> 39/min' not in last.get('STATUS', '') and time.monotonic() < deadline:
                last = service.hear(1) or last
            self.assertEqual(last.get('READY'), '1')
            self.assertEqual(service.output().count('reload_failed'), 0)


class Watched(unittest.TestCase):
    def test_alive_as_often_as_is_asked_for_and_not_where_it_is_not(self):
        with Service(watchdog_s=2) as service:
            service.hear_until('READY')
            begun = time.monotonic()
            for _ in range(6):
                self.assertEqual(service.hear(60), {'WATCHDOG': '1'})
            self.assertGreater(time.monotonic() - begun, 2, 'no more than four in its time')
        for environment in ({}, {'WATCHDOG_USEC': '400000', 'WATCHDOG_PID': '1'}):
            with Service(environment=environment) as service:
                service.hear_until('READY')
                self.assertIsNone(service.hear(1))

    def test_a_loop_that_hangs_is_noticed_though_the_others_answer(self):
        with Service(watchdog_s=1, arguments=('--locks', 'off')) as service:
            service.hear_until('WATCHDOG')
            pid = service.process.pid
            threads = [int(name) for name in os.listdir(f'/proc/{pid}/task') if int(name) != pid]
            self.assertEqual(len(threads), 2, 'the loops, and nobody else')
            for i, thread in enumerate(sorted(threads)):
                with standing_still(thread):
                    service.forget(1)
                    self.assertIsNone(service.hear(3), 'the watchdog hears nothing')
                    self.assertRegex(service.output(), f'error loop_hung: loop {i + 1} of 2 has stood still for')
                service.hear_until('WATCHDOG')
                self.assertEqual(service.output().count('loop_back'), i + 1)
            self.assertEqual(service.output().count('loop_hung'), 2)

    def test_the_main_thread_hangs(self):
        with Service(watchdog_s=1) as service:
            service.hear_until('WATCHDOG')
            with standing_still(service.process.pid):
                service.forget(1)
                self.assertIsNone(service.hear(3))
            service.hear_until('WATCHDOG')

    def test_watched_while_it_drains(self):
        held = 'limits: [ { name: line, key: [q], rate: 1/s, burst: 99, algorithm: leaky_bucket, throttle: hold } ]\n'
        with Service(held, watchdog_s=1, resp='127.0.0.1:0') as service:
            service.hear_until('READY')
            port = int(service.output().split('resp listening on 127.0.0.1:')[1].split()[0])
            with connect(port) as sock:
                sock.sendall(resp_encode('WEIR.CHECK', 3, 'q', 'a'))
                read_until(sock, b'\n')
                sock.sendall(resp_encode('WEIR.CHECK', 1, 'q', 'a'))
                service.hear_until('WATCHDOG')
                service.process.terminate()
                service.hear_until('STOPPING')
                service.hear_until('WATCHDOG')
                self.assertTrue(read_all(sock))


class Passed(unittest.TestCase):
    def test_each_socket_serves_what_its_name_says(self):
        with listening() as http, listening() as resp, Service(sockets=(('http', http), ('resp', resp))) as service:
            service.hear_until('READY')
            self.assertIn(f'http listening on 127.0.0.1:{http.getsockname()[1]}\n', service.output())
            service.process.send_signal(signal.SIGHUP)
            service.hear_until('READY')
            self.assertNotIn('kept until a restart', service.output())
            for _ in range(20):
                self.assertIn(b'200 OK', asked(http.getsockname()))
                self.assertEqual(asked(resp.getsockname(), request=b'PING\r\nQUIT\r\n'), b'+PONG\r\n+OK\r\n')

    def test_one_is_passed_and_the_other_is_its_own(self):
        with listening() as http, Service(sockets=(('http', http),), resp='127.0.0.1:0') as service:
            service.hear_until('READY')
            port = int(service.output().split('resp listening on 127.0.0.1:')[1].split()[0])
            self.assertIn(b'200 OK', asked(http.getsockname()))
            self.assertEqual(asked(('127.0.0.1', port), request=b'PING\r\nQUIT\r\n'), b'+PONG\r\n+OK\r\n')

    def test_what_changes_rules_has_a_socket_of_its_own(self):
        rules = b'GET /v1/rules/versions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
        with listening() as http, listening() as admin:
            sockets = (('http', http), ('admin', admin))
            with Service(TOKEN + 'limits: []\n', sockets=sockets) as service:
                service.hear_until('READY')
                self.assertIn(f'admin listening on 127.0.0.1:{admin.getsockname()[1]}\n', service.output())
                self.assertIn(b' 404 ', asked(http.getsockname(), request=rules))
                self.assertIn(b' 401 ', asked(admin.getsockname(), request=rules))
                self.assertIn(b' 200 ', asked(http.getsockname()))
        with listening(('0.0.0.0', 0)) as wide:
            with self.assertRaises(AssertionError) as refused, Service(sockets=(('admin', wide),)) as service:
                self.assertEqual(service.ended(), 2)
            self.assertIn('admin would listen on 0.0.0.0 for anybody', str(refused.exception))

    def test_several_for_one_listener_of_any_kind(self):
        """IPv4, IPv6, a Unix socket, whose file stays, and one of the abstract space."""
        with Service() as other, contextlib.ExitStack() as stack:
            path, name = str(other.path / 'http.sock'), f'\0weir-{os.getpid()}'
            places = [listening(), listening(('::1', 0, 0, 0), socket.AF_INET6), listening(path, socket.AF_UNIX),
                      listening(name, socket.AF_UNIX)]
            for sock in places:
                stack.enter_context(sock)
            with Service(sockets=[('http', sock) for sock in places]) as service:
                service.hear_until('READY')
                self.assertIn(f'http listening on unix:{path}\n', service.output())
                self.assertIn(f'http listening on unix:@{name[1:]}\n', service.output())
                for sock in places:
                    self.assertIn(b'200 OK', asked(sock.getsockname(), sock.family))
            self.assertTrue(os.path.exists(path), 'whose file it is')

    def test_who_comes_between_two_servers_waits_and_is_answered(self):
        """The manager keeps the socket: nobody is refused while weir is started anew."""
        with listening() as http:
            with Service(sockets=(('http', http),)) as service:
                service.hear_until('READY')
                self.assertIn(b'200 OK', asked(http.getsockname()))
            waiting = [socket.create_connection(http.getsockname(), timeout=60) for _ in range(50)]
            for sock in waiting:
                sock.sendall(HEALTH)
            with Service(sockets=(('http', http),)):
                answers = [read_all(sock) for sock in waiting]
            for sock in waiting:
                sock.close()
            self.assertEqual(sum(b'200 OK' in answer for answer in answers), 50)

    def test_one_that_others_can_reach_needs_tokens(self):
        """As an address in the file does; of several, the one that can be reached decides."""
        with listening(('0.0.0.0', 0)) as wide, listening() as near:
            for sockets in ((('http', wide),), (('http', wide), ('http', near)), (('http', near), ('http', wide))):
                with self.assertRaises(AssertionError) as refused, Service(sockets=sockets) as service:
                    self.assertEqual(service.ended(), 2)
                self.assertIn('http would listen on 0.0.0.0 for anybody', str(refused.exception))
            with Service(TOKEN + 'limits: []\n', sockets=(('http', wide), ('http', near))) as service:
                service.hear_until('READY')
                check = b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 17\r\n\r\n' \
                        b'{"attributes":{}}'
                self.assertIn(b' 401 ', asked(('127.0.0.1', wide.getsockname()[1]), request=check))
                self.assertIn(b' 200 ', asked(near.getsockname(), request=check), 'loopback asks nobody')

    def test_what_is_meant_for_another_process_is_left_alone(self):
        with listening() as http, Service(sockets=(('http', http),), environment={'LISTEN_PID': '1'},
                                          arguments=('--http', 'off')) as service:
            service.hear_until('READY')
            self.assertNotIn('http listening', service.output())


class Wrong(unittest.TestCase):
    def refused(self, said, sockets, environment=None, arguments=()):
        service = Service(sockets=sockets, environment=environment, arguments=arguments)
        self.addCleanup(service.stop)
        self.assertEqual(service.ended(), 2, service.output())
        self.assertIn(said, service.output())
        self.assertEqual(len(service.output().splitlines()), 1, service.output())
        self.assertIsNone(service.hear(0), 'it never was ready')

    def test_names(self):
        with listening() as sock:
            for name, said in (('weir.socket', "calls descriptor 3 'weir.socket': FileDescriptorName= must be resp or http or admin"),
                               ('htpp', "'htpp'; did you mean 'http'?"), ('', "calls descriptor 3 ''"),
                               ('\x1b[31m', "'\\x1b[31m'")):
                self.refused(said, ((name, sock),))
            self.refused('must have 1 name, one for each socket', (('http', sock),), {'LISTEN_FDNAMES': 'http:resp'})
            self.refused('must have 2 names, one for each socket', (('http', sock), ('resp', sock)),
                         {'LISTEN_FDNAMES': 'http'})

    def test_numbers(self):
        with listening() as sock:
            self.refused("LISTEN_FDS is '-1', which is no number", (('http', sock),), {'LISTEN_FDS': '-1'})
            self.refused('LISTEN_FDS is 5: at most 4 sockets', (('http', sock),), {'LISTEN_FDS': '5'})
            self.refused("LISTEN_PID is 'me'", (('http', sock),), {'LISTEN_PID': 'me'})
            self.refused('LISTEN_FDS descriptor 4 (resp) is not open', (('http', sock),),
                         {'LISTEN_FDS': '2', 'LISTEN_FDNAMES': 'http:resp'})

    def test_sockets_that_do_not_listen(self):
        with socket.socket() as idle, socket.socket(type=socket.SOCK_DGRAM) as datagram, open('/dev/null', 'rb') as file:
            self.refused('descriptor 3 (http) does not listen: write Accept=no', (('http', idle),))
            self.refused('descriptor 3 (http) is no stream: write ListenStream=', (('http', datagram),))
            self.refused('descriptor 3 (resp) is no socket', (('resp', file),))

    def test_a_flag_that_says_otherwise(self):
        with listening() as sock:
            self.refused('--http (or WEIR_HTTP) was given, and the service manager passes a socket for it', (('http', sock),),
                         arguments=('--http', 'off'))


if __name__ == '__main__':
    unittest.main()
