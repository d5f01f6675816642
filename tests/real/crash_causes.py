#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a recording says of the cause of a crash: registers and address as gdb reads them from the core file
of the same crash, and what the pointers pointed to."""
import os
import pathlib
import re
import resource

from helpers import (
    WORK, compile_c, needs, needs_agent, output_of, record, report, run_cases, skip, sonde, source_file)

# The kind, and what the text must match.
CAUSES = {
    "large": ("use_after_free", r"address = 0x\w+ is 5000 bytes into a 1048576-byte block that make_block allocated "
                                r"and drop_block freed [\d.]+ \S+ earlier on thread \d+"),
    "small": ("other", r"= 0x\w+ is a 48-byte block that make_block allocated and drop_block freed"),
    "double": ("double_free", r"free\(\): double free detected .* the freed pointer 0x\w+ is a 48-byte block that "
                              r"make_block allocated and drop_block freed"),
    "inside": ("invalid_free", r"the freed pointer 0x\w+ is 16 bytes into a live 480-byte block that make_block"),
    "behind": ("overflow", r"address = 0x\w+ is 84 bytes behind the end of a live 1048476-byte block that make_block"),
    "over": ("heap_corruption", r"free\(\): invalid next size .* is a live 2000-byte block that make_row allocated, and "
                                r"what is behind its end is overwritten$"),
    "into": ("heap_corruption", r"the freed pointer 0x\w+ is a live 2000-byte block that make_block allocated, and what "
                                r"is in front of it is overwritten, at the end of a live 2000-byte block that make_row"),
    "stack": ("stack_overflow", r"SIGSEGV: stack overflow at .* below the stack of the thread"),
    "thread": ("stack_overflow", r"SIGSEGV: stack overflow at .* below the stack of the thread"),
    "unloaded": ("unloaded_library", r"address = 0x\w+ is in plugin.so, which was unloaded [\d.]+ \S+ earlier"),
    "null": ("null_pointer", r"SIGSEGV: write to unmapped memory at 0x18, a null pointer plus 24"),
    "assert": ("assertion", r"SIGABRT: .*Assertion `number == 8' failed"),
    "zero": ("other", r"SIGFPE: integer division by zero"),
    "const": ("other", r"SIGSEGV: write to read-only memory at 0x"),
}


def _crash(program, how, *options):
    path, done = record([program, how], "--malloc=all", *options, env=dict(os.environ, PLUGIN=PLUGIN))
    assert done.returncode < 0, (how, done)
    crash = report(path, "crash")["crash"]
    return crash, " ".join([crash["cause"], *(p["text"] for p in crash["pointers"] if p["telling"])])


def causes_are_named():
    for how, (kind, wanted) in CAUSES.items():
        crash, text = _crash(FAULTS, how)
        assert crash["kind"] == kind and re.search(wanted, text), (how, crash["kind"], text)


def pointers_are_in_json():
    crash, _ = _crash(FAULTS, "large")
    address = crash["pointers"][0]
    assert address["name"] == "address" and address["value"] == crash["address"] and address["telling"], address
    assert address["place"] == "freed" and address["offset"] == 5000, address
    block = address["block"]
    assert block["size"] == 1 << 20 and int(block["start"], 16) + 5000 == int(crash["address"], 16), block
    names = [[f.get("function") for f in block[key]] for key in ("allocated_by", "freed_by")]
    assert "make_block" in names[0] and "use_large" in names[0], names
    assert "drop_block" in names[1] and "drop_elsewhere" in names[1], names
    assert block["allocated_ns"] < block["freed_ns"] < crash["time_ns"], block
    assert block["freed_tid"] != crash["threads"][0]["tid"], block


def damage_is_in_json():
    for how, damage in ("over", "behind"), ("into", "before"):
        freed = _crash(FAULTS, how)[0]["pointers"][0]
        assert freed["name"] == "freed" and freed["damage"] == damage, freed
        names = [f.get("function") for f in freed["below" if how == "into" else "block"]["allocated_by"]]
        assert "make_row" in names, names
        assert ("below" in freed) == (how == "into"), freed


def the_text_has_the_same(folder):
    path, _ = record([FAULTS, "large"], "--malloc=all", path=folder / "large.sonde")
    text, crash = sonde("report", path, "crash"), report(path, "crash")["crash"]
    head = text[text.index("\ncrash"):].split("\n      ")[0]
    assert max(map(len, head.splitlines())) <= 80, head
    for part in crash["cause"], crash["pointers"][0]["text"]:
        assert part in re.sub(r"\s+", " ", head), (part, head)
    for name, value in crash["registers"].items():
        assert re.search(rf"\b{name} {value[2:].zfill(16)}\b", text), (name, value, text)


def a_null_pointer_blames_no_block():
    crash, _ = _crash(FAULTS, "null")
    assert [p["name"] for p in crash["pointers"] if p["telling"]] == ["address"], crash["pointers"]


def exceptions_have_type_and_text():
    for how, wanted in (("text", "uncaught exception shop::Refused: no such article: 17"),
                        ("plain", "uncaught exception shop::Empty"), ("number", "uncaught exception int")):
        crash, _ = _crash(THROWS, how)
        assert crash["kind"] == "uncaught_exception" and crash["cause"] == "SIGABRT: " + wanted, (how, crash)
    crash, _ = _crash(THROWS, "handled")
    assert crash["kind"] == "abort" and crash["cause"] == "SIGABRT: abort", crash


RUST = """
fn down(n: u64) -> u64 { let a = [n; 100]; down(n + 1) + a[(n % 100) as usize] }
fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words[1] == "panic" { println!("{}", words[words.len() + 5]); }
    std::thread::spawn(|| { println!("{}", down(1)); }).join().unwrap();
}
"""


def rust_says_panic_or_overflow(folder):
    needs("rustc")
    (folder / "r.rs").write_text(RUST)
    output_of("rustc", "-C", "panic=abort", "-A", "warnings", "-o", folder / "r", folder / "r.rs")
    for how, kind in ("panic", "panic"), ("overflow", "stack_overflow"):
        crash, _ = _crash(folder / "r", how)
        assert crash["kind"] == kind and crash["signal"] == 6, crash


def _gdb(program, core):
    """The registers and the address of the fault in a core file."""
    told = output_of("gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex",
                     "p/x (long)$_siginfo._sifields._sigfault.si_addr", "-ex", "info registers", program, core)
    registers = {m[1]: int(m[2], 16) for m in re.finditer(r"^([a-z]+\d*)\s+0x([0-9a-f]+)\b", told, re.M)}
    return int(re.search(r"^\$1 = 0x([0-9a-f]+)", told, re.M)[1], 16), registers


def registers_are_gdbs(folder):
    needs("gdb")
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip() != "core":
        skip("the kernel writes core files elsewhere")
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for how in "null", "stack":
        path = folder / f"{how}.sonde"
        record([FAULTS, how], path=path, cwd=folder)
        core = next(folder.glob("core*"))
        address, registers = _gdb(FAULTS, core)
        core.unlink()
        crash = report(path, "crash")["crash"]
        ours = {name: int(value, 16) for name, value in crash["registers"].items()}
        assert len(ours) >= 17 and ours == {name: registers[name] for name in ours}, (how, ours, registers)
        assert int(crash["address"], 16) == address, (how, crash["address"], address)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))


def registers_are_those_of_the_fault():
    registers = _crash(FAULTS, "null")[0]["registers"]
    wanted = (("rax", 0x1111), ("rbx", 0x2222), ("r9", 0x3333), ("r15", 0x4444), ("rdi", 0x18)) \
        if "rip" in registers else (("x0", 0x1111), ("x19", 0x2222), ("x9", 0x3333), ("x28", 0x4444), ("x1", 0x18))
    for name, value in wanted:
        assert int(registers[name], 16) == value, (name, registers)


needs_agent()
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
FAULTS = compile_c(source_file("real", "record", "faults.c"), "-O1", "-g", "-w", "-pthread",
                   out=os.path.join(WORK, "faults"))
PLUGIN = compile_c(source_file("real", "record", "faults.c"), "-O1", "-w", "-shared", "-fPIC", "-DAS_PLUGIN",
                   out=os.path.join(WORK, "plugin.so"))
THROWS = compile_c(source_file("real", "record", "throws.cc"), "-O1", "-g", compiler="c++",
                   out=os.path.join(WORK, "throws"))
run_cases(globals())
