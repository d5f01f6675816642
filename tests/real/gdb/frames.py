# SPDX-License-Identifier: MIT
"""Runs inside gdb: prints every thread's frames as one line of JSON after the word FRAMES.

Each frame is [pc, name or null, start of the function or null, kind]; the kind is "normal", "inlined",
"tail" (a call that was replaced by a jump), "signal" or "no file" (code made at run time, or copied)."""
import json
import os
import re

import gdb

DEPTH = 400
KINDS = {gdb.INLINE_FRAME: "inlined", gdb.TAILCALL_FRAME: "tail", gdb.SIGTRAMP_FRAME: "signal"}


def start_of(frame, pc):
    """Where the function of a frame begins, as gdb knows it."""
    function = frame.function()
    if function is not None and function.symtab is not None and frame.type() != gdb.INLINE_FRAME:
        block = None
        try:
            block = frame.block()
            while block is not None and block.function != function:
                block = block.superblock
        except RuntimeError:
            pass
        if block is not None:
            return block.entry_pc if hasattr(block, "entry_pc") else block.start
    text = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    if text.startswith("No symbol"):
        return None
    words = text.split(" in section")[0].rsplit(" + ", 1)
    offset = int(words[1]) if len(words) == 2 and words[1].isdigit() else 0
    return pc - offset


def known_code(pid):
    """The address ranges of the sections that gdb has read from files. Code may be a file's and not there: V8 maps a
    part of node a second time, near the code it makes."""
    if not os.path.exists(f"/proc/{pid}/maps"):
        return [(0, 1 << 64)]  # a core file
    sections = re.findall(r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is ", gdb.execute("info files", to_string=True))
    return [(int(start, 16), int(end, 16)) for start, end in sections]


def frames_of_thread(files):
    frames = []
    frame = gdb.newest_frame()
    while frame is not None and len(frames) < DEPTH:
        pc = frame.pc()
        kind = KINDS.get(frame.type(), "normal")
        name = frame.name()
        look_up = pc if not frames or kind == "signal" else pc - 1
        if kind == "normal" and not any(start <= look_up < end for start, end in files):
            kind = "no file"
        start = start_of(frame, look_up) if name else None
        frames.append([pc, name, start, kind])
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


def main():
    gdb.execute("set backtrace past-main on")
    threads = {}
    files = known_code(gdb.selected_inferior().pid)
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        threads[thread.ptid[1] or thread.ptid[0]] = frames_of_thread(files)
    print("FRAMES", json.dumps(threads))


main()
