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
