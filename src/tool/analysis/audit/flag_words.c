/* SPDX-License-Identifier: MIT
 *
 * Values: include/uapi of Linux (asm-generic/fcntl.h, linux/socket.h, linux/memfd.h, …) and glibc's
 * headers bits/socket_type.h and bits/dlfcn.h. Four flags of open differ on Arm:
 * arch/arm64/include/uapi/asm/fcntl.h.
 */
#include "analysis/audit/flag_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MACHINE_X86_64 = 62, MACHINE_AARCH64 = 183 };

typedef struct flag {
  const char *name;
  uint64_t value;
  uint64_t mask; /* VALUE is one of several under MASK; 0: a bit */
} flag_t;

/* Bits that contain others come first. */
static const flag_t open_flags[] = {{"O_RDONLY", 0, 3},
                                    {"O_WRONLY", 1, 3},
                                    {"O_RDWR", 2, 3},
                                    {"O_CREAT", 0100, 0},
                                    {"O_EXCL", 0200, 0},
                                    {"O_NOCTTY", 0400, 0},
                                    {"O_TRUNC", 01000, 0},
                                    {"O_APPEND", 02000, 0},
                                    {"O_NONBLOCK", 04000, 0},
                                    {"O_SYNC", 04010000, 0},
                                    {"O_DSYNC", 010000, 0},
                                    {"O_ASYNC", 020000, 0},
                                    {"O_NOATIME", 01000000, 0},
                                    {"O_CLOEXEC", 02000000, 0},
                                    {"O_PATH", 010000000, 0},
                                    {"O_TMPFILE", 020000000, 0}, /* with O_DIRECTORY */
                                    {0}};
static const flag_t open_x86[] = {{"O_DIRECT", 040000, 0},
                                  {"O_LARGEFILE", 0100000, 0},
                                  {"O_DIRECTORY", 0200000, 0},
                                  {"O_NOFOLLOW", 0400000, 0},
                                  {0}};
static const flag_t open_arm[] = {{"O_DIRECTORY", 040000, 0},
                                  {"O_NOFOLLOW", 0100000, 0},
                                  {"O_DIRECT", 0200000, 0},
                                  {"O_LARGEFILE", 0400000, 0},
                                  {0}};
static const flag_t families[] = {
    {"AF_UNSPEC", 0, UINT64_MAX},  {"AF_UNIX", 1, UINT64_MAX},       {"AF_INET", 2, UINT64_MAX},
    {"AF_INET6", 10, UINT64_MAX},  {"AF_KEY", 15, UINT64_MAX},       {"AF_NETLINK", 16, UINT64_MAX},
    {"AF_PACKET", 17, UINT64_MAX}, {"AF_RDS", 21, UINT64_MAX},       {"AF_CAN", 29, UINT64_MAX},
    {"AF_TIPC", 30, UINT64_MAX},   {"AF_BLUETOOTH", 31, UINT64_MAX}, {"AF_ALG", 38, UINT64_MAX},
    {"AF_VSOCK", 40, UINT64_MAX},  {"AF_XDP", 44, UINT64_MAX},       {0}};
static const flag_t socket_types[] = {{"SOCK_STREAM", 1, 15},        {"SOCK_DGRAM", 2, 15},
                                      {"SOCK_RAW", 3, 15},           {"SOCK_RDM", 4, 15},
                                      {"SOCK_SEQPACKET", 5, 15},     {"SOCK_DCCP", 6, 15},
                                      {"SOCK_PACKET", 10, 15},       {"SOCK_NONBLOCK", 04000, 0},
                                      {"SOCK_CLOEXEC", 02000000, 0}, {0}};
static const flag_t socket_flags[] = {
    {"SOCK_NONBLOCK", 04000, 0}, {"SOCK_CLOEXEC", 02000000, 0}, {0}};
static const flag_t message_flags[] = {{"MSG_OOB", 1, 0},
                                       {"MSG_PEEK", 2, 0},
                                       {"MSG_DONTROUTE", 4, 0},
                                       {"MSG_DONTWAIT", 0x40, 0},
                                       {"MSG_EOR", 0x80, 0},
                                       {"MSG_WAITALL", 0x100, 0},
                                       {"MSG_CONFIRM", 0x800, 0},
                                       {"MSG_NOSIGNAL", 0x4000, 0},
                                       {"MSG_MORE", 0x8000, 0},
                                       {"MSG_ZEROCOPY", 0x4000000, 0},
                                       {"MSG_FASTOPEN", 0x20000000, 0},
                                       {0}};
static const flag_t load_flags[] = {{"RTLD_LAZY", 1, 3},
                                    {"RTLD_NOW", 2, 3},
                                    {"RTLD_NOLOAD", 4, 0},
                                    {"RTLD_DEEPBIND", 8, 0},
                                    {"RTLD_GLOBAL", 0x100, 0},
                                    {"RTLD_NODELETE", 0x1000, 0},
                                    {0}};
static const flag_t memory_flags[] = {{"MFD_CLOEXEC", 1, 0}, {"MFD_ALLOW_SEALING", 2, 0},
                                      {"MFD_HUGETLB", 4, 0}, {"MFD_NOEXEC_SEAL", 8, 0},
                                      {"MFD_EXEC", 16, 0},   {0}};
static const flag_t event_flags[] = {
    {"EFD_SEMAPHORE", 1, 0}, {"EFD_NONBLOCK", 04000, 0}, {"EFD_CLOEXEC", 02000000, 0}, {0}};
static const flag_t poll_flags[] = {{"EPOLL_CLOEXEC", 02000000, 0}, {0}};
static const flag_t timer_flags[] = {{"TFD_NONBLOCK", 04000, 0}, {"TFD_CLOEXEC", 02000000, 0}, {0}};
static const flag_t notify_flags[] = {{"IN_NONBLOCK", 04000, 0}, {"IN_CLOEXEC", 02000000, 0}, {0}};
static const flag_t watch_flags[] = {{"IN_ALL_EVENTS", 0xfff, 0},
                                     {"IN_ACCESS", 1, 0},
                                     {"IN_MODIFY", 2, 0},
                                     {"IN_ATTRIB", 4, 0},
                                     {"IN_CLOSE_WRITE", 8, 0},
                                     {"IN_CLOSE_NOWRITE", 16, 0},
                                     {"IN_OPEN", 32, 0},
                                     {"IN_MOVED_FROM", 64, 0},
                                     {"IN_MOVED_TO", 128, 0},
                                     {"IN_CREATE", 256, 0},
                                     {"IN_DELETE", 512, 0},
                                     {"IN_DELETE_SELF", 1024, 0},
                                     {"IN_MOVE_SELF", 2048, 0},
                                     {"IN_ONLYDIR", 0x1000000, 0},
                                     {"IN_DONT_FOLLOW", 0x2000000, 0},
                                     {"IN_EXCL_UNLINK", 0x4000000, 0},
                                     {"IN_MASK_ADD", 0x20000000, 0},
                                     {"IN_ONESHOT", 0x80000000, 0},
                                     {0}};
static const flag_t unlink_flags[] = {{"AT_REMOVEDIR", 0x200, 0}, {0}};
static const flag_t rename_flags[] = {
    {"RENAME_NOREPLACE", 1, 0}, {"RENAME_EXCHANGE", 2, 0}, {"RENAME_WHITEOUT", 4, 0}, {0}};
static const flag_t clocks[] = {
    {"CLOCK_REALTIME", 0, UINT64_MAX},       {"CLOCK_MONOTONIC", 1, UINT64_MAX},
    {"CLOCK_BOOTTIME", 7, UINT64_MAX},       {"CLOCK_REALTIME_ALARM", 8, UINT64_MAX},
    {"CLOCK_BOOTTIME_ALARM", 9, UINT64_MAX}, {0}};
static const flag_t access_modes[] = {
    {"F_OK", 0, UINT64_MAX}, {"R_OK", 4, 0}, {"W_OK", 2, 0}, {"X_OK", 1, 0}, {0}};
/* Of AF_INET and AF_INET6. */
static const flag_t protocols[] = {{"IPPROTO_ICMP", 1, UINT64_MAX},
                                   {"IPPROTO_TCP", 6, UINT64_MAX},
                                   {"IPPROTO_UDP", 17, UINT64_MAX},
                                   {"IPPROTO_DCCP", 33, UINT64_MAX},
                                   {"IPPROTO_ICMPV6", 58, UINT64_MAX},
                                   {"IPPROTO_SCTP", 132, UINT64_MAX},
                                   {"IPPROTO_RAW", 255, UINT64_MAX},
                                   {"IPPROTO_MPTCP", 262, UINT64_MAX},
                                   {0}};
static const flag_t signals[] = {{"SIGHUP", 1, UINT64_MAX},   {"SIGINT", 2, UINT64_MAX},
                                 {"SIGQUIT", 3, UINT64_MAX},  {"SIGILL", 4, UINT64_MAX},
                                 {"SIGTRAP", 5, UINT64_MAX},  {"SIGABRT", 6, UINT64_MAX},
                                 {"SIGBUS", 7, UINT64_MAX},   {"SIGFPE", 8, UINT64_MAX},
                                 {"SIGKILL", 9, UINT64_MAX},  {"SIGUSR1", 10, UINT64_MAX},
                                 {"SIGSEGV", 11, UINT64_MAX}, {"SIGUSR2", 12, UINT64_MAX},
                                 {"SIGPIPE", 13, UINT64_MAX}, {"SIGALRM", 14, UINT64_MAX},
                                 {"SIGTERM", 15, UINT64_MAX}, {"SIGSTKFLT", 16, UINT64_MAX},
                                 {"SIGCHLD", 17, UINT64_MAX}, {"SIGCONT", 18, UINT64_MAX},
                                 {"SIGSTOP", 19, UINT64_MAX}, {"SIGTSTP", 20, UINT64_MAX},
                                 {"SIGTTIN", 21, UINT64_MAX}, {"SIGTTOU", 22, UINT64_MAX},
                                 {"SIGURG", 23, UINT64_MAX},  {"SIGXCPU", 24, UINT64_MAX},
                                 {"SIGXFSZ", 25, UINT64_MAX}, {"SIGVTALRM", 26, UINT64_MAX},
                                 {"SIGPROF", 27, UINT64_MAX}, {"SIGWINCH", 28, UINT64_MAX},
                                 {"SIGIO", 29, UINT64_MAX},   {"SIGPWR", 30, UINT64_MAX},
                                 {"SIGSYS", 31, UINT64_MAX},  {0}};
static const flag_t permissions[] = {{0}}; /* printed in octal */

static const struct {
  const char *function;
  int argument;
  const flag_t *flags;
} sets[] = {{"open", 1, open_flags},
            {"open64", 1, open_flags},
            {"__open_2", 1, open_flags},
            {"__open64_2", 1, open_flags},
            {"openat", 2, open_flags},
            {"openat64", 2, open_flags},
            {"__openat_2", 2, open_flags},
            {"__openat64_2", 2, open_flags},
            {"creat", 1, permissions},
            {"creat64", 1, permissions},
            {"chmod", 1, permissions},
            {"fchmod", 1, permissions},
            {"fchmodat", 2, permissions},
            {"mkdir", 1, permissions},
            {"mkdirat", 2, permissions},
            {"mkfifo", 1, permissions},
            {"shm_open", 1, open_flags},
            {"sem_open", 1, open_flags},
            {"mkostemp", 1, open_flags},
            {"pipe2", 1, open_flags},
            {"dup3", 2, open_flags},
            {"memfd_create", 1, memory_flags},
            {"eventfd", 1, event_flags},
            {"eventfd2", 1, event_flags},
            {"epoll_create1", 0, poll_flags},
            {"timerfd_create", 0, clocks},
            {"timerfd_create", 1, timer_flags},
            {"inotify_init1", 0, notify_flags},
            {"inotify_add_watch", 2, watch_flags},
            {"socket", 0, families},
            {"socket", 1, socket_types},
            {"socketpair", 0, families},
            {"socketpair", 1, socket_types},
            {"accept4", 3, socket_flags},
            {"sendto", 3, message_flags},
            {"gethostbyname2", 1, families},
            {"gethostbyname2_r", 1, families},
            {"gethostbyaddr", 2, families},
            {"access", 1, access_modes},
            {"eaccess", 1, access_modes},
            {"euidaccess", 1, access_modes},
            {"faccessat", 2, access_modes},
            {"faccessat2", 2, access_modes},
            {"kill", 1, signals},
            {"killpg", 1, signals},
            {"tkill", 1, signals},
            {"tgkill", 2, signals},
            {"sigqueue", 1, signals},
            {"pthread_kill", 1, signals},
            {"raise", 0, signals},
            {"pidfd_send_signal", 1, signals},
            {"socket", 2, protocols},
            {"dlopen", 1, load_flags},
            {"dlmopen", 2, load_flags},
            {"unlinkat", 2, unlink_flags},
            {"renameat2", 4, rename_flags}};

typedef struct words {
  char *out;
  size_t size, used;
} words_t;

static void add(words_t *w, const char *text) {
  if (w->used >= w->size) return;
  int n = snprintf(w->out + w->used, w->size - w->used, "%s%s", w->used ? "|" : "", text);
  w->used += n > 0 ? (size_t)n : 0;
}

/* Adds the names of FLAGS in *VALUE and removes them from it. */
static void add_flags(words_t *w, const flag_t *flags, uint64_t *value) {
  uint64_t whole = *value;
  for (; flags->name; flags++) {
    uint64_t mask = flags->mask ? flags->mask : flags->value;
    if (((flags->mask ? whole : *value) & mask) != flags->value) continue;
    add(w, flags->name);
    *value &= ~mask;
  }
}

static const flag_t *set_of(const char *function, int argument) {
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (sets[i].argument == argument && !strcmp(sets[i].function, function)) return sets[i].flags;
  return NULL;
}

bool flag_words(const char *function, int argument, uint64_t value, uint32_t machine, char *out,
                size_t size) {
  words_t w = {out, size, 0};
  const flag_t *set = set_of(function, argument);
  if (!set || (machine != MACHINE_X86_64 && machine != MACHINE_AARCH64)) return false;
  if (set == permissions) {
    snprintf(out, size, "0%" PRIo64, value);
    return true;
  }
  add_flags(&w, set, &value);
  if (set == open_flags) add_flags(&w, machine == MACHINE_AARCH64 ? open_arm : open_x86, &value);
  if (value || !w.used) {
    char rest[24];
    bool is_number = set == signals || set == protocols;
    snprintf(rest, sizeof rest, value && !is_number ? "0x%" PRIx64 : "%" PRIu64, value);
    add(&w, rest);
  }
  return true;
}
