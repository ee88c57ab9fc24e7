# SPDX-License-Identifier: BSD-3-Clause
"""Reads the table of the MPI ABI: abi_functions.txt and abi_numbers.txt. See there for the format."""
import pathlib
import re

HANDLES = ["Datatype", "Comm", "Op", "Request", "Info", "File", "Win", "Session", "Group", "Errhandler", "Message"]
INTEGERS = {"T_cb_safety", "T_source_order"}  # enumerations, which are int
POINTERS = ["T_enum", "T_cvar_handle", "T_pvar_handle", "T_pvar_session", "T_event_registration", "T_event_instance"]
BOTH = {  # word: type of the plain form, of the form with large counts
    "count": ("int", "MPI_Count"), "count*": ("int *", "MPI_Count *"),
    "counts": ("const int *", "const MPI_Count *"), "displs": ("const int *", "const MPI_Aint *"),
    "size": ("MPI_Aint", "MPI_Count"), "size*": ("MPI_Aint *", "MPI_Count *"),
    "sizes": ("const MPI_Aint *", "const MPI_Count *"),
    "unit": ("int", "MPI_Aint"), "unit*": ("int *", "MPI_Aint *"),
}
WORDS = {"data": "const void *", "buffer": "void *", "text": "char *", "text*": "char **", "text**": "char ***",
         "string": "const char *", "ints": "const int *", "ranges": "int (*)[3]", "int": "int", "int*": "int *",
         "double": "double", "void": "void", "...": "...", "Counts": "const MPI_Count *", "Aints": "const MPI_Aint *",
         "statuss": "const MPI_Status *", "status*": "MPI_Status *"}
for handle in HANDLES:
    WORDS[handle.lower()] = f"MPI_{handle}"
    WORDS[handle.lower() + "*"] = f"MPI_{handle} *"
    WORDS[handle.lower() + "s"] = f"const MPI_{handle} *"
ARRAYS = {"counts", "displs", "sizes"}
SAME = {"intra": "comm", "inter": "comm", "cart": "comm", "commattr": "comm", "commpool": "comm", "typeattr": "datatype",
        "committed": "datatype", "newtype*": "datatype*", "root": "int", "dst": "int", "src": "int", "tag": "int"}


def c_type(word, large=False):
    """The C type of a word."""
    word = SAME.get(word, word).rstrip("?").replace("[]", "*")
    if word in BOTH:
        return BOTH[word][large]
    if word in WORDS:
        return WORDS[word]
    return f"MPI_{word[:-1]} *" if word.endswith("*") else f"MPI_{word}"


class Function:
    """A line of the table."""

    def __init__(self, line):
        match = re.fullmatch(r"(\w+)(?: \[([\w ]+)\])?(?: = (\w+))?(?: -> (\w+))?:(?: ([^:]*?))?(?: := (.*))?", line)
        if not match:
            raise SystemExit(f"abi_functions.txt: not a function: {line}")
        self.name = match[1]
        self.forms = (match[2] or "").split()
        self.face = match[3] or self.name
        self.result = c_type(match[4] or "int")
        self.items = (match[5] or "").split()
        self.words = [item.rstrip("!") for item in self.items if item[0] != "." or item == "..."]
        self.results = match[6].split(", ") if match[6] else None
        self.is_code = match[4] is None and not self.name.endswith("_toint")

    def types(self, large=False):
        """The C types of the parameters."""
        return [c_type(word, large) for word in self.words]


class Form:
    """One exported function: a form of a line."""

    def __init__(self, function, kind, large):
        base = function.name
        self.function, self.kind, self.large = function, kind, large
        self.name = {"I": f"I{base[0].lower()}{base[1:]}", "plain": base}.get(kind, f"{base}_init")
        self.name += "_c" if large else ""
        self.words = list(function.words)
        if kind != "plain":
            if self.words and self.words[-1] == "status*":
                self.words.pop()
            self.words += ["info"] * (kind == "init") + ["request*"]

    def types(self):
        """The C types of the parameters."""
        return [c_type(word, self.large) for word in self.words]


def forms(function):
    """All forms of a function, the plain one first."""
    kinds = ["plain"] + [kind for kind in ("I", "init", "start") if kind in function.forms]
    return [Form(function, kind, large) for kind in kinds for large in ([False, True] if "c" in function.forms else [False])]


def lines(path):
    """The lines of a file without comments."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def read_functions(folder):
    """All functions, and the types of functions."""
    read = [Function(line) for line in lines(pathlib.Path(folder) / "abi_functions.txt")]
    return [f for f in read if "type" not in f.forms], [f for f in read if "type" in f.forms]


def read_numbers(folder):
    """Yields (section, name, value) of each constant."""
    section = ""
    for line in lines(pathlib.Path(folder) / "abi_numbers.txt"):
        if line.startswith("["):
            section = line[1:-1]
            continue
        for item in line.split():
            name, value = item.split("=")
            yield section, name, value


def read_tables(folder):
    """The lines of each section of abi_tables.txt: {section: [words]}."""
    sections = {}
    for line in lines(pathlib.Path(folder) / "abi_tables.txt"):
        if line.startswith("["):
            section = sections.setdefault(line[1:-1], [])
        else:
            section.append(line.split())
    return sections
