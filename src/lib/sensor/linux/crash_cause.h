/* SPDX-License-Identifier: MIT
 *
 * What the program's libraries know about the cause of a crash: the message with which the C
 * library aborts (__abort_msg of glibc: "free(): invalid pointer", a failed assertion), and the C++
 * exception that the thread handles (libstdc++), which is the cause if std::terminate aborted.
 */
#ifndef SONDE_SENSOR_LINUX_CRASH_CAUSE_H
#define SONDE_SENSOR_LINUX_CRASH_CAUSE_H

#include <stdint.h>

#include "base/bits.h"

typedef struct crash_cause {
  char message[512];
  char exception[512]; /* its type, mangled */
  char what[512];      /* text of a std::runtime_error or std::logic_error */
  uint32_t message_size, exception_size, what_size; /* 0: there is none */
} crash_cause_t;

/* Finds the libraries' variables. At start-up. */
HIDDEN void crash_cause_prepare(void);

/* Reads the cause for the calling thread, in the crash handler of signal NUMBER. */
HIDDEN void crash_cause_read(int number, crash_cause_t *out);

#endif
