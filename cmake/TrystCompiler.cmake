# SPDX-License-Identifier: Apache-2.0
# How all of our C is compiled: the target tryst_flags, and where results go in the build tree.

# tryst_flags_default(<type> <flags>): our flags in place of CMake's own; flags that the user gives stay.
function(tryst_flags_default type flags)
    string(STRIP "${CMAKE_C_FLAGS_${type}_INIT}" default)
    string(STRIP "${CMAKE_C_FLAGS_${type}}" current)
    if(current STREQUAL default)
        set(CMAKE_C_FLAGS_${type} "${flags}" PARENT_SCOPE)
    endif()
endfunction()

# Where Tryst is a part of another project, that project decides how things are compiled.
if(PROJECT_IS_TOP_LEVEL)
    if(NOT CMAKE_BUILD_TYPE)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or Sanitize" FORCE)
    endif()
    tryst_flags_default(RELEASE "-O2 -g")
    tryst_flags_default(RELWITHDEBINFO "-O2 -g")
    tryst_flags_default(DEBUG "-Og -g")
    tryst_flags_default(SANITIZE "-O1 -g1") # lines for its stack traces; the rest of -g takes a sixth of compiling
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# What is installed has the same RUNPATH in the build tree. CMake would else fill the build tree's up with
# ':' to the length of the installed one, and an empty element is the current directory.
set(TRYST_TOOL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "\$ORIGIN/../lib") # the second: the build tree
list(REMOVE_DUPLICATES TRYST_TOOL_RPATH)

# tryst_rpath(<target> [<folders>…]): these, and those of libraries outside the system's own folders.
function(tryst_rpath target)
    set_target_properties(${target} PROPERTIES
        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON INSTALL_RPATH "${ARGN}")
endfunction()

# No NDEBUG anywhere: asserts catch programmer errors, and those do not end with a release.
add_library(tryst_flags INTERFACE)
target_compile_definitions(tryst_flags INTERFACE _GNU_SOURCE)
target_compile_options(tryst_flags INTERFACE -UNDEBUG
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -fno-omit-frame-pointer
    $<$<BOOL:${TRYST_WERROR}>:-Werror>)
if(TRYST_PARANOID)
    target_compile_definitions(tryst_flags INTERFACE TRYST_PARANOID=1)
endif()
if(TRYST_SANITIZE)
    target_compile_options(tryst_flags INTERFACE -fsanitize=${TRYST_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(tryst_flags INTERFACE -fsanitize=${TRYST_SANITIZE})
endif()

# Optimised across files, in the shared libraries alone: a message crosses four layers, and 8 bytes over shm take
# 0.9 of the time so. The objects hold plain code as well, of which all else is linked.
set(TRYST_LTO_COMPILE "")
set(TRYST_LTO_LINK "")
set(TRYST_LTO_NONE "")
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT TRYST_SANITIZE)
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS "-flto=auto -ffat-lto-objects")
    check_c_source_compiles("int main(void) { return 0; }" TRYST_LTO) # some compilers are built without
    unset(CMAKE_REQUIRED_FLAGS)
    if(TRYST_LTO)
        set(TRYST_LTO_COMPILE -flto -ffat-lto-objects)
        set(TRYST_LTO_LINK -flto=auto)
        set(TRYST_LTO_NONE -fno-lto)
    endif()
endif()

# A shared library names all that it needs. (Clang's sanitizers leave their runtime to the program.)
set(TRYST_LINK_DEFS -Wl,-z,defs)
if(TRYST_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES Clang)
    set(TRYST_LINK_DEFS "")
endif()
