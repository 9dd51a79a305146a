# Examples (built with everything else) and benchmarks (target `benchmarks`): programs on the public API, one per C file.

function(taper_program target name folder source)
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE taper taper_warnings m)
    add_dependencies(${target} taper_generated)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder} OUTPUT_NAME ${name})
    if(TAPER_SANITIZE)
        target_link_options(${target} PRIVATE -fsanitize=address,undefined)
    endif()
endfunction()

file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source ${examples})
    get_filename_component(name ${source} NAME_WE)
    taper_program(${name} ${name} examples ${source})
endforeach()

# Benchmarks compare with plain loops and with direct BLAS calls, so they get the library's own flags and libraries.
add_custom_target(benchmarks)
file(GLOB benchmarks CONFIGURE_DEPENDS bench/*.c)
foreach(source ${benchmarks})
    get_filename_component(name ${source} NAME_WE)
    taper_program(bench_${name} ${name} bench ${source})
    target_link_libraries(bench_${name} PRIVATE taper_flags)
    set_target_properties(bench_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(benchmarks bench_${name})
endforeach()
