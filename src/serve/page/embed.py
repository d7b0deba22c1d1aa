#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the dashboard as C, as http_page.c serves them.

    embed.py page.html page.css page.js page_files.c
"""
import pathlib
import sys


def main():
    *sources, target = map(pathlib.Path, sys.argv[1:])
    arrays = ''.join(f'static const unsigned char file_{number}[] = {{ {",".join(map(str, source.read_bytes()))} }};\n'
                     for number, source in enumerate(sources))
    rows = ''.join(f'    {{ "{source.suffix[1:]}", file_{number}, sizeof file_{number} }},\n'
                   for number, source in enumerate(sources))
    target.write_text(f'/* Made from {", ".join(source.name for source in sources)} by embed.py. */\n'
                      f'#include "serve/http_page.h"\n\n{arrays}\n'
                      f'const struct weir_page_file weir_page_files[] = {{\n{rows}}};\n'
                      f'const size_t weir_page_files_count = {len(sources)};\n', encoding='utf-8')


if __name__ == '__main__':
    main()
