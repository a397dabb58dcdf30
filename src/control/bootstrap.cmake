# The bootstrap server and its client. Asio's pragmas would give its exception types and services default visibility;
# a second copy of Asio in the process must never meet them.
target_compile_definitions(kvf_core PUBLIC BOOST_ASIO_DISABLE_VISIBILITY BOOST_ASIO_SEPARATE_COMPILATION
  BOOST_BEAST_SEPARATE_COMPILATION)
target_sources(kvf_core PRIVATE
  bootstrap_address.cpp
  bootstrap_client.cpp
  bootstrap_json.cpp
  bootstrap_messages.cpp
  bootstrap_ranks.cpp
  bootstrap_registry.cpp
  bootstrap_request.cpp
  bootstrap_rooms.cpp
  bootstrap_server.cpp
  bootstrap_session.cpp)
# GCC warns that its thread sanitizer does not see Asio's fences; those stand beside a mutex, which it does see.
if(KVF_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(kvf_core PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
endif()
