#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS on both listeners: handshakes, large and small records, a certificate replaced while connections go on."""
import contextlib
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from redis_server import stand_still
from weir_server import Resp, Weir, connect, resp_encode

LIMITS = '''
limits:
  - { name: wide, key: [user], rate: 1000000/s }
'''


class TlsResp(Resp):
    def __init__(self, port, context, timeout_s=60):
        raw = socket.create_connection(('127.0.0.1', port), timeout=timeout_s)
        self.socket = context.wrap_socket(raw, server_hostname='localhost')
        self.file = self.socket.makefile('rb')


def make_certificate(folder, serial, key=('ec', '-pkeyopt', 'ec_paramgen_curve:P-256')):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', *key, '-nodes', '-days',
                    '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-set_serial', str(serial),
                    '-keyout', folder / 'key.pem', '-out', folder / 'cert.pem'], check=True, capture_output=True)


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='weir-live-')
        cls.path = pathlib.Path(cls.folder.name)
        make_certificate(cls.path, 1)
        cls.config = f'tls: {{ cert: {cls.path}/cert.pem, key: {cls.path}/key.pem }}\n' + LIMITS
        cls.weir = Weir(cls.config)

    @classmethod
    def tearDownClass(cls):
        status = cls.weir.stop()
        cls.folder.cleanup()
        assert status == 0

    def context(self, **options):
        context = ssl.create_default_context(cafile=str(self.path / 'cert.pem'))
        for name, value in options.items():
            setattr(context, name, value)
        return context

    def test_a_unix_socket_is_plain(self):
        """Nobody listens in on it, and a proxy beside weir needs no certificate."""
        with tempfile.TemporaryDirectory(prefix='weir-live-') as folder:
            weir = Weir(f'listen: {{ admin: "unix:{folder}/admin" }}\n' + self.config)
            self.addCleanup(weir.stop)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(60)
                sock.connect(f'{folder}/admin')
                sock.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                self.assertIn(b' 200 ', sock.recv(4096))

    def test_versions(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(minimum_version=version, maximum_version=version)
            with TlsResp(self.weir.resp, context) as client:
                self.assertEqual(client.ask('CL.THROTTLE', version.name, 15, 30, 60), [0, 16, 15, -1, 2])

    def test_every_cipher_of_tls_1_2_is_forward_secret(self):
        """With an RSA key, whose owner could also be sent the session's key: who has recorded that reads it later."""
        with tempfile.TemporaryDirectory(prefix='weir-live-') as folder:
            path = pathlib.Path(folder)
            make_certificate(path, 7, ('rsa:2048',))
            with Weir(f'tls: {{ cert: {path}/cert.pem, key: {path}/key.pem }}\n' + LIMITS) as weir:
                def offers(ciphers):
                    context = ssl.create_default_context(cafile=str(path / 'cert.pem'))
                    context.maximum_version = ssl.TLSVersion.TLSv1_2
                    context.set_ciphers(ciphers + ':@SECLEVEL=0')
                    try:
                        with TlsResp(weir.resp, context) as client:
                            return client.ask('PING') == 'PONG' and client.socket.cipher()[0]
                    except (ssl.SSLError, ConnectionError):
                        return None
                self.assertEqual(offers('ECDHE-RSA-AES128-GCM-SHA256'), 'ECDHE-RSA-AES128-GCM-SHA256')
                for ciphers in ('kRSA', 'AES128-SHA', 'AES256-GCM-SHA384', 'ECDHE-RSA-AES128-SHA', 'PSK', 'aNULL'):
                    self.assertIsNone(offers(ciphers), ciphers)

    def test_pipelines_larger_than_a_record(self):
        text = b'y' * 3000
        with TlsResp(self.weir.resp, self.context()) as client:
            for _ in range(3):
                client.send(resp_encode('ECHO', text) * 50)  # 150 KB: several records and several turns
                for _ in range(50):
                    self.assertEqual(client.read(), text)

    def test_many_records_in_one_read(self):
        """TLS takes them all from the socket, which then shows no more, and hands them out one by one."""
        with TlsResp(self.weir.resp, self.context()) as client:
            self.assertEqual(client.ask('PING'), 'PONG')
            stand_still(self.weir.process.pid)
            for i in range(20):
                client.send(resp_encode('PING', str(i)))
            self.weir.process.send_signal(signal.SIGCONT)
            for i in range(20):
                self.assertEqual(client.read(), str(i).encode())

    def test_byte_by_byte(self):
        with TlsResp(self.weir.resp, self.context()) as client:
            for byte in resp_encode('PING', 'x'):
                client.send(bytes([byte]))
            self.assertEqual(client.read(), b'x')

    def test_plain_text_and_silence_are_closed(self):
        with Weir('server: { request_timeout: 1s }\n' + self.config) as weir:
            for data in (resp_encode('PING'), b'\x16\x03\x01', b''):
                with connect(weir.resp) as sock:
                    start = time.monotonic()
                    sock.sendall(data)
                    with contextlib.suppress(ConnectionError):
                        while sock.recv(1000):
                            pass
                    self.assertLess(time.monotonic() - start, 8)  # without the timeout it were 10 s
        with TlsResp(self.weir.resp, self.context()) as client:
            self.assertEqual(client.ask('PING'), 'PONG')

    def test_redis_cli(self):
        answer = subprocess.run(['redis-cli', '--tls', '--cacert', self.path / 'cert.pem', '--sni', 'localhost', '-h',
                                 'localhost', '-p', str(self.weir.resp), 'PING'],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(answer.stdout, 'PONG\n', answer.stderr)

    def test_https(self):
        answer = subprocess.run(['curl', '-sS', '--cacert', self.path / 'cert.pem', '-d', '{"attributes":{"user":"ada"}}',
                                 f'https://localhost:{self.weir.http}/v1/check'],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertIs(json.loads(answer.stdout)['admitted'], True, answer.stderr)

    def reload(self, word):
        before = self.weir.output().count(word)
        self.weir.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while self.weir.output().count(word) == before and time.monotonic() < deadline:
            time.sleep(0.01)

    def serial(self):
        """None while a loop still shows the certificate that is no longer trusted."""
        with contextlib.suppress(ssl.SSLCertVerificationError), connect(self.weir.resp) as raw:
            with self.context().wrap_socket(raw, server_hostname='localhost') as sock:
                return int(sock.getpeercert()['serialNumber'], 16)
        return None

    def wait_for_serial(self, serial):
        deadline = time.monotonic() + 60
        while self.serial() != serial:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_certificate_is_replaced(self):
        with TlsResp(self.weir.resp, self.context()) as old:
            self.assertEqual(old.ask('PING'), 'PONG')
            make_certificate(self.path, 77)
            self.reload('reloaded')
            self.wait_for_serial(77)
            self.assertEqual(old.ask('PING'), 'PONG')

            good = (self.path / 'cert.pem').read_bytes()
            (self.path / 'cert.pem').write_text('no certificate')
            self.reload('stay in force')
            (self.path / 'cert.pem').write_bytes(good)
            self.assertIn('cert', self.weir.output())
            self.wait_for_serial(77)


if __name__ == '__main__':
    unittest.main()
