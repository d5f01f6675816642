/* SPDX-License-Identifier: MIT
 *
 * Names from outside: a module and an address as linked become function, file, line and the
 * functions that were inlined there.
 *
 * A symbolizer keeps the modules it has met. A module is answered from its index (index.h) when the
 * user's cache has one, else from its files: symbol tables through libelf (Mach-O's through
 * image/), lines and inlined functions through libdw. What cannot be known is left out, with the
 * reason; nothing is guessed.
 *
 * A symbolizer and its modules belong to one thread at a time. Two symbolizers never disturb each
 * other, also not in two processes that share the cache folder.
 */
#ifndef SONDE_SYMBOL_SYMBOL_H
#define SONDE_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/machine.h"

/* Why an address has no name. X(name, text); the text completes "… has no name: TEXT". */
#define SYMBOL_REASON_TABLE(X)                                                                     \
  X(SYMBOL_NAMED, "it has one")                                                                    \
  X(SYMBOL_STRIPPED, "the image is stripped and no debug file for it was found")                   \
  X(SYMBOL_NOT_COVERED, "no symbol covers it")                                                     \
  X(SYMBOL_NOT_CODE, "it is not in the image's code")                                              \
  X(SYMBOL_NO_FILE, "the image's file cannot be read and no debug file for it was found")          \
  X(SYMBOL_REPLACED, "the image's file is another build than the one that was loaded")             \
  X(SYMBOL_BAD_FILE, "the image's file is neither ELF nor Mach-O, or is damaged")                  \
  X(SYMBOL_TRUNCATED, "the image's file is truncated or damaged; copy it again")

typedef enum symbol_reason {
#define SYMBOL_REASON_ENUM(name, text) name,
  SYMBOL_REASON_TABLE(SYMBOL_REASON_ENUM)
#undef SYMBOL_REASON_ENUM
} symbol_reason_t;

const char *symbol_reason_text(symbol_reason_t reason);

/* One frame of the answer; the strings live as long as the symbolizer. */
typedef struct symbol_frame {
  const char *function; /* demangled; NULL when only the line is known */
  const char *raw;      /* the linker's name, with options.raw; a function without one is known by
                           its qualified name */
  const char *file;     /* NULL when not known */
  uint32_t line;        /* 0 when not known, as in code the compiler made up */
  uint32_t column;      /* 0 when not known */
  bool inlined;         /* this function's code was inlined into the next frame's */
  bool has_offset;      /* function_offset is known; never for an inlined frame */
  uint64_t function_offset;
} symbol_frame_t;

/* More inlined levels than this at one address are cut, the outermost frame kept. */
#define SYMBOL_FRAMES_MAX 64

typedef struct symbolizer symbolizer_t;
typedef struct symbol_module symbol_module_t;

/* Called while an index is built, from the thread that asked: DONE of TOTAL steps of MODULE. */
typedef void symbol_progress_fn(const char *module, size_t done, size_t total);

typedef struct symbol_options {
  const char *const *debug_dirs; /* searched before /usr/lib/debug; ends with NULL; may be NULL */
  bool no_lines;                 /* names only: debug information is not read */
  bool no_inlines;               /* only the outermost function of an address */
  bool raw;                      /* fill `raw` of frames as well; it is NULL otherwise, or set where
                                    it is at hand */
  bool no_index;                 /* neither read nor write the cache folder */
  symbol_progress_fn *progress;  /* may be NULL */
} symbol_options_t;

/* Where a module's bytes are. Zero what is not known; at least one of the three must be there. */
typedef struct symbol_source {
  const char *path;        /* the name it is known by; also opened when open_path is NULL */
  const char *open_path;   /* where it can be opened, e.g. below /proc/PID/root */
  const uint8_t *build_id; /* of the image that was loaded; files of another build are refused */
  size_t build_id_size;
  image_machine_t machine; /* which image of a fat file, where no build-id says it */
  bool is_arm64e;          /* that machine's second kind on Apple's systems */
  const uint8_t *bytes;    /* an image that has no file (the vDSO); kept by the caller */
  size_t size;
} symbol_source_t;

/* OPTIONS are copied, not what they point to. NULL when there is no memory. */
symbolizer_t *symbolizer_new(const symbol_options_t *options);
void symbolizer_free(symbolizer_t *symbolizer);

/* The module of SOURCE; the same one for an equal source. Nothing is opened before it is asked.
 * NULL when there is no memory. */
symbol_module_t *symbolizer_module(symbolizer_t *symbolizer, const symbol_source_t *source);

/* Names ADDRESS, an address as linked (run-time address minus slide). For a return address pass
 * the address minus 1, so that the call is named and not what follows it. Writes at most MAX
 * frames, innermost first, and returns how many; 0 with *REASON when nothing is known. With at
 * least one frame *REASON is SYMBOL_NAMED, or says why the last frame has no function. */
int symbol_lookup(symbol_module_t *module, uint64_t address, symbol_frame_t *frames, int max,
                  symbol_reason_t *reason);

/* Says that COUNT addresses of MODULE will be asked, so that an index may be worth building. True
 * when there is one, and saying it again is of no use. */
bool symbol_expect(symbol_module_t *module, size_t count);

/* The lowest address, as linked, of MODULE's first segment: run-time addresses are this far above
 * the load address. False when the file cannot be read. */
bool symbol_link_base(symbol_module_t *module, uint64_t *base);

/* Path of the file whose debug information answers for MODULE, or NULL: for reports. */
const char *symbol_debug_path(symbol_module_t *module);

#endif
