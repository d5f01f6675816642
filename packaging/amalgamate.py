#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: amalgamate.py FOLDER: writes sonde.c and sonde.h into FOLDER: the capture of stacks, with ids and names, as one
file that `cc -c sonde.c` compiles, for Linux on x86_64 and aarch64. docs/packages.md says what the two files contain.

Each header is inserted where it is first included, and the sources follow in the order of their modules. Two things differ
from the library, because one file has one name space. A name that several sources use for functions, types or macros of
their own gets the source's name before it. A name that several sources share gets the prefix sonde_core_, so that it
meets no name of the program."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIB, INCLUDE = ROOT / "src/lib", ROOT / "include"
PUBLIC = [f"sonde/{name}.h" for name in ("status", "stack", "thread", "image", "name")]
MODULES = ["base", "os", "arch", "image", "unwind", "python", "capture"]
# For hooks, sensors and the agent; by name, wherever they are in these modules.
LEFT_OUT = {"mem.c", "shadow_stack.c", "thread_stack.c", "binds.c", "chains.c", "slots.c", "import_slots.c",
            "sanitizer.c", "import_slot_names.c", "patch.c", "sled.c", "sled.S", "trampoline.S"}
CPU = re.compile(r"/(x86_64|aarch64)/")
SYSTEM = re.compile(r"\s*#\s*include\s*(<[^>]+>)")
OWN = re.compile(r'\s*#\s*include\s*"([^"]+)"')
# What a source defines for itself, in the layout of clang-format.
STATIC = re.compile(r"^(?:__attribute__\(\(.*\)\) |[A-Z_]+ )?static\b[^;={(]*?\b(\w+)(?=\(| =|;|\[)", re.M)
TAG = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) \{", re.M)
TYPEDEF = re.compile(r"^(?:typedef .*|\}) (\w+);$", re.M)
STRUCT = re.compile(r"^(?:typedef )?(?:struct|union)(?: \w+)? \{.*?^\}", re.M | re.S)
MACRO = re.compile(r"^#\s*define (\w+)", re.M)
ENUM = re.compile(r"^(?:typedef )?enum(?: \w+)? \{(.*?)\}", re.M | re.S)
PROLOGUE = """/* SPDX-License-Identifier: MIT
 *
 * sonde {version}: the capture of stacks, in one file, made by packaging/amalgamate.py from src/lib. sonde.h
 * documents the functions. Compile with any options of gcc or clang:
 *
 *   cc -O2 -c sonde.c
 *
 * Supported are Linux on x86_64 and aarch64, with glibc or musl.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#undef _FORTIFY_SOURCE /* memcpy stays memcpy: its checked form may abort the program */

"""
OPTIONS = """
/* Only sonde_… is visible outside a shared library. */
#pragma GCC visibility push(hidden)
#pragma GCC diagnostic ignored "-Wunused-function"
#if !defined(__clang__)
#pragma GCC optimize("no-strict-aliasing", "no-tree-slp-vectorize", "no-tree-loop-distribute-patterns")
#endif
"""
EPILOGUE = """
/* ---- what other parts of sonde define ------------------------------------------------------------ */

const int64_t trampoline_offsets[TRAMPOLINE_PLACES] = {0}; /* no trampoline: the table's own address is no return address */

#pragma GCC visibility pop
"""


def is_skipped(condition):
    """Whether a preprocessor condition is never met here."""
    return re.fullmatch(r"#\s*if\s+defined\((__APPLE__|SONDE_DEBUG|SONDE_ATTACHED)\)", condition.strip())


def strip_never(text):
    """Removes the branches that is_skipped names."""
    out, stack = [], []  # of (is such a branch, its lines are kept)
    for line in text.splitlines():
        word = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b", line)
        if not word:
            kept = True
        elif word[1].startswith("if"):
            never = bool(is_skipped(line))
            kept = not never
            stack.append((never, not never))
        elif word[1] == "endif":
            kept = not stack.pop()[0]
        elif stack[-1][0]:
            assert word[1] == "else", line
            kept, stack[-1] = False, (True, True)
        else:
            kept = True
        if kept and all(shown for _, shown in stack):
            out.append(line)
    return "\n".join(out) + "\n"


class Amalgamation:
    def __init__(self):
        self.inserted, self.system = set(), []

    def expand(self, text, conditional=False):
        """TEXT with its headers. One in a branch is inserted there, and again elsewhere: it has a guard."""
        out, depth = [], 0
        for line in text.splitlines():
            if re.match(r"\s*#\s*if", line):
                depth += 1
            elif re.match(r"\s*#\s*endif", line):
                depth -= 1
            branch = conditional or depth > 0
            system, own = SYSTEM.match(line), OWN.match(line)
            if system and not branch:
                if system[1] not in self.system:
                    self.system.append(system[1])
            elif own and own[1].startswith("sonde/"):
                assert own[1] in PUBLIC, f"{own[1]} is not part of sonde.h"
            elif own:
                out.append(self.header(own[1], branch))
            else:
                out.append(line)
        return "\n".join(out)

    def header(self, name, branch):
        if name in self.inserted:
            return f"/* {name} is above */"
        text = strip_never((LIB / name).read_text())
        guard = re.search(r"^#ifndef (\w+_H)\n#define \1\n(.*)^#endif$", text, re.M | re.S)
        if not branch:
            self.inserted.add(name)
            return f"\n/* ---- {name} ---- */\n{text[:guard.start()].strip()}\n" + self.expand(guard[2])
        return self.expand(text, True)


def assembly(path):
    """An assembly file as asm statements."""
    cpu = CPU.search(str(path))[1]
    text = subprocess.run(["cc", "-E", "-P", "-x", "assembler-with-cpp", "-U__x86_64__", "-U__aarch64__", f"-D__{cpu}__", "-I", LIB,
                           path], check=True, capture_output=True, text=True).stdout
    lines = [line.strip() for line in text.splitlines() if line.strip() and ".note.GNU-stack" not in line]
    quoted = "\n".join('        "{}\\n"'.format(line.replace("\\", "\\\\").replace('"', '\\"')) for line in lines)
    return f'__asm__(".pushsection .text\\n"\n{quoted}\n        ".popsection\\n");\n'


def private_names(text):
    """The names that a source defines for itself."""
    names = {match[1] for pattern in (STATIC, TAG, TYPEDEF, MACRO) for match in pattern.finditer(text)}
    for body in ENUM.findall(text):
        names |= set(re.findall(r"^\s*(\w+)", re.sub(r"/\*.*?\*/|=[^,]*", "", body, flags=re.S).replace(",", "\n"), re.M))
    return names


def rename(text, names):
    """TEXT with NAMES (a dictionary) replaced, except in strings and comments, and where they are members"""
    if not names:
        return text
    pattern = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|(?:(?<=\.)|(?<=->)|\b)(\w+)\b', re.S)

    structs = [match.span() for match in STRUCT.finditer(text)]

    def replaced(match):
        name = match[1]
        before, after = text[max(0, match.start() - 2):match.start()], text[match.end():match.end() + 1]
        member = before.endswith(("->", ".")) or after in ";,[" and any(a < match.start() < b for a, b in structs)
        return names.get(name, match[0]) if name and not member else match[0]
    return pattern.sub(replaced, text)


def sources():
    for module in MODULES:
        for path in sorted((LIB / module).rglob("*.[cS]")):
            if "apple" not in path.parts and not {path.name, f"{path.name}@{module}"} & LEFT_OUT:
                yield path


def globals_of(source, header_folder):
    """The names that SOURCE defines for other files, or refers to weakly, as the compiler sees them."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sonde.c")
        path.write_text(source)
        subprocess.run(["cc", "-w", "-c", "-I", header_folder, "-o", path.with_suffix(".o"), path], check=True)
        listed = subprocess.run(["nm", "-g", path.with_suffix(".o")], check=True, capture_output=True, text=True)
    return {name for kind, name in re.findall(r"(\w) (\S+)$", listed.stdout, re.M)
            if kind != "U" and not name.startswith("sonde_")}


def header(version):
    body = "\n".join(re.sub(r'^#include "sonde/.*\n', "", (INCLUDE / name).read_text(), flags=re.M) for name in PUBLIC)
    return (f"/* SPDX-License-Identifier: MIT\n *\n * sonde {version}: the headers of sonde.c, made by "
            "packaging/amalgamate.py.\n */\n" + body)


def amalgamate():
    amalgamation, parts, defined = Amalgamation(), [], {}
    paths = list(sources())
    for path in [*(path for path in paths if path.suffix == ".c"), *LIB.rglob("*.h")]:
        for name in private_names(strip_never(path.read_text())):
            defined.setdefault(name, []).append(path)
    for path in paths:
        name = str(path.relative_to(LIB))
        if path.suffix == ".S":
            parts.append(f"\n/* ---- {name} ---- */\n#if defined(__{CPU.search(name)[1]}__)\n{assembly(path)}#endif\n")
            continue
        text = strip_never(path.read_text())
        stem = "_".join(path.relative_to(LIB).with_suffix("").parts[-2:])
        own = {each: f"{stem}_{each}" for each in private_names(text) if len(defined[each]) > 1}
        head, body = split_at_includes(text)
        parts.append(f"\n/* ---- {name} ---- */\n{amalgamation.expand(head)}\n{rename(amalgamation.expand(body), own)}\n")
    system = "".join(f"#include {name}\n" for name in sorted(amalgamation.system))
    return system + '\n#include "sonde.h"\n' + OPTIONS + "".join(parts) + EPILOGUE


def split_at_includes(text):
    """A source before and after its last #include: what is included is not renamed."""
    end = max((match.end() for match in re.finditer(r"^#include.*$", text, re.M)), default=0)
    return text[:end], text[end:]


def main():
    folder = pathlib.Path(sys.argv[1])
    version = re.search(r"project\(sonde VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sonde.h").write_text(header(version))
    source = amalgamate()
    shared = globals_of(PROLOGUE + source, folder)
    source = rename_everywhere(source, {name: f"sonde_core_{name}" for name in shared})
    (folder / "sonde.c").write_text(PROLOGUE.format(version=version) + source)


def rename_everywhere(text, names):
    """Also in asm, whose symbols they are; not members and local variables, which come after . and ->."""
    pattern = re.compile(r"(?<![.>\w])(" + "|".join(sorted(map(re.escape, names))) + r")\b")
    return pattern.sub(lambda match: names[match[1]], text)


if __name__ == "__main__":
    main()
