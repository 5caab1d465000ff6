# The two shapes of executable that repeat: a test and a benchmark.

# What every target of this project is compiled with.
function(diffmj_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(
    ${target}
    PRIVATE -Wall -Wextra -Wconversion $<$<BOOL:${DIFFMJ_WERROR}>:-Werror>
  )
  # g++ 12 takes "text" + std::to_string(i) for an overlapping copy (its bug 105651)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
endfunction()

# diffmj_precompile(<target> <header>...), diffmj_precompile(<target> REUSE_FROM <other target>)
# Headers of others that most sources of a target read are parsed once, where DIFFMJ_PRECOMPILE is on.
function(diffmj_precompile target)
  if(NOT DIFFMJ_PRECOMPILE)
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE ${DIFFMJ_STANDARD_HEADERS} ${ARGN})
    # ccache takes this for what is in the precompiled file, which has paths of this directory
    file(
      WRITE "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum"
      "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} MuJoCo ${MuJoCo_VERSION} "
      "Eigen ${Eigen3_VERSION} GTest ${GTest_VERSION} CLI11 ${CLI11_VERSION} "
      "json ${nlohmann_json_VERSION} nanobind ${nanobind_VERSION}\n"
    )
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache reads preprocessed sources; and g++ 12 forgets which precompiled headers are the
    # system's, and warns of its own strings
    target_compile_options(
      ${target}
      PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow
    )
  endif()
endfunction()
set(
  DIFFMJ_STANDARD_HEADERS
  <algorithm>
  <array>
  <cmath>
  <functional>
  <limits>
  <map>
  <memory>
  <optional>
  <span>
  <string>
  <utility>
  <vector>
)

# These sources tell users which version they have.
function(diffmj_build_version)
  if(DIFFMJ_BUILD_VERSION)
    set_property(
      SOURCE ${ARGN}
      APPEND
      PROPERTY COMPILE_DEFINITIONS "DIFFMJ_BUILD_VERSION=\"${DIFFMJ_BUILD_VERSION}\""
    )
  endif()
endfunction()

# diffmj_test(<name> SOURCES <file>... LABELS <label>...)
# One executable, one ctest. It may include the library's internal headers.
function(diffmj_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LABELS")
  add_executable(${name} ${arg_SOURCES})
  diffmj_compile_options(${name})
  target_link_libraries(${name} PRIVATE diffmj_test_base diffmj_harness GTest::gtest_main)
  diffmj_precompile(${name} REUSE_FROM diffmj_harness)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 600)
endfunction()

# diffmj_bench(<name> SOURCES <file>...)
# One executable of Google benchmark, on the models of the tests. It may include the library's
# internal headers.
function(diffmj_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  add_executable(${name} ${arg_SOURCES})
  diffmj_compile_options(${name})
  target_link_libraries(${name} PRIVATE diffmj_harness diffmj_test_base benchmark::benchmark_main)
  diffmj_precompile(${name} REUSE_FROM diffmj_harness)
endfunction()

# Sets <variable> to the directory of a Python package of DIFFMJ_PYTHON, or to "". Does not import it.
function(diffmj_python_package package variable)
  execute_process(
    COMMAND
      "${DIFFMJ_PYTHON}" -c
      "import importlib.util as u; s = u.find_spec('${package}'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE directory
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
  )
  set(${variable} "${directory}" PARENT_SCOPE)
endfunction()
