/* SPDX-License-Identifier: MIT */
#include "report/frame_names.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/terminal.h"
#include "report/own_code.h"
#include "symbol/demangle.h"
#include "symbol/generated.h"
#include "symbol/language.h"
#include "symbol/ranges.h"
#include "symbol/short_name.h"
#include "symbol/symbol.h"

typedef struct functions {
  frame_name_t *names;
  int count;
  /* the demangled form of the frame's text, or of the name of generated code; NULL: it is no linker
   * name */
  char *text;
} functions_t;

typedef struct module {
  symbol_module_t *symbols;
  ranges_t *ranges; /* NULL: not opened, or it cannot be */
  const char *library;
  bool opened, ranges_opened, system, own;
  symbol_reason_t reason; /* why a frame has no name, if the image's file is the cause */
} module_t;

struct frame_names {
  const reader_t *reader;
  frame_names_options_t options;
  symbolizer_t *symbolizer;
  const record_frame_t *frames;
  const record_image_t *images;
  functions_t *functions; /* by index of the frame */
  module_t *modules;      /* by index of the image */
  size_t frame_count, image_count;
};

symbolizer_t *frame_names_symbolizer(const frame_names_options_t *o) {
  const symbol_options_t options = {
      .progress = terminal_index_progress, .debug_dirs = o->debug_dirs, .sysroots = o->sysroots};
  return symbolizer_new(&options);
}

frame_names_t *frame_names_new(const reader_t *reader, const frame_names_options_t *given) {
  frame_names_t *n = calloc(1, sizeof *n);
  if (!n) return NULL;
  n->reader = reader;
  if (given) n->options = *given;
  n->frames = reader_frames(reader, &n->frame_count);
  n->images = reader_images(reader, &n->image_count);
  n->functions = calloc(n->frame_count + 1, sizeof *n->functions);
  n->modules = calloc(n->image_count + 1, sizeof *n->modules);
  n->symbolizer =
      n->options.symbolizer ? n->options.symbolizer : frame_names_symbolizer(&n->options);
  if (n->functions && n->modules && n->symbolizer) return n;
  frame_names_free(n);
  return NULL;
}

void frame_names_free(frame_names_t *n) {
  if (!n) return;
  for (size_t i = 0; n->functions && i < n->frame_count; i++) {
    for (int k = 0; k < n->functions[i].count; k++)
      if (!n->functions[i].names[k].known)
        free((char *)(uintptr_t)n->functions[i].names[k].function);
    free(n->functions[i].names);
    free(n->functions[i].text);
  }
  for (size_t i = 0; n->modules && i < n->image_count; i++)
    ranges_close(n->modules[i].ranges);
  free(n->functions);
  free(n->modules);
  if (n->symbolizer && !n->options.symbolizer) symbolizer_free(n->symbolizer);
  free(n);
}

bool frame_names_is_marker(const record_frame_t *f) {
  return !f->image && (f->pc == FRAME_PC_BROKEN || f->pc == FRAME_PC_TRUNCATED);
}

static module_t *module_of(frame_names_t *n, const record_image_t *image) {
  module_t *m = &n->modules[image - n->images];
  if (m->opened) return m;
  m->opened = true;
  const char *slash = strrchr(image->path, '/');
  m->library = slash ? slash + 1 : image->path;
  const char *program = reader_argument(n->reader, 0);
  bool is_program = program && !strcmp(program, image->path);
  system_verdict_t verdict = system_verdict(n->options.system, image->path);
  m->system = image->is_interpreter || system_is(n->options.system, program, image->path);
  m->own = !m->system && (is_program || verdict == SYSTEM_NO || own_image(image->path));
  symbol_source_t source = {.path = image->path,
                            .build_id = image->build_id_size ? image->build_id : NULL,
                            .build_id_size = image->build_id_size};
  m->symbols = symbolizer_module(n->symbolizer, &source);
  return m;
}

/* The start of the function that has ADDRESS, so that all frames of a function without a name have
 * the same text; ADDRESS if that is not known. */
static uint64_t function_start(module_t *m, const record_image_t *image, uint64_t address,
                               bool exact) {
  if (!m->ranges_opened) {
    m->ranges = ranges_open(image->path, image->build_id, image->build_id_size);
    m->ranges_opened = true;
  }
  uint64_t inside = address - !exact, start = ranges_start(m->ranges, inside);
  return start == inside ? address : start;
}

/* "libfoo.so+0x12", "0x12", or the text of a pseudo-frame; frame_names_free frees it. */
static char *text_without_name(const record_frame_t *f, const module_t *m, uint64_t address) {
  char text[320];
  if (frame_names_is_marker(f))
    snprintf(text, sizeof text,
             f->pc == FRAME_PC_BROKEN ? "[outer frames could not be unwound]" : "[truncated]");
  else if (m)
    snprintf(text, sizeof text, "%.255s+0x%" PRIx64, m->library, address);
  else
    snprintf(text, sizeof text, "0x%" PRIx64, f->pc);
  return strdup(text);
}

/* The frame's own text is the linker name of an imported function, or the name of a scope. */
static void set_text(frame_name_t *name, const record_frame_t *f, functions_t *a) {
  static char text[DEMANGLE_MAX];
  if (demangle(f->text, text, sizeof text)) a->text = strdup(text);
  name->function = a->text ? a->text : f->text;
  name->is_text = !a->text;
}

static void set_generated(frame_name_t *name, functions_t *a) {
  static char text[DEMANGLE_MAX];
  name->own = generated_is_own(name->function, name->file);
  if (demangle(name->function, text, sizeof text)) a->text = strdup(text);
  if (a->text) name->function = a->text;
}

static void set_language(frame_name_t *name, language_t language) {
  source_role_t role = language_facts(language)->role(name->file);
  name->python = language == LANGUAGE_PYTHON;
  name->system = role == SOURCE_STANDARD;
  name->own = role == SOURCE_APP;
}

static void look_up(frame_names_t *n, const record_frame_t *f, functions_t *a) {
  const record_image_t *image = f->image ? reader_image(n->reader, f->image) : NULL;
  module_t *m = image ? module_of(n, image) : NULL;
  uint64_t address = image ? f->pc - image->slide : f->pc;
  symbol_frame_t found[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason = SYMBOL_NAMED;
  bool own = reader_is_agent(n->reader, f);
  int count = m && m->symbols && !f->text && !f->function_count && !own
                  ? symbol_lookup(m->symbols, address - !(f->flags & FRAME_EXACT), found,
                                  SYMBOL_FRAMES_MAX, &reason)
                  : 0;
  bool no_file = reason == SYMBOL_NO_FILE || reason == SYMBOL_REPLACED ||
                 reason == SYMBOL_BAD_FILE || reason == SYMBOL_TRUNCATED;
  if (count <= 0 && no_file && image->path[0] == '/') m->reason = reason;
  bool stored = f->function_count && !f->text && !own;
  if (stored) count = (int)f->function_count;
  int rows = count > 0 ? count : 1;
  a->names = calloc((size_t)rows, sizeof *a->names);
  if (!a->names) return;
  a->count = rows;
  for (int i = 0; i < rows; i++) {
    frame_name_t *name = &a->names[i];
    name->library = m ? m->library : "";
    name->path = image ? image->path : "";
    name->system = (m && m->system) || own;
    if (i < count && stored) {
      const record_function_t *function = &f->functions[i];
      name->file = *function->file ? function->file : NULL;
      name->line = function->line;
      name->inlined = function->inlined;
      name->function = *function->name ? function->name : NULL;
    } else if (i < count) {
      name->file = found[i].file;
      name->line = found[i].line;
      name->inlined = found[i].inlined;
      name->function = found[i].function ? found[i].function : found[i].raw;
    }
    if (f->text) set_text(name, f, a);
    if (own) name->function = "[sonde]";
    name->known = name->function != NULL;
    name->stripped = !name->known && reason == SYMBOL_STRIPPED;
    name->own = m && m->own && name->known && own_function(name->function, name->file);
    if (reader_is_interpreted(f))
      set_language(name, language_of_pc(f->pc));
    else if (!m && stored && name->known)
      set_generated(name, a);
    if (!name->known && m && !f->text && image->path[0] == '/')
      address = function_start(m, image, address, f->flags & FRAME_EXACT);
    if (!name->known) name->function = text_without_name(f, m, address);
    if (!name->function) a->count = 0;
  }
}

const char *frame_name_home(const frame_name_t *name) {
  return *name->library || !name->file ? name->library : name->file;
}

uint64_t frame_name_hash(const frame_name_t *name) {
  return hash_text(hash_text(HASH_START, name->function), frame_name_home(name));
}

int frame_name_compare(const frame_name_t *a, const frame_name_t *b) {
  int order = a == b ? 0 : strcmp(a->function, b->function);
  return order || a == b ? order : strcmp(frame_name_home(a), frame_name_home(b));
}

char *frame_name_text(const frame_name_t *name, bool full, unsigned width, char *out, size_t size) {
  if (name->is_text) return short_text(name->function, full ? 0 : width, out, size);
  if (name->known && !full) return short_name(name->function, width, out, size);
  return short_text(name->function, 0, out, size);
}

int frame_names_of_frame(frame_names_t *n, const record_frame_t *f, const frame_name_t **out) {
  static const frame_name_t nothing = {.function = "?", .path = "", .library = "", .known = true};
  functions_t *a = &n->functions[f - n->frames];
  if (!a->names) look_up(n, f, a);
  *out = a->count ? a->names : &nothing;
  return a->count ? a->count : 1;
}

bool frame_names_has(const frame_names_t *n, const record_frame_t *f) {
  return n->functions[f - n->frames].names != NULL;
}

/* Whether a frame of a system image, or of sonde. */
static bool is_system(frame_names_t *n, const record_frame_t *f) {
  const record_image_t *image = f->image ? reader_image(n->reader, f->image) : NULL;
  return image && (module_of(n, image)->system || reader_is_agent(n->reader, f));
}

int frame_names_frames(frame_names_t *n, uint32_t stack, const record_frame_t **frames, int max) {
  int depth = reader_program_stack(n->reader, stack, frames, max);
  if (!n->options.app_only || depth <= 0) return depth;
  int known = depth < max ? depth : max, kept = 0;
  const record_frame_t *innermost = frames[0];
  for (int i = 0; i < known; i++)
    if (!is_system(n, frames[i])) frames[kept++] = frames[i];
  if (!kept) frames[kept++] = innermost;
  return kept + (depth - known);
}

int frame_names_stored(void *names, const record_frame_t *f, const record_function_t **out) {
  frame_names_t *n = names;
  static record_function_t functions[SYMBOL_FRAMES_MAX];
  const frame_name_t *found;
  int kept = 0, count = frame_names_of_frame(n, f, &found);
  *out = functions;
  if (f->text || reader_is_agent(n->reader, f)) return 0;
  for (int i = 0; i < count && kept < SYMBOL_FRAMES_MAX; i++)
    if (found[i].known || found[i].file)
      functions[kept++] = (record_function_t){.name = found[i].known ? found[i].function : "",
                                              .file = found[i].file ? found[i].file : "",
                                              .line = found[i].line,
                                              .inlined = found[i].inlined};
  return kept;
}

int frame_names_of_stack(frame_names_t *n, uint32_t stack, const frame_name_t **out, int max) {
  enum { DEPTH_MAX = 4096 };
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  int depth = frame_names_frames(n, stack, frames, DEPTH_MAX), count = 0;
  if (depth < 0) return -1;
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int more = frame_names_of_frame(n, frames[i], &names);
    for (int k = 0; k < more; k++, count++)
      if (count < max) out[count] = &names[k];
  }
  return depth > DEPTH_MAX ? count + depth - DEPTH_MAX : count;
}

const frame_name_t *frame_names_owner(frame_names_t *n, uint32_t stack) {
  enum { DEPTH_MAX = 4096 };
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names, *first = NULL, *outside = NULL, *interpreted = NULL, *caller = NULL;
  int depth = reader_program_stack(n->reader, stack, frames, DEPTH_MAX);
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count = frame_names_of_frame(n, frames[i], &names);
    if (!first) first = &names[0];
    for (int k = 0; k < count; k++)
      if (names[k].own) return &names[k];
    if (!outside && !names[count - 1].system && !frame_names_is_marker(frames[i]))
      outside = &names[0];
    if (!interpreted && reader_is_interpreted(frames[i])) interpreted = &names[0];
    for (int k = 0; k < count && !caller; k++)
      if (!own_wraps_allocator(names[k].function)) caller = &names[k];
  }
  return outside ? outside : interpreted ? interpreted : caller ? caller : first;
}

bool frame_names_variable(frame_names_t *n, uint64_t address, char *out, size_t size) {
  for (size_t i = 0; i < n->image_count; i++) {
    const record_image_t *image = &n->images[i];
    if (address < image->start || address >= image->end || image->unloaded_time) continue;
    module_t *m = module_of(n, image);
    return m->symbols && symbol_variable(m->symbols, address - image->slide, out, size);
  }
  return false;
}

const char *frame_names_debug_path(frame_names_t *n, const char *path) {
  for (size_t i = 0; i < n->image_count; i++) {
    const record_image_t *image = &n->images[i];
    if (strcmp(image->path, path) != 0) continue;
    module_t *m = module_of(n, image);
    return m->symbols ? symbol_debug_path(m->symbols) : NULL;
  }
  return NULL;
}

const record_image_t *frame_names_unnamed(const frame_names_t *n, size_t *place,
                                          const char **reason) {
  while (*place < n->image_count) {
    size_t i = (*place)++;
    if (n->modules[i].reason == SYMBOL_NAMED) continue;
    *reason = symbol_reason_text(n->modules[i].reason);
    return &n->images[i];
  }
  return NULL;
}

char *frame_names_build_id(const record_image_t *image, char out[FRAME_NAMES_ID_MAX]) {
  out[0] = 0;
  for (size_t i = 0; i < image->build_id_size && 2 * i + 3 <= FRAME_NAMES_ID_MAX; i++)
    snprintf(out + 2 * i, 3, "%02x", image->build_id[i]);
  return out;
}
