#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every instruction of tests/fixtures/steps.c: the stack that sonde captures there is gdb's.

The program steps itself by the trap flag, capturing from each context; gdb steps through the same
instructions of another run at the same addresses. Both lists of program counters must be equal at
every instruction whose frames all have unwind rows. The others are listed. STEPS_MAX limits at how many
instructions gdb stops, evenly spread; the default is a share for every day. gdb steps over those
between them at once, which takes much less time than a stop at each.
"""
import collections
import os
import struct
import subprocess

from helpers import FIXTURES, needs, needs_plain_build, run_cases, skip

STEPS_MAX = int(os.environ.get("STEPS_MAX", "1500"))
AHEAD = 4  # stops of gdb that must be where they are looked for

GDB_SCRIPT = """
set pagination off
set confirm off
set backtrace past-main on
set backtrace past-entry on
set disable-randomization on
set auto-solib-add on
break mark_start
run
delete
python
import gdb, os
every = int(os.environ["STEPS_EVERY"])
inferior = gdb.selected_inferior()
end = int(gdb.parse_and_eval("(long)&mark_end"))
left = int(os.environ["STEPS_COUNT"])
out = open(os.environ["STEPS_OUT"], "w")
gdb.execute("stepi", to_string=True)
while left > 0:
    pcs, frame = [], gdb.newest_frame()
    if frame.pc() == end:
        break
    while frame is not None and len(pcs) < 60:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            pcs.append(frame.pc())
        frame = frame.older()
    print(*["%x" % p for p in pcs], file=out)
    gdb.execute("stepi %d" % every, to_string=True)
    left -= every
out.close()
end
kill
"""


def own_steps(program, folder):
    path = os.path.join(folder, "own")
    done = subprocess.run(["setarch", "-R", program, path], timeout=100)
    if done.returncode:
        raise AssertionError(f"{program} ended with {done.returncode}")
    words = struct.iter_unpack("<Q", open(path, "rb").read())
    steps = []
    for (count,) in words:
        mark, flags = next(words)[0], next(words)[0]
        steps.append((mark, flags, [next(words)[0] for _ in range(count)]))
    return steps


def gdb_steps(program, folder, every, count):
    """The stacks at every EVERY-th of about COUNT instructions."""
    script, out = os.path.join(folder, "script"), os.path.join(folder, "gdb")
    with open(script, "w") as f:
        f.write(GDB_SCRIPT)
    env = dict(os.environ, STEPS_EVERY=str(every), STEPS_COUNT=str(count), STEPS_OUT=out, DEBUGINFOD_URLS="")
    done = subprocess.run(["gdb", "-nx", "-batch", "-x", script, program], env=env, timeout=2000,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not os.path.exists(out):
        raise AssertionError(done.stdout)
    return [[int(w, 16) for w in line.split()] for line in open(out)]


def compare(name, own, theirs, every):
    """Aligns both runs by their program counters, then compares where gdb stopped."""
    compared, wrong, without, parted = 0, [], collections.Counter(), 0
    own_pcs, at = [step[2][0] for step in own], 0
    for k, other in enumerate(theirs):
        ahead = [pcs[0] for pcs in theirs[k:k + AHEAD]]

        def fits(i):
            return own_pcs[i:i + len(ahead) * every:every] == ahead

        # Branches depend on where the stack is, which the two runs do not have in common: the nearest place that fits.
        places = [at] if fits(at) else sorted(range(max(0, at - 100), at + 3000), key=lambda i: abs(i - at))
        place = next(filter(fits, places), None)
        if place is None:
            parted += 1
            at += every
            continue
        mark, flags, pcs = own[place]
        at = place + every
        compared += 1
        if pcs == other and mark == 0:
            continue
        if mark != 0 or flags & 1:  # not exact, and it says so
            without[pcs[-1] if mark else pcs[0]] += 1
        else:
            wrong.append((place, mark, pcs, other))
    if parted * 20 > len(theirs):
        raise AssertionError(f"{name}: {parted} of {len(theirs)} stops of gdb are not in the program's own run")
    print(f"{name}: {len(own)} instructions, {compared} compared with gdb, {len(wrong)} wrong, "
          f"{sum(without.values())} said not to be exact, at {len(without)} places")
    for place, count in without.most_common(10):
        print(f"  not exact at {place:#x}: {count}")
    for i, mark, pcs, other in wrong[:5]:
        print(f"  instruction {i}, mark {mark}:\n    sonde {[hex(p) for p in pcs]}\n"
              f"    gdb   {[hex(p) for p in other]}")
    return len(wrong), sum(without.values()), compared


def _of(program):
    def case(folder):
        own = own_steps(program, folder)
        every = max(1, len(own) // STEPS_MAX)
        wrong, without, compared = compare(program.name, own, gdb_steps(program, folder, every, len(own) - 12 * every), every)
        assert not wrong and compared >= 1000 and without * 100 <= compared, (wrong, compared, without)
    case.__name__ = program.name
    return case


needs_plain_build()
needs("gdb", "setarch")
_programs = [FIXTURES / name for name in ("steps", "steps-fp", "steps-O0") if (FIXTURES / name).exists()]
if not _programs:
    skip("the programs that step themselves are built for x86_64, without sanitizers")
run_cases([_of(program) for program in _programs])
