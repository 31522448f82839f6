# SPDX-License-Identifier: Apache-2.0
# The layer ladder, as include paths.
#
# A layer compiles with include/ (public headers), its own folder, and the headers that its DEPS
# publish; the repository's root is on no include path, so an upward or skipping include finds
# nothing. For that, each layer has two trees of links in the build directory:
#
#   publish/<id>/<layer>/x.h    one link for each header in its PUBLISH list: what others see
#   own/<id>/<layer>            a link to its whole folder: what it and its unit tests see
#
# A layer can have sub-layers: folders in it that are layers of their own, as rendezvous/bootstrap,
# which stands below rendezvous and is in its folder. An <id> is the layer's name with '_' for '/'.
# A layer sees of its sub-layers what they publish, so own/<id>/<layer> of one that has any is a
# folder with a link for each header that lies in it and in none of its sub-layers.
#
# A layer can also have its files in folders that are no layers (tryst_part, as core): each folder sees
# of the others what its DEPS say, and other layers see what all folders publish. An include names the
# path from the repository's root ("core/memory/pool.h"), or a header of the same folder ("pool.h").
#
# A relative include ("../core/x.h") gets past this; tests/build/ reads the compiler's dependency
# output for it.

# All layers, from the lowest up. Those of topology are libtryst_topology, the others libtryst, whose layers
# see none of topology's.
set(TRYST_LAYER_ORDER
    core
    collectives/plan
    topology/base topology/machine topology/formats topology/routes
    topology/plan topology/sized topology/planner topology/report topology/probe topology/place topology/draw
    topology
    transports/link transports/memory transports
    commsched/sched commsched/profile
    rendezvous/bootstrap rendezvous/numbers rendezvous/match rendezvous/live
    rendezvous/op rendezvous/peer rendezvous/protocol rendezvous/progress rendezvous/copier
    rendezvous
    collectives context)

# The name of a layer where no '/' may stand: in targets, and as one folder.
function(tryst_layer_id layer id_p)
    string(REPLACE "/" "_" id ${layer})
    set(${id_p} ${id} PARENT_SCOPE)
endfunction()

# Make `link` point to `target`, whatever was there.
function(tryst_link target link)
    if(IS_SYMLINK ${link})
        file(READ_SYMLINK ${link} current)
        if(current STREQUAL target)
            return()
        endif()
    endif()
    get_filename_component(folder ${link} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(REMOVE_RECURSE ${link})
    file(CREATE_LINK ${target} ${link} SYMBOLIC)
endfunction()

# Make folder `tree` hold a link to each of these headers (paths from the current folder), and nothing else.
function(tryst_link_headers tree)
    if(IS_SYMLINK ${tree}) # to the sources, from when the layer had no sub-layers
        file(REMOVE ${tree})
    endif()
    file(MAKE_DIRECTORY ${tree})
    file(GLOB_RECURSE links LIST_DIRECTORIES false RELATIVE ${tree} ${tree}/*)
    foreach(header IN LISTS ARGN)
        tryst_link(${CMAKE_CURRENT_SOURCE_DIR}/${header} ${tree}/${header})
    endforeach()
    foreach(link IN LISTS links)
        if(NOT link IN_LIST ARGN)
            file(REMOVE ${tree}/${link})
        endif()
    endforeach()
endfunction()

# The two trees of one layer; links of headers that are not published any more go.
function(tryst_publish layer)
    get_property(parts GLOBAL PROPERTY TRYST_PARTS_${layer})
    get_property(parts_headers GLOBAL PROPERTY TRYST_PUBLISH_${layer})
    list(APPEND ARGN ${parts_headers})
    foreach(header IN LISTS ARGN)
        if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
            message(FATAL_ERROR "${layer} publishes ${header}, which does not exist")
        endif()
    endforeach()
    tryst_layer_id(${layer} id)
    tryst_link_headers(${PROJECT_BINARY_DIR}/publish/${id}/${layer} ${ARGN})
    set(own ${PROJECT_BINARY_DIR}/own/${id}/${layer})
    if(parts OR "${TRYST_LAYER_ORDER}" MATCHES "(^|;)${layer}/")
        file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
             ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
        foreach(sub IN LISTS TRYST_LAYER_ORDER)
            if(sub MATCHES "^${layer}/")
                string(REPLACE "${layer}/" "" sub ${sub})
                list(FILTER headers EXCLUDE REGEX "^${sub}/")
            endif()
        endforeach()
        tryst_link_headers(${own} ${headers})
    else()
        tryst_link(${PROJECT_SOURCE_DIR}/${layer} ${own})
    endif()
endfunction()

# Include paths of code that sees its own layer (or none: "") and what DEPS publish.
function(tryst_see target own)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    if(own)
        tryst_layer_id(${own} id)
        target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/own/${id})
    endif()
    foreach(layer IN LISTS ARGN)
        tryst_layer_id(${layer} id)
        target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/publish/${id})
    endforeach()
endfunction()

# Objects of `layer`, compiled apart because they see something else than the rest of it.
function(tryst_objects target layer)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "OWN" "SOURCES;DEPS;LIBS")
    add_library(${target} OBJECT ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE tryst_flags Threads::Threads ${arg_LIBS})
    target_compile_options(${target} PRIVATE ${TRYST_LTO_COMPILE})
    tryst_see(${target} "${arg_OWN}" ${arg_DEPS})
    set_property(GLOBAL APPEND PROPERTY TRYST_OBJECTS_${layer} ${target})
    set_property(GLOBAL APPEND PROPERTY TRYST_LIBS_${layer} ${arg_LIBS})
endfunction()

# tryst_layer(<name> [PUBLISH <headers>…] [SOURCES <files>…] [DEPS <layers>…] [LIBS <targets>…])
#
# DEPS are not transitive. A layer without sources only publishes.
function(tryst_layer layer)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PUBLISH;SOURCES;DEPS;LIBS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tryst_layer(${layer}): what is ${arg_UNPARSED_ARGUMENTS}?")
    endif()
    tryst_publish(${layer} ${arg_PUBLISH})
    if(arg_SOURCES)
        tryst_layer_id(${layer} id)
        tryst_objects(tryst_layer_${id} ${layer} OWN ${layer} SOURCES ${arg_SOURCES}
                      DEPS ${arg_DEPS} LIBS ${arg_LIBS})
    endif()
endfunction()

# tryst_part(<layer> <folder> [PUBLISH <headers>…] [SOURCES <files>…] [DEPS <layer>/<folder>…] [LIBS <targets>…])
#
# A folder of a layer, from its own CMakeLists.txt: what it publishes the layer publishes. It sees its own
# private headers by their names alone. tryst_layer comes after all parts.
function(tryst_part layer folder)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "PUBLISH;SOURCES;DEPS;LIBS")
    tryst_layer_id(${layer}/${folder} id)
    tryst_link_headers(${PROJECT_BINARY_DIR}/publish/${id}/${layer}/${folder} ${arg_PUBLISH})
    list(TRANSFORM arg_PUBLISH PREPEND ${folder}/)
    set_property(GLOBAL APPEND PROPERTY TRYST_PUBLISH_${layer} ${arg_PUBLISH})
    set_property(GLOBAL APPEND PROPERTY TRYST_PARTS_${layer} ${folder})
    tryst_objects(tryst_layer_${id} ${layer} SOURCES ${arg_SOURCES}
                  DEPS ${layer}/${folder} ${arg_DEPS} LIBS ${arg_LIBS})
endfunction()

# tryst_backend(<layer> <name> SOURCES <files>… [DEPS <layers>…] [LIBS <targets>…])
#
# A part of a layer in a folder of its own that must not see its siblings' private headers: it
# sees its own folder (by name of the header alone) and the published ones of its layer and DEPS.
function(tryst_backend layer name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;DEPS;LIBS")
    tryst_objects(tryst_layer_${layer}_${name} ${layer} SOURCES ${arg_SOURCES}
                  DEPS ${layer} ${arg_DEPS} LIBS ${arg_LIBS})
endfunction()

# tryst_shared_headers(<layer> <folder> <target> <PRIVATE|INTERFACE> <headers>…)
#
# `target` alone sees these headers of a folder of the layer, as "<layer>/<folder>/x.h".
function(tryst_shared_headers layer folder target scope)
    tryst_layer_id(${layer}/${folder} id)
    set(publish ${PROJECT_BINARY_DIR}/publish/${id})
    foreach(header IN LISTS ARGN)
        tryst_link(${PROJECT_SOURCE_DIR}/${layer}/${folder}/${header} ${publish}/${layer}/${folder}/${header})
    endforeach()
    target_include_directories(${target} ${scope} ${publish})
endfunction()

# Objects, and the third-party libraries, of some layers.
function(tryst_collect objects_p libs_p)
    set(objects "")
    set(libs "")
    foreach(layer IN LISTS ARGN)
        get_property(targets GLOBAL PROPERTY TRYST_OBJECTS_${layer})
        foreach(target IN LISTS targets)
            list(APPEND objects $<TARGET_OBJECTS:${target}>)
        endforeach()
        get_property(layer_libs GLOBAL PROPERTY TRYST_LIBS_${layer})
        list(APPEND libs ${layer_libs})
    endforeach()
    list(REMOVE_DUPLICATES libs)
    list(REMOVE_ITEM libs tryst_xxhash) # a header
    set(${objects_p} "${objects}" PARENT_SCOPE)
    set(${libs_p} "${libs}" PARENT_SCOPE)
endfunction()

# lib/internal/libtryst_internal_<layer>.a: the plain objects of one layer, for unit tests and the planner.
function(tryst_internal layer target_p)
    tryst_layer_id(${layer} id)
    set(target tryst_internal_${id})
    set(${target_p} "" PARENT_SCOPE)
    tryst_collect(objects libs ${layer})
    if(NOT objects)
        return()
    endif()
    if(NOT TARGET ${target})
        add_library(${target} STATIC EXCLUDE_FROM_ALL ${objects})
        set_target_properties(${target} PROPERTIES
            LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/internal)
        target_link_libraries(${target} PUBLIC ${libs} Threads::Threads ${CMAKE_DL_LIBS})
        target_link_options(${target} INTERFACE ${TRYST_LTO_NONE})
    endif()
    set(${target_p} ${target} PARENT_SCOPE)
endfunction()

# An ABI id: our version plus a hash of the headers that make the ABI.
function(tryst_abi_id id_p)
    set(text "")
    foreach(header IN LISTS ARGN)
        set(path ${PROJECT_SOURCE_DIR}/${header})
        set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
        file(SHA256 ${path} hash)
        string(APPEND text "${hash}\n")
    endforeach()
    string(SHA256 hash "${text}")
    string(SUBSTRING ${hash} 0 16 hash)
    set(${id_p} "${PROJECT_VERSION}-${hash}" PARENT_SCOPE)
endfunction()

# Of libtryst's modules; it reaches the loader and each module as TRYST_MODULE_ABI_ID.
function(tryst_module_abi_id id_p)
    tryst_abi_id(id collectives/plan/planner.h core/memory/urgency.h core/os/poller.h core/text/err.h
                 include/tryst/device.h
                 include/tryst/status.h include/tryst/types.h transports/memory/memory.h
                 transports/memory/memory_ops.h transports/module.h transports/transport.h)
    set(${id_p} "${id}" PARENT_SCOPE)
endfunction()

# Of libtryst_pipeline's modules: TRYST_STAGE_ABI_ID.
function(tryst_stage_abi_id id_p)
    tryst_abi_id(id include/tryst/stage.h include/tryst/status.h include/tryst/types.h
                 pipeline/device/device_kernels.h pipeline/device/stage_module.h)
    set(${id_p} "${id}" PARENT_SCOPE)
endfunction()

# tryst_module(<name> SOURCES <files>… [LIBS <targets>…])
#
# lib/tryst/tryst_<name>.so: links no library of ours (TRYST_LINK_DEFS proves it), sees the published headers
# of core, transports/memory and transports and the public ones, and exports its entry alone.
function(tryst_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
    set(target tryst_module_${name})
    set(map ${PROJECT_SOURCE_DIR}/cmake/module.map)
    add_library(${target} MODULE ${arg_SOURCES})
    tryst_see(${target} "" core transports/memory transports)
    tryst_module_abi_id(abi_id)
    target_compile_definitions(${target} PRIVATE TRYST_MODULE_ABI_ID="${abi_id}")
    target_link_libraries(${target} PRIVATE tryst_flags Threads::Threads ${arg_LIBS})
    target_link_options(${target} PRIVATE ${TRYST_LINK_DEFS} -Wl,--version-script=${map})
    set_target_properties(${target} PROPERTIES
        PREFIX "" OUTPUT_NAME tryst_${name} LINK_DEPENDS ${map}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/tryst)
    tryst_rpath(${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tryst)
endfunction()

# tryst_tool_part(<target> <folder> PUBLISH <headers>… SOURCES <files>… [LIBS <targets>…])
#
# What several tools link: they see the headers that it publishes, as "<folder>/x.h", and no other one
# of its folder.
function(tryst_tool_part target folder)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "PUBLISH;SOURCES;LIBS")
    tryst_layer_id(${folder} id)
    set(publish ${PROJECT_BINARY_DIR}/publish/${id})
    tryst_link_headers(${publish}/${folder} ${arg_PUBLISH})
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE tryst_flags ${arg_LIBS})
    target_include_directories(${target} INTERFACE ${publish})
endfunction()

# tryst_tool(<name> SOURCES <files>… [LIBS <targets>…]): bin/<name>, on the public API alone.
function(tryst_tool name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE tryst_flags tryst ${arg_LIBS} tryst_tool_base)
    tryst_rpath(${name} ${TRYST_TOOL_RPATH})
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
