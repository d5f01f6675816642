#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usage: macos.sh NM LIBSONDE.DYLIB: the library exports sonde_* alone, and imports what is listed here,
# all of it public API of libSystem. A name that is new here wants a look at its manual page first.
set -eu
nm=$1 library=$2
allowed="___bzero ___error __dyld_get_image_header __dyld_get_image_name __dyld_image_count
__dyld_register_func_for_add_image __dyld_register_func_for_remove_image __tlv_bootstrap _bzero
_clock_gettime_nsec_np _close _fcntl _fstat _fstat\$INODE64 _getpid _mach_port_deallocate _mach_port_mod_refs
_mach_task_self_ _memcmp _memcpy _memmove _memset _mmap _open _pread _pwrite _pthread_mach_thread_np
_pthread_main_np _pthread_threadid_np _read _sigaltstack _task_threads _thread_get_state _thread_info
_thread_resume _thread_suspend _thread_switch _vm_allocate _vm_deallocate _vm_page_size _vm_protect
_vm_read_overwrite _vm_region_64 _write dyld_stub_binder"
failed=0
for name in $("$nm" -u "$library" | sed 's/^ *U *//'); do
  case " $(echo $allowed) " in *" $name "*) ;; *) echo "$library imports $name" && failed=1 ;; esac
done
for name in $("$nm" --defined-only --extern-only "$library" | awk '{print $3}'); do
  case $name in _sonde_*) ;; *) echo "$library exports $name" && failed=1 ;; esac
done
exit $failed
