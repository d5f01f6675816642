/* SPDX-License-Identifier: MIT
 *
 * Searches the property lists of a memory graph. An archive (NSKeyedArchiver) is a flat array,
 * `$objects`, whose members refer to each other by number. Every member is visited in the array,
 * and a reference is followed only once, to read a value; so cycles in an archive do no harm. See
 * memgraph.h.
 */
#include "import/memgraph.h"

#include <plist/plist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "import/memgraph_pack.h"
#include "import/plist_check.h"

#define LISTS_DEEP   8u                  /* property lists in entries of property lists */
#define UNPACKED_MAX ((uint64_t)1 << 30) /* in all */
#define NODES_MAX    ((uint64_t)8 << 20) /* in all */
#define PACKED_MAX   65536u              /* compressed entries */
#define PEEK         64u                 /* bytes that identify an entry */
#define TABLE_MAGIC  "MslUniquingTable"
#define IMAGES_TITLE "Binary Images:"

typedef struct graph_search {
  memgraph_t *graph;
  image_list_t listed, described; /* by text; by dictionaries */
  plist_t objects;                /* of the archive that is searched; NULL: not an archive */
  uint64_t unpacked, nodes_left;
  uint32_t packed;
  unsigned lists; /* around the current one */
  bool no_memory;
} graph_search_t;

static void search_list(graph_search_t *search, memgraph_bytes_t list);

/* ---- values of a dictionary ----------------------------------------------------------------- */

static plist_t follow(const graph_search_t *search, plist_t node) {
  uint64_t number;
  if (plist_get_node_type(node) != PLIST_UID || !search->objects) return node;
  plist_get_uid_val(node, &number);
  if (number >= plist_array_get_size(search->objects)) return NULL;
  return plist_array_get_item(search->objects, (uint32_t)number);
}

static const char *string_of(plist_t node, uint64_t *size) {
  return node && plist_get_node_type(node) == PLIST_STRING ? plist_get_string_ptr(node, size)
                                                           : NULL;
}

/* The value of KEY in an archived dictionary, which has its keys and values in two arrays. */
static plist_t archived_member(const graph_search_t *search, plist_t dictionary, const char *key) {
  plist_t keys = plist_dict_get_item(dictionary, "NS.keys");
  plist_t values = plist_dict_get_item(dictionary, "NS.objects");
  if (!keys || !values || plist_get_node_type(keys) != PLIST_ARRAY ||
      plist_get_node_type(values) != PLIST_ARRAY)
    return NULL;
  uint32_t count = plist_array_get_size(keys), other = plist_array_get_size(values);
  for (uint32_t i = 0; i < count && i < other && i < 256; i++) {
    uint64_t size;
    const char *name = string_of(follow(search, plist_array_get_item(keys, i)), &size);
    if (name && !strcmp(name, key)) return follow(search, plist_array_get_item(values, i));
  }
  return NULL;
}

/* The value of the first of KEYS (words, each followed by a space) that DICTIONARY has. */
static plist_t member(const graph_search_t *search, plist_t dictionary, const char *keys) {
  for (const char *space; (space = strchr(keys, ' ')) != NULL; keys = space + 1) {
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)(space - keys), keys);
    plist_t found = plist_dict_get_item(dictionary, key);
    found = found ? follow(search, found) : archived_member(search, dictionary, key);
    if (found) return found;
  }
  return NULL;
}

static const char *text_member(const graph_search_t *search, plist_t dictionary, const char *keys) {
  uint64_t size;
  return string_of(member(search, dictionary, keys), &size);
}

static uint64_t number_member(const graph_search_t *search, plist_t dictionary, const char *keys) {
  plist_t found = member(search, dictionary, keys);
  uint64_t value = 0, size;
  if (found && plist_get_node_type(found) == PLIST_UINT) plist_get_uint_val(found, &value);
  const char *text = string_of(found, &size);
  if (text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
    value = strtoull(text + 2, NULL, 16);
  return value;
}

/* A UUID as text, as 16 bytes, or as an archived NSUUID. */
static const char *uuid_member(const graph_search_t *search, plist_t dictionary, char out[33]) {
  plist_t found = member(search, dictionary, "uuid UUID imageUUID ");
  uint64_t size = 0;
  if (found && plist_get_node_type(found) == PLIST_DICT)
    found = plist_dict_get_item(found, "NS.uuidbytes");
  if (!found) return NULL;
  if (plist_get_node_type(found) != PLIST_DATA) return string_of(found, &size);
  const char *bytes = plist_get_data_ptr(found, &size);
  if (!bytes || size != 16) return NULL;
  for (unsigned i = 0; i < 16; i++)
    snprintf(out + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
  return out;
}

/* ---- the wanted parts --------------------------------------------------------------------- */

/* Replaces control characters and invalid UTF-8 by '?': the text is printed to a terminal. */
static void make_printable(char *text) {
  for (size_t n; *text; text += n ? n : 1) {
    n = utf8_length((const unsigned char *)text);
    if (n == 0 || (unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
  }
}

static void search_dictionary(graph_search_t *search, plist_t dictionary) {
  char uuid[33];
  memgraph_t *graph = search->graph;
  const char *process = text_member(search, dictionary, "processName ");
  if (process && !graph->name[0]) {
    graph->pid = number_member(search, dictionary, "pid ");
    snprintf(graph->name, sizeof graph->name, "%s", process);
    make_printable(graph->name);
  }
  const image_words_t words = {
      .start = number_member(search, dictionary,
                             "base address loadAddress load_address imageAddress startAddress "),
      .size = number_member(search, dictionary, "size imageSize "),
      .path = text_member(search, dictionary, "path imagePath binaryPath "),
      .uuid = uuid_member(search, dictionary, uuid),
      .arch = text_member(search, dictionary, "arch architecture ")};
  if (words.path && words.path[0] == '/' && !images_add(&search->described, &words))
    search->no_memory = true;
}

/* Returns whether the images added from index FROM on are a list: one has an end and a UUID. */
static bool is_list(const image_list_t *list, size_t from) {
  for (size_t i = from; i < list->count; i++)
    if (list->items[i].has_uuid && list->items[i].end) return true;
  return false;
}

static void search_text(graph_search_t *search, const char *text, uint64_t size) {
  image_list_t *list = &search->listed;
  size_t title = strlen(IMAGES_TITLE), before = list->count;
  const char *at = memmem(text, (size_t)size, IMAGES_TITLE, title);
  if (!at && !memmem(text, (size_t)size, "0x", 2)) return;
  const char *from = at ? at + title : text;
  if (!images_add_text(list, from, (size_t)(text + size - from))) search->no_memory = true;
  if (at || is_list(list, before)) return;
  while (list->count > before)
    free(list->items[--list->count].path);
}

/* Returns whether BYTES are the graph's table; then the graph owns them. */
static bool adopt_table(memgraph_t *graph, uint8_t *bytes, uint64_t size) {
  apple_table_t table;
  const char *wrong = apple_table_read(&table, bytes, size);
  if (graph->table.nodes) return false;
  graph->table_wrong = wrong;
  if (wrong) return false;
  graph->table = table;
  graph->table_bytes = bytes;
  return true;
}

/* ---- entries ------------------------------------------------------------------------------ */

static bool starts_with(memgraph_bytes_t bytes, const char *with) {
  return bytes.size >= strlen(with) && !memcmp(bytes.data, with, strlen(with));
}

/* Accepts lists, tables and texts; texts contain no zeros. */
static bool is_wanted(memgraph_bytes_t beginning) {
  return plist_is(beginning.data, beginning.size) || starts_with(beginning, TABLE_MAGIC) ||
         !memchr(beginning.data, 0, (size_t)beginning.size);
}

/* Returns whether the graph keeps BYTES as its table. */
static bool search_bytes(graph_search_t *search, uint8_t *bytes, uint64_t size) {
  memgraph_bytes_t all = {bytes, size};
  if (starts_with(all, TABLE_MAGIC)) return adopt_table(search->graph, bytes, size);
  if (plist_is(bytes, size))
    search_list(search, all);
  else
    search_text(search, (const char *)bytes, size);
  return false;
}

static void search_copy(graph_search_t *search, memgraph_bytes_t entry, uint64_t size,
                        bool is_packed) {
  uint8_t *copy = NULL;
  search->unpacked += size;
  if (search->unpacked <= UNPACKED_MAX) copy = malloc((size_t)size);
  if (!copy) {
    search->graph->damaged++;
    return;
  }
  bool good = true;
  if (is_packed)
    good = memgraph_unpack(entry, copy, size);
  else
    memcpy(copy, entry.data, (size_t)size);
  search->graph->damaged += !good;
  if (!good || !search_bytes(search, copy, size)) free(copy);
}

static void search_data(graph_search_t *search, memgraph_bytes_t entry) {
  uint8_t beginning[PEEK];
  uint64_t size, peek;
  packing_t packing = memgraph_packing(entry);
  switch (packing) {
  case PACKED_NOT:
    peek = entry.size < PEEK ? entry.size : PEEK;
    if (peek >= 8 && is_wanted((memgraph_bytes_t){entry.data, peek}))
      search_copy(search, entry, entry.size, false);
    return;
  case PACKED_LZFSE: search->graph->lzfse++; return;
  case PACKED_DAMAGED: search->graph->damaged++; return;
  case PACKED_STORED:
  case PACKED_GZIP: break;
  }
  if (++search->packed > PACKED_MAX) {
    search->graph->damaged++;
    return;
  }
  size = memgraph_unpacked_size(entry);
  peek = size < PEEK ? size : PEEK;
  if (!memgraph_unpack(entry, beginning, peek))
    search->graph->damaged++;
  else if (is_wanted((memgraph_bytes_t){beginning, peek}))
    search_copy(search, entry, size, true);
}

/* ---- a list ------------------------------------------------------------------------------- */

static void search_node(graph_search_t *search, plist_t node);

static void search_members(graph_search_t *search, plist_t node, bool is_array) {
  void *iterator = NULL;
  plist_t child = NULL;
  if (is_array)
    plist_array_new_iter(node, &iterator);
  else
    plist_dict_new_iter(node, &iterator);
  while (iterator) {
    if (is_array)
      plist_array_next_item(node, iterator, &child);
    else
      plist_dict_next_item(node, iterator, NULL, &child);
    if (!child) break;
    search_node(search, child);
  }
  free(iterator);
}

/* plist_check bounds the depth. */
static void search_node(graph_search_t *search, plist_t node) {
  uint64_t size = 0;
  const char *bytes;
  switch (plist_get_node_type(node)) {
  case PLIST_DICT:
    search_dictionary(search, node);
    search_members(search, node, false);
    return;
  case PLIST_ARRAY: search_members(search, node, true); return;
  case PLIST_STRING:
    bytes = plist_get_string_ptr(node, &size);
    if (bytes) search_text(search, bytes, size);
    return;
  case PLIST_DATA:
    bytes = plist_get_data_ptr(node, &size);
    if (bytes && size) search_data(search, (memgraph_bytes_t){(const uint8_t *)bytes, size});
    return;
  default: return;
  }
}

static plist_t parse(graph_search_t *search, memgraph_bytes_t list, const char **wrong) {
  plist_t root = NULL;
  *wrong = plist_check(list.data, list.size, &search->nodes_left);
  if (*wrong) return NULL;
  if (starts_with(list, "bplist00"))
    plist_from_bin((const char *)list.data, (uint32_t)list.size, &root);
  else
    plist_from_xml((const char *)list.data, (uint32_t)list.size, &root);
  if (!root) *wrong = "the property list is damaged or truncated";
  return root;
}

static void search_root(graph_search_t *search, plist_t root) {
  plist_t around = search->objects, objects = NULL;
  if (plist_get_node_type(root) == PLIST_DICT) objects = plist_dict_get_item(root, "$objects");
  search->objects = objects && plist_get_node_type(objects) == PLIST_ARRAY ? objects : NULL;
  search->lists++;
  search_node(search, root);
  search->lists--;
  search->objects = around;
}

/* Searches a list in an entry of another list. */
static void search_list(graph_search_t *search, memgraph_bytes_t list) {
  const char *wrong = NULL;
  plist_t root = search->lists < LISTS_DEEP ? parse(search, list, &wrong) : NULL;
  if (!root) search->graph->damaged++;
  if (root) search_root(search, root);
  plist_free(root);
}

/* ---- the graph ---------------------------------------------------------------------------- */

bool memgraph_is(const uint8_t *data, uint64_t size) {
  memgraph_bytes_t list, log;
  return memgraph_unwrap(data, size, &list, &log) || (size >= 8 && !memcmp(data, "MEMGRAPH", 8));
}

const char *memgraph_read(memgraph_t *graph, const uint8_t *data, uint64_t size) {
  graph_search_t search = {.graph = graph, .nodes_left = NODES_MAX};
  memgraph_bytes_t list, log;
  const char *wrong;
  *graph = (memgraph_t){0};
  if (!memgraph_unwrap(data, size, &list, &log))
    return "the container of the graph is damaged, or of an unknown version";
  graph->log = log.size ? log.data : NULL;
  graph->log_size = log.size;
  plist_t root = parse(&search, list, &wrong);
  if (!root) return wrong;
  search_root(&search, root);
  plist_free(root);
  /* A list of images is better than dictionaries that happen to have an address and a path. */
  image_list_t *better = search.listed.count ? &search.listed : &search.described;
  graph->images = *better;
  *better = (image_list_t){0};
  images_finish(&graph->images);
  images_free(&search.listed);
  images_free(&search.described);
  return search.no_memory ? "out of memory" : NULL;
}

void memgraph_free(memgraph_t *graph) {
  images_free(&graph->images);
  free(graph->table_bytes);
  *graph = (memgraph_t){0};
}
