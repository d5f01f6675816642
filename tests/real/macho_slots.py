#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The import slots of Mach-O files are those that llvm-objdump lists, in every encoding: bind, lazy and weak
opcodes, chained fixups. One source linked both ways has the same imports in the same places. Pointer formats that
no linker here writes (arm64e, 32 bit) come from files made by this test. Every file is then mapped as a loader maps
it and rebound there. SONDE_SEED chooses the files that are made."""
import collections
import os
import re
import subprocess

from helpers import BUILD, SEED, check, run_cases, skip
from macho import build, synthetic

SLOTS = os.path.join(BUILD, "tests", "macho-slots")
OBJDUMP = build.tool("llvm-objdump-19", "llvm-objdump-18", "llvm-objdump-20")
LAZY, NON_LAZY, BIND, LAZY_BIND, WEAK_BIND, CHAINED = (1 << i for i in range(6))
Slot = collections.namedtuple("Slot", "address library addend weak signed found name")


def slots_of(file, arch):
    out = subprocess.run([SLOTS, file], capture_output=True, text=True)
    check(out.returncode == 0, f"{file}: {out.stderr}")
    slots = []
    for line in out.stdout.splitlines():
        machine, address, library, addend, weak, is_signed, found, name = line.split(" ", 7)
        if machine == arch:
            slots.append(Slot(int(address, 16), int(library), int(addend), int(weak), int(is_signed), int(found), name))
    return slots


def listed(file, arch):
    """{encoding: {(address, name)}} by llvm-objdump."""
    out = subprocess.run([OBJDUMP, "--macho", f"--arch={arch}", "--bind", "--lazy-bind", "--weak-bind", "--dyld-info",
                          file], capture_output=True, text=True, check=True)
    tables, at = {BIND: set(), LAZY_BIND: set(), WEAK_BIND: set(), CHAINED: set()}, None
    heads = {"Bind table:": BIND, "Lazy bind table:": LAZY_BIND, "Weak bind table:": WEAK_BIND, "dyld information:": CHAINED}
    for line in out.stdout.splitlines():
        line = line.replace(" (weak_import)", "").replace(" (weak import)", "").rstrip()
        if line in heads:
            at = heads[line]
        elif at == CHAINED and (match := re.match(r"\S+\s+\S*\s+(0x[0-9a-fA-F]+)\s+\S+\s+bind\s+\S+\s+.*\s(\S+)$", line)):
            tables[at].add((int(match[1], 16), match[2]))
        elif at and at != CHAINED and (match := re.match(r"\S+\s+\S+\s+(0x[0-9a-fA-F]+)\s+.*?(\S+)$", line)):
            tables[at].add((int(match[1], 16), match[2]))
    return tables


def compare(file, arch, what):
    mine, theirs = slots_of(file, arch), listed(file, arch)
    total = 0
    for encoding, wanted in theirs.items():
        got = {(s.address, s.name) for s in mine if s.found & encoding}
        total += len(wanted)
        check(got == wanted, f"{what}, encoding {encoding}: missing {sorted(wanted - got)[:2]}, "
              f"too many {sorted(got - wanted)[:2]}, of {len(wanted)}")
    indirect = sum(bool(s.found & (LAZY | NON_LAZY)) for s in mine)
    hidden = sum(not s.found & (LAZY | NON_LAZY) for s in mine)
    check(total > 0, f"{what}: llvm-objdump lists nothing")
    print(f"{what}: all {total} binds found, {len(mine)} slots; {indirect} have an indirect symbol, {hidden} have none")
    return mine


def rebind(file, name):
    out = subprocess.run([SLOTS, file, name], capture_output=True, text=True)
    check(out.returncode == 0, f"{file}: rebinding {name} in memory: {out.stderr}")
    return sum(map(int, out.stdout.split()))


def _needs_tools():
    build.needs_linker()
    if not OBJDUMP:
        skip("llvm-objdump-19 is not installed")


def fixtures(folder):
    _needs_tools()
    for arch in ("x86_64", "arm64"):
        objects = build.objects(folder, arch)
        both = []
        for chained in (False, True):
            program = build.link(folder, arch, objects, folder / f"program.{arch}.{chained}", chained)
            both.append(compare(program, arch, f"fixture {arch} {'chained' if chained else 'classic'}"))
            # A call and a constant; two in the table, and two in structures.
            for name, least in (("puts", 2), ("abs", 2), ("free", 2), ("malloc", 1), ("nothing", 0)):
                count = rebind(program, name)
                check(count >= least, f"{program}: {count} slots of {name} are rebound, not {least}")
        imports = [collections.Counter((s.name, s.library, s.addend, s.weak) for s in slots
                                       if s.name != "dyld_stub_binder" and not s.found & WEAK_BIND and s.library != -3)
                   for slots in both]  # -3: weak look-up, which is a table of its own in the classic layout
        check(set(imports[0]) == set(imports[1]), f"{arch}: the encodings differ in their imports: "
              f"{set(imports[0]) ^ set(imports[1])}")


def made(folder):
    for fmt in synthetic.FORMATS:
        for import_format in (1, 2, 3):
            data, expected = synthetic.image(f"{SEED} {fmt} {import_format}", fmt, import_format)
            file = folder / f"made.{fmt}.{import_format}"
            file.write_bytes(data)
            arch = "other" if fmt == 3 else "arm64e" if synthetic.FORMATS[fmt][8] else "arm64"
            got = [(s.address, s.library, s.addend, s.weak, s.signed, s.name) for s in slots_of(file, arch)]
            check(got == expected, f"made, pointer format {fmt}, import format {import_format}: {len(got)} slots, "
                  f"{len(expected)} expected; first {[p for p in zip(got, expected) if p[0] != p[1]][:1]}")
    print("made files: 8 pointer formats, 3 import formats, all slots equal")


def packages(folder):
    _needs_tools()
    files, _ = build.published(folder)
    for file, arch in files:
        compare(file, arch, f"{file.name} {arch}")
    for file in {file for file, _ in files}:
        rebind(file, "malloc")


run_cases(globals())
