#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record on real programs: what it records is exact, nothing is lost to a kill, and the
program does not notice."""
import collections
import glob
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

from helpers import (
    SEED, SONDE, WORK, child_of, compile_c, events, fresh, kill, needs, needs_agent, needs_strace,
    nothing_missing, output_of, record, report, run_cases, second_reader, skip, skip_part, sonde, source_file,
    start_record, states_of, try_sonde, until, write)

needs_agent()
KILLS = int(os.environ.get("SONDE_KILLS", "6"))


def record_blocks(command, **how):
    return record(command, "--malloc", **how)


def blocks_of(path, *options, **how):
    """The report, and what it says of blocks beside the rest."""
    told = report(path, *options, **how)
    return {**told, **told.get("malloc", {})}


def build(name, *options):
    return compile_c(source_file("real", "record", name + ".c"), "-O2", *options, out=os.path.join(WORK, name))


WORKER = build("worker", "-pthread")
ORACLE = build("oracle", "-shared", "-fPIC", "-ldl")


def totals_equal_an_independent_count():
    for threads, rounds in (1, 50000), (4, 30000), (16, 5000):
        said = fresh(".txt")
        # Set by env(1), so that it counts the worker and not sonde itself.
        path, done = record_blocks(["env", "LD_PRELOAD=" + ORACLE, "ORACLE=" + said, WORKER, str(threads),
                             str(rounds), fresh(".n"), "tell"])
        assert done.returncode == 0, done.stderr
        with open(said) as f:
            given, size, freed, moved = map(int, f.read().split())
        given, size, freed = given - 1, size - 1, freed - 1  # the agent tries the allocator once
        r = blocks_of(path)
        nothing_missing(r)
        # What the C library does while it shuts down comes after the oracle has told.
        assert r["allocated"]["blocks"] == given, (r["allocated"], given)
        assert r["allocated"]["bytes"] == size, (r["allocated"], size)
        assert r["reallocs"] == moved
        assert 0 <= r["frees"] - freed <= 8, (r["frees"], freed)
        assert r["unknown_frees"] == r["double_frees"] == r["address_reuses"] == 0, r
        left = int(done.stdout)
        assert left <= r["live"]["blocks"] <= left + 8, (left, r["live"])


def other_allocators_and_libcs_are_exact():
    source = os.path.join(WORK, "own.cc")
    with open(source, "w") as f:
        f.write("#include <string>\n#include <vector>\n#include <stdlib.h>\nint main() {\n"
                "  std::vector<std::string> v;\n"
                "  for (int i = 0; i < 5000; i++) v.push_back(std::string(100 + i % 50, 'x'));\n"
                "  for (int i = 0; i < 70; i++) free(calloc(3, 40));\n"
                "  void *p; if (posix_memalign(&p, 64, 500)) return 1; free(p); }\n")
    compiled = compile_c(source, "-O0", "-c", compiler="c++", out=source + ".o")
    for library in ("", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4",
                    "libmimalloc.so.2"):
        libraries = glob.glob("/usr/lib/*/" + library) if library else []
        if library and not libraries:
            skip_part(library, "it is not installed")
            continue
        program = os.path.join(WORK, "own")
        compile_c(compiled, "-Wl,--no-as-needed", *libraries[:1], compiler="c++", out=program)
        linked = output_of("ldd", program)
        assert library in linked, linked
        path, done = record_blocks([program])
        r = blocks_of(path)
        assert done.returncode == 0
        nothing_missing(r)
        assert 5071 < r["allocated"]["blocks"] < 5200, (libraries, r["allocated"])
        assert r["unknown_frees"] == r["double_frees"] == r["address_reuses"] == 0, (libraries, r)
        assert r["live"]["blocks"] < 20, (libraries, r["live"])


MUSL = """
#include <stdlib.h>
int main(int argc, char **argv) {
  void *p;
  (void)argv;
  for (int i = 0; i < (argc > 1 ? 5000 : 70); i++) free(calloc(3, 40));
  if (posix_memalign(&p, 64, 500)) return 1;
  free(p);
  return 0;
}
"""


def musl_is_exact():
    needs("musl-gcc")
    path, done = record_blocks([compile_c(MUSL, "-O0", compiler="musl-gcc")])
    r = blocks_of(path)
    assert done.returncode == 0 and r["allocated"]["blocks"] == r["frees"] == 71, r


def musl_stacks_search_no_list():
    """They pass through code without unwind information and are whole. Each event once made guarded reads for them;
    now what the code showed is kept."""
    needs("musl-gcc")
    needs_strace()
    program = compile_c(MUSL, "-O0", compiler="musl-gcc")
    counts, path = os.path.join(WORK, "musl.strace"), fresh()
    output_of("strace", "-f", "-e", "trace=process_vm_readv", "-o", counts, SONDE, "record", "--malloc", "-o", path, "--",
              program, "more")
    more = blocks_of(path)["events"]
    with open(counts) as f:
        reads = sum("process_vm_readv(" in line for line in f)
    print(f"musl: {reads} guarded reads, {more} events")
    assert more > 9000 and reads < more // 4, (reads, more)


def a_frame_across_two_pages_is_checked_once():
    """The outermost frame ends in another page than it begins. Each event once checked a read there."""
    needs("musl-gcc", "setarch")
    needs_strace()
    program = compile_c(MUSL.replace("(void)argv;", 'printf("%lu\\n", (unsigned long)(argv - 1) % 4096);').replace(
        "#include <stdlib.h>", "#include <stdio.h>\n#include <stdlib.h>"), "-O0", compiler="musl-gcc")
    counts, path = os.path.join(WORK, "pages.strace"), fresh()

    def argument_count_in_page(padding):
        return int(output_of("setarch", "-R", "strace", "-f", "-e", "trace=process_vm_readv", "-o", counts, SONDE, "record",
                             "--malloc", "--force", "-o", path, "--", program, "more",
                             env=dict(os.environ, PADDING="x" * padding)))

    wanted = 0x20  # musl calls main from a frame that ends right below the count of arguments
    assert argument_count_in_page((argument_count_in_page(0) - wanted) % 4096) == wanted
    events = blocks_of(path)["events"]
    with open(counts) as f:
        reads = sum("process_vm_readv(" in line for line in f)
    assert events > 9000 and reads < events // 4, (reads, events)


def _has_ended(pid):
    """Also where nobody waits for it."""
    try:
        return set(states_of(pid).values()) <= {"Z", "X"}
    except FileNotFoundError:
        return True


def _calls_of(counters):
    """(tid, calls) of the threads that have begun."""
    with open(counters, "rb") as file:
        return [(tid, calls) for tid, calls in struct.iter_unpack("<QQ", file.read()) if tid]


def _start_worker(threads, *options):
    """It works until it is killed. Its recording, its recorder, and the file in which it counts its calls."""
    counters = fresh(".n")
    path, recorder = start_record([WORKER, threads, "100000000", counters], "--malloc", *options, stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(counters), "the worker counts")
    return path, recorder, counters


def a_killed_recorder_leaves_a_recording():
    path, recorder, _ = _start_worker("2")
    until(lambda: blocks_of(path)["events"] > 1000, "a thousand events")
    alive = blocks_of(path)  # while it is being written
    assert not alive["finished"]
    worker = child_of(recorder.pid)
    kill(recorder)
    size = os.path.getsize(path)
    until(lambda: os.path.getsize(path) >= size + 500000, "it goes on")
    os.kill(worker, signal.SIGKILL)
    until(lambda: _has_ended(worker), "it has ended")
    r = blocks_of(path)
    assert r["events"] > alive["events"] and r["arguments"][0] == WORKER, r["arguments"]
    assert r["missing"]["definitions"] == r["depth"]["undefined"] == 0, r["missing"]


def a_killed_recorder_that_nobody_waits_for(folder):
    """It stays a zombie, as under a first process of a container that waits for no one. Where the program ends by
    itself, only what the recorder would have added is missing, and every reader says so."""
    code = "import time; a = [bytes(9000) for _ in range(50)]; print(1, flush=True); input(); b = [bytes(9000) for _ in range(70)]"
    for ends in "by itself", "killed":
        path, recorder = start_record(["/usr/bin/python3", "-c", code], "--malloc=malloc", path=str(folder / "run.sonde"), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        recorder.stdout.readline()
        program = child_of(recorder.pid)
        alive = blocks_of(path)
        assert not alive["finished"] and "recorder" not in alive["missing"], alive["missing"]
        os.kill(recorder.pid, signal.SIGKILL)
        until(lambda: _has_ended(recorder.pid), "the recorder is a zombie")
        if ends == "killed":
            os.kill(program, signal.SIGKILL)
        recorder.stdin.close()
        until(lambda: _has_ended(program), "the program has ended")
        r = blocks_of(path)
        lost = {"recorder": True} if ends == "by itself" else {"recorder": True, "newest_events": True}
        assert {key: value for key, value in r["missing"].items() if value} == lost, (ends, r["missing"])
        assert "incomplete: its recorder was killed" in try_sonde("events", path).stderr
        assert ("1 orphaned recording," in sonde("clean", folder)) == (ends == "killed")
        if ends == "by itself":
            assert r["finished"] and "wait_status" not in r and r["arguments"][0] == "/usr/bin/python3", r
            assert r["depth"]["undefined"] == 0 and r["depth"]["complete"] == r["allocated"]["blocks"], r["depth"]
            assert r["allocated"]["bytes"] > 120 * 9000 and r["duration_ns"] > alive["duration_ns"], r["duration_ns"]
        recorder.wait()
        os.unlink(path)


def _live(seconds, threads, *pause):
    """Ordinary life in one recording, which is checked whole, and handed back."""
    program = os.path.join(WORK, "stress")
    if not os.path.exists(program):
        compile_c(source_file("real", "record", "stress.cc"), "-O1", "-pthread", "-ldl", compiler="c++", out=program)
    path, done = record([program, str(seconds), str(threads), *pause], "--malloc", "--sample=500", "--wall",
                        timeout=150 + 4 * seconds)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    r = blocks_of(path, timeout=120 + seconds)
    nothing_missing(r)
    print(f"{seconds} s: {r['events']} events of {len(r['threads'])} threads, "
          f"{os.path.getsize(path) >> 20} MB, {r['live']['blocks']} blocks live", flush=True)
    assert r["finished"] and r["duration_ns"] > (seconds - 1) * 1e9, r["duration_ns"]
    assert r["unknown_frees"] == r["double_frees"] == r["address_reuses"] == 0, r
    assert r["depth"]["undefined"] == 0 and r["depth"]["complete"] > 0.99 * r["allocated"]["blocks"]
    return path, r


def ordinary_life_does_not_hang_it():
    """At full speed, for long in parts: it makes more than 100 MB a second."""
    left, threads = map(int, os.environ.get("SONDE_STRESS", "1 16").split())
    while left > 0:
        path, _ = _live(min(left, 10), threads)
        left -= 10
        os.unlink(path)


def a_long_life_is_one_recording():
    """All of the time in one file: with pauses, as real programs have them, some 2 MB a second, 8 GB an
    hour. What pack makes of it says the same."""
    seconds, threads = map(int, os.environ.get("SONDE_STRESS", "1 16").split())
    path, whole = _live(seconds, threads, "100000")
    small = fresh()
    sonde("pack", "--summary", "-o", small, path, timeout=120 + seconds)
    print(f"its summary: {os.path.getsize(small) >> 10} KB")
    assert os.path.getsize(small) <= 1 << 20
    summary = blocks_of(small)
    for what in "events", "allocated", "live", "peak", "frees":
        assert summary[what] == whole[what], (what, summary[what], whole[what])
    os.unlink(path)


def threads_have_their_last_names():
    program = build("named", "-pthread")
    for arguments in [], ["again"]:
        path, done = record_blocks([program, *arguments])
        assert (done.returncode, done.stdout) == (0, b"done\n"), done
        small = fresh()
        sonde("pack", "--summary", "-o", small, path)
        for file in path, small:
            r = blocks_of(file)
            nothing_missing(r)
            names = sorted(t["name"] for t in r["threads"])
            assert names == ["before", "by-another", "by-prctl-cut-at", "by-pthread", "main-at-last"], names


def a_thousand_busy_threads_lose_nothing():
    """All alive at a time, each with as much to say as earns the first ones the largest chunks."""
    threads, rounds = 1000, 10000
    path, done = record_blocks([build("crowd", "-pthread"), str(threads), str(rounds)])
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    r = blocks_of(path)
    nothing_missing(r)
    assert threads * rounds <= r["allocated"]["blocks"] < threads * (rounds + 10), r["allocated"]
    os.unlink(path)


def samples_are_without_bias():
    whole, _ = record_blocks([WORKER, "4", "100000"])
    whole = blocks_of(whole, "--by", "allocated")
    path, done = record([WORKER, "4", "100000"], "--malloc=sample:2K")
    assert done.returncode == 0, done
    r = blocks_of(path, "--by", "allocated")
    nothing_missing(r)
    assert r["sampled"] and r["events"] < whole["events"] / 3
    for what in "blocks", "bytes":
        ratio = r["allocated"][what] / whole["allocated"][what]
        print(f"sampled {what}: {ratio:.4f} of the true number, from {r['events']} events")
        assert 0.96 < ratio < 1.04, (what, ratio)
    assert r["unknown_frees"] == r["double_frees"] == r["address_reuses"] == 0, r


def exported_stacks_add_up():
    path, _ = record_blocks(["perl", "-e", 'my %h; $h{$_}="x$_" for 1..20000;'])
    folded = sonde("export", "--by", "allocated", path).splitlines()
    weights = [int(line.rsplit(" ", 1)[1]) for line in folded]
    assert sum(weights) == blocks_of(path)["allocated"]["bytes"]
    assert any(line.startswith("_start;") and ";main;" in line for line in folded), folded[:3]


def _burned(program):
    """What `burner` used, and what the samples tell of it."""
    path, done = record([program], "--sample=250")
    assert done.returncode == 0, done
    told = report(path, "--top", 1000)["sample"]
    used, due = float(done.stdout), told["samples"]
    assert 0.9 < due / (250 * used) < 1.1, (told["samples"], told["missed"], used)
    return used, told


def cpu_time_is_where_it_is():
    program = build("burner", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls")
    used, told = _burned(program)
    functions = {f["function"]: f for f in told["functions"]}
    whole = told["samples"]
    share = {n: functions.get(n, {"total": 0})["total"] / whole for n in ("three_parts", "one_part")}
    print(f"{whole} samples, {told['missed']} missed, of {used:.2f} s; {share}")
    assert 0.65 < share["three_parts"] < 0.85 and 0.15 < share["one_part"] < 0.35, share
    assert not any(n in functions for n in ("sleeper", "clock_nanosleep"))


def the_second_reader_agrees():
    path, _ = record_blocks([WORKER, "3", "3000"])
    ours, theirs = ([e for e in read if "tid" in e and "address" in e] for read in (events(path, "--stacks"), second_reader(path)))

    def by_thread(listed):
        threads = {}
        for e in listed:
            threads.setdefault(e["tid"], []).append(
                (e["event"], e["address"], e.get("old"), e.get("size"), e["stack"], e["frames"]))
        return threads

    assert by_thread(ours) == by_thread(theirs)
    assert len(ours) > 9000


def a_kill_loses_nothing():
    rng = random.Random(SEED)
    middle = 0
    for _ in range(KILLS):
        path, recorder, counters = _start_worker("3")
        until(lambda: sum(calls > 0 for _, calls in _calls_of(counters)) == 3, "all threads work")
        time.sleep(rng.random() * 0.12)
        os.kill(child_of(recorder.pid), signal.SIGKILL)
        assert recorder.wait(150) == -signal.SIGKILL
        found = collections.Counter(map(int, re.findall(r'"tid":(\d+)', sonde("events", path))))
        for tid, calls in _calls_of(counters):
            # In flight at the kill: one call that has returned and is not counted yet, and
            # one that was recorded but has not returned.
            assert 0 <= found[tid] - calls <= 2, (tid, calls, found)
            middle += calls > 0
        r = blocks_of(path)
        r["missing"]["skipped_bytes"] = 0  # a write that the kill cut off; the scratch had it
        nothing_missing(r)
        assert r["wait_status"] == signal.SIGKILL
        os.unlink(path)
    print(f"{middle} threads killed in the middle of {KILLS} runs")
    assert middle == 3 * KILLS, middle


def statuses_are_the_commands_own():
    assert record_blocks(["sh", "-c", "exit 7"])[1].returncode == 7
    assert record_blocks(["sh", "-c", "kill -9 $$"])[1].returncode == -9
    assert record_blocks(["sh", "-c", "kill -ABRT $$"])[1].returncode == -6
    path, done = record_blocks(["/no/such/program"])
    assert done.returncode == 127 and not os.path.exists(path), done
    path, done = record_blocks(["/etc/passwd"])
    assert done.returncode == 126 and not os.path.exists(path), done
    assert record_blocks(["true"], path="/no/such/folder/x.sonde")[1].returncode == 125
    existing = fresh()
    pathlib.Path(existing).write_text("not a recording")
    assert record_blocks(["true"], path=existing)[1].returncode == 125


def the_program_and_its_children_see_nothing():
    script = "env | sort; ls -l /proc/self/fd | wc -l; cat /proc/self/limits | head -3; ulimit -n"
    plain = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert record_blocks(["sh", "-c", script])[1].stdout == plain
    fds = "import os; print(sorted(f for f in map(int, os.listdir('/proc/self/fd')) if f < 512))"
    plain = subprocess.run(["python3", "-c", fds], capture_output=True, check=True).stdout
    assert record_blocks(["python3", "-c", fds])[1].stdout == plain
    own = dict(os.environ, LD_PRELOAD=ORACLE, ORACLE=fresh(".txt"))
    assert record_blocks(["sh", "-c", "echo $LD_PRELOAD"], env=own)[1].stdout.decode().strip() == ORACLE


def a_wrapper_hands_on():
    path, _ = record_blocks(["env", "A=1", "sh", "-c", f"exec {WORKER} 1 1000"])
    r = blocks_of(path)
    assert r["exe"] == WORKER, r["exe"]
    assert r["events"] > 1000


def arguments_do_not_drive_the_terminal():
    path, _ = record_blocks(["true", "a\x1b[31mb", "two\nlines", "\x7f"])
    told = sonde("report", path, text=False)
    assert rb"true a\x1b[31mb two\nlines \x7f" in told, told[:300]
    assert not any(c < 32 and c != 10 or c == 127 for c in told), told
    assert blocks_of(path)["arguments"][1:] == ["a\x1b[31mb", "two\nlines", "\x7f"]


def forks_and_daemons_go_their_way():
    code = ("import os\nx=[str(i)*9 for i in range(9999)]\n"
            "if os.fork()==0:\n y=[str(i)*9 for i in range(19999)]; print(len(y), flush=True); os._exit(0)\n"
            "os.wait()\nprint('end')")
    path, done = record_blocks(["python3", "-c", code], env=dict(os.environ, PYTHONMALLOC="malloc"))
    assert done.stdout == b"19999\nend\n", done
    nothing_missing(blocks_of(path))
    marker = fresh(".txt")
    code = ("import os,time\nif os.fork(): os._exit(0)\nos.setsid()\n"
            "if os.fork(): os._exit(0)\nos.closerange(0,4096)\n"
            f"x=[str(i) for i in range(9999)]; open({marker!r},'w').write(str(len(x)))")
    path, done = record_blocks(["python3", "-c", code])
    assert done.returncode == 0
    blocks_of(path)
    until(lambda: os.path.exists(marker) and open(marker).read() == "9999", "the daemon's work")


def address_space_that_the_program_lacks_is_said():
    for limit, said in (300000, True), (3000000, False):
        done = subprocess.run(["sh", "-c", f'ulimit -v {limit}; "$0" record -o "$1" true', SONDE, fresh()],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and ("ulimit -v" in done.stderr) == said, done


def what_cannot_be_recorded_is_refused_in_words():
    done = record_blocks(["true"], path="/proc/nothing.sonde")[1]
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1, done
    for limit, option in (512, "--malloc"), (1, "--audit"):
        done = subprocess.run(["sh", "-c", f'ulimit -f {limit}; "$0" record {option} -o "$1" true', SONDE, fresh()],
                              capture_output=True, check=False)
        assert done.returncode == 125 and done.stderr.count(b"\n") == 1 and b"ulimit" in done.stderr, done
    if os.geteuid() == 0:
        other = os.path.join(WORK, "setuid")
        shutil.copy("/bin/true", other)
        os.chown(other, 65534, 65534)
        os.chmod(other, 0o4755)
        done = record_blocks([other])[1]
        assert done.returncode == 125 and b"setuid" in done.stderr, done
        assert done.stderr.count(b"\n") == 1
    else:
        folder = os.path.join(WORK, "read-only")
        os.mkdir(folder, 0o500)
        done = record_blocks(["true"], path=folder + "/x.sonde")[1]
        assert done.returncode == 125 and b"Permission denied" in done.stderr, done


def options_that_need_another_one_are_refused_alone():
    for option, needed, others in (("--no-waits", "--trace", []), ("--no-waits", "--trace", ["--malloc"]),
                                   ("--python-lines", "--malloc=live", []),
                                   ("--python-lines", "--malloc=live", ["--malloc=sample:512K"]),
                                   ("--python-lines", "--malloc=live", ["--malloc=vm"])):
        done = try_sonde("record", option, *others, "--", "true")
        assert done.returncode == 125 and f"{option} needs " in done.stderr and needed in done.stderr, done
    assert try_sonde("record", "-p", "1", "--no-waits").returncode == 2
    for options in (["--trace", "--no-waits"], ["--malloc=live", "--python-lines"], ["--leaks", "--python-lines"],
                    ["--malloc=off", "--python-lines"]):
        assert record(["true"], *options)[1].returncode == 0, options


def closed_descriptors_change_nothing():
    code = ("import os\nfor _ in range(3):\n os.closerange(3, 4096)\n"
            " x=[str(i)*20 for i in range(20000)]\n f=os.open('/dev/null',0)\n print(f, len(x), flush=True)")
    env = dict(os.environ, PYTHONMALLOC="malloc")
    plain = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, env=env).stdout
    for mode in "malloc", "live", "all":
        path, done = record(["/usr/bin/python3", "-c", code], "--malloc=" + mode, env=env)
        assert done.returncode == 0 and done.stdout == plain, (mode, done, plain)
        r = blocks_of(path)
        nothing_missing(r)
        assert r["events"] + r["snapshots"] > 0


def limits_stop_the_recording_and_not_the_program():
    code = "import sys; x=[bytes(i%99) for i in range(100000)]; print(len(x))"
    env = dict(os.environ, PYTHONMALLOC="malloc")

    # The limit is set inside: the recorder itself keeps what is left in the scratch.
    inner = ["sh", "-c", f"ulimit -f 100; exec python3 -c '{code}'"]
    path, done = record_blocks(inner, env=env)
    assert done.returncode == 0 and done.stdout == b"100000\n", done
    missing = blocks_of(path)["missing"]
    # The recorder has no such limit. If it was the last to write, the program's gap is over: nothing has stopped.
    assert "RLIMIT_FSIZE" in missing.get("stopped", missing.get("gap_reason")) and not missing["skipped_bytes"], missing
    assert (b"stopped" if "stopped" in missing else b"RLIMIT_FSIZE") in done.stderr, done.stderr
    for limit in "1K", "32K", "200K":  # too small for the definitions of stacks: it stops
        path, done = record(["python3", "-c", code], "--malloc", "--limit", limit, env=env)
        assert done.returncode == 0 and done.stdout == b"100000\n", done
        missing = blocks_of(path)["missing"]
        assert not missing["skipped_bytes"] and not missing["damaged_chunks"], (limit, missing)
    cut = pathlib.Path(fresh())
    cut.write_bytes(pathlib.Path(path).read_bytes()[:-5])
    damaged = [line for line in sonde("report", cut).splitlines() if line.startswith("  damaged ")]
    assert "  damaged    1 chunk of the file" in damaged and not [line for line in damaged if " 0 " in line], damaged
    for option in ("--limit", "10"), ("--limit", "64 apples"):
        done = try_sonde("record", *option, "--", "true")
        assert done.returncode == 125 and "at least 1K" in done.stderr, done
    done = try_sonde("report", "--app", "", path)
    assert done.returncode == 2 and "take a glob" in done.stderr, done
    for mode in "all", "live", "vm":  # much less than there is room for
        path, done = record(["true"], "--malloc=" + mode, "--limit", "64M")
        assert done.returncode == 0, done
        nothing_missing(blocks_of(path))
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE,(8,8)); " + code
    path, done = record_blocks(["python3", "-c", code], env=env)
    assert done.returncode == 0 and done.stdout == b"100000\n", done
    nothing_missing(blocks_of(path))


def an_allocator_in_the_executable_is_told_of():
    source = write("""#include <stddef.h>
static _Alignas(16) char room[1 << 20];
static size_t used;
void *malloc(size_t n) { size_t at = used; used += (n + 15) & ~(size_t)15; return room + at; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void free(void *p) { (void)p; }
int main(void) { return malloc(10) == malloc(10); }
""", ".c")
    for options, told in ([], True), (["-Dmalloc=mine", "-Dcalloc=cleared", "-Dfree=back"], False):
        program = compile_c(source, "-fno-builtin", *options)
        for mode in "all", "sample:512K", "vm":
            _, done = record([program], "--malloc=" + mode)
            assert done.returncode == 0, done
            assert (b"a malloc in its executable" in done.stderr) == (told and mode != "vm"), (mode, done)


def a_recorder_killed_early_leaves_a_ring():
    path, recorder, _ = _start_worker("2", "--limit", "1M")
    worker = child_of(recorder.pid)
    kill(recorder)  # nearly always before it first brought its file up to date
    until(lambda: blocks_of(path)["missing"]["dropped_chunks"], "the ring is full")
    os.kill(worker, signal.SIGKILL)
    until(lambda: _has_ended(worker), "it has ended")
    missing = blocks_of(path)["missing"]
    assert missing["dropped_chunks"] and not missing["skipped_bytes"] and not missing["chunks"], missing


def a_full_disk_stops_the_recording_and_not_the_program():
    folder = os.path.join(WORK, "small")
    os.mkdir(folder)
    code = "x=[bytes(i%99) for i in range(300000)]; print(len(x))"
    script = (f"mount -t tmpfs -o size=256k none {folder} && "
              f"{SONDE} record --malloc --keep-free=0 -o {folder}/x.sonde -- python3 -c '{code}'; s=$?; "
              f"cp {folder}/x.sonde {WORK}/full.sonde; exit $s")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True,
                          env=dict(os.environ, PYTHONMALLOC="malloc"))
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        skip("no mount namespace can be made")
    assert done.returncode == 0 and done.stdout == b"300000\n", done
    assert b"the disk is full" in done.stderr, done.stderr
    assert "disk is full" in blocks_of(os.path.join(WORK, "full.sonde"))["missing"]["stopped"]


def real_programs_do_what_they_did():
    sql = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c "
           "where x<20000) insert into t select x, hex(x) from c; create index i on t(b); "
           "select count(*),sum(a) from t where b>'3';")
    commands = {
        "sqlite3": ["sqlite3", ":memory:", sql],
        "python3": ["python3", "-c", "import json; print(json.loads(json.dumps([1.5]*9999))[-1])"],
        "perl": ["perl", "-e", 'my %h; $h{$_}="x$_" for 1..20000; print scalar(keys %h)'],
        "git": ["git", "--version"],
        "bash": ["bash", "-c", "for i in 1 2 3; do echo $i | cat; done"],
        "node": ["node", "-e", "console.log([...Array(9999).keys()].map(String).length)"],
        "gdb": ["gdb", "-batch", "-ex", "print 6*7"],
    }
    for name, command in commands.items():
        if not shutil.which(command[0]):
            skip_part(name, "it is not installed")
            continue
        env = dict(os.environ, PYTHONMALLOC="malloc")
        plain = subprocess.run(command, capture_output=True, env=env, timeout=150)
        # With the sampler's signals too.
        _, done = record(command, "--sample=500", env=env)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (name, done)
        path, done = record_blocks(command, env=env)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (name, done)
        r = blocks_of(path, "--top", "1")
        nothing_missing(r)
        assert r["address_reuses"] == r["double_frees"] == 0, (name, r["address_reuses"])
        share = r["depth"]["complete"] / r["allocated"]["blocks"]
        print(f"{name}: {r['events']} events, {100 * share:.2f} % of allocations with a complete "
              f"stack, {os.path.getsize(path) / r['events']:.1f} bytes an event")
        assert share >= 0.99, name


run_cases(globals())
