/* SPDX-License-Identifier: MIT */
#include "unwind/cfi_list.h"

#include <string.h>

/* version, frame encoding, count encoding, table encoding; .eh_frame's address; the count */
#define HEADER_BYTES 12u
#define ENTRY_BYTES  8u
/* udata4; datarel | sdata4 */
#define COUNT_ENCODING 0x03
#define TABLE_ENCODING 0x3b

bool cfi_list_open(const image_t *image, cfi_list_t *list) {
  const section_t *hdr = &image->eh_frame_hdr;
  if (!hdr->data || hdr->size < HEADER_BYTES || hdr->data[0] != 1 ||
      hdr->data[2] != COUNT_ENCODING || hdr->data[3] != TABLE_ENCODING)
    return false;
  memcpy(&list->count, hdr->data + 8, sizeof list->count);
  list->entries = hdr->data + HEADER_BYTES;
  list->base = hdr->address;
  return list->count <= (hdr->size - HEADER_BYTES) / ENTRY_BYTES;
}

uint64_t cfi_list_start(const cfi_list_t *list, uint32_t i) {
  int32_t distance;
  memcpy(&distance, list->entries + (uint64_t)i * ENTRY_BYTES, sizeof distance);
  return list->base + (uint64_t)(int64_t)distance;
}
