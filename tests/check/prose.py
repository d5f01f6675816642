#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no sentence of the pages and of the public headers' comments exceeds 25 words: in paragraphs, list items
and table cells. A colon and a semicolon end a sentence here, and code in backticks is one word.
usage: prose.py SOURCE-ROOT"""
import pathlib
import re
import sys

WORDS_MAX = 25
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md"]
HEADERS = "include/sonde/*.h"
FENCE = re.compile(r"\s*```")
LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
CELL_END = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
COMMENT_LINE = re.compile(r"/?\s*\*+/? ?")
SENTENCE_END = re.compile(r"(?<=[.:;!?])\s+")


def blocks(text):
    """(line number, text) of each paragraph, list item and table cell."""
    first, lines, in_code = 0, [], False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if FENCE.match(line):
            in_code = not in_code
        is_prose = not in_code and not FENCE.match(line) and not line.startswith(("#", "<!--", "|")) and line.strip()
        if lines and (not is_prose or LIST_ITEM.match(line)):
            yield first, " ".join(lines)
            lines = []
        if is_prose:
            first = number if not lines else first
            lines.append(LIST_ITEM.sub("", line, count=1).strip())
        elif line.startswith("|") and not in_code:
            yield from ((number, cell) for cell in CELL_END.split(line))


def comments(text):
    """(line number, text) of each paragraph, list item and indented line of the comments."""
    for comment in COMMENT.finditer(text):
        line = text.count("\n", 0, comment.start())
        plain = "\n".join(COMMENT_LINE.sub("", part, count=1).removesuffix("*/") for part in comment[0].splitlines())
        for number, block in blocks(re.sub(r"^  +(?=\S)", "- ", plain, flags=re.M)):
            yield line + number, block


def faults(path, split):
    for number, block in split(path.read_text()):
        for sentence in SENTENCE_END.split(LINK.sub(r"\1", CODE.sub("code", block))):
            if len(sentence.split()) > WORDS_MAX:
                yield f"{path}:{number}: {len(sentence.split())} words: {sentence}"


def main():
    root = pathlib.Path(sys.argv[1])
    found = [fault for page in PAGES for path in sorted(root.glob(page)) for fault in faults(path, blocks)]
    found += [fault for path in sorted(root.glob(HEADERS)) for fault in faults(path, comments)]
    print("\n".join(found) if found else "prose: every sentence is short enough")
    return 1 if found else 0


sys.exit(main())
