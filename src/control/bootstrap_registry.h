// The bootstrap server without its sockets: the table of a prefill group's ranks, the dp ranks of rooms, and the
// routes that fill and read them.
#pragma once

#include "control/bootstrap_rooms.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kvf {

class BootstrapRanks;

// Not for use by two threads at once.
class BootstrapRegistry {
  public:
    struct Reply {
        unsigned status = 200;
        std::string body;
        std::string content_type = "text/plain; charset=utf-8";
        std::string allow; // the methods that a 405 names
    };

    // The table keeps the dp ranks of max_rooms rooms and drops the oldest beyond.
    explicit BootstrapRegistry(uint32_t max_rooms);
    ~BootstrapRegistry();
    BootstrapRegistry(const BootstrapRegistry &) = delete;
    BootstrapRegistry &operator=(const BootstrapRegistry &) = delete;

    // Answers one HTTP request. method is in capitals, target as in the request line. A HEAD is answered as a GET;
    // leaving out the body is up to the caller.
    Reply handle(std::string_view method, std::string_view target, std::string_view body) noexcept;

  private:
    Reply route(std::string_view method, std::string_view path, std::string_view query, std::string_view body);
    Reply put_rank(std::string_view body);
    Reply get_route(std::string_view query) const;
    Reply put_room(std::string_view body);
    Reply get_rooms(std::string_view body) const;

    std::unique_ptr<BootstrapRanks> ranks_;
    BootstrapRooms rooms_;
};

} // namespace kvf
