/* SPDX-License-Identifier: MIT */
#include "sensor/trace/wait_names.h"

#include <stdint.h>

#include "base/glob.h"
#include "base/text.h"

/* Ascending. */
static const char *const names[] = {
    "accept",
    "accept4",
    "clock_nanosleep",
    "connect",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fdatasync",
    "flock",
    "fsync",
    "mq_receive",
    "mq_send",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "msync",
    "nanosleep",
    "pause",
    "poll",
    "poll_chk",
    "ppoll",
    "ppoll_chk",
    "pread",
    "pread64",
    "pread64_chk",
    "pread_chk",
    "preadv",
    "preadv64",
    "pselect",
    "pthread_barrier_wait",
    "pthread_clockjoin_np",
    "pthread_cond_clockwait",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_mutex_clocklock",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_wrlock",
    "pthread_timedjoin_np",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev64",
    "read",
    "read_chk",
    "readv",
    "recv",
    "recv_chk",
    "recvfrom",
    "recvfrom_chk",
    "recvmmsg",
    "recvmsg",
    "select",
    "sem_clockwait",
    "sem_timedwait",
    "sem_wait",
    "semop",
    "semtimedop",
    "send",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "sync",
    "tcdrain",
    "thrd_join",
    "thrd_sleep",
    "usleep",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
};

/* Below, equal or above 0, as strcmp. */
static int compare(const char *a, const char *b) {
  while (*a && *a == *b)
    a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}

bool wait_names_has(const char *name) {
  while (*name == '_')
    name++;
  for (uint32_t low = 0, high = sizeof names / sizeof *names; low < high;) {
    uint32_t middle = low + (high - low) / 2;
    int order = compare(name, names[middle]);
    if (!order) return true;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return false;
}

bool wait_names_has_of(const char *name, const char *path) {
  const char *file = text_base_name(path);
  return (glob_matches("libc.*", file) || glob_matches("libpthread*", file) ||
          glob_matches("ld-musl-*", file)) &&
         wait_names_has(name);
}
