/* SPDX-License-Identifier: MIT
 *
 * Reading what an argument points to. A wrong pointer may be EFAULT to the program and must not be
 * a fault in here; nor must memory that another thread unmaps while it is read.
 *
 * What needs no proof: a string that the function itself reads; the thread's own stack as far as it
 * is in use; the strings that the program began with, its arguments and environment, which lie at
 * the top of its first stack; pages of images, for as long as the loader has changed nothing. A
 * call whose argument lies in an image that is being unloaded, or on a stack that is, fails anyway.
 *
 * Nor does the heap that brk(2) has grown, where small blocks of the first thread's are. It ends
 * where the C library's own variable says at that moment (__curbrk of glibc: sbrk, malloc and free
 * all keep it), and inside it goes nothing but by a call of munmap, mremap, mprotect, mmap or
 * madvise for a part of it, which are seen; after the first of them the heap is proved as any
 * memory is. Price: two loads, of a line that every malloc that grows the heap shares, and two
 * comparisons.
 *
 * Anything else, mapped memory above all, may have gone since it was read last, and nothing tells:
 * the C library unmaps without passing an import slot. So it is proved at every call, by one system
 * call for each page, which is what makes such an argument some 110 ns dearer. The proof holds for
 * that moment. What is unmapped between it and the copy makes the copy fault, and the handler that
 * stands in the place of SIGSEGV's and SIGBUS's default action ends the copy there
 * (arch/guarded.h). The handler alone would not do instead of the proof: a thread may block these
 * signals, and then the kernel ends the program at a fault. So no page is remembered as readable,
 * and no mask is: libc blocks signals, and makes handlers' masks, without passing an import slot.
 *
 * Nor are mappings remembered that the program made itself by mmap, as python's arenas, although
 * its calls of munmap are seen and nobody else unmaps them by a name: a raw system call can, which
 * a mapping is far more likely to meet than the brk heap, and under a blocked SIGSEGV that would
 * end a program to which a wrong path is EFAULT (tests/real/audit_known_memory.py tries it).
 *
 * What is left, all of it under a thread that blocks SIGSEGV or a handler set by a raw system call:
 * a path that is unmapped during those nanoseconds, and a wrong pointer into a part of the brk heap
 * that a raw system call has unmapped or protected.
 *
 * Where the handler is not there (a program that audits itself without the agent, or has installed
 * its own), the kernel copies (os_read_memory): no fault whatever happens, at some 300 ns.
 */
#ifndef SONDE_SENSOR_AUDIT_MEMORY_H
#define SONDE_SENSOR_AUDIT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define AUDIT_PAGES 16u

/* Finds out what needs no proof. For the start, with one thread. */
void audit_memory_start(void);

/* SIZE bytes from START are about to be unmapped, protected or mapped anew. Any thread. */
void audit_memory_changes(uint64_t start, uint64_t size);

/* A page that was seen to belong to an image, or to none, at an epoch of the loader. */
typedef struct audit_page {
  uint64_t number, epoch;
  bool is_image;
} audit_page_t;

typedef struct audit_memory {
  uint64_t caller_sp;
  audit_page_t *pages; /* AUDIT_PAGES, of this thread */
} audit_memory_t;

/* Copies SIZE bytes from ADDRESS to OUT, or as many as can be read; returns how many. OUT is left
 * as it was behind them. */
uint32_t audit_copy(const audit_memory_t *memory, void *out, uint64_t address, uint32_t size);

/* The same with the string at ADDRESS, of which at most MAX bytes are wanted, without its end.
 * KNOWN: it can be read. */
uint32_t audit_copy_text(const audit_memory_t *memory, void *out, uint64_t address, uint32_t max,
                         bool known);

#endif
