#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fat Mach-O files: headers of either width, arm64e beside arm64, offsets beyond 4 GiB; and headers that lie, slices
that overlap, files cut off anywhere.

The slices are cross-built here and differ in their addresses, so that a name from another slice is a wrong one. What
is sound has the names of llvm-nm and llvm-symbolizer, asked of the same fat file. Of what is not, each slice that is
there still has its names, and each other one is refused with the reason. SONDE_SEED chooses the order and the cuts."""
import json
import random

from helpers import SANITIZED, SEED, check, run_cases, try_sonde
from macho import build, fat
from macho.oracle import llvm, symbols

CUT, LACKS, NOT = "is truncated or damaged", "has no image with that UUID or architecture", "is not an ELF or Mach-O file"


def names_or_refusal(path, addresses, *options):
    """{address: name}, or the line that says why not."""
    out = try_sonde("symbolize", "--json", "--no-demangle", "--no-lines", "--no-inlines", "--no-index", "--image", path,
                    *options, input="".join(f"{a:#x}\n" for a in addresses))
    if out.returncode == 2 and out.stderr.count("\n") == 1 and not out.stdout:
        return out.stderr
    check(out.returncode in (0, 1) and not out.stderr, f"{path.name} {options}: exit {out.returncode}, {out.stderr}")
    return {int(a["address"], 16): a["frames"][0].get("function") if a["frames"] else None
            for a in json.loads(out.stdout)["addresses"]}


class Slice:
    def __init__(self, arch, processor, image):
        self.arch, self.processor, self.image = arch, processor, image
        at = fat.uuid_at(image)
        self.uuid = image[at:at + 16].hex()
        self.names = {}

    def choices(self):
        return ("--arch", self.arch), ("--uuid", self.uuid)

    def pair(self):
        return self.processor, self.image

    def is_named(self, path, what, *options):
        """Is what sonde says of PATH what this slice holds?"""
        got = names_or_refusal(path, sorted(self.names), *options)
        if isinstance(got, str):
            check(False, f"{what}, {options}: {got.strip()}")
            return
        wrong = [a for a in self.names if got[a] not in self.names[a]]
        check(not wrong, f"{what}, {options}: {len(wrong)} names differ, first "
              f"{[(hex(a), got[a], self.names[a]) for a in wrong[:1]]}")


def is_refused(path, reason, what, *options):
    got = names_or_refusal(path, [0x100000000], *options)
    check(isinstance(got, str) and reason in got, f"{what}, {options}: '{got}', not '{reason}'")


def _make(folder):
    objects = {arch: build.objects(folder, arch) for arch in ("x86_64", "arm64")}
    orders = (("x86_64", objects["x86_64"]), ("arm64", objects["arm64"]), ("arm64e", objects["arm64"][::-1]))
    slices = []
    for arch, parts in orders:
        image = build.link(folder, arch[:6].removesuffix("e"), parts, folder / arch, True).read_bytes()
        processor = {"x86_64": fat.X86_64, "arm64": fat.ARM64, "arm64e": fat.ARM64E}[arch]
        slices.append(Slice(arch, processor, fat.as_arm64e(image, bytes(range(16))) if arch == "arm64e" else image))
    return slices


def sound(path, slices, wide, start=1 << fat.ALIGN):
    fat.write(path, [s.pair() for s in slices], wide, start=start)
    what = f"{64 if wide else 32}-bit header, {[s.arch for s in slices]} from {start:#x}"
    for s in slices:
        s.names = symbols(path, s.arch)
        theirs = llvm(path, s.arch, sorted(s.names))
        check(len(s.names) > 5 and all(theirs[a][0][0] in s.names[a] for a in theirs), f"{what}: llvm does not agree")
        for choice in s.choices():
            s.is_named(path, what, *choice)
    slices[0].is_named(path, what + ", the first")
    check(len({tuple(sorted((a, *n) for a, n in s.names.items())) for s in slices}) == 3, "two slices are alike")
    print(f"{what}: {sum(len(s.names) for s in slices)} symbols equal")


def missing_kind(path, by_arch, wide):
    """arm64e is not had by who asks for arm64e and there is none; arm64 is also asked for by who knows no kinds."""
    fat.write(path, [by_arch["x86_64"].pair(), by_arch["arm64"].pair()], wide)
    is_refused(path, LACKS, "no arm64e", "--arch", "arm64e")
    fat.write(path, [by_arch["arm64e"].pair(), by_arch["x86_64"].pair()], wide)
    by_arch["arm64e"].is_named(path, "arm64e alone", "--arch", "arm64")
    path.write_bytes(by_arch["arm64"].image)
    is_refused(path, LACKS, "thin arm64", "--arch", "arm64e")


def wrong_numbers(path, slices, wide):
    """One entry of the header is wrong; the others must be read nevertheless."""
    most = (1 << (64 if wide else 32)) - 1
    good = fat.lay_out([s.pair() for s in slices])
    end = good[-1][1] + good[-1][2]
    sick, *healthy = slices[1], slices[0], slices[2]
    _, offset, size = good[1]
    cases = [("size beyond the end", offset, end, CUT), ("greatest size", offset, most, CUT),
             ("offset at the end", end, size, CUT), ("greatest offset", most, size, CUT),
             ("offset and size that overflow", most - 0x3fff, most, CUT), ("no size", offset, 0, LACKS),
             ("size of less than a header", offset, 31, LACKS), ("offset into the header", 0, size, LACKS),
             ("offset into an image", offset + 4, size - 4, LACKS),
             ("size that ends in the symbols", offset, size - 0x200, CUT)]
    for what, at, length, reason in cases:
        told = [good[0], [good[1][0], at, length], good[2]]
        fat.write(path, [s.pair() for s in slices], wide, told=told)
        for choice in sick.choices():
            if reason == LACKS and choice == ("--arch", "arm64"):  # arm64e serves
                next(s for s in healthy if s.arch == "arm64e").is_named(path, what, *choice)
            else:
                is_refused(path, reason, what, *choice)
        for s in healthy:
            for choice in s.choices():
                s.is_named(path, f"{what} of {sick.arch}", *choice)
    for count, reason in ((0, NOT), (33, NOT), (0xffffffff, NOT), (2, LACKS)):
        fat.write(path, [s.pair() for s in slices], wide, count=count)
        is_refused(path, reason, f"count {count}", "--uuid", slices[2].uuid)
    for count in (4, 32):  # what follows the entries are zeros: no images
        fat.write(path, [s.pair() for s in slices], wide, count=count)
        for s in slices:
            s.is_named(path, f"count {count}", "--arch", s.arch)
    return len(cases) + 6


def overlaps(path, slices, wide):
    pairs = [s.pair() for s in slices]
    good = fat.lay_out(pairs)
    for first, second in ((0, 1), (1, 0), (2, 0)):
        told = [list(entry) for entry in good]
        told[second][1:] = told[first][1:]  # two entries of one place: the image itself says what it is
        fat.write(path, pairs, wide, told=told)
        slices[first].is_named(path, "one place for two", "--uuid", slices[first].uuid)
        is_refused(path, LACKS, "one place for two", "--uuid", slices[second].uuid)
    told = [list(entry) for entry in good]
    told[0][2] = good[2][1] + good[2][2] - good[0][1]  # the first over all others
    fat.write(path, pairs, wide, told=told)
    for s in slices:
        for choice in s.choices():
            s.is_named(path, "the first over all", *choice)
    told = [good[0], [good[1][0], good[0][1] + 0x1000, good[1][2]], good[2]]
    fat.write(path, pairs, wide, told=told)
    is_refused(path, LACKS, "a slice that begins in another", "--uuid", slices[1].uuid)


def cuts(path, slices, wide, rng):
    entries = fat.write(path, [s.pair() for s in slices], wide)
    whole = path.read_bytes()
    ends = [at + size for _, at, size in entries]
    table = len(fat.header(entries, wide))
    lengths = {table, len(whole) - 1, *(at + d for _, at, _ in entries for d in (-1, 0, 1, 31, 32, 100, 250, 600, 900)),
               *(end + d for end in ends[:-1] for d in (-1, 0)), *(rng.randrange(table, len(whole)) for _ in range(12))}
    if SANITIZED:  # with which the command takes long to start
        lengths = rng.sample(sorted(lengths), 12)
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        for s, end in zip(slices, ends):
            for choice in s.choices():
                if end <= length:
                    s.is_named(path, f"cut at {length}", *choice)
                else:
                    is_refused(path, CUT, f"cut at {length} of {len(whole)}", *choice)
        if ends[0] <= length:
            slices[0].is_named(path, f"cut at {length}")
        else:
            is_refused(path, CUT, f"cut at {length}")
    for length, reason in ((len(whole), LACKS), (len(whole) - 1, LACKS), (entries[-1][1] + 1, CUT)):
        path.write_bytes(whole[:length])  # the last image's UUID is there, or may have been the one
        is_refused(path, reason, f"no such build, cut at {length}", "--uuid", "5" * 32)
    for length in (1, 4, 7, 8, 20, 31):
        path.write_bytes(whole[:length])
        is_refused(path, NOT, f"cut at {length}", "--arch", "arm64")
    return len(lengths) + 6


def headers_of_either_width(folder):
    build.needs_linker()
    rng = random.Random(SEED)
    slices, path = _make(folder), folder / "fat"
    by_arch = {s.arch: s for s in slices}
    for wide in (False, True):
        rng.shuffle(slices)
        sound(path, slices, wide)
        missing_kind(path, by_arch, wide)
        numbers = wrong_numbers(path, slices, wide)
        overlaps(path, slices, wide)
        print(f"{numbers} wrong headers, overlapping slices, {cuts(path, slices, wide, rng)} cuts: said, and the "
              "rest is named")
    sound(path, slices, True, 1 << 32)


run_cases(globals())
