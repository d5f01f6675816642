#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The promises of docs/security.md that no other test shows: private recordings, attacks on their names, programs that
lie about themselves, names with control characters, and no rights gained or kept."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

from helpers import (
    NOT_FOR_OTHERS, SCALE, SEED, SONDE, SOURCE, TIMEOUT_SECONDS, WORK, compile_c, fresh, kill, needs, needs_agent,
    others_can_run_sonde, run_cases, runs_on, skip, sonde, start_ready, try_sonde)

needs_agent()

OTHER = 61250

# Puts garbage over its own ELF header and program headers, those of its libraries, and the loader's list.
LIES = r"""
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void spoil(uint64_t at, size_t size) {
  uint64_t page = at & ~4095ul;
  if (mprotect((void *)page, at + size - page, PROT_READ | PROT_WRITE) != 0) return;
  for (size_t i = 0; i < size; i++)
    if (rand() % 3 == 0) ((unsigned char *)at)[i] = (unsigned char)(rand() % 4 ? rand() : 255);
}
static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  if (!strstr(info->dlpi_name, "vdso") && strstr(info->dlpi_name, "ld-") == NULL)
    spoil(info->dlpi_addr, sizeof(Elf64_Ehdr) + 13 * sizeof(Elf64_Phdr));
  return 0;
}
int main(int count, char **arguments) {
  srand(count > 1 ? (unsigned)atoi(arguments[1]) : 1);
  dl_iterate_phdr(visit, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  for (;;) pause();
}
"""

# Maps, unmaps and moves code and data, and starts and ends threads, as fast as it can.
CHANGES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *nothing(void *unused) { return unused; }
static void *change(void *unused) {
  for (;;) {
    pthread_t thread;
    char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) continue;
    memset(map, 0x7f, 65536);
    map = mremap(map, 65536, 4096, MREMAP_MAYMOVE);
    mprotect(map, 4096, PROT_READ | PROT_EXEC);
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    if (library) dlclose(library);
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    munmap(map, 4096);
    usleep(50);
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  for (int i = 0; i < 2; i++) pthread_create(&thread, NULL, change, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  for (;;) pause();
}
"""

NAMED = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *volatile block;
static void *work_once(void *unused) {
  prctl(PR_SET_NAME, "\033[2Jx\a\n\r");
  for (int i = 0; i < 1000; i++) { block = malloc(2000); free(block); }
  block = malloc(5000);
  if (unused) pause();
  return NULL;
}
int main(int count, char **arguments) {
  (void)arguments;
  pthread_t thread;
  pthread_create(&thread, NULL, work_once, count > 2 ? &thread : NULL);
  if (count > 2 && write(1, "ready\n", 6) == 6) pause();
  pthread_join(thread, NULL);
  return 0;
}
"""


def _ends_well(done, *statuses):
    assert done.returncode in (statuses or (0, 2)), done
    assert done.returncode == 0 or len(done.stderr.splitlines()) <= 2, done


def recordings_are_private(folder):
    """Also with an umask of 0, and those of children and of running processes."""
    private = {"preexec_fn": lambda: os.umask(0), "cwd": folder}
    sonde("record", "--follow", "-o", "run.sonde", "--", "sh", "-c", "ls; true", **private)
    sonde("record", "--", "true", **private)
    process = start_ready([compile_c(NAMED, "-pthread"), "1", "2"])
    sonde("record", "-p", process.pid, "--malloc", "--seconds", "1", "-o", "outside.sonde", **private)
    kill(process)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert len(modes) >= 4 and set(modes.values()) == {0o600}, modes


def no_race_for_a_name_reaches_a_victim(folder):
    """Another user exchanges the file's name for links to a victim, pipes and files, while root writes to it."""
    if os.geteuid():
        skip("root is needed")
    victim, shared = folder / "victim", folder / "shared"
    victim.write_text("precious")
    victim.chmod(0o600)
    shared.mkdir()
    os.chown(shared, OTHER, OTHER)
    folder.chmod(0o755)
    script = f"""
import os
name, n = {str(shared / 'run.sonde')!r}, 0
while True:
    n += 1
    try:
        os.unlink(name)
    except OSError:
        pass
    try:
        if n % 3 == 0: os.symlink({str(victim)!r}, name)
        elif n % 3 == 1: os.mkfifo(name, 0o666)
        else: open(name, "w").close()
    except OSError:
        pass
"""
    kept = 0
    with subprocess.Popen(["/usr/bin/python3", "-c", script], user=OTHER, group=OTHER, extra_groups=[]) as attacker:
        try:
            for _ in range(25 * SCALE):
                done = try_sonde("record", "-o", shared / "run.sonde", "--", "true", timeout=60)
                assert done.returncode in (0, 125), done
                kept += done.returncode == 0
                with contextlib.suppress(FileNotFoundError):
                    found = os.lstat(shared / "run.sonde")
                    assert found.st_uid or not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o077, found
                assert victim.read_text() == "precious" and stat.S_IMODE(victim.stat().st_mode) == 0o600
        finally:
            attacker.kill()
    return f"{kept} of {25 * SCALE} recordings were made"


def a_program_that_lies_about_its_images_harms_nobody(folder):
    program = compile_c(LIES, "-O1", "-g")
    for number in range(2):
        process = start_ready([program, str(SEED + number)])
        for words in (("stacks", process.pid), ("stacks", "--json", process.pid), ("why", process.pid),
                      ("doctor", process.pid),
                      ("record", "-p", process.pid, "--malloc", "--seconds", "1", "-o", fresh()),
                      ("record", "-p", process.pid, "--seconds", "1", "-o", fresh())):
            _ends_well(try_sonde(*words, timeout=60), 0, 1, 2)
        assert process.poll() is None, "the program runs on"
        kill(process)


def a_program_whose_mappings_change_harms_nobody(folder):
    process = start_ready([compile_c(CHANGES, "-O1", "-g", "-pthread", "-ldl")])
    for number in range(4):
        done = try_sonde("stacks", "--json", process.pid, timeout=60)
        _ends_well(done)
        assert done.returncode or json.loads(done.stdout)["threads"], done
        for options in (("--malloc=all",), ()):
            path = fresh()
            if number:
                continue
            done = try_sonde("record", "-p", process.pid, *options, "--seconds", "1", "-o", path, timeout=60)
            _ends_well(done)
            assert done.returncode or json.loads(sonde("report", "--json", path)), done
    assert runs_on(process.pid)
    kill(process)


def names_never_reach_the_terminal_as_commands(folder):
    """Escapes in the names of programs, threads, arguments, folders and functions."""
    strange = folder / "\x1b[31mred\x07\n\x9b"
    strange.mkdir()
    source = strange / "a\x1b[1mb.c"
    source.write_text(NAMED)
    program = compile_c(str(source), "-O1", "-g", "-pthread", out=str(strange / "\x1b]0;title\x07"))
    whole = pathlib.Path(program).read_bytes()
    assert b"work_once" in whole
    pathlib.Path(program).write_bytes(whole.replace(b"work_once", b"work\x1b[7m\x07"))
    path = fresh()
    done = try_sonde("record", "--malloc=all", "--sample", "--stall", "-o", path, "--", program, "\x1b[5m\r",
                     text=False)
    assert done.returncode == 0, done
    process = start_ready([program, "\x1b[5m", "2"])
    spoken = [done.stderr]
    for words in (("report", path), ("report", path, "processes"), ("report", path, "malloc", "sample", "waits"),
                  ("report", "--tree", path), ("why", path), ("diff", path, path), ("stacks", process.pid),
                  ("why", process.pid), ("doctor", process.pid), ("stacks", strange / "absent"),
                  ("report", strange / "absent"), ("record", "-o", fresh(), "--", str(strange / "absent"))):
        done = try_sonde(*words, text=False)
        spoken += [done.stdout, done.stderr]
    assert b"work\\x1b[7m\\a" in b"".join(spoken), "the name of the function is shown"
    for words in (("report", "--json", path), ("stacks", "--json", process.pid), ("why", "--json", path),
                  ("doctor", "--json", process.pid)):
        document = sonde(*words, text=False)
        json.loads(document)
        spoken.append(document)
    assert b"red\\u0007\\n\\u009b" in spoken[-4], "the name of the folder is in the document"
    kill(process)
    for text in spoken:
        bad = re.findall(rb"[^\n]*[\x00-\x08\x0b-\x1f\x7f][^\n]*|[^\n]*\xc2[\x80-\x9f][^\n]*", text)
        assert not bad, bad[:3]


def no_rights_are_gained_or_kept(folder):
    """A program has the same user, groups, capabilities and filters with and without sonde."""
    if os.geteuid():
        skip("root is needed")
    if not others_can_run_sonde():
        skip(NOT_FOR_OTHERS)
    os.chmod(WORK, 0o777)
    assert not os.stat(SONDE).st_mode & 0o6000 and "security.capability" not in os.listxattr(SONDE)

    def rights(words, **how):
        done = subprocess.run([*words, "grep", "-E", "^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)", "/proc/self/status"],
                              capture_output=True, text=True, check=True, timeout=TIMEOUT_SECONDS, **how)
        return done.stdout

    for how in ({}, {"user": OTHER, "group": OTHER, "extra_groups": []}):
        plain = rights([], **how)
        assert rights([SONDE, "record", "--malloc", "--sample", "-o", fresh(), "--"], **how) == plain
        recorder = subprocess.Popen([SONDE, "record", "-o", fresh(), "--", "sleep", "100"],
                                    stderr=subprocess.DEVNULL, **how)
        time.sleep(0.3)
        with open(f"/proc/{recorder.pid}/status", encoding="utf-8") as file:
            own = "".join(line for line in file if re.match("Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp", line))
        recorder.send_signal(signal.SIGTERM)
        recorder.wait(TIMEOUT_SECONDS)
        assert own == plain


def programs_with_more_rights_are_never_preloaded(folder):
    """Set-user-ID, set-group-ID and capabilities of a file, also as a script's interpreter."""
    if os.geteuid():
        skip("root is needed")
    if not others_can_run_sonde():
        skip(NOT_FOR_OTHERS)
    needs("setcap")
    os.chmod(WORK, 0o777)
    how = {"user": OTHER, "group": OTHER, "extra_groups": []}
    for name, prepare in (("u", ["chmod", "u+s"]), ("g", ["chmod", "g+s"]), ("c", ["setcap", "cap_net_raw+ep"])):
        program = os.path.join(WORK, f"rights-{name}")
        shutil.copy(shutil.which("cat"), program)
        os.chmod(program, 0o755)
        subprocess.run([*prepare, program], check=True)
        script = pathlib.Path(WORK) / f"script-{name}"
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        for command in (program, str(script)):
            done = try_sonde("record", "-o", fresh(), "--", command, "/dev/null", **how)
            assert done.returncode == 125 and "setuid or setgid, or has capabilities" in done.stderr, done
        # As a child it runs, without the agent.
        done = try_sonde("record", "--follow", "-o", fresh(), "--", "sh", "-c",
                         f"{program} /proc/self/maps; true", **how)
        assert done.returncode == 0 and "r-xp" in done.stdout and "sonde-agent" not in done.stdout, done


def the_page_names_tests_that_exist(folder):
    """docs/security.md names a file and a case for each promise."""
    text = pathlib.Path(SOURCE, "docs/security.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|fuzz)/[\w/.]+)`(?: `(\w+)`)?", text)
    assert len(named) > 20, named
    for name, case in named:
        path = pathlib.Path(SOURCE, name)
        assert path.exists(), name
        assert not case or re.search(rf"\b{case}\b\(", path.read_text(encoding="utf-8")), (name, case)


run_cases(globals())
