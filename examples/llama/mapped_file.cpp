#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "text.h"

namespace llama {

MappedFile::MappedFile(const std::string &path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail("%s: %s", path.c_str(), std::strerror(errno));
    struct stat about = {};
    void *memory = MAP_FAILED;
    if (fstat(fd, &about) == 0) {
        size_ = static_cast<size_t>(about.st_size);
        memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    const int error = errno;
    close(fd);
    if (memory == MAP_FAILED)
        fail("%s: can't map its %zu bytes: %s", path.c_str(), size_, std::strerror(error));
    data_ = static_cast<const char *>(memory);
}

MappedFile::~MappedFile() {
    munmap(const_cast<char *>(data_), size_);
}

} // namespace llama
