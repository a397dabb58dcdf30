#include "resident.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>

#include "samples.h"

namespace bench {
namespace {

// The sum of fields of a file of /proc whose lines are "Name:   123 kB".
uint64_t sum_of(const char *path, std::initializer_list<const char *> names) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "re"), std::fclose);
    uint64_t sum = 0;
    char line[256];
    while (file && std::fgets(line, sizeof line, file.get())) {
        for (const char *name : names) {
            const size_t length = std::strlen(name);
            if (std::strncmp(line, name, length) == 0 && line[length] == ':')
                sum += std::strtoull(line + length + 1, nullptr, 10) * 1024;
        }
    }
    return sum;
}

} // namespace

uint64_t resident_bytes() {
    return sum_of("/proc/self/status", {"RssAnon", "RssFile"});
}

uint64_t available_bytes() {
    return sum_of("/proc/meminfo", {"MemAvailable"});
}

ResidentWatch::ResidentWatch() : before_(resident_bytes()), peak_(before_) {
    thread_ = std::thread([this] {
        const timespec pause{0, 20'000'000};
        while (!stop_) {
            peak_ = std::max(peak_.load(), resident_bytes());
            nanosleep(&pause, nullptr);
        }
    });
}

void ResidentWatch::stop() {
    stop_ = true;
    if (thread_.joinable())
        thread_.join();
}

} // namespace bench
