#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs the build in an empty folder, and moves that folder. Then the command runs from it, and programs are built
against it by CMake, pkg-config and Meson, as docs/packages.md shows."""
import os
import pathlib
import re
import subprocess

from helpers import BUILD, SOURCE, WORK, check, fresh, needs, needs_plain_build, output_of, run_cases

needs_plain_build()
CONSUMER = pathlib.Path(SOURCE, "tests/package/consumer")
PREFIX = pathlib.Path(WORK, "moved")


def _install():
    """The build's files, as a packager or a user installs them; moved, since no path may be fixed at build time."""
    first = pathlib.Path(WORK, "first")
    output_of("cmake", "--install", BUILD, "--prefix", str(first))
    first.rename(PREFIX)


def _environment():
    pkgconfig = next(PREFIX.rglob("sonde.pc")).parent
    return {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig), "LD_LIBRARY_PATH": str(pkgconfig.parent),
            "CMAKE_PREFIX_PATH": str(PREFIX), "SONDE": str(PREFIX / "bin/sonde")}


def built(folder, *commands):
    """Runs COMMANDS, which build `where` in FOLDER, and the programs that they leave there."""
    for command in commands:
        output_of(*command, cwd=folder, env=_environment())
    programs = [path for path in sorted(folder.rglob("where*")) if path.is_file() and os.access(path, os.X_OK)]
    check(programs, f"no program in {folder}")
    for program in programs:
        shown = output_of(str(program), env=_environment())
        check(re.search(r"#0 +0x\w+ +main\+", shown), f"{program} printed {shown!r}")
    return len(programs)


def files():
    """What belongs together is there, and nothing of the tests."""
    there = {str(path.relative_to(PREFIX)) for path in PREFIX.rglob("*") if not path.is_dir()}
    headers = {f"include/sonde/{path.name}" for path in pathlib.Path(SOURCE, "include/sonde").iterdir()}
    missing = [name for name in headers | {"bin/sonde", "share/doc/sonde/docs/packages.md", "share/doc/sonde/README.md",
                                           "share/doc/sonde/CONTRIBUTING.md", "share/doc/sonde/docs/README.md",
                                           "share/doc/sonde/docs/slow.md", "share/doc/sonde/examples/questions/slow.cpp",
                                           "share/doc/sonde/examples/malloc_log.c"} if name not in there]
    check(not missing, f"missing: {missing}")
    libraries = {pathlib.Path(name).name for name in there if re.match(r"lib\w*/", name)}
    wanted = {"libsonde.so", "libsonde.so.0", "libsonde.a", "libsonde-agent.so", "libsonde-attached.so", "libsonde-dormant.so",
              "libsonde-verbs.so", "libsonde-policy.so", "sonde.pc", "sonde-config.cmake"}
    check(wanted <= libraries, f"missing: {wanted - libraries}")
    check(not [name for name in there if "cmocka" in name or "_test" in name], "tests are installed")


def command():
    """The command finds its agent where that is installed, and records."""
    recording = fresh()
    output_of(str(PREFIX / "bin/sonde"), "record", "--malloc", "-o", recording, "--", "/bin/true")
    maps = output_of(str(PREFIX / "bin/sonde"), "report", recording, "malloc")
    check("allocated" in maps, maps)


def find_package(folder):
    return built(folder, ["cmake", "-G", "Ninja", "-S", str(CONSUMER), "-B", "."], ["cmake", "--build", "."], ["ctest"])


def find_package_refuses_other_versions(folder):
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(other LANGUAGES NONE)\n"
                                           "find_package(sonde 0.2 REQUIRED)\n")
    result = subprocess.run(["cmake", "-S", ".", "-B", "build"], cwd=folder, env=_environment(), capture_output=True, text=True)
    check(result.returncode and '"0.2"' in result.stderr, result.stderr)


def pkg_config(folder):
    needs("pkg-config")
    flags = output_of("pkg-config", "--cflags", "--libs", "sonde", env=_environment()).split()
    return built(folder, ["cc", "-o", "where", str(CONSUMER / "where.c"), *flags])


def meson(folder):
    needs("meson")
    return built(folder, ["meson", "setup", str(folder), str(CONSUMER)], ["meson", "compile"])


_install()
run_cases(globals())
