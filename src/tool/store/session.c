/* SPDX-License-Identifier: MIT */
#include "store/session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/session_facts.h"
#include "sonde/status.h"

#define DAY_NS (UINT64_C(86400) * 1000000000)

/* A packed copy and a summary have the header's values of the original. */
uint64_t session_recording_id(const reader_t *reader) {
  const record_header_t *h = reader_header(reader);
  const uint64_t parts[] = {
      h->start_realtime_ns,  h->start_monotonic_ns, h->start_ticks, h->end_monotonic_ns,
      h->end_ticks,          h->pid_space,          h->pid,         h->machine,
      reader_program(reader)};
  const char *program = reader_argument(reader, 0);
  uint64_t id = id_text(STORE_SCHEMA_VERSION, program ? program : "");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    id = id_mix(id, parts[i]);
  return id_not_zero(id);
}

bool session_is_open(const reader_t *reader) {
  return reader_header(reader)->state == RECORD_OPEN &&
         reader_recorder_loss(reader) == READER_LOST_NOTHING;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* ---- build and device --------------------------------------------------------------------- */

const record_image_t *session_executable(const reader_t *reader) {
  size_t count;
  const record_image_t *images = reader_images(reader, &count);
  const char *program = reader_argument(reader, 0);
  for (size_t i = 0; program && i < count; i++)
    if (!strcmp(images[i].path, program)) return &images[i];
  return count && !program ? &images[0] : NULL;
}

const char *session_program(const reader_t *reader) {
  const record_image_t *image = session_executable(reader);
  const char *argument = reader_argument(reader, 0), *path = image ? image->path : argument;
  return path ? base_name(path) : "unknown";
}

/* The build is its executable and the name that the user gave it. */
static bool store_build(const reader_t *reader, engine_t *engine, content_known_t *known,
                        const char *name, uint64_t *out) {
  enum { SHORT_ID = 12 };
  char id[FRAME_NAMES_ID_MAX] = "", short_id[SHORT_ID + 1] = "";
  const record_image_t *image = session_executable(reader);
  const char *program = session_program(reader);
  if (image) frame_names_build_id(image, id);
  snprintf(short_id, sizeof short_id, "%.*s", SHORT_ID, id);
  if (!name) name = *short_id ? short_id : program;
  uint64_t hash = image ? content_image_id(image) : id_text(0, program);
  *out = id_not_zero(id_text(hash, name));
  const store_value_t row[] = {store_id(*out), store_text(name), store_text(program),
                               store_text(id)};
  return content_insert(engine, known, STORE_BUILDS, row);
}

static bool store_device(engine_t *engine, content_known_t *known, const char *name,
                         uint64_t *out) {
  *out = id_not_zero(id_text(0, name));
  const store_value_t row[] = {store_id(*out), store_text(name)};
  return content_insert(engine, known, STORE_DEVICES, row);
}

/* ---- the session's row -------------------------------------------------------------------- */

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* 1: inserted, 0: the recording is there, -1: failed. */
static int store_row(const reader_t *reader, engine_t *engine, const session_sums_t *sums,
                     uint64_t device, uint64_t build, int64_t session) {
  const record_header_t *h = reader_header(reader);
  uint64_t length =
      h->end_monotonic_ns > h->start_monotonic_ns ? h->end_monotonic_ns - h->start_monotonic_ns : 0;
  int64_t status = RECORD_STATUS_IS_KNOWN(h->exit_status) ? (int64_t)h->exit_status : -1;
  const store_value_t row[] = {store_integer(session),
                               store_id(session_recording_id(reader)),
                               store_id(device),
                               store_id(build),
                               store_integer(h->pid),
                               store_id(h->start_realtime_ns),
                               store_id(h->start_realtime_ns / DAY_NS),
                               store_id(length),
                               store_integer(status),
                               store_id(sums->measured),
                               store_id(sums->events),
                               store_id(h->lost_events),
                               store_id(sums->threads),
                               store_id(sums->cpu_ns),
                               store_id(sums->peak_bytes),
                               store_id(now_ns())};
  return engine_insert(engine, STORE_SESSIONS, row);
}

/* The number in the first row of SQL with VALUE; FALLBACK if there is no row; -1: failed. */
static int64_t number_of(engine_t *engine, const char *sql, store_value_t value, int64_t fallback) {
  engine_rows_t *rows = engine_query(engine, sql, &value, 1);
  int step = rows ? engine_step(rows) : -1;
  int64_t number = step > 0 ? engine_value(rows, 0).integer : step == 0 ? fallback : -1;
  engine_rows_end(rows);
  return number;
}

int session_is_stored(engine_t *engine, uint64_t recording) {
  return (int)number_of(engine, "SELECT 1 FROM sessions WHERE recording = ?", store_id(recording),
                        0);
}

/* The row of the session comes first: if another process stored the recording meanwhile, nothing
 * else is inserted. */
static int insert_all(const reader_t *reader, engine_t *engine, content_known_t *known,
                      const session_labels_t *labels, fact_list_t *facts,
                      const session_sums_t *sums, session_put_t *out) {
  uint64_t device, build;
  if (!store_device(engine, known, labels->device, &device) ||
      !store_build(reader, engine, known, labels->build, &build))
    return SONDE_EIO;
  out->session =
      number_of(engine, "SELECT coalesce(max(session), 0) + ? FROM sessions", store_integer(1), 1);
  if (out->session < 0) return SONDE_EIO;
  out->events = sums->events;
  int inserted = store_row(reader, engine, sums, device, build, out->session);
  if (inserted > 0 && !fact_list_insert(facts, engine, out->session)) return SONDE_EIO;
  return inserted < 0 ? SONDE_EIO : inserted;
}

int session_store(reader_t *reader, const char *path, engine_t *engine, content_known_t *known,
                  const session_labels_t *labels, session_put_t *out) {
  fact_list_t facts = {0};
  session_sums_t sums = {0};
  content_t *content = content_new(reader, engine, known);
  int status = content ? session_collect(reader, path, content, &facts, &sums) : SONDE_ENOMEM;
  if (status == 0) status = insert_all(reader, engine, known, labels, &facts, &sums, out);
  fact_list_free(&facts);
  content_free(content);
  return status;
}
