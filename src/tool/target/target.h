/* SPDX-License-Identifier: MIT
 *
 * Another process or a core file: its memory map, loaded images and memory, and its threads with
 * their registers, states and stacks.
 *
 * Open a target (target_open_process or target_open_core), capture (stacks_capture), then read its
 * threads. One thread uses a target at a time.
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

/* A loaded image: adjacent mappings of one file. Its file is opened when a pc is first found in it,
 * because a process may have thousands of images without a frame in them. */
typedef struct module {
  uint64_t start, end;
  /* in the target's mount namespace; "[vdso]" for the vDSO */
  const char *path;
  /* where this process can open it; NULL until it is ready; owned */
  char *open_path;
  /* a copy made from the target's memory; -1: none */
  int memfd;
  size_t first_mapping, mapping_count;
  module_state_t state;
  /* why opening failed, or why the image is doubtful; NULL: no problem */
  const char *problem;
  /* if ready; start, end and slide are the target's */
  image_t image;
  /* module_unpack was called */
  bool is_unpacked;
  /* its decompressed .debug_frame; owned */
  void *unpacked;
} module_t;

typedef struct modules {
  module_t *items;
  size_t count;
} modules_t;

/* ---- threads ------------------------------------------------------------------------------ */

typedef struct frame {
  /* of a frame of an interpreter: as base/language.h says */
  uint64_t pc;
  /* the stack pointer in this frame; of a frame of an interpreter, that of the native frame that
   * runs it */
  uint64_t sp;
  /* the pc is exact (innermost, or interrupted by a signal); else a return address */
  bool exact;
  /* found by frame pointer or scan, because no unwind rule covers the inner frame */
  bool guessed;
  /* not on the stack: it ended in a jump to the inner frame's function */
  bool tail_call;
  /* not on the stack: a Swift async function that continues after the inner one */
  bool async;
  /* of an interpreter, outside of a frame that it runs: reports omit it by default */
  bool folded;
} frame_t;

/* How a stack ends. The first three have the meaning of sonde_stack_status_t. */
typedef enum ending {
  /* the walk reached the thread's entry */
  ENDING_COMPLETE,
  /* the depth limit was reached */
  ENDING_TRUNCATED,
  /* the walk ended early: see `reason` */
  ENDING_BROKEN,
  /* no frames: see `reason` */
  ENDING_NONE,
} ending_t;

typedef struct thread_wait {
  /* static name; NULL: none */
  const char *syscall;
  /* of the system call; -1: none */
  long number;
  uint64_t args[6];
  /* that it waits on; -1: none */
  int fd;
  /* the file or socket of `fd`; owned, may be NULL */
  char *path;
  /* whether it waits for a lock, such as a pthread mutex, and its owner; 0: unknown */
  bool is_mutex;
  pid_t owner;
  /* of the futex, or of the rwlock or the GIL; 0: none */
  uint64_t address;
  /* the lock is one of Python's module threading */
  bool is_python;
  /* the lock is Python's GIL, and how often it changed its thread */
  bool is_gil;
  uint64_t gil_switches;
} wait_t;

typedef struct thread {
  pid_t tid;
  /* of a core file: the signal that ended the program; 0 for other threads */
  int signal;
  /* it ended meanwhile, or was not requested; removed at the end */
  bool gone;
  char name[32];
  /* a letter of proc_pid_stat(5): R S D T t Z X I; 0: unknown */
  char state;
  wait_t wait;
  /* of the innermost frame */
  regs_t regs;
  frame_t *frames;
  uint32_t frame_count;
  ending_t ending;
  /* static text; NULL: none */
  const char *reason;
  /* the frame register was inferred, not read */
  bool proven;
  /* why frames of the interpreter are missing, static text; NULL: none are */
  const char *frames_problem;
  /* it holds Python's global lock */
  bool holds_gil;
  /* of a thread in a deadlock: how often it got a CPU */
  uint64_t switches;
  /* how long it was stopped; 0: never */
  uint64_t stopped_ns;
  /* number of its cycle of lock owners, from 1; 0: none */
  uint32_t deadlock;
} thread_t;

/* ---- the whole ---------------------------------------------------------------------------- */

typedef struct target target_t;
struct target {
  /* must be first: an images_t * is converted to a target_t * */
  images_t images;
  /* the target's memory */
  memory_t *memory;
  machine_t machine;
  /* 0: a core file does not have it */
  pid_t pid;
  /* a running thread whose /proc files describe the memory */
  pid_t reader;
  bool live;
  /* its main executable, in its mount namespace; owned */
  char *exe;
  maps_t maps;
  modules_t modules;
  thread_t *threads;
  size_t thread_count;
  /* stacks continue with the callers of an async function, as SONDE_ASYNC_FOLLOW; set it before the
   * first capture */
  bool follows_async;
  /* where functions return to that an agent's trampolines called, and the address of its
   * call_stack_states (hook/call_stack.h); 0: there is no agent. May be set before any capture. */
  uint64_t trampoline_pc, call_states;
  /* found by the first capture that merges its frames; NULL: none */
  struct interpreter *interpreter;
  bool interpreter_tried;
  /* code that the program registered with debuggers, read when a stack has code outside of all
   * images; NULL: none */
  struct jit_images *generated;
  bool generated_tried;
  /* where the last search ended: searches are close together */
  size_t last_mapping;
  /* from reading the first thread to the last */
  uint64_t elapsed_ns;
  /* the core file is truncated */
  bool incomplete_core;
  /* of a core file: si_code of the signal that ended the program, and the address of a fault */
  int signal_code;
  bool has_fault_address;
  uint64_t fault_address;
  /* data of process.c or core.c */
  void *own;
  void (*close)(target_t *target);
  /* Finds the file of MODULE: sets open_path or problem. */
  void (*locate)(target_t *target, module_t *module);
  /* Whether the opened file of MODULE is the loaded one. NULL: always. */
  bool (*same_build)(target_t *target, const module_t *module);
};

/* How far a capture may disturb threads to get their registers. */
typedef enum touch {
  /* stop threads if needed */
  TOUCH_ANY,
  /* stop only threads whose system call the kernel restarts transparently */
  TOUCH_UNSEEN,
  /* neither stop nor signal */
  TOUCH_NONE,
} touch_t;

typedef struct stacks_options {
  /* at most so many frames per thread */
  uint32_t depth;
  touch_t touch;
  /* only this thread; 0: all */
  pid_t tid;
  /* only the threads for which this returns true; NULL: all */
  bool (*wanted)(void *context, pid_t tid);
  void *context;
  /* merge frames of an interpreter into the stacks (target/interpreter/interpreter.h) */
  bool interpreted;
} stacks_options_t;

#define STACKS_DEPTH_DEFAULT 4096u

/* The text of a failure for the user, with the command that fixes it. */
typedef struct problem {
  char text[512];
} problem_t;

/* Opens the running process PID. NULL with PROBLEM on failure. */
target_t *target_open_process(pid_t pid, problem_t *problem);

/* Opens the core file PATH. EXE is its main executable; NULL: unknown. Files of its images are
 * taken from below SYSROOTS first, if they are of the same build: folders up to a NULL, which must
 * stay valid; NULL: none. */
target_t *target_open_core(const char *path, const char *exe, const char *const *sysroots,
                           problem_t *problem);

void target_close(target_t *target);

void target_forget_threads(target_t *target);

/* Allocates an empty target for the two functions above. */
target_t *target_new(void);

/* The module that contains ADDRESS, or NULL. Its image is usable if its state is MODULE_READY. */
module_t *target_module(target_t *target, uint64_t address);

/* Reads all threads and their stacks. False with PROBLEM if no thread can be read. */
bool stacks_capture(target_t *target, const stacks_options_t *options, problem_t *problem);

/* Whether TARGET has an interpreter whose frames can be read. */
bool stacks_has_interpreter(target_t *target);

/* Registers of a thread, and a copy of SIZE bytes of its stack from the stack pointer up. */
typedef struct stack_copy {
  regs_t regs;
  const void *stack;
  size_t size;
} stack_copy_t;

/* Walks the stack of COPY, which a thread of the live TARGET had; sets the frames of OUT, which the
 * caller frees. The thread may have changed its stack since, so a stack that is larger than its
 * copy is broken where the copy ends. */
void stacks_of_copy(target_t *target, const stack_copy_t *copy, uint32_t depth, thread_t *out);

void problem_set(problem_t *problem, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
