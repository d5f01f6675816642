/* SPDX-License-Identifier: MIT
 *
 * The crash of a recording: the signal, the registers, the address of a fault, and the last stack
 * of every thread (EXTENDED_CRASH, EXTENDED_THREAD). Recordings of older versions have no
 * registers.
 */
#ifndef SONDE_ANALYSIS_CRASH_H
#define SONDE_ANALYSIS_CRASH_H

#include "analysis/texts.h"
#include "reader/reader.h"

enum { CRASH_REGISTERS = 33 };

typedef struct crash_thread {
  uint64_t tid;
  uint32_t stack;
  char state, name[32];
} crash_thread_t;

typedef enum crash_access {
  CRASH_ACCESS_UNKNOWN = 0,
  CRASH_ACCESS_READ = 1,
  CRASH_ACCESS_WRITE = 2,
  CRASH_ACCESS_EXECUTE = 3,
} crash_access_t;

typedef struct crash {
  uint64_t time;   /* ticks */
  uint64_t number; /* of the signal; 0: no crash is recorded */
  int32_t code;    /* si_code */
  bool has_address;
  uint64_t address; /* of the fault */
  crash_access_t access;
  /* by DWARF number, with the pc as last; 0: not recorded */
  uint32_t register_count;
  uint64_t registers[CRASH_REGISTERS];
  /* the mapped part of the thread's stack; 0: not known */
  uint64_t stack_low, stack_high;
  /* what is mapped at the address: its protection (PROT_…) + 1; 0: nothing, or not known */
  uint64_t mapping_start, mapping_end, mapping_protection;
  /* "": there is none */
  const char *message;   /* with which the C library aborted */
  const char *exception; /* the C++ type, mangled, of the exception that the thread handles */
  const char *what;      /* its text */
  crash_thread_t crashed;
  crash_thread_t *others;
  size_t count, capacity;
  text_copy_t *texts;
} crash_t;

/* Adds an event to CRASH, which begins as zeros. Ignores other events. False: out of memory. */
bool crash_add(crash_t *crash, const record_event_t *event);
void crash_free(crash_t *crash);

/* "rdi": the name of register I on MACHINE (record_header_t.machine); "" if there is none. */
const char *crash_register_name(uint32_t machine, uint32_t i);

/* The number of the stack pointer among the registers. */
uint32_t crash_stack_pointer(uint32_t machine);

/* What the signal means, in words: "read of unmapped memory". Never empty. */
const char *crash_signal_text(const crash_t *crash);

#endif
