#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a report cannot know it calls unknown or leaves out, and what it estimates it says so, with the
error. The oracle is a recording of every event of the same program."""
import json
import os
import resource
import shutil
import subprocess

from helpers import WORK, compile_c, events, fresh, needs_agent, record, report, run_cases, sonde, try_sonde

BLOCKS = r"""
#include <stdlib.h>
#include <string.h>
static void *kept[40000];
static __attribute__((noinline)) void *small(int i) { return memset(malloc(16 + i % 200), 1, 16); }
static __attribute__((noinline)) void *large(int i) { return memset(malloc(3000 + i % 5000), 1, 16); }
int main(int argc, char **argv) {
  int count = 40000;
  for (int i = 0; i < count; i++) kept[i] = i % 20 ? small(i) : large(i);
  for (int i = argc; i < count; i += argc) { free(kept[i]); kept[i] = 0; }
  return argv[0] == 0;
}
"""


def allocations(program, *options, arguments=()):
    path, done = record([program, *arguments], *options)
    assert done.returncode == 0, done
    return path, report(path, "malloc", "--top", "100")["malloc"]


def sampled_numbers_are_estimates_with_an_error():
    program = compile_c(BLOCKS, "-O1", "-g", "-fno-builtin")
    _, exact = allocations(program, "--malloc=all", arguments=["even"])
    path, some = allocations(program, "--malloc=sample:8K", arguments=["even"])
    assert some["sampled"] and some["sample_bytes"] == 8192 and some["events"] < exact["events"] / 4
    peak = {"bytes": some["peak_error_bytes"]}
    for what, error in ("allocated", some["allocated_error"]), ("live", some["live_error"]), ("peak", peak):
        for unit, half in error.items():
            off = some[what][unit] - exact[what][unit]
            print(f"{what} {unit}: {exact[what][unit]}, estimated {some[what][unit]} ± {half}")
            assert 0 < half < some[what][unit] / 4, (what, unit, half)
            assert abs(off) < 2.5 * half, (what, unit, off, half)
    # Freed is every second block, so the error is that of the others.
    assert abs(some["frees"] - exact["frees"] - exact["reallocs"]) < 2.5 * some["live_error"]["blocks"], (some, exact)
    rows = [{r["function"]: r for r in told["functions"]} for told in (exact, some)]
    for name in "small", "large":
        true, near = (r[name]["peak"]["bytes"] for r in rows)
        assert abs(near - true) < 2.5 * rows[1][name]["error_bytes"], (name, true, near, rows[1][name])
    for told, known in (exact, True), (some, False):
        assert ("temporary" in told) == ("reallocs" in told) == known
        assert all(("temporary" in row) == known for kind in ("functions", "stacks") for row in told[kind])
        assert all(("error_bytes" in row) != known for kind in ("functions", "stacks") for row in told[kind])
    text = sonde("report", path, "malloc")
    assert text.count("±") > 5 and "(estimated)" in text and "temporary" not in text, text
    assert "unknown" in sonde("report", "--by", "temporary", path, "malloc")
    summary = fresh()
    sonde("pack", "--summary", "-o", summary, path)
    packed = report(summary, "malloc", "--top", "100")["malloc"]
    for key in "allocated", "allocated_error", "live_error", "peak_error_bytes", "frees", "sample_bytes":
        assert packed[key] == some[key], (key, packed[key], some[key])


def what_cannot_be_compared_is_noted():
    program = compile_c(BLOCKS, "-O1", "-g", "-fno-builtin")
    exact, _ = allocations(program, "--malloc=all")
    some, _ = allocations(program, "--malloc=sample:8K")
    other, done = record(["true"], "--sample")
    assert done.returncode == 0
    notes = {(exact, some): "one recording has all blocks, the other estimates", (some, some): "estimates from",
             (exact, other): "different programs", (other, exact): "has no allocations", (exact, exact): None}
    for (old, new), note in notes.items():
        text = sonde("diff", "--by", "allocated", old, new)
        assert text.startswith(f"old  {old}: ") and f"new  {new}: " in text, text
        assert (note in text) if note else ("note" not in text), (note, text)
    told = json.loads(sonde("diff", "--json", "--by", "allocated", exact, some))
    assert told["old_recording"]["file"] == exact and told["new_recording"]["sample_bytes"] == 8192, told
    for verb in ["diff", "--by", "temporary", exact, some], ["export", "--by", "temporary", some]:
        assert "temporary allocations are unknown" in try_sonde(*verb).stderr, verb
    assert "samples of CPU time" in sonde("diff", "--by", "sample", exact, other)


def a_limited_recording_knows_no_older_blocks():
    """What is left of it are frees: nothing is known of what was live."""
    program = compile_c(BLOCKS.replace("40000", "200000").replace("i % 20", "1"), "-O1", "-g", "-fno-builtin")
    path, told = allocations(program, "--malloc=malloc", "--limit=256K")
    whole = report(path)
    assert whole["missing"]["dropped_chunks"] and whole["complete_from_ns"] > 0, whole["missing"]
    assert told["allocated"]["blocks"] == 0 and told["frees"] > 10000, told
    assert "peak" not in told and "live" not in told, told.keys()
    text = sonde("report", path)
    assert "live       unknown" in text and "peak" not in text.split("allocations")[1].split("resources")[0], text
    assert "covers     from" in text and "at most 0 deep" not in text, text


def a_call_that_did_not_return_has_no_least_time():
    program = compile_c("#include <pthread.h>\n#include <sched.h>\n#include <stdio.h>\n#include <string.h>\n"
                        "#include <unistd.h>\nstatic volatile int tid;\n"
                        "static void *wait(void *a) { usleep(1000); tid = gettid(); usleep(60000000); return a; }\n"
                        "static int asleep(void) { char path[64], text[64] = \"\"; /* in the call that does not return */\n"
                        "snprintf(path, sizeof path, \"/proc/self/task/%d/stat\", tid); FILE *f = fopen(path, \"r\");\n"
                        "if (f) { (void)!fread(text, 1, 63, f); fclose(f); } return strstr(text, \") S\") != 0; }\n"
                        "int main(void) { pthread_t t; pthread_create(&t, 0, wait, 0); usleep(100000);\n"
                        "while (!tid || !asleep()) sched_yield();\nreturn 0; }\n", "-O1", "-g", "-pthread", "-D_GNU_SOURCE")
    path, _ = record([program], "--trace=libc*:usleep")
    told, = report(path, "trace")["trace"]["functions"]
    assert told["calls"] == 3 and told["open"] == 1, told
    assert 1e6 < told["least_ns"] <= told["worst_ns"] > 1e8, told
    assert sum(row["calls"] for row in told["histogram"]) == 2, told
    assert "0 ns at least, not returned" in sonde("report", path, "trace")
    listed = [e for e in events(path) if e["event"] in ("call", "return")]
    assert [e["event"] for e in listed].count("call") == 3 and len(listed) == 5, listed
    assert listed == sorted(listed, key=lambda e: e["time_ns"]) and len({e["tid"] for e in listed}) == 2, listed


def the_cost_of_recording_is_one_line():
    """With every allocation recorded, most samples are in sonde."""
    program = compile_c("#include <stdlib.h>\nint main(void) { for (int i = 0; i < 1000000; i++) free(malloc(9));\n"
                        "return 0; }\n", "-O1", "-g", "-fno-builtin")
    path, _ = record([program], "--malloc=malloc", "--sample=997")
    told = report(path, "sample", "--top", "1000")["sample"]
    own = [f for f in told["functions"] if f.get("module", "").startswith("libsonde")]
    print(told["samples"], [(f["function"], f["self"]) for f in told["functions"]])
    assert [f["function"] for f in own] == ["[sonde]"] and own[0]["self"] == own[0]["total"] > 0, own
    in_main = 0
    for row in told["stacks"]:
        names = [f.get("function") for f in row["frames"]]
        assert "[sonde]" not in names[1:], names
        in_main += row["samples"] * ("main" in names)
    assert in_main > 0.8 * told["samples"], told["stacks"]


def a_null_pointer_has_an_address():
    program = compile_c("int main(int n, char **v) { *(volatile int *)(v[n]) = 1; return 0; }\n", "-O1", "-g")
    path, done = record([program])
    assert done.returncode == -11, done
    assert report(path)["crash"]["address"] == "0x0"
    assert "SIGSEGV: write to unmapped memory at 0x0, a null pointer" in sonde("report", path)
    assert [e["signal"] for e in events(path) if e["event"] == "crash"] == [11]
    path, done = record(["sh", "-c", "kill -SEGV $$"])
    assert done.returncode == -11 and "address" not in report(path)["crash"], report(path)["crash"]


def a_lock_of_the_standard_library_is_the_callers():
    """And pthread_join after the end of the loop is no stall."""
    source = os.path.join(WORK, "guards.cc")
    with open(source, "w") as file:
        file.write("#include <atomic>\n#include <mutex>\n#include <thread>\n#include <sys/epoll.h>\n#include <unistd.h>\n"
                   "std::mutex lock; std::atomic<int> held, taking, joining;\n"
                   "__attribute__((noinline)) void hold() { std::lock_guard<std::mutex> g(lock); held = 1;\n"
                   "while (!taking) usleep(1000); usleep(300000); }\n"
                   "__attribute__((noinline)) void take() { std::lock_guard<std::mutex> g(lock); asm volatile(\"\"); }\n"
                   "int main() { struct epoll_event e; int fd = epoll_create1(0);\n"
                   "std::thread t([] { hold(); while (!joining) usleep(1000); usleep(300000); });\n"
                   "for (int i = 0; i < 5 || taking < 2; i++) { epoll_wait(fd, &e, 1, 10);\n"
                   "if (taking) taking = 2; else if (i > 3 && held) { taking = 1; take(); } }\n"
                   "joining = 1; t.join(); }\n")
    program = os.path.join(WORK, "guards")
    subprocess.run(["c++", "-O2", "-g", "-pthread", "-o", program, source], check=True, timeout=120)
    path, _ = record([program], "--stall=100")
    told = report(path, "stalls")["stalls"]["stalls"]
    assert [s["hot_path"]["function"] for s in told] == ["take()"], told
    assert told[0]["cause"] == "lock", told
    kinds = [e["event"] for e in events(path)]
    assert kinds.count("stall") >= 1 and kinds.count("stall_sample") >= told[0]["samples"], kinds
    assert "excluded   1 wait for other threads to end" in sonde("report", path, "stalls")


def names_that_are_gone_are_said_once():
    program = compile_c(BLOCKS, "-O1", "-g", "-fno-builtin", out=os.path.join(WORK, "gone"))
    path, _ = record([program], "--malloc=malloc")
    shutil.copy("/bin/true", program + ".new")
    os.rename(program + ".new", program)
    for gone, reason in (False, "another build"), (True, "cannot be read"):
        if gone:
            os.unlink(program)
        text = sonde("report", path)
        assert text.count(program + ": ") == 1 and reason in text, text
        assert [(i["path"], reason in i["reason"]) for i in report(path)["without_names"]] == [(program, True)]


needs_agent()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
run_cases(globals())
