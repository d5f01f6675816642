/* SPDX-License-Identifier: MIT
 *
 * Long output goes through a pager if stdout is a terminal: SONDE_PAGER, else PAGER, else less,
 * which ends by itself if the output fits the screen. An empty value, "cat" or --no-pager means
 * none.
 */
#ifndef SONDE_CLI_COMMON_PAGER_H
#define SONDE_CLI_COMMON_PAGER_H

#define PAGER_OPTION                                                                               \
  { PAGER_KEY_NONE, "no-pager", NULL, "print long output without a pager" }

/* The key of the option, beyond those of any verb. */
enum { PAGER_KEY_NONE = 0x5000 };

/* Takes --no-pager. */
void pager_disable(void);

/* Starts the pager, once. Everything that is printed to stdout from now on goes to it. */
void pager_start(void);

/* Closes stdout and waits until the reader leaves the pager. Does nothing without a pager. */
void pager_end(void);

#endif
