#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/golden/page.py accepts what a page may leave open, and nothing else."""
import contextlib
import io
import json
import pathlib
import re
import shlex
import sys

import helpers

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import page  # noqa: E402

PAGE = """# A page

<!-- file: words.txt -->
```text
12 words of area.c:5
```

```
$ cat words.txt
17 words of area.c:5
$ printf 'one\\ntwo\\nthree\\n' | tail -n 2
…
three
$ false   # status 1
```
"""


def _outcome(text, update=False):
    """The status of a run of the page, and what it becomes."""
    path = pathlib.Path(helpers.WORK) / "page.md"
    path.write_text(text, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        status = page.run_page(path, pathlib.Path(helpers.BUILD), update)
    return status, path.read_text(encoding="utf-8")


def a_page_is_as_printed():
    assert _outcome(PAGE)[0] == 0
    for right, wrong in (("17 words", "17 letters"), ("area.c:5\n$", "area.c:6\n$"), ("…\nthree", "three"), ("…\nthree", "…\ntwo"),
                         ("# status 1", ""), ("cat words.txt", "cat words.md"), ("three\n$ false", "three\nfour\n$ false")):
        assert right in PAGE and _outcome(PAGE.replace(right, wrong))[0] == 1, (right, wrong)


def only_a_marked_block_may_change_its_order():
    turned = PAGE.replace("…\nthree", "three\ntwo")
    assert _outcome(turned)[0] == 1
    assert _outcome(turned.replace("```\n$", "<!-- any order -->\n```\n$"))[0] == 0


def an_update_writes_what_was_printed():
    status, text = _outcome(PAGE.replace("…\nthree", "…\nfour"), update=True)
    assert status == 1 and "12 words of area.c:5\n$ printf" in text and "\ntwo\nthree\n$ false" in text, text
    assert _outcome(PAGE, update=True)[1] == PAGE.replace("17 words", "12 words")


def every_block_has_a_reason():
    path = pathlib.Path(helpers.WORK) / "list.md"
    for text, count, status in (("```sh\nmake\n```\n", 0, 1), ("<!-- not run: why -->\n```sh\nmake\n```\n", 1, 0),
                                ("<!-- not run: why -->\n```sh\nmake\n```\n", 0, 1), ("[a link](lost.md)\n", 0, 1)):
        path.write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()):
            assert page.list_blocks(count, [path]) == status, (text, count)


def _options_of_verbs():
    told = json.loads(helpers.sonde("help", "--json"))
    return {verb["name"]: {"--" + option["name"] for option in verb["options"] if "name" in option} |
            {"-" + option["letter"] for option in verb["options"] if "letter" in option} for verb in told["verbs"]}


def _commands_in(text):
    """What stands in `sonde …` within a line, and in the blocks with commands."""
    lines = text.splitlines()
    for found in re.finditer(r"`(?:sudo )?(sonde [a-z][^`\n]*)`", text):
        yield found[1]
    for block in page.blocks_of(lines):
        for line in block.lines if block.has_commands else []:
            found = re.match(r"(?:\$ )?(sonde [a-z].*)", line)
            if found and (line.startswith("$") or not block.is_session):
                yield found[1]


def every_command_has_its_options():
    """A verb that does not exist, or an option that it does not have, is on no page."""
    verbs, unknown, seen = _options_of_verbs(), [], 0
    root = pathlib.Path(__file__).resolve().parents[2]
    for path in (root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").glob("*.md"))):
        for command in _commands_in(path.read_text(encoding="utf-8")):
            try:
                words = shlex.split(re.split(r" [|>&;]|;", command)[0], comments=True)
            except ValueError:
                continue  # the rest is in the next line
            if words[1] not in verbs:
                unknown.append(f"{path.name}: {command}: no verb {words[1]}")
                continue
            seen += 1
            for word in words[2:words.index("--") if "--" in words else None]:
                name = re.match(r"--[a-z][a-z-]*|-[a-zA-Z]", word)
                if name and name[0] not in verbs[words[1]]:
                    unknown.append(f"{path.name}: {command}: no option {name[0]}")
    print("\n".join(unknown))
    assert seen > 150 and not unknown, seen


helpers.run_cases(globals())
