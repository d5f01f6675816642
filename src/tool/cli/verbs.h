/* SPDX-License-Identifier: MIT
 *
 * The verbs of the command, in the order of `sonde --help`. X(name, summary): `sonde name` calls
 * verb_name(), which is in cli/name.c or cli/linux/name.c.
 */
#ifndef SONDE_CLI_VERBS_H
#define SONDE_CLI_VERBS_H

#define CLI_VERB_TABLE(X)                                                                          \
  X(stacks, "show every thread's stack of a process or a core file")                               \
  X(record, "run a command and record what it does")                                               \
  X(ctl, "control a program that is being recorded")                                               \
  X(report, "print what a recording contains")                                                     \
  X(leaks, "find unreachable blocks of a running program; show references")                        \
  X(history, "show what happened at an address, and from where")                                   \
  X(export, "convert a recording: collapsed, pprof, chrome-trace, sarif, csv")                     \
  X(events, "print every event of a recording as JSON lines")                                      \
  X(import, "convert a malloc stack log of macOS or iOS to a recording")                           \
  X(diff, "compare two recordings; a gate for continuous integration")                             \
  X(pack, "compress or summarize a recording")                                                     \
  X(symbolize, "print function, file and line of addresses")                                       \
  X(audit, "check audit policies; write baselines")                                                \
  X(clean, "remove unfinished recordings of processes that have ended")                            \
  X(cache, "list, limit or clear the symbol index")                                                \
  X(doctor, "check what works here and how to fix what does not")                                  \
  X(help, "list the verbs, or show one verb's options and examples")

#define CLI_DECLARE_VERB(name, summary) int verb_##name(int argc, char **argv);
CLI_VERB_TABLE(CLI_DECLARE_VERB)
#undef CLI_DECLARE_VERB

#endif
