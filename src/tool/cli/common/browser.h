/* SPDX-License-Identifier: MIT
 *
 * Opens a file in the user's browser.
 */
#ifndef SONDE_CLI_COMMON_BROWSER_H
#define SONDE_CLI_COMMON_BROWSER_H

#include <stdbool.h>

/* Starts the system's opener (xdg-open; on macOS open) with PATH and does not wait for the browser.
 * False: there is no display or no opener. */
bool browser_open(const char *path);

/* Whether programs can show windows here. */
bool browser_has_display(void);

#endif
