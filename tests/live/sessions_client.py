# SPDX-License-Identifier: Apache-2.0
"""A client of sessions over HTTP, and the configuration of a service of them."""
import contextlib
import http.client
import json
import pathlib
import re
import tempfile
import unittest

from redis_server import wait_for

KEY, OTHER_KEY = 'k' * 32, 'o' * 32


class Client:
    """One kept connection."""

    def __init__(self, port, token=None):
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.headers = {'Authorization': f'Bearer {token}'} if token else {}

    def call(self, method, path, body=None):
        self.connection.request(method, path, body, self.headers)
        self.reply = self.connection.getresponse()
        text = self.reply.read()
        is_json = 'json' in self.reply.headers.get('Content-Type', '')
        return self.reply.status, json.loads(text) if is_json else text.decode()

    def post(self, what, body=None, **members):
        return self.call('POST', '/v1/sessions/' + what, json.dumps(members) if body is None else body)

    def settled(self, what, **members):
        """What is answered once servers answer, which on a busy machine they do not always do in time."""
        answers = []

        def is_settled():
            answers[:] = [self.post(what, **members)]
            return answers[0][0] != 503 or answers[0][1]['verdict'] != 'down'

        with contextlib.suppress(AssertionError):
            wait_for(is_settled, '')
        return answers[0]

    def good(self, what, **members):
        status, answer = self.settled(what, **members)
        assert status == 200, (status, answer)
        return answer

    def metric(self, name):
        text = self.call('GET', '/metrics')[1]
        return float(re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)[1])

    def close(self):
        self.connection.close()


def configuration(servers, *lines, key=KEY, more='limits: []\n'):
    """Of those servers by name; `key` is a file's text, or None."""
    text = more + 'sessions:\n  servers:\n'
    text += ''.join(f'    - {{ name: {name}, url: "{conninfo}" }}\n' for name, conninfo in servers.items())
    if key:
        path = pathlib.Path(KEYS.name, key[0])
        path.write_text(key + '\n', encoding='utf-8')
        text += f'  keys: [{{ id: 1, file: {path} }}]\n'
    return text + ''.join(f'  {line}\n' for line in lines)


KEYS = tempfile.TemporaryDirectory(prefix='weir-keys-')
unittest.addModuleCleanup(KEYS.cleanup)
