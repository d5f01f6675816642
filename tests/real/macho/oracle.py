# SPDX-License-Identifier: MIT
"""What LLVM's tools, which read Mach-O independently, say of a file."""
import json
import re
import subprocess

from macho import build


def llvm(binary, arch, addresses, *options):
    """{address: [(function, file, line), …]}, innermost first."""
    out = subprocess.run([build.SYMBOLIZER, "--output-style=JSON", "--no-demangle", "--functions=linkage",
                          f"--default-arch={arch}", f"--obj={binary}", *options],
                         input="".join(f"{a:#x}\n" for a in addresses), capture_output=True, text=True, check=True)
    answers = {}
    for line in out.stdout.splitlines():
        answer = json.loads(line)
        answers[int(answer["Address"], 16)] = [
            (f["FunctionName"], f["FileName"], f["Line"]) for f in answer.get("Symbol", [])]
    return answers


def symbols(binary, arch):
    """{address: names} of code, as llvm-nm lists them."""
    out = subprocess.run(["llvm-nm", "--defined-only", f"--arch={arch}", binary], capture_output=True, text=True,
                         check=True)
    found = {}
    for line in out.stdout.splitlines():
        parts = line.split(" ", 2)
        if len(parts) == 3 and parts[1] in "tT" and not parts[2].startswith("__mh_"):
            found.setdefault(int(parts[0], 16), set()).add(parts[2].removeprefix("_"))
    return found


def text_of(binary, arch):
    out = subprocess.run(["llvm-objdump", f"--arch={arch}", "--section-headers", binary], capture_output=True, text=True,
                         check=True)
    size, start = re.search(r"__text\s+([0-9a-f]+)\s+([0-9a-f]+)", out.stdout).groups()
    return range(int(start, 16), int(start, 16) + int(size, 16))
