# FILE.pb-c.c and FILE.pb-c.h from FILE.proto, by protobuf-c's compiler, in DIRECTORY; the path of the
# source in OUT.
find_program(PROTOC_C protoc-c)
function(sonde_protobuf proto directory out)
  if(NOT PROTOC_C)
    message(FATAL_ERROR "protoc-c is missing: './run setup' installs it")
  endif()
  get_filename_component(name ${proto} NAME_WE)
  get_filename_component(folder ${proto} DIRECTORY)
  file(MAKE_DIRECTORY ${directory})
  add_custom_command(OUTPUT ${directory}/${name}.pb-c.c ${directory}/${name}.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${directory} -I${folder} ${proto}
    DEPENDS ${proto} VERBATIM COMMENT "Making ${name}.pb-c.c")
  set_source_files_properties(${directory}/${name}.pb-c.c PROPERTIES COMPILE_OPTIONS -w)
  set(${out} ${directory}/${name}.pb-c.c PARENT_SCOPE)
endfunction()
