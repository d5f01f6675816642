#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names and lines of Mach-O files equal those of llvm-nm and llvm-symbolizer, which read them
independently.

Of programs cross-built here: every byte of code has the same functions, inlined ones too, files and
lines, from a dSYM bundle, from a bundle elsewhere that only the UUID leads to, and through the debug
map from the object files. Of published packages: every symbol has the name that llvm-nm lists and
llvm-symbolizer gives, and where sonde names an address between two symbols at all, the same one;
where it gives no name, the table of function starts has a function there that no symbol names."""
import json
import os
import pathlib
import shutil

from helpers import WORK, check, run_cases, try_sonde
from macho import build
from macho.oracle import llvm, symbols, text_of

os.environ["XDG_CACHE_HOME"] = os.path.join(WORK, "cache")


def frames_of(binary, arch, addresses, *options):
    out = try_sonde("symbolize", "--json", "--no-demangle", "--arch", arch, "--image", binary, *options,
                    input="".join(f"{a:#x}\n" for a in addresses))
    if out.returncode:
        check(False, f"{binary}: {out.stderr.strip()}")
        return {}
    return {int(a["address"], 16): [(f.get("function", ""), f.get("file", ""), f.get("line", 0)) for f in a["frames"]]
            for a in json.loads(out.stdout)["addresses"]}


def real(answers):
    """Without what llvm-symbolizer prints for an unknown file."""
    return {a: [(f, "" if file in ("??", "") else file, line) for f, file, line in frames]
            for a, frames in answers.items()}


def compare_lines(binary, arch, what, *options):
    code = list(text_of(binary, arch))
    want, got = real(llvm(binary, arch, code)), frames_of(binary, arch, code, *options)
    different = [a for a in code if want.get(a) != got.get(a)]
    check(not different, f"{what}: {len(different)} of {len(code)} addresses differ, first {different[:1]}: "
          f"{[want.get(a) for a in different[:1]]} {[got.get(a) for a in different[:1]]}")
    print(f"{what}: {len(code)} addresses, {sum(len(f) for f in got.values())} frames equal"
          if not different else what)
    return want, code


def fuller(got, want):
    """dsymutil leaves weak functions of x86_64 out; the object files have them."""
    return got and len(want) == 1 and not want[0][1] and got[-1][0] == want[0][0]


def fixtures(folder):
    build.needs_linker()
    for arch in ("x86_64", "arm64"):
        for dwarf in ("-gdwarf-4", "-gdwarf-5"):
            for chained in (False, True):
                objects = build.objects(folder, arch, dwarf)
                program = build.link(folder, arch, objects, folder / f"program.{arch}{dwarf}.{chained}", chained)
                name = f"{arch} {dwarf[1:]} {'chained' if chained else 'classic'}"
                dsym = pathlib.Path(f"{program}.dSYM")
                build.run(build.DSYMUTIL, program, "-o", dsym)
                want, code = compare_lines(program, arch, f"{name}, dSYM", "--no-index")
                moved = folder / "elsewhere"
                moved.mkdir(exist_ok=True)
                shutil.move(dsym, moved / "other name.dSYM")
                for how, options in (("found by UUID", ["--debug-dir", moved]), ("debug map", []),
                                     ("debug map, one by one", ["--no-index"])):
                    asked = code if len(options) != 1 else code[::16]
                    got = frames_of(program, arch, asked, *options)
                    different = [a for a in asked if want[a] != got.get(a) and not fuller(got.get(a), want[a])]
                    check(not different, f"{name}, {how}: {len(different)} differ, first {different[:1]} "
                          f"{[want[a] for a in different[:1]]} {[got.get(a) for a in different[:1]]}")
                shutil.rmtree(moved)
    print("the same through a bundle of another name, and through the debug map")


def packages(folder):
    build.needs_linker()
    files, why = build.published(folder)
    check(why or len({file for file, _ in files}) >= 5, f"only {len(files)} images in the packages")
    for file, arch in files:
        named = symbols(file, arch)
        starts = sorted(named)
        between = [a + (b - a) // 2 for a, b in zip(starts, starts[1:])]
        asked = sorted(set(starts + between))
        got = frames_of(file, arch, asked, "--no-lines")
        theirs = llvm(file, arch, asked)
        wrong = [a for a in starts if not got.get(a) or got[a][0][0] not in named[a] or
                 got[a][0][0] != theirs[a][0][0]]
        check(not wrong, f"{file.name} {arch}: {len(wrong)} symbols named differently, first {wrong[:1]} "
              f"{[(named[a], got.get(a), theirs[a]) for a in wrong[:1]]}")
        inside = [a for a in between if got.get(a) and got[a][0][0] != theirs[a][0][0]]
        check(not inside, f"{file.name} {arch}: {len(inside)} addresses between symbols named differently")
        unnamed = sum(not got.get(a) for a in between)
        print(f"{file.name} {arch}: {len(starts)} symbols equal, {len(between) - unnamed} addresses between them; "
              f"{unnamed} in functions without a symbol have no name")


run_cases(globals())
