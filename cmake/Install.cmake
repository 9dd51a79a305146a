# What `make install PREFIX=...` lays down: headers, libtaper.so with its links, a CMake package and a pkg-config file, pages and
# examples.
include(CMakePackageConfigHelpers)

install(TARGETS taper EXPORT TaperTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/taper ${TAPER_GENERATED}/include/taper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.inc" PATTERN "*.f90")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Taper)
install(EXPORT TaperTargets NAMESPACE Taper:: DESTINATION ${package_folder})
configure_package_config_file(cmake/TaperConfig.cmake.in ${CMAKE_BINARY_DIR}/TaperConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TaperConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TaperConfig.cmake ${CMAKE_BINARY_DIR}/TaperConfigVersion.cmake DESTINATION ${package_folder})

# The pkg-config file finds its prefix from where it lies, so an installed tree can be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
# What libtaper.a needs, where TAPER_STATIC built it.
get_target_property(pc_private taper_blas INTERFACE_LINK_LIBRARIES)
list(APPEND pc_private ${OpenMP_C_FLAGS} -lpthread -lm)
foreach(library ${CMAKE_DL_LIBS})
    list(APPEND pc_private -l${library})
endforeach()
foreach(package ZLIB:z PNG:png JPEG:jpeg)
    string(REPLACE ":" ";" package ${package})
    list(GET package 0 found)
    if(${found}_FOUND)
        list(GET package 1 library)
        list(APPEND pc_private -l${library})
    endif()
endforeach()
list(JOIN pc_private " " pc_private)
configure_file(cmake/taper.pc.in ${CMAKE_BINARY_DIR}/taper.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/taper.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Job scripts and recipes for clusters. The module files name this prefix: `module use` takes them where they are.
install(DIRECTORY packaging/ DESTINATION ${CMAKE_INSTALL_DATADIR}/taper/packaging USE_SOURCE_PERMISSIONS PATTERN README.md EXCLUDE)
install(CODE "file(GLOB modules \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/taper/packaging/modulefiles/taper/*\")
foreach(file \${modules})
    file(READ \"\${file}\" text)
    string(REPLACE /opt/taper/${PROJECT_VERSION} \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
    file(WRITE \"\${file}\" \"\${text}\")
endforeach()")

# find_package(Torch), for those who name share/taper/cmake in CMAKE_PREFIX_PATH: nobody finds it by accident.
set(torch_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../../..")
set(torch_include "\"${torch_prefix}/${CMAKE_INSTALL_INCLUDEDIR}/taper/libtorch\" \"${torch_prefix}/${CMAKE_INSTALL_INCLUDEDIR}\"")
set(torch_library "${torch_prefix}/${CMAKE_INSTALL_LIBDIR}/libtaper.so")
configure_file(cmake/TorchConfig.cmake.in ${CMAKE_BINARY_DIR}/TorchConfig.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/TorchConfig.cmake DESTINATION ${CMAKE_INSTALL_DATADIR}/taper/cmake/Torch)

# The pages, whose links lead to what is installed, and the examples with their data.
find_program(PYTHON3 python3 REQUIRED)
set(pages ${CMAKE_BINARY_DIR}/installed-pages)
install(CODE "file(REMOVE_RECURSE ${pages})
execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/site/installed.py ${CMAKE_SOURCE_DIR} ${pages}/${CMAKE_INSTALL_DOCDIR} ${pages} COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${pages}/${CMAKE_INSTALL_DOCDIR}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The site and the man pages, where `make docs` built them.
install(DIRECTORY ${CMAKE_BINARY_DIR}/site/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL)
install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL)
