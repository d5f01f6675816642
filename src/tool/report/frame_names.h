/* SPDX-License-Identifier: MIT
 *
 * Symbolizes the frames of a recording: function, file, line, library. Each frame is looked up
 * once.
 */
#ifndef SONDE_REPORT_FRAME_NAMES_H
#define SONDE_REPORT_FRAME_NAMES_H

#include "reader/reader.h"
#include "symbol/symbol.h"
#include "symbol/system.h"

typedef struct frame_name {
  const char *function; /* never NULL: library+0xoffset if unknown, or a text for a missing part */
  const char *file;     /* NULL: unknown */
  uint32_t line;        /* 0: unknown */
  const char *path;     /* of the image; "": none */
  const char *library;  /* file name of the image; "": none */
  bool known;           /* the function has a name */
  bool stripped;        /* it has none because its image is stripped */
  bool is_text;         /* the name is any text, such as that of a scope: it is not shortened */
  bool inlined;         /* into the next one */
  bool system;          /* in a system image: libc and its family */
  bool python;          /* a Python function */
  bool own;             /* of the program itself, not of a library, a template or a runtime */
} frame_name_t;

typedef struct frame_names frame_names_t;

/* How frames are named and selected; all zeros are the defaults. */
typedef struct frame_names_options {
  const char *const *debug_dirs, *const *sysroots; /* as in symbol_options_t */
  const system_rules_t *system;                    /* the user's rules; NULL: none */
  bool app_only;                                   /* stacks without frames of system images */
  symbolizer_t *symbolizer; /* that several use one after the other; NULL: one of its own */
} frame_names_options_t;

/* The symbolizer that names with OPTIONS would use, which symbolizer_free frees; what OPTIONS
 * refers to must outlive it. NULL: out of memory. */
symbolizer_t *frame_names_symbolizer(const frame_names_options_t *options);

/* NULL: out of memory. The reader and what OPTIONS refers to must outlive it; OPTIONS may be NULL.
 */
frame_names_t *frame_names_new(const reader_t *reader, const frame_names_options_t *options);
void frame_names_free(frame_names_t *names);

/* The functions at FRAME, innermost first; at least one. Returns the count; *OUT is valid until
 * NAMES is freed. */
int frame_names_of_frame(frame_names_t *names, const record_frame_t *frame,
                         const frame_name_t **out);

/* Whether FRAME was looked up. */
bool frame_names_has(const frame_names_t *names, const record_frame_t *frame);

/* Writes the name to OUT, of SIZE bytes: unless FULL in its short form (symbol/short_name.h), in at
 * most WIDTH columns. Returns OUT. */
char *frame_name_text(const frame_name_t *name, bool full, unsigned width, char *out, size_t size);

/* Which function NAME is: functions of one name in different libraries, or in different files where
 * there is no library (Python), differ. Compare: as strcmp. */
uint64_t frame_name_hash(const frame_name_t *name);
const char *frame_name_home(const frame_name_t *name); /* the library, or the file; "": neither */
int frame_name_compare(const frame_name_t *a, const frame_name_t *b);

/* The functions of FRAME, in the form of a recording, if they have names; valid until the next
 * call. Returns the count. For pack_names_t: NAMES is a frame_names_t. */
int frame_names_stored(void *names, const record_frame_t *frame, const record_function_t **out);

/* The frames of stack ID as reports show them: reader_program_stack, without the frames of system
 * images if only those of the app are wanted. A stack of system frames alone keeps its innermost
 * frame, so that its weight is not lost. */
int frame_names_frames(frame_names_t *names, uint32_t stack, const record_frame_t **frames,
                       int max);

/* The functions of stack ID, innermost first, with inlined functions as frames of their own.
 * Returns the count, which may exceed MAX; -1: the stack is not in the recording. */
int frame_names_of_stack(frame_names_t *names, uint32_t stack, const frame_name_t **out, int max);

/* The function that owns a stack: the innermost of the program's own functions, else the innermost
 * outside the system images, else the innermost of an interpreter's language, else the innermost
 * that is no wrapper of the allocator, else the innermost. NULL: the stack is not in the recording.
 */
const frame_name_t *frame_names_owner(frame_names_t *names, uint32_t stack);

/* Writes the name of the variable at ADDRESS of the process to OUT (symbol_variable). False: it is
 * in no image, or has no name. */
bool frame_names_variable(frame_names_t *names, uint64_t address, char *out, size_t size);

/* The file with the debug information of the image PATH; NULL: there is none, or it is of another
 * build. Valid as long as NAMES. */
const char *frame_names_debug_path(frame_names_t *names, const char *path);

/* The images whose functions have no names because their file is missing, another build or damaged,
 * among the frames looked up so far: the next one, and why. *PLACE is 0 at first. NULL after the
 * last. */
const record_image_t *frame_names_unnamed(const frame_names_t *names, size_t *place,
                                          const char **reason);

/* The build-id of IMAGE in hexadecimal in OUT; "" if it has none. Returns OUT. */
enum { FRAME_NAMES_ID_MAX = 132 };
char *frame_names_build_id(const record_image_t *image, char out[FRAME_NAMES_ID_MAX]);

/* True for a pseudo-frame that marks the end of a broken or truncated stack. */
bool frame_names_is_marker(const record_frame_t *frame);

#endif
