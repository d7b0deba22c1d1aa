#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/sessions-http.md, literally, with a real primary and its replicas."""
import json
import os
import re
import subprocess
import sys
import unittest

import test_sessions_http as sessions
from redis_server import wait_for
from weir_server import ROOT

PAGE = ROOT / 'docs/sessions-http.md'
# Evaluates each line that it is given.
PAGE_LOOP = '''
import sys
for line in sys.stdin:
    try:
        print(eval(line), flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
'''


class Page(sessions.WithReplicas):
    lines = ('freeze: 20s', 'timeout: 10s')  # the programs take what they are told the first time

    def test_the_page_is_true(self):
        blocks = dict(re.findall(r'^```(sh|python)\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S))
        env = dict(os.environ, WEIR=f'http://127.0.0.1:{self.weir.http}', SERVERS=json.dumps(self.conninfos),
                   **{f'URL_{name}': conninfo for name, conninfo in self.conninfos.items()})
        said = subprocess.run(['sh'], input=blocks['sh'], env=env, check=True, capture_output=True, text=True,
                              timeout=60).stdout.splitlines()
        self.assertIn('token', json.loads(said[0]))
        self.assertRegex(said[1], 'reading at [bc]')
        self.assertEqual(said[2:4], ['ok', 'first'])
        self.assertRegex(said[4], '^w2 ')
        self.assertIn('token', json.loads(said[5]))
        self.assertEqual(self.client.good('route', user='ada')['check'].count(said[4].split()[8]), 2)  # it is counted
        said = subprocess.run([sys.executable, '-'], input=blocks['python'], env=env, check=True, capture_output=True,
                              text=True, timeout=60).stdout
        self.assertEqual(said, "[('first',), ('second',)]\n")

    def test_the_shell_of_the_page_asks_no_server_that_weir_did_not_name(self):
        """Not even the one that psql takes where it is told of none."""
        code = re.search(r'^```sh\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S)[1]
        primary = dict(word.split('=', 1) for word in self.conninfos['a'].split())
        env = dict(os.environ, WEIR='http://127.0.0.1:1', PGHOST=primary['host'], PGPORT=primary['port'],
                   PGUSER=primary.get('user', 'postgres'), PGDATABASE=primary.get('dbname', 'postgres'),
                   **{f'URL_{name}': conninfo for name, conninfo in self.conninfos.items()})
        self.servers['a'].execute('CREATE TABLE IF NOT EXISTS comments (text text)')
        before = self.servers['a'].execute('SELECT count(*) FROM comments')
        run = subprocess.run(['sh'], input=code, env=env, check=False, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(run.stdout, '')
        self.assertEqual(self.servers['a'].execute('SELECT count(*) FROM comments'), before)

    def test_the_python_of_the_page_outlives_restarts_of_the_servers(self):
        """A read that meets a connection which a restart has closed goes elsewhere, or connects anew; a write is told,
        and the next one connects."""
        code = re.search(r'^```python\n(.*?)^```', PAGE.read_text(encoding='utf-8'), re.M | re.S)[1]
        code = code[:code.index("\nwrite('ada'")] + PAGE_LOOP
        self.servers['a'].execute('CREATE TABLE IF NOT EXISTS kept (text text)')
        env = dict(os.environ, WEIR=f'http://127.0.0.1:{self.weir.http}', SERVERS=json.dumps(self.conninfos))
        with subprocess.Popen([sys.executable, '-c', code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            self.addCleanup(process.kill)

            def call(what):
                """On a busy machine the service may not hear a server in time, and answers 503 for a moment."""
                answers = []

                def is_answered():
                    process.stdin.write(what + '\n')
                    process.stdin.flush()
                    answers.append(process.stdout.readline().strip())
                    return answers[-1] != 'HTTPError'

                wait_for(is_answered, f'{what} is refused')
                return answers[-1]

            written, read = "write('eve', 'INSERT INTO kept VALUES (1)')", "len(read('eve', 'SELECT text FROM kept'))"
            self.assertEqual(call(written), 'None')
            for server in 'abc':
                self.assertEqual(call(f"run('{server}', 'SELECT 1')"), '[(1,)]')
            for restarted in ('bc', 'a'):
                rows = call(read)
                for server in restarted:
                    self.servers[server].shut()
                    self.servers[server].start()
                wait_for(lambda: all(server['usable'] for server in self.states().values()), 'they are not usable')
                for _ in range(6):
                    self.assertEqual(call(read), rows)
                self.assertIn(call(written), ('None', 'OperationalError', 'AdminShutdown'))
                self.assertEqual(call(written), 'None')
                self.assertGreater(int(call(read)), int(rows))
            process.stdin.close()


if __name__ == '__main__':
    unittest.main()
