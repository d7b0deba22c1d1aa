# SPDX-License-Identifier: Apache-2.0
"""digest.py ROOT OUTPUT DEPFILE SETTING...: a digest of all headers of weir, from which a program and a module are built,
and of the build's settings that change what a header says. Changed headers make it anew."""
import hashlib
import pathlib
import re
import sys

root, output, depfile = map(pathlib.Path, sys.argv[1:4])
headers = sorted([*root.glob('include/**/*.h'), *root.glob('src/**/*.h')])
digest = hashlib.sha256('\0'.join(sys.argv[4:]).encode())
for header in headers:
    text = header.read_bytes()
    digest.update(b'%s\0%d\0%s' % (header.relative_to(root).as_posix().encode(), len(text), text))
version = re.search(r'WEIR_VERSION "(.*)"', (root / 'include/weir/version.h').read_text(encoding='utf-8'))[1]
output.write_text(f'#define WEIR_MODULE_DIGEST "{version}-{digest.hexdigest()[:16]}"\n', encoding='utf-8')
escaped = [header.as_posix().replace(' ', '\\ ') for header in headers]
depfile.write_text(f'{output.as_posix()}: {" ".join(escaped)}\n', encoding='utf-8')
