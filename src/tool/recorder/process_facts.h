/* SPDX-License-Identifier: MIT
 *
 * What /proc shows of a process that need not be a child of the recorder.
 */
#ifndef SONDE_RECORDER_PROCESS_FACTS_H
#define SONDE_RECORDER_PROCESS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct process_facts {
  pid_t parent;
  char state;
  uint64_t birth;           /* in ticks since boot: with the pid it identifies the process */
  uint64_t cpu_ns;          /* of all its threads */
  uint64_t children_faults; /* 0: it has waited for no child that executed anything */
} process_facts_t;

/* Reads /proc/PID/stat (proc_pid_stat(5)); false if there is no such process. */
bool process_facts_read(pid_t pid, process_facts_t *out);

/* The CPU time of all threads of the process PID, also of those that ended, with its running
 * threads until now. It stands still while none of them runs. 0: unknown. */
uint64_t process_facts_cpu_ns(pid_t pid);

/* Whether no thread of PID has run since the last call with LAST_NS, which starts as 0. */
bool process_facts_idle(pid_t pid, uint64_t *last_ns);

/* The start of the initial stack of process PID, which differs after an execve: *STACK; 0: unknown,
 * or the reader lacks the right. False while an execve is under way: /proc shows the new
 * executable, but neither its arguments nor its environment. */
bool process_facts_stack(pid_t pid, uint64_t *stack);

/* The text of /proc/PID/stat. */
bool process_facts_parse(const char *text, uint64_t ticks_per_second, process_facts_t *out);

/* Writes the command line with spaces between the arguments to OUT; "" if it is unknown. */
void process_facts_command(pid_t pid, char *out, size_t size);

/* Writes the first argument, usually the name by which the program was started, to OUT; "" if it is
 * unknown. */
void process_facts_started_as(pid_t pid, char *out, size_t size);

/* Whether the executable of the process PID has the file name of the path FILE. */
bool process_facts_runs(pid_t pid, const char *file);

/* The process that is PID in the pid namespace of the process VIEWER; 0: there is none. */
pid_t process_facts_of_namespace(pid_t viewer, pid_t pid);

/* The number by which the process PID knows itself, in its pid namespace; 0: unknown. */
pid_t process_facts_own_pid(pid_t pid);

/* Reasons: the process cannot reach the recorder's socket; its program loads no library. */
extern const char process_facts_apart[], process_facts_statically[];

/* Why the process PID does not run the agent, which was to be preloaded from SETTINGS; NULL: not
 * known, also while an execve is under way. */
const char *process_facts_why(pid_t pid, const char *settings);

/* What records COMMAND, which is not recorded for the reason WHY: writes an end for the sentence to
 * OUT, of SIZE bytes; "": nothing is known. Returns OUT. */
char *process_facts_remedy(const char *why, const char *command, char *out, size_t size);

/* Why FILE, a path as the process PID sees it, will not run the agent. NULL: it should, or FILE is
 * "".
 */
const char *process_facts_why_file(pid_t pid, const char *file);

#endif
