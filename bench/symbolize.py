#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares sonde symbolize with llvm-symbolizer, addr2line and eu-addr2line on a large generated C++ binary:
regex, maps, sorting, 30 types per unit, -O2 -g.

- 100,000 random addresses with lines and inlined functions: with an index in the cache, and with building the index
- one address, without an index

usage: bench/symbolize.py, after a build"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("SONDE_BUILD", ROOT / "build-test"))
SONDE = str(BUILD / "bin" / "sonde")
UNITS = 12
ADDRESSES, ROUNDS, PARTS = 100_000, 3, 30
FOLDER = BUILD / "bench" / f"symbolize-{UNITS}"

TYPE = """
struct S@ { int a[%d]; std::string s; bool operator<(const S@ &o) const { return s < o.s; } };
int f@(int n) {
  std::map<std::string, S@> m; std::vector<S@> v; std::unordered_map<int, S@> u;
  for (int i = 0; i < n; i++) { S@ x; x.s = std::to_string(i * %d); m[x.s] = x; v.push_back(x); u[i] = x; }
  std::sort(v.begin(), v.end());
  std::function<int(int)> g = [&](int y) { return y + (int)v.size() + (int)u.size(); };
  return g((int)m.size());
}
"""


def source_of(unit):
    names = [f"{unit}_{part}" for part in range(PARTS)]
    text = "".join(f"#include <{header}>\n" for header in
                   ("algorithm", "functional", "map", "regex", "string", "unordered_map", "vector"))
    text += "".join((TYPE % (part + 1, part + 3)).replace("@", name) for part, name in enumerate(names))
    calls = " + ".join(f"f{name}(n)" for name in names)
    return text + f'int r{unit}(const char *s, int n) {{ return std::regex_search(s, std::regex("a[b-d]+{unit}(x|y)*")) + {calls}; }}\n'


def build_program():
    program = FOLDER / "program"
    if program.exists():
        return program
    FOLDER.mkdir(parents=True, exist_ok=True)
    main = "".join(f"int r{unit}(const char *, int);\n" for unit in range(UNITS))
    main += "int main(int c, char **v) { return " + " + ".join(f"r{u}(v[0], c)" for u in range(UNITS)) + "; }\n"
    (FOLDER / "main.cc").write_text(main)
    for unit in range(UNITS):
        (FOLDER / f"unit{unit}.cc").write_text(source_of(unit))
    jobs = [subprocess.Popen(["xargs", "-P", str(os.cpu_count()), "-I{}", "g++", "-O2", "-g", "-c", "{}.cc",
                              "-o", "{}.o"], stdin=subprocess.PIPE, cwd=FOLDER, text=True)]
    jobs[0].communicate("\n".join(["main", *(f"unit{unit}" for unit in range(UNITS))]))
    subprocess.run(["sh", "-c", "g++ -o program *.o"], check=True, cwd=FOLDER)
    return program


def choose(program):
    functions = []
    for line in subprocess.run(["readelf", "-sW", program], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        field = line.split()
        if len(field) >= 8 and field[3] == "FUNC" and field[6] != "UND" and int(field[2], 0):
            functions.append((int(field[1], 16), int(field[2], 0)))
    rng = random.Random(1)
    picked = rng.choices(functions, weights=[size for _, size in functions], k=ADDRESSES)
    return "".join(f"{start + rng.randrange(size):#x}\n" for start, size in picked)


def measure(command, addresses, cache=None):
    """Seconds and MB of one run."""
    environment = dict(os.environ, DEBUGINFOD_URLS="", XDG_CACHE_HOME=str(cache or FOLDER))
    with open(os.devnull, "w") as null:
        run = subprocess.run(["/usr/bin/time", "-f", "%e %M", *map(str, command)], input=addresses, text=True,
                             stdout=null, stderr=subprocess.PIPE, env=environment, check=False)
    seconds, kilobytes = run.stderr.split()[-2:]
    return float(seconds), int(kilobytes) / 1024


def best(command, addresses):
    return min(measure(command, addresses) for _ in range(ROUNDS))


def row(name, result, base):
    print(f"| {name} | {result[0]:.2f} s | {result[1]:.0f} MB | {result[0] / base[0]:.2f} |")


def many(program, addresses):
    rivals = {"llvm-symbolizer": ["llvm-symbolizer", "--obj", program],
              "addr2line -f -i -C": ["addr2line", "-f", "-i", "-C", "-e", program]}
    rivals = {name: best(command, addresses) for name, command in rivals.items() if shutil.which(command[0])}
    base = next(iter(rivals.values()))
    sonde = [SONDE, "symbolize", "--image", program]
    with tempfile.TemporaryDirectory() as empty:
        built = measure(sonde, addresses, empty)
    measure(sonde, addresses)
    print(f"\n{ADDRESSES} addresses, lines and inlined functions, demangled:\n")
    print("| | time | memory | to the first |\n|---|---|---|---|")
    for name, result in rivals.items():
        row(name, result, base)
    row("sonde, warm index", best(sonde, addresses), base)
    row("sonde, building the index", built, base)


def one(program, addresses):
    address = addresses.split("\n", 1)[0]
    rivals = {"eu-addr2line -f -i": ["eu-addr2line", "-f", "-i", "-e", program, address],
              "llvm-symbolizer": ["llvm-symbolizer", "--obj", program, address],
              "addr2line -f -i": ["addr2line", "-f", "-i", "-e", program, address]}
    results = {name: best(command, "") for name, command in rivals.items() if shutil.which(command[0])}
    results["sonde --no-index"] = best([SONDE, "symbolize", "--no-index", "--image", program, address], "")
    base = next(iter(results.values()))
    print("\none address:\n\n| | time | memory | to the first |\n|---|---|---|---|")
    for name, result in results.items():
        row(name, result, base)


def main():
    if not shutil.which("/usr/bin/time"):
        sys.exit("bench/symbolize.py: needs /usr/bin/time")
    program = build_program()
    addresses = choose(program)
    print(f"program: {program.stat().st_size >> 20} MB, {UNITS} units; best of {ROUNDS}")
    many(program, addresses)
    one(program, addresses)


if __name__ == "__main__":
    main()
