/* SPDX-License-Identifier: MIT
 *
 * The code of one XRay sled: bytes that clang reserves at the entry and at the exits of a function
 * (-fxray-instrument). The head of an unpatched sled jumps over its tail, so no thread executes the
 * tail. Patching therefore writes the tail first, and then the head with one store. sled.c of each
 * CPU has the code; its sled.S has the functions that stubs jump to.
 */
#ifndef SONDE_ARCH_SLED_H
#define SONDE_ARCH_SLED_H

#include <stdbool.h>
#include <stdint.h>

/* The kinds of the section xray_instr_map. */
typedef enum sled_kind { SLED_ENTRY, SLED_EXIT, SLED_TAIL_EXIT } sled_kind_t;

#if defined(__x86_64__)
#define SLED_BYTES 11
/* The largest distance from a sled to its stub. */
#define SLED_REACH (UINT64_C(2) << 30)
typedef uint16_t sled_head_t;
#else
#define SLED_BYTES 32
#define SLED_REACH (UINT64_C(128) << 20)
typedef uint32_t sled_head_t;
#endif
#define SLED_STUB_BYTES 32

/* Returns true if SLED is a sled of KIND that is not patched now. */
bool sled_looks_right(uint64_t sled, sled_kind_t kind);

/* Writes SLED_BYTES of code that calls STUB to OUT. */
void sled_code(uint64_t sled, sled_kind_t kind, uint64_t stub, uint8_t *out);

/* The head of an unpatched sled. */
sled_head_t sled_head(sled_kind_t kind);

/* Writes a stub of SLED_STUB_BYTES that jumps to TO, one of the functions below. */
void sled_stub(uint64_t stub, void (*to)(void));

/* Each calls the function of sensor/trace/linux/sleds.c with a similar name. */
void trace_sled_entry(void);
void trace_sled_exit(void);

#endif
