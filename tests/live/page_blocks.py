# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README.md and docs/, and what becomes of each: it runs in test_page_blocks.py (RUNS), another test runs
it (ELSEWHERE), or it cannot run here, and why (NOT_RUN). YAML and C need no entry: all of it is read or compiled."""
import collections
import re
import shlex
import sys

from weir_server import BUILD, ROOT

sys.path.insert(0, str(ROOT / 'scripts'))
import pages

PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
LANGUAGES = {'sh', 'console', 'yaml', 'json', 'c', 'python', 'sql', 'nginx', 'caddyfile', 'haproxy', 'lua', 'text'}
ALL_CHECKED = {'yaml', 'json', 'c', 'text'}  # text is what programs say
Block = collections.namedtuple('Block', 'page language text')


def blocks():
    found = []
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        found += [Block(page.name, match[1], match[2]) for match in re.finditer(r'^```(\S*)\n(.*?)^```$', text, re.M | re.S)]
    return found


def block(page, begin, language=None):
    """The one block of a page that begins so."""
    found = [one for one in blocks() if one.page == page and one.text.startswith(begin) and language in (None, one.language)]
    assert len(found) == 1, f'{page}: {len(found)} blocks begin with {begin!r}'
    return found[0]


# ---- what runs here ----

# A page's blocks one after the other, in a folder of their own and with a network of their own, where no other server is.
# `before` stands for what the page takes for granted. `change` is for places that only an administrator may write to.
# `fails`: commands that end otherwise than with 0, as the page says; {pattern: code}. `says`: what the output must have.
Run = collections.namedtuple('Run', 'page begins before change fails says', defaults=('', {}, {}, ()))
SERVES = 'weir serve >>serve.log 2>&1 & ready\n'
STORE = '''printf 'limits:\\n  - { name: exports, key: [user], rate: 10/day }\\n' > first.yaml
sed 's/10/20/' first.yaml > rules.yaml; printf 'rules: { store: "sqlite:./rules.db" }\\n' > weir.yaml; export EDITOR='sed -i s/20/30/'
'''
APPLIED = STORE + "weir rules apply --config weir.yaml --comment first first.yaml\n"
LOG = '''printf '192.0.2.%s - ada [06/Nov/2026:10:00:0%s +0000] "GET /api/x HTTP/1.1" 200 5 "-" "x"\\n' 1 1 1 1 1 2 2 3 > access.log
'''

RUNS = [
    Run('envoy.md', ['weir serve --config weir.yaml', "curl -s localhost:8080/json"], "cat > weir.yaml <<'END'\n@yaml limits:@END\n",
        says=('grpc listening on 127.0.0.1:8081', '"overallCode":"OK"', '"name":"per-address"')),
    Run('envoy.md', ['weir rules import ratelimit config', 'weir serve --ratelimit-config'],
        "mkdir config; cat > config/edge.yaml <<'END'\n@yaml domain:@END\n",
        says=('name: edge.remote_address', 'grpc listening on 127.0.0.1:8081', r'started.*limits? of .*config')),
    Run('README.md', ['$ redis-cli -p 6380', '$ curl localhost:8080/v1/locks/try-it'], SERVES,
        says=(r'RateLimit: "api-per-user";r=19', r'\* api-per-user +refuses', r'"granted":true', r'}me\n')),
    Run('README.md', ['cp examples/weir.yaml'], LOG, says=('no error|is fine|5 limits', r'4 lines \(combined\)', 'api-per-user', 'admitted')),
    Run('README.md', ['redis-server --port 6379'], says=(r'(?s)ready.*ready.*ready', r'"nodes":3', 'bound|overshoot')),
    Run('README.md', ['build/weir serve & sleep 1'], fails={'never': 75},
        says=(r'token \d+\.1', 'is held by', r'nightly-backup', 'making demo-lock')),
    Run('README.md', ['cc examples/embed.c'], says=('ada +admitted',)),
    Run('index.md', ['weir serve --config nginx.yaml'], "cat > nginx.yaml <<'END'\n@yaml listen:@END\n",
        says=('proxies that can ask at /v1/auth: nginx',)),
    Run('index.md', ['cc examples/embed.c'], says=('ada +admitted',)),
    Run('index.md', ['curl -s localhost:8080/v1/check -d \'{"attributes":{"user"'], SERVES, says=('"admitted":true', r'(?m)^16$', 'admitted')),
    Run('index.md', ['weir rules check examples/cluster.yaml'], says=('payments',)),
    Run('index.md', ['curl -s localhost:8080/v1/check -d \'{"attributes":{"tenant"'],
        "cat > b.yaml <<'END'\n@yaml limits:@END\nweir serve --config b.yaml >>serve.log 2>&1 & ready\n",
        says=('"admitted":true', r'(?s)tokens-per-tenant\n450\ntokens-per-minute\n450')),
    Run('index.md', ['weir lock nightly-digest'], SERVES + "printf '#!/bin/sh\\necho sent $WEIR_FENCE\\n' > send-digest; chmod +x send-digest\n",
        says=(r'sent \d+\.1',)),
    Run('resp.md', ['weir serve & sleep 1', 'redis-cli -p 6380 WEIR.LOCK'],
        says=(r'0\n16\n15\n-1\n2', r'1\n\d{10}\n1\n15000\n1\n\d{10}\n1\n15000\n1\n')),
    Run('log.md', ['curl -s localhost:8080/metrics'], SERVES, says=('weir_decisions_total', '# HELP weir_')),
    Run('http.md', ['$ curl -i localhost:8080/v1/check', '$ curl localhost:8080/v1/locks/import'], SERVES,
        says=('"api-per-user";r=19', '"fence":"', '"holder":"host7:4711"', '"released":true')),
    Run('concurrency.md', ["$ curl localhost:8080/v1/check -d '{\"attributes\":{\"route\":\"/jobs"],
        "cat > c.yaml <<'END'\n@yaml limits:@END\nweir serve --config c.yaml >>serve.log 2>&1 & ready\n",
        {'0200…90e8': '$(curl -s localhost:8080/v1/check -d \'{"attributes":{"route":"/jobs/x","tenant":"b"}}\' | '
                      'sed \'s/.*"permit":"//; s/".*//\')'}, says=('"remaining":49', '"released":true')),
    Run('concurrency.md', ['$ redis-cli -p 6380 WEIR.CHECK 1 route /jobs/x'],
        "cat > c.yaml <<'END'\n@yaml limits:@END\nweir serve --config c.yaml >>serve.log 2>&1 & ready\n",
        {'01…f946': '$(redis-cli -p 6380 WEIR.CHECK 1 route /jobs/y tenant acme | sed -n 8p)'}, says=(r'30000\n30000\n1\n',)),
    Run('reservations.md', ["$ curl localhost:8080/v1/reservations -d"],
        "cat > c.yaml <<'END'\n@yaml limits:@END\nweir serve --config c.yaml >>serve.log 2>&1 & ready\n",
        {'0000…': '$(curl -s localhost:8080/v1/reservations -d \'{"attributes":{"route":"/v1/chat","tenant":"b"},"amount":5000}\' | '
                  'sed \'s/.*"id":"//; s/".*//\')'}, says=('"held":5000', '"held":5500', '"given_back":3766')),
    Run('exceptions.md', ['weir rules ban'], STORE + "sed -i 's/exports/api-per-user/; s/ }$/, levels: { plus: { rate: 99\\/day } } }/' first.yaml\n"
        "weir rules apply --config weir.yaml --comment first first.yaml\n", says=('scrapes the catalogue', 'has paid', 'has stopped')),
    Run('rule-stores.md', ['weir rules apply --config weir.yaml --comment \'the limits'], STORE, says=('1 limit',)),
    Run('rule-stores.md', ['weir rules show --config weir.yaml > rules.yaml\n$EDITOR rules.yaml\nweir rules apply'],
        APPLIED.replace("s/20/30/'", "s/10/20/'"), {"' 41": "' 1"}, says=('10/day -> 20/day', 'too many exports|20/day -> 10/day')),
    Run('rule-stores.md', ['weir rules show --config weir.yaml > rules.yaml\n$EDITOR rules.yaml\nweir rules rollout'],
        APPLIED.replace("s/20/30/'", "s/10/20/'"), {"' 41": "' 1"}, says=('10 %', '50 %', '20/day -> 10/day')),
    Run('rule-stores.md', ['weir rules apply --config weir.yaml --propose'],
        APPLIED + 'weir rules show --config weir.yaml > rules.yaml; sed -i s/10/20/ rules.yaml\n', {'41 42': '1 2', "' 42": "' 2"}, {'approve': 1},
        ('10/day -> 20/day', 'somebody else must approve it')),
    Run('rule-stores.md', ['weir rules export'], APPLIED + "sed 's/rules.db/other.db/' weir.yaml > other.yaml\n", says=('1 version',)),
    Run('replay.md', ['weir replay --config new.yaml --beside'], LOG + 'cp examples/weir.yaml new.yaml; cp new.yaml old.yaml\n',
        {'/etc/weir.yaml': 'old.yaml', '/var/log/nginx/': ''}, says=(r'4 lines \(combined\)', 'not by old.yaml')),
    Run('replay.md', ['weir replay --config new.yaml --format'], 'cp examples/weir.yaml new.yaml\n'
        'printf \'192.0.2.1 [06/Nov/2026:10:00:00 +0000] "GET /api/x HTTP/1.1" 200 ada\\n\' > app.log\n', says=('1 line',)),
    Run('replay.md', ['weir replay --suggest'], LOG + 'gzip -c access.log > access.log.1.gz\n', says=('proposed.yaml',)),
    Run('takeover.md', ['weir serve --config weir.yaml --take-over'], 'cp examples/weir.yaml weir.yaml\n', {'/run/weir/takeover': './takeover'},
        says=('taking over from process',)),
    Run('fencing-sqlite.md', ['sqlite3 my.db < deploy'], "sqlite3 my.db 'CREATE TABLE account (id INTEGER PRIMARY KEY, balance); "
        "INSERT INTO account VALUES (1, 100)'\n"),
    Run('fencing-sqlite.md', ['sqlite3 -bail my.db'], "sqlite3 my.db 'CREATE TABLE account (id INTEGER PRIMARY KEY, balance); "
        "INSERT INTO account VALUES (1, 100)'\n@sh sqlite3 my.db@export WEIR_FENCE_INCARNATION=1763769600 WEIR_FENCE_NUMBER=7\n"
        "trap 'sqlite3 my.db \"SELECT balance FROM account\"' EXIT\n", says=(r'(?m)^70$',)),
    Run('fencing-sqlite.md', ['PRAGMA foreign_keys'], "sqlite3 my.db 'CREATE TABLE account (id INTEGER PRIMARY KEY, balance); "
        "INSERT INTO account VALUES (1, 100)'\n@sh sqlite3 my.db@sqlite3 -bail my.db <<'END_OF_SQL'\n", says=(r'(?m)^100$',)),
    Run('fencing-files.md', ['#!/bin/sh'], SERVES + "mkdir report; compute() { cat; echo more; }; export -f compute\n"
        "cat > job <<'END_OF_JOB'\n", {'#!/bin/sh': '#!/bin/bash', '/srv/report': '$OLDPWD/report'}, says=('(?m)^more\nmore$',)),
]
# What ends a block that `before` has begun.
AFTER = {'END_OF_JOB': 'END_OF_JOB\nchmod +x job; weir lock report -- ./job; weir lock report -- ./job; weir lock report -- '
         'weir fence file read report\n', 'END_OF_SQL': 'END_OF_SQL\n'}

# ---- what other tests run: each names its page ----

ELSEWHERE = [
    ('alerts.md', 'FOLDER=', 'test_alerts'), ('concurrency.md', 'permit=', 'test_page_concurrency'),
    ('operations.md', '', 'test_operations_page'), ('sessions-http.md', 'set -eu', 'test_sessions_page'),
    ('sessions-http.md', 'import json', 'test_sessions_page'), ('reads-postgres.md', 'SERVER =', 'test_sessions_pooler'),
    ('locks-postgres.md', 'CREATE TABLE', 'test_lock_postgres'), ('rule-stores.md', 'CREATE TABLE', 'test_rule_store_tables'),
    ('rule-stores.md', 'GRANT SELECT', 'test_rule_store_tables'), ('caddy.md', '', 'test_recipe_caddy'),
    ('haproxy.md', '', 'test_recipe_haproxy'), ('nginx.md', '', 'test_recipe_nginx'), ('site.md', 'make site', 'test_site'),
    ('exceptions.md', 'DELETE FROM', 'test_resets'),
]

# ---- what cannot run here ----

NOT_RUN = [
    ('README.md', 'scripts/run ', 'installs packages, and runs every test'),
    ('README.md', 'scripts/bootstrap ', 'installs packages, and into /usr/local; test_install.py and test_deb.py do it in a folder'),
    ('README.md', 'build/weir serve --config examples/sessions.yaml', 'needs PostgreSQL with replicas: test_sessions_page.py has the flow'),
    ('README.md', 'build/weir reads check', 'needs PostgreSQL with a replica: test_cli_reads.py has it'),
    ('index.md', 'weir reads check', 'needs PostgreSQL with a replica: test_cli_reads.py has it'),
    ('reads.md', 'weir reads check', 'needs PostgreSQL with replicas: test_cli_reads.py has it'),
    ('lock-command.md', 'weir lock nightly-dump', 'programs and hosts of the reader: test_cli_lock.py has all of these options'),
    ('resp.md', 'REDISCLI_AUTH', 'a token of the reader: test_serve_resp.py shows tokens in these ways'),
    ('rule-stores.md', 'weir rules apply --config weir.yaml --from', 'takes author and reason of a commit of the reader: test_rules_transfer.py'),
    ('exceptions.md', 'curl -H', 'a token of the reader: test_exceptions_made.py asks so'),
    ('exceptions.md', 'CREATE TABLE', 'needs PostgreSQL: test_rule_store_tables.py compares the tables'),
    ('http.md', '$ curl -H "X-Weir-Token', "a token and an editor of the reader: test_rules_http.py asks so"),
    ('sessions-http.md', 'CREATE ROLE', 'needs PostgreSQL: the roles of test_session_servers.py'),
    ('takeover.md', 'systemctl kill', 'needs systemd: test_successor.py sends the signal'),
    ('labs.md', '$ weir lab', 'test_lab.py compares the page with what is printed'),
    ('dashboard.md', '$ curl', 'numbers of an hour that was: test_dashboard_page.py compares the members'),
    ('top.md', '$ curl', 'numbers of a server that ran for long: test_top.py compares the members'),
    ('mutants.md', 'make mutants', 'takes an hour; test_mutants.py plants some'),
    ('mutants.md', 'python3 tests/mutants/faults.py', 'takes minutes; test_mutants.py plants some'),
    ('fencing-postgres.md', '-- 1. acquire', 'needs PostgreSQL: test_fence_postgres.py has the steps'),
    ('fencing-postgres.md', 'psql', 'needs PostgreSQL: test_fence_postgres.py has the steps'),
    ('fencing-http.md', 'location /', 'needs a backend: test_fence_http.py has it with nginx'),
]


def accounts(one):
    """Every word about what becomes of a block."""
    runs = [run for run in RUNS if run.page == one.page and any(one.text.startswith(begin) for begin in run.begins)]
    rest = [entry for entry in ELSEWHERE + NOT_RUN if entry[0] == one.page and one.text.startswith(entry[1])]
    return runs + rest


# ---- the commands in a text ----

KEYWORDS = {'do', 'then', 'else', 'if', 'while', 'until', '!', 'exec', 'time', 'sudo', '{'}


def commands(text):
    """The words of each simple command of a shell text, those in $( ) as well."""
    text = re.sub(r"<<'?(\w+)'?(.*)\n(?:.*\n)*?\1$", r'\2', text.replace('\\\n', ' '), flags=re.M)
    for inside in re.findall(r'\$\(([^()]*)\)', text):
        yield from commands(inside)
    kept = ''
    for line in text.splitlines():
        kept += line + '\n'
        lexer = shlex.shlex(kept, posix=True, punctuation_chars=';&|()<>')
        lexer.commenters, lexer.whitespace_split = '', True
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation goes on in the next line
        kept, simple = '', []
        for word in [*words, ';']:
            if word.startswith('#'):  # of a quotation that begins so there is none
                break
            if set(word) <= set(';&|()'):
                yield from [simple] if simple else []
                simple = []
            elif simple or not (word in KEYWORDS or re.match(r'\w+=', word)):
                simple.append(word)
        else:
            continue
        yield from [simple] if simple else []


class Help:
    """What the help of each verb names."""

    def __init__(self):
        self.pages = {page.words: page for page in pages.pages(BUILD / 'weir')}
        self.texts = {words: page.text for words, page in self.pages.items()}

    def faults(self, words):
        """What `weir …` has that no help names."""
        if len(words) < 2 or words[1].startswith('-'):
            return []
        verb = words[1]
        if (verb,) not in self.pages:
            return [f'no verb {verb}']
        words = words[:words.index('--')] if '--' in words else words
        page = self.pages.get(tuple(words[1:3]), self.pages[verb,])
        below = pages.words_below(verb, self.texts[verb,])
        found = []
        if verb in ('rules', 'fence', 'reads') and len(words) > 2 and re.match('[a-z]', words[2]) and words[2] not in below:
            found.append(f'no {words[2]} in weir {verb}')
        known = set(pages.options(page.text)) | set(re.findall(r'(?<![\w-])--?[A-Za-z][\w-]*', page.text)) | {'--help'}
        return found + [f'weir {verb} has no {word}' for word in words[2:]
                        if re.match(r'--?[A-Za-z]', word) and word.partition('=')[0] not in known]
