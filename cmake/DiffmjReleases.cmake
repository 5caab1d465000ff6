# A wheel for several releases of MuJoCo: the extension and the program of this project once more for
# each of DIFFMJ_MUJOCO_ROOTS, a list of MuJoCo_ROOTs (FindMuJoCo.cmake) of further releases.
# scripts/fetch_mujoco.py provides them. Every release is a build of its own, one after the other.
set(DIFFMJ_MUJOCO_ROOTS "" CACHE STRING "MuJoCos of further releases that a wheel is built for")

include(ExternalProject)

set(number 0)
string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
set(previous _diffmj diffmj_cli)
foreach(root IN LISTS DIFFMJ_MUJOCO_ROOTS)
  math(EXPR number "${number} + 1")
  set(name "diffmj_release_${number}")
  # beside this build: ccache then finds what another build at that depth has compiled
  set(binary_dir "${PROJECT_BINARY_DIR}-${number}")
  ExternalProject_Add(
    ${name}
    SOURCE_DIR "${PROJECT_SOURCE_DIR}"
    BINARY_DIR "${binary_dir}"
    CMAKE_ARGS
      # which Python, and where its headers are, as scikit-build-core has found them
      -C "${PROJECT_BINARY_DIR}/CMakeInit.txt"
      -DSKBUILD_SCRIPTS_DIR= # the program is installed once
      "-DMuJoCo_ROOT=${root}" "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}"
      "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
      "-DCMAKE_CXX_FLAGS_${config}=${CMAKE_CXX_FLAGS_${config}}" -DDIFFMJ_BUILD_CLI=ON
      -DDIFFMJ_BUILD_PYTHON=ON -DDIFFMJ_BUILD_JAX=OFF -DDIFFMJ_BUILD_STUB=OFF
      "-DDIFFMJ_BUILD_VERSION=${DIFFMJ_BUILD_VERSION}" "-DDIFFMJ_WERROR=${DIFFMJ_WERROR}"
    BUILD_ALWAYS ON
    USES_TERMINAL_BUILD ON
    INSTALL_COMMAND ""
    DEPENDS ${previous}
  )
  set(previous ${name})
  install(
    CODE
      "execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${binary_dir}\" --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)"
  )
endforeach()
