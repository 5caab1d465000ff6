# Installs the library from BUILD_DIR, then configures, builds and runs EXAMPLE_DIR against it.
set(prefix "${SCRATCH_DIR}/prefix")
set(binary_dir "${SCRATCH_DIR}/build")
file(REMOVE_RECURSE "${SCRATCH_DIR}")

execute_process(
  COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}"
  COMMAND_ERROR_IS_FATAL ANY
)
execute_process(
  COMMAND
    "${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${binary_dir}" -G "${GENERATOR}"
    "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_PREFIX_PATH=${prefix}"
  COMMAND_ERROR_IS_FATAL ANY
)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${binary_dir}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${binary_dir}/first_gradient" COMMAND_ERROR_IS_FATAL ANY)
if(EXISTS "${prefix}/bin/diffmj")
  execute_process(COMMAND "${prefix}/bin/diffmj" --version COMMAND_ERROR_IS_FATAL ANY)
endif()
