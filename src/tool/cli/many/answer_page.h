/* SPDX-License-Identifier: MIT
 *
 * The page of an answer: its rows, and the frames of the stacks that the rows name. One thread.
 */
#ifndef SONDE_CLI_MANY_ANSWER_PAGE_H
#define SONDE_CLI_MANY_ANSWER_PAGE_H

#include "store/answer.h"

typedef struct answer_page {
  const char *title, *store; /* the question, and the store's path */
  const char *stack;         /* the id of the stack that the whole answer is about, or NULL */
} answer_page_t;

/* Writes the page (report/exports/page/document.h) to OUT; ENGINE has the frames. 0 or
 * SONDE_ENOMEM. Errors of OUT are its own. */
int answer_write_page(const answer_t *answer, const answer_page_t *page, engine_t *engine,
                      FILE *out);

#endif
