#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One program whose names and lines are known, in every form that debug information comes in: DWARF
4 and 5 of both compilers, split, compressed, packed by dwz, in separate files, from a debuginfod
server, and a symbol table packed into the image. What cannot be made here is said and counted."""
import http.server
import os
import re
import shutil
import threading

from helpers import WORK, check, needs, output_of, run_cases, skip, skip_part, source_file, try_sonde

PROGRAM = source_file("fixtures", "names.cc")
FULL = [("app::(anonymous namespace)::leaf", 14), ("app::branch", 20), ("app::Tree<int>::root(int)", 25)]
CLANG = [("app::(anonymous namespace)::leaf(int)", 14), ("app::branch(int)", 20), FULL[2]]
NAME_ONLY = [("app::Tree<int>::root(int)", None)]
passed = 0


def ask(image, address, *options, **environment):
    done = try_sonde("symbolize", "--image", image, *options, f"{address:#x}", env={**os.environ, **environment})
    answer = []
    for line in done.stdout.splitlines():
        function, _, place = re.sub(r"^(0x[0-9a-f]+|  in) ", "", line).partition(" at ")
        found = re.search(r"names\.cc:(\d+)", place)
        answer.append((re.sub(r"\+0x[0-9a-f]+$", "", function), int(found[1]) if found else None))
    assert done.returncode == (2 if all(name.startswith("??") for name, _ in answer) else 0), done
    return answer


def compare(form, answer, expected):
    global passed
    passed += check(answer == expected, f"{form}:\n  {answer}\n  expected {expected}")


def build(compiler, path, *options):
    output_of(compiler, "-O2", "-g", "-Wl,--build-id", *options, PROGRAM, "-o", path, cwd=path.parent)
    return next(int(line.split()[0], 16) for line in output_of("nm", path).splitlines()
                if line.endswith(" mark"))


def both_compilers(folder):
    for compiler, expected in (("g++", FULL), ("clang++", CLANG)):
        if not shutil.which(compiler):
            skip_part(compiler, "it is not installed")
            continue
        for version in (4, 5):
            for options in ([], ["-gsplit-dwarf"], ["-gz=zlib"],
                            ["-ffunction-sections", "-Wl,--gc-sections"]):
                path = folder / "form"
                mark = build(compiler, path, f"-gdwarf-{version}", *options)
                form = f"{compiler} DWARF {version} {' '.join(options)}"
                compare(form, ask(path, mark, "--no-index"), expected)


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", path))[1]


def _separate(folder):
    """Returns the stripped program, its debug file and the address."""
    whole, stripped, debug = folder / "whole", folder / "stripped", folder / "whole.debug"
    mark = build("g++", whole)
    output_of("objcopy", "--only-keep-debug", whole, debug)
    output_of("strip", "-o", stripped, whole)
    return stripped, debug, mark


def debug_files(folder):
    stripped, debug, mark = _separate(folder)
    compare("stripped", ask(stripped, mark), [("?? (the image is stripped and no debug file was found)", None)])
    identity = build_id(stripped)
    by_id = folder / "debug/.build-id" / identity[:2] / (identity[2:] + ".debug")
    by_id.parent.mkdir(parents=True)
    shutil.copy(debug, by_id)
    compare("by build-id", ask(stripped, mark, "--debug-dir", folder / "debug"), FULL)
    linked = folder / "linked/program"
    (linked.parent / ".debug").mkdir(parents=True)
    shutil.copy(debug, linked.parent / ".debug/program.debug")
    output_of("objcopy", f"--add-gnu-debuglink={linked.parent}/.debug/program.debug", stripped, linked)
    compare("by debuglink", ask(linked, mark), FULL)
    other = bytearray((linked.parent / ".debug/program.debug").read_bytes())
    other[other.index(bytes.fromhex(identity))] ^= 1
    (linked.parent / ".debug/program.debug").write_bytes(other)
    compare("debuglink to another build", ask(linked, mark)[0][0][:4], "?? (")


def packed_symbols(folder):
    """.gnu_debugdata as Fedora makes it: the symbols that .dynsym lacks, without debug information."""
    needs("xz")
    stripped, debug, mark = _separate(folder)
    mini = folder / "mini"
    output_of("objcopy", "-S", "--remove-section", ".comment", "--keep-symbol=_ZN3app4TreeIiE4rootEi", debug, mini)
    output_of("xz", "-kf", mini)
    packed = folder / "packed"
    output_of("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", stripped, packed)
    compare(".gnu_debugdata", ask(packed, mark, "--no-index"), NAME_ONLY)


def dwz(folder):
    """Two programs that share what they have in common in a supplementary file."""
    needs("dwz")
    first, second = folder / "one", folder / "two"
    mark = build("g++", first, "-gdwarf-4")
    build("g++", second, "-gdwarf-4", "-DSECOND")
    output_of("dwz", "-m", folder / "common.dwz", "-M", folder / "common.dwz", first, second)
    assert ".gnu_debugaltlink" in output_of("readelf", "-SW", first)
    compare("dwz", ask(first, mark, "--no-index"), FULL)


def debuginfod(folder):
    if "debuginfod.so" not in output_of("/sbin/ldconfig", "-p"):
        skip("libdebuginfod is not installed")
    stripped, debug, mark = _separate(folder)
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            known = self.path == f"/buildid/{build_id(stripped)}/debuginfo"
            self.send_response(200 if known else 404)
            self.end_headers()
            if known:
                self.wfile.write(debug.read_bytes())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    compare("debuginfod", ask(stripped, mark, DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=str(folder / "d")), FULL)
    compare("debuginfod was asked", len(asked), 1)
    server.shutdown()


os.environ["XDG_CACHE_HOME"] = os.path.join(WORK, "cache")
os.environ.pop("DEBUGINFOD_URLS", None)
run_cases([both_compilers, debug_files, packed_symbols, dwz, debuginfod])
