/* SPDX-License-Identifier: MIT
 *
 * Gathers facts for an index. Each thread opens the debug information separately and repeatedly
 * takes the next unread unit. Their facts are merged at the end. Facts carry the ordinal of their
 * unit, so the result does not depend on the distribution of units. See gather.h.
 */
#include "symbol/index/gather.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/room.h"
#include "symbol/macho/map.h"
#include "symbol/macho/symtab.h"
#include "symbol/elf/symtab.h"

#define THREADS_MAX 16

debug_info_t *gather_open_debug(const sources_t *sources) {
  if (sources->macho) {
    const macho_file_t *debug = macho_sources_debug(sources->macho);
    const uint8_t *bytes;
    size_t size;
    code_range_t range = {sources->code_low, sources->code_high, 0};
    return debug && macho_file_elf(debug, &bytes, &size) ? debug_info_open_bytes(bytes, size, range)
                                                         : NULL;
  }
  const elf_file_t *file = sources->image_has_debug ? &sources->image : &sources->debug;
  if (!file->elf || file->fd < 0) return NULL;
  code_range_t code = {sources->code_low, sources->code_high,
                       sources->image_has_debug ? 0 : sources->bias};
  return debug_info_open(file->fd, code);
}

/* Reads the image's own table first. Symbols of other files yield to the debug information, which
 * has the same functions. */
static bool gather_symbols(const sources_t *sources, const uint64_t *only, facts_t *facts,
                           bool *found) {
  if (sources->macho)
    return macho_symtab_read(macho_sources_image(sources->macho), only, facts, found);
  bool have_image = sources->image.elf != NULL;
  if (have_image && (!symtab_read(sources->image.elf, 0, false, only, facts, found) ||
                     !symtab_read_dynamic(sources->image.elf, sources->code_high, facts) ||
                     !symtab_read_plt(sources->image.elf, only, facts)))
    return false;
  if (sources->debug.elf &&
      !symtab_read(sources->debug.elf, sources->bias, have_image, only, facts, found))
    return false;
  return !sources->mini.elf || symtab_read(sources->mini.elf, 0, true, only, facts, found);
}

static uint8_t *encode(const sources_t *sources, facts_t *facts, bool has_lines, bool has_symbols,
                       size_t *size) {
  index_origin_t origin = {.fingerprint = sources->fingerprint,
                           .link_base = sources->link_base,
                           .code_low = sources->code_low,
                           .code_high = sources->code_high,
                           .has_symbols = has_symbols || has_lines};
  const char *path = sources_debug_path(sources);
  if (has_lines && path && !strings_add(&facts->strings, path, &origin.debug_path)) return NULL;
  return index_encode(facts, &origin, size);
}

/* Reads the debug map of a Mach-O module without other debug information. Sets *FOUND if it has
 * any. */
static bool gather_map(const sources_t *sources, const uint64_t *only, facts_t *facts,
                       bool *found) {
  if (!sources->macho || macho_sources_debug(sources->macho)) return true;
  return macho_map_read(macho_sources_image(sources->macho), only, facts, found);
}

uint8_t *gather_address(const sources_t *sources, debug_info_t *info, bool lines, uint64_t address,
                        size_t *size) {
  facts_t facts;
  uint8_t *bytes = NULL;
  bool found = false, has_lines = info != NULL;
  size_t unit;
  if (facts_init(&facts) && gather_symbols(sources, &address, &facts, &found) &&
      (!info || !debug_info_unit_of(info, address, &unit) ||
       debug_info_read(info, unit, &address, &facts)) &&
      (!lines || gather_map(sources, &address, &facts, &has_lines)))
    bytes = encode(sources, &facts, has_lines, found, size);
  facts_free(&facts);
  return bytes;
}

/* ---- the whole module, in parallel -------------------------------------------------------- */

typedef struct work {
  const sources_t *sources;
  size_t next, done, units; /* next and done are shared */
  symbol_progress_fn *progress;
  const char *name;
} work_t;

typedef struct worker {
  work_t *work;
  facts_t facts;
  pthread_t thread;
  debug_info_t *info;
  bool failed, started, reports;
} worker_t;

static void *run_worker(void *context) {
  worker_t *worker = context;
  work_t *work = worker->work;
  if (!worker->info) worker->info = gather_open_debug(work->sources);
  if (!worker->info) return NULL; /* the other threads read its units */
  for (;;) {
    size_t unit = add_relaxed(&work->next, 1);
    if (unit >= work->units) break;
    if (!debug_info_read(worker->info, unit, NULL, &worker->facts)) worker->failed = true;
    size_t done = add_relaxed(&work->done, 1) + 1;
    if (worker->reports && work->progress) work->progress(work->name, done, work->units);
  }
  debug_info_close(worker->info);
  worker->info = NULL;
  return NULL;
}

static size_t choose_threads(size_t units) {
  if (room_is_limited()) return 1; /* one unit after the other needs less */
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  size_t count = processors > 0 ? (size_t)processors : 1;
  if (count > THREADS_MAX) count = THREADS_MAX;
  return count < units ? count : units ? units : 1;
}

/* Adds the facts of all units to FACTS, those of the first worker. */
static bool gather_lines(const sources_t *sources, debug_info_t *info, symbol_progress_fn *progress,
                         const char *name, facts_t *facts) {
  work_t work = {
      .sources = sources, .units = debug_info_units(info), .progress = progress, .name = name};
  size_t count = choose_threads(work.units);
  worker_t workers[THREADS_MAX] = {0};
  bool good = true;
  for (size_t i = 1; i < count; i++) {
    workers[i].work = &work;
    if (!facts_init(&workers[i].facts)) continue;
    workers[i].started = !pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
  }
  workers[0] = (worker_t){.work = &work, .facts = *facts, .info = info, .reports = true};
  run_worker(&workers[0]);
  *facts = workers[0].facts;
  good = !workers[0].failed;
  for (size_t i = 1; i < count; i++) {
    if (workers[i].started) pthread_join(workers[i].thread, NULL);
    if (workers[i].failed || (workers[i].started && !facts_merge(facts, &workers[i].facts)))
      good = false;
    facts_free(&workers[i].facts);
  }
  return good;
}

uint8_t *gather_module(const sources_t *sources, bool lines, symbol_progress_fn *progress,
                       const char *name, size_t *size) {
  facts_t facts;
  uint8_t *bytes = NULL;
  bool found = false;
  debug_info_t *info = lines ? gather_open_debug(sources) : NULL;
  bool has_lines = info != NULL;
  bool good = facts_init(&facts) && gather_symbols(sources, NULL, &facts, &found);
  if (good && info)
    good = gather_lines(sources, info, progress, name, &facts);
  else
    debug_info_close(info);
  if (good && lines) good = gather_map(sources, NULL, &facts, &has_lines);
  if (good) bytes = encode(sources, &facts, has_lines, found, size);
  facts_free(&facts);
  return bytes;
}
