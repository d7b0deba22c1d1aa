#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion, made of `weir VERB --help`: every verb has its page, man shows it without a complaint, the
help names the very flags of the option tables, and the shell offers them."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from installed import BUILD, ROOT, Installed, run



def option_tables():
    """{file: its long options} of src/cli."""
    found = {}
    for path in sorted((ROOT / 'src/cli').glob('*.c')):
        flags = set(re.findall(r'\{ "([\w-]+)", (?:\.|\'\w\')', path.read_text(encoding='utf-8')))
        if flags:
            found[path.name] = {f'--{flag}' for flag in flags} - {'--help'}
    return found


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix='weir-manual-')
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run(ROOT / 'scripts/pages.py', '--weir', BUILD / 'weir', '--out', cls.folder)
        cls.verbs = re.findall(r'^  (\w+)  ', run(BUILD / 'weir', '--help'), re.M)

    def page(self, name):
        return (self.folder / f'{name}.1').read_text(encoding='utf-8')

    def shown(self, name):
        """As man shows it, on one line; complaints of troff are failures."""
        path = self.folder / f'{name}.1'
        done = subprocess.run(['groff', '-man', '-Tutf8', '-K', 'utf8', '-ww', '-rLL=250n', path], capture_output=True, text=True,
                              check=True, env={'PATH': '/usr/bin:/bin', 'GROFF_NO_SGR': '1'})
        self.assertEqual(done.stderr, '')
        return ' '.join(re.sub(r'.\x08', '', done.stdout).replace('‐\n', '').split())

    def test_every_verb_has_a_page_that_man_shows(self):
        self.assertGreater(len(self.verbs), 8)
        names = sorted(path.stem for path in self.folder.glob('*.1'))
        self.assertLessEqual({f'weir-{verb}' for verb in self.verbs} | {'weir', 'weir-lock-show', 'weir-sim-locks'},
                             set(names))
        for name in names:
            with self.subTest(name):
                shown = self.shown(name)
                self.assertIn('NAME', shown)
                self.assertIn('SYNOPSIS', shown)

    def test_a_page_says_all_that_the_help_says(self):
        """Word by word, but for what becomes a heading."""
        for verb in self.verbs:
            words = re.sub(r'Usage:|Examples?:|Exit code:', ' ', run(BUILD / 'weir', verb, '--help')).split()
            shown = self.shown(f'weir-{verb}').split()
            with self.subTest(verb):
                self.assertEqual([word for word in words if word.strip() and word not in shown], [])

    def test_it_begins_as_a_page_must(self):
        for path in self.folder.glob('*.1'):
            lines = path.read_text(encoding='utf-8').splitlines()
            self.assertRegex(lines[1], r'^\.TH WEIR[A-Z-]* 1 "" "weir \d')
            self.assertRegex(lines[lines.index('.SH NAME') + 1], r'^weir\S* \\- \S.{5,110}$')

    def test_the_help_names_every_flag_of_the_tables_and_no_other(self):
        completion = (self.folder / 'weir.bash').read_text(encoding='utf-8')
        told = set(re.findall(r'(?<!\S)"?(--[\w-]+)', ' '.join(re.findall(r' words="([^"$]*)"', completion)))) - {'--help'}
        tables = option_tables()
        self.assertIn('serve_flags.c', tables)
        known = set().union(*tables.values())
        self.assertEqual((told - known, known - told), (set(), set()))
        serve = re.search(r'"serve"\) words="([^"]*)"', completion)[1].split()
        self.assertEqual(set(serve) - {'--help'}, tables['serve_flags.c'])

    def complete(self, *words):
        """What bash offers for the last of the words."""
        line = ' '.join(f"'{word}'" for word in words)
        script = f'. {self.folder}/weir.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; compopt() {{ :; }}; _weir; ' \
                 'printf "%s\\n" "${COMPREPLY[@]}"'
        return run('bash', '-c', script).split()

    def test_bash_offers_verbs_words_and_flags(self):
        self.assertEqual(set(self.complete('weir', '')), {*self.verbs, '--help', '--version'})
        self.assertEqual(self.complete('weir', 'ser'), ['serve'])
        self.assertEqual(self.complete('weir', 'serve', '--co'), ['--config'])
        self.assertIn('show', self.complete('weir', 'lock', ''))
        self.assertEqual(self.complete('weir', 'lock', 'show', '--token'), ['--token', '--token-file'])
        self.assertEqual(self.complete('weir', 'serve', '--config', ''), [], 'a file: the shell knows those')
        for shell in ('zsh', 'fish'):
            if shutil.which(shell):
                run(shell, '-n', self.folder / f'weir.{shell}')

    def test_installed(self):
        installed = Installed()
        self.addCleanup(installed.remove)
        for path, made in (('man/man1/weir.1', 'weir.1'), ('bash-completion/completions/weir', 'weir.bash'),
                           ('zsh/vendor-completions/_weir', 'weir.zsh'),
                           ('fish/vendor_completions.d/weir.fish', 'weir.fish')):
            there = list(installed.root.rglob(f'share/{path}'))
            self.assertEqual(len(there), 1, path)
            self.assertEqual(there[0].read_text(encoding='utf-8'), (self.folder / made).read_text(encoding='utf-8'))


if __name__ == '__main__':
    unittest.main()
