#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gRPC listener with the clients that exist: health, reflection, TLS, tokens, timeouts, the end."""
import contextlib
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

import python_packages  # first: it finds grpc
import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import h2_raw
from grpc_case import GrpcCase
from ports import free_port
from test_modules import mapped
from test_tls import make_certificate
from weir_server import BUILD, Weir

GRPC = ('--grpc', '127.0.0.1:0')
TIMEOUT_S = 60
ENVOY_SERVICE = 'envoy.service.ratelimit.v3.RateLimitService'
SERVICES = [ENVOY_SERVICE, 'grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection']


def health(channel):
    return health_pb2_grpc.HealthStub(channel)


def check(channel, service='', **options):
    return health(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S, **options).status


def metrics(weir):
    return subprocess.run(['curl', '-s', f'http://127.0.0.1:{weir.http}/metrics'], capture_output=True, text=True, check=True).stdout


class Plain(GrpcCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = cls.enterClassContext(Weir(arguments=GRPC))
        cls.channel = cls.enterClassContext(grpc.insecure_channel(f'127.0.0.1:{cls.weir.port("grpc")}'))

    def test_health(self):
        for service in ('', *SERVICES):
            self.assertEqual(check(self.channel, service), health_pb2.HealthCheckResponse.SERVING)
        self.refused(grpc.StatusCode.NOT_FOUND, check, self.channel, 'no.such')
        watch = health(self.channel).Watch(health_pb2.HealthCheckRequest(service='no.such'), timeout=TIMEOUT_S)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        watch.cancel()

    def test_reflection_lists_and_describes(self):
        """v1alpha, as grpcio's client asks."""
        database = ProtoReflectionDescriptorDatabase(self.channel)
        self.assertEqual(sorted(database.get_services()), SERVICES)
        pool = DescriptorPool(database)
        for service in SERVICES:
            pool.FindServiceByName(service)
        method = pool.FindServiceByName(ENVOY_SERVICE).methods_by_name['ShouldRateLimit']
        self.assertEqual({name: field.number for name, field in method.input_type.fields_by_name.items()},
                         {'domain': 1, 'descriptors': 2, 'hits_addend': 3})
        descriptor = method.input_type.fields_by_name['descriptors'].message_type
        self.assertEqual({name: field.number for name, field in descriptor.fields_by_name.items()},
                         {'entries': 1, 'limit': 2, 'hits_addend': 3, 'is_negative_hits': 4})

    def test_reflection_v1_is_the_same(self):
        asked = reflection_pb2.ServerReflectionRequest(list_services='*')
        told = []
        for version in ('v1', 'v1alpha'):
            stream = self.channel.stream_stream(f'/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo',
                                                asked.__class__.SerializeToString,
                                                reflection_pb2.ServerReflectionResponse.FromString)
            told.append([one.name for one in next(stream(iter([asked, asked]), timeout=TIMEOUT_S)).list_services_response.service])
        self.assertEqual(told, [SERVICES, SERVICES])
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        answers = list(stub.ServerReflectionInfo(iter([asked] * 50), timeout=TIMEOUT_S))
        self.assertEqual(len(answers), 50)

    def test_no_such_method(self):
        for path in ('/grpc.health.v1.Health/Nothing', '/x.Y/Z', '/', '/' + 'a' * 4000):
            self.refused(grpc.StatusCode.UNIMPLEMENTED, self.channel.unary_unary(path), b'', timeout=TIMEOUT_S)

    def test_compression_is_refused_plainly(self):
        details = self.refused(grpc.StatusCode.UNIMPLEMENTED, check, self.channel, 'x' * 4000, compression=grpc.Compression.Gzip)
        self.assertIn('compressed', details)

    def test_a_message_may_be_so_long(self):
        self.assertIn('body_bytes_max', self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, check, self.channel, 'x' * 70000))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, check, self.channel, 'x' * 60000)

    def test_many_calls_on_one_connection(self):
        with grpc.insecure_channel(f'127.0.0.1:{self.weir.port("grpc")}', [('grpc.use_local_subchannel_pool', 1)]) as channel:
            for _ in range(4):
                calls = [health(channel).Check.future(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S) for _ in range(1000)]
                self.assertEqual({one.result().status for one in calls}, {health_pb2.HealthCheckResponse.SERVING})

    def test_metrics(self):
        check(self.channel)
        self.refused(grpc.StatusCode.NOT_FOUND, check, self.channel, 'no.such')
        text = metrics(self.weir)
        self.assertRegex(text, r'weir_requests_total\{protocol="grpc"\} [1-9]')
        self.assertRegex(text, r'weir_grpc_answers_total\{status="OK"\} [1-9]')
        self.assertRegex(text, r'weir_grpc_answers_total\{status="NOT_FOUND"\} [1-9]')
        self.assertRegex(text, r'weir_request_seconds_count\{protocol="grpc"\} [1-9]')

    def test_what_is_mapped(self):
        """libnghttp2 where something listens for gRPC, and nowhere else."""
        self.assertLessEqual({'weir-grpc', 'libnghttp2', 'libprotobuf-c'}, mapped(self.weir.process))
        with Weir() as other:
            self.assertEqual({'weir-grpc', 'libnghttp2', 'libprotobuf-c'} & mapped(other.process), set())
            self.assertIsNone(other.port('grpc'))
            self.assertNotIn('grpc', metrics(other))


class Places(GrpcCase):
    def test_a_configuration_says_where(self):
        with tempfile.TemporaryDirectory(prefix='weir-grpc-') as folder:
            path = f'{folder}/socket'
            with Weir(f'limits: []\nlisten: {{ grpc: "unix:{path}" }}\n') as weir:
                self.assertIn(f'grpc listening on unix:{path}', weir.output())
                with grpc.insecure_channel(f'unix:{path}') as channel:
                    self.assertEqual(check(channel), health_pb2.HealthCheckResponse.SERVING)
            with Weir(f'limits: []\nlisten: {{ grpc: "unix:{path}" }}\n', arguments=('--grpc', 'off')) as weir:
                self.assertNotIn('grpc', weir.output())

    def test_twice_the_same_port(self):
        port = free_port()
        done = subprocess.run([BUILD / 'weir', 'serve', '--resp', 'off', '--http', f'127.0.0.1:{port}', '--grpc', f'127.0.0.1:{port}',
                               '--locks', 'off'], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'127.0.0.1:{port} is in use', done.stderr)

    def test_an_open_port_needs_tokens(self):
        done = subprocess.run([BUILD / 'weir', 'serve', '--resp', 'off', '--http', 'off', '--grpc', '0.0.0.0:0', '--locks', 'off'],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('grpc would listen on 0.0.0.0 for anybody', done.stderr)


class Secure(GrpcCase):
    @classmethod
    def setUpClass(cls):
        cls.path = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix='weir-grpc-')))
        make_certificate(cls.path, 1)
        cls.weir = cls.enterClassContext(Weir(f'limits: []\ntls: {{ cert: {cls.path}/cert.pem, key: {cls.path}/key.pem }}\n', arguments=GRPC))

    def test_with_alpn(self):
        certificate = (self.path / 'cert.pem').read_bytes()
        with grpc.secure_channel(f'localhost:{self.weir.port("grpc")}', grpc.ssl_channel_credentials(certificate)) as channel:
            self.assertEqual(check(channel), health_pb2.HealthCheckResponse.SERVING)
            answers = [health(channel).Check.future(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S) for _ in range(300)]
            self.assertEqual({one.result().status for one in answers}, {health_pb2.HealthCheckResponse.SERVING})

    def test_what_is_agreed_on(self):
        context = ssl.create_default_context(cafile=str(self.path / 'cert.pem'))
        for offered, port, agreed in ((['h2', 'http/1.1'], 'grpc', 'h2'), ([], 'grpc', None), (['h2', 'http/1.1'], 'http', 'http/1.1'),
                                      (['h2'], 'http', None)):
            context.set_alpn_protocols(offered) if offered else None
            if not offered:
                context = ssl.create_default_context(cafile=str(self.path / 'cert.pem'))
            with socket.create_connection(('127.0.0.1', self.weir.port(port))) as raw:
                with context.wrap_socket(raw, server_hostname='localhost') as sock:
                    self.assertEqual(sock.selected_alpn_protocol(), agreed)
        context.set_alpn_protocols(['http/1.1'])
        with socket.create_connection(('127.0.0.1', self.weir.port('grpc'))) as raw, self.assertRaises(ssl.SSLError) as caught:
            context.wrap_socket(raw, server_hostname='localhost')
        self.assertIn('NO_APPLICATION_PROTOCOL', str(caught.exception).upper().replace(' ', '_'))


class End(GrpcCase):
    def test_a_drain_is_told(self):
        """A client is told twice: that there will be no more, and which call was the last; who watches, that it ends."""
        with Weir(arguments=GRPC) as weir, grpc.insecure_channel(f'127.0.0.1:{weir.port("grpc")}') as channel, \
                h2_raw.Connection(weir.port('grpc')) as raw:
            watch = health(channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
            others = [health(channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S) for _ in range(9)]
            for one in (watch, *others):
                self.assertEqual(next(one).status, health_pb2.HealthCheckResponse.SERVING)
            raw.send(h2_raw.call(1, h2_raw.message()) + h2_raw.call(3, h2_raw.message()))
            self.assertIsInstance(raw.end_of(3), bytes)
            weir.process.send_signal(signal.SIGTERM)
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)
            self.refused(grpc.StatusCode.UNAVAILABLE, next, watch)
            for one in others:
                self.assertEqual(next(one).status, health_pb2.HealthCheckResponse.NOT_SERVING)
                self.refused(grpc.StatusCode.UNAVAILABLE, next, one)
            self.assertEqual(raw.goaway(), (3, 0))
            first = next(payload for kind, _, _, payload in raw.frames if kind == h2_raw.GOAWAY)
            self.assertEqual(int.from_bytes(first[:4], 'big'), 2 ** 31 - 1)
            self.assertTrue(raw.ended)

    def test_an_idle_connection_is_told(self):
        with Weir('limits: []\nserver: { idle_timeout: 1s }\n', arguments=GRPC) as weir, h2_raw.Connection(weir.port('grpc')) as raw:
            raw.send(h2_raw.call(1, h2_raw.message()))
            self.assertIsInstance(raw.end_of(1), bytes)
            self.assertEqual(raw.goaway(), (1, 0))

    def test_a_call_without_its_message_ends(self):
        config = 'limits: []\nserver: { request_timeout: 500ms }\n'
        with Weir(config, arguments=GRPC) as weir, h2_raw.Connection(weir.port('grpc')) as raw:
            raw.send(h2_raw.frame(h2_raw.HEADERS, h2_raw.END_HEADERS, 1, h2_raw.head()))
            self.assertIsInstance(raw.end_of(1), bytes)
            raw.send(h2_raw.call(3, h2_raw.message(size=100) + b'x', ends=False))
            self.assertIsInstance(raw.end_of(3), bytes)
            self.assertIn('weir_grpc_answers_total{status="DEADLINE_EXCEEDED"} 2', metrics(weir))
            with grpc.insecure_channel(f'127.0.0.1:{weir.port("grpc")}') as channel:
                watch = health(channel).Watch(health_pb2.HealthCheckRequest(), timeout=0.7)
                self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
                self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, next, watch)

    def test_a_successor(self):
        """The listener goes over; connections cannot, and are told."""
        with tempfile.TemporaryDirectory(prefix='weir-grpc-') as folder, contextlib.ExitStack() as stack:
            arguments = (*GRPC, '--take-over', f'{folder}/takeover')
            first = stack.enter_context(Weir(arguments=arguments))
            port = first.port('grpc')
            raw = stack.enter_context(h2_raw.Connection(port))
            channel = stack.enter_context(grpc.insecure_channel(f'127.0.0.1:{port}'))
            self.assertEqual(check(channel), health_pb2.HealthCheckResponse.SERVING)
            second = subprocess.Popen([str(BUILD / 'weir'), 'serve', '--config', str(first.config), '--resp', '127.0.0.1:0', '--http',
                                       '127.0.0.1:0', '--threads', '2', *arguments], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
            try:
                said = []
                for line in second.stdout:
                    said.append(line)
                    if 'started' in line:
                        break
                self.assertTrue(any(re.search(rf'grpc listening on 127\.0\.0\.1:{port}\b', line) for line in said), said)
                first.process.wait(TIMEOUT_S)
                self.assertEqual(raw.goaway(), (0, 0))
                self.assertEqual(check(channel, wait_for_ready=True), health_pb2.HealthCheckResponse.SERVING)
            finally:
                second.terminate()
                second.communicate(timeout=TIMEOUT_S)


if __name__ == '__main__':
    unittest.main()
