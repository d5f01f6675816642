/* SPDX-License-Identifier: MIT
 *
 * Patches the loader's empty notification function to jump to sonde, and restores it.
 *
 * x86_64: `ret` and 13 bytes of the padding behind it become a jump to any address; the word that
 * is entered first is written last, by one store. aarch64: `ret` becomes a branch, whose reach is
 * 128 MB. A program linked with libsonde.a is usually farther from the loader; the branch then
 * leads to a veneer, mapped near the loader, that jumps to sonde. The function is called under the
 * loader's lock, which the writer holds. The page is writable and executable during the write.
 */
#include "arch/arch.h"
#include "base/bits.h"
#include "hook/internal.h"

#define PAUSE_NS 1000000u

static struct {
  uint64_t address; /* of the first changed word; 0: not changed */
  uint64_t before[2], ours[2];
} jump;

static uint64_t veneer; /* code that the jump leads to, and that jumps to sonde; 0: none */

#if defined(__x86_64__)

#define JUMP_BYTES  14u
#define FIRST_BYTES 1u /* `ret` */

/* The length of the assembler's padding instruction at CODE; 0: it is not one. */
static uint32_t nop_length(const uint8_t *code, uint32_t size) {
  uint32_t i = 0;
  while (i < size && (code[i] == 0x66 || code[i] == 0x2e))
    i++;
  if (i < size && code[i] == 0x90) return i + 1;
  if (i + 3 > size || code[i] != 0x0f || code[i + 1] != 0x1f) return 0;
  uint8_t mode = code[i + 2] >> 6, base = code[i + 2] & 7;
  return i + 3 + (base == 4) + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

/* Expects `ret` and unused padding; makes `jmp *0(%rip)` and the address. */
static bool make_jump(uint64_t at, const uint8_t *code, void (*to)(void)) {
  uint32_t end = 1, step = 1;
  if (at % 8 != 0 || code[0] != 0xc3) return false;
  for (; end < JUMP_BYTES && step; end += step)
    step = nop_length(code + end, 24 - end);
  if (end < JUMP_BYTES) return false;
  static const uint8_t start[6] = {0xff, 0x25, 0, 0, 0, 0};
  uint64_t target = (uint64_t)(uintptr_t)to;
  __builtin_memcpy(jump.before, code, sizeof jump.before);
  __builtin_memcpy(jump.ours, code, sizeof jump.ours);
  __builtin_memcpy(jump.ours, start, sizeof start);
  __builtin_memcpy((uint8_t *)jump.ours + sizeof start, &target, sizeof target);
  jump.address = at;
  return true;
}

#else

#define RET          0xd65f03c0u
#define BTI_C        0xd503245fu
#define REACH        (INT64_C(128) << 20)
#define FIRST_BYTES  8u /* one store replaces the branch, which has no target behind it */

/* The most bytes of a page. */
#define VENEER_BYTES 65536u

static int64_t distance(uint64_t from, uint64_t to) { return (int64_t)(to - from); }

static bool is_in_reach(int64_t distance) { return distance >= -REACH && distance < REACH; }

/* Returns code within reach of FROM that jumps to TO; 0: there is no room, or the kernel refuses
 * executable memory. It stays mapped, since a thread may be in it when the jump is removed. x16 is
 * free at a function's entry (AAPCS64, 6.1.1). */
static uint64_t veneer_near(uint64_t from, uint64_t to) {
  if (veneer && is_in_reach(distance(from, veneer))) return veneer;
  const uint32_t code[2] = {0x58000050u /* ldr x16, the word behind */, 0xd61f0200u /* br x16 */};
  uint8_t *page = os_map_near(from, VENEER_BYTES);
  uint64_t start = (uint64_t)(uintptr_t)page;
  if (!page) return 0;
  __builtin_memcpy(page, code, sizeof code);
  __builtin_memcpy(page + sizeof code, &to, sizeof to);
  arch_code_written(start, sizeof code + sizeof to);
  if (is_in_reach(distance(from, start)) &&
      os_protect(start, start + VENEER_BYTES, 5 /* PROT_READ | PROT_EXEC */) == 0)
    return veneer = start;
  os_unmap(page, VENEER_BYTES);
  return 0;
}

/* Expects `ret`, possibly behind `bti c`; makes `b`. */
static bool make_jump(uint64_t at, const uint8_t *code, void (*to)(void)) {
  uint32_t words[6];
  __builtin_memcpy(words, code, sizeof words);
  uint32_t number = words[0] == BTI_C;
  uint64_t ret = at + number * 4;
  uint64_t target = (uint64_t)(uintptr_t)to;
  if (at % 4 != 0 || words[number] != RET) return false;
  if (!is_in_reach(distance(ret, target))) target = veneer_near(ret, target);
  if (!target) return false;
  jump.address = ret & ~UINT64_C(7);
  if (os_read_memory(jump.address, jump.before, sizeof jump.before) != sizeof jump.before)
    return false;
  __builtin_memcpy(jump.ours, jump.before, sizeof jump.ours);
  uint32_t branch = 0x14000000u | ((uint32_t)(distance(ret, target) >> 2) & 0x3ffffffu);
  __builtin_memcpy((uint8_t *)jump.ours + (ret & 7), &branch, sizeof branch);
  return true;
}
#endif

/* A thread that has fetched the jump still reads its target, the bytes behind it. So these are
 * restored when every thread is past the jump. Without membarrier(2) a pause must do: the thread is
 * inside one instruction. */
static void restore(uint64_t *code, const uint64_t to[2]) {
  const uint32_t never = 0;
  uint64_t first = load_relaxed(&code[0]);
  __builtin_memcpy(&first, to, FIRST_BYTES);
  store_release(&code[0], first);
  if (first != to[0] && !os_sync_code()) (void)os_futex_wait(&never, 0, PAUSE_NS);
  store_release(&code[0], to[0]);
  store_release(&code[1], to[1]);
}

/* Writes both words; the entered one last, or first when the jump is removed. */
static bool write_code(hooks_t *h, const uint64_t from[2], const uint64_t to[2]) {
  uint64_t *code = (uint64_t *)(uintptr_t)jump.address;
  bool done = patch_open(&h->patcher, jump.address);
  if (done && load_relaxed(&code[0]) == from[0] && from[0] == jump.before[0]) {
    store_release(&code[1], to[1]);
    store_release(&code[0], to[0]);
  } else if (done && load_relaxed(&code[0]) == from[0]) {
    restore(code, to);
  } else {
    done = false;
  }
  if (done) arch_code_written(jump.address, sizeof jump.ours);
  patch_end(&h->patcher);
  return done;
}

bool loader_jump_in_force(void) {
  return jump.address && load_relaxed((const uint64_t *)(uintptr_t)jump.address) == jump.ours[0];
}

static bool is_gone(void) {
  const uint64_t *code = (const uint64_t *)(uintptr_t)jump.address;
  return !code ||
         (load_relaxed(&code[0]) == jump.before[0] && load_relaxed(&code[1]) == jump.before[1]);
}

bool loader_jump_may_enter(void) { return veneer || !is_gone(); }

void loader_jump_start(hooks_t *h, void (*to)(void)) {
  if (!is_gone()) return;
  uint64_t address = os_loader_breakpoint();
  uint8_t code[24];
  jump.address = 0;
  if (!address || os_read_memory(address, code, sizeof code) != (ssize_t)sizeof code) return;
  if (!make_jump(address, code, to) || !write_code(h, jump.before, jump.ours)) jump.address = 0;
}

void loader_jump_stop(hooks_t *h) {
  if (loader_jump_in_force()) (void)write_code(h, jump.ours, jump.before);
  if (is_gone()) jump.address = 0;
}
