/* SPDX-License-Identifier: MIT
 *
 * Which code the authors of the program wrote, as far as paths and names tell. Reports put these
 * functions first: people can change them.
 *
 * Libraries of the system, the headers of compilers, packages of Rust, modules of Go and the C
 * library in a static program are not the program's own. A template of std:: that the program
 * instantiates is in the program's image, but not its own. A wrapper of the allocator ("zmalloc",
 * "xstrdup") stands for its callers and is not own either. Pure functions.
 */
#ifndef SONDE_REPORT_OWN_CODE_H
#define SONDE_REPORT_OWN_CODE_H

#include <stdbool.h>

/* Whether the shared library at PATH belongs to the program: it is outside the system's folders. */
bool own_image(const char *path);

/* Whether FUNCTION, of an image of the program, is its own. FILE: of its source; NULL: unknown. */
bool own_function(const char *function, const char *file);

/* Whether FUNCTION is a wrapper of the allocator, as its name tells: "xmalloc", "PyObject_Malloc".
 */
bool own_wraps_allocator(const char *function);

#endif
