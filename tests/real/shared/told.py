# SPDX-License-Identifier: MIT
"""Programs that say what the stacks of their threads are in an interpreted language, and what sonde says of them."""
import json
import pathlib
import subprocess

from helpers import kill, needs, output_of, sonde, until


def start(*command):
    """The running program, and what its first line says: [function, file, line] of frames by native thread id."""
    program = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = program.stdout.readline()
    assert line, f"{command} failed"
    return program, {int(tid): frames for tid, frames in json.loads(line).items()}


def frames_of(thread, language):
    """[function, file, line] of the frames of LANGUAGE of a thread of `sonde stacks --json`."""
    return [[frame["function"], frame.get("file"), frame.get("line", 0)] for frame in thread["frames"]
            if frame.get("language") == language]


def compare(told, stacks, language, evaluator):
    """Compares the frames of all threads, but of those that TOLD has None of. EVALUATOR: a part of the name of the
    interpreter's function that is replaced. Returns the numbers of threads and frames."""
    threads = count = 0
    for thread in stacks["threads"]:
        theirs = told.pop(thread["tid"], [])
        if theirs is None:
            continue
        ours = frames_of(thread, language)
        assert ours == theirs, (thread["tid"], ours[:30], theirs[:30])
        assert f"{language}_missing" not in thread, thread
        assert not any(evaluator in frame.get("function", "") for frame in thread["frames"]), thread
        threads += bool(ours)
        count += len(ours)
    assert not any(told.values()), told
    return threads, count


def waits(program):
    """Whether a thread of the program has read all that it was given, and reads on."""
    return any(path.read_text().startswith("0 0x0 ") for path in pathlib.Path(f"/proc/{program.pid}/task").glob("*/syscall"))


def compare_core(begin, compare, folder):
    """Compares the frames in a core file of a program that waits. BEGIN starts it, and returns it and what it says. Returns
    what COMPARE does."""
    needs("gcore")
    program, said = begin()
    try:
        until(lambda: waits(program), "the program does not wait")
        output_of("gcore", "-o", folder / "core", program.pid)
    finally:
        kill(program)
    path = folder / f"core.{program.pid}"
    found = compare(said, json.loads(sonde("stacks", "--json", "--core", path)))
    path.unlink()
    return found


def compare_rounds(started, name, language, evaluator):
    """Compares one stack after the other of a program that `start` returned, and that waits for a line after each. NAME is
    for a failure. Returns the numbers of stacks, of their frames, and of the stacks that sonde says are incomplete."""
    program, said = started
    count = frames = incomplete = 0
    try:
        while said:
            until(lambda: waits(program), "the program does not wait")
            stacks = json.loads(sonde("stacks", "--json", program.pid))
            doubtful = [thread for thread in stacks["threads"]
                        if said.get(thread["tid"]) and f"{language}_missing" in thread]
            if doubtful:
                assert not frames_of(doubtful[0], language), stacks
                incomplete += 1
            else:
                frames += compare(said, stacks, language, evaluator)[1]
            count += 1
            program.stdin.write("\n")
            program.stdin.flush()
            line = program.stdout.readline()
            said = {int(pid): its for pid, its in json.loads(line).items()} if line else None
    except AssertionError:
        print(name, flush=True)
        raise
    finally:
        kill(program)
    return count, frames, incomplete
