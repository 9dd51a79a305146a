# The Python package, ready to import from ${TAPER_PYTHON_DIR}: the extension taper/_C and the library beside the package's own files.
#   python_extension   taper/_C, C against CPython's API, linked to libtaper.so
# TAPER_PYTHON_HEADERS takes the headers of another Python than runs here, of another processor's too, and
# TAPER_PYTHON_SOABI what it calls its extensions (cpython-312-aarch64-linux-gnu): packaging/wheels.
set(TAPER_PYTHON_HEADERS "" CACHE STRING "Folders with another Python's headers, separated by semicolons")
set(TAPER_PYTHON_SOABI "" CACHE STRING "With TAPER_PYTHON_HEADERS: what that Python has between _C and .so")
set(TAPER_PYTHON_DIR ${CMAKE_BINARY_DIR}/python)

file(GLOB extension_sources CONFIGURE_DEPENDS python/ext/*.c)
if(TAPER_PYTHON_HEADERS)
    add_library(python_extension MODULE ${extension_sources})
    target_include_directories(python_extension SYSTEM PRIVATE ${TAPER_PYTHON_HEADERS})
    set_target_properties(python_extension PROPERTIES PREFIX "" SUFFIX ".${TAPER_PYTHON_SOABI}.so")
else()
    find_package(Python3 3.10 COMPONENTS Interpreter Development.Module)
    if(NOT Python3_FOUND)
        message(FATAL_ERROR "The Python package needs Python 3.10 or newer, with its headers. They are in the package python3-dev (apt) or "
            "python3-devel (dnf, zypper); a module of Python brings them along. CMake's line above tells what was found.")
    endif()
    Python3_add_library(python_extension MODULE WITH_SOABI ${extension_sources})
endif()
target_link_libraries(python_extension PRIVATE taper taper_flags)
# As in Library.cmake: what waits for others need not be fast.
set_source_files_properties(python/ext/checkpoint_plan.c python/ext/cpp_extension.c python/ext/dist.c python/ext/dlpack.c
    python/ext/events.c python/ext/files.c python/ext/gpu.c python/ext/media.c python/ext/profile.c python/ext/schedule.c
    python/ext/script.c python/ext/summaries.c PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
set_target_properties(python_extension PROPERTIES OUTPUT_NAME _C LIBRARY_OUTPUT_DIRECTORY ${TAPER_PYTHON_DIR}/taper)

# The package's Python files are links, so that an edit needs no build. Links to files that are gone go too.
file(GLOB_RECURSE there ${TAPER_PYTHON_DIR}/taper/*)
foreach(file ${there})
    if(IS_SYMLINK ${file} AND NOT EXISTS ${file})
        file(REMOVE ${file})
    endif()
endforeach()
file(GLOB_RECURSE package_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python python/taper/*.py python/taper/*.pyi python/taper/*.txt python/taper/*.gz python/taper/*.html python/taper/py.typed)
foreach(file ${package_files})
    get_filename_component(folder ${TAPER_PYTHON_DIR}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/${file} ${TAPER_PYTHON_DIR}/${file} SYMBOLIC)
endforeach()

# So are the layers' classes, which opgen writes.
foreach(file ${TAPER_GENERATED_MODULES})
    get_filename_component(name ${file} NAME)
    file(CREATE_LINK ${file} ${TAPER_PYTHON_DIR}/taper/nn/modules/${name} SYMBOLIC)
endforeach()
add_dependencies(python_extension taper_generated)

# What goes into a wheel (component `python`): the extension and, beside it, the library as one file.
if(SKBUILD)
    set_target_properties(taper PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
endif()
set_target_properties(python_extension PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS python_extension LIBRARY DESTINATION taper COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${TAPER_GENERATED_MODULES} DESTINATION taper/nn/modules COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS taper LIBRARY DESTINATION taper NAMELINK_SKIP COMPONENT python EXCLUDE_FROM_ALL)
if(TAPER_PLUGINS) # engines that process groups open, found beside the library
    add_dependencies(python_extension ${TAPER_PLUGINS})
    install(TARGETS ${TAPER_PLUGINS} LIBRARY DESTINATION taper COMPONENT python EXCLUDE_FROM_ALL)
endif()
# The data that `taper train` comes with.
file(GLOB example_data CONFIGURE_DEPENDS examples/data/*.gz)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/examples/data ${TAPER_PYTHON_DIR}/taper/_train/data SYMBOLIC)
install(FILES ${example_data} DESTINATION taper/_train/data COMPONENT python EXCLUDE_FROM_ALL)
# Job scripts, in the environment's own share/: where `make install` has them, seen from the command.
if(SKBUILD)
    install(DIRECTORY packaging/cobalt packaging/pbs packaging/slurm DESTINATION ${SKBUILD_DATA_DIR}/share/taper/packaging
        COMPONENT python EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS)
    install(PROGRAMS packaging/one-gpu-per-rank DESTINATION ${SKBUILD_DATA_DIR}/share/taper/packaging COMPONENT python EXCLUDE_FROM_ALL)
endif()

# What C++ programs and extensions are built with: headers, and find_package(Torch) by torch.utils.cmake_prefix_path.
set(torch_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../..")
set(torch_include "\"${torch_prefix}/include/taper/libtorch\" \"${torch_prefix}/include\"")
set(torch_library "${torch_prefix}/libtaper.so.${PROJECT_VERSION_MAJOR}")
configure_file(cmake/TorchConfig.cmake.in ${CMAKE_BINARY_DIR}/wheel/TorchConfig.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/wheel/TorchConfig.cmake DESTINATION taper/share/cmake/Torch COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY include/taper ${TAPER_GENERATED}/include/taper DESTINATION taper/include COMPONENT python EXCLUDE_FROM_ALL
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.inc")
set(torch_prefix "${CMAKE_BINARY_DIR}")
set(torch_include "\"${CMAKE_SOURCE_DIR}/include/taper/libtorch\" \"${CMAKE_SOURCE_DIR}/include\" \"${TAPER_GENERATED}/include\"")
set(torch_library "${CMAKE_BINARY_DIR}/libtaper.so")
configure_file(cmake/TorchConfig.cmake.in ${TAPER_PYTHON_DIR}/taper/share/cmake/Torch/TorchConfig.cmake @ONLY)
