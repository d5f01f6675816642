/* SPDX-License-Identifier: MIT */
#include "reader/body.h"

bool body_numbers(const record_event_t *e, uint64_t *out, int count) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  for (int i = 0; i < count; i++)
    if (!varint_get(&p, end, &out[i])) return false;
  return true;
}

bool body_blocks(const record_event_t *e, body_block_visit_t *visit, void *context) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  record_block_t block = {0};
  uint64_t fields[5];
  while (p < end) {
    for (int i = 0; i < 5; i++)
      if (!varint_get(&p, end, &fields[i])) return true;
    block.address += (uint64_t)unzigzag(fields[0]);
    block.size = fields[1];
    block.stack = (uint32_t)fields[2];
    block.stream = (uint32_t)fields[3];
    block.time = e->time - (uint64_t)unzigzag(fields[4]);
    if (!visit(context, &block)) return false;
  }
  return true;
}

size_t body_text(const record_event_t *e, const char **name) { return body_text_after(e, 0, name); }

size_t body_text_after(const record_event_t *e, int count, const char **name) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  uint64_t size = 0;
  for (; count; count--)
    if (!varint_get(&p, end, &size)) p = end;
  size = 0;
  if (!varint_get(&p, end, &size) || size > (uint64_t)(end - p)) size = 0;
  *name = (const char *)p;
  return (size_t)size;
}
