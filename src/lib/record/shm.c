/* SPDX-License-Identifier: MIT
 *
 * Attaches to a recording, writes chunks to its file, and allocates slots of the shared buffers.
 *
 * The recorder's descriptors are opened through /proc/RECORDER/fd. A program without the rights for
 * that receives them through the recorder's socket. So the program inherits no descriptor. If the
 * program closes a descriptor that sonde has opened, sonde opens it again in the same way. The
 * shared buffers are mapped once and their descriptor is closed.
 *
 * Slots come from a stack of free slots for each class, or from the end. The stacks are lock-free,
 * since a signal handler may need a slot while its thread allocates one. Each head has a tag that
 * changes with every push, so that a pop notices a pop and push in between (ABA).
 */
#include "arch/trampoline.h"
#include "base/text.h"
#include "hook/call_stack.h"
#include "record/header.h"
#include "record/live_table.h"
#include "record/writer.h"
#include "sonde/status.h"

HIDDEN writer_global_t *writer_global;
SLOT_HERE(writer_t, writer_tls);

/* In another pid namespace the recorder's pid means another process. A recorder in this process has
 * no socket. */
static bool in_recorders_namespace(const shm_control_t *c) {
  return c->own_pid == c->pid || !c->recorder_name[0];
}

int writer_open_of_recorder(const shm_control_t *c, int fd) {
  if (fd < 0) return fd;
  int own = in_recorders_namespace(c) ? os_open_of_process(c->recorder_pid, (uint32_t)fd) : -1;
  return own >= 0 ? own : settings_descriptor(c->recorder_name, c->token, (uint32_t)fd);
}

bool writer_is_of_process(const shm_control_t *c) { return c && c->own_pid == (uint32_t)os_pid(); }

shm_control_t *writer_control(void) { return writer_global ? writer_global->control : NULL; }

static bool populate_control(shm_control_t *c) {
  return os_populate(c, SHM_POPULATED_BYTES) &&
         os_populate(&c->threads, offsetof(shm_threads_t, items)) &&
         os_populate(&c->code, sizeof(uint64_t));
}

/* Maps the shared buffers of FD, if they are those of TOKEN, and closes FD. */
static shm_control_t *map_shm(int fd, const char *token) {
  if (fd < 0) return NULL;
  shm_control_t *control = os_map_shared(fd, 0, SHM_BYTES);
  os_close(fd);
  if (!control) return NULL;
  bool hidden = os_hide_from_fork(control, SHM_BYTES);
  if (hidden && populate_control(control) && control->magic == SHM_MAGIC &&
      text_equal(control->token, token))
    return control;
  os_unmap(control, SHM_BYTES);
  return NULL;
}

/* The live blocks were the replaced program's. */
static void empty_live_table(shm_control_t *c) {
  int fd = writer_open_of_recorder(c, c->live_fd);
  if (fd < 0) return;
  store_release(&c->live_levels, 0u);
  os_file_punch(fd, 0, live_level_offset(LIVE_LEVELS));
  os_close(fd);
}

int writer_start(const char *text) {
  settings_t settings;
  return settings_read(text, &settings) ? writer_attach(&settings) : SONDE_EINVAL;
}

/* A new state. A forked child uses its parent's, which it finds zeroed. */
static int make_global(writer_global_t **out) {
  writer_global_t *g = *out = writer_global;
  if (g && !g->control) return 0;
  if (!(g = os_map(sizeof *g))) return SONDE_ENOMEM;
  *out = g;
  if (os_wipe_on_fork(g, sizeof *g)) return 0;
  os_unmap(g, sizeof *g);
  return SONDE_EUNSUPPORTED;
}

/* A process with other rights than the recorder's cannot open its descriptors, and requests them.
 */
static shm_control_t *map_recorders(const settings_t *s) {
  shm_control_t *c = map_shm(os_open_of_process(s->recorder_pid, s->shm_fd), s->token);
  if (!c) c = map_shm(settings_descriptor(s->socket, s->token, s->shm_fd), s->token);
  if (c) store_relaxed(&c->own_pid, (uint32_t)os_pid());
  return c;
}

/* Where an attached agent had its control block before, threads that are in it find the new one.
 * From then on they may record, so the state has its address before. */
static bool place_control(writer_global_t *g, shm_control_t *control) {
#if defined(SONDE_ATTACHED)
  if (g->left) {
    store_release(&g->control, g->left);
    if (os_map_over(g->left, control, SHM_BYTES)) return true;
    store_release(&g->control, NULL);
    return false;
  }
#endif
  g->control = control;
  return true;
}

static uint32_t count_program(shm_control_t *control) {
#if defined(SONDE_ATTACHED) /* the program ran before, and may have been recorded before */
  uint32_t none = 0;
  return cas_acq_rel(&control->exec_index, &none, 1u) ? 1 : none;
#else
  return __atomic_add_fetch(&control->exec_index, 1, __ATOMIC_ACQ_REL);
#endif
}

int writer_attach(const settings_t *s) {
  writer_global_t *g;
  int status = make_global(&g);
  if (status < 0) return status;
  shm_control_t *control = map_recorders(s);
  g->file_fd = control ? writer_open_of_recorder(control, (int)s->file_fd) : -1;
  if (g->file_fd < 0) {
    if (control) os_unmap(control, SHM_BYTES);
    if (g != writer_global) os_unmap(g, sizeof *g);
    return SONDE_EIO;
  }
  g->exec_index = count_program(control);
  if (g->exec_index > 1) empty_live_table(control);
  store_relaxed(&control->executing, 0u);
  control->trampoline_pc = trampoline_address(TRAMPOLINE_RETURN);
  control->call_states = call_stack_states();
  if (!place_control(g, control)) {
    os_close(g->file_fd);
    g->file_fd = -1;
    return SONDE_ENOMEM;
  }
  writer_global = g;
  return 0;
}

/* The descriptor of the file; reopened if the program has closed or reused it. */
static int file_of(writer_global_t *g) {
  shm_control_t *c = g->control;
  os_file_id_t id;
  int fd = load_acquire(&g->file_fd);
  if (fd >= 0 && os_file_id(fd, &id) && id.device == c->file_device && id.inode == c->file_inode)
    return fd;
  int again = writer_open_of_recorder(c, c->file_fd);
  if (again < 0) return -1;
  if (cas_acq_rel(&g->file_fd, &fd, again)) return again;
  os_close(again); /* another thread was first */
  return fd;
}

void writer_hand_over(void) {
  if (writer_control()) store_release(&writer_control()->handed_over, 1u);
}

/* Ends the recording. */
static bool stop(shm_control_t *c, record_stop_t reason) {
  uint32_t none = RECORD_STOP_NONE;
  cas_acq_rel(&c->stop_reason, &none, (uint32_t)reason);
  store_release(&c->mode, 0);
  uint32_t generation = load_acquire(&c->trace_generation);
  while (generation & 1 && !cas_acq_rel(&c->trace_generation, &generation, generation + 1))
    continue;
  return false;
}

static bool fail(shm_control_t *c, record_stop_t reason) {
  gap_begin(c, (uint32_t)reason);
  return false;
}

void writer_stop(record_stop_t reason) {
  if (writer_control()) (void)stop(writer_control(), reason);
}

static bool write_at(int fd, const void *data, uint32_t size, uint64_t offset) {
  shm_control_t *c = writer_global->control;
  if (c->limit_bytes && offset + size > c->limit_bytes) return stop(c, RECORD_STOP_LIMIT);
  if (offset + size > os_file_size_limit()) return fail(c, RECORD_STOP_FILE_LIMIT);
  int status = header_write_at(fd, data, size, offset);
  if (status != 0) return fail(c, header_stop_reason(-status));
  gap_end(c);
  return true;
}

bool writer_has_recorder(const shm_control_t *c) {
  uint32_t owner = load_acquire(&c->life.owner);
  if (owner) return !(owner & SHM_OWNER_DIED);
  return c->recorder_pid != c->pid && os_process_alive((pid_t)c->recorder_pid);
}

void writer_finish_header(void) {
  writer_global_t *g = writer_global;
  const shm_control_t *c = g ? g->control : NULL;
  record_header_t h;
  int fd = c ? file_of(g) : -1;
  if (fd < 0 || os_pread(fd, &h, sizeof h, 0) != sizeof h || h.state != RECORD_OPEN ||
      h.pid != c->pid)
    return;
  header_finish(&h, c, RECORD_STATUS_UNKNOWN, fd);
  if (h.stop_reason == RECORD_STOP_NONE) h.stop_reason = RECORD_STOP_RECORDER;
  (void)header_write(&h, fd);
}

/* ---- the ring ------------------------------------------------------------------------------- */

/* A writer registers its position in the ring from before the allocation until the write is done:
 * the position, or an earlier one, + 1. A writer one lap ahead waits for it; otherwise the older
 * chunk could overwrite the newer one. Of two writers, the one with the later position waits, so
 * they never wait for each other. A signal handler may wait for its own thread, so waits are
 * bounded. */

#define PATIENCE_ROUNDS 10000
#define PATIENCE_NS     100000u

static void pause_for(uint64_t ns) {
  const uint32_t word = 0;
  os_futex_wait(&word, 0, ns);
}

static uint64_t *register_writer(writer_global_t *g) {
  for (int round = 0; round < PATIENCE_ROUNDS; round++) {
    for (uint32_t i = 0; i < RING_WRITERS; i++) {
      uint64_t none = 0;
      if (cas_acq_rel(&g->ring_positions[i], &none, load_relaxed(&g->control->ring_at) + 1))
        return &g->ring_positions[i];
    }
    pause_for(PATIENCE_NS);
  }
  return NULL;
}

/* Waits for the writers that are a whole ring behind END. */
static void wait_for_older(writer_global_t *g, uint64_t end) {
  uint64_t ring = g->control->ring_bytes;
  int rounds = 0;
  for (uint32_t i = 0; i < RING_WRITERS; i++) {
    uint64_t mark;
    while ((mark = load_acquire(&g->ring_positions[i])) && end > mark - 1 + ring &&
           rounds++ < PATIENCE_ROUNDS)
      pause_for(PATIENCE_NS);
  }
}

/* Writes SIZE zeros at OFFSET. */
static bool wipe(int fd, uint64_t offset, uint64_t size) {
  static const uint8_t zeros[4096];
  bool good = true;
  for (uint64_t n; good && size; offset += n, size -= n) {
    n = size < sizeof zeros ? size : sizeof zeros;
    good = write_at(fd, zeros, (uint32_t)n, offset);
  }
  return good;
}

static bool append_to_ring(writer_global_t *g, int fd, const void *data, uint32_t size) {
  uint64_t *mark = register_writer(g), place, passed, ring = g->control->ring_bytes;
  uint64_t offset = shm_reserve_ring(g->control, size, &place, &passed);
  if (mark) store_release(mark, place - passed + 1);
  wait_for_older(g, place + size);
  bool written = wipe(fd, g->control->ring_start + (place - passed) % ring, passed) &&
                 write_at(fd, data, size, offset);
  if (mark) store_release(mark, 0);
  return written;
}

bool writer_append(const void *data, uint32_t size) {
  writer_global_t *g = writer_global;
  shm_control_t *c = g->control;
  uint32_t type = ((const chunk_header_t *)data)->type;
  uint32_t reason = load_acquire(&c->stop_reason);
  if (reason != RECORD_STOP_NONE && !gap_may_end(reason)) return false;
  int fd = file_of(g);
  if (fd < 0) return stop(c, RECORD_STOP_LOST_FILE);
  if (shm_in_ring(c, type, size)) return append_to_ring(g, fd, data, size);
  uint64_t offset = shm_reserve(c, type, size);
  bool written = write_at(fd, data, size, offset);
  if (!written) gap_give_back(c, fd, offset, size);
  return written;
}

/* ---- slots -------------------------------------------------------------------------------- */

static uint32_t pop_slot(writer_global_t *g, uint32_t slot_class) {
  uint64_t *head = &g->free_slots[slot_class], old = load_acquire(head), fresh;
  do {
    uint32_t page = (uint32_t)old;
    if (!page) return 0;
    fresh = (old & ~UINT64_C(0xffffffff)) | load_relaxed(&g->slot_next[page]);
  } while (!cas_acq_rel(head, &old, fresh));
  return (uint32_t)old;
}

static uint32_t new_slot(writer_global_t *g, uint32_t slot_class, uint32_t spare) {
  shm_control_t *c = g->control;
  uint32_t count = shm_class_pages(slot_class), page = load_acquire(&c->pages_used);
  do
    if (page + count * (1 + spare) > SHM_PAGES) return 0;
  while (!cas_acq_rel(&c->pages_used, &page, page + count));
  store_release(&c->slot_class[page], (uint8_t)(slot_class + 1));
  return page;
}

/* A slot whose chunk the recorder has written; 0: none. */
static uint32_t drained_slot(writer_global_t *g, uint32_t slot_class) {
  const shm_control_t *c = g->control;
  if (!load_relaxed(&c->handed_over)) return 0;
  for (uint32_t page = SHM_CONTROL_PAGES, end = load_acquire(&c->pages_used); page < end; page++) {
    uint32_t drained = SLOT_DRAINED, found = c->slot_class[page];
    if (found != slot_class + 1) continue;
    uint32_t *magic = (uint32_t *)(void *)((uint8_t *)g->control + (uint64_t)page * SHM_PAGE);
    if (load_relaxed(magic) == drained && cas_acq_rel(magic, &drained, 0u)) return page;
  }
  return 0;
}

void *writer_slot_alloc(uint32_t slot_class, uint32_t spare) {
  writer_global_t *g = writer_global;
  uint32_t page = pop_slot(g, slot_class);
  if (!page) page = drained_slot(g, slot_class);
  if (page) return (uint8_t *)g->control + (uint64_t)page * SHM_PAGE;
  page = new_slot(g, slot_class, spare);
  if (!page) return NULL;
  void *slot = (uint8_t *)g->control + (uint64_t)page * SHM_PAGE;
  /* What cannot be backed now would be a SIGBUS later: the slot is never used. */
  return os_populate(slot, (size_t)shm_class_pages(slot_class) * SHM_PAGE) ? slot : NULL;
}

void writer_slot_free(void *slot, uint32_t slot_class) {
  writer_global_t *g = writer_global;
  uint32_t page = (uint32_t)((uint64_t)((uint8_t *)slot - (uint8_t *)g->control) / SHM_PAGE);
  uint64_t *head = &g->free_slots[slot_class], old = load_acquire(head), fresh;
  do {
    store_relaxed(&g->slot_next[page], (uint32_t)old);
    fresh = ((old >> 32) + 1) << 32 | page;
  } while (!cas_acq_rel(head, &old, fresh));
}
