/* SPDX-License-Identifier: MIT
 *
 * The frames of a recording by name: function, file, line, library; each looked up once.
 */
#ifndef SONDE_REPORT_FRAME_NAMES_H
#define SONDE_REPORT_FRAME_NAMES_H

#include "reader/reader.h"

typedef struct frame_name {
  const char *function; /* never NULL: a marker's text, or library+0xoffset where none is known */
  const char *file;     /* NULL when not known */
  uint32_t line;        /* 0 when not known */
  const char *path;     /* of the image; "" without one */
  const char *library;  /* last part of the image's path; "" without an image */
  bool known;           /* the function was found by name */
  bool inlined;         /* into the next one */
  bool system;          /* in a system image: libc and its family */
} frame_name_t;

typedef struct names frame_names_t;

/* NULL without memory. The reader must outlive it. */
frame_names_t *frame_names_new(const reader_t *reader);
void frame_names_free(frame_names_t *names);

/* The functions at FRAME, innermost first; at least one. Returns how many; *OUT lives as long as
 * NAMES. */
int frame_names_of_frame(frame_names_t *names, const record_frame_t *frame,
                         const frame_name_t **out);

/* The functions of stack ID, innermost first, inlined ones as frames of their own. Returns how many
 * there are, which may be more than MAX; -1 when the stack is not in the recording. */
int frame_names_of_stack(frame_names_t *names, uint32_t stack, const frame_name_t **out, int max);

/* The function that stands for a stack: its innermost one outside the system images, else its
 * innermost one. NULL when the stack is not in the recording. */
const frame_name_t *frame_names_owner(frame_names_t *names, uint32_t stack);

/* True for a frame that marks something (torn, cut) and is no frame. */
bool frame_names_is_marker(const record_frame_t *frame);

#endif
