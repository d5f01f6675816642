#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages of programs that nobody here wrote: each program of tests/soak/matrix/ is recorded with all sensors, and
each of its processes becomes a page. Headless Chromium (page/test/browser.mjs) opens the page, visits every form of
every view, and compares figures with the report, of the whole and of RANGES random ranges. The console of the browser
must stay empty. A third of the pages are those of a recording that was cut, a third of one with overwritten bytes. The
page of every recording is compared with that of the one before, too.

usage: pages.py [--no-install] [--most N] [PROGRAM…]

N: processes of one program, the largest recordings first (default: 3). The table is written to
build-test/results/pages.md as it grows."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parent / "matrix"),
                str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from helpers import BUILD, SEED, SONDE, SOURCE, sonde, try_sonde  # noqa: E402  (the path is set above)
from program_list import PROGRAMS  # noqa: E402
from programs import Program, Run  # noqa: E402
from shared.selections import selections  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SENSORS = ["--follow", "--sample=299", "--wall", "--stall=50", "--malloc=all", "--audit", "--cpu"]
RESULTS = pathlib.Path(BUILD) / "results" / "pages.md"
LIMIT_SECONDS = 600
RANGES = 5
rng = random.Random(SEED)


class Browser:
    """page/test/browser.mjs, which answers each line with its failures."""

    def __init__(self):
        self.driver = subprocess.Popen(["node", os.path.join(SOURCE, "page", "test", "browser.mjs"), CHROMIUM], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def failures(self, page, told, *checks):
        print(json.dumps({"page": str(page), "report": str(told), "checks": checks}), file=self.driver.stdin, flush=True)
        answer = self.driver.stdout.readline()
        return json.loads(answer) if answer else ["the browser ended"]

    def close(self):
        self.driver.stdin.close()
        self.driver.wait()


def damaged(path, how):
    """A copy of a recording: its first part, or with overwritten bytes."""
    content, copy = bytearray(path.read_bytes()), path.with_suffix(f".{how}.sonde")
    if how == "cut":
        del content[rng.randrange(len(content) // 4, len(content)):]
    else:
        for _ in range(20):
            at = rng.randrange(200, len(content))
            content[at:at + 40] = rng.randbytes(min(40, len(content) - at))
    copy.write_bytes(content)
    return copy


def page_faults(browser, recording, folder, checks, old=None):
    """What is wrong with the page of a recording, and its size."""
    page, told = folder / "page.html", folder / "told.json"
    run = try_sonde("view", *([old] if old else []), recording, "-o", page, timeout=LIMIT_SECONDS)
    if run.returncode:
        # A damaged recording may have nothing: then one line says so.
        good = run.returncode == 2 and len(run.stderr.strip().splitlines()) == 1
        return ([], 0) if good and "opens" in checks else ([f"view: {run.returncode}: {run.stderr.strip()[:200]}"], 0)
    told.write_text(sonde("report", recording, "--json", "--top", "100000", timeout=LIMIT_SECONDS))
    return browser.failures(page, told, *checks), page.stat().st_size


def range_faults(browser, recording, folder):
    """What differs between the report and the page that page_faults left, in random ranges; and how many were compared."""
    page, told = folder / "page.html", folder / "ranges.json"
    ranges = selections(recording, page, rng, RANGES)
    told.write_text(json.dumps(ranges))
    return browser.failures(page, told, "selections"), len(ranges)


def visit(browser, name, recording, folder, last):
    """The row of one recording."""
    faults, size = page_faults(browser, recording, folder, ["figures", "forms"])
    different, ranges = range_faults(browser, recording, folder) if size else ([], 0)
    faults += different
    how = rng.choice(["cut", "spoiled", None])
    if how:
        copy = damaged(recording, how)
        faults += [f"{how}: {fault}" for fault in page_faults(browser, copy, folder, ["opens", "forms"])[0]]
        copy.unlink()
    if last:
        faults += [f"changes: {fault}" for fault in page_faults(browser, recording, folder, ["opens", "forms"], last)[0]]
    return {"program": name, "recording_mb": f"{recording.stat().st_size / 1e6:.1f}", "page_kb": f"{size / 1e3:.0f}",
            "ranges": str(ranges), "damage": how or "", "faults": "; ".join(faults)[:600]}


def write_rows(rows):
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += ["| " + " | ".join(row.values()).replace("\n", " ") + " |" for row in rows]
    RESULTS.write_text("\n".join(lines) + "\n")


def main(words):
    install, most = "--no-install" not in words, 3
    if "--most" in words:
        at = words.index("--most")
        most = int(words[at + 1])
        del words[at:at + 2]
    names = [word for word in words if not word.startswith("--")]
    browser, rows, absent, last = Browser(), [], [], None
    print(f"seed {SEED}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sonde-pages-") as folder:
        folder = pathlib.Path(folder)
        os.chmod(folder, 0o777)
        for program in [Program(**entry) for entry in PROGRAMS if not names or entry["name"] in names]:
            why = program.ready(install)
            if why:
                absent.append(program.name)
                print(f"{program.name}: {why}", flush=True)
                continue
            Run(program, [SONDE, "record", *SENSORS, "-o", str(folder / f"{program.name}.sonde"), "--"])
            shutil.rmtree(program.folder, ignore_errors=True)
            recordings = sorted(folder.glob(f"{program.name}*.sonde"), key=lambda path: -path.stat().st_size)
            if not recordings:
                absent.append(program.name)
                print(f"{program.name}: no recording", flush=True)
            for recording in recordings[:most]:
                rows.append(visit(browser, program.name, recording, folder, last))
                print("  ".join(rows[-1].values()), flush=True)
                write_rows(rows)
            for recording in recordings[1:]:
                recording.unlink()
            if recordings:
                if last:
                    last.unlink()
                last = recordings[0]
    browser.close()
    bad = [row for row in rows if row["faults"]]
    print(f"{len(rows)} pages of {len({row['program'] for row in rows})} programs, {len(bad)} with a fault; "
          f"{sum(int(row['ranges']) for row in rows)} ranges compared; "
          f"{len(absent)} programs did not run: {' '.join(absent)}; {RESULTS}")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
