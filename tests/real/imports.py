#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --trace=PATTERN on programs nobody here wrote: they say what they say without it, and
each imported function is called as often as ltrace counts. (ltrace sees calls through the procedure
linkage alone; functions whose address the program hands on are called more often.)"""
import collections
import os
import platform
import re
import shutil
import signal
import subprocess

from format import reader
from helpers import (
    WORK, compile_c, connect, free_port, needs, needs_agent, record, report, run_cases, skip_part,
    start_record, try_sonde)

needs_agent()
needs("ltrace")


def record_imports(pattern, command, **how):
    path, done = record(command, f"--trace={pattern}", **how)
    return reader.Recording(path), done


def symbols_of(path, known={}):
    """The functions that a library shows, by their address in the file."""
    if path not in known:
        names = collections.defaultdict(set)
        out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
        for line in out.stdout.splitlines():
            fields = line.split()
            if len(fields) == 3 and fields[1] in "TtWi":
                names[int(fields[0], 16)].add(fields[2].split("@")[0])
        known[path] = names
    return known[path]


def counts(recording):
    """Calls by name; a function with several names is counted under each of them."""
    by_pc = collections.Counter(pc for _, _, pc, _, _ in recording.calls())
    told = collections.Counter()
    for pc, calls in by_pc.items():
        for start, end, slide, _, path in recording.images.values():
            if pc and start <= pc < end:
                for name in symbols_of(path.decode()).get(pc - slide, ()):
                    told[name] += calls
    return told


def ltrace(glob, command):
    out = os.path.join(WORK, "ltrace")
    subprocess.run(["ltrace", "-f", "-c", "-o", out, "-e", glob, *command], capture_output=True,
                   timeout=120)
    found = {}
    for line in open(out):
        match = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\w+)$", line)
        if match and match[2] != "total":
            found[match[2]] = int(match[1])
    return found


def _input_file():
    path = os.path.join(WORK, "input")
    with open(path, "w") as f:
        for i in range(20000):
            f.write(f"{i * 7919 % 10007} line {i}\n")
    return path


def counts_are_ltraces():
    text = _input_file()
    sql = ("create table t(a integer, b text);"
           "with recursive n(i) as (select 1 union all select i+1 from n where i<500)"
           " insert into t select i, 'text ' || i from n; select count(*), sum(a) from t;")
    cases = [("libcurl", "curl_*", ["curl", "-s", f"file://{text}"]),
             ("libsqlite3", "sqlite3_*", ["sqlite3", ":memory:", sql]),
             ("liblzma", "lzma_*", ["xz", "-c", "-1", text]),
             ("libcrypto", "EVP_Digest*", ["openssl", "dgst", "-sha256", text])]
    compared = 0
    for library, glob, command in cases:
        if not shutil.which(command[0]):
            skip_part(command[0], "it is not installed")
            continue
        expected = ltrace(glob, command)
        recording, done = record_imports(f"{library}*:{glob}", command)
        plain = subprocess.run(command, capture_output=True)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), command
        told = counts(recording)
        assert expected, (command, "ltrace saw nothing")
        wrong = {n: (c, told[n]) for n, c in expected.items() if told[n] != c}
        assert not wrong, (command, wrong)
        compared += len(expected)
        print(f"{command[0]}: {len(expected)} functions, {sum(expected.values())} calls")
    assert compared > 20


def everything_traced_says_the_same():
    text = _input_file()
    script = ("import json, ssl, zlib, hashlib, threading, subprocess\n"
              "t = [threading.Thread(target=lambda: zlib.compress(bytes(10000))) for _ in range(4)]\n"
              "[x.start() for x in t]; [x.join() for x in t]\n"
              "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n"
              "print(hashlib.sha256(json.dumps(list(range(999))).encode()).hexdigest())")
    commands = [["ls", "/"], ["sort", "-n", text], ["bash", "-c", "for i in 1 2 3; do echo $(($i * 2)); done | sort -r"],
                ["sqlite3", ":memory:", "select sum(value) from json_each('[1,2,3]')"],
                ["openssl", "dgst", "-sha256", text], ["perl", "-e", "print join ',', map { $_ ** 2 } 1 .. 20"],
                ["git", "--version"], ["xz", "-c", text], ["curl", "-s", f"file://{text}"],
                ["python3", "-c", script], ["node", "-e", "console.log([3,1,2].sort())"],
                ["nginx", "-v"], ["gdb", "-batch", "-ex", "print 6*7"]]
    for command in commands:
        if not shutil.which(command[0]):
            skip_part(command[0], "it is not installed")
            continue
        plain = subprocess.run(command, capture_output=True, timeout=150)
        path, done = record(command, "--trace=*")
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (command, done)
        told = report(path, "trace")
        assert told["trace"]["calls"] > 5, (command, told["trace"])
        assert told["missing"]["events"] == told["trace"]["lost"] == 0, (command, told)
        print(f"{command[0]}: {told['trace']['calls']} calls")


def a_parent_is_never_shorter_than_its_children():
    recording, _ = record_imports("*", ["python3", "-c", "import json; print(json.dumps({}))"])
    for tid in set(recording.threads.values()):
        inside = collections.Counter()
        for thread, depth, _, start, end in recording.calls():
            if thread != tid or start is None or end is None:
                continue
            children = inside.pop(depth + 1, 0)
            assert children <= end - start, (depth, children, end - start)
            inside[depth] += end - start


def serve(name, command, talk):
    path, server = start_record(command, "--trace=*", path=os.path.join(WORK, name + ".sonde"), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)
    with server:
        talk()
        _, told = server.communicate(timeout=150)
    assert server.returncode == 0, (server.returncode, told)
    return reader.Recording(path)


def _redis_serves():
    port = free_port()

    def talk():
        with connect(port) as s:
            s.settimeout(120)
            for i in range(300):
                s.sendall(f"SET key{i} {i}\r\nGET key{i}\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 3:
                    answer += s.recv(4096)
                assert answer == f"+OK\r\n${len(str(i))}\r\n{i}\r\n".encode(), answer
            s.sendall(b"SHUTDOWN NOSAVE\r\n")

    recording = serve("redis", ["redis-server", "--port", str(port), "--save", ""], talk)
    told = counts(recording)
    assert told["read"] + told["write"] > 600, told
    assert len(set(recording.threads.values())) > 2


def _nginx_serves():
    port = free_port()
    with open(os.path.join(WORK, "index.html"), "w") as f:
        f.write("hello " * 1000)
    config = os.path.join(WORK, "nginx.conf")
    with open(config, "w") as f:
        f.write(f"daemon off; master_process off; pid {WORK}/nginx.pid; error_log {WORK}/error.log;"
                "events {} http { access_log off; gzip on; gzip_types *; server { listen "
                f"127.0.0.1:{port}; root {WORK}; }} }}")

    def talk():
        connect(port).close()
        for _ in range(20):
            page = subprocess.run(["curl", "-s", "--compressed", f"http://127.0.0.1:{port}/index.html"],
                                  capture_output=True, timeout=150).stdout
            assert page == b"hello " * 1000, page[:200]
        os.kill(int(open(f"{WORK}/nginx.pid").read()), signal.SIGQUIT)

    told = counts(serve("nginx", ["nginx", "-c", config, "-p", WORK], talk))
    assert told["deflate"] >= 20 and told["epoll_wait"] >= 20, told


def an_address_that_two_images_compare_stays_equal():
    """As Qt does with signals: the library compares an address that it knows with one that the program took. Ruby does so
    with one that dlsym returns. Calls through the same kind of slot are traced."""
    library = os.path.join(WORK, "libsignals.so")
    compile_c("""
void changed(void) {}
void counted(void) {}
int is_changed(void (*function)(void)) { return function == changed; }""",
              "-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic-functions", out=library)
    crypto = os.path.join(WORK, "libcrypto-like.so")
    compile_c("""
void replaceable(void);
static void (*volatile implementation)(void) = replaceable;
void replaceable(void) { if (implementation != replaceable) __builtin_trap(); }""", "-O2", "-shared", "-fPIC", out=crypto)
    program = compile_c("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
void changed(void);
void replaceable(void); /* as CRYPTO_malloc of libcrypto */
__attribute__((noplt)) void counted(void);
int is_changed(void (*function)(void));
int main(void) {
  counted();
  replaceable();
  changed();
  return puts(is_changed((void (*)(void))dlsym(RTLD_DEFAULT, "changed")) ? "equal" : "other") < 0 ||
         puts(is_changed(changed) ? "equal" : "other") < 0;
}""", "-O2", "-fPIE", "-pie", "-L" + WORK, "-lsignals", "-l:libcrypto-like.so", "-Wl,-rpath," + WORK)
    path, done = record([program], "--trace=libsignals*:*,libcrypto-like*:*")
    if platform.machine() == "x86_64":
        assert done.stdout == b"equal\nequal\n" and done.returncode == 0, done
    calls = counts(reader.Recording(path))
    assert calls["is_changed"] == 2, calls
    assert calls["counted"] == 1, calls


def servers_serve():
    for program, test in (("redis-server", _redis_serves), ("nginx", _nginx_serves)):
        if shutil.which(program):
            test()
        else:
            skip_part(program, "it is not installed")


def what_cannot_be_is_said():
    _, done = record_imports("libnothing*:*", ["true"])
    assert done.returncode == 0 and b"traceable function or method matches 'libnothing*:*'" in done.stderr, done
    _, done = record_imports("*", ["ls", "/"])
    assert b"unusual calling conventions" in done.stderr, done
    done = try_sonde("record", "--trace=" + "x" * 600, "--", "true")
    assert done.returncode == 125 and "at most 511 bytes" in done.stderr, done


run_cases(globals())
