/* SPDX-License-Identifier: MIT */
#include "cli/common/pager.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/terminal.h"

static FILE *pager;
static bool disabled;

void pager_disable(void) { disabled = true; }

void pager_start(void) {
  /* As git does: less ends if all fits (F), keeps colors (R) and leaves the text on the screen (X),
   * unless the user has chosen options. */
  static const char command[] = "LESS=\"${LESS-FRX}\" export LESS; ";
  static const char standard[] = "if command -v less >/dev/null; then exec less; else exec cat; fi";
  char text[1024];
  const char *chosen = getenv("SONDE_PAGER");
  if (!chosen) chosen = getenv("PAGER");
  if (pager || disabled || !terminal_is_capable(stdout) ||
      (chosen && (!*chosen || strcmp(chosen, "cat") == 0)))
    return;
  int n = snprintf(text, sizeof text, "%s%s", command, chosen ? chosen : standard);
  if (n < 0 || n >= (int)sizeof text) return;
  fflush(stdout);
  pager = popen(text, "w");
  if (!pager) return;
  terminal_remember(stdout);
  dup2(fileno(pager), STDOUT_FILENO);
}

void pager_end(void) {
  if (!pager) return;
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO); /* the pager sees the end of the text */
  pclose(pager);
  pager = NULL;
}
