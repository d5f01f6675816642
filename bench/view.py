#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of a large recording: one million samples and one million live blocks. Measures how long the page takes to
write, how large it is, how much memory sonde needs, how long a browser takes to open it, and the time of a frame while
a graph of 100,000 stacks is zoomed (headless Chromium, software rendering). A log of GIGABYTES, with some 150 million
events each, is last.

usage: bench/view.py [ROUNDS] [GIGABYTES]      after a build"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
GIGABYTES = float(sys.argv[2]) if len(sys.argv) > 2 else 1
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("SONDE_BUILD") or os.path.join(SOURCE, "build-test")
SONDE = os.environ.get("SONDE") or os.path.join(BUILD, "bin", "sonde")
MAKE = os.path.join(BUILD, "bench", "replay_bench")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def written(recording, page):
    """Seconds of wall-clock and CPU time, and the most resident memory, to write the page."""
    began = time.monotonic()
    process = subprocess.Popen([SONDE, "view", recording, "-o", page], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def opened(page):
    """What page/test/frames.mjs measures, or None."""
    if not CHROMIUM or not os.path.isdir(os.path.join(SOURCE, "page", "node_modules", "playwright-core")):
        return None
    run = subprocess.run(["node", os.path.join(SOURCE, "page", "test", "frames.mjs"), CHROMIUM, page],
                         capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def told(what, recording, folder, rounds, open_it):
    page = os.path.join(folder, "page.html")
    runs = [written(recording, page) for _ in range(rounds)]
    wall, cpu, rss = min(r[0] for r in runs), min(r[1] for r in runs), max(r[2] for r in runs)
    print(f"{what}: written in {wall:.1f} s ({cpu:.1f} s of CPU time), {rss / 1e6:.0f} MB of memory, "
          f"{os.path.getsize(page) / 1e6:.1f} MB", flush=True)
    found = open_it and opened(page)
    if found:
        print(f"  opened in {found['open_ms'] / 1000:.1f} s ({found['open_cpu_ms'] / 1000:.1f} s of CPU time); a zoom of "
              f"the graph takes {found['median_ms']:.0f} ms at the median, {found['p99_ms']:.0f} ms at p99, of "
              f"{found['frames']} frames")


def main():
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as folder:
        million, large = os.path.join(folder, "million.sonde"), os.path.join(folder, "large.sonde")
        subprocess.run([MAKE, "page", million, "1000000"], check=True)
        told("1,000,000 samples and 1,000,000 live blocks", million, folder, ROUNDS, True)
        free = shutil.disk_usage(folder).free
        if GIGABYTES * 1.3e9 > free:
            print(f"skipped: {GIGABYTES} GB do not fit on the disk")
            return
        subprocess.run([MAKE, "make", large, str(int(GIGABYTES * 1000)), "1000000"], check=True)
        told(f"a log of {os.path.getsize(large) / 1e9:.1f} GB", large, folder, 1, False)


main()
