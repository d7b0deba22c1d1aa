#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three take-overs in a row under the load of hundreds of connections that stay (2,000 in a soak): no error, and every
unit is admitted once."""
import asyncio
import os
import re
import resource
import unittest

from test_takeover import Chain
from weir_server import DRAIN_TIMEOUT_S, resp_encode

CONNECTIONS = {'short': 100, 'soak': 2000}.get(os.environ.get('WEIR_TEST_EFFORT', ''), 400)
KEYS, CAPACITY = 8, 4000
LIMIT = f'limits:\n  - {{ name: once, key: [user], rate: 2/day, burst: {CAPACITY}, algorithm: token_bucket }}\n'


class Load:
    """So many connections, every other one of HTTP, each with one request under way all the time."""

    def __init__(self):
        self.asked, self.admitted, self.errors, self.ended = 0, 0, [], False

    async def resp(self, place, key):
        reader, writer = await open_connection(place)
        request = resp_encode('WEIR.CHECK', 1, 'user', key)
        while not self.ended:
            writer.write(request)
            head = await reader.readline()
            if head != b'*7\r\n':
                raise AssertionError(f'RESP said {head!r}')
            numbers = [await reader.readline()]
            while len(numbers) < 7:
                line = await reader.readline()
                numbers.append(line)
                if line[:1] == b'$' and line != b'$-1\r\n':
                    await reader.readline()
            self.count(numbers[0] == b':1\r\n')
        writer.close()

    async def http(self, place, key):
        reader, writer = await open_connection(place)
        body = b'{"attributes":{"user":"%s"}}' % key.encode()
        request = b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(body) + body
        while not self.ended:
            writer.write(request)
            head = await reader.readuntil(b'\r\n\r\n')
            if head[:12] not in (b'HTTP/1.1 200', b'HTTP/1.1 429') or b'close' in head:
                raise AssertionError(f'HTTP said {head!r}')
            await reader.readexactly(int(re.search(rb'Content-Length: (\d+)', head, re.I)[1]))
            self.count(head[9:12] == b'200')
        writer.close()

    def count(self, admitted):
        self.asked += 1
        self.admitted += admitted

    async def run(self, one, place, key):
        try:
            await one(place, key)
        except Exception as error:  # pylint: disable=broad-except  # whatever it is, it is an error
            self.errors.append(repr(error))

    def begin(self, places):
        """`places`: where RESP and where HTTP is served."""
        return [asyncio.ensure_future(self.run((self.resp, self.http)[i % 2], places[i % 2], f'k{i // 2 % KEYS}'))
                for i in range(CONNECTIONS)]

    async def until(self, more):
        """So many more answers, or an error."""
        wanted = self.asked + more
        while self.asked < wanted and not self.errors:
            await asyncio.sleep(0.005)


async def open_connection(place):
    if isinstance(place, str):
        return await asyncio.open_unix_connection(place)
    return await asyncio.open_connection('127.0.0.1', place)


class UnderLoad(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def take_overs(self, chain, load):
        for _ in range(3):
            await load.until(2 * CONNECTIONS)
            number = chain.start()
            while not re.search(r'\bstarted\b', chain.output(number)) and chain.processes[number].poll() is None:
                await asyncio.sleep(0.01)
            await load.until(2 * CONNECTIONS)
            while chain.processes[number - 1].poll() is None and not load.errors:
                await asyncio.sleep(0.01)
        while load.admitted < KEYS * CAPACITY and not load.errors:
            await load.until(1000)
        await load.until(2 * CONNECTIONS)

    async def serve_all(self, chain, places):
        load = Load()
        tasks = load.begin(places)
        try:
            await asyncio.wait_for(self.take_overs(chain, load), 10 * DRAIN_TIMEOUT_S)
        finally:
            load.ended = True
            await asyncio.wait(tasks, timeout=DRAIN_TIMEOUT_S)
        return load

    def check(self, chain, places):
        load = asyncio.run(self.serve_all(chain, places))
        self.assertEqual(load.errors[:3], [], chain.outputs())
        self.assertEqual(load.admitted, KEYS * CAPACITY, chain.outputs())
        handed = [int(count) for count in re.findall(r'with (\d+) connections? of ours', chain.outputs())]
        self.assertEqual(len(handed), 3, chain.outputs())
        self.assertGreater(min(handed), CONNECTIONS / 2)
        self.assertEqual([process.poll() for process in chain.processes], [0, 0, 0, None])
        print('connections', CONNECTIONS, 'asked', load.asked, 'handed at once', handed, 'ms',
              re.findall(r'nothing was decided for (\d+) ms', chain.outputs()))

    def test_on_ports(self):
        with Chain(LIMIT) as chain:
            self.check(chain, (chain.resp, chain.http))

    def test_on_unix_sockets(self):
        with Chain(LIMIT, sockets=True) as chain:
            self.check(chain, (str(chain.path / 'resp'), str(chain.path / 'http')))
            self.assertTrue((chain.path / 'resp').is_socket())
        self.assertNotIn('resp', chain.left)
        self.assertNotIn('takeover', chain.left)


if __name__ == '__main__':
    unittest.main()
