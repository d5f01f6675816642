# SPDX-License-Identifier: MIT
"""A library for Linux that stands where a Mach-O image is mapped and has its functions and unwind rows, so that an
unwinder for Linux can walk through the image's code. The rows are the compiler's own: the .cfi directives of its
assembly, at the addresses that the disassembler gives for the same instructions in the linked image. Compilers for macOS
write none for epilogues, and on arm64 none but for the body; these are made here, from the disassembly."""
import re

FUNCTION = re.compile(r"^_(\w+):")
LISTED = re.compile(r"^([0-9a-f]+)\s+<_(\w+)>:")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)")
PAGE = 16384


def functions_of_assembly(text):
    """{name: [instruction or directive, …]} in order."""
    found, here = {}, None
    for line in text.splitlines():
        line = line.split("##")[0].split(";")[0].rstrip()
        name = FUNCTION.match(line)
        line = line.strip()
        if name:
            here = found.setdefault(name[1], [])
        elif line == ".cfi_endproc":
            here = None
        elif here is not None and line and not line.endswith(":") and (not line.startswith(".") or line.startswith(".cfi_")):
            if line.startswith(".cfi_") and not re.match(r"\.cfi_(startproc|sections|personality|lsda)", line):
                here.append(line)
            elif not line.startswith("."):
                here.append(line)
    return found


def functions_of_image(listing):
    """{name: [(address, instruction), …]} and where each ends."""
    found, here = {}, None
    for line in listing.splitlines():
        head, instruction = LISTED.match(line), INSTRUCTION.match(line)
        if head:
            if head[2] in found:
                raise ValueError(f"two functions of the image have the name {head[2]}")
            here = found.setdefault(head[2], [])
        elif instruction and here is not None:
            here.append((int(instruction[1], 16), re.sub(r"\s+", " ", instruction[2]).strip()))
    return found


def number(text):
    return int(text, 0)


def leaves(text):
    return re.match(r"(ret|retq|jmp|b |br )", text)


def marks_of_x86(assembly, code):
    """[(address, directive)] of one function: the compiler's, and its epilogues'."""
    marks, at, is_gone = [], 0, False
    for line in assembly:
        if line.startswith(".cfi_"):
            marks.append((code[at][0], line))
            continue
        line = re.sub(r"^lock\s+", "", line)
        while re.match(r"nop|data16|cs |lock$", code[at][1]) and not line.startswith("nop"):
            at += 1  # what aligns a loop, and a prefix that stands on a line of its own
        text, following = code[at][1], code[at + 1][0] if at + 1 < len(code) else None
        at += 1
        mnemonic = "leaq" if "@TLVP" in line else line.split()[0]  # the linker saves that load
        if mnemonic != text.split()[0]:
            raise ValueError(f"the assembly has {line} where the disassembly has {text}")
        if following is None:
            continue
        if text == "popq %rbp":
            marks += [(following, ".cfi_remember_state"), (following, ".cfi_def_cfa %rsp, 8"), (following, ".cfi_restore %rbp")]
            is_gone = True
        elif is_gone and leaves(text):
            marks.append((following, ".cfi_restore_state"))
            is_gone = False
    return marks


class Arm64:
    """One function for arm64, whose compiler describes the end of its prologue alone: all of it is read here."""

    def __init__(self, code):
        self.code, self.bytes, self.has_frame, self.is_gone, self.marks = code, 0, False, False, []

    def put(self, *directives):
        self.marks += [(self.following, directive) for directive in directives]

    def move(self, by):
        if by < 0 and not self.is_gone:
            self.put(".cfi_remember_state")
            self.is_gone, self.before = True, self.bytes
        self.bytes += by
        self.put(f".cfi_def_cfa_offset {self.bytes}")

    def read(self):
        for i, (_, text) in enumerate(self.code[:-1]):
            self.following = self.code[i + 1][0]
            self.step(text, [t for _, t in self.code[i + 1:]])
        return self.marks

    def step(self, text, rest):
        pushed = re.match(r"(?:stp|str) .*\[sp, #-(\w+)\]!", text) or re.match(r"sub sp, sp, #(\w+)", text)
        pair = re.match(r"stp x29, x30, \[sp(?:, #(-?\w+))?\](!?)", text)
        taken = re.match(r"ldp x29, x30, \[sp(?:, #\w+)?\](?:, #(\w+))?", text)
        frame = re.match(r"add x29, sp, #(\w+)|mov x29, sp", text)
        if pushed and not self.has_frame:
            self.move(number(pushed[1]))
        if pair:
            at = 0 if pair[2] else number(pair[1] or "0")
            self.put(f".cfi_offset x29, {at - self.bytes}", f".cfi_offset x30, {at - self.bytes + 8}")
        elif frame:
            self.has_frame = True
            self.put(f".cfi_def_cfa x29, {self.bytes - number(frame[1] or '0')}")
        elif taken and self.has_frame:
            left = sum(self.popped(t) for t in self.until_leaving(rest))
            self.put(".cfi_remember_state", f".cfi_def_cfa sp, {left}", ".cfi_restore x29", ".cfi_restore x30")
            self.is_gone, self.before, self.bytes = True, self.bytes, left
        elif self.is_gone and leaves(text):
            self.put(".cfi_restore_state")
            self.is_gone, self.bytes = False, self.before
        elif self.popped(text) and (self.is_gone or not self.has_frame):
            self.move(-self.popped(text))

    @staticmethod
    def until_leaving(rest):
        for text in rest:
            if leaves(text):
                return
            yield text

    @staticmethod
    def popped(text):
        add = re.match(r"add sp, sp, #(\w+)", text) or re.match(r"ld[pr] .*\[sp\], #(\w+)", text)
        return number(add[1]) if add else 0


def marks_of(assembly, code, is_x86):
    marks = marks_of_x86(assembly, code) if is_x86 else Arm64(code).read()
    return marks + marks_of_early_exits(marks, code, is_x86)


def marks_of_early_exits(marks, code, is_x86):
    """Where jumps lead to that leave before the frame is made: there is none there either."""
    made = marks[0][0] if marks else 0
    bare = [".cfi_def_cfa %rsp, 8", ".cfi_restore %rbp"] if is_x86 else [".cfi_def_cfa sp, 0", ".cfi_restore x29", ".cfi_restore x30"]
    inside, found = {address for address, _ in code}, []
    for address, text in code:
        to = re.search(r"\b0x([0-9a-f]+) <", text)
        if address < made and to and int(to[1], 16) in inside and int(to[1], 16) > made:
            found += [(int(to[1], 16), directive) for directive in bare]
    return found


def assembly_of(functions, image, start, size, is_x86):
    """The witness as assembly: FUNCTIONS of the compiler, IMAGE of the disassembler, linked at START, SIZE bytes long."""
    size = (size + PAGE - 1) // PAGE * PAGE
    kind, out, now = ("@" if is_x86 else "%") + "function", [".text", ".p2align 14", ".globl mach_image, mach_image_end", "mach_image:"], start

    def go_to(address):
        nonlocal now
        if address > now:
            out.append(f".skip {address - now}")
        now = address

    known = 0
    for name, code in sorted(image.items(), key=lambda item: item[1][0][0] if item[1] else 0):
        if name not in functions or not code:
            continue
        last = code[-1][0]
        marks = marks_of(functions[name], code, is_x86)
        go_to(code[0][0])
        out += [f"m_{name}:", f".type m_{name}, {kind}", ".cfi_startproc"]
        for address, directive in sorted(marks, key=lambda mark: mark[0]):
            go_to(address)
            out.append(directive)
        go_to(last + (1 if is_x86 else 4))
        out += [".cfi_endproc", f".size m_{name}, . - m_{name}"]
        known += 1
    go_to(start + size)
    return "\n".join([*out, "mach_image_end:", '.section .note.GNU-stack, "", ' + ("@progbits" if is_x86 else "%progbits"), ""]), known
