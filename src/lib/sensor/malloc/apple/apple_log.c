/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/apple_log.h. What is written has the published forms: records of 32 bytes,
 * and the stack table that libmalloc 116 to 166 serialized (tool/import/apple_log.h,
 * apple_table.h).
 *
 * The records are read first, so that the table, which is copied then, has all their stacks. Stack
 * number K of the log has its innermost frame in node K. The other frames follow behind the last
 * stack, and a stack shares them with the one before it. The outermost frame of Apple's stacks
 * identifies the thread, as in the table.
 *
 * The functions may allocate and call the loader, unlike those of a sensor's path.
 */
#include "sonde/apple_log.h"

#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <string.h>
#include <sys/param.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "sensor/malloc/apple/apple_log_api.h"
#include "sensor/malloc/apple/stack_numbers.h"
#include "sonde/image.h"

#define ADDRESS_MASK     0x5555u
#define NO_STACK         UINT64_MAX
#define NO_PARENT        UINT64_MAX
#define TABLE_NODES      16384u
#define NODE_BYTES       16u
#define DESCRIPTORS_MAX  4096
#define BUFFER_BYTES     8192u
#define SUFFIX_BYTES_MAX 40u /* ".PID.images" */

#if defined(__aarch64__)
#define ARCH_NAME "arm64"
#else
#define ARCH_NAME "x86_64"
#endif

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct output {
  int fd; /* negative: there is no file */
  uint64_t at;
  uint32_t used;
  bool failed;
  uint8_t buffer[BUFFER_BYTES];
} output_t;

static void flush(output_t *o) {
  if (o->used && os_pwrite(o->fd, o->buffer, o->used, o->at) != (ssize_t)o->used) o->failed = true;
  o->at += o->used;
  o->used = 0;
}

static void put(output_t *o, const void *data, uint32_t size) {
  if (o->used + size > sizeof o->buffer) flush(o);
  memcpy(o->buffer + o->used, data, size);
  o->used += size;
}

enum { INDEX, TABLE, IMAGES, FILES };
static const char *const suffixes[FILES] = {".index", ".table", ".images"};

typedef struct saving {
  apple_log_api_t api;
  output_t files[FILES];
  output_t rest; /* of the table: frames that are not innermost */
  stack_numbers_t stacks;
  bool no_memory;
  /* the stack before: its frames but the innermost one, outermost first */
  uint32_t depth;
  uint64_t pcs[APPLE_STACK_MAX], nodes[APPLE_STACK_MAX];
  uint64_t frames[APPLE_STACK_MAX];
  char path[FILES][MAXPATHLEN];
} saving_t;

/* Writes FOLDER/NAME.PID to PATH. False if it is too long. */
static bool path_of(const char *folder, char *path) {
  char program[MAXPATHLEN];
  if (os_program_path(program, sizeof program) <= 0) return false;
  const char *name = text_base_name(program);
  if (text_length(folder) + text_length(name) + SUFFIX_BYTES_MAX > MAXPATHLEN) return false;
  char *end = text_append(text_append(path, folder), "/");
  end = text_append(text_append(end, name), ".");
  *decimal_append(end, (uint32_t)os_pid()) = 0;
  return true;
}

static int create_files(saving_t *s, const char *folder) {
  char start[MAXPATHLEN];
  if (!path_of(folder, start)) return SONDE_EINVAL;
  for (int i = 0; i < FILES; i++) {
    *text_append(text_append(s->path[i], start), suffixes[i]) = 0;
    s->files[i].fd = os_create_high(s->path[i]);
    if (s->files[i].fd < 0) return SONDE_EIO;
  }
  return 0;
}

/* Files of a call that failed are removed. */
static int close_files(saving_t *s, int status) {
  for (int i = 0; i < FILES; i++) {
    if (s->files[i].fd < 0) continue;
    flush(&s->files[i]);
    if (s->files[i].failed && status >= 0) status = SONDE_EIO;
  }
  for (int i = 0; i < FILES; i++) {
    if (s->files[i].fd < 0) continue;
    os_close(s->files[i].fd);
    if (status < 0) os_remove(s->path[i]);
  }
  return status;
}

/* ---- the records ---------------------------------------------------------------------------- */

static void save_record(apple_log_record_t r, void *context) {
  saving_t *s = context;
  uint32_t number = 0;
  bool has_stack = r.stack != NO_STACK;
  if (has_stack && !stack_numbers_of(&s->stacks, r.stack, &number)) {
    s->no_memory = true;
    return;
  }
  const uint64_t words[] = {r.argument, r.address ^ ADDRESS_MASK, has_stack ? number : NO_STACK,
                            r.type};
  put(&s->files[INDEX], words, sizeof words);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void put_node(output_t *o, uint64_t pc, uint64_t parent) {
  const uint64_t words[] = {pc, parent};
  put(o, words, sizeof words);
}

/* Adds the frames of a stack but the innermost one, and returns the node of its caller. */
static uint64_t put_callers(saving_t *s, uint32_t count, uint64_t *next) {
  uint32_t depth = 0, callers = count - 1;
  while (depth < callers && depth < s->depth && s->pcs[depth] == s->frames[count - 1 - depth])
    depth++;
  for (; depth < callers; depth++) {
    s->pcs[depth] = s->frames[count - 1 - depth];
    put_node(&s->rest, s->pcs[depth], depth ? s->nodes[depth - 1] : NO_PARENT);
    s->nodes[depth] = (*next)++;
  }
  s->depth = callers;
  return callers ? s->nodes[callers - 1] : NO_PARENT;
}

/* Returns the number of stacks that the system did not tell. */
static uint32_t put_stacks(saving_t *s, void *table, uint64_t *next) {
  uint32_t unread = 0;
  for (uint32_t i = 0; i < s->stacks.count; i++) {
    uint32_t count = 0;
    int status = s->api.read_stack(table, s->stacks.ids[i], s->frames, &count, APPLE_STACK_MAX);
    bool is_read = status == 0 && count && count <= APPLE_STACK_MAX;
    uint64_t caller = is_read ? put_callers(s, count, next) : 0;
    put_node(&s->files[TABLE], is_read ? s->frames[0] : 0, caller);
    unread += !is_read;
  }
  return unread;
}

/* The control structure: pages, nodes, bytes; the other members are of the process. */
static void put_header(saving_t *s, uint64_t nodes) {
  const uint64_t control[] = {nodes * NODE_BYTES / TABLE_NODES + 1, nodes, nodes * NODE_BYTES};
  output_t *o = &s->files[TABLE];
  flush(o);
  o->at = 0;
  put(o, "MslUniquingTable", 16);
  put(o, control, sizeof control);
}

static int save_table(saving_t *s) {
  void *table = s->api.copy_table(mach_task_self());
  if (!table) return SONDE_ENOTFOUND;
  uint64_t next = s->stacks.count;
  s->rest.fd = s->files[TABLE].fd;
  s->files[TABLE].at = TABLE_NODES;
  s->rest.at = TABLE_NODES + next * NODE_BYTES;
  uint32_t unread = put_stacks(s, table, &next);
  s->api.release_table(table);
  if (!next) put_node(&s->rest, 0, 0), next++; /* a table has a node */
  flush(&s->rest);
  s->files[TABLE].failed |= s->rest.failed;
  put_header(s, next);
  return (int)unread;
}

/* ---- the images ----------------------------------------------------------------------------- */

static char *append_uuid(char *out, const sonde_image_t *image) {
  for (unsigned i = 0; i < image->build_id_size && i < 16; i++)
    out = hex_append(out, image->build_id[i], 2);
  return out;
}

/* A line as in a crash report: 0xSTART - 0xLAST NAME ARCH <UUID> PATH. */
static int put_image(const sonde_image_t *image, void *context) {
  output_t *o = context;
  char line[2 * MAXPATHLEN + 128];
  if (!image->path || text_length(image->path) >= MAXPATHLEN) return 0;
  char *end = hex_append(text_append(line, "0x"), image->start, 1);
  end = hex_append(text_append(end, " - 0x"), image->end - 1, 1);
  end = text_append(text_append(end, " "), text_base_name(image->path));
  end = text_append(end, " " ARCH_NAME " ");
  if (image->build_id_size == 16)
    end = text_append(append_uuid(text_append(end, "<"), image), "> ");
  end = text_append(text_append(end, image->path), "\n");
  put(o, line, (uint32_t)(end - line));
  return 0;
}

/* ---- the functions of the header ------------------------------------------------------------ */

static int save_log(saving_t *s) {
  uint32_t task = mach_task_self();
  int is_lite = 0;
  uint64_t shared = s->api.shared_memory ? *s->api.shared_memory : 0;
  if (s->api.start_reading(task, shared, &is_lite) != 0) return SONDE_ENOTFOUND;
  int status = is_lite ? SONDE_EUNSUPPORTED : 0;
  if (!status && s->api.enumerate(task, 0, save_record, s) != 0) status = SONDE_ENOTFOUND;
  if (s->no_memory) status = SONDE_ENOMEM;
  if (!status) status = save_table(s);
  (void)s->api.stop_reading(task);
  if (status >= 0) (void)sonde_images(put_image, &s->files[IMAGES]);
  return status;
}

/* Copies the folder of the log's file. */
static int own_folder(char *out, size_t size) {
  int length = sonde_apple_log_path(out, size);
  while (length > 0 && out[length] != '/')
    length--;
  if (length >= 0) out[length] = 0;
  return length < 0 ? length : 0;
}

int sonde_apple_log_save(const char *folder) {
  char own[MAXPATHLEN];
  saving_t *s = os_map(sizeof *s);
  if (!s) return SONDE_ENOMEM;
  for (int i = 0; i < FILES; i++)
    s->files[i].fd = -1;
  int status = apple_log_api(&s->api) ? 0 : SONDE_EUNSUPPORTED;
  if (!status && !folder) status = own_folder(own, sizeof own);
  if (!status) status = create_files(s, folder ? folder : own);
  if (!status) status = save_log(s);
  status = close_files(s, status);
  stack_numbers_free(&s->stacks);
  os_unmap(s, sizeof *s);
  return status;
}

int sonde_apple_log_start(sonde_apple_log_mode_t mode) {
  apple_log_api_t api;
  if (mode < SONDE_APPLE_LOG_ALL || mode > SONDE_APPLE_LOG_VM) return SONDE_EINVAL;
  if (!apple_log_api(&api)) return SONDE_EUNSUPPORTED;
  return api.turn_on((int)mode) ? 0 : SONDE_EBUSY;
}

int sonde_apple_log_stop(void) {
  apple_log_api_t api;
  if (!apple_log_api(&api)) return SONDE_EUNSUPPORTED;
  api.turn_off();
  return 0;
}

/* "stack-logs.PID.…index" */
static bool is_log_name(const char *name) {
  const char *rest = text_after(name, "stack-logs.");
  if (!rest || decimal_read(&rest) != (uint32_t)os_pid() || *rest != '.') return false;
  size_t length = text_length(rest);
  return length > 6 && text_equal(rest + length - 6, ".index");
}

int sonde_apple_log_path(char *path, size_t size) {
  apple_log_api_t api;
  char found[MAXPATHLEN];
  if (!path || !size) return SONDE_EINVAL;
  if (!apple_log_api(&api)) return SONDE_EUNSUPPORTED;
  int saved = errno, length = SONDE_ENOTFOUND;
  for (int fd = 0; fd < DESCRIPTORS_MAX && length < 0; fd++) {
    if (fcntl(fd, F_GETPATH, found) != 0 || !is_log_name(text_base_name(found))) continue;
    if (text_length(found) >= size) break;
    *text_append(path, found) = 0;
    length = (int)text_length(found);
  }
  errno = saved;
  return length;
}
