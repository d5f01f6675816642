/* SPDX-License-Identifier: MIT
 *
 * Names from inside: which index serves an image, and the look-up.
 *
 * An image's index is built by whoever asks first and published by one compare-and-swap in the
 * image's entry; a thread that built the same one meanwhile frees its own. It stays for the life of
 * the process, so that a name once given stays, and an image that is reloaded has it at once; the
 * sum of all is bounded by INDEX_TOTAL_MAX, beyond which images have no names.
 *
 * The index is made from the file because a loaded image has .dynsym alone. The file is proved to
 * be the image's by its build-id (by a fingerprint where there is none) before a byte of its
 * symbols is used, and it is read through the guarded reader, since it may be truncated under us.
 */
#include "image/name.h"

#include "arch/arch.h"
#include "base/bits.h"
#include "image/file.h"
#include "image/symbols.h"
#include "os/os.h"

#define INDEX_WORK_MAX  (768u << 20) /* to build one, scratch included */
#define INDEX_TOTAL_MAX (256u << 20) /* all that are kept */

/* `entry->names`: 0 until the index was looked for, then its address, which is a page's, or 0, and
 * sonde_known_t in the low bits with NAMES_DONE. */
#define NAMES_DONE  8u
#define NAMES_FLAGS 15u

static uint64_t index_bytes;

uint64_t name_index_bytes(void) { return load_relaxed(&index_bytes); }

/* ---- making the index ----------------------------------------------------------------------- */

/* Reserves room for an index among all that are kept; gives the index back when there is none. */
static symbols_t *admit(symbols_t *symbols) {
  uint64_t size = symbols ? symbols_bytes(symbols) : 0;
  if (size == 0 || add_relaxed(&index_bytes, size) + size <= INDEX_TOTAL_MAX) return symbols;
  add_relaxed(&index_bytes, 0 - size);
  symbols_free(symbols);
  return NULL;
}

static symbols_t *index_of(const image_t *image, int *status) {
  symbols_t *symbols = NULL;
  *status = symbols_build(image, INDEX_WORK_MAX, &symbols);
  if (*status != SONDE_OK) return NULL;
  symbols = admit(symbols);
  if (!symbols) *status = SONDE_ENOMEM;
  return symbols;
}

/* From the file, or what of it fits. */
static symbols_t *index_of_file(image_t *file, sonde_known_t *known, int *status) {
  *known = file->symtab.data ? SONDE_KNOWN_ALL : SONDE_KNOWN_STRIPPED;
  symbols_t *symbols = index_of(file, status);
  if (!symbols && *status == SONDE_ENOMEM && file->symtab.data) {
    file->symtab = file->symtab_names = (section_t){0};
    *known = SONDE_KNOWN_LIMITED;
    symbols = index_of(file, status);
  }
  return symbols;
}

/* From memory; thrown away unless the image stood there all the while. */
static symbols_t *index_of_live(const image_entry_t *entry, int *status) {
  symbols_t *symbols = image_check(entry->id) ? index_of(&entry->image, status) : NULL;
  if (symbols && !image_check(entry->id)) {
    add_relaxed(&index_bytes, 0 - symbols_bytes(symbols));
    symbols_free(symbols);
    symbols = NULL;
  }
  return symbols;
}

static uint64_t make_names(const image_entry_t *entry) {
  sonde_known_t known = SONDE_KNOWN_NO_FILE;
  symbols_t *symbols = NULL;
  int status = SONDE_EFAULT;
  image_t *file = os_map(sizeof *file); /* a signal stack is small */
  if (!entry->is_vdso && file && image_file_open(entry, file)) {
    symbols = index_of_file(file, &known, &status);
    image_close(file);
  } else {
    symbols = index_of_live(entry, &status);
    if (entry->is_vdso) known = SONDE_KNOWN_STRIPPED; /* .dynsym is all it has */
  }
  if (file) os_unmap(file, sizeof *file);
  if (!symbols && status != SONDE_ESTRIPPED) known = SONDE_KNOWN_NONE;
  return (uint64_t)(uintptr_t)symbols | NAMES_DONE | (uint64_t)known;
}

static uint64_t names_of(image_entry_t *entry) {
  uint64_t names = load_acquire(&entry->names);
  if (LIKELY(names)) return names;
  uint64_t mine = make_names(entry);
  if (cas_acq_rel(&entry->names, &names, mine)) return mine;
  symbols_t *spare = (symbols_t *)(uintptr_t)(mine & ~(uint64_t)NAMES_FLAGS);
  if (spare) {
    add_relaxed(&index_bytes, 0 - symbols_bytes(spare));
    symbols_free(spare);
  }
  return names;
}

/* ---- look-up -------------------------------------------------------------------------------- */

static unsigned public_flags(const image_entry_t *entry) {
  return (entry->is_program ? SONDE_IMAGE_PROGRAM : 0) | (entry->is_vdso ? SONDE_IMAGE_VDSO : 0) |
         (entry->is_system ? SONDE_IMAGE_SYSTEM : 0);
}

int name_in_image(image_id_t id, uint64_t pc, bool exact, sonde_name_t *name) {
  image_entry_t *entry = image_entry(id);
  *name = (sonde_name_t){.known = SONDE_KNOWN_NONE};
  if (!entry) return SONDE_ENOTFOUND;
  uint64_t names = names_of(entry), linked = pc - entry->image.slide;
  const symbols_t *symbols = (const symbols_t *)(uintptr_t)(names & ~(uint64_t)NAMES_FLAGS);
  name->image = entry->path;
  name->image_id = entry->id;
  name->image_flags = public_flags(entry);
  name->image_offset = linked;
  name->known = (sonde_known_t)(names & (NAMES_DONE - 1));
  image_symbol_t symbol;
  if (!symbols || !symbols_find(symbols, exact ? linked : linked - 1, &symbol))
    return SONDE_ESTRIPPED;
  name->symbol = symbol.name;
  name->symbol_offset = linked - symbol.address;
  return SONDE_OK;
}

int sonde_name(uintptr_t pc, unsigned flags, sonde_name_t *name) {
  if (!name || (flags & ~SONDE_NAME_EXACT)) return SONDE_EINVAL;
  bool exact = flags & SONDE_NAME_EXACT;
  return name_in_image(image_id_of_pc(exact ? pc : pc - 1), pc, exact, name);
}

/* The code that a handler returns to: mov $__NR_rt_sigreturn, %rax (in eight bytes or six);
 * syscall. On aarch64: mov x8, #__NR_rt_sigreturn; svc #0. gdb and libgcc know it by these bytes as
 * well. */
bool name_is_signal_frame(uint64_t pc) {
  uint8_t code[9];
  if (os_read_memory(pc, code, sizeof code) != (ssize_t)sizeof code) return false;
#if defined(__x86_64__)
  return __builtin_memcmp(code, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9) == 0 ||
         __builtin_memcmp(code, "\xb8\x0f\0\0\0\x0f\x05", 7) == 0;
#elif defined(__aarch64__)
  return __builtin_memcmp(code, "\x68\x11\x80\xd2\x01\0\0\xd4", 8) == 0;
#endif
}

/* ---- images, publicly ----------------------------------------------------------------------- */

static void describe(const image_entry_t *entry, sonde_image_t *out) {
  const image_t *image = &entry->image;
  *out = (sonde_image_t){.id = entry->id,
                         .flags = public_flags(entry),
                         .path = entry->path,
                         .build_id = image->build_id,
                         .build_id_size = image->build_id_size,
                         .slide = image->slide,
                         .start = image->start,
                         .end = image->end,
                         .segment_count = image->segment_count};
  for (uint32_t i = 0; i < image->segment_count; i++)
    out->segments[i] = (sonde_segment_t){.address = image->segments[i].address + image->slide,
                                         .size = image->segments[i].size,
                                         .flags = image->segments[i].flags & 7};
}

int sonde_image_of_pc(uintptr_t pc, sonde_image_t *image) {
  if (!image) return SONDE_EINVAL;
  const image_entry_t *entry = image_entry(image_id_of_pc(pc));
  if (!entry) return SONDE_ENOTFOUND;
  describe(entry, image);
  return SONDE_OK;
}

typedef struct visitor {
  int (*visit)(const sonde_image_t *image, void *context);
  void *context;
  int count;
} visitor_t;

static bool visit_entry(image_entry_t *entry, void *context) {
  visitor_t *visitor = context;
  sonde_image_t image;
  describe(entry, &image);
  visitor->count++;
  return visitor->visit(&image, visitor->context) == 0;
}

int sonde_images(int (*visit)(const sonde_image_t *image, void *context), void *context) {
  visitor_t visitor = {visit, context, 0};
  if (!visit) return SONDE_EINVAL;
  image_list_each(visit_entry, &visitor);
  return visitor.count;
}
