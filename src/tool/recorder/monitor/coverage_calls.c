/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/coverage_calls.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/array.h"
#include "base/call_results.h"
#include "base/varint.h"
#include "target/process.h"
#include "target/registers.h"

#define ROWS_MAX  16384u
#define DEPTH_MAX 512u
#if defined(__x86_64__)
#define OWN_MACHINE MACHINE_X86_64
#else
#define OWN_MACHINE MACHINE_AARCH64
#endif

struct coverage_row {
  /* class: coverage_class_t */
  uint32_t number, class;
  /* the policy's function whose hook saw it, + 1; 0: none */
  uint32_t function;
  uint32_t stack, size;
  uint8_t *arguments;
  uint64_t count, first, last;
  call_results_t results;
};

/* ---- rows ----------------------------------------------------------------------------------- */

static bool same(const coverage_row_t *a, const coverage_row_t *b) {
  return a->number == b->number && a->class == b->class && a->function == b->function &&
         a->stack == b->stack && a->size == b->size && !memcmp(a->arguments, b->arguments, a->size);
}

static uint64_t hash_of_row(const coverage_row_t *row) {
  uint64_t hash = (uint64_t)row->number << 32 | row->class << 16 | row->function;
  return hash_number(hash_bytes(hash_pair(hash, row->stack), row->arguments, row->size));
}

static uint64_t hash_of_item(const void *calls, size_t i) {
  return hash_of_row(&((const coverage_calls_t *)calls)->rows[i]);
}

/* Counts a call equal to ROW. If there are too many different calls, arguments and stack are
 * omitted. Returns the number of its row, from 1; 0: out of memory.
 */
static uint32_t count(coverage_calls_t *c, coverage_row_t row) {
  if (c->count >= ROWS_MAX) row.size = row.stack = 0;
  row.first = row.last = monitor_writer_now(c->writer);
  uint32_t *slot;
  if (!hash_reserve(&c->index, c->count, hash_of_item, c)) return 0;
  HASH_FIND(&c->index, hash_of_row(&row), slot) {
    if (same(&c->rows[*slot - 1], &row)) break;
  }
  if (!*slot) {
    uint8_t *copy = malloc(row.size + 1);
    if (!copy || !ARRAY_GROW(c->rows, c->count, c->capacity)) {
      free(copy);
      return 0;
    }
    memcpy(copy, row.arguments, row.size);
    row.arguments = copy;
    c->rows[c->count++] = row;
    *slot = (uint32_t)c->count;
  }
  coverage_row_t *known = &c->rows[*slot - 1];
  known->count++;
  known->last = row.last;
  return *slot;
}

/* ---- results -------------------------------------------------------------------------------- */

static coverage_open_t *open_call(coverage_calls_t *c, pid_t tid) {
  for (size_t i = c->open_count; i-- > 0;)
    if (c->open[i].tid == tid) return &c->open[i];
  return NULL;
}

/* Notes that thread TID is in a call of ROW. A thread that ended in a call leaves it behind. */
static void begin_call(coverage_calls_t *c, pid_t tid, uint32_t row) {
  coverage_open_t *open = open_call(c, tid);
  if (!open && ARRAY_GROW(c->open, c->open_count, c->open_capacity))
    open = &c->open[c->open_count++];
  if (open) *open = (coverage_open_t){tid, row};
}

/* The kernel makes the call again or replaces the result by EINTR (ERESTARTSYS to
 * ERESTART_RESTARTBLOCK of include/linux/errno.h). */
static bool is_restarted(int64_t value) { return value <= -512 && value >= -516; }

void coverage_calls_returned(coverage_calls_t *c, pid_t tid, int64_t value, bool failed) {
  coverage_open_t *open = open_call(c, tid);
  if (!open) return;
  call_results_t *results = open->row ? &c->rows[open->row - 1].results : NULL;
  *open = c->open[--c->open_count];
  if (!results || (failed && is_restarted(value))) return;
  if (failed)
    call_results_add_failed(results, (uint32_t)-value, 1);
  else
    call_results_add_succeeded(results, value, false, 1);
}

/* ---- stacks --------------------------------------------------------------------------------- */

static bool read_remote(memory_t *self, uint64_t address, void *out, size_t size) {
  struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
  pid_t pid = ((remote_memory_t *)self)->pid;
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Whether the LINE of maps, of SIZE bytes, is a mapping of an agent's file. */
static bool is_agents(const char *line, size_t size) {
  static const char *const names[] = {"/libsonde-agent.so", "/libsonde-attached.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i]);
    if (size >= length && strncmp(line + size - length, names[i], length) == 0) return true;
  }
  return false;
}

/* Finds the agent's code. The loader makes system calls before it loads the agent. */
static void find_agent(coverage_calls_t *c) {
  char path[32], line[4200];
  c->agent_start = c->options->agent_start;
  c->agent_end = c->options->agent_start + c->options->agent_size;
  if (c->agent_start) return;
  snprintf(path, sizeof path, "/proc/%d/maps", c->pid);
  FILE *maps = fopen(path, "re");
  while (maps && fgets(line, sizeof line, maps)) {
    uint64_t start, end;
    if (!is_agents(line, strcspn(line, "\n")) || sscanf(line, "%lx-%lx", &start, &end) != 2)
      continue;
    if (!c->agent_start) c->agent_start = start;
    c->agent_end = end;
  }
  if (maps) fclose(maps);
}

static bool is_own(coverage_calls_t *c, uint64_t pc) {
  if (c->options->alone) return false;
  if (!c->agent_start) find_agent(c);
  return pc >= c->agent_start && pc < c->agent_end;
}

static bool read_registers(pid_t tid, regs_t *regs) {
  unsigned char data[REGISTERS_BYTES_MAX];
  struct iovec iov = {data, sizeof data};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 &&
         registers_read(OWN_MACHINE, data, iov.iov_len, regs);
}

/* Walks the stack of a stopped thread into `walk`. */
static bool walk_stopped(coverage_calls_t *c, pid_t tid) {
  problem_t problem;
  regs_t regs;
  c->walk.count = 0;
  if (!read_registers(tid, &regs)) return false;
  for (int attempt = 0; attempt < 2; attempt++) {
    bool fresh = !c->target;
    if (fresh) c->target = target_open_process(c->pid, &problem);
    if (!c->target) return false;
    process_window_load(&process_of(c->target)->memory, regs.r[machine_sp(c->target->machine)]);
    walk_stack(c->target, &regs, DEPTH_MAX, &c->walk);
    if (fresh || c->walk.ending == ENDING_COMPLETE) break;
    coverage_calls_moved(c); /* the list of mappings is outdated */
  }
  return c->walk.count > 0;
}

static uint32_t name_stack(coverage_calls_t *c, bool *whole) {
  thread_t thread = {
      .frames = c->walk.frames, .frame_count = c->walk.count, .ending = c->walk.ending};
  *whole = c->walk.ending == ENDING_COMPLETE || c->walk.ending == ENDING_TRUNCATED;
  return c->count < ROWS_MAX ? monitor_writer_stack(c->writer, c->target, &thread) : 0;
}

/* ---- classes -------------------------------------------------------------------------------- */

static const shm_audited_t *find_slot(const shm_audit_t *audit, pid_t tid) {
  uint32_t used = load_acquire(&audit->used);
  for (uint32_t i = 0; i < used && i < SHM_AUDITED; i++)
    if (audit->threads[i].tid == (uint32_t)tid) return &audit->threads[i];
  return NULL;
}

/* Whether an audited call has not returned: its return address is where it was (x86_64), or in the
 * walked stack (aarch64, where its place is unknown). */
static bool is_active(coverage_calls_t *c, const shm_entered_t *entered, uint64_t sp) {
#if defined(__x86_64__)
  uint64_t word, at = entered->sp - sizeof word;
  return at >= sp && c->memory.memory.read(&c->memory.memory, at, &word, sizeof word) &&
         word == entered->return_address;
#else
  for (uint32_t i = 0; entered->sp >= sp && i < c->walk.count; i++)
    if (c->walk.frames[i].pc == entered->return_address) return true;
  return false;
#endif
}

/* The audited function whose hook saw CALL, + 1; 0: none. Among the active ones, the innermost that
 * can make this system call. */
static uint32_t hooked_function(coverage_calls_t *c, const stopped_call_t *call) {
  const shm_audited_t *place = find_slot(&c->recording->control->audit, call->tid);
  const sensitive_call_t *kind = sensitive_call(call->number);
  const audit_policy_t *policy = c->options->policy;
  for (uint32_t n = place && place->count <= SHM_ENTERED ? place->count : 0; n-- > 0;) {
    const shm_entered_t *entered = &place->entered[n];
    if (entered->function >= policy->function_count || !is_active(c, entered, call->sp)) continue;
    const char *name = audit_string(policy, audit_functions(policy)[entered->function].name);
    if (sensitive_leads_to(kind, name)) return entered->function + 1;
  }
  return 0;
}

bool coverage_calls_wants(const coverage_calls_t *c, const stopped_call_t *call) {
  return call->number < SENSITIVE_NUMBERS && c->wanted[call->number] &&
         sensitive_is_of_path(call->number, call->arguments);
}

void coverage_calls_add(coverage_calls_t *c, const stopped_call_t *call) {
  uint8_t arguments[SENSITIVE_BYTES], kinds[AUDIT_ARGUMENTS];
  coverage_row_t row = {.number = (uint32_t)call->number, .arguments = arguments};
  sensitive_kinds(sensitive_call(call->number), c->withheld[call->number], kinds);
  row.size = sensitive_arguments(kinds, &c->memory.memory, call->arguments, arguments);
  bool walked = false, whole = false;
#if !defined(__x86_64__)
  walked = load_acquire(&c->recording->control->audit.ready) && walk_stopped(c, call->tid);
#endif
  if (is_own(c, call->pc)) {
    row.class = COVERAGE_OWN;
  } else if (!load_acquire(&c->recording->control->audit.ready)) {
    row.class = COVERAGE_EARLY;
  } else if ((row.function = hooked_function(c, call))) {
    row.class = COVERAGE_HOOKED;
  } else {
    if (walked || walk_stopped(c, call->tid)) row.stack = name_stack(c, &whole);
    row.class = whole && row.stack ? COVERAGE_BELOW : COVERAGE_UNEXPLAINED;
  }
  begin_call(c, call->tid, count(c, row));
}

void coverage_calls_moved(coverage_calls_t *c) {
  target_close(c->target);
  c->target = NULL;
}

/* ---- begin and end -------------------------------------------------------------------------- */

static void write_parts(monitor_writer_t *w, table_type_t type, const char *data, size_t size) {
  for (size_t done = 0; done < size;) {
    monitor_writer_begin(w, 0);
    done += monitor_writer_raw(w, data + done, size - done);
    monitor_writer_define(w, type);
  }
}

/* Writes the policy, as the agent does in other programs. */
static void write_policy(const coverage_calls_t *c) {
  const audit_policy_t *policy = c->options->policy;
  const char *bytes = (const char *)policy;
  write_parts(c->writer, TABLE_POLICY, bytes, policy->size);
  write_parts(c->writer, TABLE_POLICY_TEXT, bytes + policy->size,
              c->options->policy_bytes - policy->size);
}

static void write_results(monitor_writer_t *w, const call_results_t *r) {
  uint64_t errors = 0;
  while (errors < CALL_ERRORS_KEPT && r->errors[errors].calls)
    errors++;
  monitor_writer_value(w, r->succeeded);
  monitor_writer_value(w, zigzag(r->value));
  monitor_writer_value(w, r->varies);
  monitor_writer_value(w, r->failed);
  monitor_writer_value(w, errors);
  for (uint64_t i = 0; i < errors; i++) {
    monitor_writer_value(w, r->errors[i].number);
    monitor_writer_value(w, r->errors[i].calls);
  }
}

void coverage_calls_flush(coverage_calls_t *c) {
  if (c->options->alone) write_policy(c);
  for (size_t i = 0; i < c->count; i++) {
    const coverage_row_t *row = &c->rows[i];
    monitor_writer_begin(c->writer, EXTENDED_SYSCALL);
    monitor_writer_value(c->writer, row->class);
    monitor_writer_value(c->writer, row->number);
    monitor_writer_value(c->writer, row->function);
    monitor_writer_value(c->writer, row->stack);
    monitor_writer_value(c->writer, row->count);
    monitor_writer_value(c->writer, row->first);
    monitor_writer_value(c->writer, row->last);
    monitor_writer_bytes(c->writer, row->arguments, row->size);
    monitor_writer_value(c->writer, c->withheld[row->number]);
    write_results(c->writer, &row->results);
    monitor_writer_end(c->writer);
    free(row->arguments);
  }
  (void)monitor_writer_flush(c->writer);
  c->count = c->open_count = 0;
  hash_clear(&c->index);
  c->agent_start = c->agent_end = 0;
  coverage_calls_moved(c);
}

bool coverage_calls_open(coverage_calls_t *c, recording_t *recording, pid_t pid,
                         const coverage_options_t *options) {
  *c = (coverage_calls_t){.recording = recording,
                          .writer = monitor_writer_new(recording, MONITOR_STREAM + 3),
                          .options = options,
                          .pid = pid,
                          .memory = {.memory = {.read = read_remote}, .pid = pid}};
  sensitive_of_policy(options->policy, c->wanted);
  for (uint64_t i = 0; i < SENSITIVE_NUMBERS; i++)
    if (c->wanted[i]) c->withheld[i] = sensitive_withheld(sensitive_call(i), options->policy);
  return c->writer != NULL;
}

void coverage_calls_close(coverage_calls_t *c) {
  target_close(c->target);
  free(c->walk.frames);
  for (size_t i = 0; i < c->count; i++)
    free(c->rows[i].arguments);
  free(c->rows);
  free(c->open);
  hash_free(&c->index);
  monitor_writer_free(c->writer);
}
