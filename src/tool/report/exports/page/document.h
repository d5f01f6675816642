/* SPDX-License-Identifier: MIT
 *
 * The HTML page of a recording: the built page (page/), with the sentences, the facts and the table
 * of functions as text, and the data. All text of the recording is escaped.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_DOCUMENT_H
#define SONDE_REPORT_EXPORTS_PAGE_DOCUMENT_H

#include "report/exports/page/data.h"

/* False: this build of sonde has no page, because node was missing. */
bool page_is_built(void);

/* Writes the page to OUT; with OLD, a recording to compare with, or NULL. 0 or SONDE_ENOMEM. Errors
 * of OUT are its own. */
int page_write(const page_source_t *source, const page_source_t *old, FILE *out);

/* The page of an answer of a store (page/src/view_answer.tsx), with TEXT for readers without
 * scripts. 0 or SONDE_ENOMEM. */
int page_write_answer(const char *title, const char *text, json_object *data, FILE *out);

/* Writes TEXT, of which control characters and bytes that are not UTF-8 become U+FFFD. */
void page_html(const char *text, FILE *out);

#endif
