# musl by Debian's musl-gcc (tools/setup portability). It has no C++ library: C++ sources are compiled
# without one, and no C++ program is linked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_CXX_COMPILER_WORKS TRUE)
file(GLOB musl_specs /usr/lib/*-linux-musl/musl-gcc.specs)
set(CMAKE_CXX_FLAGS_INIT "-specs ${musl_specs} -nostdinc++")
