#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Go program, which is static, under `sonde record`: its functions have the CPU time that its threads measured, from
the first instruction on, and its end is its own. Skipped if Go is missing.
usage: go_record.py [ROUNDS], default 5."""
import os
import shutil
import subprocess
import sys

from helpers import WORK, record, report, run_cases, skip

if not shutil.which("go"):
    skip("go is not installed")
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 5

PROGRAM = r"""
package main

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func used() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(1, &u) // RUSAGE_THREAD
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:noinline
func spins(limit time.Duration) int {
	n := 0
	for end := used() + limit; used() < end; {
		for i := 0; i < 100000; i++ {
			n += i
		}
	}
	return n
}

//go:noinline
func begins() int { return spins(100*time.Millisecond) + 1 }

//go:noinline
func one() int { return spins(200*time.Millisecond) + 1 }

//go:noinline
func two() int { return spins(400*time.Millisecond) + 1 }

var began = begins()

func waits(gate chan int) { <-gate }

func main() {
	var all sync.WaitGroup
	gate := make(chan int)
	go waits(gate)
	for _, f := range []func() int{one, two} {
		all.Add(1)
		go func(f func() int) {
			defer all.Done()
			runtime.LockOSThread()
			f()
		}(f)
	}
	all.Wait()
	os.Exit(3)
}
"""
EXPECTED = {"main.begins": 0.1, "main.one": 0.2, "main.two": 0.4}


def functions_have_their_time(folder):
    (folder / "timed.go").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(["go", "build", "-o", folder / "timed", folder / "timed.go"], check=True,
                   env=dict(os.environ, CGO_ENABLED="0", GOCACHE=os.path.join(WORK, "go")))
    for _ in range(ROUNDS):
        path, done = record([folder / "timed"], "--sample=200", text=True)
        assert done.returncode == 3 and "statically linked" in done.stderr, done
        told = report(path, "sample", "--top", 1000)["sample"]
        functions = {f["function"]: f["total"] / 200 for f in told["functions"]}
        print({name: functions.get(name) for name in EXPECTED}, told["cpu_time"]["unsampled"])
        for name, seconds in EXPECTED.items():
            assert abs(functions.get(name, 0) - seconds) < 0.2 * seconds + 0.02, (name, functions)


run_cases(globals())
