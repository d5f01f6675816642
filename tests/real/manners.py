#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a person sees on a terminal of 80 and of 200 columns: colors, the pager, the line of `sonde record`, the note
about a crash. Pipes, dumb terminals and NO_COLOR get plain text."""
import re

from helpers import compile_c, needs_agent, record, run_cases
from terminal import Terminal

needs_agent()

SPIN = "#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\nint main(int n, char **a) {" \
       " (void)a; if (n > 1) sleep(1000); while (clock() < CLOCKS_PER_SEC / 5) {} puts(\"done\"); }"


def the_line_of_record(folder):
    """It is below the command's output, only if standard output is elsewhere, and is gone at the end."""
    program = compile_c(SPIN)
    with Terminal(folder=folder) as terminal:
        terminal.type(f"sonde record -o a.sonde {program} wait >out\n")
        terminal.wait_for(r"recording: \d+ s, \d+\.\d MB")
        terminal.key("C-c")
        screen = terminal.wait_for("sonde report a.sonde")
        assert "recording: " not in screen, screen
        terminal.type(f"clear; sonde record -o b.sonde {program}\n")
        screen = terminal.wait_for("sonde report b.sonde")
        assert re.search("^done$", screen, re.M) and "recording: " not in screen, screen


def a_crash_is_the_programs(folder):
    program = compile_c("int main(void) { *(volatile int *)0 = 1; }")
    path, done = record([program], path=folder / "c.sonde", text=True)
    assert done.returncode == -11 and "the command crashed: signal 11 (Segmentation fault)" in done.stderr, done
    assert f"'sonde report {path} crash' shows where" in done.stderr, done
    _, done = record(["sh", "-c", "kill -TERM $$"], text=True)
    assert "crashed" not in done.stderr, done


def _long(folder):
    """A recording in FOLDER whose section is longer than 24 lines."""
    program = compile_c(SPIN, "-g")
    record([program], "--malloc", "--sample", path=folder / "long.sonde")


def long_output_goes_to_the_pager(folder):
    _long(folder)
    for columns in (80, 200):
        with Terminal(columns=columns, folder=folder, PAGER="sed 's/^/paged /'") as terminal:
            terminal.type("sonde report long.sonde sample; echo status $?\n")
            lines = terminal.wait_for("status 0").splitlines()
            printed = [line for line in lines if line.startswith("paged ")]
            assert printed and max(map(len, lines)) <= columns, lines
            terminal.type("clear; SONDE_PAGER= sonde report long.sonde sample; echo second $?\n")
            assert "paged" not in terminal.wait_for("second 0")
            terminal.type("clear; sonde report --no-pager long.sonde sample; echo third $?\n")
            assert "paged" not in terminal.wait_for("third 0")


def colors_only_where_they_are_read(folder):
    """A pager on a terminal gets colors; NO_COLOR, TERM=dumb and pipes get none."""
    _long(folder)
    with Terminal(lines=100, folder=folder, PAGER="cat -v") as terminal:
        for number, (before, after, colored) in enumerate((("", "", True), ("NO_COLOR=1", "", False),
                                                           ("TERM=dumb", "", False), ("", "| cat -v", False))):
            # Each end has words of its own: the screen may still have those of the command before.
            after = f"{after} | head -3" if after else ""
            terminal.type(f"clear; {before} sonde report long.sonde sample {after}; echo status{number} $?\n")
            screen = terminal.wait_for(f"status{number} 0")
            assert ("^[[1m" in screen) == colored, (before, after, screen)


run_cases(globals())
