#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the table of the ABI with mpi_abi.h of MPICH 5.0.2: table_test.py FOLDER [MPI_ABI_H].

Without a header, the package mpich is downloaded with pip. Without it, the test is skipped.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "mpich==5.0.2"
LACKS = {"Psend_init_c", "Precv_init_c"}  # of the ABI, but not in MPICH's header
sys.path.insert(0, sys.argv[1])
import abi_table as abi  # noqa: E402  (the folder is an argument)


def read_header():
    """The text of mpi_abi.h."""
    if len(sys.argv) > 2:
        return pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-d", folder, PACKAGE],
                              capture_output=True, check=False)
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            print(f"skipped: {PACKAGE} cannot be downloaded with pip")
            sys.exit(77)
        with zipfile.ZipFile(wheels[0]) as wheel:
            name = next(n for n in wheel.namelist() if n.endswith("/mpi_abi.h"))
            return wheel.read(name).decode()


def plain(c_type):
    """A type without spaces around stars."""
    c_type = re.sub(r"\s*\*\s*", "*", re.sub(r"\s+", " ", c_type)).strip()
    return "int" if c_type == "const int" else c_type


def parameter(text):
    """The type of a parameter, without its name. An array is a pointer."""
    text = text.strip()
    if text in ("...", "void") or text.endswith("*"):
        return plain(text)
    match = re.fullmatch(r"(.*?)(\w+)((?:\[\d*\])*)", text)
    stars = {"": "", "[]": "*", "[][3]": "(*)[3]"}[match[3]]
    return plain(match[1] + stars)


def prototypes(text):
    """Types of each function: {name: (result, [parameters])}."""
    found = {}
    for result, name, arguments in re.findall(r"^([\w ]+?\**) ?\bMPI_(\w+)\(([^;]*)\);", text, re.M):
        types = [parameter(item) for item in arguments.split(",")]
        found[name] = (plain(result), [] if types == ["void"] else types)
    return found


def numbers(text):
    """The value of each constant."""
    found = {}
    for name, value in re.findall(r"#define MPI_(\w+)\s+(?:\(\([^()]*\)\(?)?(-?\w+)\)*\s*$", text, re.M):
        found[name] = value
    for name, value in re.findall(r"^\s+MPI_(\w+)\s*=\s*(-?\w+)\b", text, re.M):
        found[name] = value
    return {name: value if value.startswith("MPI_") else int(value, 0) for name, value in found.items()
            if not name.startswith(("ABI_Aint", "ABI_Offset", "ABI_Count"))}  # types, not constants


def main():
    """Compares all."""
    header = re.sub(r"/\*.*?\*/", "", read_header(), flags=re.S)
    functions = abi.read_functions(sys.argv[1])[0]
    ours = {}
    for function in functions:
        for form in abi.forms(function):
            if "removed" not in function.forms:
                types = [plain(t).replace("int(*)", "int (*)") for t in form.types()]
                ours[form.name] = (plain(function.result), types)
    theirs = {name: (r, [t.replace("int(*)", "int (*)") for t in types]) for name, (r, types) in prototypes(header).items()}
    wrong = [f"{name}: the table has {ours.get(name)}, the header {theirs.get(name)}"
             for name in sorted(set(ours) | set(theirs)) if ours.get(name) != theirs.get(name) and name not in LACKS]
    values = {name: f"MPI_{value}" if section == "alias" else int(value, 0)
              for section, name, value in abi.read_numbers(sys.argv[1])}
    known = numbers(header)
    wrong += [f"{name}: the table has {values.get(name)}, the header {known.get(name)}"
              for name in sorted(set(values) | set(known)) if values.get(name) != known.get(name)]
    if wrong or len(theirs) < 600 or len(known) < 300:
        sys.exit("\n".join(wrong) + f"\n{len(theirs)} functions and {len(known)} constants are in the header")
    print(f"{len(theirs)} functions and {len(known)} constants are the same")


main()
