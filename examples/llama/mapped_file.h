// A whole file as read-only memory.
#pragma once

#include <cstddef>
#include <string>

namespace llama {

class MappedFile {
  public:
    // Fails, naming the file, when it can't be opened or is empty.
    explicit MappedFile(const std::string &path);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    const char *data() const { return data_; }
    size_t size() const { return size_; }

  private:
    const char *data_ = nullptr;
    size_t size_ = 0;
};

} // namespace llama
