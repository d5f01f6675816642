# Man pages and completions, made of the verbs' tables and the public headers (cmake/manual/manual.py) by the
# command that is built. So they need python3, and a build whose command runs here.
find_program(SONDE_PYTHON3 python3)
if(NOT TARGET sonde_command OR APPLE OR CMAKE_CROSSCOMPILING OR SONDE_SANITIZED OR NOT SONDE_PYTHON3)
  message(STATUS "man pages and completions are not built: they need python3 and a native build")
  return()
endif()

set(SONDE_SHARE ${CMAKE_BINARY_DIR}/share)
file(GLOB SONDE_MANUAL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/manual/*.py
  ${PROJECT_SOURCE_DIR}/include/sonde/*.h)
add_custom_command(OUTPUT ${SONDE_SHARE}/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${SONDE_SHARE}
  COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${SONDE_PYTHON3}
    ${PROJECT_SOURCE_DIR}/cmake/manual/manual.py ${SONDE_SHARE} $<TARGET_FILE:sonde_command>
    ${PROJECT_SOURCE_DIR}/include/sonde
  COMMAND ${CMAKE_COMMAND} -E touch ${SONDE_SHARE}/made
  DEPENDS sonde_command ${SONDE_MANUAL_SOURCES} VERBATIM COMMENT "Making man pages and completions")
add_custom_target(man ALL DEPENDS ${SONDE_SHARE}/made)

install(DIRECTORY ${SONDE_SHARE}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(shell bash-completion/completions zsh/site-functions fish/vendor_completions.d)
  install(DIRECTORY ${SONDE_SHARE}/${shell}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/${shell})
endforeach()
