/* SPDX-License-Identifier: MIT
 *
 * Processes in other network namespaces. The abstract name of the recorder's socket exists in one
 * network namespace (network_namespaces(7)), so a child of `unshare -n` or of a sandbox cannot
 * connect to it.
 *
 * With --follow, each agent keeps a datagram socket that it connected while it could. Such a
 * connection works across namespaces. When the agent cannot connect any more, it sends the token
 * through this socket. The recorder then binds the same abstract name in the namespace of the
 * sender, and the agent connects to that. So programs inherit no descriptor.
 *
 * To enter a namespace, the recorder needs rights in the user namespace that owns it. Its user has
 * them if the sandbox was created without privileges, and root has them. A socket keeps its
 * namespace alive; it is closed when no process of the run is left there.
 *
 * All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_NETWORKS_H
#define SONDE_RECORDER_NETWORKS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Namespaces at the same time, and the descriptors for poll. */
#define NETWORKS_MAX   32
#define NETWORKS_POLLS (1 + NETWORKS_MAX)

typedef struct networks {
  /* receives the tokens; -1: none */
  int calls_fd;
  /* of the socket, without the first 0, and what senders know */
  const char *name, *token;
  struct {
    /* inode of the namespace */
    uint64_t id;
    int fd;
  } items[NETWORKS_MAX];
  size_t count;
} networks_t;

/* NAME and TOKEN must stay valid. */
void networks_open(networks_t *networks, const char *name, const char *token);
void networks_close(networks_t *networks);

/* Fills FDS for poll: first that of tokens, then listening sockets. Returns their number, at most
 * NETWORKS_POLLS. */
size_t networks_poll(const networks_t *networks, struct pollfd *fds);

/* Receives one token, and binds the name in the sender's namespace. */
void networks_answer(networks_t *networks);

/* Closes sockets in namespaces in which none of the COUNT processes PIDS is. */
void networks_keep(networks_t *networks, const pid_t *pids, size_t count);

#endif
