/* SPDX-License-Identifier: MIT
 *
 * The search through a memory graph's property lists. An archive (NSKeyedArchiver) is a flat array,
 * `$objects`, whose members name each other by number; every member is visited there, and a number
 * is followed only to read a value, once: circles in an archive lead nowhere. See memgraph.h.
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
#define PEEK         64u                 /* bytes that tell what an entry is */
#define TABLE_MAGIC  "MslUniquingTable"
#define IMAGES_TITLE "Binary Images:"

typedef struct search {
  memgraph_t *graph;
  image_list_t listed, described; /* by text; by dictionaries */
  plist_t objects;                /* of the archive that is searched; NULL: it is none */
  uint64_t unpacked, nodes_left;
  uint32_t packed;
  unsigned lists; /* that this one is in */
  bool no_memory;
} search_t;

static void search_list(search_t *search, bytes_t list);

/* ---- values of a dictionary ----------------------------------------------------------------- */

static plist_t follow(const search_t *search, plist_t node) {
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

/* An archived dictionary keeps its keys and its values in two arrays. */
static plist_t archived_member(const search_t *search, plist_t dictionary, const char *key) {
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

/* The first of KEYS, words with a space after each, that DICTIONARY has. */
static plist_t member(const search_t *search, plist_t dictionary, const char *keys) {
  for (const char *space; (space = strchr(keys, ' ')) != NULL; keys = space + 1) {
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)(space - keys), keys);
    plist_t found = plist_dict_get_item(dictionary, key);
    found = found ? follow(search, found) : archived_member(search, dictionary, key);
    if (found) return found;
  }
  return NULL;
}

static const char *text_member(const search_t *search, plist_t dictionary, const char *keys) {
  uint64_t size;
  return string_of(member(search, dictionary, keys), &size);
}

static uint64_t number_member(const search_t *search, plist_t dictionary, const char *keys) {
  plist_t found = member(search, dictionary, keys);
  uint64_t value = 0, size;
  if (found && plist_get_node_type(found) == PLIST_UINT) plist_get_uint_val(found, &value);
  const char *text = string_of(found, &size);
  if (text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
    value = strtoull(text + 2, NULL, 16);
  return value;
}

/* A UUID as text, as 16 bytes, or as an archived NSUUID. */
static const char *uuid_member(const search_t *search, plist_t dictionary, char out[33]) {
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

/* ---- what is looked for ------------------------------------------------------------------- */

/* Puts '?' for control characters and for what is no UTF-8: a terminal is shown the text. */
static void make_printable(char *text) {
  for (size_t n; *text; text += n ? n : 1) {
    n = utf8_length((const unsigned char *)text);
    if (n == 0 || (unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
  }
}

static void search_dictionary(search_t *search, plist_t dictionary) {
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

/* Lines with an end and a UUID are a list's also where nothing says so. */
static bool is_list(const image_list_t *list, size_t from) {
  for (size_t i = from; i < list->count; i++)
    if (list->items[i].has_uuid && list->items[i].end) return true;
  return false;
}

static void search_text(search_t *search, const char *text, uint64_t size) {
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

/* True when the table is taken; BYTES are then the graph's. */
static bool take_table(memgraph_t *graph, uint8_t *bytes, uint64_t size) {
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

static bool begins(bytes_t bytes, const char *with) {
  return bytes.size >= strlen(with) && !memcmp(bytes.data, with, strlen(with));
}

/* Text has no zeros. */
static bool is_wanted(bytes_t beginning) {
  return plist_is(beginning.data, beginning.size) || begins(beginning, TABLE_MAGIC) ||
         !memchr(beginning.data, 0, (size_t)beginning.size);
}

/* True: the bytes are kept, as the graph's table. */
static bool search_bytes(search_t *search, uint8_t *bytes, uint64_t size) {
  bytes_t whole = {bytes, size};
  if (begins(whole, TABLE_MAGIC)) return take_table(search->graph, bytes, size);
  if (plist_is(bytes, size))
    search_list(search, whole);
  else
    search_text(search, (const char *)bytes, size);
  return false;
}

static void search_copy(search_t *search, bytes_t entry, uint64_t size, bool is_packed) {
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

static void search_data(search_t *search, bytes_t entry) {
  uint8_t beginning[PEEK];
  uint64_t size, peek;
  packing_t packing = memgraph_packing(entry);
  switch (packing) {
  case PACKED_NOT:
    peek = entry.size < PEEK ? entry.size : PEEK;
    if (peek >= 8 && is_wanted((bytes_t){entry.data, peek}))
      search_copy(search, entry, entry.size, false);
    return;
  case PACKED_LZFSE: search->graph->foreign++; return;
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
  else if (is_wanted((bytes_t){beginning, peek}))
    search_copy(search, entry, size, true);
}

/* ---- a list ------------------------------------------------------------------------------- */

static void search_node(search_t *search, plist_t node);

static void search_members(search_t *search, plist_t node, bool is_array) {
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

/* As deep as plist_check lets lists be. */
static void search_node(search_t *search, plist_t node) {
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
    if (bytes && size) search_data(search, (bytes_t){(const uint8_t *)bytes, size});
    return;
  default: return;
  }
}

static plist_t parse(search_t *search, bytes_t list, const char **wrong) {
  plist_t root = NULL;
  *wrong = plist_check(list.data, list.size, &search->nodes_left);
  if (*wrong) return NULL;
  if (begins(list, "bplist00"))
    plist_from_bin((const char *)list.data, (uint32_t)list.size, &root);
  else
    plist_from_xml((const char *)list.data, (uint32_t)list.size, &root);
  if (!root) *wrong = "the property list is damaged or cut off";
  return root;
}

static void search_root(search_t *search, plist_t root) {
  plist_t around = search->objects, objects = NULL;
  if (plist_get_node_type(root) == PLIST_DICT) objects = plist_dict_get_item(root, "$objects");
  search->objects = objects && plist_get_node_type(objects) == PLIST_ARRAY ? objects : NULL;
  search->lists++;
  search_node(search, root);
  search->lists--;
  search->objects = around;
}

/* A list in an entry of another. */
static void search_list(search_t *search, bytes_t list) {
  const char *wrong = NULL;
  plist_t root = search->lists < LISTS_DEEP ? parse(search, list, &wrong) : NULL;
  if (!root) search->graph->damaged++;
  if (root) search_root(search, root);
  plist_free(root);
}

/* ---- the graph ---------------------------------------------------------------------------- */

bool memgraph_is(const uint8_t *data, uint64_t size) {
  bytes_t list, log;
  return memgraph_unwrap(data, size, &list, &log) || (size >= 8 && !memcmp(data, "MEMGRAPH", 8));
}

const char *memgraph_read(memgraph_t *graph, const uint8_t *data, uint64_t size) {
  search_t search = {.graph = graph, .nodes_left = NODES_MAX};
  bytes_t list, log;
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
  /* A list that is one is better than what dictionaries happen to have. */
  image_list_t *better = search.listed.count ? &search.listed : &search.described;
  graph->images = *better;
  *better = (image_list_t){0};
  images_settle(&graph->images);
  images_free(&search.listed);
  images_free(&search.described);
  return search.no_memory ? "there is no memory for it" : NULL;
}

void memgraph_free(memgraph_t *graph) {
  images_free(&graph->images);
  free(graph->table_bytes);
  *graph = (memgraph_t){0};
}
