# sonde_fixture(NAME SOURCES file… [OPTIONS flag…] [LIBRARIES library…] [SHARED])
#
# A small program (or, with SHARED, a library) for tests to look at, built as
# build/tests/fixtures/NAME with -O2 -g and OPTIONS: no sanitizer and no other flag of a preset
# reaches it. Sources are relative to tests/fixtures/. A program built four ways is
# four calls, best made in a tests/fixtures/NAME.cmake, which is picked up by itself:
#
#   foreach(level O0 O2)
#     sonde_fixture(threads-${level} SOURCES threads.c OPTIONS -${level} LIBRARIES Threads::Threads)
#     sonde_fixture(threads-${level}-fp SOURCES threads.c OPTIONS -${level} -fno-omit-frame-pointer …)
#   endforeach()
#
# Tests find the folder in the macro SONDE_FIXTURES, scripts in the environment variable of that
# name.
set(SONDE_FIXTURE_DIR ${CMAKE_BINARY_DIR}/tests/fixtures)
set(SONDE_FIXTURES "")

macro(sonde_fixture name)
  cmake_parse_arguments(FIXTURE "SHARED" "" "SOURCES;OPTIONS;LIBRARIES" ${ARGN})
  set(FIXTURE_PATHS "")
  foreach(source IN LISTS FIXTURE_SOURCES)
    list(APPEND FIXTURE_PATHS ${PROJECT_SOURCE_DIR}/tests/fixtures/${source})
  endforeach()
  if(FIXTURE_SHARED)
    add_library(fixture-${name} SHARED ${FIXTURE_PATHS})
  else()
    add_executable(fixture-${name} ${FIXTURE_PATHS})
  endif()
  target_compile_options(fixture-${name} PRIVATE -g ${FIXTURE_OPTIONS})
  target_link_libraries(fixture-${name} PRIVATE ${FIXTURE_LIBRARIES})
  target_include_directories(fixture-${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(fixture-${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${SONDE_FIXTURE_DIR} LIBRARY_OUTPUT_DIRECTORY ${SONDE_FIXTURE_DIR}
    C_COMPILER_LAUNCHER "" CXX_COMPILER_LAUNCHER "") # ccache may rewrite the paths that debug information holds
  list(APPEND SONDE_FIXTURES fixture-${name})
endmacro()
