/* SPDX-License-Identifier: MIT
 *
 * The symbol index: a map from address ranges to names.
 *
 * Symbols overlap, nest, repeat and leave gaps. The index resolves that once, in a sweep over the
 * symbols by address: the answer changes only where a symbol starts or ends. Each such address
 * becomes a border, with the symbol that applies from there on, or none. A look-up is then one
 * binary search over an array of 32-bit borders.
 *
 * During the sweep a stack holds the symbols that cover the current address, with the latest start
 * on top. A symbol that ends no later than a newer one can never apply again and is dropped. So
 * every symbol is pushed and popped once.
 *
 * Addresses are kept in 32 bits relative to the lowest address of the image. Sorting is by radix,
 * which has no slow inputs.
 */
#include "image/symbols.h"

#include "base/bits.h"
#include "image/macho/macho.h"
#include "image/macho/format.h"
#include "os/os.h"
#include "sonde/status.h"

#define NONE UINT32_MAX
#define VERSION_SEARCH                                                                             \
  1024u /* characters; bounds the cost of a hostile table with one very long name */

typedef struct symbol {
  uint32_t address, size; /* relative to base; size 0: unknown */
  uint32_t name;          /* offset among the names */
} symbol_t;

struct symbols {
  uint64_t base;  /* the lowest address of the image */
  uint64_t bytes; /* size of the whole mapping */
  uint32_t border_count, symbol_count;
  const uint32_t *borders; /* ascending */
  const uint32_t *holders; /* the symbol that applies from each border on, or NONE */
  const symbol_t *symbols;
  const char *names;
};

/* A symbol while the index is built. `name` is an offset into the names of both tables. */
typedef struct draft {
  uint32_t address, size, name;
  uint8_t rank; /* among symbols with the same start, the highest rank applies */
} draft_t;

typedef struct builder {
  const image_t *image;
  uint64_t limit_bytes, used_bytes;
  uint64_t base, span;
  char *names; /* the names of both tables, copied from the image */
  uint64_t names_size;
  draft_t *drafts, *spare;
  uint32_t count, capacity;
  uint32_t *stack, *number; /* of the sweep; the number of each draft in the index, or NONE */
  uint32_t *borders, *holders;
  uint32_t border_count;
  uint32_t *kept; /* drafts that apply somewhere, in the order of their numbers */
  uint32_t kept_count;
} builder_t;

/* ---- memory --------------------------------------------------------------------------------- */

static void *map_within(builder_t *b, uint64_t count, uint64_t size) {
  uint64_t bytes = count * size;
  if (bytes == 0 || bytes > b->limit_bytes - b->used_bytes) return NULL;
  void *memory = os_map(bytes);
  if (memory) b->used_bytes += bytes;
  return memory;
}

static void unmap(void *memory, uint64_t count, uint64_t size) {
  if (memory) os_unmap(memory, count * size);
}

/* ---- reading the tables --------------------------------------------------------------------- */

/* Returns true if ADDRESS is in an executable segment. Sets *ROOM to the bytes up to the segment's
 * end. */
static bool in_code(const image_t *image, uint64_t address, uint64_t *room) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (!(s->flags & ELF_PF_X) || address < s->address || address - s->address >= s->size) continue;
    *room = s->size - (address - s->address);
    return true;
  }
  return false;
}

static bool counts_as_name(const char *name) {
  return name[0] && name[0] != '$' && !(name[0] == '.' && name[1] == 'L');
}

static uint8_t rank_of(const elf_sym_t *s, const char *name) {
  unsigned underscores = 0, rank = s->size ? 128 : 0;
  bool versioned = false;
  while (name[underscores] == '_' && underscores < 3)
    underscores++;
  for (const char *p = name; *p && !versioned; p++)
    versioned = *p == '@';
  rank += s->type == ELF_STT_FUNC ? 64 : s->type == ELF_STT_GNU_IFUNC ? 32 : 0;
  rank += s->binding == ELF_STB_LOCAL ? 0 : s->binding == ELF_STB_WEAK ? 8 : 16;
  return (uint8_t)(rank + (versioned ? 0 : 4) + (3 - underscores));
}

/* Adds the symbol if it names code. */
static void consider(builder_t *b, const elf_sym_t *s, uint64_t names_at, uint64_t names_size) {
  uint64_t value = s->value, room;
  if (s->shndx == ELF_SHN_UNDEF || (s->shndx >= ELF_SHN_LORESERVE && s->shndx != ELF_SHN_XINDEX) ||
      (s->type != ELF_STT_FUNC && s->type != ELF_STT_GNU_IFUNC && s->type != ELF_STT_NOTYPE) ||
      s->name >= names_size)
    return;
  if (b->image->machine == IMAGE_ARMV7) value &= ~(uint64_t)1; /* Thumb: AAELF32, 5.5.3 */
  const char *name = b->names + names_at + s->name;
  if (!counts_as_name(name) || !in_code(b->image, value, &room) || b->count == b->capacity) return;
  uint64_t size = s->size < room ? s->size : room;
  b->drafts[b->count++] = (draft_t){.address = (uint32_t)(value - b->base),
                                    .size = (uint32_t)size,
                                    .name = (uint32_t)(names_at + s->name),
                                    .rank = rank_of(s, name)};
}

static bool read_table(builder_t *b, const section_t *table, uint64_t names_at,
                       uint64_t names_size) {
  elf_shape_t shape = {b->image->is_64bit, b->image->is_big_endian};
  unsigned entry = elf_sym_size(shape);
  uint8_t piece[ELF_SYM_MAX * 10];
  uint64_t batch = sizeof piece / entry * entry;
  for (uint64_t at = 0; at + entry <= table->size; at += batch) {
    uint64_t size = table->size - at < batch ? (table->size - at) / entry * entry : batch;
    if (os_read_memory((uint64_t)(uintptr_t)table->data + at, piece, size) != (ssize_t)size)
      return false;
    for (uint64_t i = 0; i < size; i += entry) {
      elf_sym_t s = elf_sym(shape, piece + i);
      consider(b, &s, names_at, names_size);
    }
  }
  return true;
}

/* Copies the names of a table. The mapping is zeroed and longer, so the last name always ends. */
static bool read_names(const section_t *names, char *to) {
  return names->size == 0 ||
         os_read_memory((uint64_t)(uintptr_t)names->data, to, names->size) == (ssize_t)names->size;
}

/* ---- Mach-O --------------------------------------------------------------------------------- */

/* The rank of an address where the symbol before it ends: a function without a name, or the end of
 * a section. */
#define NAMELESS_RANK 0

static void add_end(builder_t *b, uint64_t address) {
  uint64_t room;
  if (b->count == b->capacity || !in_code(b->image, address, &room)) return;
  b->drafts[b->count++] = (draft_t){.address = (uint32_t)(address - b->base),
                                    .name = (uint32_t)(b->names_size - 1),
                                    .rank = NAMELESS_RANK};
}

static bool add_ends(builder_t *b) {
  macho_sections_t walk = {0};
  macho_section_t section;
  uint64_t at = 0, address = macho_header_address(b->image);
  section_t starts = b->image->macho.function_starts;
  while (macho_next_section(b->image, &walk, &section))
    if (macho_section_is_code(&section)) add_end(b, section.address + section.size);
  if (starts.size == 0) return true;
  uint8_t *copy = map_within(b, starts.size, 1);
  if (!copy) return false;
  ssize_t got = os_read_memory((uint64_t)(uintptr_t)starts.data, copy, starts.size);
  starts = (section_t){.data = copy, .size = got > 0 ? (uint64_t)got : 0};
  while (macho_next_function(&starts, &at, &address))
    add_end(b, address);
  unmap(copy, b->image->macho.function_starts.size, 1);
  return true;
}

/* Adds the entry if it names code, without the linker's leading underscore. */
static void consider_nlist(builder_t *b, const macho_nlist_t *n, const bool *is_code) {
  uint64_t room, names_size = b->names_size - 2;
  if (!macho_nlist_is_defined(n) || !is_code[n->section] || n->name >= names_size ||
      b->count == b->capacity || !in_code(b->image, n->value, &room))
    return;
  uint32_t name = n->name;
  if (b->names[name] == '_') name++;
  if (!b->names[name]) return;
  unsigned rank = n->type & MACHO_N_PEXT ? 32 : n->type & MACHO_N_EXT ? 64 : 16, underscores = 0;
  while (b->names[name + underscores] == '_' && underscores < 3)
    underscores++;
  b->drafts[b->count++] = (draft_t){.address = (uint32_t)(n->value - b->base),
                                    .name = name,
                                    .rank = (uint8_t)(rank + 3 - underscores)};
}

static bool read_nlists(builder_t *b) {
  const image_t *image = b->image;
  elf_shape_t shape = {image->is_64bit, image->is_big_endian};
  unsigned entry = macho_nlist_size(shape), number = 1;
  bool is_code[256] = {false};
  macho_sections_t walk = {0};
  macho_section_t section;
  uint8_t piece[MACHO_NLIST_MAX * 16];
  uint64_t batch = sizeof piece / entry * entry;
  for (; number < 256 && macho_next_section(image, &walk, &section); number++)
    is_code[number] = macho_section_is_code(&section);
  for (uint64_t at = 0; at + entry <= image->symtab.size; at += batch) {
    uint64_t left = image->symtab.size - at, size = left < batch ? left / entry * entry : batch;
    if (os_read_memory((uint64_t)(uintptr_t)image->symtab.data + at, piece, size) != (ssize_t)size)
      return false;
    for (uint64_t i = 0; i < size; i += entry) {
      macho_nlist_t n = macho_nlist(shape, piece + i);
      consider_nlist(b, &n, is_code);
    }
  }
  return true;
}

static int read_macho(builder_t *b) {
  const image_t *image = b->image;
  if (image->symtab.size > UINT32_MAX || image->symtab_names.size >= UINT32_MAX / 2 ||
      image->macho.function_starts.size > UINT32_MAX / 2)
    return SONDE_ENOMEM;
  uint64_t symbols = image->symtab.size / (image->is_64bit ? 16 : 12);
  if (symbols == 0) return SONDE_ESTRIPPED;
  b->capacity = (uint32_t)(symbols + image->macho.function_starts.size + 256);
  b->names_size = image->symtab_names.size + 2; /* the last one is the empty name */
  b->names = map_within(b, b->names_size, 1);
  b->drafts = map_within(b, b->capacity, sizeof *b->drafts);
  if (!b->names || !b->drafts) return SONDE_ENOMEM;
  if (os_read_memory((uint64_t)(uintptr_t)image->symtab_names.data, b->names,
                     image->symtab_names.size) != (ssize_t)image->symtab_names.size ||
      !read_nlists(b))
    return SONDE_EFAULT;
  if (b->count == 0) return SONDE_ESTRIPPED;
  return add_ends(b) ? SONDE_OK : SONDE_ENOMEM;
}

/* ---- both formats
 * ----------------------------------------------------------------------------------- */

/* .dynsym first: among equal drafts the later one applies. */
static int read_tables(builder_t *b) {
  const image_t *image = b->image;
  if (image->is_macho) return read_macho(b);
  section_t none = {0}, sym = image->symtab, dyn = image->dynsym;
  section_t sym_names = sym.data ? image->symtab_names : none;
  section_t dyn_names = dyn.data ? image->dynsym_names : none;
  unsigned entry = image->is_64bit ? 24 : 16;
  if (sym.size > UINT32_MAX || dyn.size > UINT32_MAX || sym_names.size >= UINT32_MAX / 2 ||
      dyn_names.size >= UINT32_MAX / 2)
    return SONDE_ENOMEM;
  b->capacity = (uint32_t)(sym.size / entry + dyn.size / entry);
  b->names_size = dyn_names.size + 1 + sym_names.size + 1;
  if (b->capacity == 0) return SONDE_ESTRIPPED;
  b->names = map_within(b, b->names_size, 1);
  b->drafts = map_within(b, b->capacity, sizeof *b->drafts);
  if (!b->names || !b->drafts) return SONDE_ENOMEM;
  if (!read_names(&dyn_names, b->names) || !read_names(&sym_names, b->names + dyn_names.size + 1) ||
      !read_table(b, &dyn, 0, dyn_names.size) ||
      !read_table(b, &sym, dyn_names.size + 1, sym_names.size))
    return SONDE_EFAULT;
  return b->count ? SONDE_OK : SONDE_ESTRIPPED;
}

/* ---- sorting -------------------------------------------------------------------------------- */

/* Byte number PLACE of the sort key (address, then rank); byte 0 is the least significant. */
static unsigned key_byte(const draft_t *d, unsigned place) {
  return place == 0 ? d->rank : d->address >> (8 * (place - 1)) & 255;
}

/* A stable counting sort for each byte of the key. */
static bool sort(builder_t *b) {
  uint32_t *starts = map_within(b, 256, sizeof *starts);
  b->spare = map_within(b, b->capacity, sizeof *b->spare);
  if (!starts || !b->spare) {
    unmap(starts, 256, sizeof *starts);
    return false;
  }
  for (unsigned place = 0; place < 5; place++) {
    __builtin_memset(starts, 0, 256 * sizeof *starts);
    for (uint32_t i = 0; i < b->count; i++)
      starts[key_byte(&b->drafts[i], place)]++;
    uint32_t sum = 0;
    for (unsigned v = 0; v < 256; v++) {
      uint32_t count = starts[v];
      starts[v] = sum;
      sum += count;
    }
    for (uint32_t i = 0; i < b->count; i++)
      b->spare[starts[key_byte(&b->drafts[i], place)]++] = b->drafts[i];
    draft_t *sorted = b->spare;
    b->spare = b->drafts;
    b->drafts = sorted;
  }
  unmap(starts, 256, sizeof *starts);
  return true;
}

/* ---- the sweep ------------------------------------------------------------------------------ */

static uint64_t end_of(const builder_t *b, uint32_t draft, uint64_t reach) {
  const draft_t *d = &b->drafts[draft];
  return d->size ? (uint64_t)d->address + d->size : reach;
}

/* Adds a border: DRAFT (or NONE) applies from ADDRESS on. */
static void border(builder_t *b, uint64_t address, uint32_t draft) {
  if (address > UINT32_MAX) return;
  uint32_t n = b->border_count, holder = NONE;
  if (draft != NONE) {
    if (b->number[draft] == NONE) {
      b->number[draft] = b->kept_count;
      b->kept[b->kept_count++] = draft;
    }
    holder = b->number[draft];
  }
  if (n > 0 && b->borders[n - 1] == address) n--;
  b->border_count = n;
  if (n > 0 ? b->holders[n - 1] == holder : holder == NONE) return;
  b->borders[n] = (uint32_t)address;
  b->holders[n] = holder;
  b->border_count = n + 1;
}

/* The state of the sweep, with the ends of the symbols on the stack. Symbols without a size end at
 * `reach`. */
typedef struct sweep {
  uint32_t depth;
  uint64_t reach;
} sweep_t;

static uint64_t top_end(const builder_t *b, const sweep_t *s) {
  return end_of(b, b->stack[s->depth - 1], s->reach);
}

/* Ends all symbols that end at or before ADDRESS. */
static void advance(builder_t *b, sweep_t *s, uint64_t address) {
  while (s->depth > 0 && top_end(b, s) <= address) {
    uint64_t end = top_end(b, s);
    s->depth--;
    border(b, end, s->depth ? b->stack[s->depth - 1] : NONE);
  }
}

/* Enters the drafts FIRST to LAST, which start at one address; LAST has the highest rank. The next
 * drafts start at NEXT. */
static void enter(builder_t *b, sweep_t *s, uint32_t first, uint32_t last, uint64_t next) {
  uint64_t room = 0;
  bool sized = b->drafts[last].size != 0;
  if (!b->names[b->drafts[last].name]) { /* Mach-O only, where no symbol has a size */
    s->depth = 0;
    border(b, b->drafts[last].address, NONE);
    return;
  }
  if (!sized && s->depth > 0) return; /* inside a function with a size */
  (void)in_code(b->image, b->base + b->drafts[last].address, &room);
  uint64_t segment_end = b->drafts[last].address + room;
  s->reach = next < segment_end ? next : segment_end;
  for (uint32_t i = sized ? first : last; i <= last; i++) {
    if (sized && b->drafts[i].size == 0) continue;
    while (s->depth > 0 && top_end(b, s) <= end_of(b, i, s->reach))
      s->depth--;
    b->stack[s->depth++] = i;
  }
  border(b, b->drafts[last].address, b->stack[s->depth - 1]);
}

static bool sweep(builder_t *b) {
  uint32_t n = b->count;
  b->stack = map_within(b, n, sizeof *b->stack);
  b->number = map_within(b, n, sizeof *b->number);
  b->kept = map_within(b, n, sizeof *b->kept);
  b->borders = map_within(b, 2 * (uint64_t)n, sizeof *b->borders);
  b->holders = map_within(b, 2 * (uint64_t)n, sizeof *b->holders);
  if (!b->stack || !b->number || !b->kept || !b->borders || !b->holders) return false;
  __builtin_memset(b->number, 0xff, n * sizeof *b->number);
  sweep_t s = {0};
  for (uint32_t first = 0, last; first < n; first = last + 1) {
    uint32_t address = b->drafts[first].address;
    for (last = first; last + 1 < n && b->drafts[last + 1].address == address;)
      last++;
    advance(b, &s, address);
    enter(b, &s, first, last, last + 1 < n ? b->drafts[last + 1].address : UINT64_MAX);
  }
  advance(b, &s, UINT64_MAX);
  return true;
}

/* ---- the finished index --------------------------------------------------------------------- */

static uint32_t name_length(const char *name) {
  uint32_t n = 0;
  while (name[n])
    n++;
  return n;
}

static symbols_t *finish(builder_t *b) {
  uint64_t names = 0;
  for (uint32_t i = 0; i < b->kept_count && names <= b->limit_bytes; i++)
    names += name_length(b->names + b->drafts[b->kept[i]].name) + 1;
  uint64_t borders = (uint64_t)b->border_count * sizeof(uint32_t);
  uint64_t kept = (uint64_t)b->kept_count * sizeof(symbol_t);
  uint64_t bytes = sizeof(symbols_t) + 2 * borders + kept + names;
  if (names > UINT32_MAX) return NULL;
  uint8_t *memory = map_within(b, bytes, 1);
  if (!memory) return NULL;
  symbols_t *out = (symbols_t *)memory;
  uint32_t *border_array = (uint32_t *)(memory + sizeof *out);
  uint32_t *holder_array = border_array + b->border_count;
  symbol_t *symbol_array = (symbol_t *)(holder_array + b->border_count);
  char *name_array = (char *)(symbol_array + b->kept_count);
  __builtin_memcpy(border_array, b->borders, borders);
  __builtin_memcpy(holder_array, b->holders, borders);
  uint32_t at = 0;
  for (uint32_t i = 0; i < b->kept_count; i++) {
    const draft_t *d = &b->drafts[b->kept[i]];
    uint32_t length = name_length(b->names + d->name) + 1;
    symbol_array[i] = (symbol_t){d->address, d->size, at};
    __builtin_memcpy(name_array + at, b->names + d->name, length);
    at += length;
  }
  *out = (symbols_t){.base = b->base,
                     .bytes = bytes,
                     .border_count = b->border_count,
                     .symbol_count = b->kept_count,
                     .borders = border_array,
                     .holders = holder_array,
                     .symbols = symbol_array,
                     .names = name_array};
  return out;
}

static void release(builder_t *b) {
  unmap(b->names, b->names_size, 1);
  unmap(b->drafts, b->capacity, sizeof *b->drafts);
  unmap(b->spare, b->capacity, sizeof *b->spare);
  unmap(b->stack, b->count, sizeof *b->stack);
  unmap(b->number, b->count, sizeof *b->number);
  unmap(b->kept, b->count, sizeof *b->kept);
  unmap(b->borders, 2 * (uint64_t)b->count, sizeof *b->borders);
  unmap(b->holders, 2 * (uint64_t)b->count, sizeof *b->holders);
}

int symbols_build(const image_t *image, uint64_t limit_bytes, symbols_t **out) {
  builder_t b = {.image = image, .limit_bytes = limit_bytes, .base = image->start - image->slide};
  if (image->end - image->start > UINT32_MAX) return SONDE_EUNSUPPORTED;
  int status = read_tables(&b);
  if (status == SONDE_OK && !(sort(&b) && sweep(&b) && (*out = finish(&b)))) status = SONDE_ENOMEM;
  release(&b);
  return status;
}

void symbols_free(symbols_t *symbols) {
  if (symbols) os_unmap(symbols, symbols->bytes);
}

/* ---- look-up -------------------------------------------------------------------------------- */

image_symbol_t symbols_at(const symbols_t *s, uint32_t i) {
  const symbol_t *symbol = &s->symbols[i];
  return (image_symbol_t){s->names + symbol->name, s->base + symbol->address, symbol->size};
}

bool symbols_find(const symbols_t *s, uint64_t address, image_symbol_t *out) {
  uint64_t relative = address - s->base;
  if (relative > UINT32_MAX || s->border_count == 0 || relative < s->borders[0]) return false;
  const uint32_t *low = s->borders;
  for (uint32_t count = s->border_count; count > 1;) { /* low[0] <= relative holds throughout */
    uint32_t half = count / 2;
    low += low[half] <= relative ? half : 0;
    count -= half;
  }
  uint32_t holder = s->holders[low - s->borders];
  if (holder == NONE) return false;
  *out = symbols_at(s, holder);
  return true;
}

uint64_t symbols_bytes(const symbols_t *symbols) { return symbols->bytes; }
uint32_t symbols_count(const symbols_t *symbols) { return symbols->symbol_count; }
