/* SPDX-License-Identifier: MIT
 *
 * Names for program counters of this process, from its own symbol tables.
 *
 * sonde reads .symtab from the image's file. It opens the file, compares the build-id and closes
 * the file. If the file is missing, is of another build or has no .symtab, sonde uses .dynsym,
 * which names only exported functions, and reports that. The first name from an image reads and
 * indexes its symbols; each further name costs one search. The command `sonde symbolize` also finds
 * source lines, inlined functions and debug files, and demangles names.
 *
 * Any thread may call these functions, also inside malloc, after fork and in a signal handler. A
 * crash handler needs an alternate stack of 8 KB (12 KB on aarch64). They do not call malloc or the
 * dynamic loader, take no lock, keep no descriptor open and preserve errno.
 */
#ifndef SONDE_NAME_H
#define SONDE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/image.h"
#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PC, or the innermost entry of a stack, is exact. Without this flag it is a return address; sonde
 * then names the call before it, because a call may be the last instruction of its function. */
#define SONDE_NAME_EXACT 1u
/* For sonde_stack_print: leave out frames of system images. The other frames keep their numbers. */
#define SONDE_NAME_APP_ONLY 2u

/* How completely the symbols of an image are known; sonde_name.known. */
typedef enum sonde_known {
  /* By .symtab. */
  SONDE_KNOWN_ALL = 0,
  /* Its file has no .symtab: only exported functions have names. */
  SONDE_KNOWN_STRIPPED = 1,
  /* Its file is missing, unreadable or of another build: only exported functions have names. */
  SONDE_KNOWN_NO_FILE = 2,
  /* Its .symtab exceeds the memory limit: only exported functions have names. */
  SONDE_KNOWN_LIMITED = 3,
  /* No image contains the pc, or its symbols could not be read or stored. */
  SONDE_KNOWN_NONE = 4,
} sonde_known_t;

/* The name of a pc. Strings remain valid and unchanged for the life of the process. */
typedef struct sonde_name {
  /* Name of the function as in the symbol table; NULL if no symbol covers the pc. */
  const char *symbol;
  /* pc minus the symbol's address, for a return address too. */
  uintptr_t symbol_offset;
  /* Path of the image; NULL if no image contains the pc or its path is unknown. */
  const char *image;
  /* pc minus slide: the address that tools find in the file. */
  uintptr_t image_offset;
  /* As sonde_image.id; 0 if no image contains the pc. */
  uint32_t image_id;
  /* SONDE_IMAGE_…. */
  unsigned image_flags;
  /* Why `symbol` may be NULL. */
  sonde_known_t known;
} sonde_name_t;

/* Finds the name of PC. FLAGS is 0 or SONDE_NAME_EXACT. Returns 0 if the function is known;
 * SONDE_ESTRIPPED if the image is known but no symbol covers PC; SONDE_ENOTFOUND if no image
 * contains PC; SONDE_EINVAL if NAME is NULL or FLAGS is invalid. */
SONDE_API int sonde_name(uintptr_t pc, unsigned flags, sonde_name_t *name);

/* Writes a stack to the descriptor FD, innermost first, one line per frame:
 *   #2  0x000055d0a1c3e24b  worker_main+0x4b  (/usr/bin/app+0x124b)
 *   #3  0x00007f3c9ba89134  ??  (/usr/lib/libx.so.1+0x89134, stripped)
 * PCS holds COUNT program counters, as sonde_stack writes them. The program counters are return
 * addresses, except the one after a signal frame, which the function detects. FLAGS:
 * SONDE_NAME_EXACT if PCS[0] is exact; SONDE_NAME_APP_ONLY. Returns the number of lines written;
 * SONDE_EINVAL; SONDE_EIO if writing to FD fails. Uses less than 5 KB of stack. */
SONDE_API int sonde_stack_print(int fd, const uintptr_t *pcs, int count, unsigned flags);

/* Says whether PC is code of the app: of the program, or of an image that is not a system image.
 * System images are the dynamic loader, libc and its family, the vDSO, C++ and compiler runtimes,
 * and sonde; on Apple's systems everything outside the app's bundle. Returns 1 or 0;
 * SONDE_ENOTFOUND if no image contains PC. */
SONDE_API int sonde_is_app(uintptr_t pc);

/* Makes images that match GLOB system images (IS_SYSTEM not 0) or app images (0), also for
 * SONDE_NAME_APP_ONLY and SONDE_IMAGE_SYSTEM. In GLOB, * matches any text, ? one byte and # a
 * decimal number. A glob with a slash is compared with the whole path, another one with the file's
 * name. Of several matching globs the last one counts. Call it before stacks are named: texts that
 * are cached stay. The glob is copied. One thread at a time, not in a signal handler. Returns 0;
 * SONDE_EINVAL for NULL, an empty glob, or one of more than 127 bytes; SONDE_EFULL after 32 globs.
 */
SONDE_API int sonde_system_images(const char *glob, int is_system);

/* Writes the text of the stack ID (of sonde_stack_id), in the format of sonde_stack_print, to OUT:
 * at most SIZE bytes including the terminating 0. FLAGS: 0 or SONDE_NAME_APP_ONLY. Texts are cached
 * while their images stay loaded; the cache is limited to 16 MB. Names stay correct after an image
 * is unloaded. Returns the length of the whole text without the 0, even if it was truncated, as
 * snprintf does; SONDE_ENOTFOUND if there is no such stack; SONDE_EINVAL. */
SONDE_API int sonde_stack_text(uint32_t id, unsigned flags, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
