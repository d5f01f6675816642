# libsonde for macOS: what of the inside stands on os/apple. Recording, sensors, hooks by name and the
# command are not among it: docs/platforms.md.
file(GLOB SONDE_INSIDE_SOURCES CONFIGURE_DEPENDS
  base/*.c os/apple/*.c image/*.c unwind/*.c unwind/apple/*.c stack/*.c)
list(REMOVE_ITEM SONDE_INSIDE_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/base/mem.c
  ${CMAKE_CURRENT_SOURCE_DIR}/unwind/blocked.c) # unwind/apple/stopped.c takes its place
list(APPEND SONDE_INSIDE_SOURCES hook/patch.c hook/macho_rebind.c)
add_library(sonde SHARED ${SONDE_INSIDE_SOURCES})
add_library(sonde_static STATIC ${SONDE_INSIDE_SOURCES})
foreach(library sonde sonde_static)
  target_include_directories(${library} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  # _XOPEN_SOURCE: Apple's sys/ucontext.h asks for it; _DARWIN_C_SOURCE: and gives the rest back.
  target_compile_definitions(${library} PRIVATE _XOPEN_SOURCE=700 _DARWIN_C_SOURCE)
  target_compile_options(${library} PRIVATE ${SONDE_WARNINGS} -fvisibility=hidden
    -fno-stack-protector -fno-strict-aliasing -fno-tree-slp-vectorize)
endforeach()
set_target_properties(sonde PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
set_target_properties(sonde_static PROPERTIES OUTPUT_NAME sonde)
set(SONDE_ARCHIVE $<TARGET_FILE:sonde_static> PARENT_SCOPE)
