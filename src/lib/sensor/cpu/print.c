/* SPDX-License-Identifier: MIT
 *
 * Prints an episode of excessive CPU use. A line is composed on the stack and written at once.
 */
#include <errno.h>

#include "base/text.h"
#include "os/os.h"
#include "sonde/cpu.h"
#include "sonde/name.h"

#define LINE_MAX   512
#define INDENT_MAX 60

typedef struct line {
  int fd;
  size_t used;
  char bytes[LINE_MAX];
} line_t;

static void put(line_t *line, const char *text) {
  while (*text && line->used < sizeof line->bytes - 1)
    line->bytes[line->used++] = *text++;
}

static void put_number(line_t *line, uint64_t value, unsigned width) {
  char digits[DECIMAL_MAX + 1];
  char *end = decimal_append(digits, value);
  *end = '\0';
  for (size_t n = (size_t)(end - digits); n < width; n++)
    put(line, " ");
  put(line, digits);
}

static void put_hex(line_t *line, uint64_t value) {
  char text[HEX_MAX + 1];
  *hex_append(text, value, 1) = '\0';
  put(line, text);
}

static bool end_line(line_t *line) {
  line->bytes[line->used++] = '\n';
  size_t done = 0;
  while (done < line->used) {
    ssize_t wrote = os_write(line->fd, line->bytes + done, line->used - done);
    if (wrote <= 0 && wrote != -EINTR) return false;
    if (wrote > 0) done += (size_t)wrote;
  }
  line->used = 0;
  return true;
}

static void put_head(line_t *line, const sonde_cpu_episode_t *e) {
  put(line, "thread ");
  put_number(line, (uint64_t)e->tid, 0);
  put(line, " \"");
  put(line, e->name);
  put(line, "\" used ");
  put_number(line, e->length_ns >= 100 ? e->cpu_ns / (e->length_ns / 100) : 0, 0);
  put(line, " % of a CPU for ");
  put_number(line, (e->length_ns + 500000000) / 1000000000, 0);
  put(line, " s; ");
  put_number(line, e->samples, 0);
  put(line, " samples");
}

static void put_function(line_t *line, const sonde_cpu_node_t *n, uint64_t percent) {
  sonde_name_t name;
  (void)sonde_name(n->pc, SONDE_NAME_EXACT, &name);
  put_number(line, percent, 3);
  put(line, " %  ");
  for (int i = 0; i < 2 * n->depth && i < INDENT_MAX; i++)
    put(line, " ");
  put(line, name.symbol ? name.symbol : "??");
  put(line, "  (");
  put(line, name.image ? name.image : "??");
  put(line, "+0x");
  put_hex(line, name.image_offset);
  put(line, ")");
}

int sonde_cpu_print(int fd, const sonde_cpu_episode_t *e) {
  line_t line = {.fd = fd};
  int lines = 1;
  if (!e || e->count < 0 || (e->count && !e->nodes)) return SONDE_EINVAL;
  put_head(&line, e);
  if (!end_line(&line)) return SONDE_EIO;
  for (int i = 0; i < e->count; i++) {
    const sonde_cpu_node_t *n = &e->nodes[i];
    uint64_t percent = e->sampled_ns >= 100 ? n->cpu_ns / (e->sampled_ns / 100) : 0;
    if (!percent) continue;
    put_function(&line, n, percent > 100 ? 100 : percent);
    if (!end_line(&line)) return SONDE_EIO;
    lines++;
  }
  return lines;
}
