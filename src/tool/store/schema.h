/* SPDX-License-Identifier: MIT
 *
 * The schema of a store: its tables, and the measures whose facts it holds. docs/store.md describes
 * the columns. Tables are created, and rows inserted, from these descriptions alone.
 *
 * A *fact* is what one session recorded for one stack and cause: a count, an amount, and up to two
 * further values. A session is one program of one recording. `totals` adds the facts of all
 * sessions of a build.
 */
#ifndef SONDE_STORE_SCHEMA_H
#define SONDE_STORE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A store with another version is refused. */
#define STORE_SCHEMA_VERSION 1

typedef enum store_kind { STORE_INTEGER, STORE_REAL, STORE_TEXT, STORE_BYTES } store_kind_t;

/* A value of a row. TEXT and BYTES are those of the caller, or of the engine until its next step.
 */
typedef struct store_value {
  store_kind_t kind;
  bool is_null;
  int64_t integer;
  double real;
  const void *bytes; /* a TEXT is terminated */
  size_t size;       /* without the terminating 0 */
} store_value_t;

static inline store_value_t store_integer(int64_t value) {
  return (store_value_t){.kind = STORE_INTEGER, .integer = value};
}
/* Ids have 64 bits and are stored as signed numbers. */
static inline store_value_t store_id(uint64_t id) { return store_integer((int64_t)id); }
store_value_t store_text(const char *text);
store_value_t store_bytes(const void *bytes, size_t size);

enum { STORE_COLUMNS_MAX = 20 };

typedef struct store_column {
  const char *name;
  store_kind_t kind;
} store_column_t;

typedef struct store_table {
  const char *name;
  const char *key; /* columns of the primary key */
  store_column_t columns[STORE_COLUMNS_MAX];
} store_table_t;

typedef enum store_table_id {
  STORE_DEVICES,
  STORE_BUILDS,
  STORE_IMAGES,
  STORE_FRAMES,
  STORE_NAMES,
  STORE_STACKS,
  STORE_CAUSES,
  STORE_MEASURE_NAMES,
  STORE_SESSIONS,
  STORE_SAMPLES,
  STORE_STALLS,
  STORE_WAITS,
  STORE_ALLOCATIONS,
  STORE_LEAKS,
  STORE_CALLS,
  STORE_AUDIT,
  STORE_CRASHES,
  STORE_TOTALS,
  STORE_TABLE_COUNT
} store_table_id_t;

extern const store_table_t store_tables[STORE_TABLE_COUNT];

size_t store_column_count(const store_table_t *table);

/* ---- measures ----------------------------------------------------------------------------- */

/* X(name, table, unit of the amount). The number of a measure is part of the format. */
#define STORE_MEASURE_TABLE(X)                                                                     \
  X(samples, STORE_SAMPLES, "ns")                                                                  \
  X(stalls, STORE_STALLS, "ns")                                                                    \
  X(waits, STORE_WAITS, "ns")                                                                      \
  X(allocations, STORE_ALLOCATIONS, "bytes")                                                       \
  X(leaks, STORE_LEAKS, "bytes")                                                                   \
  X(calls, STORE_CALLS, "ns")                                                                      \
  X(audit, STORE_AUDIT, "calls")                                                                   \
  X(crashes, STORE_CRASHES, "crashes")

typedef enum store_measure {
#define STORE_MEASURE_ENUM(name, table, unit) MEASURED_##name,
  STORE_MEASURE_TABLE(STORE_MEASURE_ENUM)
#undef STORE_MEASURE_ENUM
      STORE_MEASURES
} store_measure_t;

typedef struct store_measure_info {
  const char *name;
  store_table_id_t table;
  const char *unit;
} store_measure_info_t;

/* A bit for each. */
#define STORE_ALL_MEASURES ((1u << STORE_MEASURES) - 1)

extern const store_measure_info_t store_measures[STORE_MEASURES];

enum { FACT_EXTRAS = 2 };

/* The columns of a table of facts after session, stack and cause: count, amount, extras. */
enum { FACT_FIRST_VALUE = 3 };

/* How many extras the facts of MEASURE have, and whether extra I of equal facts is a maximum
 * instead of a sum. */
size_t store_measure_extras(store_measure_t measure);
bool store_extra_is_maximum(store_measure_t measure, size_t i);

/* ---- SQL ---------------------------------------------------------------------------------- */

/* Writes the statement that creates TABLE, or inserts a row of it unless its key is there. Each
 * fits in STORE_SQL_MAX bytes. */
enum { STORE_SQL_MAX = 1024 };
void store_sql_create(const store_table_t *table, char out[STORE_SQL_MAX]);
void store_sql_insert(const store_table_t *table, char out[STORE_SQL_MAX]);

/* Writes the statement that adds the facts of MEASURE of the sessions ?1 to ?2 to `totals`. */
void store_sql_add_totals(store_measure_t measure, char out[STORE_SQL_MAX]);

/* What a frame f is called, of the image i, with the name n or none; and the tables of these. */
#define STORE_FUNCTION                                                                             \
  "coalesce(n.function, CASE WHEN f.image = 0 THEN '[unnamed code]'"                               \
  " ELSE i.name || printf('+0x%x', f.offset) END)"
#define STORE_NAMED                                                                                \
  " LEFT JOIN images i ON i.image = f.image LEFT JOIN names n ON n.frame = f.frame AND n.depth = " \
  "0"

/* Views for people: a line for each frame. */
extern const char store_sql_views[];

#endif
