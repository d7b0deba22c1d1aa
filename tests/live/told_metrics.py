# SPDX-License-Identifier: Apache-2.0
"""What servers tell at /metrics, for tests of what asks for it in PromQL; and promtool (Debian: package prometheus)."""
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import urllib.error
import urllib.request

from ports import free_port
from redis_server import wait_for
from weir_server import BUILD, FORWARDED_NGINX, Resp, Weir

OPERATOR = 'operator-0123456789'  # a token
OF_OTHERS = {'up'}  # Prometheus' own
# A server of which everything is wrong: no engine, no other node, no primary, callers without tokens.
CONFIG = FORWARDED_NGINX + '''
auth: { required: always, tokens: [ { name: operator, secret: ''' + OPERATOR + ''', rights: [check, metrics] } ] }
engine: { redis: { servers: [127.0.0.1:1], connect_timeout: 10ms } }
cluster_secret: 00112233445566778899aabbccddeeff
cluster: { node: a, nodes: [ { name: a, gossip: 127.0.0.1:PORT }, { name: b, gossip: 127.0.0.1:1 } ] }
locks: { engine: sqlite, path: FOLDER/locks.db }
table: { snapshot: FOLDER/counters }
sessions: { servers: [ { name: x, url: "host=127.0.0.1 port=1" } ] }
rules: { store: "sqlite:FOLDER/rules.db" }
traces: { endpoint: "http://127.0.0.1:1/v1/traces" }
'''
RULES = '''limits:
  - { name: api, match: { route: /api }, key: [user], rate: 10/min }
  - { name: told, match: { route: /told }, key: [user], rate: 10/min, sharing: gossip }
  - { name: jobs, match: { route: /jobs }, key: [user], rate: 10, algorithm: concurrency, sharing: split }
  - { name: all, match: { route: /all }, key: [], rate: 10/min }
'''
# One that is alone, and well.
ALONE = '''limits:
  - { name: all, match: { route: /all }, key: [], rate: 3/day }
  - { name: api, match: { route: /api }, key: [user], rate: 1/day }
  - { name: quiet, match: { route: /quiet }, key: [user], rate: 1/day, mode: shadow }
  - { name: held, match: { route: /held }, key: [user], rate: 1/s, algorithm: leaky_bucket, throttle: hold }
'''
METRIC = re.compile(r'\b((?:weir|process)_\w+|up)\b(?:\{([^}]*)\})?')
GROUPED = re.compile(r'\b(?:by|on|ignoring|without) \(([^)]*)\)')


def get(weir, path, token=OPERATOR):
    request = urllib.request.Request(f'http://127.0.0.1:{weir.http}{path}',
                                     headers={'Authorization': f'Bearer {token}'} if token else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def samples(text):
    """[(name, {label: value})]"""
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels or ''))) for name, labels in
            re.findall(r'^(\w+)(?:\{(.*)\})? \S+$', text, re.M)]


def ask(weir, *attributes):
    with Resp(weir.resp) as client:
        client.ask('AUTH', OPERATOR)
        for words in attributes:
            client.ask('WEIR.CHECK', 1, *words)


def prepared(folder):
    """The configuration of the first server, whose store has its rules."""
    config = CONFIG.replace('FOLDER', folder).replace('PORT', str(free_port()))
    path = pathlib.Path(folder, 'weir.yaml')
    path.write_text(config, encoding='utf-8')
    subprocess.run([BUILD / 'weir', 'rules', 'apply', '--config', path, '--author', 'ada', '--comment', 'the first', '-'],
                   input=RULES, text=True, capture_output=True, timeout=120, check=True)
    return config


@contextlib.contextmanager
def told():
    """The first server, and what it and the one that is well tell."""
    with tempfile.TemporaryDirectory(prefix='weir-told-') as folder, Weir(prepared(folder)) as weir, Weir(ALONE) as alone:
        ask(weir, ('route', '/api', 'user', 'ada'), ('route', '/api'), ('route', '/other'))
        ask(alone, *[('route', '/all')] * 9, *[('route', path, 'user', 'ada') for path in ('/api', '/quiet') for _ in range(3)])
        try:
            get(weir, '/metrics', None)
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        wait_for(lambda: 'weir_fallback_total{' in get(weir, '/metrics'), 'no fallback is counted')
        wait_for(lambda: 'weir_top_refused_first{' in get(alone, '/metrics'), 'no refusal is told')
        yield weir, samples(get(weir, '/metrics')) + samples(get(alone, '/metrics'))


def selectors(expression):
    """(metric, {label: pattern}) of each metric in it."""
    for name, labels in METRIC.findall(expression):
        yield name, dict(re.findall(r'(\w+)=~?"([^"]*)"', labels))


def labels_of(told_samples, name):
    """All labels that samples of this name have, and those that Prometheus adds."""
    return {'job', 'instance'}.union(*(labels for other, labels in told_samples if other == name))


def untold(told_samples, expression):
    """What an expression asks for and no server tells, as texts."""
    known = set()
    for name, labels in selectors(expression):
        has = [sample for other, sample in told_samples if other == name]
        known |= labels_of(told_samples, name)
        if name in OF_OTHERS:
            continue
        if not has:
            yield f'{name}: no such metric'
        elif labels.get('role') == 'primary':  # there is none here
            if 'role' not in has[0]:
                yield f'{name} has no role'
        elif not any(all(re.fullmatch(value, sample.get(label, '')) for label, value in labels.items()
                         if label not in ('job', 'instance')) for sample in has):
            yield f'{name}: none with {labels}'
    for group in GROUPED.findall(expression):
        for label in set(re.findall(r'\w+', group)) - known - {'le'}:
            yield f'no metric of it has the label {label}'


def promtool(*arguments, stdin=''):
    """Its output; None if all is well."""
    done = subprocess.run(['promtool', *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=600, check=False,
                          env=dict(os.environ, LC_ALL='C'))
    return None if done.returncode == 0 else done.stdout + done.stderr
