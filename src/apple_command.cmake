# The command for macOS: what reads recordings, logs and files. What looks into running programs of
# Linux (target, monitor) is not there; its verbs say so.
add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/apple-libraries ${PROJECT_BINARY_DIR}/apple-libraries)
file(GLOB SONDE_OUTSIDE_SOURCES CONFIGURE_DEPENDS
  record/read*.c symbol/*.c import/*.c analysis/*.c report/*.c cli/*.c cli/apple/*.c
  target/apple/*.c sensor/audit_policy.c)
list(FILTER SONDE_OUTSIDE_SOURCES EXCLUDE REGEX
  "/(record/read_(own|recorder)|cli/(clean|control|control_commands|control_leaks|ctl|doctor|doctor_process|follow|leaks|program|record|record_audit|stacks|stacks_text|watches))\\.c$")

include(${PROJECT_SOURCE_DIR}/cmake/syscalls.cmake)
include(${PROJECT_SOURCE_DIR}/cmake/policies.cmake)
sonde_policies(${CMAKE_CURRENT_SOURCE_DIR}/analysis/policies ${PROJECT_BINARY_DIR}/generated)
include(${PROJECT_SOURCE_DIR}/cmake/protobuf.cmake)
sonde_protobuf(${CMAKE_CURRENT_SOURCE_DIR}/report/pprof.proto ${PROJECT_BINARY_DIR}/generated/report
  SONDE_PPROF_SOURCE)

add_executable(sonde_command ${SONDE_OUTSIDE_SOURCES} ${SONDE_PPROF_SOURCE})
target_include_directories(sonde_command PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(sonde_command PRIVATE SONDE_VERSION="${PROJECT_VERSION}" SONDE_HAVE_LIBIBERTY)
target_compile_options(sonde_command PRIVATE ${SONDE_WARNINGS}
  -include ${CMAKE_CURRENT_SOURCE_DIR}/cli/apple/glibc.h)
target_link_libraries(sonde_command PRIVATE apple_libraries sonde_static)
set_target_properties(sonde_command PROPERTIES OUTPUT_NAME sonde)
