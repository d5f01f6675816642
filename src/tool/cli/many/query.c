/* SPDX-License-Identifier: MIT
 *
 * sonde query: asks a store.
 */
#include <string.h>

#include "base/output.h"
#include "cli/cli.h"
#include "cli/many/answer_page.h"
#include "cli/verbs.h"
#include "report/exports/page/document.h"
#include "store/queries.h"
#include "store/regressions.h"
#include "store/store.h"

enum { COLUMNS_DEFAULT = 100 };
enum { KEY_TO = CLI_LONG_ONLY, KEY_SQL, KEY_TOP, KEY_ALL, KEY_JSON, KEY_CSV, KEY_HTML };

static const cli_option_t options[] = {
    {KEY_TO, "to", "URL", "the store (default: as for 'sonde store')"},
    {KEY_TOP, "top", "N", "print N rows of each build (default 10)"},
    {KEY_ALL, "all", NULL, "print all rows; for regressions, also changes that may be chance"},
    {KEY_SQL, "sql", "SELECT", "run this statement instead; docs/store.md describes the tables"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    {KEY_CSV, "csv", NULL, "print comma-separated values"},
    {KEY_HTML, "html", "FILE", "write a page for the browser, with the frames of each stack"},
    {0}};

static const cli_part_t parts[] = {
    {.name = "builds",
     .form = "builds",
     .summary = "list the builds in the store",
     .about = "Lists the builds in the store with their programs, sessions and dates.",
     .options = "to top all json csv html",
     .examples = {{"sonde query builds", "the names that other questions take"}}},
    {.name = "samples",
     .form = "samples [BUILD]",
     .summary = "where each build used the most CPU time",
     .about =
         "Lists the functions and stacks in which each build, or BUILD, used the most CPU time.",
     .options = "to top all json csv html",
     .examples = {{"sonde query samples 1.4.2", "one build"},
                  {"sonde query samples --html cpu.html",
                   "a page, with the frames of each stack"}}},
    {.name = "stalls",
     .form = "stalls [BUILD]",
     .summary = "the longest stalls of event loops",
     .about = "Lists the places where event loops of each build, or of BUILD, stalled the longest.",
     .options = "to top all json csv html",
     .examples = {{"sonde query stalls", "the longest stalls of each build"}}},
    {.name = "waits",
     .form = "waits [BUILD]",
     .summary = "the longest waits for locks and calls",
     .about = "Lists the places where threads of each build, or of BUILD, waited the longest. "
              "Recordings have waits if they were made with --wall.",
     .options = "to top all json csv html",
     .examples = {{"sonde query waits 1.4.2 --top 20", "20 places of a build"}}},
    {.name = "allocations",
     .form = "allocations [BUILD]",
     .summary = "the stacks that allocated most",
     .about = "Lists the stacks of each build, or of BUILD, that allocated the most memory.",
     .options = "to top all json csv html",
     .examples = {{"sonde query allocations --csv > allocations.csv", "for a spreadsheet"}}},
    {.name = "calls",
     .form = "calls [BUILD]",
     .summary = "the functions with the longest calls",
     .about = "Lists the traced functions of each build, or of BUILD, in whose calls the most time "
              "passed. Recordings have calls if they were made with --trace.",
     .options = "to top all json csv html",
     .examples = {{"sonde query calls 1.4.2", "one build"}}},
    {.name = "leaks",
     .form = "leaks [BUILD]",
     .summary = "what was never freed, and its growth",
     .about = "Lists the stacks of each build, or of BUILD, whose allocations were never freed, "
              "and how much more that is than in the build before.",
     .options = "to top all json csv html",
     .examples = {{"sonde query leaks 1.4.2", "what build 1.4.2 never freed, and what it adds"},
                  {"sonde query leaks --html leaks.html", "the same as a page"}}},
    {.name = "audit",
     .form = "audit [BUILD]",
     .summary = "sensitive calls, by the build that made them first",
     .about = "Lists the sensitive calls of each build, or of BUILD, and the build that made each "
              "call first.",
     .options = "to top all json csv html",
     .examples = {{"sonde query audit", "what is new in which build"}}},
    {.name = "crashes",
     .form = "crashes",
     .summary = "crashes by cause",
     .about = "Lists the crashes in the store by cause and place, with the builds that have them.",
     .options = "to top all json csv html",
     .examples = {{"sonde query crashes", "the most frequent crash first"}}},
    {.name = "regressions",
     .form = "regressions OLD NEW",
     .summary = "what got worse between two builds",
     .about = "Compares build OLD with build NEW by CPU time, stalls, waits, allocations and other "
              "amounts, and prints what got worse, with the confidence. Exits with status 1 if "
              "anything did.",
     .options = "to top all json csv html",
     .examples = {{"sonde query --json regressions 1.4.1 1.4.2", "a gate for a release"},
                  {"sonde query regressions --all 1.4.1 1.4.2",
                   "also changes that may be chance"}}},
    {.name = "stack",
     .form = "stack STACK",
     .summary = "the history of one stack id",
     .about = "Prints the frames of the stack with the id STACK, which other questions print, and "
              "its amounts in each build.",
     .options = "to top all json csv html",
     .examples = {{"sonde query stack 1a2b3c4d5e6f", "the history of a stack"}}},
    {0}};

static const cli_usage_t usage = {
    .verb = "query",
    .arguments = "QUESTION [WORD…]",
    .parts = parts,
    .parts_are = "questions",
    .about = "Asks a store that 'sonde store' filled.",
    .options = options,
    .examples = {{"sonde query stalls", "the longest stalls of each build"},
                 {"sonde query leaks 1.4.2", "what build 1.4.2 never freed, and what it adds"},
                 {"sonde query leaks --html leaks.html", "the same as a page"},
                 {"sonde query --json regressions 1.4.1 1.4.2", "a gate for a release"},
                 {"sonde query --sql 'SELECT count(*) FROM sessions'", "any other question"}}};

typedef struct request {
  const char *url, *sql, *page;
  char **words;
  int word_count;
  uint64_t top;
  bool all, json, csv;
} request_t;

/* Whole C++ names are for JSON and CSV: one fills a screen. */
static unsigned columns(void) {
  unsigned given = terminal_columns(stdout);
  return given ? given : COLUMNS_DEFAULT;
}

/* ANSWER follows BEFORE rows that are printed. */
static void print_part(const request_t *q, const char *name, const answer_t *answer,
                       uint64_t before) {
  if (q->json)
    answer_print_json(answer, name, before, stdout);
  else if (q->csv)
    answer_print_csv(answer, before, stdout);
  else if (!answer_rows(answer))
    printf("none\n");
  else
    answer_print_text(answer, columns(), stdout);
}

static int write_page(const request_t *q, const char *name, store_t *store,
                      const answer_t *answer) {
  char title[1024] = "";
  output_t output;
  for (int i = 0; i < q->word_count; i++)
    snprintf(title + strlen(title), sizeof title - strlen(title), "%s%s", i ? " " : "",
             q->words[i]);
  const answer_page_t page = {.title = q->sql ? q->sql : title,
                              .store = store_path(store),
                              .stack = !strcmp(name, "stack") ? q->words[1] : NULL};
  FILE *out = output_open_stream(&output, q->page, false, 0600);
  if (!out) return CLI_FAILED;
  int status = answer_write_page(answer, &page, store_engine(store), out) < 0
                   ? message_fail("the page cannot be made: out of memory")
                   : CLI_DONE;
  status = output_close_stream(&output, out, status);
  if (status == CLI_DONE) printf("%s\n", q->page);
  return status;
}

static int print_answer(const request_t *q, const char *name, store_t *store,
                        const answer_t *answer) {
  if (q->page) return write_page(q, name, store, answer);
  print_part(q, name, answer, 0);
  if (q->json) answer_print_json_end(stdout);
  return CLI_DONE;
}

static int failed(store_t *store) {
  return message_fail("'%s': %s", store_path(store), engine_error(store_engine(store)));
}

/* ---- regressions -------------------------------------------------------------------------- */

static int no_build(store_t *store, const char *name) {
  return message_fail("'%s' has no build '%s'; 'sonde query builds' lists them", store_path(store),
                      name);
}

/* A gate must not pass because most stacks were not compared. */
static void note_nameless(const request_t *q, const regressions_t *found) {
  message_note("%zu of %zu stacks are not compared: only '%s' or only '%s' has them, and frames of "
               "them have no names; 'sonde store symbolize' names them",
               found->nameless, found->nameless + found->compared, q->words[1], q->words[2]);
}

static int regressions(const request_t *q, store_t *store, answer_t *answer) {
  int64_t builds[2];
  regressions_t found;
  for (int i = 0; i < 2; i++) {
    builds[i] = query_build(store_engine(store), q->words[i + 1]);
    if (!builds[i]) return no_build(store, q->words[i + 1]);
  }
  if (builds[0] == builds[1])
    return message_fail("'%s' and '%s' are the same build", q->words[1], q->words[2]);
  if (!regressions_find(store_engine(store), builds[0], builds[1], q->all, answer, &found))
    return failed(store);
  int status = print_answer(q, "regressions", store, answer);
  if (status != CLI_DONE) return status;
  if (found.nameless) note_nameless(q, &found);
  return found.certain ? CLI_FINDING : found.nameless > found.compared ? CLI_FAILED : CLI_DONE;
}

/* ---- the other questions ------------------------------------------------------------------ */

/* The frames come before the history. */
static int stack_history(const request_t *q, store_t *store) {
  answer_t frames = {0};
  bool good = query_frames(store_engine(store), q->words[1], &frames);
  if (good && !answer_rows(&frames)) {
    answer_free(&frames);
    return message_fail("'%s' has no stack '%s'", store_path(store), q->words[1]);
  }
  if (good && !q->json && !q->csv && !q->page) {
    answer_print_text(&frames, 0, stdout);
    putchar('\n');
  }
  answer_free(&frames);
  return good ? CLI_DONE : failed(store);
}

static int ready(const request_t *q, store_t *store, const query_t *query, answer_t *answer) {
  const char *argument = q->word_count > 1 ? q->words[1] : NULL;
  if (query == query_named("stack")) {
    int status = stack_history(q, store);
    if (status != CLI_DONE) return status;
  } else if (argument && !query_build(store_engine(store), argument)) {
    return no_build(store, argument);
  }
  if (!query_run(query, store_engine(store), argument, q->all ? INT64_MAX : q->top, answer))
    return failed(store);
  return print_answer(q, query->name, store, answer);
}

/* Ends the query when nobody reads its answer. */
static bool print_rows(const answer_t *answer, uint64_t before, void *request) {
  print_part(request, "sql", answer, before);
  return fflush(stdout) == 0;
}

static int run_sql(request_t *q, store_t *store, answer_t *answer) {
  engine_t *engine = store_engine(store);
  if (!engine_set_read_only(engine)) return failed(store);
  if (q->page) {
    if (!answer_run(answer, engine, q->sql, NULL, 0)) return failed(store);
    return write_page(q, "sql", store, answer);
  }
  if (!answer_run_parts(engine, q->sql, print_rows, q)) return failed(store);
  if (q->json) answer_print_json_end(stdout);
  return CLI_DONE;
}

/* Regressions compare two builds. */
static copy_need_t need_of(const request_t *q, const query_t *query) {
  bool is_comparison = !q->sql && !query, is_history = query && query == query_named("stack");
  return (copy_need_t){.measures = query ? query->reads : STORE_ALL_MEASURES,
                       .is_whole = q->sql != NULL,
                       .stack = is_history ? query_stack(q->words[1]) : 0,
                       .most = query && query->is_ranked && !q->all ? q->top : 0,
                       .build = query && query->is_ranked && q->word_count > 1 ? q->words[1] : NULL,
                       .with_frames = q->page != NULL,
                       .builds = is_comparison ? (const char *const *)&q->words[1] : NULL};
}

static int run(request_t *q, const query_t *query) {
  char error[STORE_PATH_MAX + 512];
  answer_t answer = {0};
  const copy_need_t need = need_of(q, query);
  store_t *store = store_open(q->url, &need, error, sizeof error);
  if (!store) return message_fail("%s", error);
  int status = q->sql  ? run_sql(q, store, &answer)
               : query ? ready(q, store, query, &answer)
                       : regressions(q, store, &answer);
  answer_free(&answer);
  store_close(store);
  return status;
}

/* Returns the error, or NULL. */
static const char *check_words(const request_t *q, const query_t **query) {
  if (q->sql)
    return q->word_count ? "--sql takes no question" : *q->sql ? NULL : "--sql takes a statement";
  if (!q->word_count) return "takes a question, or --sql";
  if (!strcmp(q->words[0], "regressions"))
    return q->word_count == 3 ? NULL : "regressions takes two builds: OLD NEW";
  *query = query_named(q->words[0]);
  if (!*query) return "no such question; 'sonde help query' lists them";
  bool is_optional = (*query)->argument && *(*query)->argument == '[';
  int most = (*query)->argument ? 2 : 1, least = (*query)->argument && !is_optional ? 2 : 1;
  if (q->word_count < least) return "stack takes the id of a stack";
  return q->word_count > most ? "too many arguments" : NULL;
}

int verb_query(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {.top = 10};
  long top;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_TO: request.url = parser.value; break;
    case KEY_SQL: request.sql = parser.value; break;
    case KEY_ALL: request.all = true; break;
    case KEY_JSON: request.json = true; break;
    case KEY_CSV: request.csv = true; break;
    case KEY_HTML: request.page = parser.value; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      request.top = (uint64_t)top;
      break;
    }
  if (key < 0) return parser.status;
  if (request.json + request.csv + (request.page != NULL) > 1)
    return cli_wrong_use(&usage, "--json, --csv and --html exclude each other");
  if (request.page && !page_is_built())
    return message_fail("this sonde was built without the page; --json and --csv have the rows");
  request.words = parser.rest;
  request.word_count = parser.rest_count;
  const query_t *query = NULL;
  const char *wrong = check_words(&request, &query);
  return wrong ? cli_wrong_use(&usage, "%s", wrong) : run(&request, query);
}
