/* SPDX-License-Identifier: MIT
 *
 * Arrays of protobuf-c's messages, which it takes as arrays of pointers.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_MESSAGES_H
#define SONDE_REPORT_EXPORTS_PROFILE_MESSAGES_H

#include "base/pool.h"

/* COUNT messages of TYPE of POOL, each initialized by INIT. Sets LIST to pointers to them. NULL:
 * out of memory. */
#define NEW_MESSAGES(pool, type, init, count, list)                                                \
  ({                                                                                               \
    type *messages = pool_array((pool), (count), sizeof *messages);                                \
    type **pointers = pool_array((pool), (count), sizeof *pointers);                               \
    for (size_t number = 0; messages && pointers && number < (count); number++) {                  \
      init(&messages[number]);                                                                     \
      pointers[number] = &messages[number];                                                        \
    }                                                                                              \
    (list) = pointers;                                                                             \
    messages;                                                                                      \
  })

#endif
