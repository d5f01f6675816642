# SPDX-License-Identifier: MIT
"""Programs that say what the stacks of their threads are in an interpreted language, and what sonde says of them."""
import json
import subprocess


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
