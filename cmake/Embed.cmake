# Kernel text as C strings: cmake -DOUT=file.c -DFILES="a.h;b.h" -P cmake/Embed.cmake. The table ends with an entry without a name.
set(table "")
foreach(path ${FILES})
    get_filename_component(name ${path} NAME)
    file(READ ${path} text)
    string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}") # comments and layout are for readers
    string(REGEX REPLACE "[ ]+" " " text "${text}")
    string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n\"" text "${text}")
    string(APPEND table "{\"${name}\",\n\"${text}\"},\n")
endforeach()
file(WRITE ${OUT} "/* The text of src/device/gpu/kernels, src/device/element, *_gpu_kernel.h and *_element.h. Written by cmake/Embed.cmake: do not edit. */
#include \"ops/kernels.h\"
const tpi_kernel_text tpi_kernel_texts[] = {\n${table}{0, 0}};\n")
