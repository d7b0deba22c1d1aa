# SPDX-License-Identifier: Apache-2.0
"""Several weir servers that share their limits, nginx in front of them, and clients that count what was admitted."""
import collections
import functools
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from ports import free_port
from weir_server import Resp, Weir, resp_encode

SECRET = '00112233445566778899aabbccddeeff'
NAMES = ('a', 'b', 'c')
NGINX = '''
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 10000000;
  upstream weir {{ {servers} keepalive 64; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://weir;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost;
      proxy_next_upstream off;
    }}
  }}
}}
'''


def wait_for(what, seconds=60, text='waited too long'):
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise AssertionError(text)
        time.sleep(0.02)


def config(limits, redis=None, names=NAMES, extra=''):
    """A configuration for nodes `names`; `redis` is what stands under engine.redis, as YAML text."""
    nodes = ', '.join(f'{{ name: {name}, gossip: "127.0.0.1:{free_port()}" }}' for name in names)
    engine = f'engine: {{ redis: {{ {redis} }} }}\n' if redis else ''
    return f'cluster_secret: {SECRET}\n{engine}cluster: {{ nodes: [{nodes}] }}\n{extra}limits:\n{limits}'


class Nodes:
    """One weir server for each name, all with the same configuration. A context manager."""

    def __init__(self, text, names=NAMES, threads=1):
        self.text, self.threads, self.nodes = text, threads, {}
        try:
            for name in names:
                self.start(name)
        except BaseException:
            self.stop()
            raise

    def start(self, name):
        self.nodes[name] = Weir(self.text, self.threads, ('--node', name))
        return self.nodes[name]

    def __getitem__(self, name):
        return self.nodes[name]

    def reload(self, text):
        self.text = text
        for node in self.nodes.values():
            node.config.write_text(text, encoding='utf-8')
            node.process.send_signal(signal.SIGHUP)

    def ports(self):
        return [node.resp for node in self.nodes.values()]

    def stop(self):
        """Ends all; returns those that did not end well, with what they last said."""
        wrong = []
        for name, node in self.nodes.items():
            output = node.output()[-2000:] if node.log.exists() else ''
            status = node.stop()
            if status != 0:
                wrong.append(f'{name} ended with {status}: {output}')
        return wrong

    def __enter__(self):
        return self

    def __exit__(self, *_):
        wrong = self.stop()
        assert not wrong, f'these nodes did not end well: {wrong}'


class Nginx:
    """nginx in front of servers on these HTTP ports, one after the other. A context manager."""

    def __init__(self, ports):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='weir-nginx-'))
        self.port = free_port()
        servers = ' '.join(f'server 127.0.0.1:{port} max_fails=0;' for port in ports)
        conf = self.folder / 'nginx.conf'
        conf.write_text(NGINX.format(folder=self.folder, servers=servers, port=self.port), encoding='utf-8')
        program = shutil.which('nginx') or '/usr/sbin/nginx'
        self.process = subprocess.Popen([program, '-p', str(self.folder), '-e', str(self.folder / 'error.log'),
                                         '-c', str(conf)], stdin=subprocess.DEVNULL)
        wait_for(self.answers, text='nginx does not answer')

    def answers(self):
        with socket.socket() as sock:
            return sock.connect_ex(('127.0.0.1', self.port)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder)


def get_json(port, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=60) as answer:
        return json.load(answer)


def metrics(port):
    """{name with labels: value}"""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=60) as answer:
        text = answer.read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(r'^(weir_\S+?(?:\{.*\})?) ([-+.0-9e]+)$', text, re.M)}


# ---- clients ----

def check_http(limit, key):
    body = json.dumps({'attributes': {'what': limit, 'user': key}}).encode()
    return b'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' % (
        len(body), body)


class Http:
    """One connection that sends many requests at once and reads their answers in order."""

    HEAD = re.compile(rb'HTTP/1\.1 (\d+) .*?\r\ncontent-length: (\d+)\r\n.*?\r\n\r\n', re.S | re.I)

    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=60)

    def close(self):
        self.socket.close()

    def ask(self, limit, keys):
        """One check for each key; a list of status codes."""
        self.socket.sendall(b''.join(check_http(limit, key) for key in keys))
        statuses, data, at = [], b'', 0
        while len(statuses) < len(keys):
            head = self.HEAD.match(data, at)
            end = head.end() + int(head[2]) if head else 0
            if head and end <= len(data):
                statuses.append(int(head[1]))
                at = end
                continue
            data, at = data[at:] + self.receive(), 0
        return statuses

    def receive(self):
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise ConnectionError('closed')
        return piece


def run_threads(functions):
    """All at once; the first error of any is raised."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:  # handed to the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def ask_front(port, limit, keys, times, seconds=0.0, connections=12, depth=32):
    """Asks through the load balancer for each key `times` times, evenly over so many seconds or as fast as it goes;
    {key: admitted}, by what the clients were told, and how often one was told that the engine does not answer, because it
    or the machine is busy (its breaker sheds), and asked again."""
    order = [key for _ in range(times) for key in keys]
    admitted, lock = collections.Counter(dict.fromkeys(keys, 0)), threading.Lock()
    begun, again = time.monotonic(), [0]

    def client(part):
        http = Http(port)
        for at in range(0, len(part), depth):
            time.sleep(max(0.0, begun + seconds * at / len(part) - time.monotonic()))
            batch, until = part[at:at + depth], time.monotonic() + 60
            while batch:
                statuses = http.ask(limit, batch)
                assert set(statuses) <= {200, 429, 503} and time.monotonic() < until, f'{limit}: {statuses}'
                with lock:
                    admitted.update(key for key, status in zip(batch, statuses) if status == 200)
                    again[0] += statuses.count(503)
                batch = [key for key, status in zip(batch, statuses) if status == 503]
        http.close()

    run_threads([functools.partial(client, order[i::connections]) for i in range(connections)])
    return admitted, again[0]


class Load:
    """Asks servers over RESP, one command at a time on each connection, until stop(). Counts what was admitted, and
    errors, by what they say."""

    def __init__(self, ports, limit, keys=('k',), connections=2, pause_s=0.0):
        self.admitted = dict.fromkeys(keys, 0)
        self.limit, self.keys, self.pause_s = limit, keys, pause_s
        self.asked, self.errors = 0, {}
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(port, i))
                        for port in ports for i in range(connections)]
        for thread in self.threads:
            thread.start()

    def run(self, port, start):
        with Resp(port) as client:
            turn = start
            while not self.ended.is_set():
                key = self.keys[turn % len(self.keys)]
                turn += 1
                self.note(key, self.ask(port, client, 'WEIR.CHECK', 1, 'what', self.limit, 'user', key))
                if self.pause_s:
                    time.sleep(self.pause_s)

    def ask(self, _, client, *words):
        return client.ask(*words)

    def note(self, key, answer):
        with self.lock:
            self.asked += 1
            if isinstance(answer, Exception):
                self.errors[str(answer)] = self.errors.get(str(answer), 0) + 1
            elif answer[0] == 1:
                self.admitted[key] += 1

    def snapshot(self):
        with self.lock:
            return dict(self.admitted)

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def ask_many(port, limit, keys, times, depth=64):
    """Asks one server for each key `times` times over RESP, `depth` at once; {key: admitted}."""
    admitted = dict.fromkeys(keys, 0)
    order = [key for _ in range(times) for key in keys]
    with Resp(port, timeout_s=60) as client:
        for at in range(0, len(order), depth):
            batch = order[at:at + depth]
            client.send(b''.join(resp_encode('WEIR.CHECK', 1, 'what', limit, 'user', key) for key in batch))
            for key in batch:
                answer = client.read()
                assert not isinstance(answer, Exception), answer
                admitted[key] += answer[0]
    return admitted
