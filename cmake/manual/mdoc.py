# SPDX-License-Identifier: MIT
"""A man page in the mdoc language (mdoc(7)), ASCII, accepted by `mandoc -T lint` and by groff."""
import itertools
import re

MACROS = {"Nm", "Ar", "Op", "Fl", "Ns", "Fn", "Ft", "In", "Cm"}


def escaped(text):
    """TEXT with what roff would take for an escape, and all that is not ASCII, as escapes."""
    text = text.replace("\\", "\\e")
    return "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)


def line_of(text):
    """TEXT as a line of its own, which must not begin as a request."""
    text = escaped(text)
    return "\\&" + text if text[:1] in (".", "'") else text


def argument(word):
    """WORD as one argument of a macro."""
    word = escaped(word)
    if word in (",", "="):
        return word
    if word == "--":
        return "\\-\\-"  # mandoc takes it for a dash
    if word in MACROS or word[:1] in "|[]().,:;!?" or re.fullmatch(r"[A-Z][a-z]", word):
        word = "\\&" + word
    return '"' + word.replace('"', '\\(dq') + '"' if " " in word or '"' in word else word


def wrapped(text):
    """Lines of at most 78 bytes of source; each sentence begins a line, as mdoc(7) asks for."""
    for sentence in re.split(r"(?<=[a-z0-9)'\"A-Z][.!?]) +(?=[A-Z'])", " ".join(text.split())):
        line = ""
        for word in sentence.split(" "):
            if line and len(escaped(line)) + 1 + len(escaped(word)) > 78:
                yield line
                line = word
            else:
                line = f"{line} {word}" if line else word
        yield line


class Page:
    """NAME and the sections that are added after it."""

    def __init__(self, name, section, date, summary, names=()):
        others = [other for other in names if other != name]
        self.lines = [f".Dd {date}", f".Dt {name.upper()} {section}", ".Os", ".Sh NAME"]
        for each in ([name] + others)[:-1]:
            self.lines.append(f".Nm {each} ,")
        self.lines += [f".Nm {([name] + others)[-1]}", f".Nd {escaped(summary)}"]
        self.fresh = True

    def macro(self, name, *words):
        if name in ("Op", "Fl", "Cm") and words[:1] == ("Ar",):
            words = ("\0Ar",) + words[1:]
        if name == "It":
            line = " ".join(word if word in MACROS else argument(word) for word in words)
        else:
            line = " ".join(word[1:] if word[:1] == "\0" else argument(word) for word in words)
        self.lines.append(f".{name} {line}".rstrip())
        self.fresh = True

    def section(self, title):
        self.macro("Sh", title)

    def text(self, text):
        """Paragraphs are separated by empty lines; indented lines are printed as they are, or are a list if the
        first begins with a dash."""
        for block in re.split(r"\n[ \t]*\n", text):
            for indented, lines in itertools.groupby(block.split("\n"), lambda line: line.startswith("  ")):
                lines = [line for line in lines if line.strip()]
                if not lines:
                    continue
                if not indented:
                    self.paragraph(" ".join(line.strip() for line in lines))
                elif lines[0].lstrip().startswith("- "):
                    self.dashes(lines)
                else:
                    self.literal("\n".join(lines))

    def dashes(self, lines):
        self.macro("Bl", "-dash", "-compact")
        for item in re.split(r"(?:^|\n) *- ", "\n".join(lines))[1:]:
            self.lines.append(".It")
            self.fresh = True
            self.paragraph(item)
        self.macro("El")
        self.fresh = False

    def paragraph(self, text):
        if not self.fresh:
            self.lines.append(".Pp")
        self.lines += [line_of(line) for line in wrapped(text)]
        self.fresh = False

    def literal(self, text):
        self.lines.append(".Bd -literal" + ("" if text.startswith("  ") else " -offset indent"))
        self.lines += [line_of(line) if line.strip() else "" for line in text.rstrip("\n").split("\n")]
        self.lines.append(".Ed")
        self.fresh = False

    def tags(self, pairs):
        self.macro("Bl", "-tag", "-width", "Ds")
        for name, text in pairs:
            self.lines.append(f".It {escaped(name)}")
            self.fresh = True
            self.paragraph(text)
        self.macro("El")
        self.fresh = False

    def see_also(self, pages):
        self.section("SEE ALSO")
        pages = sorted(pages, key=lambda page: (page[1], page[0]))
        for name, section in pages[:-1]:
            self.lines.append(f".Xr {name} {section} ,")
        self.lines.append(f".Xr {pages[-1][0]} {pages[-1][1]}")

    def source(self):
        return "\n".join(self.lines) + "\n"
