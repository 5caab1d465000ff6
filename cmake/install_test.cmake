# Installs the library from BUILD_DIR, then configures, builds and runs EXAMPLE_DIR against it.
set(prefix "${SCRATCH_DIR}/prefix")
set(binary_dir "${SCRATCH_DIR}/build")
file(REMOVE_RECURSE "${SCRATCH_DIR}")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
run(
  "${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${binary_dir}" -G "${GENERATOR}"
  "-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_PREFIX_PATH=${prefix}"
)
run("${CMAKE_COMMAND}" --build "${binary_dir}")
run("${binary_dir}/first_gradient")
if(EXISTS "${prefix}/bin/diffmj")
  run("${prefix}/bin/diffmj" --version)
endif()
