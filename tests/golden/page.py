#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of a page of the documentation as written, and compares what they print.

A fenced block whose first line begins with "$ " is a session: a line "$ COMMAND" with what belongs to it
(a here-document, an open quote, a line that ends with a backslash), then its output, stdout and stderr
together. All sessions of a page run in one bash, in a copy of the source's folder: examples/ and include/
are there, and build/, where the page begins, has bin/ and lib/.

  …                                 alone: any lines; within a line: any text
  # status N                        in a command: its exit status; without it, 0
  <!-- not run: REASON -->          before a block: its commands are not run
  <!-- file: NAME -->               before a block: the block is written to this file
  <!-- any order -->                before a block: between two "…" its lines may come in any order
  <!-- in: FOLDER -->               anywhere: the page begins in this folder
  <!-- needs: PROGRAM… -->          anywhere: without these programs the page is skipped
  <!-- unless: COMMAND -->          anywhere: if this command fails the page is skipped

Compared are words. Numbers, sizes, times, addresses, bars and the width of the gaps are masked, as in
golden.py; the line of a source file is not. --update writes what was printed into the page. Where the page
agrees, its "…" stay. --list prints the blocks with commands that are not run; there may be none without a reason,
no link to a missing file, and no page that docs/README.md does not list.

usage: page.py [--update] PAGE BUILD-DIR
       page.py --list COUNT PAGE…"""
import difflib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import golden

PAGE_SECONDS = 240  # for what hangs
HOME = "/home/me/sonde"  # what a page calls the source's folder
SHELLS = ("sh", "bash", "console")
COMMENT = re.compile(r"^ *<!-- (not run|file|in|needs|unless|any order):? ?(.*?) -->$")
END_OF_COMMAND = re.compile(r"\036(\d+) (\d+)\n")


class Block:
    """A fenced block: its place in the page's lines, without the fences, and the comment before it."""

    def __init__(self, start, end, language, note, lines):
        self.start, self.end, self.language, self.note, self.lines = start, end, language, note, lines
        self.is_session = bool(lines) and lines[0].startswith("$ ")
        self.has_commands = self.is_session or language in SHELLS
        self.runs = self.is_session and note[0] != "not run"


class Command:
    """What is typed, as lines of the page, and what it prints."""

    def __init__(self, typed, any_order=False):
        self.typed, self.expected, self.actual, self.status = typed, [], [], None
        self.any_order = any_order

    def text(self):
        return "\n".join([self.typed[0][2:], *self.typed[1:]])

    def wanted_status(self):
        found = re.search(r"# status (\d+)$", self.text())
        return int(found[1]) if found else 0


def blocks_of(lines):
    blocks, start, language, note, last = [], None, "", ("", ""), ("", "")
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            if start is None and line:
                comment = COMMENT.match(line)
                last = comment.groups() if comment else ("", "")
        elif start is None:
            start, language, note = number + 1, line[3:].strip(), last
        else:
            blocks.append(Block(start, number, language, note, lines[start:number]))
            start, last = None, ("", "")
    return blocks


def settings_of(lines):
    found = {"in": "build", "needs": "", "unless": "true"}
    for line in lines:
        comment = COMMENT.match(line)
        if comment and comment[1] in found:
            found[comment[1]] = comment[2]
    return found


def is_open(typed):
    """Whether the shell wants another line."""
    document = re.search(r"<<-?'?(\w+)'?", typed[0])
    if document:
        return typed[-1] != document[1]
    if typed[-1].endswith("\\"):
        return True
    text = "\n".join(typed)[2:]
    return "'" in text + '"' and subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode != 0


def commands_of(block):
    commands = []
    for line in block.lines:
        if commands and not commands[-1].expected and is_open(commands[-1].typed):
            commands[-1].typed.append(line)
        elif line.startswith("$ "):
            commands.append(Command([line], block.note[0] == "any order"))
        else:
            commands[-1].expected.append(line)
    return commands


# ---- comparing -------------------------------------------------------------------------------

def masked(text):
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(\.(?:c|cc|cpp|h|hpp|py|yaml)|\b(?:status|signal) ?|SIG[A-Z]+ ?)(:?)(\d+)",
                  lambda m: m[1] + m[2] + "".join(chr(0xE000 + int(digit)) for digit in m[3]), text)
    text = re.sub(r"\.\d+\.sonde\b", ".PID.sonde", re.sub(r"\bcore\.\d+\b", "core.PID", text))
    text = re.sub(r"\b\d+:\d\d:\d\d\b", "TIME", golden.masked(text))
    text = re.sub(r"\+0x[0-9a-f]+\b", "+0xOFFSET", text)
    text = re.sub(r"(?<![\w.])[-+±]? ?\d+(\.\d+)? (B|KB|MB|GB)(?!\w)", " SIZE", text)
    text = re.sub(r"(?<![\w.])\d+(\.\d+)?(?!\w)", "N", text)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\bsince TIME|\bfrom the start\b", "SINCE", text)
    text = re.sub(r"[·▁▂▃▄▅▆▇█░▒▓]+", " ", text)
    return re.sub(r"\s+", " ", text).strip()


@functools.lru_cache(None)
def pattern(expected):
    return re.compile(r".*?".join(re.escape(part) for part in masked(expected).split("…")))


def pieces_of(lines):
    """The runs of LINES between the lines "…", which are None."""
    pieces = []
    for line in lines:
        if line.strip() == "…":
            pieces.append(None)
        elif line.strip():
            if not pieces or pieces[-1] is None:
                pieces.append([])
            pieces[-1].append(line)
    return pieces


def agrees(piece, lines, any_order):
    if pattern("\n".join(piece)).fullmatch(masked("\n".join(lines))):
        return True
    left = list(lines) if any_order else []
    for expected in piece:
        same = [line for line in left if pattern(expected).fullmatch(masked(line))]
        if not same:
            return False
        left.remove(same[0])
    return not left


def matched(command):
    """What was printed, as lines for each piece of what was expected, or None. A piece may be wrapped into a few
    lines more or less."""
    pieces, actual = pieces_of(command.expected), [line for line in command.actual if line.strip()]

    @functools.lru_cache(None)
    def rest(piece, line):
        if piece == len(pieces):
            return () if line == len(actual) else None
        if pieces[piece] is None:
            for skipped in range(line, len(actual) + 1):
                after = rest(piece + 1, skipped)
                if after is not None:
                    return ((line, skipped), *after)
            return None
        length = len(pieces[piece])
        for end in sorted(range(line + 1, min(line + length + 4, len(actual) + 1)), key=lambda e: abs(e - line - length)):
            if agrees(pieces[piece], actual[line:end], command.any_order):
                after = rest(piece + 1, end)
                if after is not None:
                    return ((line, end), *after)
        return None
    found = rest(0, 0)
    return None if found is None else [actual[start:end] for start, end in found]


def rewritten(command):
    """The page's lines with the newest output. What the page leaves out stays out."""
    expected, actual, found = command.expected, [line.rstrip() for line in command.actual], matched(command)
    if found is None:
        return actual
    lines, piece = [], iter(zip(pieces_of(expected), found))
    current, queue = None, []
    for line in expected:
        if line.strip() == "…":
            next(piece)
            lines.append("…")
            current = None
        elif not line.strip():
            lines.append("")
        else:
            if current is None:
                current, queue = next(piece)
                if not agrees(current, queue, False):
                    queue = current  # in another order: as it was
                queue = list(queue) if len(queue) == len(current) else []
                if not queue and not any("…" in text for text in current):
                    return actual if None not in pieces_of(expected) else expected  # wrapped otherwise
            newest = queue.pop(0).rstrip() if queue else line
            lines.append(line if "…" in line else newest)
    return lines


# ---- running ---------------------------------------------------------------------------------

class Run:
    """One page in its copy of the source's folder."""

    def __init__(self, build, settings):
        self.build = build.resolve()
        self.source = pathlib.Path(__file__).resolve().parents[2]
        self.scratch = tempfile.TemporaryDirectory(prefix="sonde-page-")
        self.root = pathlib.Path(self.scratch.name) / "sonde"
        (self.root / "build").mkdir(parents=True)
        for name in "bin", "lib":
            (self.root / "build" / name).symlink_to(self.build / name)
        for name in "examples", "include", "glue":
            shutil.copytree(self.source / name, self.root / name)
        self.folder = self.root / settings["in"]
        for name in "pgrep", "pkill":  # see the page's own processes alone, whoever else runs the same page
            shim = self.root / ".shims" / name
            shim.parent.mkdir(exist_ok=True)
            shim.write_text(f'#!/bin/sh\nexec {shutil.which(name) or name} -s 0 "$@"\n')
            shim.chmod(0o755)
        (self.root / "sonde.pc").write_text(
            f"Name: sonde\nDescription: of this build\nVersion: 0\nCflags: -I{self.root}/include\n"
            f"Libs: -L{self.root}/build/lib -lsonde -Wl,-rpath,{self.build}/lib\n")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.scratch.cleanup()

    def environment(self):
        return {"PATH": f"{self.root / '.shims'}:{self.build / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}", "HOME": self.scratch.name,
                "LC_ALL": "C.UTF-8", "TERM": "dumb", "COLUMNS": "100", "PKG_CONFIG_PATH": str(self.root),
                "XDG_CACHE_HOME": str(self.root / ".cache")}

    def run(self, commands):
        """Runs all in one shell. False: it hung or ended early."""
        script = ["exec </dev/null 2>&1\n"]
        for number, command in enumerate(commands):
            script.append(f"{command.text()}\nprintf '\\036%d %d\\n' {number} $?\n")
        path = self.root / "page.sh"
        path.write_text("".join(script))
        with open(self.root / "output", "w+b") as output:
            process = subprocess.Popen(["bash", str(path)], cwd=self.folder, env=self.environment(),
                                       stdout=output, stderr=output, start_new_session=True)
            try:
                process.wait(PAGE_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"not finished after {PAGE_SECONDS} s")
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            output.seek(0)
            self.take(commands, output.read().decode(errors="replace"))

    def take(self, commands, text):
        text = text.replace(str(self.root), HOME)
        text = re.sub(r"^\S*page\.sh: line \d+: +\d+ (Terminated|Killed|Hangup) .*\n", "", text, flags=re.M)
        text = re.sub(r"^\S*page\.sh: line \d+: +\d+ (Segmentation fault|Aborted) .*\n", r"\1\n", text, flags=re.M)
        start = 0
        for end in END_OF_COMMAND.finditer(text):
            command = commands[int(end[1])]
            command.status, command.actual = int(end[2]), text[start:end.start()].rstrip().splitlines()
            start = end.end()


def complaint(command):
    """What is not as the page says, or None."""
    if command.status is None:
        return "was not reached"
    if command.status != command.wanted_status():
        return f"exit status {command.status}, expected is {command.wanted_status()}"
    if matched(command) is None:
        return "prints something else"
    return None


def write_files(blocks, folder):
    for block in blocks:
        if block.note[0] == "file":
            (folder / block.note[1]).write_text("\n".join(block.lines) + "\n")


def updated(lines, blocks, commands_by_block):
    for block in reversed(blocks):
        if not block.runs:
            continue
        new = []
        for command in commands_by_block[block]:
            new += command.typed + (command.expected if command.status is None else rewritten(command))
        lines[block.start:block.end] = new
    return lines


def run_page(path, build, update):
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks, settings = blocks_of(lines), settings_of(lines)
    missing = [name for name in settings["needs"].split() if not shutil.which(name)]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed")
        return golden.SKIP
    path_there = {**os.environ, "PATH": f"{build.resolve() / 'bin'}:{os.environ['PATH']}"}
    if subprocess.run(["sh", "-c", settings["unless"]], env=path_there, stdin=subprocess.DEVNULL, capture_output=True,
                      check=False).returncode:
        print(f"skipped: '{settings['unless']}' fails here")
        return golden.SKIP
    by_block = {block: commands_of(block) for block in blocks if block.runs}
    commands = [command for group in by_block.values() for command in group]
    if not commands:
        print(f"{path.name}: none of its commands are run")
        return 0
    with Run(build, settings) as run:
        write_files(blocks, run.folder)
        run.run(commands)
    failed = [command for command in commands if complaint(command)]
    for command in failed:
        print(f"{path.name}: {command.typed[0]}\n  {complaint(command)}")
        print("\n".join(difflib.unified_diff(command.expected, command.actual, "the page", "this run", lineterm="")))
    if update:
        path.write_text("\n".join(updated(lines, blocks, by_block)) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(commands)} commands, {len(failed)} not as written")
    return 1 if failed else 0


def lost_links(paths):
    """Links to files that do not exist, and pages of docs/ that its index has no link to."""
    lost, index = [], ""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        index += text if path.parent.name == "docs" and path.name == "README.md" else ""
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (path.parent / target).exists():
                lost.append(f"{path.name}: a link to {target}, which does not exist")
    lost += [f"docs/README.md: no link to {path.name}" for path in paths
             if path.parent.name == "docs" and path.name != "README.md" and f"]({path.name})" not in index]
    return lost


def list_blocks(count, paths):
    """Every block with commands that is not run has a reason, and there are as many as expected."""
    skipped, bare, lost = [], [], lost_links(paths)
    print(*lost, sep="\n", end="\n" if lost else "")
    for path in paths:
        for block in blocks_of(path.read_text(encoding="utf-8").splitlines()):
            if block.has_commands and not block.runs:
                (skipped if block.note[0] == "not run" else bare).append(
                    f"{path.name}:{block.start}: {block.lines[0]}  ({block.note[1] or 'no reason'})")
    print(f"{len(skipped)} blocks are not run:", *skipped, sep="\n  ")
    if bare:
        print(f"{len(bare)} blocks have neither an output nor a reason:", *bare, sep="\n  ")
    if len(skipped) != count:
        print(f"expected are {count}: change the number in tests/CMakeLists.txt if that is meant")
    return 1 if bare or lost or len(skipped) != count else 0


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--list"] and len(arguments) > 2:
        return list_blocks(int(arguments[1]), [pathlib.Path(path) for path in arguments[2:]])
    paths = [argument for argument in arguments if argument != "--update"]
    if len(paths) != 2:
        print(__doc__.rsplit("usage: ", 1)[-1], file=sys.stderr)
        return 2
    return run_page(pathlib.Path(paths[0]), pathlib.Path(paths[1]), "--update" in arguments)


if __name__ == "__main__":
    sys.exit(main())
