# Examples (built with everything else) and benchmarks (target `benchmarks`): programs on the public API, one per C file.

function(taper_program name folder library)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE ${library} taper_warnings ZLIB::ZLIB m)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    if(TAPER_SANITIZE)
        target_link_options(${name} PRIVATE -fsanitize=address,undefined)
    endif()
endfunction()

file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source ${examples})
    get_filename_component(name ${source} NAME_WE)
    taper_program(${name} examples taper ${source})
    # The same on the library without its allocator's cache, for the leak check.
    taper_program(${name}_plain examples taper_plain ${source})
    set_target_properties(${name}_plain PROPERTIES EXCLUDE_FROM_ALL ON)
endforeach()

# Benchmarks compare with plain loops and with direct BLAS calls, hence the library's own flags.
add_custom_target(benchmarks)
file(GLOB benchmarks CONFIGURE_DEPENDS bench/*.c)
foreach(source ${benchmarks})
    get_filename_component(name ${source} NAME_WE)
    taper_program(bench_${name} bench taper ${source})
    target_link_libraries(bench_${name} PRIVATE taper_flags)
    set_target_properties(bench_${name} PROPERTIES EXCLUDE_FROM_ALL ON OUTPUT_NAME ${name})
    add_dependencies(benchmarks bench_${name})
endforeach()
