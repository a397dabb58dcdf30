# The command `kvferry`, run as users run it.
if(NOT TARGET kvferry-tool)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# kvf_tool_test(NAME TEST): TEST of tool_command.py.
function(kvf_tool_test name test)
  add_test(NAME tool.${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tool_command.py $<TARGET_FILE:kvferry-tool> ${test})
  set_tests_properties(tool.${name} PROPERTIES TIMEOUT 300 LABELS tool)
endfunction()

kvf_tool_test(info_lists_version_configuration_and_plugins Info.test_lists_version_configuration_and_plugins)
kvf_tool_test(info_is_one_json_object_on_request Info.test_is_one_json_object_on_request)
kvf_tool_test(info_tells_why_a_plugin_is_refused Info.test_tells_why_a_plugin_is_refused)
kvf_tool_test(bootstrap_answers_at_the_address_that_it_prints Bootstrap.test_answers_at_the_address_that_it_prints)
kvf_tool_test(bootstrap_ends_well_by_a_signal Bootstrap.test_ends_well_by_a_signal)
kvf_tool_test(bootstrap_says_that_its_port_is_taken Bootstrap.test_says_that_its_port_is_taken)
kvf_tool_test(bench_poll Bench.test_poll)
kvf_tool_test(bench_enqueue Bench.test_enqueue)
kvf_tool_test(bench_rooms Bench.test_rooms)
kvf_tool_test(bench_shm Bench.test_shm)
kvf_tool_test(bench_serving_finds_every_room_and_page_right Bench.test_serving_finds_every_room_and_page_right)
kvf_tool_test(bench_serving_one_room_beside_memcpy Bench.test_serving_one_room_beside_memcpy)
kvf_tool_test(bench_is_a_table_otherwise Bench.test_is_a_table_otherwise)
kvf_tool_test(bench_second_process_does_not_outlive_the_first Bench.test_second_process_does_not_outlive_the_first)
kvf_tool_test(wrong_usage_fails_with_a_sentence Usage.test_wrong_usage_fails_with_a_sentence)
kvf_tool_test(second_process_is_not_for_people Usage.test_second_process_is_not_for_people)
