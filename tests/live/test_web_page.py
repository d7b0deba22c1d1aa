#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A page of some web site makes a browser ask a server on loopback: a real browser attacks, and whoever is none asks."""
import http.client
import http.server
import json
import socket
import subprocess
import threading
import unittest

from browser import visit
from weir_server import FORWARDED_NGINX, NGINX_FIELDS, Weir

# A browser is to ask: what it keeps pages from doing by itself, others may not.
ATTACK_FLAGS = ('--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1',
                '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests')
# What a page can send without being asked first: text/plain, a form, a beacon, an image; and what is asked first.
ATTACK = '''<!doctype html><title>attack</title><body><form id=f method=post enctype=text/plain target=t
  action="WEIR/v1/locks/form/acquire"><input name='{"owner":"page","ttl_ms":86400000,"x' value='":1}'></form>
<iframe name=t></iframe><pre id=out></pre><script>
const body = JSON.stringify({owner: "page", ttl_ms: 86400000}), out = document.getElementById("out");
async function one(name, method, path, options) {
  try {
    const answer = await fetch("WEIR" + path, {method, body: method == "POST" ? body : undefined, ...options});
    out.textContent += name + " " + answer.type + " " + answer.status + "\\n";
  } catch (error) { out.textContent += name + " failed\\n"; }
}
(async () => {
  await one("plain", "POST", "/v1/locks/plain/acquire", {mode: "no-cors"});
  await one("json", "POST", "/v1/locks/json/acquire", {headers: {"Content-Type": "application/json"}});
  await one("read", "GET", "/v1/locks/held", {});
  await one("restored", "POST", "/v1/locks/restored", {mode: "no-cors", body: ""});
  await one("check", "POST", "/v1/check", {mode: "no-cors", body: '{"attributes":{"user":"ada","route":"/api/x"}}'});
  await one("null", "POST", "/v1/locks/null/acquire", {mode: "no-cors", referrerPolicy: "no-referrer"});
  navigator.sendBeacon("WEIR/v1/locks/beacon/acquire", body);
  const image = new Image();
  image.src = "WEIR/v1/locks/held";
  document.getElementById("f").submit();
  await new Promise(resolve => setTimeout(resolve, 1000));
  out.textContent += "done";
})();
</script>'''


class Site:
    """A web site of somebody else's, on loopback for want of another."""

    def __init__(self, page):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header('Content-Type', 'text/html')
                self.send_header('Content-Length', str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def attack(url):
    """What the page of a site of somebody else's could do."""
    return visit(url, 'await shown("#out", "done"); return text_of("#out");', elsewhere=True, flags=ATTACK_FLAGS)[0]


def read(url):
    """What a person reads there."""
    return visit(url, 'return text_of("body");', elsewhere=True, flags=ATTACK_FLAGS)[0]


class WebPage(unittest.TestCase):
    def setUp(self):
        self.weir = Weir(None)  # the example's limits, and locks
        self.addCleanup(lambda: self.assertEqual(self.weir.stop(), 0))

    def ask(self, method, path, body=None, port=None, weir=None, **fields):
        client = http.client.HTTPConnection('127.0.0.1', port or (weir or self.weir).http, timeout=60)
        client.request(method, path, body and json.dumps(body), {k.replace('_', '-'): v for k, v in fields.items()})
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, text

    def metric(self, sample):
        text = self.ask('GET', '/metrics')[1]
        return int(next(line for line in text.splitlines() if line.startswith(sample + ' ')).split()[-1])

    def test_no_page_of_another_site_does_anything(self):
        site = Site(ATTACK.replace('WEIR', f'http://127.0.0.1:{self.weir.http}').encode())
        self.addCleanup(site.stop)
        held = json.loads(self.ask('POST', '/v1/locks/held/acquire', {'owner': 'test', 'ttl_ms': 86400000})[1])
        for host in ('evil.example', 'localhost', '127.0.0.1'):  # cross-site, and two that are of the same machine
            with self.subTest(host=host):
                shown = attack(f'http://{host}:{site.port}/')
                self.assertIn('plain opaque 0', shown, 'the browser did not ask at all')
                self.assertIn('read failed', shown)
        for name in ('plain', 'json', 'form', 'null', 'beacon'):
            self.assertFalse(json.loads(self.ask('GET', f'/v1/locks/{name}')[1])['held'], name)
        again = json.loads(self.ask('POST', '/v1/locks/held/acquire', {'owner': 'test', 'ttl_ms': 86400000})[1])
        self.assertEqual(again['incarnation'], held['incarnation'], 'a page raised the incarnation')
        self.assertEqual(self.metric('weir_requests_total{protocol="resp"}'), 0)
        left = json.loads(self.ask('POST', '/v1/check', {'attributes': {'user': 'ada', 'route': '/api/x'}, 'peek': True})[1])
        self.assertEqual(left['remaining'], 20, 'a page used up a quota')
        self.assertGreaterEqual(self.metric('weir_browser_refused_total{by="origin"}'), 3 * 6)

    def test_no_page_asks_as_a_proxy_does(self):
        """/v1/auth judges no Origin, but a page cannot send the fields that it needs."""
        asked = Weir(FORWARDED_NGINX + 'limits:\n  - { name: all, rate: 100/hour }\n')
        self.addCleanup(asked.stop)
        page = ATTACK.replace('/v1/locks/plain/acquire', '/v1/auth?user=ada').replace('/v1/locks/json/acquire', '/v1/auth')
        page = page.replace('"Content-Type": "application/json"', ', '.join(f'"{k}": "{v}"' for k, v in NGINX_FIELDS.items()))
        site = Site(page.replace('WEIR', f'http://127.0.0.1:{asked.http}').encode())
        self.addCleanup(site.stop)
        shown = attack(f'http://127.0.0.1:{site.port}/')
        self.assertIn('plain opaque 0', shown, 'the browser did not ask at all')
        self.assertIn('json failed', shown)
        left = json.loads(self.ask('POST', '/v1/check', {'attributes': {}, 'peek': True}, weir=asked)[1])
        self.assertEqual(left['remaining'], 100)

    def test_a_name_that_was_made_to_point_here(self):
        """DNS rebinding: the browser takes the server for the attacker's own site, so Origin says nothing."""
        self.ask('POST', '/v1/locks/held/acquire', {'owner': 'whoever', 'ttl_ms': 86400000})
        shown = read(f'http://rebound.example:{self.weir.http}/v1/locks/held')
        self.assertNotIn('whoever', shown)
        self.assertIn('403', shown)
        self.assertGreaterEqual(self.metric('weir_browser_refused_total{by="host"}'), 1)
        shown = read(f'http://127.0.0.1:{self.weir.http}/v1/locks/held')
        self.assertIn('whoever', shown, 'who types the address sees it')

    def test_who_is_no_browser_notices_nothing(self):
        for url in (f'localhost:{self.weir.http}', f'127.0.0.1:{self.weir.http}'):
            out = subprocess.run(['curl', '-sS', '-d', '{"attributes":{"route":"/api/x"}}', f'http://{url}/v1/check'], check=True,
                                 capture_output=True, text=True, timeout=60).stdout
            self.assertTrue(json.loads(out)['admitted'])

    def test_a_dashboard_through_a_tunnel(self):
        """ssh -L 9999:localhost:8080: the page's own requests have the tunnel's port in Origin and in Host."""
        with socket.create_server(('127.0.0.1', 0)) as tunnel:
            port = tunnel.getsockname()[1]

            def carry():
                here = tunnel.accept()[0]
                with here, socket.create_connection(('127.0.0.1', self.weir.http)) as there:
                    there.sendall(here.recv(65536))
                    here.sendall(there.recv(65536))
            thread = threading.Thread(target=carry)
            thread.start()
            status = self.ask('GET', '/v1/nodes', port=port, Host=f'localhost:{port}',
                              Origin=f'http://localhost:{port}', Sec_Fetch_Site='same-origin')[0]
            thread.join(20)
        self.assertEqual(status, 200)

    def test_probes_by_the_name_of_a_service(self):
        for path in ('/healthz', '/readyz'):
            self.assertEqual(self.ask('GET', path, Host='weir.default.svc:8080')[0], 200)
        status, text = self.ask('GET', '/metrics', Host='weir.default.svc:8080')
        self.assertEqual((status, 'hosts' in json.loads(text)['detail']), (403, True))
        named = Weir('listen: { http: { hosts: [weir.default.svc] } }\nlimits: []\n')
        self.addCleanup(named.stop)
        self.assertEqual(self.ask('GET', '/metrics', weir=named, Host='weir.default.svc:8080')[0], 200)
        self.assertEqual(self.ask('GET', '/metrics', weir=named, Host='weir.evil.svc:8080')[0], 403)
        # A page of another origin is refused under every name.
        self.assertEqual(self.ask('GET', '/metrics', weir=named, Host='weir.default.svc', Origin='http://evil')[0], 403)
        self.assertEqual(self.ask('GET', '/healthz', weir=named, Origin='null')[0], 403)

    def test_where_a_token_is_asked_for_the_name_does_not_matter(self):
        token = 'a-secret-of-the-live-tests'
        asked = Weir('auth: { required: always, tokens: [ { name: t, secret: %s, rights: [all] } ] }\nlimits: []\n' % token)
        self.addCleanup(asked.stop)
        bearer = {'Authorization': f'Bearer {token}', 'Host': 'weir.anywhere'}
        self.assertEqual(self.ask('POST', '/v1/check', {'attributes': {}}, weir=asked, **bearer)[0], 200)
        self.assertEqual(self.ask('POST', '/v1/check', {'attributes': {}}, weir=asked, **bearer, Origin='null')[0], 403)

    def test_a_proxy_hands_on_what_browsers_tell_it(self):
        """Its client's Origin and Sec-Fetch-Site, under a name of the proxy's own: that is no attack on weir."""
        asked = Weir(FORWARDED_NGINX + 'limits: []\n')
        self.addCleanup(asked.stop)
        for fields in ({'Origin': 'https://shop.example'}, {'Sec_Fetch_Site': 'cross-site'}, {'Host': 'weir_upstream'}):
            self.assertEqual(self.ask('GET', '/v1/auth', weir=asked, **NGINX_FIELDS, **fields)[0], 200)


if __name__ == '__main__':
    unittest.main()
