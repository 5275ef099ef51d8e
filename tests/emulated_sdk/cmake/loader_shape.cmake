# How a library of the emulated SDK is built and where it is put. The loader must see what it sees with the vendor's:
# the SONAME, the DT_NEEDED entries in order, no RPATH or RUNPATH, no symbol versions.

set(CMAKE_SKIP_RPATH ON)

# emulated_library(<target> SONAME <name> SOURCES <file>... [NEEDED <target>...] [EXPORTS <pattern>...] [OPTIONS <flag>...])
#
# NEEDED lists the only libraries of the SDK that get a DT_NEEDED entry, in this order, used or not; symbols of others
# stay undefined. The compiler's own libraries follow, as far as they are used.
function(emulated_library target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "SONAME" "SOURCES;NEEDED;EXPORTS;OPTIONS")
    add_library(${target} SHARED ${arg_SOURCES})
    set_target_properties(${target} PROPERTIES
        PREFIX "" SUFFIX "" OUTPUT_NAME "${arg_SONAME}" NO_SONAME ON
        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
    target_compile_options(${target} PRIVATE ${arg_OPTIONS})

    # An anonymous version script names no version: it only hides what the compiler would export besides, such as
    # instances of standard templates.
    list(JOIN arg_EXPORTS "; " exports)
    set(script "${CMAKE_BINARY_DIR}/exports/${target}.map")
    file(CONFIGURE OUTPUT "${script}" CONTENT "{ global: ${exports}; local: *; };\n" @ONLY)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${script}")
    target_link_options(${target} PRIVATE "-Wl,-soname,${arg_SONAME}" "-Wl,--version-script=${script}")

    if(arg_NEEDED)
        target_link_libraries(${target} PRIVATE
            "-Wl,--push-state,--no-as-needed" ${arg_NEEDED} "-Wl,--pop-state")
    endif()
endfunction()

# place_library(<target> <directory> <file> [<link>...]) installs a real copy and makes symbolic links to it. A link
# written as a=b points to b, which is itself a link.
function(place_library target directory file)
    install(PROGRAMS "$<TARGET_FILE:${target}>" DESTINATION "${directory}" RENAME "${file}")
    foreach(link IN LISTS ARGN)
        set(points_to "${file}")
        if(link MATCHES "^(.+)=(.+)$")
            set(link "${CMAKE_MATCH_1}")
            set(points_to "${CMAKE_MATCH_2}")
        endif()
        install(CODE "file(CREATE_LINK \"${points_to}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${directory}/${link}\" SYMBOLIC)")
    endforeach()
endfunction()
