#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde symbolize on Mach-O files of either width, wherever their image was mapped: the names of 32-bit images, with
stabs beside their symbols, are those that were put in and those of llvm-nm; --slide and --load move the addresses and
nothing else; a stripped image is said to be stripped, another UUID to be another. SONDE_SEED chooses the symbols."""
import json
import os
import random

from helpers import SEED, WORK, output_of, run_cases, try_sonde
from macho import kinds


def _write(kind, **how):
    image, *facts = kinds.executable(kind, f"{SEED} {kind}", **how)
    path = os.path.join(WORK, kind + ("-stripped" if how else ""))
    with open(path, "wb") as f:
        f.write(image)
    return path, *facts


def _ask(path, addresses, *options, status=0):
    out = try_sonde("symbolize", "--json", "--no-demangle", "--no-index", "--image", path, *options,
                    input="".join(f"{a:#x}\n" for a in addresses))
    assert out.returncode == status, (SEED, out)
    if status == 2:
        return out.stderr
    return [(int(a["address"], 16), a["frames"][0].get("function") if a["frames"] else None)
            for a in json.loads(out.stdout)["addresses"]]


def _within(names, end):
    """{an address within each function: its name}, the first byte of some and the last of others."""
    rng, starts = random.Random(SEED), sorted(names)
    return {at + rng.choice((0, after - at - 1, rng.randrange(after - at))): names[at].removeprefix("_")
            for at, after in zip(starts, starts[1:] + [end])}


def names_are_those_put_in_and_llvm_nms():
    for kind in kinds.KINDS:
        path, _, names, end, _ = _write(kind)
        expected = _within(names, end)
        assert _ask(path, expected) == list(expected.items()), (SEED, kind)
        nm = output_of("llvm-nm", "--defined-only", path)
        listed = {int(line.split()[0], 16): line.split()[2] for line in nm.splitlines()
                  if len(line.split()) == 3 and line.split()[1] in "tT"}
        assert listed == names, (SEED, kind)


def an_image_is_found_wherever_it_was_mapped():
    rng = random.Random(SEED)
    for kind in kinds.KINDS:
        path, base, names, end, uuid = _write(kind)
        expected = _within(names, end)
        slide = rng.randrange(1, 1 << 12) * kinds.PAGE
        moved = [(at + slide, name) for at, name in expected.items()]
        asked = [at for at, _ in moved]
        assert _ask(path, asked, "--slide", hex(slide)) == moved, (SEED, kind)
        assert _ask(path, asked, "--load", hex(base + slide)) == moved, (SEED, kind)
        assert _ask(path, asked, "--load", hex(base + slide), "--uuid", uuid) == moved, (SEED, kind)
        assert _ask(path, list(expected), "--slide", "0") == list(expected.items()), (SEED, kind)


def what_is_not_there_is_said():
    path, _, names, end, uuid = _write("i386")
    other = ("%x" % (int(uuid[0], 16) ^ 1)) + uuid[1:]
    said = _ask(path, [min(names)], "--uuid", other, status=2)
    assert said.count("\n") == 1 and "UUID" in said, said
    stripped, _, names, _, _ = _write("armv7", stripped=True)
    out = try_sonde("symbolize", "--no-index", "--image", stripped, hex(min(names)))
    assert "stripped" in out.stdout + out.stderr, out


run_cases(globals())
