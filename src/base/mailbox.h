// A queue from many threads to one. Producers never wait: a push is one compare-and-swap. The consumer takes all that
// is there at once, in the order it was pushed; before it sleeps it leaves a mark, and the producer that finds the mark
// is the one that has to wake it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kvf {

template <typename T>
class Mailbox {
    struct Link {
        Link *next = nullptr;
    };

  public:
    struct Node : Link {
        explicit Node(T &&moved) : item(std::move(moved)) {}
        T item;
    };
    // An item on its way. Written before what must not fail, it is pushed without needing memory.
    using Letter = std::unique_ptr<Node>;
    static Letter write(T &&item) { return std::make_unique<Node>(std::move(item)); }

    // What take() took, oldest first. Owns its items.
    class Batch {
      public:
        Batch() = default;
        explicit Batch(Link *first) : first_(first) {}
        Batch(Batch &&other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
        Batch &operator=(Batch &&other) noexcept {
            std::swap(first_, other.first_);
            return *this;
        }
        ~Batch() {
            while (next()) {
            }
        }

        // The next item, or nullptr. Valid until the next call.
        T *next() {
            current_.reset(static_cast<Node *>(first_));
            if (!first_)
                return nullptr;
            first_ = first_->next;
            return &current_->item;
        }

      private:
        Link *first_ = nullptr;
        std::unique_ptr<Node> current_;
    };

    Mailbox() = default;
    Mailbox(const Mailbox &) = delete;
    Mailbox &operator=(const Mailbox &) = delete;
    ~Mailbox() { take(); }

    // Any thread. True when the consumer sleeps (or is about to) and the caller has to wake it.
    [[nodiscard]] bool push(T &&item) { return push(write(std::move(item))); }
    [[nodiscard]] bool push(Letter letter) noexcept {
        Link *node = letter.release();
        Link *head = head_.load(std::memory_order_relaxed);
        do {
            node->next = head == &asleep_ ? nullptr : head;
        } while (!head_.compare_exchange_weak(head, node, std::memory_order_release, std::memory_order_relaxed));
        return head == &asleep_;
    }

    // The consumer. Also takes the mark back.
    Batch take() {
        Link *node = head_.exchange(nullptr, std::memory_order_acquire);
        if (node == &asleep_)
            return {};
        Link *first = nullptr;
        while (node) {
            Link *next = node->next;
            node->next = first;
            first = node;
            node = next;
        }
        return Batch(first);
    }

    // The consumer: whether take() would find nothing.
    bool empty() const {
        const Link *head = head_.load(std::memory_order_relaxed);
        return head == nullptr || head == &asleep_;
    }

    // The consumer, before it sleeps: true when there is nothing and the mark now stands; false when there is
    // something.
    [[nodiscard]] bool prepare_sleep() {
        Link *empty = nullptr;
        return head_.compare_exchange_strong(empty, &asleep_, std::memory_order_acq_rel, std::memory_order_acquire) ||
               empty == &asleep_;
    }

  private:
    std::atomic<Link *> head_{nullptr};
    // Stands in for "the consumer sleeps": an address that no node has. Links are apart from items so that it needs
    // none.
    Link asleep_;
};

} // namespace kvf
