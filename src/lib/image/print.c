/* SPDX-License-Identifier: MIT
 *
 * Prints a stack as lines of text, also in a crash handler. The text is composed in a small buffer
 * on the stack and written whenever the buffer is full, so a long C++ name takes several writes.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/text.h"
#include "image/name.h"
#include "os/os.h"

/* ---- text ----------------------------------------------------------------------------------- */

static void put_text(name_writer_t *to, const char *text) {
  size_t size = 0;
  while (text[size])
    size++;
  to->put(to, text, size);
}

static void put_hex(name_writer_t *to, uint64_t value, unsigned digits) {
  char text[2 + HEX_MAX] = "0x";
  to->put(to, text, (size_t)(hex_append(text + 2, value, digits) - text));
}

static void put_number(name_writer_t *to, int number) {
  char digits[DECIMAL_MAX];
  to->put(to, digits, (size_t)(decimal_append(digits, (unsigned)number) - digits));
  to->put(to, "   ", number < 10 ? 3 : number < 100 ? 2 : 1);
}

static const char *remark(const sonde_name_t *name) {
  switch (name->known) {
  case SONDE_KNOWN_STRIPPED: return ", stripped";
  case SONDE_KNOWN_NO_FILE: return ", its file is gone or another build";
  case SONDE_KNOWN_LIMITED: return ", too many symbols";
  case SONDE_KNOWN_NONE: return ", symbols unreadable";
  default: return "";
  }
}

void name_write_frame(name_writer_t *to, int number, uint64_t pc, const sonde_name_t *name) {
  put_text(to, "#");
  put_number(to, number);
  put_hex(to, pc, 16);
  if (name->image_id == 0) {
    put_text(to, "  ??  (no image)");
    return;
  }
  put_text(to, "  ");
  put_text(to, name->symbol ? name->symbol : "??");
  if (name->symbol) {
    put_text(to, "+");
    put_hex(to, name->symbol_offset, 1);
  }
  put_text(to, "  (");
  put_text(to, name->image ? name->image : "??");
  put_text(to, "+");
  put_hex(to, name->image_offset, 1);
  put_text(to, name->symbol ? "" : remark(name));
  put_text(to, ")");
}

/* ---- to a descriptor ------------------------------------------------------------------------ */

typedef struct out {
  name_writer_t writer;
  int fd;
  int error;
  size_t used;
  char bytes[256];
} out_t;

static void flush(out_t *out) {
  for (size_t done = 0; done < out->used && !out->error;) {
    ssize_t wrote = os_write(out->fd, out->bytes + done, out->used - done);
    if (wrote > 0)
      done += (size_t)wrote;
    else if (wrote != -EINTR)
      out->error = SONDE_EIO;
  }
  out->used = 0;
}

static void put(name_writer_t *self, const char *text, size_t size) {
  out_t *out = (out_t *)self;
  while (size > 0) {
    size_t room = sizeof out->bytes - out->used, piece = size < room ? size : room;
    __builtin_memcpy(out->bytes + out->used, text, piece);
    out->used += piece;
    text += piece;
    size -= piece;
    if (out->used == sizeof out->bytes) flush(out);
  }
}

int sonde_stack_print(int fd, const uintptr_t *pcs, int count, unsigned flags) {
  if (count < 0 || (count > 0 && !pcs) || (flags & ~(SONDE_NAME_EXACT | SONDE_NAME_APP_ONLY)))
    return SONDE_EINVAL;
  out_t out = {.writer = {put}, .fd = fd};
  bool exact = flags & SONDE_NAME_EXACT;
  int lines = 0;
  for (int i = 0; i < count && !out.error; i++) {
    sonde_name_t name;
    bool signal = name_is_signal_frame(pcs[i]);
    bool here = exact || signal;
    (void)name_in_image(image_id_of_pc(here ? pcs[i] : pcs[i] - 1), pcs[i], here, &name);
    exact = signal;
    if ((flags & SONDE_NAME_APP_ONLY) && (name.image_flags & SONDE_IMAGE_SYSTEM)) continue;
    name_write_frame(&out.writer, i, pcs[i], &name);
    put(&out.writer, "\n", 1);
    flush(&out);
    lines++;
  }
  return out.error ? out.error : lines;
}
