/* SPDX-License-Identifier: MIT
 *
 * The live view of one program: reads it, draws frames and obeys keys until the user quits, or
 * prints a number of frames. The main thread uses it.
 */
#ifndef SONDE_TOP_TOP_H
#define SONDE_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct top_options {
  /* of the program to watch, or 0: COMMAND is started */
  pid_t pid;
  char **command;
  /* of COMMAND's recording; NULL: it is not kept */
  const char *output;
  /* between two frames */
  uint64_t period_ns;
  /* frames to print as text; 0: the live view, or one frame if there can be none */
  long frames;
} top_options_t;

/* Returns the exit status of the verb: 0, or 2 after an error was printed. */
int top_show(const top_options_t *options);

#endif
