/* SPDX-License-Identifier: MIT
 *
 * A file of its own, because it needs the library of verbs (verbs_library.h).
 */
#include "cli/linux/record_push.h"
#include "store/push/push.h"

const char *record_push_check(const record_push_t *p) {
  static char error[PUSH_ERROR_MAX];
  push_target_t target;
  if (!push_target_read(&target, p->url, NULL, error, sizeof error)) return error;
  const char *wrong = NULL;
  for (int i = 0; i < p->label_count && !wrong; i++)
    if (!push_target_label(&target, p->labels[i])) wrong = "--push-label takes NAME=VALUE";
  push_t *push = wrong ? NULL : push_new(&target, &(push_limits_t){0}, error, sizeof error);
  if (!push && !wrong) wrong = error;
  push_free(push);
  push_target_free(&target);
  return wrong;
}
