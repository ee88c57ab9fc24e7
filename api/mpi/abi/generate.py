#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the sources that follow from the table of the MPI ABI.

  generate.py header OUTPUT               mpi.h, for this build and its tests
  generate.py faces OUTPUT                declarations of the functions that the C files define once for all forms
  generate.py forms OUTPUT SOURCE...      all exported functions: each calls its face in SOURCE, or is a stub
  generate.py tables OUTPUT               what constants mean: the definitions of tables.h and type_basics

An exported function, MPI_Send, describes its call in a struct form and calls enter_Send, which finds the objects of the
handles, checks root and peers, and calls face_Send.
"""
import pathlib
import re
import sys

import abi_table as abi
from constants import definitions

FOLDER = pathlib.Path(__file__).parent
OBJECTS = {  # word: what a face gets instead of the handle, and the function that finds it
    "comm": ("struct MPI_ABI_Comm *", "comm_find"), "intra": ("struct MPI_ABI_Comm *", "comm_find"),
    "inter": ("struct MPI_ABI_Comm *", "comm_find"), "cart": ("struct MPI_ABI_Comm *", "comm_find"),
    "datatype": ("struct MPI_ABI_Datatype *", "type_find"), "committed": ("struct MPI_ABI_Datatype *", "type_find_used"),
    "group": ("struct MPI_ABI_Group *", "group_find"), "info": ("struct MPI_ABI_Info *", "info_find"),
    "commpool": ("struct pool *", "pool_find"), "commattr": ("struct owner ", "owner_find_comm"),
    "typeattr": ("struct owner ", "owner_find_type"),
}
SIDE, BLOCKS = "struct side *", "struct blocks *"
BUFFERS = [  # words of functions with a non-blocking form, and what a face gets instead: of which word each value is
    (("data", "buffer", "count", "datatype"), [(SIDE, (0, 2, 3)), (SIDE, (1, 2, 3))]),
    (("*", "count", "datatype"), [(SIDE, (0, 1, 2))]),
    (("*", "counts", "displs", "datatype"), [(BLOCKS, (0, 1, 2, 3))]),
    (("*", "counts", "displs", "datatypes"), [(BLOCKS, (0, 1, 2, 3))]),
]
OUTPUTS = re.compile(r"(int|[Cc]ount|Aint|size|unit|comm|group|info|datatype|newtype|op|errhandler|request|message)\*")
ARRAYS = re.compile(r"ints|[cC]ounts|displs|sizes|Aints|datatypes|requests|ranges|\w+\[\]")
NULLS = {"comm*": "COMM", "group*": "GROUP", "newtype*": "DATATYPE"}  # what these are without a result
INCLUDES = ["attributes", "buffered", "communicators", "lists"]  # of what faces get
LETTERS = {"int": "i", "count": "c", "size": "a", "Aint": "a", "ints": "I", "counts": "C", "sizes": "A", "datatype": "t",
           "datatypes": "T"}  # of type_keep


def parameters(types, names=None):
    """A list of parameters named a0, a1, ..."""
    named = []
    for i, c_type in enumerate(types):
        name = names[i] if names else f"a{i}"
        if c_type == "...":
            named.append("...")
        elif "(*)" in c_type:
            named.append(c_type.replace("(*)", f"(*{name})"))
        else:
            named.append(f"{c_type}{'' if c_type[-1] in '* ' else ' '}{name}")
    return ", ".join(named) or "void"


def header():
    """mpi.h of the ABI."""
    out = ["/* Generated from api/mpi/. */", "#ifndef MPI_H", "#define MPI_H", "#include <stdint.h>",
           "#ifdef __cplusplus", 'extern "C" {', "#endif", "typedef intptr_t MPI_Aint;",
           "typedef int64_t MPI_Offset;", "typedef MPI_Offset MPI_Count;",
           "typedef struct {", "    int MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal[5];", "} MPI_Status;"]
    out += [f"typedef struct MPI_ABI_{name} *MPI_{name};" for name in abi.HANDLES]
    out += [f"typedef struct MPI_{name}_object *MPI_{name};" for name in abi.POINTERS]
    out += [f"typedef int MPI_{name};" for name in sorted(abi.INTEGERS)]
    functions, types = abi.read_functions(FOLDER)
    for function in types:
        out.append(f"typedef {function.result} (MPI_{function.name})({', '.join(function.types())});")
    for section, name, value in abi.read_numbers(FOLDER):
        if section == "alias":
            out.append(f"#define MPI_{name} MPI_{value}")
        elif section == "int":
            out.append(f"#define MPI_{name} ({value})")
        else:
            out.append(f"#define MPI_{name} (({abi.c_type(section)}){value})")
    for function in functions:
        for form in abi.forms(function):
            for prefix in ("MPI_", "PMPI_"):
                out.append(f"{function.result} {prefix}{form.name}({', '.join(form.types()) or 'void'});")
    return out + ["#ifdef __cplusplus", "}", "#endif", "#endif"]


def wide_types(function):
    """Types that all forms of a function pass on: those with large counts, and arrays of either kind."""
    return ["struct array" if word in abi.ARRAYS else abi.c_type(word, "c" in function.forms)
            for word in function.words if word != "..."]


def find_buffers(function):
    """The buffers of a function, by the place of their first word: {place: (number of words, [(type, places)])}."""
    found, words = {}, function.words
    end = 0
    for i in range(len(words) if "I" in function.forms else 0):
        for pattern, values in BUFFERS if i >= end else []:
            here = words[i:i + len(pattern)]
            if len(here) == len(pattern) and all(p == w or (p == "*" and w in ("data", "buffer"))
                                                 for p, w in zip(pattern, here)):
                found[i] = (len(pattern), [(c_type, [i + place for place in places]) for c_type, places in values])
                end = i + len(pattern)
                break
    return found


def face_arguments(function):
    """What a face gets: [(type, word, places of the words that it is made of)]. A constant has no type and no place."""
    arguments, types, buffers, i, skip = [], wide_types(function), find_buffers(function), 0, 0
    for item in function.items:
        if item == "...":
            continue
        if item[0] == ".":
            arguments.append((None, item[1:], []))
            continue
        if i in buffers:
            arguments += [(c_type, "buffer", places) for c_type, places in buffers[i][1]]
            skip = i + buffers[i][0]
        if i >= skip:
            word = item.rstrip("!")
            arguments.append((OBJECTS[word][0] if word in OBJECTS else types[i], item, [i]))
        i += 1
    return arguments


def face_types(functions):
    """Types of the face of some functions: pointers to const, if one is. Constants in all are bools or ints."""
    if not functions[0].is_code:
        return wide_types(functions[0])
    passed = [[argument for argument in face_arguments(function) if not argument[1].endswith("!")]
              for function in functions]
    types = []
    for same in zip(*passed, strict=True):
        known = max((c_type for c_type, _, _ in same if c_type), default=None,
                    key=lambda c_type: c_type.startswith("const "))
        types.append(known or ("bool " if same[0][1] in ("true", "false") else "int "))
    return ["struct form *", *types]


def faces():
    """Declarations of all faces."""
    out = ["/* Generated from api/mpi/. */", "#ifndef FACES_H", "#define FACES_H",
           *(f'#include "{name}.h"' for name in INCLUDES)]
    users = {}
    functions = abi.read_functions(FOLDER)[0]
    results = {function.name for function in functions if function.results}
    for function in functions:
        if function.face not in results and not function.face.startswith("Handle_"):  # see form.h
            users.setdefault(function.face, []).append(function)
    for face, functions in users.items():
        out.append(f"{functions[0].result} face_{face}({', '.join(face_types(functions)) or 'void'});")
    return out + ["#endif"]


def find_peers(function, i):
    """The checks of the communicator of word i, and of root, source and destination."""
    def place(word):
        return f"a{function.words.index(word)}"
    tags = [f"a{k}" for k, word in enumerate(function.words) if word == "tag"]
    kind = function.words[i]
    checks = [f"comm_check_{kind}(form, o{i})"] if kind in ("intra", "inter", "cart") else []
    if "root" in function.words:
        checks.append(f"comm_check_root(form, o{i}, {place('root')})")
    if "dst" in function.words:
        checks.append(f"comm_check_peer(form, o{i}, {place('dst')}, {tags[0]}, false)")
    if "src" in function.words:
        checks.append(f"comm_check_peer(form, o{i}, {place('src')}, {tags[-1]}, true)")
    return checks


def buffer_value(c_type, places, words):
    """A buffer as a value of C."""
    a = [f"a{place}" for place in places]
    if c_type == SIDE:
        return f"&(struct side){{.buffer = {a[0]}, .count = {a[1]}, .type = {a[2]}}}"
    kind = "types" if words[places[3]] == "datatypes" else "type"
    return f"&(struct blocks){{.buffer = {a[0]}, .counts = {a[1]}, .displs = {a[2]}, .{kind} = {a[3]}}}"


def keep_type(function):
    """The call that keeps the arguments of a constructor of datatypes."""
    words = function.words[:-1]
    first = next((i for i, word in enumerate(words) if LETTERS[word].isupper()), None)
    n = "0" if first is None else "a0" if words[0] == "count" else f"a{first - 1}"
    combiner = re.sub("^Type_(create_)?", "", function.name).upper()
    kept = "".join(f", a{i}" for i in range(len(words)))
    layout = "".join(LETTERS[word] for word in words)
    return f'type_keep(form, code, a{len(words)}, MPI_COMBINER_{combiner}, {n}, "{layout}"{kept})'


def enter(function, results):
    """What finds the objects of a function and calls its face, or sets its results."""
    passed, checks, names = [], [], {}
    lines = []
    for c_type, word, places in face_arguments(function):
        value = word if not places else buffer_value(c_type, places, function.words) if word == "buffer" and c_type in (
            SIDE, BLOCKS) else f"a{places[0]}"
        kind = word.rstrip("!")
        if kind in OBJECTS:
            i, value = places[0], f"o{places[0]}"
            lines.append(f"    {c_type}{value};")
            checks.append(f"{OBJECTS[kind][1]}(form, a{i}, &{value})")
            checks += find_peers(function, i)
            names.setdefault(kind, value)
        if not word.endswith("!"):
            passed.append(value)
    lines.append("    int code = MPI_SUCCESS;")
    for check in checks:
        lines.append(f"    if (code == MPI_SUCCESS)\n        code = {check};")
    if results:
        outputs = len(function.words) - len(results)
        for i, result in enumerate(results):
            value = re.sub(r"(?<!>)\b\w+\b", lambda match: names.get(match[0], match[0]), result)
            lines.append(f"    if (code == MPI_SUCCESS)\n        *a{outputs + i} = {value};")
    else:
        lines.append("    if (code == MPI_SUCCESS)\n"
                     f"        code = face_{function.face}({', '.join(['form', *passed])});")
    last = keep_type(function) if function.words[-1:] == ["newtype*"] else "code"
    types = ["struct form *", *wide_types(function)]
    return [f"static inline int enter_{function.name}({parameters(types, names_of(function))}) {{",
            *lines, f"    return {last};", "}"]


def names_of(function):
    """The names of the parameters of enter_NAME."""
    return ["form"] + [f"a{i}" for i in range(len(function.words))]


def arguments(form):
    """What a form passes on, and the outputs to narrow afterwards: (arguments, before, after)."""
    passed, before, after = [], [], []
    large = "c" in form.function.forms
    for i, word in enumerate(form.function.words):
        if word == "...":
            continue
        if i >= len(form.words) or form.words[i] != word:
            passed.append("NULL")  # a status that this form does not have
        elif word in abi.ARRAYS:
            wide = form.large or word == "sizes"
            passed.append(f"(struct array){{a{i}, {'true' if wide else 'false'}}}")
        elif large and not form.large and word in ("count*", "size*", "unit*"):
            kind = abi.c_type(word, True).rstrip(" *")
            before.append(f"    {kind} o{i} = a{i} ? *a{i} : 0;")
            limit = "INTPTR_MAX" if word == "size*" else "INT_MAX"
            after.append(f"    if (code == 0)\n        *a{i} = o{i} > {limit} ? MPI_UNDEFINED : "
                         f"({abi.c_type(word).rstrip(' *')})o{i};")
            passed.append(f"&o{i}")
        else:
            passed.append(f"a{i}")
    return passed, before, after


def define(form, body):
    """One function under both names."""
    text = parameters(form.types())
    result = form.function.result
    return [f"{result} PMPI_{form.name}({text});", f"{result} PMPI_{form.name}({text}) {{", *body, "}",
            f"extern __typeof__(PMPI_{form.name}) MPI_{form.name}",
            f'    __attribute__((weak, alias("PMPI_{form.name}")));']


def check_pointers(form):
    """What a call begins with: objects that it makes are none yet; and, as the begin of an expression, the refusal of
    outputs, and of arrays with elements, that are NULL."""
    code, before, count = "", [], None
    items = [item for item in form.function.items if item[0] != "." or item == "..."]
    comm = next((f"a{i}" for i, word in enumerate(form.words) if abi.SAME.get(word, word) == "comm"), "MPI_COMM_NULL")
    for i, word in enumerate(form.words):
        if "I" not in form.function.forms and (word == "int" or word in ("count", "Count") and not count):
            count = f"a{i}"
        checks = f"{count} > 0 && " if count and ARRAYS.fullmatch(word) and "contents" not in form.name else None
        if OUTPUTS.fullmatch(word) and not (i < len(items) and items[i].endswith("!")):
            checks = ""
            if word in NULLS and not re.search("free|disconnect", form.name):
                before.append(f"    if (a{i})\n        *a{i} = MPI_{NULLS[word]}_NULL;")
        if checks is not None:
            code += f"{checks}!a{i} ? form_refuse_null(&form, {comm}, {i + 1}) : "
    return before, code


def call(form):
    """The body of a form whose face exists."""
    passed, before, after = arguments(form)
    if not form.function.is_code:
        return [f"    return face_{form.function.face}({', '.join(passed)});"]
    request = f"a{len(form.words) - 1}" if form.kind != "plain" else "NULL"
    kind = {"plain": "FORM_NOW", "I": "FORM_BEGIN"}.get(form.kind, "FORM_KEEP")
    body = [f'    struct form form = {{.name = "MPI_{form.name}", .kind = {kind}, .ret_request = {request}}};', *before]
    if kind == "FORM_KEEP":
        body += keep(form, passed)
    else:
        passed = ", ".join(["&form", *passed])
        nulls, check = check_pointers(form)
        body += [*nulls, f"    const int code = {check}enter_{form.function.name}({passed});"]
    return body + after + ["    return form_end(&form, code);"]


def keep(form, passed):
    """A persistent form: the arguments are kept, arrays are copied."""
    name, words = form.function.name, form.function.words
    comm = next(f"a{i}" for i, word in enumerate(words) if abi.SAME.get(word, word) == "comm")
    # The arrays of Gatherv and Scatterv count at the root only.
    root = (f"a{words.index('root')}" if "root" in words else "KEEP_OWN_GROUP" if name == "Reduce_scatter" else "KEEP_ALL")
    passed = [f"form_keep_array(&form, {text}, {comm}, {root})" if text.startswith("(struct array)") else
              f"form_keep_types(&form, {text}, {comm})" if word == "datatypes" else
              f"form_keep_{word.rstrip('?')}(&form, {text})" if word in ("datatype", "datatype?", "op") else text
              for text, word in zip(passed, words)]
    return [f"    form.code = {check_pointers(form)[1]}MPI_SUCCESS;",
            f"    const struct kept_{name} kept = {{{', '.join(passed)}}};",
            f"    const int code = form_keep(&form, start_{name}, &kept, sizeof kept, {comm});"]


def starter(function):
    """What starts a persistent form."""
    types = wide_types(function)
    fields = " ".join(f"{t}{'' if t.endswith('*') else ' '}a{i};" for i, t in enumerate(types))
    passed = ", ".join(["form"] + [f"kept->a{i}" for i in range(len(types))])
    return [f"struct kept_{function.name} {{ {fields} }};",
            f"static int start_{function.name}(struct form *form, const void *arguments) {{",
            f"    const struct kept_{function.name} *kept = arguments;",
            f"    return enter_{function.name}({passed});", "}"]


def forms(sources):
    """All exported functions."""
    text = "".join(pathlib.Path(source).read_text(encoding="utf-8") for source in sources)
    present = set(re.findall(r"^(?:int |double |void \*|MPI_\w+ )face_(\w+)\(", text, re.M))
    functions = abi.read_functions(FOLDER)[0]
    results = {function.name: function.results for function in functions if function.results}
    out = ["/* Generated from api/mpi/. */", "#include <limits.h>", '#include "faces.h"']
    for function in functions:
        here = function.face in present or function.face in results
        if here and function.is_code:
            out += enter(function, results.get(function.face))
        if here and ("init" in function.forms or "start" in function.forms):
            out += starter(function)
        for form in abi.forms(function):
            if here:
                out += define(form, call(form))
                continue
            value = "code" if function.is_code else f"((void)code, ({function.result})0)"
            out += define(form, ["    static atomic_bool logged;",
                                 f'    const int code = form_missing("MPI_{form.name}", &logged);',
                                 f"    return {value};"])
    return out


def main():
    """See above."""
    what, output, *sources = sys.argv[1:]
    made = {"header": header, "faces": faces, "forms": lambda: forms(sources), "tables": lambda: definitions(FOLDER)}[what]()
    pathlib.Path(output).write_text("\n".join(made) + "\n", encoding="utf-8")


main()
