/* SPDX-License-Identifier: MIT
 *
 * A test bench: runs Mach-O programs, built for macOS, in a Linux process.
 *
 * map.c maps an image and what it depends on, fixups.c fills in its pointers by either encoding,
 * main.c starts it. What images import of libSystem is answered by stand-ins: mach.c (the kernel's
 * calls about tasks, threads and memory), threads.c (pthreads, and how one is stopped), dyld.c,
 * posix.c. Three kinds of functions must be Mach-O code themselves, since stacks lead through them:
 * they are in kernel.S, an image of its own. Numbers of Apple's come from facts.h.
 *
 * The stand-ins are strict: what they do not know ends the process with a line that says so. What
 * they cannot show is in docs/platforms.md. Nothing of sonde is used here but, in compare.c,
 * libsonde for Linux as the other witness.
 */
#ifndef MACHO_LOADER_H
#define MACHO_LOADER_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "facts.h"

#define IMAGES_MAX    32
#define SEGMENTS_MAX  16
#define LIBRARIES_MAX 16

typedef struct mac_segment {
  char name[17];
  uint64_t address, size, offset, file_size; /* as linked */
  uint32_t protection, flags;
} mac_segment_t;

typedef struct mac_image {
  char path[512];
  const uint8_t *file; /* mapped whole, to read from */
  uint64_t file_size;
  uint8_t *header; /* where it is mapped */
  int64_t slide;
  uint64_t start, end; /* run-time */
  mac_segment_t segments[SEGMENTS_MAX];
  int segment_count;
  const char *libraries[LIBRARIES_MAX]; /* by ordinal, from 1 */
  int library_count;
  const uint8_t *trie;
  uint64_t trie_size;
  uint32_t rebase[2], bind[2], lazy[2], chained[2]; /* offset and size in the file */
  uint64_t entry;                                   /* offset of main; 0: none */
  uint8_t *thread_template;                         /* of its thread-local variables */
  uint64_t thread_size, thread_file_size;
  int number;
  bool is_system, is_started, is_gone;
} mac_image_t;

extern mac_image_t images[IMAGES_MAX];
extern int image_count;

/* map.c */
mac_image_t *image_load(const char *path, bool is_system); /* with its fixups, not yet started */
void image_start(mac_image_t *image);                      /* runs its constructors */
void *image_export(const mac_image_t *image, const char *name);
mac_image_t *image_holding(uint64_t address);
void *symbol_for_dlsym(void *handle, const char *name, const mac_image_t *caller);

/* fixups.c */
void image_fix(mac_image_t *image);

/* The address of NAME (with its underscore) for IMAGE, from its library ORDINAL. Ends the process
 * unless it IS_WEAK, then NULL. */
void *resolve(const mac_image_t *image, const char *name, int ordinal, bool is_weak);

/* The stand-ins' list. */
typedef struct stand_in {
  const char *name;
  void *address;
} stand_in_t;

/* gates.c: a stand-in that allocates or takes a lock on macOS is reached by a gate, which ends the
 * process when the caller has suspended a thread: that one may hold the lock. */
void *gate_of(const stand_in_t *stand_in); /* its own address when it needs none */
extern const stand_in_t mach_stand_ins[], thread_stand_ins[], dyld_stand_ins[], posix_stand_ins[],
    libc_stand_ins[], signal_stand_ins[];
void *stand_in(const char *name); /* NULL when there is none */
void list_stand_ins(void);

/* dyld.c */
void dyld_tell_added(const mac_image_t *image);
extern int mac_argc;
extern char **mac_argv, **mac_environ;

/* threads.c: every thread of the program, for as long as it lives. */
typedef struct mac_thread mac_thread_t;
#define DATA_MAX 256
struct mac_thread {
  bool is_used, is_main;
  int tid;
  uint32_t port;
  int rights; /* send rights handed out and not given back */
  char name[64];
  void *(*run)(void *);
  void *argument, *result;
  unsigned long host; /* glibc's pthread_t */
  uint64_t stack, stack_bytes;
  uint32_t suspended; /* the futex word it waits at */
  uint32_t arrived;
  const void *context;  /* where it was stopped: the kernel's ucontext_t */
  uint32_t busy;        /* 1: waits in a system call, as the program sees it */
  uint32_t stops;       /* how often it was suspended */
  uint32_t suspends;    /* how many others are suspended by it now */
  void *data[DATA_MAX]; /* thread-specific, of the keys that the system's libraries share */
};
#define THREADS_MAX 256
extern mac_thread_t threads[THREADS_MAX];
sigset_t threads_lock(void); /* what every look at who is there is under */
void threads_unlock(const sigset_t *before);
mac_thread_t *thread_of_port(uint32_t port);
mac_thread_t *thread_self(void);
void threads_begin(void);               /* by the main thread */
bool thread_stop(mac_thread_t *thread); /* false: it is gone */
void thread_go_on(mac_thread_t *thread);
int threads_rights(void); /* not given back */
void threads_after_fork(void);

/* mach.c: the registers of a ucontext_t of the host as thread_get_state's STATE */
void mac_fill_state(void *state, const void *context);

/* compare.c: THREAD is where CONTEXT, a ucontext_t of the host, says */
void compare_begin(void);
void compare_stopped(const mac_thread_t *thread, const void *context);
void *witness_room(const char *path, uint64_t size);

/* entry.S */
__attribute__((noreturn)) void enter_main(void *start, void *main, int argc, char **argv,
                                          char **envp, void *stack);
__attribute__((noreturn)) void enter_thread(void *start, void *(*run)(void *), void *argument);
void tlv_thunk(void);
#define GATES_MAX 128
extern const char gates[]; /* GATE_BYTES each */
#define GATE_BYTES 16

/* posix.c: what libc.c translates as well */
struct stat;
int mac_open_flags(int flags);
void mac_put_stat(const struct stat *st, uint8_t *out);
#if defined(__aarch64__)
void mac_list(va_list *out, void *stack);
int mac_snprintf(char *out, size_t size, const char *format, void *stack);
#endif

/* PTHREAD_MUTEX_INITIALIZER's signature; the rest of such a mutex is 0, as a new one of glibc's. */
#define MUTEX_SIGNATURE UINT64_C(0x32AAABA7)

/* Errors in the program's numbers. */
int mac_error(int linux_error);

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

#endif
