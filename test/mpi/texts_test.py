#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Texts of api/mpi that must follow its sources: texts_test.py FOLDER MPI_FORMS_C.

  sentences   each class of errors that a source returns has a sentence in abi/abi_tables.txt
  code        what README.md shows of a call is in the table, or in the generated MPI_FORMS_C
"""
import pathlib
import re
import sys

FOLDER, FORMS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(FOLDER / "abi"))
import abi_table  # noqa: E402  (the folder is an argument)

NO_CLASSES = {"ERR_LASTCODE"}


def missing_sentences():
    """The classes without a sentence."""
    tables = abi_table.read_tables(FOLDER / "abi")
    sources = [path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.[ch]")]
    returned = {name for text in sources for name in re.findall(r"\bMPI_(ERR_\w+)", text)}
    returned |= {row[1] for row in tables["statuses"]}
    if len(returned) < 20:
        sys.exit(f"only {len(returned)} classes are returned in {FOLDER}")
    return sorted(returned - NO_CLASSES - {row[0] for row in tables["errors"]})


def stale_code():
    """The blocks of code of the section Files that are in no source. A blank line ends a block."""
    section = (FOLDER / "README.md").read_text(encoding="utf-8").split("## Files")[1]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.M)
    code = [re.sub(r"^    ", "", block, flags=re.M) for block in blocks]
    sources = [path.read_text(encoding="utf-8") for path in (FOLDER / "abi" / "abi_functions.txt", FORMS)]
    if len(code) < 3:
        sys.exit(f"README.md shows {len(code)} blocks of code, but the line, enter_Send and PMPI_Send are three")
    return [block for block in code if not any("\n" + block in source for source in sources)]


missing, stale = missing_sentences(), stale_code()
if missing:
    sys.exit(f"abi_tables.txt has no sentences of {missing}")
if stale:
    sys.exit("README.md has code that is not generated any more:\n" + "\n".join(stale))
