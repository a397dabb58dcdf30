#include "engine/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

namespace kvf {

Status EventQueue::create(uint32_t slots, std::unique_ptr<EventQueue> *out) {
    const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor < 0)
        return fail_system(errno, "eventfd for events");
    out->reset(new EventQueue(slots, descriptor));
    return {};
}

EventQueue::EventQueue(uint32_t slots, int descriptor)
    : mask_(std::bit_ceil(uint64_t{slots}) - 1),
      descriptor_(descriptor),
      cells_(std::make_unique<Cell[]>(mask_ + 1)),
      pending_(std::make_unique<std::atomic<uint8_t>[]>(slots)) {
    for (uint64_t i = 0; i <= mask_; ++i)
        cells_[i].turn.store(i, std::memory_order_relaxed);
}

EventQueue::~EventQueue() {
    close(descriptor_);
}

void EventQueue::push(uint32_t slot) {
    if (pending_[slot].exchange(1, std::memory_order_seq_cst) != 0)
        return;
    // There is a cell: as many as slots, and each slot is in the queue at most once.
    const uint64_t position = tail_.fetch_add(1, std::memory_order_relaxed);
    Cell &cell = cells_[position & mask_];
    // Free already, by the count; what is waited for is to see that whoever took from it has done so.
    while (cell.turn.load(std::memory_order_acquire) != position) {
    }
    cell.slot = slot;
    cell.turn.store(position + 1, std::memory_order_seq_cst);
    if (armed_.load(std::memory_order_seq_cst) && armed_.exchange(false, std::memory_order_seq_cst))
        signal();
}

void EventQueue::begin() {
    taking_.lock();
    clear();
}

// The descriptor first, then the mark: what is pushed from here on signals anew.
void EventQueue::clear() {
    eventfd_t value = 0;
    (void)eventfd_read(descriptor_, &value);
    armed_.store(true, std::memory_order_seq_cst);
}

bool EventQueue::pop(uint32_t *slot) {
    const uint64_t position = head_.load(std::memory_order_relaxed);
    Cell &cell = cells_[position & mask_];
    if (cell.turn.load(std::memory_order_seq_cst) != position + 1)
        return false;
    *slot = cell.slot;
    cell.turn.store(position + mask_ + 1, std::memory_order_release);
    head_.store(position + 1, std::memory_order_relaxed);
    // Before the caller reads the room's word: a change after that reading finds the slot not pending and pushes it.
    pending_[*slot].exchange(0, std::memory_order_seq_cst);
    return true;
}

void EventQueue::end() {
    if (empty() && !armed_.load(std::memory_order_seq_cst))
        clear(); // what was signalled since begin() has been taken already
    if (!empty() && armed_.exchange(false, std::memory_order_seq_cst))
        signal();
    taking_.unlock();
}

bool EventQueue::empty() const {
    const uint64_t position = head_.load(std::memory_order_relaxed);
    return cells_[position & mask_].turn.load(std::memory_order_seq_cst) != position + 1;
}

void EventQueue::signal() {
    (void)eventfd_write(descriptor_, 1);
}

} // namespace kvf
