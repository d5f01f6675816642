#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The audit of programs that nobody rebuilt, against strace, against counts that the test keeps, and against the same
programs without it."""
import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from helpers import (
    WORK, child_of, fresh, needs_agent, needs_strace, nothing_missing, report, run_cases, sonde, start_record,
    try_sonde, write,
)
from shared.audits import audit_of, compile_audited, compare_commands, record_audit

needs_agent()


# ---- every function of the default policy, by every way a program has to call one ----------------

BY_KIND = {"text": '(long)"sonde-nothing"', "path": '(long)"/sonde/nothing"', "number": "-1", "process": "-1", "flags": "0",
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
           "fexecve": "-1, strings, strings", "newlocale": '8, "sonde-nothing", 0', "pthread_getattr_np": "pthread_self(), room",
           "ttyname_r": "-1, room, 64", "syslog": '7, "sonde"', "gethostbyaddr": "address + 4, 4, 2", "wordexp": '"x", room, 0',
           "backtrace": "room, 4", "strerror_r": "-1, room, 64", "__xpg_strerror_r": "-1, room, 64", "tmpfile": "0", "tmpfile64": "0", "getloadavg": "room, 1", "strftime": 'room, 64, "%Y", room + 4096',
           "dcgettext": '"sonde-nothing", "x", 5', "ngettext": '"a", "b", 1', "dngettext": '0, "a", "b", 1', "dcngettext": '0, "a", "b", 1, 5', "dlmopen": '0, "sonde-nothing", 1'}
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
    taken = "\n".join(f"  by_pointer((call_t *){n}, pass({arguments_of(n, k)}));" for n, k in functions.items())
    declared = "\n".join(f"extern long {n}();" for n in functions)
    pointers = "\n".join(f'  {{"{n}", (call_t *){n}}},' for n in functions)
    return {"declared": declared, "calls": calls, "direct": direct, "pointers": pointers, "taken": taken}


OWNER = """
typedef long call_t(long, long, long, long, long, long, long);
extern void *dlsym(void *, const char *);
extern void *calloc(unsigned long, unsigned long);
extern void *fdopen(int, const char *);
extern int dup(int);
extern int strcmp(const char *, const char *);
extern unsigned long pthread_self(void);
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
/* A table in data, and pointers that are taken when the program has long begun. */
static const struct { const char *name; call_t *function; } table[] = {
%(pointers)s
};
static void by_table(const char *name, long a, long b, long c, long d, long e, long f, long g) {
  for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) table[i].function(a, b, c, d, e, f, g);
}
static void by_pointer(call_t *volatile pointer, long a, long b, long c, long d, long e, long f, long g) {
  pointer(a, b, c, d, e, f, g);
}
void owner_direct(void) {
  room = calloc(1, 1 << 16);
%(direct)s
}
void owner_by_name(void) {
  room = calloc(1, 1 << 16);
#define call by_name
%(calls)s
#undef call
}
void owner_by_table(void) {
  room = calloc(1, 1 << 16);
#define call by_table
%(calls)s
#undef call
}
void owner_by_pointer(void) {
  room = calloc(1, 1 << 16);
%(taken)s
}
#ifdef OWNER_IS_THE_PROGRAM
int main(int argc, char **argv) {
  if (!strcmp(argv[2], "owner_direct")) owner_direct();
  if (!strcmp(argv[2], "owner_by_name")) owner_by_name();
  if (!strcmp(argv[2], "owner_by_table")) owner_by_table();
  if (!strcmp(argv[2], "owner_by_pointer")) owner_by_pointer();
  return 0;
}
#endif
"""


def every_function_is_seen_and_owned():
    functions = functions_of("linux")
    assert len(functions) > 110
    source = OWNER % exerciser(functions)
    loader = compile_audited("""
#include <dlfcn.h>
int main(int argc, char **argv) {
  void *lib = dlopen(argv[1], RTLD_NOW);
  if (!lib) return 9;
  ((void (*)(void))dlsym(lib, argv[2]))();
  return 0;
}""", "-ldl")
    common = ["-fno-builtin", "-lresolv", "-ldl"]
    ways = {"plt": [], "no_plt": ["-fno-plt"], "lazy": ["-Wl,-z,lazy"]}
    owners = {}
    for way, options in ways.items():
        owners[f"libowner_{way}.so"] = ["-shared", "-fPIC", *options]
        owners[f"owner_{way}"] = ["-DOWNER_IS_THE_PROGRAM", *options]
    owners["owner_fixed"] = ["-DOWNER_IS_THE_PROGRAM", "-no-pie", "-fno-pie"]
    entries = ("owner_direct", "owner_by_name", "owner_by_table", "owner_by_pointer")
    for name, options in owners.items():
        owner = os.path.join(WORK, name)
        shutil.move(compile_audited(source, *common, *options), owner)
        for entry in entries:
            path, done = record_audit([loader if name.endswith(".so") else owner, owner, entry], stdin=subprocess.DEVNULL)
            assert done.returncode == 0, (name, entry, done)
            rows = [r for r in audit_of(path)["findings"] if r["owner"] == name]
            missing = set(functions) - {r["function"] for r in rows}
            assert not missing, (name, entry, sorted(missing))
            assert all(r["module"] == name for r in rows)
    print(f"{len(functions)} functions, {len(entries)} ways in {len(owners)} owners: programs, and libraries loaded later")


LATE_MAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  unsigned long bases[3];
  for (int i = 0; i < 3; i++) { /* it comes, goes, and comes again */
    void *lib = dlopen(argv[1], RTLD_NOW);
    if (!lib) return 9;
    bases[i] = ((struct link_map *)lib)->l_addr;
    if (!strcmp(argv[2], "user"))
      ((void (*)(void))dlsym(lib, "user"))();
    else
      ((void (*)(const char *))dlsym(lib, "acme_sign"))("by name");
    if (dlclose(lib)) return 8;
    if (strcmp(argv[3], "elsewhere")) continue;
    if (i && bases[i] == bases[i - 1]) return 7;
    /* What holds its first page keeps it away from there. */
    mmap((void *)bases[i], 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  return 0;
}"""
LATE_POLICY = """version: 1
extends: none
categories:
  - id: acme
    functions: ["libmissing*:acme_sign(text)", "libother*:acme_verify(text)"]
"""


def functions_of_a_library_that_comes_later_are_seen():
    folder = tempfile.mkdtemp(dir=WORK)
    missing, user = (os.path.join(folder, f"lib{n}.so") for n in ("missing", "user"))
    shutil.move(compile_audited("void acme_sign(const char *s) { }\nvoid acme_verify(const char *s) { }", "-shared", "-fPIC"), missing)
    main, policy = compile_audited(LATE_MAIN, "-ldl"), write(LATE_POLICY, ".yaml")
    for options in [], ["-fno-plt"], ["-Wl,-z,lazy"], ["-Wl,-z,now"]:
        # Its constructor is the first that calls.
        shutil.move(compile_audited("""
extern void acme_sign(const char *), acme_verify(const char *);
__attribute__((constructor)) static void begin(void) { acme_sign("constructor"); __asm__(""); /* no tail call */ }
void user(void) { acme_sign("import"); acme_verify("of another library"); }""", "-shared", "-fPIC", missing, "-Wl,-rpath," + folder, *options), user)
        for place in "anywhere", "elsewhere":
            path, done = record_audit([main, user, "user", place], policy)
            assert done.returncode == 0, (place, done)
            audit = audit_of(path)
            rows = sorted((r["arguments"], r["owner"], r["calls"]) for r in audit["findings"])
            assert rows == [('"constructor"', "libuser.so", 3), ('"import"', "libuser.so", 3)], (place, audit)
            assert len({r["fingerprint"] for r in audit["findings"]}) == 2, audit
            assert all(r["first_ns"] < r["last_ns"] for r in audit["findings"]), audit
            assert audit["not_present"] == ["acme_verify"], audit["not_present"]
    path, done = record_audit([main, missing, "dlsym", "anywhere"], policy)
    rows = audit_of(path)["findings"]
    assert done.returncode == 0 and [(r["arguments"], r["module"], r["calls"]) for r in rows] == [('"by name"', os.path.basename(main), 3)], rows


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
    program = compile_audited(GETENV, "-pthread")
    began = time.time()
    path, done = record_audit([program, "250000"])
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
    needs_strace()
    program, trace = compile_audited(CONNECTS), fresh(".txt")
    seed = os.environ.get("SONDE_SEED", "7")
    subprocess.run(["strace", "-o", trace, "-e", "trace=connect,openat,?unlink,unlinkat", program, seed], check=True)
    expected = {}
    with open(trace) as f:
        for line in f:
            if m := re.match(r'connect\(\d+, .*htons\((\d+)\).*"127.0.0.1"', line):
                key = ("connect", "127.0.0.1:" + m[1])
            elif m := re.match(r'openat\(AT_FDCWD, ("/etc/ssl/private/\w+"), (\S+)\)', line):
                key = ("open", f"{m[1]}, {m[2]}")
            elif m := re.match(r'unlink(?:at\(AT_FDCWD, |\()(0x8|"\w+")', line):
                key = ("unlink", '""' if m[1] == "0x8" else m[1])
            else:
                continue
            expected[key] = expected.get(key, 0) + 1
    path, _ = record_audit([program, seed])
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


OWN_PROCESS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>
static void look(int pid) {
  char path[32], byte;
  struct iovec here = {&byte, 1}, there = {path, 1};
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  close(open(path, O_RDONLY));
  process_vm_readv(pid, &here, 1, &there, 1, 0);
  kill(pid, 0);
}
int main(void) {
  look(getpid());
  look(getppid());
  printf("%d\\n", getppid());
  return 0;
}"""


def the_own_process_is_no_other():
    path, done = record_audit([compile_audited(OWN_PROCESS)])
    parent = int(done.stdout)
    said = sorted((row["category"], row["function"], row["arguments"].split(",")[0]) for row in audit_of(path)["findings"])
    assert said == [("proc.list", "open", f'"/proc/{parent}/maps"'), ("proc.reach", "kill", str(parent)),
                    ("proc.reach", "process_vm_readv", str(parent))], said


def programs_do_what_they_did():
    compare_commands()


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


def _programs_of_two_builds():
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
        shutil.move(compile_audited(source, "-g", *options), path)
        out.append(path)
    return out


def findings_are_judged_and_compared():
    policy = write(POLICY, ".yaml")
    old, new = [record_audit([p], policy)[0] for p in _programs_of_two_builds()]
    audit = audit_of(old)
    rows = {r["arguments"]: r for r in audit["findings"] if r["category"] == "acme.env"}
    assert rows['"ACME_TOKEN"']["calls"] == 12 and rows['"ACME_TOKEN"']["owner"] == "The Acme SDK", rows
    assert rows['"ACME_HOME"']["allowed"] == "the home is no secret", rows
    assert [l["exceeded"] for l in audit["limits"]] == [3], audit["limits"]  # 13 calls, 10 allowed
    baseline = write(sonde("audit", "baseline", old), ".json")
    assert sonde("diff", baseline, old) == ""
    for known, by in (baseline, ["--by", "audit"]), (old, ["--by", "audit"]), (baseline, []), (old, []):
        said = sonde("diff", *by, known, new, status=1)
        assert said == 'new  acme.env  getenv("ACME_OTHER")  The Acme SDK, main\n', said
    nothing = write('{"baseline":1,"findings":[]}', ".json")
    every = sonde("diff", nothing, new, status=1).splitlines()
    fewer = sonde("diff", "--top", "1", nothing, new, status=1).splitlines()
    assert len(every) > 2 and fewer[0] == every[0] and fewer[1].split() == ["…", "and", str(len(every) - 1), "more", "new", "findings"], (every, fewer)
    told = json.loads(sonde("diff", "--json", baseline, new, status=1))
    assert told["new_findings"] == 1 and told["findings"][0]["arguments"] == '"ACME_OTHER"', told
    assert told["findings"][0]["fingerprint"] in {row["fingerprint"] for row in audit_of(new)["findings"]}, told
    assert "--max-growth is for amounts" in try_sonde("diff", "--max-growth", "0", baseline, new).stderr
    listed, everything = ([(row["category"], "allowed" in row) for row in report(new, "audit", "--top", top)["audit"]["findings"]]
                          for top in (1, 999))
    assert sorted(listed) == sorted(set(everything)) and len(listed) < len(everything), (listed, everything)
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
    path, _ = record_audit(["python3", "-c", "import os; os.statvfs('/'); os.stat('/')"], "apple")
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
    program = compile_audited("""
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
    path, running = start_record([program], "--audit=" + policy, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL)
    assert running.stdout.readline() == b"ask\n"
    sonde("ctl", child_of(running.pid), "mark", "consent")
    running.communicate(b"yes\n", timeout=150)
    early = {r["arguments"]: r.get("too_early") for r in audit_of(path)["findings"]}
    assert early == {'"ACME_BEFORE"': "consent", '"ACME_AFTER"': None}, early


def children_that_are_followed_are_audited_too():
    program = compile_audited("""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  getenv("MAIN_TOKEN");
  if (argc > 1) return 0;
  if (fork() == 0) {
    for (int i = 0; i < 5; i++) getenv("FORKED_TOKEN");
    if (fork() == 0) getenv("GRANDCHILD_TOKEN");
    while (wait(NULL) > 0) continue;
    _exit(0);
  }
  if (fork() == 0) {
    getenv("BEFORE_TOKEN");
    execl(argv[0], argv[0], "x", NULL);
  }
  while (wait(NULL) > 0) continue;
  return 0;
}""")
    path, done = record_audit([program], "linux", "--follow")
    assert done.returncode == 0, done
    stem = path[:-len(".sonde")]
    found = []
    for name in sorted(glob.glob(stem + ".*sonde")):
        audit = audit_of(name)
        assert len(audit["not_present"]) < 40, audit["not_present"]
        found.append(sorted((r["arguments"].strip('"'), r["calls"]) for r in audit["findings"] if r["function"] == "getenv"))
    # Of a process that has run two programs, both are reported.
    wanted = [("MAIN_TOKEN", 1)], [("FORKED_TOKEN", 5)], [("GRANDCHILD_TOKEN", 1)], [("BEFORE_TOKEN", 1), ("MAIN_TOKEN", 1)]
    assert sorted(found) == sorted(wanted), found


def a_thread_repeats_no_record_of_an_ended_one():
    """The first record of each is the same call, at the same place of their first chunks."""
    program = compile_audited("""
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *look(void *unused) {
  (void)unused;
  return getenv("SAME_TOKEN");
}
static void in_threads(int count) {
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, look, NULL);
    pthread_join(thread, NULL);
  }
}
int main(void) {
  in_threads(12);
  if (fork() > 0) return wait(NULL) < 0;
  in_threads(5);
  return 0;
}""", "-lpthread")
    path, done = record_audit([program], "linux", "--follow")
    assert done.returncode == 0, done
    calls = []
    for name in glob.glob(path[:-len(".sonde")] + "*.sonde"):
        nothing_missing(report(name))
        calls.append([(r["arguments"], r["calls"]) for r in audit_of(name)["findings"] if r["function"] == "getenv"])
    assert sorted(calls) == [[('"SAME_TOKEN"', 5)], [('"SAME_TOKEN"', 12)]], calls


def what_the_audit_cannot_see_is_said():
    source = "int main(void) { return 0; }"
    static = compile_audited(source, "-static")
    _, done = record_audit([static])
    assert done.returncode == 0 and b"its system calls are recorded" in done.stderr, done
    for more in "--malloc", "--sample", "--follow":
        _, done = record_audit([static], "linux", more)
        assert done.returncode == 125 and b"--audit without other sensors" in done.stderr, done
    # What Go's linker leaves in a program.
    note = """__asm__(".section .note.go.buildid, \\"a\\", %note\\n.balign 4\\n.long 4, 4, 4\\n.asciz \\"Go\\"\\n.byte 0\\n.long 1\\n.text");"""
    for go in False, True:
        _, done = record_audit([compile_audited((note if go else "") + source)])
        assert done.returncode == 0 and (b"is a Go program" in done.stderr) == go, done


def of_two_policies_the_last_is_meant():
    """The first may be the larger one."""
    program = compile_audited("""
#include <stdlib.h>
#include <sys/statvfs.h>
int main(void) {
  struct statvfs v;
  getenv("ACME_TOKEN");
  return statvfs("/", &v);
}""")
    for first, last, function in ("linux", "apple", "statvfs"), ("apple", write(POLICY, ".yaml"), "getenv"):
        path, done = record_audit([program], first, "--audit=" + last)
        assert done.returncode == 0, done
        found = [r for r in audit_of(path)["findings"] if r["category"].startswith(("apple.", "acme."))]
        assert [r["function"] for r in found] == [function], (first, last, found)


def what_is_not_understood_records_nothing():
    policy = write("version: 1\nallow:\n  - category: env.secret\n    reason: old\n    expires: 2020-01-01\n", ".yaml")
    path, done = record_audit(["true"], policy)
    assert done.returncode == 2 and not os.path.exists(path), done
    assert f"{policy}:5: this allowance expired on 2020-01-01".encode() in done.stderr, done.stderr
    assert "no such" in try_sonde("audit", "check", "/nonexistent.yaml").stderr.lower()
    sonde("audit", "check", policy, status=2)
    for verb in ["check", "linux"], ["baseline", path]:
        assert "applies to compile" in try_sonde("audit", *verb, "-o", path).stderr
        sonde("audit", *verb, "-o", path, status=2)
    assert "Is a directory" in try_sonde("audit", "check", WORK).stderr
    sonde("diff", "--by", "audit", policy, policy, status=2)
    sonde("audit", "baseline", "/etc/passwd", status=2)
    sonde("export", "--as", "sarif", "/etc/passwd", status=2)


run_cases(globals())
