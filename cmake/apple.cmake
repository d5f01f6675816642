# Cross-building for macOS on another system: clang, ld64.lld, Apple's headers and the list of what
# libSystem exports. cmake/apple-sysroot.py fetches these two into SONDE_APPLE_SYSROOT; they are not
# ours to keep. -DSONDE_APPLE_ARCH=arm64 or x86_64.
set(CMAKE_SYSTEM_NAME Darwin)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SONDE_APPLE_ARCH SONDE_APPLE_SYSROOT)
set(CMAKE_SYSTEM_PROCESSOR ${SONDE_APPLE_ARCH})
find_program(SONDE_APPLE_CLANG NAMES clang-14 clang REQUIRED)
find_program(SONDE_APPLE_LINKER NAMES ld64.lld-19 ld64.lld-20 ld64.lld-18 REQUIRED)
find_program(CMAKE_INSTALL_NAME_TOOL NAMES llvm-install-name-tool-19 llvm-install-name-tool
  llvm-install-name-tool-14)
find_program(CMAKE_AR NAMES llvm-ar llvm-ar-14 llvm-ar-19)
find_program(CMAKE_RANLIB NAMES llvm-ranlib llvm-ranlib-14 llvm-ranlib-19)
find_program(CMAKE_NM NAMES llvm-nm llvm-nm-14 llvm-nm-19)
set(CMAKE_C_COMPILER ${SONDE_APPLE_CLANG})
set(CMAKE_CXX_COMPILER ${SONDE_APPLE_CLANG})
set(CMAKE_ASM_COMPILER ${SONDE_APPLE_CLANG})
foreach(language C CXX ASM)
  set(CMAKE_${language}_COMPILER_TARGET ${SONDE_APPLE_ARCH}-apple-macos11.0)
endforeach()
set(CMAKE_OSX_SYSROOT ${SONDE_APPLE_SYSROOT})
set(CMAKE_OSX_ARCHITECTURES ${SONDE_APPLE_ARCH})
set(CMAKE_OSX_DEPLOYMENT_TARGET 11.0)
# clang before 15 does not say what the headers ask.
set(CMAKE_C_FLAGS_INIT "-D__ENVIRONMENT_OS_VERSION_MIN_REQUIRED__=110000")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "--ld-path=${SONDE_APPLE_LINKER} -mlinker-version=609")
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
