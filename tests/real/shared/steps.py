# SPDX-License-Identifier: MIT
"""A program that is stopped at every instruction of chosen functions (x86_64)."""
import collections
import ctypes
import os
import platform
import signal

from helpers import SANITIZED, output_of, skip

_SINGLESTEP, _PEEKUSER, _ATTACH, _DETACH = 9, 3, 16, 17  # ptrace(2)
_RIP = 128  # sys/user.h: the place of regs.rip
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request, pid, data=0, address=0):
    ctypes.set_errno(0)
    result = _libc.ptrace(request, pid, address, data)
    if ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _attach(pid):
    _ptrace(_ATTACH, pid)
    os.waitpid(pid, 0)


def _ranges(pid, names):
    """[start, end] of exported functions of the program's own file, by name."""
    path = os.path.realpath(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(path))
    found = {}
    for line in output_of("nm", "-D", "-S", path).splitlines():
        words = line.split()
        if len(words) == 4 and words[3] in names:
            start = base + int(words[0], 16)
            found[words[3]] = (start, start + int(words[1], 16))
    assert set(found) == set(names), (path, found)
    return found


def stops(pid, names, steps, times):
    """Executes STEPS instructions of the program PID, one at a time. Stops it at every instruction of the functions
    NAMES, the first TIMES that it is reached, and yields [name, offset] meanwhile."""
    if platform.machine() != "x86_64" or SANITIZED:
        skip("the registers of x86_64 are read")
    ranges, reached = _ranges(pid, names), collections.Counter()
    _attach(pid)
    for _ in range(steps):
        pc = _ptrace(_PEEKUSER, pid, address=_RIP)
        for name, (start, end) in ranges.items():
            if start <= pc < end and reached[pc] < times:
                reached[pc] += 1
                _ptrace(_DETACH, pid, data=signal.SIGSTOP)
                yield name, pc - start
                _attach(pid)
        _ptrace(_SINGLESTEP, pid)
        os.waitpid(pid, 0)
    _ptrace(_DETACH, pid)
