/* SPDX-License-Identifier: MIT
 *
 * What `record` and `ctl` take from the libraries beside the command, under the names by which a
 * command of one piece calls it.
 */
#include "base/message.h"
#include "cli/linux/leaks_client.h"
#include "cli/linux/record_push.h"
#include "cli/linux/start/load.h"
#include "target/packed/debug_frame.h"

/* The library, whose messages name the verb that runs. On failure returns NULL and sets *ERROR. */
static const verbs_library_t *borrow(const char **error) {
  const verbs_library_t *verbs = load_verbs(error);
  if (verbs) verbs->set_verb(message_verb());
  return verbs;
}

audit_policy_t *policy_file_compile(const char *name, size_t *size) {
  const char *error;
  const policy_library_t *library = load_policy(&error);
  if (!library) {
    (void)message_fail("%s", error);
    return NULL;
  }
  library->set_verb(message_verb());
  return library->compile(name, size);
}

const char *record_push_check(const record_push_t *push) {
  const char *error;
  const verbs_library_t *verbs = borrow(&error);
  if (!verbs) return error;
  return verbs->check_push(push);
}

void exit_search(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                 uint64_t size, int32_t exchange_error) {
  const char *error;
  const verbs_library_t *verbs = borrow(&error);
  if (!verbs) {
    message_note("leaks were not searched for: %s", error);
    return;
  }
  verbs->search_at_exit(recording, path, exchange, size, exchange_error);
}

section_t packed_debug_frame(const char *path) {
  const char *error;
  const verbs_library_t *verbs = borrow(&error);
  return verbs ? verbs->unpack_debug_frame(path) : (section_t){0};
}

bool object_open(object_t *object, const char *path, problem_t *problem) {
  const char *error;
  const verbs_library_t *verbs = borrow(&error);
  if (!verbs) problem_set(problem, "%s", error);
  return verbs && verbs->open_object(object, path, problem);
}
