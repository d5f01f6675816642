# `cmake --install`: the command, the libraries, the headers, sonde.pc, the man page.
include(GNUInstallDirs)

install(TARGETS sonde LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${SONDE_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sonde_command)
  install(TARGETS sonde_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET sonde_agent)
  install(TARGETS sonde_agent LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sonde DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Relative to the file itself, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH SONDE_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sonde.pc.in ${CMAKE_BINARY_DIR}/sonde.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sonde.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(GLOB SONDE_MAN_PAGES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
if(SONDE_MAN_PAGES)
  install(FILES ${SONDE_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
