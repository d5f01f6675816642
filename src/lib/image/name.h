/* SPDX-License-Identifier: MIT
 *
 * Names of program counters in this process, for other modules. A pc is named by its image id, so
 * that images that were unloaded since have names too.
 */
#ifndef SONDE_IMAGE_NAME_H
#define SONDE_IMAGE_NAME_H

#include "image/list.h"
#include "sonde/name.h"

/* As sonde_name, for a pc of the image ID (0: of no image). */
int name_in_image(image_id_t id, uint64_t pc, bool exact, sonde_name_t *name);

/* Writes the line of sonde_stack_print for one frame, without its newline, in pieces. */
typedef struct name_writer name_writer_t;
struct name_writer {
  void (*put)(name_writer_t *self, const char *text, size_t size);
};
void name_write_frame(name_writer_t *to, int number, uint64_t pc, const sonde_name_t *name);

/* Returns true if PC is the first instruction of the signal trampoline, to which a handler returns.
 * The pc of that frame, and the pc of its caller, which the signal interrupted, are exact. Costs
 * one guarded read. */
bool name_is_signal_frame(uint64_t pc);

/* The memory of all symbol indexes of this process, in bytes. */
uint64_t name_index_bytes(void);

#endif
