/* SPDX-License-Identifier: MIT */
#include "target/interpreter/perl/pages.h"

#include <string.h>

void perl_pages_forget(perl_pages_t *p) {
  memset(p->addresses, 0, sizeof p->addresses);
  p->left = PERL_READS_MAX;
}

/* The page at ADDRESS; NULL: unreadable. */
static const uint8_t *page_at(perl_pages_t *p, uint64_t address) {
  size_t i = (size_t)(address / PERL_PAGE_BYTES % PERL_PAGES);
  if (p->addresses[i] == address) return p->bytes[i];
  p->addresses[i] = 0;
  if (!address || !p->memory->read(p->memory, address, p->bytes[i], PERL_PAGE_BYTES)) return NULL;
  p->addresses[i] = address;
  return p->bytes[i];
}

bool perl_read(perl_pages_t *p, uint64_t address, void *out, size_t size) {
  uint8_t *to = out;
  if (!address || size > UINT64_MAX - address || !p->left) return false;
  p->left--;
  while (size) {
    uint64_t offset = address % PERL_PAGE_BYTES;
    size_t part = PERL_PAGE_BYTES - (size_t)offset;
    if (part > size) part = size;
    const uint8_t *page = page_at(p, address - offset);
    if (page)
      memcpy(to, page + offset, part);
    else if (!p->memory->read(p->memory, address, to, part))
      return false;
    to += part;
    address += part;
    size -= part;
  }
  return true;
}

bool perl_word(perl_pages_t *p, uint64_t address, uint64_t *out) {
  return address % 8 == 0 && perl_read(p, address, out, sizeof *out);
}

bool perl_string(perl_pages_t *p, uint64_t address, char *text, size_t size) {
  for (size_t used = 0; used < size;) {
    size_t part = 64 - (size_t)(address % 64);
    if (part > size - used) part = size - used;
    if (!perl_read(p, address, text + used, part)) return false;
    if (memchr(text + used, 0, part)) return true;
    used += part;
    address += part;
  }
  return false;
}
