/* SPDX-License-Identifier: MIT
 *
 * The command beside its library of verbs (verbs_library.h). `record` and `ctl` run here; the
 * library runs all other verbs, and finds out that there is no such verb.
 */
#include <string.h>

#include "base/message.h"
#include "cli/cli.h"
#include "cli/common/check_output.h"
#include "cli/linux/start/load.h"
#include "cli/linux/start/stack_room.h"
#include "cli/verbs.h"

static int run_verb(int (*verb)(int argc, char **argv), int argc, char **argv) {
  message_set_verb(argv[1]);
  return check_output(verb(argc - 1, argv + 1));
}

int main(int argc, char **argv) {
  const char *error;
  const char *name = argc > 1 ? argv[1] : "";
  if (!strcmp(name, "record")) return run_verb(verb_record, argc, argv);
  if (!strcmp(name, "ctl")) return run_verb(verb_ctl, argc, argv);
  if (!stack_room()) return CLI_FAILED;
  const verbs_library_t *verbs = load_verbs(&error);
  return verbs ? verbs->run(argc, argv) : message_fail("%s", error);
}
