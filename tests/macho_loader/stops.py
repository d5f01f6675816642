#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: stops.py ARCH [COUNT [SEED]]: threads of the Mach-O test program are stopped COUNT times (50) at any instruction,
in both layouts; libsonde for macOS and libsonde for Linux each tell the stack of the stopped thread, and the two must be
equal, frame for frame and in whether they are complete. Then they are interrupted by a signal as often, whose handler has
libsonde tell the stack of the ucontext_t that it is given. Exit status 1 when one is not, 77 with a reason where something
is missing: libsonde for Linux is that of build-test (x86_64) or build-aarch64 (arm64)."""
import os
import random
import subprocess
import sys

import witness
from run import HERE, LAYOUTS, LINUX, ROOT, Bench, run, tool


def make_witness(bench, folder, name, sources):
    """Returns how many functions it has."""
    assembly = "".join(bench.compile(source, "-S", "-o", "-") for source in sources if source.suffix == ".c")
    assembly += "".join(source.read_text() for source in sources if source.suffix == ".s")
    listing = run(tool("llvm-objdump-14", "llvm-objdump"), "-d", "--no-show-raw-insn",
                  folder / name)
    is_x86 = bench.arch == "x86_64"
    start = 0x100000000 if name == "subject" else 0
    text, known = witness.assembly_of(witness.functions_of_assembly(assembly), witness.functions_of_image(listing), start,
                                      (folder / name).stat().st_size + (1 << 18), is_x86)
    (folder / "witness").mkdir(exist_ok=True)
    source = folder / "witness" / (name + ".s")
    source.write_text(text)
    run(bench.gcc, "-shared", "-nostdlib", "-Wl,-z,max-page-size=16384", "-Wl,-z,separate-code", "-Wl,--build-id", "-o",
        folder / "witness" / (name + ".so"), source)
    return known


def stacks(text):
    return [line.split() for line in text.splitlines()]


def compare(ours, theirs):
    """(equal stops, depths, the first few that are not)."""
    different = [(i, a, b) for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    return len(ours) - len(different), [len(a) - 2 for a in ours], different[:3]


def preprocessed(bench, source):
    """kernel.S with its macros resolved, for the rows in it."""
    path, plain = bench.out / "kernel.i", bench.out / "kernel.s"
    run(*bench.apple("-E", "-P", "-o", path, source))
    run(bench.clang, "-cc1as", "-triple", f"{bench.arch}-apple-macos11.0.0", "-filetype", "asm", "-o", plain, path)
    return plain


def try_it(bench, loader, folder, how, count, seed, known):
    told = folder / f"{how}.txt"
    with told.open("w") as out:
        done = subprocess.run([*map(str, loader), folder / "kernel.dylib", folder / "subject", how, str(count), str(seed)],
                              capture_output=True, text=True, timeout=600, pass_fds=[out.fileno()],
                              env={**os.environ, "MACHO_STOPS": str(out.fileno()), "MACHO_WITNESS": str(folder / "witness")})
    ours, theirs = stacks(done.stdout), stacks(told.read_text())
    equal, depths, different = compare(ours, theirs)
    good = done.returncode == 0 and len(ours) == len(theirs) == count == equal
    print(f"{'ok' if good else 'FAILED'} {bench.arch} {folder.name}: {equal} of {count} {how} equal, up to {max(depths, default=0)} "
          f"frames, seed {seed}; {known} functions have rows {done.stderr}")
    complete = sum(a[1] == "0" for a in ours)
    tops = len({a[2] for a in ours if len(a) > 2})
    print(f"   {complete} complete; {tops} different instructions")
    for i, a, b in different:
        print(f"   stop {i}:\n     macOS {' '.join(a)}\n     Linux {' '.join(b)}")
    return good


def main():
    arch, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1, 1 << 30)
    bench = Bench(arch, None)
    archive = (LINUX if arch == "x86_64" else ROOT / "build-aarch64") / "lib/libsonde.a"
    if not archive.exists():
        print(f"{archive} is not built")
        return 77
    loader = bench.make_loader("macho-loader-compare", "-DWITH_SONDE", "-I", ROOT / "include", archive)
    objects, libraries, failed = bench.objects("program"), bench.libraries(), 0
    for layout in LAYOUTS:
        folder = bench.make_program(layout, objects, libraries)
        known = make_witness(bench, folder, "subject", sorted((HERE / "program").glob("*.c")))
        known += make_witness(bench, folder, "kernel.dylib", [*sorted((HERE / "system").glob("*.c")),
                                                              preprocessed(bench, HERE / "system/kernel.S")])
        for how in ("stops", "signals"):
            failed += not try_it(bench, loader, folder, how, count, seed, known)
    return 1 if failed else 0


sys.exit(main())
