#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every code block of README.md and docs/: configurations are taken by weir, C compiles, shells can read what is written
for them, `weir` has each option that is named, and what needs no more than weir and its clients runs as it stands.
page_blocks.py says what becomes of each."""
import concurrent.futures
import itertools
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from page_blocks import AFTER, ALL_CHECKED, ELSEWHERE, LANGUAGES, NOT_RUN, PAGES, RUNS, Help, accounts, block, blocks, commands
from weir_server import BUILD, ROOT

TIMEOUT_S = 300
WORKERS = 2
TOKEN_FILES = ('shop.token', 'prometheus.token', 'nginx.token')
OF_OTHERS = {'alerts.md': 'prometheus.yml', 'traefik.md': 'http:\n  middlewares', 'envoy.md': "# Envoy's"}  # and not weir's own
# What a fragment of C takes for granted.
AROUND = {
    'fencing-http.md': ('#include <weir/fence.h>\n#include <weir/lock.h>\nint value_put(void *context);\n'
                        'int f(struct weir_fence *fence, const char *header, size_t header_size, void *request);\n'
                        'int f(struct weir_fence *fence, const char *header, size_t header_size, void *request) {\n'
                        'struct weir_token token;\n', 'return error; }\n'),
    'reads.md': ('#include <string.h>\n#include <libpq-fe.h>\n#include <weir/session.h>\n'
                 'void f(const unsigned char *secret, const char *user, const char *cookie, size_t cookie_size);\n'
                 'void f(const unsigned char *secret, const char *user, const char *cookie, size_t cookie_size) {\n', '}\n'),
}
# What runs has a network and processes of its own: the ports are free, and nothing is left.
ALONE = ['unshare', '--net', '--pid', '--fork', '--kill-child']
HEAD = '''ip link set lo up
cd "$1"
ready() { curl -s -o /dev/null --retry 300 --retry-delay 1 --retry-connrefused --max-time 200 "${1:-127.0.0.1:8080}/readyz"; }
trap 'echo "$? $BASH_COMMAND" >> failed' ERR
'''


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, **options)


def can_be_alone():
    return run(*ALONE, 'true').returncode == 0


class Blocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.help = Help()
        cls.blocks = blocks()

    def of(self, *languages):
        found = [one for one in self.blocks if one.language in languages]
        self.assertTrue(found)
        return found

    def test_each_block_says_what_it_is(self):
        self.assertEqual([one for one in self.blocks if one.language not in LANGUAGES], [])
        for page in PAGES:
            self.assertEqual(page.read_text(encoding='utf-8').count('\n```') % 2, 0, page.name)

    def test_each_block_is_accounted_for_once(self):
        for one in self.blocks:
            if one.language not in ALL_CHECKED:
                self.assertEqual(len(accounts(one)), 1, f'page_blocks.py says once what becomes of it: {one.page}: {one.text[:80]}')
        for page, begin, why in ELSEWHERE + NOT_RUN:
            self.assertTrue(any(one.page == page and one.text.startswith(begin) for one in self.blocks), (page, begin))
            for name in re.findall(r'test_\w+', why):
                self.assertTrue(list((ROOT / 'tests').rglob(f'{name}.[pc]*')), name)
        for page, _, name in ELSEWHERE:
            text = (ROOT / f'tests/live/{name}.py').read_text(encoding='utf-8')
            self.assertIn(page, text)

    def test_weir_takes_each_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in TOKEN_FILES:
                pathlib.Path(folder, name).write_text(f'a-token-for-{name}\n', encoding='utf-8')
                pathlib.Path(folder, name).chmod(0o600)
            for one in self.of('yaml'):
                if OF_OTHERS.get(one.page, '\0') in one.text[:30] or one.text.startswith('nodes: ['):  # a version for some nodes
                    continue
                file = pathlib.Path(folder, 'page.yaml')
                file.write_text(one.text, encoding='utf-8')
                for words in ('rules', 'check'), ('serve', '--check'):
                    if words[0] == 'serve' and 'store:' in one.text:
                        continue  # it starts with what the store has
                    words = [*words, file, *(('--node', 'a') if 'nodes:' in one.text else ())]
                    done = run(BUILD / 'weir', *words, cwd=folder)
                    self.assertEqual(done.returncode, 0, f'{one.page}: {one.text}\n{done.stdout}')

    def test_a_store_takes_a_version_for_some_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {'weir.yaml': 'rules: { store: "sqlite:./rules.db" }\ncluster: { nodes: [a, b] }\n', 'first.yaml': 'limits: []\n',
                     'rules.yaml': block('rule-stores.md', 'nodes: [a]').text}
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text, encoding='utf-8')
            for words in ('first.yaml',), ('--from', '1', 'rules.yaml'):
                done = run(BUILD / 'weir', 'rules', 'apply', '--config', 'weir.yaml', '--comment', 'x', *words, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn('api came', done.stdout)

    def test_prometheus_takes_its_own(self):
        one = block('alerts.md', '# prometheus.yml')
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, 'weir.token')
            token.touch()
            file = pathlib.Path(folder, 'prometheus.yml')
            file.write_text(one.text.replace('[weir.rules.yml]', f'[{ROOT}/deploy/prometheus/weir.rules.yml]')
                            .replace('/etc/prometheus/weir.token', str(token)), encoding='utf-8')
            done = run('promtool', 'check', 'config', file)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_json_is_json(self):
        for one in self.blocks:
            if one.language == 'json':
                json.loads(one.text)
        for one in self.of('sh', 'console'):
            for text in re.findall(r"-d '([^']*)'", one.text):
                json.loads(text)

    def test_c_compiles(self):
        for one in self.of('c'):
            before, after = AROUND.get(one.page, ('', ''))
            text = before + re.sub(r'^ *…$', '', one.text, flags=re.M) + after
            flags = run('pg_config', '--includedir').stdout.strip()
            done = subprocess.run(['cc', '-std=c11', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', '-Wno-unused-variable',
                                   '-I', ROOT / 'include', '-I', flags, '-x', 'c', '-'], input=text, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 0, f'{one.page}\n{done.stdout}')

    def test_a_shell_can_read_it_and_what_it_names_is_there(self):
        makefile, looked = (ROOT / 'Makefile').read_text(encoding='utf-8'), 0
        for one in self.of('sh', 'console'):
            text = typed(one) if one.language == 'console' else one.text
            done = subprocess.run(['bash', '-n'], input=text, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual((done.returncode, done.stderr), (0, ''), one.page)
            for words in commands(text):
                with self.subTest(page=one.page, command=' '.join(words)):
                    if words[0].lstrip('$').rpartition('/')[2] == 'weir':
                        looked += 1
                        self.assertEqual(self.help.faults(words), [])
                    if words[0] == 'make':
                        for goal in words[1:]:
                            self.assertTrue('=' in goal or re.search(rf'^{goal}:', makefile, re.M), goal)
                    for word in words:
                        if re.match(r'(scripts|examples|deploy|tests)/', word):
                            self.assertTrue((ROOT / word).exists(), word)
        self.assertGreater(looked, 50)

    def test_what_prose_names_of_weir_is_there(self):
        looked = 0
        for page in PAGES:
            prose = re.sub(r'^```.*?^```', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)
            for code in re.findall(r'`((?:build/)?weir [a-z][^`]*)`', prose):
                code = re.split(r'[|;&]', code.replace('\n', ' '))[0]
                with self.subTest(page=page.name, code=code):
                    looked += 1
                    self.assertEqual(self.help.faults(re.findall(r'[^\s=\[\](){}…,]+', code)), [])
        self.assertGreater(looked, 100)

    @unittest.skipUnless(can_be_alone(), 'a network of its own (unshare) needs root')
    def test_what_needs_no_more_than_weir_runs(self):
        with concurrent.futures.ThreadPoolExecutor(max_workers=WORKERS) as pool:
            for one, fault in zip(RUNS, pool.map(played, RUNS)):
                with self.subTest(page=one.page, begins=one.begins[0]):
                    self.assertIsNone(fault)


def typed(one):
    """What somebody types at the prompts of a console."""
    return ''.join(re.sub(r'^\$ ', '', line) + '\n' for line in one.text.splitlines() if line.startswith('$ '))


def script_of(one):
    """A server in the foreground is started beside, and waited for instead of a second."""
    text = ''.join(typed(found) if found.language == 'console' else found.text for found in (block(one.page, begin) for begin in one.begins))
    for old, new in one.change.items():
        assert old in text, f'{old} is not in it'
        text = text.replace(old, new)
    started = itertools.count(1)
    text = re.sub(r'^((?:build/)?weir serve\b(?!.*--check)[^#&\n]*)(?:& *(?:sleep 1)?)?( *#.*)?$', lambda match: in_background(match, started),
                  text, flags=re.M)
    before = re.sub(r'@(yaml|sh) (.*?)@', lambda match: block(one.page, match[2], match[1]).text, one.before)
    after = ''.join(text for begun, text in AFTER.items() if begun in before)
    return HEAD + 'rm -f failed\n' + before + text + after


def in_background(match, started):
    waits = f'until [ "$(grep -c " started: " serve.log)" -ge {next(started)} ]; do sleep .05; done; ready'
    return f'{match[1]} >>serve.log 2>&1 & {"" if "--http" in match[1] else waits}'


def played(one):
    """What went otherwise than the page has it; None: nothing."""
    with tempfile.TemporaryDirectory(prefix='weir-page-') as folder:
        work = pathlib.Path(folder)
        for name in ('examples', 'deploy'):
            (work / name).symlink_to(ROOT / name)
        (work / 'build').symlink_to(BUILD)
        (work / 'bin').mkdir()
        (work / 'bin/weir').symlink_to(BUILD / 'weir')
        (work / 'bin/make').write_text('#!/bin/sh\necho "making $1"\n', encoding='utf-8')  # what takes long has tests of its own
        (work / 'bin/make').chmod(0o755)
        (work / 'run').write_text(script_of(one), encoding='utf-8')
        env = {'PATH': f'{work}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': folder, 'LC_ALL': 'C.UTF-8',
               'PKG_CONFIG_PATH': f'{BUILD}/meson-uninstalled', 'CPATH': str(ROOT / 'include'), 'LD_LIBRARY_PATH': str(BUILD)}
        done = run(*ALONE, 'bash', work / 'run', folder, env=env)
        said = done.stdout + ''.join(path.read_text(encoding='utf-8') for path in [work / 'serve.log'] if path.exists())
        failed = (work / 'failed').read_text(encoding='utf-8').splitlines() if (work / 'failed').exists() else []
    unlike = [line for line in failed if not any(re.search(what, line) and line.startswith(f'{code} ') for what, code in one.fails.items())]
    unsaid = [pattern for pattern in one.says if not re.search(pattern, said)]
    if unlike or unsaid or len(failed) < len(one.fails):
        return f'{one.page}: failed {failed}; not said: {unsaid}\n{said}'
    return None


if __name__ == '__main__':
    unittest.main()
