/* SPDX-License-Identifier: MIT
 *
 * The usage of a verb as JSON, from which man pages and completions are made.
 */
#ifndef SONDE_CLI_COMMON_HELP_JSON_H
#define SONDE_CLI_COMMON_HELP_JSON_H

#include "cli/cli.h"
#include "report/json.h"

/* Adds the synopsis, the text, the options and the examples of USAGE to VERB. */
void help_json_add(json_object *verb, const cli_usage_t *usage);

#endif
