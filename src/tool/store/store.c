/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sonde/status.h"
#include "store/signatures.h"

struct store {
  engine_t *engine;
  content_known_t known;
  char path[STORE_PATH_MAX];
  int64_t first, last; /* sessions of the open transaction; 0: none */
  uint64_t began_ns;
};

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
static const char *default_path(char *path, bool create) {
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int n = -1;
  if (data && *data == '/')
    n = snprintf(path, STORE_PATH_MAX, "%s/sonde/store.sqlite", data);
  else if (home && *home == '/')
    n = snprintf(path, STORE_PATH_MAX, "%s/.local/share/sonde/store.sqlite", home);
  if (n < 0) return "neither HOME nor XDG_DATA_HOME is set; use --to";
  if (n >= STORE_PATH_MAX) return "its path is too long";
  return create && !make_folders(path, 1) ? strerror(errno) : NULL;
}

static const char *choose_path(const char *url, bool create, char *path) {
  static const char scheme[] = "sqlite:";
  if (!url) return default_path(path, create);
  if (strncmp(url, scheme, sizeof scheme - 1)) return "a store's URL is sqlite:FILE";
  url += sizeof scheme - 1;
  if (!*url) return "sqlite: is followed by a file";
  return snprintf(path, STORE_PATH_MAX, "%s", url) < STORE_PATH_MAX ? NULL : "its path is too long";
}

store_t *store_open(const char *url, bool create, char *error, size_t error_size) {
  char why[256];
  store_t *s = calloc(1, sizeof *s);
  const char *wrong = s ? choose_path(url, create, s->path) : "out of memory";
  if (!wrong) {
    s->engine = engine_open(s->path, create, why, sizeof why);
    if (s->engine) return s;
    wrong = why;
  }
  snprintf(error, error_size, "'%s': %s", s && *s->path ? s->path : url ? url : "the store", wrong);
  free(s);
  return NULL;
}

void store_close(store_t *s) {
  if (!s) return;
  content_known_free(&s->known);
  engine_close(s->engine);
  free(s);
}

const char *store_path(const store_t *s) { return s->path; }
engine_t *store_engine(store_t *s) { return s->engine; }

/* ---- transactions ------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void describe(const store_t *s, char *error, size_t error_size) {
  snprintf(error, error_size, "'%s' cannot be written: %s", s->path, engine_error(s->engine));
}

static bool commit(store_t *s) {
  if (s->first && !engine_add_totals(s->engine, s->first, s->last)) return false;
  if (s->known.relabeled && !signatures_update(s->engine)) return false;
  if (!engine_commit(s->engine)) return false;
  s->first = s->last = 0;
  s->known.relabeled = false;
  return true;
}

bool store_flush(store_t *s, char *error, size_t error_size) {
  if (commit(s)) return true;
  describe(s, error, error_size);
  engine_rollback(s->engine);
  return false;
}

/* Other processes wait for the end of a transaction. */
static bool commit_when_due(store_t *s) {
  return !s->first || now_ns() - s->began_ns < COMMIT_NS || commit(s);
}

/* ---- recordings --------------------------------------------------------------------------- */

/* Stores the program of READER. 0, or SONDE_ENOMEM or SONDE_EIO as session_store. */
static int put_program(store_t *s, reader_t *reader, const char *path,
                       const session_labels_t *labels, store_counts_t *counts) {
  session_put_t put = {0};
  int stored = session_is_stored(s->engine, session_recording_id(reader));
  if (stored < 0) return SONDE_EIO;
  if (!stored) {
    int inserted = session_store(reader, path, s->engine, &s->known, labels, &put);
    if (inserted < 0) return inserted;
    stored = !inserted;
  }
  counts->present += (uint64_t)stored;
  if (stored) return 0;
  counts->sessions++;
  counts->events += put.events;
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

store_result_t store_put(store_t *s, const char *path, const session_labels_t *labels,
                         store_counts_t *counts, char *error, size_t error_size) {
  reader_t *reader;
  char why[256];
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
  if (status == 0 && commit_when_due(s)) return STORE_DONE;
  if (status == SONDE_ENOMEM)
    snprintf(error, error_size, "out of memory");
  else
    describe(s, error, error_size);
  engine_rollback(s->engine);
  return STORE_FAILED;
}
