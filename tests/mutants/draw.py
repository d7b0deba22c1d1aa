# SPDX-License-Identifier: Apache-2.0
"""Which mutants there are: drawn by a seed over all lines of the targets, and those written by hand."""
import collections
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import importlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import lua_sites
import sites
from schemata import alone, crosses

# What is to be looked at, by the name of the set; each is a list of patterns below the root.
TARGETS = {
    'core': ('src/core/*/*.c',),
    'table': ('src/table/*.c',),
    'hosts': ('src/limits/fallback.c', 'src/limits/gossip_host.c', 'src/limits/gossip_talk.c', 'src/base/due.c',
              'src/locks/manager*.c', 'src/locks/witness.c', 'src/sessions/pool.c',
              'src/sessions/session_[clr]*.c', 'src/limits/share_*.c'),
    'limits': ('src/limits/*.c',),
    'versions': ('src/rules/store*.c', 'src/rules/exception*.c', 'src/rules/excepted_keys.c', 'src/rules/rollout*.c',
                 'src/rules/kept.c', 'src/rules/changes.c', 'src/rules/history.c', 'src/rules/revise.c'),
    'succession': ('src/serve/takeover*.c', 'src/serve/follower*.c', 'src/serve/exception_*.c', 'src/serve/saver.c'),
    'script': ('src/limits/redis/*.lua',),
    'servers': ('src/sessions/poller*.c', 'src/sessions/servers*.c'),
}
LIVE = ('script', 'servers')  # what unit tests do not run, or less than live ones
# The Redis script's parts, in their order (src/limits/redis/meson.build).
SCRIPT = tuple(f'src/limits/redis/{name}.lua' for name in ('plain', 'numbers', 'limits', 'decide'))
FLAGS = ('-Iinclude', '-Isrc', '-I.', '-D_GNU_SOURCE', '-std=c11', '-mcx16')


class Lua:
    """Says whether Redis takes the script with a change, by a server of its own."""

    def __init__(self, root):
        self.root, self.redis = root, None

    def accepts(self, site):
        if not self.redis:
            sys.path.insert(0, str(self.root / 'tests/live'))
            self.redis = importlib.import_module('redis_server').Redis()
        texts = [(self.root / path).read_text(encoding='latin-1') for path in SCRIPT]
        texts[SCRIPT.index(site.path)] = alone(texts[SCRIPT.index(site.path)], site)
        return not isinstance(self.redis.ask('SCRIPT', 'LOAD', '\n'.join(texts).encode('latin-1')), Exception)

    def close(self):
        if self.redis:
            self.redis.stop()


class Compiler:
    """Says whether a change compiles, and whether the machine's code differs by it."""

    def __init__(self, root, build):
        self.root, self.known, self.objects, self.lua = root, {}, {}, Lua(root)
        for entry in json.loads((build / 'compile_commands.json').read_text(encoding='utf-8')):
            path = (pathlib.Path(entry['directory']) / entry['file']).resolve()
            if path.is_relative_to(root):
                self.known.setdefault(path.relative_to(root).as_posix(), entry)

    def flags(self, path):
        """Where the build includes from, which clang needs too; a header has those of its floor."""
        entry = self.known.get(path)
        given = shlex.split(entry['command']) if entry else []
        folder = pathlib.Path(entry['directory']) if entry else self.root
        return [*FLAGS, *(f'-I{(folder / word[2:]).resolve()}' for word in given if word.startswith('-I'))]

    def run(self, path, text, *options):
        with tempfile.TemporaryDirectory(prefix='weir-mutant-') as work:
            made = pathlib.Path(work, 'made.o')
            command = ['gcc', '-w', *self.flags(path), f'-I{(self.root / path).parent}', '-x', 'c', '-', *options]
            process = subprocess.run([*command, '-o', made], cwd=self.root, input=text.encode('latin-1'),
                                     stderr=subprocess.DEVNULL, check=False)
            if process.returncode != 0:
                return None
            return made.read_bytes() if made.exists() else b''

    def accepts(self, site):
        if site.form == 'script':
            return self.lua.accepts(site)
        text = (self.root / site.path).read_text(encoding='latin-1')
        return self.run(site.path, alone(text, site), '-fsyntax-only') is not None

    def same(self, site):
        """The optimised code is what it was: no test can find the mutant."""
        if site.form == 'script':
            return False
        text = (self.root / site.path).read_text(encoding='latin-1')
        if site.path not in self.objects:
            self.objects[site.path] = self.run(site.path, text, '-O3', '-c')
        return self.objects[site.path] is not None and self.objects[site.path] == self.run(
            site.path, alone(text, site), '-O3', '-c')


def asked_for(path, files):
    """One of the patterns fits the path; a * takes in folders too."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in files)


def paths_of(root, sets, files=('*',)):
    paths = {path.relative_to(root).as_posix() for name in sets for pattern in TARGETS[name] for path in root.glob(pattern)}
    return sorted(path for path in paths if asked_for(path, files))


def sites_of(compiler, path):
    if path.endswith('.lua'):
        return lua_sites.sites_of(path, compiler.root)
    return sites.sites_of(path, compiler.flags(path), compiler.root)


def all_sites(compiler, paths):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        found = pool.map(lambda path: sites_of(compiler, path), paths)
        return dict(zip(paths, found))


def lot(seed, *words):
    """A number that the seed gives to a name, whatever other names there are."""
    return hashlib.sha256(repr((seed, *words)).encode()).digest()


def lines_of(root, places):
    """{(path, the line's text, which of those it is): {kind: sites}}: what is drawn from moves with its text."""
    lines = {}
    for path, found in places.items():
        texts = (root / path).read_text(encoding='latin-1').splitlines()
        for site in found:
            text = texts[site.line - 1]
            name = (path, text, texts[:site.line].count(text))
            lines.setdefault(name, {}).setdefault(site.kind, []).append(site)
    return lines


def draw(root, places, seed, count, fits):
    """`count` of all sites that fit: a line, of that a kind, of that a change, each as likely as its fellows. Another
    line in the sources changes nothing for the others."""
    lines, drawn = lines_of(root, places), []
    waiting = collections.deque(sorted(lines, key=lambda name: lot(seed, *name)))
    while waiting and len(drawn) < count:
        name = waiting.popleft()
        kind = min(lines[name], key=lambda kind: lot(seed, *name, kind))
        site = min(lines[name][kind], key=lambda site: lot(seed, *name, kind, site.end - site.start, site.new))
        lines[name][kind].remove(site)
        if not lines[name][kind]:
            del lines[name][kind]
        if lines[name]:
            waiting.append(name)
        if not any(site.path == other.path and crosses(site, other) for other in drawn) and fits(site):
            drawn.append(site)
    return drawn


# ---- by hand ----

HEAD = re.compile(r'@ (\S+?)(?: (\w+))?: (.+)')


def function_span(text, name):
    """From the line that opens the function to its closing brace; clang-format keeps both at a line's start."""
    start = re.search(rf'^(?!\s).*\b{name}\((?:[^;{{]|\n)*?\)\n\{{\n', text, re.M)
    if not start:
        raise ValueError(f'no function {name}')
    return start.start(), text.index('\n}\n', start.end())


def site_by_hand(path, function, name, old, new, text):
    begin, end = function_span(text, function) if function else (0, len(text))
    pattern = r'\s+'.join(re.escape(word) for word in old.split())
    # Whole words: no name is found inside another.
    pattern = (r'\b' if re.match(r'\w', old) else '') + pattern + (r'\b' if re.search(r'\w$', old) else '')
    found = [match.span() for match in re.finditer(pattern, text[begin:end])]
    if len(found) != 1:
        raise ValueError(f'{path}: {name}: stands there {len(found)} times: {old}')
    start, stop = (begin + at for at in found[0])
    form = 'script' if path.endswith('.lua') else 'block' if old.endswith((';', '}')) else 'value'
    return sites.Site(path, start, stop, text.count('\n', 0, start) + 1, 'by hand', form, new, name)


def sites_by_hand(root, lines):
    """The mutants of a list's lines: "@ path function: what is wrong", then "- " what stands there, "+ " what is to."""
    found, entries = [], []
    for line in lines:
        head = HEAD.fullmatch(line)
        if head:
            entries.append((head, {'-': [], '+': []}))
        elif line[:1] in ('-', '+') and entries:
            entries[-1][1][line[0]].append(line[1:].strip())
        elif line.strip() and not line.startswith('#'):
            raise ValueError(f'neither head nor change: {line}')
    for head, change in entries:
        path, function, name = head.groups()
        text = (root / path).read_text(encoding='latin-1')
        old, new = (' '.join(change[sign]) for sign in '-+')
        found.append(site_by_hand(path, function, name, old, new, text))
    return found


def by_hand(root, listing, sets=()):
    """Those of a file. What only live tests find is left out where its set is not asked for."""
    found = sites_by_hand(root, listing.read_text(encoding='utf-8').splitlines())
    others = set(paths_of(root, LIVE)) - set(paths_of(root, sets or TARGETS))
    return [site for site in found if site.path not in others]


# ---- names that last ----

def identity(root, site):
    """The same as long as the source is: what was found out about a mutant is kept under it."""
    text = (root / site.path).read_bytes()
    return hashlib.sha256(text + repr(dataclasses.astuple(site)).encode()).hexdigest()[:16]


def shown(root, site):
    """One line for people."""
    text = (root / site.path).read_text(encoding='latin-1')
    old, new = (' '.join(words.split()) for words in (text[site.start:site.end], site.new))
    change = f'`{new}` before `{old}`' if site.form == 'before' else f'`{old}` -> `{new or "nothing"}`'
    if len(change) > 240:
        change = change[:237] + '...'
    return f'{site.path}:{site.line}: {site.name or site.kind}: {change}'
