#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names, lines and inlined frames equal those of llvm-symbolizer, an independent reader of DWARF, on
random addresses of real binaries: half of them within functions, half anywhere in .text.

Differences that are meant, and count as equal:
- A function without a linkage name is known to sonde by its namespaces (`app::leaf`), to
  llvm-symbolizer by its bare name (`leaf`).
- Where no line is known, llvm-symbolizer prints the name of an object file from the symbol table.
- llvm-symbolizer does not read the symbol table of a separate debug file, so that it knows nothing
  of functions without debug information; these names are checked against readelf.
Every other difference is printed. SONDE_SEED chooses the addresses."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess

from helpers import SANITIZED, SCALE, SEED, SONDE, check, needs, output_of, run_cases, skip

ADDRESSES = 1_000 if SANITIZED else SCALE * 10_000
BINARIES_MIN = 5
EQUAL_MIN = 0.999


def build_programs(folder):
    """C++ by both compilers, Rust where it is installed: Debian ships no debug files beside them."""
    source = pathlib.Path(folder, "program.cc")
    source.write_text("""
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace { struct Item { std::string text; int n; bool operator<(const Item &o) const { return text < o.text; } }; }
static int count(const std::vector<Item> &items, const std::function<bool(const Item &)> &want) {
  int n = 0;
  for (const auto &item : items) n += want(item);
  return n;
}
int main(int argc, char **argv) {
  std::map<std::string, Item> by_text;
  std::vector<Item> items;
  for (int i = 0; i < argc * 100; i++) items.push_back({std::to_string(i * 7919 % 1000), i});
  std::sort(items.begin(), items.end());
  for (const auto &item : items) by_text[item.text] = item;
  std::string odd = "13579";
  return std::printf("%d\\n", count(items, [&](const Item &i) { return odd.find(i.text.back()) == odd.npos; })) < 0;
}
""")
    for compiler, options in (("g++", ["-O2", "-gdwarf-5"]), ("clang++", ["-O2", "-gdwarf-4"])):
        if shutil.which(compiler):
            binary = os.path.join(folder, compiler)
            subprocess.run([compiler, "-g", *options, source, "-o", binary], check=True)
            yield binary
    if shutil.which("rustc"):
        rust = pathlib.Path(folder, "program.rs")
        rust.write_text("""
use std::collections::HashMap;
fn main() {
    let names: HashMap<usize, String> = (0..100).map(|i| (i, format!("n{}", i * 7))).collect();
    let mut all: Vec<_> = names.values().cloned().collect();
    all.sort_by(|a, b| b.cmp(a));
    println!("{:?}", all);
}
""")
        binary = os.path.join(folder, "rust")
        subprocess.run(["rustc", "-O", "-g", rust, "-o", binary], check=True, capture_output=True)
        yield binary


def installed():
    """Binaries whose debug information is at hand: in them, or by build-id in /usr/lib/debug."""
    candidates = [SONDE, *(shutil.which(name) or "" for name in ("python3.11d", "python3.13d"))]
    for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu"):
        candidates += [f"{folder}/{name}" for name in
                       ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")]
    for path in candidates:
        if path and os.path.exists(path) and has_debug(path):
            yield path


def has_debug(path):
    return ".debug_info" in output_of("readelf", "-SW", path) or debug_file(path) is not None


def debug_file(path):
    found = re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", path))
    debug = found and f"/usr/lib/debug/.build-id/{found[1][:2]}/{found[1][2:]}.debug"
    return debug if debug and os.path.exists(debug) else None


def symbols(path):
    """(address, size, name) of the symbols of code."""
    for line in output_of("readelf", "-sW", path).splitlines():
        field = line.split()
        if len(field) >= 8 and field[3] in ("FUNC", "NOTYPE", "IFUNC") and field[6] != "UND":
            yield int(field[1], 16), int(field[2], 0), field[7].split("@")[0]


def choose(path, rng):
    functions = [(address, size) for address, size, _ in symbols(path) if size]
    text = re.search(r" \.text +PROGBITS +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", output_of("readelf", "-SW", path))
    start, size = int(text[1], 16), int(text[2], 16)
    inside = rng.choices(functions, weights=[size for _, size in functions], k=ADDRESSES // 2)
    return [address + rng.randrange(length) for address, length in inside] + \
           [start + rng.randrange(size) for _ in range(ADDRESSES - len(inside))]


def ask_llvm(path, addresses):
    text = output_of("llvm-symbolizer", "--no-demangle", "--obj", path,
               input="".join(f"{a:#x}\n" for a in addresses))
    for block in text.split("\n\n")[:len(addresses)]:
        lines = block.strip("\n").split("\n")
        frames = []
        for function, place in zip(lines[::2], lines[1::2]):
            file, line, column = place.rsplit(":", 2)
            known = int(line) != 0 or "/" in file
            frames.append((None if function == "??" else function,
                           file if known and file != "??" else None, int(line), int(column)))
        yield [] if frames == [(None, None, 0, 0)] else frames


def ask_sonde(path, addresses, options):
    answer = json.loads(output_of(SONDE, "symbolize", "--json", "--no-demangle", *options, "--image", path,
                            input="".join(f"{a:#x}\n" for a in addresses)))
    for one in answer["addresses"]:
        yield [(f.get("function"), f.get("file"), f.get("line", 0), f.get("column", 0))
               for f in one["frames"]]


def same_frame(sonde, llvm):
    return sonde[1:] == llvm[1:] and (
        sonde[0] == llvm[0] or (sonde[0] and llvm[0] and sonde[0].endswith("::" + llvm[0])))


def same(sonde, llvm, address, extra):
    if len(sonde) == len(llvm) and all(map(same_frame, sonde, llvm)):
        return True
    known_to_sonde_alone = sonde and sonde[-1][0] and not (llvm and llvm[-1][0]) and \
        len(sonde) == max(1, len(llvm)) and (not llvm or sonde[-1][1:] == llvm[-1][1:])
    return "more" if known_to_sonde_alone and any(
        start <= address and (address < start + size or not size)
        for start, size in extra.get(sonde[-1][0], [])) else False


def compare(path, rng):
    addresses = choose(path, rng)
    theirs = list(ask_llvm(path, addresses))
    ours = list(ask_sonde(path, addresses, []))
    again = list(ask_sonde(path, addresses[:200], ["--no-index"]))
    assert len(ours) == len(theirs) == len(addresses)
    extra = {}
    for start, size, name in symbols(debug_file(path) or path):
        extra.setdefault(name, []).append((start, size))
    verdicts = [same(a, b, address, extra) for a, b, address in zip(ours, theirs, addresses)]
    wrong = [i for i, verdict in enumerate(verdicts) if not verdict]
    print(f"{path}: {len(addresses) - len(wrong)} of {len(addresses)} equal, "
          f"{sum(len(frames) for frames in ours)} frames, {verdicts.count('more')} known to sonde alone, "
          f"{sum(a == b for a, b in zip(ours, again))} of 200 the same without the index")
    for i in wrong[:10]:
        print(f"  {addresses[i]:#x}\n    sonde {ours[i]}\n    llvm  {theirs[i]}")
    check(len(wrong) <= len(addresses) * (1 - EQUAL_MIN), f"{path}: {len(wrong)} addresses differ")
    check(ours[:200] == again, f"{path}: other answers without the index")


def names_and_lines_are_llvms(folder):
    needs("llvm-symbolizer")
    rng = random.Random(SEED)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    binaries = [*installed(), *build_programs(folder)]
    for path in binaries:
        compare(path, rng)
    if len(binaries) < BINARIES_MIN:
        skip(f"{len(binaries)} binaries have debug information here, {BINARIES_MIN} wanted")
    return f"{len(binaries)} binaries"


run_cases([names_and_lines_are_llvms])
