#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Perl frames in `sonde stacks` of a process and of a core file, against what Perl itself says of its stack at the same
time (caller): function, file and line of every frame. And of a program that runs, whose chain of calls is known."""
import json
import pathlib

from helpers import SCALE, SEED, SOAK, compile_c, kill, run_cases, skip, sonde, source_file, start_ready, until
from shared import told
from shared.perl_frames import compare, compare_rounds, is_known, start
from shared.steps import stops

PERL = "/usr/bin/perl"


def process():
    count, frames, incomplete = compare_rounds(PERL, SEED, 20)
    assert incomplete <= 1 + count / 20, (count, incomplete)
    return f"{count} stacks, {frames} frames, {incomplete} stacks said to be incomplete"


def threads():
    """Each thread of Perl has an interpreter of its own."""
    count, frames, incomplete = compare_rounds(PERL, SEED + 1, 10, "threads")
    assert incomplete <= 1 + count / 20, (count, incomplete)
    return f"{count} stacks, {frames} frames, {incomplete} stacks said to be incomplete"


def core(folder):
    return f"{told.compare_core(lambda: start(PERL, 2, 1), compare, folder)[1]} frames"


def text():
    program, _ = start(PERL, 2, 1)
    try:
        until(lambda: told.waits(program), "the program does not wait")
        printed, verdict = sonde("stacks", program.pid), sonde("doctor", program.pid)
    finally:
        kill(program)
    for wanted in (" main::pause ", " main program ", "states.pl:"):
        assert wanted in printed, (wanted, printed)
    assert "runops" not in printed and " Perl_call_sv" not in printed, printed
    assert "stacks show Perl functions" in verdict, verdict


# What may be on the stack of busy.pl, innermost first: each function with those that may have called it.
CALLERS = {
    "main::leaf": ["main::inner", "main::recursive", "eval {...}"], "main::inner": ["main::__ANON__", "eval {...}", "main program"],
    "main::recursive": ["main::recursive", "main::DESTROY"], "main::DESTROY": ["eval {...}"],
    "main::__ANON__": ["eval {...}", "main program"], "main::fails": ["eval {...}"],
    "eval {...}": ["main::__ANON__", "main::recursive", "main::fails", "main program"], "main program": [None]}
LINES = {"main::leaf": [4, 5, 6], "main::inner": [9], "main::recursive": [11, 12, 13], "main::DESTROY": [16], "main::fails": [18, 19, 20],
         "main::__ANON__": [26, 31], "main program": range(22, 32)}


DESTRUCTORS_LINES = {"main::DESTROY": [4], "main program": range(7, 12)}
RECURSION_CALLERS = {"main::recursive": ["main::recursive", "main program"], "main program": [None]}
RECURSION_LINES = {"main::recursive": [3, 4, 5, 6], "main program": range(9, 12)}


def _check_busy(program, lines=LINES, callers=CALLERS):
    """What a stack of busy.pl, or of a script with other LINES and CALLERS, shows is a chain of calls that is possible.
    Returns its length; None: it is said to be missing."""
    thread = json.loads(sonde("stacks", "--json", program.pid))["threads"][0]
    chain = told.frames_of(thread, "perl")
    if "perl_missing" in thread:
        return None
    for (inner, _, line), outer in zip(chain, [*[name for name, _, _ in chain[1:]], None]):
        assert outer in callers[inner], chain
        assert line in lines.get(inner, [line]), chain
    return len(chain)


def _start_busy(script="busy.pl", *words):
    return start_ready([PERL, source_file("real", "perl", script), *words], asleep=False)


def running():
    program = _start_busy()
    lengths = [_check_busy(program) for _ in range(40)]
    kill(program)
    missing, frames = lengths.count(None), sum(n or 0 for n in lengths)
    assert missing < 20 and frames, (missing, frames)
    return f"{frames} frames, {missing} of 40 stacks said to be incomplete"


def _stop_at_every_instruction(script, functions, steps, lines, callers=CALLERS):
    """Begins where the script stops itself, so which calls come first is known. Returns the length of each stack."""
    program = _start_busy(script, "stop")
    until(lambda: pathlib.Path(f"/proc/{program.pid}/stat").read_text().split(") ")[-1][0] == "T", "it does not stop")
    lengths = []
    for place in stops(program.pid, functions, steps * SCALE, SCALE):
        try:
            lengths.append(_check_busy(program, lines, callers))
        except AssertionError as wrong:
            raise AssertionError(place) from wrong
    kill(program)
    return lengths


def _check_lengths(lengths, least, most_missing):
    count, missing = len(lengths), lengths.count(None)
    assert count > least and missing < count * most_missing, (count, missing)
    return f"{count} instructions, {missing} stacks said to be incomplete"


def every_instruction_of_a_call():
    """Perl changes several fields when a function or an eval begins or ends."""
    functions = ["Perl_pp_entersub", "Perl_pp_leavesub", "Perl_pp_nextstate"]
    if SOAK:
        functions += ["Perl_pp_entertry", "Perl_pp_leavetry", "Perl_die_unwind", "Perl_pp_unstack", "Perl_pp_sort"]
    return _check_lengths(_stop_at_every_instruction("busy.pl", functions, 50000, LINES), 250, 1 / 3)


def every_instruction_of_a_call_by_c():
    """The function's block is there before the evaluator is called."""
    lengths = _stop_at_every_instruction("destructors.pl", ["Perl_pp_entersub"], 5000, DESTRUCTORS_LINES)
    return _check_lengths(lengths, 150, 1 / 3)


def every_instruction_of_a_recursion():
    """After the block is complete, no field tells whether it is that of the call or of its caller."""
    lengths = _stop_at_every_instruction("recursion.pl", ["Perl_pp_entersub"], 10000, RECURSION_LINES, RECURSION_CALLERS)
    if not SOAK:
        assert set(lengths) <= {3, None}, lengths
    return _check_lengths(lengths, 150, 1 / 2)


HOST = r"""
#include <stdlib.h>
#include <unistd.h>
typedef struct interpreter perl_t;
perl_t *perl_alloc(void); void perl_construct(perl_t *); int perl_run(perl_t *); void Perl_set_context(void *);
int perl_parse(perl_t *, void (*)(perl_t *), int, char **, char **);
void Perl_sys_init3(int *, char ***, char ***);
void *Perl_eval_pv(perl_t *, const char *, int);
int main(int argc, char **argv, char **env) {
  Perl_sys_init3(&argc, &argv, &env);
  char *words[] = {"", "-e", "sub ready { $| = 1; print \"ready\\n\"; sleep 100 } sub first { ready() }", NULL};
  char *others[] = {"", "-e", "sub other { sleep 100 }", NULL};
  perl_t *second = perl_alloc(); perl_construct(second); perl_parse(second, NULL, 3, others, NULL); perl_run(second);
  perl_t *p = perl_alloc(); Perl_set_context(p);
  perl_construct(p); perl_parse(p, NULL, 3, words, NULL); perl_run(p);
  Perl_eval_pv(p, "1;\nfirst()", 1);
  return 0; }
"""


def library():
    """A program with Perl's library, whose second interpreter runs."""
    try:
        host = compile_c(HOST, "-O1", "-l:libperl.so.5.36")
    except AssertionError:
        skip("libperl.so.5.36 is not installed")
    program = start_ready([host])
    thread = json.loads(sonde("stacks", "--json", program.pid))["threads"][0]
    kill(program)
    chain = told.frames_of(thread, "perl")
    assert chain == [["main::ready", "-e", 1], ["main::first", "-e", 1], ["eval '...'", "(eval 1)", 2]], (chain, thread)


if not is_known(PERL):
    skip("the system's Perl is not 5.36 with threads")
run_cases([process, threads, core, text, running, every_instruction_of_a_call,
           every_instruction_of_a_call_by_c, every_instruction_of_a_recursion, library])
