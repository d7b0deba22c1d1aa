#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the dashboard as C, as http_page.c serves them. Those of one kind are one file, in the order
given: the scripts share one scope.

    embed.py page.html page.css page.js charts.js page_files.c
"""
import pathlib
import sys


def main():
    *sources, target = map(pathlib.Path, sys.argv[1:])
    kinds = {}
    for source in sources:
        kinds[source.suffix[1:]] = kinds.get(source.suffix[1:], b'') + source.read_bytes()
    arrays = ''.join(f'static const unsigned char file_{kind}[] = {{ {",".join(map(str, data))} }};\n'
                     for kind, data in kinds.items())
    rows = ''.join(f'    {{ "{kind}", file_{kind}, sizeof file_{kind} }},\n' for kind in kinds)
    target.write_text(f'/* Made from {", ".join(source.name for source in sources)} by embed.py. */\n'
                      f'#include "serve/http_page.h"\n\n{arrays}\n'
                      f'const struct weir_page_file weir_page_files[] = {{\n{rows}}};\n'
                      f'const size_t weir_page_files_count = {len(kinds)};\n', encoding='utf-8')


if __name__ == '__main__':
    main()
