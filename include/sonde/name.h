/* SPDX-License-Identifier: MIT
 *
 * Names for program counters of this process, from its own symbol tables.
 *
 * An image's .symtab is read from its file (opened and closed again, compared by build-id); where
 * that file is gone, is another one, or has no .symtab, .dynsym serves, which names exported
 * functions alone, and the answer says so. The first name from an image reads and indexes its
 * symbols, once; the next ones cost a search. Source lines, inlined functions, debug files and
 * demangling are the command's business: `sonde symbolize`.
 *
 * Everything here may be called by any thread, in a signal handler (a crash handler on an alternate
 * stack of 8 KB among them, 12 KB on aarch64), inside malloc and after fork. Nothing here allocates
 * with malloc, takes a lock, asks the dynamic loader by its functions, keeps a descriptor or
 * changes errno.
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

/* How to read a pc. Without SONDE_NAME_EXACT it is a return address, and what is named is the call
 * before it: a call may be the last instruction of its function. */
#define SONDE_NAME_EXACT 1u /* the pc itself; of a stack, its innermost one */
/* For sonde_stack_print: frames of system images are left out, their numbers are not reused. */
#define SONDE_NAME_APP_ONLY 2u

/* How well the symbols of an image are known; sonde_name.known. */
typedef enum sonde_known {
  SONDE_KNOWN_ALL = 0,      /* by .symtab */
  SONDE_KNOWN_STRIPPED = 1, /* its file has no .symtab: exported functions alone have names */
  SONDE_KNOWN_NO_FILE = 2,  /* its file is gone, unreadable or another build: likewise */
  SONDE_KNOWN_LIMITED = 3,  /* its .symtab needs more memory than is taken for it: likewise */
  SONDE_KNOWN_NONE = 4,     /* no image, or its symbols could not be read or kept */
} sonde_known_t;

/* What is known of a pc. Strings stay as they are for the life of the process. */
typedef struct sonde_name {
  const char *symbol; /* of the function, as the symbol table has it; NULL: none covers the pc */
  uintptr_t symbol_offset; /* pc minus the symbol's address; a return address's own, too */
  const char *image;       /* path of the image; NULL: no image holds the pc, or nobody knows it */
  uintptr_t image_offset;  /* pc minus slide: the address that tools find in the file */
  uint32_t image_id;       /* as sonde_image.id; 0: no image holds the pc */
  unsigned image_flags;    /* SONDE_IMAGE_… */
  sonde_known_t known;     /* why `symbol` may be NULL */
} sonde_name_t;

/* Names PC. FLAGS is 0 or SONDE_NAME_EXACT. Returns 0 when the function is known; SONDE_ESTRIPPED
 * when the image is but no symbol covers the pc; SONDE_ENOTFOUND when no image holds it;
 * SONDE_EINVAL when NAME is NULL or FLAGS unknown. */
SONDE_API int sonde_name(uintptr_t pc, unsigned flags, sonde_name_t *name);

/* Writes a stack to the descriptor FD, innermost first, one line of text a frame:
 *   #2  0x000055d0a1c3e24b  worker_main+0x4b  (/usr/bin/app+0x124b)
 *   #3  0x00007f3c9ba89134  ??  (/usr/lib/libx.so.1+0x89134, stripped)
 * COUNT program counters stand in PCS, as sonde_stack fills it: return addresses, the one after a
 * signal frame excepted, which is found out by itself. FLAGS: SONDE_NAME_EXACT when PCS[0] is the
 * pc of a context; SONDE_NAME_APP_ONLY. Returns how many lines were written, or SONDE_EINVAL, or
 * SONDE_EIO when FD does not take them. Uses under 5 KB of the stack. */
SONDE_API int sonde_stack_print(int fd, const uintptr_t *pcs, int count, unsigned flags);

/* The named form of the stack ID (of sonde_stack_id) as the text that sonde_stack_print writes,
 * into OUT, at most SIZE bytes with the 0 that ends it. FLAGS: 0 or SONDE_NAME_APP_ONLY. A stack
 * that was named before is not named again but looked up, for as long as its images stay loaded; at
 * most 16 MB are kept. Names are right also after an image was unloaded. Returns the length of the
 * text without the 0, whether it did fit or was cut, as snprintf does; SONDE_ENOTFOUND when there
 * is no such stack; SONDE_EINVAL. */
SONDE_API int sonde_stack_text(uint32_t id, unsigned flags, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
