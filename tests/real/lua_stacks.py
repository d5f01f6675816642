#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lua frames in `sonde stacks` of a process and of a core file, against what Lua itself says of its stack at the same time
(debug.getinfo): function, file and line of every frame. And of a program that runs, whose chain of calls is known."""
import json
import shutil

from helpers import SEED, compile_c, kill, run_cases, skip, sonde, source_file, start_ready, until
from shared import told
from shared.lua_frames import compare, compare_rounds, start

LUA = shutil.which("lua5.4")


def process():
    count, frames, incomplete = compare_rounds(LUA, SEED, 20)
    assert count >= 20 and not incomplete, (count, incomplete)
    return f"{count} stacks, {frames} frames"


def core(folder):
    return f"{told.compare_core(lambda: start(LUA, 2, 1), compare, folder)[1]} frames"


def text():
    program, _ = start(LUA, 2, 1)
    try:
        until(lambda: told.waits(program), "the program does not wait")
        printed, verdict = sonde("stacks", program.pid), sonde("doctor", program.pid)
    finally:
        kill(program)
    for wanted in (" read ", " wait ", " main chunk ", "states.lua:"):
        assert wanted in printed, (wanted, printed)
    assert "luaV_execute" not in printed and " lua_callk" not in printed, printed
    assert "Lua 5.4.4: stacks show Lua functions" in verdict, verdict


# What may be on the stack of busy.lua, innermost first: each function with those that may have called it.
CALLERS = {
    "leaf": ["inner"], "yield": ["function"], "inner": ["function", "outer"], "gsub": ["callback"], "callback": ["outer"],
    "outer": ["function"], "function": ["gsub", "resume"], "resume": ["main"], "print": ["main"], "main": [None]}


def running():
    """A thread that is stopped anywhere: what it shows is a chain of calls that is possible, or is said to be missing."""
    program = start_ready([LUA, source_file("real", "lua", "busy.lua")], asleep=False)
    frames = missing = 0
    for _ in range(20):
        thread = json.loads(sonde("stacks", "--json", program.pid))["threads"][0]
        chain = [name.split()[0] for name, _, _ in told.frames_of(thread, "lua")]
        if "lua_missing" in thread:
            missing += 1
            continue
        for inner, outer in zip(chain, [*chain[1:], None]):
            assert outer in CALLERS[inner], chain
        frames += len(chain)
    kill(program)
    assert missing < 5 and frames, (missing, frames)
    return f"{frames} frames, {missing} stacks said to be incomplete"


HOST = r"""
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int halt(lua_State *L) { (void)L; static int count;
  if (__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) == 2) { puts("ready"); fflush(stdout); } pause(); return 0; }
static void *run(void *text) { lua_State *L = luaL_newstate(); luaL_openlibs(L); lua_register(L, "halt", halt);
  if (luaL_dostring(L, text)) puts(lua_tostring(L, -1)); return NULL; }
int main(void) { pthread_t t;
  pthread_create(&t, NULL, run, "local function in_thread() halt() return 0 end\nreturn 1 + in_thread()");
  run("local function in_main() halt() return 0 end\nreturn 1 + in_main()"); return 0; }
"""


def two_universes():
    """In a program with Lua's library, each thread runs its own."""
    try:
        host = compile_c(HOST, "-O1", "-I/usr/include/lua5.4", "-llua5.4", "-lpthread")
    except AssertionError:
        skip("liblua5.4-dev is not installed")
    program = start_ready([host])
    threads = json.loads(sonde("stacks", "--json", program.pid))["threads"]
    kill(program)
    chains = sorted([name for name, _, _ in told.frames_of(thread, "lua")] for thread in threads)
    assert chains == [["halt", "in_main", "main chunk"], ["halt", "in_thread", "main chunk"]], chains


if not LUA:
    skip("lua5.4 is not installed")
run_cases([process, core, text, running, two_universes])
