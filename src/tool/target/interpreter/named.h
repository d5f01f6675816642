/* SPDX-License-Identifier: MIT
 *
 * Numbers of frames, and the names that they had when they were first seen. The pc of a frame is
 * the tag of its language and its number.
 *
 * A function that is written in C has no file and line of its own. It gets those of the code that
 * called it, which is met after it: its frame waits until then.
 */
#ifndef SONDE_TARGET_INTERPRETER_NAMED_H
#define SONDE_TARGET_INTERPRETER_NAMED_H

#include "base/array.h"
#include "base/hash.h"
#include "target/interpreter/interpreter.h"

typedef struct named_frame {
  /* what tells it from other frames; of the interpreter's own choice */
  uint64_t key[4];
  /* owned; NULL: unreadable */
  char *function, *file;
  uint32_t line;
} named_frame_t;

typedef struct named_frames {
  ARRAY(named_frame_t) items;
  hash_index_t index;
  /* the last frames that were added, so many, wait for the code that called them */
  size_t waiting;
} named_frames_t;

/* In place of a number: memory ran out, or no code called. */
#define NAMED_NONE UINT64_MAX

/* The number of the frame with KEY; IS_NEW: the caller names it. */
uint64_t named_number(named_frames_t *named, const uint64_t key[4], bool *is_new);

/* The function with the number NUMBER, until another one is added. */
named_frame_t *named_at(const named_frames_t *named, uint64_t number);

/* Adds frame NUMBER, which is not written in C, to the frames that SELF read last. */
bool named_add(interpreter_t *self, uint64_t number);

/* Adds the frame of a function in C that FUNCTION stands for, and makes it wait. */
bool named_add_waiting(interpreter_t *self, named_frames_t *named, uint64_t function);

/* Numbers the frames that wait by number_of, with CALLER, the number of the code that called them.
 * False: memory ran out. */
bool named_resolve(interpreter_t *self, named_frames_t *named, uint64_t caller,
                   uint64_t (*number_of)(interpreter_t *self, uint64_t function, uint64_t caller));

/* Gives frame NUMBER the file and line of frame CALLER. */
void named_take_place(named_frames_t *named, uint64_t number, uint64_t caller);

/* Names a frame, as interpreter_kind_t says. */
bool named_name(const named_frames_t *named, uint64_t pc, interpreter_name_t *out);

void named_free(named_frames_t *named);

#endif
