#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Texts of api/mpi that must follow its sources: texts_test.py FOLDER.

  sentences   each class of errors that a source returns has a sentence in abi/abi_tables.txt
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(sys.argv[1])
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


missing = missing_sentences()
if missing:
    sys.exit(f"abi_tables.txt has no sentences of {missing}")
