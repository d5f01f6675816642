/* SPDX-License-Identifier: MIT
 *
 * What hooks cost: setting and removing fifty at once in a process of 150 images, a call that goes
 * through one, and a call through a trampoline.
 *
 *   hook_bench [IMAGES]
 *
 * The images are libraries of the system, opened by name until there are enough. Times are CPU
 * time, the least of the rounds; the first includes finding all images and memory. The forwarding
 * hook is compared with the same call without a hook, in turns.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "hook/trampoline.h"
#include "image/import_slots.h"
#include "os/os.h"
#include "sonde/hook.h"

#if defined(__x86_64__)
#define LIBRARIES "/usr/lib/x86_64-linux-gnu"
#else
#define LIBRARIES "/usr/lib/aarch64-linux-gnu"
#endif
#define NAMES  50
#define ROUNDS 41
#define CALLS  2000000

static const char *const names[NAMES] = {"malloc",
                                         "free",
                                         "calloc",
                                         "realloc",
                                         "memcpy",
                                         "memmove",
                                         "memset",
                                         "strlen",
                                         "strcmp",
                                         "strncmp",
                                         "strchr",
                                         "strrchr",
                                         "strstr",
                                         "snprintf",
                                         "fopen",
                                         "fclose",
                                         "fread",
                                         "fwrite",
                                         "open",
                                         "close",
                                         "read",
                                         "write",
                                         "getenv",
                                         "abort",
                                         "exit",
                                         "qsort",
                                         "bsearch",
                                         "strdup",
                                         "strtol",
                                         "strtoul",
                                         "fputs",
                                         "fprintf",
                                         "fflush",
                                         "fseek",
                                         "ftell",
                                         "mmap",
                                         "munmap",
                                         "getpid",
                                         "time",
                                         "gettimeofday",
                                         "clock_gettime",
                                         "pthread_mutex_lock",
                                         "pthread_mutex_unlock",
                                         "pthread_once",
                                         "pthread_create",
                                         "socket",
                                         "connect",
                                         "send",
                                         "recv",
                                         "poll"};

/* A replacement for each that goes straight on, whatever its arguments: 16 bytes a piece. */
__attribute__((visibility("hidden"))) void *hook_bench_originals[NAMES];
extern char hook_bench_stubs[] __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n.balign 16\nhook_bench_stubs:\n.set i, 0\n.rept 50\n"
#if defined(__x86_64__)
        "jmp *hook_bench_originals + 8 * i(%rip)\n"
#else
        "adrp x16, hook_bench_originals + 8 * i\n"
        "ldr x16, [x16, :lo12:hook_bench_originals + 8 * i]\nbr x16\n"
#endif
        ".balign 16\n.set i, i + 1\n.endr\n.popsection\n");

static int count_image(struct dl_phdr_info *info, size_t size, void *context) {
  (void)info, (void)size;
  ++*(int *)context;
  return 0;
}

static int images(void) {
  int count = 0;
  dl_iterate_phdr(count_image, &count);
  return count;
}

/* Not those that take over malloc, signals or the whole process when they are loaded. */
static bool is_harmless(const char *name) {
  static const char *const not [] = {"san",   "alloc", "memusage", "profile", "SegFault", "preload",
                                     "sonde", "fault", "libc.so",  "libgo",   "python",   "audit"};
  const char *so = strstr(name, ".so.");
  for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
    if (strstr(name, not [i])) return false;
  return strncmp(name, "lib", 3) == 0 && so && !strchr(so + 4, '.');
}

static void open_images(int wanted) {
  DIR *folder = opendir(LIBRARIES);
  for (struct dirent *e; folder && (e = readdir(folder)) != NULL && images() < wanted;)
    if (is_harmless(e->d_name)) (void)dlopen(e->d_name, RTLD_LAZY | RTLD_LOCAL);
  if (folder) closedir(folder);
}

static bool count_relocations(const os_image_t *image, void *context) {
  import_slots_t slots;
  if (import_slots_read(&slots, image)) *(uint64_t *)context += slots.plt.count + slots.rela.count;
  return true;
}

static int look(const sonde_slot_t *slot, void *context) {
  (void)slot, (void)context;
  return 0;
}

/* Of this thread: others on the machine do not count. */
static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void hooking(void) {
  sonde_hook_request_t requests[NAMES];
  sonde_hook_t *hooks[NAMES];
  double set[ROUNDS], removed[ROUNDS], first = 0;
  uint64_t relocations = 0;
  uint64_t hooked = 0;
  os_images(count_relocations, &relocations);
  for (int i = 0; i < NAMES; i++) {
    requests[i] = (sonde_hook_request_t){.symbol = names[i],
                                         .replacement = hook_bench_stubs + 16 * i,
                                         .original = &hook_bench_originals[i]};
  }
  for (int r = 0; r < ROUNDS; r++) {
    double start = cpu_ms();
    int status = sonde_hook_add(requests, NAMES, hooks);
    set[r] = cpu_ms() - start;
    if (status != SONDE_OK) {
      printf("  not hooked: %s\n", sonde_strerror(status));
      return;
    }
    if (r == 0) first = set[0];
    for (int i = 0; i < NAMES && r == 0; i++)
      hooked += (uint64_t)sonde_hook_reach(hooks[i], look, NULL);
    start = cpu_ms();
    for (int i = NAMES; i-- > 0;)
      (void)sonde_hook_remove(hooks[i]);
    removed[r] = (cpu_ms() - start) / NAMES;
  }
  (void)bench_median(set, ROUNDS);
  (void)bench_median(removed, ROUNDS);
  printf("%d names in %d images with %llu relocations, %llu slots: hooked in %.2f ms of CPU time "
         "(the first time %.2f, median %.2f), one removed in %.3f ms\n",
         NAMES, images(), (unsigned long long)relocations, (unsigned long long)hooked, set[0],
         first, set[ROUNDS / 2], removed[0]);
}

/* ---- a call --------------------------------------------------------------------------------- */

/* Without the attribute by which the compiler would call it once. */
extern int page_size(void) __asm__("getpagesize");
static int (*go_on)(void);
static int forward(void) { return go_on(); }

static double time_calls(void) {
  uint64_t start = bench_now_ns();
  for (int i = 0; i < CALLS; i++)
    (void)page_size();
  return (double)(bench_now_ns() - start) / CALLS;
}

static void calling(void) {
  double plain[ROUNDS], hooked[ROUNDS];
  sonde_hook_request_t request = {.symbol = "getpagesize",
                                  .replacement = (void *)(uintptr_t)forward,
                                  .original = (void **)(void *)&go_on};
  for (int r = 0; r < ROUNDS; r++) {
    sonde_hook_t *hook;
    plain[r] = time_calls();
    if (sonde_hook_add(&request, 1, &hook) != SONDE_OK) return;
    hooked[r] = time_calls();
    (void)sonde_hook_remove(hook);
  }
  (void)bench_median(plain, ROUNDS);
  (void)bench_median(hooked, ROUNDS);
  printf("a call: %.2f ns, with a hook that goes on: %.2f ns (medians %.2f, %.2f)\n", plain[0],
         hooked[0], plain[ROUNDS / 2], hooked[ROUNDS / 2]);
}

/* ---- a trampoline --------------------------------------------------------------------------- */

static uint64_t begun, ended;
static bool count_before(call_t *call, const uint64_t *registers) {
  (void)call, (void)registers;
  begun++;
  return true;
}
static void count_after(call_t *call, call_end_t end) {
  (void)call, (void)end;
  ended++;
}
static const trampoline_handlers_t counting = {count_before, count_after};

static __attribute__((noinline)) int target(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

static double time_pointer(int (*volatile call)(int)) {
  uint64_t start = bench_now_ns();
  for (int i = 0; i < CALLS; i++)
    (void)call(i);
  return (double)(bench_now_ns() - start) / CALLS;
}

/* By a pointer: plain, through a trampoline that has nothing to call, and one that counts. */
static void through_trampoline(void) {
  const char *why = trampoline_ready();
  trampoline_t *t = why ? NULL : trampoline_new((uint64_t)(uintptr_t)target);
  if (!t) {
    printf("no trampolines: %s\n", why ? why : "none is left");
    return;
  }
  int (*thunk)(int) = (int (*)(int))(uintptr_t)trampoline_thunk(t);
  double plain[ROUNDS], off[ROUNDS], on[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    plain[r] = time_pointer(target);
    trampoline_set(t, NULL);
    off[r] = time_pointer(thunk);
    trampoline_set(t, &counting);
    on[r] = time_pointer(thunk);
  }
  (void)bench_median(plain, ROUNDS);
  (void)bench_median(off, ROUNDS);
  (void)bench_median(on, ROUNDS);
  printf("a call by a pointer: %.2f ns; by a trampoline that is off: %.2f; that counts before and "
         "after: %.2f (%llu, %llu)\n",
         plain[0], off[0], on[0], (unsigned long long)begun, (unsigned long long)ended);
}

int main(int count, char **arguments) {
  open_images(count > 1 ? atoi(arguments[1]) : 150);
  hooking();
  calling();
  through_trampoline();
  return 0;
}
