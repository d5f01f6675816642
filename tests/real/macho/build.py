# SPDX-License-Identifier: MIT
"""Mach-O files for the tests: small programs cross-built here, real ones from published packages."""
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from helpers import skip, skip_part

TBD = """--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '/usr/lib/libSystem.B.dylib'
current-version: 1
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ _puts, _abs, _malloc, _free, _write, __ZdlPv, dyld_stub_binder ]
...
"""

FIRST = """
int work(int n);
int weakly(int n) __attribute__((weak));
int weakly(int n) { return n / 3; }
static inline __attribute__((always_inline)) int inner(int x) { return work(x * 3) + 1; }
static __attribute__((noinline)) int twice(int x) {
  int s = inner(x);
  return s + inner(s);
}
__attribute__((noinline)) int outer(int x) {
  int s = 0;
  for (int i = 0; i < x; i++)
    s += twice(i) ^ weakly(i);
  return s;
}
int main(int argc, char **argv) {
  (void)argv;
  return outer(argc);
}
"""
SECOND = """
extern int puts(const char *);
extern int abs(int);
extern void *malloc(unsigned long);
extern void free(void *);
extern int missing(int) __attribute__((weak_import));
int (*table[])(int) = {abs, abs, 0};
int (*const read_only)(const char *) = puts;
struct pair { long number; void (*release)(void *); } pairs[3] = {{1, free}, {2, 0}, {3, free}};
__attribute__((noinline)) int work(int n) {
  void *block = malloc((unsigned long)n);
  if (n == 77)
    read_only("x");
  if (n == 78)
    puts("y");
  pairs[0].release(block);
  return table[n & 1](n) + 2;
}
"""
CXX = """
namespace shapes {
template <class T> struct Box {
  T side;
  __attribute__((noinline)) T area() const { return side * side; }
};
int sum(int n) {
  Box<int> box{n};
  Box<long> wide{n};
  return box.area() + (int)wide.area();
}
}
"""


def tool(*names):
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    return None


LINKER = tool("ld64.lld-19", "ld64.lld-18", "ld64.lld-20")
COMPILER = tool("clang-14", "clang")
DSYMUTIL = tool("dsymutil-19", "dsymutil", "dsymutil-14")


SYMBOLIZER = tool("llvm-symbolizer-19", "llvm-symbolizer")


def needs_linker():
    """Skips where no Mach-O program can be built."""
    for name, found in (("ld64.lld-19", LINKER), ("clang", COMPILER), ("dsymutil", DSYMUTIL)):
        if not found:
            skip(f"{name} is not installed")


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def link(folder, arch, objects, out, chained, *more):
    version = "13.0" if chained else "11.0"
    run(LINKER, "-arch", arch, "-platform_version", "macos", version, version,
        "-fixup_chains" if chained else "-no_fixup_chains", "-undefined", "dynamic_lookup",
        folder / "libSystem.tbd", *objects, "-o", out, *more)
    return out


def objects(folder, arch, dwarf="-gdwarf-4"):
    """One program of three files, compiled for ARCH."""
    folder = pathlib.Path(folder)
    (folder / "libSystem.tbd").write_text(TBD)
    made = []
    for name, text in (("first.c", FIRST), ("second.c", SECOND), ("shapes.cc", CXX)):
        (folder / name).write_text(text)
        out = folder / f"{name}.{arch}{dwarf}.o"
        run(COMPILER, "-target", f"{arch}-apple-macos11.0", "-O1", "-stdlib=libc++", "-g", dwarf, "-c", folder / name,
            "-o", out)
        made.append(out)
    return made


PACKAGES = (
    ("fsevents@2.3.3", "fsevents.node", ("arm64", "x86_64")),
    ("@img/sharp-libvips-darwin-arm64@1.2.4", "*.dylib", ("arm64",)),
    ("@img/sharp-libvips-darwin-x64@1.2.4", "*.dylib", ("x86_64",)),
    ("@rollup/rollup-darwin-x64@4.50.0", "*.node", ("x86_64",)),
    ("lightningcss-darwin-arm64@1.30.1", "*.node", ("arm64",)),
    ("@swc/core-darwin-arm64@1.13.5", "*.node", ("arm64",)),
)


def published(folder):
    """(file, architecture) of real packages, as far as they can be had, and why not all can; kept between tests."""
    keep = pathlib.Path(os.environ.get("SONDE_BUILD", folder), "macho-packages")
    keep.mkdir(parents=True, exist_ok=True)
    found, why = [], None
    for package, pattern, archs in PACKAGES:
        home = keep / package.replace("/", "-")
        if not home.exists() and not why:
            why = fetch(package, keep, home)
        for file in sorted(home.rglob(pattern)) if home.exists() else []:
            found += [(file, arch) for arch in archs]
    if why:
        skip_part("published Mach-O packages", why)
    return found, why


def fetch(package, keep, home):
    npm = tool("npm")
    if not npm:
        return "npm is not installed"
    own = pathlib.Path(tempfile.mkdtemp(dir=keep))  # other tests fetch the same at the same time
    try:
        got = subprocess.run([npm, "pack", "--silent", "--fetch-retries=1", package], cwd=own, capture_output=True,
                             text=True, timeout=60, stdin=subprocess.DEVNULL)
        if got.returncode:
            return "the package registry is out of reach, or lacks " + package
        with tarfile.open(own / got.stdout.split()[-1]) as tar:
            tar.extractall(own / "new")
        if not home.exists():
            (own / "new").rename(home)
    except subprocess.TimeoutExpired:
        return "the package registry does not answer"
    except (OSError, EOFError, tarfile.TarError) as error:
        return None if home.exists() else f"{package} came damaged: {error}"
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return None
