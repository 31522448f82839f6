# SPDX-License-Identifier: Apache-2.0
# libtryst, libtryst_topology and libtryst_pipeline, shared and static, from the objects of the layers.

# The archive of a library's COPIES (tryst_library); "" without any.
function(tryst_copies name target_p libs_p)
    tryst_collect(objects libs ${ARGN})
    list(REMOVE_ITEM objects $<TARGET_OBJECTS:tryst_core_public>)
    set(${libs_p} "${libs}" PARENT_SCOPE)
    set(${target_p} "" PARENT_SCOPE)
    if(objects)
        add_library(${name}_copies STATIC EXCLUDE_FROM_ALL ${objects})
        set_target_properties(${name}_copies PROPERTIES
            LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/internal)
        set(${target_p} ${name}_copies PARENT_SCOPE)
    endif()
endfunction()

# tryst_library(<name> LAYERS <layers>… [NEEDS <library>] [COPIES <layers>…])
#
# <name> is the shared library, <name>_static the static one; NEEDS is another one of ours. Of the layers of
# COPIES, which are in NEEDS, it has hidden copies of the objects that it uses, but of none with a public
# function: those are in NEEDS alone, and so is what they keep (the text of tryst_last_error).
#
# In an archive of plain objects every hidden name would still be global for the linker of a host
# program, and could collide with the host's own `log_open` or `pool_get`. So all objects are linked
# into one (ld -r) and what has hidden visibility is made local in it (objcopy --localize-hidden):
# what remains global is what the shared library exports. The price: a static program takes all of
# libtryst or none.
function(tryst_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "NEEDS" "LAYERS;COPIES")
    tryst_collect(objects libs ${arg_LAYERS})
    tryst_copies(${name} copies copied_libs ${arg_COPIES})
    list(APPEND libs ${copied_libs})
    list(REMOVE_DUPLICATES libs)
    string(REPLACE "tryst_" "" alias ${name})
    set(map ${PROJECT_BINARY_DIR}/tryst.map)
    set(include $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

    add_library(${name} SHARED ${objects})
    set_target_properties(${name} PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${TRYST_SOVERSION}
        LINKER_LANGUAGE C LINK_DEPENDS ${map} EXPORT_NAME ${alias})
    tryst_rpath(${name} "\$ORIGIN")
    target_include_directories(${name} INTERFACE ${include})
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:tryst_flags> Threads::Threads ${CMAKE_DL_LIBS} ${libs}
                                  PUBLIC ${arg_NEEDS} # before the copies: of NEEDS come its public functions
                                  PRIVATE ${copies})
    target_link_options(${name} PRIVATE ${TRYST_LINK_DEFS} ${TRYST_LTO_LINK} -Wl,--version-script=${map}
                                          -Wl,-z,nodelete) # a thread may outlive the contexts (context/opener.h)

    set(copies_file "")
    if(copies)
        set(copies_file $<TARGET_FILE:${copies}>)
    endif()
    set(prelinked ${PROJECT_BINARY_DIR}/prelinked/${name}.o)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/prelinked)
    add_custom_command(OUTPUT ${prelinked}
        COMMAND ${CMAKE_LINKER} -r -o ${prelinked}.all ${objects} ${copies_file}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --remove-section=.gnu.lto_* ${prelinked}.all ${prelinked}
        COMMAND ${CMAKE_COMMAND} -E rm ${prelinked}.all
        DEPENDS ${objects} ${copies}
        COMMENT "Linking ${name} into one object"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_library(${name}_static STATIC ${prelinked})
    set_source_files_properties(${prelinked} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    # make has rules for objects in their own target alone: those targets come first.
    foreach(layer IN LISTS arg_LAYERS)
        get_property(targets GLOBAL PROPERTY TRYST_OBJECTS_${layer})
        add_dependencies(${name}_static ${targets})
    endforeach()
    add_library(tryst::${alias} ALIAS ${name}) # the names that find_package has
    add_library(tryst::${alias}_static ALIAS ${name}_static)
    set(needs_static "")
    if(arg_NEEDS)
        set(needs_static ${arg_NEEDS}_static)
    endif()
    set_target_properties(${name}_static PROPERTIES
        OUTPUT_NAME ${name} LINKER_LANGUAGE C EXPORT_NAME ${alias}_static)
    target_include_directories(${name}_static INTERFACE ${include})
    target_link_libraries(${name}_static PUBLIC ${needs_static}
                                         PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${libs} m)
endfunction()

configure_file(cmake/tryst.map.in tryst.map @ONLY)
set(topology ${TRYST_LAYER_ORDER})
list(FILTER topology INCLUDE REGEX "^topology")
set(TRYST_LIBRARY_LAYERS ${TRYST_LAYER_ORDER}) # libtryst's
list(REMOVE_ITEM TRYST_LIBRARY_LAYERS ${topology})
tryst_library(tryst LAYERS ${TRYST_LIBRARY_LAYERS})
list(REMOVE_ITEM topology topology/planner)
tryst_library(tryst_topology LAYERS ${topology} NEEDS tryst COPIES core collectives/plan)

if(TRYST_PIPELINE)
    get_property(targets GLOBAL PROPERTY TRYST_OBJECTS_pipeline)
    if(targets)
        tryst_library(tryst_pipeline LAYERS pipeline NEEDS tryst)
        set(TRYST_HAVE_PIPELINE ON)
    endif()
endif()
