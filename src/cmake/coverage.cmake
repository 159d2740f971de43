# cmake -C src/cmake/coverage.cmake -S . -B build-coverage : counters for gcov.
set(CMAKE_BUILD_TYPE Debug CACHE STRING "")
set(AISIM_COVERAGE ON CACHE BOOL "")
