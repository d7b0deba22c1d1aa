# SPDX-License-Identifier: Apache-2.0
"""compile.py PROTOC PROTO_FOLDER MESSAGES_H MESSAGES_C DESCRIPTORS_C: what the .proto files become. The codec, by
protoc-c, in one file, and the descriptors that reflection hands out.

protoc-c makes a `string` a C string, which ends at the first NUL that a peer puts into it: the codec is made of copies in
which each is `bytes`, which are the same on the wire."""
import pathlib
import re
import subprocess
import sys
import tempfile

REFLECTION = 'grpc/reflection/v1/reflection.proto'
ALPHA = 'grpc/reflection/v1alpha/reflection.proto'
MESSAGE, FILE_NAME, PACKAGE, DEPENDENCY, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, NESTED, NESTED_ENUM = 1, 1, 2, 3, 4, 5, 6, 3, 4


def protoc(program, root, names, *options):
    subprocess.run([program, f'-I{root}', *options, *names], check=True, stdin=subprocess.DEVNULL)


def copy(sources, target, change):
    for name, text in sources.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(change(text), encoding='utf-8')


def codec(program, sources, folder):
    """One header and one source of all messages, each after those that it needs."""
    copy(sources, folder / 'bytes', lambda text: re.sub(r'\bstring (?=\w+ = )', 'bytes ', text))
    out = folder / 'c'
    out.mkdir()
    names = [name for name in sources if name != ALPHA]
    protoc(program, folder / 'bytes', names, f'--c_out={out}')
    texts = {}

    def take(name):
        stem = name.removesuffix('.proto')
        if name in texts:
            return
        for needed in re.findall(r'^import "(.*)";', sources[name], re.M):
            take(needed)
        texts[name] = [re.sub(r'^#include ".*\.pb-c\.h"$', '', (out / f'{stem}.pb-c{suffix}').read_text(encoding='utf-8'),
                              flags=re.M) for suffix in ('.h', '.c')]

    for name in names:
        take(name)
    return [''.join(text[i] for text in texts.values()) for i in (0, 1)]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, bytes) of each field of a message that has a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        size, at = varint(data, at)
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + size]
            at += size
        elif tag & 7 != 0:
            raise SystemExit('compile.py: a descriptor has a field of another kind')


def only(data, wanted):
    return [value for number, value in fields(data) if number == wanted]


def symbols(file):
    """The full names of what a file defines."""
    package = only(file, PACKAGE)[0].decode()

    def of_message(message, scope):
        name = f'{scope}.{only(message, 1)[0].decode()}'
        yield name
        for nested in only(message, NESTED):
            yield from of_message(nested, name)
        for enum in only(message, NESTED_ENUM):
            yield f'{name}.{only(enum, 1)[0].decode()}'

    for message in only(file, FILE_MESSAGE):
        yield from of_message(message, package)
    for enum in only(file, FILE_ENUM):
        yield f'{package}.{only(enum, 1)[0].decode()}'
    for service in only(file, FILE_SERVICE):
        name = f'{package}.{only(service, 1)[0].decode()}'
        yield name
        for method in only(service, 2):
            yield f'{name}.{only(method, 1)[0].decode()}'


def c_bytes(data):
    numbers = [f'{byte:#04x},' for byte in data]
    return '\n'.join('    ' + ' '.join(numbers[i:i + 16]) for i in range(0, len(numbers), 16))


def descriptors(program, sources, folder):
    copy(sources, folder / 'text', lambda text: text)
    whole = folder / 'set.bin'
    protoc(program, folder / 'text', sources, f'--descriptor_set_out={whole}', '--include_imports')
    files = {only(file, FILE_NAME)[0].decode(): file for file in only(whole.read_bytes(), MESSAGE)}
    numbers = {name: i for i, name in enumerate(files)}

    def needed(name, found):
        if name not in found:
            found.append(name)
            for other in only(files[name], DEPENDENCY):
                needed(other.decode(), found)
        return found

    lines = ['#include "wire/grpc_descriptors.h"', '']
    for name, file in files.items():
        lines += [f'static const uint8_t bytes_{numbers[name]}[] = {{', c_bytes(file), '};']
        names = ', '.join(f'"{symbol}"' for symbol in symbols(file))
        lines.append(f'static const char *const symbols_{numbers[name]}[] = {{ {names}, NULL }};')
        places = ', '.join(str(numbers[other]) for other in needed(name, []))
        lines.append(f'static const int8_t needed_{numbers[name]}[] = {{ {places}, -1 }};')
    lines.append('const struct weir_grpc_descriptor weir_grpc_descriptors[] = {')
    for name, i in numbers.items():
        lines.append(f'    {{ "{name}", bytes_{i}, sizeof(bytes_{i}), symbols_{i}, needed_{i} }},')
    lines += ['    { NULL, NULL, 0, NULL, NULL },', '};']
    services = [f'{only(file, PACKAGE)[0].decode()}.{only(service, 1)[0].decode()}' for file in files.values()
                for service in only(file, FILE_SERVICE)]
    lines.append('const char *const weir_grpc_services[] = { %s, NULL };' % ', '.join(f'"{one}"' for one in sorted(services)))
    return '\n'.join(lines) + '\n'


def main():
    program, root, header, source, described = sys.argv[1:6]
    root = pathlib.Path(root)
    sources = {path.relative_to(root).as_posix(): path.read_text(encoding='utf-8') for path in sorted(root.rglob('*.proto'))}
    sources[ALPHA] = sources[REFLECTION].replace('grpc.reflection.v1;', 'grpc.reflection.v1alpha;')
    with tempfile.TemporaryDirectory() as folder:
        declared, defined = codec(program, sources, pathlib.Path(folder))
        tables = descriptors(program, sources, pathlib.Path(folder))
    pathlib.Path(header).write_text(f'#include <limits.h>\n{declared}', encoding='utf-8')
    pathlib.Path(source).write_text(f'#include "wire/{pathlib.Path(header).name}"\n{defined}', encoding='utf-8')
    pathlib.Path(described).write_text(tables, encoding='utf-8')


main()
