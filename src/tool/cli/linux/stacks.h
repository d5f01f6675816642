/* SPDX-License-Identifier: MIT
 *
 * Stacks as text, for the verb.
 */
#ifndef SONDE_CLI_LINUX_STACKS_H
#define SONDE_CLI_LINUX_STACKS_H

#include "report/stacks/stacks.h"

void stacks_text(FILE *out, const stacks_view_t *view);

#endif
