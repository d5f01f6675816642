/* SPDX-License-Identifier: MIT
 *
 * Questions have the same answers from a digest as from all rows: random stores, in which stacks of
 * different builds and of one build have equal names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "store/clickhouse/digest.h"
#include "store/queries.h"
#include "store/regressions.h"

enum { FRAMES = 40, LABELS = 9, STACKS = 60, BUILDS = 5, CAUSES = 3, TOTALS = 900, DEPTH = 3 };

static unsigned seed;
static engine_t *whole, *digested;
static digest_t digest;

static int64_t below(int64_t most) { return rand_r(&seed) % most; }

static engine_t *new_engine(void) {
  char error[256];
  engine_t *engine = engine_open(":memory:", true, error, sizeof error);
  assert_non_null(engine);
  return engine;
}

/* Of rows that both copies have. */
static void insert(store_table_id_t table, const store_value_t *row) {
  assert_true(engine_insert(whole, table, row) >= 0);
  assert_true(engine_insert(digested, table, row) >= 0);
}

static void add_builds(void) {
  for (int64_t build = 1; build <= BUILDS; build++) {
    char name[8];
    snprintf(name, sizeof name, "b%d", (int)build);
    const store_value_t row[] = {store_integer(build), store_text(name),
                                 store_text(build % 2 ? "odd" : "even"), store_text("")};
    insert(STORE_BUILDS, row);
    for (int64_t i = 0; i < 4; i++) {
      store_value_t session[16];
      for (size_t k = 0; k < 16; k++)
        session[k] = store_integer(build * 100 + i);
      session[3] = store_integer(build);
      session[9] = store_integer((1 << STORE_MEASURES) - 1);
      insert(STORE_SESSIONS, session);
    }
  }
  for (int64_t cause = 1; cause <= CAUSES; cause++) {
    const char *name = cause % 2 ? "read" : "poll";
    const store_value_t row[] = {store_integer(cause), store_text(name), store_text("io"),
                                 store_text(""), store_text("")};
    insert(STORE_CAUSES, row);
  }
}

static void add_frames(void) {
  for (int64_t frame = 1; frame <= FRAMES; frame++) {
    const store_value_t row[] = {store_integer(frame), store_integer(0), store_integer(0),
                                 store_integer(0),
                                 store_integer(2 + 2 * below(LABELS) + !below(4))};
    const store_value_t label[] = {row[0], row[4]};
    insert(STORE_FRAMES, row);
    assert_true(digest_add_label(&digest, label));
  }
}

static void add_stacks(void) {
  for (int64_t i = 0; i < STACKS; i++) {
    uint64_t frames[DEPTH];
    int64_t stack = i ? (below(INT32_MAX) - INT32_MAX / 2) * 64 + i : 0;
    size_t depth = i ? 1 + (size_t)below(DEPTH) : 0;
    for (size_t k = 0; k < depth; k++)
      frames[k] = 1 + (uint64_t)below(FRAMES);
    const store_value_t site = store_id(depth ? frames[0] : 0),
                        bytes = store_bytes(frames, depth * sizeof *frames);
    const store_value_t row[] = {store_integer(stack), store_integer(1), site,
                                 store_integer((int64_t)depth), bytes};
    const store_value_t read[] = {row[0], site, bytes};
    assert_true(engine_insert(whole, STORE_STACKS, row) > 0);
    assert_true(digest_add_stack(&digest, read));
    if (digest.by_stack) assert_true(engine_insert(digested, STORE_STACKS, row) > 0);
  }
  assert_true(signatures_update(whole) && signatures_update(digested)); /* from the labels */
}

/* Amounts are often equal. */
static void add_totals(void) {
  for (int i = 0; i < TOTALS; i++) {
    int64_t stack = (int64_t)digest.ids.ids.items[below(STACKS)];
    const store_value_t row[] = {store_integer(below(STORE_MEASURES)),
                                 store_integer(1 + below(BUILDS)),
                                 store_integer(stack),
                                 store_integer(below(CAUSES + 1)),
                                 store_integer(1 + below(4)),
                                 store_integer(1 + below(1000000000)),
                                 store_integer(below(20)),
                                 {.kind = STORE_REAL, .real = (double)below(1000)}};
    if (engine_insert(whole, STORE_TOTALS, row) > 0) assert_true(digest_add_total(&digest, row));
  }
}

static void start(bool by_stack) {
  whole = new_engine();
  digested = new_engine();
  digest = (digest_t){.by_stack = by_stack};
  add_builds();
  add_frames();
  add_stacks();
  add_totals();
}

static void end(void) {
  digest_free(&digest);
  engine_close(whole);
  engine_close(digested);
}

static char *print(answer_t *answer) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  answer_print_json(answer, "q", 0, out);
  fclose(out);
  answer_free(answer);
  return text;
}

static char *answer_of(engine_t *engine, const query_t *query, const char *argument,
                       uint64_t most) {
  answer_t answer = {0};
  assert_true(query_run(query, engine, argument, most, &answer));
  return print(&answer);
}

static void check(const query_t *query, const char *argument, uint64_t most) {
  char *expected = answer_of(whole, query, argument, most),
       *found = answer_of(digested, query, argument, most);
  assert_string_equal(found, expected);
  free(expected);
  free(found);
}

static void all_questions_have_the_same_answers(void **state) {
  (void)state;
  for (int round = 0; round < 6; round++) {
    start(false);
    assert_true(digest_insert(&digest, digested));
    for (const query_t *q = queries; q->name; q++) {
      if (q->argument && !strcmp(q->argument, "STACK")) continue;
      check(q, NULL, INT64_MAX);
      check(q, NULL, 3);
      if (q->argument) check(q, "b3", 3);
    }
    end();
  }
}

static void the_largest_are_enough_for_rankings(void **state) {
  (void)state;
  for (uint64_t most = 1; most < 20; most += 6) {
    start(false);
    size_t before = digest.sums.count;
    digest_keep_largest(&digest, most);
    assert_true(digest.sums.count < before);
    assert_true(digest_insert(&digest, digested));
    for (const query_t *q = queries; q->name; q++)
      if (q->is_ranked) {
        check(q, NULL, most);
        check(q, "b2", most);
      }
    end();
  }
}

static void regressions_compare_each_stack(void **state) {
  (void)state;
  for (int64_t other = 2; other <= BUILDS; other++) {
    char *texts[2];
    start(true);
    assert_true(digest_insert(&digest, digested));
    for (int i = 0; i < 2; i++) {
      answer_t answer = {0};
      regressions_t found;
      assert_true(regressions_find(i ? digested : whole, 1, other, true, &answer, &found));
      assert_true(found.compared && found.nameless);
      texts[i] = print(&answer);
    }
    assert_string_equal(texts[1], texts[0]);
    free(texts[0]);
    free(texts[1]);
    end();
  }
}

int main(void) {
  const char *chosen = getenv("SONDE_SEED");
  seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_questions_have_the_same_answers),
      cmocka_unit_test(the_largest_are_enough_for_rankings),
      cmocka_unit_test(regressions_compare_each_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
