/* SPDX-License-Identifier: MIT
 *
 * The verbs that look into running programs, on a system where the command cannot: each says so,
 * and what there is instead.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/verbs.h"

static int absent(int argc, char **argv, const char *instead) {
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    printf("sonde %s looks into running programs of Linux; it is not there on macOS.\n%s.\n",
           argv[0], instead);
    return CLI_DONE;
  }
  return message_fail("not there on macOS: %s", instead);
}

#define OWN_STACKS "a program shows its own threads with libsonde (sonde/sonde.h)"
#define OWN_LOG                                                                                    \
  "a program records its own allocations with libsonde (sonde/malloc.h); 'sonde import' reads "    \
  "MallocStackLogging's files"

#define VERB_ABSENT(name, instead)                                                                 \
  int verb_##name(int argc, char **argv) { return absent(argc, argv, instead); }

VERB_ABSENT(stacks, OWN_STACKS)
VERB_ABSENT(record, OWN_LOG)
VERB_ABSENT(ctl, OWN_LOG)
VERB_ABSENT(leaks,
            "the system's own 'leaks' looks for them; 'sonde report' of a log shows what is live")
VERB_ABSENT(clean, "no recorder leaves recordings unfinished there")
VERB_ABSENT(doctor, "nothing of this command asks for rights or settings there")
