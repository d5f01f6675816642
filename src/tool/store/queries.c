/* SPDX-License-Identifier: MIT */
#include "store/queries.h"

#include <stdlib.h>
#include <string.h>

/* The builds of each program in the order of their first session; `n` counts the sessions that
 * recorded the measure ?1. */
#define ORDERED                                                                                    \
  "WITH ordered AS (SELECT build, count(*) AS n, row_number() OVER (PARTITION BY program ORDER BY" \
  " min(start_ns), build) AS k, program, name FROM sessions JOIN builds USING (build)"             \
  " WHERE measured >> ?1 & 1 GROUP BY build) "

/* Of the build ?2, if there is one. */
#define WANTED "(?2 IN ('', o.name) OR o.build = ?4)"

/* The stacks of equal signature and cause in one build; the id of one of them names the row. OF may
 * be a further condition. */
#define SUMS_OF(of)                                                                                \
  "sums AS (SELECT build, signature, cause, sum(count) AS count, sum(amount) AS amount,"           \
  " min(stack) AS stack FROM totals JOIN stacks USING (stack) WHERE measure = ?1" of               \
  " GROUP BY build, signature, cause) "
#define SUMS SUMS_OF("")

#define PLACE                                                                                      \
  "printf('%016x', sums.stack) AS stack,"                                                          \
  " coalesce(" STORE_FUNCTION " || CASE WHEN coalesce(n.file, '') = '' THEN '' ELSE ' (' ||"       \
  " replace(n.file, rtrim(n.file, replace(n.file, '/', '')), '') || ':' || n.line || ')' END,"     \
  " '[no stack]') AS function "

/* Of the wanted builds alone, which are neighbors in the order of the totals. */
#define OF_WANTED " AND build IN (SELECT build FROM builds WHERE ?2 IN ('', name) OR build = ?4)"

/* Not the view `places`: SQLite would make it of all frames first. */
#define SITE                                                                                       \
  " JOIN stacks ON stacks.stack = sums.stack LEFT JOIN frames f ON f.frame = "                     \
  "stacks.site" STORE_NAMED

/* The first ?3 rows of each build are those with a small rank, by the order KEYS. */
#define RANK(keys) "row_number() OVER (PARTITION BY build ORDER BY " keys ") AS rank"
#define IN_ORDER   " ORDER BY o.program, o.k DESC, o.build, rank"

#define TOP_RANKED "ranked AS (SELECT *, " RANK("amount DESC, count DESC, stack") " FROM sums) "
#define TOP_FROM                                                                                   \
  "FROM ranked sums JOIN ordered o USING (build)" SITE                                             \
  " LEFT JOIN causes ON causes.cause = sums.cause JOIN measures ON measures.measure = ?1"          \
  " WHERE rank <= ?3 AND " WANTED IN_ORDER
#define TOP_SELECT(count, amount)                                                                  \
  "SELECT o.name AS build, sums.count AS " count ", sums.amount AS " amount                        \
  ", sums.amount / o.n AS " amount "_per_session, coalesce(causes.name, '') AS cause,"             \
  " measures.unit AS unit, "
#define TOP(count, amount)                                                                         \
  ORDERED ", " SUMS_OF(OF_WANTED) ", " TOP_RANKED TOP_SELECT(count, amount)                        \
  PLACE TOP_FROM

/* Of a question about one measure; RANKS: it shows the largest sums of each build. */
#define READS(name) MEASURED_##name, 1u << MEASURED_##name, false
#define RANKS(name) MEASURED_##name, 1u << MEASURED_##name, true

const query_t queries[] = {
    {"builds", "the builds, with how much was recorded of each",
     "SELECT builds.name AS build, program, count(*) AS sessions, count(DISTINCT device) AS "
     "devices, sum(length_ns) AS length_ns, sum(events) AS events,"
     " date(min(day) * 86400, 'unixepoch') AS first_day, builds.build_id FROM sessions JOIN builds"
     " USING (build) WHERE ?1 >= 0 AND ?2 = '' AND ?3 > 0 GROUP BY sessions.build ORDER BY "
     "program, "
     "min(start_ns)",
     0, 0, false, NULL},
    {"stalls", "stalls by build: the stacks with the longest time first", TOP("stalls", "ns"),
     RANKS(stalls), "[BUILD]"},
    {"samples", "CPU time by build", TOP("samples", "ns"), RANKS(samples), "[BUILD]"},
    {"waits", "waits by build", TOP("samples", "ns"), RANKS(waits), "[BUILD]"},
    {"allocations", "allocations by build", TOP("blocks", "bytes"), RANKS(allocations), "[BUILD]"},
    {"calls", "traced calls by build, by time without the calls inside", TOP("calls", "ns"),
     RANKS(calls), "[BUILD]"},
    {"leaks", "bytes never freed, and their growth since the build before",
     ORDERED ", " SUMS ", grown AS (SELECT sums.build, sums.count, sums.stack,"
             " sums.amount / o.n AS per_session,"
             " sums.amount / o.n - coalesce(s.amount / p.n, 0) AS growth"
             " FROM sums JOIN ordered o USING (build)"
             " LEFT JOIN ordered p ON p.program = o.program AND p.k = o.k - 1"
             " LEFT JOIN sums s ON s.build = p.build AND s.signature = sums.signature),"
             " ranked AS (SELECT *, row_number() OVER (PARTITION BY build ORDER BY growth DESC,"
             " per_session DESC, stack) AS rank FROM grown) "
             "SELECT o.name AS build, sums.count AS blocks, per_session AS bytes_per_session,"
             " growth AS growth_bytes, " PLACE "FROM ranked sums JOIN ordered o USING (build)" SITE
             " WHERE rank <= ?3 AND " WANTED " ORDER BY o.program, o.k "
             "DESC, o.build, rank",
     READS(leaks), "[BUILD]"},
    {"audit", "sensitive calls by the build that made them first, and by owner",
     ORDERED ", found AS (SELECT o.program, category, causes.name AS call, owner, min(o.k) AS k,"
             " sum(count) AS findings, sum(amount) AS calls, count(DISTINCT build) AS builds,"
             " max(level) AS level, min(stack) AS stack FROM totals JOIN ordered o USING (build)"
             " JOIN causes USING (cause) WHERE measure = ?1 GROUP BY 1, 2, 3, 4),"
             " sums AS (SELECT * FROM found) "
             "SELECT o.name AS build, owner, category, call, level, calls, builds, " PLACE
             "FROM sums JOIN ordered o USING (program, k)" SITE " WHERE " WANTED " AND ?3 > 0"
             " ORDER BY o.program, o.k DESC, owner, category, call",
     READS(audit), "[BUILD]"},
    {"crashes", "crashes by cause",
     ORDERED
     ", sums AS (SELECT causes.name AS cause, category AS signal, signature,"
     " sum(sessions) AS crashes, count(DISTINCT build) AS builds, min(o.k) AS first,"
     " max(o.k) AS last, o.program AS program, min(stack) AS stack FROM totals JOIN stacks"
     " USING (stack) JOIN causes USING (cause) JOIN ordered o USING (build)"
     " WHERE measure = ?1 AND ?2 = '' GROUP BY o.program, causes.name, category, signature) "
     "SELECT sums.program, cause, signal, crashes, builds, b.name AS first_build,"
     " l.name AS last_build, " PLACE "FROM sums"
     " JOIN ordered b ON b.program = sums.program AND b.k = first"
     " JOIN ordered l ON l.program = sums.program AND l.k = last" SITE
     " ORDER BY crashes DESC, cause, stack LIMIT ?3",
     READS(crashes), NULL},
    {"stack", "what happened at the stack, by build",
     "SELECT builds.name AS build, measures.name AS measure, coalesce(causes.name, '') AS cause,"
     " unit, max(sessions) AS sessions, sum(count) AS count, sum(amount) AS amount FROM totals"
     " JOIN builds USING (build) JOIN measures USING (measure) LEFT JOIN causes USING (cause)"
     " JOIN (SELECT build, min(start_ns) AS first FROM sessions GROUP BY build) USING (build)"
     " WHERE ?1 >= 0 AND ?3 > 0 AND stack IN (SELECT b.stack FROM stacks a JOIN stacks b ON"
     " b.signature = a.signature WHERE a.stack = ?4)"
     " GROUP BY build, measure, cause ORDER BY first, build, measure, cause",
     0, STORE_ALL_MEASURES, false, "STACK"},
    {0},
};

const query_t *query_named(const char *name) {
  for (const query_t *q = queries; q->name; q++)
    if (!strcmp(q->name, name)) return q;
  return NULL;
}

uint64_t query_stack(const char *text) {
  char *end;
  uint64_t id = text ? strtoull(text, &end, 16) : 0;
  return text && !*end ? id : 0;
}

bool query_run(const query_t *q, engine_t *engine, const char *argument, uint64_t most,
               answer_t *out) {
  bool takes_stack = q->argument && !strcmp(q->argument, "STACK");
  int64_t id = takes_stack ? (int64_t)query_stack(argument)
               : argument  ? query_build(engine, argument)
                           : 0;
  const store_value_t values[] = {store_integer(q->measure), store_text(argument ? argument : ""),
                                  store_id(most), store_integer(id)};
  return answer_run(out, engine, q->sql, values, q->argument ? 4 : 3);
}

int64_t query_build(engine_t *engine, const char *name) {
  const store_value_t value = store_text(name);
  engine_rows_t *rows = engine_query(
      engine,
      "SELECT build FROM builds JOIN sessions USING (build) WHERE name = ?1 OR"
      " (length(?1) >= 6 AND substr(build_id, 1, length(?1)) = ?1) ORDER BY start_ns DESC LIMIT 1",
      &value, 1);
  int64_t build = rows && engine_step(rows) > 0 ? engine_value(rows, 0).integer : 0;
  engine_rows_end(rows);
  return build;
}

/* ---- frames ------------------------------------------------------------------------------- */

static bool add_functions(engine_t *engine, uint64_t frame, answer_t *out) {
  static const char sql[] =
      "SELECT coalesce(n.function, p.function), p.module, coalesce(n.file, p.file),"
      " coalesce(n.line, p.line) FROM places p LEFT JOIN names n USING (frame)"
      " WHERE p.frame = ? ORDER BY n.depth";
  const store_value_t id = store_id(frame);
  engine_rows_t *rows = engine_query(engine, sql, &id, 1);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    for (size_t i = 0; i < 3; i++) {
      store_value_t text = engine_value(rows, i);
      answer_text(out, text.is_null ? "" : text.bytes);
    }
    answer_integer(out, ANSWER_COUNT, engine_value(rows, 3).integer);
  }
  engine_rows_end(rows);
  return step == 0;
}

bool query_each_frame(engine_t *engine, uint64_t stack, bool (*each)(void *context, uint64_t frame),
                      void *context) {
  const store_value_t id = store_id(stack);
  engine_rows_t *rows = engine_query(engine, "SELECT frames FROM stacks WHERE stack = ?", &id, 1);
  bool good = rows != NULL;
  if (good && engine_step(rows) > 0) {
    const store_value_t frames = engine_value(rows, 0);
    uint64_t frame;
    for (size_t at = 0; good && at + sizeof frame <= frames.size; at += sizeof frame) {
      memcpy(&frame, (const char *)frames.bytes + at, sizeof frame);
      good = each(context, frame);
    }
  }
  engine_rows_end(rows);
  return good;
}

typedef struct frame_answer {
  engine_t *engine;
  answer_t *out;
} frame_answer_t;

static bool answer_frame(void *context, uint64_t frame) {
  const frame_answer_t *a = context;
  return add_functions(a->engine, frame, a->out);
}

bool query_frames(engine_t *engine, const char *stack, answer_t *out) {
  static const char *const columns[] = {"function", "module", "file", "line", NULL};
  for (int i = 0; columns[i]; i++)
    answer_column(out, columns[i]);
  frame_answer_t answer = {engine, out};
  return query_each_frame(engine, query_stack(stack), answer_frame, &answer) && !out->failed;
}
