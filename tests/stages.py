#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The stages of `./run test`: builds and tests sonde with each compiler and for each machine, then counts.

Stages are tested one after the other. What the later stages need is built meanwhile, at the lowest
priority: many tests wait, and few are slowed down by such a build. Every half minute a line says how far
a stage is. The logs are in build-test/results/, and tests/tally.py counts what is in them.

usage: stages.py [STAGE…]     the stages whose names begin with one of the words; all of them by default"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build-test" / "results"
JOBS = str(os.cpu_count() or 2)
TEST_JOBS = str(int(JOBS) + 1)  # many tests wait
WAITING_JOBS = str(int(JOBS) + 2)  # where most of them wait
SAY_SECONDS = 30
FUZZ_SECONDS = 3
UNSTEADY_MAX = 3  # of a stage
BEGAN = time.monotonic()
CTEST_LINE = re.compile(r"^ *(\d+)/(\d+) Test +#\d+: (\S+) \.+ *(\S.*?) +[\d.]+ sec$", re.M)
FULL_OUTPUT = "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000"
NINJA_LINE = re.compile(r"^\[(\d+)/(\d+)\]", re.M)

results = []   # lines for tests/tally.py: STAGE=RESULT
seconds = {}   # (stage, "built" or "tested"): seconds, for the table at the end


def say(text):
    print(f"[{time.monotonic() - BEGAN:4.0f} s] {text}", file=sys.stderr, flush=True)


def tail(log, lines=40, drop=r"^ok"):
    """The end of a log, without the lines that report success."""
    kept = [line for line in log.read_text(errors="replace").splitlines() if not re.match(drop, line)]
    return "\n".join(kept[-lines:])


def last_line(log):
    """What a program that is skipped gives as its reason."""
    return (log.read_text(errors="replace").strip().splitlines() or ["no reason given"])[-1].removeprefix("skipped: ")


def run(log, *command, progress=None, nice=0, append=False):
    """Runs COMMAND with its output in LOG, and says every half minute what PROGRESS makes of the log.
    Returns the exit status."""
    with open(log, "ab" if append else "wb") as out:
        process = subprocess.Popen(["nice", "-n", str(nice), *map(str, command)], cwd=ROOT, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT)
    said = time.monotonic()
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            if progress and time.monotonic() - said >= SAY_SECONDS:
                said = time.monotonic()
                progress(log.read_text(errors="replace"))


def failed_in(junit):
    """The names of the tests that failed."""
    try:
        return [test.get("name") for test in ElementTree.parse(junit).getroot().iter("testcase") if test.get("status") == "fail"]
    except (OSError, ElementTree.ParseError):
        return []


def has(*programs):
    return all(shutil.which(program) for program in programs)


def warnings_are_errors(compiler):
    """The two compilers that must find nothing are named in CONTRIBUTING.md; another one's warnings do not
    stop a build."""
    wanted = {"gcc": "12", "clang": "14"}[compiler]
    version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=False).stdout
    return "-DSONDE_WERROR=" + ("ON" if version.strip().split(".")[0] == wanted else "OFF")


class Missing(Exception):
    """Why a stage cannot run here."""


class Broken(Exception):
    """Why a stage fails before its tests: "does not build"."""


class Stage:
    """What is built first, and what is run then. `prepare` runs in the builder's thread and `test` in the
    main one."""

    def __init__(self, name):
        self.name, self.built, self.result, self.progress = name, threading.Event(), None, ""

    def prepare(self):
        """Builds."""

    def test(self):
        """Runs, and adds to the results."""

    def add(self, result, name=None):
        results.append(f"{name or self.name}={result}")

    def build(self, preset, *options, targets=(), folder=None):
        """Configures and builds. Where that fails the log is printed."""
        folder = ROOT / (folder or f"build-{preset}")
        folder.mkdir(parents=True, exist_ok=True)
        log = RESULTS / f"build-{folder.name}.log"
        if run(log, "cmake", "--preset", preset, "-B", folder, *options, nice=19):
            print(tail(log), file=sys.stderr)
            raise Broken("is not configured")
        targets = targets(folder) if callable(targets) else targets
        command = ["cmake", "--build", folder, "--parallel", JOBS, *(["--target", *targets] if targets else [])]
        if run(log, *command, progress=self.note, nice=19, append=True):
            print(tail(log, drop=r"^\[\d+/\d+\] "), file=sys.stderr)
            raise Broken("does not build")

    def note(self, log):
        steps = NINJA_LINE.findall(log)
        self.progress = "{} of {} files".format(*steps[-1]) if steps else ""

    def program(self, name, *command, nice=0):
        """Runs a COMMAND that is a test: exit 77 is a skip with its reason on the last line. Returns whether it
        has not failed."""
        log = RESULTS / (re.sub(r"\W+", "-", name) + ".log")
        status = run(log, *command, progress=lambda _: say(f"{name}: running"), nice=nice)
        if status == 77:
            self.add("skip:" + last_line(log), name)
            return True
        if status:
            print(tail(log), file=sys.stderr)
        self.add("fail" if status else "pass", name)
        return not status


class Ctest(Stage):
    """A preset whose tests ctest runs."""

    def __init__(self, name, preset, *options, label=None, jobs=TEST_JOBS, needs=()):
        super().__init__(name)
        self.preset, self.options, self.label, self.jobs, self.needs = preset, options, label, jobs, needs

    def prepare(self):
        for what, is_there in self.needs:
            if not is_there():
                raise Missing(f"{what} is not installed")
        self.build(self.preset, *self.options, targets=self.targets if self.label else ())

    def targets(self, folder):
        """The programs of the tests that have the label."""
        listed = subprocess.run(["ctest", "--test-dir", folder, "-N", "-L", self.label], capture_output=True, text=True,
                                check=True).stdout
        return [f"{name}_test" for name in re.findall(r"^ *Test +#\d+: unit/\S*?([^/\s]+)$", listed, re.M)]

    def test(self):
        log, junit, shown = RESULTS / f"{self.preset}.log", RESULTS / f"{self.preset}.xml", set()

        def progress(text):
            lines = CTEST_LINE.findall(text)
            failed = [name for _, _, name, result in lines if result != "Passed" and "Skipped" not in result]
            fresh = [name for name in failed if name not in shown]
            shown.update(fresh)
            if lines:
                say(f"{self.name}: {lines[-1][0]} of {lines[-1][1]} tests, {len(failed)} failed" +
                    "".join(f"; FAILED {name}" for name in fresh))

        # The limit on output is lifted so that every skipped case can be counted. tests/tally.py shows what a
        # failed test printed.
        run(log, "ctest", "--preset", self.preset, "--parallel", self.jobs, "--output-junit", junit,
            *FULL_OUTPUT, progress=progress)
        self.repeat(failed_in(junit))
        self.add(junit)

    def repeat(self, names):
        """Runs the few tests that failed twice more, one at a time. tests/tally.py lists those that then pass as
        unsteady: the machine was late, or the test or sonde has a race that is still to be found. Where many
        fail, the cause is another one."""
        if not 0 < len(names) <= UNSTEADY_MAX:
            return
        say(f"{self.name}: again, {', '.join(names)}")
        pattern = f"^({'|'.join(map(re.escape, names))})$"
        run(RESULTS / f"{self.preset}-again.log", "ctest", "--preset", self.preset, "-R", pattern, "--repeat", "until-fail:2",
            "--output-junit", RESULTS / f"{self.preset}.again.xml", *FULL_OUTPUT)


class Fuzz(Stage):
    """Everything built by clang, and a few seconds of each fuzz target. Optimization would cost more time than
    it saves, as in the stage of AddressSanitizer."""

    def prepare(self):
        if not has("clang"):
            raise Missing("clang is not installed")
        self.build("fuzz", warnings_are_errors("clang"), "-DSONDE_QUICK=ON")

    def test(self):
        self.add("pass", "builds with clang")
        waiting = sorted(path.name for path in (ROOT / "build-fuzz" / "targets").iterdir())
        count = len(waiting)

        def work():
            while waiting:
                name = waiting.pop(0)
                self.program(f"fuzz {name}", "sh", "fuzz/fuzz.sh", name, FUZZ_SECONDS)

        say(f"{self.name}: {count} targets, {FUZZ_SECONDS} s each")
        workers = [threading.Thread(target=work) for _ in range(int(JOBS))]
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(SAY_SECONDS)
                say(f"{self.name}: {count - len(waiting)} of {count} targets begun")


class Apple(Stage):
    """libsonde and the command for macOS, cross-built and run on stand-ins for macOS (tests/macho_loader/)."""
    ARCHS = "arm64", "x86_64"

    def prepare(self):
        if not has("ld64.lld-19", "clang"):
            raise Missing("clang or ld64.lld-19 is not installed")
        log = RESULTS / "apple-sysroot.log"
        if run(log, "python3", "cmake/apple-sysroot.py", "build/macos-sysroot"):
            raise Missing(last_line(log))
        log = RESULTS / "apple-libraries.log"
        self.command = not run(log, "python3", "cmake/apple-libraries.py", "build/apple-libraries")
        self.why = last_line(log)
        options = [warnings_are_errors("clang"), "-DBUILD_TESTING=OFF", "-DSONDE_QUICK=ON"]
        for arch in self.ARCHS:
            self.build(f"macos-{arch}", *options, f"-DSONDE_COMMAND={'ON' if self.command else 'OFF'}")
        self.build("macos-x86_64", *options, "-DSONDE_APPLE_PRIVATE=OFF", folder="build-macos-x86_64/public")

    def test(self):
        if not self.command:
            self.add("skip:" + self.why, "the command for macOS")
        for arch in self.ARCHS:
            library = f"build-macos-{arch}/lib/libsonde.dylib"
            self.program(f"libsonde for macOS {arch}, cross-built", "sh", "tests/check/macos.sh", "llvm-nm", library, "private")
            if self.loader(arch):
                self.program(f"Mach-O stacks of {arch} as libsonde for Linux sees them", "python3",
                             "tests/macho_loader/stops.py", arch, "50")
            if self.command:
                self.program(f"the command for macOS {arch} on Linux stand-ins", "python3", "tests/macho_loader/command.py",
                             arch)
        self.program("libsonde for macOS x86_64 without private symbols", "sh", "tests/check/macos.sh", "llvm-nm",
                     "build-macos-x86_64/public/lib/libsonde.dylib")
        self.loader("x86_64", "build-macos-x86_64/public")
        self.program("libsonde compiles for iOS arm64", "python3", "tests/check/ios.py", "build-macos-arm64")

    def loader(self, arch, *folder):
        return self.program(f"Mach-O code of {arch} on Linux stand-ins" + (", without private symbols" if folder else ""),
                            "python3", "tests/macho_loader/run.py", arch, *folder)


class Lint(Stage):
    """`./run lint`, whose clang-tidy reads what changed last. It takes CPU time alone, beside the last tests."""

    def prepare(self):
        self.program("lint", "./run", "lint", "--changed", nice=19)


def libraries(pattern):
    return lambda: any(pathlib.Path("/").glob(pattern))


STAGES = (
    Ctest("gcc", "test", warnings_are_errors("gcc"), jobs=WAITING_JOBS),
    Ctest("gcc, ASan and UBSan", "asan", "-DSONDE_QUICK=ON"),
    Ctest("gcc, TSan", "tsan", "-DSONDE_QUICK=ON", label="tsan"),
    Ctest("aarch64 under qemu-user", "aarch64", needs=(
        ("a cross compiler", lambda: has("aarch64-linux-gnu-gcc")),
        ("qemu-user", lambda: has("qemu-aarch64") or has("qemu-aarch64-static")),
        ("cmocka for arm64", libraries("usr/lib/aarch64-linux-gnu/libcmocka.so")))),
    Ctest("musl", "musl", needs=(("musl-gcc", lambda: has("musl-gcc")),)),
    Apple("libsonde for macOS"),
    Fuzz("clang, fuzz targets"),
    Lint("lint"),
)


def build_all(stages):
    for stage in stages:
        began = time.monotonic()
        try:
            stage.prepare()
        except Missing as why:
            stage.result = f"skip:{why}"
        except Broken as why:
            stage.name, stage.result = f"{stage.name} ({why})", "fail"
        except Exception as error:  # the other stages are built nevertheless
            stage.name, stage.result = f"{stage.name} ({error})", "fail"
        seconds[stage.name, "built"] = time.monotonic() - began
        stage.built.set()


def test_stage(stage):
    waited = 0
    while not stage.built.wait(1):
        waited += 1
        if waited % SAY_SECONDS == 0:
            say(f"{stage.name}: building, {stage.progress}")
    if stage.result:
        say(f"{stage.name}: {stage.result}")
        stage.add(stage.result)
        return
    say(f"{stage.name}: testing")
    began = time.monotonic()
    stage.test()
    seconds[stage.name, "tested"] = time.monotonic() - began


def main():
    words = sys.argv[1:]
    stages = [stage for stage in STAGES if not words or any(stage.name.startswith(word) for word in words)]
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    threading.Thread(target=build_all, args=(stages,), daemon=True).start()
    for stage in stages:
        test_stage(stage)
    print()
    for (name, what), took in seconds.items():
        if took >= 1:
            print(f"{name:<28} {what:<6} in {took:4.0f} s")
    print(f"{'all of it':<28} {'':<6} in {time.monotonic() - BEGAN:4.0f} s\n", flush=True)
    return subprocess.run([sys.executable, ROOT / "tests" / "tally.py", *results], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
