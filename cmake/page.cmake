# The HTML page inside the command: <build>/generated/report/exports/page/built.h, the array of characters
# page_template. esbuild makes the page where node and page/node_modules are (`./run setup` installs both); the source
# archive contains the made page, page/built/page.html. Without either, the array is empty and `sonde view` says so.
set(SONDE_PAGE_BUILT ${PROJECT_SOURCE_DIR}/page/built/page.html)

# RESULT is the header below DIRECTORY that contains PAGE, or nothing if PAGE is "".
function(sonde_page_header directory page result)
  set(header ${directory}/report/exports/page/built.h)
  set(embed ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cmake)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DFILE=${page} -DNAME=page_template -DOUT=${header} -P ${embed}
    DEPENDS ${embed} ${page} VERBATIM)
  set(${result} ${header} PARENT_SCOPE)
endfunction()

function(sonde_page directory result)
  find_program(SONDE_NODE NAMES node nodejs)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/page/src/*)
  set(page "")
  if(EXISTS ${SONDE_PAGE_BUILT})
    set(page ${SONDE_PAGE_BUILT})
  elseif(SONDE_NODE AND EXISTS ${PROJECT_SOURCE_DIR}/page/node_modules/esbuild AND sources)
    set(page ${directory}/page.html)
    add_custom_command(OUTPUT ${page}
      COMMAND ${SONDE_NODE} ${PROJECT_SOURCE_DIR}/page/build.mjs ${page}
      DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/page/build.mjs ${PROJECT_SOURCE_DIR}/page/package-lock.json
      VERBATIM COMMENT "Making the page of sonde view")
  else()
    message(STATUS "no node or no page/node_modules: built without the page of 'sonde view'")
  endif()
  sonde_page_header(${directory} "${page}" header)
  set(${result} ${header} PARENT_SCOPE)
endfunction()
