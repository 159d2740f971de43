# cmake -C src/cmake/release.cmake -S . -B build-release : what a package would ship.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(AISIM_LTO ON CACHE BOOL "")
