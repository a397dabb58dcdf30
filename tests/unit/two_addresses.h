// A host name with two addresses, 127.0.0.2 and 127.0.0.1, and a way to make one of them not answer. For one source of
// a program: it has the program's getaddrinfo.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>
#include <vector>

// The system's, but for one name that has two addresses.
extern "C" int getaddrinfo(const char *host, const char *service, const addrinfo *hints, addrinfo **out) {
    using Fn = int (*)(const char *, const char *, const addrinfo *, addrinfo **);
    static const auto system = reinterpret_cast<Fn>(dlsym(RTLD_NEXT, "getaddrinfo"));
    if (host == nullptr || std::string_view(host) != "two.addresses")
        return system(host, service, hints, out);
    if (const int rc = system("127.0.0.2", service, hints, out); rc != 0)
        return rc;
    addrinfo *last = *out;
    while (last->ai_next != nullptr)
        last = last->ai_next;
    return system("127.0.0.1", service, hints, &last->ai_next);
}

namespace kvf::test {

// A listener whose queue is full: connections wait without a word.
class Silent {
  public:
    Silent(const char *host, uint16_t port) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(port);
        inet_pton(AF_INET, host, &name.sin_addr);
        const auto *any = reinterpret_cast<const sockaddr *>(&name);
        fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(bind(fds_[0], any, sizeof name), 0);
        EXPECT_EQ(listen(fds_[0], 0), 0);
        for (int i = 0; i < 8; ++i) {
            fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            (void)connect(fds_.back(), any, sizeof name);
        }
    }
    ~Silent() {
        for (const int fd : fds_)
            close(fd);
    }

  private:
    std::vector<int> fds_;
};

} // namespace kvf::test
