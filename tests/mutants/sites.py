# SPDX-License-Identifier: Apache-2.0
"""Where a C source can be changed, and into what: clang tells the syntax, this file the changes.

sites_of(path, flags) returns a Site for each. Offsets count bytes; texts are Latin-1, in which a byte is a character."""
import bisect
import dataclasses
import json
import os
import subprocess

CLANG = 'clang-14'
OPERATORS = {'<': ('<=', '>='), '<=': ('<', '>'), '>': ('>=', '<='), '>=': ('>', '<'), '==': ('!=',), '!=': ('==',),
             '+': ('-',), '-': ('+',), '*': ('/',), '/': ('*',), '%': ('/',), '&': ('|',), '|': ('&',), '^': ('&',),
             '<<': ('>>',), '>>': ('<<',), '&&': ('||',), '||': ('&&',),
             '+=': ('-=',), '-=': ('+=',), '*=': ('/=',), '/=': ('*=',), '%=': ('/=',), '&=': ('|=',), '|=': ('&=',),
             '^=': ('|=',), '<<=': ('>>=',), '>>=': ('<<=',)}
COMPARISONS = ('<', '<=', '>', '>=', '==', '!=')
# Operators that are functions here, because they saturate.
FUNCTIONS = {'weir_add_sat': 'weir_sub_sat', 'weir_sub_sat': 'weir_add_sat',
             'weir_min_u64': 'weir_max_u64', 'weir_max_u64': 'weir_min_u64'}
# What is no place for a choice at run time: the compiler wants to know it, or nothing is computed.
CONSTANT = {'ConstantExpr', 'StaticAssertDecl', 'UnaryExprOrTypeTraitExpr', 'OffsetOfExpr', 'RecordDecl', 'EnumDecl'}
CALLS = {'CallExpr', 'CompoundAssignOperator'}
JUMPS = {'BreakStmt', 'ContinueStmt', 'GotoStmt'}
NOT_BEFORE = JUMPS | {'CaseStmt', 'DefaultStmt', 'LabelStmt', 'NullStmt', 'ReturnStmt'}


@dataclasses.dataclass(frozen=True)
class Site:
    """[start, end) of path becomes `new`. The form says how both fit into one source (schemata.py)."""
    path: str
    start: int
    end: int
    line: int
    kind: str
    form: str  # value, effect (an expression nobody reads), jump, before (an insertion), block (whole statements)
    new: str
    name: str = ''  # of one that was written by hand


def syntax_of(path, flags, root):
    """clang's tree, in which each place knows its file: clang names the file only where it changes."""
    command = [CLANG, '-w', '-fsyntax-only', '-Xclang', '-ast-dump=json', *flags, '-x', 'c', path]
    env = {**os.environ, 'CCACHE_DISABLE': '1'}  # which would hand it another file, without the places in this one
    tree = json.loads(subprocess.run(command, cwd=root, env=env, stdout=subprocess.PIPE, check=True).stdout)
    current = None
    stack = [tree]
    while stack:
        thing = stack.pop()
        if isinstance(thing, list):
            stack.extend(reversed(thing))
        elif isinstance(thing, dict):
            if 'offset' in thing:
                current = thing['file'] = thing.get('file', current)
            stack.extend(reversed([value for value in thing.values() if isinstance(value, (dict, list))]))
    return tree


def children(node):
    return [child for child in node.get('inner', []) if child.get('kind')]


def type_of(node):
    return node.get('type', {}).get('qualType', '')


class Finder:
    """Collects the sites of one source."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = [0] + [i + 1 for i, c in enumerate(text) if c == '\n']
        self.sites = []
        self.returns = None

    def place(self, point):
        """(offset, length, of a macro) of a token of this file, or None."""
        macro = 'expansionLoc' in point
        point = point['expansionLoc'] if macro else point
        if point.get('file') != self.path or 'offset' not in point:
            return None
        return point['offset'], point['tokLen'], macro

    def span(self, node):
        """Where the node's text is. None for what a macro made: only one without arguments can be a whole operand."""
        ends = node.get('range', {})
        first, last = (self.place(ends.get(end, {})) for end in ('begin', 'end'))
        if not first or not last:
            return None
        end = last[0] + last[1]
        if last[2] and self.text[end:end + 1] == '(':
            return None
        return first[0], end

    def plain(self, node):
        ends = node.get('range', {})
        return self.span(node) and not any('expansionLoc' in ends[end] for end in ('begin', 'end'))

    def cut(self, span):
        return self.text[slice(*span)]

    def add(self, span, kind, new, form='value'):
        if span and '\n#' not in self.cut(span):
            self.sites.append(Site(self.path, *span, bisect.bisect(self.lines, span[0]), kind, form, new))

    # ---- expressions ----

    def operator(self, node):
        """Binary and assigning operators."""
        left, right = (self.span(child) for child in children(node)[:2])
        opcode, whole = node['opcode'], self.span(node)
        if not left or not right or not whole or left[1] > right[0] or opcode not in self.text[left[1]:right[0]]:
            return
        between = self.text[left[1]:right[0]]
        kind = 'comparison' if opcode in COMPARISONS else 'operator'
        for other in OPERATORS.get(opcode, ()):
            self.add(whole, kind, f'({self.cut(left)}){between.replace(opcode, other, 1)}({self.cut(right)})')
        if opcode in ('&&', '||'):
            for side in (left, right):
                self.add(whole, 'operand', f'!!({self.cut(side)})')

    def unary(self, node):
        whole, inside, opcode = self.span(node), self.span(children(node)[0]), node['opcode']
        if not whole or not inside or not self.plain(node):
            return
        if opcode in ('++', '--'):
            self.add(whole, 'operator', self.cut(whole).replace(opcode, {'++': '--', '--': '++'}[opcode]))
        elif opcode in ('!', '-', '~'):
            self.add(whole, 'operator', ('!!' if opcode == '!' else '') + f'({self.cut(inside)})')

    def literal(self, node):
        if self.plain(node):
            self.add(self.span(node), 'constant', f'{self.cut(self.span(node))} + 1')
            if int(node['value']) > 0:
                self.add(self.span(node), 'constant', f'{self.cut(self.span(node))} - 1')

    def call(self, node):
        callee, *arguments = children(node)
        whole, name = self.span(node), self.span(callee)
        if not whole or not name:
            return
        if self.cut(name) in FUNCTIONS:
            self.add(whole, 'operator', FUNCTIONS[self.cut(name)] + self.text[name[1]:whole[1]])
        spans = [self.span(argument) for argument in arguments]
        commutes = self.cut(name) in ('calloc', 'weir_add_sat', 'weir_min_u64', 'weir_max_u64')
        for i, (one, other) in enumerate(zip(spans, spans[1:])):
            if (one and other and not commutes and type_of(arguments[i]) == type_of(arguments[i + 1]) and
                    one[1] < other[0] and self.cut(one) != self.cut(other)):
                self.add(whole, 'swapped arguments', self.text[whole[0]:one[0]] + self.cut(other) +
                         self.text[one[1]:other[0]] + self.cut(one) + self.text[other[1]:whole[1]])

    # ---- statements ----

    def condition(self, node, loop):
        """A condition that is never true, or, outside of loops, the other way round or always true."""
        span = self.span(node)
        if not span:
            return
        self.add(span, 'skipped branch', '0')
        if not loop:
            self.add(span, 'skipped branch', '1')
            self.negated(node)

    def negated(self, node):
        """What is truth, the other way round; comparisons have that among theirs, and so has `!`."""
        if node.get('opcode') not in (*COMPARISONS, '!'):
            self.add(self.span(node), 'negated', f'!({self.cut(self.span(node))})')

    def statement(self, node, before=False, last=False):
        """A statement of a block, a branch or a loop: dropped; and left out with all that follows it."""
        kind, span = node.get('kind'), self.span(node)
        if kind in CALLS or (kind == 'BinaryOperator' and node['opcode'] == '=') or (
                kind == 'UnaryOperator' and node['opcode'] in ('++', '--')):
            self.add(span, 'dropped statement', '(void)0', 'effect')
        elif kind in JUMPS or (kind == 'ReturnStmt' and not last):
            self.add(span, 'dropped statement', '', 'jump')
        if before and kind not in NOT_BEFORE and self.plain(node):
            self.early_return(span)

    def early_return(self, span):
        if self.returns == 'void':
            values = ['']
        elif self.returns.startswith(('struct ', 'union ')) and '*' not in self.returns:
            values = [f' ({self.returns}){{ 0 }}']
        else:
            values = [' 0'] + [' 1'] * (self.returns in ('bool', '_Bool'))
        for value in values:
            self.add(span, 'early return', f'return{value};', 'before')

    def block(self, node, of_function):
        inner = children(node)
        for number, child in enumerate(inner):
            self.statement(child, True, of_function and number == len(inner) - 1)

    def walk(self, node):
        kind = node.get('kind')
        if kind in CONSTANT or (kind == 'VarDecl' and node.get('storageClass') == 'static'):
            return
        inner = children(node)
        if kind in ('BinaryOperator', 'CompoundAssignOperator'):
            self.operator(node)
        elif kind == 'UnaryOperator':
            self.unary(node)
        elif kind == 'IntegerLiteral':
            self.literal(node)
        elif kind == 'CallExpr':
            self.call(node)
        elif kind == 'IfStmt':
            self.condition(inner[0], False)
            for branch in inner[1:]:
                self.statement(branch)
        elif kind in ('WhileStmt', 'DoStmt', 'ForStmt'):
            parts = node['inner']
            body, condition = {'WhileStmt': (-1, 0), 'DoStmt': (0, 1), 'ForStmt': (4, 2)}[kind]
            self.condition(parts[condition], True)
            self.statement(parts[body])
        elif kind in ('CaseStmt', 'DefaultStmt'):
            self.statement(inner[-1])
        elif kind == 'ConditionalOperator' and self.span(inner[0]):
            self.negated(inner[0])
        elif kind == 'ReturnStmt' and inner and self.returns in ('bool', '_Bool') and self.span(inner[0]):
            self.negated(inner[0])
        elif kind == 'CompoundStmt':
            self.block(node, False)
        for child in inner:
            self.walk(child)

    def function(self, node):
        body = [child for child in children(node) if child['kind'] == 'CompoundStmt']
        if not body or not self.span(body[0]):
            return
        self.returns = type_of(node).split('(')[0].strip()
        self.block(body[0], True)
        for child in children(body[0]):
            self.walk(child)


def sites_of(path, flags, root):
    """Every site of the source, in its order, each once."""
    finder = Finder(path, (root / path).read_text(encoding='latin-1'))
    for node in children(syntax_of(path, flags, root)):
        if node['kind'] == 'FunctionDecl':
            finder.function(node)
    return sorted(set(finder.sites), key=lambda site: dataclasses.astuple(site)[1:])
