/* SPDX-License-Identifier: MIT
 *
 * One XRay sled: room that clang leaves at the start and at the ends of a function, here as code.
 * Unpatched, its head jumps over the rest, the tail, which nobody executes then. So tails are
 * written first, and the head, by one store, last. x86_64/sled.c and aarch64/sled.c have the code,
 * sled.S beside them where a patched sled goes by way of a stub.
 */
#ifndef SONDE_ARCH_SLED_H
#define SONDE_ARCH_SLED_H

#include <stdbool.h>
#include <stdint.h>

/* As section xray_instr_map has them. */
typedef enum sled_kind { SLED_ENTRY, SLED_EXIT, SLED_TAIL_EXIT } sled_kind_t;

#if defined(__x86_64__)
#define SLED_BYTES 11
#define SLED_REACH (UINT64_C(2) << 30) /* of the stubs */
typedef uint16_t sled_head_t;
#else
#define SLED_BYTES 32
#define SLED_REACH (UINT64_C(128) << 20)
typedef uint32_t sled_head_t;
#endif
#define SLED_STUB_BYTES 32

/* Is this an unpatched sled of KIND, or one that was patched and taken back? */
bool sled_looks_right(uint64_t sled, sled_kind_t kind);

/* SLED_BYTES of code that calls STUB. */
void sled_code(uint64_t sled, sled_kind_t kind, uint64_t stub, uint8_t *out);

/* The head of an unpatched one. */
sled_head_t sled_head(sled_kind_t kind);

/* Writes the SLED_STUB_BYTES of a stub that goes to TO, one of the functions below. */
void sled_stub(uint64_t stub, void (*to)(void));

/* Call the functions of sensor/trace/linux/sleds.c of nearly the same name. */
void trace_sled_entry(void);
void trace_sled_exit(void);

#endif
