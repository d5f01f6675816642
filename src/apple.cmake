# The libraries and the command for Apple's systems. docs/platforms.md lists what is tested.
option(SONDE_APPLE_PRIVATE "use private symbols of libSystem: malloc_logger, __syscall_logger" ON)
add_library(sonde_lib OBJECT ${SONDE_LIB_SOURCES})
target_include_directories(sonde_lib PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/include)
# Apple's sys/ucontext.h requires _XOPEN_SOURCE, which hides other declarations; _DARWIN_C_SOURCE
# shows them again. With _FORTIFY_SOURCE memcpy becomes __memcpy_chk, which may abort the program.
target_compile_definitions(sonde_lib PRIVATE _XOPEN_SOURCE=700 _DARWIN_C_SOURCE _FORTIFY_SOURCE=0
  $<$<BOOL:${SONDE_APPLE_PRIVATE}>:SONDE_APPLE_PRIVATE>)
target_compile_options(sonde_lib PRIVATE ${SONDE_WARNINGS} -fvisibility=hidden
  -fno-stack-protector -fno-strict-aliasing -fno-tree-slp-vectorize)
set_target_properties(sonde_lib PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(sonde SHARED $<TARGET_OBJECTS:sonde_lib>)
add_library(sonde_static STATIC $<TARGET_OBJECTS:sonde_lib>)
foreach(library sonde sonde_static)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
endforeach()
set_target_properties(sonde PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
set_target_properties(sonde_static PROPERTIES OUTPUT_NAME sonde)
set(SONDE_ARCHIVE $<TARGET_FILE:sonde_static> PARENT_SCOPE)

# The command reads recordings, logs and files. Its verbs for running programs say that they need Linux.
if(SONDE_COMMAND)
  add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/apple-libraries ${PROJECT_BINARY_DIR}/apple-libraries)
  add_executable(sonde_command ${SONDE_TOOL_SOURCES} ${SONDE_STORE_ENGINE} ${SONDE_HTTP} ${SONDE_PROTOBUF_SOURCES} ${SONDE_PAGE_HEADER})
  target_include_directories(sonde_command PRIVATE ${SONDE_TOOL_INCLUDES} ${PROJECT_BINARY_DIR}/generated)
  target_compile_definitions(sonde_command PRIVATE SONDE_VERSION="${PROJECT_VERSION}" SONDE_HAVE_LIBIBERTY)
  # Without any optimization the command imports functions for which the tests have no stand-in: __snprintf_chk, isdigit.
  target_compile_options(sonde_command PRIVATE ${SONDE_WARNINGS}
    -include ${CMAKE_CURRENT_SOURCE_DIR}/tool/cli/apple/glibc.h $<$<BOOL:${SONDE_QUICK}>:-O1;-g0>)
  target_link_libraries(sonde_command PRIVATE apple_libraries sonde_static)
  set_target_properties(sonde_command PROPERTIES OUTPUT_NAME sonde)
endif()
