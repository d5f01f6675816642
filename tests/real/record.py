#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record on real programs: what it records is exact, nothing is lost to a kill, and the
program does not notice."""
import glob
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

from shared.cases import WORK, fresh, needs_agent, run, states_of, until

needs_agent()
SONDE = os.environ["SONDE"]
HERE = os.path.join(os.environ["SONDE_SOURCE"], "tests")
SEED = int(os.environ.get("SONDE_SEED", str(os.getpid())))
KILLS = int(os.environ.get("SONDE_KILLS", "40"))


def record(command, path=None, **how):
    path = path or fresh()
    done = subprocess.run([SONDE, "record", "--malloc", "-o", path, "--", *command], capture_output=True,
                          timeout=120, **how)
    return path, done


def report(path, *options, patience=120):
    done = subprocess.run([SONDE, "report", "--json", *options, path], capture_output=True,
                          check=True, timeout=patience)
    told = json.loads(done.stdout)
    return {**told, **told.get("malloc", {})}


def compile_c(name, *options):
    out = os.path.join(WORK, name)
    subprocess.run(["cc", "-O2", "-o", out, os.path.join(HERE, "real/record", name + ".c"),
                    *options], check=True)
    return out


WORKER = compile_c("worker", "-pthread")
ORACLE = compile_c("oracle", "-shared", "-fPIC", "-ldl")


def nothing_missing(r):
    assert not any(r["missing"].values()), r["missing"]


def totals_equal_an_independent_count():
    for threads, rounds in (1, 50000), (4, 30000), (16, 5000):
        said = fresh(".txt")
        # Set by env(1), so that it counts the worker and not sonde itself.
        path, done = record(["env", "LD_PRELOAD=" + ORACLE, "ORACLE=" + said, WORKER, str(threads),
                             str(rounds), fresh(".n"), "tell"])
        assert done.returncode == 0, done.stderr
        with open(said) as f:
            given, size, freed, moved = map(int, f.read().split())
        given, size, freed = given - 1, size - 1, freed - 1  # the agent tries the allocator once
        r = report(path)
        nothing_missing(r)
        # What the C library does while it shuts down comes after the oracle has told.
        assert r["allocated"]["blocks"] == given, (r["allocated"], given)
        assert r["allocated"]["bytes"] == size, (r["allocated"], size)
        assert r["reallocs"] == moved
        assert 0 <= r["frees"] - freed <= 8, (r["frees"], freed)
        assert r["unknown_frees"] == r["double_frees"] == r["overlaid"] == 0, r
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
    for library in ("", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4",
                    "libmimalloc.so.2"):
        libraries = glob.glob("/usr/lib/*/" + library) if library else []
        if library and not libraries:
            print("no", library, "here")
            continue
        program = os.path.join(WORK, "own")
        subprocess.run(["c++", "-O0", "-Wl,--no-as-needed", "-o", program, source, *libraries[:1]],
                       check=True)
        linked = subprocess.run(["ldd", program], capture_output=True, check=True).stdout.decode()
        assert library in linked, linked
        path, done = record([program])
        r = report(path)
        assert done.returncode == 0
        nothing_missing(r)
        assert 5071 < r["allocated"]["blocks"] < 5200, (libraries, r["allocated"])
        assert r["unknown_frees"] == r["double_frees"] == r["overlaid"] == 0, (libraries, r)
        assert r["live"]["blocks"] < 20, (libraries, r["live"])
    if not shutil.which("musl-gcc"):
        print("no musl here")
        return
    program = os.path.join(WORK, "musl")
    with open(program + ".c", "w") as f:
        f.write("#include <stdlib.h>\nint main(int argc, char **argv) { void *p; (void)argv;\n"
                "for (int i = 0; i < (argc > 1 ? 5000 : 70); i++) free(calloc(3, 40));\n"
                "if (posix_memalign(&p, 64, 500)) return 1; free(p); return 0; }\n")
    subprocess.run(["musl-gcc", "-O0", "-o", program, program + ".c"], check=True)
    path, done = record([program])
    r = report(path)
    assert done.returncode == 0 and r["allocated"]["blocks"] == r["frees"] == 71, r
    musl_stacks_search_no_list(program)


def musl_stacks_search_no_list(program):
    """They end where musl has no unwind information. That its loader's list was then searched for the mark that says
    so, by eight guarded reads, made an event cost 15 us."""
    if not shutil.which("strace"):
        print("no strace here")
        return
    counts, path = os.path.join(WORK, "musl.strace"), fresh()
    traced = subprocess.run(["strace", "-f", "-e", "trace=process_vm_readv", "-o", counts, SONDE, "record", "--malloc",
                             "-o", path, "--", program, "more"], capture_output=True)
    if traced.returncode:
        print("strace is not allowed here")
        return
    more = report(path)["events"]
    with open(counts) as f:
        reads = sum("process_vm_readv(" in line for line in f)
    print(f"musl: {reads} guarded reads, {more} events")
    assert more > 9000 and reads < 3 * more, (reads, more)


def _has_ended(pid):
    """Also where nobody waits for it."""
    try:
        return set(states_of(pid).values()) <= {"Z", "X"}
    except FileNotFoundError:
        return True


def a_killed_recorder_leaves_a_recording():
    path, counters = fresh(), fresh(".n")
    recorder = subprocess.Popen([SONDE, "record", "--malloc", "-o", path, "--", WORKER, "2",
                                 "100000000", counters], stderr=subprocess.DEVNULL)
    while not os.path.exists(counters):
        time.sleep(0.001)
    until(lambda: report(path)["events"] > 1000, "a thousand events")
    alive = report(path)  # while it is being written
    assert not alive["finished"]
    with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children") as f:
        worker = int(f.read().split()[0])
    recorder.kill()
    recorder.wait()
    size = os.path.getsize(path)
    until(lambda: os.path.getsize(path) >= size + 500000, "it goes on")
    os.kill(worker, signal.SIGKILL)
    until(lambda: _has_ended(worker), "it has ended")
    r = report(path)
    assert r["events"] > alive["events"] and r["arguments"][0] == WORKER, r["arguments"]
    assert r["missing"]["definitions"] == r["depth"]["undefined"] == 0, r["missing"]


def _live(seconds, threads, *pause):
    """Ordinary life in one recording, which is checked whole, and handed back."""
    program = os.path.join(WORK, "stress")
    if not os.path.exists(program):
        subprocess.run(["c++", "-O1", "-pthread", "-o", program,
                        os.path.join(HERE, "real/record/stress.cc"), "-ldl"], check=True)
    path = fresh()
    done = subprocess.run([SONDE, "record", "--malloc", "--sample=500", "--wall", "-o", path, "--",
                           program, str(seconds), str(threads), *pause], capture_output=True,
                          timeout=150 + 4 * seconds)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    r = report(path, patience=120 + seconds)
    nothing_missing(r)
    print(f"{seconds} s: {r['events']} events of {len(r['threads'])} threads, "
          f"{os.path.getsize(path) >> 20} MB, {r['live']['blocks']} blocks live", flush=True)
    assert r["finished"] and r["duration_ns"] > (seconds - 1) * 1e9, r["duration_ns"]
    assert r["unknown_frees"] == r["double_frees"] == r["overlaid"] == 0, r
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
    subprocess.run([SONDE, "pack", "--summary", "-o", small, path], check=True, capture_output=True,
                   timeout=120 + seconds)
    print(f"its summary: {os.path.getsize(small) >> 10} KB")
    assert os.path.getsize(small) <= 1 << 20
    summary = report(small)
    for what in "events", "allocated", "live", "peak", "frees":
        assert summary[what] == whole[what], (what, summary[what], whole[what])
    os.unlink(path)


def threads_have_their_last_names():
    program = compile_c("named", "-pthread")
    for arguments in [], ["again"]:
        path, done = record([program, *arguments])
        assert (done.returncode, done.stdout) == (0, b"done\n"), done
        small = fresh()
        subprocess.run([SONDE, "pack", "--summary", "-o", small, path], check=True, capture_output=True)
        for file in path, small:
            r = report(file)
            nothing_missing(r)
            names = sorted(t["name"] for t in r["threads"])
            assert names == ["before", "by-another", "by-prctl-cut-at", "by-pthread", "main-at-last"], names


def a_thousand_busy_threads_lose_nothing():
    """All alive at a time, each with as much to say as earns the first ones the largest chunks."""
    threads, rounds = 1000, 10000
    path, done = record([compile_c("crowd", "-pthread"), str(threads), str(rounds)])
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    r = report(path)
    nothing_missing(r)
    assert threads * rounds <= r["allocated"]["blocks"] < threads * (rounds + 10), r["allocated"]
    os.unlink(path)


def samples_are_without_bias():
    whole, _ = record([WORKER, "4", "100000"])
    whole = report(whole, "--by", "allocated")
    path = fresh()
    subprocess.run([SONDE, "record", "--malloc=sample:2K", "-o", path, "--", WORKER, "4", "100000"],
                   check=True, capture_output=True)
    r = report(path, "--by", "allocated")
    nothing_missing(r)
    assert r["sampled"] and r["events"] < whole["events"] / 3
    for what in "blocks", "bytes":
        ratio = r["allocated"][what] / whole["allocated"][what]
        print(f"sampled {what}: {ratio:.4f} of the true number, from {r['events']} events")
        assert 0.96 < ratio < 1.04, (what, ratio)
    assert r["unknown_frees"] == r["double_frees"] == r["overlaid"] == 0, r


def exported_stacks_add_up():
    path, _ = record(["perl", "-e", 'my %h; $h{$_}="x$_" for 1..20000;'])
    folded = subprocess.run([SONDE, "export", "--by", "allocated", path], capture_output=True,
                            check=True, text=True).stdout.splitlines()
    weights = [int(line.rsplit(" ", 1)[1]) for line in folded]
    assert sum(weights) == report(path)["allocated"]["bytes"]
    assert any(line.startswith("_start;") and ";main;" in line for line in folded), folded[:3]


def _burned(program):
    """What `burner` used, and what the samples tell of it."""
    path = fresh()
    done = subprocess.run([SONDE, "record", "--sample=250", "-o", path, "--", program],
                          capture_output=True, check=True)
    told = json.loads(subprocess.run([SONDE, "report", "--json", "--top", "1000", path],
                                     capture_output=True, check=True).stdout)["sample"]
    used, due = float(done.stdout), told["samples"]
    assert 0.9 < due / (250 * used) < 1.1, (told["samples"], told["missed"], used)
    return used, told


def cpu_time_is_where_it_is():
    program = compile_c("burner", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls")
    used, told = _burned(program)
    functions = {f["function"]: f for f in told["functions"]}
    whole = told["samples"]
    share = {n: functions.get(n, {"total": 0})["total"] / whole for n in ("three_parts", "one_part")}
    print(f"{whole} samples, {told['missed']} missed, of {used:.2f} s; {share}")
    assert 0.65 < share["three_parts"] < 0.85 and 0.15 < share["one_part"] < 0.35, share
    assert not any(n in functions for n in ("sleeper", "clock_nanosleep"))


def the_second_reader_agrees():
    path, _ = record([WORKER, "3", "3000"])
    ours = subprocess.run([SONDE, "events", "--stacks", path], capture_output=True, check=True)
    theirs = subprocess.run([sys.executable, os.path.join(HERE, "format/reader.py"), path],
                            capture_output=True, check=True)

    def by_thread(text):
        threads = {}
        for line in text.splitlines():
            e = json.loads(line)
            threads.setdefault(e["tid"], []).append(
                (e["event"], e["address"], e.get("old"), e.get("size"), e["stack"], e["frames"]))
        return threads

    assert by_thread(ours.stdout) == by_thread(theirs.stdout)
    assert len(ours.stdout.splitlines()) > 9000


def a_kill_loses_nothing():
    rng = random.Random(SEED)
    print("SONDE_SEED", SEED)
    middle = 0
    for _ in range(KILLS):
        path, counters = fresh(), fresh(".n")
        recorder = subprocess.Popen([SONDE, "record", "--malloc", "-o", path, "--", WORKER, "3", "100000000",
                                     counters], stderr=subprocess.DEVNULL)
        while not os.path.exists(counters):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.12)
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children") as f:
            os.kill(int(f.read().split()[0]), signal.SIGKILL)
        assert recorder.wait(150) == -signal.SIGKILL
        events = subprocess.run([SONDE, "events", path], capture_output=True, check=True).stdout
        found = {}
        for tid in re.findall(rb'"tid":(\d+)', events):
            found[int(tid)] = found.get(int(tid), 0) + 1
        with open(counters, "rb") as f:
            for tid, calls in struct.iter_unpack("<QQ", f.read()):
                if tid:
                    # In flight at the kill: one call that has returned and is not counted yet, and
                    # one that was recorded but has not returned.
                    extra = found.get(tid, 0) - calls
                    assert 0 <= extra <= 2, (tid, calls, found)
                    middle += calls > 0
        r = report(path)
        r["missing"]["skipped_bytes"] = 0  # a write that the kill cut off; the scratch had it
        nothing_missing(r)
        assert r["wait_status"] == signal.SIGKILL
        os.unlink(path)
    print(f"{middle} threads killed in the middle of {KILLS} runs")
    assert middle > KILLS


def statuses_are_the_commands_own():
    assert record(["sh", "-c", "exit 7"])[1].returncode == 7
    assert record(["sh", "-c", "kill -9 $$"])[1].returncode == -9
    assert record(["sh", "-c", "kill -ABRT $$"])[1].returncode == -6
    path, done = record(["/no/such/program"])
    assert done.returncode == 127 and not os.path.exists(path), done
    path, done = record(["/etc/passwd"])
    assert done.returncode == 126 and not os.path.exists(path), done
    assert record(["true"], path="/no/such/folder/x.sonde")[1].returncode == 125
    existing = fresh()
    open(existing, "w").close()
    assert record(["true"], path=existing)[1].returncode == 125
    static = os.path.join(WORK, "static")
    with open(static + ".c", "w") as f:
        f.write("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", static, static + ".c"], check=True)
    done = record([static])[1]
    assert done.returncode == 125 and b"statically linked" in done.stderr, done
    assert done.stderr.count(b"\n") == 1


def the_program_and_its_children_see_nothing():
    script = "env | sort; ls -l /proc/self/fd | wc -l; cat /proc/self/limits | head -3; ulimit -n"
    plain = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert record(["sh", "-c", script])[1].stdout == plain
    fds = "import os; print(sorted(f for f in map(int, os.listdir('/proc/self/fd')) if f < 512))"
    plain = subprocess.run(["python3", "-c", fds], capture_output=True, check=True).stdout
    assert record(["python3", "-c", fds])[1].stdout == plain
    own = dict(os.environ, LD_PRELOAD=ORACLE, ORACLE=fresh(".txt"))
    assert record(["sh", "-c", "echo $LD_PRELOAD"], env=own)[1].stdout.decode().strip() == ORACLE


def a_wrapper_hands_on():
    path, _ = record(["env", "A=1", "sh", "-c", f"exec {WORKER} 1 1000"])
    r = report(path)
    assert r["exe"] == WORKER, r["exe"]
    assert r["events"] > 1000


def arguments_do_not_drive_the_terminal():
    path, _ = record(["true", "a\x1b[31mb", "two\nlines", "\x7f"])
    told = subprocess.run([SONDE, "report", path], capture_output=True, check=True).stdout
    assert rb"true a\x1b[31mb two\nlines \x7f" in told, told[:300]
    assert not any(c < 32 and c != 10 or c == 127 for c in told), told
    assert report(path)["arguments"][1:] == ["a\x1b[31mb", "two\nlines", "\x7f"]


def forks_and_daemons_go_their_way():
    code = ("import os\nx=[str(i)*9 for i in range(9999)]\n"
            "if os.fork()==0:\n y=[str(i)*9 for i in range(99999)]; print(len(y), flush=True); os._exit(0)\n"
            "os.wait()\nprint('end')")
    path, done = record(["python3", "-c", code], env=dict(os.environ, PYTHONMALLOC="malloc"))
    assert done.stdout == b"99999\nend\n", done
    nothing_missing(report(path))
    marker = fresh(".txt")
    code = ("import os,time\nif os.fork(): os._exit(0)\nos.setsid()\n"
            "if os.fork(): os._exit(0)\nos.closerange(0,4096)\n"
            f"x=[str(i) for i in range(9999)]; open({marker!r},'w').write(str(len(x)))")
    path, done = record(["python3", "-c", code])
    assert done.returncode == 0
    report(path)
    until(lambda: os.path.exists(marker) and open(marker).read() == "9999", "the daemon's work")


def what_cannot_be_recorded_is_refused_in_words():
    done = record(["true"], path="/proc/nothing.sonde")[1]
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1, done
    done = subprocess.run(["sh", "-c", 'ulimit -f 512; "$0" record -o "$1" true', SONDE, fresh()], capture_output=True)
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1 and b"ulimit" in done.stderr, done
    if os.geteuid() == 0:
        other = os.path.join(WORK, "setuid")
        shutil.copy("/bin/true", other)
        os.chown(other, 65534, 65534)
        os.chmod(other, 0o4755)
        done = record([other])[1]
        assert done.returncode == 125 and b"setuid" in done.stderr, done
        assert done.stderr.count(b"\n") == 1
    else:
        folder = os.path.join(WORK, "read-only")
        os.mkdir(folder, 0o500)
        done = record(["true"], path=folder + "/x.sonde")[1]
        assert done.returncode == 125 and b"Permission denied" in done.stderr, done


def closed_descriptors_change_nothing():
    code = ("import os\nfor _ in range(3):\n os.closerange(3, 4096)\n"
            " x=[str(i)*20 for i in range(60000)]\n f=os.open('/dev/null',0)\n print(f, len(x), flush=True)")
    env = dict(os.environ, PYTHONMALLOC="malloc")
    plain = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, env=env).stdout
    for mode in "malloc", "live", "all":
        path = fresh()
        done = subprocess.run([SONDE, "record", "--malloc=" + mode, "-o", path, "--", "/usr/bin/python3",
                               "-c", code], capture_output=True, env=env)
        assert done.returncode == 0 and done.stdout == plain, (mode, done, plain)
        r = report(path)
        nothing_missing(r)
        assert r["events"] + r["snapshots"] > 0


def limits_stop_the_recording_and_not_the_program():
    code = "import sys; x=[bytes(i%99) for i in range(200000)]; print(len(x))"
    env = dict(os.environ, PYTHONMALLOC="malloc")

    # The limit is set inside: the recorder itself keeps what is left in the scratch.
    inner = ["sh", "-c", f"ulimit -f 100; exec python3 -c '{code}'"]
    path, done = record(inner, env=env)
    assert done.returncode == 0 and done.stdout == b"200000\n", done
    missing = report(path)["missing"]
    assert "RLIMIT_FSIZE" in missing["stopped"] and not missing["skipped_bytes"], missing
    assert b"stopped" in done.stderr
    for limit in "1K", "32K", "200K":  # too small for the definitions of stacks: it stops
        path = fresh()
        done = subprocess.run([SONDE, "record", "--malloc", "-o", path, "--limit", limit, "--", "python3", "-c",
                               code], capture_output=True, env=env)
        assert done.returncode == 0 and done.stdout == b"200000\n", done
        missing = report(path)["missing"]
        assert not missing["skipped_bytes"] and not missing["damaged_chunks"], (limit, missing)
    for mode in "all", "live", "vm":  # much less than there is room for
        path = fresh()
        done = subprocess.run([SONDE, "record", "--malloc=" + mode, "-o", path, "--limit", "64M", "--", "true"],
                              capture_output=True, check=True)
        nothing_missing(report(path))
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE,(8,8)); " + code
    path, done = record(["python3", "-c", code], env=env)
    assert done.returncode == 0 and done.stdout == b"200000\n", done
    nothing_missing(report(path))


def an_allocator_in_the_executable_is_told_of():
    source = os.path.join(WORK, "brings.c")
    with open(source, "w") as f:
        f.write("""#include <stddef.h>
static _Alignas(16) char room[1 << 20];
static size_t used;
void *malloc(size_t n) { size_t at = used; used += (n + 15) & ~(size_t)15; return room + at; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void free(void *p) { (void)p; }
int main(void) { return malloc(10) == malloc(10); }
""")
    for options, told in ([], True), (["-Dmalloc=mine", "-Dcalloc=cleared", "-Dfree=back"], False):
        program = source[:-2]
        subprocess.run(["cc", "-fno-builtin", "-o", program, source, *options], check=True)
        for mode in "all", "sample:512K", "vm":
            path = fresh()
            done = subprocess.run([SONDE, "record", "--malloc=" + mode, "-o", path, "--", program], capture_output=True,
                                  timeout=120)
            assert done.returncode == 0, done
            assert (b"a malloc in its executable" in done.stderr) == (told and mode != "vm"), (mode, done)


def a_recorder_killed_early_leaves_a_ring():
    path, counters = fresh(), fresh(".n")
    recorder = subprocess.Popen([SONDE, "record", "--malloc", "-o", path, "--limit", "1M", "--", WORKER, "2",
                                 "100000000", counters], stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(counters), "the worker")
    with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children") as f:
        worker = int(f.read().split()[0])
    recorder.kill()  # nearly always before it first brought its file up to date
    recorder.wait()
    until(lambda: any(report(path)["missing"].values()), "the ring is full")
    os.kill(worker, signal.SIGKILL)
    until(lambda: _has_ended(worker), "it has ended")
    missing = report(path)["missing"]
    assert missing["dropped_chunks"] and not missing["skipped_bytes"] and not missing["chunks"], missing


def a_full_disk_stops_the_recording_and_not_the_program():
    folder = os.path.join(WORK, "small")
    os.mkdir(folder)
    code = "x=[bytes(i%99) for i in range(300000)]; print(len(x))"
    script = (f"mount -t tmpfs -o size=256k none {folder} && "
              f"{SONDE} record --malloc -o {folder}/x.sonde -- python3 -c '{code}'; s=$?; "
              f"cp {folder}/x.sonde {WORK}/full.sonde; exit $s")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True,
                          env=dict(os.environ, PYTHONMALLOC="malloc"))
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        print("no mount namespace here: the full disk is not tried")
        return
    assert done.returncode == 0 and done.stdout == b"300000\n", done
    assert b"the disk is full" in done.stderr, done.stderr
    assert "disk is full" in report(os.path.join(WORK, "full.sonde"))["missing"]["stopped"]


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
            print(name, "is not here")
            continue
        env = dict(os.environ, PYTHONMALLOC="malloc")
        plain = subprocess.run(command, capture_output=True, env=env, timeout=150)
        # With the sampler's signals too.
        done = subprocess.run([SONDE, "record", "-o", fresh(), "--sample=500", "--", *command],
                              capture_output=True, env=env, timeout=150)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (name, done)
        path, done = record(command, env=env)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (name, done)
        r = report(path, "--top", "1")
        nothing_missing(r)
        assert r["overlaid"] == r["double_frees"] == 0, (name, r["overlaid"])
        share = r["depth"]["complete"] / r["allocated"]["blocks"]
        print(f"{name}: {r['events']} events, {100 * share:.2f} % of allocations with a complete "
              f"stack, {os.path.getsize(path) / r['events']:.1f} bytes an event")
        assert share >= 0.99, name


run(globals())
