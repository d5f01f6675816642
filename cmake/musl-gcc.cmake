# libsonde against musl with Debian's musl-gcc. Its wrapper hides the kernel's headers along with
# glibc's, so they are found last, behind musl's own.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_C_FLAGS_INIT
  "-idirafter /usr/include -idirafter /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
