#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the exported names of libmpi_abi.so.1 with the table: names_test.py FOLDER NM LIBRARY.

Each name exists as MPI_ and as PMPI_, so that a profiler can replace one and call the other. MPI_ is weak, but
link-time optimization makes it strong, which is the same for a shared library.
"""
import subprocess
import sys

folder, nm, library = sys.argv[1:]
sys.path.insert(0, folder)
import abi_table  # noqa: E402  (the folder is an argument)

lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
symbols = {line.split()[2]: line.split()[1] for line in lines.splitlines()}
wanted = {}
functions = abi_table.read_functions(folder)[0]
for function in functions:
    for form in abi_table.forms(function):
        wanted[f"MPI_{form.name}"], wanted[f"PMPI_{form.name}"] = "W", "T"
removed = sum("removed" in function.forms for function in functions)
count = len(wanted) // 2 - removed
wrong = sorted(name for name in wanted if symbols.get(name) not in (wanted[name], "T"))
other = sorted(set(symbols) - set(wanted))
if wrong or other or (count, removed) != (664, 10):
    sys.exit(f"{library}: {count} names of the ABI and {removed} removed ones; missing or of the wrong kind: {wrong}; "
             f"not in the table: {other}")
print(f"{count} names of the ABI and {removed} removed ones, each as MPI_ and PMPI_")
