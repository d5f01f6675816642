#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The goroutines of a Go program (sonde stacks), compared with what its runtime prints on SIGQUIT: ids, states, reasons
and functions, of a process and of its core file; and while goroutines run all the time. Skipped if Go is missing.
usage: goroutines.py [ROUNDS], default 20."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from helpers import SONDE, WORK, run_cases, skip, sonde

if not shutil.which("go"):
    skip("go is not installed")
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 20

PROGRAM = r"""
package main

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"sync"
	"time"
)

var mu sync.Mutex
var wg sync.WaitGroup

//go:noinline
func worker(ch chan int, depth int) int {
	if depth > 0 {
		return worker(ch, depth-1) + 1
	}
	return <-ch
}

//go:noinline
func locker() { mu.Lock(); mu.Unlock() }

//go:noinline
func selecter(a, b chan int) {
	select {
	case <-a:
	case <-b:
	}
}

//go:noinline
func deep(n int, ch chan int) int {
	if n == 0 {
		return <-ch
	}
	return deep(n-1, ch) + n
}

//go:noinline
func busy(in, out chan int) {
	for n := range in {
		if n%3 == 0 {
			time.Sleep(time.Microsecond * time.Duration(n%7))
		}
		out <- deepBusy(n%20, n)
	}
}

//go:noinline
func deepBusy(depth, n int) int {
	if depth == 0 {
		return n + rand.Intn(3)
	}
	return deepBusy(depth-1, n) + 1
}

func main() {
	ch := make(chan int)
	mu.Lock()
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	for i := 0; i < 30; i++ {
		go worker(ch, i%4)
	}
	go locker()
	go locker()
	go time.Sleep(time.Hour)
	go selecter(ch, make(chan int))
	go l.Accept()
	go func() { ch2 := make(chan int); ch2 <- 1 }()
	go deep(100, ch)
	go func() { var c sync.Cond = *sync.NewCond(&sync.Mutex{}); c.L.Lock(); c.Wait() }()
	if len(os.Args) > 1 {
		for i := 0; i < 20; i++ {
			in, out := make(chan int), make(chan int)
			go busy(in, out)
			go func() {
				for n := 0; ; n++ {
					in <- n
					<-out
				}
			}()
		}
	}
	wg.Add(1)
	time.Sleep(50 * time.Millisecond)
	fmt.Println("ready")
	wg.Wait()
}
"""


def _build(*options):
    folder = os.path.join(WORK, "goroutines")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "program.go"), "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    program = os.path.join(folder, "program")
    subprocess.run(["go", "build", *options, "-o", program, "program.go"], cwd=folder, check=True,
                   env={**os.environ, "GO111MODULE": "off", "GOCACHE": os.path.join(WORK, "go-cache")})
    return program


def _start(program, *words):
    process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "GOTRACEBACK": "system"})
    assert process.stdout.readline() == "ready\n"
    return process


def _dumped(process):
    """The goroutines that the runtime prints: by id, the reason and the functions, innermost first."""
    process.send_signal(signal.SIGQUIT)
    _, text = process.communicate(timeout=60)
    found = {}
    for part in text.split("\n\n"):
        head = re.match(r"goroutine (\d+) \[([^\],]+)[^\]]*\]:\n", part)
        if head and head[1] != "0":  # a thread of the runtime
            names = re.findall(r"^([^\s(].*?)\((?:[^()]|\([^)]*\))*\)(?: fp=.*)?\n\t", part[head.end():], re.M)
            found[int(head[1])] = head[2], [n for n in names if not n.startswith("created by")]
    return found


def _plain(name):
    return name.removesuffix(".abi0")


def waiting_goroutines_are_those_of_the_runtime():
    program = _build()
    for _ in range(ROUNDS):
        process = _start(program)
        ours = {g["id"]: g for g in json.loads(sonde("stacks", "--json", process.pid))["goroutines"]}
        text = sonde("stacks", process.pid)
        theirs = _dumped(process)
        assert len(theirs) >= 38 and set(theirs) == set(ours), (set(theirs) ^ set(ours))
        for number, (reason, functions) in theirs.items():
            g = ours[number]
            if g.get("tid"):
                continue  # its stack is the thread's
            assert g["state"] == "waiting" and g["wait"] == reason and g["complete"], (g, reason)
            # The dump omits frames of deep stacks in the middle, and wrappers.
            names = [_plain(frame["function"]) for frame in g["frames"]]
            if len(functions) < 100:
                assert names == [_plain(f) for f in functions], (names, functions)
        assert "chan receive" in text and "created by main.main" in text and "not shown (--native)" in text, text


def why_says_where_they_wait():
    """The largest groups by function, line and reason are those of the list; what is left out is counted."""
    process = _start(_build())
    groups = collections.Counter()
    for g in json.loads(sonde("stacks", "--json", process.pid))["goroutines"]:
        if not g.get("system"):
            own = next(f for f in g["frames"] if f["function"].startswith(("main.", "net.")) and f["file"])
            own = next((f for f in g["frames"] if f["function"].startswith("main.")), own)
            groups[_plain(own["function"]), own["line"], g["wait"]] += 1
    told = sonde("why", process.pid)
    answer = json.loads(sonde("why", "--json", process.pid))
    process.kill()
    process.communicate()
    said = re.findall(r'(\d+)(?: goroutines? waits?)? in (\S+) \(program.go:(\d+)\) for "([^"]*)"', " ".join(told.split()))
    assert len(said) == 3 and f"all goroutines: sonde stacks {process.pid}." in " ".join(told.split()), told
    for count, function, line, reason in said:
        assert groups[function, int(line), reason] == int(count), (groups, told)
    most = sorted(groups.values(), reverse=True)[:3]
    assert [int(count) for count, *_ in said] == most and f"and {sum(groups.values()) - sum(most)} elsewhere" in told, told
    assert answer["healthy"] and answer["findings"][0]["amount"] == sum(groups.values()), answer


def a_core_file_has_the_same():
    program = _build()
    process = _start(program)
    live = {g["id"]: g for g in json.loads(sonde("stacks", "--json", process.pid))["goroutines"]}
    core = os.path.join(WORK, "goroutines", "core")
    if not shutil.which("gcore"):
        skip("gcore is not installed")
    subprocess.run(["gcore", "-o", core, str(process.pid)], check=True, capture_output=True)
    process.kill()
    process.communicate()
    dead = {g["id"]: g for g in json.loads(sonde("stacks", "--json", "--core", f"{core}.{process.pid}"))["goroutines"]}
    os.unlink(f"{core}.{process.pid}")
    assert set(live) == set(dead)
    for number, g in live.items():
        if not g.get("tid") and not g.get("system"):
            assert [f["pc"] for f in g["frames"]] == [f["pc"] for f in dead[number]["frames"]], (g, dead[number])
            assert g["wait"] == dead[number]["wait"] and dead[number]["complete"]


def moving_goroutines_are_whole_or_flagged():
    """Every stack that is said to be complete is one that the program can have."""
    program, process = _build(), None
    outcomes = collections.Counter()
    try:
        process = _start(program, "busy")
        for _ in range(ROUNDS * 10):
            done = subprocess.run([SONDE, "stacks", "--json", str(process.pid)], capture_output=True, check=True)
            for g in json.loads(done.stdout)["goroutines"]:
                names = [_plain(frame["function"]) for frame in g["frames"]]
                outcomes["thread" if g.get("tid") else "complete" if g["complete"] else "flagged"] += 1
                if g.get("tid") or not g["complete"]:
                    assert g.get("tid") or g["reason"], g
                    continue
                assert names[-1] == "runtime.goexit", names
                own = [name for name in names if name.startswith("main.")]
                if "main.busy" in own:
                    depth = own.count("main.deepBusy")
                    assert own == ["main.deepBusy"] * depth + ["main.busy"] and depth <= 20 or own[-1].startswith("main.main.func"), names
    finally:
        if process:
            process.kill()
            process.communicate()
    assert outcomes["complete"] > 10 * (outcomes["flagged"] + 1), outcomes
    print(dict(outcomes))


def without_debug_information_it_says_so():
    process = _start(_build("-ldflags=-w"))
    answer = json.loads(sonde("stacks", "--json", process.pid))
    process.kill()
    process.communicate()
    assert answer["goroutines"] == [] and "debug information" in answer["goroutines_missing"], answer


run_cases(globals())
