/* SPDX-License-Identifier: MIT
 *
 * The tables of a page: texts, functions at places of the source, and stacks as a tree. Each text,
 * frame and stack is in its table once, and only if something uses it.
 *
 * Number 0 is the empty text, no frame, and the empty stack. One thread uses the tables.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_NAMES_H
#define SONDE_REPORT_EXPORTS_PAGE_NAMES_H

#include "base/array.h"
#include "base/hash.h"
#include "base/ids.h"
#include "report/exports/page/stream.h"
#include "report/report.h"

enum {
  PAGE_FRAME_OWN = 1,
  PAGE_FRAME_SYSTEM = 2,
  PAGE_FRAME_INLINED = 4,
  PAGE_FRAME_MARKER = 8,       /* "[truncated]": no function */
  PAGE_FRAME_NAME = 16,        /* the function has a name, which may be shortened */
  PAGE_FRAME_INTERPRETED = 32, /* a function of an interpreter's language */
  PAGE_FRAME_WRAPPER = 64,     /* a wrapper of the allocator */
};

/* Short names (symbol/short_name.h) have at most so many columns. */
enum { PAGE_NAME_COLUMNS = 60 };

typedef struct page_frame {
  uint32_t function, file, library; /* texts */
  uint32_t line, flags;
} page_frame_t;

typedef struct page_node {
  uint32_t parent, frame;
} page_node_t;

typedef struct page_names {
  const report_t *report;
  ARRAY(char *) texts;
  ARRAY(uint32_t) functions; /* texts that are names of functions, besides those of frames */
  ARRAY(page_frame_t) frames;
  ARRAY(page_node_t) nodes;
  hash_index_t text_index, frame_index, node_index;
  ids_t stack_ids; /* the nodes of stacks of the recording */
  /* By frame of the recording: where its frames are in `expanded`, + 1; 0: not yet. There are their
   * count and then the frames, the outermost first. */
  uint32_t *expansions;
  ARRAY(uint32_t) expanded;
  bool failed; /* out of memory: then all numbers are 0 */
} page_names_t;

/* NAMES begins as zeros except `report`. */
void page_names_start(page_names_t *names);
void page_names_free(page_names_t *names);

/* The number of TEXT, which may be NULL; of a frame of the function NAME; of the stack ID of the
 * recording; of the stack in which PARENT called FRAME. */
uint32_t page_text(page_names_t *names, const char *text);
uint32_t page_function(page_names_t *names, const frame_name_t *name);
uint32_t page_stack(page_names_t *names, uint32_t id);
uint32_t page_node(page_names_t *names, uint32_t parent, uint32_t frame);

/* Adds the NAME of a function that no frame has: it gets a short form, too. */
void page_function_name(page_names_t *names, const char *name);

/* By frame: the first frame with the same function. Free it. NULL: out of memory. */
uint32_t *page_functions(const page_names_t *names);

/* Writes the tables as members of an object: "strings":[…],"frames":{…},"stacks":{…}. The name of a
 * function is an array of itself and its short form, unless they are equal: gzip finds the one in
 * the other. */
void page_names_write(page_names_t *names, page_stream_t *out);

#endif
