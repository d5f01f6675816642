/* SPDX-License-Identifier: MIT
 *
 * The verbs and options for running programs, which macOS does not support. Each prints an
 * alternative.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/common/viewer.h"
#include "cli/verbs.h"

static int absent(int argc, char **argv, const char *instead) {
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    char about[256];
    snprintf(about, sizeof about, "This verb needs Linux. On macOS, %s.", instead);
    const cli_usage_t usage = {.verb = argv[0], .about = about};
    cli_print_help(&usage, NULL);
    return CLI_DONE;
  }
  return message_fail("not supported on macOS: %s", instead);
}

#define OWN_STACKS "a program shows its own threads with libsonde (sonde/sonde.h)"
#define OWN_LOG                                                                                    \
  "a program records its own allocations with libsonde (sonde/malloc.h); 'sonde import' reads "    \
  "MallocStackLogging's files"

#define VERB_ABSENT(name, instead)                                                                 \
  int verb_##name(int argc, char **argv) { return absent(argc, argv, instead); }

VERB_ABSENT(stacks, OWN_STACKS)
VERB_ABSENT(top, "Instruments and the system's 'top' and 'sample' watch a program")
VERB_ABSENT(record, OWN_LOG)
VERB_ABSENT(ctl, OWN_LOG)
VERB_ABSENT(leaks, "the system's 'leaks' finds leaks; 'sonde report' of a log shows live blocks")
VERB_ABSENT(clean, "there are no recorders, so no unfinished recordings")
VERB_ABSENT(doctor, "the command needs no permissions or settings")

int viewer_show(const viewer_t *v, const char *output, viewer_write_fn *write, void *context) {
  (void)output, (void)write, (void)context;
  return message_fail(
      "--with is not supported on macOS: write the file with 'sonde export --as %s' "
      "and open it in the viewer",
      v->format);
}
