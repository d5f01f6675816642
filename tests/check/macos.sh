#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: macos.sh NM LIBSONDE.DYLIB [private]: the library exports sonde_* and the compiler's hooks alone, and imports what is listed
# here, all of it public API of libSystem; with `private` the two private symbols as well, which
# -DSONDE_APPLE_PRIVATE=OFF leaves out. A name that is new here wants a look at its manual page first.
set -eu
nm=$1 library=$2
allowed="__NSGetArgc __NSGetArgv __NSGetEnviron ___bzero ___cxa_atexit ___error __dyld_get_image_header __dyld_get_image_name __dyld_image_count
__dyld_register_func_for_add_image __dyld_register_func_for_remove_image _bzero
_clock_gettime_nsec_np _close _fcntl _fstat _fstat\$INODE64 _ftruncate _getpid _getrlimit _kill _mach_port_deallocate _mach_port_mod_refs
_mach_task_self_ _memcmp _memcpy _memmove _memset _mmap _open _pread _pwrite _pthread_atfork
_pthread_get_stackaddr_np _pthread_get_stacksize_np
_pthread_getname_np _pthread_getspecific _pthread_key_create _pthread_from_mach_thread_np _pthread_mach_thread_np _pthread_main_np
_pthread_self _pthread_setspecific _pthread_threadid_np _read _shm_open _shm_unlink _sigaltstack _task_threads _thread_get_state _thread_info
_thread_resume _thread_suspend _thread_switch _unlink _vm_allocate _vm_deallocate _vm_inherit _vm_page_size _vm_protect
_vm_read_overwrite _vm_region_64 _write dyld_stub_binder"
[ "${3:-}" != private ] || allowed="$allowed _malloc_logger ___syscall_logger"
failed=0
for name in $("$nm" -u "$library" | sed 's/^ *U *//'); do
  case " $(echo $allowed) " in *" $name "*) ;; *) echo "$library imports $name" && failed=1 ;; esac
done
for name in $("$nm" --defined-only --extern-only "$library" | awk '{print $3}'); do
  case $name in _sonde_* | ___cyg_profile_func_*) ;; *) echo "$library exports $name" && failed=1 ;; esac
done
exit $failed
