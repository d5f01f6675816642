#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --follow: children are recorded to files of their own, however they come about, and
notice nothing; without it they are left alone."""
import glob
import os
import pathlib
import subprocess
import time

from helpers import WORK, needs_agent, nothing_missing, record, report, run_cases, start_record

needs_agent()
CODE = """
import os, subprocess, sys
held = [bytes(5000) for _ in range(100)]
def child():
    mine = [bytes(6000) for _ in range(200)]
    del held[:50]
    grandchild = os.fork()
    if grandchild == 0:
        more = [bytes(7000) for _ in range(300)]
        os._exit(0)
    os.waitpid(grandchild, 0)
    os._exit(0)
pid = os.fork()
if pid == 0: child()
os.waitpid(pid, 0)
print(subprocess.run(["/bin/echo", "execve"], stdout=subprocess.PIPE).stdout)
print(subprocess.run(["/bin/echo", "environment"], env={"A": "1"}, stdout=subprocess.PIPE).stdout)
sys.stdout.flush()
os.system("/bin/echo system")
pid = os.posix_spawn("/bin/echo", ["echo", "posix_spawn"], {"B": "1"})
os.waitpid(pid, 0)
"""


def run_script(*options, script=CODE):
    path = os.path.join(WORK, "run.sonde")
    for old in glob.glob(os.path.join(WORK, "*.sonde")):
        os.unlink(old)
    _, done = record(["/usr/bin/python3", "-c", script], *options, path=path)
    assert done.returncode == 0, done
    children = sorted(glob.glob(os.path.join(WORK, "run.*.sonde")))
    return path, children, done


def whole_report(path):
    told = report(path, "--top", 100000)
    nothing_missing(told)
    return told


def children_have_files_of_their_own():
    plain = subprocess.run(["/usr/bin/python3", "-c", CODE], capture_output=True, check=True).stdout
    path, children, done = run_script("--follow", "--malloc=malloc")
    assert done.stdout == plain, (done.stdout, plain)
    told = [whole_report(p) for p in children]
    assert all(t["finished"] and "wait_status" not in t for t in told)
    words = sorted(" ".join(t["arguments"][1:]) for t in told if t["arguments"][0].endswith("echo"))
    print(len(children), "children:", words)
    assert words == ["environment", "execve", "posix_spawn", "system"], words
    forked = [t for t in told if t["arguments"][0].startswith("/usr/bin/python3")]
    assert len(forked) == 2, [t["arguments"][:2] for t in told]
    for t in forked:
        m = t["malloc"]
        assert m["unknown_frees"] == m["double_frees"] == m["address_reuses"] == 0, m
        assert m["depth"]["undefined"] == 0 and m["depth"]["complete"] > 0.99 * m["allocated"]["blocks"]
    child, grandchild = sorted(forked, key=lambda t: t["malloc"]["allocated"]["bytes"])
    assert child["malloc"]["allocated"]["bytes"] >= 200 * 6000
    assert child["malloc"]["prerecording_frees"] >= 50, child["malloc"]["prerecording_frees"]
    assert grandchild["malloc"]["allocated"]["bytes"] >= 300 * 7000
    assert whole_report(path)["malloc"]["allocated"]["bytes"] >= 100 * 5000


def samples_and_live_blocks_too():
    burn = ("import os,time\nif os.fork()==0:\n held=[bytes(5000) for _ in range(1000)]\n"
            " end=time.process_time()+0.4\n while time.process_time()<end: pass\n os._exit(7)\n"
            "assert os.WEXITSTATUS(os.wait()[1]) == 7")
    _, children, _ = run_script("--follow", "--malloc=live", "--sample=200", script=burn)
    assert len(children) == 1
    told = whole_report(children[0])
    print("a forked child:", told["sample"]["samples"], "samples,", told["malloc"]["live"])
    taken = told["sample"]["samples"]
    assert 60 < taken < 100, taken
    assert 1000 <= told["malloc"]["live"]["blocks"] < 1100


def wall_time_of_children_too():
    sleep = ("import os,time\npid=os.fork()\nif pid==0:\n time.sleep(2); os._exit(0)\n"
             "os.waitpid(pid,0)\n")
    path, children, _ = run_script("--follow", "--wall=200", script=sleep)
    assert len(children) == 1
    for file, call in (path, "wait4"), (children[0], "clock_nanosleep"):
        wall = whole_report(file)["wall"]
        asleep = sum(s["time_ns"] for s in wall["stacks"] if s.get("syscall") == call)
        print(f"{call}: {asleep / 1e9:.2f} s of {wall['seen_ns'] / 1e9:.2f}")
        assert 1.5e9 < asleep <= wall["blocked_ns"], (file, wall["stacks"])


def without_it_children_are_left_alone():
    _, children, _ = run_script("--malloc=malloc")
    assert not children


def _killed_recorder(folder, *options):
    """A recording whose recorder is killed before its program ends. A shell ends by _exit, without the destructors that
    complete the recording elsewhere."""
    path, recorder = start_record(["/bin/sh", "-c", "cat; :"], *options, "--malloc", path=str(folder / "run.sonde"),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    recorder.stdin.write(b"ready\n")
    recorder.stdin.flush()
    recorder.stdout.readline()
    recorder.kill()
    recorder.wait()
    recorder.stdin.close()
    assert recorder.stdout.read() == b""  # its writers have ended
    return path


def of_a_killed_recorder_parent_and_child_are_whole(folder):
    _killed_recorder(folder, "--follow")
    recordings = {report(found)["arguments"][0]: report(found) for found in glob.glob(str(folder / "*.sonde"))}
    assert sorted(recordings) == ["/bin/sh", "cat"], sorted(recordings)
    for told in recordings.values():
        assert told["finished"] and {key for key, value in told["missing"].items() if value} == {"recorder"}, told
        assert told["malloc"]["allocated"]["blocks"] > 0, told


def a_place_that_a_killed_recorder_did_not_fill_is_no_damage(folder):
    """It reserves the place of a chunk, and then writes: a kill in between leaves zeros."""
    killed = _killed_recorder(folder)
    whole, _ = record(["true"], "--malloc")
    for source, filling, skipped in (killed, b"\0", 0), (killed, b"x", 112), (whole, b"\0", 112):
        content = pathlib.Path(source).read_bytes()
        chunks = content.index(b"CHNK")
        changed = folder / "changed.sonde"
        changed.write_bytes(content[:chunks] + filling * 112 + content[chunks:])
        missing = report(changed)["missing"]
        assert missing["skipped_bytes"] == skipped and not missing["chunks"], (source, filling, missing)


def a_daemon_is_recorded_to_its_end():
    code = ("import os,time\nif os.fork(): os._exit(0)\nos.setsid()\n"
            "if os.fork(): os._exit(0)\nos.close(0); os.close(1); os.close(2)\ntime.sleep(0.5)\n"
            "held=[bytes(9000) for _ in range(500)]\n")
    began = time.time()
    _, children, _ = run_script("--follow", "--malloc=malloc", script=code)
    assert time.time() - began > 0.5
    largest = max(whole_report(p)["malloc"]["allocated"]["bytes"] for p in children)
    assert largest > 500 * 9000, largest


run_cases(globals())
