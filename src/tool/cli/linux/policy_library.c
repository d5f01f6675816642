/* SPDX-License-Identifier: MIT */
#include "cli/linux/policy_library.h"

#include "base/message.h"

const policy_library_t *sonde_policy(void) {
  static const policy_library_t library = {
      .version = SONDE_VERSION, .set_verb = message_set_verb, .compile = policy_file_compile};
  return &library;
}
