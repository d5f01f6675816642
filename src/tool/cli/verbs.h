/* SPDX-License-Identifier: MIT
 *
 * The verbs of the command, by the question that they answer, in the order of `sonde help`.
 * X(name, group, summary): `sonde name` calls verb_name(), which is in cli/name.c,
 * cli/many/name.c or cli/linux/name.c. The summary fits in a line of 80 columns.
 */
#ifndef SONDE_CLI_VERBS_H
#define SONDE_CLI_VERBS_H

/* G(group, title) */
#define CLI_GROUP_TABLE(G)                                                                         \
  G(LOOK, "look now")                                                                              \
  G(RECORD, "record")                                                                              \
  G(READ, "read a recording")                                                                      \
  G(CHECK, "check")                                                                                \
  G(MANY, "many recordings")                                                                       \
  G(KEEP, "keep")

#define CLI_VERB_TABLE(X)                                                                          \
  X(stacks, LOOK, "show every thread's stack of a process or a core file")                         \
  X(top, LOOK, "watch a program: its threads, hottest functions and heap")                         \
  X(why, LOOK, "say in a few sentences what is wrong, and who does it")                            \
  X(leaks, LOOK, "find unreachable blocks, now or at exit; show references")                       \
  X(record, RECORD, "run a command, or take a running process, and record it")                     \
  X(ctl, RECORD, "control a program that is being recorded")                                       \
  X(import, RECORD, "convert a malloc stack log of macOS or iOS to a recording")                   \
  X(report, READ, "print what a recording contains")                                               \
  X(view, READ, "open a recording as a page in the browser: time line, flame graphs")              \
  X(history, READ, "show what happened at an address, and from where")                             \
  X(events, READ, "print every event of a recording as JSON lines")                                \
  X(export, READ, "convert to other tools' formats: pprof, Perfetto, SARIF and others")            \
  X(symbolize, READ, "print function, file and line of addresses")                                 \
  X(diff, CHECK, "compare two recordings; a gate for continuous integration")                      \
  X(audit, CHECK, "check audit policies; write baselines")                                         \
  X(doctor, CHECK, "check what works here and how to fix what does not")                           \
  X(store, MANY, "add recordings to a store: many builds, many devices")                           \
  X(query, MANY, "ask a store: stalls, leaks, crashes by build; what got worse")                   \
  X(push, MANY, "send profiles to OpenTelemetry, Pyroscope or Parca")                              \
  X(pack, KEEP, "compress or summarize a recording")                                               \
  X(clean, KEEP, "remove unfinished recordings of processes that have ended")                      \
  X(cache, KEEP, "list, limit or clear the symbol index")                                          \
  X(help, KEEP, "list the verbs, or show one verb's options and examples")

#define CLI_DECLARE_VERB(name, group, summary) int verb_##name(int argc, char **argv);
CLI_VERB_TABLE(CLI_DECLARE_VERB)
#undef CLI_DECLARE_VERB

/* Finds the verb that the arguments of the command name, runs it, and checks that its output was
 * written. Returns the exit status. */
int verbs_run(int argc, char **argv);

#endif
