# GPU programs compiled ahead (`make kernels`): the tool runs the usual work on a device that only takes notes, and compiles what it would
# have launched with NVRTC, which needs no GPU. Where NVRTC is not found the tool says so. The archive lies beside libtaper.so; `make install`
# takes it along if it is there.
if(NOT ZLIB_FOUND) # the archive is packed
    return()
endif()
file(GLOB kernels_sources CONFIGURE_DEPENDS tools/kernels/*.c)
add_executable(kernels_tool EXCLUDE_FROM_ALL ${kernels_sources})
target_link_libraries(kernels_tool PRIVATE taper_testable)
target_include_directories(kernels_tool PRIVATE tools/kernels)
set_target_properties(kernels_tool PROPERTIES OUTPUT_NAME kernels RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)

include(ProcessorCount)
ProcessorCount(kernels_jobs)
if(kernels_jobs EQUAL 0)
    set(kernels_jobs 1)
endif()
set(kernels_archive ${CMAKE_BINARY_DIR}/taper-kernels-cuda.bin)
add_custom_target(kernels COMMAND kernels_tool ${kernels_archive} --cache ${CMAKE_BINARY_DIR}/kernels --jobs ${kernels_jobs} USES_TERMINAL)
install(FILES ${kernels_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
