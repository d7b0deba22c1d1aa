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
STRUCT = re.compile(r'struct (weir_\w+) \{([^{}]*)\};')
ENUM = re.compile(r'enum (?:weir_\w+) \{([^{}]*)\};')
# One that has a number; a version's changes with each release.
MACRO = re.compile(r'^#define (WEIR_(?!VERSION)\w+) (?!\s*$)(?!")(?!__attribute__)', re.M)


def plain(header):
    """Without comments."""
    return run('cc', '-fpreprocessed', '-dD', '-w', '-E', '-P', header)


def write_down(folder):
    """The headers of `folder` as one text."""
    return ''.join(f'== {path.name}\n{plain(path)}' for path in sorted((folder / 'weir').glob('*.h')))


def unfold(text, folder):
    """The folder to include from, of such a text."""
    (folder / 'weir').mkdir(parents=True)
    for part in re.split(r'^== ', text, flags=re.M)[1:]:
        name, _, body = part.partition('\n')
        (folder / 'weir' / name).write_text(body, encoding='utf-8')
    return folder


def declarations(folder):
    """What both libraries' headers declare: (structs, {name: [members]}), names of enum constants, prototypes."""
    text = '\n'.join(run('cc', '-E', '-P', '-I', folder, '-x', 'c', folder / 'weir' / header)
                     for header in LIBRARIES.values())
    structs = {name: re.findall(r'(\w+)(?:\[\w+\])?;', body) for name, body in STRUCT.findall(text)}
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
    """{name: number}: "struct X" its size, "X.member" [offset, size], a constant or a macro its value."""
    structs, constants, _ = declarations(folder)
    lines = []
    for name, members in structs.items():
        lines.append(f'printf("\\"struct {name}\\": %zu,\\n", sizeof(struct {name}));')
        lines += [f'printf("\\"{name}.{member}\\": [%zu, %zu],\\n", offsetof(struct {name}, {member}), '
                  f'sizeof(((struct {name} *)0)->{member}));' for member in members]
    lines += [f'printf("\\"{name}\\": %lld,\\n", (long long)({name}));' for name in constants + macros(folder)]
    source, program = scratch / 'facts.c', scratch / 'facts'
    source.write_text(f'#include <stddef.h>\n{INCLUDES}int main(void) {{ puts("{{");\n' + '\n'.join(lines) +
                      '\nputs("\\"\\": 0}"); return 0; }\n', encoding='utf-8')
    run('cc', '-std=c11', '-w', '-I', folder, source, '-o', program)
    return json.loads(run(program))


def broken(before, now):
    """What of `before` is not so any more. A new member may lie only where its struct had reserved words."""
    said = [f'{name}: was {value}, is {now.get(name)}' for name, value in before.items()
            if not name.endswith('.reserved') and now.get(name) != value]
    for name, place in now.items():
        struct, _, member = name.partition('.')
        if member and name not in before and f'struct {struct}' in before:
            start, size = before.get(f'{struct}.reserved', (0, 0))
            if not start <= place[0] <= place[0] + place[1] <= start + size:
                said.append(f'{name}: is new, and not in reserved words')
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
        for library, header in LIBRARIES.items():
            names = exported(self.installed.find(f'{library}.so.0'))
            self.assertEqual(set(names.values()), {'WEIR_0.1'})
            for release, folder in self.releases.items():
                text = run('cc', '-E', '-P', '-I', folder, '-x', 'c', folder / 'weir' / header)
                with self.subTest(release=release, library=library):
                    wanted = set(re.findall(r'\b(weir_\w+)\s*\(', re.sub(r'static inline [^{]*\{[^}]*\}', '', text)))
                    self.assertEqual(wanted - set(names), set())

    def test_programs_of_a_release_run(self):
        for release, folder in self.releases.items():
            for name, says in (('embed.c', '5 admitted'), ('embed.cpp', '1000 of 4000 admitted')):
                program = self.scratch / f'{release}-{name}.out'
                compiler = ('c++', '-std=c++11') if name.endswith('pp') else ('cc', '-std=c11')
                run(*compiler, '-I', folder, ROOT / 'examples' / name, '-L', self.installed.library.parent, '-lweir',
                    '-pthread', '-o', program)
                with self.subTest(release=release, name=name):
                    self.assertIn(says, run(program, env=self.installed.env))

    def test_words_of_a_later_release_are_refused(self):
        """A program that sets them gets no limiter, lock or session that does not do what it asked for."""
        source, program = self.scratch / 'later.c', self.scratch / 'later'
        source.write_text(INCLUDES + '''#include <string.h>
#define LATER .reserved = { [WEIR_RESERVED - 1] = 1 }
static int said(int error, const struct weir_fault *fault)
{
    return error == WEIR_EINVAL && strcmp(fault->field, "reserved") == 0 ? 0 : 1;
}
int main(void)
{
    struct weir_fault fault;
    struct weir_limiter *limiter;
    struct weir_locks *locks;
    struct weir_fence *fence;
    struct weir_replicas *replicas;
    struct weir_limit_spec spec = { .count = 1, .period_ns = WEIR_NS_PER_SECOND, LATER };
    return said(weir_limit_check(&spec, &fault), &fault) |
           said(weir_limiter_create(&(struct weir_limiter_options){ LATER }, &limiter, &fault), &fault) << 1 |
           said(weir_locks_connect(&(struct weir_locks_options){ LATER }, &locks, &fault), &fault) << 2 |
           said(weir_fence_open(&(struct weir_fence_options){ LATER }, &fence, &fault), &fault) << 3 |
           said(weir_replicas_open(&(struct weir_replicas_options){ LATER }, &replicas, &fault), &fault) << 4;
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
                        self.assertEqual([place.offset, place.size], self.now[f'{struct}.{member}'], member)


class Broken(unittest.TestCase):
    """Each kind of mistake is seen."""
    BEFORE = {'struct weir_x': 48, 'weir_x.a': [0, 8], 'weir_x.reserved': [16, 32], 'weir_x.b': [8, 8], 'WEIR_A': 1}

    def changed(self, **changes):
        return broken(self.BEFORE, {**self.BEFORE, **changes})

    def test_what_may_be(self):
        self.assertEqual(self.changed(), [])
        self.assertEqual(self.changed(**{'weir_x.c': [16, 8], 'weir_x.reserved': [24, 24], 'WEIR_B': 2}), [])

    def test_what_may_not(self):
        for changes in ({'struct weir_x': 56}, {'weir_x.a': [8, 8]}, {'weir_x.a': [0, 4]}, {'WEIR_A': 2},
                        {'weir_x.c': [48, 8], 'struct weir_x': 48}, {'weir_x.c': [12, 4]}):
            with self.subTest(changes=changes):
                self.assertEqual(len(self.changed(**changes)), 1)
        now = dict(self.BEFORE)
        del now['weir_x.b']
        self.assertEqual(len(broken(self.BEFORE, now)), 1)


def release():
    version = re.search(r'WEIR_VERSION "(\d+\.\d+)', (HEADERS / 'weir/version.h').read_text('utf-8'))[1]
    path = RELEASED / f'{version}.txt'
    path.write_text(write_down(HEADERS), encoding='utf-8')
    print(f'{path.relative_to(ROOT)} has the headers as they are now')


if __name__ == '__main__':
    if sys.argv[1:] == ['--release']:
        release()
    else:
        unittest.main()
