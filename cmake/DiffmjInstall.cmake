# Two layouts: a Python wheel (scikit-build-core sets SKBUILD), or a prefix.

if(APPLE)
  set(origin "@loader_path")
else()
  set(origin "$ORIGIN")
endif()

if(SKBUILD)
  # site-packages/diffmj/_releases/4.0.0/_diffmj.so and bin/diffmj there, beside
  # site-packages/mujoco; a wheel carries no path of the machine it was made on
  set(release_dir "diffmj/_releases/${MuJoCo_VERSION}")
  if(TARGET _diffmj)
    set_target_properties(_diffmj PROPERTIES INSTALL_RPATH "${origin}/../../../mujoco")
    install(TARGETS _diffmj LIBRARY DESTINATION "${release_dir}")
    install(FILES ${DIFFMJ_PYTHON_GENERATED} DESTINATION diffmj OPTIONAL)
  endif()
  if(TARGET _diffmj_jax)
    install(TARGETS _diffmj_jax LIBRARY DESTINATION diffmj)
  endif()
  if(TARGET diffmj_cli)
    set_target_properties(diffmj_cli PROPERTIES INSTALL_RPATH "${origin}/../../../../mujoco")
    install(TARGETS diffmj_cli RUNTIME DESTINATION "${release_dir}/bin")
    if(SKBUILD_SCRIPTS_DIR)
      install(PROGRAMS python/scripts/diffmj DESTINATION "${SKBUILD_SCRIPTS_DIR}")
    endif()
  endif()
  include(DiffmjReleases)
  return()
endif()

include(CMakePackageConfigHelpers)

get_filename_component(mujoco_dir "${MuJoCo_LIBRARY}" DIRECTORY)
file(RELATIVE_PATH lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set(rpath "${origin}" "${origin}/${lib_from_bin}" "${mujoco_dir}")

set_target_properties(diffmj PROPERTIES INSTALL_RPATH "${rpath}")
install(TARGETS diffmj EXPORT diffmjTargets)
if(TARGET diffmj_cli)
  set_target_properties(diffmj_cli PROPERTIES INSTALL_RPATH "${rpath}")
  install(TARGETS diffmj_cli)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/diffmj" TYPE INCLUDE)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/diffmj")
install(EXPORT diffmjTargets NAMESPACE diffmj:: DESTINATION "${package_dir}")
get_filename_component(DIFFMJ_MUJOCO_PREFIX "${MuJoCo_INCLUDE_DIR}" DIRECTORY)
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/diffmjConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cmake/diffmjConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/cmake/diffmjConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion
)
install(
  FILES
    "${PROJECT_BINARY_DIR}/cmake/diffmjConfig.cmake"
    "${PROJECT_BINARY_DIR}/cmake/diffmjConfigVersion.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/FindMuJoCo.cmake"
  DESTINATION "${package_dir}"
)
