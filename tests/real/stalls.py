#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The corpus of stalls with known culprits: who is named, by the tree of samples and by the single
stack that others take at the threshold; how long, why.

SONDE_SEED draws durations, phases and order; SONDE_ROUNDS repeats the corpus."""
import json
import os
import random
import subprocess

from helpers import SEED, fresh, needs_agent, output_of, run_cases
from shared.stalls import build, name, overlap, stalls, start, start_us

ROUNDS = int(os.environ.get("SONDE_ROUNDS", "1"))
THRESHOLDS = [100] if ROUNDS == 1 else [50, 100, 250]
NAMED_MIN = 0.95


def run_corpus(corpus, kinds, threshold, seed):
    path = fresh()
    recorder = start([corpus, str(seed), str(threshold), *kinds], threshold, path,
                     stdout=subprocess.PIPE)
    out, complaints = recorder.communicate(timeout=120)
    assert recorder.returncode == 0, complaints
    truths = [json.loads(line) for line in out.splitlines()]
    assert len(truths) == len(kinds)
    told, began = stalls(path), start_us(path)
    for truth in truths:
        found = [s for s in told["stalls"]
                 if overlap(s, truth["began_us"], truth["took_us"], began) > truth["took_us"] / 2]
        truth["stall"] = found[0] if found else None
    truth_count = sum(1 for t in truths if t["stall"])
    return truths, len(told["stalls"]) - truth_count


def judge(truth):
    """Named right; named right by the late stack; cause right."""
    stall, culprits = truth["stall"], truth["culprits"].split("|")
    if not stall:
        return False, False, False
    return (name(stall) in culprits, name(stall, "at_threshold") in culprits,
            stall["cause"] in truth["causes"].split("|") + ["waiting-for-cpu"] * was_starved(truth))


def was_starved(truth):
    """It waited for a CPU for nearly all of its time, by the kernel's own account."""
    return truth["starved_us"] > 9 * (truth["took_us"] - truth["starved_us"])


def off_ms(truth):
    """Of its length, where the thread was not kept from a CPU."""
    stall = truth["stall"]
    if not stall or stall["ending"] != "ended" or stall["waiting_for_cpu_ns"] or stall["unmonitored_ns"]:
        return None
    return abs(stall["length_ns"] / 1e6 - truth["took_us"] / 1e3)


def leaf(corpus, seed):
    """A blocked thread does not tell the register its leaf's caller is in: it is stopped for that, which
    the program must not see (it would abort), and the recorder must not take for its end. Each stop is
    one more wait for a CPU, so that on a busy machine there may be no stall left."""
    (truth,), _ = run_corpus(corpus, ["leaf"], 100, seed)
    functions = [frame.get("function") for frame in (truth["stall"] or {}).get("frames", [])]
    assert not functions or functions[:2] == ["leaf_call", "waits_in_leaf"], functions
    assert functions.count("leaf_call") <= 1, functions
    print("a leaf's caller was", "found" if functions else "not looked for: no stall was left")


def the_corpus_is_named():
    draw = random.Random(SEED)
    corpus = build("corpus")
    kinds = output_of(corpus, "--kinds").split()
    kinds.remove("leaf")
    plain = [k for k in kinds if not k.startswith("deadlock")]
    locked = [k for k in kinds if k.startswith("deadlock")]
    print(f"{len(kinds)} kinds, {ROUNDS} round(s), thresholds {THRESHOLDS} ms")
    leaf(corpus, draw.randrange(1 << 30))
    truths, extra = [], 0
    for _ in range(ROUNDS):
        for threshold in THRESHOLDS:
            order = draw.sample(plain, len(plain))
            half = len(order) // 2
            for batch in (order[:half] + locked[:1], order[half:] + locked[1:]):
                got, more = run_corpus(corpus, batch, threshold, draw.randrange(1 << 30))
                truths += got
                extra += more
    named = late = causes = 0
    print(f"{'kind':20} {'named':28} {'late stack':24} {'cause':12} share  length")
    for truth in sorted(truths, key=lambda t: kinds.index(t["kind"])):
        good, good_late, good_cause = judge(truth)
        named, late, causes = named + good, late + good_late, causes + good_cause
        stall = truth["stall"] or {}
        print(f"{truth['kind']:20} {('  ' if good else '! ') + name(stall):28} "
              f"{('  ' if good_late else '! ') + name(stall, 'late_stack'):24} "
              f"{stall.get('cause', '-') + ('' if good_cause else ' !'):12} "
              f"{stall.get('share', 0):5.2f}  {stall.get('length_ns', 0) / 1e6:.1f} of "
              f"{truth['took_us'] / 1e3:.1f} ms")
    offs = sorted(o for o in map(off_ms, truths) if o is not None)
    total = len(truths)
    print(f"named right by the tree of samples {named} of {total} ({100 * named / total:.1f} %), "
          f"by one stack at the threshold {late} ({100 * late / total:.1f} %); "
          f"cause right {causes} ({100 * causes / total:.1f} %)")
    if offs:
        print(f"length off by {offs[len(offs) // 2]:.2f} ms (median), {offs[-1]:.2f} ms (worst), of "
              f"{len(offs)} that always had a CPU")
    print(f"{extra} more stalls were reported than there were")
    assert named >= NAMED_MIN * total, "too few were named right"
    assert causes >= 0.9 * total, "too few causes"
    assert named >= late
    assert offs and offs[len(offs) // 2] <= 5
    assert extra == 0


needs_agent()
run_cases([the_corpus_is_named])
