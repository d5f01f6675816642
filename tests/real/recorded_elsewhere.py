#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recordings of programs that this machine does not have: every verb that names frames finds their files
by build-id, in each layout of docs/symbols.md, says which are missing, and never uses another build. The
binaries are removed after the recording, which is the same as another machine."""
import json
import re
import shutil
import subprocess

from helpers import COMMAND, needs_agent, output_of, run_cases, second_reader, skip, sonde, try_sonde

needs_agent()

LIBRARY = """
#include <stdlib.h>
__attribute__((noinline)) void *library_allocates(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
"""
PROGRAM = """
#include <stdlib.h>
void *library_allocates(size_t n);
static inline __attribute__((always_inline)) void *inlined(size_t n) { return library_allocates(n + EXTRA); }
__attribute__((noinline)) void *program_allocates(size_t n) { void *p = inlined(n); __asm__ volatile("" : "+r"(p)); return p; }
static int compare(const void *a, const void *b) { free(program_allocates(77)); return *(char *)a - *(char *)b; }
int main(void) { char word[] = "cab"; qsort(word, 3, 1, compare); return !program_allocates(4321); }
"""
NAMES = {"program_allocates", "library_allocates", "inlined"}


def _build(folder, extra=0):
    """The program and its library, with debug information; different code for each EXTRA."""
    folder.mkdir(parents=True)
    for name, text in ("library.c", LIBRARY + f"int extra(void) {{ return {extra}; }}"), ("program.c", PROGRAM):
        (folder / name).write_text(text)
    id_of = "-Wl,--build-id=sha1"
    output_of("cc", "-g", "-O2", "-fPIC", "-shared", id_of, "-o", folder / "libmine.so", folder / "library.c")
    output_of("cc", "-g", "-O2", f"-DEXTRA={extra}", id_of, "-o", folder / "program", folder / "program.c",
              folder / "libmine.so", f"-Wl,-rpath,{folder}")


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", path))[1]


def _record(folder, before_it_moves=lambda path: None):
    """A recording of the build in FOLDER/bin, whose files are then moved to FOLDER/kept, and its report."""
    _build(folder / "bin")
    path = folder / "run.sonde"
    sonde("record", "--malloc", "-o", path, "--", folder / "bin/program")
    expected = sonde("export", "--by", "allocated", path)
    assert all(name in expected for name in NAMES), expected
    before_it_moves(path)
    shutil.move(folder / "bin", folder / "kept")
    return path, expected


def _layouts(folder):
    """The options for each layout of the files in FOLDER/kept."""
    kept = folder / "kept"
    for name in "program", "libmine.so":
        identity = build_id(kept / name)
        by_id = folder / "by-id/.build-id" / identity[:2] / (identity[2:] + ".debug")
        by_id.parent.mkdir(parents=True)
        output_of("objcopy", "--only-keep-debug", kept / name, by_id)
        for place in "flat", "debug":
            (folder / place).mkdir(exist_ok=True)
        shutil.copy(kept / name, folder / "flat" / f"{identity[:6]}-of-last-week")
        shutil.copy(by_id, folder / "debug" / f"{identity[6:12]}.dbg")
        root = folder / "root" / str(folder / "bin" / name)[1:]
        root.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept / name, root)
    return {"by build-id": ("--debug-dir", folder / "by-id"),
            "binaries under other names": ("--debug-dir", folder / "flat"),
            "debug files under other names": ("--debug-dir", folder / "debug"),
            "a sysroot": ("--sysroot", folder / "root")}


def files_are_found_by_build_id(folder):
    path, expected = _record(folder)
    without = try_sonde("export", "--by", "allocated", path)
    assert not any(name in without.stdout for name in NAMES), without.stdout
    for name in "program", "libmine.so":
        note = f"no names for '{folder}/bin/{name}' (build-id {build_id(folder / 'kept' / name)})"
        assert note in without.stderr, without.stderr
    for what, options in _layouts(folder).items():
        done = try_sonde("export", "--by", "allocated", *options, path)
        assert done.stdout == expected, (what, done.stdout, expected)
        assert "no names" not in done.stderr, (what, done.stderr)
        print(f"{what}: as where it was recorded")


def every_verb_takes_the_options(folder):
    path, _ = _record(folder)
    options = _layouts(folder)["by build-id"]
    told = json.loads(sonde("report", "--json", path))
    assert {image["path"] for image in told["without_names"]} >= {f"{folder}/bin/program"}, told["without_names"]
    assert all(len(image["build_id"]) == 40 for image in told["without_names"]), told["without_names"]
    block = next(event for event in map(json.loads, sonde("events", path).splitlines()) if event.get("size") == 4321)
    for words in (("report", path, "malloc"), ("history", path, block["address"]), ("diff", path, path),
                  ("export", path), ("export", "--as", "pprof", "-o", "/dev/null", path), ("why", path)):
        done = try_sonde(words[0], *options, *words[1:])
        assert done.returncode == 0 and "no names" not in done.stderr, (words, done)
    assert "program_allocates" in sonde("history", *options, path, block["address"])
    assert "program_allocates" in sonde("report", *options, path, "malloc")
    done = try_sonde("report", "--debug-dir", "/nowhere", path)
    assert done.returncode == 2 and "'/nowhere' is not a folder" in done.stderr, done


def another_build_is_never_used(folder):
    path, _ = _record(folder)
    _build(folder / "bin", extra=9)  # at the path of the recording
    _build(folder / "other", extra=5)
    root = folder / "root" / str(folder)[1:]
    shutil.copytree(folder / "other", root / "bin")
    for options in (), ("--debug-dir", folder / "other"), ("--sysroot", folder / "root"):
        done = try_sonde("export", "--by", "allocated", *options, path)
        assert not any(name in done.stdout for name in NAMES), (options, done.stdout)
        assert "another build" in done.stderr, (options, done.stderr)


def frames_of_the_app_alone(folder):
    path, _ = _record(folder)
    options = _layouts(folder)["a sysroot"]
    whole = sonde("export", "--by", "allocated", *options, path)
    app = sonde("export", "--by", "allocated", "--app-only", *options, path)
    assert "qsort" in whole or "libc" in whole, whole
    frames = {frame for line in app.splitlines() for frame in line.rsplit(" ", 1)[0].split(";")}
    assert frames >= NAMES | {"main", "compare"}, frames
    assert not [frame for frame in frames if "qsort" in frame or "libc" in frame], frames
    mine = sonde("export", "--by", "allocated", "--app-only", "--system", "libmine*", *options, path)
    assert "library_allocates" not in mine and "program_allocates" in mine, mine
    whole_again = sonde("export", "--by", "allocated", "--app-only", "--app", "/*", *options, path)
    assert whole_again == whole, (whole_again, whole)
    total = [sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()) for text in (whole, app, mine)]
    assert len(set(total)) == 1, total


def _run_alone(folder, *words):
    """Runs the command with FOLDER as its root folder, which has nothing but the command, its libraries at other
    paths than the system's, and the recordings."""
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        linked = re.findall(r"(/\S+) \(0x", "".join(output_of("ldd", path) for path in COMMAND))
        for path in {*COMMAND, *linked}:
            shutil.copy(path, tools)
    loader = next(path.name for path in tools.iterdir() if path.name.startswith("ld-"))
    command = ["unshare", "--map-root-user", "--mount", "--root", folder, f"/tools/{loader}", "--library-path", "/tools",
               "/tools/sonde", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env={"HOME": "/"})
    if done.returncode and "unshare" in done.stderr:
        skip(f"unshare: {done.stderr}")
    assert done.returncode == 0, (command, done)
    return done.stdout


def names_travel_with_a_packed_recording(folder):
    def pack(path):
        sonde("pack", path, "-o", folder / "plain.sonde")
        sonde("pack", "--names", path)
        sonde("pack", "--names", "--summary", path)
        reports.extend(sonde("report", *words, path, "malloc") for words in ((), ("--tree",), ("--json",)))

    reports = []
    path, expected = _record(folder, pack)
    packed, summary = folder / "run.packed.sonde", folder / "run.summary.sonde"
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(packed, alone / "run.sonde")
    shutil.copy(summary, alone / "summary.sonde")
    for words, report in zip(((), ("--tree",), ("--json",)), reports):
        told = _run_alone(alone, "report", *words, "/run.sonde", "malloc")
        assert told.replace("/run.sonde", "FILE") == report.replace(str(path), "FILE"), (told, report)
    told = [_run_alone(alone, "export", "--by", "allocated", f"/{name}.sonde") for name in ("run", "summary")]
    assert told[0] == expected and sorted(told[1].splitlines()) == sorted(expected.splitlines()), told
    for options in (), ("--names",), ("--summary",), ("--summary", "--names"):  # packed again, names are kept
        again = folder / f"again{len(options)}{'-'.join(options)}.sonde"
        sonde("pack", *options, "-o", again, packed)
        assert set(sonde("export", "--by", "allocated", again).splitlines()) == set(expected.splitlines()), options
    sizes = [file.stat().st_size for file in (path, folder / "plain.sonde", packed, summary)]
    print("recording, packed, packed with names, summary with names:", *sizes)
    assert second_reader(packed) == second_reader(path)


run_cases(globals())
