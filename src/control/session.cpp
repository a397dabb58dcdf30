// A session's greeting, layouts and liveness. The choice of a transport is in session_transport.cpp.
#include "control/session.h"

#include "base/clock.h"
#include "base/log.h"

#include <algorithm>

namespace kvf {
namespace {

constexpr uint64_t kHelloDeadline = 10'000 * kNanosPerMilli;
constexpr uint64_t kAgreeDeadline = 60'000 * kNanosPerMilli; // from the first look at a session that is agreeing
constexpr uint32_t kMostMisses = 2;

const char *state_text(Session::State state) {
    switch (state) {
        case Session::State::hello:
            return "before HELLO";
        case Session::State::layout:
            return "before both LAYOUTs";
        case Session::State::regions:
            return "before both REGIONS";
        case Session::State::choosing:
            return "during the choice of a transport";
        case Session::State::ready:
            return "after READY";
        default:
            return "after a refusal";
    }
}

const char *role_text(uint32_t role) {
    return role == KVF_ROLE_PREFILL ? "prefill" : (role == KVF_ROLE_DECODE ? "decode" : "prefill and decode");
}

} // namespace

Session::Session(Side side, HelloMessage self, std::string address, ExportsRef exports, uint64_t heartbeat_ns,
                 uint64_t now, SendFn send)
    : side_(side),
      self_(std::move(self)),
      heartbeat_ns_(heartbeat_ns),
      hello_by_(now + kHelloDeadline),
      send_(std::move(send)),
      peer_name_(std::move(address)),
      exports_(std::move(exports)),
      heard_at_(now) {}

Status Session::start() {
    return send_(self_);
}

Status Session::handle(WireMessage &&message) {
    return std::visit([this](auto &&it) { return on(std::forward<decltype(it)>(it)); }, std::move(message));
}

template <typename RoomMessage>
Status Session::on(RoomMessage &&) {
    return fail(KVF_ERR_INTERNAL, "a room's message was given to the handshake");
}

Status Session::out_of_order(const char *message) const {
    return fail(KVF_ERR_PROTOCOL, "%s sent %s %s", peer_name_.c_str(), message, state_text(state_));
}

// ------------------------------------------------------------------------------------------------------- greeting

Status Session::on(HelloMessage &&hello) {
    if (state_ != State::hello)
        return out_of_order("HELLO");
    if (!hello.name.empty())
        peer_name_ = hello.name + " (" + peer_name_ + ")";
    peer_hello_ = std::move(hello);
    if (Status status = check_hello(peer_hello_); !status.ok())
        return status;
    if (side_ == Side::acceptor)
        if (Status status = send_(self_); !status.ok())
            return status;
    state_ = State::layout;
    return side_ == Side::dialer ? send_layout() : Status();
}

Status Session::check_hello(const HelloMessage &hello) const {
    if (hello.version_min > self_.version_max || hello.version_max < self_.version_min)
        return fail(KVF_ERR_UNSUPPORTED, "%s speaks wire versions %u to %u, %s speaks %u to %u", peer_name_.c_str(),
                    hello.version_min, hello.version_max, self_.name.c_str(), self_.version_min, self_.version_max);
    if (const uint64_t unknown = hello.required_features & ~self_.features; unknown != 0)
        return fail(KVF_ERR_UNSUPPORTED, "%s requires the features 0x%llx, which %s does not have", peer_name_.c_str(),
                    static_cast<unsigned long long>(unknown), self_.name.c_str());
    if (hello.instance == self_.instance)
        return fail(KVF_ERR_INVALID, "%s was dialed by itself", self_.name.c_str());
    const uint32_t needed = side_ == Side::dialer ? KVF_ROLE_PREFILL : KVF_ROLE_DECODE;
    if ((hello.role & needed) == 0)
        return fail(KVF_ERR_INVALID, "%s has the role %s, where %s is needed", peer_name_.c_str(),
                    role_text(hello.role), role_text(needed));
    const uint32_t ours = side_ == Side::dialer ? KVF_ROLE_DECODE : KVF_ROLE_PREFILL;
    if ((self_.role & ours) == 0)
        return fail(KVF_ERR_INVALID, "%s has the role %s, where %s is needed", self_.name.c_str(),
                    role_text(self_.role), role_text(ours));
    return {};
}

Status Session::on(ByeMessage &&bye) {
    if (bye.later) {
        retiring_ = true;
        return {};
    }
    return {bye.cause.code, peer_name_ + ": " + bye.cause.sentence};
}

// -------------------------------------------------------------------------------------------------------- layouts

Status Session::send_layout() {
    if (!exports_->registered())
        return {};
    told_.push_back(exports_);
    told_version_ = exports_->layout->version;
    return send_(exports_->layout_message(0));
}

Status Session::on(LayoutMessage &&told) {
    if (state_ == State::hello)
        return out_of_order("LAYOUT");
    if (theirs_ && told.layout.version < theirs_->layout.version)
        return fail(KVF_ERR_PROTOCOL, "%s sent version %llu of its layout after %llu", peer_name_.c_str(),
                    static_cast<unsigned long long>(told.layout.version),
                    static_cast<unsigned long long>(theirs_->layout.version));
    if (state_ == State::ready || state_ == State::refused)
        return layout_update(std::move(told));
    if (state_ != State::layout) // the dialer's, sent before it knew which one counts; it comes again when ready
        return side_ == Side::acceptor ? Status() : out_of_order("LAYOUT");
    theirs_ = std::move(told);
    if (side_ == Side::acceptor)
        return pair_layouts();
    const auto compared =
        std::ranges::find(told_, theirs_->compared, [](const auto &it) { return it->layout->version; });
    if (compared == told_.end())
        return fail(KVF_ERR_PROTOCOL, "%s compared with version %llu of the layout of %s, which was not sent",
                    peer_name_.c_str(), static_cast<unsigned long long>(theirs_->compared), self_.name.c_str());
    paired_ = *compared;
    told_version_ = paired_->layout->version; // later ones were not taken
    told_.clear();
    return compare_and_go_on();
}

// The acceptor's step once both layouts may be there.
Status Session::pair_layouts() {
    if (!theirs_ || !exports_->registered())
        return {};
    paired_ = exports_;
    told_version_ = paired_->layout->version;
    if (Status status = send_(paired_->layout_message(theirs_->layout.version)); !status.ok())
        return status;
    return compare_and_go_on();
}

Status Session::compare_and_go_on() {
    if (Status status = compare_layouts(*paired_->layout, self_.name, theirs_->layout, peer_name_); !status.ok()) {
        refuse(status.code(), status.sentence());
        return {};
    }
    state_ = State::regions;
    return send_(paired_->regions_message());
}

Status Session::layout_update(LayoutMessage &&told) {
    theirs_ = std::move(told);
    keys_.reset(); // of the layout before; what belongs to this one follows
    if (state_ == State::refused)
        changed_ = true;
    return {};
}

Status Session::exports_changed(ExportsRef exports) {
    exports_ = std::move(exports);
    switch (state_) {
        case State::layout:
            return side_ == Side::dialer ? send_layout() : pair_layouts();
        case State::refused:
            changed_ = true;
            return exports_->registered() ? send_(exports_->layout_message(0)) : Status();
        case State::ready:
            return tell_update();
        default: // during the handshake it stays as it began
            return {};
    }
}

Status Session::tell_update() {
    if (told_version_ == exports_->layout->version)
        return {};
    told_version_ = exports_->layout->version;
    if (Status status = send_(exports_->layout_message(0)); !status.ok())
        return status;
    if (Status status = send_(exports_->regions_message()); !status.ok())
        return status;
    rebuild_routes();
    return {};
}

// --------------------------------------------------------------------------------------------------- room messages

Status Session::admit(const WireMessage &message) {
    const bool abort = std::holds_alternative<AbortMessage>(message);
    const bool from_dialer = abort || std::holds_alternative<OfferMessage>(message);
    const bool any_time = abort || std::holds_alternative<DrainedMessage>(message);
    const bool in_time = any_time ? state_ != State::hello : state_ == State::ready;
    if (!in_time || from_dialer != (side_ == Side::acceptor))
        return out_of_order(kMessageNames[message.index()]);
    return {};
}

// -------------------------------------------------------------------------------------------------------- liveness

void Session::heard(uint64_t now) {
    heard_at_ = now;
    asked_ = 0;
}

Status Session::on(HeartbeatMessage &&heartbeat) {
    if (state_ == State::hello)
        return out_of_order("HEARTBEAT");
    return heartbeat.ask ? send_(HeartbeatMessage{false}) : Status();
}

uint64_t Session::next_deadline() const {
    const uint64_t ask_at = (asked_ == 0 ? heard_at_ : asked_at_) + heartbeat_ns_;
    return state_ == State::hello ? hello_by_ : std::min(ask_at, agree_by_);
}

Status Session::tick(uint64_t now) {
    if (!agreeing())
        agree_by_ = kNever;
    else if (agree_by_ == kNever)
        agree_by_ = now + kAgreeDeadline;
    if (now < next_deadline())
        return {};
    if (now >= agree_by_)
        return fail(KVF_ERR_PEER_SILENT, "%s did not come to an end of the handshake within %llu s", peer_name_.c_str(),
                    static_cast<unsigned long long>(kAgreeDeadline / (1000 * kNanosPerMilli)));
    if (state_ == State::hello)
        return fail(KVF_ERR_PEER_SILENT, "%s did not say HELLO within %llu s", peer_name_.c_str(),
                    static_cast<unsigned long long>(kHelloDeadline / (1000 * kNanosPerMilli)));
    if (asked_ >= kMostMisses)
        return fail(KVF_ERR_PEER_SILENT, "%s has not answered for %llu ms", peer_name_.c_str(),
                    static_cast<unsigned long long>((now - heard_at_) / kNanosPerMilli));
    ++asked_;
    asked_at_ = now;
    return send_(HeartbeatMessage{true});
}

std::string Session::waits_for() const {
    if (state_ != State::layout)
        return "";
    return (exports_->registered() ? peer_name_ : self_.name) + " has not registered its tensors";
}

} // namespace kvf
