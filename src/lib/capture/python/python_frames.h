/* SPDX-License-Identifier: MIT
 *
 * The table of Python frames: one id for each function, file and line.
 *
 * The ids follow those of the frame table, so that nodes of the stack table hold either. Entries
 * are never removed, and they keep their texts, which the interpreter may free at any time. An
 * entry has its content in its hash. So it stays right if the interpreter reuses the memory of a
 * code object.
 *
 * The table is mapped by the first call. It is lock-free, async-signal-safe and shared by all
 * threads. An entry is recorded before any thread uses its id: a thread that meets an entry that is
 * not ready records it too.
 */
#ifndef SONDE_CAPTURE_PYTHON_FRAMES_H
#define SONDE_CAPTURE_PYTHON_FRAMES_H

#include "base/bits.h"

/* Frame ids from here on are Python frames; those of the frame table have 24 bits. */
#define PYTHON_FRAME_IDS 0x1000000u

static ALWAYS_INLINE bool python_frame_is(uint32_t id) { return id >= PYTHON_FRAME_IDS; }

typedef struct python_frame {
  uint32_t id, line;
  /* that of a recording: language_recorded_pc */
  uint64_t pc;
  const char *function, *file;
} python_frame_t;

/* Called with a new frame before any capture can return its id, by several threads perhaps. NULL:
 * not called. The function runs wherever a capture runs. */
extern HIDDEN void (*python_frame_on_new)(const python_frame_t *frame);

/* The id of a frame; FRAME_TABLE_FULL if the table is full or memory is exhausted. */
uint32_t python_frame_id(const char *function, const char *file, uint32_t line);

/* Calls VISIT with each frame. */
void python_frames_each(void (*visit)(const python_frame_t *frame));

#endif
