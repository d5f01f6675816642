/* SPDX-License-Identifier: MIT */
#include "cli/common/check_output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "cli/common/pager.h"

/* Why stdout could not be written. stdio keeps no cause of an earlier failure, so a line end is
 * written after the output that was cut off: it fails for the same cause. */
static int find_output_error(void) {
  if (errno) return errno;
  return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

int check_output(int status) {
  /* A full disk or a closed stdout is detected here at the latest: truncated output must not look
   * complete. */
  errno = 0;
  bool failed = ferror(stdout) != 0 || fflush(stdout) != 0;
  pager_end();
  int error = failed ? find_output_error() : 0;
  if (fclose(stdout) != 0 && !error) error = errno;
  if (error) return message_fail("cannot write the output: %s", strerror(error));
  return status;
}
