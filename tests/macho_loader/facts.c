/* SPDX-License-Identifier: MIT
 *
 * Compiled for macOS with Apple's headers, and never run: run.py reads the numbers out of the
 * assembly and hands them to the stand-ins as facts.h, so that no constant and no offset of Apple's
 * is written down by hand.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mach-o/loader.h>
#include <mach-o/nlist.h>
#include <mach/mach.h>
#include <mach/thread_info.h>
#include <mach/vm_map.h>
#include <mach/vm_statistics.h>
#include <pthread.h>
#include <runetype.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/ucontext.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "record/vm_tag.h"

/* The tags that sonde names are those of the SDK. */
#define SAME_TAG(name, number, text)                                                               \
  _Static_assert(VM_MEMORY_##name == (number), "VM_MEMORY_" #name);                                \
  _Static_assert(sizeof(text) <= VM_TAG_NAME_MAX, text);
VM_TAG_TABLE(SAME_TAG)

#define VALUE(name)               const unsigned long long fact_##name = (unsigned long long)(name);
#define SIZE(name, type)          const unsigned long long fact_sizeof_##name = sizeof(type);
#define FIELD(name, type, member) const unsigned long long fact_##name = offsetof(type, member);

/* Of one structure each. */
#define SEGMENT(member) FIELD(segment_##member, struct segment_command_64, member)
#define SECTION(member) FIELD(section_##member, struct section_64, member)
#define HEADER(member)  FIELD(header_##member, struct mach_header_64, member)
#define RANGE(name, member)                                                                        \
  FIELD(info_##name##_off, struct dyld_info_command, member##_off)                                 \
  FIELD(info_##name##_size, struct dyld_info_command, member##_size)

VALUE(KERN_SUCCESS)
VALUE(KERN_INVALID_ADDRESS)
VALUE(KERN_PROTECTION_FAILURE)
VALUE(KERN_NO_SPACE)
VALUE(KERN_INVALID_ARGUMENT)
VALUE(KERN_FAILURE)
VALUE(KERN_INVALID_NAME)
VALUE(MACH_PORT_RIGHT_SEND)
VALUE(THREAD_IDENTIFIER_INFO)
VALUE(THREAD_IDENTIFIER_INFO_COUNT)
VALUE(THREAD_EXTENDED_INFO)
VALUE(THREAD_EXTENDED_INFO_COUNT)
VALUE(TH_STATE_RUNNING)
VALUE(TH_STATE_WAITING)
VALUE(VM_REGION_BASIC_INFO_64)
VALUE(VM_REGION_BASIC_INFO_COUNT_64)
VALUE(VM_FLAGS_ANYWHERE)
VALUE(VM_PROT_READ)
VALUE(VM_PROT_WRITE)
VALUE(VM_PROT_EXECUTE)
VALUE(VM_PROT_COPY)
VALUE(VM_INHERIT_NONE)
VALUE(RLIMIT_AS)
VALUE(RLIMIT_DATA)
VALUE(RLIMIT_FSIZE)
VALUE(RLIM_INFINITY)
FIELD(identifier_thread_id, thread_identifier_info_data_t, thread_id)
FIELD(identifier_thread_handle, thread_identifier_info_data_t, thread_handle)
SIZE(identifier, thread_identifier_info_data_t)
FIELD(extended_run_state, thread_extended_info_data_t, pth_run_state)
FIELD(extended_name, thread_extended_info_data_t, pth_name)
FIELD(extended_user_time, thread_extended_info_data_t, pth_user_time)
SIZE(extended, thread_extended_info_data_t)
FIELD(region_protection, vm_region_basic_info_data_64_t, protection)
FIELD(region_max_protection, vm_region_basic_info_data_64_t, max_protection)
SIZE(region, vm_region_basic_info_data_64_t)

#define REGISTER(name) FIELD(state_##name, STATE, __##name)
#if defined(__aarch64__)
#define STATE arm_thread_state64_t
VALUE(ARM_THREAD_STATE64)
VALUE(ARM_THREAD_STATE64_COUNT)
const unsigned long long fact_state_flavor = ARM_THREAD_STATE64;
const unsigned long long fact_state_count = ARM_THREAD_STATE64_COUNT;
REGISTER(x)
REGISTER(fp)
REGISTER(lr)
REGISTER(sp)
REGISTER(pc)
#else
#define STATE x86_thread_state64_t
const unsigned long long fact_state_flavor = x86_THREAD_STATE64;
const unsigned long long fact_state_count = x86_THREAD_STATE64_COUNT;
REGISTER(rax)
REGISTER(rbx)
REGISTER(rcx)
REGISTER(rdx)
REGISTER(rdi)
REGISTER(rsi)
REGISTER(rbp)
REGISTER(rsp)
REGISTER(r8)
REGISTER(rip)
#endif

VALUE(SIGUSR1)
VALUE(SIGUSR2)
VALUE(SIGSEGV)
VALUE(SA_SIGINFO)
VALUE(SA_RESTART)
FIELD(sigaction_handler, struct sigaction, __sigaction_u)
FIELD(sigaction_mask, struct sigaction, sa_mask)
FIELD(sigaction_flags, struct sigaction, sa_flags)
SIZE(siginfo, siginfo_t)
FIELD(siginfo_signo, siginfo_t, si_signo)
FIELD(siginfo_addr, siginfo_t, si_addr)
SIZE(ucontext, ucontext_t)
FIELD(ucontext_mcsize, ucontext_t, uc_mcsize)
FIELD(ucontext_mcontext, ucontext_t, uc_mcontext)
const unsigned long long fact_sizeof_mcontext = sizeof(*(mcontext_t)0);
const unsigned long long fact_mcontext_ss = offsetof(__typeof__(*(mcontext_t)0), __ss);

VALUE(O_WRONLY)
VALUE(O_RDWR)
VALUE(O_CREAT)
VALUE(O_EXCL)
VALUE(O_TRUNC)
VALUE(O_APPEND)
VALUE(O_NONBLOCK)
VALUE(O_NOCTTY)
VALUE(O_CLOEXEC)
VALUE(F_DUPFD_CLOEXEC)
VALUE(F_GETPATH)
VALUE(F_GETFD)
VALUE(MAP_PRIVATE)
VALUE(MAP_SHARED)
VALUE(MAP_FIXED)
VALUE(MAP_ANON)
VALUE(CLOCK_UPTIME_RAW)
VALUE(CLOCK_MONOTONIC_RAW)
VALUE(CLOCK_REALTIME)
VALUE(SS_ONSTACK)
VALUE(SS_DISABLE)
FIELD(stack_sp, stack_t, ss_sp)
FIELD(stack_size, stack_t, ss_size)
FIELD(stack_flags, stack_t, ss_flags)
FIELD(stat_mode, struct stat, st_mode)
FIELD(stat_size, struct stat, st_size)
FIELD(stat_dev, struct stat, st_dev)
FIELD(stat_ino, struct stat, st_ino)
FIELD(stat_uid, struct stat, st_uid)
FIELD(stat_mtime, struct stat, st_mtimespec)
SIZE(stat, struct stat)
SIZE(mutex, pthread_mutex_t)
SIZE(rwlock, pthread_rwlock_t)
SIZE(dirent, struct dirent)
FIELD(dirent_name, struct dirent, d_name)
FIELD(dirent_namlen, struct dirent, d_namlen)
FIELD(dirent_type, struct dirent, d_type)
SIZE(RuneLocale, _RuneLocale)
FIELD(runes_type, _RuneLocale, __runetype)
FIELD(runes_lower, _RuneLocale, __maplower)
FIELD(runes_upper, _RuneLocale, __mapupper)
VALUE(_CTYPE_U)
VALUE(_CTYPE_L)
VALUE(_CTYPE_A)
VALUE(_CTYPE_D)
VALUE(_CTYPE_X)
VALUE(_CTYPE_S)
VALUE(_CTYPE_B)
VALUE(_CTYPE_C)
VALUE(_CTYPE_R)
VALUE(_CTYPE_G)
VALUE(_CTYPE_P)
VALUE(O_DIRECTORY)
VALUE(O_NOFOLLOW)
VALUE(MAP_NORESERVE)
VALUE(AT_FDCWD)
VALUE(AT_SYMLINK_NOFOLLOW)
VALUE(_SC_NPROCESSORS_ONLN)
VALUE(_SC_PAGESIZE)
VALUE(CLOCK_MONOTONIC)
VALUE(MADV_NORMAL)
VALUE(MADV_RANDOM)
VALUE(MADV_SEQUENTIAL)
VALUE(MADV_WILLNEED)
VALUE(MADV_DONTNEED)
VALUE(AF_INET)
VALUE(AF_INET6)
VALUE(RTLD_LAZY)
VALUE(RTLD_NOLOAD)
VALUE(RTLD_DEFAULT)
VALUE(RTLD_NEXT)
VALUE(RTLD_SELF)

ERRORS(VALUE)

VALUE(MH_MAGIC_64)
VALUE(MH_EXECUTE)
VALUE(CPU_TYPE_X86_64)
VALUE(CPU_TYPE_ARM64)
VALUE(LC_SEGMENT_64)
VALUE(LC_SYMTAB)
VALUE(LC_DYLD_INFO_ONLY)
VALUE(LC_DYLD_CHAINED_FIXUPS)
VALUE(LC_DYLD_EXPORTS_TRIE)
VALUE(LC_LOAD_DYLIB)
VALUE(LC_ID_DYLIB)
VALUE(LC_MAIN)
VALUE(SG_READ_ONLY)
VALUE(SECTION_TYPE)
VALUE(S_MOD_INIT_FUNC_POINTERS)
VALUE(S_INIT_FUNC_OFFSETS)
VALUE(S_THREAD_LOCAL_REGULAR)
VALUE(S_THREAD_LOCAL_ZEROFILL)
VALUE(S_THREAD_LOCAL_VARIABLES)
VALUE(REBASE_OPCODE_MASK)
VALUE(REBASE_OPCODE_SET_TYPE_IMM)
VALUE(REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB)
VALUE(REBASE_OPCODE_ADD_ADDR_ULEB)
VALUE(REBASE_OPCODE_ADD_ADDR_IMM_SCALED)
VALUE(REBASE_OPCODE_DO_REBASE_IMM_TIMES)
VALUE(REBASE_OPCODE_DO_REBASE_ULEB_TIMES)
VALUE(REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB)
VALUE(REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB)
VALUE(BIND_OPCODE_DONE)
VALUE(BIND_OPCODE_SET_DYLIB_ORDINAL_IMM)
VALUE(BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB)
VALUE(BIND_OPCODE_SET_DYLIB_SPECIAL_IMM)
VALUE(BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM)
VALUE(BIND_OPCODE_SET_TYPE_IMM)
VALUE(BIND_OPCODE_SET_ADDEND_SLEB)
VALUE(BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB)
VALUE(BIND_OPCODE_ADD_ADDR_ULEB)
VALUE(BIND_OPCODE_DO_BIND)
VALUE(BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB)
VALUE(BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED)
VALUE(BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB)
VALUE(BIND_SYMBOL_FLAGS_WEAK_IMPORT)
FIELD(segment_name, struct segment_command_64, segname)
SEGMENT(vmaddr)
SEGMENT(vmsize)
SEGMENT(fileoff)
SEGMENT(filesize)
SEGMENT(initprot)
SEGMENT(nsects)
SEGMENT(flags)
SIZE(segment, struct segment_command_64)
SECTION(addr)
SECTION(size)
SECTION(flags)
SIZE(section, struct section_64)
HEADER(cputype)
HEADER(filetype)
HEADER(ncmds)
SIZE(header, struct mach_header_64)
RANGE(rebase, rebase)
RANGE(bind, bind)
RANGE(lazy, lazy_bind)
RANGE(export, export)
FIELD(linkedit_dataoff, struct linkedit_data_command, dataoff)
FIELD(linkedit_datasize, struct linkedit_data_command, datasize)
FIELD(dylib_name, struct dylib_command, dylib.name)
FIELD(main_entryoff, struct entry_point_command, entryoff)
