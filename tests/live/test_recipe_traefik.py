#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/traefik.md as it is printed, with a proxy that does what Traefik documents of forwardAuth (there is no Traefik in
Debian): https://doc.traefik.io/traefik/middlewares/http/forwardauth/."""
import http.client
import http.server
import re
import threading
import unittest

import recipe_case
import recipe_operator

HOP_BY_HOP = {'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te',
              'trailer', 'transfer-encoding', 'upgrade'}


class ForwardAuth:
    """GET to `address` with the fields of the client's request (only `request_fields` of them, if any are named, and none
    that Connection names, after the middleware `headers` has set those of `before`, or removed the empty ones) and
    X-Forwarded-*, which replace the client's. 2xx: the request goes on, with `response_fields` of the answer in place of the
    client's, and without those of `after`. Anything else is the client's answer; none is a 500."""

    def __init__(self, port, address, request_fields, response_fields, before, after, backend_port):
        proxy, self.before, self.after = self, before, after
        self.request_fields = [name.lower() for name in request_fields]
        self.response_fields, self.backend_port = response_fields, backend_port
        self.auth, self.auth_path = re.fullmatch(r'http://([^/]+)(/.*)', address).groups()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                try:
                    proxy.handle(self)
                except OSError:
                    self.send_error(500)

            do_POST = do_PUT = do_FREE = do_GET

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def handle(self, client):
        uri = client.requestline.split(' ')[1]
        named = {name.strip().lower() for name in client.headers.get('Connection', '').split(',')}
        gone = HOP_BY_HOP | named | {name.lower() for name in self.before}
        fields = {name: value for name, value in client.headers.items() if name.lower() not in gone}
        fields |= {name: value for name, value in self.before.items() if value}
        asked = {name: value for name, value in fields.items()
                 if not self.request_fields or name.lower() in self.request_fields}
        said = {'X-Forwarded-Method': client.command, 'X-Forwarded-Proto': 'http', 'X-Forwarded-Port': '80',
                'X-Forwarded-Host': client.headers.get('Host', ''), 'X-Forwarded-Uri': uri,
                'X-Forwarded-For': client.client_address[0]}
        asked = {name: value for name, value in asked.items() if name not in said and name != 'Host'}
        status, head, body = self.ask(self.auth, 'GET', self.auth_path, {**asked, **said})
        if 200 <= status < 300:
            for name in self.response_fields:
                fields = {other: value for other, value in fields.items() if other.lower() != name.lower()}
                if head[name]:
                    fields[name] = head[name]
            fields = {name: value for name, value in fields.items() if name not in self.after}
            status, head, body = self.ask(f'127.0.0.1:{self.backend_port}', client.command, uri, fields)
        client.send_response(status)
        for name, value in head.items():
            if name.lower() not in HOP_BY_HOP | {'content-length', 'date'}:
                client.send_header(name, value)
        client.send_header('Content-Length', str(len(body)))
        client.end_headers()
        client.wfile.write(body)

    @staticmethod
    def ask(address, method, path, fields):
        connection = http.client.HTTPConnection(address, timeout=recipe_case.AWAIT_S)
        try:
            connection.putrequest(method, path, skip_host='Host' in fields)
            for name, value in fields.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


class Traefik(recipe_case.Questions, recipe_case.RecipeCase):
    page = 'traefik.md'
    honest = {'Authorization': 'Bearer ada'}
    other = {'Authorization': 'Bearer bob'}
    own_fields = {}  # of the backend, where it gives back

    def start_proxy(self):
        release = {}
        exec(recipe_case.blocks('caddy.md', 'python')[0].replace(':8080', f':{self.weir.http}'), release)
        self.backend.done = lambda fields: release['release'](fields.get('Weir-Permit'), fields=self.own_fields)
        text = self.printed('yaml', 1)
        lists = {name: re.search(rf'{name}: \[(.*)\]', text)[1].split(', ')
                 for name in ('authRequestHeaders', 'authResponseHeaders')}
        before, after, *_ = [dict(re.findall(r'([\w.-]+): (?:""|(\w+))', fields))
                             for fields in re.findall(r'customRequestHeaders: {(.*?)}', text) + ['']]
        self.proxy = ForwardAuth(self.front, re.search(r'address: (\S+)', text)[1], lists['authRequestHeaders'],
                                 lists['authResponseHeaders'], before, after, self.backend.port)
        self.addCleanup(self.proxy.stop)

    def test_who_hides_his_authorization_from_weir_hides_it_from_the_backend(self):
        self.use_up()
        self.assertEqual(self.get('/api/x', {**self.honest, 'Connection': 'Authorization'})[0], 200)
        self.assertNotIn('Authorization', self.backend.seen[-1][1])

    def test_the_backend_sees_no_permit_of_a_client(self):
        self.get('/api/x', {**self.honest, 'Weir-Permit': 'f' * 50})
        self.assertNotIn('Weir-Permit', self.backend.seen[-1][1])


def with_token(text):
    """The recipe with what the page says of tokens."""
    page = ' '.join((recipe_case.ROOT / 'docs' / 'traefik.md').read_text(encoding='utf-8').split())
    token, fields, order, hide = re.search(
        r'`(X-Weir-Token: TOKEN)` into `names`, and `(.*?)`.*?`(middlewares: .*?)`, with `(.*?)`', page).groups()
    for old, new in (('Weir_Permit: ""', 'Weir_Permit: "", ' + token.replace('TOKEN', recipe_operator.TOKEN)),
                     ('authRequestHeaders: [Authorization]', fields), ('middlewares: [names, weir]', order),
                     ('  routers:\n', f'    {hide}\n  routers:\n')):
        assert old in text or 'middlewares:' not in text, old
        text = text.replace(old, new, 1)
    return text


class Tokens(recipe_operator.Tokens, Traefik):
    """With what the page says of tokens."""
    own_fields = {'X-Weir-Token': recipe_operator.TOKEN}

    def printed(self, language, index=0):
        return with_token(super().printed(language, index))

    def test_the_backend_sees_the_clients_field_and_no_token(self):
        self.assertEqual(self.get('/api/x', {**self.honest, 'X-Weir-Token': 'x'})[0], 200)
        self.assertEqual(self.backend.seen[-1][1]['Authorization'], 'Bearer ada')
        self.assertNotIn('X-Weir-Token', self.backend.seen[-1][1])


class WrongToken(recipe_operator.WrongToken, recipe_case.RecipeCase):
    page, honest, own_fields = Traefik.page, Traefik.honest, {}
    refusal = 401
    start_proxy = Traefik.start_proxy

    def printed(self, language, index=0):
        return with_token(super().printed(language, index))


if __name__ == '__main__':
    unittest.main()
