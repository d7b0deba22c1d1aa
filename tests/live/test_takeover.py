#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir serve --take-over: another process goes on with the connections and the counters, or this one does."""
import contextlib
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from redis_server import wait_for
from takeover_fake import GO, STEPS, Fake, Refused
from weir_server import BUILD, DRAIN_TIMEOUT_S, Resp, resp_encode

NEVER = 'limits:\n  - { name: once, key: [user], rate: 1/day, burst: 1000, algorithm: token_bucket }\n'


class Chain:
    """Weirs that take over one from the other, all with the same folder, configuration and --take-over. A context
    manager; `outputs` are what they have said."""

    def __init__(self, config=NEVER, arguments=(), threads=2, sockets=False, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-takeover-')
        self.path = pathlib.Path(self.folder.name)
        self.config = self.path / 'weir.yaml'
        self.config.write_text(config, encoding='utf-8')
        if sockets:
            arguments = ('--resp', f'unix:{self.path}/resp', '--http', f'unix:{self.path}/http', *arguments)
        self.arguments, self.threads, self.processes = arguments, threads, []
        self.environment = environment or {}
        self.first = self.start()
        self.wait_for(self.first, r'\bstarted\b')
        self.resp, self.http = self.port('resp'), self.port('http')

    def start(self, arguments=None, threads=None):
        """One more; returns its number, whether it is ready or not."""
        number = len(self.processes)
        arguments = self.arguments if arguments is None else arguments
        resp = [] if '--resp' in arguments else ['--resp', '127.0.0.1:0']
        http = [] if '--http' in arguments else ['--http', '127.0.0.1:0']
        with open(self.path / f'log{number}', 'wb') as log:
            self.processes.append(subprocess.Popen(
                [str(BUILD / 'weir'), 'serve', '--config', str(self.config), *resp, *http, '--threads',
                 str(threads or self.threads), '--take-over', str(self.path / 'takeover'), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=dict(os.environ, STATE_DIRECTORY=self.folder.name, **self.environment)))
        return number

    def output(self, number):
        return (self.path / f'log{number}').read_text(encoding='utf-8', errors='replace')

    def port(self, name, number=0):
        match = re.search(rf'\b{name} listening on 127\.0\.0\.1:(\d+)', self.output(number))
        return int(match[1]) if match else None

    def wait_for(self, number, pattern):
        """Until it has said so, or has ended."""
        process = self.processes[number]
        wait_for(lambda: re.search(pattern, self.output(number)) or process.poll() is not None, pattern)
        assert re.search(pattern, self.output(number)), (process.poll(), self.outputs())

    def outputs(self):
        return '\n'.join(f'--- {i}\n{self.output(i)}' for i in range(len(self.processes)))

    def ended(self, number):
        return self.processes[number].wait(DRAIN_TIMEOUT_S)

    def take_over(self, **options):
        """By one more, and the one before has ended well."""
        number = self.start(**options)
        self.wait_for(number, r'\bstarted\b')
        assert self.ended(number - 1) == 0, self.outputs()
        return number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        try:
            for process in self.processes:
                process.wait(DRAIN_TIMEOUT_S)
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            self.left = sorted(path.name for path in self.path.iterdir())
            self.folder.cleanup()


def descriptors(pid):
    """What it has open, by kind: numbers differ."""
    return sorted(re.sub(r'\d+', '', os.readlink(entry)) for entry in pathlib.Path(f'/proc/{pid}/fd').iterdir()
                  if entry.is_symlink())


def check(client, user='ada'):
    """Of an http.client connection: the status."""
    client.request('POST', '/v1/check', body=f'{{"attributes": {{"user": "{user}"}}}}',
                   headers={'Content-Type': 'application/json'})
    answer = client.getresponse()
    answer.read()
    return answer.status, answer.getheader('Connection')


class HandsOver(unittest.TestCase):
    def test_descriptors_do_not_add_up(self):
        """From one to the next: each closes what it was passed and does not keep."""
        with Chain() as chain, Resp(chain.resp) as resp:
            number, seen = 0, []
            for _ in range(4):
                number = chain.take_over()
                self.assertEqual(resp.ask('PING'), 'PONG')
                seen.append(descriptors(chain.processes[number].pid))
            for i, one in enumerate(seen[1:]):
                self.assertEqual(one, seen[0], i)

    def test_connections_and_counters_go_on(self):
        with Chain() as chain, Resp(chain.resp) as resp, \
                contextlib.closing(http.client.HTTPConnection('127.0.0.1', chain.http, timeout=60)) as web:
            admitted = 0
            for _ in range(4):
                for _ in range(200):
                    admitted += resp.ask('WEIR.CHECK', 1, 'user', 'ada')[0]
                    status, connection = check(web)
                    self.assertNotEqual(connection, 'close')
                    admitted += status == 200
                chain.take_over()
            self.assertEqual(admitted, 1000)
            with Resp(chain.resp) as new:
                self.assertEqual(new.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0)
                self.assertEqual(new.ask('PING'), 'PONG')
            self.assertIn('taken_over', chain.output(0))

    def test_it_starts_as_ever_where_nobody_is(self):
        """Also where one was killed, whose socket is left over."""
        with Chain() as chain:
            chain.processes[0].kill()
            chain.ended(0)
            number = chain.start()
            chain.wait_for(number, r'\bstarted\b')
            self.assertNotIn('taking over', chain.output(number))

    def test_one_that_ends_is_not_taken_over(self):
        """Its successor starts as ever, though it still answers somebody."""
        config = NEVER + '  - { name: line, key: [queue], rate: 1/90s, burst: 9, algorithm: leaky_bucket, throttle: hold,' \
                         ' hold_timeout: 100s }\n'
        with Chain('server: { drain_timeout: 5min }\n' + config) as chain:
            with Resp(chain.resp) as client:
                client.send(resp_encode('WEIR.CHECK', 1, 'queue', 'q') * 2)
                self.assertEqual(client.read()[0], 1)
                chain.processes[0].terminate()
                wait_for(lambda: not (chain.path / 'takeover').exists(), 'it can still be taken over')
                chain.wait_for(chain.start(), r'\bstarted\b')
                self.assertIsNone(chain.processes[0].poll())
                self.assertTrue((chain.path / 'takeover').exists())
            self.assertEqual(chain.ended(0), 0)
            self.assertTrue((chain.path / 'takeover').exists())
            chain.take_over()

    def test_with_more_loops_and_with_fewer(self):
        """A queue of each listening socket is kept: who has connected is answered, by whichever loop."""
        with Chain(threads=4) as chain:
            for threads in (1, 3):
                with contextlib.ExitStack() as stack:
                    clients = [stack.enter_context(Resp(chain.resp)) for _ in range(20)]
                    self.assertEqual([client.ask('PING') for client in clients], ['PONG'] * 20)
                    chain.take_over(threads=threads)
                    clients += [stack.enter_context(Resp(chain.resp)) for _ in range(20)]
                    self.assertEqual([client.ask('PING') for client in clients], ['PONG'] * 40)


class GoesOn(unittest.TestCase):
    """Whatever becomes of the successor before it decides, the predecessor has lost nothing."""

    def setUp(self):
        self.chain = Chain()
        self.addCleanup(self.chain.__exit__, None, None, None)
        self.resp = Resp(self.chain.resp)
        self.addCleanup(self.resp.__exit__, None, None, None)
        self.web = http.client.HTTPConnection('127.0.0.1', self.chain.http, timeout=60)
        self.addCleanup(self.web.close)
        self.admitted = 0
        self.ask()

    def ask(self):
        """Over the same connections, and a new one."""
        with Resp(self.chain.resp) as new:
            self.admitted += new.ask('WEIR.CHECK', 1, 'user', 'ada')[0]
        self.admitted += self.resp.ask('WEIR.CHECK', 1, 'user', 'ada')[0]
        status, connection = check(self.web)
        self.assertEqual((status, connection), (200, None))
        self.admitted += 1

    def test_it_ends_at_any_step(self):
        open_before = descriptors(self.chain.processes[0].pid)
        for count, step in enumerate(STEPS):
            with self.subTest(step):
                with Fake(self.chain.path / 'takeover') as fake:
                    fake.go_to(step)
                    if step in ('handed', 'taken', 'told'):
                        self.assertEqual(fake.connections, 2)
                wait_for(lambda: self.chain.output(0).count('take_over_failed') > count, 'it is not noticed')
                self.ask()
                wait_for(lambda: descriptors(self.chain.processes[0].pid) == open_before, 'descriptors are left')
        self.chain.take_over()
        self.ask()
        rest = sum(iter(lambda: self.resp.ask('WEIR.CHECK', 1, 'user', 'ada')[0], 0))
        self.assertEqual(self.admitted + rest, 1000)

    def test_it_is_killed_at_any_time(self):
        """A real one, at moments that the clock chooses."""
        ended = 0
        for i in range(12):
            number = self.chain.start()
            time.sleep(0.004 * i)
            self.chain.processes[number].kill()
            self.chain.ended(number)
            if self.chain.processes[0].poll() is not None or 'taken_over' in self.chain.output(0):
                break  # it decided already when it was killed
            self.ask()
            ended += 1
        self.assertGreater(ended, 2)

    def test_one_that_does_not_say_what_it_does_after_go_is_ended(self):
        """It may decide by then: there is no going on before it is gone."""
        for words in ((), ('ready',), ('nonsense',)):
            with self.subTest(words):
                fake = subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name('takeover_fake.py')),
                                         str(self.chain.path / 'takeover'), 'told', *words], stdout=subprocess.PIPE)
                try:
                    self.assertEqual(fake.stdout.readline(), b'told\n')
                    self.assertEqual(fake.wait(20), -signal.SIGKILL)
                finally:
                    fake.kill()
                    fake.wait()
                    fake.stdout.close()
                self.ask()

    def test_another_protocol_is_refused(self):
        with Fake(self.chain.path / 'takeover', protocol=2) as fake:
            with self.assertRaisesRegex(Refused, 'hands over in another way'):
                fake.go_to('greeted')
        self.ask()

    def test_two_at_once(self):
        with Fake(self.chain.path / 'takeover') as fake:
            fake.go_to('greeted')
            number = self.chain.start()
            self.assertEqual(self.chain.ended(number), 2)
            self.assertIn('another process is taking this weir over', self.chain.output(number))
        self.ask()

    def test_a_wrong_configuration_changes_nothing(self):
        self.chain.config.write_text('limits: [ { name: once } ]\n', encoding='utf-8')
        number = self.chain.start()
        self.assertEqual(self.chain.ended(number), 2)
        self.assertNotIn('taken_over', self.chain.output(0))
        self.ask()

    def test_a_signal_ends_it_and_not_the_successor(self):
        with Fake(self.chain.path / 'takeover') as fake:
            fake.go_to('handed')
            self.chain.processes[0].terminate()
            with self.assertRaisesRegex(Refused, 'this weir ends'):
                fake.hear_until(GO)
        self.assertEqual(self.chain.ended(0), 0)


if __name__ == '__main__':
    unittest.main()
