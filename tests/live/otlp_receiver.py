# SPDX-License-Identifier: Apache-2.0
"""A receiver of OTLP over HTTP, made from the published definitions (tests/otlp). It takes what protobuf's own reader
takes, and nothing that has fields or an order of fields that the definitions do not have. It can be slow, refuse, go
and come back on the same port."""
import contextlib
import http.server
import importlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

from ports import free_port
from weir_server import ROOT

PATH = '/v1/traces'
SERVICE = 'opentelemetry/proto/collector/trace/v1/trace_service'


def definitions():
    """The generated module of the service; its name begins with opentelemetry."""
    folder = tempfile.mkdtemp(prefix='weir-otlp-')
    try:
        source = ROOT / 'tests' / 'otlp'
        subprocess.run(['protoc', f'-I{source}', f'--python_out={folder}',
                        *(str(path) for path in source.rglob('*.proto'))], check=True, timeout=60)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(SERVICE.replace('/', '.') + '_pb2')
        finally:
            sys.path.remove(folder)
    finally:
        shutil.rmtree(folder)


SERVICES = definitions()


def value_of(value):
    return getattr(value, value.WhichOneof('value'))


class Span:
    """One that came, with its resource."""

    def __init__(self, span, resource, scope):
        self.span, self.scope = span, scope
        self.resource = {pair.key: value_of(pair.value) for pair in resource.attributes}
        self.attributes = {pair.key: value_of(pair.value) for pair in span.attributes}
        assert len(self.attributes) == len(span.attributes), 'an attribute stands there twice'
        self.trace, self.parent, self.id = span.trace_id.hex(), span.parent_span_id.hex(), span.span_id.hex()

    def __getitem__(self, name):
        return self.attributes['weir.' + name]

    def get(self, name):
        return self.attributes.get('weir.' + name)


class Receiver:
    """A context manager. `answers`: (status, header fields, body) of the next messages; then all are taken. `gate`: an
    event for which each answer waits. `tls`: a file with a certificate and its key."""

    def __init__(self, port=None, tls=None):
        self.port, self.tls = port or free_port(), tls
        self.spans, self.bodies, self.faults, self.answers, self.statuses = [], [], [], [], []
        self.known = set()  # what comes again has the same ids
        self.asked = threading.Semaphore(0)  # a message has come
        self.gate = threading.Event()
        self.gate.set()
        self.server, self.connections = None, []
        self.start()

    @property
    def url(self):
        return f'http{"s" if self.tls else ""}://127.0.0.1:{self.port}{PATH}'

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                receiver.asked.release()
                receiver.gate.wait()
                status, fields, answer = receiver.answers.pop(0) if receiver.answers else (200, {}, b'')
                receiver.statuses.append(status)
                if status == 200:
                    receiver.take(self.path, self.headers, body)
                self.send_response(status)
                for name, value in {'Content-Type': 'application/x-protobuf', 'Content-Length': str(len(answer)),
                                    **fields}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def get_request(self):
                connection, address = super().get_request()
                receiver.connections.append(connection)
                return connection, address

            def handle_error(self, *_):  # a sender that has gone
                pass

        self.server = Server(('127.0.0.1', self.port), Handler)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, path, headers, body):
        message = SERVICES.ExportTraceServiceRequest.FromString(body)
        if path != PATH or headers['Content-Type'] != 'application/x-protobuf':
            self.faults.append(f'{path} {headers["Content-Type"]}')
        message.DiscardUnknownFields()
        if message.SerializeToString(deterministic=True) != body:
            self.faults.append('it is not what protobuf writes of it')
        self.bodies.append(body)
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if span.span_id not in self.known:
                        self.known.add(span.span_id)
                        self.spans.append(Span(span, resource.resource, scope.scope))

    def stop(self):
        """Nobody listens any more, and nobody is connected."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.gate.set()
        self.stop()
        assert kind or not self.faults, self.faults


def partial(rejected):
    """An answer of a receiver that did not take some of the spans."""
    answer = SERVICES.ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = 'not these'
    return answer.SerializeToString()
