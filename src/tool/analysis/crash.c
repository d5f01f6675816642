/* SPDX-License-Identifier: MIT */
#include "analysis/crash.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "reader/body.h"

enum { THREADS_MAX = 4096, X86_64 = 62, AARCH64 = 183 };

/* ---- records ------------------------------------------------------------------------------ */

static bool add_thread(crash_t *c, const record_event_t *e) {
  uint64_t n[3];
  if (c->count == THREADS_MAX || !body_numbers(e, n, 3)) return true;
  if (!ARRAY_GROW(c->others, c->count, c->capacity)) return false;
  crash_thread_t *t = &c->others[c->count++];
  const char *name;
  size_t size = body_text_after(e, 3, &name);
  *t = (crash_thread_t){.tid = n[0], .stack = (uint32_t)n[2], .state = (char)n[1]};
  snprintf(t->name, sizeof t->name, "%.*s", (int)size, name);
  return true;
}

/* Faults have an address, which may be 0; signals from kill(2), and general protection faults
 * (SI_KERNEL), have none. */
static bool has_address(const crash_t *c) {
  enum { FIRST_OTHER_CODE = 0x80 };
  bool fault = c->number == SIGSEGV || c->number == SIGBUS || c->number == SIGILL ||
               c->number == SIGFPE || c->number == SIGTRAP;
  return fault && c->code > 0 && c->code < FIRST_OTHER_CODE;
}

static bool read_text(crash_t *c, body_t *b, const char **out) {
  uint64_t size;
  const uint8_t *bytes = body_string(b, &size);
  *out = texts_add(&c->texts, bytes, size);
  return *out != NULL;
}

/* The fields that recordings of older versions lack. */
static bool read_details(crash_t *c, body_t *b) {
  uint64_t count = body_number(b);
  for (uint64_t i = 0; i < count && !b->truncated; i++) {
    uint64_t value = body_number(b);
    if (i < CRASH_REGISTERS) c->registers[i] = value;
  }
  c->register_count = b->truncated || count > CRASH_REGISTERS ? 0 : (uint32_t)count;
  uint64_t access = body_number(b);
  c->access = access <= CRASH_ACCESS_EXECUTE ? (crash_access_t)access : CRASH_ACCESS_UNKNOWN;
  uint64_t *fields[] = {&c->stack_low, &c->stack_high, &c->mapping_start, &c->mapping_end,
                        &c->mapping_protection};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    *fields[i] = body_number(b);
  return read_text(c, b, &c->message) && read_text(c, b, &c->exception) &&
         read_text(c, b, &c->what);
}

bool crash_add(crash_t *c, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_THREAD) return add_thread(c, e);
  if (e->subtype != EXTENDED_CRASH) return true;
  body_t b = {e->body, e->body + e->body_size, false};
  uint64_t number = body_number(&b), code = body_number(&b), address = body_number(&b);
  uint64_t tid = body_number(&b), stack = body_number(&b);
  if (b.truncated) return true;
  c->time = e->time;
  c->number = number;
  c->code = (int32_t)(uint32_t)code;
  c->address = address;
  c->has_address = has_address(c);
  c->crashed = (crash_thread_t){.tid = tid, .stack = (uint32_t)stack, .state = 'R'};
  return read_details(c, &b);
}

void crash_free(crash_t *c) {
  texts_free(&c->texts);
  free(c->others);
  memset(c, 0, sizeof *c);
}

/* ---- registers ---------------------------------------------------------------------------- */

const char *crash_register_name(uint32_t machine, uint32_t i) {
  static const char *const x86_64[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                       "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
  static const char *const aarch64[] = {
      "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
      "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
      "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc"};
  if (machine == X86_64) return i < sizeof x86_64 / sizeof *x86_64 ? x86_64[i] : "";
  return machine == AARCH64 && i < sizeof aarch64 / sizeof *aarch64 ? aarch64[i] : "";
}

uint32_t crash_stack_pointer(uint32_t machine) { return machine == X86_64 ? 7 : 31; }

/* ---- signals ------------------------------------------------------------------------------ */

/* The codes of siginfo_t (sigaction(2)); they are the same on every Linux. */
typedef struct meaning {
  int number, code;
  const char *text;
} meaning_t;

static const meaning_t meanings[] = {{SIGBUS, 1, "misaligned access"},
                                     {SIGBUS, 2, "access beyond the end of a mapped file"},
                                     {SIGBUS, 3, "error of the device that holds the memory"},
                                     {SIGFPE, 1, "integer division by zero"},
                                     {SIGFPE, 2, "integer overflow"},
                                     {SIGFPE, 3, "floating-point division by zero"},
                                     {SIGFPE, 4, "floating-point overflow"},
                                     {SIGFPE, 5, "floating-point underflow"},
                                     {SIGFPE, 6, "inexact floating-point result"},
                                     {SIGFPE, 7, "invalid floating-point operation"},
                                     {SIGTRAP, 1, "breakpoint instruction"},
                                     {SIGTRAP, 0x80, "breakpoint instruction"},
                                     {SIGSYS, 1, "system call that a seccomp filter forbids"}};

static const char *segv_text(const crash_t *c) {
  static const char *const unmapped[] = {"access to unmapped memory", "read of unmapped memory",
                                         "write to unmapped memory",
                                         "execution of unmapped memory"};
  static const char *const refused[] = {
      "access that the memory's protection forbids", "read of memory without read permission",
      "write to read-only memory", "execution of memory that holds no code"};
  static const char *const guarded[] = {"access to memory that is protected from any access",
                                        "read of memory that is protected from any access",
                                        "write to memory that is protected from any access",
                                        "execution of memory that is protected from any access"};
  enum { MAPERR = 1, ACCERR = 2, KERNEL = 0x80 };
  if (c->code == MAPERR) return unmapped[c->access];
  if (c->code == ACCERR)
    return c->mapping_protection == 1 ? guarded[c->access] : refused[c->access];
  if (c->code == KERNEL) return "use of an invalid pointer: not an address of user memory";
  return "access to invalid memory";
}

const char *crash_signal_text(const crash_t *c) {
  if (c->code <= 0 && c->number == SIGABRT) return "abort";
  if (c->code <= 0) return "signal sent by a process";
  if (c->number == SIGSEGV) return segv_text(c);
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
    if (meanings[i].number == (int)c->number && meanings[i].code == c->code)
      return meanings[i].text;
  return c->number == SIGILL ? "illegal instruction" : "fatal signal";
}
