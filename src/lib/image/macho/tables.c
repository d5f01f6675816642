/* SPDX-License-Identifier: MIT
 *
 * Two compressed tables of Mach-O: the starts of functions, and the trie of exported symbols.
 */
#include "base/bits.h"
#include "image/macho/macho.h"

/* Reads a LEB128 number, DWARF 5 section 7.6. Returns false at the end, and for more than 64 bits.
 */
static bool read_uleb(const section_t *from, uint64_t *at, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && *at < from->size; shift += 7) {
    uint8_t byte = from->data[(*at)++];
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out = value;
      return true;
    }
  }
  return false;
}

bool macho_next_function(const section_t *starts, uint64_t *at, uint64_t *address) {
  uint64_t delta;
  if (!read_uleb(starts, at, &delta) || delta == 0) return false;
  *address += delta;
  return true;
}

/* ---- exports -------------------------------------------------------------------------------- */

/* A node of the trie holds the size of its data (0: no symbol ends here), the data, and the number
 * of its edges. Each edge has the characters that it adds and the offset of its node. */
#define EXPORT_DEPTH   512
#define FLAG_KIND      3u
#define FLAG_RE_EXPORT 8u

/* Compares the edge at *AT with *NAME. Advances *AT past its characters, and *NAME if they match.
 */
static bool edge_matches(const section_t *trie, uint64_t *at, const char **name, bool *underscore) {
  const char *rest = *name;
  bool pending = *underscore, same = true;
  for (; *at < trie->size && trie->data[*at]; ++*at) {
    char c = (char)trie->data[*at], wanted = pending ? '_' : *rest;
    same = same && c == wanted;
    if (!same) continue;
    if (pending)
      pending = false;
    else
      rest++;
  }
  ++*at;
  if (!same) return false;
  *name = rest;
  *underscore = pending;
  return true;
}

bool macho_export(const image_t *image, const char *name, uint64_t *address) {
  const section_t *trie = &image->macho.export_trie;
  uint64_t at = 0, size, flags, target;
  bool underscore = true; /* not consumed yet */
  for (unsigned depth = 0; depth < EXPORT_DEPTH; depth++) {
    if (!read_uleb(trie, &at, &size) || size > trie->size - at) return false;
    if (!underscore && !*name)
      return size && read_uleb(trie, &at, &flags) && !(flags & (FLAG_KIND | FLAG_RE_EXPORT)) &&
             read_uleb(trie, &at, address) && (*address += macho_header_address(image), true);
    at += size;
    if (at >= trie->size) return false;
    bool found = false;
    for (unsigned edges = trie->data[at++]; edges && !found; edges--) {
      found = edge_matches(trie, &at, &name, &underscore);
      if (at >= trie->size || !read_uleb(trie, &at, &target)) return false;
    }
    if (!found) return false;
    at = target;
    if (at >= trie->size) return false;
  }
  return false;
}
