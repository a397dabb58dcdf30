#include "child.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char **environ;

namespace llama {
namespace {

// Starts the program with the descriptor as its standard input and output; 0 or an error number. Not by fork: the
// caller may have threads.
int spawn(const std::string &program, const std::vector<std::string> &arguments, int descriptor, pid_t &pid) {
    std::vector<char *> words{const_cast<char *>(program.c_str())};
    for (const std::string &argument : arguments)
        words.push_back(const_cast<char *>(argument.c_str()));
    words.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) {
        if (error == 0)
            error = posix_spawn_file_actions_adddup2(&actions, descriptor, standard);
    }
    if (error == 0)
        error = posix_spawn(&pid, program.c_str(), &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Whether the process ended within the time. Through a descriptor, which is readable at its end.
bool ends_within(pid_t pid, int timeout_ms) {
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (descriptor < 0)
        fail("pidfd_open of process %d: %s", pid, std::strerror(errno));
    pollfd waiting = {descriptor, POLLIN, 0};
    int count = 0;
    do {
        count = poll(&waiting, 1, timeout_ms);
    } while (count < 0 && errno == EINTR);
    close(descriptor);
    return count > 0;
}

} // namespace

Child::Child(std::string name, const std::string &program, const std::vector<std::string> &arguments)
    : name_(std::move(name)) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair: %s", std::strerror(errno));
    socket_ = ends[0];
    reader_ = LineReader(socket_);
    const int error = spawn(program, arguments, ends[1], pid_);
    close(ends[1]);
    if (error != 0) {
        close(socket_);
        fail("starting %s: %s", program.c_str(), std::strerror(error));
    }
}

Child::~Child() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        reap();
    }
    close(socket_);
}

void Child::say(const std::string &line) {
    unsent_ += line + '\n';
}

void Child::flush() {
    const ssize_t count = send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0)
        unsent_.erase(0, static_cast<size_t>(count));
    else if (errno == EPIPE || errno == ECONNRESET)
        unsent_.clear(); // it is gone, as reading from it tells in better words
    else if (errno != EAGAIN && errno != EINTR)
        fail("writing to the %s process: %s", name_.c_str(), std::strerror(errno));
}

std::string Child::finish(int timeout_ms) {
    if (ends_within(pid_, timeout_ms))
        return reap();
    kill(pid_, SIGKILL);
    reap();
    return text("did not end within %d ms and was killed", timeout_ms);
}

std::string Child::reap() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (WIFSIGNALED(status))
        return text("was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return text("exited with status %d", WEXITSTATUS(status));
    return {};
}

} // namespace llama
