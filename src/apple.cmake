# libsonde for macOS: what of the inside stands on os/apple. docs/platforms.md says what there is.
file(GLOB SONDE_INSIDE_SOURCES CONFIGURE_DEPENDS
  base/*.c os/apple/*.c arch/${SONDE_ARCH}/trampoline.S arch/${SONDE_ARCH}/keep.S image/*.c image/apple/*.c unwind/*.c unwind/apple/*.c stack/*.c
  hook/apple/*.c)
list(REMOVE_ITEM SONDE_INSIDE_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/base/mem.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unwind/blocked.c  # unwind/apple/stopped.c takes its place
  ${CMAKE_CURRENT_SOURCE_DIR}/image/slots.c)    # image/apple/slots.c
list(APPEND SONDE_INSIDE_SOURCES hook/await.c hook/calls.c hook/chain.c hook/dlsym.c hook/family.c hook/hook.c hook/macho_rebind.c
  hook/memory.c hook/objc.c hook/patch.c hook/public.c hook/scan.c hook/thrown.c hook/trampoline.c
  record/write_chunk.c record/write_extended.c record/write_header.c record/write_local.c
  record/write_own.c record/write_publish.c record/write_scratch.c record/write_table.c record/write_thread.c
  sensor/live.c sensor/log.c sensor/log_public.c sensor/log_start.c sensor/malloc.c sensor/region.c
  sensor/sampled.c sensor/audit.c sensor/audit_hooks.c sensor/audit_memory.c sensor/audit_methods.c
  sensor/audit_policy.c sensor/audit_public.c sensor/audit_start.c sensor/imports.c sensor/imports_names.c sensor/methods.c
  sensor/stall_api.c sensor/stall_blame.c sensor/stall_culprit.c sensor/stall_rules.c sensor/stall_self.c sensor/trace.c sensor/trace_api.c
  sensor/trace_hooks.c sensor/trace_print.c sensor/apple/audit_lookups.c sensor/apple/messages.c
  sensor/apple/run_loop.c sensor/apple/sends.c sensor/apple/trace_code.c)
# docs/platforms.md says which these are and what they cost.
option(SONDE_APPLE_PRIVATE "use private symbols of libSystem: malloc_logger, __syscall_logger" ON)
if(SONDE_APPLE_PRIVATE)
  list(APPEND SONDE_INSIDE_SOURCES sensor/apple/log_hooks.c)
else()
  list(APPEND SONDE_INSIDE_SOURCES sensor/log_hooks.c)
endif()
# As in CMakeLists.txt: the inside runs between a call and its target too.
set(SONDE_GENERAL_REGISTERS ${SONDE_INSIDE_SOURCES})
list(FILTER SONDE_GENERAL_REGISTERS EXCLUDE REGEX "sensor/sampled\\.c$|\\.S$")
set_source_files_properties(${SONDE_GENERAL_REGISTERS}
  PROPERTIES COMPILE_OPTIONS -mgeneral-regs-only)
add_library(sonde SHARED ${SONDE_INSIDE_SOURCES})
add_library(sonde_static STATIC ${SONDE_INSIDE_SOURCES})
foreach(library sonde sonde_static)
  target_include_directories(${library} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # _XOPEN_SOURCE: Apple's sys/ucontext.h asks for it; _DARWIN_C_SOURCE: and gives the rest back.
  target_compile_definitions(${library} PRIVATE _XOPEN_SOURCE=700 _DARWIN_C_SOURCE
    _FORTIFY_SOURCE=0) # else memcpy is __memcpy_chk, which may abort the program
  target_compile_options(${library} PRIVATE ${SONDE_WARNINGS} -fvisibility=hidden
    -fno-stack-protector -fno-strict-aliasing -fno-tree-slp-vectorize)
endforeach()
set_target_properties(sonde PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
set_target_properties(sonde_static PROPERTIES OUTPUT_NAME sonde)
set(SONDE_ARCHIVE $<TARGET_FILE:sonde_static> PARENT_SCOPE)
if(SONDE_COMMAND)
  include(apple_command.cmake)
endif()
