/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "sonde/status.h"
#include "store/clickhouse/partitions.h"
#include "store/clickhouse/remote.h"
#include "store/retention.h"
#include "store/signatures.h"

/* A session that this process added to the spool. */
typedef struct staged {
  uint64_t recording, events;
} staged_t;

struct store {
  engine_t *engine;     /* of ClickHouse, the spool or the copy */
  clickhouse_t *remote; /* NULL: the store is a file */
  bool is_down;         /* the server is not asked again */
  uint64_t new_in_row;  /* recordings since one that the server had */
  ARRAY(staged_t) staged;
  content_known_t known;
  char path[STORE_PATH_MAX]; /* or the URL */
  char spool[STORE_PATH_MAX];
  int64_t first, last; /* sessions of the open transaction; 0: none */
  uint64_t began_ns;
};

/* So many sessions are sent to a server at a time, and the spool grows no further than this. */
enum { SEND_SESSIONS = 2000 };
#define SPOOL_MAX ((uint64_t)1 << 30)

/* A longer transaction adds more facts to the totals at a time, so fewer rows of them change. */
#define COMMIT_NS UINT64_C(5000000000)

/* ---- the file ----------------------------------------------------------------------------- */

/* Creates the folders of PATH below the first FROM bytes. */
static bool make_folders(char *path, size_t from) {
  for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    bool good = mkdir(path, 0700) == 0 || errno == EEXIST;
    *slash = '/';
    if (!good) return false;
  }
  return true;
}

/* XDG Base Directory Specification: $XDG_DATA_HOME must be absolute; it is ~/.local/share. */
static const char *data_path(char *path, const char *name, bool create) {
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int n = -1;
  if (data && *data == '/')
    n = snprintf(path, STORE_PATH_MAX, "%s/sonde/%s", data, name);
  else if (home && *home == '/')
    n = snprintf(path, STORE_PATH_MAX, "%s/.local/share/sonde/%s", home, name);
  if (n < 0) return "neither HOME nor XDG_DATA_HOME is set; use --to";
  if (n >= STORE_PATH_MAX) return "its path is too long";
  return create && !make_folders(path, 1) ? strerror(errno) : NULL;
}

static const char *choose_path(const char *url, bool create, char *path) {
  static const char scheme[] = "sqlite:";
  if (!url) return data_path(path, "store.sqlite", create);
  if (strncmp(url, scheme, sizeof scheme - 1))
    return "a store's URL is sqlite:FILE or clickhouse://HOST[:PORT]/DATABASE";
  url += sizeof scheme - 1;
  if (!*url) return "sqlite: is followed by a file";
  return snprintf(path, STORE_PATH_MAX, "%s", url) < STORE_PATH_MAX ? NULL : "its path is too long";
}

/* Of the servers, the database and the cluster. */
static uint64_t hash_of_address(const address_t *address) {
  uint64_t hash = hash_text(hash_text(HASH_START, address->database), address->cluster);
  for (size_t i = 0; i < address->servers; i++)
    hash = hash_text(hash, address->bases[i]);
  return hash;
}

/* Recordings wait in the spool of this address until the server has them. */
static const char *open_spool(store_t *s, char *why, size_t why_size) {
  char name[64];
  snprintf(name, sizeof name, "spool-%016llx.sqlite",
           (unsigned long long)hash_of_address(clickhouse_address(s->remote)));
  const char *wrong = data_path(s->spool, name, true);
  if (wrong) return wrong;
  s->engine = engine_open(s->spool, true, why, why_size);
  return s->engine ? NULL : why;
}

static const char *open_copy(store_t *s, const copy_need_t *need, char *why, size_t why_size) {
  s->engine = engine_open(":memory:", true, why, why_size);
  if (!s->engine) return why;
  if (copy_from_server(s->remote, s->engine, need)) return NULL;
  snprintf(why, why_size, "%s", remote_error(s->remote, s->engine));
  return why;
}

static const char *open_remote(store_t *s, const char *url, const copy_need_t *need, char *why,
                               size_t why_size) {
  if (snprintf(s->path, sizeof s->path, "%s", url) >= (int)sizeof s->path)
    return "the URL is too long";
  s->remote = clickhouse_new(url, why, why_size);
  if (!s->remote) {
    if (strchr(url, '@')) *s->path = 0; /* it may have a password */
    return why;
  }
  return need ? open_copy(s, need, why, why_size) : open_spool(s, why, why_size);
}

static const char *open_file(store_t *s, const char *url, bool create, char *why, size_t why_size) {
  const char *wrong = choose_path(url, create, s->path);
  if (wrong) return wrong;
  s->engine = engine_open(s->path, create, why, why_size);
  return s->engine ? NULL : why;
}

/* NEED is NULL to create it. */
static store_t *open_store(const char *url, const copy_need_t *need, char *error,
                           size_t error_size) {
  char why[512];
  bool is_remote = address_is_url(url);
  store_t *s = calloc(1, sizeof *s);
  const char *wrong = !s          ? "out of memory"
                      : is_remote ? open_remote(s, url, need, why, sizeof why)
                                  : open_file(s, url, !need, why, sizeof why);
  if (!wrong) return s;
  if (is_remote && s && !*s->path) url = NULL;
  snprintf(error, error_size, "'%s': %s", s && *s->path ? s->path : url ? url : "the store", wrong);
  store_close(s);
  return NULL;
}

store_t *store_create(const char *url, char *error, size_t error_size) {
  return open_store(url, NULL, error, error_size);
}

store_t *store_open(const char *url, const copy_need_t *need, char *error, size_t error_size) {
  return open_store(url, need, error, error_size);
}

void store_close(store_t *s) {
  if (!s) return;
  content_known_free(&s->known);
  free(s->staged.items);
  engine_close(s->engine);
  clickhouse_free(s->remote);
  free(s);
}

const char *store_path(const store_t *s) { return s->path; }
engine_t *store_engine(store_t *s) { return s->engine; }

uint64_t store_size_bytes(store_t *s) {
  return s->remote ? remote_bytes(s->remote) : engine_bytes(s->engine);
}

/* ---- transactions ------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void describe(const store_t *s, char *error, size_t error_size) {
  snprintf(error, error_size, "'%s' cannot be written: %s", s->remote ? s->spool : s->path,
           engine_error(s->engine));
}

/* The server adds up the facts itself. */
static bool commit(store_t *s) {
  if (s->first && !s->remote && !engine_add_totals(s->engine, s->first, s->last)) return false;
  if (s->known.relabeled && !signatures_update(s->engine)) return false;
  if (!engine_commit(s->engine)) return false;
  s->first = s->last = 0;
  s->known.relabeled = false;
  return true;
}

/* The spool is empty. Its recordings in HAD were on the server before. */
static void note_sent(store_t *s, const id_set_t *had, store_counts_t *counts) {
  for (size_t i = 0; i < s->staged.count; i++) {
    if (!id_set_has(had, s->staged.items[i].recording)) continue;
    counts->sessions--;
    counts->present++;
    counts->events -= s->staged.items[i].events;
  }
  content_known_free(&s->known);
  s->known = (content_known_t){0};
  s->staged.count = 0;
}

/* Sends the spool to the server. The spool's transaction ends with its rows deleted, or as before.
 */
static bool send_spool(store_t *s, store_counts_t *counts, char *error, size_t error_size) {
  id_set_t had = {0};
  bool good = engine_begin(s->engine) && remote_send(s->remote, s->engine, &had) &&
              engine_commit(s->engine);
  if (good) note_sent(s, &had, counts);
  id_set_free(&had);
  if (good) return true;
  char why[512];
  snprintf(why, sizeof why, "%s", remote_error(s->remote, s->engine));
  engine_rollback(s->engine);
  snprintf(error, error_size,
           "'%s': %s; the recordings wait in '%s', and the next 'sonde store' sends them", s->path,
           why, s->spool);
  return false;
}

bool store_flush(store_t *s, store_counts_t *counts, char *error, size_t error_size) {
  if (!commit(s)) {
    describe(s, error, error_size);
    engine_rollback(s->engine);
    return false;
  }
  return !s->remote || send_spool(s, counts, error, error_size);
}

bool store_write_names(store_t *s, char *error, size_t error_size) {
  if (!s->remote || remote_send_names(s->remote, s->engine)) return true;
  snprintf(error, error_size, "'%s': %s", s->path, remote_error(s->remote, s->engine));
  return false;
}

bool store_drop_before(store_t *s, int64_t *day, uint64_t *dropped, char *error,
                       size_t error_size) {
  enum { DAYS_OF_WEEK = 7 };
  if (s->remote) *day -= *day % DAYS_OF_WEEK;
  if (s->remote ? partitions_drop(s->remote, *day / DAYS_OF_WEEK, dropped)
                : retention_drop(s->engine, *day, dropped) && engine_commit(s->engine))
    return true;
  snprintf(error, error_size, "'%s': %s", s->path,
           s->remote ? remote_error(s->remote, s->engine) : engine_error(s->engine));
  if (!s->remote) engine_rollback(s->engine);
  return false;
}

/* Begins a transaction. Another process may have deleted rows that this one knows to be there. */
static bool begin(store_t *s) {
  bool is_changed;
  if (!engine_begin(s->engine) || !engine_is_changed(s->engine, &is_changed)) return false;
  if (is_changed) {
    content_known_free(&s->known);
    s->known = (content_known_t){0};
  }
  return true;
}

/* Other processes wait for the end of a transaction. */
static bool commit_when_due(store_t *s) {
  return !s->first || now_ns() - s->began_ns < COMMIT_NS || commit(s);
}

/* ---- recordings --------------------------------------------------------------------------- */

/* A recording after others that were new is probably new. To ask for each would cost more than to
 * store those that are not, which are found when the spool is sent. */
static bool is_asked_for(const store_t *s) {
  return s->remote && !s->is_down && !(s->new_in_row & (s->new_in_row - 1));
}

/* Whether the store has the recording; -1: the file cannot be read. */
static int is_stored(store_t *s, uint64_t recording) {
  id_set_t had = {0};
  int stored = session_is_stored(s->engine, recording);
  if (stored) return stored;
  if (is_asked_for(s)) {
    s->is_down = !remote_which(s->remote, &recording, 1, &had);
    stored = had.ids.count > 0;
    id_set_free(&had);
  }
  s->new_in_row = stored ? 0 : s->new_in_row + 1;
  return stored;
}

/* Stores the program of READER. 0, or SONDE_ENOMEM or SONDE_EIO as session_store. */
static int put_program(store_t *s, reader_t *reader, const char *path,
                       const session_labels_t *labels, store_counts_t *counts) {
  session_put_t put = {0};
  uint64_t recording = session_recording_id(reader);
  int stored = is_stored(s, recording);
  if (stored < 0) return SONDE_EIO;
  if (!stored) {
    if (!s->first && !begin(s)) return SONDE_EIO;
    int inserted = session_store(reader, path, s->engine, &s->known, labels, &put);
    if (inserted < 0) return inserted;
    stored = !inserted;
  }
  counts->present += (uint64_t)stored;
  if (stored) return 0;
  counts->sessions++;
  counts->events += put.events;
  staged_t *staged = s->remote ? ARRAY_ADD(s->staged) : NULL;
  if (s->remote && !staged) return SONDE_ENOMEM;
  if (staged) *staged = (staged_t){recording, put.events};
  if (!s->first) {
    s->first = put.session;
    s->began_ns = now_ns();
  }
  s->last = put.session;
  return 0;
}

/* The programs before the last, LAST. */
static int put_earlier(store_t *s, uint32_t last, const char *path, const session_labels_t *labels,
                       store_counts_t *counts) {
  char error[256];
  int status = 0;
  for (uint32_t program = 1; status == 0 && program < last; program++) {
    reader_t *reader;
    status = reader_open_program(&reader, path, program, error, sizeof error);
    if (status == 0) {
      status = put_program(s, reader, path, labels, counts);
      reader_close(reader);
    } else if (status == SONDE_ENOTFOUND) {
      status = 0; /* it recorded nothing */
    }
  }
  return status;
}

/* A spool that is full is sent: the server may be up again. */
static bool has_space(store_t *s, store_counts_t *counts, char *error, size_t error_size) {
  char why[STORE_PATH_MAX + 512];
  if (!s->remote || engine_used_bytes(s->engine) <= SPOOL_MAX) return true;
  if (store_flush(s, counts, why, sizeof why)) return true;
  snprintf(error, error_size, "the spool is full; %s", why);
  return false;
}

store_result_t store_put(store_t *s, const char *path, const session_labels_t *labels,
                         store_counts_t *counts, char *error, size_t error_size) {
  reader_t *reader;
  char why[256];
  if (!has_space(s, counts, error, error_size)) return STORE_FAILED;
  if (reader_open(&reader, path, why, sizeof why) < 0) {
    snprintf(error, error_size, "'%s': %s", path, why);
    return STORE_UNREADABLE;
  }
  if (session_is_open(reader)) {
    snprintf(error, error_size, "'%s' is still being recorded; store it afterwards", path);
    reader_close(reader);
    return STORE_UNREADABLE;
  }
  int status = put_earlier(s, reader_program(reader), path, labels, counts);
  if (status == 0) status = put_program(s, reader, path, labels, counts);
  reader_close(reader);
  if (status == 0 && commit_when_due(s)) {
    bool is_due = s->staged.count >= SEND_SESSIONS;
    return !is_due || store_flush(s, counts, error, error_size) ? STORE_DONE : STORE_FAILED;
  }
  if (status == SONDE_ENOMEM)
    snprintf(error, error_size, "out of memory");
  else
    describe(s, error, error_size);
  engine_rollback(s->engine);
  return STORE_FAILED;
}
