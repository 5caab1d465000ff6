# What diffmj is built with: found on the system where it is installed, else downloaded by git tag.
include(FetchContent)

# every release that is tested, newest first: the only list of them
file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/mujoco_releases.txt" DIFFMJ_MUJOCO_RELEASES)
list(GET DIFFMJ_MUJOCO_RELEASES -1 oldest)
find_package(MuJoCo ${oldest} REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

FetchContent_Declare(
  Eigen3
  GIT_REPOSITORY https://gitlab.com/libeigen/eigen.git
  GIT_TAG 3.4.0
  GIT_SHALLOW ON
  SYSTEM
  SOURCE_SUBDIR headers_only # no such directory: its own build is not wanted, only its headers
  FIND_PACKAGE_ARGS 3.4 NO_MODULE
)
FetchContent_MakeAvailable(Eigen3)
if(NOT TARGET Eigen3::Eigen)
  add_library(diffmj_eigen INTERFACE)
  add_library(Eigen3::Eigen ALIAS diffmj_eigen)
  target_include_directories(diffmj_eigen SYSTEM INTERFACE "${eigen3_SOURCE_DIR}")
endif()

if(DIFFMJ_BUILD_CLI)
  FetchContent_Declare(
    CLI11
    GIT_REPOSITORY https://github.com/CLIUtils/CLI11.git
    GIT_TAG v2.4.2
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS 2.1
  )
  FetchContent_Declare(
    nlohmann_json
    GIT_REPOSITORY https://github.com/nlohmann/json.git
    GIT_TAG v3.11.3
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS 3.10
  )
  FetchContent_Declare(
    tomlplusplus
    GIT_REPOSITORY https://github.com/marzer/tomlplusplus.git
    GIT_TAG v3.4.0
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS 3.1
  )
  FetchContent_MakeAvailable(CLI11 nlohmann_json tomlplusplus)
endif()

if(DIFFMJ_BUILD_TESTS OR DIFFMJ_BUILD_BENCH)
  set(INSTALL_GTEST OFF)
  FetchContent_Declare(
    googletest
    GIT_REPOSITORY https://github.com/google/googletest.git
    GIT_TAG v1.14.0
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS 1.11 NAMES GTest
  )
  FetchContent_MakeAvailable(googletest)
endif()

if(DIFFMJ_BUILD_BENCH)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  FetchContent_Declare(
    benchmark
    GIT_REPOSITORY https://github.com/google/benchmark.git
    GIT_TAG v1.8.3
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS 1.6
  )
  FetchContent_MakeAvailable(benchmark)
endif()
