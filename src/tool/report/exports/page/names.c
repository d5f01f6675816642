/* SPDX-License-Identifier: MIT */
#include "report/exports/page/names.h"

#include <stdlib.h>
#include <string.h>

#include "report/own_code.h"
#include "symbol/short_name.h"

/* As the sections count functions (report/functions.c), so that a page shows the same figures. */
enum { DEPTH_MAX = 4096 };

/* ---- texts -------------------------------------------------------------------------------- */

static uint64_t hash_of_text(const void *names, size_t i) {
  return hash_text(HASH_START, ((const page_names_t *)names)->texts.items[i]);
}

uint32_t page_text(page_names_t *n, const char *text) {
  uint32_t *slot;
  if (!text) text = "";
  if (n->failed || !hash_reserve(&n->text_index, n->texts.count, hash_of_text, n)) goto no_memory;
  HASH_FIND(&n->text_index, hash_text(HASH_START, text), slot) {
    if (!strcmp(n->texts.items[*slot - 1], text)) return *slot - 1;
  }
  char *copy = strdup(text), **item = copy ? ARRAY_ADD(n->texts) : NULL;
  if (item) {
    *item = copy;
    *slot = (uint32_t)n->texts.count;
    return *slot - 1;
  }
  free(copy);
no_memory:
  n->failed = true;
  return 0;
}

/* ---- frames ------------------------------------------------------------------------------- */

static uint64_t hash_of_page_frame(const page_frame_t *f) {
  return hash_pair(hash_pair((uint64_t)f->function << 32 | f->file, f->library),
                   (uint64_t)f->line << 32 | f->flags);
}

static uint64_t hash_of_frame(const void *names, size_t i) {
  return hash_of_page_frame(&((const page_names_t *)names)->frames.items[i]);
}

static bool is_same_frame(const page_frame_t *a, const page_frame_t *b) {
  return a->function == b->function && a->file == b->file && a->library == b->library &&
         a->line == b->line && a->flags == b->flags;
}

static uint32_t add_frame(page_names_t *n, const page_frame_t *frame) {
  uint32_t *slot;
  page_frame_t *item = NULL;
  if (hash_reserve(&n->frame_index, n->frames.count, hash_of_frame, n)) {
    HASH_FIND(&n->frame_index, hash_of_page_frame(frame), slot) {
      if (is_same_frame(&n->frames.items[*slot - 1], frame)) return *slot - 1;
    }
    item = ARRAY_ADD(n->frames);
  }
  if (!item) {
    n->failed = true;
    return 0;
  }
  *item = *frame;
  *slot = (uint32_t)n->frames.count;
  return *slot - 1;
}

static uint32_t frame_of(page_names_t *n, const frame_name_t *name, uint32_t flags) {
  const page_frame_t frame = {
      .function = page_text(n, name->function),
      .file = page_text(n, name->file),
      .library = page_text(n, name->library),
      .line = name->line,
      .flags = (name->own ? PAGE_FRAME_OWN : 0u) | (name->system ? PAGE_FRAME_SYSTEM : 0u) |
               (name->inlined ? PAGE_FRAME_INLINED : 0u) | flags |
               (own_wraps_allocator(name->function) ? PAGE_FRAME_WRAPPER : 0u) |
               (name->known && !name->is_text ? PAGE_FRAME_NAME : 0u)};
  return add_frame(n, &frame);
}

uint32_t page_function(page_names_t *n, const frame_name_t *name) { return frame_of(n, name, 0); }

/* ---- stacks ------------------------------------------------------------------------------- */

static uint64_t hash_of_node(const void *names, size_t i) {
  const page_node_t *node = &((const page_names_t *)names)->nodes.items[i];
  return hash_pair(node->parent, node->frame);
}

uint32_t page_node(page_names_t *n, uint32_t parent, uint32_t frame) {
  uint32_t *slot;
  page_node_t *item = NULL;
  if (hash_reserve(&n->node_index, n->nodes.count, hash_of_node, n)) {
    HASH_FIND(&n->node_index, hash_pair(parent, frame), slot) {
      const page_node_t *there = &n->nodes.items[*slot - 1];
      if (there->parent == parent && there->frame == frame) return *slot - 1;
    }
    item = ARRAY_ADD(n->nodes);
  }
  if (!item) {
    n->failed = true;
    return 0;
  }
  *item = (page_node_t){parent, frame};
  *slot = (uint32_t)n->nodes.count;
  return *slot - 1;
}

/* The count of the frames of F, and after it the frames, the outermost first. Valid until the next
 * call. NULL: out of memory. */
static const uint32_t *expand(page_names_t *n, const record_frame_t *f) {
  size_t count;
  const record_frame_t *first = reader_frames(n->report->reader, &count);
  if (!n->expansions) n->expansions = calloc(count + 1, sizeof *n->expansions);
  if (!n->expansions) return NULL;
  uint32_t *at = &n->expansions[f - first];
  if (*at) return &n->expanded.items[*at - 1];
  const frame_name_t *names;
  int functions = frame_names_of_frame(n->report->names, f, &names);
  uint32_t *item = ARRAY_ADD(n->expanded);
  if (!item) return NULL;
  *item = (uint32_t)functions;
  size_t begin = n->expanded.count;
  uint32_t flags = (frame_names_is_marker(f) ? PAGE_FRAME_MARKER : 0u) |
                   (reader_is_interpreted(f) ? PAGE_FRAME_INTERPRETED : 0u);
  for (int k = functions - 1; k >= 0; k--) {
    if (!(item = ARRAY_ADD(n->expanded))) return NULL;
    *item = frame_of(n, &names[k], flags);
  }
  *at = (uint32_t)begin;
  return &n->expanded.items[begin - 1];
}

/* From the thread's first function to the innermost. */
static uint32_t make_stack(page_names_t *n, uint32_t id) {
  const record_frame_t *frames[DEPTH_MAX];
  uint32_t node = 0;
  int depth = frame_names_frames(n->report->names, id, frames, DEPTH_MAX);
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  while (depth-- > 0) {
    const uint32_t *expanded = expand(n, frames[depth]);
    if (!expanded) n->failed = true;
    for (uint32_t k = 1; expanded && k <= expanded[0]; k++)
      node = page_node(n, node, expanded[k]);
  }
  return node;
}

uint32_t page_stack(page_names_t *n, uint32_t id) {
  if (!id || n->failed) return 0;
  uint32_t known = ids_find(&n->stack_ids, id);
  if (known) return known - 1;
  uint32_t node = make_stack(n, id);
  if (!ids_set(&n->stack_ids, id, node)) n->failed = true;
  return n->failed ? 0 : node;
}

void page_names_start(page_names_t *n) {
  const page_frame_t none = {0};
  (void)reader_nodes(n->report->reader, &n->stack_ids.expected);
  (void)page_text(n, "");
  (void)add_frame(n, &none);
  (void)page_node(n, 0, 0);
}

void page_names_free(page_names_t *n) {
  for (size_t i = 0; i < n->texts.count; i++)
    free(n->texts.items[i]);
  free(n->texts.items);
  free(n->functions.items);
  free(n->frames.items);
  free(n->nodes.items);
  hash_free(&n->text_index);
  hash_free(&n->frame_index);
  hash_free(&n->node_index);
  ids_free(&n->stack_ids);
  free(n->expansions);
  free(n->expanded.items);
}

/* ---- functions ---------------------------------------------------------------------------- */

void page_function_name(page_names_t *n, const char *name) {
  uint32_t *item = ARRAY_ADD(n->functions);
  if (item)
    *item = page_text(n, name);
  else
    n->failed = true;
}

/* As frame_name_compare: the text that tells functions of one name apart. */
static uint32_t home_of(const page_frame_t *f) { return f->library ? f->library : f->file; }

static uint64_t hash_of_function(const page_frame_t *f) {
  return hash_pair(f->function, home_of(f));
}

uint32_t *page_functions(const page_names_t *n) {
  size_t count = n->frames.count;
  const page_frame_t *frames = n->frames.items;
  hash_index_t index = {.mask = 127};
  while (index.mask < 2 * count)
    index.mask = 2 * index.mask + 1;
  index.slots = calloc(index.mask + 1, sizeof *index.slots);
  uint32_t *first = index.slots ? calloc(count + 1, sizeof *first) : NULL;
  for (size_t i = 0; first && i < count; i++) {
    uint32_t *slot;
    HASH_FIND(&index, hash_of_function(&frames[i]), slot) {
      const page_frame_t *there = &frames[*slot - 1];
      if (there->function == frames[i].function && home_of(there) == home_of(&frames[i])) break;
    }
    if (!*slot) *slot = (uint32_t)i + 1;
    first[i] = *slot - 1;
  }
  hash_free(&index);
  return first;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_name(const char *name, char *text, size_t size, page_stream_t *out) {
  short_name(name, PAGE_NAME_COLUMNS, text, size);
  bool differs = strcmp(name, text) != 0;
  if (differs) page_put(out, "[");
  page_put_json(out, name);
  if (!differs) return;
  page_put(out, ",");
  page_put_json(out, text);
  page_put(out, "]");
}

/* By text: whether it is the name of a function. NULL: out of memory. */
static bool *find_names(const page_names_t *n) {
  bool *is_name = calloc(n->texts.count + 1, sizeof *is_name);
  for (size_t i = 0; is_name && i < n->frames.count; i++)
    if (n->frames.items[i].flags & PAGE_FRAME_NAME) is_name[n->frames.items[i].function] = true;
  for (size_t i = 0; is_name && i < n->functions.count; i++)
    is_name[n->functions.items[i]] = true;
  return is_name;
}

static void write_texts(page_names_t *n, page_stream_t *out) {
  size_t longest = 0;
  bool *is_name = find_names(n);
  for (size_t i = 0; is_name && i < n->texts.count; i++) {
    size_t size = is_name[i] ? SHORT_NAME_SIZE(strlen(n->texts.items[i])) : 0;
    if (size > longest) longest = size;
  }
  char *text = malloc(longest + 1);
  n->failed |= !is_name || !text;
  page_put(out, "\"strings\":[");
  for (size_t i = 0; i < n->texts.count && !n->failed; i++) {
    if (i) page_put(out, ",");
    if (is_name[i])
      write_name(n->texts.items[i], text, longest, out);
    else
      page_put_json(out, n->texts.items[i]);
  }
  page_put(out, "]");
  free(is_name);
  free(text);
}

/* NAME and the COLUMN of COUNT records of SIZE bytes at ITEMS; OFFSET is that of the column. */
static void write_column(page_stream_t *out, const char *name, const void *items, size_t count,
                         size_t size, size_t offset) {
  page_put(out, name);
  for (size_t i = 0; i < count; i++) {
    uint32_t value;
    memcpy(&value, (const char *)items + i * size + offset, sizeof value);
    if (i) page_put(out, ",");
    page_put_number(out, value);
  }
  page_put(out, "]");
}

#define COLUMN(out, name, array, type, field)                                                      \
  write_column(out, name, (array).items, (array).count, sizeof(type), offsetof(type, field))

void page_names_write(page_names_t *n, page_stream_t *out) {
  write_texts(n, out);
  COLUMN(out, ",\"frames\":{\"function\":[", n->frames, page_frame_t, function);
  COLUMN(out, ",\"file\":[", n->frames, page_frame_t, file);
  COLUMN(out, ",\"line\":[", n->frames, page_frame_t, line);
  COLUMN(out, ",\"library\":[", n->frames, page_frame_t, library);
  COLUMN(out, ",\"flags\":[", n->frames, page_frame_t, flags);
  COLUMN(out, "},\"stacks\":{\"parent\":[", n->nodes, page_node_t, parent);
  COLUMN(out, ",\"frame\":[", n->nodes, page_node_t, frame);
  page_put(out, "}");
}
