// The way of a Link's last reference back to the control thread, from whatever thread dropped it; also when there is no
// control thread any more.
#pragma once

#include "control/control_port.h"
#include "control/peer_handle.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace kvf {

class Releases : public std::enable_shared_from_this<Releases> {
  public:
    using ReleasedFn = std::function<void(uint64_t link)>;

    // released runs on the control thread.
    Releases(ControlPort &port, ReleasedFn released) : port_(&port), released_(std::move(released)) {}

    // Any thread. The peer ends on the control thread; once closed, on the caller's.
    void release(uint64_t link, std::shared_ptr<PeerHandle> peer) {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (port_ != nullptr)
            port_->run_on_control([self = shared_from_this(), link, peer = std::move(peer)]() mutable {
                self->end(link, std::move(peer));
            });
        else
            peer.reset(); // under the lock: a transport wants them one at a time
    }

    // On the control thread; from here on neither the port nor released is used.
    void close() {
        const std::lock_guard<std::mutex> guard(mutex_);
        port_ = nullptr;
    }

  private:
    void end(uint64_t link, std::shared_ptr<PeerHandle> peer) {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            if (port_ == nullptr) {
                peer.reset();
                return;
            }
        }
        peer.reset();
        released_(link);
    }

    std::mutex mutex_;
    ControlPort *port_;
    const ReleasedFn released_;
};

} // namespace kvf
