#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The audit of programs that nobody rebuilt, against strace, against counts that the test keeps, and against the same
programs without it."""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SONDE = os.environ["SONDE"]
WORK = tempfile.mkdtemp(prefix="sonde-audit-")
number = 0


def fresh(suffix=".sonde"):
    global number
    number += 1
    return os.path.join(WORK, f"{number}{suffix}")


def write(text, suffix):
    path = fresh(suffix)
    with open(path, "w") as f:
        f.write(text)
    return path


def sonde(*arguments, status=0):
    done = subprocess.run([SONDE, *arguments], capture_output=True, timeout=120)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout.decode()


def record(command, policy="linux", **how):
    path = fresh()
    done = subprocess.run([SONDE, "record", "--audit=" + policy, "-o", path, "--", *command],
                          capture_output=True, timeout=120, **how)
    return path, done


def audit_of(path):
    r = json.loads(sonde("report", "--json", path, "audit"))
    assert not any(r["missing"].values()), r["missing"]
    assert r["audit"]["damaged"] == 0
    return r["audit"]


def compile_c(source, *options):
    out = fresh("")
    done = subprocess.run(["cc", "-O2", "-w", "-o", out, write(source, ".c"), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


# ---- every function of the default policy, by every way a program has to call one ----------------

BY_KIND = {"text": '(long)"sonde-nothing"', "path": '(long)"/sonde/nothing"', "number": "-1", "flags": "0",
           "address": "(long)address", "strings": "(long)strings", "-": "(long)room"}
# What the table above would make crash, block or change this process.
SPECIAL = {"execl": '"/sonde/nothing", "x", 0', "execlp": '"/sonde/nothing", "x", 0', "execle": '"/sonde/nothing", "x", 0, 0',
           "glob": '"/sonde/nothing", 0, 0, room', "glob64": '"/sonde/nothing", 0, 0, room',
           "nftw": '"/sonde/nothing", 0, 4, 0', "nftw64": '"/sonde/nothing", 0, 4, 0', "ftw": '"/sonde/nothing", 0, 4',
           "getpwnam_r": '"sonde-nothing", room, room + 4096, 4096, room + 9000',
           "getgrnam_r": '"sonde-nothing", room, room + 4096, 4096, room + 9000',
           "getpwuid_r": "-1, room, room + 4096, 4096, room + 9000", "getgrgid_r": "-1, room, room + 4096, 4096, room + 9000",
           "gethostbyname_r": '"127.0.0.1", room, room + 4096, 4096, room + 9000, room + 9100',
           "gethostbyname2_r": '"127.0.0.1", 2, room, room + 4096, 4096, room + 9000, room + 9100',
           "getaddrinfo": '"127.0.0.1", 0, 0, room', "gethostbyname": '"127.0.0.1"', "gethostbyname2": '"127.0.0.1", 2',
           "freopen": '"/sonde/nothing", "r", file()', "freopen64": '"/sonde/nothing", "r", file()',
           "fopen": '"/sonde/nothing", "r"', "fopen64": '"/sonde/nothing", "r"', "popen": '"true", "x"', "system": '"true"',
           "getnameinfo": "address, 16, 0, 0, 0, 0", "gethostname": "room, 64", "getdomainname": "room, 64",
           "getlogin_r": "room, 64", "initgroups": '"sonde-nothing", -1', "getgrouplist": '"root", 0, room, room + 4096',
           "setgroups": "-1, 0", "getpwent": "0", "kill": "-1, -1", "umount": '"/sonde/nothing"', "setmntent": '"/sonde/nothing", "r"',
           "memfd_create": '"sonde-nothing", 0xffff', "prctl": "-1, -1", "sendto": "-1, 0, 0, 0, address, 16",
           "getenv": '"SONDE_TOKEN"', "secure_getenv": '"SONDE_TOKEN"', "execveat": '-1, "sonde-nothing", strings, strings, 0',
           "fexecve": "-1, strings, strings", "dlmopen": '0, "sonde-nothing", 1'}
MATCHING = {"file.secret": "/etc/ssl/private/sonde-nothing", "proc.list": "/proc/999999999/maps"}


def functions_of(policy):
    """{name: kinds}, without those of libraries that are not there."""
    out = {}
    for line in sonde("audit", "check", policy).splitlines():
        if m := re.fullmatch(r"    (\w+)\(([^)]*)\)", line):
            out[m[1]] = [k for k in m[2].split(", ") if k]
    return out


def arguments_of(name, kinds):
    given = [BY_KIND[k] for k in kinds] + ["(long)room"] * (6 - len(kinds))
    text = SPECIAL.get(name, ", ".join(given))
    # Opens count only where a rule names the path.
    return text.replace("/sonde/nothing", MATCHING["proc.list"])


def exerciser(functions):
    calls = "\n".join(f'  call("{n}", pass({arguments_of(n, k)}));' for n, k in functions.items())
    direct = "\n".join(f"  ((call_t *){n})(pass({arguments_of(n, k)}));" for n, k in functions.items())
    declared = "\n".join(f"extern long {n}();" for n in functions)
    return declared, calls, direct


OWNER = """
typedef long call_t(long, long, long, long, long, long, long);
extern void *dlsym(void *, const char *);
extern void *calloc(unsigned long, unsigned long);
extern void *fdopen(int, const char *);
extern int dup(int);
static char *room;
static char *strings[] = {"sonde-nothing", 0};
static unsigned char address[16] = {2, 0, 0, 9, 127, 0, 0, 1};
static long file(void) { return (long)fdopen(dup(0), "r"); }
%(declared)s
#define PASS(a, b, c, d, e, f, g, ...) (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f), (long)(g)
#define pass(...) PASS(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
static void by_name(const char *name, long a, long b, long c, long d, long e, long f, long g) {
  call_t *found = (call_t *)dlsym(0, name);
  if (found) found(a, b, c, d, e, f, g);
}
void owner_direct(void) {
  room = calloc(1, 1 << 16);
%(direct)s
}
void owner_by_name(void) {
  room = calloc(1, 1 << 16);
#define call by_name
%(calls)s
}
"""


def every_function_is_seen_and_owned():
    functions = functions_of("linux")
    assert len(functions) > 110
    declared, calls, direct = exerciser(functions)
    source = OWNER % {"declared": declared, "calls": calls, "direct": direct}
    ways = {"plt": [], "no_plt": ["-fno-plt"], "lazy": ["-Wl,-z,lazy"]}
    libraries = {}
    for way, options in ways.items():
        libraries[way] = os.path.join(WORK, f"libowner_{way}.so")
        shutil.move(compile_c(source, "-shared", "-fPIC", "-fno-builtin", "-lresolv", *options), libraries[way])
    main = compile_c("""
#include <dlfcn.h>
int main(int argc, char **argv) {
  void *lib = dlopen(argv[1], RTLD_NOW);
  if (!lib) return 9;
  ((void (*)(void))dlsym(lib, argv[2]))();
  return 0;
}""", "-ldl")
    for way, library in libraries.items():
        for entry in ("owner_direct", "owner_by_name"):
            path, done = record([main, library, entry], stdin=subprocess.DEVNULL)
            assert done.returncode == 0, (way, entry, done)
            rows = [r for r in audit_of(path)["findings"] if r["owner"] == os.path.basename(library)]
            missing = set(functions) - {r["function"] for r in rows}
            assert not missing, (way, entry, sorted(missing))
            assert all(r["module"] == os.path.basename(library) for r in rows)
    print(f"{len(functions)} functions, {2 * len(ways)} ways, each in a library loaded later")


# ---- counts -------------------------------------------------------------------------------------

GETENV = """
#include <pthread.h>
#include <stdlib.h>
static void *run(void *n) {
  for (long i = 0; i < (long)n; i++) getenv("ACME_TOKEN");
  return 0;
}
int main(int argc, char **argv) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(t + i, 0, run, (void *)atol(argv[1]));
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  return 0;
}"""


def a_million_calls_of_four_threads_are_counted():
    program = compile_c(GETENV, "-pthread")
    began = time.time()
    path, done = record([program, "250000"])
    rows = [r for r in audit_of(path)["findings"] if r["function"] == "getenv"]
    assert sum(r["calls"] for r in rows) == 1000000 and len(rows) == 1, rows
    print(f"1,000,000 calls in {time.time() - began:.2f} s, {os.path.getsize(path) / 1e6:.1f} bytes each")


# ---- strace -------------------------------------------------------------------------------------

CONNECTS = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
  srand(atoi(argv[1]));
  for (int i = 0; i < 200; i++) {
    char path[64] = "/etc/ssl/private/x", name[8] = {'a' + rand() % 26, 'a' + rand() % 26};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(1 + rand() % 5)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    connect(fd, (void *)&a, sizeof a);
    close(fd);
    strcat(path, name);
    fd = open(path, O_RDONLY | (rand() % 2 ? O_CLOEXEC : 0));
    if (fd >= 0) close(fd);
    unlink((char *)(long)(rand() % 3 ? (long)name : 8)); /* now and then no address at all */
  }
  char *wrong[] = {(char *)8, 0};
  if (execve("/bin/true", wrong, wrong) == 0 || execve("/bin/true", wrong, (char **)16) == 0) return 9;
  return 0;
}"""


def calls_are_those_that_strace_sees():
    if not shutil.which("strace"):
        print("no strace here")
        return
    program, trace = compile_c(CONNECTS), fresh(".txt")
    seed = os.environ.get("SONDE_SEED", "7")
    traced = subprocess.run(["strace", "-o", trace, "-e", "trace=connect,openat,unlink", program, seed])
    if traced.returncode:
        print("strace is not allowed here")
        return
    expected = {}
    with open(trace) as f:
        for line in f:
            if m := re.match(r'connect\(\d+, .*htons\((\d+)\).*"127.0.0.1"', line):
                key = ("connect", "127.0.0.1:" + m[1])
            elif m := re.match(r'openat\(AT_FDCWD, ("/etc/ssl/private/\w+"), (\S+)\)', line):
                key = ("open", m[1] + (", 0x80000" if "CLOEXEC" in m[2] else ", 0x0"))
            elif m := re.match(r'unlink\((0x8|"\w+")', line):
                key = ("unlink", '""' if m[1] == "0x8" else m[1])
            else:
                continue
            expected[key] = expected.get(key, 0) + 1
    path, _ = record([program, seed])
    seen = {}
    for row in audit_of(path)["findings"]:
        arguments = row["arguments"]
        if row["function"] == "execve":
            continue
        if row["function"] == "connect":
            arguments = arguments.split(", ")[1]
        key = (row["function"], arguments)
        seen[key] = seen.get(key, 0) + row["calls"]
    assert seen == expected, (set(seen.items()) ^ set(expected.items()))
    print(f"{sum(expected.values())} calls, {len(expected)} different ones, as strace has them")


# ---- programs behave as they did ----------------------------------------------------------------

COMMANDS = [
    ["id", "root"], ["ls", "-l", "/etc"], ["git", "--version"], ["sh", "-c", "echo a; exit 3"], ["true"], ["false"],
    ["bash", "-c", "for i in 1 2 3; do (exit $i); echo $?; done"], ["python3", "-c", "import socket; print(socket.gethostbyname('localhost'))"],
    ["python3", "-c", "import subprocess; print(subprocess.run(['uname', '-s'], capture_output=True).stdout)"],
    ["sqlite3", ":memory:", "select 1 + 1;"], ["env", "-i", "/bin/echo", "x"], ["nice", "-n", "1", "echo", "y"],
    ["timeout", "1", "sleep", "3"], ["cat", "/nonexistent"], ["find", "/etc", "-name", "passwd"], ["sort", "/etc/passwd"],
    ["perl", "-e", "print getpwuid(0), qq(\\n); exit 5"], ["curl", "-s", "http://127.0.0.1:9/"], ["xargs", "-a", "/etc/hostname", "echo"],
    ["setpriv", "--reuid=65534", "--clear-groups", "id", "-u"], ["sh", "-c", "kill -SEGV $$"], ["tar", "cf", "-", "/etc/hostname"],
]


def programs_do_what_they_did():
    ran = 0
    for command in COMMANDS:
        if not shutil.which(command[0]):
            continue
        plain = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        path, done = record(command, stdin=subprocess.DEVNULL)
        own = [line for line in done.stderr.splitlines() if not line.startswith(b"sonde record:")]
        assert done.returncode == plain.returncode, (command, done.returncode, plain.returncode, done.stderr)
        assert done.stdout == plain.stdout, command
        assert own == plain.stderr.splitlines(), (command, own, plain.stderr)
        ran += 1
    print(f"{ran} commands")
    assert ran >= 15


# ---- what is made of it -------------------------------------------------------------------------

POLICY = """version: 1
categories:
  - id: acme.env
    title: Reads the token
    level: error
    functions: [getenv(text)]
    match: ["ACME_*"]
allow:
  - category: acme.env
    match: [ACME_HOME]
    reason: the home is no secret
    expires: 2999-12-31
limits:
  - category: acme.env
    calls: 10
    window: 1m
owners:
  - library: one*
    name: The Acme SDK
"""


def programs_of_two_builds():
    source = """
#include <stdlib.h>
int main(void) {
  for (int i = 0; i < 12; i++) getenv("ACME_TOKEN");
  getenv("ACME_HOME");
#ifdef NEWER
  getenv("ACME_OTHER");
#endif
  return 0;
}"""
    out = []
    for options in [], ["-DNEWER", "-O0"]:
        folder = tempfile.mkdtemp(dir=WORK)
        path = os.path.join(folder, "one")
        shutil.move(compile_c(source, "-g", *options), path)
        out.append(path)
    return out


def findings_are_judged_and_compared():
    policy = write(POLICY, ".yaml")
    old, new = [record([p], policy)[0] for p in programs_of_two_builds()]
    audit = audit_of(old)
    rows = {r["arguments"]: r for r in audit["findings"] if r["category"] == "acme.env"}
    assert rows['"ACME_TOKEN"']["calls"] == 12 and rows['"ACME_TOKEN"']["owner"] == "The Acme SDK", rows
    assert rows['"ACME_HOME"']["allowed"] == "the home is no secret", rows
    assert [l["exceeded"] for l in audit["limits"]] == [3], audit["limits"]  # 13 calls, 10 allowed
    baseline = write(sonde("audit", "baseline", old), ".json")
    assert sonde("diff", baseline, old) == ""
    for known in baseline, old:
        said = sonde("diff", "--by", "audit", known, new, status=1)
        assert said == 'new  acme.env  getenv("ACME_OTHER")  The Acme SDK, main\n', said
    sarif = json.loads(sonde("export", "--as", "sarif", "--baseline", baseline, new))
    results = sarif["runs"][0]["results"]
    states = {r["message"]["text"].split('"')[1]: r["baselineState"] for r in results}
    assert states == {"ACME_TOKEN": "unchanged", "ACME_HOME": "unchanged", "ACME_OTHER": "new"}, states
    token = [r for r in results if "ACME_TOKEN" in r["message"]["text"]][0]
    assert token["occurrenceCount"] == 12 and token["ruleId"] == "acme.env" and token["level"] == "error"
    frame = token["stacks"][0]["frames"][0]["location"]
    assert frame["logicalLocations"][0]["fullyQualifiedName"] == "main"
    assert frame["physicalLocation"]["region"]["startLine"] == 4
    assert [r for r in results if "ACME_HOME" in r["message"]["text"]][0]["suppressions"][0]["kind"] == "external"
    lines = list(csv.DictReader(io.StringIO(sonde("export", "--as", "csv", new))))
    assert {l["arguments"] for l in lines} == {'"ACME_TOKEN"', '"ACME_HOME"', '"ACME_OTHER"'}
    assert all(l["caller"] == "main" and l["line"] != "0" for l in lines)


def the_privacy_manifest_is_drafted():
    import plistlib
    path, _ = record(["python3", "-c", "import os; os.statvfs('/'); os.stat('/')"], "apple")
    draft = plistlib.loads(sonde("export", "--as", "xcprivacy", path).encode())
    types = {t["NSPrivacyAccessedAPIType"]: t["NSPrivacyAccessedAPITypeReasons"] for t in draft["NSPrivacyAccessedAPITypes"]}
    assert "E174.1" in types["NSPrivacyAccessedAPICategoryDiskSpace"], types


def calls_before_consent_are_told():
    policy = write("""version: 1
extends: none
categories:
  - id: env
    functions: [getenv(text)]
    match: ["ACME_*"]
phases:
  - before: consent
    deny: [env]
""", ".yaml")
    program = compile_c("""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  getenv("ACME_BEFORE");
  puts("ask");
  fflush(stdout);
  getchar();
  getenv("ACME_AFTER");
  return 0;
}""")
    path = fresh()
    running = subprocess.Popen([SONDE, "record", "--audit=" + policy, "-o", path, "--", program], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert running.stdout.readline() == b"ask\n"
    with open(f"/proc/{running.pid}/task/{running.pid}/children") as f:
        sonde("ctl", f.read().split()[0], "mark", "consent")
    running.communicate(b"yes\n", timeout=20)
    early = {r["arguments"]: r.get("too_early") for r in audit_of(path)["findings"]}
    assert early == {'"ACME_BEFORE"': "consent", '"ACME_AFTER"': None}, early


def what_is_not_understood_records_nothing():
    policy = write("version: 1\nallow:\n  - category: env.secret\n    reason: old\n    expires: 2020-01-01\n", ".yaml")
    path, done = record(["true"], policy)
    assert done.returncode == 125 and not os.path.exists(path)
    assert f"{policy}:5: this allowance expired on 2020-01-01".encode() in done.stderr, done.stderr
    assert b"no such" in subprocess.run([SONDE, "audit", "check", "/nonexistent.yaml"], capture_output=True).stderr.lower()
    sonde("audit", "check", policy, status=2)
    sonde("diff", "--by", "audit", policy, policy, status=2)
    sonde("audit", "baseline", "/etc/passwd", status=2)
    sonde("export", "--as", "sarif", "/etc/passwd", status=2)


def main():
    if os.environ.get("SONDE_SANITIZED"):
        print("skipped: the agent, which has no libc, is not built with a sanitizer")
        sys.exit(77)
    failed = 0
    for test in (every_function_is_seen_and_owned, a_million_calls_of_four_threads_are_counted,
                 calls_are_those_that_strace_sees, programs_do_what_they_did, findings_are_judged_and_compared,
                 the_privacy_manifest_is_drafted, calls_before_consent_are_told, what_is_not_understood_records_nothing):
        if len(sys.argv) > 1 and sys.argv[1] not in test.__name__:
            continue
        began = time.time()
        try:
            test()
            print(f"ok   {test.__name__} ({time.time() - began:.1f} s)", flush=True)
        except Exception as e:  # every test is tried
            failed += 1
            print(f"FAIL {test.__name__}: {type(e).__name__}: {e}", flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(failed != 0)


main()
