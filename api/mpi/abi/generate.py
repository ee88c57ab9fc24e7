#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the sources that follow from the table of the MPI ABI.

  generate.py header OUTPUT               mpi.h, for this build and its tests
  generate.py faces OUTPUT                declarations of the functions that the C files define once for all forms
  generate.py forms OUTPUT SOURCE...      all exported functions: each calls its face in SOURCE, or is a stub
"""
import pathlib
import re
import sys

import abi_table as abi

FOLDER = pathlib.Path(__file__).parent
ROOTED = {"Gatherv", "Scatterv"}  # their arrays count at the root only


def parameters(types):
    """A list of parameters named a0, a1, ..."""
    named = []
    for i, c_type in enumerate(types):
        if c_type == "...":
            named.append("...")
        elif "(*)" in c_type:
            named.append(c_type.replace("(*)", f"(*a{i})"))
        else:
            named.append(f"{c_type}{'' if c_type.endswith('*') else ' '}a{i}")
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


def face_types(function):
    """Types of a face: those with large counts, and arrays of either kind."""
    types = ["struct array" if word in abi.ARRAYS else abi.c_type(word, "c" in function.forms)
             for word in function.words if word != "..."]
    return (["struct form *"] if function.is_code else []) + types


def faces():
    """Declarations of all faces."""
    out = ["/* Generated from api/mpi/. */", "#ifndef FACES_H", "#define FACES_H", '#include "form.h"']
    for function in abi.read_functions(FOLDER)[0]:
        if function.face != function.name:
            continue
        types = face_types(function)
        out.append(f"{function.result} face_{function.name}({', '.join(types) or 'void'});")
    return out + ["#endif"]


def arguments(form):
    """What a form passes to its face, and the outputs to narrow afterwards: (arguments, before, after)."""
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
            after.append(f"    if (code == 0 && a{i})\n        *a{i} = o{i} > {limit} ? MPI_UNDEFINED : "
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


def call(form):
    """The body of a form whose face exists."""
    passed, before, after = arguments(form)
    if not form.function.is_code:
        return [f"    return face_{form.function.face}({', '.join(passed)});"]
    request = f"a{len(form.words) - 1}" if form.kind != "plain" else "NULL"
    kind = {"plain": "FORM_NOW", "I": "FORM_BEGIN"}.get(form.kind, "FORM_KEEP")
    kept = ", .kept = &(struct kept){{0}, 0}" if kind == "FORM_KEEP" else ""
    body = [f'    struct form form = {{.name = "MPI_{form.name}", .kind = {kind}, .ret_request = {request}{kept}}};', *before]
    if kind == "FORM_KEEP":
        body += keep(form, passed)
    else:
        passed = ", ".join(["&form", *passed])
        body.append(f"    const int code = face_{form.function.face}({passed});")
    return body + after + ["    return form_end(&form, code);"]


def keep(form, passed):
    """A persistent form: the arguments are kept, arrays are copied."""
    name = form.function.name
    comm = f"a{form.words.index('comm')}"
    root = (f"a{form.words.index('comm') - 1}" if name in ROOTED else
            "KEEP_OWN_GROUP" if name == "Reduce_scatter" else "KEEP_ALL")
    passed = [f"form_keep_array(&form, {text}, {comm}, {root})" if text.startswith("(struct array)") else
              f"form_keep_types(&form, {text}, {comm})" if word == "datatypes" else
              f"form_keep_{word}(&form, {text})" if word in ("datatype", "op") else text
              for text, word in zip(passed, form.function.words)]
    return [f"    const struct kept_{name} kept = {{{', '.join(passed)}}};",
            f"    const int code = form_keep(&form, start_{name}, &kept, sizeof kept, {comm});"]


def starter(function):
    """What starts a persistent form."""
    types = face_types(function)[1:]
    fields = " ".join(f"{t}{'' if t.endswith('*') else ' '}a{i};" for i, t in enumerate(types))
    passed = ", ".join(["form"] + [f"kept->a{i}" for i in range(len(types))])
    return [f"struct kept_{function.name} {{ {fields} }};",
            f"static int start_{function.name}(struct form *form, const void *arguments) {{",
            f"    const struct kept_{function.name} *kept = arguments;",
            f"    return face_{function.face}({passed});", "}"]


def forms(sources):
    """All exported functions."""
    text = "".join(pathlib.Path(source).read_text(encoding="utf-8") for source in sources)
    present = set(re.findall(r"^(?:int |double |void \*|MPI_\w+ )face_(\w+)\(", text, re.M))
    out = ["/* Generated from api/mpi/. */", "#include <limits.h>", '#include "faces.h"']
    for function in abi.read_functions(FOLDER)[0]:
        here = function.face in present
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
    made = {"header": header, "faces": faces, "forms": lambda: forms(sources)}[what]()
    pathlib.Path(output).write_text("\n".join(made) + "\n", encoding="utf-8")


main()
