# SPDX-License-Identifier: Apache-2.0
"""One source that holds many mutants: each place asks whether its mutant lives (switch.h) and is itself otherwise.

The sources of a build of mutants are changed in a copy of the tree; nothing in the tree itself knows of them."""
import pathlib
import shutil
import subprocess

FORMS = ('value', 'effect', 'jump', 'before', 'block')
SWITCH = pathlib.Path('tests/mutants/switch.h')
EMBED = 'src/limits/redis/embed.py'


def either(site, number, original):
    """The original, or the mutant if it lives."""
    here = f'weir_mutant_at({number})'
    return {'value': f'({here} ? ({site.new}) : ({original}))',
            'effect': f'({here} ? (void)0 : (void)({original}))',
            'jump': f'if ({here}); else {original}',
            'before': f'if ({here}) {site.new} {original}',
            'block': f'if ({here}) {{ {site.new} }} else {{ {original} }}'}[site.form]


def alone(text, site):
    """The source with this one change and no switch: what the compiler is asked about it."""
    new = {'value': f'({site.new})', 'before': f'{site.new} {text[site.start:site.end]}',
           'block': f'{{ {site.new} }}', 'script': site.new}.get(site.form, site.new)
    return text[:site.start] + new + text[site.end:]


def crosses(one, other):
    """Neither apart nor one inside the other."""
    return one.start < other.start < one.end < other.end or other.start < one.start < other.end < one.end


def render(text, numbered):
    """The source with all of (number, site). What lives inside another's place is in its original alone."""
    ordered = sorted(numbered, key=lambda pair: (pair[1].start, -pair[1].end, -FORMS.index(pair[1].form), pair[0]))

    def part(start, end, inside):
        made, at = [], start
        while inside:
            number, site = inside[0]
            within = [pair for pair in inside[1:] if pair[1].end <= site.end]
            made += [text[at:site.start], either(site, number, part(site.start, site.end, within))]
            at, inside = site.end, inside[1 + len(within):]
        return ''.join(made) + text[at:end]

    return part(0, len(text), ordered)


def place(path, text):
    """Writes what differs, so that the build does no more than it must."""
    if not path.exists() or path.read_text(encoding='latin-1') != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='latin-1')


def script_embed(numbered):
    """What writes the Redis script as C: with its mutants, which a process patches in."""
    variants = [(number, pathlib.Path(site.path).name, site.start, site.end, site.new)
                for number, site in numbered if site.form == 'script']
    text = pathlib.Path(__file__).with_name('embed.py').read_text(encoding='latin-1')
    return text.replace('VARIANTS = []', f'VARIANTS = {variants!r}')


def write_tree(root, tree, numbered):
    """Copies what git knows or would add, with all of (number, site) in their sources; a mutant may have several."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=root, stdout=subprocess.PIPE,
                            encoding='utf-8', check=True).stdout.splitlines()
    names = {name for name in listed if (root / name).is_file()}
    for old in [path for path in tree.rglob('*') if path.is_file() and path.relative_to(tree).as_posix() not in names]:
        old.unlink()
    changed = {}
    for number, site in numbered:
        if site.form != 'script':
            changed.setdefault(site.path, []).append((number, site))
    for name in sorted(names):
        text = (root / name).read_text(encoding='latin-1')
        if name == EMBED:
            text = script_embed(numbered)
        elif name in changed:
            text = f'#include "{tree / SWITCH}"\n#line 1 "{name}"\n' + render(text, changed[name])
        place(tree / name, text)
        shutil.copymode(root / name, tree / name)
