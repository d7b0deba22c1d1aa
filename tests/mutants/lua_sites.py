# SPDX-License-Identifier: Apache-2.0
"""Where the Redis script can be changed: by its tokens, for nothing here knows Lua's syntax.

It trusts how the script is written: blanks around operators, `if ... then` on a line, a statement on a line."""
import re

from sites import Site

# Strings and comments are matched first, so that nothing in them is taken for code.
TOKEN = re.compile(r"""--[^\n]*|'[^'\n]*'|"[^"\n]*"|\b\d+(?:\.\d+)?\b|[A-Za-z_][\w.]*|==|~=|<=|>=|\.\.|\S""")
OTHERS = {'<': ('<=', '>='), '<=': ('<', '>'), '>': ('>=', '<='), '>=': ('>', '<'), '==': ('~=',), '~=': ('==',),
          '+': ('-',), '-': ('+',), '*': ('/',), '/': ('*',), '%': ('/',), 'and': ('or',), 'or': ('and',),
          'not': ('not not',), 'true': ('false',), 'false': ('true',)}
COMPARISONS = ('<', '<=', '>', '>=', '==', '~=')
STATEMENT = re.compile(r'(?m)^ +(?! |local |return|if |else|for |while |end|until|repeat|--)'
                       r'((?:[\w.\[\], +-]+ = [^\n]*?|[\w.]+\([^\n]*\)))(?=$|\s+--)')
CONDITION = re.compile(r'\b(?:if|elseif) ([^\n]+?) then\b')
BRANCH = re.compile(r'(?m)then (return[^\n]*?|[\w., ]+ = [^\n]*?)(?= end$| end\s+--| else )')
CALL = re.compile(r'\b[\w.]+\((\w[\w.]*), (\w[\w.]*)(?=[,)])')


def closed(text):
    """All brackets that it opens it closes, and no more."""
    depth = 0
    for character in re.sub(r"'[^'\n]*'", '', text):
        depth += (character in '([{') - (character in ')]}')
        if depth < 0:
            return False
    return depth == 0


def sites_of(path, root):
    text = (root / path).read_text(encoding='latin-1')
    found, before = [], ''

    def add(start, end, kind, new):
        found.append(Site(path, start, end, text.count('\n', 0, start) + 1, kind, 'script', new))

    for match in TOKEN.finditer(text):
        token = match[0]
        operator = text[match.start() - 1] in ' (' and text[match.end():match.end() + 1] == ' '
        if token in OTHERS and (operator or token in ('true', 'false')):
            for other in OTHERS[token]:
                add(*match.span(), 'comparison' if token in COMPARISONS else 'operator', other)
        elif token.isdigit() and before != '.':
            add(*match.span(), 'constant', f'{int(token) + 1}')
            if int(token) > 0:
                add(*match.span(), 'constant', f'{int(token) - 1}')
        before = token
    for match in CONDITION.finditer(text):
        for new in ('false', 'true'):
            add(*match.span(1), 'skipped branch', new)
        add(*match.span(1), 'negated', f'not ({match[1]})')
    for match in [*STATEMENT.finditer(text), *BRANCH.finditer(text)]:
        line_before = text[:text.rfind('\n', 0, match.start(1))].rpartition('\n')[2].rstrip()
        if line_before.endswith((',', '=', '(', 'and', 'or', '..', '+', '-')):
            continue  # the rest of a statement
        if closed(match[1]) and not match[1].endswith(('=', ',', 'and', 'or')):
            add(*match.span(1), 'dropped statement', '')
    for match in CALL.finditer(text):
        if match[1] != match[2] and 'function' not in text[text.rfind('\n', 0, match.start()):match.start()]:
            add(match.start(1), match.end(2), 'swapped arguments', f'{match[2]}, {match[1]}')
    return sorted(set(found), key=lambda site: (site.start, site.end, site.kind, site.new))
