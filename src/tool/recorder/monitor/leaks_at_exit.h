/* SPDX-License-Identifier: MIT
 *
 * The recorder's part of the search for leaks when the program exits: it creates the exchange
 * (record/leaks.h) before the program starts. The program copies itself when it exits
 * (sensor/leaks/linux/leaks.c), and the copy waits for the blocks. It ends if the recorder ends.
 *
 * In mode `live` a thread of the recorder copies the table of live blocks while the program is
 * paused. The thread sleeps until then.
 */
#ifndef SONDE_RECORDER_MONITOR_LEAKS_AT_EXIT_H
#define SONDE_RECORDER_MONITOR_LEAKS_AT_EXIT_H

#include <stdbool.h>

#include "record/leaks.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/recording_file.h"

typedef struct leaks_at_exit {
  int fd; /* 0: none */
  leaks_exchange_t *exchange;
  uint64_t size; /* of the mapping */
  recording_t *recording;
  monitor_thread_t thread;
  int kept; /* the copy of the table of live blocks; 0: none */
} leaks_at_exit_t;

/* Creates the exchange and announces it in the control block of RECORDING, which must stay where it
 * is. False: out of memory. */
bool leaks_at_exit_begin(leaks_at_exit_t *leaks, recording_t *recording);

/* The program runs: waits for its end in a thread. */
void leaks_at_exit_watch(leaks_at_exit_t *leaks);

/* The program has ended: writes the copied live blocks to the recording, before it is finished. */
void leaks_at_exit_keep(leaks_at_exit_t *leaks);

/* After that: the exchange of *SIZE bytes if there is a copy, else NULL. *ERROR is why
 * the program could not be copied; 0: it did not try, because it did not exit by itself. */
leaks_exchange_t *leaks_at_exit_open(leaks_at_exit_t *leaks, uint64_t *size, int32_t *error);

/* Ends the copy, if there is one, and releases the exchange. */
void leaks_at_exit_end(leaks_at_exit_t *leaks);

#endif
