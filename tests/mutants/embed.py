#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the place of src/limits/redis/embed.py in a build of mutants: the script as C, and what mutants change of it.

A process patches its own copy when it starts; Redis is given that text, under its own SHA1."""
import hashlib
import json
import pathlib
import sys

VARIANTS = []  # of each: its number, the file's name, start, end and what stands there instead (schemata.py)

SOURCE = '''/* Made by embed.py of a build of mutants. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "{switch}"

char weir_script_text[{room}] = {{ {numbers} }};
size_t weir_script_text_size = {size};
char weir_script_sha1[41] = "{sha1}";

static const struct {{
    int number;
    size_t at, length;
    const char *text, *sha1;
}} variants[] = {{ {variants} }};

__attribute__((constructor)) static void patch(void)
{{
    weir_mutant_read(); /* whichever comes first */
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {{
        if (!weir_mutant_at(variants[i].number))
            continue;
        char *place = weir_script_text + variants[i].at;
        size_t size = strlen(variants[i].text);
        memmove(place + size, place + variants[i].length, weir_script_text_size - variants[i].at - variants[i].length);
        memcpy(place, variants[i].text, size);
        weir_script_text_size += size - variants[i].length;
        weir_script_text[weir_script_text_size] = 0;
        memcpy(weir_script_sha1, variants[i].sha1, 40);
    }}
}}
'''


def main():
    *sources, target = map(pathlib.Path, sys.argv[1:])
    texts = [source.read_bytes() for source in sources]
    whole, starts = b'\n'.join(texts), {}
    for number, source in enumerate(sources):
        starts[source.name] = sum(len(text) + 1 for text in texts[:number])
    variants, room = [], len(whole)
    for number, name, start, end, new in VARIANTS:
        at, new = starts[name] + start, new.encode('latin-1')
        sha1 = hashlib.sha1(whole[:at] + new + whole[at + end - start:]).hexdigest()
        room = max(room, len(whole) + len(new))
        variants.append(f'{{ {number}, {at}, {end - start}, {json.dumps(new.decode("latin-1"))}, "{sha1}" }}')
    target.write_text(SOURCE.format(
        switch=pathlib.Path(__file__).resolve().parents[3] / 'tests/mutants/switch.h', room=room + 1,
        numbers=','.join(map(str, whole)), size=len(whole), sha1=hashlib.sha1(whole).hexdigest(),
        variants=', '.join(variants)), encoding='utf-8')


if __name__ == '__main__':
    main()
