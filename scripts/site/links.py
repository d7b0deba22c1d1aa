# SPDX-License-Identifier: Apache-2.0
"""What MkDocs calls while it builds the site (`hooks` in mkdocs.yml). Pages lead to files outside of docs/, as they should
on any forge: those come into the site too, below source/, and the links follow. Headings get the anchors that they have
there. Of what is ready, the inline scripts are listed, for the policy under which weir serves it (src/serve/site.c)."""
import base64
import gzip
import hashlib
import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / 'docs'
LINK = re.compile(r'(\]\()(?!\w+:|#)([^)#\s]+)')
CODE = re.compile(r'^```.*?^```|`(?:[^`\n]|\n(?!\n))*`', re.M | re.S)
OWN = ('site.css', 'site.js')
UNSEARCHED = ('soak.md', 'mutants.md', 'semantics-tests.md')  # long tables of runs and names of tests
SCRIPT = re.compile(r'<script(?![^>]*\b(?:src|type)=)[^>]*>(.*?)</script>', re.S)
UNWANTED = ('404.html', 'sitemap.xml', 'sitemap.xml.gz', 'objects.inv', '*.map', 'assets/javascripts/lunr')
PACKED = ('.html', '.css', '.js', '.json', '.svg')


def slugify(heading, separator):
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', separator)


def in_site(path):
    """Where a file of the tree is in the site."""
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else 'source/' + path.relative_to(ROOT).as_posix()


def of_tree(uri):
    return ROOT / uri.removeprefix('source/') if uri.startswith('source/') else DOCS / uri


def outside_code(text, change):
    done, at = [], 0
    for code in CODE.finditer(text):
        done += [change(text[at:code.start()]), code[0]]
        at = code.end()
    return ''.join(done) + change(text[at:])


def targets(page):
    found = []
    outside_code(page.read_text(encoding='utf-8'), lambda text: found.extend(match[2] for match in LINK.finditer(text)) or text)
    return [(page.parent / target).resolve() for target in found]


def listed(folder):
    """A folder as a page of what is in it."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith('.'))
    return f'# {folder.relative_to(ROOT)}/\n\n' + ''.join(f'- [{name}]({name})\n' for name in names)


def on_config(config):
    config.mdx_configs['toc']['slugify'] = slugify
    return config


def on_files(files, config):
    todo = [DOCS / file.src_uri for file in files if file.src_uri.endswith('.md')]
    todo += [ROOT / 'README.md', ROOT / 'CHANGELOG.md', ROOT / 'CONTRIBUTING.md', ROOT / 'SECURITY.md']
    seen = {DOCS / file.src_uri for file in files}
    for path in todo:  # which grows
        if path not in seen:
            seen.add(path)
            if path.is_dir():
                todo += [inside for inside in path.iterdir() if inside.is_file() and not inside.name.startswith('.')]
                files.append(File.generated(config, in_site(path) + '/index.md', content=listed(path)))
            else:
                files.append(File.generated(config, in_site(path), abs_src_path=str(path)))
        if path.suffix == '.md' and not path.is_dir():
            todo += [target for target in targets(path) if target not in todo and target.exists()]
    for name in OWN:
        files.append(File.generated(config, name, abs_src_path=str(pathlib.Path(__file__).with_name(name))))
    return files


def on_post_page(output, page, config):
    """Names for what the theme leaves without one, for whoever listens to a page (axe-core finds them)."""
    titles = [title for item in config.nav for title in item]

    def label(match):
        words = re.sub('<[^>]*>', '', re.search(rf'id="{match[1]}"[^>]*>(.*?)</', output, re.S)[1]).strip()
        return match[0] if words else f'aria-label="{titles[int(match[2]) - 1]}"'

    output = output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"')
    output = re.sub(r'aria-labelledby="(__nav_(\d+)_label)"', label, output)
    output = re.sub(r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', output)  # a part of a table of contents
    return re.sub(r'<th( [^>]*)?></th>', r'<td\1></td>', output)


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri in UNSEARCHED or uri.startswith('source/') and uri.count('/') > 1:
        page.meta['search'] = {'exclude': True}
    if not of_tree(uri).exists():
        return markdown  # listed() made it
    here = of_tree(uri).parent

    def follow(match):
        target = (here / match[2]).resolve()
        inside = in_site(target) + ('/index.md' if target.is_dir() else '') if target.is_relative_to(ROOT) else match[2]
        return match[1] + os.path.relpath(inside, os.path.dirname(uri) or '.')

    return outside_code(markdown, lambda text: LINK.sub(follow, text))


def on_post_build(config):
    site = pathlib.Path(config.site_dir)
    for pattern in UNWANTED:
        for path in sorted(site.rglob(pattern)):
            for inside in [*sorted(path.rglob('*'), reverse=True), path]:
                inside.rmdir() if inside.is_dir() else inside.unlink()
    scripts = set()
    for path in sorted(site.rglob('*')):
        if path.suffix == '.html':
            scripts |= set(SCRIPT.findall(path.read_text(encoding='utf-8')))
        if path.suffix in PACKED and path.is_file():
            path.with_name(path.name + '.gz').write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    hashes = sorted(base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    (site / 'weir-site.txt').write_text(''.join(f'sha256-{digest}\n' for digest in hashes), encoding='utf-8')
