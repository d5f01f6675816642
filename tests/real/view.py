#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde view: the page of real recordings, driven in headless Chromium (page/test/browser.mjs). Its figures are
those of `sonde report --json`."""
import atexit
import functools
import json
import os
import pathlib
import pty
import random
import re
import resource
import shutil
import signal
import stat
import subprocess

from helpers import (SANITIZED, SEED, SONDE, WORK, check, children_of, compile_c, free_port, fresh, needs, needs_agent, record,
                     run_cases, skip, sonde, start_record, try_sonde, until, until_asleep)
from shared.selections import bin_of, data_of, selections
from shared.timeline import PROGRAM

needs_agent()

PAGE = os.path.join(os.environ["SONDE_SOURCE"], "page")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "\"'><img src=x onerror=alert(1)>&lt;</script><script>alert(2)</script>"


def page_of(recording, *options):
    """The path of the page, and of the whole report."""
    page, told = fresh(".html"), fresh(".json")
    sonde("view", recording, "-o", page, *options)
    pathlib.Path(told).write_text(sonde("report", recording, "--json", "--top", "100000", *options))
    return page, told


@functools.cache
def browser():
    """The driver, with one browser for all cases."""
    if not CHROMIUM:
        skip("chromium is missing")
    if not os.path.isdir(os.path.join(PAGE, "node_modules", "playwright-core")):
        skip("the npm packages of page/ are missing")
    driver = subprocess.Popen(["node", os.path.join(PAGE, "test", "browser.mjs"), CHROMIUM], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    atexit.register(driver.wait)
    atexit.register(driver.stdin.close)  # then it closes the browser; the last registered is the first to be called
    return driver


def drive(page, told, *checks):
    driver = browser()
    print(json.dumps({"page": page, "report": told, "checks": checks}), file=driver.stdin, flush=True)
    answer = driver.stdout.readline()
    check(answer, "the driver ended")
    for failure in json.loads(answer or "[]"):
        check(False, failure)


@functools.cache
def recorded():
    path = fresh()
    record(["/usr/bin/python3", "-c", PROGRAM], "--sample=499", "--wall", "--stall", "--malloc=all", path=path)
    return path


def figures():
    drive(*page_of(recorded()), "figures", "views")


def use():
    drive(*page_of(recorded()), "ranges", "search", "keyboard", "peak", "moment")


def random_ranges():
    """The figures of a range are those of the report for it. tests/soak/pages.py has more, of many programs."""
    page, told = page_of(recorded())
    ranges = selections(recorded(), page, random.Random(SEED), 2)
    pathlib.Path(told).write_text(json.dumps(ranges))
    drive(page, told, "selections")


def bins():
    """A selection snaps to the steps of the page, and its figures are those of the report for the same time."""
    path, page, told = fresh(), fresh(".html"), fresh(".json")
    record([compile_c("""
        #include <stdlib.h>
        #include <unistd.h>
        static void *kept[4096];
        __attribute__((noinline)) static void at(unsigned bits, unsigned i, unsigned slot) {
          if (bits & 1) at(bits >> 1, i, slot);
          else if (bits) at(bits >> 1, i, slot);
          else free(kept[slot]), kept[slot] = malloc(i % 500 + 1);
        }
        int main() {
          unsigned random = 1;
          for (unsigned i = 0; i < 300000; i++) {
            random = random * 1103515245 + 12345;
            at(256 | random >> 8 & 255, i, random >> 16 & 4095);
            if (i % 2000 == 0) usleep(1000);
          }
        }""", "-O1")], "--sample=999", "--malloc=all", path=path)
    sonde("view", path, "-o", page)
    data = data_of(page)
    bin_ns = bin_of(data)
    check(bin_ns > data["samples"]["unit_ns"] and bin_ns % 1024000 == 0, f"the bins have {bin_ns} ns")
    duration = data["report"]["duration_ns"]
    asked = [duration * part / 1e9 for part in (0.31, 0.77)]
    snapped = [round(bin_ns * round(end * 1e9 / bin_ns) / 1e9, 9) for end in asked]
    report = json.loads(sonde("report", path, "--json", "--from", f"{snapped[0]:.9f}", "--to",
                              f"{snapped[1] - 1e-9:.9f}"))  # --to is part of the window
    pathlib.Path(told).write_text(json.dumps(
        {"asked": asked, "snapped": snapped, "bin": bin_ns, "text": "in steps of", "seconds": duration / 1e9, "report": report}))
    drive(page, told, "bins")


def progress():
    """Reading events and calls shows how much is done, on a terminal. strace delays each read of the file, so that both
    passes take longer than the second after which a bar appears."""
    needs("strace")
    path = fresh()
    record([compile_c("""
        #include <stdlib.h>
        void called(void) {}
        int main() {
          for (int i = 0; i < 400000; i++) free(malloc(100));
          for (int i = 0; i < 400000; i++) called();
        }""", "-finstrument-functions")], "--malloc=all", "--trace", "--no-waits", path=path)
    terminal, end = pty.openpty()
    view = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", "trace=pread64", "-e", "inject=pread64:delay_enter=100000",
                             SONDE, "view", path, "-o", fresh(".html")], stderr=end, stdout=subprocess.DEVNULL,
                            env=dict(os.environ, TERM="xterm", ASAN_OPTIONS="detect_leaks=0"))
    os.close(end)
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # EIO: the other end is closed
        pass
    check(view.wait() == 0, shown)
    for what in b"reading events", b"reading calls":
        bars = re.findall(rb"\r\033\[K" + what + rb" \[[#.]{30}\] +(\d+) %", shown)
        check(bars and bars == sorted(bars, key=int), f"{what}: {bars} in {shown[-500:]}")
    check(shown.endswith(b"\r\033[K"), f"the bar stays: {shown[-200:]}")


def limits_of_memory():
    """Four million live blocks fit in 4 GB of addresses; with too few, one line says which limit to raise."""
    if SANITIZED:
        skip("a sanitizer reserves terabytes")
    path, page = fresh(), fresh(".html")
    record([compile_c("""
        #include <stdlib.h>
        void *volatile last;
        int main() {
          for (int i = 0; i < 4000000; i++) last = malloc(16);
        }""", "-O1")], "--malloc=all", path=path)

    def run(megabytes):
        return try_sonde("view", path, "-o", page,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, 2 * (megabytes * 1000000,)))
    done = run(4000)
    check(done.returncode == 0, done)
    totals = data_of(page)["block_totals"]
    check(sum(totals["live_bytes"]) >= 64000000, totals)
    refused = run(400)
    check(refused.returncode == 2 and "raise the limit" in refused.stderr and refused.stderr.count("\n") == 1, refused)


def looks():
    drive(*page_of(recorded()), "sizes", "accessibility")


def is_text():
    """Without scripts the page has the sentences and the functions, and it is for its owner only."""
    page, _ = page_of(recorded())
    text = pathlib.Path(page).read_text()
    body = re.search(r'<main id="text">(.*?)</main>', text, re.S)[1]
    check("<h2>CPU time by function</h2>" in body and "<td>worker</td>" in body, body[:2000])
    check(stat.S_IMODE(os.stat(page).st_mode) == 0o600, oct(os.stat(page).st_mode))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    check(re.fullmatch(r"default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-[\w+/=]+'; "
                       r"base-uri 'none'; form-action 'none'", policy), policy)
    check("http://" not in text.split('id="data"')[0].replace("http://www.w3.org/", ""), "an address of the network")


def hostile_names():
    """Text that the program chose is never part of the page's own text."""
    program = os.path.join(WORK, "x" + HOSTILE.replace("/", ":"))
    shutil.copy("/bin/ls", program)
    path = fresh()
    record([program, HOSTILE, "\x1b[31m\x07"], "--sample=999", "--malloc=all", path=path)
    page, told = page_of(path)
    text = pathlib.Path(page).read_text().split('id="data"')[0]
    check("<img" not in text and "alert(2)</script>" not in text, "markup of the program is in the page")
    check("\x1b" not in text and "\x07" not in text, "a control character is in the page")
    drive(page, told, "opens")


def damaged():
    """A cut recording, and one with overwritten bytes, make pages that open."""
    whole = pathlib.Path(recorded()).read_bytes()
    cut, spoiled = fresh(), fresh()
    pathlib.Path(cut).write_bytes(whole[:len(whole) // 2])
    middle = bytearray(whole)
    for i in range(len(middle) // 3, len(middle) // 3 + 3000):
        middle[i] ^= 0x5a
    pathlib.Path(spoiled).write_bytes(middle)
    for path in cut, spoiled:
        page, told = page_of(path)
        check("missing" in pathlib.Path(page).read_text() or "damaged" in pathlib.Path(page).read_text(), path)
        drive(page, told, "opens", "forms")


def summary():
    """A summary has no events; its figures are those of the whole."""
    small = fresh()
    sonde("pack", "--summary", recorded(), "-o", small)
    drive(*page_of(small), "opens", "views")


def sensors():
    """Traced calls, audited calls, and a crash have views, too."""
    path = fresh()
    record([compile_c("""
        #include <arpa/inet.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main() {
          struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9)};
          nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          for (int i = 0; i < 20; i++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            connect(fd, (struct sockaddr *)&nobody, sizeof nobody);
            close(fd);
            free(malloc(100));
          }
          abort();
        }""", "-g")], "--trace=close", "--audit", "--malloc=all", path=path)
    page, told = page_of(path)
    text = pathlib.Path(told).read_text()
    for key in "signal", "fingerprint", "histogram":
        check(f'"{key}":' in text, f"no {key} in {text[:1000]}")
    drive(page, told, "figures", "forms", "findings")


def nested_calls():
    """The slowest calls with what they called; a range and a thread restrict the figures."""
    path = fresh()
    record([compile_c("""
        #include <pthread.h>
        #include <unistd.h>
        volatile int sink;
        void inner(int n) { while (n-- > 0) sink = sink + n; }
        void middle(int n) {
          for (int i = 1; i < 6; i++) inner(n * i);
        }
        int recursive(int n) {
          inner(1000 * n);
          return n ? recursive(n - 1) : 0;
        }
        void *work(void *unused) {
          for (int i = 1; i < 8; i++) middle(1000 * i);
          recursive(4);
          return unused;
        }
        int main() {
          pthread_t thread;
          pthread_create(&thread, 0, work, 0);
          pthread_join(thread, 0);
          usleep(2000);
          work(0);
        }""", "-g", "-pthread", "-finstrument-functions")], "--trace", "--no-waits", path=path)
    page, told = page_of(path)
    drive(page, told, "nesting", "forms", "sizes")


def sources():
    """The page has the text of the lines; without the file, or with --no-source, it has no view of sources."""
    source, path, page = fresh(".c"), fresh(), fresh(".html")
    pathlib.Path(source).write_text(f"""/* {HOSTILE} */
        volatile long sum;
        __attribute__((noinline)) void hot(long n) {{
          for (long i = 0; i < n; i++)
            sum += i;
        }}
        int main() {{
          hot(20000000);
          hot(60000000);
        }}
""")
    program = fresh(".program")
    subprocess.run(["gcc", "-g", "-O0", source, "-o", program], check=True)
    record([program], "--sample=999", path=path)
    drive(*page_of(path), "sources", "forms", "sizes")
    kept = pathlib.Path(source).read_text()
    sonde("view", path, "-o", page, "--no-source")
    check("sources" not in data_of(page), "--no-source leaves no text")
    os.remove(source)
    os.mkfifo(source)
    sonde("view", path, "-o", page)
    check(not data_of(page)["sources"]["files"], "a FIFO is not read")
    os.remove(source)
    pathlib.Path(source).write_text(kept)
    os.utime(source, (2**32, 2**32))
    sonde("view", path, "-o", page)
    check([f.get("changed") for f in data_of(page)["sources"]["files"]] == [True], "a changed file is marked")
    relative_source(source)


def names():
    """Names of C++ have the short form of the report; the whole name is in the title."""
    path = fresh()
    source, program = fresh(".cc"), fresh(".program")
    pathlib.Path(source).write_text("""
        #include <map>
        #include <string>
        volatile long sum;
        template <class T> __attribute__((noinline)) void fill(const T &, long n) {
          for (long i = 0; i < n; i++) sum = sum + i;
        }
        int main() {
          fill(1, 30000000);
          fill(std::map<std::string, std::map<std::string, long>>(), 60000000);
        }""")
    subprocess.run(["g++", "-g", "-O1", source, "-o", program], check=True)
    record([program], "--sample=999", path=path)
    page, told = page_of(path)
    wanted = {"fill<int>": "void fill<int>(int const&, long)", "main": "main"}
    found = {text[1]: text[0] for text in data_of(page)["strings"] if isinstance(text, list)}
    wanted["fill<std::map<…>>"] = found.get("fill<std::map<…>>", "missing")
    check(wanted["fill<std::map<…>>"].startswith("void fill<std::map<std::__cxx11::basic_string<char, "), found)
    pathlib.Path(told).write_text(json.dumps(wanted))
    drive(page, told, "names")


def words():
    """The page says what the program called, and is named as the program was: not the system call, nor the file behind
    a link. Names in the stacks of crashes have their short form."""
    path, source, program = fresh(), fresh(".cc"), fresh(".program")
    pathlib.Path(source).write_text("""
        #include <pthread.h>
        #include <stdlib.h>
        #include <string>
        #include <unistd.h>
        #include <vector>
        template <class T> __attribute__((noinline)) void finish(const T &) { abort(); }
        void *sleeper(void *) { usleep(400000); return 0; }
        int main() {
          pthread_t thread;
          pthread_create(&thread, 0, sleeper, 0);
          pthread_join(thread, 0);
          finish(std::vector<std::string>());
        }""")
    subprocess.run(["g++", "-g", "-O1", "-pthread", source, "-o", program], check=True)
    link = os.path.join(WORK, "called-so")
    os.symlink(program, link)
    record([link], "--wall", path=path)
    page, told = page_of(path)
    data = data_of(page)
    places, strings = data["places"], [text if isinstance(text, str) else text[0] for text in data["strings"]]
    column = {name: places[name] if isinstance(places[name], list) else [places[name]] * len(places["stack"])
              for name in ("call", "kind")}
    found = {(strings[call], strings[kind]) for call, kind in zip(column["call"], column["kind"])}
    check(("pthread_join", "the end of a thread") in found and not any(call == "futex" for call, _ in found), found)
    short = {text[1] for text in data["strings"] if isinstance(text, list)}
    check("finish<std::vector<…>>" in short, short)
    check("<title>called-so – sonde</title>" in pathlib.Path(page).read_text(), "the title")
    drive(page, told, "figures", "forms")


def relative_source(source):
    """A file with a relative name, of a build with a relative compilation folder, is found from the working folder."""
    path, page, program = fresh(), fresh(".html"), fresh(".program")
    folder, name = os.path.split(source)
    subprocess.run(["gcc", "-g", "-O0", f"-fdebug-prefix-map={folder}=.", name, "-o", program], check=True, cwd=folder)
    record([program], "--sample=999", path=path)
    for place, count in (folder, 1), ("/", 0):
        sonde("view", path, "-o", page, cwd=place)
        data = data_of(page)
        found = [data["strings"][f["file"]] for f in data["sources"]["files"]]
        check(len(found) == count and all(os.path.normpath(text) == name for text in found), f"from {place}: {found}")


def changes():
    """Two recordings: their totals are those of sonde diff."""
    other, page, told = fresh(), fresh(".html"), fresh(".json")
    record(["/usr/bin/python3", "-c", PROGRAM.replace("range(15)", "range(30)")], "--sample=499", "--malloc=all",
           path=other)
    sonde("view", recorded(), other, "-o", page)
    pathlib.Path(told).write_text(sonde("diff", "--json", "--by", "peak", recorded(), other))
    drive(page, told, "changes")


def of_an_answer():
    """The page of `sonde query`; its rows are checked in query.py."""
    store, packed, page, told = fresh(".sqlite"), fresh(), fresh(".html"), fresh(".json")
    sonde("pack", "--names", "-o", packed, recorded())
    sonde("store", "--to", f"sqlite:{store}", "--build", "1", packed)
    sonde("query", "--to", f"sqlite:{store}", "leaks", "--html", page)
    pathlib.Path(told).write_text(sonde("query", "--to", f"sqlite:{store}", "--json", "leaks"))
    drive(page, told, "answer")


def refusals():
    """Wrong use is one line and exit 2."""
    for arguments in (), ("a", "b", "c"), ("/dev/null",), ("/nonexistent",):
        run = try_sonde("view", *arguments)
        check(run.returncode == 2 and len(run.stderr.strip().splitlines()) == 1, (arguments, run))


def without_display():
    """Without a display the page is written to the temporary folder, and its path is printed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment["TMPDIR"] = WORK
    run = subprocess.run([SONDE, "view", recorded()], env=environment, capture_output=True, text=True, check=False)
    page = run.stdout.strip()
    check(run.returncode == 0 and page.startswith(WORK) and page.endswith(".html"), run)
    check("no browser" in run.stderr and stat.S_IMODE(os.stat(page).st_mode) == 0o600, run)


def of_name(pid, name):
    """The children of a process that run a program of this NAME."""
    return [child for child in children_of(pid)
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == name]


def redis():
    needs("redis-server")
    path, recorder = start_record(["redis-server", "--port", str(free_port()), "--save", ""], "--wall", "--stall",
                                  "--malloc=all", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: of_name(recorder.pid, "redis-server"), "redis-server")
    server = of_name(recorder.pid, "redis-server")[0]
    until_asleep(server)
    os.kill(server, signal.SIGTERM)
    recorder.wait()
    drive(*page_of(path), "figures", "views")


def built():
    if "without the page" in try_sonde("view", "/dev/null").stderr:
        skip("this sonde was built without the page: node or the npm packages of page/ are missing")


built()
run_cases([figures, use, random_ranges, bins, progress, limits_of_memory, looks, is_text, hostile_names, damaged, summary,
           redis, sensors, nested_calls, sources, names, words, changes, of_an_answer, refusals, without_display])
