/* SPDX-License-Identifier: MIT
 *
 * sonde cache: lists, limits and clears the symbol index.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "symbol/index/cache.h"

enum { KEY_JSON = CLI_LONG_ONLY };

static const cli_option_t options[] = {{KEY_JSON, "json", NULL, "print JSON (docs/json.md)"}, {0}};

static const cli_part_t parts[] = {
    {.name = "list",
     .form = "list",
     .summary = "list the files (the default)",
     .about = "Lists the files of the index with their sizes, the index's folder, size and limit.",
     .examples = {{"sonde cache list", "list the files"},
                  {"sonde cache list --json", "the same as JSON"}}},
    {.name = "size",
     .form = "size",
     .summary = "print the number of files, their size and the limit",
     .about = "Prints the number of files, their size and the limit.",
     .examples = {{"sonde cache size", "see whether the limit is near"}}},
    {.name = "clear",
     .form = "clear",
     .summary = "remove every index",
     .about =
         "Removes every file of the index. The next run that needs names reads the debug files "
         "again.",
     .examples = {{"sonde cache clear", "free the disk space"}}},
    {.name = "limit",
     .form = "limit [SIZE]",
     .summary = "print the limit, or set it to SIZE",
     .about = "Prints the limit of the index, or sets it to SIZE and keeps it for later runs. SIZE "
              "is in bytes, or ends with K, M or G.",
     .examples = {{"sonde cache limit", "print the limit"},
                  {"sonde cache limit 4G", "set it to 4 GB"}}},
    {0}};

static const cli_usage_t usage = {
    .verb = "cache",
    .arguments = "[list | size | clear | limit [SIZE]]",
    .parts = parts,
    .parts_are = "commands",
    .about =
        "The symbol index stores the contents of debug files, one file for each binary, so that "
        "later runs find names and lines at once. If the index exceeds its limit, the least "
        "recently used files are removed.",
    .options = options,
    .examples = {{"sonde cache", "list the files, with their folder, size and limit"},
                 {"sonde cache size", "print the number of files, their size and the limit"},
                 {"sonde cache limit 4G", "set the limit to 4 GB"},
                 {"sonde cache clear", "remove every index"}}};

/* "64M", "2G", "1048576". */
static bool read_size(const char *text, uint64_t *out) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (shift) end++;
  *out = (uint64_t)number << shift;
  return !errno && !*end && *out >> shift == number;
}

static void put_size(uint64_t bytes) {
  static const char units[] = "BKMG";
  int unit = 0;
  uint64_t rest = 0;
  for (; bytes >= 1024 && unit < 3; unit++) {
    rest = bytes % 1024;
    bytes /= 1024;
  }
  if (unit)
    printf("%llu.%llu %c", (unsigned long long)bytes, (unsigned long long)(rest * 10 / 1024),
           units[unit]);
  else
    printf("%llu B", (unsigned long long)bytes);
}

/* Passes the path of the debug file that an index was made from, or NULL. */
static void with_source(const index_cache_entry_t *entry, void (*use)(const char *, void *),
                        void *context) {
  char path[INDEX_CACHE_PATH_MAX];
  index_t *index = index_cache_path(entry->key, path) ? index_from_file(path) : NULL;
  use(index ? index_debug_path(index) : NULL, context);
  index_close(index);
}

static void add_source(const char *path, void *object) {
  if (path) json_add_text(object, "debug_file", path);
}

static void print_source(const char *path, void *context) {
  (void)context;
  if (path) printf("  %s", path);
}

static void list_as_json(const index_cache_entry_t *entries, long count, const char *folder,
                         uint64_t total) {
  json_object *object = json_new_object(), *list = json_new_array();
  json_add_text(object, "folder", folder);
  json_add_number(object, "size_bytes", (int64_t)total);
  json_add_number(object, "limit_bytes", (int64_t)index_cache_limit());
  for (long i = 0; i < count; i++) {
    json_object *entry = json_new_object();
    json_add_text(entry, "build_id", entries[i].key);
    json_add_number(entry, "size_bytes", (int64_t)entries[i].size_bytes);
    json_add_number(entry, "used_s", entries[i].used.tv_sec);
    with_source(&entries[i], add_source, entry);
    json_append(list, entry);
  }
  json_add(object, "entries", list);
  puts(json_print(object, JSON_STYLE));
  json_object_put(object);
}

static void list_as_text(const index_cache_entry_t *entries, long count) {
  for (long i = 0; i < count; i++) {
    char when[32];
    struct tm local;
    localtime_r(&entries[i].used.tv_sec, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    printf("%s  ", when);
    put_size(entries[i].size_bytes);
    printf("  %s", entries[i].key);
    with_source(&entries[i], print_source, NULL);
    putchar('\n');
  }
}

static int show(bool list, bool json) {
  char folder[INDEX_CACHE_PATH_MAX];
  index_cache_entry_t *entries;
  uint64_t total = 0;
  if (!index_cache_folder(folder)) return message_fail("neither HOME nor XDG_CACHE_HOME is set");
  long count = index_cache_list(&entries);
  if (count < 0) return message_fail("'%s' cannot be read: %s", folder, strerror(errno));
  for (long i = 0; i < count; i++)
    total += entries[i].size_bytes;
  if (json) {
    list_as_json(entries, list ? count : 0, folder, total);
  } else {
    if (list) list_as_text(entries, count);
    printf("%ld %s, ", count, count == 1 ? "index" : "indexes");
    put_size(total);
    printf(" of ");
    put_size(index_cache_limit());
    printf(" in %s\n", folder);
  }
  free(entries);
  return CLI_DONE;
}

static int set_limit(const char *text) {
  uint64_t bytes;
  if (!read_size(text, &bytes))
    return cli_wrong_use(&usage, "'%s' is not a size such as 512M or 2G", text);
  if (!index_cache_set_limit(bytes))
    return message_fail("cannot store the limit: %s", strerror(errno));
  index_cache_shrink(bytes);
  return CLI_DONE;
}

int verb_cache(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool json = false;
  int key;
  while ((key = cli_next(&parser)) > 0)
    json |= key == KEY_JSON;
  if (key < 0) return parser.status;
  static const char *const actions[] = {"list", "size", "clear", "limit"};
  const char *action = parser.rest_count ? parser.rest[0] : "list";
  bool is_limit = !strcmp(action, "limit");
  if (parser.rest_count > 1 + is_limit)
    return cli_wrong_use(&usage, "unexpected argument '%s'", parser.rest[1 + is_limit]);
  if (is_limit && parser.rest_count == 2) return set_limit(parser.rest[1]);
  if (!strcmp(action, "list")) return show(true, json);
  if (!strcmp(action, "size") || is_limit) return show(false, json);
  if (strcmp(action, "clear")) {
    const char *meant = suggest_nearest(action, actions, 4);
    if (meant) return cli_wrong_use(&usage, "no action '%s'; did you mean '%s'?", action, meant);
    return cli_wrong_use(&usage, "no action '%s'", action);
  }
  index_cache_shrink(0);
  return CLI_DONE;
}
