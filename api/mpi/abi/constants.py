# SPDX-License-Identifier: BSD-3-Clause
"""The definitions of tables.h and of type_basics, from abi_tables.txt."""
import abi_table as abi


def dtype(name):
    """A type of ringcomm.h."""
    return "(rcm_dtype)0" if name == "-" else f"(rcm_dtype)(RCM_{name})"


def basic(name):
    """The entry of a basic type."""
    return f"&type_basics[(uintptr_t)MPI_{name} - TYPE_FIRST]"


def value(fields):
    """An initializer."""
    return "{" + ", ".join(f".{name} = {text}" for name, text in fields.items()) + "}"


def types(sections):
    """The types. A pair has two parts, and another type that is reduced, whose elements have the gaps of memory."""
    pairs = {pair: parts for pair, *parts in sections["pairs"]}
    alignments, sizes, kinds, tables, entries = {}, {}, {}, [], []
    for name, size, extent, external, moved, exact, group in sections["types"]:
        sizes[name], kinds[name], parts = int(size), moved, pairs.get(name)
        alignments[name] = max((alignments[part] for part in parts or []),
                               default=int(size) // (2 if "COMPLEX" in name else 1))
        fields = {"name": f'"MPI_{name}"', "size": extent, "external": external, "extent": extent, "true_extent": extent,
                  "alignment": alignments[name], "moved": dtype(moved), "nmoved": 1, "exact": dtype(exact),
                  "group": f"GROUP_{group}", "is_dense": "true", "is_committed": "true"}
        if parts:
            first, second = parts
            at = -(-sizes[first] // alignments[second]) * alignments[second]
            same = kinds[first] == kinds[second]
            tables.append(f"static struct type_part parts_{name}[] = {{{{0, 1, 0, 1, {basic(first)}}}, "
                          f"{{{at}, 1, 0, 1, {basic(second)}}}}};")
            tables.append(f"static struct MPI_ABI_Datatype memory_{name} = {value({**fields, 'references': 1})};")
            fields.update({"size": size, "true_extent": at + sizes[second], "exact": 0, "nparts": 2, "nmoved": 2 if same else size,
                           "moved": dtype(kinds[first] if same else "UINT8"), "parts": f"parts_{name}",
                           "in_memory": f"&memory_{name}", "is_dense": "true" if size == extent else "false"})
        entries.append(f"    [(uintptr_t)MPI_{name} - TYPE_FIRST] = {value(fields)},")
    return [*tables, "struct MPI_ABI_Datatype type_basics[TYPE_LAST - TYPE_FIRST + 1] = {", *entries]


def definitions(folder):
    """The C source of the tables of constants."""
    sections = abi.read_tables(folder)
    out = ["/* Generated from api/mpi/. */", '#include "tables.h"', *types(sections)]
    out += ["};", "const struct type_pair type_pairs[] = {"]
    out += [f"    {{{', '.join(f'MPI_{name}' for name in row)}}}," for row in sections["pairs"]]
    out += ["    {0}};", "const struct type_sized type_sized[] = {"]
    out += [f"    {{MPI_TYPECLASS_{kind}, {precision}, {digits}, MPI_{name}}},"
            for kind, precision, digits, name in sections["fortran"]]
    out += ["    {0}};", "const struct predefined_op op_basics[OP_LAST - OP_FIRST + 1] = {"]
    for name, *groups in sections["operators"]:
        bits = " | ".join(f"1u << GROUP_{group}" for group in groups)
        out.append(f'    [(uintptr_t)MPI_{name} - OP_FIRST] = {{"MPI_{name}", RCM_{name}, {bits}}},')
    out += ["};", "const struct status_class status_classes[] = {"]
    out += [f"    {{RCM_{status}, MPI_{code}}}," for status, code in sections["statuses"]]
    out += ["    {0, -1}};", "const char *const class_texts[MPI_ERR_ABI + 1] = {"]
    out += [f'    [MPI_{name}] = "{" ".join(words)}",' for name, *words in sections["errors"]]
    return out + ["};"]
