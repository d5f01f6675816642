/* SPDX-License-Identifier: MIT
 *
 * The help of each section of `sonde report`, in the order of REPORT_SECTIONS.
 */
#ifndef SONDE_CLI_REPORT_PARTS_H
#define SONDE_CLI_REPORT_PARTS_H

#include "cli/cli.h"

extern const cli_part_t report_parts[];

#endif
