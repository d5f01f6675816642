/* SPDX-License-Identifier: MIT
 *
 * Names of program counters: the symbol index of each image, and its look-up.
 *
 * The first caller builds the index of an image and publishes it in the image's entry by one
 * compare-and-swap. A thread that built the same index meanwhile frees its own. An index is never
 * freed: so names stay valid, and a reloaded image has names at once. INDEX_TOTAL_MAX bounds the
 * memory of all indexes; further images have no names.
 *
 * The index is made from the file, because a loaded image has .dynsym only. The build-id (or
 * fingerprint) must match that of the image before any symbol is used. The file is read with
 * guarded reads, since it may be truncated meanwhile.
 */
#include "image/name.h"

#include "arch/arch.h"
#include "base/bits.h"
#include "image/file.h"
#include "image/path.h"
#include "image/symbols.h"
#include "os/os.h"

#define INDEX_WORK_MAX  (768u << 20) /* memory to build one index */
#define INDEX_TOTAL_MAX (256u << 20) /* memory of all indexes */

/* `entry->names` is 0 before the first look-up. Then it is the page-aligned address of the index,
 * or 0, combined with sonde_known_t and NAMES_DONE in the low bits. */
#define NAMES_DONE  8u
#define NAMES_FLAGS 15u

static uint64_t index_bytes;

uint64_t name_index_bytes(void) { return load_relaxed(&index_bytes); }

/* ---- building the index -----------------------------------------------------------------------
 */

/* Accounts for the memory of an index. Frees the index and returns NULL if the total is too large.
 */
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

/* Builds the index from the file, or from the tables of it that fit. */
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

/* Builds the index from memory. Discards it unless the image stayed mapped meanwhile. */
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
  image_t *file = os_map(sizeof *file); /* too large for a signal stack */
  if (!entry->is_vdso && file && image_file_open(entry, file)) {
    symbols = index_of_file(file, &known, &status);
    image_close(file);
  } else {
    symbols = index_of_live(entry, &status);
    if (entry->is_vdso) known = SONDE_KNOWN_STRIPPED; /* it has only .dynsym */
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

static bool is_system(const image_entry_t *entry) {
  int verdict = path_verdict(entry->path);
  return verdict < 0 ? entry->is_system : verdict;
}

static unsigned public_flags(const image_entry_t *entry) {
  return (entry->is_program ? SONDE_IMAGE_PROGRAM : 0) | (entry->is_vdso ? SONDE_IMAGE_VDSO : 0) |
         (is_system(entry) ? SONDE_IMAGE_SYSTEM : 0);
}

int sonde_is_app(uintptr_t pc) {
  const image_entry_t *entry = image_entry(image_id_of_pc(pc));
  return entry ? !is_system(entry) : SONDE_ENOTFOUND;
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

/* The code that a handler returns to: mov $__NR_rt_sigreturn, %rax (eight bytes or seven); syscall.
 * On aarch64: mov x8, #__NR_rt_sigreturn; svc #0. gdb and libgcc recognize it by these bytes, too.
 */
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

/* ---- public functions on images
 * ----------------------------------------------------------------------- */

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
