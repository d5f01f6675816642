/* SPDX-License-Identifier: MIT
 *
 * The loaded images, found without the loader's lock.
 *
 * glibc 2.35 and later provide _dl_find_object, which is lock-free and async-signal-safe. For older
 * glibc and for musl, this file walks the public list of struct r_debug. The list may change during
 * the walk, so every read is guarded. An entry counts only if its successor points back to it, and
 * if it leads to an ELF image whose PT_DYNAMIC is the entry's. A program without a loader has two
 * images: the one that the kernel's auxiliary vector describes, and the vDSO.
 *
 * This file has no undefined symbol of the C library. It finds the library's functions by name in
 * the library's own table, so one build serves every libc.
 *
 * The result is written to a mapped page and published by one compare-and-swap. If two threads call
 * first at the same time, both do the work and one unmaps its page. So a signal handler or the
 * child of a fork never waits.
 */
#include "os/linux/loader.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/keep.h"
#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"

#define PR_GET_AUXV   0x41555856 /* Linux 6.4 */
#define AUXV_ENTRIES  64
#define PAGE_STEP     4096u /* images begin at a multiple of it on every CPU */
#define HEADER_SEARCH 4096u /* pages below a dynamic section in which its image may begin */
#define LIST_MAX      100000u
#define PHDR_MAX      1024u

bool linux_by_list;

/* ---- reads -------------------------------------------------------------------------------- */

static bool is_still;

static bool count_thread(pid_t tid, uint64_t identity, void *context) {
  (void)tid, (void)identity;
  return ++*(int *)context < 2;
}

void linux_loader_still(bool begins) {
  int threads = 0;
  bool counted = begins && os_threads(count_thread, &threads) == 0;
  store_relaxed(&is_still, counted && threads == 1);
}

/* As os_read_memory, of what the loader has mapped. */
static ssize_t read_listed(uint64_t address, void *out, size_t size) {
  return load_relaxed(&is_still) ? linux_read_probed(address, out, size)
                                 : os_read_memory(address, out, size);
}

/* ---- images ------------------------------------------------------------------------------- */

/* Linkers place the program headers right after the ELF header, so one guarded read of this size
 * usually gets both. */
#define HEADER_BYTES 1024u
#define PHDR_BATCH   ((HEADER_BYTES - sizeof(Elf64_Ehdr)) / sizeof(Elf64_Phdr))

/* A summary of the program headers, read in any number of batches. Addresses are as linked. */
typedef struct layout {
  uint64_t low, high; /* of the segments, rounded to pages as the kernel does */
  uint64_t first;     /* address of file offset 0; UINT64_MAX when no segment has it */
  uint64_t phdr;      /* PT_PHDR; UINT64_MAX when there is none */
  uint64_t dynamic;   /* PT_DYNAMIC; UINT64_MAX when there is none */
  bool has_interpreter;
} layout_t;

static void layout_add(layout_t *l, const Elf64_Phdr *phdr, uint64_t count) {
  for (const Elf64_Phdr *p = phdr; p < phdr + count; p++) {
    if (p->p_type == PT_DYNAMIC) l->dynamic = p->p_vaddr;
    if (p->p_type == PT_PHDR) l->phdr = p->p_vaddr;
    if (p->p_type == PT_INTERP) l->has_interpreter = true;
    if (p->p_type != PT_LOAD || p->p_memsz == 0) continue;
    uint64_t start = ALIGN_DOWN(p->p_vaddr, (uint64_t)PAGE_STEP);
    uint64_t end = ALIGN_UP(p->p_vaddr + p->p_memsz, (uint64_t)PAGE_STEP);
    if (start < l->low) l->low = start;
    if (end > l->high) l->high = end;
    if (p->p_offset == 0) l->first = p->p_vaddr;
  }
}

#define LAYOUT_NONE                                                                                \
  (layout_t) { UINT64_MAX, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, false }

static bool layout_read(layout_t *l, uint64_t phdr, uint64_t count) {
  Elf64_Phdr batch[PHDR_BATCH];
  if (count > PHDR_MAX) return false;
  for (uint64_t done = 0; done < count;) {
    uint64_t n = count - done < PHDR_BATCH ? count - done : PHDR_BATCH;
    size_t size = (size_t)n * sizeof *batch;
    if (read_listed(phdr + done * sizeof *batch, batch, size) != (ssize_t)size) return false;
    layout_add(l, batch, n);
    done += n;
  }
  return l->low < l->high;
}

static void image_from_layout(os_image_t *out, const layout_t *l, uint64_t phdr, uint64_t count,
                              uint64_t slide) {
  *out = (os_image_t){.start = l->low + slide,
                      .end = l->high + slide,
                      .slide = slide,
                      .header = l->first == UINT64_MAX ? 0 : l->first + slide,
                      .phdr = phdr,
                      .phdr_count = (uint32_t)count};
}

static uint64_t dynamic_of(const layout_t *l, uint64_t slide) {
  return l->dynamic == UINT64_MAX ? 0 : l->dynamic + slide;
}

/* Reads the image whose ELF header is at HEADER, which determines its slide. Sets *DYNAMIC, unless
 * NULL, to the address of its dynamic section (0: none). */
static bool image_from_header(os_image_t *out, uint64_t header, uint64_t *dynamic) {
  union {
    uint8_t bytes[HEADER_BYTES];
    Elf64_Ehdr e;
  } h;
  ssize_t count = read_listed(header, h.bytes, sizeof h.bytes);
  if (count < (ssize_t)sizeof h.e || memcmp(h.e.e_ident, ELFMAG, SELFMAG) != 0 ||
      h.e.e_ident[EI_CLASS] != ELFCLASS64 || h.e.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  layout_t l = LAYOUT_NONE;
  size_t end = sizeof h.e + h.e.e_phnum * sizeof(Elf64_Phdr);
  if (h.e.e_phoff == sizeof h.e && end <= (size_t)count)
    layout_add(&l, (const Elf64_Phdr *)(const void *)(h.bytes + sizeof h.e), h.e.e_phnum);
  else if (!layout_read(&l, header + h.e.e_phoff, h.e.e_phnum))
    return false;
  if (l.low >= l.high || l.first == UINT64_MAX) return false;
  uint64_t slide = header - l.first;
  image_from_layout(out, &l, header + h.e.e_phoff, h.e.e_phnum, slide);
  if (dynamic != NULL) *dynamic = dynamic_of(&l, slide);
  return true;
}

static bool holds(const os_image_t *image, uint64_t pc) {
  return pc >= image->start && pc < image->end;
}

/* ---- an attached agent ---------------------------------------------------------------------- */

#if defined(SONDE_ATTACHED)
static os_image_t own_image; /* the loader does not know it */
static pid_t unheld_tid;     /* a thread that may not call the loader; 0: none */

bool linux_attached_image(uint64_t header, const char *path) {
  if (!image_from_header(&own_image, header, NULL)) return false;
  own_image.path = path;
  return true;
}

void linux_attached_thread(pid_t tid) { store_relaxed(&unheld_tid, tid); }

static bool is_own(uint64_t pc) { return holds(&own_image, pc); }
#endif

/* ---- the loader's list ---------------------------------------------------------------------- */

bool linux_link_entry(uint64_t address, link_entry_t *out) {
  return address != 0 && address % 8 == 0 &&
         read_listed(address, out, sizeof *out) == (ssize_t)sizeof *out;
}

/* Finds the image of a list entry: with the loader's function, else at the entry's slide, else (for
 * a prelinked image) at the first header below the dynamic section that owns it. The loader's
 * function returns only one segment if the kernel left gaps between the segments. That is so for
 * the program and ld.so on aarch64, whose segments are 64 KB apart. */
static bool image_of_entry(const loader_t *loader, const link_entry_t *entry, os_image_t *out) {
  uint64_t dynamic = 0;
  found_object_t found;
  *out = (os_image_t){0};
  if (entry->dynamic == loader->program_dynamic && loader->program_dynamic != 0) {
    *out = loader->program;
  } else if (holds(&loader->vdso, entry->dynamic)) {
    *out = loader->vdso;
    return true;
  } else if (loader->find_object == NULL || linux_by_list ||
             loader->find_object((void *)(uintptr_t)entry->dynamic, &found) != 0 ||
             !image_from_header(out, found.start, &dynamic) || dynamic != entry->dynamic) {
    uint64_t header = entry->slide;
    uint64_t lower = ALIGN_DOWN(entry->dynamic, (uint64_t)PAGE_STEP);
    for (uint32_t i = 0; !image_from_header(out, header, &dynamic) || dynamic != entry->dynamic;
         i++) {
      if (i == HEADER_SEARCH || lower < PAGE_STEP) return false;
      header = lower;
      lower -= PAGE_STEP;
    }
  }
  out->path = (const char *)(uintptr_t)entry->path;
  return true;
}

/* ld.so is mapped once but listed in every namespace. It is reported in the program's own only. */
static bool walk_list(const loader_t *loader, uint64_t first, uint32_t link_space,
                      bool (*visit)(const os_image_t *image, void *context), void *context) {
  uint64_t at = first, previous = 0;
  for (uint32_t i = 0; at != 0 && i < LIST_MAX; i++) {
    link_entry_t entry;
    os_image_t image;
    if (!linux_link_entry(at, &entry) || entry.previous != previous) break;
    bool skip = link_space > 0 && entry.dynamic == loader->loader_dynamic;
    if (!skip && image_of_entry(loader, &entry, &image)) {
      image.link_space = link_space;
      if (!visit(&image, context)) return false;
    }
    previous = at;
    at = entry.next;
  }
  return true;
}

/* Records whether the list had the vDSO, since not every loader lists it. */
typedef struct visit_state {
  bool (*visit)(const os_image_t *image, void *context);
  void *context;
  uint64_t vdso_start;
} visit_state_t;

static bool visit_and_note(const os_image_t *image, void *context) {
  visit_state_t *state = context;
  if (image->start == state->vdso_start) state->vdso_start = 0;
  return state->visit(image, state->context);
}

void os_images(bool (*visit)(const os_image_t *image, void *context), void *context) {
  const loader_t *loader = linux_loader();
  if (loader == NULL) return;
  visit_state_t state = {visit, context, loader->vdso.start};
  uint64_t at = loader->debug;
  if (at == 0 && !visit_and_note(&loader->program, &state)) return;
  for (uint32_t i = 0; at != 0 && i < 64; i++) { /* 64: far more namespaces than a loader has */
    debug_head_t head;
    size_t size = offsetof(debug_head_t, next);
    if (read_listed(at, &head, size) != (ssize_t)size) break;
    if (!walk_list(loader, head.first, i, visit_and_note, &state)) return;
    if (head.version < 2 || loader->kind != LOADER_GLIBC ||
        read_listed(at + size, &head.next, sizeof head.next) != (ssize_t)sizeof head.next)
      break;
    at = head.next;
  }
  if (state.vdso_start != 0 && !visit(&loader->vdso, context)) return;
#if defined(SONDE_ATTACHED)
  if (own_image.start != 0) (void)visit(&own_image, context);
#endif
}

/* ---- one pc --------------------------------------------------------------------------------- */

typedef struct lookup {
  const loader_t *loader;
  uint64_t pc;
  found_object_t found;
} lookup_t;

static uint64_t find_object(uint64_t address) {
  lookup_t *l = (lookup_t *)(uintptr_t)address;
  return l->loader->find_object((void *)(uintptr_t)l->pc, &l->found) == 0;
}

/* _dl_find_object writes its result with vector registers, which may hold the arguments of a call
 * of the program. */
static bool image_by_loader(const loader_t *loader, uint64_t pc, os_image_t *out) {
  lookup_t lookup = {.loader = loader, .pc = pc};
  link_entry_t entry;
  if (!arch_ask_keeping((uintptr_t)&lookup, find_object)) return false;
  const found_object_t found = lookup.found;
  if (!linux_link_entry(found.link_entry, &entry)) return false;
  if (!image_from_header(out, found.start, NULL) &&
      !(image_of_entry(loader, &entry, out) && holds(out, pc)))
    *out = (os_image_t){.start = found.start, .end = found.end, .slide = entry.slide};
  out->path = (const char *)(uintptr_t)entry.path;
  return true;
}

typedef struct search {
  uint64_t pc;
  os_image_t *out;
  bool found;
} search_t;

static bool visit_search(const os_image_t *image, void *context) {
  search_t *search = context;
  if (!holds(image, search->pc)) return true;
  *search->out = *image;
  search->found = true;
  return false;
}

bool os_image_of_pc(uint64_t pc, os_image_t *out) {
  const loader_t *loader = linux_loader();
  if (loader == NULL) return false;
  if (holds(&loader->vdso, pc)) {
    *out = loader->vdso;
    return true;
  }
#if defined(SONDE_ATTACHED)
  if (is_own(pc)) {
    *out = own_image;
    return true;
  }
#endif
  if (loader->find_object != NULL && !linux_by_list) return image_by_loader(loader, pc, out);
  if (holds(&loader->program, pc)) {
    *out = loader->program;
    return true;
  }
  search_t search = {pc, out, false};
  if (loader->debug != 0) os_images(visit_search, &search);
  return search.found;
}

/* ---- finding the loader --------------------------------------------------------------------- */

static uint64_t auxv_value(const Elf64_auxv_t *auxv, uint64_t type) {
  for (int i = 0; i < AUXV_ENTRIES && auxv[i].a_type != AT_NULL; i++)
    if (auxv[i].a_type == type) return auxv[i].a_un.a_val;
  return 0;
}

static void auxv_read(Elf64_auxv_t auxv[AUXV_ENTRIES + 1]) {
  size_t size = AUXV_ENTRIES * sizeof *auxv;
  memset(auxv, 0, size + sizeof *auxv);
  /* Under valgrind the kernel's answer describes valgrind, but the file describes the program. */
  if (!arch_on_valgrind() && call5(prctl_auxv, PR_GET_AUXV, auxv, size, 0, 0) > 0) return;
  int fd = os_open_read("/proc/self/auxv");
  if (fd < 0) return;
  (void)os_read(fd, auxv, size);
  os_close(fd);
}

static void read_dynamic_of(dynamic_t *out, uint64_t dynamic, const os_image_t *image) {
  if (dynamic != 0)
    dynamic_read(out, (const Elf64_Dyn *)(uintptr_t)dynamic, image->slide, image->start,
                 image->end);
}

/* Finds the program by the program headers in the auxiliary vector. */
static void find_program(loader_t *loader, const Elf64_auxv_t *auxv, bool *has_interpreter) {
  uint64_t phdr = auxv_value(auxv, AT_PHDR), count = auxv_value(auxv, AT_PHNUM);
  layout_t l = LAYOUT_NONE;
  if (phdr == 0 || !layout_read(&l, phdr, count)) return;
  uint64_t slide = l.phdr != UINT64_MAX    ? phdr - l.phdr
                   : l.first != UINT64_MAX ? phdr - sizeof(Elf64_Ehdr) - l.first
                                           : 0;
  image_from_layout(&loader->program, &l, phdr, count, slide);
  loader->program.path = "";
  loader->program_dynamic = dynamic_of(&l, slide);
  *has_interpreter = l.has_interpreter;
}

static bool is_ld_so(const char *soname) {
  const char *prefix = "ld-linux";
  if (soname == NULL) return false;
  while (*prefix != '\0' && *prefix == *soname)
    prefix++, soname++;
  return *prefix == '\0';
}

static bool visit_system(const os_image_t *image, void *context) {
  loader_t *loader = context;
  dynamic_t symbols;
  layout_t l = LAYOUT_NONE;
  if (!layout_read(&l, image->phdr, image->phdr_count)) return true;
  uint64_t dynamic = dynamic_of(&l, image->slide);
  if (dynamic == 0) return true;
  read_dynamic_of(&symbols, dynamic, image);
  if (is_ld_so(symbols.soname) && loader->loader_symbols.symbols == NULL) {
    loader->loader_symbols = symbols;
    loader->loader_dynamic = dynamic;
    if (dynamic_symbol(&symbols, "_rtld_global", NULL) != 0) loader->kind = LOADER_GLIBC;
  } else if (symbols.soname != NULL && loader->libc_symbols.symbols == NULL &&
             text_equal(symbols.soname, "libc.so.6")) {
    loader->libc_symbols = symbols;
  } else if (loader->kind == LOADER_OTHER &&
             dynamic_symbol(&symbols, "_dl_debug_addr", NULL) != 0) {
    loader->kind = LOADER_MUSL; /* the only loader with that name; it is the C library as well */
    loader->libc_symbols = symbols;
  }
  return true;
}

/* Finds struct r_debug: the loader stores its address in the program's DT_DEBUG. If ld.so was
 * started as a command, the auxiliary vector describes ld.so itself, which exports the structure. A
 * static program has no loader, even if the C library has written to its DT_DEBUG. */
static uint64_t find_debug(const loader_t *loader, bool has_interpreter) {
  dynamic_t symbols = {0};
  read_dynamic_of(&symbols, loader->program_dynamic, &loader->program);
  return has_interpreter ? symbols.debug_address : dynamic_symbol(&symbols, "_r_debug", NULL);
}

static void find_loader(loader_t *loader) {
  Elf64_auxv_t auxv[AUXV_ENTRIES + 1];
  auxv_read(auxv);
  loader->is_secure = auxv_value(auxv, AT_SECURE) != 0;
  uint64_t vdso = auxv_value(auxv, AT_SYSINFO_EHDR), vdso_dynamic = 0;
  if (vdso != 0 && image_from_header(&loader->vdso, vdso, &vdso_dynamic)) {
    dynamic_t symbols;
    loader->vdso.path = "linux-vdso.so.1";
    read_dynamic_of(&symbols, vdso_dynamic, &loader->vdso);
    linux_clock_init(&symbols);
  }
  bool has_interpreter = false;
  find_program(loader, auxv, &has_interpreter);
  loader->debug = find_debug(loader, has_interpreter);
  if (loader->debug == 0) return;
  loader->kind = LOADER_OTHER;
  debug_head_t head;
  size_t size = offsetof(debug_head_t, next);
  if (read_listed(loader->debug, &head, size) != (ssize_t)size) return;
  (void)walk_list(loader, head.first, 0, visit_system, loader);
  loader->own_handle =
      (uint64_t(*)(void))(uintptr_t)dynamic_symbol(&loader->libc_symbols, "pthread_self", NULL);
  /* This comes last: the search for the images above uses the list only. */
  uint64_t find = dynamic_symbol(&loader->libc_symbols, "_dl_find_object", NULL);
  if (loader->kind == LOADER_GLIBC && find != 0)
    loader->find_object = (int (*)(void *, found_object_t *))(uintptr_t)find;
}

static loader_t *the_loader;
/* Without memory, functions that are replaced by name must still be found. */
static loader_t reserve;

static loader_t *allocate(void) {
  static uint32_t is_used;
  uint32_t unused = 0;
  loader_t *mine = os_map(sizeof *mine);
  return mine || !cas_acq_rel(&is_used, &unused, 1u) ? mine : &reserve;
}

const loader_t *linux_loader(void) {
  loader_t *known = load_acquire(&the_loader);
  if (LIKELY(known != NULL)) return known;
  loader_t *mine = allocate();
  if (mine == NULL) return NULL;
  find_loader(mine);
  if (cas_acq_rel(&the_loader, &known, mine)) return mine;
  if (mine != &reserve) os_unmap(mine, sizeof *mine);
  return known;
}

bool os_is_secure(void) {
  const loader_t *loader = linux_loader();
  return loader == NULL || loader->is_secure;
}

uint64_t os_libc_symbol(const char *name) {
  const loader_t *loader = linux_loader();
  return loader == NULL ? 0 : dynamic_symbol(&loader->libc_symbols, name, NULL);
}

void os_loader_init(void) {
  const loader_t *loader = linux_loader();
  if (loader != NULL) linux_epoch_init(loader);
}

/* ---- while no image is unloaded -------------------------------------------------------------- */

typedef struct held {
  void (*run)(void *context);
  void *context;
} held_t;

static int run_held(void *info, size_t size, void *context) {
  held_t *held = context;
  (void)info;
  (void)size;
  held->run(held->context);
  return 1; /* once */
}

/* dl_iterate_phdr holds the lock that dlclose takes before it unmaps an image. musl never unmaps.
 */
#if defined(SONDE_ATTACHED)
/* False while a thread loads or unloads images (r_state of link.h). */
static bool is_consistent(void) {
  const loader_t *loader = linux_loader();
  debug_head_t head;
  size_t size = offsetof(debug_head_t, next);
  return loader == NULL || loader->debug == 0 ||
         read_listed(loader->debug, &head, size) != (ssize_t)size || head.state == 0;
}

/* Nothing holds the loader for the thread that may not call it. A thread that is about to unload an
 * image waits for the lock of the hooks (hook/linux/dlopen.c). One that was past that has unmapped
 * its images when the loader's list is consistent again. */
static void wait_until_consistent(void) {
  const uint32_t never = 0;
  for (int i = 0; i < 400 && !is_consistent(); i++)
    (void)os_futex_wait(&never, 0, 500000);
}
#endif

int os_loader_hold(void (*run)(void *context), void *context) {
#if defined(SONDE_ATTACHED)
  if (load_relaxed(&unheld_tid) == os_tid()) {
    wait_until_consistent();
    run(context);
    return 0;
  }
#endif
  uint64_t address = os_libc_symbol("dl_iterate_phdr");
  if (address == 0) return -ENOSYS;
  held_t held = {run, context};
  int (*iterate)(int (*)(void *, size_t, void *), void *) =
      (int (*)(int (*)(void *, size_t, void *), void *))(uintptr_t)address;
  (void)iterate(run_held, &held);
  return 0;
}

uint64_t os_loader_breakpoint(void) {
  const loader_t *loader = linux_loader();
  debug_head_t head;
  size_t size = offsetof(debug_head_t, next);
  if (loader == NULL || loader->debug == 0 ||
      read_listed(loader->debug, &head, size) != (ssize_t)size)
    return 0;
  return head.breakpoint;
}
