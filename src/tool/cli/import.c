/* SPDX-License-Identifier: MIT
 *
 * sonde import: converts Apple's malloc stack logs to a recording, which every other verb reads.
 *
 * The contents decide what a file is: a stack table, a mapping tree and a memory graph have a magic
 * number, a list of images is text, any other file is a log. A memory graph may contain an image
 * list, a table and a log; separate files take precedence.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/file_input.h"
#include "cli/verbs.h"
#include "import/apple.h"
#include "import/memgraph.h"
#include "report/report.h"
#include "symbol/symbol.h"

enum { KEY_RECORDS = CLI_LONG_ONLY };

static const cli_option_t options[] = {
    {'o', "output", "FILE",
     "the recording to write (default: NAME.PID.sonde, from the log's name)"},
    {KEY_RECORDS, "records", "BYTES", "size of a record: 16, 24 or 32 (default: detected)"},
    NAMING_FILE_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "import",
    .arguments = "FILE…",
    .about =
        "Converts a malloc stack log of macOS or iOS (stack-logs.….index) to a recording for "
        "report, history, events and export. More files may follow in any order: the stack table "
        "(MslUniquingTable), the mapping tree (radixv2), or a list of images. A list is a crash "
        "report, .ips JSON, or lines START PATH. A memory graph (.memgraph) supplies its images, "
        "table and "
        "log, if it has them.",
    .options = options,
    .examples = {{"sonde import stack-logs.812.1059c0000.App.x1Yz2q.index app.table app.crash",
                  "a log with stacks and images; writes App.812.sonde"},
                 {"sonde import stack-logs.812.1059c0000.App.x1Yz2q.index App.memgraph",
                  "a log with the images and the stack table of a memory graph"},
                 {"sonde import --records 32 log.index", "a short log, without stacks"}}};

typedef struct job {
  const char *output;
  long records;
  naming_t naming;
  const char *log_path, *graph_path;
  file_input_t log, regions;
  memgraph_t graph;
  apple_table_t table;
  bool has_table, has_images;
  image_list_t images;
  uint32_t pid;
  char name[256];
} job_t;

/* ---- files -------------------------------------------------------------------------------- */

static bool is_text(const file_input_t *file) {
  uint64_t looked = file->size < 4096 ? file->size : 4096;
  return memchr(file->data, 0, looked) == NULL;
}

static int take_table(job_t *job, const char *path, const file_input_t *file) {
  const char *wrong = apple_table_read(&job->table, file->data, file->size);
  if (wrong) return message_fail("'%s' is not a known stack table: %s", path, wrong);
  if (job->has_table) return message_fail("'%s' is a second stack table", path);
  job->has_table = true;
  return CLI_DONE;
}

static int take_images(job_t *job, const char *path, const file_input_t *file) {
  if (job->has_images) return message_fail("'%s' is a second list of images", path);
  job->has_images = true;
  return file_input_images(path, file, &job->images);
}

static int take_graph(job_t *job, const char *path, const file_input_t *file) {
  if (job->graph_path) return message_fail("'%s' is a second memory graph", path);
  job->graph_path = path;
  const char *wrong = memgraph_read(&job->graph, file->data, file->size);
  return wrong ? message_fail("'%s': %s", path, wrong) : CLI_DONE;
}

static int take_file(job_t *job, const char *path) {
  file_input_t file;
  int status = file_input_map(path, &file);
  if (status != CLI_DONE) return status;
  if (apple_table_is(file.data, file.size)) return take_table(job, path, &file);
  if (apple_regions_are(file.data, file.size)) {
    job->regions = file;
    return CLI_DONE;
  }
  if (memgraph_is(file.data, file.size)) return take_graph(job, path, &file);
  if (is_text(&file)) return take_images(job, path, &file);
  if (job->log.data) return message_fail("'%s' and '%s' are both logs", job->log_path, path);
  job->log = file;
  job->log_path = path;
  if (!apple_file_name(path, &job->pid, job->name, sizeof job->name)) {
    const char *slash = strrchr(path, '/');
    snprintf(job->name, sizeof job->name, "%s", slash ? slash + 1 : path);
  }
  return CLI_DONE;
}

/* ---- a memory graph ------------------------------------------------------------------------ */

/* Prints one line: what the memory graph contains, and what cannot be read. */
static void print_graph(const job_t *job) {
  const memgraph_t *g = &job->graph;
  char process[320] = "", log[64] = "no log", unread[160] = "";
  if (g->name[0]) snprintf(process, sizeof process, " of %s (%" PRIu64 ")", g->name, g->pid);
  if (g->log) snprintf(log, sizeof log, "a log of %" PRIu64 " bytes", g->log_size);
  if (g->lzfse || g->damaged)
    snprintf(unread, sizeof unread,
             "; not read: %" PRIu64 " parts compressed as LZFSE, %" PRIu64 " damaged", g->lzfse,
             g->damaged);
  message_note("'%s', a memory graph%s: %zu image%s, %s%s, %s%s", job->graph_path, process,
               g->images.count, report_plural(g->images.count),
               g->table.nodes ? "a stack table" : "no stack table",
               g->table_wrong ? " of a known version" : "", log, unread);
}

static void take_graph_log(job_t *job) {
  const memgraph_t *g = &job->graph;
  if (job->log.data || !g->log) return;
  job->log = (file_input_t){g->log, g->log_size, 0};
  job->log_path = job->graph_path;
  job->pid = g->pid <= UINT32_MAX ? (uint32_t)g->pid : 0;
  snprintf(job->name, sizeof job->name, "%s", g->name[0] ? g->name : "memgraph");
  for (char *at = job->name; (at = strchr(at, '/')) != NULL;)
    *at = '_'; /* the name becomes a file name */
}

/* Takes from the memory graph what no other file supplied. */
static int use_graph(job_t *job) {
  memgraph_t *g = &job->graph;
  if (!job->graph_path) return CLI_DONE;
  if (!g->images.count && !g->table.nodes && !g->log && !g->table_wrong && !g->lzfse)
    return message_fail(
        "'%s' is a property list without a list of images, a stack table or a log%s",
        job->graph_path, g->damaged ? "; parts of it are damaged" : "");
  print_graph(job);
  if (g->images.count && job->has_images)
    return message_fail("'%s' holds a second list of images", job->graph_path);
  if (g->images.count) {
    job->images = g->images;
    g->images = (image_list_t){0};
    job->has_images = true;
  }
  if (g->table.nodes && !job->has_table) {
    job->table = g->table;
    job->has_table = true;
  }
  take_graph_log(job);
  return CLI_DONE;
}

/* ---- layout and images -------------------------------------------------------------------- */

static int choose_layout(job_t *job, apple_layout_t *layout) {
  bool ambiguous;
  *layout = (apple_layout_t)job->records;
  if (job->records || !job->log.data) return CLI_DONE;
  *layout = apple_detect(job->log.data, job->log.size, &ambiguous);
  if (*layout != APPLE_UNKNOWN) return CLI_DONE;
  if (ambiguous)
    return message_fail("'%s' has too few records to detect their size; use --records 16, 24 or 32",
                        job->log_path);
  return message_fail("'%s' is not a malloc stack log; if it is, use --records 16, 24 or 32",
                      job->log_path);
}

static uint64_t *link_bases(const job_t *job) {
  symbol_options_t symbols = {
      .debug_dirs = job->naming.debug_dirs, .sysroots = job->naming.sysroots, .no_lines = true};
  symbolizer_t *symbolizer = symbolizer_new(&symbols);
  uint64_t *bases = calloc(job->images.count + 1, sizeof *bases);
  for (size_t i = 0; bases && i < job->images.count; i++)
    bases[i] =
        images_link_base(symbolizer ? images_module(symbolizer, &job->images.items[i]) : NULL,
                         &job->images.items[i]);
  symbolizer_free(symbolizer);
  return bases;
}

/* ---- the recording ------------------------------------------------------------------------ */

static uint32_t elf_machine(const job_t *job) {
  for (size_t i = 0; i < job->images.count; i++)
    if (job->images.items[i].machine == IMAGE_X86_64) return 62;
  return 183;
}

static void describe(offline_t *to, const job_t *job, const apple_summary_t *found) {
  record_header_t *h = offline_header(to);
  char note[160];
  h->machine = elf_machine(job);
  h->pid = job->pid;
  h->mode = (job->log.data ? RECORD_BLOCKS : 0) | RECORD_MAPPINGS;
  h->start_ticks = h->start_monotonic_ns = 1;
  h->end_ticks = h->end_monotonic_ns = found->records + 2;
  time_t changed = job->log.data ? job->log.changed : job->regions.changed;
  h->start_realtime_ns = (uint64_t)(changed > 0 ? changed : 0) * 1000000000u;
  h->lost_stacks = found->unknown_stacks;
  snprintf(note, sizeof note, "(imported from a malloc stack log: times are record numbers%s%s)",
           job->has_table ? "" : "; no stack table, so no frames",
           job->has_images ? "" : "; no list of images, so no names");
  const offline_text_t texts[] = {
      {job->name, strlen(job->name)}, {job->name, strlen(job->name)}, {note, strlen(note)}, {0}};
  offline_table(to, TABLE_PROCESS, (const uint64_t[]){job->pid}, 1, texts);
}

static void print_result(const job_t *job, const char *output, const apple_summary_t *f,
                         int layout) {
  fprintf(stderr,
          "%s: %" PRIu64 " event%s and %" PRIu64 " mapping%s of %" PRIu64 " thread%s, %" PRIu64
          " stack node%s, %" PRIu64 " frame%s, %zu image%s",
          output, f->events, report_plural(f->events), f->regions, report_plural(f->regions),
          f->threads, report_plural(f->threads), f->stacks, report_plural(f->stacks), f->frames,
          report_plural(f->frames), job->images.count, report_plural(job->images.count));
  if (layout) fprintf(stderr, "; records of %d bytes", layout);
  fputc('\n', stderr);
  if (!job->has_table) message_note("no stack table: stacks have no frames");
  if (!job->has_images) message_note("no list of images: frames have no names");
  if (job->table.missing)
    message_note("the stack table is truncated: %" PRIu64 " nodes are missing", job->table.missing);
  if (f->damaged) message_note("%" PRIu64 " damaged records were skipped", f->damaged);
  if (f->partial_bytes)
    message_note("%" PRIu64 " bytes at the end are an incomplete record", f->partial_bytes);
  if (f->unknown_stacks)
    message_note("%" PRIu64 " events refer to stacks that are not in the table", f->unknown_stacks);
  if (f->broken_chains)
    message_note("%" PRIu64 " stacks have invalid or circular parents and were truncated",
                 f->broken_chains);
  if (f->damaged_regions)
    message_note("%" PRIu64 " nodes of the mapping tree are damaged", f->damaged_regions);
}

static int import_files(job_t *job) {
  char name[320];
  apple_layout_t layout;
  int status = choose_layout(job, &layout);
  if (status != CLI_DONE) return status;
  snprintf(name, sizeof name, "%s.%u.sonde", job->name, job->pid);
  output_t output;
  if (!output_open(&output, job->output ? job->output : name, !job->output, 0600))
    return CLI_FAILED;
  uint64_t *bases = link_bases(job);
  offline_t *to = bases ? offline_begin(output.fd) : NULL;
  if (!to) {
    free(bases);
    output_discard(&output);
    return message_fail("out of memory");
  }
  const apple_input_t input = {.log = job->log.data,
                               .log_size = job->log.size,
                               .log_is_mapped = job->log.data != job->graph.log,
                               .layout = layout,
                               .table = job->has_table ? &job->table : NULL,
                               .regions = job->regions.data,
                               .regions_size = job->regions.size,
                               .images = &job->images,
                               .link_bases = bases};
  apple_summary_t found;
  terminal_progress_t progress;
  terminal_progress_start(&progress, "importing", 0);
  bool good = apple_import(to, &input, &found, terminal_progress_update, &progress);
  terminal_progress_end(&progress);
  free(bases);
  describe(to, job, &found);
  int error = offline_finish(to);
  if (!good)
    (void)message_fail("out of memory");
  else if (error)
    (void)message_fail("cannot write '%s': %s", output.path, strerror(-error));
  good = good && !error && output_commit(&output);
  output_discard(&output);
  close(output.fd);
  if (!good) return CLI_FAILED;
  print_result(job, output.path, &found, job->log.data ? (int)layout : 0);
  return CLI_DONE;
}

/* ---- the verb ----------------------------------------------------------------------------- */

int verb_import(int argc, char **argv) {
  static job_t job;
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  int key, status;
  while ((key = cli_next(&parser)) > 0) {
    if (key == 'o') job.output = parser.value;
    const char *wrong;
    if (naming_take(&job.naming, key, parser.value, &wrong) && wrong)
      return cli_wrong_use(&usage, "%s", wrong);
    if (key == KEY_RECORDS &&
        (!parse_number(parser.value, 16, 32, &job.records) || job.records % 8 != 0))
      return cli_wrong_use(&usage, "--records takes 16, 24 or 32");
  }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1) return cli_wrong_use(&usage, "takes a log");
  for (int i = 0; i < parser.rest_count; i++) {
    status = take_file(&job, parser.rest[i]);
    if (status != CLI_DONE) return status;
  }
  status = use_graph(&job);
  if (status != CLI_DONE) return status;
  if (!job.log.data && !job.regions.data)
    return message_fail("no file is a malloc stack log or a mapping tree");
  if (!job.log.data) snprintf(job.name, sizeof job.name, "regions");
  status = import_files(&job);
  images_free(&job.images);
  memgraph_free(&job.graph);
  return status;
}
