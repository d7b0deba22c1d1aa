#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir lock NAME -- COMMAND: exit codes, the environment, and that the command never outlives the lease: not when the
service is gone, not when weir lock is stopped or killed."""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from fake_locks import FakeLocks
from weir_server import BUILD, Resp, Weir

# Says each 20 ms that it is alive, and when it is asked to end; ends when asked, unless told not to. Should it outlive
# its test after all, then not for long. A line is one call: print is interrupted between its words.
WORK = '''
import os, signal, sys, time
START = time.monotonic()
def say(word):
    os.write(1, f'{word} {time.monotonic()}\\n'.encode())
def asked(number, frame):
    say('asked')
    if 'deaf' not in sys.argv:
        sys.exit(5)
signal.signal(signal.SIGTERM, asked)
while time.monotonic() < START + 120:
    say('alive')
    time.sleep(0.02)
'''


class Base(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(FakeLocks())
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='weir-lock-')))

    def enterContext(self, manager):  # of Python 3.11, for those before
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def arguments(self, *arguments):
        return [str(BUILD / 'weir'), 'lock', 'job', '--server', self.server.address, '--timeout', '5s', *arguments]

    def lock(self, *arguments, **options):
        return subprocess.run(self.arguments(*arguments), capture_output=True, text=True, timeout=60, check=False,
                              **options)

    def begin(self, *arguments, **options):
        process = subprocess.Popen(self.arguments(*arguments), **options)
        self.addCleanup(self.finish, process)
        return process

    def finish(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(60)
        if process.stdout:
            process.stdout.close()

    def work(self, *words, options=()):
        """weir lock over WORK, once that runs; its output is in a file. The lease is long enough that a busy machine
        does not lose it between two renewals, and its end comes well after the deadline of the holder."""
        self.log = self.folder / 'log'
        with open(self.log, 'wb') as log:
            process = self.begin('--ttl', '20s', *options, '--', sys.executable, '-c', WORK, *words, stdout=log)
        self.until(lambda: self.times('alive'))
        return process

    def times(self, word):
        rows = [line.split() for line in self.log.read_text(encoding='ascii').splitlines()]
        return [float(row[1]) for row in rows if len(row) == 2 and row[0] == word]

    def until(self, condition, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def guards(self, process):
        """Its children of that name that live."""
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
            with contextlib.suppress(OSError):
                pid, rest = path.read_text(encoding='utf-8', errors='replace').split(' (', 1)
                name, state, parent = rest.rpartition(')')[0], *rest.rpartition(')')[2].split()[:2]
                if int(parent) == process.pid and name == 'weir-lock-guard' and state != 'Z':
                    found.append(int(pid))
        return found

    def assert_dead(self):
        """Nothing is written any more, and what was, was written before the service's lease ended."""
        last, deadline = None, time.monotonic() + 60
        while self.times('alive')[-1] != last:
            self.assertLess(time.monotonic(), deadline, 'it goes on')
            last = self.times('alive')[-1]
            time.sleep(0.5)
        self.assertLess(last, self.server.locks['job'].end)


class Codes(Base):
    def test_the_commands_status_is_ours(self):
        for script, code in (('exit 0', 0), ('exit 3', 3), ('kill -9 $$', 137), ('kill -TERM $$', 143)):
            result = self.lock('--', 'sh', '-c', script)
            self.assertEqual((result.returncode, result.stderr), (code, ''))
        self.assertIsNone(self.server.locks['job'].owner)

    def test_the_status_is_known_where_children_are_ignored(self):
        """Some that start others, and do not wait for them, leave it so."""
        ignore = functools.partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN)
        result = self.lock('--', 'sh', '-c', 'exit 3', preexec_fn=ignore)
        self.assertEqual((result.returncode, result.stderr), (3, ''))
        self.assertIsNone(self.server.locks['job'].owner)

    def test_what_is_printed_goes_to_nobody_where_nobody_listens(self):
        result = self.lock('--', '/no/such', preexec_fn=functools.partial(os.close, 2))
        self.assertEqual(result.returncode, 127)
        self.assertEqual(len(self.server.sockets), 1, 'the server got what was meant for people')
        self.assertIsNone(self.server.locks['job'].owner)

    def test_the_environment_carries_the_token(self):
        environment = {**os.environ, 'WEIR_FENCE': '9.9', 'KEPT': 'a=b'}
        result = self.lock('--', 'sh', '-c', 'env | grep -E "^(WEIR_[FLP]|KEPT)" | sort', env=environment)
        self.assertEqual(result.stdout.split(), ['KEPT=a=b', 'WEIR_FENCE=7.1', 'WEIR_FENCE_INCARNATION=7',
                                                 'WEIR_FENCE_NUMBER=1', 'WEIR_LOCK_NAME=job'])

    def test_commands_that_cannot_run(self):
        self.assertEqual(self.lock('--', '/no/such/program').returncode, 127)
        self.assertEqual(self.lock('--', '/etc/passwd').returncode, 126)

    def test_held_is_75_or_as_asked_and_a_wait_is_in_order(self):
        holder = self.begin('--owner', 'first\x1b[2J', '--', 'sleep', '60')
        self.until(lambda: 'job' in self.server.locks)
        result = self.lock('--', 'touch', str(self.folder / 'ran'))
        self.assertEqual(result.returncode, 75)
        self.assertRegex(result.stderr, r'\Aweir: job: is held by first\\x1b\[2J for \d+ ms more, if it does not renew\n\Z')
        self.assertEqual(self.lock('-E', '0', '--wait', '100ms', '--', 'touch', str(self.folder / 'ran')).returncode, 0)
        self.assertEqual(self.lock('--held-exit', '9', '--', 'true').returncode, 9)
        self.assertFalse((self.folder / 'ran').exists())
        asked = self.server.count('WEIR.LOCK')
        waiting = self.begin('--wait', '30s', '--', 'true')
        self.until(lambda: self.server.count('WEIR.LOCK') > asked)
        holder.terminate()
        self.assertEqual((holder.wait(60), waiting.wait(60)), (143, 0))

    def test_a_wait_goes_on_where_the_server_has_ended_it(self):
        holder = self.begin('--owner', 'first', '--', 'sleep', '60')
        self.until(lambda: 'job' in self.server.locks)
        self.server.hasty = True
        self.assertEqual(self.lock('--wait', '300ms', '--', 'true').returncode, 75)
        before = self.server.count('WEIR.LOCK')
        waiting = self.begin('--wait', '30s', '--', 'true')
        self.until(lambda: self.server.count('WEIR.LOCK') >= before + 3)
        self.assertIsNone(waiting.poll())
        holder.terminate()
        self.assertEqual((holder.wait(60), waiting.wait(60)), (143, 0))

    def test_no_answer_is_69_and_the_command_does_not_run(self):
        self.server.mute = True
        self.assertEqual(self.lock('--', 'touch', str(self.folder / 'ran')).returncode, 69)
        self.server.stop()
        result = self.lock('--', 'touch', str(self.folder / 'ran'))
        self.assertEqual(result.returncode, 69)
        self.assertIn('refused', result.stderr)
        self.assertFalse((self.folder / 'ran').exists())

    def test_an_answer_that_is_lost_stays_unknown(self):
        with socket.create_server(('127.0.0.1', 0)) as listener:
            self.server.address = f'127.0.0.1:{listener.getsockname()[1]}'
            process = self.begin('--', 'true', stderr=subprocess.PIPE)
            sock, _ = listener.accept()
            sock.recv(4096)
            sock.sendall(b'*2\r\n$6\r\nserver\r\n$4\r\nweir\r\n')
            self.assertIn(b'WEIR.LOCK', sock.recv(4096))
            listener.close()
            sock.close()
            with process.stderr as errors:
                self.assertIn(b'unknown whether it was granted', errors.read())
            self.assertEqual(process.wait(60), 69)

    def test_wrong_arguments_are_2(self):
        for arguments in ((), ('--',), ('--ttl', '1s', '--', 'true'), ('--ttl', '0', '--', 'true'),
                          ('--ttl', 'x', '--', 'true'), ('two', '--', 'true'),
                          ('--wait', '2day', '--', 'true'), ('-E', '256', '--', 'true'), ('--nonsense', '--', 'true'),
                          ('--owner', '', '--', 'true'), ('--token-file', '/no/such', '--', 'true'),
                          ('--server', 'nowhere', '--', 'true')):
            result = self.lock(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr, arguments)

    def test_a_token_comes_from_a_file(self):
        path = self.folder / 'token'
        path.write_text('from-a-file\n', encoding='ascii')
        self.assertEqual(self.lock('--token-file', str(path), '--', 'true').returncode, 0)
        self.assertEqual(self.server.commands[0], ['HELLO', '2', 'AUTH', 'default', 'from-a-file'])

    def test_a_token_comes_from_a_pipe_that_somebody_writes(self):
        reads, writes = os.pipe()
        process = self.begin('--token-file', f'/dev/fd/{reads}', '--', 'true', pass_fds=[reads])
        os.close(reads)
        time.sleep(0.2)  # it may be waiting by now, or not yet
        os.write(writes, b'from-a-pipe\n')
        os.close(writes)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.server.commands[0], ['HELLO', '2', 'AUTH', 'default', 'from-a-pipe'])
        asked = list(self.server.commands)
        path = self.folder / 'pipe'
        os.mkfifo(path)
        result = self.lock('--token-file', str(path), '--', 'true')  # nobody has it open
        self.assertEqual((result.returncode, self.server.commands), (2, asked))
        self.assertIn('must be one line with a token', result.stderr)


class Lease(Base):
    def test_it_is_renewed_while_the_command_runs(self):
        enough = self.folder / 'enough'
        process = self.begin('--ttl', '15s', '--', 'sh', '-c', f'while ! [ -e {enough} ]; do sleep 0.1; done')
        self.until(lambda: self.server.count('WEIR.RELOCK') >= 3)
        enough.touch()
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.server.locks['job'].number, 1)

    def test_a_service_that_is_gone_gets_the_command_asked_to_end(self):
        process = self.work()
        self.server.stop()
        self.assertEqual(process.wait(60), 70)
        self.assertEqual(len(self.times('asked')), 1)
        self.assert_dead()

    def test_one_that_does_not_end_is_killed_at_the_deadline(self):
        process = self.work('deaf')
        self.server.mute = True  # which takes a renewal's whole time to find out
        self.assertEqual(process.wait(60), 70)
        self.assertEqual(len(self.times('asked')), 1)
        self.assertGreater(self.times('alive')[-1], self.times('asked')[0])
        self.assert_dead()

    def test_a_renewal_that_is_denied_kills_at_once(self):
        process = self.work()
        self.server.deny = True
        self.assertEqual(process.wait(60), 70)
        self.assertEqual(self.times('asked'), [])
        self.assert_dead()

    def test_weir_lock_is_stopped_and_the_command_ends_all_the_same(self):
        process = self.work('deaf')
        process.send_signal(signal.SIGSTOP)
        self.until(lambda: time.monotonic() > self.server.locks['job'].end)
        self.assert_dead()
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(60), 70)

    def test_weir_lock_is_killed_and_so_is_all_of_the_group(self):
        self.log = self.folder / 'log'
        script = f'{sys.executable} -c "$0" deaf & wait'
        with open(self.log, 'wb') as log:
            process = self.begin('--ttl', '1hour', '--', 'sh', '-c', script, WORK, stdout=log)
        self.until(lambda: self.times('alive'))
        process.kill()
        process.wait(60)
        self.assert_dead()

    def test_a_guard_that_died_or_is_stopped_is_replaced(self):
        """And the new one does what the old one would have done."""
        self.log = self.folder / 'log'
        script = f'{sys.executable} -c "$0" deaf & wait'
        with open(self.log, 'wb') as log:
            process = self.begin('--ttl', '1hour', '--', 'sh', '-c', script, WORK, stdout=log, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        guards = []

        def another():
            found = self.guards(process)
            if len(found) != 1 or found == guards:
                return False
            guards[:] = found
            return True
        self.until(lambda: self.times('alive') and another())
        for number in (signal.SIGKILL, signal.SIGSTOP) * 2:
            with contextlib.suppress(ProcessLookupError):  # one that stands still on a busy machine is replaced, too
                os.kill(guards[0], number)
            self.until(another)
            self.assertIn(b'guard', process.stderr.readline())
        process.kill()
        process.wait(60)
        self.assert_dead()

    def test_after_a_loss_nobody_is_waited_for(self):
        """Not for the --timeout of a server that says nothing: there is nothing to give back."""
        process = self.work(options=('--timeout', '1hour'))
        self.server.mute = True
        self.assertEqual(process.wait(60), 70)
        self.assert_dead()

    def test_the_first_process_of_a_container_buries_the_dead(self):
        """Whatever loses its parent becomes a child of weir lock there."""
        adopt = functools.partial(ctypes.CDLL(None).prctl, 36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        pids, enough = self.folder / 'pids', self.folder / 'enough'
        script = (f'for i in 1 2 3; do (sh -c "echo \\$\\$ >> {pids}; exec sleep 0.1" &); done; '
                  f'while ! [ -e {enough} ]; do sleep 0.1; done; exit 7')
        process = self.begin('--', 'sh', '-c', script, preexec_fn=adopt)
        self.until(lambda: pids.exists() and len(pids.read_text(encoding='ascii').split()) == 3)
        for pid in pids.read_text(encoding='ascii').split():
            self.until(lambda path=pathlib.Path('/proc', pid): not path.exists())
        enough.touch()
        self.assertEqual(process.wait(60), 7)

    def test_what_the_command_leaves_behind_does_not_outlive_the_lock(self):
        self.log = self.folder / 'log'
        script = f'{sys.executable} -c "$0" deaf & while ! grep -q alive {self.log}; do sleep 0.01; done'
        with open(self.log, 'wb') as log:
            process = self.begin('--ttl', '1hour', '--', 'sh', '-c', script, WORK, stdout=log)
        self.assertEqual(process.wait(60), 0)
        self.assert_dead()

    def test_without_progress_it_is_not_renewed(self):
        enough = self.folder / 'enough'
        steps = f'while ! [ -e {enough} ]; do echo >&$WEIR_PROGRESS_FD; sleep 0.1; done'
        process = self.begin('--ttl', '18s', '--progress', '5s', '--', 'sh', '-c', steps)
        self.until(lambda: self.server.count('WEIR.RELOCK') >= 2)
        enough.touch()
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(self.work(options=('--progress', '100ms')).wait(60), 70)
        self.assert_dead()


class Signals(Base):
    def test_they_are_passed_on_to_the_group(self):
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
            signal.signal(number, usual)  # a test begun in the background ignores them, and so would its children
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.begin('--', 'sh', '-c', 'echo ready; while :; do sleep 0.1; done', stdout=subprocess.PIPE)
            self.assertEqual(process.stdout.readline(), b'ready\n')
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
        self.assertIsNone(self.server.locks['job'].owner)


class Terminal(Base):
    def on_terminal(self, *command):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(str(BUILD / 'weir'), self.arguments('--', *command))
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def read(self, terminal, end):
        text = b''
        while end not in text:
            self.assertTrue(select.select([terminal], [], [], 60)[0], text)
            text += os.read(terminal, 4096)
        return text

    def test_the_command_reads_it_is_interrupted_and_is_stopped(self):
        pid, terminal = self.on_terminal('sh', '-c', 'echo begun; read word; echo got $word; exec sleep 60')
        self.read(terminal, b'begun')
        os.write(terminal, b'this\n')
        self.read(terminal, b'got this')
        os.write(terminal, b'\x1a')  # ^Z
        self.assertTrue(os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]))
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)
        self.assertEqual(os.waitpid(pid, os.WNOHANG), (0, 0))
        os.write(terminal, b'\x03')  # ^C
        status = os.waitpid(pid, 0)[1]
        self.assertEqual((os.WIFEXITED(status), os.WEXITSTATUS(status)), (True, 130))


class Real(unittest.TestCase):
    """With weir itself: what is shown, given back and raised, and a command under its locks."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='weir-lock-')
        self.addCleanup(folder.cleanup)
        config = f'limits: []\nlocks: {{ engine: sqlite, path: {folder.name}/locks.db }}\n'
        self.server = Weir(config)
        self.addCleanup(self.server.stop)
        self.resp, self.http = (('--server', f'127.0.0.1:{port}') for port in (self.server.resp, self.server.http))

    def lock(self, *arguments):
        return subprocess.run([str(BUILD / 'weir'), 'lock', *arguments], capture_output=True, text=True, timeout=60,
                              check=False)

    def test_a_lock_is_shown_and_given_back(self):
        name = 'a/b ä%.'
        free = self.lock('show', name, *self.http)
        self.assertEqual((free.returncode, free.stderr), (1, ''))
        self.assertIn('is free', free.stdout)
        script = 'echo $WEIR_FENCE; exec sleep 60'
        with subprocess.Popen([str(BUILD / 'weir'), 'lock', name, '--owner', 'me:1', *self.resp, '--', 'sh', '-c', script],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
            fence = holder.stdout.readline().strip()
            shown = self.lock('show', name, *self.http)
            self.assertEqual((shown.returncode, shown.stderr), (0, ''))
            rows = dict(line.split(None, 1) for line in shown.stdout.splitlines()[1:])
            self.assertEqual((rows['holder'], rows['token'], rows['waiting']), ('me:1', fence, '0'))
            shown = json.loads(self.lock('show', name, '--json', *self.http).stdout)
            self.assertEqual((shown['held'], shown['holder'], shown['fence']), (True, 'me:1', fence))
            refused = self.lock(name, *self.resp, '--', 'true')
            self.assertEqual(refused.returncode, 75)
            self.assertIn('is held by me:1 for ', refused.stderr)
            self.assertEqual(self.lock('release', name, '--owner', 'you', *self.http).returncode, 1)
            released = self.lock('release', name, '--owner', 'me:1', *self.http)
            self.assertEqual((released.returncode, released.stderr), (0, ''))
            self.assertEqual(self.lock(name, *self.resp, '--', 'true').returncode, 0)
            holder.terminate()  # which finds out that it has lost the lock
            self.assertEqual(holder.wait(60), 70)

    def test_a_holder_of_any_bytes_is_shown(self):
        with Resp(self.server.resp) as resp:
            resp.ask('WEIR.LOCK', 'job', b'n\0l\x1b', 60000)
        shown = self.lock('show', 'job', *self.http)
        self.assertEqual((shown.returncode, shown.stderr), (0, ''))
        self.assertIn('n\\x00l\\x1b\n', shown.stdout)

    def test_restored_raises_the_incarnation(self):
        def fence():
            done = self.lock('job', *self.resp, '--', 'sh', '-c', 'echo $WEIR_FENCE')
            return tuple(map(int, done.stdout.split('.')))
        first = fence()
        said = self.lock('restored', *self.http)
        self.assertEqual((said.returncode, said.stderr), (0, ''))
        second = fence()
        self.assertGreater(second[0], first[0])
        far = second[0] + 1000
        said = json.loads(self.lock('restored', '--at-least', str(far), '--json', *self.http).stdout)
        self.assertGreater(said['incarnation'], far)
        self.assertEqual(fence()[0], said['incarnation'])
        self.assertEqual(self.lock('restored', '--at-least', str(2**62), *self.http).returncode, 2)

    def test_seen_raises_it_for_who_was_fenced(self):
        done = self.lock('job', *self.resp, '--seen', str(2**40), '--', 'sh', '-c', 'echo $WEIR_FENCE_INCARNATION')
        self.assertGreater(int(done.stdout), 2**40)

    def test_wrong_arguments_are_2(self):
        for arguments in (('show',), ('show', 'a', 'b'), ('show', 'a', '--owner', 'x'), ('release', 'a'),
                          ('restored', 'a'), ('restored', '--at-least', 'x'), ('show', 'a', '--server', 'nowhere'),
                          ('show', 'a', '--token-file', '/dev/null')):
            result = self.lock(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr, arguments)

    def test_the_wrong_one_of_the_two_ports_is_told(self):
        for words in (('job', *self.http, '--timeout', '1s', '--', 'true'), ('show', 'job', *self.resp),
                      ('restored', *self.resp)):
            result = self.lock(*words)
            self.assertEqual(result.returncode, 69 if words[0] == 'job' else 2)
            self.assertRegex(result.stderr, 'address of (RESP here.*HTTP for|HTTP here.*RESP for)')

    def test_each_word_has_help_with_examples(self):
        for word in ('show', 'release', 'restored'):
            result = self.lock(word, '--help')
            self.assertEqual((result.returncode, result.stderr), (0, ''))
            self.assertIn('Examples:', result.stdout)

    def test_a_server_without_locks_says_so(self):
        with Weir() as server:
            result = self.lock('job', '--server', f'127.0.0.1:{server.resp}', '--', 'true')
            self.assertEqual(result.returncode, 69)
            self.assertIn('NOLOCKS', result.stderr)
            for words in (('show', 'a'), ('release', 'a', '--owner', 'b'), ('restored',)):
                result = self.lock(*words, '--server', f'127.0.0.1:{server.http}')
                self.assertEqual(result.returncode, 2, words)
                self.assertIn('locks', result.stderr, words)


if __name__ == '__main__':
    unittest.main()
