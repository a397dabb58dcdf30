#include "second_process.h"

#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>

#include "benchmarks.h"

extern char **environ;

namespace bench {
namespace {

constexpr int kChannelFd = 3;
constexpr int kLastWordsMs = 20'000;

// Whether the process ended within the time. Through a descriptor, which is readable at its end.
bool ends_within(pid_t pid, int timeout_ms) {
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0)
        return false;
    pollfd waiting{fd, POLLIN, 0};
    int count = 0;
    do {
        count = poll(&waiting, 1, timeout_ms);
    } while (count < 0 && errno == EINTR);
    close(fd);
    return count > 0;
}

int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

struct Job {
    const char *name;
    void (*serve)(Channel &);
};

constexpr Job kJobs[] = {{"rooms", serve_rooms}, {"shm", serve_shm}, {"serving", serve_serving}};

} // namespace

SecondProcess::SecondProcess(const std::string &job) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair: %s", std::strerror(errno));
    channel_ = std::make_unique<Channel>(ends[0]);

    // The parent's number goes along, so that a child whose parent is gone already can tell.
    std::string parent = std::to_string(getpid());
    std::string words[] = {"kvferry", "bench-second-process", job, parent};
    char *arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, ends[1], kChannelFd);
        if (error == 0)
            error = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (error != 0) {
        pid_ = -1;
        fail("starting a second process: %s", std::strerror(error));
    }
}

SecondProcess::~SecondProcess() {
    if (pid_ < 0)
        return;
    kill(pid_, SIGKILL);
    reap(pid_);
}

void SecondProcess::finish() {
    channel_->say("end");
    if (!ends_within(pid_, kLastWordsMs))
        fail("the second process did not end within %d s", kLastWordsMs / 1000);
    const int status = reap(pid_);
    pid_ = -1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("the second process ended badly, with wait status 0x%x", static_cast<unsigned>(status));
}

void obey(Channel &channel, std::initializer_list<Order> orders) {
    for (std::string line = channel.hear(); line != "end"; line = channel.hear()) {
        const std::string word = line.substr(0, line.find(' '));
        const auto *const order =
            std::find_if(orders.begin(), orders.end(), [&](const Order &known) { return known.word == word; });
        if (order == orders.end())
            fail("\"%.80s\" is no order that this process knows", line.c_str());
        order->run(numbers(std::string_view(line).substr(std::min(line.size(), word.size() + 1))));
    }
}

int run_second_process(const std::string &name, int parent) {
    // The kernel ends this process when the thread that started it ends, which is the parent's main thread.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "kvferry-prefill");
    if (getppid() != parent)
        return 1;
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(kChannelFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        fail("this command is for `kvferry bench` to start, not for people");
    Channel channel(kChannelFd);
    const auto *const job =
        std::find_if(std::begin(kJobs), std::end(kJobs), [&](const Job &known) { return known.name == name; });
    if (job == std::end(kJobs))
        fail("there is no job %s", name.c_str());
    job->serve(channel);
    return 0;
}

} // namespace bench
