/* SPDX-License-Identifier: MIT
 *
 * Symbolizes the frames of a recording: function, file, line, library. Each frame is looked up
 * once.
 */
#ifndef SONDE_REPORT_FRAME_NAMES_H
#define SONDE_REPORT_FRAME_NAMES_H

#include "reader/reader.h"

typedef struct frame_name {
  const char *function; /* never NULL: library+0xoffset if unknown, or a text for a missing part */
  const char *file;     /* NULL: unknown */
  uint32_t line;        /* 0: unknown */
  const char *path;     /* of the image; "": none */
  const char *library;  /* file name of the image; "": none */
  bool known;           /* the function has a name */
  bool inlined;         /* into the next one */
  bool system;          /* in a system image: libc and its family */
  bool own;             /* of the program itself, not of a library, a template or a runtime */
} frame_name_t;

typedef struct frame_names frame_names_t;

/* NULL: out of memory. The reader must outlive it. */
frame_names_t *frame_names_new(const reader_t *reader);
void frame_names_free(frame_names_t *names);

/* The functions at FRAME, innermost first; at least one. Returns the count; *OUT is valid until
 * NAMES is freed. */
int frame_names_of_frame(frame_names_t *names, const record_frame_t *frame,
                         const frame_name_t **out);

/* The functions of stack ID, innermost first, with inlined functions as frames of their own.
 * Returns the count, which may exceed MAX; -1: the stack is not in the recording. */
int frame_names_of_stack(frame_names_t *names, uint32_t stack, const frame_name_t **out, int max);

/* The function that owns a stack: the innermost of the program's own functions, else the innermost
 * outside the system images, else the innermost. NULL: the stack is not in the recording. */
const frame_name_t *frame_names_owner(frame_names_t *names, uint32_t stack);

/* Writes the name of the variable at ADDRESS of the process to OUT (symbol_variable). False: it is
 * in no image, or has no name. */
bool frame_names_variable(frame_names_t *names, uint64_t address, char *out, size_t size);

/* The images whose functions have no names because their file is missing, another build or damaged,
 * among the frames looked up so far: the path of the next one, and why. *PLACE is 0 at first. NULL
 * after the last. */
const char *frame_names_unnamed(const frame_names_t *names, size_t *place, const char **reason);

/* True for a pseudo-frame that marks the end of a broken or truncated stack. */
bool frame_names_is_marker(const record_frame_t *frame);

#endif
