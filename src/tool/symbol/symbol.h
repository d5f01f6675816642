/* SPDX-License-Identifier: MIT
 *
 * Symbolizes addresses: a module and an address as linked give the function, file, line, and the
 * functions inlined there.
 *
 * A symbolizer keeps its modules open. It looks addresses up in the module's index (index/index.h)
 * if the user's cache has one, else in the module's files: symbol tables through libelf (for Mach-O
 * through image/), lines and inlined functions through libdw. Unknown facts are omitted, with a
 * reason; nothing is guessed.
 *
 * One thread at a time uses a symbolizer and its modules. Symbolizers are independent of each
 * other, also in processes that share the cache folder.
 */
#ifndef SONDE_SYMBOL_SYMBOL_H
#define SONDE_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/machine.h"

/* Why an address has no function name. X(name, text); the text completes "… has no name: TEXT". */
#define SYMBOL_REASON_TABLE(X)                                                                     \
  X(SYMBOL_NAMED, "it has one")                                                                    \
  X(SYMBOL_STRIPPED, "the image is stripped and no debug file was found")                          \
  X(SYMBOL_NOT_COVERED, "no symbol covers it")                                                     \
  X(SYMBOL_NOT_CODE, "it is not in the image's code")                                              \
  X(SYMBOL_NO_FILE, "the image's file cannot be read and no debug file was found")                 \
  X(SYMBOL_REPLACED, "the image's file is another build than the one that was loaded")             \
  X(SYMBOL_BAD_FILE, "the image's file is neither ELF nor Mach-O, or is damaged")                  \
  X(SYMBOL_TRUNCATED, "the image's file is truncated or damaged; copy it again")

typedef enum symbol_reason {
#define SYMBOL_REASON_ENUM(name, text) name,
  SYMBOL_REASON_TABLE(SYMBOL_REASON_ENUM)
#undef SYMBOL_REASON_ENUM
} symbol_reason_t;

const char *symbol_reason_text(symbol_reason_t reason);

/* One frame of a result. The strings are valid as long as the symbolizer. */
typedef struct symbol_frame {
  /* Demangled. NULL when only the line is known. */
  const char *function;

  /* The linker's name, with options.raw. A function without a linker's name has its qualified name.
   */
  const char *raw;

  const char *file; /* NULL: unknown */
  uint32_t line;    /* 0: unknown, or code that the compiler generated */
  uint32_t column;  /* 0: unknown */
  bool inlined;     /* this function was inlined into that of the next frame */
  bool has_offset;  /* function_offset is known; never for an inlined frame */
  uint64_t function_offset;
} symbol_frame_t;

/* Deeper inlining at one address is truncated; the outermost frame is kept. */
#define SYMBOL_FRAMES_MAX 64

typedef struct symbolizer symbolizer_t;
typedef struct symbol_module symbol_module_t;

/* Called while an index is built, on the caller's thread: DONE of TOTAL steps of MODULE. */
typedef void symbol_progress_fn(const char *module, size_t done, size_t total);

typedef struct symbol_options {
  /* Searched before /usr/lib/debug. Ends with NULL; may be NULL. */
  const char *const *debug_dirs;

  /* Copies of another machine's root folder, where images are searched first; as debug_dirs. An
   * image without a build-id is not searched there. */
  const char *const *sysroots;

  bool no_lines;                /* only names: debug information is not read */
  bool no_inlines;              /* only the outermost function of an address */
  bool raw;                     /* set `raw` of frames; without this option it may be NULL */
  bool no_index;                /* neither read nor write the cache folder */
  symbol_progress_fn *progress; /* may be NULL */
} symbol_options_t;

/* A module. Unknown fields are zero; a path, a build-id or bytes must be given. */
typedef struct symbol_source {
  const char *path;      /* its name; also the path to open when open_path is NULL */
  const char *open_path; /* the path to open, for example below /proc/PID/root */

  /* Of the loaded image. Files of another build are rejected. */
  const uint8_t *build_id;
  size_t build_id_size;

  /* Which image of a fat file to use when there is no build-id. */
  image_machine_t machine;
  bool is_arm64e; /* the machine's second variant on Apple's systems */

  /* An image without a file (the vDSO). The caller keeps the bytes. */
  const uint8_t *bytes;
  size_t size;
} symbol_source_t;

/* Copies OPTIONS, but not the objects that they point to. NULL when memory runs out. */
symbolizer_t *symbolizer_new(const symbol_options_t *options);
void symbolizer_free(symbolizer_t *symbolizer);

/* The module of SOURCE; equal sources have one module. Opens nothing yet. NULL when memory runs
 * out. */
symbol_module_t *symbolizer_module(symbolizer_t *symbolizer, const symbol_source_t *source);

/* Symbolizes ADDRESS, an address as linked (run-time address minus slide). For a return address
 * pass the address minus 1, which lies in the call instruction. Writes at most MAX frames,
 * innermost first, and returns their number; 0 when nothing is known. Sets *REASON to SYMBOL_NAMED,
 * or to the reason why the last frame has no function. */
int symbol_lookup(symbol_module_t *module, uint64_t address, symbol_frame_t *frames, int max,
                  symbol_reason_t *reason);

/* Writes the name of the variable at ADDRESS, an address as linked, to OUT: "queue",
 * "queue.lock", or, without debug information, "queue+0x28". False when no symbol has that
 * address. */
bool symbol_variable(symbol_module_t *module, uint64_t address, char *out, size_t size);

/* Announces COUNT look-ups in MODULE, which may be worth building an index. Returns whether there
 * is an index; then further announcements have no effect. */
bool symbol_expect(symbol_module_t *module, size_t count);

/* Sets *BASE to the address of MODULE's first segment as linked. Slide = load address - *BASE.
 * False when the file cannot be read. */
bool symbol_link_base(symbol_module_t *module, uint64_t *base);

/* The path of the file with MODULE's debug information, or NULL. For reports. */
const char *symbol_debug_path(symbol_module_t *module);

#endif
