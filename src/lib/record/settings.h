/* SPDX-License-Identifier: MIT
 *
 * The settings of a recording, which the agent gets in the environment variable SONDE_RECORD:
 *
 *   RECORDER:SHM:FILE:PID[:SOCKET:TOKEN[:follow]]
 *
 * RECORDER is the recorder's process, SHM and FILE are its descriptors, PID is the recorded process
 * as the recorder sees it. SOCKET is the abstract name of the recorder's socket. TOKEN proves that
 * a process got the settings: with it, the recorder serves a process of another user. With
 * "follow", children are recorded, too.
 */
#ifndef SONDE_RECORD_SETTINGS_H
#define SONDE_RECORD_SETTINGS_H

#include "os/os.h"
#include "record/shm.h"

/* Behind SOCKET: the name of the datagram socket to which an agent in another network namespace
 * sends TOKEN (recorder/networks.h). */
#define SETTINGS_CALLS "/calls"

/* In place of a descriptor's number: the agent's file. */
#define SETTINGS_AGENT UINT32_MAX

/* The longest text of settings, with its final 0. */
#define SETTINGS_MAX 256u

typedef struct settings {
  uint32_t recorder_pid, shm_fd, file_fd;
  uint32_t pid;                /* 0: not given */
  char socket[SHM_SOCKET_MAX]; /* "": there is none */
  char token[SHM_TOKEN_MAX];
  bool follow;
} settings_t;

/* Reads TEXT. Returns false if it has not at least three numbers, or if a part is too long. */
bool settings_read(const char *text, settings_t *out);

/* Sends REQUEST, a line without a newline, to the recorder with SOCKET and TOKEN, and reads its
 * answer, at most SIZE bytes. Each step waits at most two seconds. Returns the count or a negative
 * errno. */
ssize_t settings_request(const char *socket, const char *token, const char *request, char *answer,
                         size_t size);

/* The same for a request that takes the recorder longer: each step waits at most PATIENCE_S
 * seconds.
 */
ssize_t settings_request_long(const char *socket, const char *token, const char *request,
                              char *answer, size_t size, uint32_t patience_s);

/* Requests the recorder's descriptor FD. Returns a descriptor of this process, at least 512 if
 * possible, or a negative errno. */
int settings_descriptor(const char *socket, const char *token, uint32_t fd);

/* Whether ANSWER of SIZE bytes says that a request succeeded. */
static inline bool settings_granted(const char *answer, ssize_t size) {
  return size >= 2 && answer[0] == 'o' && answer[1] == 'k';
}

#endif
