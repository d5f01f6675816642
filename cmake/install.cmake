# `cmake --install`: the command and its agent, the library for each way to link it (find_package, pkg-config), headers,
# manual pages, completions, documentation and examples. Every path is relative to the installed files, so a prefix may be moved.
include(CMakePackageConfigHelpers)

install(TARGETS sonde EXPORT sonde LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${SONDE_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sonde_command)
  install(TARGETS sonde_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET sonde_verbs)
  install(TARGETS sonde_verbs sonde_policy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/sonde)
endif()
if(TARGET sonde_agent) # no library to link, so they are not among them
  install(TARGETS sonde_agent sonde_attached sonde_dormant LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/sonde)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sonde DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

file(RELATIVE_PATH SONDE_PC_TO_INCLUDE ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/sonde.pc.in ${CMAKE_BINARY_DIR}/sonde.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sonde.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(SONDE_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sonde)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sonde-config.cmake.in ${CMAKE_BINARY_DIR}/sonde-config.cmake
  INSTALL_DESTINATION ${SONDE_CONFIG_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sonde-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sonde-config.cmake ${CMAKE_BINARY_DIR}/sonde-config-version.cmake
  DESTINATION ${SONDE_CONFIG_DIR})
install(EXPORT sonde NAMESPACE sonde:: FILE sonde-targets.cmake DESTINATION ${SONDE_CONFIG_DIR})

include(${PROJECT_SOURCE_DIR}/cmake/manual.cmake)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md PATTERN *.png)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)

# What makes tests fail on leaks, stalls, budgets and new sensitive calls, for CTest and pytest.
install(FILES ${PROJECT_SOURCE_DIR}/glue/sonde-test.cmake DESTINATION ${SONDE_CONFIG_DIR})
install(FILES ${PROJECT_SOURCE_DIR}/glue/sonde_gate.py ${PROJECT_SOURCE_DIR}/glue/sonde_pytest.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/sonde)
