# The policies that ship inside the command: <build>/generated/analysis/policies.h, one array of
# characters for each src/tool/analysis/audit/policies/NAME.yaml, policy_NAME.
function(sonde_policies source_directory directory)
  set(text "/* Made from src/tool/analysis/audit/policies/. */\n")
  file(GLOB policies CONFIGURE_DEPENDS ${source_directory}/*.yaml)
  foreach(policy IN LISTS policies)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${policy})
    get_filename_component(name ${policy} NAME_WE)
    file(READ ${policy} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(APPEND text "static const char policy_${name}[] = {${bytes}0};\n")
  endforeach()
  file(CONFIGURE OUTPUT ${directory}/analysis/policies.h CONTENT "${text}" @ONLY)
endfunction()
