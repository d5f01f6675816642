/* SPDX-License-Identifier: MIT
 *
 * Records of Apple's malloc stack logs (the .index files of MallocStackLogging).
 *
 * The file is a bare array of little-endian records, without header, version or checksum:
 *   32 bytes, macOS 10.15 and iOS 13 on: argument, address, stack id, type (64 bits each)
 *   24 bytes, before: argument, address, a word of stack id (48 bits), VM tag (8), type (8)
 *   16 bytes, 32-bit processes before: argument and address (32 bits each), the same word
 * The address is XORed with 0x5555. The argument is the size; 0 for a free. A
 * realloc is two records. A record has no time and no thread.
 *
 * The layout is detected from the records: the type has few possible values.
 */
#ifndef SONDE_IMPORT_APPLE_LOG_H
#define SONDE_IMPORT_APPLE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/load.h"

#define APPLE_ADDRESS_XOR 0x5555u

/* Types of records; a set of bits. */
#define APPLE_GENERIC       1u
#define APPLE_ALLOC         2u
#define APPLE_DEALLOC       4u
#define APPLE_VM_ALLOCATE   16u
#define APPLE_VM_DEALLOCATE 32u
#define APPLE_MAPPED        128u /* a mapped file or shared memory */
#define APPLE_TYPES         0xb7u
#define APPLE_TAG_SHIFT     24 /* of the type word: the VM tag */

#define APPLE_NO_STACK UINT64_MAX

typedef struct apple_record {
  uint64_t argument, address, stack; /* stack: APPLE_NO_STACK when it has none */
  uint32_t type;                     /* with the VM tag */
} apple_record_t;

typedef enum apple_layout {
  APPLE_UNKNOWN = 0,
  APPLE_16 = 16,
  APPLE_24 = 24,
  APPLE_32 = 32,
} apple_layout_t;

static ALWAYS_INLINE apple_record_t apple_decode(const uint8_t *p, apple_layout_t layout) {
  apple_record_t r;
  uint64_t word;
  if (layout == APPLE_16) {
    uint32_t argument = load32(p), address = load32(p + 4);
    r.argument = argument;
    r.address = address ^ APPLE_ADDRESS_XOR;
    word = load64(p + 8);
  } else {
    r.argument = load64(p);
    r.address = load64(p + 8) ^ APPLE_ADDRESS_XOR;
    word = load64(p + 16);
  }
  if (layout == APPLE_32) {
    r.stack = word;
    uint64_t type = load64(p + 24);
    r.type = type >> 32 ? 0 : (uint32_t)type;
    return r;
  }
  r.stack = word & 0xffffffffffff;
  if (r.stack == 0xffffffffffff) r.stack = APPLE_NO_STACK;
  r.type = (uint32_t)(word >> 56) | (uint32_t)(word >> 48 & 0xff) << APPLE_TAG_SHIFT;
  return r;
}

/* Returns whether a logger could have written the record. */
static inline bool apple_is_possible(const apple_record_t *r) {
  uint32_t type = r->type & 0xffffff;
  return type && !(type & ~APPLE_TYPES) && r->address >> 56 == 0 &&
         (r->stack >> 48 == 0 || r->stack == APPLE_NO_STACK);
}

/* The only layout in which all of the first and last records are possible. APPLE_UNKNOWN when there
 * is no such layout or more than one. *AMBIGUOUS is set when there is more than one, which files
 * with few records can cause. */
apple_layout_t apple_detect(const uint8_t *data, uint64_t size, bool *ambiguous);

/* Reads the process id and the program's name from the name of a log file,
 * "stack-logs.PID.ADDRESS.NAME.XXXXXX.index" (older: without ADDRESS), or of one that
 * sonde_apple_log_save wrote, "NAME.PID.index". False for other names. */
bool apple_file_name(const char *path, uint32_t *pid, char *name, size_t capacity);

#endif
