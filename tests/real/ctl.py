#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde ctl: what is recorded is changed while the program runs, and what the recording then says
is what the program and its allocator say themselves."""
import json
import os
import random
import signal
import subprocess

from format.reader import Recording
from helpers import (
    NOT_FOR_OTHERS, SEED, WORK, compile_c, events, needs_agent, others_can_run_sonde, record, report,
    run_cases, second_reader, skip_part, sonde, source_file, start_record, try_sonde, until_child)

needs_agent()


def build(name, *options):
    return compile_c(source_file("real", "record", name + ".c"), "-O1", "-fno-builtin", *options,
                     out=os.path.join(WORK, name))


HOLDER = build("holder")
WORKER = build("worker", "-pthread")


class Recorded:
    """A program under sonde record, and its recorder."""

    def __init__(self, mode, *command, **how):
        self.path, self.recorder = start_record(command, *mode, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True, **how)
        self.pid = until_child(self.recorder.pid)

    def line(self):
        return list(map(int, self.recorder.stdout.readline().split()))

    def say(self, text):
        self.recorder.stdin.write(text + "\n")
        self.recorder.stdin.flush()
        return self.line()

    def ctl(self, *words):
        return dict(line.split(" ", 1) for line in sonde("ctl", self.pid, *words).splitlines())

    def refused(self, *words):
        done = try_sonde("ctl", self.pid, *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done
        return done.stderr

    def end(self, say="end"):
        if say:
            self.recorder.stdin.write(say + "\n")
        _, error = self.recorder.communicate(timeout=150)
        return error

    def report(self, *options):
        told = report(self.path, *options)
        assert not any(v for k, v in told["missing"].items() if k != "dropped_chunks"), told["missing"]
        return told["malloc"]

    def text(self, *sections):
        return sonde("report", self.path, *sections)

    def events(self):
        return events(self.path)


def live_is_what_the_program_and_glibc_say():
    r = Recorded(["--malloc=live"], HOLDER, "20000")
    said = [r.line(), r.say("less 5000"), r.say("more 70000"), r.say("move")]
    blocks = [int(r.ctl("snapshot")["blocks"])]
    said.append(r.say("less 60000"))
    blocks.append(int(r.ctl("snapshot")["blocks"]))
    for (held, _, _), got in zip(said[-2:], blocks):
        assert got == held, (got, held)
    at_peak = r.report("--by", "peak")
    assert at_peak["peak"] == {"blocks": said[3][0], "bytes": said[3][1]}, (at_peak["peak"], said)
    # glibc counts its own word of each block and rounds up to 16: 8 to 23 bytes more a block.
    count, size, in_use = said[3]
    assert size + 8 * count <= in_use <= size + 24 * count, (said[3], "glibc's view")
    assert at_peak["live"] == {"blocks": said[4][0], "bytes": said[4][1]}
    r.end()
    told = r.report()
    assert told["live"] == {"blocks": said[4][0], "bytes": said[4][1]}, told["live"]
    assert told["events"] == 0 and told["snapshots"] == 3 and not told["unknown_frees"]
    assert told["depth"]["complete"] >= 0.99 * at_peak["peak"]["blocks"]
    size = os.path.getsize(r.path)
    print(f"live: {size} bytes for three snapshots of {blocks} blocks")


def live_is_exact_with_threads():
    r = Recorded(["--malloc=live"], WORKER, "16", "20000", os.path.join(WORK, "n"), "tell")
    told = r.end(say=None)
    del told
    left = r.report()["live"]["blocks"]
    held = sum(1 for e in r.events() if e["event"] == "block")
    assert left == held <= 512 + 16 + 8, (left, held)
    assert left > 300


def a_great_many_blocks_are_the_same_in_every_mode():
    """What is live in the table of live blocks, which has grown several times, is what a full log says,
    and what a sampled one estimates is near it."""
    told = {}
    for mode in "live", "malloc", "sample:16K":
        r = Recorded(["--malloc=" + mode], build("hoard", "-pthread"), "16", "50000", str(SEED))
        held, size = r.line()
        os.kill(r.pid, signal.SIGKILL)  # all of them wait
        r.end(say=None)
        told[mode] = r.report()
        assert not told[mode]["unknown_frees"] and not told[mode]["double_frees"], told[mode]
        words = r.text("malloc")
        assert ("largest snapshot" in words) == ("peak" not in words) == (mode == "live"), words
        os.unlink(r.path)
    sizes = [{row["at_least"]: row["live"] for row in told[mode]["sizes"] if row["live"]["blocks"]}
             for mode in ("live", "malloc")]
    assert sizes[0] == sizes[1] and len(sizes[0]) > 3, sizes
    live, full, some = (told[mode]["live"] for mode in told)
    assert live == full, (live, full)
    own = 1 + 2 * 16 + 16  # what the program keeps for its threads, each thread's table
    assert held == 760000 and held <= full["blocks"] <= held + own + 8, (held, full)
    assert size + 16 * 800000 <= full["bytes"] <= size + 16 * 800000 + 32768, (size, full)
    # One standard deviation of such an estimate is 1.7 % of blocks, 1 % of bytes.
    for what, exact, near in ("live", full, some), ("allocated", told["malloc"]["allocated"],
                                                    told["sample:16K"]["allocated"]):
        off = [near[key] / exact[key] - 1 for key in ("blocks", "bytes")]
        print(f"{what}: {exact}; sampled, blocks {off[0]:+.2%}, bytes {off[1]:+.2%}")
        assert abs(off[0]) < 0.08 and abs(off[1]) < 0.04, (what, exact, near)


def no_sampled_block_is_lost_however_many_live():
    """Some 300 000 of them at once, more than twice what their table begins with."""
    r = Recorded(["--malloc=sample:64"], build("hoard", "-pthread"), "4", "100000", str(SEED))
    held, _ = r.line()
    os.kill(r.pid, signal.SIGKILL)
    r.end(say=None)
    told = r.report()  # nothing is missing, which it asserts
    assert not told["unknown_frees"] and not told["double_frees"], told
    print(held, "held;", told["live"], "estimated")
    assert abs(told["live"]["blocks"] / held - 1) < 0.01, (told["live"], held)
    os.unlink(r.path)


def a_kill_leaves_what_was_live():
    rng = random.Random(SEED)
    for _ in range(int(os.environ.get("SONDE_KILLS", "20"))):
        count = rng.randrange(100, 60000)
        r = Recorded(["--malloc=live"], HOLDER, str(count))
        held, size, _ = r.line()
        os.kill(r.pid, signal.SIGKILL)
        r.end(say=None)
        assert r.recorder.returncode == -signal.SIGKILL
        assert r.report()["live"] == {"blocks": held, "bytes": size}
        os.unlink(r.path)


def modes_are_switched_while_it_runs():
    r = Recorded(["--malloc=off"], HOLDER, "1000")
    r.line()
    assert r.ctl("status")["malloc"] == "off"
    assert "modes live" in r.refused("snapshot")
    r.ctl("malloc=malloc")
    r.say("less 400")              # of blocks from before
    r.say("more 3000")
    r.ctl("mark", "three", "thousand")
    r.ctl("malloc=live")
    r.say("more 500")
    r.say("less 1000")             # 500 of before
    assert int(r.ctl("snapshot")["blocks"]) == 0
    r.say("more 700")
    r.ctl("malloc=all")            # the 700 go on being known
    r.say("less 100")
    r.ctl("malloc=sample:512")
    held = r.say("more 40000")[0]
    r.end()
    told = r.report()
    listed = r.events()
    assert [e["name"] for e in listed if e["event"] == "marker"] == ["three thousand"]
    modes = [e["mode"] for e in listed if e["event"] == "mode"]
    assert modes == [1, 16, 3, 8], modes
    assert told["unknown_frees"] == told["double_frees"] == told["address_reuses"] == 0, told
    assert told["prerecording_frees"] == 400 + 500, told
    assert told["switches"] == 4 and told["snapshots"] == 2, told
    at = [i for i, e in enumerate(listed) if e["event"] == "mode"][2]
    to = listed[at]["time_ns"] / 1e9 + 1e-6
    assert r.report("--to", f"{to:.9f}")["live"]["blocks"] == 700
    # 1 to 900 bytes each, one of 512 taken: one standard deviation is 440 blocks.
    # The 3000 from malloc on, the last 600 from sample on.
    assert told["untracked"] == 3000 + 600 and abs(told["live"]["blocks"] - 40000) < 2500, told["live"]
    assert held == 1000 - 400 + 3000 + 500 - 1000 + 700 - 100 + 40000


def addresses_that_are_given_out_again_while_it_is_off():
    """The allocator gives out what was freed last. The program frees no block twice, and loses none."""
    r = Recorded(["--malloc=malloc"], HOLDER, "0")
    r.line()
    r.say("more 3000")
    r.say("less 3000")
    r.ctl("malloc=off")
    r.say("more 3000")
    r.ctl("malloc=malloc")
    r.say("less 3000")
    told = r.report()
    assert told["unknown_frees"] == told["double_frees"] == told["address_reuses"] == 0, told
    assert told["prerecording_frees"] == 3000 and "recorded_until_ns" not in told, told
    r.say("more 500")
    r.ctl("malloc=off")
    r.say("less 500")
    r.end()
    told = r.report()
    assert told["live"]["blocks"] == 500, told
    off = [e["time_ns"] for e in r.events() if e["event"] == "mode"][-1]
    assert told["recorded_until_ns"] == off, (told, off)


def sampled_blocks_that_are_freed_while_it_is_off():
    """Their addresses were chosen once, which says nothing of the blocks that come to lie there."""
    r = Recorded(["--malloc=sample:1"], HOLDER, "0")
    r.line()
    r.say("more 3000")
    r.ctl("malloc=off")
    r.say("less 3000")
    r.ctl("malloc=sample:1")
    r.say("more 3000")
    r.say("less 3000")
    r.ctl("malloc=sample:1000M")  # none is
    r.say("more 3000")
    r.say("less 3000")
    r.end()
    told = r.report()
    assert told["unknown_frees"] == told["double_frees"] == told["address_reuses"] == 0, told


def regions_are_what_the_kernel_says():
    code = ("import mmap, sys, os\n"
            "held=[]\nprint(0, flush=True)\n"
            "for line in sys.stdin:\n"
            " if line[0]=='m': held.append(mmap.mmap(-1, 1<<20))\n"
            " if line[0]=='u': held.pop(0).close()\n"
            " if line[0]=='r': held[-1].resize(4<<20)\n"
            " if line[0]=='f': held.append(mmap.mmap(os.open('/bin/sh', 0), 8192, prot=1))\n"
            " n=[os.stat('/bin/sh').st_ino, len(held), sum(len(h) for h in held)]\n"
            " print(*n, flush=True)")
    r = Recorded(["--malloc=vm"], "/usr/bin/python3", "-c", code)
    r.line()
    for word in "m", "m", "m", "u", "r", "f", "f", "u":
        held = r.say(word)
    assert r.ctl("snapshot") == {"regions": "written"}
    listed = [e for e in r.events() if e["event"] == "mapping"]
    made = [e for e in listed if e["call"] == "mapped" and e["size"] in (1 << 20, 8192)]
    assert len([e for e in made if e["size"] == 8192]) == 2, made
    live = {}
    for e in listed:
        if e["call"] == "moved":
            live.pop(e["old"])
        if e["call"] == "unmapped":
            live.pop(e["address"], None)
        else:
            live[e["address"]] = e["size"]
    with open(f"/proc/{r.pid}/maps") as f:
        kernel = [line.split() for line in f]
    spans = [tuple(int(x, 16) for x in line[0].split("-")) for line in kernel]
    for address, size in live.items():
        start, end = int(address, 16), int(address, 16) + size
        covered = sum(max(0, min(end, b) - max(start, a)) for a, b in spans)
        assert covered == size, (address, size, covered)
    r.end("q")
    told = report(r.path, "vm")["vm"]
    print("regions:", {k["kind"]: (k["mappings"], k["with_stack"]) for k in told["kinds"]})
    assert told["moved"] == 1 and told["unmapped"] >= 2 and told["checkpoints"] >= 2, told
    assert any(k["kind"] == "heap (brk)" and not k["with_stack"] for k in told["kinds"])
    assert all(k["with_stack"] <= k["bytes"] for k in told["kinds"])
    assert held[1] == 3


def a_limit_keeps_the_newest():
    r = Recorded(["--malloc=malloc", "--limit=2M"], HOLDER, "0")
    r.line()
    for _ in range(5):
        r.say("more 100000")
        r.say("less 100000")
    held, size, _ = r.say("more 777")
    r.end()
    bytes_in_file = os.path.getsize(r.path)
    told = r.report()
    dropped = report(r.path)["missing"]["dropped_chunks"]
    print(f"limit: {bytes_in_file} bytes, {dropped} chunks dropped, {told['events']} events kept")
    assert bytes_in_file < 2 << 20 and dropped > 10 and told["events"] > 100000
    assert told["live"] == {"blocks": held, "bytes": size} == {"blocks": 777, "bytes": size}, told
    assert told["unknown_frees"] == told["double_frees"] == told["address_reuses"] == 0, told


def libraries_that_go_are_said_to():
    library = compile_c("#include <stdlib.h>\nvoid *give(void) { void *p = malloc(77); "
                        "__asm__ volatile(\"\"); return p; }\n", "-O1", "-shared", "-fPIC", out=os.path.join(WORK, "lib.so"))
    program = compile_c("#include <dlfcn.h>\n#include <stdlib.h>\nint main(int n, char **v) {\n"
                        "for (int i = 0; i < 2; i++) { void *l = dlopen(v[1], RTLD_NOW);\n"
                        "if (!l) return 1; free(((void *(*)(void))dlsym(l, \"give\"))());\n"
                        "dlclose(l); } return 0; }\n", "-ldl")
    path, done = record([program, library], "--malloc=malloc")
    assert done.returncode == 0, done
    recording = Recording(path)
    number = next(n for n, i in recording.images.items() if i[4].decode() == library)
    loads = [what for what, n in recording.loads if n == number]
    print("loads:", loads)
    assert loads[:2] == ["loaded", "unloaded"] and loads.count("unloaded") >= 1, loads


def the_sampler_is_switched_while_it_runs():
    code = ("import sys,time\nprint(0, flush=True)\n"
            "for line in sys.stdin:\n end=time.process_time()+0.5\n"
            " while time.process_time()<end: [bytes(600) for _ in range(100)]\n print(0, flush=True)")
    r = Recorded(["--malloc=off"], "/usr/bin/python3", "-c", code)
    r.line()
    r.say("burn")
    assert r.ctl("sample=200")["sample"] == "200"
    r.ctl("mark", "on")
    r.say("burn")
    r.ctl("sample=off")
    r.ctl("mark", "off")
    r.say("burn")
    r.end(say=None)
    listed = [e for e in r.events() if e["event"] in ("marker", "sample")]
    on, off = (i for i, e in enumerate(listed) if e["event"] == "marker")
    taken = sum(1 + e["missed"] for e in listed[on + 1:off])
    after = len(listed) - off - 1
    print(taken, "samples in half a second at 200 a second,", after, "after it was switched off")
    assert on == 0 and 80 < taken < 110 and after == 0


def it_is_the_users_own():
    r = Recorded(["--malloc=live"], HOLDER, "10")
    r.line()
    for words, why in ((["malloc=nonsense"], "malloc takes"), (["sample=0"], "sample takes"),
                       (["dance"], "unknown command"), (["mark"], "takes a value"),
                       (["status", "x"], "takes no value"), (["mark", "a\nb"], "several lines")):
        assert why in r.refused(*words), (words, r.refused(*words))
    assert "is not being recorded" in try_sonde("ctl", os.getpid(), "status").stderr
    if os.geteuid() == 0 and not others_can_run_sonde():
        skip_part("by_another_user", NOT_FOR_OTHERS)
    elif os.geteuid() == 0:
        other = try_sonde("ctl", r.pid, "status", user=65534, group=65534, extra_groups=[])
        assert other.returncode == 2 and "belongs to another user" in other.stderr, other
    r.ctl("stop")
    assert "a request stopped it" in r.refused("malloc=all")
    assert r.say("more 5")[0] == 15
    assert "a request stopped it" in r.end()


def the_program_has_no_more_threads_or_descriptors():
    code = ("import os,sys\nprint(len(os.listdir('/proc/self/task')), "
            "sorted(f for f in map(int, os.listdir('/proc/self/fd')) if f < 512), flush=True)\n"
            "sys.stdin.readline()\n"
            "print(len(os.listdir('/proc/self/task')), "
            "sorted(f for f in map(int, os.listdir('/proc/self/fd')) if f < 512), flush=True)")
    r = Recorded(["--malloc=live"], "/usr/bin/python3", "-c", code)
    before = r.recorder.stdout.readline()
    for words in ["snapshot"], ["malloc=all"], ["sample=99"], ["malloc=live"], ["status"]:
        r.ctl(*words)
    r.recorder.stdin.write("\n")
    r.recorder.stdin.flush()
    assert r.recorder.stdout.readline() == before == "1 [0, 1, 2, 3]\n", before
    r.end(say=None)


def the_second_reader_agrees():
    r = Recorded(["--malloc=live"], HOLDER, "300")
    r.line()
    r.ctl("snapshot")
    r.ctl("mark", "here \"and\" there")
    r.ctl("malloc=all")
    r.say("less 100")
    r.say("map")
    r.end()
    theirs = second_reader(r.path)

    def told(listed):
        seen = [{k: v for k, v in e.items() if not k.endswith("_ns") and k != "frames"}
                for e in listed]
        return sorted(json.dumps(e, sort_keys=True) for e in seen)

    assert told(r.events()) == told(theirs)
    assert any('"block"' in e for e in told(r.events()))


run_cases(globals())
