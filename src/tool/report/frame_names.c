/* SPDX-License-Identifier: MIT */
#include "report/frame_names.h"

#include <inttypes.h>
#include <stdlib.h>

#include "image/path.h"
#include "symbol/symbol.h"

typedef struct answer {
  frame_name_t *names;
  int count;
} answer_t;

typedef struct module {
  symbol_module_t *symbols;
  const char *library;
  bool asked, system;
} module_t;

struct names {
  const reader_t *reader;
  symbolizer_t *symbolizer;
  const record_frame_t *frames;
  const record_image_t *images;
  answer_t *answers; /* one a frame of the recording */
  module_t *modules; /* one an image */
  size_t frame_count, image_count;
};

frame_names_t *frame_names_new(const reader_t *reader) {
  frame_names_t *n = calloc(1, sizeof *n);
  if (!n) return NULL;
  n->reader = reader;
  n->frames = reader_frames(reader, &n->frame_count);
  n->images = reader_images(reader, &n->image_count);
  n->answers = calloc(n->frame_count + 1, sizeof *n->answers);
  n->modules = calloc(n->image_count + 1, sizeof *n->modules);
  symbol_options_t options = {0};
  n->symbolizer = symbolizer_new(&options);
  if (n->answers && n->modules && n->symbolizer) return n;
  frame_names_free(n);
  return NULL;
}

void frame_names_free(frame_names_t *n) {
  if (!n) return;
  for (size_t i = 0; n->answers && i < n->frame_count; i++) {
    for (int k = 0; k < n->answers[i].count; k++)
      if (!n->answers[i].names[k].known) free((char *)(uintptr_t)n->answers[i].names[k].function);
    free(n->answers[i].names);
  }
  free(n->answers);
  free(n->modules);
  if (n->symbolizer) symbolizer_free(n->symbolizer);
  free(n);
}

bool frame_names_is_marker(const record_frame_t *f) {
  return !f->image && (f->pc == FRAME_PC_BROKEN || f->pc == FRAME_PC_TRUNCATED);
}

static module_t *module_of(frame_names_t *n, const record_image_t *image) {
  module_t *m = &n->modules[image - n->images];
  if (m->asked) return m;
  m->asked = true;
  const char *slash = strrchr(image->path, '/');
  m->library = slash ? slash + 1 : image->path;
  const char *program = reader_argument(n->reader, 0);
  m->system = !(program && !strcmp(program, image->path)) && path_is_system(image->path);
  symbol_source_t source = {.path = image->path,
                            .build_id = image->build_id_size ? image->build_id : NULL,
                            .build_id_size = image->build_id_size};
  m->symbols = symbolizer_module(n->symbolizer, &source);
  return m;
}

/* "libfoo.so+0x12", "0x12", or a marker's text; freed by frame_names_free. */
static char *text_without_name(const record_frame_t *f, const module_t *m, uint64_t address) {
  char text[320];
  if (frame_names_is_marker(f))
    snprintf(text, sizeof text,
             f->pc == FRAME_PC_BROKEN ? "[the outer frames could not be found]"
                                      : "[frames left out]");
  else if (m)
    snprintf(text, sizeof text, "%.255s+0x%" PRIx64, m->library, address);
  else
    snprintf(text, sizeof text, "0x%" PRIx64, f->pc);
  return strdup(text);
}

static void answer(frame_names_t *n, const record_frame_t *f, answer_t *a) {
  const record_image_t *image = f->image ? reader_image(n->reader, f->image) : NULL;
  module_t *m = image ? module_of(n, image) : NULL;
  uint64_t address = image ? f->pc - image->slide : f->pc;
  symbol_frame_t found[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason = SYMBOL_NAMED;
  int count = m && m->symbols && !f->text
                  ? symbol_lookup(m->symbols, address - !(f->flags & FRAME_EXACT), found,
                                  SYMBOL_FRAMES_MAX, &reason)
                  : 0;
  int rows = count > 0 ? count : 1;
  a->names = calloc((size_t)rows, sizeof *a->names);
  if (!a->names) return;
  a->count = rows;
  for (int i = 0; i < rows; i++) {
    frame_name_t *name = &a->names[i];
    name->library = m ? m->library : "";
    name->path = image ? image->path : "";
    name->system = m && m->system;
    if (i < count) {
      name->file = found[i].file;
      name->line = found[i].line;
      name->inlined = found[i].inlined;
      name->function = found[i].function ? found[i].function : found[i].raw;
    }
    if (f->text) name->function = f->text;
    name->known = name->function != NULL;
    if (!name->known) name->function = text_without_name(f, m, address);
    if (!name->function) a->count = 0;
  }
}

int frame_names_of_frame(frame_names_t *n, const record_frame_t *f, const frame_name_t **out) {
  static const frame_name_t nothing = {.function = "?", .path = "", .library = "", .known = true};
  answer_t *a = &n->answers[f - n->frames];
  if (!a->names) answer(n, f, a);
  *out = a->count ? a->names : &nothing;
  return a->count ? a->count : 1;
}

int frame_names_of_stack(frame_names_t *n, uint32_t stack, const frame_name_t **out, int max) {
  enum { ROOM = 4096 };
  const record_frame_t *frames[ROOM];
  const frame_name_t *names;
  int depth = reader_stack(n->reader, stack, frames, ROOM), count = 0;
  if (depth < 0) return -1;
  for (int i = 0; i < depth && i < ROOM; i++) {
    int more = frame_names_of_frame(n, frames[i], &names);
    for (int k = 0; k < more; k++, count++)
      if (count < max) out[count] = &names[k];
  }
  return depth > ROOM ? count + depth - ROOM : count;
}

const frame_name_t *frame_names_owner(frame_names_t *n, uint32_t stack) {
  enum { ROOM = 4096 };
  const record_frame_t *frames[ROOM];
  const frame_name_t *names, *first = NULL;
  int depth = reader_stack(n->reader, stack, frames, ROOM);
  for (int i = 0; i < depth && i < ROOM; i++) {
    int count = frame_names_of_frame(n, frames[i], &names);
    if (!first) first = &names[0];
    if (!names[count - 1].system && !frame_names_is_marker(frames[i])) return &names[0];
  }
  return first;
}
