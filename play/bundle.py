#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the playground together: play/page/*.mjs as one script, with the page, its colours and the module.

    bundle.py --wasm play.wasm --c play_files.c        as C, as serve/http_play.c serves them
    bundle.py --wasm play.wasm --folder playground     a static folder for any web server, and playground.html in it,
                                                       one file that works from a disk

Without --wasm the C file has a page alone, which says what is missing.

Browsers load neither modules nor .wasm from a disk. So the modules become one script: each `import` goes, each `export`
loses its word, and what a module depends on stands before it. A name may stand at the top of one module only."""
import argparse
import base64
import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent / 'page'
IMPORT = re.compile(r"^import \{([^}]*)\} from '\./([\w.]+)'\n", re.M)
TOP = re.compile(r'^(?:export )?(?:async )?(?:const|let|class|function\*?) (?:\{([^}]*)\}|(\w+))', re.M)
SERVES = '<meta name="weir-serves" content="this page">\n'
STYLE, SCRIPT = '<link rel="stylesheet" href="play.css">', '<script src="play.js" defer></script>'
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


def script():
    modules = {}
    in_order('main.mjs', modules)
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


def with_policy(page, **sources):
    page = re.sub(r'<footer>.*</footer>\n', '', page)  # there is no dashboard beside it
    assert SERVES in page
    page = page.replace(SERVES, '')  # nor a weir that could be asked: the page says so where it would ask
    return page.replace('<meta charset="utf-8">\n', '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
                        f'content="{POLICY.format(**sources)}">\n', 1)


def single(page, style, code, module):
    assert STYLE in page and SCRIPT in page and '</script' not in code and '</style' not in style
    page = with_policy(page, script=hashed(code), style=hashed(style), connect="'none'")
    page = page.replace(STYLE, f'<style>{style}</style>')
    data = f'<script type="text/plain" id="module">{base64.b64encode(module).decode()}</script>\n'
    return page.replace(SCRIPT, '').replace('</body>', f'{data}<script>{code}</script>\n</body>')


def write_c(files, target):
    arrays = ''.join(f'static const unsigned char file_{number}[] = {{ {",".join(map(str, data))} }};\n'
                     for number, data in enumerate(files.values()))
    rows = ''.join(f'    {{ "{kind}", file_{number}, sizeof file_{number} }},\n' for number, kind in enumerate(files))
    target.write_text(f'/* Made of play/page by bundle.py. */\n#include "serve/http_play.h"\n\n{arrays}\n'
                      f'const struct weir_play_file weir_play_files[] = {{\n{rows}}};\n'
                      f'const size_t weir_play_files_count = {len(files)};\n', encoding='utf-8')


def write_folder(folder, page, style, code, module):
    folder.mkdir(parents=True, exist_ok=True)
    own = with_policy(page, script="'self'", style="'self'", connect="'self'")
    for name, data in (('index.html', own.encode()), ('play.css', style.encode()), ('play.js', code.encode()),
                       ('play.wasm', module), ('playground.html', single(page, style, code, module).encode())):
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
        write_c({'html': (PAGE / 'absent.html').read_bytes()}, arguments.c)
        return
    page, style = ((PAGE / name).read_text(encoding='utf-8') for name in ('play.html', 'play.css'))
    code, module = script(), arguments.wasm.read_bytes()
    if arguments.c:
        write_c({'html': page.encode(), 'css': style.encode(), 'js': code.encode(), 'wasm': module}, arguments.c)
    if arguments.folder:
        write_folder(arguments.folder, page, style, code, module)


if __name__ == '__main__':
    main()
