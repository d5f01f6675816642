/* SPDX-License-Identifier: MIT
 *
 * The interpreter of a target, and the functions that it runs: they are merged into the native
 * stacks of its threads.
 *
 * Each interpreter has a folder, with a file that fills an interpreter_kind_t: it recognizes the
 * interpreter's image, lists its threads, reads the frames of one thread, and names a frame.
 * docs/interpreters.md explains how to add one.
 *
 * Reading and placing are two steps, because a running thread is stopped only while its memory is
 * read. Reading copies the chain of frames, and the names of functions that are new. Placing
 * (place.h) puts the frames of each call of the evaluator before the native frame of that call, and
 * folds that native frame and the interpreter's frames outside of it.
 *
 * One thread uses an interpreter_t at a time.
 */
#ifndef SONDE_TARGET_INTERPRETER_INTERPRETER_H
#define SONDE_TARGET_INTERPRETER_INTERPRETER_H

#include "base/language.h"
#include "target/interpreter/place.h"

typedef struct interpreter interpreter_t;

/* The strings are valid until the target is closed. */
typedef struct interpreter_name {
  const char *function, *file;
  /* 0: none */
  uint32_t line;
} interpreter_name_t;

typedef struct interpreter_kind {
  language_t language;
  /* its calls of the evaluator are complete: each has a native frame, and each native frame of the
   * evaluator a call */
  bool counts_exactly;
  /* a part of the name of every file that is a library with this interpreter */
  const char *file;
  /* bytes of its own interpreter_t, which begins with the common one */
  size_t size;
  /* Whether `module` of SELF has this interpreter. Sets the version, the problem or the evaluator.
   */
  bool (*find)(interpreter_t *self);
  /* Frees what the other functions allocated. */
  void (*close)(interpreter_t *self);
  /* Lists the threads that the interpreter knows. */
  void (*list_threads)(interpreter_t *self);
  /* Adds the frames of thread TID to `read`, until it has DEPTH. */
  void (*read)(interpreter_t *self, pid_t tid, uint32_t depth);
  /* Names a frame that was read. False: it was not. */
  bool (*name)(const interpreter_t *self, uint64_t pc, interpreter_name_t *out);
} interpreter_kind_t;

extern const interpreter_kind_t python_kind, ruby_kind, php_kind, lua_kind, perl_kind;

struct interpreter {
  /* must be first; reads past the window of the walk */
  memory_t memory;
  const interpreter_kind_t *kind;
  target_t *target;
  /* its image */
  const module_t *module;
  /* "3.11"; empty: unknown */
  char version[16];
  /* why its frames cannot be read, static text; NULL: they can */
  const char *problem;
  /* the function that executes bytecode: run-time address, and size without the parts that the
   * compiler moved elsewhere */
  uint64_t evaluator, evaluator_bytes;
  /* a part that the compiler moved (interpreter/evaluator.h); 0 bytes: none is known */
  uint64_t moved, moved_bytes;
  /* of a kind that counts exactly: the function that leaves several of its frames for an exception;
   * 0 bytes: none is known */
  uint64_t unwinder, unwinder_bytes;
  /* the stack pointer of the thread that is read */
  uint64_t sp;
  /* what `read` added for the thread that was read last */
  interpreter_frames_t frames;
};

/* Finds the interpreter of TARGET. NULL: it has none, or memory runs out. */
interpreter_t *interpreter_open(target_t *target);
void interpreter_close(interpreter_t *self);

/* The number that thread TID has in its own namespace. */
pid_t interpreter_inner_tid(const interpreter_t *self, pid_t tid);

/* Reads the frames of thread TID, whose stack pointer is SP, at most DEPTH. */
void interpreter_read(interpreter_t *self, pid_t tid, uint64_t sp, uint32_t depth);

#endif
