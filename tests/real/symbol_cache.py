#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cache of symbol indexes as many short commands use it: none of them reads enough of a file to pay for an index, but
together they do. Then one of them builds it, and the names are the same before and after."""
import os
import pathlib
import re

from helpers import LIB, SONDE, needs, needs_plain_build, output_of, run_cases, sonde

IMAGE = os.path.join(LIB, "libsonde-agent.so")


def _files(folder, suffix):
    return sorted(path.name for path in pathlib.Path(folder, "sonde", "symbols").glob("*" + suffix))


def _addresses():
    listed = output_of("nm", "--defined-only", IMAGE)
    functions = sorted(int(m[1], 16) for m in re.finditer(r"^([0-9a-f]+) [tT] ", listed, re.M))
    return [hex(address + 1) for address in functions[::len(functions) // 20]]


def many_short_commands_build_an_index(folder):
    needs("nm")
    addresses, environment = _addresses(), dict(os.environ, XDG_CACHE_HOME=str(folder))

    def ask():
        return sonde("symbolize", "--image", IMAGE, *addresses, env=environment)

    first, asked = ask(), 1
    assert not _files(folder, ".index") and len(_files(folder, ".spent")) == 1, "the first builds none"
    while not _files(folder, ".index"):
        assert asked < 100, "no index is built"
        assert ask() == first
        asked += 1
    assert asked > 2 and not _files(folder, ".spent") and ask() == first, asked
    return f"one of {len(addresses)} names each after {asked} commands"


def where_limits_are_low_none_is_kept(folder):
    """An index needs more memory than a look-up, and where it runs out, nobody gets an answer. A file that is too large
    would end the process."""
    addresses, environment = _addresses()[:2], dict(os.environ, XDG_CACHE_HOME=str(folder))
    words = ["symbolize", "--image", IMAGE, *addresses]
    expected = sonde(*words, env=environment)
    (spent,) = _files(folder, ".spent")
    for limit in ["--as=4000000000"], ["--fsize=4096"], []:
        pathlib.Path(folder, "sonde", "symbols", spent).write_bytes((1 << 40).to_bytes(8, "little"))
        assert output_of("prlimit", *limit, SONDE, *words, env=environment) == expected, limit
        assert bool(_files(folder, ".index")) == (not limit), limit


def what_was_spent_is_cleared(folder):
    environment = dict(os.environ, XDG_CACHE_HOME=str(folder))
    for options, kept in (["--no-index"], 0), (["--no-lines"], 0), ([], 1):
        sonde("symbolize", *options, "--image", IMAGE, *_addresses()[:2], env=environment)
        assert len(_files(folder, ".spent")) == kept, options
    sonde("cache", "clear", env=environment)
    assert not _files(folder, ""), _files(folder, "")


needs_plain_build()
run_cases(globals())
