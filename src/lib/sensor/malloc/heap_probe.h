/* SPDX-License-Identifier: MIT
 *
 * The heap probes of OpenTelemetry's eBPF profiler (its design document 00003, "USDT contract"):
 *
 *   otel_memory:alloc(address, size, weight)   a sampled block was allocated
 *   otel_memory:free(address)                  a sampled block is freed
 *
 * A profiler outside attaches to them and unwinds the stack itself. WEIGHT estimates the allocated
 * bytes that the block represents. The probes are at sampled blocks only (sensor/malloc/sampled.h),
 * so a call that is not sampled costs nothing more. A semaphore is 0 while nobody is attached.
 *
 * A probe is a nop and an ELF note of the file that contains it. An agent that the command copies
 * into a running program is no file mapping, so nobody can attach to it: it has no probes.
 */
#ifndef SONDE_SENSOR_MALLOC_HEAP_PROBE_H
#define SONDE_SENSOR_MALLOC_HEAP_PROBE_H

#include "base/bits.h"

#if defined(__linux__) && !defined(SONDE_ATTACHED)
#define HEAP_PROBES 1
extern HIDDEN volatile uint16_t otel_memory_alloc_semaphore, otel_memory_free_semaphore;
NOINLINE void heap_probe_fire_alloc(uint64_t address, uint64_t size, uint64_t weight);
NOINLINE void heap_probe_fire_free(uint64_t address);
#else
#define HEAP_PROBES 0
#endif

#endif
