# SPDX-License-Identifier: Apache-2.0
"""The shape of the house: who may include whom, and how long a function and a file may be.

check(root) returns every violation as "path:line: what". It reads text, not syntax: it trusts the layout that
clang-format keeps (a function's opening brace and its closing brace each stand alone at the start of a line). Run as a
program it prints how many asserts each floor has, and the violations. What only the built objects show: objects.py."""
import ast
import os
import pathlib
import re
import sys

FLOORS = {'base': 0, 'core': 1, 'net': 2, 'wire': 2, 'table': 3, 'client': 4, 'limits': 4, 'locks': 4, 'observe': 4,
          'sessions': 4, 'rules': 5, 'modules': 6, 'serve': 6, 'cli': 7}
# Beside the floors: sim/ runs core/, and the hosts of limits/ and locks/, in virtual time; only cli/ runs it.
SIM_INCLUDES = {'base', 'core', 'limits', 'locks', 'sim', 'weir'}
# What the page of play/ runs, in WebAssembly: core/ and sim/. Nothing of ours includes it but its tests.
PLAY_INCLUDES = {'base', 'core', 'play', 'sim', 'weir'}
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
COLUMNS_MAX = 120  # of C files, where clang-format leaves long comments alone

# The least number of asserts in 1,000 lines of a floor: what decides, and where entries move while others decide. One
# counts if it says more than "not NULL", and once in a file.
ASSERTS_LEAST = {'core': 30, 'table': 45}
ASSERT = re.compile(r'\bweir_(?:debug_)?assert\(')
BARE = re.compile(r'!?[\w.>\[\]-]+|[\w.>\[\]-]+ != NULL')

# What core/ may include, besides base/ and core/: nothing that needs a library at run time.
CORE_PUBLIC = {'weir/limit.h', 'weir/error.h', 'weir/fence.h', 'weir/session.h'}
CORE_STANDARD = {'stdint.h', 'stdbool.h', 'stddef.h', 'string.h', 'assert.h', 'limits.h'}

FOLDERS = ('include', 'src', 'tests', 'bench', 'fuzz', 'examples', 'scripts', 'sim', 'play', '.ci')
SKIPPED = {'node_modules', '__pycache__', 'corpus', 'target', '.git'}
C_NAMES = ('.c', '.h', '.cc', '.cpp')
TEXT_NAMES = C_NAMES + ('.py', '.sh', '.js', '.mjs', '.cjs', '.go', '.rs', '.lua')
HEAD = re.compile(r'/\* SPDX-License-Identifier: [\w.-]+\n \*\n \* \S')
TAG = re.compile(r'^struct (weir_\w+) \{', re.M)
COMMENT = re.compile(r'/\*.*?\*/', re.S)
FILE_NAME = re.compile(r'(?<![\w./<-])((?:[\w-]+/)*[\w-]+\.(?:c|h|lua|md))\b(?![\w(]|\.\w)')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Opens a block at the start of a line, but is no function: a type, data, an extern block, a macro.
NO_FUNCTION = re.compile(r'^(?:\s|#|//|/\*|\*|\}|(?:typedef\s+)?(?:struct|enum|union)\s*\w*\s*\{|extern\s+"C"|.*=)')


def files(root):
    """Every file of ours, with its path from the root."""
    for folder in FOLDERS:
        for directory, folders, names in os.walk(root / folder):
            folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith('build'))
            for name in sorted(names):
                path = pathlib.Path(directory, name)
                if path.suffix in TEXT_NAMES or (not path.suffix and folder in ('scripts', '.ci')):
                    yield path, path.relative_to(root).as_posix()


def includes(text):
    """(line number, quoted, name) of each include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1] == '"', match[2]


def check_public(where, quoted, name):
    if quoted and not name.startswith('weir/'):
        return [f'{where}: a public header includes {name}, which nobody else has']
    return []


def check_core(where, name):
    folder = name.split('/')[0] if '/' in name else ''
    if folder in ('base', 'core') or name in CORE_PUBLIC or name in CORE_STANDARD:
        return []
    return [f'{where}: core/ may not include {name}']


def check_floor(where, own, quoted, name):
    """A file of folder `own` includes `name`."""
    folder = name.split('/')[0] if '/' in name else ''
    if folder == 'weir' or (not quoted and folder not in FLOORS) or (folder == 'sim' and own == 'cli'):
        return []
    if folder not in FLOORS:
        return [f'{where}: {name} names no floor (write "folder/file.h")']
    if folder != own and FLOORS[folder] >= FLOORS[own]:
        return [f'{where}: {own}/ (floor {FLOORS[own]}) includes upward: {name} (floor {FLOORS[folder]})']
    return []


def check_includes(relative, text):
    found = []
    parts = relative.split('/')
    if parts[0] == 'src' and len(parts) > 2 and parts[1] not in FLOORS:
        return [f'{relative}:1: src/{parts[1]} is no floor of the house']
    for number, quoted, name in includes(text):
        where = f'{relative}:{number}'
        if '..' in name.split('/'):
            found.append(f'{where}: {name} walks the tree')
        elif parts[0] == 'include':
            found += check_public(where, quoted, name)
        elif parts[0] == 'sim' and quoted and name.split('/')[0] not in SIM_INCLUDES:
            found.append(f'{where}: sim/ may not include {name}')
        elif parts[0] == 'play' and quoted and name.split('/')[0] not in PLAY_INCLUDES:
            found.append(f'{where}: play/ may not include {name}')
        elif parts[0] == 'src' and len(parts) > 2:
            found += check_floor(where, parts[1], quoted, name)
            if parts[1] == 'core':
                found += check_core(where, name)
    return found


def functions_c(text):
    """(line of the signature, lines, name) of each function."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == '{':
            start = number
            while start > 0 and lines[start - 1].strip() and not re.search(r'(?:[;}]|\*/|^#.*)\s*$', lines[start - 1]):
                start -= 1
        elif line.rstrip().endswith('{') and not NO_FUNCTION.match(line):
            start = number
        elif line.startswith('}') and start is not None:
            name = re.search(r'(\w+)\s*\(', ' '.join(lines[start:number]))
            yield start + 1, number - start + 1, name[1] if name else '?'
            start = None


def functions_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def check_sizes(relative, text):
    found = []
    count = text.count('\n')
    if count > FILE_LINES_MAX:
        found.append(f'{relative}:{count}: {count} lines ({FILE_LINES_MAX} at most)')
    functions = ()
    if relative.endswith(C_NAMES):
        functions = functions_c(text)
    elif relative.endswith('.py'):
        functions = functions_python(text)
    for line, length, name in functions:
        if length > FUNCTION_LINES_MAX:
            found.append(f'{relative}:{line}: {name} is {length} lines ({FUNCTION_LINES_MAX} at most)')
    return found


def check_cycles(graph):
    """Every include cycle once, from a depth-first walk of the files under include/ and src/."""
    found = []
    state = {}  # absent: not seen, 1: on the path, 2: done

    def walk(node, path):
        state[node] = 1
        for below in graph[node]:
            if state.get(below) == 1:
                cycle = path[path.index(below):] + [below]
                found.append(f'{node}:1: includes form a cycle: {" > ".join(cycle)}')
            elif below not in state:
                walk(below, path + [below])
        state[node] = 2

    for node in sorted(graph):
        if node not in state:
            walk(node, [node])
    return found


def check_marks(relative, text):
    """Licences and head comments that are missing, what says that something else is, and lines too long to read."""
    found = []
    if relative.endswith(C_NAMES) and 'SPDX-License-Identifier: Apache-2.0' not in text.split('\n', 1)[0]:
        found.append(f'{relative}:1: the first line names no licence')
    elif relative.endswith(('.c', '.h')) and relative.startswith(('src/', 'include/', 'sim/')) and not HEAD.match(text):
        found.append(f'{relative}:1: nothing says what the file is')
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r'\b(TO' r'DO|FIX' r'ME|X' r'XX|HA' r'CK)\b', line):
            found.append(f'{relative}:{number}: unfinished')
        if len(line) > COLUMNS_MAX and relative.endswith(C_NAMES):
            found.append(f'{relative}:{number}: {len(line)} columns ({COLUMNS_MAX} at most)')
    return found


def check_named(texts, paths):
    """Files that comments name and that are not there. A name without a folder is of the comment's own, of the one
    above or below, or of a folder that stands before it in the same comment. `texts`: {path: text}, `paths`: all."""
    found, by_name = [], {}
    for path in paths:
        by_name.setdefault(path.rsplit('/', 1)[-1], []).append(path.rsplit('/', 1)[0])
    for path, text in texts.items():
        own = path.rsplit('/', 1)[0]
        for comment in COMMENT.finditer(text):
            near = {own, own.rsplit('/', 1)[0]}
            for match in FILE_NAME.finditer(comment[0]):
                folder, _, name = match[1].rpartition('/')
                there = [at for at in by_name.get(name, []) if not folder or at == folder or at.endswith(f'/{folder}')]
                near |= set(there) if folder else set()
                if not any(folder or at in near or at.startswith(f'{own}/') for at in there):
                    line = text.count('\n', 0, comment.start() + match.start()) + 1
                    found.append(f'{path}:{line}: names {match[1]}, which is not there')
    return found


def check_tags(defined):
    """A struct's name means one thing in the whole house. `defined`: (tag, path:line) of each definition."""
    found, first = [], {}
    for tag, where in defined:
        if first.setdefault(tag, where) != where:
            found.append(f'{where}: struct {tag} is another one in {first[tag].split(":")[0]}')
    return found


def asserted(text):
    """What a file asserts, each expression once, without those that only say that a pointer is not NULL."""
    found = set()
    for match in ASSERT.finditer(text):
        depth, end = 1, match.end()
        while depth > 0 and end < len(text):
            depth += {'(': 1, ')': -1}.get(text[end], 0)
            end += 1
        expression = ' '.join(text[match.end():end - 1].split())
        if not all(BARE.fullmatch(part) for part in re.split(r' (?:&&|\|\|) ', expression)):
            found.add(expression)
    return found


def densities(root):
    """{floor: (asserts, lines)} of src/."""
    counted = {}
    for path in sorted((root / 'src').glob('*/**/*.[ch]')):
        floor, text = path.relative_to(root / 'src').parts[0], path.read_text(encoding='utf-8')
        if floor != 'base' or path.name != 'assert.h':
            asserts, lines = counted.get(floor, (0, 0))
            counted[floor] = (asserts + len(asserted(text)), lines + text.count('\n'))
    return counted


def check_asserts(root):
    found = []
    for floor, (asserts, lines) in densities(root).items():
        least = ASSERTS_LEAST.get(floor, 0)
        if asserts * 1000 < least * lines:
            found.append(f'src/{floor}:1: {asserts} asserts in {lines} lines ({least} in 1,000 at least)')
    return found


def check(root):
    root = pathlib.Path(root)
    found = []
    graph = {}
    tags = []
    texts = {}
    for path, relative in files(root):
        text = path.read_text(encoding='utf-8')
        found += check_sizes(relative, text) + check_marks(relative, text)
        if not relative.endswith(C_NAMES):
            continue
        found += check_includes(relative, text)
        if relative.startswith(('src/', 'include/', 'sim/')):
            texts[relative] = text
            tags += [(match[1], f'{relative}:{text.count(chr(10), 0, match.start()) + 1}')
                     for match in TAG.finditer(text)]
        if relative.startswith(('src/', 'include/')):
            graph[relative] = [base + name for _, _, name in includes(text) for base in ('src/', 'include/')
                               if (root / base / name).is_file()]
    for node, below in graph.items():
        graph[node] = [b for b in below if b in graph]
    paths = [str(path.relative_to(root)) for folder in (*FOLDERS, 'docs', 'deploy', 'proofs')
             for path in (root / folder).rglob('*.*')]
    return found + check_cycles(graph) + check_tags(tags) + check_named(texts, paths)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    for floor, (asserts, lines) in sorted(densities(root).items(), key=lambda item: FLOORS.get(item[0], 0)):
        least = f' (at least {ASSERTS_LEAST[floor]})' if floor in ASSERTS_LEAST else ''
        print(f'{floor:8} {asserts:4} asserts in {lines:6} lines: {1000 * asserts / lines:.1f} in 1,000{least}')
    found = check(root) + check_asserts(root)
    print('\n'.join(found))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
