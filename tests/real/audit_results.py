#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The results of audited calls are those that the program itself gets, and errno is the program's."""
import collections
import json

from helpers import compile_c, events, fresh, needs_agent, record, report, run_cases, sonde, write

needs_agent()

PROGRAM = r"""
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAY(name, call, failed) do { \
    errno = 0; \
    long result = (long)(call); \
    int error = (failed) ? errno : 0; \
    printf("%s %ld %d\n", name, (failed) ? -1 : result, error); \
  } while (0)

static void *threads(void *nothing) {
  for (int i = 0; i < 500; i++) {
    int fd = open("/etc/passwd", O_RDONLY);
    if (fd >= 0) close(fd);
    if (open("/nonexistent/thread", O_RDONLY) != -1 || errno != ENOENT) puts("wrong");
  }
  return nothing;
}

int main(void) {
  pthread_t t[3];
  SAY("open", open("/etc/passwd", O_RDONLY), result == -1);
  for (int i = 0; i < 3; i++) SAY("open", open("/nonexistent/x", O_RDWR), result == -1);
  SAY("mkdir", mkdir("/", 0755), result == -1);
  SAY("unlink", unlink("/etc"), result == -1);
  SAY("fopen", fopen("/nonexistent/y", "r"), !result);
  SAY("opendir", opendir("/etc/passwd"), !result);
  for (int i = 0; i < 4; i++)
    SAY("open", open(i & 1 ? "/dev/zero" : "/nonexistent/z", O_RDONLY), result == -1);
  fflush(stdout);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, threads, NULL);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}
"""


def results_are_the_programs():
    program = compile_c(write(PROGRAM, ".c"), "-g", "-O1", "-pthread", "-w")
    path, done = record([program], "--audit=files", text=True)
    said = [(name, int(result), int(error)) for name, result, error in map(str.split, done.stdout.splitlines())]
    assert len(said) == 12 and sum(error != 0 for _, _, error in said) >= 8, done
    main, found, threads = None, [], collections.Counter()
    last = {}
    for e in events(path):
        main = main or e.get("tid")
        if e["event"] == "audit":
            last[e["tid"]] = e["function"]
        elif e["event"] == "audit_result" and e["tid"] == main:
            found.append((last[main], -1 if e["errno"] else e["result"], e["errno"]))
        elif e["event"] == "audit_result":
            threads[e["errno"]] += 1
    assert found == said, (found, said)
    assert threads == {0: 1500, 2: 1500}, threads
    rows = {(f["function"], f["arguments"]): f["results"] for f in report(path, "audit")["audit"]["findings"]}
    assert rows["open", '"/nonexistent/x", O_RDWR'] == {
        "succeeded": 0, "failed": 3, "errors": [{"errno": 2, "name": "ENOENT", "calls": 3}]}, rows
    text = sonde("report", path, "audit")
    assert 'open("/nonexistent/x", O_RDWR) = -1 ENOENT (No such file or directory)' in text, text
    assert 'mkdir("/", 0755) = -1 EEXIST (File exists)' in text, text
    assert 'fopen("/nonexistent/y", "r") = NULL ENOENT' in text, text
    assert 'opendir("/etc/passwd") = NULL ENOTDIR (Not a directory)' in text, text
    assert 'open("/etc/passwd", O_RDONLY) = 3' in text, text


def what_does_not_return_has_no_result():
    program = compile_c(write("#include <unistd.h>\nint main(void) { execl(\"/bin/true\", \"true\", (char *)0); }\n",
                              ".c"), "-w")
    path, _ = record([program], "--audit=exec")
    told = json.loads(sonde("report", "--json", path, "audit"))["audit"]
    calls = [f for f in told["findings"] if f["function"].startswith("exec")]
    assert calls and all("results" not in f for f in calls), told


def arguments_in_vector_registers_are_kept(folder):
    """The first call from each page of code asks the loader which image that is."""
    library, pages = folder / "libmix.so", 60
    compile_c("double mix(double a, double b, double c, double d) { return a + 10 * b + 100 * c + 1000 * d; }", "-O1",
              "-shared", "-fPIC", out=str(library))
    source = "#include <stdio.h>\ndouble mix(double, double, double, double);\n"
    source += "".join(f"__attribute__((noinline, aligned(4096))) int f{i}(void) {{ return mix(1, 2, 3, 4) != 4321; }}\n"
                      for i in range(pages))
    source += f"int main(void) {{ printf(\"%d\", {' + '.join(f'f{i}()' for i in range(pages))}); return 0; }}\n"
    program = compile_c(source, "-O1", str(library), out=str(folder / "program"))
    policy = folder / "policy.yaml"
    policy.write_text("version: 1\nextends: none\ncategories:\n  - id: mix.call\n    title: Mixes\n    level: note\n"
                      "    functions: ['libmix.so*:mix()']\n")
    path = fresh()
    assert sonde("record", f"--audit={policy}", "-o", path, "--", program) == "0"
    assert report(path)["audit"]["calls"] == pages


run_cases(globals())
