#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a Lua script, its parts joined, as C: its text and its SHA1, by which EVALSHA calls it.

    embed.py plain.lua numbers.lua limits.lua decide.lua script_text.c
"""
import hashlib
import pathlib
import sys


def main():
    *sources, target = map(pathlib.Path, sys.argv[1:])
    text = b"\n".join(source.read_bytes() for source in sources)
    numbers = ",".join(str(byte) for byte in text)
    target.write_text(f"""/* Made from {', '.join(source.name for source in sources)} by embed.py. */
#include "limits/redis/script.h"

const char weir_script_text[] = {{ {numbers}, 0 }};
const size_t weir_script_text_size = sizeof weir_script_text - 1;
const char weir_script_sha1[41] = "{hashlib.sha1(text).hexdigest()}";
""")


if __name__ == "__main__":
    main()
