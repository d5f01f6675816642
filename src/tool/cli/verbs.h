/* SPDX-License-Identifier: MIT
 *
 * The verbs of the command, in the order in which `sonde --help` lists them. X(name, summary):
 * `sonde name` calls verb_name(), which stands in cli/name.c.
 */
#ifndef SONDE_CLI_VERBS_H
#define SONDE_CLI_VERBS_H

#define CLI_VERB_TABLE(X)                                                                          \
  X(stacks, "every thread's stack of a process or a core file, now")                               \
  X(record, "runs a command and records what it does")                                             \
  X(ctl, "talks to a program that is being recorded: modes, snapshots, marks")                     \
  X(report, "tells what a recording holds")                                                        \
  X(leaks, "blocks of a running program that nothing points to, and what points to one")           \
  X(history, "what happened at an address, and from where")                                        \
  X(export, "a recording as collapsed stacks, for flame graphs")                                   \
  X(events, "every event of a recording, in order, as JSON lines")                                 \
  X(import, "a malloc stack log of macOS or iOS, into a recording")                                \
  X(diff, "what changed between two recordings")                                                   \
  X(pack, "a recording made small, to keep and to send")                                           \
  X(symbolize, "names of addresses, from files alone")                                             \
  X(audit, "policies of sensitive calls; baselines to compare with")                               \
  X(clean, "removes recordings that were never finished and whose processes are gone")             \
  X(cache, "the symbol index: what it holds, its size, its limit")                                 \
  X(doctor, "what works on this machine and this program, and what mends the rest")                \
  X(help, "this list, or one verb with its options and examples")

#define CLI_DECLARE_VERB(name, summary) int verb_##name(int argc, char **argv);
CLI_VERB_TABLE(CLI_DECLARE_VERB)
#undef CLI_DECLARE_VERB

#endif
