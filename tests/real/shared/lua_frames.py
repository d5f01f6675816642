# SPDX-License-Identifier: MIT
"""Stacks of a Lua program, compared with its own debug.getinfo at the same moment (lua/states.lua)."""
from helpers import source_file
from shared import told


def start(lua, seed, rounds):
    return told.start(lua, source_file("real", "lua", "states.lua"), seed, rounds, source_file("real", "lua"))


def compare(said, stacks):
    return told.compare(said, stacks, "lua", "luaV_execute")


def compare_rounds(lua, seed, rounds):
    return told.compare_rounds(start(lua, seed, rounds), f"seed {seed} of states.lua", "lua", "luaV_execute")
