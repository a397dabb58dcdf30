#include "background.h"

#include <deque>

#include "random.h"

namespace bench {
namespace {

constexpr uint32_t kGroup = 1000;
constexpr size_t kPageBytes = 1 << 20;
// Enough that every shard has some, wherever the ids are dealt to.
constexpr size_t kInFlight = 16;
// Apart from those of what is measured.
constexpr uint64_t kFirstId = uint64_t{1} << 40;

} // namespace

Background::~Background() {
    stop_ = true;
    if (thread_.joinable())
        thread_.join();
}

kvf_tensor Background::tensor_of(Engine &engine) const {
    return tensor(kGroup, 0, engine.allocate(pages_ * kPageBytes), pages_, kPageBytes);
}

Background::Pair Background::begin(uint64_t id) {
    Pair out;
    out.sender = prefill_.open_sender(id);
    out.receiver = decode_.open_receiver(prefill_.address(), id);
    decode_.accept(out.receiver, list_, kGroup);
    prefill_.send(out.sender, list_, kGroup);
    return out;
}

void Background::end(const Pair &pair) {
    decode_.wait_success(pair.receiver);
    prefill_.wait_success(pair.sender);
    decode_.close(pair.receiver);
    prefill_.close(pair.sender);
    ++rooms_done_;
}

void Background::run() {
    try {
        std::deque<Pair> open;
        for (uint64_t id = kFirstId; !stop_ || !open.empty(); ++id) {
            if (!stop_)
                open.push_back(begin(id));
            if (open.size() == kInFlight || stop_) {
                end(open.front());
                open.pop_front();
            }
        }
    } catch (const std::exception &error) {
        failure_ = error.what();
        failed_ = true;
    }
}

void Background::start() {
    list_ = shuffled(pages_, 11);
    began_ns_ = now_ns();
    thread_ = std::thread([this] { run(); });
    const timespec pause{0, 1'000'000};
    while (rooms_done_ == 0 && !failed_)
        nanosleep(&pause, nullptr);
}

double Background::stop() {
    const uint64_t done = rooms_done_;
    const uint64_t end_ns = now_ns();
    stop_ = true;
    thread_.join();
    if (failed_)
        fail("the load in the background: %s", failure_.c_str());
    return static_cast<double>(done * pages_ * kPageBytes) / static_cast<double>(end_ns - began_ns_);
}

} // namespace bench
