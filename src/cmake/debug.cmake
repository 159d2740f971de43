# cmake -C src/cmake/debug.cmake -S . -B build-debug : no optimisation, all assertions.
set(CMAKE_BUILD_TYPE Debug CACHE STRING "")
set(AISIM_ASSERTS ON CACHE BOOL "")
set(AISIM_WERROR ON CACHE BOOL "")
