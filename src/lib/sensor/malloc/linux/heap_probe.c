/* SPDX-License-Identifier: MIT
 *
 * The notes are those of SystemTap's sys/sdt.h, version 3 ("UserSpaceProbeImplementation" of its
 * wiki): addresses of the nop, of the base section, and of the semaphore; then the names and the
 * places of the arguments. The kernel increments the semaphores (uprobes, ref_ctr_offset).
 */
#include "sensor/malloc/heap_probe.h"

#if HEAP_PROBES

#define SEMAPHORE __attribute__((section(".probes"), used))
HIDDEN volatile uint16_t otel_memory_alloc_semaphore SEMAPHORE,
    otel_memory_free_semaphore SEMAPHORE;

/* The base section lets a reader correct the addresses of a prelinked file. */
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n"
        ".hidden _.stapsdt.base\n"
        "_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n"
        ".popsection\n");

#define NOTE(name, semaphore, arguments)                                                           \
  "990: nop\n"                                                                                     \
  ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                     \
  ".balign 4\n"                                                                                    \
  ".4byte 992f - 991f, 994f - 993f, 3\n"                                                           \
  "991: .asciz \"stapsdt\"\n"                                                                      \
  "992: .balign 4\n"                                                                               \
  "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                              \
  ".asciz \"otel_memory\"\n"                                                                       \
  ".asciz \"" name "\"\n"                                                                          \
  ".asciz \"" arguments "\"\n"                                                                     \
  "994: .balign 4\n"                                                                               \
  ".popsection\n"

#if defined(__x86_64__)
#define FIRST    "rdi"
#define SECOND   "rsi"
#define THIRD    "rdx"
#define PLACES_1 "8@%%rdi"
#define PLACES_3 "8@%%rdi 8@%%rsi 8@%%rdx"
#else
#define FIRST    "x0"
#define SECOND   "x1"
#define THIRD    "x2"
#define PLACES_1 "8@x0"
#define PLACES_3 "8@x0 8@x1 8@x2"
#endif

void heap_probe_fire_alloc(uint64_t address, uint64_t size, uint64_t weight) {
  register uint64_t a __asm__(FIRST) = address;
  register uint64_t b __asm__(SECOND) = size;
  register uint64_t c __asm__(THIRD) = weight;
  __asm__ volatile(NOTE("alloc", "otel_memory_alloc_semaphore", PLACES_3)
                   :
                   : "r"(a), "r"(b), "r"(c)
                   : "memory");
}

void heap_probe_fire_free(uint64_t address) {
  register uint64_t a __asm__(FIRST) = address;
  __asm__ volatile(NOTE("free", "otel_memory_free_semaphore", PLACES_1) : : "r"(a) : "memory");
}

#endif
