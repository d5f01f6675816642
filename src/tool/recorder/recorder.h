/* SPDX-License-Identifier: MIT
 *
 * The recorder: the process of `sonde record`, beside the program.
 *
 *   1. It plans how the command is recorded (start/plan.c), and forks it; the child waits
 *      (start/launch.c).
 *   2. It creates the recording and the buffers shared with the program (recording_file.c). Their
 *      names contain the child's pid.
 *   3. It opens the control socket (control.c) and starts the monitors (monitors.c).
 *   4. The child sets LD_PRELOAD and SONDE_RECORD and executes the command (start/launch.c). A
 *      static program gets no agent. It stops at its first instruction until it is sampled from
 *      outside.
 *   5. Until the command ends, the recorder serves `sonde ctl` and the children of the program
 *      (follow.c), and updates the recording's header every second.
 *   6. It appends the chunks that are still open (recording_file.c), prints notes (notes.c), and
 *      ends as the command did.
 *
 * The program inherits no descriptor and no changed signal disposition.
 */
#ifndef SONDE_RECORDER_RECORDER_H
#define SONDE_RECORDER_RECORDER_H

#include <sys/types.h>

#include "record/leaks.h"
#include "recorder/recording_file.h"
#include "sensor/cpu/rules.h"
#include "sensor/audit/policy.h"

/* Exit statuses, as those of env(1). Otherwise the recorder returns the command's. */
enum { RECORDER_FAILED = 125, RECORDER_NOT_RUNNABLE = 126, RECORDER_NOT_FOUND = 127 };

typedef struct recorder_options {
  /* NULL: COMMAND.PID.sonde */
  const char *output;
  /* OUTPUT is replaced even if it is a file of another kind */
  bool force;
  /* RECORD_… bits: the sensors */
  uint32_t mode;
  /* the user named no sensor: these are the default ones */
  bool is_default;
  /* the file keeps the newest events within this size; 0: no limit */
  uint64_t limit_bytes;
  /* of RECORD_SAMPLED_BLOCKS */
  uint64_t sample_bytes;
  /* of RECORD_SAMPLES */
  long sample_hz;
  /* samples of blocked threads; 0: none */
  long wall_hz;
  /* of RECORD_STALLS */
  long stall_ms;
  /* sonde's own CPU time, in thousandths of one CPU (recorder/monitor/budget.h); 0: no limit */
  uint32_t budget_permille;
  /* whether CPU use is recorded, and when it is reported */
  bool cpu;
  cpu_rules_t cpu_rules;
  /* functions that RECORD_CALLS traces besides instrumented ones; NULL: none */
  const char *trace_pattern;
  /* what the user gave, in which names are those of reports (symbol/link_pattern.h) */
  const char *trace_given;
  /* whether RECORD_CALLS traces the C library's functions that can block, too */
  bool trace_waits;
  /* RECORD_CALLS records no calls that are shorter or deeper; 0: no limit */
  shm_call_filter_t trace_filter;
  /* of RECORD_AUDIT: the compiled policy; must stay valid while the recorder runs */
  const audit_policy_t *policy;
  size_t policy_bytes;
  /* whether a tracer counts the system calls that the audit's hooks do not see */
  bool coverage;
  /* whether children are recorded too, each into its own file */
  bool follow;
  /* stacks follow Swift's async functions */
  bool async;
  /* virtual machines are to write perf maps */
  bool jit;
  /* blocks have the lines of all Python frames, not only of the innermost one */
  bool python_lines;
  /* of the file system, which stay free; RECORDING_KEEP_DEFAULT */
  uint64_t keep_free_bytes;
  /* whether the command's memory is searched for leaks when it exits. SEARCH is called after the
   * end, with the complete recording at PATH and the exchange (record/leaks.h) of SIZE bytes, whose
   * state is COPIED. NULL: the program did not exit by itself, or ERROR says why it has no copy. */
  bool leaks;
  void (*search)(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                 uint64_t size, int32_t error);
  /* called once, when the command has started; NULL: nothing */
  void (*started)(void *context, pid_t pid);
  void *started_context;
  /* called once, when the command has started and the recording is the file PATH; NULL: nothing */
  void (*created)(void *context, const char *path);
  void *created_context;
  /* called once, when the recording PATH is complete, unless it could not begin; NULL: nothing */
  void (*ended)(void *context, const char *path);
  void *ended_context;
} recorder_options_t;

/* Runs COMMAND, a NULL-terminated argument vector, and records it. Prints errors and notes. Returns
 * the exit status; if a signal ended the command, raises the same signal instead of returning. Call
 * it once, before any other thread exists. */
int recorder_run(char **command, const recorder_options_t *options);

/* Records the running process PID for SECONDS, 0: until it ends or a signal ends the recording.
 * RECORD_SAMPLES and RECORD_STALLS are recorded from outside. For ATTACHED_MODES
 * (monitor/outside/attached.h) the agent is loaded into the process. Other mode bits are not
 * possible. Prints errors and notes. Returns 0, or MESSAGE_FAILED. Call it as recorder_run. */
int recorder_observe(pid_t pid, long seconds, const recorder_options_t *options);

#endif
