#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stalls in programs from packages, unmodified, provoked from outside: found, timed, explained and
named. A program that is not installed is skipped aloud."""
import os
import subprocess
import time

from helpers import SCALE, WORK, connect, Delays, free_port, fresh, needs, needs_agent, run_cases, skip
from shared.stalls import stalls, start

THRESHOLD = 250
PYTHON = "/usr/bin/python3"
delays = Delays()


def timed(action):
    began = time.monotonic()
    action()
    return time.monotonic() - began


def names_of(stall):
    found = {stall.get(k, {}).get(f, "") for k in ("hot_path", "callee") for f in ("function", "module")}
    for frame in stall.get("frames", []):
        found |= {frame.get("function", ""), frame.get("module", "")}
    return found


def verdict(what, told, causes, words, seconds=None):
    """The longest stall must have one of CAUSES, and one of WORDS in its call or in a name of its
    stack, and have lasted SECONDS."""
    assert told["stalls"], f"{what}: no stall was found"
    stall = max(told["stalls"], key=lambda s: s["length_ns"])
    told_words = names_of(stall) | {stall.get("call", ""), stall.get("what", "")}
    length = stall["total_ns"] / 1e9
    hot = stall.get("hot_path", {})
    print(f"{what:26} {stall['cause']:10} {hot.get('function', '-')} ({hot.get('module', '-')}) "
          f"{stall.get('call', '')} {length:.3f} s")
    assert stall["cause"] in causes, (what, stall["cause"])
    assert any(w in t for w in words for t in told_words), (what, sorted(told_words))
    if seconds is not None:
        assert abs(length - seconds) < 0.12 * seconds + 0.06 + 3 * delays.worst, (what, length, seconds, delays.worst)


def end(recorder):
    recorder.terminate()
    _, complaints = recorder.communicate(timeout=150)
    assert "SIGSEGV" not in complaints


# ---- redis -------------------------------------------------------------------------------------

def redis(command, what, causes, words):
    port, path = free_port(), fresh()
    recorder = start(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no",
                      "--lua-time-limit", "0", # else it takes requests in the middle of the script, after 5 s
                      "--enable-debug-command", "yes", "--dir", WORK], THRESHOLD, path,
                     stdout=subprocess.DEVNULL)
    with connect(port) as s:
        for _ in range(5):
            s.sendall(b"PING\r\n")
            assert s.recv(64) == b"+PONG\r\n"

        def ask(words):
            s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            assert s.recv(64)[:1] in b"+:"
        words_of_command = command(ask)
        seconds = timed(lambda: ask(words_of_command))
        s.sendall(b"PING\r\n")
        s.recv(64)
    time.sleep(0.2)
    end(recorder)
    verdict(what, stalls(path), causes, words, seconds)


def lua(loops):
    return [b"EVAL", b"local x=0 for i=1,%d do x=x+i%%7 end return x" % loops, b"0"]


# A script of two seconds on this machine, not of an amount that takes minutes on a slow one.
def lua_of_two_seconds(ask):
    return lua(int(2 / min(timed(lambda: ask(lua(10 ** 6))) for _ in range(3)) * 10 ** 6))


def with_redis():
    needs("redis-server")
    redis(lambda _: [b"DEBUG", b"SLEEP", b"0.7"], "redis DEBUG SLEEP", ["blocked"], ["nanosleep"])
    redis(lua_of_two_seconds, "redis Lua script", ["cpu"], ["luaV_execute", "lua"])


# ---- node --------------------------------------------------------------------------------------

NODE = """
const fs = require('fs'), crypto = require('crypto');
let turns = 0;
const timer = setInterval(() => {
  if (++turns === 8) { %s }
  if (turns === 16) clearInterval(timer);
}, 10);
"""


def node(body, what, causes, words):
    path = fresh()
    recorder = start(["node", "-e", NODE % body], THRESHOLD, path, stdout=subprocess.DEVNULL)
    recorder.communicate(timeout=150)
    assert recorder.returncode == 0
    verdict(what, stalls(path), causes, words)


def with_node():
    needs("node")
    fifo = os.path.join(WORK, "node.fifo")
    os.mkfifo(fifo)
    # A fixed amount of arithmetic: a loop that looks at a clock would be long on a busy machine only.
    node(f"let x = 1; for (let i = 0; i < {SCALE} * 4e8; i++) x = (x * 31 + i) | 0; if (x === 3) turns = x;",
         "node busy loop", ["cpu", "mixed"], ["node"])
    node("crypto.pbkdf2Sync('x', 'y', 900000, 64, 'sha512')", "node pbkdf2Sync", ["cpu"],
         ["PBKDF2", "PBKDF", "sha512", "SHA512", "libcrypto"])
    writer = subprocess.Popen(["sh", "-c", f"exec 3>{fifo}; sleep 0.8; echo x >&3"])
    node(f"fs.readSync(fs.openSync('{fifo}', 'r'), Buffer.alloc(4))", "node readSync on a fifo",
         ["blocked"], [fifo, "read"])
    writer.wait()


# ---- python ------------------------------------------------------------------------------------

ASYNCIO = """
import asyncio, time, hashlib, zlib, fcntl, sqlite3, os
async def main():
    for i in range(12):
        await asyncio.sleep(0.01)
        if i == 6:
            began = time.monotonic()
            {body}
            print(time.monotonic() - began, flush=True)
asyncio.run(main())
"""

GLIB = """
import gi, time
gi.require_version('GLib', '2.0')
from gi.repository import GLib
loop, turns = GLib.MainLoop(), [0]
def turn():
    turns[0] += 1
    if turns[0] == 7:
        began = time.monotonic()
        {body}
        print(time.monotonic() - began, flush=True)
    if turns[0] == 12:
        loop.quit()
    return True
GLib.timeout_add(10, turn)
loop.run()
"""


def python(program, body, what, causes, words):
    path = fresh()
    recorder = start([PYTHON, "-c", program.format(body=body)], THRESHOLD, path,
                     stdout=subprocess.PIPE)
    out, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    verdict(what, stalls(path), causes, words, float(out))


def with_python():
    needs(PYTHON)
    lock = os.path.join(WORK, "lock")
    python(ASYNCIO, "time.sleep(0.6)", "asyncio time.sleep", ["blocked"], ["nanosleep"])
    python(ASYNCIO, "hashlib.pbkdf2_hmac('sha512', b'x', b'y', 800000)", "asyncio pbkdf2", ["cpu"],
           ["libcrypto", "PBKDF"])
    python(ASYNCIO, "zlib.compress(os.urandom(1 << 20) * 24, 9)", "asyncio zlib", ["cpu", "kernel"],
           ["libz", "deflate", "compress"])
    python(ASYNCIO, "sqlite3.connect(':memory:').execute('with recursive c(x) as (select 1 union "
           "all select x+1 from c where x<4000000) select sum(x) from c').fetchall()",
           "asyncio sqlite3", ["cpu"], ["sqlite3"])
    open(lock, "w").close()
    holder = subprocess.Popen([PYTHON, "-c", "import fcntl,time,sys; f=open(sys.argv[1],'w'); "
                               "fcntl.flock(f,2); print(1,flush=True); "
                               f"waited = lambda: any('->' in l and ':{os.stat(lock).st_ino} ' in l "
                               "for l in open('/proc/locks'))\nwhile not waited(): time.sleep(0.01)\ntime.sleep(0.9)",
                               lock],
                              stdout=subprocess.PIPE)
    holder.stdout.readline()
    python(ASYNCIO, f"fcntl.flock(open('{lock}', 'w'), 2)", "asyncio flock", ["blocked"],
           ["flock", lock])
    holder.wait()


def with_glib():
    needs(PYTHON)
    if subprocess.run([PYTHON, "-c", "import gi"], stderr=subprocess.DEVNULL).returncode:
        skip("python3-gi is not installed")
    python(GLIB, "GLib.usleep(600000)", "GLib g_usleep", ["blocked"], ["nanosleep", "g_usleep"])
    python(GLIB, "GLib.spawn_command_line_sync('sleep 0.6')", "GLib spawn_sync", ["blocked"],
           ["g_spawn_sync", "libglib", "poll", "select"])


# ---- nginx -------------------------------------------------------------------------------------

NGINX = """
daemon off; master_process off; pcre_jit off; pid {work}/nginx.pid; error_log {work}/nginx.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c;
  uwsgi_temp_path {work}/d; scgi_temp_path {work}/e;
  server {{
    listen 127.0.0.1:{port};
    location / {{ {ifs} return 200; }}
  }}
}}
"""


def get(port, target):
    with connect(port) as s:
        s.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        assert s.recv(200).startswith(b"HTTP/1.1 ")


# Six regular expressions that backtrack, each short of PCRE's own limit.
def with_nginx():
    needs("nginx")
    port, path = free_port(), fresh()
    conf = os.path.join(WORK, "nginx.conf")
    with open(conf, "w") as f:
        f.write(NGINX.format(work=WORK, port=port,
                             ifs='if ($arg_a ~ "^(a|aa)+$") { return 201; }' * 6))
    recorder = start(["nginx", "-c", conf], THRESHOLD, path, stdout=subprocess.DEVNULL)
    for _ in range(8):
        get(port, "/?a=x")
    seconds = timed(lambda: [get(port, "/?a=" + "a" * 29 + "c")])
    get(port, "/?a=x")
    time.sleep(0.2)
    end(recorder)
    verdict("nginx backtracking regex", stalls(path), ["cpu"], ["pcre"], seconds)


needs_agent()
with delays:
    run_cases([with_redis, with_node, with_python, with_glib, with_nginx])
