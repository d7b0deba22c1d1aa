#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the playground and the page of questions together: of play/page/*.mjs one script for each, with the pages, their
colours, the module, and the recorded runs of docs/labs.

    bundle.py --wasm play.wasm --c play_files.c        as C, as serve/http_play.c serves them
    bundle.py --wasm play.wasm --folder playground     a static folder for any web server, and in it playground.html and
                                                       questions.html, each one file that works from a disk

Without --wasm the C file has a page alone, which says what is missing.

Browsers load neither modules nor .wasm from a disk. So the modules become one script: each `import` goes, each `export`
loses its word, and what a module depends on stands before it. A name may stand at the top of one module only."""
import argparse
import base64
import gzip
import hashlib
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent / 'page'
RECORDS = PAGE.parents[1] / 'docs/labs'
IMPORT = re.compile(r"^import \{([^}]*)\} from '\./([\w.]+)'\n", re.M)
TOP = re.compile(r'^(?:export )?(?:async )?(?:const|let|class|function\*?) (?:\{([^}]*)\}|(\w+))', re.M)
SERVES = '<meta name="weir-serves" content="this page">\n'
STYLE, SCRIPT = '<link rel="stylesheet" href="play.css">', re.compile('<script src="[a-z]+.js" defer></script>')
OF_A_SERVER = re.compile(r' *<a [^>]*href="(?:\./|docs/)[^>]*>[^<]*</a>\n?')
RECORDED = '<script type="application/json" id="recorded">{}</script>'
# Of a record; the page has the question's words from the module.
RECORD_PARTS = ('source', 'seed', 'x', 'y', 'series', 'numbers', 'recorded', 'machine')
# As http_play.c says it in a header field; a page from a disk or of a plain web server says it of itself.
POLICY = "default-src 'none'; script-src {script} 'wasm-unsafe-eval'; style-src {style}; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"


def in_order(name, done):
    """The modules, each after those that it imports."""
    if name in done:
        return
    text = (PAGE / name).read_text(encoding='utf-8')
    done[name] = None
    for _, other in IMPORT.findall(text):
        in_order(other, done)
    done[name] = done.pop(name)
    done[name] = text


def script(main):
    modules = {}
    in_order(main, modules)
    names = {}
    parts = ['// SPDX-License-Identifier: Apache-2.0\n"use strict";\n(() => {\n']
    for module, text in modules.items():
        for group, name in TOP.findall(text):
            for one in [name] if name else [word.split(':')[-1].strip() for word in group.split(',')]:
                if one in names:
                    sys.exit(f'bundle.py: {module} and {names[one]} both have {one}')
                names[one] = module
        for wanted, other in IMPORT.findall(text):
            for one in filter(None, (word.strip() for word in wanted.split(','))):
                if not re.search(rf'^export (?:async )?(?:const|let|class|function\*?) {one}\b', modules[other] or '', re.M):
                    sys.exit(f'bundle.py: {module} imports {one}, which {other} does not export')
        text = re.sub(r'^export ', '', IMPORT.sub('', text), flags=re.M)
        if re.search(r'^(import|export)\b', text, re.M):
            sys.exit(f'bundle.py: {module} imports or exports in another form')
        parts.append(f'// ---- {module} ----\n{text}')
    return ''.join(parts) + '})();\n'


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def with_records(page):
    records = {int(path.stem): json.loads(path.read_text(encoding='utf-8')) for path in RECORDS.glob('*.json')}
    data = {number: {part: record[part] for part in RECORD_PARTS} for number, record in sorted(records.items())}
    assert RECORDED in page
    return page.replace(RECORDED, RECORDED.replace('{}', json.dumps(data, separators=(',', ':')).replace('<', r'\u003c')))


def with_policy(page, play, learn, **sources):
    page = page.replace(SERVES, '')  # there is no weir that could be asked: the page says so where it would ask
    page = OF_A_SERVER.sub('', page).replace('href="play"', f'href="{play}"').replace('href="learn"', f'href="{learn}"')
    return page.replace('<meta charset="utf-8">\n', '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
                        f'content="{POLICY.format(**sources)}">\n', 1)


def single(page, style, code, module):
    assert STYLE in page and SCRIPT.search(page) and '</script' not in code and '</style' not in style
    page = with_policy(page, 'playground.html', 'questions.html', script=hashed(code), style=hashed(style), connect="'none'")
    page = page.replace(STYLE, f'<style>{style}</style>')
    data = f'<script type="text/plain" id="module">{base64.b64encode(module).decode()}</script>\n'
    return SCRIPT.sub('', page).replace('</body>', f'{data}<script>{code}</script>\n</body>')


def write_c(files, target):
    packed = [gzip.compress(data, mtime=0) for data in files.values()]
    arrays = ''.join(f'static const unsigned char {name}_{number}[] = {{ {",".join(map(str, data))} }};\n'
                     for name, all_of in (('file', files.values()), ('packed', packed)) for number, data in enumerate(all_of))
    rows = ''.join(f'    {{ "{kind}", file_{number}, packed_{number}, sizeof file_{number}, sizeof packed_{number} }},\n'
                   for number, kind in enumerate(files))
    target.write_text(f'/* Made of play/page by bundle.py. */\n#include "serve/http_play.h"\n\n{arrays}\n'
                      f'const struct weir_play_file weir_play_files[] = {{\n{rows}}};\n'
                      f'const size_t weir_play_files_count = {len(files)};\n', encoding='utf-8')


def write_folder(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    style, module = files['css'].decode(), files['wasm']
    written = {'play.css': files['css'], 'play.js': files['js'], 'learn.js': files['learn.js'], 'play.wasm': module}
    for kind, code, name, alone in (('html', 'js', 'index.html', 'playground.html'), ('learn', 'learn.js', 'learn.html', 'questions.html')):
        page = files[kind].decode()
        written[name] = with_policy(page, './', 'learn.html', script="'self'", style="'self'", connect="'self'").encode()
        written[alone] = single(page, style, files[code].decode(), module).encode()
    for name, data in written.items():
        (folder / name).write_bytes(data)
        print(f'{folder / name}: {len(data):,} bytes')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--wasm', type=pathlib.Path)
    parser.add_argument('--c', type=pathlib.Path)
    parser.add_argument('--folder', type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.wasm:
        if arguments.folder:
            sys.exit('bundle.py: no WebAssembly module was built: clang-14, lld-14, libclang-rt-14-dev-wasm32 and wasi-libc are needed '
                     '(scripts/bootstrap run)')
        write_c(dict.fromkeys(('html', 'learn'), (PAGE / 'absent.html').read_bytes()), arguments.c)
        return
    play, learn, style = ((PAGE / name).read_text(encoding='utf-8') for name in ('play.html', 'learn.html', 'play.css'))
    texts = {'html': play, 'css': style, 'js': script('main.mjs'), 'learn': with_records(learn), 'learn.js': script('learn.mjs')}
    files = {kind: text.encode() for kind, text in texts.items()} | {'wasm': arguments.wasm.read_bytes()}
    if arguments.c:
        write_c(files, arguments.c)
    if arguments.folder:
        write_folder(arguments.folder, files)


if __name__ == '__main__':
    main()
