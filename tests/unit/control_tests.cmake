# Tests of src/control. Their transports are plugins whose operations are the test program's own.
foreach(name fake other)
  add_library(control_${name}_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/control_fake_plugin.c)
  set_target_properties(control_${name}_plugin PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test-plugins/control)
  target_compile_definitions(control_${name}_plugin PRIVATE FAKE_NAME="${name}" _GNU_SOURCE)
  target_include_directories(control_${name}_plugin PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(control_${name}_plugin PRIVATE kvf_warnings ${CMAKE_DL_LIBS})
endforeach()

# kvf_control_test(NAME SOURCES...): a unit test with the fake transport in it.
function(kvf_control_test name)
  kvf_unit_test(${name} ${ARGN} control_fake_transport.cpp)
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  target_compile_definitions(${name} PRIVATE FAKE_PLUGIN_FOLDER="${PROJECT_BINARY_DIR}/test-plugins/control")
  add_dependencies(${name} control_fake_plugin control_other_plugin)
endfunction()

kvf_unit_test(control_releases control_releases.cpp)
kvf_unit_test(wire_codec wire_codec.cpp)
target_include_directories(wire_codec PRIVATE ${PROJECT_BINARY_DIR}/src/control) # wire_generated.h
kvf_unit_test(wire_frames wire_frames.cpp)

foreach(name control_handshake control_protocol control_peers control_seeks control_settle control_thread)
  kvf_control_test(${name} ${name}.cpp control_harness.cpp)
endforeach()
