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
 * of its edges. Each edge has the characters that it adds and the offset of its node. The walk
 * keeps a stack of the remaining edges of each node on its path. Each edge consumes its bytes from
 * a budget. A valid trie never exceeds the budget, since it reaches each node once. */
#define EXPORT_DEPTH 512

typedef struct level {
  uint64_t at;      /* offset of the next edge */
  uint32_t edges;   /* remaining */
  uint32_t name_at; /* length of the name up to this node */
} level_t;

typedef struct walk {
  const section_t *trie;
  uint64_t header;
  uint64_t budget; /* bytes of edges that may still be read */
  level_t levels[EXPORT_DEPTH];
  unsigned depth;
  char name[MACHO_EXPORT_NAME_MAX];
  bool (*visit)(const char *name, uint64_t address, uint64_t flags, void *context);
  void *context;
} walk_t;

#define FLAG_KIND      3u
#define FLAG_RE_EXPORT 8u

/* Enters the node at AT, whose name has LENGTH characters. Returns false if VISIT ends the walk. */
static bool enter(walk_t *walk, uint64_t at, uint32_t length) {
  uint64_t size, flags, value;
  if (!read_uleb(walk->trie, &at, &size) || size > walk->trie->size - at) return true;
  uint64_t children = at + size;
  if (size && read_uleb(walk->trie, &at, &flags) && read_uleb(walk->trie, &at, &value)) {
    walk->name[length] = 0;
    if (flags & FLAG_RE_EXPORT)
      value = 0;
    else if ((flags & FLAG_KIND) == 0)
      value += walk->header;
    if (length && !walk->visit(walk->name, value, flags, walk->context)) return false;
  }
  if (children >= walk->trie->size || walk->depth == EXPORT_DEPTH) return true;
  walk->levels[walk->depth++] =
      (level_t){.at = children + 1, .edges = walk->trie->data[children], .name_at = length};
  return true;
}

/* Follows the next edge of the innermost node. */
static bool follow(walk_t *walk) {
  level_t *level = &walk->levels[walk->depth - 1];
  const section_t *trie = walk->trie;
  uint32_t length = level->name_at;
  uint64_t target;
  if (level->edges == 0) {
    walk->depth--;
    return true;
  }
  level->edges--;
  bool fits = true;
  for (; level->at < trie->size && trie->data[level->at] && walk->budget; level->at++) {
    walk->budget--;
    if (length + 1 < MACHO_EXPORT_NAME_MAX)
      walk->name[length++] = (char)trie->data[level->at];
    else
      fits = false;
  }
  level->at++;
  if (level->at >= trie->size || !read_uleb(trie, &level->at, &target) || target >= trie->size) {
    level->edges = 0;
    return true;
  }
  return !fits || enter(walk, target, length);
}

void macho_exports(const image_t *image,
                   bool (*visit)(const char *name, uint64_t address, uint64_t flags, void *context),
                   void *context) {
  walk_t *walk = os_map(sizeof *walk);
  if (!walk) return;
  walk->trie = &image->macho.export_trie;
  walk->header = macho_header_address(image);
  walk->visit = visit;
  walk->context = context;
  walk->budget = 2 * walk->trie->size + 2;
  bool more = walk->trie->size == 0 || enter(walk, 0, 0);
  while (more && walk->depth > 0 && walk->budget > 0) {
    walk->budget--;
    more = follow(walk);
  }
  os_unmap(walk, sizeof *walk);
}

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
