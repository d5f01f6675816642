/* SPDX-License-Identifier: MIT
 *
 * Lists the functions that an image's unwind information describes.
 */
#ifndef SONDE_UNWIND_CFI_LIST_H
#define SONDE_UNWIND_CFI_LIST_H

#include "image/image.h"

/* The sorted table of an image: .eh_frame_hdr (Linux Standard Base, "Exception Frame Header"), or
 * the table that cfi_index built. */
typedef struct cfi_list {
  const uint8_t *entries;
  uint64_t base; /* to which addresses are relative */
  uint32_t count;
} cfi_list_t;

/* Opens the table of IMAGE. Returns false if there is none, or if it is not in the usual form. */
bool cfi_list_open(const image_t *image, cfi_list_t *list);

/* The address, as linked, at which entry number I of LIST begins. Ascends with I. */
uint64_t cfi_list_start(const cfi_list_t *list, uint32_t i);

#endif
