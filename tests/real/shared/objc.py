# SPDX-License-Identifier: MIT
"""What the tests of Objective-C share: compiling a program, GNUstep's options, and what programs say they counted."""
import re

from helpers import compile_c, needs, output_of, skip
from shared.calls import trace_source


def compile_m(source, options):
    return compile_c(trace_source(source), "-g", "-w", "-pthread", *options, compiler="gcc")


def needs_objc():
    """Skips where gcc compiles no Objective-C, or has no runtime for it."""
    needs("gcc")
    try:
        return compile_m("messages.m", ["-std=gnu11", "-O1", "-fobjc-exceptions", "-lobjc"])
    except AssertionError as error:
        return skip(f"gcc compiles no Objective-C: {str(error).splitlines()[-1]}")


def needs_gnustep():
    """What compiles and links against Foundation. gnustep-config is a makefile: without make it prints nothing and
    exits 0."""
    needs("gnustep-config", "make")
    flags = []
    for kind in ("--objc-flags", "--base-libs"):
        words = output_of("gnustep-config", kind).split()
        if not words:
            skip(f"gnustep-config {kind} prints nothing")
        flags += [word for word in words if not word.startswith(("-M", "-W"))]
    return flags


def counted(text):
    return {m[2]: int(m[1]) for m in re.finditer(r"^(\d+) ([-+]\[.*\])$", text, re.M)}
