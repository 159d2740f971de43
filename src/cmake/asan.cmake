# cmake -C src/cmake/asan.cmake -S . -B build-asan : address and undefined-behaviour sanitizers.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(AISIM_SANITIZE address,undefined CACHE STRING "")
set(AISIM_ASSERTS ON CACHE BOOL "")
