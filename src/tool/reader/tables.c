/* SPDX-License-Identifier: MIT
 *
 * Reads the tables of a recording: process, images, threads, frames, stack nodes. A malformed
 * record is counted and its chunk skipped; a record of an unknown type is kept uninterpreted.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/body.h"
#include "reader/generated_name.h"
#include "reader/internal.h"
#include "base/language.h"
#include "sonde/status.h"

/* ---- ids ---------------------------------------------------------------------------------- */

/* The index of ID, or SIZE_MAX. */
static inline size_t find_id(const ids_t *ids, uint32_t id) {
  uint32_t number = ids_find(ids, id);
  return number ? number - 1 : SIZE_MAX;
}

/* Item I has ID. It replaces an item with the same id. */
static int add_id(ids_t *ids, uint32_t id, size_t i) {
  return ids_set(ids, id, (uint32_t)i) ? 0 : SONDE_ENOMEM;
}

/* ---- records ------------------------------------------------------------------------------ */

static uint32_t get_id(body_t *b) {
  uint64_t value = body_number(b);
  if (value > UINT32_MAX) b->truncated = true;
  return (uint32_t)value;
}

void *reader_keep(reader_t *r, const void *data, uint64_t n) {
  text_block_t *block = malloc(sizeof *block + n + 1);
  if (!block) return NULL;
  memcpy(block->text, data, n);
  block->text[n] = 0;
  block->next = r->texts;
  r->texts = block;
  return block->text;
}

/* Reads and copies a string of the record; "" if it is truncated. */
static const char *get_text(reader_t *r, body_t *b, uint32_t *size) {
  uint64_t n;
  const uint8_t *from = body_string(b, &n);
  const char *text = b->truncated ? NULL : reader_keep(r, from, n);
  if (!text) {
    b->truncated = true;
    return "";
  }
  if (size) *size = (uint32_t)n;
  return text;
}

static int read_process(reader_t *r, body_t *b) {
  (void)body_number(b); /* the pid, which the header has too */
  if (r->arguments.count) return 0;
  while (b->p < b->end && !b->truncated) {
    const char **argument = ARRAY_ADD(r->arguments);
    if (!argument) return SONDE_ENOMEM;
    *argument = get_text(r, b, NULL);
  }
  return 0;
}

static bool is_agent(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return !strcmp(name, "libsonde-agent.so") || !strcmp(name, "libsonde-attached.so") ||
         !strcmp(name, "libsonde-dormant.so");
}

static int read_image(reader_t *r, body_t *b) {
  record_image_t i = {0};
  i.id = get_id(b);
  i.time = body_number(b);
  i.start = body_number(b);
  i.end = body_number(b);
  i.slide = body_number(b);
  i.build_id = (const uint8_t *)get_text(r, b, &i.build_id_size);
  i.path = get_text(r, b, NULL);
  if (b->truncated) return 0;
  record_image_t *item = ARRAY_ADD(r->images);
  if (!item) return SONDE_ENOMEM;
  *item = i;
  if (is_agent(i.path)) r->agent = i.id;
  return add_id(&r->image_ids, item->id, r->images.count - 1);
}

static void read_unloaded(reader_t *r, body_t *b) {
  uint32_t id = get_id(b);
  uint64_t time = body_number(b);
  size_t i = find_id(&r->image_ids, id);
  if (!b->truncated && i != SIZE_MAX) r->images.items[i].unloaded_time = time;
}

static int read_thread(reader_t *r, body_t *b) {
  record_thread_t t = {0};
  t.stream = get_id(b);
  t.tid = get_id(b);
  t.time = body_number(b);
  t.level = get_id(b);
  t.name = get_text(r, b, NULL);
  if (b->truncated) return 0;
  size_t known = find_id(&r->thread_ids, t.stream);
  if (known != SIZE_MAX) {
    record_thread_t *before = &r->threads.items[known];
    if (t.time >= before->time) *before = t;
    return 0;
  }
  record_thread_t *item = ARRAY_ADD(r->threads);
  if (!item) return SONDE_ENOMEM;
  *item = t;
  return add_id(&r->thread_ids, item->stream, r->threads.count - 1);
}

static int read_frame(reader_t *r, body_t *b) {
  record_frame_t f = {0};
  f.id = get_id(b);
  f.pc = body_number(b);
  f.image = get_id(b);
  f.flags = get_id(b);
  if (b->truncated) return 0;
  record_frame_t *item = ARRAY_ADD(r->frames);
  if (!item) return SONDE_ENOMEM;
  *item = f;
  return add_id(&r->frame_ids, item->id, r->frames.count - 1);
}

static int read_node(reader_t *r, body_t *b) {
  record_node_t n = {0};
  n.id = get_id(b);
  n.parent = get_id(b);
  n.frame = get_id(b);
  if (b->truncated) return 0;
  return reader_put_node(r, n);
}

static int read_chain(reader_t *r, body_t *b) {
  record_chain_t n = {0};
  n.id = get_id(b);
  n.parent = get_id(b);
  n.frame = get_id(b);
  n.flags = get_id(b);
  if (b->truncated) return 0;
  record_chain_t *item = ARRAY_ADD(r->chain_nodes);
  if (!item) return SONDE_ENOMEM;
  *item = n;
  return add_id(&r->chain_ids, item->id, r->chain_nodes.count - 1);
}

static int read_merged(reader_t *r, body_t *b) {
  merged_stack_t s = {0};
  s.id = get_id(b);
  s.native = get_id(b);
  s.chain = get_id(b);
  if (b->truncated) return 0;
  merged_stack_t *item = ARRAY_ADD(r->merged_stacks);
  if (!item) return SONDE_ENOMEM;
  *item = s;
  return 0;
}

static int read_python_call(reader_t *r, body_t *b) {
  uint32_t frame = get_id(b);
  if (b->truncated) return 0;
  uint32_t *item = ARRAY_ADD(r->python_calls);
  if (!item) return SONDE_ENOMEM;
  *item = frame;
  return 0;
}

static int read_sensor_record(reader_t *r, uint8_t type, const body_t *b) {
  uint32_t size = (uint32_t)(b->end - b->p);
  const char *body = reader_keep(r, b->p, size);
  sensor_record_t *item = body ? ARRAY_ADD(r->sensor_records) : NULL;
  if (!item) return SONDE_ENOMEM;
  *item = (sensor_record_t){.type = type, .body = (const uint8_t *)body, .size = size};
  return 0;
}

static int read_named(reader_t *r, body_t *b) {
  frame_text_t t = {.frame = get_id(b)};
  t.text = get_text(r, b, NULL);
  if (b->truncated) return 0;
  frame_text_t *item = ARRAY_ADD(r->frame_texts);
  if (!item) return SONDE_ENOMEM;
  *item = t;
  return 0;
}

/* The limit of functions at one frame; a hostile file has at most one for each of its bytes. */
enum { FUNCTIONS_MAX = 4096 };

static int read_functions(reader_t *r, body_t *b) {
  frame_functions_t f = {.frame = get_id(b), .first = r->functions.count};
  while (b->p < b->end && !b->truncated && f.count < FUNCTIONS_MAX) {
    record_function_t function = {0};
    function.inlined = body_number(b) & FUNCTION_INLINED;
    function.line = (uint32_t)body_number(b);
    function.name = get_text(r, b, NULL);
    function.file = get_text(r, b, NULL);
    record_function_t *item = b->truncated ? NULL : ARRAY_ADD(r->functions);
    if (b->truncated) return 0;
    if (!item) return SONDE_ENOMEM;
    *item = function;
    f.count++;
  }
  frame_functions_t *item = f.count ? ARRAY_ADD(r->frame_functions) : NULL;
  if (f.count && !item) return SONDE_ENOMEM;
  if (item) *item = f;
  return 0;
}

/* The function that a virtual machine's name of code stands for. */
static record_function_t get_generated(reader_t *r, body_t *b) {
  generated_name_t name;
  generated_name(get_text(r, b, NULL), &name);
  record_function_t function = {.name = reader_keep(r, name.function, name.function_size),
                                .file =
                                    name.file_size ? reader_keep(r, name.file, name.file_size) : "",
                                .line = name.line};
  if (!function.name || !function.file) b->truncated = true;
  return function;
}

static int read_code(reader_t *r, body_t *b) {
  record_code_t c = {0};
  c.address = body_number(b);
  c.size = body_number(b);
  c.earliest = body_number(b);
  c.latest = body_number(b);
  c.number = body_number(b);
  c.has_exact_time = body_number(b) & CODE_EXACT_TIME;
  c.function = get_generated(r, b);
  if (c.size == 0 || c.address + c.size < c.address) b->truncated = true;
  if (b->truncated) return 0;
  record_code_t *item = ARRAY_ADD(r->codes);
  if (!item) return SONDE_ENOMEM;
  *item = c;
  return 0;
}

static void read_tracer(reader_t *r, body_t *b) {
  double pair = (double)body_number(b) / 256, inside = (double)body_number(b) / 256;
  if (b->truncated || inside > pair) return;
  r->cost_pair = pair;
  r->cost_inside = inside;
}

/* A forked child has the record of its parent once more. */
static void read_call_limits(reader_t *r, body_t *b) {
  uint64_t least_ns = body_number(b), depth = body_number(b);
  if (b->truncated) return;
  r->least_call_ns = least_ns;
  r->call_depth = depth;
}

static void read_patched(reader_t *r, body_t *b) {
  uint64_t reason = body_number(b), count = body_number(b);
  if (!b->truncated && reason < MOVE_FAULT_COUNT) r->patched[reason] += count;
}

/* The header has the mode of the programs with the agent. */
static void read_outside(reader_t *r, body_t *b) {
  uint64_t mode = body_number(b);
  if (b->truncated) return;
  r->is_agentless = true;
  r->header.mode = (uint32_t)mode | RECORD_FROM_OUTSIDE;
}

/* A frame may follow its text and its functions in the file. */
static void assign_texts(reader_t *r) {
  for (size_t i = 0; i < r->frame_texts.count; i++) {
    size_t frame = find_id(&r->frame_ids, r->frame_texts.items[i].frame);
    if (frame != SIZE_MAX) r->frames.items[frame].text = r->frame_texts.items[i].text;
  }
  for (size_t i = 0; i < r->frame_functions.count; i++) {
    const frame_functions_t *f = &r->frame_functions.items[i];
    size_t frame = find_id(&r->frame_ids, f->frame);
    if (frame == SIZE_MAX) continue;
    r->frames.items[frame].functions = &r->functions.items[f->first];
    r->frames.items[frame].function_count = f->count;
  }
}

static int read_record(reader_t *r, uint8_t type, body_t *b) {
  switch (type) {
  case TABLE_PROCESS: return read_process(r, b);
  case TABLE_IMAGE: return read_image(r, b);
  case TABLE_UNLOADED: read_unloaded(r, b); return 0;
  case TABLE_THREAD: return read_thread(r, b);
  case TABLE_FRAME: return read_frame(r, b);
  case TABLE_NODE: return read_node(r, b);
  case TABLE_CHAIN: return read_chain(r, b);
  case TABLE_MERGED: return read_merged(r, b);
  case TABLE_PYTHON_CALL: return read_python_call(r, b);
  case TABLE_FRAME_NAME: return read_named(r, b);
  case TABLE_FUNCTIONS: return read_functions(r, b);
  case TABLE_CODE: return read_code(r, b);
  case TABLE_TRACER: read_tracer(r, b); return 0;
  case TABLE_CALL_LIMITS: read_call_limits(r, b); return 0;
  case TABLE_PATCHED: read_patched(r, b); return 0;
  case TABLE_OUTSIDE: read_outside(r, b); return 0;
  default: return read_sensor_record(r, type, b); /* of a sensor, or of a later version */
  }
}

static int read_chunk(reader_t *r, const chunk_buffer_t *buffer, const uint8_t *p,
                      const uint8_t *end) {
  while (p < end && chunk_has_record(buffer, p)) {
    uint8_t type = *p++;
    uint64_t size;
    if (!varint_get(&p, end, &size) || size > (uint64_t)(end - p)) {
      r->damage.bad_records++;
      return 0;
    }
    body_t b = {.p = p, .end = p + size};
    int status = read_record(r, type, &b);
    if (status < 0) return status;
    if (b.truncated) r->damage.bad_records++;
    p += size;
  }
  return 0;
}

static int read_place(reader_t *r, const chunk_place_t *place, chunk_buffer_t *buffer) {
  chunk_header_t h;
  const uint8_t *payload, *end;
  int status = 0;
  if (!reader_place(r, place, buffer)) return 0;
  while (status == 0 && reader_chunk(buffer, &h, &payload, &end))
    status = read_chunk(r, buffer, payload, end);
  return status;
}

/* A process has few interpreters; a hostile file may seem to have many. */
enum { INTERPRETERS_MAX = 16 };

/* Each writer has images of its own: those of an interpreter's file are interpreters, too. */
static void mark_same_files(reader_t *r) {
  const char *known[INTERPRETERS_MAX];
  size_t count = 0, k;
  for (size_t i = 0; i < r->images.count && count < INTERPRETERS_MAX; i++) {
    if (!r->images.items[i].is_interpreter) continue;
    for (k = 0; k < count && strcmp(known[k], r->images.items[i].path); k++)
      ;
    if (k == count) known[count++] = r->images.items[i].path;
  }
  for (size_t i = 0; i < r->images.count; i++)
    for (k = 0; k < count && !r->images.items[i].is_interpreter; k++)
      r->images.items[i].is_interpreter = !strcmp(known[k], r->images.items[i].path);
}

/* The first native frame further out than a frame of an interpreter is the interpreter's. */
static void find_interpreters(reader_t *r) {
  for (size_t i = 0; i < r->links.count; i++) {
    uint32_t outer = r->links.items[i].outer;
    const record_frame_t *f = outer && outer != LINK_MISSING ? reader_frame_of_node(r, i) : NULL;
    if (!f || !reader_is_interpreted(f)) continue;
    const record_frame_t *native = reader_frame_of_node(r, outer - 1);
    size_t image = native && native->image ? find_id(&r->image_ids, native->image) : SIZE_MAX;
    if (image != SIZE_MAX) r->images.items[image].is_interpreter = true;
  }
  mark_same_files(r);
}

static void count_missing(reader_t *r) {
  for (size_t i = 0; i < r->links.count; i++)
    if (r->links.items[i].outer == LINK_MISSING || !r->links.items[i].frame)
      r->damage.missing_definitions++;
}

int reader_tables(reader_t *r) {
  chunk_buffer_t buffer = {0};
  int status = 0;
  for (size_t i = 0; i < r->chunks.count && status == 0; i++)
    if (r->chunks.items[i].type == CHUNK_TABLES)
      status = read_place(r, &r->chunks.items[i], &buffer);
  free(buffer.bytes);
  assign_texts(r);
  if (status == 0) status = reader_merge_python(r);
  if (status == 0) status = reader_link_nodes(r);
  if (status < 0) return status;
  count_missing(r);
  find_interpreters(r);
  return 0;
}

/* ---- more items --------------------------------------------------------------------------- */

static uint64_t next_frame(const reader_t *r) {
  uint32_t highest = 0;
  for (size_t i = 0; i < r->frames.count; i++)
    if (r->frames.items[i].id > highest) highest = r->frames.items[i].id;
  return (uint64_t)highest + 1;
}

uint32_t reader_add_frame(reader_t *r, const record_frame_t *frame) {
  if (!r->next_frame) r->next_frame = next_frame(r);
  record_frame_t *item = r->next_frame <= UINT32_MAX ? ARRAY_ADD(r->frames) : NULL;
  if (!item) return 0;
  *item = *frame;
  item->id = (uint32_t)r->next_frame;
  if (add_id(&r->frame_ids, item->id, r->frames.count - 1) < 0) return 0;
  return (uint32_t)r->next_frame++;
}

/* ---- queries ------------------------------------------------------------------------------ */

const sensor_record_t *reader_sensor_records(const reader_t *r, size_t *count) {
  *count = r->sensor_records.count;
  return r->sensor_records.items;
}

const char *reader_argument(const reader_t *r, uint32_t index) {
  return index < r->arguments.count ? r->arguments.items[index] : NULL;
}

const record_image_t *reader_images(const reader_t *r, size_t *count) {
  *count = r->images.count;
  return r->images.items;
}

const record_thread_t *reader_threads(const reader_t *r, size_t *count) {
  *count = r->threads.count;
  return r->threads.items;
}

const record_node_t *reader_nodes(const reader_t *r, size_t *count) {
  *count = r->nodes.count;
  return r->nodes.items;
}

const record_chain_t *reader_chains(const reader_t *r, size_t *count) {
  *count = r->chain_nodes.count;
  return r->chain_nodes.items;
}

const uint32_t *reader_python_calls(const reader_t *r, size_t *count) {
  *count = r->python_calls.count;
  return r->python_calls.items;
}

const record_frame_t *reader_frames(const reader_t *r, size_t *count) {
  *count = r->frames.count;
  return r->frames.items;
}

const record_code_t *reader_codes(const reader_t *r, size_t *count) {
  *count = r->codes.count;
  return r->codes.items;
}

const record_image_t *reader_image(const reader_t *r, uint32_t id) {
  size_t i = find_id(&r->image_ids, id);
  return i == SIZE_MAX ? NULL : &r->images.items[i];
}

const record_thread_t *reader_thread(const reader_t *r, uint32_t stream) {
  size_t i = find_id(&r->thread_ids, stream);
  return i == SIZE_MAX ? NULL : &r->threads.items[i];
}

const record_frame_t *reader_frame(const reader_t *r, uint32_t id) {
  size_t i = find_id(&r->frame_ids, id);
  return i == SIZE_MAX ? NULL : &r->frames.items[i];
}

const record_node_t *reader_node(const reader_t *r, uint32_t id) {
  size_t i = find_id(&r->node_ids, id);
  return i == SIZE_MAX ? NULL : &r->nodes.items[i];
}

const record_chain_t *reader_chain_node(const reader_t *r, uint32_t id) {
  size_t i = find_id(&r->chain_ids, id);
  return i == SIZE_MAX ? NULL : &r->chain_nodes.items[i];
}

bool reader_is_agent(const reader_t *r, const record_frame_t *f) {
  return f->image && f->image == r->agent;
}

bool reader_is_interpreted(const record_frame_t *f) { return !f->image && language_of_pc(f->pc); }
