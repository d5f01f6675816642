/* SPDX-License-Identifier: MIT
 *
 * The command in one piece. cli/linux/start/start.c is the command beside a library of verbs.
 */
#include "cli/verbs.h"

int main(int argc, char **argv) { return verbs_run(argc, argv); }
