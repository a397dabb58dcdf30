# The model of examples/llama, without kvferry: what the demo's answers rest on.
if(NOT TARGET kvf_llama)
  return()
endif()
find_package(GTest REQUIRED)

foreach(name checkpoint lines pages recall tokenizer)
  add_executable(llama_${name} llama_${name}.cpp)
  target_compile_definitions(llama_${name} PRIVATE KVF_LLAMA_SOURCE_MODEL="${PROJECT_SOURCE_DIR}/examples/llama/model")
  target_link_libraries(llama_${name} PRIVATE kvf_llama kvf_llama_lines kvf_warnings GTest::gtest_main)
  set_target_properties(llama_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/integration)
  add_test(NAME integration.llama_${name} COMMAND llama_${name})
  set_tests_properties(integration.llama_${name} PROPERTIES TIMEOUT 120 LABELS integration)
endforeach()
