#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""CPython's own tests, of Debian's python3: once as they are, and once recorded with `--malloc=all --stall --sample --wall
--audit`, with all children. Each test must have the same result. Modules with tests that differ are run again, recorded and
not, since some tests depend on time, and the tests that always differ are named.

Modules that need the network are left out.

usage: python_tests.py [MODULE…]   for example test_threading; default: MODULES"""
import collections
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from helpers import BUILD, SONDE, report  # noqa: E402  (the path is set above)

PYTHON = "/usr/bin/python3"
# Threads, signals, children, descriptors, memory; what inspects the interpreter; what parses and computes; extensions in C.
MODULES = (
    "test_threading test_thread test_threadsignals test_threading_local test_queue test_signal "
    "test_faulthandler test_fork1 test_wait3 test_wait4 test_subprocess test_posix test_os test_select test_selectors "
    "test_poll test_epoll test_eintr test_asyncore test_pty test_mmap test_fcntl test_resource test_io "
    "test_fileio test_tempfile test_shutil test_pathlib test_gc test_weakref test_tracemalloc test_sys test_sysconfig "
    "test_sys_settrace test_sys_setprofile test_inspect test_traceback test_exceptions test_frame test_code test_dis "
    "test_generators test_generator_stop test_coroutines test_asyncgen test_contextlib test_contextlib_async test_asyncio "
    "test_capi test_ctypes test_sqlite3 test_json test_re test_struct test_pickle test_marshal test_copy test_decimal "
    "test_fractions test_hashlib test_hmac test_zlib test_bz2 test_lzma test_zipfile test_tarfile test_csv test_xml_etree "
    "test_pyexpat test_ssl test_unicode test_bytes test_str test_list test_dict test_set test_deque test_heapq "
    "test_itertools test_functools test_operator test_collections test_typing test_dataclasses test_enum test_ast "
    "test_compile test_import test_importlib test_runpy test_site test_cmd_line test_cmd_line_script test_atexit "
    "test_logging test_datetime test_random test_array test_memoryview test_buffer test_profile test_cprofile test_trace "
    "test_recursion test_stack_overflow test_call test_super test_descr test_ordered_dict").split()
SENSORS = ["--malloc=all", "--stall", "--sample", "--wall", "--audit"]
AGAIN, READ_MAX, MODULE_SECONDS = 3, 100, 600


def results(folder, modules, within=()):
    """{(module, test): result} of all tests, each module in a process of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = {}
    for module in modules:
        told = folder / f"{module}.xml"
        words = [*within, PYTHON, "-m", "test", "--junit-xml", told, "--tempdir", folder, module]
        try:
            done = subprocess.run([str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  encoding="utf-8", errors="replace", check=False, timeout=MODULE_SECONDS)
        except subprocess.TimeoutExpired:
            found[module, "the module"] = f"not done in {MODULE_SECONDS} s"
            continue
        if not told.exists():
            found[module, "the module"] = f"status {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
            continue
        cases = collections.Counter()
        for case in xml.etree.ElementTree.parse(told).iter("testcase"):
            name = case.get("name")
            cases[name] += 1
            found[module, f"{name} {cases[name]}"] = next((child.tag for child in case), "passed")
    return found


def recorded(folder, modules):
    """The same, recorded. Each process has a recording, of which the newest part is kept."""
    kept = folder.with_name("python-recordings")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    found = results(folder, modules, [SONDE, "record", "--follow", *SENSORS, "--limit", "20M", "-o", kept / "out.sonde", "--"])
    paths = sorted(kept.glob("*.sonde"))
    chosen = paths[::max(1, len(paths) // READ_MAX)]
    blocks = sum(report(path, "malloc")["malloc"]["allocated"]["blocks"] for path in chosen)
    return found, f"{len(paths)} recordings; {len(chosen)} read, with {blocks} allocations in their newest parts"


def main():
    plain, watched = (pathlib.Path(BUILD, "soak", name) for name in ("python-plain", "python-recorded"))
    modules = sys.argv[1:] or MODULES
    one = results(plain, modules)
    print(f"as it is: {collections.Counter(one.values())}", flush=True)
    other, said = recorded(watched, modules)
    print(f"recorded: {collections.Counter(other.values())}; {said}", flush=True)
    differing = sorted(test for test in {*one, *other} if one.get(test) != other.get(test))
    for test in differing:
        print(f"{' '.join(test)}: {one.get(test)}, and {other.get(test)} recorded", flush=True)
    last = 0
    for module in sorted({module for module, _ in differing}):
        runs = [(results(plain, [module]), recorded(watched, [module])[0]) for _ in range(AGAIN)]
        for test in (test for test in differing if test[0] == module):
            always = all(a.get(test) != b.get(test) for a, b in runs)
            last += always
            print(f"{' '.join(test)} again, {AGAIN} times: {'always differs' if always else 'does not always differ'}", flush=True)
    print(f"{len(one)} tests, {last} differences that last")
    return last > 0


sys.exit(main())
