#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages of the library: man.py HEADER SETTINGS DETAILS VERSION FOLDER TOOL...

ringcomm.7 is the comment at the top of ringcomm.h, the table of settings.c (SETTINGS), and the
details of base/settings/README.md (DETAILS). ringcomm_GROUP.3 is a section of the header: comments
as text, declarations verbatim. rcm_NAME.3 refers to the page of the section that declares rcm_NAME.
"""
import ast
import os
import re
import sys

SECTION = re.compile(r'^/\* ---- (.*?) -+ \*/\n', re.M)
HEADING = {'WHAT IT DOES': 'DESCRIPTION'}  # the usual heading of manual pages
FUNCTION = re.compile(r'^(?:RCM_CHECKED )?[\w ]+?\*?\b(rcm_\w+)\(', re.M)


# ---- roff ----------------------------------------------------------------------------------------


def escaped(text):
    """The text escaped for roff; '--' of options can still be copied."""
    text = text.replace('\\', '\\e').replace('--', '\\-\\-')
    return re.sub(r"^([.'])", r'\\&\1', text)


def verbatim(lines):
    marks = {'\\': '\\e', '-': '\\-', "'": '\\(aq', '`': '\\(ga'}
    shown = [re.sub(r"[\\\-'`]", lambda found: marks[found[0]], line) for line in lines]
    return ['.EX', *('\\&' + line if line.startswith('.') else line for line in shown), '.EE']


def kind(line):
    """The kind of a comment's line. Tables and indented lines are verbatim."""
    if not line:
        return 'end'
    if line.startswith('- '):
        return 'item'
    return 'verbatim' if line[0] == ' ' or re.search(r'\S {2,}\S', line) else 'text'


def prose(lines):
    """The page of a comment's lines: paragraphs, lists, verbatim blocks."""
    page, block, before = [], [], 'end'
    for line in lines:
        now = kind(line)
        if now == 'verbatim' and before == 'item' and line.startswith('  '):
            page.append(escaped(line.strip()))  # continues the item
            continue
        if block and now != 'verbatim':
            page += verbatim(block)
            block = []
        if now == 'verbatim':
            if not block and before != 'end':
                page.append('.PP')
            block.append(line)
        elif now == 'item':
            page += ['.IP \\(bu 2', escaped(line[2:])]
        elif now == 'text':
            page += ['.PP'] * (before != 'text') + [escaped(line)]
        before = now
    return page + (verbatim(block) if block else [])


def title(name, section, version):
    return [f'.TH {name} {section} "" "libringcomm {version}" "libringcomm"', '.nr HY 0', '.ad l']


# ---- the header ----------------------------------------------------------------------------------


def comment_lines(text):
    """The lines of a comment without its marks, with the smallest indentation removed."""
    lines = [re.sub(r'^ \* ?', '', line).rstrip() for line in text[2:-2].split('\n')]
    lines[0] = lines[0].strip()
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line]
    lines[1:] = [line[min(indents):] for line in lines[1:]] if indents else lines[1:]
    return ['', *lines]


def code_lines(text):
    """Declarations without attributes for the compiler."""
    text = re.sub(r'\s+\\\n', ' \\\\\n', text)
    text = re.sub(r'^RCM_CHECKED (.*(?:\n {12}.*)*)',
                  lambda found: found[1].replace('\n' + ' ' * 12, '\n'), text, flags=re.M)
    return text.strip('\n').split('\n')


def parts(section):
    """The comments at the margin, and the code between them, in order."""
    at = 0
    for found in re.finditer(r'^/\*.*?\*/', section, re.M | re.S):
        yield 'code', section[at:found.start()]
        yield 'comment', found[0]
        at = found.end()
    yield 'code', section[at:]


def group_page(slug, words, section, version):
    functions = FUNCTION.findall(section)
    names = ', '.join(functions or [f'ringcomm_{slug}'])
    page = [*title(f'ringcomm_{slug}', 3, version), '.SH NAME', f'{names} \\- {words}', '.SH SYNOPSIS',
            *verbatim(['#include <ringcomm.h>']), '.SH DESCRIPTION']
    for what, text in parts(section):
        if what == 'comment':
            page += prose(comment_lines(text))
        elif text.strip():
            page += ['.PP', *verbatim(code_lines(text))]
    return functions, page + ['.SH SEE ALSO', '.BR ringcomm (7)']


def settings_table(source):
    """(name, default, help) of each setting, from the table in settings.c."""
    table = source.split('table[] = {\n')[1].split('\n};')[0]
    text = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    rows = [tuple(''.join(ast.literal_eval(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', cell))
                  for cell in row)
            for row in re.findall(r'\{' + text + r',\s*' + text + r',\s*' + text + r'\}', table)]
    if len(rows) != table.count('{"') or not rows:
        sys.exit(f'man.py: {len(rows)} settings read from settings.c: some have another form')
    return rows


def settings_details(readme):
    """The last variable that an entry of the list "Details" names -> the entry's text."""
    details = {}
    for item in re.split(r'^- ', readme.split('\n## Details\n')[1], flags=re.M)[1:]:
        names, text = item.split(': ', 1)
        details[re.findall(r'`(\w+)`', names)[-1]] = ' '.join(text.replace('`', '').split())
    return details


def sentence(words):
    return words[0].upper() + words[1:].rstrip('.') + '.'


def environment(source, readme):
    """The settings in the table's order, each with its default and details; values' forms first."""
    values = readme.split('\n## Values\n')[1].split('\n## ')[0]
    page = ['.SH ENVIRONMENT']
    for item in re.split(r'^- ', values, flags=re.M)[1:]:
        page += ['.PP', escaped(' '.join(item.replace('`', '').split()))]
    details = settings_details(readme)
    for name, default, words in settings_table(source):
        page += ['.TP', '.B ' + escaped(name), escaped(sentence(words))]
        page += [f'Default: {escaped(default)}.'] * bool(default)
        page += ['.br', escaped(sentence(details.pop(name)))] if name in details else []
    if details:
        sys.exit(f'man.py: no setting has the names {", ".join(details)}')
    return page


def overview(header, settings, others, version):
    """ringcomm.7"""
    lines = comment_lines(header[header.index('/*\n'):header.index('*/\n#ifndef') + 2])
    page = [*title('ringcomm', 7, version), '.SH NAME',
            'ringcomm \\- collective communication between processes', '.SH SYNOPSIS',
            *verbatim(['#include <ringcomm.h>', '',
                       'cc program.c $(pkg-config --cflags --libs ringcomm)'])]
    text = '\n'.join(lines)
    for found in re.finditer(r'^([A-Z][A-Z ]+\b.*)\n((?:(?:  .*)?\n)*)', text + '\n', re.M):
        body = [line[2:] for line in found[2].rstrip('\n').split('\n')]
        page += [f'.SH "{HEADING.get(found[1], found[1])}"', *prose(['', *body])]
    return page + environment(*settings) + ['.SH SEE ALSO', *(f'.BR {name},' for name in others[:-1]),
                                         f'.BR {others[-1]}']


def main():
    *inputs, version, folder = sys.argv[1:6]
    tools = sys.argv[6:]
    texts = []
    for path in inputs:
        with open(path, encoding='utf-8') as file:
            texts.append(file.read())
    header, *settings = texts
    pieces = SECTION.split(header.split('\n#ifdef __cplusplus\n}')[0])
    pages = {}
    for words, section in zip(pieces[1::2], pieces[2::2]):
        slug = words.split(':')[0].lower().replace(' ', '_')
        functions, pages[f'ringcomm_{slug}.3'] = group_page(slug, words[0].lower() + words[1:],
                                                            section, version)
        for name in functions:
            pages[f'{name}.3'] = [f'.so man3/ringcomm_{slug}.3']
    others = [f'{tool} (1)' for tool in tools]
    others += [f'{name[:-2]} (3)' for name in pages if name.startswith('ringcomm_')]
    pages['ringcomm.7'] = overview(header, settings, others, version)
    for name, lines in pages.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
