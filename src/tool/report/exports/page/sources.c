/* SPDX-License-Identifier: MIT */
#include "report/exports/page/sources.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  CONTEXT = 12,           /* lines above and below a line that is used */
  WHOLE_FILE = 64 * 1024, /* of the program's own */
  FILE_MOST = 8 << 20,    /* larger ones are generated */
  TEXT_MOST = 4 << 20,    /* of all files; it is compressed to about a fifth */
};

/* A line that a frame is at. */
typedef struct used_line {
  uint32_t file, line; /* FILE is a text */
  bool own;
} used_line_t;

typedef struct source_file {
  const used_line_t *lines;
  size_t count;
  bool own;
  char *text; /* ends with 0 */
  size_t size;
  bool changed;
} source_file_t;

typedef struct sources {
  page_names_t *names;
  page_stream_t *out;
  uint64_t start_ns;
  size_t written, left_out; /* bytes; files beyond TEXT_MOST */
  const char *comma;
} sources_t;

/* ---- files -------------------------------------------------------------------------------- */

static bool has_source_suffix(const char *path) {
  static const char *const suffixes[] = {
      "C",   "H",    "S",   "c",   "h",   "cc",  "cpp", "cxx",   "c++", "hh",  "hpp", "hxx",  "inl",
      "ipp", "tcc",  "inc", "m",   "mm",  "rs",  "go",  "swift", "d",   "zig", "nim", "ml",   "hs",
      "jl",  "f",    "f90", "f95", "adb", "ads", "pas", "s",     "asm", "py",  "pyx", "rb",   "js",
      "mjs", "java", "ts",  "kt",  "cs",  "php", "pl",  "lua",   "y",   "l",   "cu",  "scala"};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
    if (!strcmp(dot + 1, suffixes[i])) return true;
  return false;
}

static bool read_whole(int descriptor, char *text, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = read(descriptor, text + done, size - done);
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return !memchr(text, 0, size);
}

/* The descriptor of the source file PATH, or -1. A relative name, of a build with a relative
 * compilation folder, is searched from the working folder, as debuggers do. O_NONBLOCK: the name
 * may be that of a FIFO. */
static int open_source(const char *path, struct stat *is) {
  int descriptor = has_source_suffix(path) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
  if (descriptor < 0) return -1;
  if (fstat(descriptor, is) == 0 && S_ISREG(is->st_mode) && is->st_size <= FILE_MOST)
    return descriptor;
  close(descriptor);
  return -1;
}

/* Files beyond TEXT_MOST are counted, but not read. */
static bool load(sources_t *s, source_file_t *f, const char *path) {
  struct stat is;
  int descriptor = open_source(path, &is);
  if (descriptor < 0) return false;
  bool good = s->written <= TEXT_MOST;
  if (!good) s->left_out++;
  if (good) {
    f->size = (size_t)is.st_size;
    f->changed = s->start_ns && (uint64_t)is.st_mtime > s->start_ns / 1000000000;
    f->text = malloc(f->size + 1);
    good = f->text && read_whole(descriptor, f->text, f->size);
    if (good) f->text[f->size] = 0;
  }
  close(descriptor);
  return good;
}

/* ---- parts of a file ---------------------------------------------------------------------- */

/* Where line LINE begins, from AT, where line *NUMBER begins; the end of the text if it has fewer.
 */
static char *line_start(char *at, uint32_t *number, uint32_t line) {
  while (*at && *number < line) {
    char *end = strchr(at, '\n');
    at = end ? end + 1 : at + strlen(at);
    ++*number;
  }
  return at;
}

/* The number of its first line, and the text without the last newline. */
static void put_part(sources_t *s, const char *comma, uint32_t first, char *from, char *to) {
  char *end = to > from && to[-1] == '\n' ? to - 1 : to;
  char kept = *end;
  *end = 0;
  page_put(s->out, comma);
  page_put(s->out, "[");
  page_put_number(s->out, first);
  page_put(s->out, ",");
  page_put_json(s->out, from);
  page_put(s->out, "]");
  *end = kept;
  s->written += (size_t)(to - from);
}

static uint32_t context_start(uint32_t line) { return line > CONTEXT ? line - CONTEXT : 1; }

static void put_parts(sources_t *s, source_file_t *f) {
  const char *comma = "";
  char *at = f->text;
  uint32_t number = 1;
  for (size_t i = 0, end; i < f->count; i = end) {
    end = i + 1;
    while (end < f->count && f->lines[end].line <= f->lines[end - 1].line + 2 * CONTEXT + 1)
      end++;
    bool whole = f->own && f->size <= WHOLE_FILE;
    at = line_start(at, &number, whole ? 1 : context_start(f->lines[i].line));
    if (!*at) return; /* the file is shorter: it was changed */
    uint32_t first = number;
    char *from = at;
    at = line_start(at, &number, whole ? UINT32_MAX : f->lines[end - 1].line + CONTEXT + 1);
    put_part(s, comma, first, from, at);
    comma = ",";
    if (whole) return;
  }
}

static void put_file(sources_t *s, source_file_t *f) {
  if (!load(s, f, s->names->texts.items[f->lines->file])) return;
  page_put(s->out, s->comma);
  s->comma = ",";
  page_put(s->out, "{\"file\":");
  page_put_number(s->out, f->lines->file);
  page_put(s->out, f->changed ? ",\"changed\":true,\"parts\":[" : ",\"parts\":[");
  put_parts(s, f);
  page_put(s->out, "]}");
}

/* ---- all files ---------------------------------------------------------------------------- */

static int by_place(const void *left, const void *right) {
  const used_line_t *a = left, *b = right;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  return a->line < b->line ? -1 : a->line > b->line;
}

/* The files with functions of the program itself, or the others. */
static void put_files(sources_t *s, const used_line_t *lines, size_t count, bool own) {
  for (size_t i = 0, end; i < count; i = end) {
    source_file_t file = {.lines = &lines[i]};
    for (end = i; end < count && lines[end].file == lines[i].file; end++)
      file.own |= lines[end].own;
    file.count = end - i;
    if (file.own == own) put_file(s, &file);
    free(file.text);
  }
}

void page_sources_write(page_names_t *names, uint64_t start_ns, page_stream_t *out) {
  sources_t s = {.names = names, .out = out, .start_ns = start_ns, .comma = ""};
  size_t count = 0;
  used_line_t *lines = calloc(names->frames.count + 1, sizeof *lines);
  if (!lines) {
    names->failed = true;
    return;
  }
  for (size_t i = 1; i < names->frames.count; i++) {
    const page_frame_t *f = &names->frames.items[i];
    if (!f->file || !f->line || f->line > INT32_MAX) continue;
    lines[count++] = (used_line_t){f->file, f->line, f->flags & PAGE_FRAME_OWN};
  }
  qsort(lines, count, sizeof *lines, by_place);
  page_put(out, "\"sources\":{\"files\":[");
  put_files(&s, lines, count, true);
  put_files(&s, lines, count, false);
  page_put(out, "],\"left_out\":");
  page_put_number(out, (int64_t)s.left_out);
  page_put(out, "}");
  free(lines);
}
