/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "target/sensitive.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/varint.h"

#define S AUDIT_SKIP
#define P AUDIT_PATH
#define N AUDIT_NUMBER
#define F AUDIT_FLAGS
#define A AUDIT_ADDRESS

#define OPENS                                                                                      \
  " open open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2 creat creat64 fopen "  \
  "fopen64 freopen freopen64 opendir scandir scandir64 nftw nftw64 ftw glob glob64 "
#define ALSO_OPEN                                                                                  \
  " setmntent dlopen dlmopen mkstemp mkstemp64 mkostemp mkostemp64 tmpfile tmpfile64 shm_open "
#define LOOKS                                                                                      \
  " stat stat64 lstat lstat64 fstatat fstatat64 statx __xstat __xstat64 __lxstat __lxstat64 "      \
  "__fxstatat __fxstatat64 "
#define ACCESSES " access faccessat "
#define LINKS    " readlink readlinkat "
#define EXECS                                                                                      \
  " execve execv execvp execvpe execl execlp execle fexecve execveat posix_spawn posix_spawnp "    \
  "system popen "

static const sensitive_call_t calls[SENSITIVE_NUMBERS] = {
#ifdef SYS_open
    [SYS_open] = {"open", {P, F}, OPENS, ALSO_OPEN},
    [SYS_creat] = {"creat", {P, F}, OPENS, ALSO_OPEN},
    [SYS_unlink] = {"unlink", {P}, " unlink remove ", NULL},
    [SYS_rmdir] = {"rmdir", {P}, " rmdir remove ", NULL},
    [SYS_rename] = {"rename", {P, P}, " rename renameat renameat2 ", NULL},
    [SYS_mkdir] = {"mkdir", {P, F}, " mkdir mkdirat ", " mkdtemp "},
    [SYS_link] = {"link", {P, P}, " link linkat ", NULL},
    [SYS_symlink] = {"symlink", {P, P}, " symlink symlinkat ", NULL},
    [SYS_mknod] = {"mknod", {P, F}, " mkfifo ", NULL},
    [SYS_chmod] = {"chmod", {P, F}, " chmod fchmodat ", NULL},
    [SYS_chown] = {"chown", {P, N, N}, " chown fchownat ", NULL},
    [SYS_lchown] = {"lchown", {P, N, N}, " lchown fchownat ", NULL},
    [SYS_stat] = {"stat", {P}, LOOKS, NULL},
    [SYS_lstat] = {"lstat", {P}, LOOKS, NULL},
    [SYS_access] = {"access", {P, N}, ACCESSES, NULL},
    [SYS_readlink] = {"readlink", {P}, LINKS, NULL},
#endif
#ifdef SYS_newfstatat
    [SYS_newfstatat] = {"newfstatat", {S, P}, LOOKS, NULL},
#endif
    [SYS_statx] = {"statx", {S, P}, LOOKS, NULL},
    [SYS_faccessat] = {"faccessat", {S, P, N}, ACCESSES, NULL},
#ifdef SYS_faccessat2
    [SYS_faccessat2] = {"faccessat2", {S, P, N}, ACCESSES, NULL},
#endif
    [SYS_readlinkat] = {"readlinkat", {S, P}, LINKS, NULL},
    [SYS_mkdirat] = {"mkdirat", {S, P, F}, " mkdir mkdirat ", " mkdtemp "},
    [SYS_linkat] = {"linkat", {S, P, S, P}, " link linkat ", NULL},
    [SYS_symlinkat] = {"symlinkat", {P, S, P}, " symlink symlinkat ", NULL},
    [SYS_mknodat] = {"mknodat", {S, P, F}, " mkfifo ", NULL},
    [SYS_fchmod] = {"fchmod", {N, F}, " fchmod ", NULL},
    [SYS_fchmodat] = {"fchmodat", {S, P, F}, " chmod fchmodat ", NULL},
    [SYS_fchown] = {"fchown", {N, N, N}, " fchown ", NULL},
    [SYS_fchownat] = {"fchownat", {S, P, N, N}, " chown lchown fchownat ", NULL},
    [SYS_socket] = {"socket", {N, N, N}, " socket ", NULL},
    [SYS_socketpair] = {"socketpair", {N, N, N}, " socketpair ", NULL},
#ifdef SYS_accept
    [SYS_accept] = {"accept", {N}, " accept accept4 ", NULL},
#endif
    [SYS_accept4] = {"accept4", {N, S, S, N}, " accept accept4 ", NULL},
    [SYS_openat] = {"openat", {S, P, F}, OPENS, ALSO_OPEN},
#ifdef SYS_openat2
    [SYS_openat2] = {"openat2", {S, P}, OPENS, ALSO_OPEN},
#endif
    [SYS_unlinkat] = {"unlinkat", {S, P, F}, " unlink unlinkat remove rmdir ", NULL},
#ifdef SYS_renameat
    [SYS_renameat] = {"renameat", {S, P, S, P}, " rename renameat renameat2 ", NULL},
#endif
    [SYS_renameat2] = {"renameat2", {S, P, S, P, F}, " rename renameat renameat2 ", NULL},
    [SYS_truncate] = {"truncate", {P, N}, " truncate truncate64 ", NULL},
    [SYS_statfs] = {"statfs", {P}, " statfs statfs64 statvfs statvfs64 ", NULL},
    [SYS_fstatfs] = {"fstatfs", {N}, " fstatfs fstatfs64 fstatvfs fstatvfs64 ", NULL},
    [SYS_connect] = {"connect", {N, A}, " connect ", NULL},
    [SYS_sendto] = {"sendto", {N, S, S, F, A}, " sendto ", NULL},
    [SYS_bind] = {"bind", {N, A}, " bind ", NULL},
    [SYS_listen] = {"listen", {N, N}, " listen ", NULL},
    [SYS_execve] = {"execve", {P}, EXECS, NULL},
    [SYS_execveat] = {"execveat", {N, P}, EXECS, NULL},
    [SYS_memfd_create] = {"memfd_create", {P, F}, " memfd_create ", NULL},
    [SYS_inotify_add_watch] = {"inotify_add_watch", {S, P, F}, " inotify_add_watch ", NULL},
    [SYS_fanotify_mark] = {"fanotify_mark", {S, F, N, N, P}, " fanotify_mark ", NULL},
    [SYS_uname] = {"uname", {S}, " uname gethostname getdomainname ", NULL},
    [SYS_sysinfo] = {"sysinfo", {S}, " sysinfo ", NULL},
    [SYS_ptrace] = {"ptrace", {N, N}, " ptrace ", NULL},
    [SYS_process_vm_readv] = {"process_vm_readv", {N}, " process_vm_readv ", NULL},
    [SYS_process_vm_writev] = {"process_vm_writev", {N}, " process_vm_writev ", NULL},
    [SYS_kill] = {"kill", {N, N}, " kill ", NULL},
    [SYS_setuid] = {"setuid", {N}, " setuid ", NULL},
    [SYS_setgid] = {"setgid", {N}, " setgid ", NULL},
    [SYS_setreuid] = {"setreuid", {N, N}, " setreuid ", NULL},
    [SYS_setregid] = {"setregid", {N, N}, " setregid ", NULL},
    [SYS_setresuid] = {"setresuid", {N, N, N}, " setresuid ", NULL},
    [SYS_setresgid] = {"setresgid", {N, N, N}, " setresgid ", NULL},
    [SYS_setgroups] = {"setgroups", {N}, " setgroups initgroups ", NULL},
    [SYS_capset] = {"capset", {S}, " capset ", NULL},
    [SYS_mount] = {"mount", {P, P, P, F}, " mount ", NULL},
    [SYS_umount2] = {"umount2", {P, F}, " umount umount2 ", NULL},
    [SYS_setns] = {"setns", {N, F}, " setns ", NULL},
    [SYS_unshare] = {"unshare", {F}, " unshare ", NULL},
    [SYS_chroot] = {"chroot", {P}, " chroot ", NULL},
    [SYS_pivot_root] = {"pivot_root", {P, P}, " pivot_root ", NULL},
    [SYS_init_module] = {"init_module", {S}, " init_module ", NULL},
    [SYS_prctl] = {"prctl", {N, N}, " prctl ", NULL},
};

const sensitive_call_t *sensitive_call(uint64_t number) {
  const sensitive_call_t *call = number < SENSITIVE_NUMBERS ? &calls[number] : NULL;
  return call && call->name ? call : NULL;
}

bool sensitive_is_of_path(uint64_t number, const uint64_t arguments[6]) {
#ifdef SYS_newfstatat
  if (number == SYS_newfstatat) return !(arguments[3] & AT_EMPTY_PATH);
#endif
  return number != SYS_statx || !(arguments[2] & AT_EMPTY_PATH);
}

static bool lists(const char *names, const char *name) {
  char word[64];
  int n = snprintf(word, sizeof word, " %s ", name);
  return names && n < (int)sizeof word && strstr(names, word);
}

bool sensitive_means(const sensitive_call_t *call, const char *name) {
  return lists(call->functions, name);
}

bool sensitive_belongs(const sensitive_call_t *call, const char *name) {
  if (call) return lists(call->functions, name) || lists(call->others, name);
  for (uint64_t i = 0; i < SENSITIVE_NUMBERS; i++)
    if (sensitive_call(i) && sensitive_belongs(&calls[i], name)) return true;
  return false;
}

bool sensitive_leads_to(const sensitive_call_t *call, const char *name) {
  if (lists(" getenv secure_getenv ", name)) return false; /* they make no system call */
  return sensitive_belongs(call, name) || !sensitive_belongs(NULL, name);
}

void sensitive_of_policy(const audit_policy_t *policy, bool wanted[SENSITIVE_NUMBERS]) {
  memset(wanted, 0, SENSITIVE_NUMBERS * sizeof *wanted);
  for (uint64_t i = 0; i < SENSITIVE_NUMBERS; i++)
    for (uint32_t k = 0; sensitive_call(i) && k < policy->function_count; k++)
      wanted[i] |=
          sensitive_belongs(&calls[i], audit_string(policy, audit_functions(policy)[k].name));
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* Whether FUNCTION records a text, a path or an address as it is. */
static bool keeps(const audit_function_t *function) {
  for (int i = 0; i < AUDIT_ARGUMENTS; i++) {
    uint8_t kind = function->arguments[i];
    if (audit_is_text(kind) || kind == AUDIT_ADDRESS || kind == AUDIT_STRINGS) return true;
  }
  return false;
}

/* The functions that make CALL for another purpose count if the policy has no wrapper of it. */
uint8_t sensitive_withheld(const sensitive_call_t *call, const audit_policy_t *policy) {
  bool has_wrapper = false, is_withheld = false, is_withheld_by_others = false;
  for (uint32_t i = 0; i < policy->function_count; i++) {
    const audit_function_t *function = &audit_functions(policy)[i];
    const char *name = audit_string(policy, function->name);
    bool is_wrapper = sensitive_means(call, name), is_kept = keeps(function);
    has_wrapper |= is_wrapper;
    is_withheld |= is_wrapper && !is_kept;
    is_withheld_by_others |= !is_wrapper && !is_kept && sensitive_belongs(call, name);
  }
  if (!(has_wrapper ? is_withheld : is_withheld_by_others)) return 0;
  uint8_t withheld = 0;
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    if (call->arguments[i] == AUDIT_PATH || call->arguments[i] == AUDIT_ADDRESS)
      withheld |= (uint8_t)(1u << i);
  return withheld;
}

void sensitive_kinds(const sensitive_call_t *call, uint8_t withheld,
                     uint8_t kinds[AUDIT_ARGUMENTS]) {
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    kinds[i] = withheld >> i & 1 ? AUDIT_SKIP : call->arguments[i];
}

/* Reads at most SIZE bytes at ADDRESS, up to the first unreadable page. */
static uint32_t read_some(memory_t *memory, uint64_t address, uint8_t *out, uint32_t size) {
  uint32_t done = 0;
  while (done < size) {
    uint32_t piece = 4096 - (uint32_t)((address + done) % 4096);
    if (piece > size - done) piece = size - done;
    if (!memory->read(memory, address + done, out + done, piece)) break;
    done += piece;
  }
  return done;
}

static uint8_t *put_string(uint8_t *q, const uint8_t *text, uint32_t size) {
  q += varint_put(q, size);
  memcpy(q, text, size);
  return q + size;
}

static uint8_t *put_argument(uint8_t *q, memory_t *memory, uint8_t kind, uint64_t value,
                             uint64_t next) {
  uint8_t text[AUDIT_TEXT_MAX];
  uint32_t size = AUDIT_TEXT_MAX;
  switch (kind) {
  case AUDIT_NUMBER: return q + varint_put(q, zigzag((int32_t)value));
  case AUDIT_FLAGS: return q + varint_put(q, (uint32_t)value);
  case AUDIT_ADDRESS:
    size = (uint32_t)next < 110 ? (uint32_t)next : 110; /* struct sockaddr_un, the largest */
    return put_string(q, text, value ? read_some(memory, value, text, size) : 0);
  case AUDIT_PATH:
    size = value ? read_some(memory, value, text, size) : 0;
    return put_string(q, text, (uint32_t)strnlen((const char *)text, size));
  default: return q;
  }
}

uint32_t sensitive_arguments(const uint8_t kinds[AUDIT_ARGUMENTS], memory_t *memory,
                             const uint64_t arguments[6], uint8_t *out) {
  uint8_t *q = out;
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    q = put_argument(q, memory, kinds[i], arguments[i],
                     i + 1 < AUDIT_ARGUMENTS ? arguments[i + 1] : 0);
  return (uint32_t)(q - out);
}
