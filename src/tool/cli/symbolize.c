/* SPDX-License-Identifier: MIT
 *
 * sonde symbolize: finds the function, file and line of addresses in binaries and debug files,
 * without a process.
 *
 * Addresses are arguments, or lines of stdin. Answers are written before the next read of stdin, so
 * another program can use the verb as a coprocess. Memory does not grow with the input. A file of
 * `sonde stacks --json` is symbolized as a whole.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/out_buffer.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/file_input.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/stacks/resymbolize.h"
#include "symbol/symbol.h"

enum {
  KEY_LOAD = CLI_LONG_ONLY,
  KEY_SLIDE,
  KEY_UUID,
  KEY_ARCH,
  KEY_RETURNS,
  KEY_NO_LINES,
  KEY_NO_INLINES,
  KEY_NO_DEMANGLE,
  KEY_NO_INDEX,
  KEY_IMAGES,
  KEY_JSON,
};

static const cli_option_t options[] = {
    {'i', "image", "FILE", "the binary that contains the addresses"},
    {KEY_IMAGES, "images", "FILE",
     "a list of a process's images: a crash report, .ips JSON, a memory graph, or lines START "
     "PATH"},
    {KEY_LOAD, "load", "ADDRESS",
     "where the image was mapped; without it, addresses are link addresses"},
    {KEY_SLIDE, "slide", "N", "run-time address minus link address"},
    {KEY_UUID, "uuid", "UUID",
     "UUID or build-id of the binary; without --image, finds its file in --debug-dir"},
    {KEY_ARCH, "arch", "NAME", "slice of a fat Mach-O file: arm64, x86_64, i386, armv7, …"},
    {KEY_RETURNS, "return-addresses", NULL,
     "addresses are return addresses: name the call before each"},
    NAMING_FILE_OPTIONS,
    {KEY_NO_LINES, "no-lines", NULL, "print functions only"},
    {KEY_NO_INLINES, "no-inlines", NULL, "omit inlined functions"},
    {KEY_NO_DEMANGLE, "no-demangle", NULL, "print linker names"},
    {KEY_NO_INDEX, "no-index", NULL, "neither read nor write the symbol index"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    {0}};

static const cli_usage_t usage = {
    .verb = "symbolize",
    .arguments = "--image FILE | --images FILE [ADDRESS…] | FILE.json",
    .about =
        "Prints function, file and line of hexadecimal addresses, which are arguments or lines of "
        "stdin. Given a file that 'sonde stacks --json' wrote, names all frames in it.",
    .options = options,
    .examples = {
        {"sonde symbolize --image ./server 0x4f21c0 0x4f2200", "two link addresses"},
        {"sonde symbolize --image libc.so.6 --load 7f3a10000000 < pcs", "run-time addresses"},
        {"sonde symbolize --image App --arch arm64 --slide 0x4000 0x100004a10", "a fat file"},
        {"sonde symbolize --images App.crash --debug-dir ./dSYMs 0x104a30010", "a crash report"},
        {"sonde symbolize --debug-dir ./debug stacks.json", "stacks of a stripped build"}}};

typedef struct job {
  const char *image;
  naming_t naming;
  symbol_options_t symbols;
  bool has_load, has_slide, returns, no_demangle, json;
  uint64_t load, slide;
  uint8_t uuid[64];
  size_t uuid_size;
  image_machine_t machine;
  bool is_arm64e;
  symbolizer_t *symbolizer;
  symbol_module_t *module;
  const char *list; /* the file of --images, or NULL */
  image_list_t images;
  const listed_image_t *listed; /* the image of `module` and `slide` */
  size_t written, named;
} job_t;

/* ---- the command line --------------------------------------------------------------------- */

/* A decimal or 0x… number that may be negative. */
static bool read_slide(const char *text, uint64_t *out) {
  char *end;
  bool negative = text[0] == '-';
  if (negative) text++;
  if (!isdigit((unsigned char)text[0])) return false;
  errno = 0;
  *out = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
  if (negative) *out = -*out;
  return !errno && !*end;
}

/* Reads a UUID or build-id, with or without hyphens. Returns its size in bytes; 0: not one. */
static size_t read_hex(const char *text, uint8_t *out, size_t room) {
  size_t digits = 0;
  for (; *text; text++) {
    if (*text == '-') continue;
    const char *lower = "0123456789abcdef";
    const char *digit = strchr(lower, tolower((unsigned char)*text));
    if (!digit || digits / 2 == room) return 0;
    unsigned value = (unsigned)(digit - lower);
    out[digits / 2] = (uint8_t)(digits % 2 ? (unsigned)out[digits / 2] << 4 | value : value);
    digits++;
  }
  return digits % 2 ? 0 : digits / 2;
}

static image_machine_t machine_named(const char *name) {
  static const struct {
    const char *name;
    image_machine_t machine;
  } machines[] = {{"arm64", IMAGE_AARCH64}, {"arm64e", IMAGE_AARCH64},   {"aarch64", IMAGE_AARCH64},
                  {"x86_64", IMAGE_X86_64}, {"x86_64h", IMAGE_X86_64},   {"i386", IMAGE_I386},
                  {"armv7", IMAGE_ARMV7},   {"arm64_32", IMAGE_ARM64_32}};
  for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
    if (!strcmp(machines[i].name, name)) return machines[i].machine;
  return IMAGE_MACHINE_UNKNOWN;
}

/* Reads an option. Returns the error, or NULL. */
static const char *take_option(job_t *job, int key, const char *value) {
  switch (key) {
  case 'i': job->image = value; break;
  case KEY_IMAGES: job->list = value; break;
  case KEY_LOAD:
    if (!parse_address(value, &job->load)) return "--load takes an address in hexadecimal";
    job->has_load = true;
    break;
  case KEY_SLIDE:
    if (!read_slide(value, &job->slide)) return "--slide takes a number, such as 0x1000 or -4096";
    job->has_slide = true;
    break;
  case KEY_UUID:
    job->uuid_size = read_hex(value, job->uuid, sizeof job->uuid);
    if (!job->uuid_size) return "--uuid takes a UUID or build-id in hexadecimal";
    break;
  case KEY_ARCH:
    job->machine = machine_named(value);
    job->is_arm64e = !strcmp(value, "arm64e");
    if (job->machine == IMAGE_MACHINE_UNKNOWN)
      return "--arch takes arm64, arm64e, x86_64, i386, armv7 or arm64_32";
    break;
  case KEY_RETURNS: job->returns = true; break;
  case KEY_NO_LINES: job->symbols.no_lines = true; break;
  case KEY_NO_INLINES: job->symbols.no_inlines = true; break;
  case KEY_NO_DEMANGLE: job->no_demangle = job->symbols.raw = true; break;
  case KEY_NO_INDEX: job->symbols.no_index = true; break;
  case KEY_JSON: job->json = true; break;
  }
  return NULL;
}

/* ---- one address -------------------------------------------------------------------------- */

/* Selects the listed image that contains ADDRESS. Returns its path; NULL: none. */
static const char *choose_image(job_t *job, uint64_t address) {
  long at = images_find(&job->images, address);
  const listed_image_t *image = at < 0 ? NULL : &job->images.items[at];
  if (image && image == job->listed) return image->path;
  job->listed = image;
  job->module = image ? images_module(job->symbolizer, image) : NULL;
  if (!job->module) return NULL;
  job->slide = image->start - images_link_base(job->module, image);
  return image->path;
}

static void symbolize_address(job_t *job, uint64_t address) {
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason = SYMBOL_NAMED;
  int count = 0;
  const char *path = job->list ? choose_image(job, address - job->returns) : NULL;
  if (job->module)
    count = symbol_lookup(job->module, address - job->slide - job->returns, frames,
                          SYMBOL_FRAMES_MAX, &reason);
  if (count && frames[count - 1].has_offset && job->returns) frames[count - 1].function_offset++;
  for (int i = 0; i < count && job->no_demangle; i++)
    frames[i].function = frames[i].raw;
  const char *why = !job->module             ? "in no listed image"
                    : reason == SYMBOL_NAMED ? NULL
                                             : symbol_reason_text(reason);
  const symbolized_address_t found = {address, path, frames, count, why};
  if (job->json)
    out_buffer_address_json(&found, job->written == 0);
  else
    out_buffer_address(&found);
  job->written++;
  job->named += !why;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* Symbolizes the line from LINE to END, an address or nothing; false: it is neither. */
static bool symbolize_line(job_t *job, const char *line, const char *end) {
  uint64_t address;
  while (line < end && isspace((unsigned char)*line))
    line++;
  if (line == end) return true;
  if (!parse_address_prefix(&line, &address)) return false;
  while (line < end && isspace((unsigned char)*line))
    line++;
  if (line == end) symbolize_address(job, address);
  return line == end;
}

static int not_an_address(size_t number, const char *line, const char *end) {
  return message_fail("line %zu: '%.*s' is not an address", number,
                      (int)(end - line < 40 ? end - line : 40), line);
}

static size_t lines_of(const char *text, size_t size) {
  size_t lines = 0;
  for (size_t i = 0; i < size; i++)
    lines += text[i] == '\n';
  return lines;
}

/* Reads stdin without stdio: output is flushed before each read, which may block. */
static int symbolize_stdin(job_t *job) {
  char buffer[65536];
  size_t held = 0, line_number = 1;
  bool indexed = false;
  for (;;) {
    out_buffer_flush();
    if (fflush(stdout) != 0) return message_fail("cannot write the output: %s", strerror(errno));
    ssize_t count = read(STDIN_FILENO, buffer + held, sizeof buffer - 1 - held);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return message_fail("cannot read stdin: %s", strerror(errno));
    held += (size_t)count;
    if (count == 0 && held) buffer[held++] = '\n'; /* the last line may lack it */
    const char *line = buffer, *stop = buffer + held, *newline;
    if (!indexed && !job->list) indexed = symbol_expect(job->module, lines_of(buffer, held));
    for (; (newline = memchr(line, '\n', (size_t)(stop - line))); line = newline + 1) {
      if (!symbolize_line(job, line, newline)) return not_an_address(line_number, line, newline);
      line_number++;
    }
    held = (size_t)(stop - line);
    memmove(buffer, line, held);
    if (count == 0) return CLI_DONE;
    if (held == sizeof buffer - 1)
      return message_fail("line %zu is too long for an address", line_number);
  }
}

static int symbolize_all(job_t *job, char **texts, int count) {
  if (count && !job->list) symbol_expect(job->module, (size_t)count);
  for (int i = 0; i < count; i++)
    if (!symbolize_line(job, texts[i], texts[i] + strlen(texts[i])))
      return message_fail("'%s' is not an address", texts[i]);
  return count ? CLI_DONE : symbolize_stdin(job);
}

/* Fails if the image cannot name any address: one error instead of one for each address. */
static int check_image(job_t *job) {
  symbol_frame_t frame;
  symbol_reason_t reason;
  if (job->image && access(job->image, R_OK) != 0)
    return message_fail("'%s': %s", job->image, strerror(errno));
  if (symbol_lookup(job->module, 0, &frame, 1, &reason)) return CLI_DONE;
  if (reason == SYMBOL_TRUNCATED)
    return message_fail("'%s' is truncated or damaged: its headers refer to bytes beyond its end; "
                        "copy it again",
                        job->image);
  if (reason == SYMBOL_NO_FILE || reason == SYMBOL_BAD_FILE)
    return job->image ? message_fail("'%s' is not an ELF or Mach-O file, or is damaged", job->image)
                      : message_fail("no debug file with this UUID in --debug-dir");
  if (reason == SYMBOL_REPLACED && (job->uuid_size || job->machine))
    return message_fail("'%s' has no image with that UUID or architecture", job->image);
  return CLI_DONE;
}

static int open_images(job_t *job) {
  file_input_t file;
  int status = file_input_map(job->list, &file);
  return status == CLI_DONE ? file_input_images(job->list, &file, &job->images) : status;
}

static int open_image(job_t *job) {
  symbol_source_t source = {.path = job->image,
                            .build_id = job->uuid,
                            .build_id_size = job->uuid_size,
                            .machine = job->machine,
                            .is_arm64e = job->is_arm64e};
  uint64_t base = 0;
  job->module = symbolizer_module(job->symbolizer, &source);
  if (!job->module) return message_fail("out of memory");
  int status = check_image(job);
  if (status != CLI_DONE) return status;
  if (job->has_load && symbol_link_base(job->module, &base)) job->slide = job->load - base;
  return CLI_DONE;
}

static int symbolize_addresses(job_t *job, char **texts, int count) {
  int status = job->list ? open_images(job) : open_image(job);
  if (status != CLI_DONE) return status;
  if (job->json) fputs("{\"addresses\":[", stdout);
  status = symbolize_all(job, texts, count);
  out_buffer_flush();
  if (job->json) fputs("\n]}\n", stdout);
  if (status == CLI_DONE && job->written && !job->named)
    return message_fail("no address has a name; check the image, --load or --slide, and that its "
                        "debug file is available");
  return status;
}

/* ---- stacks ------------------------------------------------------------------------------- */

static const char *note_of(json_object *frame) {
  if (json_flag_of(frame, "tail_call")) return " (tail call)";
  return json_flag_of(frame, "guessed") ? " (guessed)" : NULL;
}

static void put_frame(json_object *frame, size_t number) {
  symbol_frame_t function;
  const char *pc = json_text_of(frame, "pc");
  resymbolize_read(frame, &function);
  printf("  #%-3zu ", number);
  if (!function.function && pc) {
    out_buffer_text(pc);
    out_buffer_text(" ");
  }
  out_buffer_frame(&function, note_of(frame));
  out_buffer_flush();
}

/* Writes BEFORE, TEXT and AFTER if TEXT is not empty. */
static void put_part(const char *before, const char *text, const char *after) {
  if (!text || !*text) return;
  out_buffer_text(before);
  out_buffer_text(text);
  out_buffer_text(after);
  out_buffer_flush();
}

static void put_thread(json_object *thread) {
  json_object *tid, *frames;
  size_t count = 0;
  printf("thread %lld", json_object_object_get_ex(thread, "tid", &tid)
                            ? (long long)json_object_get_int64(tid)
                            : 0);
  put_part(" \"", json_text_of(thread, "name"), "\"");
  putchar('\n');
  if (json_object_object_get_ex(thread, "frames", &frames) &&
      json_object_is_type(frames, json_type_array))
    count = json_object_array_length(frames);
  for (size_t i = 0; i < count; i++)
    put_frame(json_object_array_get_idx(frames, i), i);
  const char *reason = json_text_of(thread, "reason");
  put_part(count ? "  incomplete: " : "  no frames: ", reason, "");
  if (reason) putchar('\n');
}

static void put_stacks(json_object *document) {
  json_object *threads;
  json_object_object_get_ex(document, "threads", &threads);
  for (size_t i = 0; i < json_object_array_length(threads); i++) {
    if (i) putchar('\n');
    put_thread(json_object_array_get_idx(threads, i));
  }
}

static int symbolize_stacks(job_t *job, const char *path) {
  if (access(path, R_OK) != 0) return message_fail("'%s': %s", path, strerror(errno));
  json_object *document = json_read_file(path);
  if (!document || resymbolize_stacks(document, job->symbolizer) < 0) {
    json_object_put(document);
    return message_fail("'%s' is not JSON of `sonde stacks`; for a binary, use --image", path);
  }
  if (job->json)
    puts(json_print(document, JSON_STYLE));
  else
    put_stacks(document);
  json_object_put(document);
  return CLI_DONE;
}

/* ---- the verb ----------------------------------------------------------------------------- */

int verb_symbolize(int argc, char **argv) {
  job_t job = {.symbols = {.progress = terminal_index_progress}};
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  int key, status;
  while ((key = cli_next(&parser)) > 0) {
    const char *wrong;
    if (!naming_take(&job.naming, key, parser.value, &wrong))
      wrong = take_option(&job, key, parser.value);
    if (wrong) return cli_wrong_use(&usage, "%s", wrong);
  }
  if (key < 0) return parser.status;
  if (job.has_load && job.has_slide)
    return cli_wrong_use(&usage, "--load and --slide exclude each other");
  if (job.list && (job.image || job.uuid_size || job.has_load || job.has_slide || job.machine))
    return cli_wrong_use(&usage, "--images excludes --image, --uuid, --load, --slide and --arch");
  bool is_addresses = job.image || job.uuid_size || job.list;
  if (!is_addresses && parser.rest_count != 1)
    return cli_wrong_use(&usage,
                         "takes --image FILE, --images FILE, or a JSON file of `sonde stacks`");
  job.symbols.debug_dirs = job.naming.debug_dirs;
  job.symbols.sysroots = job.naming.sysroots;
  job.symbolizer = symbolizer_new(&job.symbols);
  if (!job.symbolizer) return message_fail("out of memory");
  if (is_addresses)
    status = symbolize_addresses(&job, parser.rest, parser.rest_count);
  else
    status = symbolize_stacks(&job, parser.rest[0]);
  symbolizer_free(job.symbolizer);
  images_free(&job.images);
  return status;
}
