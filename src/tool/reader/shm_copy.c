/* SPDX-License-Identifier: MIT
 *
 * Copies the buffers that a recorder shares with the program that it records, while the program
 * writes them.
 *
 * A writer stores the first byte of a record last, but a copy need not read it first. So there are
 * three copies: a record of events that the first has, and a record of tables that the second has,
 * is complete in the third. Tables are copied after the events that need them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reader/internal.h"
#include "record/shm.h"

static bool has_same_chunk(const chunk_header_t *a, const chunk_header_t *b) {
  return a->magic == b->magic && a->type == b->type && a->stream == b->stream &&
         a->sequence == b->sequence && a->exec_index == b->exec_index;
}

/* Whether the slot at OFFSET of FD still has the chunk H: its payload was then copied before the
 * slot was used again. Otherwise that chunk is complete in the file. */
static bool is_still_there(int fd, uint64_t offset, const chunk_header_t *h) {
  chunk_header_t now;
  return reader_read_fd(fd, offset, &now, sizeof now) == sizeof now && has_same_chunk(&now, h);
}

/* Calls VISIT with the offset of each slot of the copy that has a chunk. */
static void each_slot(reader_t *r, int fd, void (*visit)(reader_t *r, int fd, uint64_t offset)) {
  const shm_control_t *control = (const void *)r->shm;
  for (uint64_t page = SHM_CONTROL_PAGES; page < r->shm_size / SHM_PAGE; page++) {
    const chunk_header_t *h = (const void *)(r->shm + page * SHM_PAGE);
    uint32_t c = control->slot_class[page];
    if (c && c <= SHM_CLASSES && page + shm_class_pages(c - 1) <= r->shm_size / SHM_PAGE &&
        h->magic == CHUNK_MAGIC)
      visit(r, fd, page * SHM_PAGE);
  }
}

static void renew_heads(reader_t *r, int fd, uint64_t offset) {
  const shm_control_t *control = (const void *)r->shm;
  (void)fd;
  if (((const chunk_header_t *)(const void *)(r->shm + offset))->type == CHUNK_TABLES)
    memcpy(r->heads + offset, r->shm + offset,
           shm_class_pages(control->slot_class[offset / SHM_PAGE] - 1) * SHM_PAGE);
}

/* Forgets the chunk of a slot that was used again between the copies. */
static void drop_torn(reader_t *r, int fd, uint64_t offset) {
  chunk_header_t *h = (void *)(r->shm + offset);
  if (!has_same_chunk(h, (const void *)(r->heads + offset)) || !is_still_there(fd, offset, h))
    h->magic = 0;
}

static void copy_slots(reader_t *r, int fd) {
  (void)reader_read_fd(fd, 0, r->heads, r->shm_size);
  (void)reader_read_fd(fd, 0, r->shm, r->shm_size);
  each_slot(r, fd, renew_heads);
  (void)reader_read_fd(fd, 0, r->shm, r->shm_size);
  each_slot(r, fd, drop_torn);
}

void reader_copy_shm(reader_t *r, int fd) {
  shm_control_t *control = malloc(sizeof *control);
  struct stat file;
  bool ours = control && fstat(r->fd, &file) == 0 &&
              reader_read_fd(fd, 0, control, sizeof *control) == sizeof *control &&
              control->magic == SHM_MAGIC && control->file_inode == file.st_ino;
  uint64_t pages = ours ? control->pages_used : 0;
  if (pages > SHM_PAGES) pages = SHM_PAGES;
  free(control);
  if (!pages) return;
  r->shm = calloc(pages, SHM_PAGE);
  r->heads = calloc(pages, SHM_PAGE);
  if (!r->shm || !r->heads) return;
  r->shm_size = pages * SHM_PAGE;
  copy_slots(r, fd);
}
