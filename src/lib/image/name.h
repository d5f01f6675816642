/* SPDX-License-Identifier: MIT
 *
 * Names from inside, for other rooms: by image id, so that what was unloaded since has names too.
 */
#ifndef SONDE_IMAGE_NAME_H
#define SONDE_IMAGE_NAME_H

#include "image/list.h"
#include "sonde/name.h"

/* As sonde_name, for a pc that was met in the image ID (0: in none). */
int name_in_image(image_id_t id, uint64_t pc, bool exact, sonde_name_t *name);

/* The line of sonde_stack_print for one frame, without the line's end, as pieces of text. */
typedef struct name_writer name_writer_t;
struct name_writer {
  void (*put)(name_writer_t *self, const char *text, size_t size);
};
void name_write_frame(name_writer_t *to, int number, uint64_t pc, const sonde_name_t *name);

/* Is PC the signal trampoline's first instruction, to which a handler returns? The frame of such a
 * pc, and the one further out, which the signal interrupted, have exact pcs. One guarded read. */
bool name_is_signal_frame(uint64_t pc);

/* Bytes of symbol index kept by this process. */
uint64_t name_index_bytes(void);

#endif
