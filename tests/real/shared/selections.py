# SPDX-License-Identifier: MIT
"""Ranges of time that a page can select, each with the report of the same range, for page/test/selections.mjs."""
import base64
import gzip
import json
import pathlib
import re

from helpers import sonde


def data_of(page):
    """The data of a page, as src/tool/report/exports/page/data.c writes them."""
    packed = re.search(r'id="data"[^>]*>([^<]*)<', pathlib.Path(page).read_text(encoding="utf-8"))[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def bin_of(data):
    """The step to which a selection snaps, in nanoseconds (binNs of page/src/axis.ts)."""
    return max([1000] + [data[name]["unit_ns"] for name in ("samples", "waits", "blocks", "call_sums") if data[name]["from"]])


def blocked_ns(waits, threads, low, high):
    """The blocked time of a range: each part of a wait that is in it, at the rate of its thread in the whole recording."""
    sampled, inside = {}, {}
    for wait in waits:
        tid, end, length = wait["tid"], wait["time_ns"], max(wait["period_ns"], 1)
        part = max(0, min(end, high) - max(end - length, low))
        sampled[tid] = sampled.get(tid, 0) + wait["period_ns"]
        inside[tid] = inside.get(tid, 0) + wait["period_ns"] * part / length
    rates = {thread["tid"]: thread["blocked_ns"] / sampled[thread["tid"]] for thread in threads if sampled.get(thread["tid"])}
    return sum(ns * rates.get(tid, 1) for tid, ns in inside.items())


def waits_of(recording):
    """The waits of a recording, as `sonde events` prints them."""
    lines = sonde("events", recording, timeout=600).splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"event":"wall",')]


def selections(recording, page, rng, count):
    """COUNT random ranges of a page: what to ask for, what the page snaps it to, the report of that, and the time for
    which its threads were blocked. The report counts a wait where it ends; the page divides it."""
    data = data_of(page)
    bin_ns, whole = bin_of(data), data["report"]
    waits, threads = waits_of(recording), whole.get("wall", {}).get("threads", [])
    ranked = ["--by", "allocated"] if whole.get("malloc", {}).get("allocated", {}).get("blocks") else []
    last = int(whole["duration_ns"] // bin_ns)
    found = []
    for _ in range(count if last > 2 else 0):
        low, high = (end * bin_ns for end in sorted(rng.sample(range(last), 2)))
        snapped = [low / 1e9, high / 1e9]
        asked = [max(0, end + rng.uniform(-0.4, 0.4) * bin_ns / 1e9) for end in snapped]
        told = json.loads(sonde("report", recording, "--json", "--top", "300", *ranked, "--from",
                                f"{snapped[0]:.9f}", "--to", f"{snapped[1] - 1e-9:.9f}", timeout=600))
        found.append({"asked": asked, "snapped": snapped, "report": told, "blocked_ns": blocked_ns(waits, threads, low, high),
                      "blocked_error_ns": 4 * data["waits"]["unit_ns"] * max(1, len(threads))})
    return found
