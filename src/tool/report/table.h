/* SPDX-License-Identifier: MIT
 *
 * Lists of facts, described once and printed twice: as a text table and as a JSON array.
 *
 * A column describes one field of a row, which is any C struct: its place, unit, JSON key and text
 * heading. Text shows what readers compare, such as a share in percent; JSON holds the field's
 * value. Column widths follow the contents.
 */
#ifndef SONDE_REPORT_TABLE_H
#define SONDE_REPORT_TABLE_H

#include "report/report.h"

typedef enum column_unit {
  UNIT_END,      /* ends the columns */
  UNIT_COUNT,    /* integer; text: 1,234 */
  UNIT_CHANGE,   /* signed integer; text: +12 */
  UNIT_ID,       /* integer; text: 1234 */
  UNIT_BYTES,    /* integer; text: 12.3 KB */
  UNIT_BLOCKS,   /* counts_t; text: its bytes; JSON: {"blocks","bytes"} */
  UNIT_NS,       /* nanoseconds, integer or double; text: 12.3 µs */
  UNIT_SECONDS,  /* nanoseconds; text: 12.345 s */
  UNIT_TICKS,    /* ticks of the recording's clock; JSON: nanoseconds since its start */
  UNIT_SHARE,    /* integer; text: percent of BASE, or of the table's whole */
  UNIT_ERROR,    /* integer; text: ± percent of BASE */
  UNIT_RATE,     /* integer; text: per second; BASE is in nanoseconds */
  UNIT_ADDRESS,  /* "0x…" */
  UNIT_FLAG,     /* bool, JSON alone */
  UNIT_TEXT,     /* const char * */
  UNIT_NAME,     /* const char *, the name of a function; text may be shorter */
  UNIT_STREAM,   /* number of an event stream; text: its thread; JSON: "tid", "name" */
  UNIT_FUNCTION, /* const frame_name_t *; JSON: "function", "module", and "file", "line" */
  /* uint32_t, the id of a stack, 0: none. Text: the id, and the frames below the row; in a brief
   * report the function that owns the stack. JSON: the id, "frames" and "complete". */
  UNIT_STACK,
  UNIT_FRAMES, /* uint32_t, the id of a stack; text: its frames below the row, alone */
} column_unit_t;

typedef struct column {
  const char *key;     /* in JSON; NULL: in text alone */
  const char *heading; /* in text; NULL: in JSON alone */
  column_unit_t unit;
  uint16_t offset;
  uint8_t bytes;
  bool is_double;
  uint16_t base; /* offset of the field that a share or rate refers to, + 1; 0: none */
  bool optional; /* JSON omits 0, false and "" */
} column_t;

/* The place of MEMBER in a row of TYPE; and a field that a share or rate refers to. */
#define FIELD(type, member)                                                                        \
  .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member),                          \
  .is_double = _Generic(((type *)0)->member, double                                                \
                        : true, default                                                            \
                        : false)
#define BASE(type, member) .base = offsetof(type, member) + 1

typedef struct table {
  const column_t *columns; /* end with {0} */
  const void *rows;
  size_t row_bytes, count;
  const uint32_t *order; /* indexes of rows in the order to print; NULL: as they are */
  uint64_t whole;        /* what shares refer to */
  bool summed;           /* text ends with a row of the sums, of all rows that there are */
} table_t;

#define TABLE(columns_, rows_, count_)                                                             \
  .columns = (columns_), .rows = (rows_), .row_bytes = sizeof *(rows_), .count = (count_)

/* Removes the columns with this JSON key or heading: their values are unknown. */
void table_hide(column_t *columns, const char *name);

/* Prints a line of headings and at most MOST rows, then "… and N more WHAT" or a row of sums. */
void table_text(const report_t *report, const table_t *table, size_t most, const char *what,
                FILE *out);

/* An array of at most MOST objects. */
json_object *table_json(const report_t *report, const table_t *table, size_t most);

/* Adds the fields of ROW to OBJECT. */
void table_row_json(const report_t *report, const column_t *columns, const void *row,
                    json_object *object);

#endif
