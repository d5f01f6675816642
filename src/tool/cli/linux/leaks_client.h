/* SPDX-License-Identifier: MIT
 *
 * The client of a leak search (record/leaks.h): has a recorded program copied, and the copy
 * searched. control_leaks.c is the recorder's part.
 *
 * The program is paused only while it is copied. The copy searches its own memory, so neither side
 * needs the right to ptrace.
 */
#ifndef SONDE_CLI_LINUX_LEAKS_CLIENT_H
#define SONDE_CLI_LINUX_LEAKS_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/leaks.h"
#include "recorder/recording_file.h"

typedef struct leaks_client {
  pid_t pid, recorder;
  /* descriptors of the recorder, opened through /proc */
  int exchange_fd, recording_fd;
} leaks_client_t;

/* Has process PID copied. False after a message. Call leaks_client_end after the search. */
bool leaks_client_begin(leaks_client_t *client, pid_t pid);

/* Maps the exchange; *SIZE is its size. NULL if it is not accessible or invalid. */
leaks_exchange_t *leaks_client_map(const leaks_client_t *client, uint64_t *size);

/* Lets the copy search for unreachable blocks, or for references to the block at ADDRESS, and waits
 * until it is done. The caller has written the blocks to EXCHANGE. Shows progress on a terminal.
 * False after a message. */
bool leaks_client_search(leaks_exchange_t *exchange, uint64_t address);

/* Ends the search: the recorder releases the exchange. */
void leaks_client_end(const leaks_client_t *client);

/* The search when the command exits, with the recording that the recorder has completed: adds the
 * result to it (recorder_options_t). */
void exit_search(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                 uint64_t size, int32_t error);

#endif
