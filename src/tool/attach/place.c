/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "attach/place.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "base/array.h"
#include "base/proc_file.h"
#include "target/access.h"

#define STACK_BYTES (UINT64_C(256) << 10)
#define AREA_BYTES  (UINT64_C(16) << 10)
#define CHUNK_BYTES ((size_t)1 << 20)

bool session_write(const attach_t *attach, uint64_t address, const void *data, size_t size) {
  return pwrite(attach->memory_fd, data, size, (off_t)address) == (ssize_t)size;
}

bool session_read(const attach_t *attach, uint64_t address, void *out, size_t size) {
  return pread(attach->memory_fd, out, size, (off_t)address) == (ssize_t)size;
}

/* ---- the mapping -------------------------------------------------------------------------- */

/* Returns *END, and moves it SIZE bytes up to the next page. */
static uint64_t take(uint64_t *end, uint64_t size) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = *end;
  *end = (at + size + page - 1) & ~(page - 1);
  return at;
}

void place_layout(attach_t *attach) {
  layout_t *l = &attach->layout;
  uint64_t end = attach->object.size;
  l->block = take(&end, sizeof(attach_block_t));
  l->area = take(&end, AREA_BYTES);
  l->tls = l->area + AREA_BYTES / 2;
  l->frame = take(&end, CPU_FRAME_MAX);
  l->stub = take(&end, 4096);
  l->guard = take(&end, 1);
  l->stack = take(&end, STACK_BYTES);
  l->stack_end = l->size = end;
}

/* ---- an object that is there -------------------------------------------------------------- */

static bool is_object_at(const attach_t *attach, uint64_t base, attach_block_t *block) {
  const object_t *o = &attach->object;
  uint8_t header[PLACE_HEADER], build_id[OBJECT_BUILD_ID_MAX];
  return session_read(attach, base, header, sizeof header) &&
         memcmp(header, o->image, sizeof header) == 0 &&
         session_read(attach, base + o->build_id_at, build_id, o->build_id_size) &&
         memcmp(build_id, o->build_id, o->build_id_size) == 0 &&
         session_read(attach, base + attach->layout.block, block, sizeof *block) &&
         block->size == sizeof *block && block->image_start == base && block->image_size == o->size;
}

bool place_hide_object(const attach_t *attach, uint64_t base) {
  static const uint8_t nothing[PLACE_HEADER];
  return session_write(attach, base, nothing, sizeof nothing);
}

bool place_show_object(const attach_t *attach, uint64_t base) {
  return session_write(attach, base, attach->object.image, PLACE_HEADER);
}

/* Whether a thread of the agent is in the program. */
static bool has_agent_thread(target_t *target) {
  char name[32];
  if (!process_list_threads(target)) return false;
  for (size_t i = 0; i < target->thread_count; i++)
    if (proc_file_read(target->threads[i].tid, "comm", name, sizeof name) > 0 &&
        strcmp(name, SESSION_THREAD_NAME "\n") == 0)
      return true;
  return false;
}

/* What to do with the object at BASE. */
static found_t judge(attach_t *attach, target_t *now, uint64_t base, const attach_block_t *block) {
  if (block->state == ATTACH_RUNNING && has_agent_thread(now)) return FOUND_BUSY;
  if (block->state == ATTACH_RUNNING) {
    (void)place_hide_object(attach, base);
    return FOUND_NOT;
  }
  attach->shared->base = base;
  attach->shared->is_started = block->state == ATTACH_DONE;
  return FOUND;
}

/* A loader maps a file; only this command puts a header into anonymous memory. Kernels without
 * names for it have none in the map. */
found_t place_find_object(attach_t *attach) {
  problem_t problem;
  attach_block_t block;
  target_t *now = attach->object.build_id_size ? target_open_process(attach->pid, &problem) : NULL;
  found_t found = FOUND_NOT;
  for (size_t i = 0; now && i < now->maps.count && found == FOUND_NOT; i++) {
    const mapping_t *m = &now->maps.items[i];
    if (m->inode || m->path[0] == '/' || !(m->access & MAP_READ) ||
        !is_object_at(attach, m->start, &block))
      continue;
    found = judge(attach, now, m->start, &block);
  }
  target_close(now);
  return found;
}

/* ---- code --------------------------------------------------------------------------------- */

/* Chunks overlap by more than the longest sequence. False if the first one cannot be read. */
static bool search(attach_t *attach, const mapping_t *mapping, uint8_t *chunk) {
  for (uint64_t at = mapping->start; at < mapping->end; at += CHUNK_BYTES - 64) {
    uint64_t size = mapping->end - at < CHUNK_BYTES ? mapping->end - at : CHUNK_BYTES;
    if (!session_read(attach, at, chunk, size)) return at != mapping->start;
    cpu_find_code(chunk, size, at, &attach->code);
    if (attach->code.call && attach->code.restore) break;
  }
  return true;
}

static int by_size(const void *a, const void *b) {
  const mapping_t *x = *(mapping_t *const *)a, *y = *(mapping_t *const *)b;
  uint64_t left = x->end - x->start, right = y->end - y->start;
  return left < right ? -1 : left > right;
}

/* The vDSO and the C library are smaller than large programs. Code that a program generates may
 * change, so only files and the vDSO are searched. */
bool place_find_code(attach_t *attach, problem_t *problem) {
  const maps_t *maps = &attach->target->maps;
  ARRAY(const mapping_t *) code = {0};
  uint8_t *chunk = malloc(CHUNK_BYTES);
  bool was_read = false;
  for (size_t i = 0; i < maps->count; i++) {
    const mapping_t *m = &maps->items[i];
    if (!(m->access & MAP_EXEC) || (m->access & MAP_WRITE) || !(m->access & MAP_READ) ||
        (!m->inode && strcmp(m->path, "[vdso]") != 0))
      continue;
    const mapping_t **item = ARRAY_ADD(code);
    if (item) *item = m;
  }
  if (code.count) qsort(code.items, code.count, sizeof *code.items, by_size);
  for (size_t i = 0; chunk && i < code.count; i++)
    if (!attach->code.call || !attach->code.restore)
      was_read |= search(attach, code.items[i], chunk);
  free(code.items);
  free(chunk);
  if (attach->code.call) return true;
  if (!chunk)
    problem_set(problem, "out of memory");
  else if (code.count && !was_read) /* its last thread has ended meanwhile */
    access_explain_empty(attach->pid, problem);
  else
    problem_set(problem,
                "process %d has no code that makes a system call and returns: start it with `sonde "
                "record -- COMMAND`",
                attach->pid);
  return false;
}
