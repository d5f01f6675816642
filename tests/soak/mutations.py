#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the tests of the frame cache find defects? Each condition that makes the cache sound is removed from a copy of the
sources, and a test must fail: the one with random programs, or another one that compares stacks. docs/unwinding.md lists
the conditions.

usage: mutations.py [--texts] [WORDS…]   the mutations whose name contains one of the WORDS
--texts only checks that the sources contain every text to replace"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ("stress_test", "stack_test", "predictor_test", "capture_test")
TRIES, SECONDS = 3, 60

# name, file, and pairs: a text that the file contains once, and its replacement
MUTATIONS = (
    ("outer return addresses are not compared", "src/lib/capture/frame_cache.h",
     ("return *stack_at_address(e->slot) == e->raw;",
      "return e->raw | 1;")),
    ("saved frame pointers are not compared", "src/lib/capture/frame_cache.h",
     ("return !(e->tail & verify) || *(stack_at_address(e->slot) - e->restored_words) == e->fp;",
      "(void)verify; return true;")),
    ("chained frame pointers are not compared", "src/lib/capture/frame_cache.c",
     ("return LIKELY(at[0] == e->raw) && LIKELY(at[-1] == e[1].slot - 8);",
      "return LIKELY(at[0] == e->raw);")),
    ("return addresses of chained frames are not compared", "src/lib/capture/frame_cache.c",
     ("return LIKELY(at[0] == e->raw) && LIKELY(at[-1] == e[1].slot - 8);",
      "return LIKELY(at[-1] == e[1].slot - 8);")),
    ("the frame pointer is not compared where a walk meets the cache", "src/lib/capture/frame_cache.c",
     ("(!(e->bits & ENTRY_FP_LIVE) || (p->fp_at && *p->fp_at == e->fp))",
      "true")),
    ("the return address is not compared where a walk meets the cache", "src/lib/capture/frame_cache.c",
     ("!((e->slot ^ slot_of(p)) | (e->raw ^ raw_of(p)))",
      "!(e->slot ^ slot_of(p))")),
    ("frames inside an interpreted one are cached", "src/lib/capture/frame_cache.c",
     ("        new_frames->first_cacheable = walk.count;\n        walk.rule = 0;",
      "        walk.rule = 0;"),
     ("      if (!after_call) new_frames->first_cacheable = walk.count + 1;\n      end =",
      "      end =")),
    ("the cache survives a change of the loaded images", "src/lib/capture/frame_cache.c",
     ("if (cache && cache->epoch == epoch) {",
      "if (cache) {")),
    ("frames survive their image", "src/lib/capture/frame_table.c",
     ("  if (!image_check(image)) return false;",
      "")),
    ("a capture inside a capture uses the cache", "src/lib/capture/thread_state.c",
     ("if (UNLIKELY(self->busy && is_nested(self, sp))) return NULL;",
      "(void)is_nested;")),
    ("the words of a prediction are not compared", "src/lib/capture/frame_cache.h",
     ("if (UNLIKELY(*at != prediction_content(word))) return 0;",
      "(void)at;")),
    ("the frame pointer of a prediction is not compared", "src/lib/capture/frame_cache.h",
     ("(prediction->fp_live && prediction->fp != fp)",
      "(fp & 0)")),
    ("the chained frame pointers of a prediction are not compared", "src/lib/capture/frame_cache.h",
     ("if (word & PREDICTION_CHAINED &&",
      "if (0 && word & PREDICTION_CHAINED &&")),
    ("the entry that a prediction joins is not compared", "src/lib/capture/frame_cache.h",
     ("if (UNLIKELY(prediction->join < cache->top ||",
      "if (0 && UNLIKELY(prediction->join < cache->top ||")),
    ("the frames outside a prediction are not compared", "src/lib/capture/frame_cache.h",
     ("return LIKELY(frame_cache_first_changed(cache, join + 1) == frame_cache_end(cache))",
      "return true")),
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
            sys.exit(f"{what}: the source has changed: it contains {before!r} {text.count(before)} times")
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
    words = [word for word in sys.argv[1:] if word != "--texts"]
    wanted = [m for m in MUTATIONS if not words or any(word in m[0] for word in words)]
    if "--texts" in sys.argv:
        for what, file, *changes in wanted:
            changed(what, (ROOT / file).read_text(), changes)
        print(f"{len(wanted)} mutations: all texts found")
        return 0
    survived = 0
    with tempfile.TemporaryDirectory(prefix="sonde-mutations-") as name:
        folder = pathlib.Path(name)
        copy(folder)
        build(folder)
        if caught_by(folder):
            sys.exit("the unchanged sources fail")
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
