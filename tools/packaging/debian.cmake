# Debian packages, made by cpack from an installation in /usr (the preset debian, `make deb`):
#   libhakmem0         the shared library, named after its SONAME so that a later one can be beside it
#   libhakmem0-dbgsym  its debug information for debuggers and heap profiles, filed by build ID
#   libhakmem-dev      what building with it needs: headers, archive, symlink, CMake and pkg-config files
#   hakmem             the command, for the system's Python; on a Debian whose Python libraries are too
#                      old for it, use the wheel
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    message(FATAL_ERROR "HAKMEM_DEBIAN needs -DCMAKE_INSTALL_PREFIX=/usr: it decides where libraries lie")
endif()
set(HAKMEM_MAINTAINER "hakmem authors <hakmem@example.org>"
    CACHE STRING "Name and address in the Debian packages, for whoever gives them out to set")

set(soversion ${PROJECT_VERSION_MAJOR})
set(components runtime symbols development command)
set(packages libhakmem${soversion} libhakmem${soversion}-dbgsym libhakmem-dev hakmem)
set(release 1)
set(made ${PROJECT_BINARY_DIR}/packaging)
set(python lib/python3/dist-packages) # where Debian's Python looks for modules
set(checked ${CMAKE_INSTALL_LIBDIR}/hakmem${soversion}) # checked copying; versioned, so that a later one can be beside it

# ---- files that only the packages have -----------------------------------------------------------

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH if it is set
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${made}/changelog @ONLY)
execute_process(COMMAND gzip -9nc ${made}/changelog
    OUTPUT_FILE ${made}/changelog.Debian.gz COMMAND_ERROR_IS_FATAL ANY)
# The command's package holds ECharts, which has a licence of its own.
file(COPY_FILE ${PROJECT_SOURCE_DIR}/LICENSE ${made}/copyright)
set(vendor ${PROJECT_SOURCE_DIR}/lab/hakmem/report/vendor)
file(STRINGS ${vendor}/echarts.NOTICE notice)
list(JOIN notice "\n" notice)
file(READ ${vendor}/echarts.LICENSE-d3 d3)
file(READ ${made}/copyright ours)
file(WRITE ${made}/copyright-command "${ours}
${python}/hakmem/report/vendor/echarts.common.min.js is another's:

${notice}

It is licensed under the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0.
Parts of it are of d3:

${d3}")
foreach(component package IN ZIP_LISTS components packages)
    set(folder ${CMAKE_INSTALL_DATADIR}/doc/${package})
    set(copyright ${made}/copyright)
    if(component STREQUAL command)
        string(APPEND copyright -command)
    endif()
    install(FILES ${copyright} RENAME copyright DESTINATION ${folder} COMPONENT ${component})
    install(FILES ${made}/changelog.Debian.gz DESTINATION ${folder} COMPONENT ${component})
endforeach()

# CPACK_STRIP_FILES does not strip archives: this strips debug information, and keeps symbols.
install(CODE "execute_process(
    COMMAND \"${CMAKE_STRIP}\" --strip-debug --enable-deterministic-archives
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libhakmem.a\"
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT development)

install(TARGETS hakmem_check LIBRARY DESTINATION ${checked} COMPONENT runtime)

# The libraries' debug information, where debuggers look for it by build ID. (CPack's own debug packages
# would add scripts to the library's package.)
foreach(library hakmem hakmem_check)
    install(CODE "execute_process(COMMAND \"${CMAKE_READELF}\" -n \"$<TARGET_FILE:${library}>\"
        OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
    if(NOT notes MATCHES \"Build ID: (..)([0-9a-f]+)\")
        message(FATAL_ERROR \"$<TARGET_FILE:${library}> has no build ID\")
    endif()
    set(folder \"\$ENV{DESTDIR}/usr/lib/debug/.build-id/\${CMAKE_MATCH_1}\")
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --only-keep-debug --compress-debug-sections
        \"$<TARGET_FILE:${library}>\" \"\${folder}/\${CMAKE_MATCH_2}.debug\"
        COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD \"\${folder}/\${CMAKE_MATCH_2}.debug\"
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)" COMPONENT symbols)
endforeach()

# The command, with metadata that states its version; its libraries are symlinks to libhakmem0's.
install(DIRECTORY lab/hakmem DESTINATION ${python} COMPONENT command
    PATTERN __pycache__ EXCLUDE PATTERN ".*" EXCLUDE)
set(names libhakmem.so libhakmem_check.so)
set(places ${CMAKE_INSTALL_LIBDIR}/libhakmem.so.${soversion} ${checked}/libhakmem_check.so)
foreach(name place IN ZIP_LISTS names places)
    file(RELATIVE_PATH library /${python}/hakmem/native /${place})
    file(CREATE_LINK ${library} ${made}/${name} SYMBOLIC)
    install(FILES ${made}/${name} DESTINATION ${python}/hakmem/native COMPONENT command)
endforeach()
file(WRITE ${made}/METADATA
    "Metadata-Version: 2.1\nName: hakmem\nVersion: ${PROJECT_VERSION}\n")
install(FILES ${made}/METADATA
    DESTINATION ${python}/hakmem-${PROJECT_VERSION}.dist-info COMPONENT command)
install(PROGRAMS ${CMAKE_CURRENT_LIST_DIR}/hakmem DESTINATION bin COMPONENT command)
execute_process(COMMAND gzip -9nc ${CMAKE_CURRENT_LIST_DIR}/hakmem.1
    OUTPUT_FILE ${made}/hakmem.1.gz COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${made}/hakmem.1.gz DESTINATION share/man/man1 COMPONENT command)

# A trigger updates the loader's cache, so that the packages need no scripts.
file(WRITE ${made}/triggers "activate-noawait ldconfig\n")
file(WRITE ${made}/shlibs
    "libhakmem ${soversion} libhakmem${soversion} (>= ${PROJECT_VERSION})\n")
configure_file(${CMAKE_CURRENT_LIST_DIR}/depends.cmake.in ${made}/depends.cmake @ONLY)

# ---- the packages' control fields ----------------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME hakmem)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # else it would precede each package's own
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${made}/depends.cmake)

set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${HAKMEM_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SOURCE hakmem)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libhakmem${soversion})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${made}/triggers ${made}/shlibs)
string(JOIN "\n" CPACK_DEBIAN_RUNTIME_DESCRIPTION
    "drop-in memory allocator, shared library"
    "hakmem serves malloc and its family and the C++ operators new and delete,"
    "for programs that are linked to it and for any that it is preloaded to:"
    "free memory goes back to the system by itself, statistics tell what is"
    "held, and a profile checks every operation."
    ""
    "This package has the library, and beside it the one for checked copying.")

set(CPACK_DEBIAN_SYMBOLS_PACKAGE_NAME libhakmem${soversion}-dbgsym)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_SYMBOLS_PACKAGE_DEPENDS
    "libhakmem${soversion} (= ${PROJECT_VERSION}-${release})")
string(JOIN "\n" CPACK_DEBIAN_SYMBOLS_DESCRIPTION
    "drop-in memory allocator, debug symbols"
    "hakmem serves malloc and its family and the C++ operators new and delete."
    ""
    "This package has what debuggers and profilers ask for of its libraries.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libhakmem-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libhakmem${soversion} (= ${PROJECT_VERSION}-${release}), libc6-dev")
string(JOIN "\n" CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "drop-in memory allocator, development files"
    "hakmem serves malloc and its family and the C++ operators new and delete."
    "Its own functions read options and statistics and allocate by names of"
    "their own."
    ""
    "This package has headers for C and C++, the static library, and packages"
    "for CMake and pkg-config.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME hakmem)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION devel)
string(JOIN ", " CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS
    "libhakmem${soversion} (= ${PROJECT_VERSION}-${release})" "libc6" "python3 (>= 3.11)"
    "python3-typer (>= 0.15)" python3-rich python3-numpy python3-scipy python3-jinja2)
string(JOIN "\n" CPACK_DEBIAN_COMMAND_DESCRIPTION
    "drop-in memory allocator, command"
    "hakmem serves malloc and its family and the C++ operators new and delete."
    ""
    "This package has the command, which runs a program on it and proves that"
    "it does, compares allocators on the program, shows what its memory is in"
    "use for, and what all processes that run on it hold.")

include(CPack)
