/* SPDX-License-Identifier: MIT */
#include "recorder/notes.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/children.h"
#include "base/message.h"
#include "base/terminal.h"
#include "hook/move.h"
#include "record/format.h"
#include "recorder/process_facts.h"
#include "target/access.h"

/* The shared buffers and the tables of the agent are mapped in the program. */
void notes_of_address_space(void) {
  const uint64_t own_bytes = SHM_BYTES + (SHM_BYTES >> 2), many = 8 * own_bytes;
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur >= many) return;
  message_note(
      "the limit on address space is %llu MB (ulimit -v); the recording takes up to %llu MB "
      "of the program's",
      (unsigned long long)limit.rlim_cur >> 20, (unsigned long long)own_bytes >> 20);
}

/* LAST replaced the program and did not load the agent. */
static void note_last_program(uint32_t pid, const process_row_t *last) {
  const char *command = last && last->command ? last->command : "a program";
  const char *why = last && last->why ? last->why : "its agent did not start";
  char remedy[PATH_MAX + 64];
  process_facts_remedy(why, command, remedy, sizeof remedy);
  message_note("process %u executed %s, which did not load the agent, so it is not recorded: %s%s",
               pid, command, why, remedy);
}

void notes_of_programs(const shm_control_t *control, bool is_listed, const process_row_t *last) {
  const int size = sizeof control->emulator; /* the program can write there */
  if (control->emulator[0])
    message_note("%.*s executes the program itself: the recording shows %.*s, not the program that "
                 "it runs",
                 size, control->emulator, size, control->emulator);
  else if (control->exec_index && control->executing && !control->from_outside && !is_listed)
    note_last_program(control->pid, last);
  if (control->own_malloc && load_relaxed(&control->mode) & RECORD_ANY_BLOCKS)
    message_note("process %u has a malloc in its executable or in its sanitizer's runtime, "
                 "which a preloaded library cannot replace: its blocks are not recorded",
                 control->pid);
}

void notes_of_refused_tracing(int error, bool is_option) {
  int scope = access_yama_scope();
  if (error == EPERM && scope > 1)
    (void)message_fail("cannot trace system calls: kernel.yama.ptrace_scope is %d; run 'sysctl "
                       "kernel.yama.ptrace_scope=1'%s",
                       scope, is_option ? ", or leave out --coverage" : "");
  else
    (void)message_fail(
        "cannot trace system calls: %s%s", strerror(error),
        error == EPERM && is_option ? "; without the right to ptrace, leave out --coverage" : "");
}

void notes_of_children(bool is_audit, bool traced, uint64_t own_cpu_ns, uint64_t children_cpu_ns) {
  const char *remedy = traced ? "" : "; add --follow";
  if (!children_matter(is_audit, own_cpu_ns, children_cpu_ns)) return;
  if (is_audit)
    message_note("the command's children were not recorded, so their calls are missing%s", remedy);
  else
    message_note("the command's children, which used %.2f s of CPU time, were not recorded%s",
                 (double)children_cpu_ns / 1e9, remedy);
}

/* Functions with space for a patch at their entry. */
static void note_patches(const shm_control_t *c) {
  if (c->code_why[0])
    message_note("no patchable function of the program is traced: %s", c->code_why);
  if (c->code_refused)
    message_note("%u images refused changes to their code: their functions are not traced",
                 c->code_refused);
  if (c->code_small)
    message_note("%u functions are not traced: too little space at their entry; compile with "
                 "-fpatchable-function-entry=5",
                 c->code_small);
}

/* Functions whose entries were moved. */
static void note_moves(const shm_control_t *c) {
  if (c->code_moved)
    message_note("%u function%s patched", c->code_moved, c->code_moved == 1 ? " is" : "s are");
  for (uint32_t i = 1; i < MOVE_FAULT_COUNT; i++)
    if (c->code_unmoved[i])
      message_note("%u function%s not patched: %s", c->code_unmoved[i],
                   c->code_unmoved[i] == 1 ? " is" : "s are", move_fault_texts[i]);
}

/* A single glob selects imported functions, and may be meant for those of the program. A name of
 * the program's function may be that of one that the compiler inlined. */
static void note_no_match(const char *pattern) {
  bool is_import = strpbrk(pattern, "*?") && !strpbrk(pattern, "!,:[");
  bool may_be_inlined = strchr(pattern, '!') || !strpbrk(pattern, "*?[");
  message_note("no traceable function or method matches '%s'; %s%s%s%s", pattern,
               is_import ? "functions of the program itself: --trace='!"
                         : "see 'sonde help record'",
               is_import ? pattern : "", is_import ? "'" : "",
               may_be_inlined && !is_import
                   ? "; an inlined function has no calls: rebuild with -finstrument-functions"
                   : "");
}

void notes_of_trace(const shm_control_t *c) {
  note_patches(c);
  note_moves(c);
  if (!c->trace_pattern[0]) return;
  if (c->imports_refused[0])
    message_note("no imported function is traced: %s", c->imports_refused);
  else if (!c->imports_timed && !c->imports_called && !c->code_patched && !c->code_moved &&
           !c->methods_timed)
    note_no_match(c->trace_given);
  if (c->imports_left)
    message_note(c->imports_left == 1
                     ? "%u function with an unusual calling convention is not traced"
                     : "%u functions with unusual calling conventions are not traced",
                 c->imports_left);
  if (c->code_unnamed)
    message_note("%u patchable functions have no symbol to match (stripped binary)",
                 c->code_unnamed);
  if (c->messages_left)
    message_note("%u messages to methods created at run time are not recorded", c->messages_left);
  if (c->imports_over)
    message_note("%u matching functions exceed the limit and are not traced", c->imports_over);
}

/* Whether PATH still is the recording's file. */
static bool is_in_place(const recording_t *r, const char *path) {
  struct stat file, named;
  return fstat(r->file_fd, &file) == 0 && stat(path, &named) == 0 && file.st_dev == named.st_dev &&
         file.st_ino == named.st_ino;
}

/* The shell reports the signal as that of `sonde record`, so the end is named here. */
static void note_crash(uint32_t exit_status, bool from_outside, const char *path) {
  int status = (int)exit_status, signal = WTERMSIG(status);
  char where[PATH_MAX + 32];
  if (!RECORD_STATUS_IS_KNOWN(exit_status) || !WIFSIGNALED(status)) return;
  if (signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE ||
      signal == SIGILL || signal == SIGTRAP || signal == SIGSYS) {
    snprintf(where, sizeof where, "'sonde report %s crash' shows where", path);
    message_note("the command crashed: signal %d (%s); %s", signal, strsignal(signal),
                 from_outside ? "let it dump core, and 'sonde why CORE' shows where" : where);
  }
}

/* No program of the recording loaded the agent: it may have been ended before it could. */
static void note_no_agent(uint32_t exit_status) {
  int status = (int)exit_status;
  if (RECORD_STATUS_IS_KNOWN(exit_status) && WIFSIGNALED(status))
    message_note("the command was ended by signal %d (%s) before it loaded the agent, so nothing "
                 "was recorded",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    message_note("the command did not load the agent, so nothing was recorded; 'sonde doctor' "
                 "shows why");
}

bool notes_of_recording(const recording_t *r, const char *path, int finished, bool is_listed,
                        const process_row_t *last) {
  const record_header_t *h = &r->header;
  notes_of_programs(r->control, is_listed, last);
  if (!is_in_place(r, path)) {
    message_note("the recording is lost: '%s' was removed or replaced while the command ran", path);
    return false;
  }
  if (!h->exec_count)
    note_no_agent(h->exit_status);
  else if (h->stop_reason)
    message_note("recording stopped early: %s; '%s' has the events until then",
                 record_stop_text(h->stop_reason), path);
  else if (finished < 0)
    message_note("cannot write the end of '%s'", path);
  else
    message_note("recorded to '%s'; read it with 'sonde report %s'", path, path);
  note_crash(h->exit_status, h->mode & RECORD_FROM_OUTSIDE || r->agentless_program, path);
  if (h->exec_count > 1)
    message_note("the process executed %u programs, all in '%s'; reports show the last one or "
                 "'--program N', the audit covers all",
                 h->exec_count, path);
  if (h->gaps && !h->stop_reason)
    message_note("the file could not be written for %.1f s: %s; the events of that time are lost",
                 (double)h->gaps_ns / 1e9, record_stop_text(h->gap_reason));
  if (h->lost_events)
    message_note("%llu events were lost: out of memory, or the file was full",
                 (unsigned long long)h->lost_events);
  return true;
}

/* A recording of this size takes seconds to read. */
#define SIZE_NOTED (UINT64_C(256) << 20)

void notes_of_size(const shm_control_t *c, uint64_t ns, uint64_t *noted) {
  uint64_t bytes = load_relaxed(&c->file_end);
  if (c->limit_bytes || bytes < (*noted ? 4 * *noted : SIZE_NOTED)) return;
  *noted = bytes;
  message_note("the recording has %.0f MB after %.0f s; '--limit 500M' keeps the newest events%s",
               (double)bytes / 1e6, (double)ns / 1e9,
               load_relaxed(&c->mode) & RECORD_BLOCKS ? ", '--malloc=live' only live blocks" : "");
}

/* ---- while the command runs --------------------------------------------------------------- */

static bool may_show(void) {
  return !isatty(STDOUT_FILENO) && terminal_is_capable(stderr) &&
         tcgetpgrp(STDERR_FILENO) == getpgrp();
}

/* Prints TEXT at the right end of the line below the cursor, which keeps its place. ECMA-48 and
 * DEC: ESC D moves down, and scrolls in the last line; ESC [A moves up; ESC 7 and ESC 8 save and
 * restore the place. */
static void print_below(const char *text) {
  unsigned columns = terminal_columns(stderr);
  size_t length = strlen(text);
  if (length >= columns) return;
  fprintf(stderr, "\033D\033[A\0337\033[B\r\033[K");
  if (length)
    fprintf(stderr, "\033[%uG%s%s%s", columns - (unsigned)length,
            terminal_style(stderr, TERMINAL_DIM), text, terminal_style(stderr, TERMINAL_PLAIN));
  fprintf(stderr, "\0338");
  fflush(stderr);
}

bool notes_status(uint64_t ns, uint64_t bytes) {
  char text[64];
  if (!may_show()) return false;
  snprintf(text, sizeof text, "recording: %.0f s, %.1f MB", (double)ns / 1e9, (double)bytes / 1e6);
  print_below(text);
  return true;
}

void notes_status_end(void) { print_below(""); }
