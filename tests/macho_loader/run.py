#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: run.py ARCH [BUILD]: builds the test program and libsonde for macOS ARCH (x86_64 or arm64) out of the cross-built
archive (of build-macos-ARCH or the folder BUILD), in both layouts of fixups, and runs it under the loader of this folder, arm64 under qemu-user. Prints a line a
check. Exit status 1 when one fails, 77 with a reason when a tool is missing."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The build for Linux that the one for macOS is compared with.
LINUX = ROOT / "build-test"
LAYOUTS = {"opcodes": ["-no_fixup_chains", "-platform_version", "macos", "11.0", "13.0"],
           "chained": ["-fixup_chains", "-init_offsets", "-platform_version", "macos", "13.0", "13.0"]}
FACT = re.compile(r"^_fact_(\w+):[^\n]*\n\s*\.quad\s+(-?\d+)", re.M)


def tool(*names):
    for name in names:
        if shutil.which(name):
            return name
    print(f"{names[0]} is not there")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        print(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
        sys.exit(1)
    return done.stdout


class Bench:
    def __init__(self, arch, build):
        self.arch = arch
        self.build = pathlib.Path(build).resolve() if build else ROOT / f"build-macos-{arch}"
        self.out = self.build / "loader"
        self.out.mkdir(parents=True, exist_ok=True)
        self.sysroot = ROOT / "build/macos-sysroot"
        self.clang = tool("clang-14", "clang")
        self.linker = tool("ld64.lld-19", "ld64.lld")
        self.nm = tool("llvm-nm-14", "llvm-nm")
        self.gcc = tool("gcc" if arch == "x86_64" else "aarch64-linux-gnu-gcc")
        self.emulator = [] if arch == "x86_64" else [tool("qemu-aarch64", "qemu-aarch64-static"), "-L", "/"]
        self.archive = self.build / "lib/libsonde.a"
        self.is_private = "_malloc_logger" in run(self.nm, "-u", self.build / "lib/libsonde.dylib").split()

    def apple(self, *arguments):
        return [self.clang, "-target", f"{self.arch}-apple-macos11.0", "-isysroot", self.sysroot,
                "-D__ENVIRONMENT_OS_VERSION_MIN_REQUIRED__=110000", *arguments]

    def link(self, layout, kind, output, *inputs):
        run(self.linker, "-arch", self.arch, "-syslibroot", self.sysroot, "-lSystem", *LAYOUTS[layout], *kind, "-o", output,
            *inputs)

    def make_loader(self, name="macho-loader", *more):
        text = run(*self.apple("-I", ROOT / "src/lib", "-S", "-o", "-", HERE / "facts.c"))
        facts = "".join(f"#define FACT_{name} {int(value) & (1 << 64) - 1:#x}\n" for name, value in FACT.findall(text))
        (self.out / "facts.h").write_text(facts)
        loader = self.out / name
        run(self.gcc, "-O2", "-g", "-Wall", "-Wextra", "-Wshadow", "-D_GNU_SOURCE=", "-I", self.out, "-o", loader,
            *[source for source in HERE.glob("*.c") if source.name != "facts.c"], HERE / "entry.S", *more, "-pthread", "-ldl", "-lm")
        return [*self.emulator, loader]

    def compile(self, source, *how):
        if source.name == "regions.c":
            how = ["-finstrument-functions", *how]
        if source.name == "async.c":  # for every version of macOS: else the system is asked which bits are set
            how = ["-fswift-async-fp=always", *how]
        return run(*self.apple("-O1", "-g", "-fno-stack-protector", "-Wall", "-Wextra", "-I", ROOT / "include",
                               "-I", HERE / "libraries", *how, source))

    def objects(self, folder, *how):
        made = {}
        for source in sorted(s for s in (HERE / folder).iterdir() if s.suffix in (".c", ".m", ".S")):
            made[source.stem] = self.out / (source.stem + ".o")
            self.compile(source, *how, "-c", "-o", made[source.stem])
        return made

    def libraries(self):
        """{name: its objects}: a file each of libraries/, and the folders that are one."""
        made = {name: [path] for name, path in self.objects("libraries").items()}
        made["libobjc"] = list(self.objects("objc").values())
        made["CoreFoundation"] = list(self.objects("corefoundation").values())
        return made

    def make_system(self, layout):
        folder = self.out / layout
        folder.mkdir(exist_ok=True)
        # Apple's log has the names that libmalloc exports, or those of the framework alone, as on later systems.
        system = self.objects("system", *["-DFRAMEWORK_NAMES"] * (layout == "chained")).values()
        self.link(layout, ["-dylib", "-undefined", "dynamic_lookup", "-install_name", "/usr/lib/system/kernel.dylib"],
                  folder / "kernel.dylib", *system)
        return folder / "kernel.dylib"

    def make_program(self, layout, objects, libraries):
        folder = self.make_system(layout).parent
        self.link(layout, ["-dylib", "-install_name", "@rpath/libsonde.dylib"], folder / "libsonde.dylib", "-all_load",
                  self.archive)
        for name, made in libraries.items():
            self.link(layout, ["-dylib", "-install_name", f"@rpath/{name}.dylib"], folder / f"{name}.dylib", *made)
        self.link(layout, [], folder / "subject", *objects.values(), folder / "libsonde.dylib",
                  *[folder / f"{name}.dylib" for name in libraries if name != "late"])
        return folder

    def make_page_program(self, folder):
        """The program of docs/in-an-app.md, as it is there."""
        page = (ROOT / "docs/in-an-app.md").read_text()
        source = self.out / "page.c"
        source.write_text(page[page.index("<<'END'\n") + 7:page.index("\nEND\n") + 1])
        self.compile(source, "-c", "-o", self.out / "page.o")
        self.link(folder.name, [], folder / "page", self.out / "page.o", folder / "libsonde.dylib")
        return folder / "page"

    def check_imports(self, loader, folder):
        there = set(run(*loader, "--stand-ins").split())
        there |= {line.split()[-1].split("$")[0]
                  for line in run(self.nm, "--defined-only", "-g", folder / "kernel.dylib").splitlines()}
        wanted = set()
        for image in (folder / "subject", *folder.glob("*.dylib")):
            if image.name not in ("subject", "kernel.dylib"):
                there |= {line.split()[-1] for line in run(self.nm, "--defined-only", "-g", image).splitlines()}
            wanted |= {line.split()[-1].split("$")[0] for line in run(self.nm, "-u", image).splitlines()}
        return sorted(wanted - there)


def events_of(sonde, path):
    return [json.loads(line) for line in run(sonde, "events", path).splitlines()]


def faults_of_recordings(sonde, folder, is_private):
    """What the program's logs say, read by the command for Linux, against what the program did (program/log.c)."""
    events = events_of(sonde, folder / "blocks.sonde")
    given = {e["address"]: e["size"] for e in events if e["event"] == "malloc" and 1000 <= e["size"] < 1040}
    freed = [e["address"] for e in events if e["event"] == "free" and e["address"] in given]
    sizes = [e["size"] for e in events if "size" in e]
    main_thread = {e["tid"] for e in events if e["event"] == "malloc" and e["size"] == 1000}
    thread = {e["tid"] for e in events if e["event"] == "malloc" and e["size"] == 5005}
    if sorted(given.values()) != list(range(1000, 1040)):
        yield f"40 blocks were allocated, the log has {sorted(given.values())}"
    if sorted(given[a] for a in freed) != list(range(1000, 1030)):
        yield f"30 of them were freed, the log has {len(freed)}"
    if not any(e["event"] == "calloc" and e["size"] == 7777 for e in events):
        yield "calloc is missing"
    if not any(e["event"] == "realloc" and e["size"] == 3003 for e in events):
        yield "realloc is missing"
    if len(thread) != 1 or thread == main_thread:
        yield "the other thread's block is missing"
    if 7007 in sizes or 9009 in sizes:
        yield "what was allocated after the log's end, or in a child, is in the log"
    if not any(e["event"] == "marker" for e in events):
        yield "the mark is missing"
    address = next(a for a, size in given.items() if size == 1000)
    history = run(sonde, "history", folder / "blocks.sonde", address)
    names = [line.split()[0] for line in history.splitlines() if line.startswith("    ")]
    chain = (["malloc"] if is_private else []) + ["allocate_blocks", "check_blocks"]
    if names[:len(chain)] != chain or not {"check_log", "main"} <= set(names):
        yield f"a block's stack is {names}"
    if not is_private:
        return
    regions = [(e["call"], e["size"]) for e in events_of(sonde, folder / "regions.sonde") if e["event"] == "mapping"]
    if regions != [("mapped", 0x70000), ("mapped", 0x50000), ("unmapped", 0x50000), ("mapped", 0x20000), ("unmapped", 0x30000)]:
        yield f"the log of regions has {regions}"
    tags = json.loads(run(sonde, "report", "--json", folder / "regions.sonde", "vm"))["vm"]["tags"]
    wanted = [("malloc tiny", 1, 0x70000), ("memory tag 240", 1, 0x20000), ("mmap without a tag", 1, 0x50000)]
    if sorted((tag["tag"], tag["calls"], tag["bytes"]) for tag in tags) != wanted:
        yield f"the tags of regions are {tags}"


def faults_of_apple_log(start, sonde, folder, is_private):
    """Apple's log as the program saved it, read by the command for Linux, against what the program did (program/apple_log.c)."""
    inside = folder / "apple"
    inside.mkdir(exist_ok=True)
    for old in inside.iterdir():
        old.unlink()
    done = subprocess.run([*start, "apple", inside, "private" if is_private else "public"], capture_output=True, text=True,
                          timeout=600, env={**os.environ, "MallocStackLoggingDirectory": str(inside)})
    print(done.stdout + done.stderr, end="")
    if done.returncode:
        yield f"Apple's log: status {done.returncode}"
    if done.returncode or not is_private or not sonde.exists():
        return
    saved, log = [sorted(inside.glob(f"subject.*.{kind}")) for kind in ("index", "table", "images")], inside / "log.sonde"
    if [len(files) for files in saved] != [1, 1, 1] or len(list(inside.iterdir())) != 4:
        yield f"Apple's log is saved as {sorted(path.name for path in inside.iterdir())}"
        return
    run(sonde, "import", *(files[0] for files in saved), "-o", log)
    whose = json.loads(run(sonde, "report", "--json", log))
    if f"{whose['exe']}.{whose['pid']}.index" != saved[0][0].name:
        yield f"{saved[0][0].name} is of {whose['exe']}, {whose['pid']}"
    events = events_of(sonde, log)
    given = {e["address"]: e["size"] for e in events if e["event"] == "malloc" and 1000 <= e["size"] < 1040}
    freed = [e["address"] for e in events if e["event"] == "free" and e["address"] in given]
    sizes = [e["size"] for e in events if e["event"] == "malloc"]
    if sorted(given.values()) != list(range(1000, 1040)) or sorted(given[a] for a in freed) != list(range(1000, 1030)):
        yield f"Apple's log has the blocks {sorted(given.values())}, and {len(freed)} were freed"
    if not {3001, 3003, 5005} <= set(sizes) or 7007 in sizes:
        yield f"Apple's log has the sizes {sorted(sizes)}"
    threads = {size: {e["tid"] for e in events if e["event"] == "malloc" and e["size"] == size} for size in (1000, 5005)}
    if any(len(tids) != 1 for tids in threads.values()) or threads[1000] == threads[5005]:
        yield f"the threads of Apple's log are {threads}"
    leaves = {e["stack"] for e in events if e["event"] == "malloc" and 20000 <= e["size"] < 20128}
    if len(leaves) != 128:
        yield f"128 stacks of Apple's log are {len(leaves)}"
    way = ["malloc", *["allocate_on_every_way"] * 8, "do_logged", "check_apple_log", "main"]
    for size, chain in ((1039, ["malloc", "allocate_logged", "do_logged", "check_apple_log", "main"]),
                        (5005, ["malloc", "in_a_logged_thread"]), (20000, way), (20064, way), (20127, way)):
        address = next(e["address"] for e in events if e["event"] == "malloc" and e["size"] == size)
        names = [line.split()[0] for line in run(sonde, "history", log, address).splitlines() if line.startswith("    ")]
        if [name for name in names if name in chain] != chain:
            yield f"in Apple's log a block's stack is {names}"
    mapped = [(e["call"], e["size"]) for e in events if e["event"] == "mapping" and e["size"] in (0x70000, 0x30000)]
    tags = json.loads(run(sonde, "report", "--json", log, "vm"))["vm"]["tags"]
    if mapped != [("mapped", 0x70000), ("unmapped", 0x30000)] or "malloc tiny" not in [tag["tag"] for tag in tags]:
        yield f"Apple's log has the mappings {mapped} and tags {tags}"


def faults_of_page(start, program, sonde, folder):
    """What docs/in-an-app.md says that its program prints and records."""
    inside = folder / "page-files"
    inside.mkdir(exist_ok=True)
    for old in inside.iterdir():
        old.unlink()
    done = subprocess.run([*map(str, start), folder / "kernel.dylib", program], capture_output=True, text=True, timeout=600,
                          cwd=inside)
    if (done.returncode, done.stdout) != (0, "stall: blocked in a call\n"):
        yield f"the page's program: {done}"
    elif sonde.exists():
        for name in ("live", "small"):
            report = run(sonde, "report", inside / f"{name}.sonde", "malloc")
            if not re.search(r"1\.0 MB +100\.0 % +100  load_images", report):
                yield f"{name}.sonde of the page's program: {report}"


def calls_of(sonde, path):
    """{path of names: calls} of the trace PATH, its total times, and what it lost."""
    told, names, paths, times = json.loads(run(sonde, "report", "--json", path, "trace")), {0: ()}, {}, {}
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"].split("(")[0].lstrip("_"),)
        key = "/".join(names[node["node"]])
        paths[key] = paths.get(key, 0) + node["calls"]
        times[key] = times.get(key, 0) + node["total_ns"]
    lost = {key: told["trace"][key] for key in ("lost", "unmatched", "left") if told["trace"][key]}
    return paths, times, lost


def faults_of_tree(text, paths, times):
    """The tree that the program prints itself: as it is saved, but for what takes less than a ten-thousandth of the whole."""
    lines = text[text.index("    total_ns"):text.index(" lines\n")].splitlines()
    printed, stack = {}, []
    for line in lines[1:-1]:
        name = line[74:]
        stack = stack[:(len(name) - len(name.lstrip())) // 2] + [name.strip().split("(")[0].lstrip("_")]
        printed["/".join(stack)] = printed.get("/".join(stack), 0) + int(line[:72].split()[2])
    whole = sum(time for path, time in times.items() if "/" not in path)
    left_out = [p for p, time in times.items() if time > whole / 5000 + 5000 and p not in printed]  # it rounds otherwise
    if left_out or any(paths.get(path) != calls for path, calls in printed.items()):
        yield f"the tree has {sorted(printed.items() - paths.items())}, and has not {left_out}"
    if int(lines[-1]) != len(lines) - 1:
        yield f"{lines[-1]} lines are told of the tree, {len(lines) - 1} are there"


def faults_of_trace(sonde, path, text):
    """What the trace PATH says, and the program's own TEXT of it, against what the program sent while it was on (program/messages.m, regions.c)."""
    account, base = "-[Account {}]", "-[Base {}]"
    add, last = account.format("add:"), account.format("last:")
    wanted = {add: 1, f"{add}/{base.format('add:')}": 1, "+[Base version]": 1, "victim_call": 1, f"{account.format('large:')}/{base.format('large:')}": 1, "-[Tagged value]": 1, account.format("stack:"): 1,
              account.format("sum:b:c:d:e:f:g:h:i:"): 1, account.format("mix:b:c:d:e:f:g:h:i:n:"): 1,
              account.format("lanes:b:c:d:e:f:g:h:"): 1, account.format("single:"): 1, account.format("all:"): 1,
              account.format("pair:"): 1, account.format("four:"): 1, account.format("large:"): 1,
              account.format("longer:"): 1, account.format("twice:"): 1,
              "run_regions": 1, "run_regions/outer": 1, "run_regions/outer/inner": 3}
    for depth, calls in enumerate((1, 2, 4, 2), 1):
        wanted["run_regions/outer/inner" + "/fib" * depth] = 3 * calls
    paths, times, lost = calls_of(sonde, path)
    yield from faults_of_tree(text, paths, times)
    # last: sends add: at its end, by a tail call or not: the call is inside it or beside it.
    inside = sum(calls for name, calls in paths.items() if name in (f"{last}/{add}", add)) - 1
    above = sum(calls for name, calls in paths.items() if name.endswith(base.format("add:")))
    rest = {name: calls for name, calls in paths.items() if not name.startswith(last)}
    if paths.get(last) != 1501 or inside != 1501 or above != 1502:
        yield f"1501 messages last:, each with add: and its superclass's, are {paths.get(last)}, {inside} and {above}"
    rest[add] = wanted[add] if add in rest else 0
    rest[f"{add}/{base.format('add:')}"] = rest.get(f"{add}/{base.format('add:')}", 0) and 1
    if rest != wanted:
        yield f"the trace has {sorted(rest.items() ^ wanted.items())}"
    if lost:
        yield f"the trace has {lost}"


# Apple's own list, and functions of the test's library, one of which takes doubles.
POLICY = """version: 1
extends: apple
categories:
  - id: victim.weigh
    functions: ["victim*:victim_weigh(text)"]
  - id: early.time
    functions: [mach_absolute_time()]
phases:
  - before: consent
    deny: [apple.disk-space]
"""
READ, WEIGH = "-[NSUserDefaults read:]", "-[NSUserDefaults weigh:b:c:d:e:f:g:h:]"
# (category, function, arguments, owner): calls, of what send_messages and check_first of program/audit.m do.
MESSAGES = {("apple.defaults", "+[NSUserDefaults *]", '"+[NSUserDefaults standard]"', "subject"): 1,
            ("apple.defaults", "-[NSUserDefaults *]", f'"{READ}"', "subject"): 20,
            ("apple.defaults", "-[NSUserDefaults *]", f'"{WEIGH}"', "subject"): 1,
            ("apple.keyboards", "+[UITextInputMode activeInputModes]", "", "subject"): 1,
            ("victim.weigh", "victim_weigh", '"A"', "subject"): 1}


def wanted_findings(own_file):
    def file(function, path, calls=1, owner="subject"):
        return {("apple.file-timestamp", function, f'"{path}"', owner): calls}
    return {**MESSAGES, **file("stat", "/constant"), ("apple.file-timestamp", "stat", '""', "subject"): 1, **file("lstat", "/on/the/stack"), **file("lstat", own_file),
            **file("lstat", "/by/a/thread", 1500), **file("stat", "/by/a/library", 1, "victim.dylib"),
            **file("stat", "/late", 1, "late.dylib"), ("apple.file-timestamp", "fstat", "…", "subject"): 1,
            ("apple.disk-space", "statfs", '"/"', "subject"): 1,
            **{(category, "mach_absolute_time", "", "subject"): 1000 for category in ("apple.boot-time", "early.time")}}


def findings_of(sonde, path):
    told = json.loads(run(sonde, "report", "--json", path, "audit"))
    found, rows = {}, told["audit"]["findings"]
    for row in rows:
        name = row["function"].split("$")[0]  # x86_64: stat$INODE64
        arguments = "…" if name == "fstat" else row.get("arguments", "")
        key = row["category"], name, arguments, row["owner"]
        found[key] = found.get(key, 0) + row["calls"]
    return found, rows, {key: value for key, value in told["missing"].items() if value}


def faults_of_audit(sonde, folder, own_file):
    """What the recordings of an audit say, against what the program called (program/audit.m)."""
    wanted = wanted_findings(str(own_file))
    for name, right in (("audit0", wanted), ("audit1", {**MESSAGES, ("apple.file-timestamp", "stat", '"/again"', "victim.dylib"): 1})):
        found, rows, missing = findings_of(sonde, folder / f"{name}.sonde")
        if found != right or missing:
            yield f"{name}: {sorted(found.items() ^ right.items(), key=str)}, missing {missing}"
        for row in rows:
            names = [frame.get("function", "?").split("(")[0] for frame in row["frames"]]
            if row["owner"] == "subject" and row.get("arguments") != '"/by/a/thread"' and names[-2:] != ["main", "mac_start"]:
                yield f"{name}: the stack of {row['function']} {row.get('arguments')} is {names}"
    early = [row["category"] for row in findings_of(sonde, folder / "audit0.sonde")[1] if row.get("too_early")]
    if early != ["apple.disk-space"]:
        yield f"too early are {early}"
    draft = run(sonde, "export", "--as", "xcprivacy", folder / "audit0.sonde")
    declared = re.findall(r"<string>NSPrivacyAccessedAPICategory(\w+)</string>", draft)
    if sorted(declared) != ["ActiveKeyboards", "DiskSpace", "FileTimestamp", "SystemBootTime", "UserDefaults"]:
        yield f"the privacy manifest has {declared}"


HELD_SIZE = "123457"  # program/suspended.c asks for a block of it; its thread is stopped while it holds malloc's lock
FORBIDDEN = {"nothing": None, "malloc": "mac_host_zone_lock", "free": "mac_host_zone_lock", "mutex": "pthread_mutex_lock",
             "dyld": "_dyld_get_image_name", "vm": "mac_host_vm_allocate"}


def faults_of_suspends(start, tried):
    """What libsonde may not do while a thread is suspended: that it is seen, and that TRIED runs met a thread inside malloc."""
    for what, name in FORBIDDEN.items():
        done = subprocess.run([*start, "misbehave", what], capture_output=True, text=True, timeout=600)
        wanted = (2, f"macho-loader: {name} is called while a thread is suspended\n") if name else (0, "")
        if (done.returncode, done.stderr) != wanted:
            yield f"a thread is suspended, then {what}: {done.returncode}, {done.stderr}"
    for done in tried:
        met = re.search(r"^met inside malloc: (\d+)$", done.stdout, re.M)
        if not met or int(met[1]) < 3:
            yield f"a thread that was kept inside malloc was met {met and met[1]} times"


def faults_of_sandbox(start, sonde, folder, late, is_private):
    """The logs of an app that may have no shared memory: in its temporary folder; without one, none."""
    inside = folder / "sandbox"
    inside.mkdir(exist_ok=True)
    for old in inside.iterdir():
        old.unlink()
    env = {**os.environ, "MACHO_SANDBOX": "1", "TMPDIR": f"{inside}/"}
    arguments = [*start, late, inside, "private" if is_private else "public"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, env=env)
    if done.returncode:
        yield f"in a sandbox: {done.stdout[-2000:]}{done.stderr}"
    elif sonde.exists():
        yield from (f"in a sandbox: {fault}" for fault in faults_of_recordings(sonde, inside, is_private))
    left = [path.name for path in inside.iterdir() if path.suffix != ".sonde"]
    if left:
        yield f"in the temporary folder is left: {left}"
    del env["TMPDIR"]
    refused = subprocess.run(arguments, capture_output=True, text=True, timeout=600, env=env)
    if refused.returncode != 1 or "FAILED" not in refused.stdout:
        yield "shared memory was not refused"


def main():
    bench = Bench(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    sonde = LINUX / "bin/sonde"
    loader, failed = bench.make_loader(), 0
    objects, libraries = bench.objects("program"), bench.libraries()
    policy = bench.out / "policy.aud"
    if sonde.exists():
        (bench.out / "policy.yaml").write_text(POLICY)
        run(sonde, "audit", "compile", bench.out / "policy.yaml", "-o", policy)
    for layout in LAYOUTS:
        folder = bench.make_program(layout, objects, libraries)
        missing = bench.check_imports(loader, folder)
        print(f"{bench.arch} {layout}: imports without a stand-in: {' '.join(missing) or 'none'}")
        saved = folder / "calls.sonde"
        saved.unlink(missing_ok=True)
        start = [*map(str, loader), folder / "kernel.dylib", folder / "subject"]
        runs = [subprocess.run([*start, *arguments], capture_output=True, text=True, timeout=600,
                               env={**os.environ, "MACHO_HELD_SIZE": HELD_SIZE})
                for arguments in ((folder / "late.dylib", folder, "private" if bench.is_private else "public"),
                                  ("messages", saved), ("loop",), ("suspended",), ("suspended", folder / "suspended.sonde"),
                                  *[("audit", policy, folder, folder / "late.dylib")] * sonde.exists())]
        for done in runs:
            print(done.stdout + done.stderr + f"{bench.arch} {layout}: status {done.returncode}")
        bad = any(done.returncode for done in runs)
        faults = list(faults_of_suspends(start, runs[3:5]))
        faults += faults_of_sandbox(start, sonde, folder, folder / "late.dylib", bench.is_private)
        faults += faults_of_page(loader, bench.make_page_program(folder), sonde, folder)
        faults += faults_of_apple_log(start, sonde, folder, bench.is_private)
        if sonde.exists() and not bad:
            faults += [*faults_of_recordings(sonde, folder, bench.is_private), *faults_of_trace(sonde, saved, runs[1].stdout),
                       *faults_of_audit(sonde, folder, policy)]
        print("\n".join(f"FAILED: {fault}" for fault in faults) or "ok what was done is in the logs, the trace and the audit"
              if faults or sonde.exists() else "skipped: the command is not built, nobody reads the logs")
        failed += bool(missing) or bool(faults) or bad
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
