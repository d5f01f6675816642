#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde pack on recordings of real programs: every verb finds the same in the packed file, a second
reader that was written from docs/format.md too; it is small; a damaged one is refused in part."""
import os
import random
import subprocess
import sys
import tempfile

from helpers import SCALE, SEED, SOAK, SONDE, WORK, needs_agent, report, run_cases, second_reader, sonde, try_sonde

needs_agent()

PYTHON = "x = [str(i) * 3 for i in range(%d)]; y = {a: [a] for a in x}; del x; print(len(y))" % (SCALE * 5000)
THREADS = ("import threading\ndef f():\n  for i in range(60): sorted(str(x) for x in range(200))\n"
           "t = [threading.Thread(target=f) for _ in range(6)]\n"
           "[x.start() for x in t]; [x.join() for x in t]")
PERL = f'my %h; $h{{$_}}=[$_,"x$_"] for 1..{SCALE * 8000}; delete $h{{$_}} for 1..{SCALE * 2400}'
PROGRAMS = {"perl": ["perl", "-e", PERL],
            "python": [sys.executable, "-c", PYTHON], "threads": [sys.executable, "-c", THREADS]}
VERBS = [("report", "--json"), ("report", "--by", "allocated", "--tree"),
         ("report", "--from", "0.05", "--by", "growth"),
         ("events", "--stacks"), ("export",)]
# Of the large recordings, one verb each, always the same; in a soak every verb.
VERBS_OF = {"perl": VERBS, "python": VERBS[:1], "threads": VERBS[:1]}
if SOAK:
    VERBS_OF = dict.fromkeys(PROGRAMS, VERBS)


def run_program(name, *options):
    """Its recording."""
    path = os.path.join(tempfile.mkdtemp(dir=WORK), name + ".sonde")
    sonde("record", *options, "-o", path, "--", *PROGRAMS[name], env=dict(os.environ, PYTHONMALLOC="malloc"))
    return path


def pack(path):
    sonde("pack", path)
    return path[:-len("sonde")] + "packed.sonde"


def same(*words, at, paths):
    answers = []
    for path in paths:
        answers.append(sonde(*words[:at], path, *words[at:]).replace(path, ""))
    assert answers[0] == answers[1], words


def all_verbs_find_the_same():
    for name in PROGRAMS:
        path = run_program(name, "--malloc", "--sample=500")
        packed = pack(path)
        for words in VERBS_OF[name]:
            same(*words, at=len(words), paths=(path, packed))
        events = sonde("events", path).count("\n")
        size = os.path.getsize(packed)
        print(f"{name}: {events} events, {os.path.getsize(path) / events:.2f} bytes an event, "
              f"packed {size / events:.2f} in all")
        assert size < 0.45 * os.path.getsize(path), (size, events)


def a_packed_one_can_be_packed_again():
    path = run_program("perl", "--malloc")
    packed = pack(path)
    again = pack(packed)
    same("events", "--stacks", at=2, paths=(path, again))


def the_second_reader_agrees():
    path = os.path.join(WORK, "small.sonde")
    sonde("record", "--malloc", "--sample", "-o", path, "--", "perl", "-e",
          'my %h; for (1..900) { $h{$_} = [$_, "x$_"]; delete $h{$_ - 50} }')
    packed = pack(path)
    listed = [second_reader(p) for p in (path, packed)]
    assert listed[0] == listed[1] and len(listed[0]) > 2000


def a_summary_has_the_same_totals():
    path = run_program("python", "--malloc", "--sample=500")
    summary = path[:-len("sonde")] + "summary.sonde"
    sonde("pack", "--summary", path)
    same("report", "--json", "malloc", "sample", at=2, paths=(path, summary))
    same("report", "--json", "--by", "leaked", "--tree", "malloc", at=5, paths=(path, summary))
    folded = [sorted(sonde("export", "--by", "allocated", p).splitlines())
              for p in (path, summary)]
    assert folded[0] == folded[1]
    assert os.path.getsize(summary) < 1000000
    said = sonde("diff", "--by", "allocated", "--max-growth", "0", path, summary)
    assert "+0.0 %" in said and "by stack" not in said, said
    sections = [set(report(p)) for p in (path, summary)]
    assert sections[0] - sections[1] == {"crash", "cpu", "pools", "usage", "vm"}, sections
    assert not sections[0] & {"stalls", "trace", "wall", "waits", "audit"}, sections
    regions = [sonde("report", p, "vm") for p in (path, summary)]
    assert "mapped" in regions[0] and "not in a summary" in regions[1], regions
    for verb in ["events", summary], ["history", summary, "0x1"], ["pack", "--summary", summary]:
        done = try_sonde(*verb)
        assert done.returncode == 2 and "summary" in done.stderr, done


def _cut(path, size):
    cut = path + ".cut.sonde"
    with open(path, "rb") as f, open(cut, "wb") as out:
        out.write(f.read(size))
    return cut


def _cut_before_its_last_chunk(path):
    with open(path, "rb") as f:
        whole = f.read()
    at, last = 4096, 4096
    while at < len(whole):
        at, last = at + int.from_bytes(whole[at + 8:at + 12], "little"), at
    return _cut(path, last)


def truncation_is_told():
    path = run_program("perl", "--malloc")
    packed, summary = pack(path), path[:-len("sonde")] + "summary.sonde"
    sonde("pack", "--summary", path)
    for whole in path, packed, summary:
        assert "truncated" not in report(whole)["missing"], whole
        cut = _cut_before_its_last_chunk(whole)
        assert report(cut)["missing"]["truncated"], cut
        assert "The file is truncated" in sonde("why", cut), cut
        assert report(_cut(whole, 4096))["missing"]["truncated"], whole  # no chunk is left
        done = try_sonde("why", _cut(whole, 4095))
        assert done.returncode == 2 and "truncated within its header" in done.stderr, done
    assert report(pack(_cut_before_its_last_chunk(path)))["missing"]["truncated"]
    # Where the size cannot be known, nothing is said of it.
    piped = os.path.join(WORK, "piped.sonde")
    with open(piped, "wb") as f:
        f.write(subprocess.run([SONDE, "pack", "-o", "/dev/stdout", path], stdout=subprocess.PIPE, check=True).stdout)
    assert "truncated" not in report(piped)["missing"]


def damage_is_told():
    rng = random.Random(SEED)
    packed = pack(run_program("perl", "--malloc"))
    with open(packed, "rb") as f:
        good = f.read()
    for _ in range(25):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            bad[rng.randrange(4096, len(bad))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del bad[rng.randrange(4096, len(bad)):]
        path = os.path.join(WORK, "bad.sonde")
        with open(path, "wb") as f:
            f.write(bad)
        done = try_sonde("report", path)
        assert done.returncode in (0, 2), done
        assert "damaged" in done.stdout or "missing" in done.stdout or done.returncode == 2, done


run_cases(globals())
