#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a summary, its options and the exports say of a C++ program whose own functions are `fill` and `crunch`."""
import os
import re

from helpers import compile_c, needs_agent, output_of, record, run_cases, sonde, try_sonde, write

needs_agent()

SOURCE = r"""
#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>
std::map<std::string, std::unordered_map<std::string, std::vector<double>>> table;
static double spent() { return (double)clock() / CLOCKS_PER_SEC; }
namespace work {
__attribute__((noinline)) void fill(double until) {
  for (int i = 0; i % 256 || spent() < until; i++) table["row" + std::to_string(i % 90)]["column"].push_back(i);
}
__attribute__((noinline)) double crunch(double until) {
  std::vector<double> v(5000);
  for (int i = 0; spent() < until; i++) {
    for (size_t k = 0; k < v.size(); k++) v[k] = (double)(k * 7919 % 1013);
    std::sort(v.begin(), v.end(), [](double a, double b) { return a > b; });
  }
  return v[0];
}
}
int main() { work::fill(0.3); return work::crunch(0.9) < 0; }
"""
THREADED = r"""
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>
std::mutex door;
std::map<int, std::string> kept;
#define WORKER(name, ms) __attribute__((noinline)) void name() { \
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400); \
  for (int i = 0; std::chrono::steady_clock::now() < end; i++) { \
    std::lock_guard<std::mutex> lock(door); \
    kept[i % 5000 + ms * 10000] = std::string(100, 'x'); \
    if (i % 50 == 0) { close(open("/etc/hostname", O_RDONLY)); usleep(ms * 1000); } } }
__attribute__((noinline)) void burn() {
  timespec now;
  do
    for (volatile int i = 0; i < 10000; i = i + 1) ;
  while (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0 && now.tv_sec * 1000 + now.tv_nsec / 1000000 < 300);
}
WORKER(first, 1) WORKER(second, 2) WORKER(third, 3) WORKER(fourth, 4) WORKER(fifth, 5) WORKER(sixth, 6)
int main() {
  mmap(nullptr, 8 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<std::thread> threads;
  for (auto f : {burn, first, second, third, fourth, fifth, sixth}) threads.emplace_back(f);
  for (auto &t : threads) t.join();
}
"""
SCREEN = dict(os.environ, COLUMNS="80", TERM="dumb")
_made = {}


def _recording():
    if not _made:
        program = compile_c(write(SOURCE, ".cpp"), "-O2", "-g", compiler="c++")
        _made["path"], done = record([program])
        assert done.returncode == 0, done
    return _made["path"]


def _report(*words):
    return sonde("report", *words, _recording(), env=SCREEN)


def _table(text, title):
    """The rows of the table with this title."""
    return text.split(title, 1)[1].split("\n\n")[0].splitlines()[2:]


def the_summary_fits_a_screen():
    lines = _report().splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80, "\n".join(lines)
    assert "audit" not in lines[-1], lines[-1]  # was not recorded


def a_summary_of_many_sections_fits_a_screen(folder):
    """Its lists get shorter until it fits, and say the same as those of the sections."""
    program = compile_c(write(THREADED, ".cpp"), "-O1", "-g", "-pthread", compiler="c++",
                        out=str(folder / "a_program_with_a_long_name"))
    path, done = record([program], "--sample", "--wall", "--malloc=all", "--stall", "--audit")
    assert done.returncode == 0, done
    lines = sonde("report", path, env=SCREEN).splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80, "\n".join(lines)
    for words in ["cpu"], ["sample"], ["sample", "--tree"], ["wall"], ["wall", "--tree"], ["waits"], ["malloc"], ["audit"]:
        wide = [line for line in sonde("report", path, *words, env=SCREEN).splitlines()
                if len(line) > 80 and not line.startswith("  program ")]
        assert not wide, (words, wide)
    longer = sonde("report", "--top", "20", path, env=SCREEN).splitlines()
    assert len(longer) > 40, "the test needs a recording with more"
    rows = [{" ".join(line.split()) for line in text if re.search(r"\d\.\d % .* [a-z]+\b", line)} for text in (lines, longer)]
    shared = {row for row in rows[0] if " all " not in row}
    assert len(shared) > 1 and shared <= rows[1], rows


def every_sensor_of_four_has_its_section():
    """Where lists of one row do not suffice, notes are left out before the sections of sensors are."""
    program = compile_c(write(THREADED, ".cpp"), "-O1", "-g", "-pthread", compiler="c++")
    titles = {"--sample": "CPU time, ", "--wall": "wall time", "--malloc=all": "allocations", "--audit": "audit",
              "--trace=libc.so*:usleep": "calls"}
    for left_out in titles:
        if left_out == "--sample":
            continue  # --wall has CPU time, too: five sections
        path, done = record([program], *(option for option in titles if option != left_out))
        assert done.returncode == 0, done
        lines = sonde("report", path, env=SCREEN).splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 80, "\n".join(lines)
        missing = [title for option, title in titles.items()
                   if option != left_out and not any(line.startswith(title) for line in lines)]
        assert not missing, (missing, "\n".join(lines))


def a_stripped_program_has_no_table_of_its_functions(folder):
    """The summary says why, and what to do."""
    program = compile_c(write(SOURCE, ".cpp"), "-O2", "-g", "-Wl,--build-id", compiler="c++", out=str(folder / "whole"))
    output_of("strip", "-o", folder / "small", program)
    path, _ = record([folder / "small"], "--sample")
    said = "  small is stripped, so its functions have no names; '--debug-dir DIR' takes\n    them from the same build in DIR, "
    text = sonde("report", path, env=SCREEN)
    assert said in text and "by function of the program" not in text, text
    assert "is stripped" not in sonde("report", "--by", "self", path, env=SCREEN)
    text = sonde("report", "--debug-dir", folder, path, env=SCREEN)
    assert "is stripped" not in text and "work::crunch" in _table(text, "by function of the program")[0], text


def own_functions_come_first():
    """Which of them had more time is the machine's affair. `spent` is called by both others."""
    rows = [row.split() for row in _table(_report(), "CPU time, by function of the program")]
    totals = {row[4]: float(row[0]) for row in rows if row[1] == row[3] == "%"}
    assert list(totals.values()) == sorted(totals.values(), reverse=True), rows
    assert {"work::crunch", "work::fill"} <= set(totals) and not any("std::" in name for name in totals), rows
    assert all(name.startswith("work::") or name in ("spent", "main") for name in totals), rows
    assert abs(totals["work::crunch"] + totals["work::fill"] - 100) < 10, rows


def top_limits_a_summary():
    rows = _table(_report("--top", "1"), "CPU time, by function of the program")
    assert "work::crunch" in rows[0] and (len(rows) == 1 or "more function" in rows[1]), rows


def by_self_ranks_innermost_functions():
    text = _report("--by", "self")
    assert "of the program" not in text
    shares = [float(row.split()[2]) for row in _table(text, "CPU time, by innermost function") if "more" not in row]
    assert shares == sorted(shares, reverse=True), text
    assert "by innermost function" not in sonde("report", "--by", "total", _recording(), "sample")


def a_ranking_of_what_was_not_recorded_is_refused(folder):
    program = compile_c("#include <stdlib.h>\n#include <string.h>\n"
                        "int main(void) { for (int i = 0; i < 99; i++) memset(malloc(9000), i, 9000); return 0; }", "-g")
    recorded = {}
    for option in "--sample", "--malloc=live", "--malloc=all":
        recorded[option], _ = record([program], option, path=folder / f"r{option}")
    for option, words, told in (
            ("--sample", ["leaked"], "has none; record each with 'sonde record --malloc'"),
            ("--malloc=all", ["self"], "reports none of them; record with 'sonde record --sample'"),
            ("--malloc=all", ["leaked", "usage"], "ranks the section malloc: 'sonde report --by leaked "),
            ("--malloc=live", ["temporary"], "record with 'sonde record --malloc=all'")):
        for more in (), ("--json",):
            done = try_sonde("report", *more, "--by", words[0], recorded[option], *words[1:])
            assert done.returncode == 2 and not done.stdout and told in done.stderr and done.stderr.count("\n") == 1, done
    for option, word in (("--malloc=all", "temporary"), ("--malloc=live", "leaked"), ("--sample", "self")):
        sonde("report", "--by", word, recorded[option])


def exports_have_short_names():
    short, full = sonde("export", _recording()), sonde("export", "--full-names", _recording())
    assert ";work::crunch;" in short and ";work::crunch(double);" in full and ";work::crunch;" not in full
    assert max(len(name) for line in short.splitlines() for name in line.rsplit(" ", 1)[0].split(";")) <= 80
    assert [line.split()[-1] for line in short.splitlines()] == [line.split()[-1] for line in full.splitlines()]


def pack_prints_the_sizes_of_the_files(folder):
    out = folder / "packed.sonde"
    said = sonde("pack", "-o", out, _recording())
    share = 100 * out.stat().st_size / os.stat(_recording()).st_size
    assert abs(float(re.search(r"([\d.]+) %", said)[1]) - share) < 0.06, (said, share)


def a_failed_gate_says_what_it_compared(folder):
    """The recording has fewer blocks than the other has."""
    grown, done = record(["sh", "-c", ":"], path=folder / "small.sonde")
    assert done.returncode == 0
    done = try_sonde("diff", "--by", "allocated", "--max-growth", "1K", grown, _recording())
    assert done.returncode == 1 and re.search(r"allocated grew by [\d.]+ .?B > 1.0 KB \(--max-growth\)", done.stderr), done


RECURSIVE = r"""
#include <time.h>
static volatile int sink;
__attribute__((noinline)) int down(int n) {
  if (n) return down(n - 1) + 1;
  for (int i = 0; i < 100000; i++) sink++;
  return 0;
}
int main(void) { while (clock() < CLOCKS_PER_SEC / 3) down(20); return 0; }
"""


def a_tree_folds_recursion_and_counts_what_it_hides():
    path, done = record([compile_c(RECURSIVE, "-O1", "-g", "-fno-optimize-sibling-calls")], "--sample")
    assert done.returncode == 0
    tree = sonde("report", "--tree", path, "sample").split("top-down")[1]
    rows = [line for line in tree.splitlines() if re.search(r"\bdown\b", line) and "%" in line]
    assert len(rows) == 1 and "(recursive)" in rows[0], tree
    total, own = re.findall(r"([\d.]+) %", rows[0])[:2]
    assert float(total) >= float(own) > 50, rows
    hidden = _report("--tree", "--top", "1").split("hidden: ")[1]
    assert re.match(r"\d+ branches with [\d.]+ % in all", hidden), hidden


run_cases(globals())
