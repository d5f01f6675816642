/* SPDX-License-Identifier: MIT
 *
 * Programs that the CPU does not execute directly.
 *
 * valgrind translates its program, has its own allocator for it, replaces some system calls, and
 * reports the agent's reads of memory. The agent would appear in valgrind's results, so it is not
 * passed on to that program. The launcher executes the tool with a variable of its own in the
 * environment, and the program under the tool never sees the agent. If the agent runs under
 * valgrind nevertheless, because the launcher could not load it, it passes every call on and does
 * nothing else.
 *
 * qemu's user mode is recorded like other programs. Its guest, whose ld.so cannot load an agent of
 * another machine, must not find the agent in its environment.
 *
 * The recorder reports what is not recorded because of this.
 */
#include "agent/agent.h"

#include "base/text.h"
#include "os/os.h"
#include "record/writer.h"

/* The text behind PREFIX in TEXT; NULL if TEXT does not start with it. */
/* The executables are named qemu-MACHINE or qemu-MACHINE-static. */
bool emulator_is_this(void) {
  static const char *const machines[] = {"aarch64",   "alpha", "arm",   "hppa",  "i386",
                                         "loongarch", "m68k",  "mips",  "ppc",   "riscv",
                                         "s390x",     "sh4",   "sparc", "x86_64"};
  char path[4096];
  ssize_t n = os_program_path(path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  const char *name = text_after(text_base_name(path), "qemu-");
  for (uint32_t i = 0; name && i < ARRAY_COUNT(machines); i++)
    if (text_after(name, machines[i])) return true;
  return false;
}

bool emulator_is_next(char *const *environment) {
  return environment_has(environment, "VALGRIND_LAUNCHER");
}

void emulator_report(const char *name) {
  if (agent_in_recorded_process()) *text_append(writer_control()->emulator, name ? name : "") = 0;
}
