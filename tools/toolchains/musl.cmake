# musl by Debian's musl-gcc (tools/setup portability). There is no C++ library for it: what is C++ here is compiled
# without one, and no program in C++ is linked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_CXX_COMPILER_WORKS TRUE)
file(GLOB musl_specs /usr/lib/*-linux-musl/musl-gcc.specs)
set(CMAKE_CXX_FLAGS_INIT "-specs ${musl_specs} -nostdinc++")
