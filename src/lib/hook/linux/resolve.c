/* SPDX-License-Identifier: MIT
 *
 * The function that a name refers to: the first definition in load order in the program's
 * namespace, as the loader would find it for a library that was loaded at start. In a program
 * linked at a fixed address, the address of an undefined symbol is not a definition: it is a stub
 * that calls through a slot itself, and forwarding to it would never end.
 */
#include <elf.h>

#include "base/bits.h"
#include "hook/internal.h"

#define AUXV_BYTES 1024
#define IFUNC_ARG  ((uint64_t)1 << 62) /* _IFUNC_ARG_HWCAP of sys/ifunc.h */

typedef struct ifunc_argument {
  uint64_t size, hwcap, hwcap2;
} ifunc_argument_t;

static void read_hwcap(ifunc_argument_t *out) {
  uint64_t auxv[AUXV_BYTES / 8];
  ssize_t size = os_read_file("/proc/self/auxv", (char *)auxv, sizeof auxv);
  *out = (ifunc_argument_t){.size = sizeof *out};
  for (ssize_t i = 0; i + 1 < size / 8; i += 2) {
    if (auxv[i] == AT_HWCAP) out->hwcap = auxv[i + 1];
    if (auxv[i] == AT_HWCAP2) out->hwcap2 = auxv[i + 1];
  }
}

/* Calls the IFUNC resolver like the loader: with arguments on aarch64; x86_64's ignore them. */
static uint64_t resolve(uint64_t resolver) {
  ifunc_argument_t argument;
  read_hwcap(&argument);
  uint64_t (*call)(uint64_t, const ifunc_argument_t *) =
      (uint64_t(*)(uint64_t, const ifunc_argument_t *))(uintptr_t)resolver;
  return call(argument.hwcap | IFUNC_ARG, &argument);
}

typedef struct undefined {
  const char *name;
  const import_slots_t *slots;
  uint64_t address;
} undefined_t;

static bool note_undefined(const slot_t *slot, void *context) {
  undefined_t *u = context;
  if (!import_slots_text_equal(slot->name, u->name)) return true;
  elf_sym_t sym = elf_sym((elf_shape_t){.is_64bit = true},
                          u->slots->symbols.data + (uint64_t)slot->symbol * ELF_SYM_MAX);
  if (sym.shndx == ELF_SHN_UNDEF && sym.value) u->address = sym.value + u->slots->slide;
  return u->address == 0;
}

static uint64_t canonical_of(const import_slots_t *program, const char *name) {
  undefined_t u = {name, program, 0};
  slot_names_t names = {{0}};
  slot_names_add(&names, name);
  import_slots_each(program, &names, note_undefined, &u);
  return u.address;
}

bool hooks_resolve(const hooks_t *h, const char *name, const char *version, uint64_t past,
                   symbol_t *out) {
  const import_slots_t *program = NULL;
  bool is_past = !past;
  for (uint32_t i = 0; i < h->image_count; i++) {
    const import_slots_t *slots = &h->images[i].slots;
    uint32_t number;
    elf_sym_t sym;
    if (h->images[i].image.link_space != 0 || !h->images[i].has_slots) continue;
    if (!program) program = slots;
    if (!is_past) {
      is_past = slots->start == past;
      continue;
    }
    if (!import_slots_definition(slots, name, version, &number, &sym)) continue;
    if (sym.type != ELF_STT_FUNC && sym.type != ELF_STT_GNU_IFUNC && sym.type != ELF_STT_NOTYPE)
      return false;
    out->original = sym.value + slots->slide;
    if (sym.type == ELF_STT_GNU_IFUNC) out->original = resolve(out->original);
    out->definer = slots->start;
    out->canonical = past ? 0 : canonical_of(program, name); /* it leads to the first definition */
    const char *found = import_slots_version(slots, number, NULL);
    return hooks_name_symbol(out, name, found ? found : "");
  }
  return false;
}
