# Cross-building for aarch64 Linux with Debian's cross compiler. Programs run under qemu-user.
# cmocka comes from Debian's multiarch package libcmocka-dev:arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# What the cross compiler brings, then the multiarch folders. Not /usr/lib: that is the host's.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_SYSTEM_LIBRARY_PATH /usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
  # Programs run with the multiarch libc that came along with cmocka, found at its own paths. With
  # the cross compiler's libc (2.36-8cross1 in Debian 12) a child of fork spins for ever under qemu.
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64};-E;SONDE_UNDER_QEMU=1)
endif()
