// The way of a Link's last reference back to the control thread, from whatever thread dropped it; also when there is no
// control thread any more.
#pragma once

#include "control/control_port.h"
#include "control/peer_handle.h"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>

namespace kvf {

class Releases : public std::enable_shared_from_this<Releases> {
  public:
    using ReleasedFn = std::function<void(uint64_t link)>;

    struct Ended {
        uint64_t link = 0;
        std::shared_ptr<PeerHandle> peer;
    };
    // A list of one, made with the link, so that the end of it needs no memory: it comes in a destructor.
    using Ticket = std::list<Ended>;

    // released runs on the control thread.
    Releases(ControlPort &port, ReleasedFn released) : port_(&port), released_(std::move(released)) {}

    // Any thread. The peer ends on the control thread; once closed, on the caller's.
    void release(Ticket &ticket) noexcept {
        const std::lock_guard<std::mutex> guard(mutex_);
        ended_.splice(ended_.end(), ticket);
        if (port_ == nullptr)
            return ended_.clear(); // under the lock: a transport wants them one at a time
        try {
            port_->run_on_control([self = shared_from_this()] { self->end(); });
        } catch (const std::bad_alloc &) {
            // It ends with the next one, or at the close.
        }
    }

    // On the control thread; from here on neither the port nor released is used. clear ends the peers that control
    // holds itself, while no other thread ends one.
    template <typename Clear>
    void close(Clear clear) {
        const std::lock_guard<std::mutex> guard(mutex_);
        port_ = nullptr;
        ended_.clear();
        clear();
    }

  private:
    void end() {
        for (;;) {
            Ticket one;
            {
                const std::lock_guard<std::mutex> guard(mutex_);
                if (ended_.empty())
                    return;
                one.splice(one.end(), ended_, ended_.begin());
            }
            one.front().peer.reset();
            released_(one.front().link);
        }
    }

    std::mutex mutex_;
    ControlPort *port_;
    Ticket ended_; // empty once closed
    const ReleasedFn released_;
};

} // namespace kvf
