#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program that was built with the headers of a release relies on, compared with today's headers and library
(docs/abi.md). With --release: writes today's headers down as those of the version that they say."""
import ctypes
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import unittest

from installed import ROOT, Installed, run

HEADERS = ROOT / 'include'
RELEASED = pathlib.Path(__file__).resolve().parent / 'released'
LIBRARIES = {'libweir': 'weir.h', 'libweir-session': 'session.h'}
EXAMPLES = {'embed.c': '5 admitted', 'embed.cpp': '1000 of 4000 admitted'}
KIND = ('_Generic(({0}), uint64_t: "u64", int64_t: "i64", uint32_t: "u32", int32_t: "i32", bool: "bool", double: "double", '
        'const char *: "text", default: "other")')
STRUCT = re.compile(r'struct (weir_\w+) \{([^{}]*)\};')
ENUM = re.compile(r'enum (?:weir_\w+) \{([^{}]*)\};')
# One that has a number; a version's changes with each release.
MACRO = re.compile(r'^#define (WEIR_(?!VERSION)\w+) (?!\s*$)(?!")(?!__attribute__)', re.M)


def plain(header):
    """Without comments."""
    return run('cc', '-fpreprocessed', '-dD', '-w', '-E', '-P', header)


def write_down():
    """All that is compared of a release, as one text."""
    parts = [(f'weir/{path.name}', plain(path)) for path in sorted((HEADERS / 'weir').glob('*.h'))]
    parts += [(path.name, path.read_text('utf-8')) for path in [ROOT / f'src/{library}.map' for library in LIBRARIES] +
              [ROOT / f'examples/{name}' for name in EXAMPLES]]
    return ''.join(f'== {name}\n{text}' for name, text in parts)


def unfold(text, folder):
    """The folder to include from, of such a text."""
    (folder / 'weir').mkdir(parents=True)
    for part in re.split(r'^== ', text, flags=re.M)[1:]:
        name, _, body = part.partition('\n')
        (folder / name).write_text(body, encoding='utf-8')
    return folder


def versions(folder, library):
    """{name: version} of a release's map."""
    found = {}
    for version, body in re.findall(r'^(WEIR_[\d.]+) \{(.*?)^\}', (folder / f'{library}.map').read_text('utf-8'), re.M | re.S):
        found.update(dict.fromkeys(re.findall(r'^    (weir_\w+);', body, re.M), version))
    return found


def declarations(folder):
    """What both libraries' headers declare: (structs, {name: [members]}), names of enum constants, prototypes."""
    text = '\n'.join(run('cc', '-E', '-P', '-I', folder, '-x', 'c', folder / 'weir' / header)
                     for header in LIBRARIES.values())
    structs = {name: re.findall(r'(\w+)(?:\[[\w -]+\])?;', body) for name, body in STRUCT.findall(text)}
    constants = {word.split('=')[0].strip() for body in ENUM.findall(text) for word in body.split(',') if word.strip()}
    text = re.sub(r'^#.*\n', '', text, flags=re.M)
    while text != (text := re.sub(r'\{[^{}]*\}', ';', text)):  # bodies
        pass
    text = re.sub(r'static inline [^;]*;', '', text)
    prototypes = [' '.join(found.split()) for found in re.findall(r'[^;]*?\bweir_\w+\s*\([^;]*\)\s*(?=;)', text)]
    return structs, sorted(constants), prototypes


def macros(folder):
    return sorted({name for path in (folder / 'weir').glob('*.h') for name in MACRO.findall(path.read_text('utf-8'))})


INCLUDES = '#include <stdio.h>\n#include "weir/weir.h"\n#include "weir/session.h"\n'


def facts(folder, scratch):
    """{name: number}: "struct X" its size, "X.member" [offset, size, kind], a constant or a macro its value."""
    structs, constants, _ = declarations(folder)
    lines = []
    for name, members in structs.items():
        lines.append(f'printf("\\"struct {name}\\": %zu,\\n", sizeof(struct {name}));')
        lines += [f'printf("\\"{name}.{member}\\": [%zu, %zu, \\"%s\\"],\\n", offsetof(struct {name}, {member}), '
                  f'sizeof(((struct {name} *)0)->{member}), {KIND.format(f"((struct {name} *)0)->{member}")});'
                  for member in members]
    lines += [f'printf("\\"{name}\\": %lld,\\n", (long long)({name}));' for name in constants + macros(folder)]
    source, program = scratch / 'facts.c', scratch / 'facts'
    source.write_text(f'#include <stddef.h>\n{INCLUDES}int main(void) {{ puts("{{");\n' + '\n'.join(lines) +
                      '\nputs("\\"\\": 0}"); return 0; }\n', encoding='utf-8')
    run('cc', '-std=c11', '-w', '-I', folder, source, '-o', program)
    return json.loads(run(program))


def broken(before, now):
    """What of `before` is not so any more. A new member takes whole words, and of those that were reserved."""
    def words(name):
        start, size = before.get(name, (0, 0))[:2] if name.endswith('.reserved') else (0, 0)
        return (start, size) if size >= 8 else (0, 0)

    said = [f'{name}: was {value}, is {now.get(name)}' for name, value in before.items()
            if words(name) == (0, 0) and now.get(name) != value]
    for name, place in now.items():
        struct, _, member = name.partition('.')
        if member and name not in before and f'struct {struct}' in before:
            start, size = words(f'{struct}.reserved')
            if place[0] % 8 or place[1] % 8 or not start <= place[0] <= place[0] + place[1] <= start + size:
                said.append(f'{name}: is new, and not in whole reserved words')
    return said


def exported(library):
    """{name: version}"""
    rows = (line.split()[-1] for line in run('nm', '-D', '--defined-only', '--with-symbol-versions', library).splitlines())
    return dict(row.split('@@') for row in rows if '@@' in row)


class Abi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.remove)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        cls.releases = {path.stem: unfold(path.read_text('utf-8'), cls.scratch / path.stem)
                        for path in RELEASED.glob('*.txt')}
        cls.now = facts(HEADERS, cls.scratch)

    def test_there_is_a_release(self):
        self.assertIn('0.1', self.releases)
        self.assertGreater(len(self.now), 250)

    def test_structs_and_numbers(self):
        for release, folder in self.releases.items():
            with self.subTest(release=release):
                self.assertEqual(broken(facts(folder, self.scratch), self.now), [])

    def test_functions(self):
        """Declared again as they were: the compiler refuses a type that is another one."""
        for release, folder in self.releases.items():
            prototypes = declarations(folder)[2]
            self.assertGreater(len(prototypes), 50)
            source = self.scratch / 'functions.c'
            source.write_text(INCLUDES + ';\n'.join(prototypes) + ';\n', encoding='utf-8')
            with self.subTest(release=release):
                run('cc', '-std=c11', '-fsyntax-only', '-I', HEADERS, source)

    def test_names_and_versions(self):
        for library in LIBRARIES:
            names = exported(self.installed.find(f'{library}.so.0'))
            for release, folder in self.releases.items():
                with self.subTest(release=release, library=library):
                    before = versions(folder, library)
                    self.assertGreater(len(before), 10)
                    self.assertEqual({name: names.get(name) for name in before}, before)

    def test_programs_of_a_release_run(self):
        for release, folder in self.releases.items():
            for name, says in EXAMPLES.items():
                program = self.scratch / f'{release}-{name}.out'
                compiler = ('c++', '-std=c++11') if name.endswith('pp') else ('cc', '-std=c11')
                run(*compiler, '-I', folder, folder / name, '-L', self.installed.library.parent, '-lweir', '-pthread',
                    '-o', program)
                with self.subTest(release=release, name=name):
                    self.assertIn(says, run(program, env=self.installed.env))

    def test_words_of_a_later_release_are_refused(self):
        """A program that sets one gets no limiter, lock or session that does not do what it asked for."""
        source, program = self.scratch / 'later.c', self.scratch / 'later'
        source.write_text(INCLUDES + '''#include <stdlib.h>
#include <string.h>
static struct weir_fault fault;
static void refused(int error)
{
    if (error != WEIR_EINVAL || strcmp(fault.field, "reserved") != 0)
        abort();
    memset(&fault, 0, sizeof fault);
}
#define EACH(options, call)                                                    \\
    for (size_t i = 0; i < sizeof options.reserved / sizeof options.reserved[0]; i++) { \\
        options.reserved[i] = 1;                                               \\
        refused(call);                                                         \\
        options.reserved[i] = 0;                                               \\
    }
int main(void)
{
    struct weir_limiter *limiter;
    struct weir_locks *locks;
    struct weir_fence *fence;
    struct weir_replicas *replicas;
    struct weir_bucket bucket;
    struct weir_limit_spec spec = { .count = 1, .period_ns = WEIR_NS_PER_SECOND };
    struct weir_limiter_options of_limiter = { 0 };
    struct weir_locks_options of_locks = { 0 };
    struct weir_fence_options of_fence = { 0 };
    struct weir_replicas_options of_replicas = { 0 };
    EACH(spec, weir_limit_check(&spec, &fault))
    EACH(spec, weir_bucket_init(&bucket, &spec, &fault))
    EACH(of_limiter, weir_limiter_create(&of_limiter, &limiter, &fault))
    EACH(of_locks, weir_locks_connect(&of_locks, &locks, &fault))
    EACH(of_fence, weir_fence_open(&of_fence, &fence, &fault))
    EACH(of_replicas, weir_replicas_open(&of_replicas, &replicas, &fault))
    return 0;
}
''', encoding='utf-8')
        run('cc', '-std=c11', '-Wall', '-Werror', '-I', HEADERS, source, '-L', self.installed.library.parent, '-lweir',
            '-lweir-session', '-o', program)
        run(program, env=self.installed.env)

    def test_structs_of_python_programs(self):
        for path in (ROOT / 'examples/embed.py', ROOT / 'tests/live/libweir.py'):
            sys.path.insert(0, str(path.parent))
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            written = {name: kind for name, kind in vars(module).items()
                       if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure}
            self.assertGreater(len(written), 3)
            for name, kind in written.items():
                struct = 'weir_' + re.sub(r'(?<=[a-z])(?=[A-Z])', '_', {'Spec': 'LimitSpec'}.get(name, name)).lower()
                with self.subTest(path=path.name, struct=struct):
                    self.assertEqual(ctypes.sizeof(kind), self.now[f'struct {struct}'])
                    for member, _ in kind._fields_:
                        place = getattr(kind, member)
                        self.assertEqual([place.offset, place.size], self.now[f'{struct}.{member}'][:2], member)


class Broken(unittest.TestCase):
    """Each kind of mistake is seen."""
    BEFORE = {'struct weir_x': 48, 'weir_x.a': [0, 8], 'weir_x.reserved': [16, 32], 'weir_x.b': [8, 8], 'WEIR_A': 1}

    def changed(self, **changes):
        return broken(self.BEFORE, {**self.BEFORE, **changes})

    def test_what_may_be(self):
        self.assertEqual(self.changed(), [])
        self.assertEqual(self.changed(**{'weir_x.c': [16, 8], 'weir_x.reserved': [24, 24], 'WEIR_B': 2}), [])

    def test_what_may_not(self):
        for changes in ({'weir_x.c': [16, 4]}, {'struct weir_x': 56}, {'weir_x.a': [8, 8]}, {'weir_x.a': [0, 4]}, {'WEIR_A': 2},
                        {'weir_x.c': [48, 8], 'struct weir_x': 48}, {'weir_x.c': [12, 4]}):
            with self.subTest(changes=changes):
                self.assertEqual(len(self.changed(**changes)), 1)
        now = dict(self.BEFORE)
        del now['weir_x.b']
        self.assertEqual(len(broken(self.BEFORE, now)), 1)


def release():
    version = re.search(r'WEIR_VERSION "(\d+\.\d+)', (HEADERS / 'weir/version.h').read_text('utf-8'))[1]
    path = RELEASED / f'{version}.txt'
    path.write_text(write_down(), encoding='utf-8')
    print(f'{path.relative_to(ROOT)} has the headers as they are now')


if __name__ == '__main__':
    if sys.argv[1:] == ['--release']:
        release()
    else:
        unittest.main()
