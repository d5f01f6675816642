#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command that is built where node is missing: it says that it has no page, and does everything else."""
import os
import pathlib
import subprocess

from helpers import BUILD, SOURCE, check, compile_c, fresh, needs, needs_agent, output_of, record, run_cases, sonde

needs_agent()

COMMAND = os.path.join(BUILD, "tests", "sonde-without-page")


def without_page(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def refuses(run, page):
    check(run.returncode == 2 and not run.stdout, run)
    check(run.stderr.count("\n") == 1 and "built without the page" in run.stderr, run)
    check(not os.path.exists(page), "a page is written")


def commands():
    """`view` and `query --html` are refused in one line, which says what helps. Reports and files for viewers are not."""
    program, path, page = compile_c("int main() { return 0; }"), fresh(), fresh(".html")
    record([program], "--malloc=all", path=path)
    run = without_page("view", path, "-o", page)
    refuses(run, page)
    check("./run setup" in run.stderr and "'sonde report'" in run.stderr, run)
    refuses(without_page("query", "--to", "sqlite:" + fresh(".sqlite"), "builds", "--html", page), page)
    for words in ("report", path), ("export", "--as", "firefox", path, "-o", fresh(".json")):
        run = without_page(*words)
        check(run.returncode == 0 and not run.stderr, run)
    check(without_page("report", path).stdout == sonde("report", path), "the report differs")


def configured():
    """Without node the header of the page is made nevertheless, and the configuration says what is missing."""
    needs("cmake")
    folder = pathlib.Path(fresh(".project"))
    (folder / "page").mkdir(parents=True)
    (folder / "page" / "src").symlink_to(os.path.join(SOURCE, "page", "src"))
    (folder / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.20)
        project(page NONE)
        include("{SOURCE}/cmake/page.cmake")
        sonde_page("${{CMAKE_CURRENT_BINARY_DIR}}" header)
        add_custom_target(header ALL DEPENDS "${{header}}")
""")
    build = folder / "build"
    # A search in no folder finds no node.
    told = output_of("cmake", "-S", folder, "-B", build, "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF",
                     "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-DCMAKE_MAKE_PROGRAM=" + maker(), "-G", "Ninja")
    check("built without the page" in told, told)
    output_of("cmake", "--build", build)
    header = (build / "report" / "exports" / "page" / "built.h").read_text()
    check("page_template_bytes[] = {0};" in header, header[:200])


def maker():
    needs("ninja")
    return output_of("sh", "-c", "command -v ninja").strip()


run_cases([commands, configured])
