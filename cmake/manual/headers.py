# SPDX-License-Identifier: MIT
"""A public header, as its comments document it: a comment at the margin describes the declarations after it."""
import re

COMMENT = re.compile(r"/\*(.*?)\*/\n?", re.S)
PROTOTYPE = re.compile(r"SONDE_API\s+([^;]*?)\s*(\**)(sonde_\w+)\(([^;]*)\)\s*(?:__attribute__[^;]*)?;", re.S)
# lines that say nothing to a reader of the page
NOISE = re.compile(r"^(#(ifn?def|define|endif|include|if|else)\b.*|extern \"C\" \{|\})\s*$")


def comment_text(body):
    """Without the stars, SPDX and the margin."""
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in body.split("\n")]
    return "\n".join(line for line in lines if not line.lstrip().startswith("SPDX")).strip("\n").strip()


def parameters_of(text):
    """The parameters, with parentheses kept together."""
    parts, depth = [""], 0
    for c in " ".join(text.split()):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


class Header:
    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.name = path.stem
        self.page = "libsonde" if self.name == "sonde" else f"sonde_{self.name}"
        first = COMMENT.match(text)
        self.about = comment_text(first[1])
        sentence = re.split(r"\.(?:\s|$)|:\n", self.about)[0]
        sentence = " ".join(sentence.split())
        if sentence[1:2].islower():
            sentence = sentence[0].lower() + sentence[1:]
        self.summary = sentence.split(":", 1)[1].strip() if self.name == "sonde" else sentence
        self.prototypes, self.function_blocks, self.type_blocks = [], [], []
        self.read(text[first.end():])
        self.functions = [name for _, name, _ in self.prototypes]

    def read(self, text):
        starts = [m for m in re.finditer(r"^/\*.*?\*/\n", text, re.S | re.M)]
        for i, comment in enumerate(starts):
            code = text[comment.end():starts[i + 1].start() if i + 1 < len(starts) else len(text)]
            names = self.take_prototypes(code)
            said = comment_text(COMMENT.match(comment[0])[1])
            if set(said) <= set("- ") or said.startswith("----"):
                continue
            if names:
                self.function_blocks.append((said, names, None))
            else:
                code = "\n".join(line for line in code.split("\n")
                                 if not NOISE.match(line) or line.startswith("#define"))
                if code.strip():
                    self.type_blocks.append((said, None, code.strip("\n")))

    def take_prototypes(self, code):
        names = []
        for returns, stars, name, parameters in PROTOTYPE.findall(code):
            returns = " ".join(returns.split()) + (" " + stars if stars else "")
            self.prototypes.append((returns, name, parameters_of(parameters)))
            names.append(name)
        return names
