/* SPDX-License-Identifier: MIT
 *
 * An exception that passes through a trampoline.
 *
 * CFI suffices for a backtrace but not for an exception: the trampoline's frame and its caller have
 * the same stack pointer (the trampoline keeps nothing on the stack), and unwinders use the stack
 * pointer to identify the frame at which the search ended. So in the second phase the trampoline's
 * personality function makes the unwinder stop here, turns the frame into an ordinary one, reports
 * the end of the call, and resumes the unwinder.
 *
 * That needs three functions of the unwinder that calls (Itanium C++ ABI: Exception Handling, level
 * I). They are looked up in the image that the personality function is called from. In a program
 * with a hidden unwinder (-static-libgcc), unwinding continues: an exception can pass a trampoline
 * unless the direct caller of the hooked function catches it.
 */
#include "hook/call_stack.h"
#include "image/import_slots.h"
#include "os/os.h"

/* _Unwind_Reason_Code and _Unwind_Action, from the ABI. */
enum { INSTALL_CONTEXT = 7, CONTINUE_UNWIND = 8 };
enum { CLEANUP_PHASE = 2 };

typedef struct unwinder {
  uint64_t start, end; /* of its image */
  void (*set_register)(void *context, int number, uint64_t value);
  void (*set_ip)(void *context, uint64_t value);
  uint64_t (*get_ip)(void *context);
  uint64_t resume;
} unwinder_t;

static uint64_t find(const import_slots_t *slots, const char *name) {
  uint32_t number;
  elf_sym_t sym;
  return import_slots_definition(slots, name, NULL, &number, &sym) ? sym.value + slots->slide : 0;
}

/* The unwinder that contains PC. Returns false if it does not export the functions. */
static bool find_unwinder(uint64_t pc, unwinder_t *out) {
  os_image_t image;
  import_slots_t slots;
  if (!os_image_of_pc(pc, &image) || !import_slots_read(&slots, &image)) return false;
  out->start = image.start;
  out->end = image.end;
  uint64_t set_register = find(&slots, "_Unwind_SetGR"), set_ip = find(&slots, "_Unwind_SetIP");
  uint64_t get_ip = find(&slots, "_Unwind_GetIP");
  out->set_register = (void (*)(void *, int, uint64_t))(uintptr_t)set_register;
  out->set_ip = (void (*)(void *, uint64_t))(uintptr_t)set_ip;
  out->get_ip = (uint64_t(*)(void *))(uintptr_t)get_ip;
  out->resume = find(&slots, "_Unwind_Resume");
  return set_register && set_ip && get_ip && out->resume;
}

int trampoline_personality(int version, int actions, uint64_t class, void *exception,
                           void *context) HIDDEN;
void trampoline_exception(call_t *call) HIDDEN;

/* A landing pad receives DWARF registers 0 and 1 (rax, rdx; x0, x1). */
__attribute__((used)) int trampoline_personality(int version, int actions, uint64_t class,
                                                 void *exception, void *context) {
  unwinder_t u;
  (void)class;
  if (version != 1 || !(actions & CLEANUP_PHASE)) return CONTINUE_UNWIND;
  if (!find_unwinder((uint64_t)(uintptr_t)__builtin_return_address(0), &u)) return CONTINUE_UNWIND;
  if (u.get_ip(context) != trampoline_address(TRAMPOLINE_RETURN)) return CONTINUE_UNWIND;
  u.set_register(context, 0, (uint64_t)(uintptr_t)exception);
  u.set_register(context, 1, u.resume);
  u.set_ip(context, trampoline_address(TRAMPOLINE_LANDING));
  return INSTALL_CONTEXT;
}

__attribute__((used)) void trampoline_exception(call_t *call) {
  call_stack_end_call(call, CALL_THROWN);
}
