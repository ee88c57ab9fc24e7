# SPDX-License-Identifier: BSD-3-Clause
"""The definitions of tables.h and of type_basics, from abi_tables.txt."""
import abi_table as abi


def dtype(name):
    """A type of ringcomm.h."""
    return "(rcm_dtype)0" if name == "-" else f"(rcm_dtype)(RCM_{name})"


def definitions(folder):
    """The C source of the tables of constants."""
    sections = abi.read_tables(folder)
    out = ["/* Generated from api/mpi/. */", '#include "tables.h"',
           "struct MPI_ABI_Datatype type_basics[TYPE_LAST - TYPE_FIRST + 1] = {"]
    alignments = {}
    pairs = {pair: parts for pair, *parts in sections["pairs"]}
    for name, size, wire, external, moved, exact, group in sections["types"]:
        alignments[name] = max((alignments[part] for part in pairs.get(name, [])),
                               default=int(size) // (2 if group == "COMPLEX" else 1))
        out.append(f'    [(uintptr_t)MPI_{name} - TYPE_FIRST] = {{.name = "MPI_{name}", .size = {size}, .wire = {wire}, '
                   f".external = {external}, .extent = {wire}, .true_extent = {wire}, .alignment = {alignments[name]}, "
                   f".moved = {dtype(moved)}, "
                   f".nmoved = 1, .exact = {dtype(exact)}, .group = GROUP_{group}, .is_dense = true, "
                   ".is_committed = true},")
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
