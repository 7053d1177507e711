# SPDX-License-Identifier: Apache-2.0
# The flags of every target of ours, as two interface targets: rlx_flags (all code) and
# rlx_strict (adds -Wconversion; all code except the numeric kernels).

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(rlx_flags INTERFACE)
target_include_directories(rlx_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(rlx_flags INTERFACE _GNU_SOURCE)
# No contraction into fused multiply-add behind our back: the same bits on every machine.
target_compile_options(rlx_flags INTERFACE
    -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wcast-qual -Wundef)
if(RLX_WERROR)
    target_compile_options(rlx_flags INTERFACE -Werror)
endif()
if(RLX_ENABLE_ASSERT)
    target_compile_definitions(rlx_flags INTERFACE RLX_ENABLE_ASSERT)
endif()
if(RLX_SANITIZE)
    target_compile_options(rlx_flags INTERFACE
        -fsanitize=${RLX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    target_link_options(rlx_flags INTERFACE -fsanitize=${RLX_SANITIZE})
endif()
target_link_libraries(rlx_flags INTERFACE Threads::Threads m)

add_library(rlx_strict INTERFACE)
target_link_libraries(rlx_strict INTERFACE rlx_flags)
target_compile_options(rlx_strict INTERFACE -Wconversion)

# rlx_folder(NAME [KERNELS | ONCE] FILES...): the OBJECT library rlx_NAME of the current src folder.
# KERNELS are numeric code: -O3 in release, no -Wconversion. What runs ONCE per model is kept small;
# its stack is walked by frame pointers, which take a quarter of what unwind tables take.
function(rlx_folder name)
    cmake_parse_arguments(PARSE_ARGV 1 folder "KERNELS;ONCE" "" "")
    add_library(rlx_${name} OBJECT ${folder_UNPARSED_ARGUMENTS})
    if(folder_KERNELS)
        target_link_libraries(rlx_${name} PRIVATE rlx_flags)
        # Nothing unwinds through a kernel in a release.
        target_compile_options(rlx_${name} PRIVATE
            $<$<CONFIG:Release>:-O3;-fno-asynchronous-unwind-tables>)
    else()
        target_link_libraries(rlx_${name} PRIVATE rlx_strict)
    endif()
    if(folder_ONCE)
        target_compile_options(rlx_${name} PRIVATE
            $<$<CONFIG:Release>:-Oz;-fno-asynchronous-unwind-tables>
            $<$<CONFIG:Release>:-fno-omit-frame-pointer;-momit-leaf-frame-pointer>
            $<$<AND:$<CONFIG:Release>,$<C_COMPILER_ID:GNU>>:-fno-schedule-insns2>)
    endif()
    set_property(GLOBAL APPEND PROPERTY RLX_FOLDERS rlx_${name})
endfunction()
