/* SPDX-License-Identifier: MIT
 *
 * The end of a verb: its output was written, or the command fails.
 */
#ifndef SONDE_CLI_COMMON_CHECK_OUTPUT_H
#define SONDE_CLI_COMMON_CHECK_OUTPUT_H

/* Ends the pager and closes stdout. Returns STATUS, or MESSAGE_FAILED after a message. */
int check_output(int status);

#endif
