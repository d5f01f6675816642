/* SPDX-License-Identifier: MIT
 *
 * The answers of a leak search, in memory that the searched process can write: verdicts, threads,
 * and references to a block. The input overwrites the exchange after the blocks are sent.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/leaks.h"
#include "base/bits.h"
#include "report/leaks/leaks.h"

enum { BLOCKS = 8, THREADS = 4 };
#define ROOM                                                                                       \
  (ALIGN_UP(sizeof(leaks_exchange_t), 4096) + (64u << 10) +                                        \
   LEAKS_REFERRERS * sizeof(leaks_referrer_t))

/* Overwrites SIZE bytes at AT with the next bytes of the input. */
static void overwrite(void *at, size_t size, const uint8_t **data, size_t *left) {
  size_t n = size < *left ? size : *left;
  memcpy(at, *data, n);
  *data += n;
  *left -= n;
}

static void answer(leaks_t *l, const uint8_t *data, size_t size) {
  leaks_exchange_t *x = l->exchange;
  leaks_block_t *answers = (void *)((uint8_t *)x + l->blocks_at);
  /* The fields before `where` were sent and are checked; the input changes one byte of them. */
  for (int i = 0; i < BLOCKS; i++)
    overwrite(&answers[i].where, sizeof *answers - offsetof(leaks_block_t, where), &data, &size);
  overwrite((uint8_t *)answers + (size ? data[0] : 0), size > 1, &data, &size);
  overwrite(x->threads, THREADS * sizeof *x->threads, &data, &size);
  overwrite(&x->state, offsetof(leaks_exchange_t, threads) - offsetof(leaks_exchange_t, state),
            &data, &size);
  overwrite((uint8_t *)x + l->answers_at, LEAKS_REFERRERS * sizeof(leaks_referrer_t), &data, &size);
}

static void print_all(report_t *r, const leaks_t *l, FILE *out) {
  json_object_put(leaks_json(r, l, 0));
  leaks_text(r, l, out);
  for (int i = 0; i < BLOCKS; i += BLOCKS - 1) {
    leaks_block_text(r, l, 0, &l->blocks[i], out);
    json_object_put(leaks_block_json(r, l, 0, &l->blocks[i]));
  }
}

static reader_t *empty_recording(void) {
  static record_header_t head = {.header_size = RECORD_HEADER_SIZE,
                                 .byte_order = RECORD_BYTE_ORDER};
  static uint8_t file[RECORD_HEADER_SIZE];
  char error[256];
  reader_t *reader;
  memcpy(head.magic, RECORD_MAGIC, 8);
  memcpy(file, &head, sizeof head);
  if (reader_open_bytes(&reader, file, sizeof file, error, sizeof error) != 0) abort();
  return reader;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FILE *out;
  if (!out) out = fopen("/dev/null", "w");
  report_t r = {.reader = empty_recording(), .top = 10, .bold = "", .dim = "", .plain = ""};
  leaks_t l = {.exchange = calloc(1, ROOM), .size = ROOM, .count = BLOCKS};
  l.blocks = calloc(BLOCKS, sizeof *l.blocks);
  l.stacks = calloc(BLOCKS, sizeof *l.stacks);
  r.names = frame_names_new(r.reader, NULL);
  if (!out || !l.exchange || !l.blocks || !l.stacks || !r.names) abort();
  for (uint32_t i = 0; i < BLOCKS; i++) {
    l.blocks[i] = (leaks_block_t){.address = 0x1000 + 64 * i, .size = 40};
    l.stacks[i] = i / 2;
  }
  l.exchange->size = ROOM;
  if (leaks_send(&l) != 0) abort();
  answer(&l, data, size);
  if (leaks_receive(&l) == 0) print_all(&r, &l, out);
  void *exchange = l.exchange;
  leaks_free(&l);
  free(exchange);
  frame_names_free(r.names);
  reader_close(r.reader);
  return 0;
}
