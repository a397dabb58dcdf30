// Memory that both processes of a benchmark map: what memcpy between two pools needs, and what holds the pages of a
// source that both sides look at.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bench {

class SharedPool {
  public:
    // Made anew, with each page of the kernel's written to.
    explicit SharedPool(size_t bytes);
    // The one that the other process made, by its name(); its pages are mapped at once.
    explicit SharedPool(std::string_view name);
    SharedPool(const SharedPool &) = delete;
    SharedPool &operator=(const SharedPool &) = delete;
    ~SharedPool();

    char *data() const { return data_; }
    size_t size() const { return size_; }
    // Two words to tell the other process. Good for as long as this object lives.
    std::string name() const;

  private:
    void map(int flags);

    int fd_ = -1;
    char *range_ = nullptr; // reserved: size_ and a huge page
    char *data_ = nullptr;
    size_t size_ = 0;
};

enum class KernelPages { small, huge };

// Anonymous memory of this process alone, touched: what an engine brings that does not ask the library for memory.
// Huge pages are asked for; whether the kernel has some is its own matter.
class OwnPool {
  public:
    OwnPool(size_t bytes, KernelPages pages);
    OwnPool(const OwnPool &) = delete;
    OwnPool &operator=(const OwnPool &) = delete;
    ~OwnPool();

    char *data() const { return data_; }

  private:
    char *mapped_ = nullptr;
    char *data_ = nullptr; // in the mapping, at a huge page's boundary
    size_t size_;          // of the mapping
};

} // namespace bench
