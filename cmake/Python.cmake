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

# What is installed. Into a wheel (component `python`): the extension and, beside it, the library as one file; scikit-build-core
# adds the package's own files and the command. Into a prefix: the whole package, which opens the prefix's library, and bin/taper.
if(SKBUILD)
    set(package taper)
    set(to_library .)
    set(component COMPONENT python EXCLUDE_FROM_ALL)
    set_target_properties(taper PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
    set_target_properties(python_extension PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS taper LIBRARY DESTINATION taper NAMELINK_SKIP ${component})
    if(TAPER_PLUGINS) # engines that process groups open, found beside the library
        add_dependencies(python_extension ${TAPER_PLUGINS})
        install(TARGETS ${TAPER_PLUGINS} LIBRARY DESTINATION taper ${component})
    endif()
    # Job scripts, in the environment's own share/: where `make install` has them, seen from the command.
    install(DIRECTORY packaging/cobalt packaging/pbs packaging/slurm DESTINATION ${SKBUILD_DATA_DIR}/share/taper/packaging
        ${component} USE_SOURCE_PERMISSIONS)
    install(PROGRAMS packaging/one-gpu-per-rank DESTINATION ${SKBUILD_DATA_DIR}/share/taper/packaging ${component})
else()
    set(python_version ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR})
    set(package lib/python${python_version}/site-packages/taper) # lib on every system: what module files and bin/taper look for
    set(component "")
    file(RELATIVE_PATH to_library /${package} /${CMAKE_INSTALL_LIBDIR})
    string(REGEX REPLACE "/$" "" to_library ${to_library})
    set_target_properties(python_extension PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
    install(DIRECTORY python/taper/ DESTINATION ${package} FILES_MATCHING REGEX "\\.(py|pyi|txt|gz|html)$" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
    configure_file(cmake/taper-command.in ${CMAKE_BINARY_DIR}/installed/taper @ONLY)
    install(PROGRAMS ${CMAKE_BINARY_DIR}/installed/taper DESTINATION ${CMAKE_INSTALL_BINDIR})
    # What pip and importlib.metadata know it by. Without a list of files, pip leaves it alone.
    set(metadata ${package}/../taper_ml-${PROJECT_VERSION}.dist-info)
    file(WRITE ${CMAKE_BINARY_DIR}/installed/METADATA "Metadata-Version: 2.1\nName: taper-ml\nVersion: ${PROJECT_VERSION}\nRequires-Python: >=3.10\n")
    file(WRITE ${CMAKE_BINARY_DIR}/installed/INSTALLER "make install\n")
    install(FILES ${CMAKE_BINARY_DIR}/installed/METADATA ${CMAKE_BINARY_DIR}/installed/INSTALLER DESTINATION ${metadata})
    # Users of a prefix cannot write there: what Python would compile at the first import is compiled now.
    install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} -m compileall -q \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${package}\" OUTPUT_QUIET)")
endif()
install(TARGETS python_extension LIBRARY DESTINATION ${package} ${component})
install(FILES ${TAPER_GENERATED_MODULES} DESTINATION ${package}/nn/modules ${component})
# The data that `taper train` comes with.
file(GLOB example_data CONFIGURE_DEPENDS examples/data/*.gz)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/examples/data ${TAPER_PYTHON_DIR}/taper/_train/data SYMBOLIC)
install(FILES ${example_data} DESTINATION ${package}/_train/data ${component})

# What C++ programs and extensions are built with: headers, and find_package(Torch) by torch.utils.cmake_prefix_path.
set(torch_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../..")
set(torch_include "\"${torch_prefix}/include/taper/libtorch\" \"${torch_prefix}/include\"")
set(torch_library "${torch_prefix}/${to_library}/libtaper.so.${PROJECT_VERSION_MAJOR}")
configure_file(cmake/TorchConfig.cmake.in ${CMAKE_BINARY_DIR}/installed/TorchConfig.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/installed/TorchConfig.cmake DESTINATION ${package}/share/cmake/Torch ${component})
install(DIRECTORY include/taper ${TAPER_GENERATED}/include/taper DESTINATION ${package}/include ${component}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.inc")
set(torch_prefix "${CMAKE_BINARY_DIR}")
set(torch_include "\"${CMAKE_SOURCE_DIR}/include/taper/libtorch\" \"${CMAKE_SOURCE_DIR}/include\" \"${TAPER_GENERATED}/include\"")
set(torch_library "${CMAKE_BINARY_DIR}/libtaper.so")
configure_file(cmake/TorchConfig.cmake.in ${TAPER_PYTHON_DIR}/taper/share/cmake/Torch/TorchConfig.cmake @ONLY)
