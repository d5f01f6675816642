#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are the tests of the frame cache worth their time? Each condition that makes the cache sound is taken out of a copy of
the sources, and a test must fail: that of random programs, or another one of those that compare stacks. docs/unwinding.md
tells the conditions.

usage: mutations.py [WORDS…]      the mutations whose name holds one of the WORDS"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ("stress_test", "stack_test", "tips_test", "capture_test")
TRIES, SECONDS = 3, 60

# name, file, and pairs: what stands there once, what stands there instead
MUTATIONS = (
    ("outer return addresses are not read again", "src/lib/capture/frame_cache.h",
     ("return *stack_window_at(w, e->slot) ^ e->raw;",
      "(void)w; (void)e; return 0;")),
    ("saved frame pointers are not read again", "src/lib/capture/frame_cache.h",
     ("return (*(stack_window_at(w, e->slot) - e->restored_words) ^ e->fp) & verified;",
      "(void)w; (void)verified; return 0;")),
    ("chained frame pointers are not read again", "src/lib/capture/frame_cache.c",
     ("return (at[0] ^ e->raw) | (at[-1] ^ (e[1].slot - 8));",
      "return at[0] ^ e->raw;")),
    ("return addresses of chained frames are not read again", "src/lib/capture/frame_cache.c",
     ("return (at[0] ^ e->raw) | (at[-1] ^ (e[1].slot - 8));",
      "return at[-1] ^ (e[1].slot - 8);")),
    ("the frame pointer is not compared where a walk meets the cache", "src/lib/capture/frame_cache.c",
     ("(!(e->bits & ENTRY_FP_LIVE) || (p->fp_at && *p->fp_at == e->fp))",
      "true")),
    ("the return address is not compared where a walk meets the cache", "src/lib/capture/frame_cache.c",
     ("!((e->slot ^ p->slot) | (e->raw ^ p->raw))",
      "!(e->slot ^ p->slot)")),
    ("frames inside an interpreted one are kept", "src/lib/capture/frame_cache.c",
     ("      fresh->plain = on.count;\n      on.rule = 0;",
      "      on.rule = 0;"),
     ("      fresh->plain = on.count + 1;\n      end = pass(",
      "      end = pass(")),
    ("the cache outlives a change of the loaded images", "src/lib/capture/frame_cache.c",
     ("if (cache && cache->epoch == epoch && cache->top < FRAME_CACHE_ENTRIES) {",
      "if (cache && cache->top < FRAME_CACHE_ENTRIES) {")),
    ("frames outlive their image", "src/lib/capture/frame_table.c",
     ("  if (!image_check(image)) return false;",
      "")),
    ("a capture inside a capture uses the cache", "src/lib/capture/thread_state.c",
     ("if (UNLIKELY(self->busy && still_busy(self, sp))) return NULL;",
      "")),
    ("the words of a tip are not compared", "src/lib/capture/frame_cache.h",
     ("if (UNLIKELY(*at != prediction_content(word))) return 0;",
      "(void)at;")),
    ("the frame pointer of a tip is not compared", "src/lib/capture/frame_cache.h",
     (" || (tip->live && tip->fp != fp)) return 0;",
      ") return 0;\n  (void)fp;")),
    ("the chained frame pointers of a tip are not compared", "src/lib/capture/frame_cache.h",
     ("if (word & PREDICTION_CHAINED && UNLIKELY(at[-1] != sp - 16 + prediction_distance(tip->words[i + 1]) * 8))\n      return 0;",
      "")),
    ("the entry that a tip joins is not compared", "src/lib/capture/frame_cache.h",
     ("if (UNLIKELY(tip->join < cache->top || join->slot != sp - 8 + tip->join_words * 8 ||\n               join->id != tip->join_id || !(join->bits & ENTRY_STACK_ID) || join->fp != tip->join_fp))\n    return 0;",
      "")),
    ("what lies outside a tip is not compared", "src/lib/capture/frame_cache.h",
     ("return LIKELY(frame_cache_first_changed(cache, w, tip->join + 1) == FRAME_CACHE_ENTRIES) ? tip->id : 0;",
      "return tip->id;")),
)


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-2000:]}")


def copy(folder):
    for name in ("CMakeLists.txt", "src", "include", "tests", "cmake", "examples", "bench"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DSONDE_COMMAND=OFF")


def build(folder):
    run("ninja", "-C", folder / "build", *TESTS)


def changed(what, text, changes):
    for before, after in changes:
        if text.count(before) != 1:
            sys.exit(f"{what}: the source has changed, {before!r} stands there {text.count(before)} times")
        text = text.replace(before, after)
    return text


def fails(folder, test):
    try:
        done = subprocess.run([folder / "build" / "tests" / test], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in (0, 77)


def caught_by(folder):
    """The first test that fails, and at which attempt; None when none does."""
    return next(((test, n) for test in TESTS for n in range(1, TRIES + 1) if fails(folder, test)), None)


def main():
    wanted = [m for m in MUTATIONS if len(sys.argv) < 2 or any(word in m[0] for word in sys.argv[1:])]
    survived = 0
    with tempfile.TemporaryDirectory(prefix="sonde-mutations-") as name:
        folder = pathlib.Path(name)
        copy(folder)
        build(folder)
        if caught_by(folder):
            sys.exit("the sources as they are do not pass")
        for what, file, *changes in wanted:
            path = folder / file
            text = path.read_text()
            path.write_text(changed(what, text, changes))
            build(folder)
            caught = caught_by(folder)
            print(f"{what}: " + ("found by {}, run {}".format(*caught) if caught else "NOT FOUND"), flush=True)
            survived += caught is None
            path.write_text(text)
    print(f"{len(wanted)} mutations, {survived} not found")
    return survived > 0


if __name__ == "__main__":
    os.environ.pop("SONDE_SEED", None)
    sys.exit(main())
