# Finds MuJoCo: headers and library of one release, in a Python wheel or in a prefix.
#
# Looks, in this order, in
#   1. MuJoCo_ROOT (variable or environment): a prefix with include/mujoco and lib/, or the directory
#      of the Python package `mujoco`, which has include/mujoco and the library side by side
#   2. the Python package `mujoco` of DIFFMJ_PYTHON, else of Python_EXECUTABLE, else of the first
#      python3 on the path; the package is located, not imported
#   3. the system's prefixes
#
# Defines
#   mujoco::mujoco       imported shared library with its headers
#   MuJoCo_VERSION       "4.0.0", read from mjVERSION_HEADER
#   MuJoCo_INCLUDE_DIR   holds mujoco/mujoco.h
#   MuJoCo_LIBRARY       the library of the same release
#
# Nothing is cached: another DIFFMJ_PYTHON or MuJoCo_ROOT takes effect at the next configure.

include(FindPackageHandleStandardArgs)

unset(_mujoco_hint)
unset(_mujoco_only)
if(MuJoCo_ROOT)
  set(_mujoco_hint "${MuJoCo_ROOT}")
  set(_mujoco_only NO_DEFAULT_PATH)
elseif(DEFINED ENV{MuJoCo_ROOT})
  set(_mujoco_hint "$ENV{MuJoCo_ROOT}")
  set(_mujoco_only NO_DEFAULT_PATH)
else()
  if(DIFFMJ_PYTHON)
    set(_mujoco_python "${DIFFMJ_PYTHON}")
  elseif(Python_EXECUTABLE)
    set(_mujoco_python "${Python_EXECUTABLE}")
  else()
    find_program(_mujoco_python NAMES python3 python NO_CACHE)
  endif()
  if(_mujoco_python)
    execute_process(
      COMMAND
        "${_mujoco_python}" -c
        "import importlib.util as u; s = u.find_spec('mujoco'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _mujoco_hint
      OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET
    )
  endif()
endif()

find_path(
  MuJoCo_INCLUDE_DIR
  NAMES mujoco/mujoco.h
  HINTS "${_mujoco_hint}"
  PATH_SUFFIXES include ${_mujoco_only} NO_CACHE
)

unset(MuJoCo_VERSION)
unset(MuJoCo_LIBRARY)
if(MuJoCo_INCLUDE_DIR)
  file(
    STRINGS "${MuJoCo_INCLUDE_DIR}/mujoco/mujoco.h"
    _mujoco_line
    REGEX "define +mjVERSION_HEADER +[0-9]+"
  )
  string(REGEX MATCH "[0-9]+$" _mujoco_number "${_mujoco_line}")
  if(_mujoco_number GREATER_EQUAL 1000000) # 3017000: 3.17.0
    math(EXPR _mujoco_major "${_mujoco_number} / 1000000")
    math(EXPR _mujoco_minor "${_mujoco_number} / 1000 % 1000")
    math(EXPR _mujoco_patch "${_mujoco_number} % 1000")
  elseif(_mujoco_number) # 331: 3.3.1, until 3.9
    math(EXPR _mujoco_major "${_mujoco_number} / 100")
    math(EXPR _mujoco_minor "${_mujoco_number} / 10 % 10")
    math(EXPR _mujoco_patch "${_mujoco_number} % 10")
  endif()
  if(_mujoco_number)
    set(MuJoCo_VERSION "${_mujoco_major}.${_mujoco_minor}.${_mujoco_patch}")
  endif()

  # the library beside the headers that were found, never one of another release
  get_filename_component(_mujoco_prefix "${MuJoCo_INCLUDE_DIR}" DIRECTORY)
  if(APPLE)
    set(_mujoco_names "libmujoco.${MuJoCo_VERSION}.dylib" libmujoco.dylib)
  else()
    set(_mujoco_names "libmujoco.so.${MuJoCo_VERSION}" libmujoco.so)
  endif()
  foreach(_mujoco_name IN LISTS _mujoco_names)
    foreach(_mujoco_dir . lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
      if(NOT MuJoCo_LIBRARY AND EXISTS "${_mujoco_prefix}/${_mujoco_dir}/${_mujoco_name}")
        file(REAL_PATH "${_mujoco_prefix}/${_mujoco_dir}/${_mujoco_name}" MuJoCo_LIBRARY)
      endif()
    endforeach()
  endforeach()
endif()

find_package_handle_standard_args(
  MuJoCo
  REQUIRED_VARS MuJoCo_LIBRARY MuJoCo_INCLUDE_DIR
  VERSION_VAR MuJoCo_VERSION
  REASON_FAILURE_MESSAGE
    "Install the Python package `mujoco` and name its interpreter (-DDIFFMJ_PYTHON=...), or name a prefix (-DMuJoCo_ROOT=...)."
)

if(MuJoCo_FOUND AND NOT TARGET mujoco::mujoco)
  add_library(mujoco::mujoco SHARED IMPORTED)
  set_target_properties(
    mujoco::mujoco
    PROPERTIES
      IMPORTED_LOCATION "${MuJoCo_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${MuJoCo_INCLUDE_DIR}"
  )
endif()
