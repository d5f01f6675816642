/* SPDX-License-Identifier: MIT
 *
 * Reads the memory that arguments point to. A wrong pointer may be EFAULT for the program and must
 * not fault here. Memory that another thread unmaps during the read must not fault either.
 *
 * Read without proof:
 * - a string that the called function reads itself;
 * - the thread's own stack, the part in use;
 * - the initial arguments and environment, at the top of the first stack;
 * - pages of images, while the loader has changed nothing. A call with an argument in an image or
 *   stack that is being unloaded fails anyway;
 * - the brk(2) heap, with the small blocks of the first thread. The heap ends at the C library's
 *   variable __curbrk (glibc; sbrk, malloc and free keep it current). Parts of it disappear only by
 *   munmap, mremap, mprotect, mmap or madvise, which are hooked; after the first such call the heap
 *   needs proof. Cost: two loads, of a line that each heap growth shares, and two comparisons.
 *
 * All other memory, above all mappings, may have been unmapped since the last read without being
 * noticed, because the C library unmaps without an import slot. So each call proves by one system
 * call per page, 110 to 140 ns, that the memory is readable. 83 ns of it are the kernel's entry and
 * exit, the floor of any proof. The proof holds for that instant. If the memory is unmapped between
 * proof and copy, the copy faults, and the crash handler ends it (arch/guarded.h). The handler does
 * not replace the proof: if a thread blocks SIGSEGV the kernel terminates the program at a fault.
 * So neither readable pages nor signal masks are cached: libc changes masks, and sets those of
 * handlers, without an import slot.
 *
 * Mappings that the program makes with mmap, such as python's arenas, are not cached either,
 * although its munmap calls are hooked. A raw system call can unmap them, which is far more likely
 * for a mapping than for the brk heap. With SIGSEGV blocked, that would terminate a program for
 * which a wrong path is EFAULT (tests/real/audit_known_memory.py tests it).
 *
 * Remaining risk, only in a thread that blocks SIGSEGV or with a handler set by a raw system call:
 * a path that is unmapped between proof and copy, and a wrong pointer into a part of the brk heap
 * that a raw system call has unmapped or protected.
 *
 * Without the crash handler (a program that audits itself without the agent, or has its own
 * handler) the kernel copies (os_read_memory): never a fault, about 300 ns.
 */
#ifndef SONDE_SENSOR_AUDIT_MEMORY_H
#define SONDE_SENSOR_AUDIT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define AUDIT_PAGES 16u

/* Determines the memory that needs no proof. At the start, with one thread. */
void audit_memory_start(void);

/* SIZE bytes from START are about to be unmapped, protected or mapped over. Any thread. */
void audit_memory_changes(uint64_t start, uint64_t size);

/* A cached fact: whether a page belonged to an image, at an epoch of the loader. */
typedef struct audit_page {
  uint64_t number, epoch;
  bool is_image;
} audit_page_t;

typedef struct audit_memory {
  uint64_t caller_sp;
  audit_page_t *pages; /* AUDIT_PAGES of them, the thread's */
} audit_memory_t;

/* Copies SIZE bytes from ADDRESS to OUT, or as many as are readable; returns how many. The rest of
 * OUT is unchanged. */
uint32_t audit_copy(const audit_memory_t *memory, void *out, uint64_t address, uint32_t size);

/* Copies the string at ADDRESS, at most MAX bytes, without its terminator. KNOWN: it is readable.
 */
uint32_t audit_copy_text(const audit_memory_t *memory, void *out, uint64_t address, uint32_t max,
                         bool known);

#endif
