/* SPDX-License-Identifier: MIT
 *
 * The C libraries keep the id in the memory that a pthread_t points to: glibc in struct pthread
 * after a header of 704 or 192 bytes and a list node, musl after six words, or four on aarch64.
 */
#include "unwind/thread_handle.h"

bool thread_handle_is(uint64_t handle, machine_t machine, memory_t *memory, int32_t tid) {
  static const uint16_t places[2][2] = {{720, 48}, {208, 32}};
  const uint16_t *place = places[machine == MACHINE_AARCH64];
  int32_t id;
  for (int i = 0; i < 2; i++)
    if (memory->read(memory, handle + place[i], &id, sizeof id) && id == tid) return true;
  return false;
}
