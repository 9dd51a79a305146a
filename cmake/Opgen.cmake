# opgen, the tables' compiler, and what it writes. Sets:
#   TAPER_GENERATED        the folder (an include folder, with include/taper/ops.h in it)
#   TAPER_GENERATED_GLUE   C files compiled once
#   TAPER_GENERATED_ISA    C files compiled once per instruction set
#   TAPER_GENERATED_MODULES  Python files of taper.nn.modules
# One run of opgen writes every file but leaves those alone whose text did not change, and Ninja looks again after the run
# (restat): a change to one stanza recompiles its family only.

file(GLOB opgen_sources CONFIGURE_DEPENDS tools/opgen/*.c)
file(GLOB operator_tables CONFIGURE_DEPENDS tables/operators/*.op)
file(GLOB optimiser_tables CONFIGURE_DEPENDS tables/optimisers/*.opt)
file(GLOB layer_tables CONFIGURE_DEPENDS tables/layers/*.layer)

set(TAPER_OPGEN "" CACHE FILEPATH "An opgen that runs on this machine, when cross-compiling")
if(TAPER_OPGEN)
    add_executable(opgen IMPORTED)
    set_target_properties(opgen PROPERTIES IMPORTED_LOCATION ${TAPER_OPGEN})
else()
    add_executable(opgen ${opgen_sources})
    target_link_libraries(opgen PRIVATE taper_warnings)
    target_compile_options(opgen PRIVATE -O1)
endif()

set(TAPER_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(TAPER_GENERATED_GLUE ${TAPER_GENERATED}/registry.c ${TAPER_GENERATED}/optimisers.c ${TAPER_GENERATED}/update_texts.c ${TAPER_GENERATED}/layers_glue.c ${TAPER_GENERATED}/layers.c)
set(TAPER_GENERATED_ISA)
set(generated_headers tpi_ops.h tpi_registers.h tpi_optimisers.h tpi_layers.h include/taper/ops.h include/taper/ops_options.h include/taper/optimisers.h include/taper/layers.h
    include/taper/cpp/methods.inc include/taper/cpp/operators.hpp include/taper/cpp/operators_functional.hpp include/taper/cpp/table_layers.hpp include/taper/cpp/table_optimisers.hpp)
foreach(table ${operator_tables})
    get_filename_component(family ${table} NAME_WE)
    list(APPEND TAPER_GENERATED_GLUE ${TAPER_GENERATED}/${family}_glue.c ${TAPER_GENERATED}/${family}_texts.c)
    list(APPEND TAPER_GENERATED_ISA ${TAPER_GENERATED}/${family}_kernels.isa.c)
    list(APPEND generated_headers include/taper/ops_${family}.h)
endforeach()
foreach(table ${optimiser_tables})
    get_filename_component(family ${table} NAME_WE)
    list(APPEND TAPER_GENERATED_ISA ${TAPER_GENERATED}/${family}_updates.isa.c)
endforeach()
set(TAPER_GENERATED_MODULES ${TAPER_GENERATED}/modules/_files.py)
foreach(table ${layer_tables})
    get_filename_component(family ${table} NAME_WE)
    list(APPEND TAPER_GENERATED_MODULES ${TAPER_GENERATED}/modules/${family}.py)
endforeach()
list(TRANSFORM generated_headers PREPEND ${TAPER_GENERATED}/)
set(generated_fortran ${TAPER_GENERATED}/fortran/operators.f90 ${TAPER_GENERATED}/fortran/arrays.f90 ${TAPER_GENERATED}/fortran/layers.f90
    ${TAPER_GENERATED}/fortran/optimisers.f90)

add_custom_command(
    OUTPUT ${TAPER_GENERATED}/opgen.stamp
    # Headers too: one that Ninja does not know to be generated would be seen as changed a build too late.
    BYPRODUCTS ${generated_headers} ${TAPER_GENERATED_GLUE} ${TAPER_GENERATED_ISA} ${TAPER_GENERATED}/samples.c ${TAPER_GENERATED}/operators.md
        ${generated_fortran} ${TAPER_GENERATED}/optimisers.md ${TAPER_GENERATED}/layer_samples.c ${TAPER_GENERATED}/layer_samples.py ${TAPER_GENERATED}/layers.md ${TAPER_GENERATED_MODULES}
    COMMAND opgen --out ${TAPER_GENERATED} ${operator_tables} ${optimiser_tables} ${layer_tables}
    COMMAND ${CMAKE_COMMAND} -E touch ${TAPER_GENERATED}/opgen.stamp
    DEPENDS opgen ${operator_tables} ${optimiser_tables} ${layer_tables}
    COMMENT "Generating code from tables/"
    VERBATIM)

# Fortran's module is one file, its parts in the order in which they use each other: fortran/README.md. opgen writes
# the interfaces of C's functions that the parts name.
set(fortran_by_hand fortran/base.f90 fortran/objects.f90 fortran/training.f90 fortran/callbacks.f90 fortran/umbrella.f90)
set(fortran_parts fortran/base.f90 ${TAPER_GENERATED}/fortran/operators.f90 ${TAPER_GENERATED}/fortran/arrays.f90 fortran/objects.f90
    ${TAPER_GENERATED}/fortran/layers.f90 ${TAPER_GENERATED}/fortran/optimisers.f90 fortran/training.f90 fortran/callbacks.f90 fortran/umbrella.f90)
file(GLOB c_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/taper/*.h)
add_custom_command(
    OUTPUT ${TAPER_GENERATED}/include/taper/taper.f90
    COMMAND opgen --fortran ${fortran_parts} ${c_headers} > ${TAPER_GENERATED}/include/taper/taper.f90
    DEPENDS opgen ${TAPER_GENERATED}/opgen.stamp ${fortran_by_hand} ${c_headers}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    COMMENT "Putting the Fortran module together"
    VERBATIM)
add_custom_target(taper_generated ALL DEPENDS ${TAPER_GENERATED}/opgen.stamp ${TAPER_GENERATED}/include/taper/taper.f90)
