/* SPDX-License-Identifier: MIT
 *
 * The names of Apple's VM tags, which tell what memory was mapped for (VM_MEMORY_… of
 * mach/vm_statistics.h). A recording has them as "[NAME]", in the place of a mapping's file.
 */
#ifndef SONDE_RECORD_VM_TAG_H
#define SONDE_RECORD_VM_TAG_H

#include <stdbool.h>
#include <stdint.h>

/* NULL: TAG has no name. */
static inline const char *vm_tag_name(uint32_t tag) {
  static const char *const names[] = {[1] = "malloc",
                                      [2] = "malloc small",
                                      [3] = "malloc large",
                                      [4] = "malloc huge",
                                      [5] = "sbrk",
                                      [6] = "realloc",
                                      [7] = "malloc tiny",
                                      [8] = "malloc large reusable",
                                      [9] = "malloc large reused",
                                      [10] = "analysis tool",
                                      [11] = "malloc nano",
                                      [12] = "malloc medium",
                                      [20] = "mach message",
                                      [21] = "IOKit",
                                      [30] = "stack",
                                      [31] = "guard",
                                      [32] = "shared pmap",
                                      [33] = "dylib",
                                      [34] = "objc dispatchers",
                                      [35] = "unshared pmap",
                                      [40] = "AppKit",
                                      [41] = "Foundation",
                                      [42] = "CoreGraphics",
                                      [43] = "CoreServices",
                                      [44] = "Java",
                                      [45] = "CoreData",
                                      [50] = "ATS",
                                      [51] = "LayerKit",
                                      [52] = "CGImage",
                                      [53] = "tcmalloc",
                                      [60] = "dyld",
                                      [61] = "dyld malloc",
                                      [62] = "sqlite",
                                      [63] = "JavaScript heap",
                                      [73] = "libdispatch"};
  return tag < sizeof names / sizeof *names ? names[tag] : 0;
}

/* The flags of a mapping that is SHARED (a file, or shared memory) or private and anonymous, with
 * the numbers of Linux, as in all recordings. */
static inline uint32_t vm_tag_flags(bool shared) { return shared ? 0x1u : 0x2u | 0x20u; }

#endif
