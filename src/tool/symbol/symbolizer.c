/* SPDX-License-Identifier: MIT
 *
 * Modules, and the choice between direct and indexed look-up.
 *
 * A module with a valid index in the cache uses it. Without an index, an address is looked up
 * directly: one pass over the symbol table and over the entries of one compilation unit. Results
 * are cached. This is the fastest way for one address. An index is faster for many addresses;
 * building it takes time proportional to the debug information. The index is built when the direct
 * look-ups, past and announced (symbol_expect), together cost more than building it. So the total
 * time is at most twice that of the better choice. Of large debug information the cache keeps what
 * earlier processes have spent: a series of short reports has an index after some.
 */
#include "symbol/symbol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/room.h"
#include "symbol/demangle.h"
#include "symbol/dwarf/members.h"
#include "symbol/elf/folders.h"
#include "symbol/elf/variables.h"
#include "symbol/index/cache.h"
#include "symbol/index/gather.h"
#include "symbol/index/coding.h"

/* The cost of a direct look-up: the number of bytes that can be indexed in the same time. It is the
 * sum of the unit's bytes / 4 if the unit was not read before, else / 10, the symbol table's bytes
 * / 64, and a constant. */
#define DIRECT_FIRST_SHARE  4
#define DIRECT_UNIT_SHARE   10
#define DIRECT_SYMBOL_SHARE 64
#define DIRECT_REST         8192
/* Opening compressed debug information: its bytes / 10. */
#define DIRECT_OPEN_SHARE 10
/* libdw keeps what it has read of an open file, about as many bytes. Direct look-ups close all
 * files when they have read this much. */
#define READ_BYTES_MAX (16u << 20)

/* Smaller debug information is indexed and opened in a moment. */
#define SPENT_DEBUG_MIN (1u << 20)

/* The members of variables are not named in files with more debug information, which takes seconds
 * to read. */
#define MEMBERS_DEBUG_MAX (256u << 20)
#define MEMBER_MAX        256

/* The result of a direct look-up. Frames and their strings follow in the same block. */
typedef struct cached_result {
  uint64_t address;
  struct cached_result *next;
  int count;
  symbol_reason_t reason;
  symbol_frame_t frames[];
} cached_result_t;

#define RESULT_SLOTS 256

struct symbol_module {
  symbolizer_t *owner;
  symbol_module_t *next;
  symbol_source_t source; /* with our copies of its strings */
  uint8_t build_id[INDEX_KEY_MAX];
  char *path, *open_path;
  char key[2 * INDEX_KEY_MAX + 1];
  bool opened;
  symbol_reason_t state; /* SYMBOL_NAMED, or why the module cannot be used */
  sources_t sources;
  index_t *index;
  index_t *damaged;   /* frames that the caller still has may point into it */
  debug_info_t *info; /* NULL: none, or not open */
  bool info_opened;
  size_t units;        /* 0: not known yet */
  uint64_t unit_bytes; /* the mean size of a unit */
  members_t *members;  /* of variables; NULL: none, or not read yet */
  bool members_opened;
  /* See DIRECT_FIRST_SHARE. An index is built when direct_cost exceeds index_cost. */
  uint64_t direct_cost, index_cost;
  uint64_t spent_before; /* of direct_cost, by other processes */
  cached_result_t *results[RESULT_SLOTS];
};

struct symbolizer {
  symbol_options_t options;
  unsigned want; /* INDEX_… */
  symbol_module_t *modules;
  elf_folders_t *folders; /* of options.debug_dirs */
  uint64_t read_bytes;    /* see READ_BYTES_MAX */
};

const char *symbol_reason_text(symbol_reason_t reason) {
  switch (reason) {
#define SYMBOL_REASON_CASE(name, text)                                                             \
  case name: return text;
    SYMBOL_REASON_TABLE(SYMBOL_REASON_CASE)
#undef SYMBOL_REASON_CASE
  }
  return "unknown reason";
}

/* ---- modules ------------------------------------------------------------------------------ */

static unsigned wanted_of(const symbol_options_t *options) {
  return (options->no_lines ? 0 : INDEX_LINES) | (options->no_inlines ? 0 : INDEX_INLINES) |
         (options->raw ? INDEX_RAW : 0);
}

/* Raises the limit of open files: modules keep their files open, there may be thousands, and the
 * default limit is 1024. */
static void raise_file_limit(void) {
#if !defined(__APPLE__)
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
#endif
}

symbolizer_t *symbolizer_new(const symbol_options_t *options) {
  symbolizer_t *symbolizer = calloc(1, sizeof *symbolizer);
  if (symbolizer && options) symbolizer->options = *options;
  if (symbolizer) symbolizer->want = wanted_of(&symbolizer->options);
  raise_file_limit();
  return symbolizer;
}

static void free_results(symbol_module_t *module) {
  for (int i = 0; i < RESULT_SLOTS; i++)
    while (module->results[i]) {
      cached_result_t *result = module->results[i];
      module->results[i] = result->next;
      free(result);
    }
}

/* Whether an index of the module is kept for other processes. */
static bool has_cache(const symbol_module_t *module) {
  const symbol_options_t *options = &module->owner->options;
  return !options->no_index && !options->no_lines && !module->source.bytes;
}

static bool keeps_spent(const symbol_module_t *module) {
  return has_cache(module) && module->sources.debug_size >= SPENT_DEBUG_MIN;
}

static void keep_spent(const symbol_module_t *module) {
  if (module->state == SYMBOL_NAMED && !module->index && module->index_cost != UINT64_MAX &&
      module->direct_cost > module->spent_before && keeps_spent(module))
    index_cache_spend(module->key, module->direct_cost - module->spent_before);
}

void symbolizer_free(symbolizer_t *symbolizer) {
  if (!symbolizer) return;
  while (symbolizer->modules) {
    symbol_module_t *module = symbolizer->modules;
    symbolizer->modules = module->next;
    if (module->opened) keep_spent(module);
    free_results(module);
    debug_info_close(module->info);
    members_close(module->members);
    index_close(module->index);
    index_close(module->damaged);
    if (module->opened) sources_close(&module->sources);
    free(module->path);
    free(module->open_path);
    free(module);
  }
  elf_folders_free(symbolizer->folders);
  free(symbolizer);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_source(const symbol_module_t *module, const symbol_source_t *source) {
  return module->source.build_id_size == source->build_id_size &&
         !memcmp(module->build_id, source->build_id_size ? source->build_id : module->build_id,
                 source->build_id_size) &&
         module->source.bytes == source->bytes && module->source.machine == source->machine &&
         module->source.is_arm64e == source->is_arm64e && same_text(module->path, source->path) &&
         same_text(module->open_path, source->open_path);
}

symbol_module_t *symbolizer_module(symbolizer_t *symbolizer, const symbol_source_t *given) {
  symbol_source_t source = *given;
  if (source.build_id_size > INDEX_KEY_MAX) source.build_id_size = 0;
  for (symbol_module_t *module = symbolizer->modules; module; module = module->next)
    if (same_source(module, &source)) return module;
  symbol_module_t *module = calloc(1, sizeof *module);
  if (!module) return NULL;
  module->owner = symbolizer;
  module->source = source;
  if (source.build_id_size) memcpy(module->build_id, source.build_id, source.build_id_size);
  module->path = source.path ? strdup(source.path) : NULL;
  module->open_path = source.open_path ? strdup(source.open_path) : NULL;
  module->source.build_id = module->build_id;
  module->source.path = module->path;
  module->source.open_path = module->open_path;
  if ((source.path && !module->path) || (source.open_path && !module->open_path)) {
    free(module->path);
    free(module->open_path);
    free(module);
    return NULL;
  }
  module->next = symbolizer->modules;
  symbolizer->modules = module;
  return module;
}

/* The build-id; of an image without one, a fingerprint of the file. */
static void choose_key(symbol_module_t *module) {
  uint8_t own[INDEX_KEY_MAX];
  size_t size = module->source.build_id_size;
  memcpy(own, module->build_id, size);
  if (!size) size = sources_build_id(&module->sources, own, sizeof own);
  if (size) {
    for (size_t i = 0; i < size; i++)
      sprintf(module->key + 2 * i, "%02x", own[i]);
  } else {
    snprintf(module->key, sizeof module->key, "file-%016llx",
             (unsigned long long)module->sources.fingerprint);
  }
}

static void open_sources(symbol_module_t *module) {
  const symbol_options_t *options = &module->owner->options;
  module->opened = true;
  const symbol_places_t places = {options->debug_dirs, options->sysroots, &module->owner->folders};
  module->state = sources_open(&module->sources, &module->source, &places);
  if (module->state != SYMBOL_NAMED) return;
  choose_key(module);
  module->index_cost = module->sources.debug_size + (1 << 20);
  if (!options->no_index && !module->source.bytes)
    module->index = index_cache_open(module->key, module->sources.fingerprint);
  /* A look-up needs less memory than an index. */
  if (!module->index && keeps_spent(module) && !room_is_limited())
    module->direct_cost = module->spent_before = index_cache_spent(module->key);
}

static inline bool open_module(symbol_module_t *module) {
  if (!module->opened) open_sources(module);
  return module->state == SYMBOL_NAMED;
}

/* ---- the index ---------------------------------------------------------------------------- */

static void build_index(symbol_module_t *module) {
  const symbol_options_t *options = &module->owner->options;
  size_t size;
  if (keeps_spent(module)) index_cache_forget_spent(module->key);
  uint8_t *bytes = gather_module(&module->sources, !options->no_lines, options->progress,
                                 module->path ? module->path : module->key, &size);
  module->index_cost = UINT64_MAX; /* tried only once */
  if (!bytes) return;
  if (has_cache(module)) index_cache_store(module->key, bytes, size);
  module->index = index_from_bytes(bytes, size, true);
  if (!module->index) free(bytes);
}

static void drop_bad_index(symbol_module_t *module) {
  index_cache_remove(module->key);
  /* `damaged` is NULL: only an index from the cache can be damaged, and a module opens at most one.
   */
  module->damaged = module->index;
  module->index = NULL;
}

static debug_info_t *module_info(symbol_module_t *module) {
  if (!module->info_opened && !module->owner->options.no_lines) {
    module->info = gather_open_debug(&module->sources);
    if (module->sources.is_compressed)
      module->direct_cost += module->sources.debug_size / DIRECT_OPEN_SHARE;
  }
  module->info_opened = true;
  return module->info;
}

static void close_infos(symbolizer_t *symbolizer) {
  symbolizer->read_bytes = 0;
  for (symbol_module_t *module = symbolizer->modules; module; module = module->next) {
    debug_info_close(module->info);
    if (module->info) module->info_opened = false;
    module->info = NULL;
  }
}

/* Sets the number of units, 1 without debug information, and their mean size. */
static void measure_units(symbol_module_t *module) {
  if (module->units) return;
  debug_info_t *info = module_info(module);
  module->units = info ? debug_info_units(info) : 1;
  module->unit_bytes = module->sources.debug_size / module->units;
}

/* The cost of COUNT look-ups that read NEW_UNITS units for the first time. */
static uint64_t direct_cost(const symbol_module_t *module, size_t count, size_t new_units) {
  uint64_t each = module->sources.symbols_size / DIRECT_SYMBOL_SHARE + DIRECT_REST;
  return new_units * (module->unit_bytes / DIRECT_FIRST_SHARE) +
         (count - new_units) * (module->unit_bytes / DIRECT_UNIT_SHARE) + count * each;
}

bool symbol_expect(symbol_module_t *module, size_t count) {
  if (count < 2 || !open_module(module) || module->index) return module->index != NULL;
  measure_units(module);
  uint64_t cost = direct_cost(module, count, count < module->units ? count : module->units);
  if (module->direct_cost + cost > module->index_cost) build_index(module);
  return module->index != NULL;
}

/* ---- direct look-ups ---------------------------------------------------------------------- */

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static const char *copy_text(const char *text, char **at) {
  if (!text) return NULL;
  char *kept = *at;
  *at = stpcpy(kept, text) + 1;
  return kept;
}

/* A block with copies of FRAMES, which outlive the index that they were read from. */
static cached_result_t *make_result(uint64_t address, const symbol_frame_t *frames, int count) {
  size_t size = sizeof(cached_result_t) + (size_t)count * sizeof *frames;
  for (int i = 0; i < count; i++)
    size += text_size(frames[i].function) + text_size(frames[i].raw) + text_size(frames[i].file);
  cached_result_t *result = malloc(size);
  if (!result) return NULL;
  *result = (cached_result_t){.address = address, .count = count};
  char *text = (char *)&result->frames[count];
  for (int i = 0; i < count; i++) {
    symbol_frame_t *frame = &result->frames[i];
    *frame = frames[i];
    frame->raw = copy_text(frames[i].raw, &text);
    frame->function =
        frames[i].function == frames[i].raw ? frame->raw : copy_text(frames[i].function, &text);
    frame->file = copy_text(frames[i].file, &text);
  }
  return result;
}

static symbol_reason_t explain(const index_t *index, uint64_t address) {
  const index_origin_t *origin = index_origin(index);
  if (address < origin->code_low || address >= origin->code_high) return SYMBOL_NOT_CODE;
  return origin->has_symbols ? SYMBOL_NOT_COVERED : SYMBOL_STRIPPED;
}

static int look_up_index(symbol_module_t *module, index_t *index, uint64_t address,
                         symbol_frame_t *frames, int max, symbol_reason_t *reason) {
  int count = index_lookup(index, address, module->owner->want, frames, max);
  bool named = count && frames[count - 1].function;
  *reason = named ? SYMBOL_NAMED : explain(index, address);
  return count;
}

static cached_result_t *find_result(symbol_module_t *module, uint64_t address) {
  cached_result_t *result = module->results[address % RESULT_SLOTS];
  while (result && result->address != address)
    result = result->next;
  return result;
}

static index_t *index_of_address(symbol_module_t *module, uint64_t address) {
  size_t size;
  debug_info_t *info = module_info(module);
  measure_units(module);
  size_t read_before = info ? debug_info_units_read(info) : 0;
  uint8_t *bytes =
      gather_address(&module->sources, info, !module->owner->options.no_lines, address, &size);
  size_t new_units = info ? debug_info_units_read(info) - read_before : 0;
  module->direct_cost += direct_cost(module, 1, new_units);
  module->owner->read_bytes += new_units * module->unit_bytes;
  if (module->owner->read_bytes > READ_BYTES_MAX) close_infos(module->owner);
  index_t *index = bytes ? index_from_bytes(bytes, size, true) : NULL;
  if (!index) free(bytes);
  return index;
}

static cached_result_t *look_up_directly(symbol_module_t *module, uint64_t address) {
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  index_t *index = index_of_address(module, address);
  if (!index) return NULL;
  symbol_reason_t reason;
  int count = look_up_index(module, index, address, frames, SYMBOL_FRAMES_MAX, &reason);
  cached_result_t *result = make_result(address, frames, count);
  if (result) {
    result->reason = reason;
    result->next = module->results[address % RESULT_SLOTS];
    module->results[address % RESULT_SLOTS] = result;
  }
  index_close(index);
  return result;
}

/* ---- the look-up -------------------------------------------------------------------------- */

int symbol_lookup(symbol_module_t *module, uint64_t address, symbol_frame_t *frames, int max,
                  symbol_reason_t *reason) {
  *reason = SYMBOL_NO_FILE;
  if (max < 1) return 0;
  if (!open_module(module)) {
    *reason = module->state;
    return 0;
  }
  if (!module->index && module->direct_cost > module->index_cost) build_index(module);
  if (module->index) {
    int count = look_up_index(module, module->index, address, frames, max, reason);
    if (!index_is_bad(module->index)) return count;
    drop_bad_index(module);
  }
  cached_result_t *result = find_result(module, address);
  if (!result) result = look_up_directly(module, address);
  if (!result) return 0;
  *reason = result->reason;
  int count = result->count < max ? result->count : max;
  for (int i = 0; i < count; i++)
    frames[i] = result->frames[i];
  if (count) frames[count - 1] = result->frames[result->count - 1];
  return count;
}

/* Writes ".lock" or "+0x28" to OUT. */
static void name_member(symbol_module_t *module, uint64_t variable, uint64_t offset, char *out,
                        size_t size) {
  const sources_t *sources = &module->sources;
  const char *path = sources_debug_path(sources);
  bool is_elf = path && !sources->macho, is_separate = is_elf && !sources->image_has_debug;
  if (!module->members_opened && is_elf && sources->debug_size <= MEMBERS_DEBUG_MAX)
    module->members = members_open(path);
  module->members_opened = true;
  if (module->members && members_name(module->members, variable - (is_separate ? sources->bias : 0),
                                      offset, out, size))
    return;
  *out = 0;
  if (offset) snprintf(out, size, "+0x%" PRIx64, offset);
}

bool symbol_variable(symbol_module_t *module, uint64_t address, char *out, size_t size) {
  char full[DEMANGLE_MAX];
  uint64_t offset;
  const char *raw = open_module(module) ? variable_at(&module->sources, address, &offset) : NULL;
  if (!raw || !*raw) return false;
  if (!demangle(raw, full, sizeof full)) snprintf(full, sizeof full, "%s", raw);
  char member[MEMBER_MAX];
  name_member(module, address - offset, offset, member, sizeof member);
  snprintf(out, size, "%s%s", full, member);
  return true;
}

bool symbol_link_base(symbol_module_t *module, uint64_t *base) {
  if (!open_module(module)) return false;
  *base = module->sources.link_base;
  return true;
}

const char *symbol_debug_path(symbol_module_t *module) {
  if (!open_module(module)) return NULL;
  return sources_debug_path(&module->sources);
}
