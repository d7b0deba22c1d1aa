#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and shell completion, made of what `weir VERB --help` prints: there is no other source.

    scripts/pages.py --weir build/weir --out FOLDER

writes weir.1, weir-VERB.1 for each verb (and weir-lock-show.1, ... for what has a help of its own), weir.bash, weir.zsh
and weir.fish. With --install they go where man and the shells look for them: `meson install` runs it so.
tests/lib/test_manual.py looks at what it makes, and that the help names the very flags of the option tables in src/cli."""
import argparse
import collections
import os
import pathlib
import re
import subprocess

# A line of options: "  --ttl TIME       the lease, ..." or "  -E N, --held-exit N   the exit code ...".
OPTION = re.compile(r'^  (-{1,2}\S.*?)(?:  +(\S.*))?$')
FLAG = re.compile(r'(?<![\w-])(--?[A-Za-z][\w-]*)(?: ([A-Z][\w:-]*|none))?')
VERB = re.compile(r'^  (\w+)  +(\S.*)$', re.M)
SUMMARY_MAX = 90

# `below` are the words that may follow: of `weir lock`, show, release and restored.
Page = collections.namedtuple('Page', 'name words summary text below')


def ask(weir, *words):
    done = subprocess.run([weir, *words, '--help'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60,
                          check=True)
    return done.stdout


def has_help(weir, *words):
    """weir reads is a program that is built only where libpq is; and --config in `weir replay --config FILE` has none."""
    return subprocess.run([weir, *words, '--help'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=60, check=False).returncode == 0


def words_below(verb, text):
    """Of "Usage: weir lock show NAME | release NAME ..." show and release."""
    usage = text.split('\n\n')[0]
    return list(dict.fromkeys(re.findall(rf'weir {verb} ((?:--)?[a-z][a-z-]*)', usage) +
                              re.findall(r' \| ([a-z][a-z-]*)', usage)))


def summary_of(text):
    """The first sentence below the usage, or its beginning where it is long."""
    first = re.split(r'[.:;]\s', text.split('\n\n')[1].replace('\n', ' '), maxsplit=1)[0].rstrip('.')
    if len(first) > SUMMARY_MAX:
        first = re.split(r', | in ', first, maxsplit=1)[0]
    return first[0].lower() + first[1:]


def pages(weir):
    """The help of weir, of each verb, and of each word below one that has a help of its own."""
    overview = ask(weir)
    found = [Page('weir', (), 'rate limits, locks and sessions', overview, [])]
    for verb, summary in VERB.findall(overview):
        if not has_help(weir, verb):
            continue
        text = ask(weir, verb)
        below = [word for word in words_below(verb, text) if has_help(weir, verb, word)]
        found.append(Page(f'weir-{verb}', (verb,), summary, text, below))
        for word in below:
            own = ask(weir, verb, word)
            if own != text:
                found.append(Page(f'weir-{verb}-{word.lstrip("-")}', (verb, word), summary_of(own), own, []))
    return found


def options(text):
    """[(head, what it is for, ...)] of each option, and the flags in it: {'--ttl': 'TIME'}."""
    flags = {}
    for line in text.splitlines():
        if match := OPTION.match(line):
            for flag, value in FLAG.findall(match[1] if match[2] else line):
                flags.setdefault(flag, value)
            # several in one line: "--nodes N  1 to 64;  --slack N  units ..."
            for flag, value in re.findall(r'[;,]  ?(--[a-z][\w-]*)(?: ([A-Z]+|none))?', line):
                flags.setdefault(flag, value)
    return flags


# ---- troff ----

def escape(text):
    text = text.replace('\\', '\\e').replace('-', '\\-').replace("'", '\\(aq').replace('`', '\\(ga').replace('^', '\\(ha')
    return text.replace('~', '\\(ti')


def line_of(text):
    """A dot or a quote at its beginning would be a request."""
    return '\\&' + escape(text) if text[:1] in ".'" else escape(text)


def paragraphs(text):
    return [block for block in re.split(r'\n\s*\n', text.strip('\n')) if block.strip()]


def option_list(block):
    """Each option with what stands behind it, and below it further to the right."""
    made = []
    for line in block.splitlines():
        match = OPTION.match(line)
        if match:
            made += ['.TP', f'.B {escape(match[1])}'] + ([line_of(match[2])] if match[2] else [])
        else:
            made.append(line_of(line.strip()))
    return made


def verbatim(block):
    return ['.nf', *(line_of(line[2:] if line.startswith('  ') else line) for line in block.splitlines()), '.fi']


def section(block, before):
    """The lines of troff for one block of the help, and the heading it is under."""
    if block.startswith('Usage:'):
        lines = [line[7:] if line.startswith(('Usage: ', '       ')) else line for line in block.splitlines()]
        return ['.SH SYNOPSIS', '.nf', *(f'.B "{escape(line)}"' for line in lines), '.fi'], 'SYNOPSIS'
    if re.match(r'Examples?[:,]', block):
        head, _, rest = block.partition('\n')
        return ['.SH EXAMPLES', *([line_of(head)] if ',' in head else []), *verbatim(rest)], 'EXAMPLES'
    if block.startswith('Exit code:'):
        return ['.SH EXIT STATUS', line_of(block[11:].replace('\n', ' '))], 'EXIT STATUS'
    if any(OPTION.match(line) for line in block.splitlines()):
        return [*(['.SH OPTIONS'] if before != 'OPTIONS' else ['.PP']), *option_list(block)], 'OPTIONS'
    if before == 'SYNOPSIS' and all(line.startswith('  ') for line in block.splitlines()):
        return ['.SH VERBS', *verbatim(block)], 'VERBS'
    head = ['.PP'] if before == 'DESCRIPTION' else ['.SH DESCRIPTION'] if before in ('NAME', 'SYNOPSIS') else ['.PP']
    if all(line.startswith('  ') for line in block.splitlines()):
        return [*head, *verbatim(block)], 'DESCRIPTION' if head[0] != '.PP' else before
    return [*head, *(line_of(line.strip()) for line in block.splitlines())], 'DESCRIPTION' if head[0] != '.PP' else before


def troff(page, others, version):
    made = [f'.\\" Made of "weir {" ".join(page.words)} --help".'.replace('  ', ' '),
            f'.TH {page.name.upper()} 1 "" "weir {version}" "weir"', '.SH NAME', f'{escape(page.name)} \\- {escape(page.summary)}', '.ad l', '.nh']
    under = 'NAME'
    for block in paragraphs(page.text):
        lines, under = section(block, under)
        made += lines
    made += ['.SH SEE ALSO', ',\n'.join(f'.BR {escape(name)} (1)' for name in others if name != page.name).replace(') ,', '),')]
    return '\n'.join(made) + '\n'


# ---- completion ----

def table(found):
    """{'serve': [flags]}, {'lock show': [flags]}, ...: under the words before them."""
    return {' '.join(page.words): options(page.text) for page in found if page.words}


def files_of(flags):
    return sorted(flag for flag, value in flags.items() if value in ('FILE', 'PATH', 'F', 'DIR'))


def bash(found):
    flags = table(found)
    verbs = [page.words[0] for page in found if len(page.words) == 1]
    cases = [f'        "{words}") words="{" ".join(sorted(own))} --help"; files="{" ".join(files_of(own))}" ;;'
             for words, own in flags.items()]
    firsts = [f'        "{page.words[0]}") first="{" ".join(page.below)}" ;;' for page in found if page.below]
    return '\n'.join([
        '# Completion of weir for bash. Made of `weir VERB --help`.', '_weir()', '{',
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files= first=',
        '    local verb=${COMP_WORDS[1]} second=${COMP_WORDS[2]}', '    COMPREPLY=()',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W "{" ".join(verbs)} --help --version" -- "$word"))', '        return', '    fi',
        '    case "$verb" in', *firsts, '    esac', '    case "$verb $second" in',
        *(line for line in cases if ' ' in line.split('"')[1]), '        *) case "$verb" in',
        *('    ' + line for line in cases if ' ' not in line.split('"')[1]), '        esac ;;', '    esac',
        '    case " $files " in *" $before "*) compopt -o default; return ;; esac',
        '    [ "$COMP_CWORD" -eq 2 ] && words="$first $words"',
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        '    [ -n "${COMPREPLY[*]}" ] || compopt -o default', '}', 'complete -F _weir weir', ''])


def zsh(found):
    verbs = [page.words[0] for page in found if len(page.words) == 1]
    cases = [f'        ("{words}") flags=({" ".join(sorted(own))} --help) files=({" ".join(files_of(own))}) ;;'
             for words, own in table(found).items()]
    firsts = [f'        ({page.words[0]}) first=({" ".join(page.below)}) ;;' for page in found if page.below]
    return '\n'.join([
        '#compdef weir', '# Completion of weir for zsh. Made of `weir VERB --help`.', '_weir() {',
        '    local -a flags files first', '    local verb=$words[2] second=$words[3]',
        '    if (( CURRENT == 2 )); then', f'        compadd -- {" ".join(verbs)} --help --version', '        return', '    fi',
        '    case $verb in', *firsts, '    esac', '    case "$verb $second" in',
        *(line for line in cases if ' ' in line.split('"')[1]), '        (*) case "$verb" in',
        *('    ' + line for line in cases if ' ' not in line.split('"')[1]), '        esac ;;', '    esac',
        '    if (( ${files[(Ie)$words[CURRENT-1]]} )); then', '        _files', '        return', '    fi',
        '    (( CURRENT == 3 )) && compadd -- $first', '    compadd -- $flags', '    [[ $words[CURRENT] == -* ]] || _files', '}',
        '_weir "$@"', ''])


def fish(found):
    def quoted(text):
        return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"
    made = ['# Completion of weir for fish. Made of `weir VERB --help`.', 'complete -c weir -f']
    for page in found:
        if len(page.words) == 1:
            made.append(f'complete -c weir -n __fish_use_subcommand -a {page.words[0]} -d {quoted(page.summary)}')
            for word in page.below:
                if not word.startswith('-'):
                    made.append(f"complete -c weir -n '__fish_seen_subcommand_from {page.words[0]}' -a {word}")
    for words, own in table(found).items():
        condition = ' ; and '.join(f'__fish_seen_subcommand_from {word}' for word in words.split() if word[0] != '-')
        for flag in sorted(own):
            takes = (' -r' + (' -F' if flag in files_of(own) else '')) if own[flag] else ''
            name = f'-l {flag[2:]}' if flag.startswith('--') else f'-s {flag[1:]}'
            made.append(f"complete -c weir -n '{condition}' {name}{takes}")
    return '\n'.join(made) + '\n'


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weir', required=True, type=pathlib.Path, help='the program')
    parser.add_argument('--out', type=pathlib.Path, help='a folder for all of them')
    parser.add_argument('--install', nargs=2, metavar=('MANDIR', 'DATADIR'), help='below $MESON_INSTALL_DESTDIR_PREFIX')
    arguments = parser.parse_args()
    weir = arguments.weir.resolve()  # a name without a folder would be looked for in PATH
    found = pages(weir)
    version = subprocess.run([weir, 'version'], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
    names = [page.name for page in found]
    if arguments.install:
        man, data = (pathlib.Path(os.environ['MESON_INSTALL_DESTDIR_PREFIX'], place) for place in arguments.install)
        places = man / 'man1', data / 'bash-completion/completions/weir', data / 'zsh/vendor-completions/_weir', \
            data / 'fish/vendor_completions.d/weir.fish'
    else:
        places = arguments.out, *(arguments.out / f'weir.{shell}' for shell in ('bash', 'zsh', 'fish'))
    for page in found:
        write(places[0] / f'{page.name}.1', troff(page, names, version))
    for place, made in zip(places[1:], (bash, zsh, fish)):
        write(place, made(found))


if __name__ == '__main__':
    main()
