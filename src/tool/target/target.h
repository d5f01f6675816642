/* SPDX-License-Identifier: MIT
 *
 * A program seen from outside: a live process or a core file. Its memory map, its loaded images,
 * its memory, its threads with their registers, states and stacks.
 *
 * The order of work: open (target_open_process or target_open_core), capture (stacks_capture),
 * then read the threads. The target is used by one thread of ours at a time.
 */
#ifndef SONDE_TARGET_TARGET_H
#define SONDE_TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/image.h"
#include "target/maps.h"
#include "unwind/cfi_step.h"
#include "unwind/machine.h"
#include "unwind/memory.h"

/* ---- images ------------------------------------------------------------------------------- */

#define MODULE_NONE UINT32_MAX

typedef enum module_state { MODULE_UNREAD, MODULE_READY, MODULE_FAILED } module_state_t;

/* One loaded image: neighbouring mappings of one file. Its file is opened when the first pc falls
 * into it: a process may have thousands that no stack touches. */
typedef struct module {
  uint64_t start, end;
  const char *path; /* as the target sees it; "[vdso]" for the kernel's */
  char *open_path;  /* where we can open its bytes; NULL until it is ready. Owned */
  int memfd;        /* holds bytes taken from the target's memory, -1 when there are none */
  size_t first_mapping, mapping_count;
  module_state_t state;
  const char *problem; /* in words, why it failed, or what is doubtful of it; NULL when nothing */
  image_t image;       /* when ready; start, end and slide are the target's */
  bool is_unpacked;    /* unpack.h has looked at it */
  void *unpacked;      /* its .debug_frame, where that is compressed in the file. Owned */
} module_t;

typedef struct modules {
  module_t *items;
  size_t count;
} modules_t;

/* ---- threads ------------------------------------------------------------------------------ */

typedef struct frame {
  uint64_t pc;
  bool exact;     /* the pc itself: innermost, or interrupted by a signal; else a return address */
  bool guessed;   /* found by frame pointer or by scan, where no rule covers the code inside it */
  bool tail_call; /* not on the stack: it ended in a jump to the function inside it */
} frame_t;

/* How a stack ends; the same words as sonde_stack_status_t. */
typedef enum ending {
  ENDING_COMPLETE, /* the thread's entry was reached by rules */
  ENDING_CUT,      /* as many frames as were asked for */
  ENDING_TORN,     /* the walk ended early: `reason` says why */
  ENDING_NONE,     /* no frames: `reason` says why */
} ending_t;

typedef struct thread_wait {
  const char *syscall; /* static name, NULL when the thread is in none */
  long number;         /* of the system call; -1 when in none */
  uint64_t args[6];
  int fd;           /* that it waits on, -1 when it waits on none */
  char *path;       /* what the descriptor is; owned, may be NULL */
  bool is_mutex;    /* waits for a pthread mutex… */
  pid_t owner;      /* …held by this thread; 0 when that is not known */
  uint64_t address; /* of the futex, 0 when it waits for none */
} wait_t;

typedef struct thread {
  pid_t tid;
  int signal; /* core files: that it was ended by, 0 for the other threads */
  bool gone;  /* ended while the threads were read, or was not asked for; dropped at the end */
  char name[32];
  char state; /* as in proc_pid_stat(5): R S D T t Z X I; 0 when it is not known */
  wait_t wait;
  regs_t regs; /* where the walk began */
  frame_t *frames;
  uint32_t frame_count;
  ending_t ending;
  const char *reason;  /* static words, NULL when there is nothing to explain */
  bool proven;         /* the frame register was recovered by proof, not read */
  uint64_t switches;   /* of a thread in a deadlock: how often it had been put on a CPU */
  uint64_t stopped_ns; /* how long we held it stopped; 0 when never */
  uint32_t deadlock;   /* number of the cycle of owners it is part of, from 1; 0 when in none */
} thread_t;

/* ---- the whole ---------------------------------------------------------------------------- */

typedef struct target target_t;
struct target {
  images_t images;  /* first, so that images_t * is target_t * */
  memory_t *memory; /* the target's memory */
  machine_t machine;
  pid_t pid;    /* 0 when a core file does not say */
  pid_t reader; /* a living thread, under whose number /proc tells of the memory */
  bool live;
  char *exe; /* its main executable, as it sees it; owned */
  maps_t maps;
  modules_t modules;
  thread_t *threads;
  size_t thread_count;
  size_t last_mapping;  /* where the last look-up hit; they come in runs */
  uint64_t elapsed_ns;  /* from the first to the last thread read */
  bool incomplete_core; /* a core file that ends early */
  void *own;            /* of process.c or core.c */
  void (*close)(target_t *target);
  /* Finds the bytes behind MODULE: sets open_path or problem. */
  void (*locate)(target_t *target, module_t *module);
  /* Is the file that was opened for MODULE the one that was loaded? NULL: it always is. */
  bool (*same_build)(target_t *target, const module_t *module);
};

/* How far to go for registers that are wanting. */
typedef enum touch {
  TOUCH_ANY,    /* threads are stopped where they have to be */
  TOUCH_UNSEEN, /* only one whose system call goes on after it by itself: it notices nothing */
  TOUCH_NONE,   /* neither stop nor signal */
} touch_t;

typedef struct stacks_options {
  uint32_t depth; /* at most this many frames a thread */
  touch_t touch;
  pid_t tid;                                /* this thread alone; 0: all */
  bool (*wanted)(void *context, pid_t tid); /* these alone; NULL: all */
  void *context;
} stacks_options_t;

#define STACKS_DEPTH_DEFAULT 4096u

/* A failure in words for the user, with what mends it. */
typedef struct problem {
  char text[512];
} problem_t;

/* Opens the running process PID. Returns NULL and fills PROBLEM when it cannot. */
target_t *target_open_process(pid_t pid, problem_t *problem);

/* Opens the core file PATH; EXE, when not NULL, is its main executable. */
target_t *target_open_core(const char *path, const char *exe, problem_t *problem);

void target_close(target_t *target);

void target_forget_threads(target_t *target);

/* An empty target, for the two functions above. */
target_t *target_new(void);

/* The module that holds ADDRESS, its image ready when its state says so. NULL when there is none.
 */
module_t *target_module(target_t *target, uint64_t address);

/* Reads every thread and its stack. False when there is nothing to show: PROBLEM says why. */
bool stacks_capture(target_t *target, const stacks_options_t *options, problem_t *problem);

void problem_set(problem_t *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
