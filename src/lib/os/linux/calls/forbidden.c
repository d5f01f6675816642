/* SPDX-License-Identifier: MIT */
#include "os/linux/calls/forbidden.h"

#include <string.h>

#include "os/linux/calls/call.h"
#include "os/linux/calls/filter.h"
#include "os/linux/internal.h"
#include "os/linux/loader.h"
#include "os/os.h"

HIDDEN uint16_t linux_calls_forbidden[CALL_ROWS];

/* ---- the table ------------------------------------------------------------------------------ */

#define ANY INT64_C(0x211a11a11a11a11a) /* no argument of the table has this value */

typedef struct row {
  const char *name; /* of the system call, with "SYS_" before it */
  uint32_t number;
  int64_t arguments[6];
} row_t;

static const row_t rows[CALL_ROWS] = {
#define ROW(row, number, purpose, ...) {#number, CALL_NUMBER_##row, {__VA_ARGS__}},
    CALL_TABLE(ROW)
#undef ROW
};

const char *linux_call_name(call_row_t row) { return rows[row].name + 4; }

#if defined(SONDE_DEBUG)
bool linux_call_matches(call_row_t row, const long arguments[6]) {
  for (int i = 0; i < 6; i++)
    if (rows[row].arguments[i] != ANY && rows[row].arguments[i] != arguments[i]) return false;
  return true;
}
#endif

/* ---- sets ----------------------------------------------------------------------------------- */

/* A row that is useless or wrong without another one. */
static void add_dependent(call_set_t *s) {
  bool *has = s->has;
  /* with a wrong process id they reach another process */
  if (has[CALL_getpid])
    has[CALL_process_vm_readv] = has[CALL_tgkill] = has[CALL_rt_tgsigqueueinfo] = true;
  if (has[CALL_timer_settime] || has[CALL_timer_delete]) has[CALL_timer_create] = true;
  if (has[CALL_exit_group]) has[CALL_clone] = true;
  /* a descriptor that cannot be closed stays open in the program */
  if (has[CALL_close] || has[CALL_read])
    has[CALL_openat_read] = has[CALL_openat_image] = has[CALL_openat_tasks] =
        has[CALL_openat_task] = has[CALL_socket] = true;
  if (has[CALL_close]) has[CALL_openat_write] = has[CALL_memfd_create] = true;
  if (has[CALL_connect] || has[CALL_sendto]) has[CALL_socket] = true;
  if (has[CALL_close] || has[CALL_connect]) has[CALL_socket_calls] = true;
}

static filter_call_t call_of(uint32_t row) {
  filter_call_t call = {.number = rows[row].number, .machine = FILTER_MACHINE, .pc_unknown = true};
  for (int i = 0; i < 6; i++) {
    call.arguments[i] = (uint64_t)rows[row].arguments[i];
    if (rows[row].arguments[i] != ANY) call.known |= (uint8_t)(1 << i);
  }
  return call;
}

void linux_calls_of_filter(call_set_t *out, const void *program, uint32_t count) {
  bool valid = filter_is_valid(program, count);
  for (uint32_t row = 0; row < CALL_ROWS; row++) {
    filter_call_t call = call_of(row);
    out->has[row] = !valid || !filter_verdict_allows(filter_verdict(program, count, &call));
  }
  add_dependent(out);
}

void os_calls_of_filter(const void *program, uint32_t count, uint8_t *forbidden) {
  call_set_t set;
  _Static_assert(CALL_ROWS <= OS_CALLS_MAX, "room for each row");
  linux_calls_of_filter(&set, program, count);
  for (uint32_t row = 0; row < CALL_ROWS; row++)
    forbidden[row] |= set.has[row];
}

bool os_filter_allows(const void *program, uint32_t count, uint32_t number,
                      const uint64_t arguments[6], uint8_t known) {
  filter_call_t call = {
      .number = number, .machine = FILTER_MACHINE, .known = known, .pc_unknown = true};
  memcpy(call.arguments, arguments, sizeof call.arguments);
  return filter_is_valid(program, count) &&
         filter_verdict_allows(filter_verdict(program, count, &call));
}

static void all_but(call_set_t *out, const uint8_t *kept, uint32_t count) {
  memset(out->has, true, sizeof out->has);
  for (uint32_t i = 0; i < count; i++)
    out->has[kept[i]] = false;
}

void linux_calls_of_strict_mode(call_set_t *out) {
  static const uint8_t kept[] = {CALL_read, CALL_write, CALL_rt_sigreturn};
  all_but(out, kept, ARRAY_COUNT(kept));
  add_dependent(out);
}

void linux_calls_of_unknown_filter(call_set_t *out) {
  static const uint8_t kept[] = {CALL_openat_read, CALL_read, CALL_close,
                                 CALL_fstat,       CALL_mmap, CALL_munmap};
  all_but(out, kept, ARRAY_COUNT(kept));
}

static void change(const call_set_t *set, int by) {
  for (uint32_t row = 0; row < CALL_ROWS; row++)
    if (set->has[row])
      (void)__atomic_fetch_add(&linux_calls_forbidden[row], (uint16_t)by, __ATOMIC_ACQ_REL);
}

void linux_calls_forbid(const call_set_t *set) { change(set, 1); }
void linux_calls_permit(const call_set_t *set) { change(set, -1); }
void os_calls_end(void) {
  for (uint32_t row = 0; row < CALL_ROWS; row++)
    if (!call_is_forbidden((call_row_t)row))
      (void)__atomic_fetch_add(&linux_calls_forbidden[row], (uint16_t)1, __ATOMIC_ACQ_REL);
}

bool linux_calls_forbidden_row(call_row_t row) { return call_is_forbidden(row); }

/* ---- ids ------------------------------------------------------------------------------------ */

static pid_t known_pid;
static uint16_t tid_place; /* where the C library keeps the id of a thread; 0: unknown */

void linux_calls_set_pid(pid_t pid) { known_pid = pid; }

bool linux_calls_prepare(void) {
  if (!call_is_forbidden(CALL_getpid)) known_pid = os_pid();
  if (tid_place == 0) tid_place = linux_tid_place();
  return tid_place != 0;
}

pid_t linux_known_pid(void) { return known_pid; }

pid_t linux_known_tid(void) {
  const loader_t *loader = linux_loader();
  if (tid_place == 0 || loader == NULL || loader->own_handle == NULL) return known_pid;
  return *(const int32_t *)(uintptr_t)(loader->own_handle() + tid_place);
}
