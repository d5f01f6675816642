#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Help, man pages and completions: made of the tables of the verbs, complete, and accepted by the programs that
read them: mandoc, man, bash, zsh, fish."""
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time

from helpers import SONDE, SOURCE, WORK, needs, output_of, run_cases, sonde, try_sonde

VERBS = json.loads(sonde("help", "--json"))["verbs"]
SHARE = pathlib.Path(WORK, "share")
subprocess.run([sys.executable, os.path.join(SOURCE, "cmake", "manual", "manual.py"), SHARE, SONDE,
                os.path.join(SOURCE, "include", "sonde")], check=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
PAGES = sorted(SHARE.glob("man/man?/*"))


def help_fits_the_terminal():
    for verb in VERBS:
        text = sonde("help", verb["name"])
        assert max(map(len, text.splitlines())) <= 80, (verb["name"], [line for line in text.splitlines() if len(line) > 80])
        for option in verb["options"]:
            assert f"--{option['name']}" in text, (verb["name"], option)


def no_line_of_the_help_is_torn():
    """A line has one word only where the next line begins a list's row, or its first word does not fit."""
    def indent(line):
        return len(line) - len(line.lstrip())
    for verb in VERBS:
        lines = sonde("help", verb["name"]).splitlines()
        torn = [line for line, after in zip(lines, lines[1:])
                if indent(line) >= 20 and indent(line) == indent(after) and len(line.split()) == 1 and not line.endswith(".")
                and not after.split()[0].endswith(":") and len(line) + 1 + len(after.split()[0]) < 79]
        assert not torn, (verb["name"], torn)


def _parts():
    return [(verb, part) for verb in VERBS for part in verb.get("parts", [])]


def parts_have_their_own_help():
    """'sonde help audit check' and 'sonde audit check --help' print the same: usage, text, options, examples."""
    assert {verb["name"] for verb, _ in _parts()} >= {"audit", "cache", "ctl", "query", "report", "store"}
    for verb, part in _parts():
        text = sonde("help", verb["name"], part["name"])
        flat = " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 80, (verb["name"], part["name"])
        before = [verb["before_part"]] if "before_part" in verb else []
        assert flat.startswith("usage: sonde " + verb["name"]) and " ".join([*before, part["form"]]) in flat, text
        assert " ".join(part["about"].split()) in flat and part["examples"], text
        assert all(f"--{name} " in text for name in part["options"]), text
        assert all(example["command"] in text for example in part["examples"]), text
        assert sonde(verb["name"], part["name"], "--help") == text
        assert f"  {part['form']} " in sonde("help", verb["name"])
    assert "did you mean 'check'?" in try_sonde("help", "audit", "chekc").stderr
    for words in ("audit", "nothing"), ("stacks", "nothing"), ("audit", "check", "more"):
        assert try_sonde("help", *words).returncode == 2


def every_word_of_a_verb_has_help():
    """The sections of a report, the questions of a store and the commands of ctl are known to the help."""
    for verb in VERBS:
        if verb.get("words"):
            assert {word.split("=")[0] for word in verb["words"]} == {part["name"] for part in verb["parts"]}, verb["name"]


def examples_use_options_that_exist():
    """'sonde ctl PID record' takes the options of 'sonde record'."""
    options = {verb["name"]: {option["name"] for option in verb["options"]} for verb in VERBS}
    for verb in VERBS:
        for example in verb["examples"] + [e for part in verb.get("parts", []) for e in part["examples"]]:
            words = example["command"].split(" -- ")[0].split()
            if words[:2] == ["sonde", verb["name"]]:
                names = options["record" if words[3:4] == ["record"] else verb["name"]]
                used = {re.match(r"--([\w-]+)", word)[1] for word in words if re.match(r"--\w", word)}
                assert used <= names, (example, used - names)


def every_listed_value_is_accepted():
    """A wrong value is refused before a missing file is; a listed one is not refused."""
    for verb in VERBS:
        for option in verb["options"]:
            for value in option.get("values", []):
                done = try_sonde(verb["name"], f"--{option['name']}={value}", "/does/not/exist")
                assert "takes" not in done.stderr or "takes two" in done.stderr, (verb["name"], option, done.stderr)


def man_pages_are_clean():
    needs("mandoc")
    names = {page.stem for page in PAGES}
    assert {"sonde"} | {f"sonde-{verb['name']}" for verb in VERBS} <= names
    for page in PAGES:
        if page.is_symlink():
            continue
        said = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True, check=False).stdout
        for line in said.splitlines():
            missing = re.search(r"referenced manual not found: Xr (\S+) ", line)
            assert missing and missing[1] in names, line  # the pages are not where mandoc looks


def man_pages_have_every_option_and_function():
    needs("mandoc")
    for verb in VERBS:
        text = output_of("mandoc", "-T", "ascii", "-O", "width=78", SHARE / "man" / "man1" / f"sonde-{verb['name']}.1")
        text = re.sub(r".\x08", "", text)
        for option in verb["options"]:
            assert f"--{option['name']}" in text, (verb["name"], option)
        for part in verb.get("parts", []):
            assert part["examples"][0]["command"] in text, (verb["name"], part)
    declared = set()
    for header in pathlib.Path(SOURCE, "include", "sonde").glob("*.h"):
        declared |= {line.split("(")[0].split()[-1].lstrip("*") for line in header.read_text(encoding="utf-8").splitlines()
                     if line.startswith("SONDE_API")}
    documented = {page.stem for page in PAGES if page.suffix == ".3"}
    assert len(declared) > 30 and declared <= documented, declared - documented


# ---- completions: what is offered after the words -------------------------------------------------

CASES = [("sonde rec", "record"), ("sonde report --by te", "temporary"), ("sonde report --by=te", "temporary"),
         ("sonde record --malloc=livev", "livevm"), ("sonde export --as chr", "chrome-trace"),
         ("sonde report run.sonde stal", "stalls"), ("sonde audit bas", "baseline"), ("sonde report --full", "--full-names"),
         ("sonde report run.so", "run.sonde"), ("sonde help sta", "stacks"), ("sonde cache lim", "limit"),
         ("sonde help audit comp", "compile"), ("sonde help ctl snap", "snapshot"), ("sonde help report stal", "stalls"),
         ("sonde record -- bas", "bash"), ("sonde record -o run.so", "run.sonde")]


def _folder_with_a_recording(folder):
    (folder / "run.sonde").touch()
    return folder


def bash_completes(folder):
    needs("bash")
    script = """source "$1"; COMP_LINE=$2
IFS=$' \\n'; line=${2//=/ = }; COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sonde; printf '%s\\n' "${COMPREPLY[@]}" """
    for typed, wanted in CASES:
        offered = output_of("bash", "--norc", "-c", script, "bash", SHARE / "bash-completion/completions/sonde", typed,
                            cwd=_folder_with_a_recording(folder)).split()
        assert wanted in offered, (typed, wanted, offered)


def fish_completes(folder):
    needs("fish")
    env = dict(os.environ, HOME=str(folder), XDG_CONFIG_HOME=str(folder), PATH=os.path.dirname(SONDE) + ":" + os.environ["PATH"])
    for typed, wanted in CASES:
        script = f"source {SHARE}/fish/vendor_completions.d/sonde.fish; complete -C '{typed}'"
        offered = [line.split("\t")[0] for line in output_of(
            "fish", "--no-config", "-c", script, cwd=_folder_with_a_recording(folder), env=env).splitlines()]
        assert any(word.split("=")[-1] == wanted for word in offered), (typed, wanted, offered)


def type_and_read(terminal, text, wanted):
    """Types TEXT and reads until WANTED is on the screen."""
    os.write(terminal, text.encode())
    seen, deadline = "", time.monotonic() + 60
    while wanted not in seen:
        assert time.monotonic() < deadline, (text, wanted, seen)
        if select.select([terminal], [], [], 0.1)[0]:
            seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x07|\r", "", os.read(terminal, 4096).decode(errors="replace"))
    return seen


def zsh_completes(folder):
    needs("zsh")
    _folder_with_a_recording(folder)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-f", "-i"], dict(os.environ, TERM="dumb", HOME=str(folder), PS1="ready> ", COLUMNS="200"))
    try:
        # What completion made of the line is printed by a widget. The prompt is printed when the shell reads again.
        for line in (f"fpath=({SHARE}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -d {folder}/dump",
                     "show() { zle -I; print \"line<$BUFFER>\"; BUFFER=; }; zle -N show; bindkey '^X' show; unsetopt beep",
                     "print begin$((1+1))"):
            type_and_read(terminal, line + "\n", "begin2" if "begin" in line else "ready> ")
        for typed, wanted in CASES:
            if typed.endswith("bas"):
                continue  # several commands begin so
            seen = type_and_read(terminal, typed + "\t\x18", "line<")
            if ">" not in seen.split("line<")[-1]:
                seen += type_and_read(terminal, "", ">")
            line = re.search(r"line<(.*?)>", seen, re.S)
            assert line and re.search(re.escape(wanted) + r"\s*$", line[1]), (typed, wanted, seen)
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


run_cases(globals())
