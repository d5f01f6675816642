/* SPDX-License-Identifier: MIT
 *
 * The runtime library of AddressSanitizer, LeakSanitizer, ThreadSanitizer or HWAddressSanitizer.
 *
 * Such a runtime must come before all other libraries: AddressSanitizer refuses to start behind a
 * preloaded library, and the stacks in the others' reports would begin in that library. So whoever
 * preloads the agent puts the program's runtime before it in LD_PRELOAD. The loader finds the name
 * there as it finds the same name in the program's DT_NEEDED, and loads the library once.
 */
#ifndef SONDE_IMAGE_ELF_SANITIZER_H
#define SONDE_IMAGE_ELF_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

#define SANITIZER_NAME_MAX 64u

/* True if the file name PATH, which ends at a 0, a colon or a space, is such a runtime's. */
bool sanitizer_is_runtime(const char *path);

/* The first such runtime in LIST, the value of LD_PRELOAD; NULL if there is none. */
const char *sanitizer_in_list(const char *list);

/* Copies to OUT the name of the runtime that the program PATH, or the interpreter of the script
 * PATH, needs. Returns false if it needs none or cannot be read. Any thread; no malloc. */
bool sanitizer_of_program(const char *path, char out[SANITIZER_NAME_MAX]);

#endif
