/* SPDX-License-Identifier: MIT
 *
 * usage: macho-loader SYSTEM PROGRAM [argument…]
 *        macho-loader --stand-ins
 *
 * Runs the Mach-O executable PROGRAM; SYSTEM is the image of kernel.S. With --stand-ins it lists
 * what an image may import.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader.h"

int mac_argc;
char **mac_argv, **mac_environ;

void die(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("macho-loader: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  _exit(2);
}

/* gdb and the like know nothing of Mach-O: where it crashed is told here. */
static void crashed(int number, siginfo_t *info, void *context) {
  (void)context;
  uint64_t pc;
#if defined(__aarch64__)
  pc = ((ucontext_t *)context)->uc_mcontext.pc;
#else
  pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[16];
#endif
  const mac_image_t *image = image_holding(pc);
  fprintf(stderr, "macho-loader: signal %d at %#lx of %s (address %p)\n", number,
          (unsigned long)(image ? pc - (uint64_t)image->slide : pc),
          image ? image->path : "no image", info->si_addr);
  _exit(2);
}

#define MAIN_STACK (8u << 20)

static void *main_stack(void) {
  uint64_t room =
      (uint64_t)mmap(NULL, MAIN_STACK + 32768, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t stack = (room + 32767) & ~16383ull;
  mprotect((void *)stack, MAIN_STACK, PROT_READ | PROT_WRITE);
  thread_self()->stack = stack;
  thread_self()->stack_bytes = MAIN_STACK;
  return (void *)(stack + MAIN_STACK - 64);
}

/* From here on the main thread runs on the stack it will keep, and never comes back. */
static void run(mac_image_t *program) {
  if (!program->entry) die("%s has no main", program->path);
  for (int i = 0; i < image_count; i++)
    image_start(&images[i]);
  static char *none[] = {NULL};
  enter_main(stand_in("_mac_start"), program->header + program->entry, mac_argc, mac_argv, none,
             main_stack());
}

int main(int argc, char **argv, char **envp) {
  if (argc == 2 && strcmp(argv[1], "--stand-ins") == 0) {
    list_stand_ins();
    return 0;
  }
  if (argc < 3) die("usage: macho-loader SYSTEM PROGRAM [argument…]");
  struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  mac_argc = argc - 2;
  mac_argv = argv + 2;
  mac_environ = envp;
  threads_begin();
  compare_begin();
  if (!image_load(argv[1], true)) die("cannot open %s", argv[1]);
  mac_image_t *program = image_load(argv[2], false);
  if (!program) die("cannot open %s", argv[2]);
  run(program);
}
