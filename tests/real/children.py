#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --follow lists every program of a run, as strace -f sees them: recorded, or with the reason.
Programs of other users, namespaces and root directories are recorded where the agent can load."""
import os
import re
import shutil
import subprocess
from collections import Counter

from helpers import (LIB, NOT_FOR_OTHERS, SONDE, compile_c, needs, needs_agent, needs_strace, others_can_run_sonde, output_of, record, report,
                     run_cases, second_reader, skip, sonde)

needs_agent()
BLOCKS = 500
SOURCE = f"""
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {{
  for (int i = 0; i < {BLOCKS}; i++) if (!malloc(100)) return 1;
  return argc > 1 ? execv(argv[1], argv + 1) : 0;
}}
"""
# Statically linked it has no agent, so it shows what programs inherit.
LIST_DESCRIPTORS = """
#include <fcntl.h>
#include <stdio.h>
int main(void) {
  for (int fd = 0; fd < 4096; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("%d\\n", fd);
}
"""
OPEN_EVENT = """
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1};
  return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0) < 0;
}
"""
PROGRAM = compile_c(SOURCE)
os.chmod(PROGRAM, 0o755)


def _run(folder, *command, options=("--follow", "--malloc=malloc"), **how):
    """The processes that the report of a run lists, and what the run printed."""
    path, done = record(command, *options, path=os.path.join(folder, "run.sonde"), text=True, **how)
    assert done.returncode == 0, done
    assert "ld.so" not in done.stderr, done.stderr
    return report(path, "processes")["processes"]["list"], done


def _rows(rows, program=PROGRAM):
    """The rows of a program, with or without arguments."""
    return [row for row in rows if row["command"].split(" ")[0] == str(program)]


def _recorded(rows, program=PROGRAM):
    """Fails unless the program has one row, whose recording has its blocks."""
    (row,) = _rows(rows, program)
    assert row.get("file"), row
    told = report(row["file"], "malloc")
    assert told["pid"] == row["pid"], (told["pid"], row)
    assert told["malloc"]["allocated"]["blocks"] >= BLOCKS, told["malloc"]["allocated"]
    return row


def _can(*command):
    """Skips unless COMMAND, which needs rights, works here."""
    needs(command[0])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        skip(f"{' '.join(command)}: {done.stderr.strip()}")


def _root():
    if os.geteuid() or not others_can_run_sonde():
        skip("needs root" if os.geteuid() else NOT_FOR_OTHERS)


def another_user_by_setpriv(folder):
    _root()
    _can("setpriv", "--reuid", "65534", "true")
    _recorded(_run(folder, "sh", "-c", f"setpriv --reuid 65534 {PROGRAM}; true")[0])


def another_user_by_su(folder):
    _root()
    _can("su", "nobody", "-s", "/bin/sh", "-c", "true")
    _recorded(_run(folder, "su", "nobody", "-s", "/bin/sh", "-c", f"{PROGRAM}; true")[0])


def a_user_namespace(folder):
    _can("unshare", "-Ur", "true")
    _recorded(_run(folder, "sh", "-c", f"unshare -Ur {PROGRAM}; true")[0])


def a_mount_namespace(folder):
    _can("unshare", "-Urm", "true")
    _recorded(_run(folder, "sh", "-c", f"unshare -Urm {PROGRAM}; true")[0])


def a_pid_namespace(folder):
    """The pid of the list is the recorder's, not the 1 of the namespace."""
    _can("unshare", "-Urpf", "--mount-proc", "true")
    row = _recorded(_run(folder, "unshare", "-Urpf", "--mount-proc", PROGRAM)[0])
    assert row["pid"] > 1, row


def a_network_namespace(folder):
    """The recorder binds its socket there, too. A program there inherits no descriptor."""
    _can("unshare", "-Urn", "true")
    lister = compile_c(LIST_DESCRIPTORS, "-static")
    rows, done = _run(folder, "sh", "-c", f"unshare -Urn {PROGRAM}; unshare -Urn sh -c '{lister}; {PROGRAM}'; true")
    assert len(_rows(rows)) == 2 and all(row.get("file") for row in _rows(rows)), rows
    assert done.stdout == output_of("unshare", "-Urn", lister), done


def a_network_namespace_of_root(folder):
    _root()
    _can("unshare", "-n", "true")
    _recorded(_run(folder, "sh", "-c", f"unshare -n {PROGRAM}; true")[0])


def a_sandbox_that_unshares_everything(folder):
    """bwrap makes its namespaces by clone(2), and closes descriptors."""
    _can("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "true")
    _recorded(_run(folder, "bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", PROGRAM)[0])


def a_process_that_closed_all_descriptors(folder):
    """It cannot call the recorder, and the list has the reason."""
    _can("unshare", "-Urn", "true")
    script = f"import os\nos.closerange(3, 4096)\nos.unshare(0x50000000)\nos.execv('{PROGRAM}', ['{PROGRAM}'])"
    script = script.replace("os.unshare(0x50000000)", "import ctypes; assert not ctypes.CDLL(None).unshare(0x50000000)")
    rows, done = _run(folder, "sh", "-c", f'/usr/bin/python3 -c "{script}"; true')
    (row,) = [row for row in rows if "not_recorded" in row]
    assert "network namespace" in row["not_recorded"] and "network namespace" in done.stderr, (row, done.stderr)


def without_an_environment(folder):
    _recorded(_run(folder, "sh", "-c", f"env -i {PROGRAM}; true")[0])


def a_daemon(folder):
    needs("setsid")
    _recorded(_run(folder, "setsid", "-f", PROGRAM)[0])


def the_agent_is_not_visible(folder):
    """A file system hides the agent's folder: a descriptor of its file replaces the path."""
    _can("unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt")
    shutil.copy(PROGRAM, folder / "program")
    rows, done = _run(folder, "unshare", "-Urm", "sh", "-c",
                      f"mount -t tmpfs none {LIB} && {folder}/program; true")
    assert not done.stderr.count("cannot be preloaded"), done.stderr
    _recorded(rows, folder / "program")


def shells_of_a_program_that_does_not_see_the_agent(folder):
    """system and popen pass the program's own environment, which does not name the agent there."""
    _can("unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt")
    program, caller = folder / "program", folder / "caller"
    shutil.copy(PROGRAM, program)
    compile_c('#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n'
              'if (getenv("SONDE_RECORD") || system(argv[1])) return 1;\n'
              'FILE *f = popen(argv[argc - 1], "r"); if (!f || pclose(f)) return 2;\n'
              'return getenv("SONDE_RECORD") ? 3 : 0; }', out=caller)
    rows, done = _run(folder, "unshare", "-Urm", "sh", "-c",
                      f"mount -t tmpfs none {LIB} && {caller} '{program}; true'")
    assert not done.stderr.count("cannot be preloaded"), done.stderr
    called = [row for row in rows if row["command"].startswith(str(program))]
    assert len(called) == 2 and all(row.get("file") for row in called), rows


def no_way_to_the_agent(folder):
    """A root directory without /proc: the program runs as ever, and the list has the reason."""
    _can("unshare", "-Ur", "chroot", "/", "true")
    root = folder / "root"
    for path in [PROGRAM, *re.findall(r"(/\S+)", output_of("ldd", PROGRAM))]:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    rows, done = _run(folder, "sh", "-c", f"unshare -Ur chroot {root} {PROGRAM}; true")
    (row,) = [row for row in rows if "not_recorded" in row]
    assert row["command"] == PROGRAM and "not visible" in row["not_recorded"], row
    assert "not visible" in done.stderr, done.stderr


def a_static_program(folder):
    """It is not recorded, the programs that it executes are."""
    static = compile_c(SOURCE, "-static")
    rows, done = _run(folder, "sh", "-c", f"{static} {PROGRAM}; {static}; true")
    _recorded(rows)
    first, last = _rows(rows, static)
    assert first["not_recorded"] == last["not_recorded"] == "it is statically linked", rows
    assert "statically linked; 'sonde record -- " in done.stderr, done.stderr


def short_children_of_a_static_program(folder):
    """Static programs that a static program executes, each for a moment."""
    if subprocess.run([compile_c(OPEN_EVENT)], check=False).returncode:
        skip("the kernel lets no process be observed here (perf_event_open)")
    brief = compile_c("int main(void) { return 0; }", "-static", out=folder / "brief")
    starter = compile_c('#include <sys/wait.h>\n#include <unistd.h>\nint main(int argc, char **argv) {\n'
                        'for (int i = 0; i < 40; i++) { if (!fork()) { execv(argv[1], argv + 1); _exit(9); } wait(0); } '
                        'return argc - 2; }', "-static")
    rows, _ = _run(folder, "sh", "-c", f"{starter} {brief}; true")
    short = [row for row in rows if os.path.basename(row["command"].split(" ")[0]) == "brief"]
    assert len(short) == 40 and all(row["not_recorded"] for row in short), (len(short), rows)


def a_program_that_gains_rights(folder):
    _root()
    setuid = folder / "setuid"
    shutil.copy(PROGRAM, setuid)
    os.chown(setuid, 65534, 65534)
    os.chmod(setuid, 0o4755)
    row = _rows(_run(folder, "sh", "-c", f"{setuid}; true")[0], setuid)[0]
    assert row["not_recorded"] == "it gains rights (setuid, setgid, capabilities)", row


def every_program_of_strace(folder):
    """The oracle: each process that executes a program under strace -f is listed, with that program."""
    needs_strace()
    static = compile_c(SOURCE, "-static")
    script = folder / "script"
    script.write_text(f"#!/bin/sh\n{PROGRAM} &\n{static}\n(cd /; exec {PROGRAM})\nenv -i {static}\nnice {PROGRAM}\nwait\n")
    script.chmod(0o755)
    output_of("strace", "-ff", "-qq", "-e", "trace=execve", "-o", folder / "trace", script)
    executed = [re.findall(r'^execve\("([^"]+)".* = 0$', trace.read_text(), re.M)
                for trace in folder.glob("trace.*")]
    rows, _ = _run(folder, script)
    found = Counter(os.path.basename(row["command"].split(" ")[0]) for row in rows)
    last = Counter(os.path.basename(programs[-1]) for programs in executed if programs)
    every = Counter(os.path.basename(program) for programs in executed for program in programs)
    assert not last - found and not found - every, (found, last, every)
    return dict(found)


def the_list_has_times(folder):
    burn = "import os,subprocess,time\nend=time.process_time()+0.3\nwhile time.process_time()<end: pass\n"
    rows, done = _run(folder, "sh", "-c", f"/usr/bin/python3 -c '{burn}'; true", options=("--follow",))
    (python,) = _rows(rows, "/usr/bin/python3")
    assert python["cpu_ns"] >= 0.3e9 and python["duration_ns"] >= 0.3e9, python
    assert python["parent"] == rows[0]["pid"], rows
    assert "2 of 2 processes are recorded" in done.stderr, done.stderr
    for row, read in zip(rows, [e for e in second_reader(folder / "run.sonde") if e["event"] == "process"]):
        assert row.items() >= {key: read[key] for key in ("pid", "parent", "start_ns", "cpu_ns", "command")}.items()
        assert read["end_ns"] - read["start_ns"] == row["duration_ns"] and read["file"] == row["file"], (row, read)
    text = sonde("report", folder / "run.sonde")
    assert "2 in this run" in text and python["file"] in text, text


def children_that_are_not_followed(folder):
    """The recorder and the report say so."""
    script = f"{PROGRAM}; true"
    path, done = record(["sh", "-c", script], "--audit", path=folder / "run.sonde", text=True)
    assert "children" in done.stderr and "--follow" in done.stderr, done.stderr
    assert "children of the command were not recorded" in sonde("report", path)
    _, done = record([PROGRAM], path=folder / "alone.sonde", text=True)
    assert "children" not in done.stderr, done.stderr


def forked_children_whose_calls_are_not_audited(folder):
    """The parent uses more CPU time than its child, which makes the calls and executes nothing."""
    program = compile_c("""
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
  while (clock() < CLOCKS_PER_SEC / 10) {}
  if (count > 1 && fork() == 0) {
    for (int i = 0; i < 150; i++) close(open("/etc/passwd", O_RDONLY));
    _exit(0);
  }
  wait(0);
  return 0;
}""")
    said = "the command's children were not recorded, so their calls are missing; add --follow"
    path, done = record([program, "child"], "--audit=files", path=folder / "audited.sonde", text=True)
    assert said in done.stderr, done.stderr
    assert "children of the command were not recorded" in sonde("report", path)
    for command, options in ([program], ["--audit=files"]), ([program, "child"], ["--sample"]):
        _, done = record(command, *options, path=folder / "other.sonde", text=True)
        assert "--follow" not in done.stderr, (command, options, done.stderr)


def a_removed_folder(folder):
    path = folder / "gone" / "run.sonde"
    path.parent.mkdir()
    _, done = record(["rm", "-r", path.parent], path=path, text=True)
    assert done.returncode == 0 and "the recording is lost" in done.stderr, done.stderr
    assert "sonde report" not in done.stderr, done.stderr


def a_second_recording(folder):
    path, _ = record([PROGRAM], path=folder / "run.sonde")
    said = subprocess.run([SONDE, "report", path, path], capture_output=True, text=True, check=False)
    assert said.returncode == 2 and "takes one recording" in said.stderr, said


run_cases(globals())
