/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/networks.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/settings.h"

/* ---- sockets ------------------------------------------------------------------------------- */

/* A socket of TYPE with the abstract name NAME and ENDING in the caller's namespace; -1: it failed.
 */
static int bind_name(int type, const char *name, const char *ending) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s%s", name, ending);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) == 0) return fd;
  close(fd);
  return -1;
}

void networks_open(networks_t *n, const char *name, const char *token) {
  const int on = 1;
  *n = (networks_t){.calls_fd = -1, .name = name, .token = token};
  if (!*name || !*token) return;
  n->calls_fd = bind_name(SOCK_DGRAM, name, SETTINGS_CALLS);
  if (n->calls_fd >= 0) setsockopt(n->calls_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

static void remove_item(networks_t *n, size_t i) {
  close(n->items[i].fd);
  n->items[i] = n->items[--n->count];
}

void networks_close(networks_t *n) {
  while (n->count)
    remove_item(n, 0);
  if (n->calls_fd >= 0) close(n->calls_fd);
  n->calls_fd = -1;
}

size_t networks_poll(const networks_t *n, struct pollfd *fds) {
  fds[0] = (struct pollfd){.fd = n->calls_fd, .events = POLLIN};
  for (size_t i = 0; i < n->count; i++)
    fds[1 + i] = (struct pollfd){.fd = n->items[i].fd, .events = POLLIN};
  return 1 + n->count;
}

/* ---- namespaces ---------------------------------------------------------------------------- */

/* 0: unknown. */
static uint64_t network_of(pid_t pid) {
  char path[32];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
  return stat(path, &s) == 0 ? s.st_ino : 0;
}

/* In a process of its own: enters NETWORK, and the user namespace OWNER unless it is there. */
static int listen_in(int network, int owner, const char *name) {
  if (owner >= 0) (void)setns(owner, CLONE_NEWUSER);
  if (setns(network, CLONE_NEWNET) < 0) return -1;
  int fd = bind_name(SOCK_STREAM, name, "");
  return fd >= 0 && listen(fd, 8) == 0 ? fd : -1;
}

/* A listening socket NAME in NETWORK; -1: it failed. The process that makes it shares the table of
 * descriptors: a user namespace can be entered only by a process with one thread (setns(2)). */
static int socket_in(int network, const char *name) {
  int *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return -1;
  int owner = ioctl(network, NS_GET_USERNS), fd = *made = -1;
  pid_t maker = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
  if (maker == 0) {
    *made = listen_in(network, owner, name);
    _exit(0);
  }
  if (maker > 0 && waitpid(maker, NULL, 0) == maker) fd = *made;
  if (owner >= 0) close(owner);
  munmap(made, sizeof *made);
  return fd;
}

static void add(networks_t *n, pid_t pid) {
  char path[32];
  uint64_t id = network_of(pid);
  bool is_known = !id || id == network_of(getpid()) || n->count == NETWORKS_MAX;
  for (size_t i = 0; i < n->count; i++)
    is_known |= n->items[i].id == id;
  if (is_known) return;
  snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
  int network = open(path, O_RDONLY | O_CLOEXEC), fd = -1;
  if (network >= 0) {
    fd = socket_in(network, n->name);
    close(network);
  }
  if (fd < 0) return;
  n->items[n->count].id = id;
  n->items[n->count++].fd = fd;
}

void networks_answer(networks_t *n) {
  char token[SHM_TOKEN_MAX] = "";
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(struct ucred))];
  } control = {0};
  struct iovec data = {token, sizeof token - 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct ucred sender;
  if (recvmsg(n->calls_fd, &message, MSG_CMSG_CLOEXEC) < 0 ||
      message.msg_controllen < CMSG_LEN(sizeof sender) ||
      control.head.cmsg_type != SCM_CREDENTIALS || strcmp(token, n->token) != 0)
    return;
  memcpy(&sender, CMSG_DATA(&control.head), sizeof sender);
  add(n, sender.pid);
}

void networks_keep(networks_t *n, const pid_t *pids, size_t count) {
  bool lives[NETWORKS_MAX] = {false};
  for (size_t k = 0; n->count && k < count; k++) {
    uint64_t id = network_of(pids[k]);
    for (size_t i = 0; i < n->count; i++)
      lives[i] |= n->items[i].id == id;
  }
  for (size_t i = n->count; i-- > 0;)
    if (!lives[i]) remove_item(n, i);
}
