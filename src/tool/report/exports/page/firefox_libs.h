/* SPDX-License-Identifier: MIT
 *
 * The images of a Firefox profile, with their build-ids: a viewer can fetch symbols by these, and
 * groups functions by image.
 *
 * Functions of the page have the file name of their image. Of images with the same file name, the
 * first one has the functions of all; each is in the list. One thread uses the list.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_FIREFOX_LIBS_H
#define SONDE_REPORT_EXPORTS_PAGE_FIREFOX_LIBS_H

#include "report/exports/page/names.h"

typedef struct firefox_libs {
  ARRAY(const record_image_t *) images; /* each path and build-id once */
  ARRAY(uint32_t) names;                /* by image: the text of its file name */
  uint32_t *of_text;                    /* by text: the number of the image + 1, or 0 */
  hash_index_t index;
} firefox_libs_t;

/* Finds the images, whose names become texts of NAMES. LIBS begins as zeros. False: out of memory.
 */
bool firefox_libs_find(firefox_libs_t *libs, page_names_t *names);

/* Writes the list: [{"name":…},…] */
void firefox_libs_put(const firefox_libs_t *libs, const reader_t *reader, page_stream_t *out);
void firefox_libs_free(firefox_libs_t *libs);

#endif
