# What `make install PREFIX=...` lays down: headers, libtaper.so with its links, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

install(TARGETS taper EXPORT TaperTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/taper ${TAPER_GENERATED}/include/taper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.f90")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Taper)
install(EXPORT TaperTargets NAMESPACE Taper:: DESTINATION ${package_folder})
configure_package_config_file(cmake/TaperConfig.cmake.in ${CMAKE_BINARY_DIR}/TaperConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TaperConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TaperConfig.cmake ${CMAKE_BINARY_DIR}/TaperConfigVersion.cmake DESTINATION ${package_folder})

# The pkg-config file finds its prefix from where it lies, so an installed tree can be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(cmake/taper.pc.in ${CMAKE_BINARY_DIR}/taper.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/taper.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Job scripts and recipes for clusters.
install(DIRECTORY packaging/ DESTINATION ${CMAKE_INSTALL_DATADIR}/taper/packaging USE_SOURCE_PERMISSIONS)
