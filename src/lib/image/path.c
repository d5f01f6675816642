/* SPDX-License-Identifier: MIT
 *
 * Paths of images. They are kept in blocks, which are mapped when the last block is full and never
 * unmapped. Their number is bounded by that of the images ever met. If two threads find a block
 * full, one publishes its new block and the other unmaps its own.
 */
#include "image/path.h"

#include "base/bits.h"
#include "base/glob.h"
#include "base/text.h"
#include "os/os.h"
#include "sonde/name.h"

#define PATH_BYTES_MAX 4096u
#define BLOCK_BYTES    (32u << 10)

typedef struct block {
  uint32_t used;
  char bytes[BLOCK_BYTES - sizeof(uint32_t)];
} block_t;

static block_t *newest;

static char *take(uint32_t size) {
  for (;;) {
    block_t *now = load_acquire(&newest);
    if (now) {
      uint32_t at = add_relaxed(&now->used, size);
      if (at <= sizeof now->bytes && size <= sizeof now->bytes - at) return now->bytes + at;
      add_relaxed(&now->used, 0u - size); /* so that repeated failures cannot overflow it */
    }
    block_t *fresh = os_map(sizeof *fresh);
    if (!fresh) return NULL;
    if (!cas_acq_rel(&newest, &now, fresh)) os_unmap(fresh, sizeof *fresh);
  }
}

/* ---- from the loader ------------------------------------------------------------------------ */

/* Returns the length of the string at AT, or PATH_BYTES_MAX if it is longer or unreadable. */
static uint32_t length_at(uint64_t at) {
  char piece[64];
  for (uint32_t length = 0; length < PATH_BYTES_MAX; length += (uint32_t)sizeof piece) {
    ssize_t got = os_read_memory(at + length, piece, sizeof piece);
    for (ssize_t i = 0; i < got; i++)
      if (piece[i] == 0) return length + (uint32_t)i;
    if (got < (ssize_t)sizeof piece) break;
  }
  return PATH_BYTES_MAX;
}

const char *path_keep(uint64_t at) {
  uint32_t length = at ? length_at(at) : 0;
  if (length == 0 || length >= PATH_BYTES_MAX) return NULL;
  char *kept = take(length + 1);
  if (!kept || os_read_memory(at, kept, length) != (ssize_t)length) return NULL;
  return kept; /* the memory is zeroed, so the copy ends with a 0 */
}

/* ---- from the kernel ------------------------------------------------------------------------ */

/* Reads a file character by character, in pieces that fit a small signal stack. */
typedef struct stream {
  int fd;
  ssize_t at, count;
  char piece[256];
} stream_t;

static int next(stream_t *s) {
  if (s->at == s->count) {
    s->count = os_read(s->fd, s->piece, sizeof s->piece);
    s->at = 0;
    if (s->count <= 0) return s->count = 0, -1;
  }
  return (unsigned char)s->piece[s->at++];
}

static int hex_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int next_hex(stream_t *s, uint64_t *value) {
  int c;
  for (*value = 0; (c = next(s)) >= 0 && hex_digit(c) >= 0;)
    *value = *value << 4 | (unsigned)hex_digit(c);
  return c;
}

/* Skips the fields before the path and returns the rest of the line. */
static const char *rest_of_line(stream_t *s) {
  int c = ' ';
  for (int field = 0; field < 4; field++) { /* permissions, offset, device, inode */
    while ((c = next(s)) >= 0 && c != ' ' && c != '\n') {
    }
    if (c != ' ') return NULL;
  }
  while ((c = next(s)) == ' ') {
  }
  char *kept = c == '/' ? take(PATH_BYTES_MAX) : NULL;
  uint32_t length = 0;
  for (; kept && c >= 0 && c != '\n' && length < PATH_BYTES_MAX - 1; c = next(s))
    kept[length++] = (char)c;
  static const char deleted[] = " (deleted)";
  uint32_t tail = sizeof deleted - 1;
  if (kept && length > tail && __builtin_memcmp(kept + length - tail, deleted, tail) == 0)
    kept[length - tail] = 0;
  return kept;
}

const char *path_of_mapping(uint64_t address) {
  stream_t s = {.fd = os_mappings_open()};
  const char *path = NULL;
  if (s.fd < 0) return NULL;
  for (;;) {
    uint64_t from, to;
    int c = next_hex(&s, &from);
    if (c != '-' || next_hex(&s, &to) != ' ' || from > address) break;
    if (address < to) {
      path = rest_of_line(&s);
      break;
    }
    while ((c = next(&s)) >= 0 && c != '\n') {
    }
  }
  os_close(s.fd);
  return path;
}

/* ---- system images -------------------------------------------------------------------------- */

/* File names: the part before ".so", with an optional "-VERSION" as old glibc had it. */
static const char *const system_names[] = {
    /* the dynamic loader and libc's family */
    "libc", "libm", "libmvec", "libpthread", "libdl", "librt", "libutil", "libresolv", "libnsl",
    "libanl", "libBrokenLocale", "libthread_db", "libc_malloc_debug", "libmemusage", "libpcprofile",
    "libSegFault", "linux-vdso", "linux-gate",
    /* C++ and compiler runtimes */
    "libstdc++", "libc++", "libc++abi", "libsupc++", "libgcc_s", "libunwind", "libatomic",
    "libgomp", "libomp", "libiomp5", "libquadmath", "libitm", "libssp", "libgfortran", "libobjc",
    "libasan", "libtsan", "libubsan", "liblsan", "libhwasan",
    /* sonde itself */
    "libsonde", "libsonde-agent", "libsonde-attached", "libsonde-dormant"};

static const char *const system_prefixes[] = {"ld-linux", "ld-musl-", "ld-2.",        "ld.so",
                                              "ld64.so",  "libnss_",  "libclang_rt.", "libc.musl-"};

/* Returns true if REST, the text after a name, ends it: ".so…" or "-2.31.so". */
static bool ends_name(const char *rest) {
  if (rest[0] == '-' && rest[1] >= '0' && rest[1] <= '9')
    for (rest++; (*rest >= '0' && *rest <= '9') || *rest == '.'; rest++)
      if (text_after(rest, ".so")) return true;
  return text_after(rest, ".so") && (rest[3] == 0 || rest[3] == '.');
}

/* ---- Apple's systems ------------------------------------------------------------------------ */

/* Folders of the system: on devices and Macs, and below the root folder of a simulator. */
static const char *const apple_folders[] = {"/System/", "/private/preboot/Cryptexes/",
                                            "/Developer/", "/Library/Developer/"};
static const char *const apple_parts[] = {".simruntime/Contents/Resources/RuntimeRoot/",
                                          ".app/Contents/Developer/"};

/* The text after the first PART in TEXT, or NULL. */
static const char *text_behind(const char *text, const char *part) {
  for (; *text; text++) {
    const char *rest = text_after(text, part);
    if (rest) return rest;
  }
  return NULL;
}

static bool is_in_apple_folder(const char *path) {
  for (unsigned i = 0; i < ARRAY_COUNT(apple_folders); i++)
    if (text_after(path, apple_folders[i])) return true;
  for (unsigned i = 0; i < ARRAY_COUNT(apple_parts); i++)
    if (text_behind(path, apple_parts[i])) return true;
  return false;
}

/* Returns true if the program EXE is in a bundle and PATH is not in that. An extension (.appex) is
 * in the bundle of its app. Commands and the programs of Xcode itself count as without a bundle. */
static bool is_outside_bundle(const char *path, const char *exe) {
  const char *inner = exe && !is_in_apple_folder(exe) ? text_behind(exe, ".app/") : NULL;
  for (; inner && exe < inner; exe++)
    if (*path++ != *exe) return true;
  return false;
}

/* Libraries that Apple's systems install, runtimes, and libsonde. */
static bool is_system_of_apple(const char *path, const char *name, const char *exe) {
  const char *end = path;
  while (*end)
    end++;
  bool is_dylib = end - path > 6 && text_after(end - 6, ".dylib");
  if (is_dylib && (text_after(path, "/usr/lib/") || text_after(name, "libsonde.") ||
                   text_after(name, "libswift")))
    return true;
  if (is_in_apple_folder(path)) return true;
  return path[0] == '/' && !text_behind(name, ".so") && is_outside_bundle(path, exe);
}

bool path_is_system(const char *path, const char *exe) {
  const char *name = text_base_name(path);
  if (is_system_of_apple(path, name, exe)) return true;
  for (unsigned i = 0; i < ARRAY_COUNT(system_prefixes); i++)
    if (text_after(name, system_prefixes[i])) return true;
  for (unsigned i = 0; i < ARRAY_COUNT(system_names); i++) {
    const char *rest = text_after(name, system_names[i]);
    if (rest && ends_name(rest)) return true;
  }
  return false;
}

/* ---- what the program says --------------------------------------------------------------------
 */

#define RULES_MAX  32u
#define GLOB_BYTES 128u

/* A rule is written before `rule_count` includes it, and never changes. */
static struct rule {
  char glob[GLOB_BYTES];
  bool is_system;
} rules[RULES_MAX];
static uint32_t rule_count;

bool path_matches(const char *path, const char *glob) {
  return glob_matches(glob, text_behind(glob, "/") ? path : text_base_name(path));
}

int path_verdict(const char *path) {
  for (uint32_t i = load_acquire(&rule_count); path && i-- > 0;)
    if (path_matches(path, rules[i].glob)) return rules[i].is_system;
  return -1;
}

int sonde_system_images(const char *glob, int is_system) {
  size_t size = glob ? text_length(glob) : 0;
  uint32_t count = load_relaxed(&rule_count);
  if (!size || size >= GLOB_BYTES) return SONDE_EINVAL;
  if (count == RULES_MAX) return SONDE_EFULL;
  __builtin_memcpy(rules[count].glob, glob, size);
  rules[count].is_system = is_system != 0;
  store_release(&rule_count, count + 1);
  return 0;
}
