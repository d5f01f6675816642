#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One program whose names and lines are known, in every form that debug information comes in: DWARF
4 and 5 of both compilers, split, compressed, packed by dwz, in separate files, from a debuginfod
server, and a symbol table packed into the image. What cannot be made here is said and counted."""
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

SONDE = os.environ["SONDE"]
SOURCE = pathlib.Path(os.environ["SONDE_SOURCE"], "tests/fixtures/names.cc")
FULL = [("app::(anonymous namespace)::leaf", 14), ("app::branch", 20), ("app::Tree<int>::root(int)", 25)]
CLANG = [("app::(anonymous namespace)::leaf(int)", 14), ("app::branch(int)", 20), FULL[2]]
NAME_ONLY = [("app::Tree<int>::root(int)", None)]
failed, passed, skipped = [], 0, []


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True,
                          **options).stdout


def ask(image, address, *options, **environment):
    done = subprocess.run([SONDE, "symbolize", "--image", image, *options, f"{address:#x}"], capture_output=True, text=True,
                          check=False, env={**os.environ, **environment})
    answer = []
    for line in done.stdout.splitlines():
        function, _, place = re.sub(r"^(0x[0-9a-f]+|  in) ", "", line).partition(" at ")
        found = re.search(r"names\.cc:(\d+)", place)
        answer.append((re.sub(r"\+0x[0-9a-f]+$", "", function), int(found[1]) if found else None))
    assert done.returncode == (2 if all(name.startswith("??") for name, _ in answer) else 0), done
    return answer


def check(form, answer, expected):
    global passed
    passed += answer == expected
    if answer != expected:
        failed.append(form)
        print(f"{form}:\n  {answer}\n  expected {expected}")


def build(compiler, path, *options):
    run(compiler, "-O2", "-g", "-Wl,--build-id", *options, SOURCE, "-o", path, cwd=path.parent)
    return next(int(line.split()[0], 16) for line in run("nm", path).splitlines()
                if line.endswith(" mark"))


def both_compilers(folder):
    for compiler, expected in (("g++", FULL), ("clang++", CLANG)):
        if not shutil.which(compiler):
            skipped.append(compiler)
            continue
        for version in (4, 5):
            for options in ([], ["-gsplit-dwarf"], ["-gz=zlib"],
                            ["-ffunction-sections", "-Wl,--gc-sections"]):
                path = folder / "form"
                mark = build(compiler, path, f"-gdwarf-{version}", *options)
                form = f"{compiler} DWARF {version} {' '.join(options)}"
                check(form, ask(path, mark, "--no-index"), expected)


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))[1]


def separate(folder):
    """Returns the stripped program, its debug file and the address."""
    whole, stripped, debug = folder / "whole", folder / "stripped", folder / "whole.debug"
    mark = build("g++", whole)
    run("objcopy", "--only-keep-debug", whole, debug)
    run("strip", "-o", stripped, whole)
    return stripped, debug, mark


def debug_files(folder):
    stripped, debug, mark = separate(folder)
    check("stripped", ask(stripped, mark), [("?? (the image is stripped and no debug file for it was found)", None)])
    identity = build_id(stripped)
    by_id = folder / "debug/.build-id" / identity[:2] / (identity[2:] + ".debug")
    by_id.parent.mkdir(parents=True)
    shutil.copy(debug, by_id)
    check("by build-id", ask(stripped, mark, "--debug-dir", folder / "debug"), FULL)
    linked = folder / "linked/program"
    (linked.parent / ".debug").mkdir(parents=True)
    shutil.copy(debug, linked.parent / ".debug/program.debug")
    run("objcopy", f"--add-gnu-debuglink={linked.parent}/.debug/program.debug", stripped, linked)
    check("by debuglink", ask(linked, mark), FULL)
    other = bytearray((linked.parent / ".debug/program.debug").read_bytes())
    other[other.index(bytes.fromhex(identity))] ^= 1
    (linked.parent / ".debug/program.debug").write_bytes(other)
    check("debuglink to another build", ask(linked, mark)[0][0][:4], "?? (")


def packed_symbols(folder):
    """.gnu_debugdata as Fedora makes it: the symbols that .dynsym lacks, without debug information."""
    if not shutil.which("xz"):
        skipped.append("xz")
        return
    stripped, debug, mark = separate(folder)
    mini = folder / "mini"
    run("objcopy", "-S", "--remove-section", ".comment", "--keep-symbol=_ZN3app4TreeIiE4rootEi", debug, mini)
    run("xz", "-kf", mini)
    packed = folder / "packed"
    run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", stripped, packed)
    check(".gnu_debugdata", ask(packed, mark, "--no-index"), NAME_ONLY)


def dwz(folder):
    """Two programs that share what they have in common in a supplementary file."""
    if not shutil.which("dwz"):
        skipped.append("dwz")
        return
    first, second = folder / "one", folder / "two"
    mark = build("g++", first, "-gdwarf-4")
    build("g++", second, "-gdwarf-4", "-DSECOND")
    run("dwz", "-m", folder / "common.dwz", "-M", folder / "common.dwz", first, second)
    assert ".gnu_debugaltlink" in run("readelf", "-SW", first)
    check("dwz", ask(first, mark, "--no-index"), FULL)


def debuginfod(folder):
    if "debuginfod.so" not in run("/sbin/ldconfig", "-p"):
        skipped.append("debuginfod")
        return
    stripped, debug, mark = separate(folder)
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
    check("debuginfod", ask(stripped, mark, DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=str(folder / "d")), FULL)
    check("debuginfod was asked", len(asked), 1)
    server.shutdown()


def main():
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        os.environ.pop("DEBUGINFOD_URLS", None)
        for number, form in enumerate((both_compilers, debug_files, packed_symbols, dwz, debuginfod)):
            folder = pathlib.Path(name, str(number))
            folder.mkdir()
            form(folder)
    print(f"{passed} forms named in full, {len(failed)} not, {len(skipped)} skipped {skipped or ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
