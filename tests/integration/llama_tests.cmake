# The model of examples/llama, alone; and its router and demonstration, over the library.
if(NOT TARGET kvf_llama)
  return()
endif()
find_package(GTest REQUIRED)

function(kvf_llama_test name folder)
  add_executable(llama_${name} llama_${name}.cpp)
  target_link_libraries(llama_${name} PRIVATE ${ARGN} kvf_warnings GTest::gtest_main)
  set_target_properties(llama_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/${folder})
  add_test(NAME integration.llama_${name} COMMAND llama_${name})
  set_tests_properties(integration.llama_${name} PROPERTIES TIMEOUT 300 LABELS integration)
endfunction()

foreach(name checkpoint lines pages recall tokenizer)
  kvf_llama_test(${name} integration kvf_llama kvf_llama_lines)
  target_compile_definitions(llama_${name} PRIVATE KVF_LLAMA_SOURCE_MODEL="${PROJECT_SOURCE_DIR}/examples/llama/model")
endforeach()

if(TARGET kvf_llama_demo)
  kvf_llama_test(child integration kvf_llama_demo)
  kvf_llama_test(router integration kvf_llama_demo)
  kvf_llama_test(demo "" kvf_llama_demo) # beside the two programs that it starts
  add_dependencies(llama_demo kvferry-llama-prefill kvferry-llama-decode)
  foreach(plugin shm fault)
    if(TARGET kvf_plugin_${plugin})
      add_dependencies(llama_demo kvf_plugin_${plugin})
    endif()
  endforeach()
  set_tests_properties(integration.llama_demo PROPERTIES
    ENVIRONMENT KVF_PLUGIN_PATH=${KVF_PLUGIN_OUTPUT_DIRECTORY})
endif()
