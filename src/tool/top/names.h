/* SPDX-License-Identifier: MIT
 *
 * The functions of a stack, and the call of a blocked thread as the program made it:
 * "pthread_cond_wait", where the kernel knows "futex".
 */
#ifndef SONDE_TOP_NAMES_H
#define SONDE_TOP_NAMES_H

#include "report/stacks/stacks.h"
#include "top/functions.h"
#include "top/threads.h"

/* Writes the functions of COUNT frames to OUT, inlined ones too, at most MAX; their texts are valid
 * as long as SYMBOLIZER. Returns their number. */
int top_names(stack_symbolizer_t *symbolizer, const target_t *target, const frame_t *frames,
              uint32_t count, top_frame_t *out, int max);

/* Writes what THREAD waits in and on to OUT, of TOP_CALL_MAX bytes: the outermost function of the
 * system on its stack, else its system call; then a descriptor, or a variable and the owner of a
 * lock. */
void top_call(stack_symbolizer_t *symbolizer, target_t *target, const thread_t *thread,
              const top_frame_t *frames, int count, char *out);

/* Writes the C library's function NAME to OUT without the prefixes and the version of its internal
 * names: "poll" for "__GI___poll@@GLIBC_2.2.5". */
void top_plain_name(const char *name, char *out, size_t size);

#endif
