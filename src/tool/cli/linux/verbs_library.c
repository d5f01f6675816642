/* SPDX-License-Identifier: MIT */
#include "cli/linux/verbs_library.h"

#include "base/message.h"
#include "cli/linux/leaks_client.h"
#include "cli/verbs.h"
#include "target/packed/debug_frame.h"

const verbs_library_t *sonde_verbs(void) {
  static const verbs_library_t library = {.version = SONDE_VERSION,
                                          .run = verbs_run,
                                          .set_verb = message_set_verb,
                                          .check_push = record_push_check,
                                          .search_at_exit = exit_search,
                                          .unpack_debug_frame = packed_debug_frame,
                                          .open_object = object_open};
  return &library;
}
