#include "router.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

namespace llama {
namespace {

constexpr uint64_t kFirstRoom = 1;
constexpr int kExitMs = 10000;

std::string side_failure(const char *side, const std::optional<Report> &report) {
    if (!report || report->state != KVF_STATE_FAILED)
        return {};
    return text("%s: %s: %s", side, kvf_status_name(report->code), report->message.c_str());
}

} // namespace

bool Outcome::over() const {
    const bool decode_failed = decode && decode->state == KVF_STATE_FAILED;
    return prefill && (done || decode_failed || !wrong.empty());
}

std::string Outcome::failure() const {
    const std::string a = side_failure("prefill", prefill), b = side_failure("decode", decode);
    if (a.empty() && b.empty())
        return wrong;
    return a.empty() || b.empty() ? a + b : a + "; " + b;
}

void Router::StopBootstrap::operator()(kvf_bootstrap *bootstrap) const {
    kvf_bootstrap_stop(bootstrap);
}

Router::Router(RouterOptions options) : options_(std::move(options)) {
    kvf_bootstrap *bootstrap = nullptr;
    if (const int status = kvf_bootstrap_start(nullptr, &bootstrap); status < 0)
        fail("kvf_bootstrap_start: %s: %s", kvf_status_name(status), kvf_last_error());
    bootstrap_.reset(bootstrap);
    options_.progress(text("bootstrap server at %s", kvf_bootstrap_address(bootstrap)));

    // Two seeds, so that a sequence has other pages on the two sides.
    start(prefill_, "prefill", options_.prefill_program, options_.prefill_pages, options_.seed);
    start(decode_, "decode", options_.decode_program, options_.decode_pages, options_.seed + 1);
    serve_until([this] { return prefill_.ready && decode_.ready; });
}

void Router::start(Peer &peer, const char *name, const std::string &program, uint32_t pages, uint64_t seed) {
    std::vector<std::string> arguments{"--model",        options_.model,
                                       "--bootstrap",    kvf_bootstrap_address(bootstrap_.get()),
                                       "--transport",    options_.transport,
                                       "--pages",        std::to_string(pages),
                                       "--slots",        std::to_string(options_.rooms),
                                       "--chunk-tokens", std::to_string(options_.chunk_tokens),
                                       "--seed",         std::to_string(seed)};
    if (!options_.transport_options.empty())
        arguments.insert(arguments.end(), {"--transport-options", options_.transport_options});
    peer.child.emplace(name, program, arguments);
    options_.progress(text("%s process %d has %u pages of %u tokens", name, peer.child->pid(), pages, kPageTokens));
}

std::vector<Outcome> Router::run(const std::vector<Request> &requests) {
    outcomes_.assign(requests.size(), {});
    for (size_t i = 0; i < requests.size(); ++i) {
        const Request &request = requests[i];
        outcomes_[i].room_id = kFirstRoom + i;
        std::string line = text("room %" PRIu64, outcomes_[i].room_id);
        for (const Token token : request.prompt)
            line += text(" %d", token);
        prefill_.child->say(line);
        decode_.child->say(text("room %" PRIu64 " %zu %u %d", outcomes_[i].room_id, request.prompt.size(),
                                request.limit.max_tokens, request.limit.stop));
    }
    serve_until([this] {
        return std::all_of(outcomes_.begin(), outcomes_.end(), [](const Outcome &outcome) { return outcome.over(); });
    });
    return std::move(outcomes_);
}

void Router::close() {
    for (Peer *peer : {&prefill_, &decode_}) {
        peer->child->say("end");
        peer->child->flush();
    }
    for (Peer *peer : {&prefill_, &decode_}) {
        const std::string end = peer->child->finish(kExitMs);
        if (!end.empty())
            fail("the %s process %s", peer->child->name().c_str(), end.c_str());
    }
}

// Carries lines both ways until done() holds.
template <typename Done>
void Router::serve_until(Done done) {
    Peer *const peers[] = {&prefill_, &decode_};
    while (!done()) {
        pollfd descriptors[std::size(peers)];
        for (size_t i = 0; i < std::size(peers); ++i) {
            const bool writes = peers[i]->child->wants_to_write();
            descriptors[i] = {peers[i]->child->fd(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0};
        }
        const int count = poll(descriptors, std::size(descriptors), options_.silence_ms);
        if (count < 0 && errno != EINTR)
            fail("poll: %s", std::strerror(errno));
        if (count == 0)
            fail("neither process said anything for %d ms; giving up", options_.silence_ms);
        for (size_t i = 0; i < std::size(peers) && count > 0; ++i) {
            if ((descriptors[i].revents & POLLOUT) != 0)
                peers[i]->child->flush();
            if ((descriptors[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                read(*peers[i]);
        }
    }
}

void Router::read(Peer &peer) {
    const bool open = peer.child->read_some();
    std::string line;
    while (peer.child->next(line))
        take_line(peer, line);
    if (!open) {
        const std::string end = peer.child->finish(kExitMs);
        fail("the %s process %s before its work was done", peer.child->name().c_str(),
             end.empty() ? "exited" : end.c_str());
    }
}

void Router::take_line(Peer &peer, const std::string &line) {
    Words words(line);
    const std::string_view kind = words.word();
    if (kind == "ready") {
        peer.ready = true;
        options_.progress(text("%s is ready", peer.child->name().c_str()));
    } else if (kind == "chunk") {
        ++outcome(words.number<uint64_t>()).chunks;
    } else if (kind == "token") {
        Outcome &room = outcome(words.number<uint64_t>());
        room.tokens.push_back(words.number<Token>());
    } else if (kind == "wrong") {
        Outcome &room = outcome(words.number<uint64_t>());
        room.wrong = words.rest();
    } else if (kind == "done") {
        outcome(words.number<uint64_t>()).done = true;
    } else if (kind == "report") {
        Report report = parse_report(words);
        Outcome &room = outcome(report.room_id);
        (&peer == &prefill_ ? room.prefill : room.decode) = std::move(report);
    } else {
        fail("the %s process said \"%.80s\", which is no line of the protocol", peer.child->name().c_str(),
             line.c_str());
    }
}

Outcome &Router::outcome(uint64_t room_id) {
    if (room_id < kFirstRoom || room_id - kFirstRoom >= outcomes_.size())
        fail("a process spoke of room %" PRIu64 ", expected %" PRIu64 " to %" PRIu64, room_id, kFirstRoom,
             kFirstRoom + outcomes_.size() - 1);
    return outcomes_[room_id - kFirstRoom];
}

} // namespace llama
