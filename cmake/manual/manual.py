#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the man pages and the completions for bash, zsh and fish into the folder OUT, as they are installed below
share/. Pages of verbs and completions are made from `sonde help --json`, pages of library calls from the comments
of the public headers.

usage: manual.py OUT SONDE HEADERS"""
import json
import os
import pathlib
import subprocess
import sys
import time

from completions import write_completions
from headers import Header
from mdoc import Page

STATUS = {0: "success", 1: "a check failed: a gate, a difference, a finding", 2: "wrong use or failure"}


def date():
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%B %-d, %Y", time.gmtime(seconds))


def exit_status(page, first):
    page.section("EXIT STATUS")
    page.text(first)
    page.tags((str(number), text) for number, text in STATUS.items())


def option_head(option):
    """The words of an .It line: -o, --output FILE."""
    words = ["Fl", option["letter"], ",", "Fl", "-" + option["name"]] if "letter" in option else ["Fl", "-" + option["name"]]
    if option.get("value_optional"):
        words += ["Ns", "Op", "Ns", "=", "Ns", "Ar", option["value"]]
    elif "value" in option:
        words += ["Ar", option["value"]]
    return words


def parts_list(page, verb):
    """The words that select what the verb does, each with its options and examples."""
    letters = {option["name"]: option.get("letter") for option in verb["options"]}
    page.macro("Bl", "-tag", "-width", "Ds")
    for part in verb["parts"]:
        page.macro("It", "Cm", *part["form"].split())
        page.text(part["about"])
        if part["options"]:
            names = [f"-{letters[name]}, --{name}" if letters[name] else f"--{name}" for name in part["options"]]
            page.text(f"Options for it: {', '.join(names)}.")
        page.literal("\n".join(example["command"] for example in part["examples"]))
    page.macro("El")


def verb_page(verb, verbs):
    page = Page(f"sonde-{verb['name']}", 1, date(), verb["summary"])
    page.section("SYNOPSIS")
    page.macro("Nm", f"sonde {verb['name']}")
    page.macro("Op", "Ar", "options")
    if verb["arguments"]:
        page.macro("Ar", *verb["arguments"].split())
    page.section("DESCRIPTION")
    page.text(verb["about"])
    if verb.get("parts"):
        page.section(verb["parts_are"].upper())
        parts_list(page, verb)
    group = None
    for option in verb["options"]:
        if option["group"] != group:
            if group:
                page.macro("El")
            else:
                page.section("OPTIONS")
            group = option["group"]
            if group != "options":
                page.macro("Ss", group.capitalize())
            page.macro("Bl", "-tag", "-width", "Ds")
        page.macro("It", *option_head(option))
        page.text(option["help"])
    page.macro("El")
    if verb["name"] == "record":
        page.section("EXIT STATUS")
        page.text("The exit status is that of the command. It is 125 if recording fails, 126 if the command cannot "
                  "be run and 127 if it is not found.")
    else:
        exit_status(page, "The exit status is one of:")
    if verb["examples"]:
        page.section("EXAMPLES")
        for example in verb["examples"]:
            page.text(example["does"][0].upper() + example["does"][1:] + ":")
            page.literal(example["command"])
    page.see_also([("sonde", 1)] + [(f"sonde-{other['name']}", 1) for other in verbs
                                    if other["group"] == verb["group"] and other is not verb])
    return page


def main_page(verbs):
    page = Page("sonde", 1, date(), "record who calls what in running programs, and report it")
    page.section("SYNOPSIS")
    page.macro("Nm", "sonde")
    page.macro("Ar", "verb")
    page.macro("Op", "Ar", "options")
    page.macro("Op", "Ar", "arguments")
    page.section("DESCRIPTION")
    page.text("sonde records allocations, CPU time, stalls, calls and crashes of a program that needs no special "
              "build, and reports who caused them. Data goes to standard output, progress and messages go to "
              "standard error. Each verb has a page of its own.")
    group = None
    for verb in verbs:
        if verb["group"] != group:
            if group:
                page.macro("El")
            group = verb["group"]
            page.macro("Ss", group.capitalize())
            page.macro("Bl", "-tag", "-width", "symbolize")
        page.macro("It", "Cm", verb["name"])
        page.text(verb["summary"])
    page.macro("El")
    page.section("ENVIRONMENT")
    page.tags([("COLUMNS", "the width of the output if it is not a terminal"),
               ("NO_COLOR", "if set and not empty, no colors are printed"),
               ("PAGER, SONDE_PAGER", "the pager for long output on a terminal; empty or cat: none"),
               ("DEBUGINFOD_URLS", "the servers that debug files are fetched from, if sonde was built for it")])
    exit_status(page, "The exit status is one of these, but that of the command for sonde record:")
    page.section("EXAMPLES")
    for does, command in (("Record a command and read the recording:", "sonde record -o run.sonde -- ./program\n"
                           "sonde report run.sonde"), ("Show the stacks of a process:", "sonde stacks 1234")):
        page.text(does)
        page.literal(command)
    page.see_also([(f"sonde-{verb['name']}", 1) for verb in verbs] + [("libsonde", 3)])
    return page


def header_page(header):
    page = Page(header.page, 3, date(), header.summary, names=header.functions)
    page.section("SYNOPSIS")
    page.macro("In", f"sonde/{header.name}.h")
    for returns, name, parameters in header.prototypes:
        page.macro("Ft", returns)
        page.macro("Fn", name, *parameters)
    page.section("DESCRIPTION")
    page.text(header.about)
    page.text("Link with -lsonde, or with the flags of pkg-config --libs sonde.")
    for title, blocks in (("Functions", header.function_blocks), ("Types and constants", header.type_blocks)):
        if blocks:
            page.macro("Ss", title)
        for comment, names, code in blocks:
            if names:
                page.macro("Bl", "-tag", "-width", "Ds")
                for name in names[:-1]:
                    page.macro("It", "Fn", name)
                page.macro("It", "Fn", names[-1])
                page.text(comment)
                page.macro("El")
            else:
                page.text(comment)
                page.literal(code)
    return page


def write_pages(out, verbs, folder):
    man1, man3 = out / "man" / "man1", out / "man" / "man3"
    for section in (man1, man3):
        section.mkdir(parents=True, exist_ok=True)
    (man1 / "sonde.1").write_text(main_page(verbs).source(), encoding="ascii")
    for verb in verbs:
        (man1 / f"sonde-{verb['name']}.1").write_text(verb_page(verb, verbs).source(), encoding="ascii")
    headers = [Header(path) for path in sorted(folder.glob("*.h"))]
    pages = [header.page for header in headers]
    for header in headers:
        page = header_page(header)
        page.see_also([(name, 3) for name in sorted(pages) if name != header.page] + [("sonde", 1)])
        (man3 / f"{header.page}.3").write_text(page.source(), encoding="ascii")
        for name in header.functions:
            link = man3 / f"{name}.3"
            if name != header.page:
                link.unlink(missing_ok=True)
                link.symlink_to(f"{header.page}.3")


def main():
    if len(sys.argv) != 4:
        print(__doc__.rsplit("\n", 1)[-1], file=sys.stderr)
        return 2
    out, sonde, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    verbs = json.loads(subprocess.run([sonde, "help", "--json"], check=True, capture_output=True, text=True).stdout)["verbs"]
    write_pages(out, verbs, folder)
    write_completions(out, verbs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
