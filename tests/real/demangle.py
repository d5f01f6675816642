#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C++ names as c++filt of binutils and gdb print them: every function that libstdc++ exports, and the
names of a Rust program where rustc is installed (without the hashes that c++filt adds)."""
import json
import os
import subprocess

from helpers import SONDE, needs, output_of, run_cases, skip_part


def functions(path, dynamic):
    """Address -> names, of functions with a size."""
    found = {}
    for line in output_of("readelf", "-sW", "--dyn-syms" if dynamic else "-s", path).splitlines():
        field = line.split()
        if len(field) >= 8 and field[3] == "FUNC" and field[6] != "UND" and int(field[2], 0):
            found.setdefault(int(field[1], 16), set()).add(field[7].split("@")[0])
    return found


def compare(path, dynamic, demangler):
    by_address = functions(path, dynamic)
    names = sorted({name for several in by_address.values() for name in several})
    expected = dict(zip(names, output_of(*demangler, input="\n".join(names)).split("\n")))
    addresses = sorted(by_address)
    answer = json.loads(output_of(SONDE, "symbolize", "--no-index", "--no-lines", "--json", "--image", path,
                            input="".join(f"{a:#x}\n" for a in addresses)))["addresses"]
    wrong = 0
    for address, one in zip(addresses, answer):
        name = one["frames"][0]["function"] if one["frames"] else None
        if name not in {expected[raw] for raw in by_address[address]}:
            wrong += 1
            if wrong <= 5:
                print(f"  {address:#x}: sonde {name!r}, expected one of {sorted(expected[raw] for raw in by_address[address])}")
    mangled = sum(raw != text for raw, text in expected.items())
    print(f"{path}: {len(addresses)} functions, {mangled} mangled names, {wrong} differ")
    assert wrong == 0 and mangled > 0


def compare_with_gdb(path, count):
    """gdb's own form of some names, through its symbol table."""
    names = sorted({min(several) for several in functions(path, True).values()
                    if min(several).startswith("_ZN")})[::97][:count]
    script = ["-ex", "set language c++"] + [word for name in names for word in ("-ex", f"demangle {name}")]
    shown = output_of("gdb", "-nx", "-batch", *script).strip().split("\n")
    mine = output_of("c++filt", input="\n".join(names)).strip().split("\n")
    print(f"gdb and c++filt: {sum(a == b for a, b in zip(shown, mine))} of {len(names)} names alike")
    assert shown == mine


def _library():
    return os.path.realpath(output_of(os.environ.get("CXX", "g++"), "-print-file-name=libstdc++.so.6").strip())


def the_functions_of_libstdcxx():
    needs("c++filt")
    compare(_library(), True, ["c++filt"])


def as_gdb_prints_them():
    needs("c++filt", "gdb")
    compare_with_gdb(_library(), 50)


def of_rust(folder):
    needs("c++filt", "rustc")
    source, binary = folder / "program.rs", folder / "program"
    source.write_text('fn main() { let v: Vec<String> = (0..9).map(|i| format!("{i}")).collect(); println!("{v:?}"); }\n')
    for options in ([], ["-C", "symbol-mangling-version=v0"]):
        if subprocess.run(["rustc", *options, source, "-o", binary], capture_output=True, check=False).returncode:
            skip_part("v0", f"rustc takes no {options}")
            continue
        compare(binary, False, ["c++filt", "-i"])


run_cases(globals())
